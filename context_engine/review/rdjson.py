"""PURE.

A review in the diagnostic format of reviewdog (rdjson), which puts findings beside the lines of a pull request.

https://github.com/reviewdog/reviewdog/tree/master/proto/rdf
"""

from __future__ import annotations

import json
from typing import Any

from context_engine.model import Finding
from context_engine.review.verdict import ReviewResult

SEVERITIES = ("ERROR", "ERROR", "WARNING", "INFO")
"""By priority."""
NAME = "context-engine"


def render_rdjson(reviewed: ReviewResult) -> str:
    """The findings as JSON text."""
    rows = [_diagnostic(finding) for finding in reviewed.findings]
    severity = min((finding.priority for finding in reviewed.findings), default=len(SEVERITIES) - 1)
    told = {"source": {"name": NAME}, "severity": SEVERITIES[severity], "diagnostics": rows}
    return json.dumps(told, ensure_ascii=False, indent=2) + "\n"


def _diagnostic(finding: Finding) -> dict[str, Any]:
    row: dict[str, Any] = {
        "message": "\n".join(dict.fromkeys(filter(None, (finding.title, finding.body, *finding.evidence)))),
        "location": {"path": finding.path, "range": _lines(finding)},
        "severity": SEVERITIES[finding.priority],
        "source": {"name": f"{NAME} ({finding.source})"},
        "code": {"value": finding.rule},
    }
    if finding.suggestion and finding.suggestion.can_auto_fix:
        row["suggestions"] = [{"range": _whole_lines(finding), "text": _ended(finding.suggestion.replacement)}]
    return row


def _lines(finding: Finding) -> dict[str, Any]:
    return {"start": {"line": finding.span.first}, "end": {"line": finding.span.last}}


def _whole_lines(finding: Finding) -> dict[str, Any]:
    """The same lines to their very end, which is the beginning of the next."""
    return {"start": {"line": finding.span.first, "column": 1}, "end": {"line": finding.span.last + 1, "column": 1}}


def _ended(text: str) -> str:
    """The text with the end of its last line; no text at all is none."""
    return f"{text}\n" if text and not text.endswith("\n") else text
