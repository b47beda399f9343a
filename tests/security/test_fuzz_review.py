"""Fuzz tests of what a review reads and what a page shows: diffs, sources, reports of programs, diagrams, keys, plans' texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from context_engine.languages import Languages
from context_engine.languages.outline import outline_file
from context_engine.memory import importers
from context_engine.plans import mermaid
from context_engine.plans.model import Plan, PlanDiagram, PlanRisk, PlanStep
from context_engine.plans.plan_events import fold_progress
from context_engine.plans.plan_json import normalize_plan
from context_engine.plans.plan_json import parse_plan as read_plan
from context_engine.plans.plan_markdown import render_plan
from context_engine.review import analyzers
from context_engine.review.analyzers import OUTPUT_ERRORS
from context_engine.review.checks import CHECKS
from context_engine.review.reviewer import Reviewer
from context_engine.review.validation.mermaid_syntax import find_mermaid_errors
from context_engine.review.validation.validation_request import CONTENT_KINDS, ValidationRequest
from context_engine.secrets import redact
from context_engine.secrets.secret_finder import find_secrets
from context_engine.text.diff_reader import parse_diff as read_diff
from tests.plans.test_mermaid import LINE, shape
from tests.review.test_validating import SERVICE
from tests.security.fuzzing import ODD, as_bytes, fuzz, mutated
from tests.support.changes import PARSERS, changed_file, list_examples
from tests.support.secret_examples import drawn

DIFFS = [
    (
        "diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,4 @@ def f():\n a\n-b\n+c\n+d\n e\n"
        "\\ No newline at end of file\n"
    ),
    'diff --git "a/\\303\\244 b" "b/x y"\nsimilarity index 90%\nrename from a\nrename to b\nBinary files a and b differ\n',
    'diff --git "\ud800a/x" "b/x"\nBinary files a and b differ\n',
    "--- a/x\n+++ b/x\n@@ -1 +999999999999 @@\n-a\n+b\n",
    "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit 0123456\n",
    "Submodule s 0123456..89abcde:\n  > x\ndiff --cc a\n@@@ -1,1 -1,1 +1,2 @@@\n--- a\n",
]


def test_diffs() -> None:
    def read(text: str) -> None:
        for file in read_diff(text):
            file.text_of_hunks()
            for other in ("", "a\nb\ne", text):
                file.apply(other)
                file.revert(other)

    fuzz("diffs", mutated(DIFFS, ["@@ -1 +1 @@\n", "@@ -0,99999999999 +1,2 @@\n", "+++ ", "--- ", "diff --git "]), read)


GRAMMAR_REPEATS = 300
"""Some grammars of tree-sitter take quadratic time to recover from an error: Python's 0.7 s for `-->` a thousand times."""
SOURCES = {check.rule: example.text for check in CHECKS for example in list_examples(check)}


def test_sources_that_are_reviewed() -> None:
    paths = "a.py b.ts c.tsx e.go f.json g.yml h.toml Dockerfile .github/workflows/i.yml j.md".split()
    nests = ["(", "[", "lambda: ", "a.b", "not ", "-", "if x:\n ", "f'{", "x = ", "@a\n", "await ", "${{ "]
    reviewer = Reviewer()

    def read(given: tuple[str, str, str]) -> None:
        reviewer.review_file(changed_file(*given))

    texts = mutated(sorted(SOURCES.values()), nests, GRAMMAR_REPEATS).map(
        lambda text: text.encode("utf-8", "replace").decode()
    )
    fuzz("sources", st.tuples(st.sampled_from(paths), texts, texts), read)


@pytest.mark.parametrize(
    "text", ["-" * 3_000 + "1", "a" + ".b" * 3_000, "(" * 3_000, "f(" * 900 + ")" * 900, "x = " * 3_000 + "1"]
)
def test_python_that_nests_deeply_is_reviewed(text: str) -> None:
    Reviewer().review_file(changed_file("a.py", "x = 1\n", f"{text}\n"))


def test_contents_that_are_validated() -> None:
    seeds = [
        '{"a": [1]} // x',
        "a: &a [1]\nb: *a\n",
        "[a]\nb = 1\n",
        "# T\n```mermaid\nflowchart TD\n a-->b\n```\n",
        *DIFFS,
    ]
    schemas = [
        None,
        {"type": "object", "patternProperties": {"(a+)+$": {"type": "integer"}}, "properties": {"a": {"$ref": "#"}}},
    ]

    def read(given: tuple[str, str, str, Any]) -> None:
        SERVICE.validate(given[0], ValidationRequest(given[1], given[2], schema=given[3]))

    paths = st.sampled_from(["", "a.json", "a.jsonl", "a.yaml", "a.toml", "a.md", "a.py", "a.diff"])
    fuzz("contents", st.tuples(mutated(seeds), st.sampled_from(CONTENT_KINDS), paths, st.sampled_from(schemas)), read)


def test_diagrams_that_are_read() -> None:
    seeds = [
        '```mermaid\nflowchart TD\n  a["x"] -->|y| b{z}\n  subgraph s\n  end\n```\n',
        "sequenceDiagram\n alt x\n else y\n end\n",
    ]
    fuzz("diagrams", mutated(seeds, ["end\n", "%%{init: {}}%%", ">a", "|a"]), find_mermaid_errors)


