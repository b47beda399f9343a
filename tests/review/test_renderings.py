"""A review as Markdown, SARIF and rdjson: everything that was found, at its place, and everything that was not looked at."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from context_engine.model import Finding, Suggestion
from context_engine.review.finding import CATEGORIES, PRIORITIES, ReviewOptions
from context_engine.review.review_formats import FINGERPRINT, render_rdjson, render_review, render_sarif
from context_engine.review.verdict import AnalyzerRun, ChangeSummary, Coverage, FileCoverage, ReviewResult, make_result
from context_engine.text.lines import LineSpan

FIX = Suggestion("Close it.", "with open(path) as file:\n    pass", can_auto_fix=True)
LEAK = Finding(
    "open-not-closed", "builtin", "The file is never closed", "It stays open until the process ends.", 1, "correctness",
    0.8, "src/größe ä.py", LineSpan(3, 4), "file = open(path)", "f1", is_on_changed_line=True,
    evidence=("src/other.py:9: load(path)",), suggestion=FIX,
)  # fmt: skip
TOKEN = Finding(
    "github-token",
    "builtin",
    "A secret",
    "",
    0,
    "security",
    0.95,
    "a.py",
    LineSpan(1, 1),
    "x",
    "f2",
    is_on_changed_line=True,
)
COVERAGE = Coverage(
    (FileCoverage("a.py"), FileCoverage("src/größe ä.py", partly="not parsed"), FileCoverage("logo.png", "binary")),
    (AnalyzerRun("ruff", True, 12, 1), AnalyzerRun("tsc", False, why_not="not installed")),
)


def reviewed(*findings: Finding, **other: Any) -> ReviewResult:
    options = other.pop("options", ReviewOptions())
    return make_result(findings, options, COVERAGE, ChangeSummary("code", 3, ("size: 90 changed lines",)), **other)


def run_of(text: str) -> dict[str, Any]:
    (run,) = json.loads(text)["runs"]
    return run


def test_markdown_tells_the_worst_first_and_what_was_not_looked_at() -> None:
    made = reviewed(LEAK, TOKEN, warnings=["tsc is missing"], options=ReviewOptions(fail_on="P1"))
    lines = render_review(made, "markdown", version="1").split("\n")
    assert lines[:3] == ["# Review: Must not be merged as it is", "", "```"]
    for said in (
        f"P1 src/größe ä.py:3-4  {LEAK.title}",
        "       3 │ file = open(path)",
        "   do Close it.",
        "   builtin open-not-closed · correctness · confidence 0.80 · f1",
        "risk 3 of 5: size: 90 changed lines",
        "not looked at: logo.png (binary)",
        "reviewed in part: src/größe ä.py (not parsed)",
        "did not run: tsc (not installed)",
        "warning: tsc is missing",
    ):
        assert said in lines
    assert any(line.startswith("fails: ") for line in lines)


def test_what_code_holds_cannot_break_out_of_its_fence_or_its_line() -> None:
    hostile = replace(LEAK, quote="```\n# Approved", title="# Approved\n\n# Approved", body="x\n````\n# Approved")
    text = render_review(reviewed(hostile), "markdown", version="1")
    assert [line for line in text.split("\n") if line.startswith(("# ", "```"))] == [
        "# Review: Must not be merged as it is",
        "`````",
        "`````",
    ]


def test_sarif_places_each_finding_and_knows_it_again() -> None:
    run = run_of(render_sarif(reviewed(LEAK, TOKEN), version="0.1.0"))
    token, leak = run["results"]
    assert leak["locations"][0]["physicalLocation"]["region"] == {"startLine": 3, "endLine": 4}
    uri = leak["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert (unquote(uri), uri.isascii(), " " in uri) == ("src/größe ä.py", True, False)
    assert (token["level"], leak["level"], leak["partialFingerprints"]) == ("error", "error", {FINGERPRINT: "f1"})
    rules = [each["id"] for each in run["tool"]["driver"]["rules"]]
    assert [rules[each["ruleIndex"]] for each in run["results"]] == ["github-token", "open-not-closed"]
    assert leak["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"] == FIX.replacement
    severities = [each["properties"].get("security-severity") for each in run["tool"]["driver"]["rules"]]
    assert severities == ["9.0", None]


def test_sarif_says_what_was_not_looked_at_and_that_an_unfinished_review_did_not_succeed() -> None:
    for partial in (False, True):
        (invocation,) = run_of(render_sarif(reviewed(is_partial=partial, warnings=["hm"]), version="0.1.0"))[
            "invocations"
        ]
        said = [(each["level"], each["message"]["text"]) for each in invocation["toolExecutionNotifications"]]
        assert ("note", "logo.png was not looked at: binary") in said
        assert ("note", "tsc did not run: not installed") in said
        assert ("warning", "hm") in said
        assert invocation["executionSuccessful"] is not partial
        assert any(level == "error" for level, _ in said) is partial


def test_rdjson_is_what_reviewdog_reads() -> None:
    told = json.loads(render_rdjson(reviewed(LEAK, TOKEN)))
    token, leak = told["diagnostics"]
    assert (told["source"], told["severity"]) == ({"name": "context-engine"}, "ERROR")
    assert leak["location"] == {"path": "src/größe ä.py", "range": {"start": {"line": 3}, "end": {"line": 4}}}
    assert (leak["code"], token["severity"]) == ({"value": "open-not-closed"}, "ERROR")
    (fix,) = leak["suggestions"]
    assert fix["range"] == {"start": {"line": 3, "column": 1}, "end": {"line": 5, "column": 1}}
    assert fix["text"].endswith("pass\n")
    assert json.loads(render_rdjson(reviewed()))["diagnostics"] == []


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=30)
findings = st.builds(
    Finding,
    rule=st.sampled_from(["a", "b", "c"]),
    source=st.sampled_from(["builtin", "host"]),
    title=texts,
    body=texts,
    priority=st.integers(0, 3),
    category=st.sampled_from(CATEGORIES),
    confidence=st.floats(0.7, 1),
    path=texts,
    span=st.integers(1, 99).map(lambda first: LineSpan(first, first + 2)),
    quote=texts,
    id=st.uuids().map(str),
    is_on_changed_line=st.just(True),
    evidence=st.lists(texts, max_size=2).map(tuple),
    suggestion=st.none() | st.builds(Suggestion, texts, texts, st.booleans()),
)


@given(st.lists(findings, max_size=5))
def test_every_finding_is_told_in_every_form(found: list[Finding]) -> None:
    whole = reviewed(*found)
    run = run_of(render_sarif(whole, version="0.1.0"))
    assert [each["partialFingerprints"][FINGERPRINT] for each in run["results"]] == [each.id for each in whole.findings]
    for each in run["results"]:
        assert run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        assert_sarif(each)
    assert len(json.loads(render_rdjson(whole))["diagnostics"]) == len(whole.findings)
    headings = re.findall(r"^(P\d) ", render_review(whole, "markdown", version="1"), re.MULTILINE)
    assert headings == [PRIORITIES[each.priority] for each in whole.findings]


def assert_sarif(result: dict[str, Any]) -> None:
    """What section 3.27 of the standard asks of a result, and 3.30 of its region."""
    assert result["level"] in ("none", "note", "warning", "error")
    assert isinstance(result["message"]["text"], str)
    assert 0 <= result["rank"] <= 100
    region = result["locations"][0]["physicalLocation"]["region"]
    assert 1 <= region["startLine"] <= region["endLine"]
