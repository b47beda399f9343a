"""Guards and operators that a change removes or turns are noticed in every language; code that only moves is not."""

from __future__ import annotations

import pytest

from context_engine.languages.syntax_trees import read_leaf_tokens
from context_engine.review.checks.difference_checks import QUESTION, RULES, difference
from context_engine.review.finding import ReviewOptions, assign_ids
from context_engine.review.reviewer import Reviewer
from context_engine.review.source_versions import ReviewContext
from context_engine.review.verdict import ChangeSummary, Coverage, ReviewResult, make_result
from tests.support.changes import PARSERS, changed_file
from tests.support.engines import GRAMMARS, LANGUAGES

TURNED = [
    ("a.py", "async def f(x):\n    return await g(x)\n", "async def f(x):\n    return g(x)\n", "await-removed"),
    ("a.ts", "async function f() {\n  const a = await g();\n}\n", "async function f() {\n  const a = g();\n}\n", "await-removed"),
    ("a.go", "func f(a, b int) bool {\n\treturn a < b\n}\n", "func f(a, b int) bool {\n\treturn a <= b\n}\n", "turned"),
    ("A.java", "class A { boolean f(int a) {\n return a == 1;\n} }\n", "class A { boolean f(int a) {\n return a != 1;\n} }\n", "turned"),
    ("a.rs", "fn f(a: bool, b: bool) -> bool {\n    a && b\n}\n", "fn f(a: bool, b: bool) -> bool {\n    a || b\n}\n", "turned"),
    ("a.kt", "fun f(a: Int): Int {\n    return a + 2\n}\n", "fun f(a: Int): Int {\n    return a - 2\n}\n", "turned"),
    ("a.cs", "class A { void F(bool a) {\n  if (!a) G();\n} }\n", "class A { void F(bool a) {\n  if (a) G();\n} }\n", "turned"),
    ("a.c", "int f(int n) {\n  return n - 1;\n}\n", "int f(int n) {\n  return n;\n}\n", "turned"),
    ("a.cpp", "int f(int a, int b) {\n  return g(a, b);\n}\n", "int f(int a, int b) {\n  return g(b, a);\n}\n", "turned"),
    ("a.rb", "def f(a)\n  x = a\n  return nil if a.nil?\n  g(a)\nend\n", "def f(a)\n  x = a\n  g(a)\nend\n", "null-guard-removed"),
    ("a.php", "<?php\nfunction f($a, $strict = true) {\n  return $a;\n}\n", "<?php\nfunction f($a, $strict = false) {\n  return $a;\n}\n", "turned"),
    ("b.go", "func f() error {\n\terr := g()\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn h()\n}\n", "func f() error {\n\terr := g()\n\treturn h()\n}\n", "error-check-removed"),
    ("c.go", "func f() {\n\tmu.Lock()\n\tdefer mu.Unlock()\n\tg()\n}\n", "func f() {\n\tg()\n}\n", "lock-removed"),
    ("c.py", "def f(a):\n    for x in a:\n        if x:\n            g(x)\n            break\n    h()\n", "def f(a):\n    for x in a:\n        if x:\n            g(x)\n    h()\n", "break-removed"),
    ("d.py", "def f(a):\n    for x in a:\n        g(x)\n    return a\n", "def f(a):\n    for x in a:\n        g(x)\n        return a\n", "return-in-loop"),
    ("e.py", "def f(a):\n    return 1\n", "def f(a):\n    if a is None and a.size > 1:\n        g()\n    return 1\n", "condition-contradicts"),
    ("d.ts", "function f(a?: A) {\n  return a?.b;\n}\n", "function f(a?: A) {\n  return a.b;\n}\n", "null-guard-removed"),
    ("f.py", "def f(a):\n    return g(a).strip().lower()\n", "def f(a):\n    return g(a).lower()\n", "part-removed"),
    ("f.rb", "def f(a)\n  b = g(a)\n  h(b)\nend\n", "def f(a)\n  g(a)\n  h(b)\nend\n", "result-dropped"),
    ("F.java", "class A { long f() {\n final Instant stop = g();\n return stop != null ? stop.toMilli() : 0;\n} }\n", "class A { long f() {\n return g().toMilli();\n} }\n", "null-case-lost"),
    ("f.go", "func f() string {\n\ta := g(\"a\")\n\tif a == \"\" {\n\t\ta = h()\n\t}\n\treturn a\n}\n", "func f() string {\n\ta := h()\n\treturn a\n}\n", "condition-removed"),
    ("F.kt", "fun f(a: Int): Int {\n    val b = if (a > 9) g(a) else h(a)\n    return b + 1\n}\n", "fun f(a: Int): Int {\n    return g(k(a)) + 1\n}\n", "case-lost"),
    ("g.go", "func f() error {\n\tif err := g(); err != nil {\n\t\treturn err\n\t}\n\treturn h()\n}\n", "func f() error {\n\tif err := g(); err != nil {\n\t\treturn nil\n\t}\n\treturn h()\n}\n", "error-swallowed"),
    ("g.py", "def f(a):\n    try:\n        g(a)\n    except E:\n        raise\n", "def f(a):\n    try:\n        g(a)\n    except E:\n        pass\n", "error-swallowed"),
    ("g.ts", "function f() {\n  this.x = b.x;\n  this.y = b.y;\n}\n", "function f() {\n  this.x = b.x;\n  this.y = b.x;\n}\n", "copied-line"),
    ("G.java", "class A { int f(int count) {\n int total = g(count);\n return total;\n} }\n", "class A { int f(int count) {\n int total = g(count);\n return totl;\n} }\n", "name-misspelled"),
    ("g.rb", "def f(start, stop)\n  g(start)\n  h(stop)\n  k(start, stop)\nend\n", "def f(start, stop)\n  g(start)\n  h(start)\n  k(start, stop)\nend\n", "turned"),
    ("g.kt", "fun f(a: Int): Int {\n    return a + 1\n}\n", "fun f(a: Int): Int {\n    println(\"debug $a\")\n    return a + 1\n}\n", "debug-output"),
]  # fmt: skip
HARMLESS = [
    ("r.rb", "def f(start, stop)\n  h(stop)\n  k(stop)\n  m(stop)\nend\n", "def f(start, stop)\n  h(start)\n  k(start)\n  m(stop)\nend\n"),
    ("r.ts", "function f() {\n  this.x = b.x;\n  this.y = b.y;\n}\n", "function f() {\n  this.x = b.x;\n  this.z = b.z;\n}\n"),
    ("r.go", "func f() error {\n\treturn value\n}\n", "func f() error {\n\treturn other\n}\n"),
    ("q.go", "func f() string {\n\treturn g(api.PREFIX + \"a\")\n}\n", "func f() string {\n\treturn g(PREFIX + \"a\")\n}\n"),
    ("a.py", "def f(a):\n    return a < 1\n", "def f(a):\n    # at most\n    return a < 1\n"),
    ("a.py", "def f(a):\n    if a is None:\n        return 1\n    return 2\n\n\ndef g(a):\n    return 3\n",
     "def f(a):\n    return 2\n\n\ndef g(a):\n    if a is None:\n        return 1\n    return 3\n"),
    ("a.py", "def f(first):\n    return first < 1\n", "def f(one):\n    return one < 1\n"),
    ("a.go", "func f(a int) bool {\nreturn a < 1\n}\n", "func f(a int) bool {\n\treturn a < 1\n}\n"),
    ("a.py", "def f(a):\n    return a if a else 1\n", "def f(a):\n    if a:\n        return a\n    return 1\n"),
    ("a.ts", "function f(a: A<B>): C {\n  return g(a)\n}\n", "function f(a: A): C {\n  return g(a)\n}\n"),
    ("a.ts", "const text = 'a < b';\n", "const text = 'a <= b';\n"),
    ("a.md", "a < b\n", "a <= b\n"),
    ("a.py", "class A:\n    name: \"Name\" | None\n", "class A:\n    name: \"Name | None\"\n"),
    ("a.ts", "function f(a: A) {\n  return g({ p: a.p ?? null, q: 1 });\n}\n", "function f(a: A) {\n  return g({ p: a.p ?? 'auto', q: 1 });\n}\n"),
    ("a.cs", "class A { string F(string a) {\n return a ?? null;\n} }\n", "class A { string F(string a) {\n return a ?? \"\";\n} }\n"),
    ("a.js", "function f() {\n  g({\n    key: ['a', 'b'],\n    other: () => 1\n  });\n}\n", "function f() {\n  g({\n    key: ['a', 'b']\n  });\n}\n"),
    ("b.py", "def f(x, y):\n    if y < 0:\n        return None, None\n\n    if x < 0:\n        return 1, g(0, y)\n    return 2\n",
     "def f(x, y):\n    if x < 0 or y < 0:\n        return 1, g(max(0, x), max(0, y))\n    return 2\n"),
    ("a.go", "func f() error {\n\tif _, err := g(a); err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n",
     "func f() error {\n\tmu.Lock()\n\t_, err := g(a)\n\tmu.Unlock()\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n"),
    ("c.py", "def f(a):\n    return g(h(a).strip())\n", "def f(a):\n    b = h(a).strip()\n    return g(b)\n"),
]  # fmt: skip