def test_reports_of_programs(tmp_path: Path) -> None:
    seeds = [
        json.dumps([{"filePath": f"{tmp_path}/a.js", "messages": [{"ruleId": "x", "severity": 2, "line": 1, "message": "m"}]}]),
        json.dumps([{"filename": f"{tmp_path}/a.py", "code": "F401", "message": "m", "location": {"row": 1, "column": 1},
                     "end_location": {"row": 1, "column": 2}, "fix": {"message": "f"}}]),
        '{"type":"typo","path":"a","line_num":1,"typo":"teh","corrections":["the"]}\n',
        "a.ts(1,2): error TS2322: why\n# x\n./a.go:1:2: why\n",
        ('{"reason":"compiler-message","message":{"level":"error","message":"m","code":{"code":"E1"},'
        '"spans":[{"is_primary":true,"file_name":"a.rs","line_start":1,"line_end":2}]}}\n'),
    ]  # fmt: skip

    def read(text: str) -> None:
        for analyzer in analyzers.ALL:
            try:
                analyzer.read(as_bytes(text), "", tmp_path)
            except OUTPUT_ERRORS:
                continue

    fuzz("reports of programs", mutated(seeds), read)


def test_outlines() -> None:
    languages = Languages.builtin()
    seeds = {language.name: "class A:\n  def f(x): return 1\n/* c */ function g() { return `a`; }\n# h\n<a>b</a>\n"
             for language in languages.listed}  # fmt: skip

    def read(given: tuple[str, str]) -> None:
        outline_file(languages[given[0]], as_bytes(given[1]), PARSERS.grammars)

    texts = st.sampled_from(sorted(seeds)).flatmap(
        lambda name: st.tuples(st.just(name), mutated([seeds[name]], ["{", "(", "<a>", 'R"(a'], GRAMMAR_REPEATS))
    )
    fuzz("outlines", texts, read)


def test_documents_that_are_learned_from() -> None:
    seeds = [
        "# 1. Use x\n\nStatus: accepted\n\n## Context\n\nWords.\n- a\n",
        "// TODO(me): do this thing now */\n",
        "Rules\n=====\n* Never x.\n",
    ]

    def read(text: str) -> None:
        for path in ("docs/adr/0001-x.md", "AGENTS.md", "CONTRIBUTING.md", "src/a.py"):
            importers.import_file(path, text)

    fuzz("documents", mutated(seeds, ["# ", "*", "status", "TODO "]), read)


def test_secrets() -> None:
    key = drawn("-----BEGIN RSA PRIVATE KEY-----\n{B64:64}\n{B64:64}\n-----END RSA PRIVATE KEY-----\n", "fuzz").text
    seeds = [key, f"k = {key!r}\n", 'password = "x"\ntoken: "y"\nhttps://u:p@h/\n']

    def read(text: str) -> None:
        find_secrets(text)
        redact(text)

    fuzz("secrets", mutated(seeds, ["-----BEGIN RSA PRIVATE KEY-----", "\\n", "Proc-Type: 4,ENCRYPTED\n"]), read)


# -- hostile texts in plans ---------------------------------------------------------------------------------------------

HOSTILE = (
    "</title><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    '"><a href="https://example.org">',
    "&lt;b&gt; &amp; ]]> <!-- -->",
    "\x00\x1b[31m\u202eevil\ud800",
    "{{ 7 * 7 }} ${x} `y`",
    "</pre><script>alert(1)</script>",
)
MARKUP = [
    *HOSTILE, "javascript:alert(1)", "<svg onload=alert(1)>", "</text></svg><script>", "--><script>", "<math><mtext></p><style><!--</style>",
    "data:text/html,<script>", "\"]-->x[\"", "click a href \"javascript:alert(1)\"", "%%{init: {'securityLevel':'loose'}}%%", "[x](javascript:alert(1))",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from([*MARKUP, *ODD]) | st.text(max_size=10), min_size=1, max_size=4).map("".join)


def hostile_everywhere(text: str) -> Plan:
    """Return a plan that contains this text in every field that takes one."""
    step = PlanStep(
        title=text, description=text, files_to_modify=(text,), files_to_create=(text,), files_to_delete=(text,),
        acceptance_criteria=(text,), checks=(text,), estimated_effort=text,
    )  # fmt: skip
    plan = Plan(goal=text, task=f"{text}!", steps=(step, step), risks=(PlanRisk(text, text),), open_feedback=(text,))
    plan = normalize_plan(plan)
    architecture = msgspec.structs.replace(
        plan.architecture, notes=text, patterns_used=(text,), diagrams=(PlanDiagram(text, text),)
    )
    return msgspec.structs.replace(plan, architecture=architecture)


def sent(text: str) -> Plan:
    """A plan as `save_plan` takes it, this text wherever it may have one: goal, steps, risks, questions, diagrams, paths."""
    payload = msgspec.to_builtins(hostile_everywhere(text))
    payload |= {"questions": [{"id": "q", "text": text, "answer": text}], "testing_strategy": {"unit": text}}
    payload["milestones"] = [{"name": text, "steps": [1]}]
    payload["steps"] = [
        {key: value for key, value in step.items() if key not in ("uid", "depends_on")} for step in payload["steps"]
    ]
    return read_plan(payload).plan


@pytest.mark.parametrize("text", MARKUP)
def test_the_hostile_plan_arrives_with_its_texts(text: str) -> None:
    if "\ud800" in text:
        return
    plan = sent(text)
    assert len(plan.steps) == 2
    assert plan.risks and plan.steps[0].description


def test_markdown_of_plans() -> None:
    def read(text: str) -> None:
        plan = sent(text)
        render_plan(plan, fold_progress(plan, ()))

    fuzz("Markdown of plans", TEXTS, read)


def test_pictures_of_plans() -> None:
    def read(text: str) -> None:
        plan = sent(text)
        state = fold_progress(plan, ())
        modules = {text: [1]}
        for drawing in (
            *(mermaid.draw_plan(kind, plan, state) for kind in ("dependencies", "progress", "gantt")),
            mermaid.draw_architecture(modules, []),
        ):
            assert [line for line in shape(drawing.mermaid) if not LINE.fullmatch(line)] == []

    fuzz("pictures of plans", TEXTS, read)
