"""PURE. A review in its text formats: JSON, Markdown, SARIF 2.1.0 (OASIS), and the rdjson of reviewdog.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html
https://github.com/reviewdog/reviewdog/tree/master/proto/rdf
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import msgspec

from context_engine.model import Finding
from context_engine.review.finding import PRIORITIES, finding_to_json
from context_engine.review.verdict import ReviewResult
from context_engine.text import escape_line, fence_for, join_first

JSON_FILES_MAX = 200
FILES_NAMED_MAX = 5
"""More skipped files than this are counted, not listed."""


def render_review(result: ReviewResult, format: str, *, version: str) -> str:  # noqa: A002 - the word of the contract
    """Return a review as `json`, `markdown`, `sarif` or `rdjson`. `version` is that of the product."""
    match format:
        case "json":
            return _dump(review_to_json(result))
        case "sarif":
            return render_sarif(result, version=version)
        case "rdjson":
            return render_rdjson(result)
    lines = [line for finding in result.findings for line in (*format_finding(finding), "")]
    text = "\n".join([*lines, *format_review(result)])
    fence = fence_for(text)
    return f"# Review: {escape_line(result.headline)}\n\n{fence}\n{text}\n{fence}\n"


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def review_to_json(result: ReviewResult) -> dict[str, Any]:
    """Return the whole review as JSON values, also those that are empty."""
    coverage = result.coverage
    skipped, partly = (
        [{"path": file.path, "why": file.reason} for file in files]
        for files in (coverage.files_skipped, coverage.files_partly)
    )
    return {
        "findings": [finding_to_json(finding) for finding in result.findings],
        "questions": list(result.questions),
        "verdict": result.verdict,
        "headline": result.headline,
        "overall_correctness": result.overall_correctness,
        "overall_explanation": result.overall_explanation,
        "overall_confidence_score": round(result.overall_confidence, 3),
        "should_fail": result.should_fail,
        "fail_reasons": list(result.fail_reasons),
        "findings_filtered": dict(result.filtered),
        "coverage": {
            "files": len(coverage.files),
            "files_reviewed": coverage.files_reviewed,
            "files_skipped": skipped[:JSON_FILES_MAX],
            "files_skipped_count": len(skipped),
            "files_partly": partly[:JSON_FILES_MAX],
            "analyzers": [asdict(run) | {"why_not": run.why_not or None} for run in coverage.analyzers],
        },
        "summary": msgspec.to_builtins(result.summary),
        "partial": result.is_partial,
        "second_pass": result.second_pass,
        "warnings": list(result.warnings),
    }


# -- text, for the terminal and for agents -----------------------------------------------------------------------------


def format_finding(finding: Finding) -> Iterator[str]:
    """Yield `P1 path:lines  title`, and below it the line, why, where else, what to do, and where it comes from."""
    body = "" if finding.body == finding.title else finding.body
    advice = f"do  {finding.suggestion.description}" if finding.suggestion else ""
    origin = f"{finding.source} {finding.rule} · {finding.category} · confidence {finding.confidence:.2f}"
    yield escape_line(f"{PRIORITIES[finding.priority]} {finding.path}:{finding.span}  {finding.title}")
    if quote := finding.quote.strip():
        yield escape_line(f"   {finding.span.first:>5} │ {quote}")
    evidence = (f"see {place}" for place in finding.evidence)
    for text in filter(None, (body, *evidence, advice, f"{origin} · {finding.id}")):
        yield escape_line(f"   {' '.join(text.split())}")


def format_review(result: ReviewResult) -> Iterator[str]:
    """Yield the verdict, the risk, and a line for everything that was not looked at, not shown, or is open."""
    yield from map(escape_line, _say_review(result))


def _say_review(result: ReviewResult) -> Iterator[str]:
    yield f"{result.headline}. " * bool(result.findings) + result.overall_explanation
    factors = f": {'; '.join(result.summary.factors)}" if result.summary.factors else ""
    yield f"risk {result.summary.risk} of 5{factors}"
    coverage = result.coverage
    for label, texts in (
        ("not looked at", [f"{file.path} ({file.reason})" for file in coverage.files_skipped]),
        ("reviewed in part", [f"{file.path} ({file.reason})" for file in coverage.files_partly]),
        ("did not run", [f"{run.name} ({run.why_not})" for run in coverage.analyzers if not run.ran]),
    ):
        if texts:
            yield f"{label}: {join_first(texts, FILES_NAMED_MAX)}"
    if result.suppressed:
        yield f"filtered out: {result.suppressed}"
    if result.is_partial:
        yield "not complete: the time was over before everything was looked at"
    for label, texts in (("question", result.questions), ("warning", result.warnings), ("fails", result.fail_reasons)):
        yield from (f"{label}: {text}" for text in texts)


# -- SARIF -------------------------------------------------------------------------------------------------------------

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
SARIF_LEVELS = ("error", "error", "warning", "note")
"""By priority: what GitHub calls an error may be set to block a merge."""
SECURITY_SEVERITIES = ("9.0", "7.0", "5.0", "2.0")
"""GitHub's `security-severity` by priority: critical from 9.0, high from 7.0, medium from 4.0."""
FINGERPRINT = "contextEngine/v1"


