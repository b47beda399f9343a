"""`ctx plan` at the terminal: tables to read, a live view that ends, and a person's yes that is told from an agent's."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.cli import reply_views, shell_completion
from context_engine.engine import Engine
from context_engine.errors import PlanNotFound
from context_engine.plans.model import Plan
from context_engine.plans.step_tracking import CompletionReport
from tests.support.desks import plan, step
from tests.support.terminal import Keyboard, Run, runner, sit_down
from tests.support.trees import tree

CODE = "def hash_password(text):\n    return text\n"
USES = "from src.auth import hash_password\n\n\ndef login(text):\n    return hash_password(text)\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and somebody at a terminal in it."""
    root = tree(tmp_path / "w", {"src/auth.py": CODE, "src/login.py": USES, "pyproject.toml": '[project]\nname="w"\n'})
    return sit_down(root, monkeypatch, FAKE_NOW="2026-11-21T12:00:00Z")


@pytest.fixture
def ctx(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys, "plan")


def kept(root: Path, *plans: Plan) -> list[str]:
    """Save plans, one after the other; their ids."""
    with Engine.open(root) as engine:
        return [engine.plans.repository.save(each).plan.id for each in plans]


def changed(root: Path, plan_id: str, **told: object) -> None:
    """The next version of a plan."""
    import msgspec

    with Engine.open(root) as engine:
        now = engine.plans.repository.load(plan_id).plan
        engine.plans.repository.save(msgspec.structs.replace(now, **told), overwrite=True)


# -- looking ----------------------------------------------------------------------------------------------------------


def test_plans_are_listed_with_how_they_stand(root: Path, ctx: Run) -> None:
    assert ctx("list") == (1, "", "nothing found: There are no plans yet: `ctx plan create` makes one.\n")
    kept(root, plan(), plan(goal="Über-Größe"))
    with Engine.open(root) as engine:
        engine.plans.steps.start("money in cents", 1)
        engine.plans.steps.complete("money in cents", 1, CompletionReport())
    code, out, _ = ctx("list", "--sort", "name")
    assert code == 0
    assert out.splitlines() == [
        "plan            status     progress         steps  changed   goal",
        "money-in-cents  executing  ███░░░░░░░ 33 %  3      just now  Money in cents",
        "uber-grosse     ready      ░░░░░░░░░░ 0 %   3      just now  Über-Größe",
    ]
    assert [row.split()[0] for row in ctx("list", "--status", "executing")[1].splitlines()[1:]] == ["money-in-cents"]
    assert ctx("list", "--query", "nothing")[0] == 1


def test_json_is_what_an_agent_gets(root: Path, ctx: Run) -> None:
    (plan_id,) = kept(root, plan())
    assert json.loads(ctx("list", "--json")[1])["plans"][0]["id"] == plan_id
    assert json.loads(ctx("show", "--json")[1])["plan"]["goal"] == "Money in cents"
    assert json.loads(ctx("progress", "--json")[1])["total"] == 3
    assert json.loads(ctx("history", "--json")[1])["current_version"] == 1
    changed(root, plan_id, goal="Money in whole cents")
    assert json.loads(ctx("diff", "--json")[1])["plan_id"] == plan_id


def test_a_plan_is_found_by_whatever_names_it(root: Path, ctx: Run) -> None:
    (plan_id,) = kept(root, plan())
    kept(root, plan(goal="Another one"))
    for name in ("money-in-cents", "money", "Money in cents", "MONEY IN CENTS", plan_id, plan_id[-8:]):
        assert ctx("show", name)[1].startswith("# Money in cents\n"), name
    with Engine.open(root) as engine:
        assert [engine.plans.repository.resolve_id(name) for name in ("money-in-cents", plan_id[-8:])] == [
            plan_id,
            plan_id,
        ]
        with pytest.raises(PlanNotFound):
            engine.plans.repository.resolve_id("money-in")  # a beginning is for people
    code, out, err = ctx("show", "mony-in-cents")
    assert (code, out) == (2, "")
    assert "Money in cents" in err


