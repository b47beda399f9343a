"""PURE. The findings of a second pass: their schema, what of them stands, and how they join those of the checks.

A finding that names lines outside of the change, or quotes what does not stand there, is set aside with its reason. One
that says what a check says confirms it; one of its own is never surer than `CONFIDENCE_MAX`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from context_engine.context.fact_check import (
    Claim,
    ClaimedLines,
    ClaimedQuote,
    RejectedItem,
    RepositoryFacts,
    check_claims,
)
from context_engine.model import Finding, Suggestion
from context_engine.review.finding import CATEGORIES, fingerprint
from context_engine.text import FileDiff, LineSpan, merge_spans

CONFIDENCE_MAX = 0.85
"""What nobody has confirmed: of findings of good models about one in six is wrong, however sure they sound."""
ALIKE = 0.6
"""Two texts with so many of their words in common say the same (services.md)."""
FINDINGS_MAX = 50
TITLE_CHARS, BODY_CHARS = 200, 2_000

_TEXT = {"type": "string"}
_FINDING = {
    "file_path": _TEXT,
    "start_line": {"type": "integer", "minimum": 1},
    "end_line": {"type": "integer", "minimum": 1},
    "quote": _TEXT | {"description": "The line it is about, word for word."},
    "title": _TEXT | {"minLength": 3, "maxLength": TITLE_CHARS},
    "body": _TEXT | {"maxLength": BODY_CHARS, "description": "Why it is wrong, and when it shows."},
    "priority": {"type": "integer", "minimum": 0, "maximum": 3, "description": "0 must not be merged, 3 is a hint."},
    "category": {"type": "string", "enum": list(CATEGORIES)},
    "confidence_score": {"type": "number", "minimum": 0, "maximum": 1},
    "suggestion": _TEXT | {"description": "What to do; empty if unclear."},
}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "findings": {
            "type": "array",
            "maxItems": FINDINGS_MAX,
            "items": {
                "type": "object",
                "properties": _FINDING,
                "required": list(_FINDING),
                "additionalProperties": False,
            },
        }
    },
    "required": ["findings"],
    "additionalProperties": False,
}
"""What a second pass fills in."""


class ValidatedFindings(NamedTuple):
    """The findings of a draft that stand, those that do not, and what is to be said."""

    findings: tuple[Finding, ...]
    rejected: tuple[RejectedItem, ...]
    warnings: tuple[str, ...]


def validate_draft(draft: Mapping[str, Any], files: Sequence[FileDiff], *, source: str) -> ValidatedFindings:
    """What of a draft stands: its lines are in a hunk, and what it quotes stands there. `source` is host or model."""
    by_path = {file.path: file for file in files if file.new_path}
    ground = RepositoryFacts(
        has_path=by_path.__contains__,
        text=lambda path: _text(by_path[path]) if path in by_path else None,
        spans=lambda path: _spans(by_path[path]) if path in by_path else (),
    )
    found = check_claims([_claim(row, number) for number, row in enumerate(draft["findings"])], ground)
    kept = (_finding(row, by_path[row["file_path"]], source) for row in found.kept)
    return ValidatedFindings(tuple(dict.fromkeys(kept)), found.rejected, found.warnings)


def _claim(row: Mapping[str, Any], number: int) -> Claim:
    path = row["file_path"]
    return Claim(
        item=row,
        place=f"findings[{number}]",
        lines=[ClaimedLines(path, row["start_line"], row["end_line"])],
        quotes=[ClaimedQuote(path, row["quote"])],
    )


def _text(file: FileDiff) -> str:
    """What a file's new version has inside the hunks; a quote from anywhere else is not about this change."""
    return "\n".join(line.text for hunk in file.hunks for line in hunk.lines if line.new)


def _spans(file: FileDiff) -> tuple[LineSpan, ...]:
    return tuple(merge_spans(hunk.new for hunk in file.hunks if hunk.new))


def _finding(row: Mapping[str, Any], file: FileDiff, source: str) -> Finding:
    span = _anchored(LineSpan(row["start_line"], row["end_line"]), row["quote"], file)
    suggestion = row["suggestion"].strip()
    quote = next((line.text.strip() for hunk in file.hunks for line in hunk.lines if line.new == span.first), "")
    rule = f"{source}-{row['category']}"
    return Finding(
        rule=rule,
        source=source,
        title=row["title"].strip(),
        body=row["body"].strip(),
        priority=row["priority"],
        category=row["category"],
        confidence=float(row["confidence_score"]),
        path=file.path,
        span=span,
        quote=quote,
        id=fingerprint(f"{rule} {_key(row['title'])}", file.path, quote, 0),
        is_on_changed_line=any(number in file.added_numbers for number in range(span.first, span.last + 1)),
        suggestion=Suggestion(suggestion) if suggestion else None,
    )


def _anchored(span: LineSpan, quote: str, file: FileDiff) -> LineSpan:
    """The lines where the quote really stands, nearest to those that were named: models count badly."""
    first = next(filter(None, map(_key, quote.split("\n"))), "")
    there = [line.new for hunk in file.hunks for line in hunk.lines if line.new and first and first in _key(line.text)]
    if not there or any(span.first <= number <= span.last for number in there):
        return span
    start = min(there, key=lambda number: (abs(number - span.first), number))
    last = next(each.last for each in _spans(file) if each.first <= start <= each.last)
    return LineSpan(start, min(last, start + span.last - span.first))


def join_findings(findings: Sequence[Finding], second: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings of the checks and those of a second pass, without doubles."""
    known = list(findings)
    for each in second:
        double = next((number for number, other in enumerate(known) if is_same_finding(other, each)), None)
        if double is None:
            known.append(replace(each, confidence=min(each.confidence, CONFIDENCE_MAX)))
        else:
            known[double] = _confirmed(known[double], each)
    return tuple(known)


def is_same_finding(one: Finding, other: Finding) -> bool:
    """Whether two findings are one: of the same file, on lines that overlap, in much the same words."""
    if one.path != other.path or one.span.first > other.span.last or other.span.first > one.span.last:
        return False
    return one.id == other.id or word_similarity(f"{one.title} {one.body}", f"{other.title} {other.body}") >= ALIKE


def _confirmed(known: Finding, again: Finding) -> Finding:
    """A finding that somebody else reports as well. Only a check makes sure; two drafts are no surer than one."""
    is_checked = {known.source, again.source} - {"host", "model"}
    if known.id == again.id or again.id in known.related:
        return known
    limit = 1.0 if is_checked else CONFIDENCE_MAX
    confidence = min(limit, max(known.confidence, again.confidence))
    evidence = (*known.evidence, f"the second pass ({again.source}) says so, too: {again.title}")
    return replace(known, confidence=confidence, evidence=evidence, related=(*known.related, again.id))


def word_similarity(one: str, other: str) -> float:
    """The share of words that two texts have in common, of all that they have (Jaccard).

    >>> word_similarity("Result is never closed", "the result is never closed"), word_similarity("a", "b"), word_similarity("", "")
    (0.8, 0.0, 1.0)
    """
    left, right = set(_key(one).split()), set(_key(other).split())
    return len(left & right) / len(left | right) if left | right else 1.0


def _key(text: str) -> str:
    """The words of a text, as they are compared."""
    return " ".join(re.findall(r"\w+", text.lower()))
