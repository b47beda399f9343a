"""A team's own rules: what they find, on which line, and what is said of one that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.review.invariants import find_broken, read_invariants_file
from tests.support.changes import changed_file

DENY = {
    "id": "NO-PRINT",
    "rule": "The library does not print.",
    "paths": ["src/**"],
    "severity": "P1",
    "deny": r"\bprint\(",
}


def rules(*rows: Any) -> bytes:
    import yaml

    return yaml.safe_dump({"invariants": list(rows)}).encode()


def lines(row: dict[str, Any], old: str | None, new: str, path: str = "src/a.py") -> list[int]:
    book = read_invariants_file("rules.yml", rules(row))
    assert book.warnings == ()
    return [each.span.first for each in find_broken(book.invariants, changed_file(path, old, new)) if each.is_new]


def test_a_rule_is_held_against_every_added_line_of_every_file() -> None:
    book = read_invariants_file("rules.yml", rules(DENY))
    files = [
        changed_file(f"src/{name}.py", "a\n", "a\n" + "b\n" * number + "print(1)\n")
        for number, name in enumerate("abc")
    ]
    found = [each for file in files for each in find_broken(book.invariants, file)]
    assert [(each.path, each.span.first) for each in found] == [("src/a.py", 2), ("src/b.py", 3), ("src/c.py", 4)]
    assert {(each.rule, each.source, each.priority, each.is_on_changed_line) for each in found} == {
        ("NO-PRINT", "invariant", 1, True)
    }


def test_what_was_there_before_breaks_no_rule() -> None:
    assert lines(DENY, "print(1)\n", "print(1)\nprint(2)\n") == [2]
    assert lines(DENY, "x\n", "print(1)\n", path="tests/a.py") == []


def test_what_must_come_together_may_stand_anywhere_in_the_file() -> None:
    together = {"id": "AUTH", "when": "@route", "require": "require_user"}
    assert lines(together, "", "@route('/')\ndef a(): ...\n") == [1]
    assert lines(together, "", "from auth import require_user\n\n@route('/')\ndef a(): ...\n") == []


def test_a_scope_says_what_a_pattern_sees() -> None:
    over_two_lines = {"id": "X", "deny": {"regex": {"pattern": "begin.*end", "flags": "s"}}}
    assert lines(over_two_lines, "", "begin\nend\n") == []
    assert lines(over_two_lines | {"scope": "diff"}, "", "begin\nend\n") == [1]
    assert lines(DENY | {"scope": "file"}, "print(1)\n", "print(1)\nx\nprint(2)\n") == [3]


def test_flags_and_groups_are_understood_as_they_are_written() -> None:
    grouped = b"security:\n  - id: S1\n    severity: CRITICAL\n    deny: {regex: {pattern: PASSWORD, flags: i}}\n"
    (rule,) = read_invariants_file("rules.yml", grouped).invariants
    assert (rule.id, rule.priority) == ("S1", 0)
    assert [each.span.first for each in find_broken([rule], changed_file("a.py", "", "password = 1\n"))] == [1]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "BAD", "deny": "("}, "BAD"),
        ({"id": "BACK", "deny": r"(a)\1"}, "BACK"),
        ({"id": "EMPTY"}, "EMPTY"),
        ({"id": "ODD", "deny": "x", "severity": "grave"}, "ODD"),
        ("just a text", "invariant 1"),
    ],
)
def test_a_rule_that_is_wrong_is_named_and_the_others_hold(row: Any, said: str) -> None:
    book = read_invariants_file("rules.yml", rules(row, DENY))
    assert [each.id for each in book.invariants] == ["NO-PRINT"]
    assert len(book.warnings) == 1
    assert said in book.warnings[0]


@pytest.mark.parametrize("data", [b"a: [", b"3", b"invariants: yes", b"\xff\xfa"])
def test_a_file_that_holds_no_rules_says_so(data: bytes) -> None:
    book = read_invariants_file("rules.yml", data)
    assert book.invariants == ()
    assert book.warnings


def test_a_pattern_that_would_take_forever_takes_no_time() -> None:
    slow = {"id": "SLOW", "deny": "(a+)+$"}
    assert lines(slow, "", "a" * 50_000 + "b\n") == []


def test_a_rule_may_speak_of_the_shape_of_code() -> None:
    book = read_invariants_file(
        "rules.yml", rules({"id": "NO-EVAL", "ast": '(call function: (identifier) @f (#eq? @f "eval"))'})
    )
    change = changed_file("a.py", "eval(x)\n", "eval(x)\ny = '''\neval(x)'''\nz = eval(y)\n")
    found = find_broken(book.invariants, change)
    assert [(each.span.first, each.is_new) for each in found] == [(1, False), (4, True)]