def test_without_a_name_the_plan_that_changed_last_is_meant(
    root: Path, ctx: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is no plan yet" in ctx("show")[2]
    kept(root, plan(), plan(goal="Another one"))
    monkeypatch.setenv("CTX_FAKE_NOW", "2026-11-21T13:00:00Z")
    with Engine.open(root) as engine:
        engine.plans.steps.start("money in cents", 1)
    assert ctx("show")[1].startswith("# Money in cents\n")
    assert "in progress" in ctx("progress")[1]


def test_history_and_differences_are_shown(root: Path, ctx: Run) -> None:
    (plan_id,) = kept(root, plan())
    code, _, err = ctx("diff")
    assert code == 2
    assert "nothing to compare" in err
    changed(root, plan_id, goal="Money in whole cents")
    changed(root, plan_id, goal="Money in whole cents, everywhere")
    rows = ctx("history", "money", "-n", 2)
    assert [line.split("|")[1].strip() for line in rows[1].splitlines()[2:]] == ["3", "2"]
    assert "Version 2 to 3" in ctx("diff")[1]
    assert "Version 1 to 3" in ctx("diff", "money", 1)[1]
    assert "Version 1 to 2" in ctx("diff", "money", 1, 2)[1]


# -- progress ---------------------------------------------------------------------------------------------------------


def watched(
    root: Path, ctx: Run, monkeypatch: pytest.MonkeyPatch, deeds: list[Callable[[Engine], object]]
) -> tuple[int, list[str]]:
    """Watch a plan of two steps while these things happen to it; the exit code and the lines of changes."""
    kept(root, plan(step("s1"), step("s2", "s1")))
    waiting = iter(deeds)

    def pause(length_s: float) -> None:
        assert length_s > 0
        with Engine.open(root) as engine:
            next(waiting)(engine)

    monkeypatch.setattr(reply_views.time, "sleep", pause)
    code, out, _ = ctx("progress", "money", "--watch")
    return code, [line for line in out.splitlines() if line.startswith("12:00:00")]


def started(number: int) -> Callable[[Engine], object]:
    return lambda engine: engine.plans.steps.start("money in cents", number)


def done(number: int) -> Callable[[Engine], object]:
    return lambda engine: engine.plans.steps.complete("money in cents", number, CompletionReport())


def test_watching_tells_each_change_and_ends_with_the_plan(
    root: Path, ctx: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    deeds = [started(1), done(1), lambda _: None, started(2), done(2)]
    assert watched(root, ctx, monkeypatch, deeds) == (
        0,
        [
            "12:00:00    0 %  in progress: step 1, Do s1",
            "12:00:00   50 %  completed: step 1, Do s1",
            "12:00:00   50 %  ready: step 2, Do s2",
            "12:00:00   50 %  in progress: step 2, Do s2",
            "12:00:00  100 %  completed: step 2, Do s2",
        ],
    )


# -- deciding ---------------------------------------------------------------------------------------------------------


def typing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", Keyboard(text))


def decisions(root: Path, plan_id: str) -> list[tuple[str, str, tuple[str, ...]]]:
    with Engine.open(root) as engine:
        return [(each.status, each.decided_by, each.steps) for each in engine.plans.repository.load(plan_id).approvals]


def test_a_person_at_a_terminal_sees_what_is_approved_and_is_asked(
    root: Path, ctx: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan_id,) = kept(root, plan(step("s1", files_to_create=("src/cents.py",)), step("s2", "s1")))
    typing(monkeypatch, "y\n")
    code, out, err = ctx("approve", "money")
    assert code == 0
    assert out.splitlines()[0] == "approved: the whole plan, version 1, by user"
    assert "Money in cents, version 1\n  1. Do s1\n  2. Do s2\n  1 file created: src/cents.py" in err
    assert decisions(root, plan_id) == [("approved", "user", ())]


@pytest.mark.parametrize("typed", ["n\n", "\n"])
def test_who_does_not_say_yes_has_decided_nothing(
    root: Path, ctx: Run, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    (plan_id,) = kept(root, plan())
    typing(monkeypatch, typed)
    code, out, err = ctx("approve", "money")
    assert (code, out) == (1, "")
    assert "nothing was decided" in err
    assert [status for status, _, _ in decisions(root, plan_id)] == ["pending"]


def test_where_nobody_can_be_asked_it_is_an_agent_who_says_yes(root: Path, ctx: Run) -> None:
    (plan_id,) = kept(root, plan())
    code, _, err = ctx("approve", "money")
    assert code == 2
    assert "no one can confirm" in err
    assert decisions(root, plan_id) == []
    assert ctx("approve", "money", "--yes")[0] == 0
    assert decisions(root, plan_id) == [("approved", "agent", ())]


def test_steps_are_approved_alone(root: Path, ctx: Run) -> None:
    (plan_id,) = kept(root, plan())
    code, out, _ = ctx("approve", "money", "--step", 2, "--step", 3, "--yes", "--json")
    assert code == 0
    assert json.loads(out)["request"]["steps"] == [2, 3]
    assert decisions(root, plan_id) == [("approved", "agent", ("s2", "s3"))]
    assert ctx("approve", "money", "--step", 9, "--yes")[0] == 2


def test_the_request_that_is_pending_is_the_one_that_is_meant(root: Path, ctx: Run) -> None:
    (plan_id,) = kept(root, plan())
    with Engine.open(root) as engine:
        first = engine.plans.approvals.request(plan_id, steps=(2,)).approval.id
    assert ctx("approve", "money", "--reject", "--comment", "not now", "--yes")[1].startswith("rejected: steps 2")
    with Engine.open(root) as engine:
        more = [engine.plans.approvals.request(plan_id, steps=(each,)).approval.id for each in (1, 3)]
    code, _, err = ctx("approve", "money", "--yes")
    assert code == 2
    assert all(each in err for each in more)
    assert ctx("approve", more[1], "--yes")[1].startswith("approved: steps 3")
    assert "decided already" in ctx("approve", first, "--yes")[2]
    assert ctx("approve", "apr_nothing", "--yes")[0] == 2


def test_a_plan_that_changed_since_it_was_read_is_not_approved(root: Path, ctx: Run) -> None:
    (plan_id,) = kept(root, plan())
    changed(root, plan_id, goal="Money in whole cents")
    code, _, err = ctx("approve", "money", "--version", 1, "--yes")
    assert code == 2
    assert "ctx plan diff money 1 2" in err
    with Engine.open(root) as engine:
        assert engine.plans.repository.load(plan_id).approvals == (), "a refusal asks nobody"
    assert ctx("approve", "money", "--version", 2, "--yes")[0] == 0


# -- making, putting away ---------------------------------------------------------------------------------------------


def test_a_plan_is_made_out_of_the_repository_and_kept(root: Path, ctx: Run) -> None:
    code, out, err = ctx("create", "Rename hash_password to derive_key", "--name", "Rename it", "--tag", "auth")
    assert code == 0, err
    assert "src/auth.py" in out
    assert "src/login.py" in out
    assert "no index of" in err
    assert "saved as rename-it" in err
    assert ctx("list", "--tag", "auth")[1].splitlines()[1].startswith("rename-it")
    assert json.loads(ctx("create", "Rename login to enter", "--json")[1])["plan_id"].startswith("plan_")


# -- the shell --------------------------------------------------------------------------------------------------------


def test_the_shell_is_offered_the_short_names_of_plans(root: Path, ctx: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell_completion.complete_plans("") == []
    kept(root, plan(), plan(goal="日本語"), plan(goal="Another one"))
    offered = dict(shell_completion.complete_plans(""))
    assert offered["money-in-cents"] == "Money in cents"
    assert sorted(offered.values()) == ["Another one", "Money in cents", "日本語"]
    assert shell_completion.complete_plans("mon") == [("money-in-cents", "Money in cents")]
    for word, name in shell_completion.complete_plans(""):
        assert ctx("show", word)[1].startswith(f"# {name}\n")
    tree(root, {".context-engine/plans/index.json": "{]"})
    assert shell_completion.complete_plans("") == []
