"""The desk keeps every version of a plan, and loses neither plans nor progress, whatever becomes of its processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from context_engine.errors import (
    Conflict,
    Cycle,
    DanglingDependency,
    InvalidArgument,
    InvalidPlan,
    PlanNotFound,
    PreconditionFailed,
    StorageCorrupt,
)
from context_engine.plans.model import Plan, PlanQuestion, PlanRisk, PlanScope
from context_engine.plans.plan_json import hash_content
from context_engine.plans.plan_repository import PlanQuery
from tests.support.desks import PLANS, Desks, plan, step


@pytest.fixture
def here(tmp_path: Path) -> Desks:
    (tmp_path / "work").mkdir()
    return Desks(tmp_path / "work")


def again(here: Desks) -> Desks:
    """The same workspace after a restart."""
    return Desks(here.folder)


def names(here: Desks, **wanted: Any) -> list[str]:
    return [row.name for row in here.plans.repository.list_page(PlanQuery(**wanted)).rows]


# -- saving ------------------------------------------------------------------------------------------------------------


def test_every_change_makes_a_version_and_the_earlier_ones_stay_as_they_are(here: Desks) -> None:
    desk = here.plans.repository
    saved = desk.save(plan())
    first = (here.folder / saved.path).read_bytes()
    plan_id = saved.plan.id
    for number in range(2, 6):
        goal = msgspec.structs.replace(saved.plan, goal=f"Goal {number}")
        saved = desk.save(goal, overwrite=True, expected_version=number - 1, reason=f"reason {number}")
        assert saved.plan.version == number
    assert (here.folder / f"{PLANS}/{plan_id}/v0001.json").read_bytes() == first
    told, damaged = again(here).plans.repository.history(plan_id)
    assert ([each.version for each in told], damaged) == ([5, 4, 3, 2, 1], ())
    assert [each.reason for each in told] == ["reason 5", "reason 4", "reason 3", "reason 2", ""]
    assert all(each.change_summary and each.created_at for each in told)
    assert [desk.load(plan_id, number).plan.goal for number in (1, 3, 5)] == ["Money in cents", "Goal 3", "Goal 5"]


def test_names_are_unique_whatever_their_capitals(here: Desks) -> None:
    desk = here.plans.repository
    desk.save(plan(), name="Cents")
    second = desk.save(plan(), name="CENTS")
    third = desk.save(plan(), name="cents")
    assert [second.version.name, third.version.name] == ["CENTS (2)", "cents (3)"]
    assert "CENTS (2)" in second.warnings[0]
    assert desk.save(second.plan, name="CENTS (2)", overwrite=True).unchanged, "its own name is not taken"
    unnamed = desk.save(plan(goal="First line\nsecond line"))
    assert unnamed.version.name == "First line"


def test_a_new_name_or_new_tags_are_a_new_version(here: Desks) -> None:
    saved = here.plans.repository.save(plan(), name="Cents", tags=("money",))
    renamed = here.plans.repository.save(saved.plan, name="Pennies", overwrite=True)
    assert (renamed.version.version, renamed.version.name, renamed.version.tags) == (2, "Pennies", ("money",))
    bare = here.plans.repository.save(renamed.plan, tags=(), overwrite=True)
    assert (bare.version.version, bare.version.name, bare.version.tags) == (3, "Pennies", ())
    assert names(here) == ["Pennies"]


@pytest.mark.parametrize("asked", ["../../x", "plan_A", "plan_", "PLAN_1", "plan_1/../2", "con", "plan_" + "a" * 65])
def test_an_id_that_cannot_be_a_folder_everywhere_is_replaced(here: Desks, asked: str) -> None:
    saved = here.plans.repository.save(plan(id=asked))
    assert asked in saved.warnings[0]
    assert [path.parent.name for path in here.lie().glob("*/v0001.json")] == [saved.plan.id]
    assert {path.name for path in here.folder.iterdir()} == {".context-engine"}


def test_a_cycle_is_named_and_nothing_is_written(here: Desks) -> None:
    circle = plan(step("s1"), step("s2", "s1", "s3"), step("s3", "s2"))
    with pytest.raises(Cycle) as caught:
        here.plans.repository.save(circle, allow_invalid=True)
    assert set(caught.value.details["cycle"]) == {2, 3}
    with pytest.raises(DanglingDependency):
        here.plans.repository.save(plan(step("s1", "s9")))
    with pytest.raises(InvalidPlan, match=r"src/nope\.py"):
        here.plans.repository.save(plan(step("s1", files_to_modify=("src/nope.py",))))
    with pytest.raises(InvalidPlan):
        here.plans.repository.save(plan(step("s1", files_to_create=("../outside.py",))))
    assert here.plans.repository.list_page(PlanQuery()).total == 0
    assert list(here.lie().glob("*/*")) == []


def test_a_plan_that_cannot_be_carried_out_is_kept_when_that_is_asked_for(here: Desks) -> None:
    saved = here.plans.repository.save(plan(step("s1", files_to_modify=("src/nope.py",))), allow_invalid=True)
    assert [remark.code for remark in saved.validation.errors] == ["FILE_NOT_FOUND"]
    assert here.plans.repository.load(saved.plan.id).plan.steps[0].files_to_modify == ("src/nope.py",)


def test_a_done_step_that_is_to_be_done_differently_is_open_again(here: Desks) -> None:
    saved = here.plans.repository.save(plan())
    for number in (1, 2):
        here.plans.steps.start(saved.plan.id, number)
        here.plans.steps.complete(saved.plan.id, number)
    first, second, third = saved.plan.steps
    retimed = msgspec.structs.replace(second, priority="high", depends_on=())
    reworded = msgspec.structs.replace(first, description="Otherwise")
    changed = here.plans.repository.save(
        msgspec.structs.replace(saved.plan, steps=(reworded, retimed, third)), overwrite=True
    )
    states = again(here).plans.steps.read_state(saved.plan.id).execution.steps
    assert {uid: state.status for uid, state in states.items()} == {"s1": "ready", "s2": "completed", "s3": "pending"}
    assert any("step 1" in warning for warning in changed.warnings)


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_damaged_version_is_named_while_the_others_are_read(here: Desks) -> None:
    saved = here.plans.repository.save(plan(), name="Cents")
    here.plans.repository.save(msgspec.structs.replace(saved.plan, goal="Other"), overwrite=True)
    second = here.lie(saved.plan.id) / "v0002.json"
    sound = second.read_bytes()
    for damage in (b"", sound[:-30], sound.replace(b"Other", b"Mine!"), b"\xff\xfe", b"[]", b"{}"):
        second.write_bytes(damage)
        with pytest.raises(StorageCorrupt, match=r"v0002\.json") as caught:
            again(here).plans.repository.load("Cents")
        assert caught.value.details["file"] == "v0002.json"
        assert here.plans.repository.load("Cents", 1).plan.goal == "Money in cents"
        (row,) = again(here).plans.repository.list_page(PlanQuery()).rows
        assert (row.status, row.name, row.version) == ("damaged", "Cents", 2)
        assert "v0002.json" in row.problem
        with pytest.raises(StorageCorrupt):
            here.plans.steps.start(saved.plan.id, 1)
    second.write_bytes(sound)
    assert again(here).plans.repository.load("Cents").plan.goal == "Other"
    assert [row.status for row in here.plans.repository.list_page(PlanQuery()).rows] == ["ready"]


def test_a_version_that_git_wrote_with_other_line_ends_is_as_good(here: Desks) -> None:
    saved = here.plans.repository.save(plan())
    file = here.folder / saved.path
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert here.plans.repository.load(saved.plan.id).plan == saved.plan


def test_a_broken_log_names_the_line_the_plan_stays_readable_and_nothing_is_written(here: Desks) -> None:
    saved = here.plans.repository.save(plan(), name="Cents")
    here.plans.steps.start(saved.plan.id, 1)
    here.plans.steps.complete(saved.plan.id, 1)
    log = here.lie(saved.plan.id) / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], lines[1].replace(b"step_started", b"step_skipped"), *lines[2:]]))
    broken = log.read_bytes()
    loaded = again(here).plans.repository.load("Cents")
    assert (loaded.plan.goal, loaded.execution) == ("Money in cents", None)
    assert "line 3" in loaded.warnings[0]
    for call in (
        lambda: here.plans.steps.read_state("Cents"),
        lambda: here.plans.steps.start("Cents", 2),
        lambda: here.plans.approvals.request("Cents"),
        lambda: here.plans.repository.rollback("Cents", 1),
        lambda: here.plans.repository.save(msgspec.structs.replace(saved.plan, goal="Other"), overwrite=True),
    ):
        with pytest.raises(StorageCorrupt, match="line 3"):
            call()
    assert log.read_bytes() == broken
    assert [row.status for row in here.plans.repository.list_page(PlanQuery()).rows] == ["damaged"]


def test_a_version_whose_writer_died_before_its_event_is_known_all_the_same(here: Desks) -> None:
    desk = here.plans.repository
    saved = desk.save(plan())
    here.plans.steps.start(saved.plan.id, 1)
    here.plans.steps.complete(saved.plan.id, 1)
    reworded = msgspec.structs.replace(saved.plan.steps[0], description="Otherwise")
    log = here.lie(saved.plan.id) / "events.jsonl"
    before = log.read_bytes()
    desk.save(msgspec.structs.replace(saved.plan, steps=(reworded, *saved.plan.steps[1:])), overwrite=True)
    whole = log.read_bytes()
    for cut in (len(before), len(before) + 40, whole.rindex(b"\n", 0, -1) + 1):
        log.write_bytes(whole[:cut])
        found = again(here).plans.steps.read_state(saved.plan.id)
        assert found.execution.steps["s1"].status == "ready", "the step was opened again by the version"
        assert [event.kind for event in found.events].count("plan_changed") == 1
    here.plans.steps.start(saved.plan.id, 1)
    kinds = [event.kind for event in again(here).plans.repository.load(saved.plan.id).events]
    assert kinds[-2:] == ["plan_changed", "step_started"]


# -- listing -----------------------------------------------------------------------------------------------------------


def test_a_plan_just_saved_is_in_the_list_at_once_of_every_process(here: Desks) -> None:
    other = again(here)
    assert names(other) == []
    first = here.plans.repository.save(plan(), name="One")
    assert names(other) == names(here) == ["One"]
    other.plans.repository.save(plan(), name="Two")
    assert sorted(names(here)) == ["One", "Two"], "the next save loses no plan from the index"
    here.plans.steps.start(first.plan.id, 1)
    assert names(other, status="executing") == ["One"]


def test_the_list_is_the_same_without_its_index_and_with_a_broken_one(here: Desks) -> None:
    for number in range(5):
        here.at(f"2026-11-21T12:00:0{number}Z")
        saved = here.plans.repository.save(plan(), name=f"Plan {number}")
        if number % 2:
            here.plans.steps.start(saved.plan.id, 1)
    whole = here.plans.repository.list_page(PlanQuery())
    index = here.lie("index.json")
    sound = index.read_bytes()
    rows = json.loads(sound)["plans"]
    stale = json.dumps({"format": 1, "plans": rows[:2] + rows[:1]}).encode()
    for damage in (None, b"", b"{", stale, sound.replace(b'"format": 1', b'"format": 99'), sound[:-100]):
        index.unlink() if damage is None else index.write_bytes(damage)
        assert again(here).plans.repository.list_page(PlanQuery()) == whole
        assert json.loads(index.read_bytes())["format"] == 1, "it was made anew"


def test_the_list_is_filtered_sorted_and_paged(here: Desks) -> None:
    for number, name in enumerate(("beta", "Alpha", "gamma")):
        here.at(f"2026-11-21T12:00:0{number}Z")
        here.plans.repository.save(
            plan(goal=f"About {name}"), name=name, tags=("even",) if number % 2 == 0 else ("odd",)
        )
    assert names(here) == ["gamma", "Alpha", "beta"]
    assert names(here, sort_by="name", sort_order="asc") == ["Alpha", "beta", "gamma"]
    assert names(here, tags=("EVEN",)) == ["gamma", "beta"]
    assert names(here, query="about ALPHA") == ["Alpha"]
    assert names(here, status="executing") == []
    first = here.plans.repository.list_page(PlanQuery(limit=2))
    assert first.total == 3
    assert names(here, limit=2, cursor=f"{first.stamped}-2") == ["beta"]
    here.plans.repository.save(plan(), name="delta")
    with pytest.raises(InvalidArgument, match="cursor"):
        names(here, cursor=f"{first.stamped}-2")


def test_status_follows_from_what_happened(here: Desks) -> None:
    def status() -> str:
        return again(here).plans.repository.list_page(PlanQuery()).rows[0].status

    saved = here.plans.repository.save(
        plan(step("s1"), step("s2", "s1"), questions=(PlanQuestion("q1", "Which currency?"),))
    )
    assert status() == "needs_clarification"
    here.plans.repository.save(msgspec.structs.replace(saved.plan, questions=()), overwrite=True)
    assert status() == "ready"
    asked = here.plans.approvals.request(saved.plan.id)
    here.plans.approvals.respond(asked.approval.id, "approve")
    assert status() == "approved"
    here.plans.steps.start(saved.plan.id, 1)
    assert status() == "executing"
    here.plans.steps.fail(saved.plan.id, 1, error="no")
    assert status() == "failed"
    here.plans.steps.fail(saved.plan.id, 1, skip=True)
    here.plans.steps.start(saved.plan.id, 2)
    here.plans.steps.complete(saved.plan.id, 2)
    assert status() == "completed"


def test_an_unknown_plan_is_refused_with_the_nearest_names(here: Desks) -> None:
    for name in ("Money in cents", "Money in bank", "Something else"):
        here.plans.repository.save(plan(), name=name)
    with pytest.raises(PlanNotFound) as caught:
        here.plans.repository.load("mony in cent")
    assert caught.value.details["near"][0] == "Money in cents"
    assert "Money in cents" in caught.value.suggestion
    saved = here.plans.repository.save(plan())
    with pytest.raises(PlanNotFound, match="no version 9"):
        here.plans.repository.load(saved.plan.id, 9)


# -- going back, throwing away -----------------------------------------------------------------------------------------


def test_going_back_twice_returns_to_the_former_content_and_survives_a_restart(here: Desks) -> None:
    saved = here.plans.repository.save(plan(), name="Cents")
    other = here.plans.repository.save(msgspec.structs.replace(saved.plan, goal="Other"), overwrite=True)
    back = here.plans.repository.rollback("Cents", 1, reason="too much")
    assert (back.plan.version, back.version.rolled_back_from, back.version.rolled_back_to) == (3, 2, 1)
    assert hash_content(back.plan) == hash_content(saved.plan)
    forth = again(here).plans.repository.rollback("Cents", 2)
    assert hash_content(forth.plan) == hash_content(other.plan)
    told, _ = again(here).plans.repository.history("Cents")
    assert [(each.version, each.change_type) for each in told] == [
        *((4, "rolled_back"), (3, "rolled_back"), (2, "modified"), (1, "created"))
    ]
    assert told[1].reason == "too much"
    assert again(here).plans.repository.load("Cents").plan == forth.plan


@pytest.mark.parametrize(
    ("how", "kept", "reopened"),
    [("reconcile", ("s1",), ("s2",)), ("keep", ("s1", "s2"), ()), ("reset", (), ("s1", "s2"))],
)
def test_progress_goes_along_with_a_rollback(
    here: Desks, how: str, kept: tuple[str, ...], reopened: tuple[str, ...]
) -> None:
    desk, steps = here.plans.repository, here.plans.steps
    first = desk.save(plan(step("s1"), step("s2"), step("s3")))
    plan_id = first.plan.id
    changed = msgspec.structs.replace(first.plan.steps[1], description="Otherwise")
    desk.save(msgspec.structs.replace(first.plan, steps=(first.plan.steps[0], changed, step("s4"))), overwrite=True)
    for uid in ("s1", "s2", "s4"):
        steps.start(plan_id, uid)
        steps.complete(plan_id, uid)
    back = desk.rollback(plan_id, 1, execution=how)
    assert (back.kept, back.lost, back.reopened) == (kept, ("s4",), reopened)
    states = again(here).plans.steps.read_state(plan_id).execution.steps
    assert {uid for uid, state in states.items() if state.status == "completed"} == set(kept)
    assert states["s3"].status == "ready"


def test_a_plan_is_not_turned_back_under_somebodys_hands(here: Desks) -> None:
    saved = here.plans.repository.save(plan())
    here.plans.repository.save(msgspec.structs.replace(saved.plan, goal="Other"), overwrite=True)
    here.plans.steps.start(saved.plan.id, 1)
    with pytest.raises(PreconditionFailed, match="in progress"):
        here.plans.repository.rollback(saved.plan.id, 1)
    with pytest.raises(Conflict):
        here.plans.repository.rollback(saved.plan.id, 1, expected_version=1, force=True)
    with pytest.raises(InvalidArgument):
        here.plans.repository.rollback(saved.plan.id, 1, execution="shrug", force=True)
    assert here.plans.repository.rollback(saved.plan.id, 1, force=True).plan.version == 3


def test_a_deleted_plan_is_gone_from_the_list_and_moving_its_folder_brings_everything_back(here: Desks) -> None:
    saved = here.plans.repository.save(plan(), name="Cents")
    here.plans.steps.start(saved.plan.id, 1)
    with pytest.raises(PreconditionFailed, match="being executed"):
        here.plans.repository.delete("Cents")
    _, trashed = here.plans.repository.delete("Cents", confirm=True)
    assert names(here) == names(again(here)) == []
    with pytest.raises(PlanNotFound):
        here.plans.repository.load(saved.plan.id)
    (here.folder / trashed).rename(here.lie(saved.plan.id))
    found = again(here).plans.steps.read_state("Cents")
    assert (found.plan, found.execution.current) == (saved.plan, ("s1",))
    assert here.plans.repository.delete(saved.plan.id, purge=True, confirm=True)[1] == ""
    assert [path for path in here.lie().rglob("*") if path.is_file() and path.name != "index.json"] == []


def kept(here: Desks, number: int) -> Plan:
    """A version of the plan."""
    return here.plans.repository.load("Cents", number).plan


def test_a_hundred_and_fifty_versions_can_all_be_had(here: Desks) -> None:
    saved = here.plans.repository.save(plan(), name="Cents")
    for number in range(2, 151):
        here.plans.repository.save(msgspec.structs.replace(saved.plan, goal=f"Goal {number}"), overwrite=True)
    before = [kept(here, number) for number in range(1, 151)]
    assert [each.goal for each in before] == ["Money in cents", *(f"Goal {number}" for number in range(2, 151))]
    assert [kept(again(here), number) for number in range(1, 151)] == before
    told, _ = here.plans.repository.history("Cents")
    assert [each.version for each in told] == list(range(150, 0, -1))
    assert here.plans.repository.rollback("Cents", 3).plan.goal == "Goal 3"


def test_a_mirror_for_people_lies_beside_the_versions(here: Desks) -> None:
    here.write("src/a.py", "x = 1\n")
    first = step("s1", files_to_modify=("src/a.py",), checks=("pytest -q",), acceptance_criteria=("It passes",))
    told = plan(
        first,
        scope=PlanScope(excluded=("docs/**",)),
        risks=(PlanRisk("Wrong | rounding", "Test it"),),
        questions=(PlanQuestion("q1", "Which rate?", answer="20 %"),),
        open_feedback=("make it nicer",),
    )
    saved = here.plans.repository.save(told)
    mirror = here.lie(saved.plan.id) / "PLAN.md"
    text = mirror.read_text(encoding="utf-8")
    for part in (
        "# Money in cents",
        "`s1`\n\n- Changes: `src/a.py`\n- Check: `pytest -q`\n- [ ] It passes",
        "- Excluded: docs/**",
        "| Wrong \\| rounding | medium | Test it |",
        "- `q1` Which rate? - 20 %",
        "- make it nicer",
    ):
        assert part in text
    mirror.write_text("by hand", encoding="utf-8")
    assert again(here).plans.repository.load(saved.plan.id).plan == saved.plan, "it is never read"
    here.plans.steps.start(saved.plan.id, 1)
    assert "Money in cents" in mirror.read_text(encoding="utf-8")
