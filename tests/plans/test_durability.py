"""Plans outlive their writers: several at once, killed at any moment, with a log that was cut off anywhere.

`CTX_TEST_PLAN_WRITES=100 CTX_TEST_KILLS=80 pytest tests/plans/test_durability.py` is the full length (`make kills`).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import CallError, Conflict
from context_engine.plans.model import Plan
from context_engine.plans.plan_json import decode_version
from context_engine.plans.plan_repository import PlanQuery
from tests.support.children import killed
from tests.support.desks import Desks, change_goal, plan, step

WRITERS = 4
WRITES = int(os.environ.get("CTX_TEST_PLAN_WRITES", "10"))
"""Of each: one in five makes a plan, two make a version of a plan that all share, two move a step of it."""
KILLS_LEAST = int(os.environ.get("CTX_TEST_KILLS", "3"))
SAVES = int(os.environ.get("CTX_TEST_PLAN_SAVES", "10"))
"""Made by writers that are killed one after the other."""
ROOT = Path(__file__).resolve().parents[2]

# -- several at once ---------------------------------------------------------------------------------------------------


def _writing(folder: Path, writer: int) -> None:
    here = Desks(folder)
    for number in range(WRITES // 5):
        here.plans.repository.save(plan(goal=f"{writer}.{number}"))
    for number in range(WRITES // 5 * 2):
        change_goal(here.plans.repository, f"{writer}.{number}")
    for _ in range(WRITES // 5):
        here.plans.steps.start("shared", f"s{writer}")
        here.plans.steps.fail("shared", f"s{writer}", release=True)


@pytest.mark.slow
def test_four_processes_that_write_at_once_lose_none_of_their_writes(tmp_path: Path) -> None:
    here = Desks(tmp_path)
    here.plans.repository.save(plan(*(step(f"s{writer}") for writer in range(WRITERS))), name="shared")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_writing, args=(tmp_path, writer)) for writer in range(WRITERS)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(300)
    assert [each.exitcode for each in writers] == [0] * WRITERS
    wanted = {f"{writer}.{number}" for writer in range(WRITERS) for number in range(WRITES // 5 * 2)}
    shared = here.plans.steps.read_state("shared")
    assert {here.plans.repository.load("shared", number).plan.goal for number in shared.versions[1:]} == wanted
    assert here.plans.repository.list_page(PlanQuery(limit=200)).total == 1 + WRITERS * (WRITES // 5)
    moves = [event for event in shared.events if event.step]
    assert len(shared.versions) - 1 + WRITERS * (WRITES // 5) + len(moves) == WRITERS * WRITES
    assert shared.execution.ready == tuple(f"s{writer}" for writer in range(WRITERS))


def _racing(folder: Path, barrier: Barrier, writer: int, race: str) -> None:
    here = Desks(folder)
    outcome = "first"
    barrier.wait(60)
    try:
        if race == "starting":
            here.plans.steps.start("Cents", 1)
        else:
            (request,) = here.plans.repository.load("Cents").approvals
            here.plans.approvals.respond(request.id, ("approve", "reject")[writer])
    except Conflict as error:
        outcome = error.code
    (folder / f"{writer}.outcome").write_text(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("race", ["starting", "deciding"])
def test_of_two_processes_that_do_the_same_at_once_exactly_one_succeeds(tmp_path: Path, race: str) -> None:
    here = Desks(tmp_path)
    here.plans.repository.save(plan(), name="Cents")
    here.plans.approvals.request("Cents")
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    racers = [context.Process(target=_racing, args=(tmp_path, barrier, number, race)) for number in range(2)]
    for each in racers:
        each.start()
    for each in racers:
        each.join(60)
    assert sorted((tmp_path / f"{number}.outcome").read_text() for number in range(2)) == ["CONFLICT", "first"]


# -- killed ------------------------------------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
import msgspec
from tests.support.desks import Desks
here = Desks(Path(sys.argv[1]))
while True:
    loaded = here.plans.repository.load("Cents")
    goal = f"goal {len(loaded.versions) + 1}"
    here.plans.repository.save(msgspec.structs.replace(loaded.plan, goal=goal), overwrite=True)
    print("saved", len(loaded.versions) + 1, flush=True)
    here.plans.steps.start("Cents", 1)
    here.plans.steps.fail("Cents", 1, release=True)
    print("seq", len(here.plans.steps.read_state("Cents").events), flush=True)
"""


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a signal")
def test_kills_while_plans_are_saved_and_steps_move_leave_every_file_whole_and_lose_nothing_said(
    tmp_path: Path, tried: Callable[..., None]
) -> None:
    here = Desks(tmp_path)
    plan_id = here.plans.repository.save(plan(step("s1")), name="Cents").plan.id
    chance = random.Random(7)
    saves = kills = 0
    while saves < SAVES or kills < KILLS_LEAST:
        kills += 1
        tried()
        said = [line.split() for line in killed(CHILD, str(tmp_path), after_s=chance.uniform(0.2, 0.6))]
        versions = [int(number) for what, number in said[:-1] if what == "saved"]
        seqs = [int(number) for what, number in said[:-1] if what == "seq"]
        loaded = Desks(tmp_path).plans.steps.read_state("Cents")
        assert loaded.versions == tuple(range(1, loaded.versions[-1] + 1))
        assert loaded.versions[-1] >= max(versions, default=0)
        assert len(loaded.events) >= max(seqs, default=0)
        assert loaded.plan.goal == f"goal {loaded.versions[-1]}"
        assert loaded.execution.damage == "", "a kill is no damage"
        if loaded.execution.current:
            here.plans.steps.fail("Cents", 1, release=True)
        saves = loaded.versions[-1]
    for file in here.lie(plan_id).glob("v*.json"):
        version, _ = decode_version(file.read_bytes())
        assert file.name == f"v{version.version:04d}.json"
    for line in (here.lie(plan_id) / "events.jsonl").read_bytes().splitlines():
        assert json.loads(line)
    assert [row.version for row in here.plans.repository.list_page(PlanQuery()).rows] == [saves]


