"""What is new on changed lines is found, what was there before is marked so, and an id outlives a move."""

from __future__ import annotations

import pytest

from context_engine.model import Finding
from context_engine.review.finding import ReviewOptions
from context_engine.review.reviewer import Reviewer
from context_engine.review.verdict import select_findings
from tests.support.changes import changed_file

REVIEWER = Reviewer()
KEY = "ghp_" + "R9sX2vLq7TzK4mYbW1cJ8dNf5hGp3aQe0uEi"  # in the provider's format, made up, in two parts


def found(old: str | None, new: str | None, path: str = "app/code.py") -> tuple[Finding, ...]:
    """What is told of a change at the defaults."""
    return select_findings(REVIEWER.review_file(changed_file(path, old, new)).findings, ReviewOptions())[0]


def rules(old: str | None, new: str | None, path: str = "app/code.py") -> list[tuple[str, int]]:
    return [(each.rule, each.span.first) for each in found(old, new, path)]


OLD = "def f(x):\n    if x is 'a':\n        return 1\n"


def test_what_was_there_before_is_not_told_even_when_its_line_moves() -> None:
    assert rules(OLD, "import os\n\n" + OLD) == []
    assert rules(OLD, OLD.replace("    if", "        if").replace("        return", "            return")) == []
    assert rules(OLD, OLD + "\n\ndef g(x):\n    return x is 'b'\n") == [("is-literal", 7)]


def test_a_new_mistake_on_a_line_that_nobody_changed_is_marked_so() -> None:
    looked = REVIEWER.review_file(changed_file("app/code.py", "x = 1\ny = 2\n", "x = 1\ny = 3\n"))
    assert [each.is_on_changed_line for each in looked.findings] == []
    code = "def f():\n    clean()\n"
    (finding,) = REVIEWER.review_file(
        changed_file("app/code.py", code, code.replace(":\n", ":\n    return 1\n"))
    ).findings
    assert (finding.rule, finding.span.first, finding.is_on_changed_line) == ("unreachable", 3, False)
    assert select_findings([finding], ReviewOptions())[1]["off_changed_lines"] == 1
    assert select_findings([finding], ReviewOptions(changed_lines_only=False))[0] == (finding,)


def test_a_secret_on_an_added_line_is_blocking_and_on_a_removed_line_is_nothing() -> None:
    with_key = f"import os\nTOKEN = '{KEY}'\n"
    (finding,) = found("import os\n", with_key)
    assert (finding.rule, finding.priority, finding.span.first, finding.confidence) == ("secret", 0, 2, 0.95)
    assert found(with_key, "import os\n") == ()
    assert found(with_key, with_key + "x = 1\n") == ()


def test_a_secret_is_found_in_hunks_and_in_generated_files_too() -> None:
    lock = changed_file("package-lock.json", "{}\n", f'{{"t": "{KEY}"}}\n')
    looked = REVIEWER.review_file(lock)
    assert [each.rule for each in looked.findings] == ["secret"]
    assert "secrets" in looked.coverage.partly


def test_a_password_that_tests_made_up_is_less_sure_than_a_key_of_a_provider() -> None:
    made_up = REVIEWER.review_file(changed_file("tests/test_login.py", "", "password = 'hV7#kq92LmZx'\n")).findings
    assert [each.confidence for each in made_up] == [0.5]
    assert found("", f"token = '{KEY}'\n", "tests/test_login.py")[0].priority == 0


@pytest.mark.parametrize("path", ["tests/test_a.py", "src/a_test.py", "src/conftest.py"])
def test_what_tests_do_on_purpose_is_not_told(path: str) -> None:
    assert rules("", "def f(y):\n    z = eval(y)\n    if z == None:\n        print(z)\n", path) == []
    assert rules("", "def f(x):\n    assert x is 'a'\n", path) == [("is-literal", 2)]


def test_files_that_nobody_reads_line_by_line_say_so() -> None:
    binary = REVIEWER.review_file(changed_file("a.py", None, "x\0y\n"))
    assert (binary.findings, binary.coverage.skipped) == ((), "binary")
    gone = REVIEWER.review_file(changed_file("a.py", "x\n", None))
    assert gone.coverage.skipped == "deleted"
    minified = REVIEWER.review_file(changed_file("a.js", None, "x=1;" * 3_000))
    assert "5,000 characters" in minified.coverage.partly
