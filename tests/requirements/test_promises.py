"""The page of promises is held to its word: each kept promise has a test that exists, nothing is promised twice."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from tests.requirements.promises import ISSUES, PROMISES, kept

ROOT = Path(__file__).resolve().parents[2]

ID = re.compile(r"S[0-4](-[A-Za-z0-9_]+)+")


@cache
def defined_in(file: str) -> frozenset[str]:
    """The names of the tests in a file, as pytest writes them after `::`; of a spec, its headings."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return frozenset(re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE))
    return frozenset(names_in(ast.parse(text).body))


def names_in(body: list[ast.stmt], prefix: str = "") -> list[str]:
    """Test functions of a module or class body, classes written before them."""
    names = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            names.append(prefix + node.name)
        elif isinstance(node, ast.ClassDef):
            names += names_in(node.body, f"{prefix}{node.name}::")
    return names


def missing(test_id: str) -> bool:
    """Whether no such test is in the tree. A parameter in brackets is not looked at."""
    file, _, name = test_id.partition("::")
    return name.partition("[")[0] not in defined_in(file)


def test_every_promise_has_an_id_of_its_own() -> None:
    counts = Counter(promise.id for promise in PROMISES)
    assert [name for name, count in counts.items() if count > 1] == []


def test_a_promise_stands_below_its_own_document() -> None:
    assert len(PROMISES) > 480, "rows that cannot be read are missing here"
    assert [each.id for each in PROMISES if each.id[:2] != each.document or not ID.fullmatch(each.id)] == []


def test_a_promise_is_either_kept_or_pending() -> None:
    undecided = [promise.id for promise in PROMISES if bool(promise.kept) == (promise.pending is not None)]
    assert undecided == [], "give exactly one of tests and `pending: issue N`"
    assert [promise.id for promise in PROMISES if promise.pending not in {None, *ISSUES}] == []


def test_a_kept_promise_names_tests_that_exist() -> None:
    assert {promise.id: lost for promise in kept() if (lost := [test for test in promise.kept if missing(test)])} == {}


def test_a_test_that_does_not_exist_is_noticed() -> None:
    here = "tests/requirements/test_promises.py"
    assert not missing(f"{here}::test_every_promise_has_an_id_of_its_own")
    assert not missing(f"{here}::test_a_promise_is_either_kept_or_pending[S0-journey]")
    assert missing(f"{here}::test_that_nobody_wrote")
    assert missing("tests/no_such_file.py::test_every_promise_has_an_id_of_its_own")
    assert missing(here)
