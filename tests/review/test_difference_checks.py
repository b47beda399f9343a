"""A small change that takes code away, or turns it round, is a question; one that adds or moves code is none."""

from __future__ import annotations

import pytest

from context_engine.languages.syntax_trees import read_leaf_tokens
from context_engine.review.checks.difference_checks import difference
from context_engine.review.finding import ReviewOptions, assign_ids
from context_engine.review.reviewer import Reviewer
from context_engine.review.source_versions import ReviewContext
from context_engine.review.verdict import ChangeSummary, Coverage, ReviewResult, make_result
from tests.support.changes import PARSERS, changed_file
from tests.support.engines import GRAMMARS, LANGUAGES

TAKEN_AWAY = [
    ("a.rb", "def f(a)\n  x = a\n  return nil if a.nil?\n  g(a)\nend\n", "def f(a)\n  x = a\n  g(a)\nend\n"),
    ("b.go", "func f() error {\n\terr := g()\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn h()\n}\n",
     "func f() error {\n\terr := g()\n\treturn h()\n}\n"),
    ("c.go", "func f() {\n\tmu.Lock()\n\tdefer mu.Unlock()\n\tg()\n}\n", "func f() {\n\tg()\n}\n"),
    ("f.py", "def f(a):\n    return g(a).strip().lower()\n", "def f(a):\n    return g(a).lower()\n"),
    ("F.java", "class A { long f() {\n final Instant stop = g();\n return stop != null ? stop.toMilli() : 0;\n} }\n",
     "class A { long f() {\n return g().toMilli();\n} }\n"),
    ("F.kt", "fun f(a: Int): Int {\n    val b = if (a > 9) g(a) else h(a)\n    return b + 1\n}\n",
     "fun f(a: Int): Int {\n    return g(k(a)) + 1\n}\n"),
    ("d.ts", "function f(a: A) {\n  if (a && a.ready) {\n    g(a);\n  }\n}\n", "function f(a: A) {\n  if (a) {\n    g(a);\n  }\n}\n"),
    ("a.c", "int f(int *p) {\n  if (p == 0) return 1;\n  return *p;\n}\n", "int f(int *p) {\n  return *p;\n}\n"),
    ("a.py", "async def f(x):\n    return await g(x)\n", "async def f(x):\n    return g(x)\n"),
    ("a.cs", "class A { void F(bool a) {\n  if (!a) G();\n} }\n", "class A { void F(bool a) {\n  if (a) G();\n} }\n"),
    ("c.py", "def f(a):\n    for x in a:\n        if x:\n            g(x)\n            break\n", "def f(a):\n    for x in a:\n        if x:\n            g(x)\n"),
]  # fmt: skip
TURNED = [
    ("a.go", "func f(a, b int) bool {\n\treturn a < b\n}\n", "func f(a, b int) bool {\n\treturn a <= b\n}\n"),
    ("A.java", "class A { boolean f(int a) {\n return a == 1;\n} }\n", "class A { boolean f(int a) {\n return a != 1;\n} }\n"),
    ("a.rs", "fn f(a: bool, b: bool) -> bool {\n    a && b\n}\n", "fn f(a: bool, b: bool) -> bool {\n    a || b\n}\n"),
    ("a.kt", "fun f(a: Int): Int {\n    return a + 2\n}\n", "fun f(a: Int): Int {\n    return a - 2\n}\n"),
    ("a.cpp", "int f(int a, int b) {\n  return g(a, b);\n}\n", "int f(int a, int b) {\n  return g(b, a);\n}\n"),
    ("a.php", "<?php\nfunction f($a, $strict = true) {\n  return $a;\n}\n", "<?php\nfunction f($a, $strict = false) {\n  return $a;\n}\n"),
]  # fmt: skip
SILENT = [
    ("a.py", "def f(a):\n    return a < 1\n", "def f(a):\n    # at most\n    return a < 1\n"),
    ("a.py", "def f(a):\n    # one, two, three\n    # four, five\n    return a < 1\n", "def f(a):\n    return a < 1\n"),
    ("a.py", "import os\nfrom sys import argv as words\n\nx = 1\n", "x = 1\n"),
    ("a.py", "def f(a):\n    if a is None:\n        return 1\n    return 2\n\n\ndef g(a):\n    return 3\n",
     "def f(a):\n    return 2\n\n\ndef g(a):\n    if a is None:\n        return 1\n    return 3\n"),
    ("a.py", "def f(first):\n    return first < 1\n", "def f(one):\n    return one < 1\n"),
    ("a.go", "func f(a int) bool {\nreturn a < 1\n}\n", "func f(a int) bool {\n\treturn a < 1\n}\n"),
    ("a.py", "def f(a):\n    return a if a else 1\n", "def f(a):\n    if a:\n        return a\n    return 1\n"),
    ("a.ts", "const text = 'a < b';\n", "const text = 'a <= b';\n"),
    ("a.md", "a < b\n", "a <= b\n"),
    ("tests/test_a.py", "def test_a():\n    assert f(1) == 2\n    assert f(2) == 3\n", "def test_a():\n    assert f(1) == 2\n"),
    ("a.go", "func f() error {\n\tif _, err := g(a); err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n",
     "func f() error {\n\tmu.Lock()\n\t_, err := g(a)\n\tmu.Unlock()\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n"),
]  # fmt: skip