def rules(path: str, old: str, new: str) -> list[str]:
    """The rules that a change meets, by their titles."""
    titles = {known.title: rule for rule, known in RULES.items()} | {QUESTION: "turned"}
    found = difference.run([changed_file(path, old, new)], ReviewContext(PARSERS))
    return [titles[finding.title] for finding in found]


@pytest.mark.parametrize(("path", "old", "new", "rule"), TURNED, ids=[f"{row[0]}: {row[3]}" for row in TURNED])
def test_what_is_taken_away_or_turned_round_is_noticed(path: str, old: str, new: str, rule: str) -> None:
    assert rules(path, old, new) == [rule]


@pytest.mark.parametrize(
    ("path", "old", "new", "rule"),
    [
        ("a.py", "def f(a, b):\n    g(\n        a if (b is not None and len(b) == 1) else a.lower()\n    )\n    h(b or 1)\n",
         "def f(a, b):\n    g(a)\n    h(b or 1)\n", "condition-removed"),
        ("b.py", "def f(a, b):\n    if b is not None:\n        g(b)\n    h(a)\n", "def f(a, b):\n    h(a)\n", "condition-removed"),
        ("c.py", "def f(a, b):\n    if b is None:\n        return 1\n    h(b)\n", "def f(a, b):\n    h(b)\n", "null-guard-removed"),
        ("a.js", "function f(a, b) {\n  if (b !== null) {\n    g(a)\n  }\n  h(a)\n}\n", "function f(a, b) {\n  h(a)\n}\n", "condition-removed"),
        ("a.go", "func f(a, b *T) {\n\tif b != nil {\n\t\tg(b)\n\t}\n\th(a)\n}\n", "func f(a, b *T) {\n\th(a)\n}\n", "condition-removed"),
        ("b.go", "func f(b *T) {\n\tif b == nil {\n\t\treturn\n\t}\n\th(b)\n}\n", "func f(b *T) {\n\th(b)\n}\n", "null-guard-removed"),
    ],
)  # fmt: skip
def test_a_guard_for_a_missing_value_guards_a_name_that_is_still_used(path: str, old: str, new: str, rule: str) -> None:
    assert rules(path, old, new) == [rule]


