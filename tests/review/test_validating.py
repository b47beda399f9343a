"""Content looked at in tiers: what is broken fails, what is sound never does, and what nobody can tell is said to be skipped."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import FileNotFound, InvalidArgument, NotIndexed
from context_engine.languages import PathIndex
from context_engine.languages.brackets import check_brackets, check_c_brackets, find_bracket_problem
from context_engine.repo.paths import Root
from context_engine.review.checks.file_checks import find_conflicts
from context_engine.review.validation.content_validation import ValidationService
from context_engine.review.validation.mermaid_syntax import find_mermaid_errors
from context_engine.review.validation.validation_request import (
    CONTENT_KINDS,
    ValidationRequest,
    ValidationResult,
    tier_of,
)
from context_engine.secrets import redact
from context_engine.secrets.secret_finder import find_secrets
from tests.support.engines import GRAMMARS, LANGUAGES

FILES = {
    "src/app.py": "def login():\n    return 1\n",
    "src/util.ts": "export const a = 1\n",
    "src/stream.py": "class LazyStream:\n    def __getattr__(self, name):\n        return 1\n",
}
PLAN = json.dumps(
    {
        "goal": "Login returns 2.",
        "steps": [{"title": "Return 2", "description": "d", "files_to_create": ["src/app.py"]}],
    }
)
KEY = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW2xY4"


class Files:
    """A workspace of some files that has no index."""

    def read(self, path: str) -> Any:
        if path not in FILES:
            raise FileNotFound(f"{path} does not exist", suggestion="name another")
        return SimpleNamespace(text=FILES[path])

    def complete_path(self, typed: str, *, limit: int) -> tuple[tuple[str, ...], int]:
        return tuple(path for path in FILES if typed in path)[:limit], 0

    def paths(self) -> PathIndex:
        return PathIndex(FILES)

    def files_named(self, name: str) -> tuple[str, ...]:
        return tuple(path for path in FILES if f"/{path}".endswith(f"/{name}"))

    def find(self, name: str, *, limit: int) -> Any:
        raise NotIndexed("there is no index", suggestion="index it")

    def outline(self, path: str) -> Any:
        raise NotIndexed("there is no index", suggestion="index it")


REDACTOR: Any = SimpleNamespace(find=lambda text, path: find_secrets(text, path=path), redact=redact)
WORKSPACE: Any = SimpleNamespace(files=Files(), search=Files(), symbols=Files())
SERVICE = ValidationService(LANGUAGES, GRAMMARS, REDACTOR, WORKSPACE, Root(Path(__file__).parent))


def look(content: str, path: str = "", kind: str = "raw_text", **wanted: Any) -> ValidationResult:
    return SERVICE.validate(content, ValidationRequest(kind=kind, path=path, **wanted))


def rules(found: ValidationResult) -> set[str]:
    return {finding.rule for finding in found.findings}


# -- broken content fails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.py", "def 1x() retrn {}"),
        ("a.py", "x = (1\n"),
        ("a.py", "print 'old'\n"),
        ("a.go", "package a\n\nfunc f( {\n}\n"),
        ("A.java", "class A { void f() { retrn 1; } }"),
        ("a.rb", "def f\n  (1\nend\n"),
        ("a.js", "function f() { return (1 }"),
        ("a.ts", 'const a: string = "b;\nconst c = [1, 2;\n'),
        ("a.rs", "fn f() { let x = (1; }"),
        ("a.php", "<?php function f() { return [1; }"),
        ("a.cs", "class A { void F() { G(; } "),
        ("a.c", 'int f(void) { puts("a);\n}\n'),
        ("a.cpp", "class A { void f() { };\n"),
        ("a.swift", "func f() { let x = (1 }"),
        ("a.lua", "local x = {1, 2\nprint(x"),
        ("a.json", '{"a": 1,, "b": 2}'),
        ("package.json", '{"a": 1,}'),
        ("a.toml", "a = \nb = 1"),
        ("a.yaml", "a: [1, 2\nb: 3"),
        ("a.jsonl", '{"a": 1}\n{"a": \n'),
    ],
)
def test_content_that_its_parser_refuses_fails(path: str, content: str) -> None:
    found = look(content, path)
    assert not found.has_passed
    assert [
        finding for finding in found.findings if finding.severity == "error" and tier_of(finding) == 1 and finding.line
    ]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("json", "{'a': 1}"),
        ("json", '{"a": NaN}'),
        ("json", '{"a": 1} // why'),
        ("yaml", "a: b: c"),
        ("toml", "[a"),
        ("diff", "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n-a\n+b\n"),
        ("mermaid", "graph TD\n  A[Start --> B"),
        ("mermaid", "graph TD\n  A -->"),
        ("mermaid", "flowchart LR\n  A -.-> ;\n  A --> B"),
        ("plan_output", '{"foo": 1}'),
        ("plan_output", "{"),
        ("review_finding", '[{"title": "x"}]'),
    ],
)
def test_what_is_no_content_of_its_kind_fails(kind: str, content: str) -> None:
    assert not look(content, kind=kind).has_passed


@pytest.mark.parametrize(
    "content",
    ["```python\nx = 1\n```\n", "Here is the updated file, as you asked for:\n\nx = 1\n"],
    ids=["fence", "talk"],
)
@pytest.mark.parametrize("path", ["a.py", "a.go", "a.js", "a.rs", "a.c"])
def test_what_an_answer_was_wrapped_in_is_no_code(path: str, content: str) -> None:
    assert not look(content, path).has_passed


# -- sound content never fails -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.py", 'x = "("\ny = "]}"  # (((\n'),
        ("a.py", "type Pair[T] = tuple[T, T]\n"),
        ("a.py", 'x = """\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> c\n"""\n'),
        ("a.pyi", "def f(): ...\n"),
        ("a.pyx", "cdef int f(int x): return x\n"),
        ("a.js", "const r = /[(]/; const s = `(${[1]}`; // )\n"),
        ("a.ts", "export type * from 'b'\n"),
        ("a.rs", 'fn f() { assert_eq!(x, str![[r#"("#]]); let c = \'(\'; let l: &\'static str = "}"; }'),
        ("script.rs", '#!/usr/bin/env cargo\n---\n[dependencies]\nit\'s = "("\n---\nfn main() {}\n'),
        ("a.c", "#define OPEN {\n#if A\nint f(int a) {\n#else\nint f(void) {\n#endif\n  return '('; /* ( */\n}\n"),
        ("a.cpp", 'int n = 1\'000; auto s = R"(()"; auto t = R"x(()x";\n'),
        ("a.cs", "unsafe { value = *(float*)&intValue; }"),
        ("a.php", "<?php $a = clone $b = clone $c; echo '('; ?>\n<p>it's (fine</p>"),
        ("a.sh", "case $1 in\n  a) echo;;\nesac\n"),
        ("a.rb", "x = %w[( {]\nputs \"#{'('}\"\n"),
        ("a.json", '{"n": ' + "9" * 5_000 + "}"),
        ("tsconfig.json", '{\n  // why\n  "a": 1,\n}'),
        ("cspell.json", '{\n  // why\n  "a": 1,\n}'),
        ("a.yaml", "a: !Ref b\n---\nc: &x 1\nd: *x\n"),
        ("chart/templates/a.yaml", "{{- if .Values.a }}\na: b\n{{- end }}\n"),
        ("README.md", "```\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> c\n```\nשלום (\n"),
        ("a.html", "<p>a ( b { c</p>"),
        ("a.unknown", "(((("),
        ("", "Anything ((( at all."),
    ],
)
def test_sound_content_passes_whatever_its_strings_and_macros_hold(path: str, content: str) -> None:
    found = look(content, path)
    assert found.has_passed, found.findings


@given(
    st.sampled_from([*CONTENT_KINDS]),
    st.sampled_from(["", "a.py", "a.js", "a.c", "a.json", "a.yaml", "a.md"]),
    st.text(),
)
def test_whatever_comes_is_answered(kind: str, path: str, content: str) -> None:
    found = look(content, path, kind)
    assert found.tiers_run == (0, 1, 2)
    assert all(tier_of(finding) < 2 for finding in found.findings if finding.severity == "error")


def test_what_nobody_can_parse_is_skipped_with_its_reason() -> None:
    assert look("x", "a.unknown", "generated_code").skipped == ((1, "a.unknown is in no language that we know"),)
    assert look("FROM x", "Dockerfile").skipped == ((1, "there is no parser for dockerfile"),)
    assert look("[" * 100_000, "a.json").skipped == ((1, "it is nested deeper than a parser can follow"),)
    assert look("(" * 100_000, "a.py").findings
    assert look("plain words").skipped == ()


def test_a_parser_that_stumbles_in_healthy_files_only_warns() -> None:
    found = look("fn main() { let x = = 1; }", "a.rs")
    assert found.has_passed
    assert rules(found) == {"syntax-doubt"}


# -- characters and marks ----------------------------------------------------------------------------------------------


def test_a_character_that_turns_code_around_is_flagged() -> None:
    found = look("x = 1  # \u202e } \u2066 { evil\n", "a.py")
    assert [(finding.rule, finding.line, finding.column, finding.severity) for finding in found.findings[:1]] == [
        ("bidi-character", 1, 10, "error")
    ]
    assert look("x = '\u2067שלום\u2069'\n", "a.py").has_passed
    assert rules(look("x = '\u2067שלום\u2069'\n", "a.py")) == {"bidi-character"}


def test_nul_and_characters_that_cannot_be_seen_are_flagged() -> None:
    assert "nul-character" in rules(look("a\0b", "notes.txt"))
    assert not look("a\0b").has_passed
    assert rules(look("pass\u200bword = 1")) == {"hidden-character"}
    assert look("\ufeffx = 1\n", "a.py").findings == ()
    assert rules(look("caf\ufffd")) == {"replacement-character"}


def test_a_conflict_needs_all_its_marks_in_order() -> None:
    whole = "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> d\n"
    assert list(find_conflicts((whole * 2).split("\n"))) == [[2, 4, 6], [8, 10, 12]]
    assert not list(find_conflicts(["Title", "======="]))
    assert not list(find_conflicts(whole.replace("=======\n", "").split("\n")))
    assert not look(whole, "a.js").has_passed
    assert look(whole, "a.md").has_passed


# -- tier 0 ------------------------------------------------------------------------------------------------------------


def test_a_secret_fails_content_and_is_taken_out() -> None:
    found = look(f'token = "{KEY}"\n', "a.py")
    assert not found.has_passed
    assert [tier_of(finding) for finding in found.findings] == [0]
    assert found.secrets == 1
    assert found.redacted is not None
    assert KEY not in found.redacted


def test_what_is_said_of_a_content_holds_none_of_its_secrets() -> None:
    found = look(f"# ... rest of the code unchanged {KEY}\n", "a.py")
    assert found.secrets
    assert KEY not in repr(found.findings)


# -- tier 2 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "content", "rule"),
    [
        ("a.js", "f()\n// ... rest of the code unchanged\n", "placeholder"),
        ("a.go", "package a\n// TODO: implement this\n", "placeholder"),
        ("a.py", "def f():\n    ...\n", "empty-body"),
        ("a.py", "def f(a):\n    return b\n", "undefined-name"),
        ("a.py", "x = 1  # FIXME later\n", "todo"),
        ("a.py", "breakpoint()\n", "debug-output"),
        ("a.js", "console.log(1)\n", "debug-output"),
        ("a.rs", "fn f() { dbg!(1); }\n", "debug-output"),
        ("a.php", "<?php var_dump($a);\n", "debug-output"),
        ("a.py", "x = 'https://api.acme.io/v1'\n", "hard-coded-url"),
        ("a.py", "x = '10.20.30.40'\n", "hard-coded-ip"),
        ("a.py", f"x = {' + '.join('1' * 60)}\n", "long-line"),
        ("a.js", "if (a) {\n  b()\n  c()\n" + "  d()\n" * 20 + "\te()\n}\n", "mixed-indentation"),
        ("src/b.py", "try:\n    from .nowhere import x\nexcept ImportError:\n    x = 1\n", "unresolved-import"),
        ("src/b.py", "from ._version import version\n", "unresolved-import"),
        ("README.md", "```mermaid\ngraph TD\n  A[x --> B\n```\n", "broken-diagram"),
    ],
)
def test_a_habit_is_told_and_fails_nothing(path: str, content: str, rule: str) -> None:
    found = look(content, path)
    assert rule in rules(found), found.findings
    assert found.has_passed


@pytest.mark.parametrize(
    ("path", "content", "rule"),
    [
        ("a.json", '{"a": 1, "a": 2}', "repeated-key"),
        ("src/b.py", "from .nowhere import x\n", "unresolved-import"),
        ("src/b.py", "from .app import logout\n", "unknown-import-name"),
        ("src/b.ts", "import { b } from './util'\n", "unknown-import-name"),
        ("src/b.py", "from .stream import LazyStreams\n", "unknown-import-name"),
        ("a.yaml", "a:\n  b: 1\n  c: [1, 2]\n  b: 2\n", "repeated-key"),
        ("a.py", "x = {'a': 1, 'b': {'a': 2}, 'a': 3}\n", "repeated-key"),
        ("src/b.ts", "import { x } from './nowhere'\n", "unresolved-import"),
    ],
)
def test_what_the_workspace_or_the_data_refutes_fails(path: str, content: str, rule: str) -> None:
    found = look(content, path)
    assert [finding.rule for finding in found.findings if finding.severity == "error"] == [rule]
    assert not found.has_passed


def test_a_plan_in_markdown_is_read_as_markdown() -> None:
    written = "# Plan\n\n1. Return 2 in `src/app.py`\n2. Change `src/gone.py`\n"
    found = look(written, kind="plan_output")
    assert (found.has_passed, rules(found)) == (True, {"unknown-file"})
    assert "it is Markdown" in found.skipped[0][1]
    assert not look('{"goal": 1,', kind="plan_output").has_passed


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.py", "x = 'print()'  # console.log\n"),
        ("a.py", "from typing import Protocol\n\nclass A(Protocol):\n    def f(self): ...\n"),
        ("a.py", "import abc\n\nclass A:\n    @abc.abstractmethod\n    def f(self): ...\n"),
        ("a.py", "x = 'http://localhost:80 https://example.com 127.0.0.1 1.2.3.4.5'\n"),
        ("a.js", "f(...rest)\n"),
        ("src/b.ts", "import { a } from './util'\nimport fs from 'fs'\n"),
        ("src/b.py", "from .app import login\n"),
        ("a.yaml", "- a: 1\n  b: {a: 1}\n- a: 2\n---\na: 1\n"),
        ("a.py", "x = {1: 'a', '1': 'b', True: 'c'}\n"),
        ("src/b.py", "from . import app\nimport requests.sessions\n"),
        ("a.md", "TODO: buy milk at https://milk.shop\n"),
    ],
)
def test_what_only_looks_like_a_habit_is_not_told(path: str, content: str) -> None:
    assert look(content, path).findings == ()


def test_a_hunk_is_held_against_the_file_as_it_is() -> None:
    fits = "--- a/src/app.py\n+++ b/src/app.py\n@@ -9,2 +9,2 @@\n def login():\n-    return 1\n+    return 2\n"
    assert look(fits, kind="diff").findings == ()
    assert rules(look(fits.replace("return 1", "return 3"), kind="diff")) == {"hunk-does-not-apply"}
    assert rules(look(fits.replace("app.py", "nowhere.py"), kind="diff")) == {"unknown-file"}


# -- shapes ------------------------------------------------------------------------------------------------------------


def finding(**changed: Any) -> str:
    place = {"file_path": "src/app.py", "line_range": {"start": 1, "end": 2}}
    values: dict[str, Any] = {
        "title": "t",
        "body": "b",
        "priority": 1,
        "confidence_score": 0.5,
        "code_location": place,
        "quote": "return 1",
    }
    return json.dumps(values | changed)


def test_a_finding_stands_on_lines_and_code_that_are_there() -> None:
    assert look(finding(), kind="review_finding").has_passed
    assert rules(look(finding(quote="return 7"), kind="review_finding")) == {"finding-anchor"}
    nowhere = {"file_path": "src/app.py", "line_range": {"start": 1, "end": 90}}
    assert rules(look(finding(code_location=nowhere), kind="review_finding")) == {"finding-anchor"}
    assert rules(look(finding(priority=9), kind="review_finding")) == {"finding-schema"}


def test_data_is_held_against_a_schema() -> None:
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": False,
    }
    for kind, good, bad in (
        ("json", '{"a": 1}', '{"a": "x", "b": 1}'),
        ("yaml", "a: 1", "b: 1"),
        ("toml", "a = 1", 'a = "x"'),
    ):
        assert look(good, kind=kind, schema=schema).has_passed
        assert rules(look(bad, kind=kind, schema=schema)) == {"schema"}


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not a JSON Schema"):
        look("{}", kind="json", schema={"type": "nonsense"})


def test_no_machine_is_asked_for_a_part_of_a_schema() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        place = f"http://127.0.0.1:{listening.getsockname()[1]}/schema.json"
        with pytest.raises(InvalidArgument, match="does not contain"):
            look("{}", kind="json", schema={"$ref": place})
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_no_pattern_of_a_schema_takes_forever() -> None:
    slow = {"properties": {"a": {"pattern": "^(a+)+$"}}, "patternProperties": {"^(b+)+$": {"type": "string"}}}
    assert not look('{"a": "' + "a" * 40 + '!", "' + "b" * 40 + '!": 1}', kind="json", schema=slow).has_passed
    around = look('{"a": "b"}', kind="json", schema={"properties": {"a": {"pattern": "(?=x)y"}}})
    assert around.has_passed
    assert rules(around) == {"schema-pattern"}


# -- how it is told ----------------------------------------------------------------------------------------------------


def test_of_a_new_version_only_what_is_new_is_told() -> None:
    old = "x = 1  # TODO a\nprint(1)\n"
    found = look("import os\nx = 1  # TODO a\nprint(1)\nprint(2)\n", "a.py", base=old)
    assert [(finding.rule, finding.line) for finding in found.findings] == [("debug-output", 4)]
    assert look("def f(:\n", "a.py", base="def f(:\n").has_passed
    assert not look("def f(:\nx = (\n", "a.py", base="x = (\n").has_passed


def test_after_an_error_later_tiers_can_be_left_out() -> None:
    found = look("x = (  # TODO\n", "a.py", stops_on_error=True)
    assert found.tiers_run == (0, 1)
    assert found.skipped == ((2, "an earlier tier found an error"),)


def test_tiers_can_be_chosen() -> None:
    found = look("x = (  # TODO\n", "a.py", tiers=frozenset({2}))
    assert (found.tiers_run, rules(found)) == ((0, 2), {"todo"})


# -- brackets, code and diagrams ---------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("()[]{}"), max_size=12))
def test_brackets_close_when_pairs_can_be_taken_out_until_none_is_left(brackets: list[str]) -> None:
    left, before = "".join(brackets), None
    while left != before:
        before = left
        for pair in ("()", "[]", "{}"):
            left = left.replace(pair, "")
    assert (check_brackets((each, 1, column) for column, each in enumerate(brackets, 1)) is None) == (not left)


@pytest.mark.parametrize(
    "code",
    [
        "#if 0\n}}}\n#endif",
        "#if 0\n(\n#else\n#endif",
        "#if A\n#elif B\n{\n#else\n{\n#endif",
        "#define X (\\\n (",
        "'\"' '('",
    ],
)
def test_what_the_preprocessor_leaves_out_does_not_count(code: str) -> None:
    assert check_c_brackets(code) is None


def test_brackets_that_the_parser_takes_for_text_are_closed_where_the_text_has_as_many_of_both() -> None:
    body = 'if (n) {\n        }\n        where?.let {\n        }\n        limit?.let { +" LIMIT $it" }\n'
    sound = f"object A : B() {{\n    override fun <T : C?> j(a: D<T>) {{\n    }}\n    fun insert(\n    ): String {{\n        {body}    }}\n    override fun delete(\n    ): String {{\n        if (n) {{\n        }}\n    }}\n}}\n"
    assert find_bracket_problem(LANGUAGES["kotlin"], sound.encode(), GRAMMARS) is None
    for cut in ("(", ")", "{", "}", '"'):
        assert find_bracket_problem(LANGUAGES["kotlin"], sound.replace(cut, "", 1).encode(), GRAMMARS)


@pytest.mark.parametrize(
    "diagram",
    [
        "graph TD\n  A[Start] --> B{ok?}\n  B -->|a ( b| C((x))\n  subgraph one\n    D>flag] --> E[(db)]\n  end\n",
        'flowchart LR\n  a["( [ {"] --> b\n  style a fill:#f9f,stroke:#333\n',
        "sequenceDiagram\n  A->>B: hi (\n  alt yes\n    B-->>A: ok\n  else no\n    B-->>A: [\n  end\n",
        "classDiagram\n  class A {\n    +f(x) int\n  }\n  A <|-- B : is {a\n",
        "erDiagram\n  A ||--o{ B : has\n  A {\n    int id\n  }\n",
        "---\ntitle: x [\n---\n%%{init: {'theme': 'dark'}}%%\npie title Pets\n  \"a (\" : 3\n",
        "stateDiagram-v2\n  [*] --> A\n  state A {\n    x --> y\n  }\n",
        "gantt\n  title a (b\n",
        "xychart-beta\n  title [\n",
        "```mermaid\ngraph TD\n  A --> B\n```",
    ],
)
def test_a_diagram_that_can_be_drawn_has_no_fault(diagram: str) -> None:
    assert find_mermaid_errors(diagram) == ()


@pytest.mark.parametrize(
    ("diagram", "line"),
    [
        ("", 1),
        ("grahp TD\n A --> B", 1),
        ("hello world", 1),
        ("graph TD\n  A[x --> B", 2),
        ("graph TD\n  subgraph a\n  A --> B", 2),
        ("graph TD\n  A --> B\n  end", 3),
        ("sequenceDiagram\n  loop x\n  A->>B: y", 2),
        ("classDiagram\n  class A {\n  +f()", 2),
    ],
)
def test_a_diagram_that_cannot_be_drawn_says_where(diagram: str, line: int) -> None:
    faults = find_mermaid_errors(diagram)
    assert [fault.line for fault in faults[:1]] == [line]
