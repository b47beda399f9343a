"""PURE. A review as SARIF 2.1.0 (OASIS), which code hosts and editors read.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from context_engine.model import Finding
from context_engine.review.finding import PRIORITIES
from context_engine.review.verdict import ReviewResult

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = ("error", "error", "warning", "note")
"""By priority: what GitHub calls an error may be made to block a merge."""
SEVERITIES = ("9.0", "7.0", "5.0", "2.0")
"""GitHub's `security-severity` by priority: critical from 9.0, high from 7.0, medium from 4.0."""
UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
FINGERPRINT = "contextEngine/v1"


def render_sarif(reviewed: ReviewResult, *, version: str) -> str:
    """The whole review as JSON text. `version` is that of the product."""
    rules = {finding.rule: finding for finding in reversed(reviewed.findings)}
    driver = {
        "name": "Context Engine",
        "semanticVersion": version,
        "rules": [_rule(rules[name]) for name in sorted(rules)],
    }
    numbers = {name: number for number, name in enumerate(sorted(rules))}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The top folder of the repository."}}},
        "invocations": [_invocation(reviewed)],
        "results": [_result(finding, numbers[finding.rule]) for finding in reviewed.findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2) + "\n"


def _rule(finding: Finding) -> dict[str, Any]:
    """What a finding says of its rule. Texts of one finding do not belong here: they speak of one place."""
    tags = [finding.category, finding.source]
    severity = {"security-severity": SEVERITIES[finding.priority]} if finding.category == "security" else {}
    return {
        "id": finding.rule,
        "shortDescription": {"text": finding.rule.replace("-", " ")},
        "defaultConfiguration": {"level": LEVELS[finding.priority]},
        "properties": {"tags": tags, **severity},
    }


def _result(finding: Finding, rule_number: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule_number,
        "level": LEVELS[finding.priority],
        "message": {"text": _message(finding)},
        "locations": [_location(finding)],
        "partialFingerprints": {FINGERPRINT: finding.id},
        "rank": round(finding.confidence * 100, 1),
        "properties": {
            "priority": PRIORITIES[finding.priority],
            "category": finding.category,
            "source": finding.source,
            "confidence": finding.confidence,
        },
    }
    if finding.suggestion and finding.suggestion.can_auto_fix:
        row["fixes"] = [_fix(finding)]
    return row


def _message(finding: Finding) -> str:
    said = [finding.title, finding.body, *finding.evidence]
    if finding.suggestion:
        said.append(f"Suggestion: {finding.suggestion.description}")
    return "\n".join(dict.fromkeys(filter(None, said)))


def _location(finding: Finding) -> dict[str, Any]:
    region = {"startLine": finding.span.first, "endLine": finding.span.last}
    return {"physicalLocation": {"artifactLocation": _artifact(finding.path), "region": region}}


def _fix(finding: Finding) -> dict[str, Any]:
    """The lines of the finding, replaced."""
    suggestion = finding.suggestion
    assert suggestion
    change = {
        "deletedRegion": {"startLine": finding.span.first, "endLine": finding.span.last},
        "insertedContent": {"text": suggestion.replacement},
    }
    return {
        "description": {"text": suggestion.description},
        "artifactChanges": [{"artifactLocation": _artifact(finding.path), "replacements": [change]}],
    }


def _artifact(path: str) -> dict[str, str]:
    return {"uri": _uri(path), "uriBaseId": "SRCROOT"}


def _uri(path: str) -> str:
    """A path as a relative reference (RFC 3986, 2.3 and 4.2).

    >>> _uri("src/größe 1.py")
    'src/gr%C3%B6%C3%9Fe%201.py'
    """
    return "".join(
        char if char in UNRESERVED else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))
        for char in path
    )


def _invocation(reviewed: ReviewResult) -> dict[str, Any]:
    """Whether all of it was looked at, and what kept us from it."""
    coverage = reviewed.coverage
    why_not = [f"{each.path} was not looked at: {each.reason}" for each in coverage.files_skipped]
    why_not += [f"{run.name} did not run: {run.why_not}" for run in coverage.analyzers if not run.ran]
    unfinished = ["The time was over before everything was looked at."] if reviewed.is_partial else []
    return {
        "executionSuccessful": not reviewed.is_partial,
        "toolExecutionNotifications": [
            *_notes("note", why_not),
            *_notes("warning", reviewed.warnings),
            *_notes("error", unfinished),
        ],
    }


def _notes(level: str, texts: Iterable[str]) -> list[dict[str, Any]]:
    return [{"level": level, "message": {"text": text}} for text in texts]
