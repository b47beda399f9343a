"""PURE. Tier 3: the findings of an agent or a model, asked for with a brief and checked against the content.

They never fail content: what cannot be checked is an opinion. A finding on lines or code that do not exist is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from context_engine.context import (
    BriefSection,
    CheckedClaims,
    Claim,
    ClaimedLines,
    ClaimedQuote,
    RepositoryFacts,
    SecondPass,
    accept_draft,
    build_brief,
    check_claims,
)
from context_engine.review.second_pass import find_quote, make_findings_schema
from context_engine.review.validation.validation_request import (
    ValidationRequest,
    ValidationResult,
    complete_findings,
    report,
)
from context_engine.text import split_lines

if TYPE_CHECKING:
    from context_engine.model import Finding

FINDINGS_MAX = 30
KNOWN_MAX = 10
"""Findings that the brief repeats."""
CATEGORIES = ("correctness", "completeness", "security", "clarity")
SAME_CONTENT = "<the same content>"
"""Placeholder in the next call for the content, which the agent already has and need not pay for twice."""

_TEXT = {"type": "string"}
_FINDING = {
    "line": {"type": "integer", "minimum": 1},
    "quote": _TEXT | {"description": "The line, word for word."},
    "category": {"type": "string", "enum": list(CATEGORIES)},
    "message": _TEXT | {"minLength": 3, "maxLength": 500},
    "suggestion": _TEXT,
}
SCHEMA = make_findings_schema(_FINDING, FINDINGS_MAX)
"""The draft of a second pass."""

_TASK = (
    "Read the content below and say what is wrong with it that no parser sees: what it claims and does not do,"
    " what it leaves out, what breaks at the edges. Each finding names one line and quotes it. An empty list is a good"
    " answer."
)
_HERE = "content"


@dataclass(frozen=True, slots=True)
class ContentCritique:
    """The second pass over one content, with the result of the tiers before it."""

    content: str
    request: ValidationRequest
    result: ValidationResult

    def offer(self) -> SecondPass:
        """Return the request for the second pass; the content in it has no secrets."""
        content, request = self.result.redacted or self.content, self.request
        known = [f"line {finding.line}: {finding.title}" for finding in self.result.findings if finding.line]
        lines = [f"{number}: {line}" for number, line in enumerate(split_lines(content), 1)]
        sections = [
            BriefSection("Known already", known[:KNOWN_MAX]),
            BriefSection(f"Content ({request.path or request.kind})", lines),
        ]
        next_call = {"content": SAME_CONTENT, "content_type": request.kind, "file_path": request.path}
        prompt = build_brief(_TASK, sections)
        return SecondPass("validate_content", prompt, SCHEMA, next_call, draft="findings", is_stored=False)

    def explain_rejection(self, draft: Mapping[str, Any]) -> str:
        """Return why a whole draft is unusable; empty when some of it fits, or when it is empty."""
        checked = self._check(draft)
        return checked.rejected[0].reason if checked.rejected and not checked.kept else ""

    def merge(self, draft: Any) -> tuple[ValidationResult, list[dict[str, str]]]:
        """Add the findings of a draft to the result, and return those that were rejected, with the reasons.

        Raises: InvalidArgument (the draft violates its schema).
        """
        checked = self._check(accept_draft(draft, SCHEMA, "findings"))
        found = [_to_finding(row, self.content) for row in checked.kept]
        findings = complete_findings(found, self.content)
        rejected = [{"place": item.place, "reason": item.reason} for item in checked.rejected]
        tiers = (*self.result.tiers_run, 3)
        return replace(self.result, findings=(*self.result.findings, *findings), tiers_run=tiers), rejected

    def _check(self, draft: Mapping[str, Any]) -> CheckedClaims:
        """Check the findings of a draft against the content."""
        claims = [
            Claim(
                row,
                f"findings[{number}]",
                lines=[ClaimedLines(_HERE, row["line"], row["line"])],
                quotes=[ClaimedQuote(_HERE, row["quote"])],
            )
            for number, row in enumerate(draft["findings"])
        ]
        return check_claims(claims, RepositoryFacts(has_path=_HERE.__eq__, text=lambda _: self.content))


def _to_finding(row: Mapping[str, Any], content: str) -> Finding:
    category, lines = row["category"], split_lines(content)
    line = find_quote(enumerate(lines, 1), row["quote"], row["line"], row["line"])
    place, advice = (min(line, len(lines)), 1), row["suggestion"].strip()
    rule, message = f"critique-{category}", row["message"].strip()
    return report(rule, message, place, family="critique", category=category, advice=advice)
