"""PURE. The findings of a second pass: their schema, their validation, and how they join those of the checks.

A finding outside of the change, or with a wrong quote, is rejected with its reason. One that says the same as a check
confirms it; any other has a confidence of at most `CONFIDENCE_MAX`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from context_engine.context import Claim, ClaimedLines, ClaimedQuote, RejectedItem, RepositoryFacts, check_claims
from context_engine.model import Finding, Suggestion
from context_engine.review.finding import CATEGORIES, fingerprint
from context_engine.text import FileDiff, LineSpan, merge_spans

CONFIDENCE_MAX = 0.85
"""Without confirmation: about one in six findings of good models is wrong, however certain they sound."""
SIMILARITY_MIN = 0.6
"""Two texts that share so many of their words say the same (services.md)."""
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
"""The draft of a second pass."""


class ValidatedFindings(NamedTuple):
    """The valid findings of a draft, the rejected ones, and warnings."""

    findings: tuple[Finding, ...]
    rejected: tuple[RejectedItem, ...]
    warnings: tuple[str, ...]


def validate_draft(draft: Mapping[str, Any], files: Sequence[FileDiff], *, source: str) -> ValidatedFindings:
    """Check a draft: lines must be in a hunk, and quotes must be there. `source` is host or model."""
    by_path = {file.path: file for file in files if file.new_path}
    facts = RepositoryFacts(
        has_path=by_path.__contains__,
        text=lambda path: _text(by_path[path]) if path in by_path else None,
        spans=lambda path: _spans(by_path[path]) if path in by_path else (),
    )
    checked = check_claims([_make_claim(row, number) for number, row in enumerate(draft["findings"])], facts)
    findings = (_make_finding(row, by_path[row["file_path"]], source) for row in checked.kept)
    return ValidatedFindings(tuple(dict.fromkeys(findings)), checked.rejected, checked.warnings)


def _make_claim(row: Mapping[str, Any], number: int) -> Claim:
    path = row["file_path"]
    return Claim(
        item=row,
        place=f"findings[{number}]",
        lines=[ClaimedLines(path, row["start_line"], row["end_line"])],
        quotes=[ClaimedQuote(path, row["quote"])],
    )


def _text(file: FileDiff) -> str:
    """Return the new lines inside the hunks; a quote from anywhere else is not about this change."""
    return "\n".join(line.text for hunk in file.hunks for line in hunk.lines if line.new)


def _spans(file: FileDiff) -> tuple[LineSpan, ...]:
    return tuple(merge_spans(hunk.new for hunk in file.hunks if hunk.new))


def _make_finding(row: Mapping[str, Any], file: FileDiff, source: str) -> Finding:
    span = _locate_quote(LineSpan(row["start_line"], row["end_line"]), row["quote"], file)
    suggestion = row["suggestion"].strip()
    lines = (line for hunk in file.hunks for line in hunk.lines)
    quote = next((line.text.strip() for line in lines if line.new == span.first), "")
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
        id=fingerprint(f"{rule} {_normalize_words(row['title'])}", file.path, quote, 0),
        is_on_changed_line=any(number in file.added_numbers for number in range(span.first, span.last + 1)),
        suggestion=Suggestion(suggestion) if suggestion else None,
    )


def _locate_quote(span: LineSpan, quote: str, file: FileDiff) -> LineSpan:
    """Return the lines of the quote that are nearest to the named ones: models count badly."""
    first_line = next(filter(None, map(_normalize_words, quote.split("\n"))), "")
    new_lines = [line for hunk in file.hunks for line in hunk.lines if line.new]
    numbers = [line.new for line in new_lines if first_line and first_line in _normalize_words(line.text)]
    if not numbers or any(span.first <= number <= span.last for number in numbers):
        return span
    start = min(numbers, key=lambda number: (abs(number - span.first), number))
    last = next(hunk.last for hunk in _spans(file) if hunk.first <= start <= hunk.last)
    return LineSpan(start, min(last, start + span.last - span.first))


def join_findings(findings: Sequence[Finding], second: Iterable[Finding]) -> tuple[Finding, ...]:
    """Join the findings of the checks and those of a second pass, without duplicates."""
    joined = list(findings)
    for finding in second:
        index = next((index for index, known in enumerate(joined) if is_same_finding(known, finding)), None)
        if index is None:
            joined.append(replace(finding, confidence=min(finding.confidence, CONFIDENCE_MAX)))
        else:
            joined[index] = _confirm(joined[index], finding)
    return tuple(joined)


def is_same_finding(one: Finding, other: Finding) -> bool:
    """Whether two findings are one: in the same file, on lines that overlap, in similar words."""
    if one.path != other.path or one.span.first > other.span.last or other.span.first > one.span.last:
        return False
    texts = f"{one.title} {one.body}", f"{other.title} {other.body}"
    return one.id == other.id or word_similarity(*texts) >= SIMILARITY_MIN


def _confirm(known: Finding, again: Finding) -> Finding:
    """Return a finding that was reported twice. Only a check adds certainty; two drafts are no better than one."""
    if known.id == again.id or again.id in known.related:
        return known
    is_checked = {known.source, again.source} - {"host", "model"}
    limit = 1.0 if is_checked else CONFIDENCE_MAX
    confidence = min(limit, max(known.confidence, again.confidence))
    evidence = (*known.evidence, f"the second pass ({again.source}) reports it, too: {again.title}")
    return replace(known, confidence=confidence, evidence=evidence, related=(*known.related, again.id))


def word_similarity(one: str, other: str) -> float:
    """Return the share of words that two texts have in common (Jaccard).

    >>> word_similarity("Result is never closed", "the result is never closed"), word_similarity("a", "b")
    (0.8, 0.0)
    """
    left, right = set(_normalize_words(one).split()), set(_normalize_words(other).split())
    if left | right:
        return len(left & right) / len(left | right)
    return 1.0


def _normalize_words(text: str) -> str:
    """Return the words of a text in lower case, for comparisons."""
    return " ".join(re.findall(r"\w+", text.lower()))