def count(path: str, old: str, new: str) -> int:
    return len([*difference.run([changed_file(path, old, new)], ReviewContext(PARSERS))])


@pytest.mark.parametrize(("path", "old", "new"), TAKEN_AWAY, ids=[row[0] for row in TAKEN_AWAY])
def test_code_that_is_taken_away_is_asked_about_and_code_that_is_added_is_not(path: str, old: str, new: str) -> None:
    assert (count(path, old, new), count(path, new, old)) == (1, 0)


@pytest.mark.parametrize(("path", "old", "new"), TURNED, ids=[row[0] for row in TURNED])
def test_code_that_is_turned_round_is_asked_about_in_both_directions(path: str, old: str, new: str) -> None:
    assert (count(path, old, new), count(path, new, old)) == (1, 1)


@pytest.mark.parametrize(("path", "old", "new"), SILENT)
def test_code_that_moves_or_grows_and_comments_and_imports_and_texts_are_silent(path: str, old: str, new: str) -> None:
    assert count(path, old, new) == 0


def test_a_guard_that_moves_to_another_file_is_not_removed() -> None:
    guard = "    if a is None:\n        return 1\n"
    here = changed_file("a.py", f"def f(a):\n{guard}    return 2\n", "def f(a):\n    return 2\n")
    there = changed_file("b.py", "def g(a):\n    return 2\n", f"def g(a):\n{guard}    return 2\n")
    assert [*difference.run([here, there], ReviewContext(PARSERS))] == []
    assert [*difference.run([here], ReviewContext(PARSERS))]


def test_a_change_that_adds_to_tests_has_said_what_it_means() -> None:
    guard = changed_file(
        "a.py", "def f(a):\n    if a is None:\n        return 1\n    return 2\n", "def f(a):\n    return 2\n"
    )
    tests = changed_file("tests/test_a.py", "", "def test_a():\n    assert f(None) == 2\n")
    assert [*difference.run([guard], ReviewContext(PARSERS))]
    assert [*difference.run([guard, tests], ReviewContext(PARSERS))] == []


def test_every_language_is_read_into_tokens() -> None:
    for name in difference.languages:
        language = LANGUAGES.get(name)
        assert language, name
        assert read_leaf_tokens(language, b"<?php a < b;" if name == "php" else b"a < b", GRAMMARS, {1}), name


def ask(path: str, old: str, new: str, context: ReviewContext) -> ReviewResult:
    """Return the result of a review at threshold 0."""
    found = assign_ids(Reviewer().review_change([changed_file(path, old, new)], context))
    return make_result(found, ReviewOptions(confidence_threshold=0.0), Coverage(), ChangeSummary())


ONE = "def group(first, second):\n    return h(first, second)\n"
OTHER = ONE.replace("h(first, second)", "h(second, first)")


@pytest.mark.parametrize(("old", "new"), [(ONE, OTHER), (OTHER, ONE)])
def test_an_edit_without_a_direction_is_a_question_that_counts_in_no_verdict(old: str, new: str) -> None:
    users = {"group": ["src/b.py", "a.py", "tests/test_a.py"]}
    result = ask("a.py", old, new, ReviewContext(PARSERS, is_known=True, files_with_words=lambda _words: users))
    assert (result.findings, result.verdict, result.overall_confidence) == ((), "no_deterministic_findings", 0.0)
    (question,) = result.questions
    assert question.startswith("P3 a.py:")
    assert question.endswith("group is used by tests/test_a.py, src/b.py. Is this intended?")


@pytest.mark.parametrize("before", [0, 3])
def test_what_is_taken_away_is_named_at_the_line_before_it(before: int) -> None:
    head = "def f(a):\n" + "    g(a)\n" * before
    result = ask(
        "a.py", f"{head}    if a is None:\n        return 1\n    h(a)\n", f"{head}    h(a)\n", ReviewContext(PARSERS)
    )
    assert result.questions == (f"P3 a.py:{before + 1} Removed: `if a is None : return 1`. Is this intended?",)
    assert (result.findings, result.verdict) == ((), "no_deterministic_findings")


def test_a_large_change_is_not_compared() -> None:
    old = "def f(a):\n    return a < 1\n" + "".join(f"def g{at}():\n    return {at}\n" for at in range(20))
    new = old.replace("a < 1", "a <= 1") + "".join(f"def h{at}():\n    return {at}\n" for at in range(20))
    assert list(difference.run([changed_file("a.py", old, new)], ReviewContext(PARSERS))) == []