# -- progress is a fold ------------------------------------------------------------------------------------------------

STEPS = {"s1": (), "s2": ("s1",), "s3": ("s1",), "s4": ("s2", "s3")}
ACTS = ("start", "force", "complete", "fail", "retry", "skip", "release")
CALLS = st.lists(st.tuples(st.sampled_from(ACTS), st.sampled_from(sorted(STEPS))), max_size=14)


class Told:
    """The same plan in the plainest words: a status for each step, and what an act does to it."""

    def __init__(self) -> None:
        self.status = dict.fromkeys(STEPS, "open")
        self.retries = dict.fromkeys(STEPS, 0)

    def is_ready(self, uid: str) -> bool:
        return self.status[uid] == "open" and all(self.status[each] in ("completed", "skipped") for each in STEPS[uid])

    def act(self, what: str, uid: str) -> int:
        """Do it if it may be done; how many events that makes."""
        now = self.status[uid]
        if what in ("start", "force"):
            allowed, after, events = (now == "open" if what == "force" else self.is_ready(uid)), "in_progress", 1
        elif what == "complete":
            allowed, after, events = now == "in_progress", "completed", 1
        elif what == "fail":
            allowed, after, events = now == "in_progress", "failed", 1
        elif what == "retry":
            allowed, after = now in ("in_progress", "failed") and self.retries[uid] < 3, "open"
            events = 2 if now == "in_progress" else 1
            self.retries[uid] += allowed
        elif what == "skip":
            allowed, after, events = now not in ("completed", "skipped"), "skipped", 1
        else:
            allowed, after, events = now == "in_progress", "open", 1
        if allowed:
            self.status[uid] = after
        return events if allowed else 0

    def shown(self) -> dict[str, str]:
        shown = {uid: "ready" if self.is_ready(uid) else status for uid, status in self.status.items()}
        return {uid: "pending" if status == "open" else status for uid, status in shown.items()}


def _act(here: Desks, what: str, uid: str) -> None:
    steps = here.plans.steps
    if what in ("start", "force"):
        steps.start("Cents", uid, force=what == "force")
    elif what == "complete":
        steps.complete("Cents", uid)
    else:
        steps.fail("Cents", uid, retry=what == "retry", skip=what == "skip", release=what == "release")


@given(CALLS, st.data())
def test_progress_is_what_happened_no_more_and_no_less_wherever_the_log_ends(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, str]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("work")
    here = Desks(folder)
    made: Plan = plan(*(step(uid, *after) for uid, after in STEPS.items()))
    plan_id = here.plans.repository.save(made, name="Cents").plan.id
    told = Told()
    known = {1: told.shown()}
    count = 1
    for what, uid in calls:
        events = told.act(what, uid)
        with suppress(CallError):
            _act(here, what, uid)
        count += events
        known[count] = told.shown()
    assert _shown(Desks(folder)) == known[count]
    log = here.lie(plan_id) / "events.jsonl"
    whole = log.read_bytes()
    cut = data.draw(st.integers(whole.index(b"\n") + 1, len(whole)))
    log.write_bytes(whole[:cut])
    lines = whole[:cut].count(b"\n")
    if lines in known:  # not in the midst of a call that makes two events
        assert _shown(Desks(folder)) == known[lines]
        assert len(Desks(folder).plans.steps.read_state("Cents").events) == lines


def _shown(here: Desks) -> dict[str, str]:
    execution = here.plans.steps.read_state("Cents").execution
    done = sum(state.status in ("completed", "skipped") for state in execution.steps.values())
    assert execution.percentage == 100 * done / len(STEPS)
    return {uid: state.status for uid, state in execution.steps.items()}
