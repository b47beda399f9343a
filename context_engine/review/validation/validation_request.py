"""PURE. A validation request and its result; light enough for the list of tools."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from context_engine.model import Finding, Suggestion
from context_engine.text import LineSpan

ContentKind = Literal[
    "generated_code", "plan_output", "review_finding", "raw_text", "json", "yaml", "toml", "markdown", "diff", "mermaid"
]
CONTENT_KINDS: tuple[ContentKind, ...] = get_args(ContentKind)
TIERS = ("secrets", "parser", "style", "critique")
"""The sources of findings, by number: secrets, what a parser is sure of, style and claims, a second pass."""
PRIORITY_OF = {"error": 0, "warning": 2, "info": 3}
ID_CHARS = 12
"""48 bits of a hash: one content never has so many findings that two of them collide."""


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

    def to_rows(self, content: str) -> list[dict[str, Any]]:
        """Return the findings as replies contain them."""
        ids = make_ids(self.findings, content.split("\n"))
        return [
            {
                "id": finding_id,
                "tier": tier_of(finding),
                "severity": finding.severity,
                "category": finding.category,
                "rule_id": finding.rule,
                "message": finding.title,
                "line": finding.line or None,
                "column": finding.column or None,
                "suggestion": finding.advice,
            }
            for finding_id, finding in zip(ids, self.findings, strict=True)
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


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by tier, then by severity, then by their place in the content."""

    def order(finding: Finding) -> tuple[int, int, int, int, str]:
        return tier_of(finding), finding.priority, finding.line, finding.column, finding.rule

    return tuple(sorted(findings, key=order))


def make_ids(findings: Iterable[Finding], lines: Sequence[str]) -> list[str]:
    """Return an id for each finding that stays the same while its line moves."""
    counts: Counter[tuple[str, str]] = Counter()
    ids = []
    for finding in findings:
        key = _key(finding, lines)
        text = "\0".join((*key, str(counts[key])))
        counts[key] += 1
        ids.append(hashlib.sha1(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:ID_CHARS])
    return ids


def select_new(
    before: Iterable[Finding], lines_before: Sequence[str], after: Iterable[Finding], lines_after: Sequence[str]
) -> list[Finding]:
    """Return the findings of a new version that the old version did not have, whatever line they are on."""
    known = Counter(_key(finding, lines_before) for finding in before)
    new = []
    for finding in after:
        key = _key(finding, lines_after)
        if known[key]:
            known[key] -= 1
        else:
            new.append(finding)
    return new


def _key(finding: Finding, lines: Sequence[str]) -> tuple[str, str]:
    """Return the rule and the line without its indentation; no line for a finding on the whole content."""
    is_on_line = 0 < finding.line <= len(lines)
    return finding.rule, lines[finding.line - 1].strip() if is_on_line else ""
