"""Steps move as the plan allows, each move is an event, and what changed in the work tree is compared with what was planned."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from context_engine.errors import Conflict, InvalidArgument, PreconditionFailed, TooLarge
from context_engine.plans.model import Plan
from context_engine.plans.plan_events import CompletionReport
from tests.support.desks import Desks, plan, step

CHAIN = plan(step("s1"), step("s2", "s1"), step("s3", "s2"))


@pytest.fixture
def here(tmp_path: Path) -> Desks:
    (tmp_path / "work").mkdir()
    return Desks(tmp_path / "work")


@pytest.fixture
def repo(here: Desks) -> Desks:
    """A workspace with a repository in it, and one commit."""
    here.git("init", "-q", "-b", "main")
    here.write("src/money.py", "price = 1.0\n")
    here.write("src/bank.py", "balance = 0.0\n")
    here.git("add", ".")
    here.git("commit", "-q", "-m", "first")
    return here


def saved(here: Desks, made: Plan = CHAIN) -> str:
    return here.plans.repository.save(made, name="Cents").plan.id


def statuses(here: Desks, plan_id: str = "Cents") -> list[str]:
    """The status of each step, as another process sees it."""
    execution = Desks(here.folder).plans.repository.load(plan_id).execution
    assert execution
    return [state.status for state in execution.steps.values()]


# -- moves -------------------------------------------------------------------------------------------------------------


def test_a_step_goes_from_ready_over_in_progress_to_completed_and_unlocks_what_waited(here: Desks) -> None:
    plan_id = saved(here, plan(step("s1"), step("s2", "s1"), step("s3", "s1")))
    assert statuses(here) == ["ready", "pending", "pending"]
    started = here.plans.steps.start("Cents", 1, actor="Ada")
    assert (started.state.status, started.state.actor, started.unlocked) == ("in_progress", "Ada", ())
    done = here.plans.steps.complete(plan_id, "s1", CompletionReport(notes="all of it"))
    assert (done.unlocked, done.execution.ready, done.state.notes) == (("s2", "s3"), ("s2", "s3"), "all of it")
    assert statuses(here) == ["completed", "ready", "ready"]


def test_a_step_whose_prerequisites_are_open_cannot_start(here: Desks) -> None:
    saved(here)
    with pytest.raises(PreconditionFailed) as caught:
        here.plans.steps.start("Cents", 2)
    assert caught.value.details["unmet"] == [{"step": 1, "status": "ready"}]
    assert statuses(here) == ["ready", "pending", "pending"]
    forced = here.plans.steps.start("Cents", 2, force=True)
    assert forced.state.status == "in_progress"
    (event,) = [each for each in here.plans.repository.load("Cents").events if each.kind == "step_started"]
    assert event.data["forced"] is True, "that it was forced is on record"


def test_a_step_that_was_never_started_cannot_complete(here: Desks) -> None:
    saved(here)
    with pytest.raises(PreconditionFailed, match="is ready"):
        here.plans.steps.complete("Cents", 1)
    here.plans.steps.complete("Cents", 1, force=True)
    assert statuses(here) == ["completed", "ready", "pending"]
    with pytest.raises(PreconditionFailed):
        here.plans.steps.complete("Cents", 1)
    with pytest.raises(PreconditionFailed, match="completed already") as caught:
        here.plans.steps.start("Cents", 1, force=True)
    assert caught.value.details["next"] == 2


def test_a_step_that_is_in_progress_is_not_started_twice(here: Desks) -> None:
    saved(here)
    here.plans.steps.start("Cents", 1, actor="Ada")
    with pytest.raises(Conflict, match="by Ada") as caught:
        Desks(here.folder).plans.steps.start("Cents", 1, actor="Bob")
    assert caught.value.details["actor"] == "Ada"
    with pytest.raises(Conflict):
        here.plans.steps.start("Cents", 1, force=True)


def test_a_failed_step_blocks_all_that_waits_for_it_until_it_is_done_after_all(here: Desks) -> None:
    saved(here)
    here.plans.steps.start("Cents", 1)
    failed = here.plans.steps.fail("Cents", 1, error="no network")
    assert (failed.execution.status, set(failed.execution.blocked), failed.skipped) == ("failed", {"s2", "s3"}, ())
    assert (failed.state.error, failed.state.retries_left) == ("no network", 3)
    with pytest.raises(PreconditionFailed, match="no network"):
        here.plans.steps.start("Cents", 1)
    opened = here.plans.steps.fail("Cents", 1, retry=True)
    assert (opened.state.status, opened.execution.blocked) == ("ready", {})
    here.plans.steps.start("Cents", 1)
    here.plans.steps.complete("Cents", 1)
    assert statuses(here) == ["completed", "ready", "pending"]


def test_a_step_is_tried_again_only_so_often(tmp_path: Path) -> None:
    here = Desks(tmp_path, retries_max=2)
    saved(here)
    for left in (1, 0):
        here.plans.steps.start("Cents", 1)
        opened = here.plans.steps.fail("Cents", 1, error="again", retry=True)
        assert opened.state.retries_left == left
    here.plans.steps.start("Cents", 1)
    with pytest.raises(PreconditionFailed, match="3 times"):
        here.plans.steps.fail("Cents", 1, retry=True)
    assert statuses(here)[0] == "in_progress"


def test_skipping_goes_on_without_a_step_or_without_all_that_waits_for_it(here: Desks) -> None:
    saved(here)
    alone = here.plans.steps.fail("Cents", 1, skip=True)
    assert (alone.skipped, alone.execution.ready) == (("s1",), ("s2",))
    rest = here.plans.steps.fail("Cents", 2, skip=True, skip_dependents=True)
    assert (rest.skipped, rest.execution.status) == (("s2", "s3"), "completed")
    with pytest.raises(PreconditionFailed):
        here.plans.steps.fail("Cents", 2, skip=True)


def test_a_step_that_was_begun_can_be_given_back(here: Desks) -> None:
    saved(here)
    here.plans.steps.start("Cents", 1, actor="Ada")
    here.plans.steps.fail("Cents", 1, release=True)
    assert statuses(here)[0] == "ready"
    here.plans.steps.start("Cents", 1, actor="Bob")
    with pytest.raises(InvalidArgument, match="retry and skip"):
        here.plans.steps.fail("Cents", 1, retry=True, skip=True)


def test_evidence_is_asked_for_where_the_team_wants_it(tmp_path: Path) -> None:
    here = Desks(tmp_path, evidence_needed=True)
    saved(here, plan(step("s1", checks=("pytest -q",))))
    here.plans.steps.start("Cents", 1)
    with pytest.raises(PreconditionFailed, match="evidence") as caught:
        here.plans.steps.complete("Cents", 1, CompletionReport(notes="trust me"))
    assert caught.value.details["checks"] == ["pytest -q"]
    proof = {"command": "pytest -q", "exit_code": 0, "output": "1 passed" + "." * 9_000 + "end"}
    here.plans.steps.complete("Cents", 1, CompletionReport(evidence=(proof,)))
    (kept,) = here.plans.repository.load("Cents").events[-1].data["evidence"]
    assert (kept["command"], kept["exit_code"]) == ("pytest -q", 0)
    assert kept["output"].startswith("1 passed") and kept["output"].endswith("end") and len(kept["output"]) <= 2_000


def test_an_event_that_would_be_too_long_for_its_line_changes_nothing(here: Desks) -> None:
    saved(here)
    here.plans.steps.start("Cents", 1)
    log = here.lie(here.plans.repository.resolve_id("Cents")) / "events.jsonl"
    before = log.read_bytes()
    wordy = CompletionReport(criteria_met=tuple(f"{number} " + "x" * 3_900 for number in range(60)))
    with pytest.raises(TooLarge):
        here.plans.steps.complete("Cents", 1, wordy)
    assert log.read_bytes() == before


# -- files -------------------------------------------------------------------------------------------------------------


def test_what_changed_since_a_step_began_is_compared_with_its_files(repo: Desks) -> None:
    files = ("src/money.py", "src/bank.py")
    saved(
        repo,
        plan(
            step(
                "s1",
                files_to_modify=files,
                files_to_create=("src/cents.py",),
                acceptance_criteria=("No floats", "Tests pass."),
            )
        ),
    )
    repo.write("notes.txt", "mine, before the step\n")
    repo.plans.steps.start("Cents", 1)
    repo.write("src/money.py", "price = 100\n")
    repo.write("src/cents.py", "CENT = 1\n")
    repo.write("src/other.py", "x = 1\n")
    work = repo.plans.steps.complete("Cents", 1, CompletionReport(criteria_met=("tests pass",)), force=True)
    assert work.files == ("src/cents.py", "src/money.py", "src/other.py")
    assert work.unexpected_files == ("src/other.py",)
    assert work.missing_files == ("src/bank.py",)
    assert work.unmet_criteria == ("No floats",)


def test_a_retry_goes_on_with_the_work_of_the_first_attempt(repo: Desks) -> None:
    saved(repo, plan(step("s1", files_to_modify=("src/money.py",)), step("s2")))
    repo.plans.steps.start("Cents", 1)
    repo.write("src/money.py", "price = 100\n")
    repo.plans.steps.fail("Cents", 1, error="The tests failed.", retry=True)
    repo.plans.steps.start("Cents", 1)
    assert repo.plans.steps.complete("Cents", 1).missing_files == ()
    repo.plans.steps.start("Cents", 2)
    repo.write("src/other.py", "x = 1\n")
    repo.plans.steps.fail("Cents", 2, release=True)
    repo.plans.steps.start("Cents", 2)
    assert repo.plans.steps.complete("Cents", 2).files == ()


def test_what_was_committed_deleted_or_taken_back_meanwhile_changed_too(repo: Desks) -> None:
    saved(repo, plan(step("s1")))
    repo.write("src/bank.py", "balance = 1\n")
    repo.plans.steps.start("Cents", 1)
    repo.git("checkout", "-q", "--", "src/bank.py")
    repo.write("src/new name.py", "x = 1\n")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "second")
    (repo.folder / "src/money.py").unlink()
    work = repo.plans.steps.complete("Cents", 1)
    assert work.files == ("src/bank.py", "src/money.py", "src/new name.py")


def test_files_of_steps_that_run_beside_it_are_not_unexpected(repo: Desks) -> None:
    saved(repo, plan(step("s1", files_to_modify=("src/money.py",)), step("s2", files_to_modify=("src/bank.py",))))
    repo.plans.steps.start("Cents", 1)
    repo.plans.steps.start("Cents", 2)
    repo.write("src/money.py", "price = 100\n")
    repo.write("src/bank.py", "balance = 0\n")
    work = repo.plans.steps.complete("Cents", 1)
    assert (work.unexpected_files, work.missing_files) == ((), ())


def test_without_git_only_what_is_named_is_known_and_a_warning_says_so(here: Desks) -> None:
    saved(here, plan(step("s1"), step("s2")))
    here.plans.steps.start("Cents", 1)
    moved = work = here.plans.steps.complete("Cents", 1)
    assert work.files is None
    assert "no git repository" in moved.warnings[0]
    here.plans.steps.start("Cents", 2)
    moved = work = here.plans.steps.complete("Cents", 2, CompletionReport(files_modified=("a.py",)))
    assert (work.files, work.unexpected_files) == (("a.py",), ("a.py",))
    assert moved.warnings
    assert here.plans.steps.read_state("Cents").execution.status == "completed"


def test_drift_tells_what_became_of_the_files_of_a_plan(repo: Desks) -> None:
    made = plan(step("s1", files_to_modify=("src/money.py", "src/bank.py"), files_to_create=("src/cents.py",)))
    kept = repo.plans.repository.save(made, name="Cents").plan
    assert repo.git("rev-parse", "HEAD").strip() == kept.base_commit
    drift = repo.plans.repository.drift(kept)
    assert (drift.files_changed, drift.files_missing, drift.commits_since) == ((), (), 0)
    repo.write("src/money.py", "price = 2.0\n")
    repo.write("README", "unplanned\n")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "second")
    (repo.folder / "src/bank.py").unlink()
    drift = repo.plans.repository.drift(kept)
    assert drift.files_changed == ("src/bank.py", "src/money.py")
    assert (drift.files_missing, drift.commits_since) == (("src/bank.py",), 1)


@pytest.mark.parametrize("commit", ["", "--output=x", "0" * 40, "HEAD~9"])
def test_drift_from_a_commit_that_is_not_there_is_not_guessed(repo: Desks, commit: str) -> None:
    drift = repo.plans.repository.drift(msgspec.structs.replace(CHAIN, base_commit=commit))
    assert drift.commits_since is None
    assert len(drift.warnings) == 1
