"""Evidence of a failure never completes a step, and a step is complete when its checks ran and its criteria are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.errors import PreconditionFailed
from context_engine.plans.plan_events import CompletionReport
from context_engine.plans.plan_execution import is_allowed
from context_engine.plans.step_evidence import failing_line, find_failures, find_open_checks, find_open_criteria
from tests.support.desks import Desks, plan, step

FAILING = {
    "pytest": "E   assert 1 == 2\n=========== 1 failed, 3 passed in 0.12s ===========",
    "pytest, errors": "2 errors in 0.31s",
    "pytest, many": "3 failed, 10 passed, 2 skipped in 1.20s",
    "unittest": "Ran 3 tests in 0.001s\n\nFAILED (failures=1)",
    "go test": "--- FAIL: TestA (0.00s)\nFAIL\tgithub.com/x/y\t0.1s",
    "cargo": "test result: FAILED. 1 passed; 1 failed; 0 ignored",
    "cargo build": "error: could not compile `x` (lib) due to 1 previous error",
    "jest": "Tests:       1 failed, 4 passed, 5 total",
    "vitest": "      Tests  2 failed | 3 passed (5)",
    "mocha": "  3 passing (10ms)\n  1 failing\n",
    "maven": "[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0",
    "maven, errors": "Tests run: 5, Failures: 0, Errors: 2, Skipped: 0",
    "gradle": "12 tests completed, 1 failed",
    "dotnet": "Failed!  - Failed:     1, Passed:    20, Skipped:     0, Total:    21",
    "rspec": "10 examples, 2 failures",
    "minitest": "5 runs, 7 assertions, 1 failures, 0 errors, 0 skips",
    "phpunit": "FAILURES!\nTests: 5, Assertions: 7, Failures: 1.",
    "ctest": "66% tests passed, 1 tests failed out of 3",
    "mypy": "Found 3 errors in 2 files (checked 10 source files)",
    "eslint": "\u2716 4 problems (1 error, 3 warnings)",
    "make": "make: *** [Makefile:3: test] Error 1",
    "colored": "\x1b[31m1 failed\x1b[0m, 2 passed in 0.10s",
}
PASSING = (
    "====== 4 passed, 1 skipped in 0.10s ======",
    "ok  \tgithub.com/x/y\t0.1s",
    "test result: ok. 5 passed; 0 failed; 0 ignored",
    "Tests:       5 passed, 5 total",
    "  5 passing (10ms)",
    "Tests run: 5, Failures: 0, Errors: 0, Skipped: 0\nBUILD SUCCESS",
    "10 examples, 0 failures",
    "5 runs, 7 assertions, 0 failures, 0 errors, 0 skips",
    "100% tests passed, 0 tests failed out of 3",
    "Success: no issues found in 3 source files",
    "the handler logs 1 failed attempt and retries",
    "Found 0 errors",
)


@pytest.mark.parametrize("output", FAILING.values(), ids=FAILING)
def test_a_failing_summary_is_read_for_what_it_is(output: str) -> None:
    assert failing_line(output)


@pytest.mark.parametrize("output", PASSING)
def test_a_passing_summary_shows_no_failure(output: str) -> None:
    assert failing_line(output) == ""


def test_the_last_run_of_a_command_counts() -> None:
    red = {"command": "pytest -q", "exit_code": 1, "output": "1 failed in 0.1s"}
    green = {"command": "pytest  -q", "exit_code": 0, "output": "1 passed in 0.1s"}
    assert find_failures([red, green]) == ()
    assert [failure.reason for failure in find_failures([green, red])] == ["it ended with 1"]


def test_a_check_is_open_until_evidence_says_how_it_ended() -> None:
    checks = ("pytest -q", "ruff check .")
    assert find_open_checks(checks, [{"command": "pytest -q"}]) == checks, "a name alone shows nothing"
    assert find_open_checks(checks, [{"command": "python -m pytest -q tests", "exit_code": 0}]) == ("ruff check .",)


def test_a_criterion_is_answered_by_number_by_text_or_by_a_command_that_passed() -> None:
    criteria = ("No floats.", "`pytest -q` passes", "The docs say so")
    ran = [{"command": "pytest -q", "exit_code": 0}]
    assert find_open_criteria(criteria, (), ()) == criteria
    assert find_open_criteria(criteria, ("no floats", "3: in money.md"), ran) == ()
    assert find_open_criteria(criteria, ("30",), ran) == ("No floats.", "The docs say so")


def test_evidence_of_a_failure_fails_the_step_and_names_the_way_on(tmp_path: Path) -> None:
    here = Desks(tmp_path)
    here.plans.repository.save(plan(step("s1", checks=("pytest -q",))), name="Cents")
    here.plans.steps.start("Cents", 1)
    red = {"command": "pytest -q", "exit_code": 0, "output": "1 failed, 3 passed in 0.12s"}
    with pytest.raises(PreconditionFailed, match="1 failed, 3 passed") as refused:
        here.plans.steps.complete("Cents", 1, CompletionReport(evidence=(red,)), force=True)
    assert [found.tool for found in refused.value.next_steps] == ["fail_step"]
    state = here.plans.repository.load("Cents").execution
    assert state and state.steps["s1"].status == "failed"
    assert "1 failed" in state.steps["s1"].error
    here.plans.steps.fail("Cents", 1, retry=True)
    here.plans.steps.start("Cents", 1)
    green = red | {"output": "4 passed in 0.12s"}
    done = here.plans.steps.complete("Cents", 1, CompletionReport(evidence=(green,)))
    assert done.state.status == "completed"


def test_a_step_with_open_checks_or_criteria_is_completed_only_by_force(tmp_path: Path) -> None:
    here = Desks(tmp_path)
    here.plans.repository.save(
        plan(step("s1", checks=("pytest -q",), acceptance_criteria=("No floats",))), name="Cents"
    )
    here.plans.steps.start("Cents", 1)
    with pytest.raises(PreconditionFailed) as refused:
        here.plans.steps.complete("Cents", 1, CompletionReport(notes="trust me"))
    assert refused.value.details == {"step": 1, "open_checks": ["pytest -q"], "open_criteria": ["No floats"]}
    here.plans.steps.complete("Cents", 1, force=True)
    assert here.plans.repository.load("Cents").events[-1].data["forced"] is True


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("pytest -q", True),
        ("pytest -q tests/test_a.py::test_one", True),
        ("pytest -q -p evil", False),
        ("pytest", False),
        ("pytest -q ../other/test.py", False),
        ("pytest -q /etc", False),
        ("go test ./tests/...", False),
        ("go test ./...", True),
        ("go run ./tests", False),
        ("bash tests/run.sh", True),
        ("bash tests/other.sh", False),
        ("rm -rf tests", False),
        ("pytest -q; rm tests", False),
        ("", False),
    ],
)
def test_a_named_check_runs_only_as_far_as_the_user_allows(tmp_path: Path, command: str, *, allowed: bool) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("test_a.py", "run.sh", "other.sh"):
        (tmp_path / "tests" / name).touch()
    permitted = ("pytest -q", "go test ./...", "bash tests/run.sh")
    assert is_allowed(command, permitted, tmp_path) is allowed
