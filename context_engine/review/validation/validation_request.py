"""PURE. A validation request and its result; light enough for the list of tools."""

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


def make_finding(
    tier: int,
    severity: str,
    category: str,
    rule: str,
    message: str,
    place: tuple[int, int] = (0, 0),
    advice: str = "",
) -> Finding:
    """Return a finding of a tier. `place` is line and column, 0 for the content as a whole."""
    line, column = place
    return Finding(
        rule=rule,
        source=TIERS[tier],
        title=message,
        priority=PRIORITY_OF[severity],
        category=category,
        confidence=1.0,
        span=LineSpan(line, line),
        column=column,
        suggestion=Suggestion(advice),
    )


def complete_findings(findings: Iterable[Finding], content: str) -> tuple[Finding, ...]:
    """Return findings with the lines they are about and their ids, by tier, severity, and place in the content."""
    lines = content.split("\n")
    quoted = [
        replace(finding, quote=lines[finding.line - 1].strip() if 0 < finding.line <= len(lines) else "")
        for finding in findings
    ]

    def order(finding: Finding) -> tuple[int, int, int, int, str]:
        return tier_of(finding), finding.priority, finding.line, finding.column, finding.rule

    return tuple(sorted(assign_ids(quoted), key=order))
