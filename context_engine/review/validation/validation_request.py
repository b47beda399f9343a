"""PURE. A validation request, its result, and the findings as rows; light enough for the list of tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from context_engine.model import Finding, Suggestion
from context_engine.review.finding import assign_ids
from context_engine.text import LineSpan

ContentKind = Literal[
    "generated_code", "plan_output", "review_finding", "raw_text", "json", "yaml", "toml", "markdown", "diff", "mermaid"
]
CONTENT_KINDS: tuple[ContentKind, ...] = get_args(ContentKind)
TIERS = ("secrets", "parser", "style", "critique")
"""The sources of findings, by number: secrets, what a parser is sure of, style and claims, a second pass."""
PRIORITY_OF = {"error": 0, "warning": 2, "info": 3}

RULES: Mapping[str, tuple[int, str, str, str]] = {
    "secret": (0, "error", "secret", "Take it out; use `scrubbed_content`, and read it from the environment."),
    "syntax-error": (1, "error", "syntax", "Correct it."),
    "syntax-doubt": (1, "warning", "syntax", "Look at it."),
    "diff": (1, "error", "syntax", ""),
    "broken-diagram": (1, "warning", "syntax", "Correct it."),
    "conflict-marker": (1, "error", "conflict", "Resolve it."),
    "bidi-character": (1, "warning", "security", ""),
    "nul-character": (1, "error", "encoding", "Delete it, or write it as an escape."),
    "replacement-character": (1, "warning", "encoding", "Delete it, or write it as an escape."),
    "hidden-character": (1, "warning", "encoding", "Delete it, or write it as an escape."),
    "repeated-key": (1, "error", "data", "Keep one: most readers use the last one."),
    "plan": (1, "error", "schema", ""),
    "schema": (1, "error", "schema", "Make it what the schema says."),
    "finding-anchor": (1, "error", "anchor", "Anchor it to code that exists."),
    "placeholder": (2, "warning", "unfinished", "Write the missing code."),
    "empty-body": (2, "warning", "unfinished", "Write it."),
    "todo": (2, "info", "unfinished", "Do it, or write it down elsewhere."),
    "debug-output": (2, "info", "debugging", "Delete it, or use a logger."),
    "hard-coded-url": (2, "info", "hard-coded", "Make it a setting."),
    "hard-coded-ip": (2, "info", "hard-coded", "Make it a setting."),
    "long-line": (2, "info", "style", "Break it."),
    "mixed-indentation": (2, "info", "style", "Indent alike."),
    "unknown-file": (2, "warning", "grounding", "Name what exists, or say that it is new."),
    "unknown-symbol": (2, "warning", "grounding", "Name what exists, or say that it is new."),
    "undefined-name": (2, "warning", "grounding", "Define it, or import it."),
    "unresolved-import": (2, "error", "grounding", "Import what exists, or create it."),
    "unknown-import-name": (2, "error", "grounding", "Import a name that the file has, or define it there."),
    "hunk-does-not-apply": (2, "warning", "grounding", "Make the diff of the file as it is now."),
    "critique": (3, "warning", "", ""),
}
"""Tier, usual severity, category and usual advice of each rule, or family of rules."""


@dataclass(frozen=True, slots=True)
class ValidationRequest:
    """The kind of a content, and the checks to run. With `base`, an older version, only new findings are reported."""

    kind: str = "raw_text"
    path: str = ""
    language: str = ""
    redacts: bool = True
    tiers: frozenset[int] = frozenset({1, 2})
    schema: Mapping[str, Any] | None = None
    stops_on_error: bool = False
    base: str | None = None


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The findings, most pressing first. `redacted` is the content without its secrets, None when it has none."""

    findings: tuple[Finding, ...]
    tiers_run: tuple[int, ...] = ()
    skipped: tuple[tuple[int, str], ...] = ()
    redacted: str | None = None
    secrets: int = 0

    @property
    def has_passed(self) -> bool:
        """Whether nothing is certainly wrong."""
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def by_severity(self) -> dict[str, int]:
        """The number of findings of each severity."""
        counts = Counter(finding.severity for finding in self.findings)
        return {severity: counts[severity] for severity in PRIORITY_OF}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the findings as replies contain them."""
        return [
            {
                "id": finding.id,
                "tier": tier_of(finding),
                "severity": finding.severity,
                "category": finding.category,
                "rule_id": finding.rule,
                "message": finding.title,
                "line": finding.line or None,
                "column": finding.column or None,
                "suggestion": finding.advice,
            }
            for finding in self.findings
        ]


def tier_of(finding: Finding) -> int:
    """Return the number of the tier that reported a finding."""
    return TIERS.index(finding.source)


def report(rule: str, message: str, place: tuple[int, int] = (0, 0), *, family: str = "", **fields: str) -> Finding:
    """Return a finding; `place` is line and column, 0 for the content as a whole.

    `RULES` has what the `fields` severity, category and advice leave open, for the rule or its `family`.
    """
    tier, severity, category, advice = RULES[family or rule]
    return Finding(
        rule=rule,
        source=TIERS[tier],
        title=message,
        priority=PRIORITY_OF[fields.get("severity", severity)],
        category=fields.get("category", category),
        confidence=1.0,
        span=LineSpan(place[0], place[0]),
        column=place[1],
        suggestion=Suggestion(fields.get("advice", advice)),
    )


def complete_findings(findings: Iterable[Finding], content: str) -> tuple[Finding, ...]:
    """Return findings with the lines they are about and their ids, by tier, severity, and place in the content."""
    lines = ["", *content.split("\n")]
    quoted = [
        replace(finding, quote=lines[finding.line].strip() if finding.line < len(lines) else "") for finding in findings
    ]

    def order(finding: Finding) -> tuple[int, int, int, int, str]:
        return tier_of(finding), finding.priority, finding.line, finding.column, finding.rule

    return tuple(sorted(assign_ids(quoted), key=order))