def render_sarif(result: ReviewResult, *, version: str) -> str:
    """Return the whole review as SARIF. `version` is that of the product."""
    by_rule = {finding.rule: finding for finding in reversed(result.findings)}
    rules = sorted(by_rule)
    driver = {
        "name": "Context Engine",
        "semanticVersion": version,
        "rules": [_sarif_rule(by_rule[name]) for name in rules],
    }
    coverage = result.coverage
    gaps = [f"{file.path} was not looked at: {file.reason}" for file in coverage.files_skipped]
    gaps += [f"{run.name} did not run: {run.why_not}" for run in coverage.analyzers if not run.ran]
    problems = ["The time was over before everything was looked at."] if result.is_partial else []
    notes = [*_sarif_notes("note", gaps), *_sarif_notes("warning", result.warnings), *_sarif_notes("error", problems)]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The top folder of the repository."}}},
        "invocations": [{"executionSuccessful": not result.is_partial, "toolExecutionNotifications": notes}],
        "results": [_sarif_result(finding, rules.index(finding.rule)) for finding in result.findings],
    }
    return _dump({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _sarif_notes(level: str, texts: Iterable[str]) -> list[dict[str, Any]]:
    return [{"level": level, "message": {"text": text}} for text in texts]


def _sarif_rule(finding: Finding) -> dict[str, Any]:
    """Return what a finding says of its rule; its texts are about one place and not here."""
    properties: dict[str, Any] = {"tags": [finding.category, finding.source]}
    if finding.category == "security":
        properties["security-severity"] = SECURITY_SEVERITIES[finding.priority]
    return {
        "id": finding.rule,
        "shortDescription": {"text": finding.rule.replace("-", " ")},
        "defaultConfiguration": {"level": SARIF_LEVELS[finding.priority]},
        "properties": properties,
    }


def _sarif_result(finding: Finding, rule_number: int) -> dict[str, Any]:
    suggestion = finding.suggestion
    advice = f"Suggestion: {suggestion.description}" if suggestion else ""
    artifact = {"uri": _to_uri(finding.path), "uriBaseId": "SRCROOT"}
    region = {"startLine": finding.span.first, "endLine": finding.span.last}
    row: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule_number,
        "level": SARIF_LEVELS[finding.priority],
        "message": {"text": _join_texts(finding, advice)},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
        "partialFingerprints": {FINGERPRINT: finding.id},
        "rank": round(finding.confidence * 100, 1),
        "properties": {
            "priority": PRIORITIES[finding.priority],
            "category": finding.category,
            "source": finding.source,
            "confidence": finding.confidence,
        },
    }
    if suggestion and suggestion.can_auto_fix:
        replacement = {"deletedRegion": region, "insertedContent": {"text": suggestion.replacement}}
        changes = [{"artifactLocation": artifact, "replacements": [replacement]}]
        row["fixes"] = [{"description": {"text": suggestion.description}, "artifactChanges": changes}]
    return row


def _to_uri(path: str) -> str:
    """Return a path as a relative reference (RFC 3986, 2.3 and 4.2).

    >>> _to_uri("src/größe 1.py")
    'src/gr%C3%B6%C3%9Fe%201.py'
    """
    data = path.encode("utf-8", "replace")
    return re.sub(rb"[^A-Za-z0-9._~/-]", lambda found: b"%%%02X" % found[0][0], data).decode()


def _join_texts(finding: Finding, *more: str) -> str:
    return "\n".join(dict.fromkeys(filter(None, (finding.title, finding.body, *finding.evidence, *more))))


# -- rdjson, which reviewdog shows next to the lines of a pull request -------------------------------------------------

RDJSON_SEVERITIES = ("ERROR", "ERROR", "WARNING", "INFO")
"""By priority."""
RDJSON_NAME = "context-engine"


def render_rdjson(result: ReviewResult) -> str:
    """Return the findings as rdjson."""
    severity = min((finding.priority for finding in result.findings), default=len(RDJSON_SEVERITIES) - 1)
    rows = [_rdjson_diagnostic(finding) for finding in result.findings]
    return _dump({"source": {"name": RDJSON_NAME}, "severity": RDJSON_SEVERITIES[severity], "diagnostics": rows})


def _rdjson_diagnostic(finding: Finding) -> dict[str, Any]:
    first, last = finding.span.first, finding.span.last
    row: dict[str, Any] = {
        "message": _join_texts(finding),
        "location": {"path": finding.path, "range": {"start": {"line": first}, "end": {"line": last}}},
        "severity": RDJSON_SEVERITIES[finding.priority],
        "source": {"name": f"{RDJSON_NAME} ({finding.source})"},
        "code": {"value": finding.rule},
    }
    if finding.suggestion and finding.suggestion.can_auto_fix:
        # whole lines end where the next one begins
        lines = {"start": {"line": first, "column": 1}, "end": {"line": last + 1, "column": 1}}
        text = finding.suggestion.replacement
        row["suggestions"] = [{"range": lines, "text": f"{text}\n" if text and not text.endswith("\n") else text}]
    return row