@pytest.mark.parametrize(("path", "old", "new"), HARMLESS)
def test_code_that_moves_or_changes_its_form_is_silent(path: str, old: str, new: str) -> None:
    assert rules(path, old, new) == []


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


CALLS = "def f(first, second):\n    return first\n\n\ndef group(first, second):\n    return f(first, second)\n"
SWAPPED = CALLS.replace("return f(first, second)", "return f(second, first)")
ONE = "def group(first, second):\n    return h(first, second)\n"
OTHER = ONE.replace("h(first, second)", "h(second, first)")


@pytest.mark.parametrize(("old", "new"), [(ONE, OTHER), (OTHER, ONE), (SWAPPED, CALLS)])
def test_an_edit_without_a_direction_is_a_question_that_counts_in_no_verdict(old: str, new: str) -> None:
    users = {"group": ["src/b.py", "a.py", "tests/test_a.py"]}
    result = ask("a.py", old, new, ReviewContext(PARSERS, is_known=True, files_with_words=lambda _words: users))
    assert (result.findings, result.verdict, result.overall_confidence) == ((), "no_deterministic_findings", 0.0)
    (question,) = result.questions
    assert question.startswith("P3 a.py:")
    assert question.endswith("group is used by tests/test_a.py, src/b.py. Is this intended?")


def test_an_edit_that_leaves_the_form_of_the_same_code_elsewhere_is_a_finding() -> None:
    result = ask("a.py", CALLS, SWAPPED, ReviewContext(PARSERS))
    (found,) = result.findings
    assert (found.priority, found.evidence, result.questions) == (2, ("a.py:1: def f(first, second):",), ())


@pytest.mark.parametrize(("turned", "is_found"), [("is", True), ("is not", False)])
def test_a_block_that_uses_what_its_condition_found_missing_is_a_finding(turned: str, is_found: bool) -> None:
    text = "def f(a):\n    if a {} None:\n        a.close()\n"
    old, new = text.format({"is": "is not", "is not": "is"}[turned]), text.format(turned)
    found = [finding.title for finding in ask("a.py", old, new, ReviewContext(PARSERS)).findings]
    assert found == ["Condition that fails"] * is_found


def test_a_large_change_is_not_compared() -> None:
    old = "def f(a):\n    return a < 1\n" + "".join(f"def g{at}():\n    return {at}\n" for at in range(20))
    new = old.replace("a < 1", "a <= 1") + "".join(f"def h{at}():\n    return {at}\n" for at in range(20))
    assert list(difference.run([changed_file("a.py", old, new)], ReviewContext(PARSERS))) == []
