"""Changes are held against parsers, linters and commands that were allowed; what nobody could look at never counts as passed."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from context_engine.edit.syntax_check import find_new_errors
from context_engine.errors import InvalidArgument
from context_engine.model import ChangeObjections
from context_engine.plans.plan_execution import NOT_ALLOWED, ChangeVerifier, Review
from tests.support.children import HANGS
from tests.support.engines import GRAMMARS, LANGUAGES
from tests.support.trees import tree

GOOD, BAD = b"def f():\n    return 1\n", b"def f(:\n    return 1\n"


def edited(path: str, before: bytes | None, after: bytes | None) -> Any:
    syntax = find_new_errors(before, after or b"", path, LANGUAGES, GRAMMARS).summary
    return SimpleNamespace(path=path, old_data=before, new_data=after, syntax=syntax)


def verifier(root: Path, *commands: str) -> ChangeVerifier:
    return ChangeVerifier(root, commands)


def test_a_new_syntax_error_fails_and_an_old_one_does_not(tmp_path: Path) -> None:
    new = verifier(tmp_path).verify([edited("a.py", GOOD, BAD)], "syntax")
    assert not new.passed
    assert new.checks[0].says.startswith("new syntax error at line 1")
    assert verifier(tmp_path).verify([edited("a.py", BAD, BAD + b"x = 1\n")], "syntax").passed


def test_a_language_without_a_parser_is_passed_over_and_said_to_be(tmp_path: Path) -> None:
    found = verifier(tmp_path).verify([edited("a.unknown", None, b"anything")], "syntax")
    assert (found.passed, found.is_whole, found.checks[0].passed) == (True, True, None)


def test_what_a_review_objects_to_fails_and_a_review_that_fails_is_unknown(tmp_path: Path) -> None:
    seen: list[str] = []

    def review(diff: str) -> ChangeObjections:
        seen.append(diff)
        return ChangeObjections(("P0 a.py:2: a secret",) if "secret" in diff else ())

    def broken_review(diff: str) -> ChangeObjections:
        raise InvalidArgument(f"{len(diff)} is no diff")

    def checks(look: Review, after: bytes) -> list[tuple[bool | None, str]]:
        found = ChangeVerifier(tmp_path, (), look).verify([edited("a.txt", b"one\n", after)], "lint")
        return [(each.passed, each.says) for each in found.checks if each.kind == "review"]

    assert checks(review, b"one\nsecret\n") == [(False, "P0 a.py:2: a secret")]
    assert checks(review, b"one\ntwo\n") == [(True, "")]
    assert seen[1] == "--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,2 @@\n one\n+two\n"
    assert checks(broken_review, b"two\n")[0][0] is None


def test_commands_decide_by_how_they_end_and_say_what_failed_where(tmp_path: Path) -> None:
    tree(tmp_path, {"tests/test_a.py": ""})
    said = "FAILED tests/test_a.py::test_sum - AssertionError: 41 is no 42\ngone/test_b.py:3: Error\n= 1 failed, 2 passed ="
    command = f'"{sys.executable}" -c "print({said!r}); raise SystemExit(0)"'
    passed = verifier(tmp_path, command).verify([], "tests")
    assert (passed.passed, passed.is_whole) == (True, True)
    places = "1 failed, 2 passed\ntests/test_a.py::test_sum AssertionError"
    assert passed.checks[0].says == f"it ended with 0\n{places}"
    failed = verifier(tmp_path, f'"{sys.executable}" -c "raise SystemExit(2)"').verify([], "tests")
    assert (failed.passed, failed.checks[0].says) == (False, "it ended with 2")


def test_without_an_allowed_command_tests_are_not_passed_but_unknown(tmp_path: Path) -> None:
    found = verifier(tmp_path).verify([edited("a.py", GOOD, GOOD)], "tests")
    assert (found.passed, found.is_whole) == (True, False)
    assert found.checks[-1].says == NOT_ALLOWED


def test_commands_are_not_run_for_what_does_not_even_parse(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    command = f"\"{sys.executable}\" -c \"open('{marker}', 'w')\""
    assert not verifier(tmp_path, command).verify([edited("a.py", GOOD, BAD)], "tests").passed
    assert not marker.exists()


def test_secrets_in_the_output_of_a_command_are_masked(tmp_path: Path) -> None:
    token = "ghp_" + "aB3dE5gH7jK9" * 3
    command = f'"{sys.executable}" -c "print(\'token = {token}\')"'
    assert token not in verifier(tmp_path, command).verify([], "tests").checks[0].says


def test_a_command_that_was_cancelled_has_not_passed(tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    command = f'"{sys.executable}" -c "{HANGS}"'
    (check,) = verifier(tmp_path, command).verify([], "tests", cancel).checks
    assert (check.passed, check.says) == (False, "it was cancelled")


def test_a_command_gets_no_token_and_one_that_cannot_be_read_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "anything")
    monkeypatch.setenv("COLOUR", "green")
    command = f"\"{sys.executable}\" -c \"import os, sys; sys.exit('GITHUB_TOKEN' in os.environ or 'COLOUR' not in os.environ)\""
    (check,) = verifier(tmp_path, command).verify([], "tests").checks
    assert check.says == "it ended with 0"
    (check,) = verifier(tmp_path, 'pytest "-q').verify([], "tests").checks
    assert (check.passed, check.says) == (None, "it cannot be read: No closing quotation")
