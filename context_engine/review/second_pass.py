"""Second passes: what an agent or a model finds in a change or in a content, checked against it before it counts.

    review_id = second_passes.keep(make_pending(result, options, files, redact))
    refined = engine.second_pass.run(second_passes.offer("review_changes", review_id), assist)
    merged = second_passes.merge_draft(review_id, refined.draft, source="host")

A finding outside of the change, or with a wrong quote, is rejected with its reason. One that says the same as a check
confirms it; any other has a confidence of at most `CONFIDENCE_MAX`. A draft that is sent twice changes nothing. Secrets
are removed before anything is stored or shown. Findings on a content never fail it: what cannot be checked is an
opinion.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from context_engine.context import (
    BriefSection,
    CheckedClaims,
    Claim,
    ClaimedLines,
    ClaimedQuote,
    RejectedItem,
    RepositoryFacts,
    SecondPass,
    accept_draft,
    build_brief,
    check_claims,
    compute_draft_id,
    parse_draft,
)
from context_engine.errors import ReviewNotFound
from context_engine.model import Finding, Suggestion
from context_engine.review.finding import CATEGORIES, PRIORITIES, Redact, ReviewOptions, fingerprint
from context_engine.review.review_store import ReviewStore
from context_engine.review.source_versions import ReviewedFile
from context_engine.review.validation.validation_request import (
    ValidationRequest,
    ValidationResult,
    complete_findings,
    report,
)
from context_engine.review.verdict import ReviewResult, make_result
from context_engine.storage import prepare_type
from context_engine.text import CHANCE_BYTES, DiffHunk, DiffLine, FileDiff, LineSpan, merge_spans, split_lines, uuid7
from context_engine.timestamps import Now

LINES_MAX = 20_000
"""Of all hunks together; the brief shows some hundred of them, and no draft is about lines that it did not show."""
PIECE_LINES = 40
"""A longer hunk is shown in pieces, so that one of them does not fill a whole brief."""
LINE_CHARS = 200
KNOWN_MAX = 12
RULES_MAX = 12
FINDINGS_MAX = 50
CONFIDENCE_MAX = 0.85
"""Without confirmation: about one in six findings of good models is wrong, however certain they sound."""
SIMILARITY_MIN = 0.6
"""Two texts that share so many of their words say the same (services.md)."""
_TASK = (
    "Review this change as an experienced colleague would. Report only what is wrong in the new lines: logic errors,"
    " broken callers, missed cases, races, leaks, security holes. Each finding names its file, its lines as numbered"
    " below and quotes the line it is about, word for word. No praise, no style, nothing you are not sure of; an empty"
    " list is a good answer."
)


def make_findings_schema(fields: Mapping[str, Any], most: int) -> Mapping[str, Any]:
    """Return the schema of a draft of findings with these fields, all of them required."""
    row = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"findings": {"type": "array", "maxItems": most, "items": row}},
        "required": ["findings"],
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_LINE = {"type": "integer", "minimum": 1}
SCHEMA = make_findings_schema(
    {
        "file_path": _TEXT,
        "start_line": _LINE,
        "end_line": _LINE,
        "quote": _TEXT | {"description": "The line it is about, word for word."},
        "title": _TEXT | {"minLength": 3, "maxLength": 200},
        "body": _TEXT | {"maxLength": 2_000, "description": "Why it is wrong, and when it shows."},
        "priority": {
            "type": "integer",
            "minimum": 0,
            "maximum": 3,
            "description": "0 must not be merged, 3 is a hint.",
        },
        "category": {"type": "string", "enum": list(CATEGORIES)},
        "confidence_score": {"type": "number", "minimum": 0, "maximum": 1},
        "suggestion": _TEXT | {"description": "What to do; empty if unclear."},
    },
    FINDINGS_MAX,
)
"""The draft of a second pass over a change."""


@dataclass(frozen=True, slots=True)
class PendingReview:
    """A review that waits for a second pass, or has had one. `submissions` are the drafts that were merged."""

    files: tuple[FileDiff, ...]
    result: ReviewResult
    options: ReviewOptions
    rules: tuple[str, ...] = ()
    submissions: tuple[str, ...] = ()


class MergedReview(NamedTuple):
    """A review after a second pass: what to store, and the findings that were rejected, with reasons."""

    pending: PendingReview
    rejected: tuple[RejectedItem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def result(self) -> ReviewResult:
        """The result of the review as it is now."""
        return self.pending.result


class PendingReviews:
    """The reviews of one workspace that wait for a second pass. Thread-safe."""

    def __init__(self, store: ReviewStore, now: Now) -> None:
        self._store = store
        self._now = now

    def keep(self, pending: PendingReview, review_id: str = "") -> str:
        """Store a review, under a new id unless it has one, and return the id."""
        now = self._now()
        review_id = review_id or f"rev_{uuid7(round(now * 1000), os.urandom(CHANCE_BYTES))}"
        self._store.keep(review_id, msgspec.json.encode(pending), now)
        return review_id

    def load(self, review_id: str) -> PendingReview:
        """Return a stored review. Raises: ReviewNotFound."""
        stored = self._store.read_kept(review_id)
        if stored is None:
            raise ReviewNotFound(
                f"no review that waits for findings is called {review_id[:60]!r}",
                suggestion="Review the change again, and send findings with the review_id of that reply.",
                details={"review_id": review_id[:100]},
            )
        return msgspec.json.decode(stored, type=prepare_type(PendingReview))

    def offer(self, tool: str, review_id: str) -> SecondPass:
        """Return the request for a second pass: the brief, the schema, and the next call. Raises: ReviewNotFound."""
        return SecondPass(tool, review_brief(self.load(review_id)), SCHEMA, {"review_id": review_id}, draft="findings")

    def merge_draft(self, review_id: str, draft: Any, *, source: str, submission_id: str = "") -> MergedReview:
        """Merge the findings of a second pass into a stored review. Raises: ReviewNotFound, InvalidArgument."""
        before = self.load(review_id)
        merged = merge_draft_into(before, draft, source=source, submission_id=submission_id)
        if merged.pending != before:
            self.keep(merged.pending, review_id)
        return merged


def merge_draft_into(pending: PendingReview, draft: Any, *, source: str, submission_id: str = "") -> MergedReview:
    """Merge the findings of a draft into a review: a bare list is accepted, too, and JSON in a text.

    Raises: InvalidArgument (the draft violates its schema).
    """
    if isinstance(draft, str):
        with suppress(ValueError):  # `accept_draft` reports what is wrong with it
            draft = parse_draft(draft)
    accepted = accept_draft({"findings": list(draft)} if isinstance(draft, list | tuple) else draft, SCHEMA, "findings")
    name = submission_id or compute_draft_id(accepted)
    if name in pending.submissions:
        return MergedReview(pending)
    checked = check_draft(accepted, pending.files)
    if checked.rejected and not checked.kept:  # a draft without one valid finding is not a second pass
        return MergedReview(pending, checked.rejected, checked.warnings)
    by_path = {file.path: file for file in pending.files}
    second = [_make_finding(row, by_path[row["file_path"]], source) for row in checked.kept]
    before = pending.result
    after = make_result(
        join_findings(before.findings, second),
        pending.options,
        before.coverage,
        before.summary,
        warnings=before.warnings,
        is_partial=before.is_partial,
        second_pass=True,
    )
    filtered = {reason: before.filtered[reason] + count for reason, count in after.filtered.items()}
    result = replace(after, filtered=filtered, questions=before.questions)
    merged = replace(pending, result=result, submissions=(*pending.submissions, name))
    return MergedReview(merged, checked.rejected, checked.warnings)


def explain_rejections(pending: PendingReview, draft: Mapping[str, Any]) -> str:
    """Return the text for a model about its draft before its second try; empty when all findings are valid."""
    rejected = check_draft(draft, pending.files).rejected
    return "; ".join(f"{finding.place}: {finding.reason}" for finding in rejected)


# -- the findings of a draft -------------------------------------------------------------------------------------------


def check_draft(draft: Mapping[str, Any], files: Sequence[FileDiff]) -> CheckedClaims:
    """Check a draft: lines must be in a hunk, and quotes must be there."""
    by_path = {file.path: file for file in files if file.new_path}
    facts = RepositoryFacts(
        has_path=by_path.__contains__,
        text=lambda path: "\n".join(_new_lines(by_path[path]).values()) if path in by_path else None,
        spans=lambda path: _spans(by_path[path]) if path in by_path else (),
    )
    return check_claims([make_claim(row, f"findings[{at}]") for at, row in enumerate(draft["findings"])], facts)


def make_claim(row: Mapping[str, Any], place: str) -> Claim:
    """Return what a finding of a draft says of the code."""
    path, quote = row["file_path"], row.get("quote")
    quotes = [ClaimedQuote(path, quote)] if quote else []
    return Claim(row, place, lines=[ClaimedLines(path, row["start_line"], row["end_line"])], quotes=quotes)


def _new_lines(file: FileDiff) -> dict[int, str]:
    return {line.new: line.text for hunk in file.hunks for line in hunk.lines if line.new}


def _spans(file: FileDiff) -> tuple[LineSpan, ...]:
    return tuple(merge_spans(hunk.new for hunk in file.hunks if hunk.new))


def _make_finding(row: Mapping[str, Any], file: FileDiff, source: str) -> Finding:
    lines = _new_lines(file)
    first, last = row["start_line"], row["end_line"]
    start = find_quote(lines.items(), row["quote"], first, last)
    if start != first:  # models count badly
        last = min(next(hunk.last for hunk in _spans(file) if hunk.first <= start <= hunk.last), start + last - first)
    suggestion, quote = row["suggestion"].strip(), lines.get(start, "").strip()
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
        span=LineSpan(start, last),
        quote=quote,
        id=fingerprint(f"{rule} {_normalize_words(row['title'])}", file.path, quote, 0),
        is_on_changed_line=any(number in file.added_numbers for number in range(start, last + 1)),
        suggestion=Suggestion(suggestion) if suggestion else None,
    )


def find_quote(lines: Iterable[tuple[int, str]], quote: str, first: int, last: int) -> int:
    """Return the line nearest to `first` on which a quote begins; `first` when it is on none, or among the lines."""
    wanted = next(filter(None, map(_normalize_words, quote.split("\n"))), "")
    numbers = [number for number, text in lines if wanted and wanted in _normalize_words(text)]
    if any(first <= number <= last for number in numbers):
        return first
    return min(numbers, key=lambda number: (abs(number - first), number), default=first)


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
    confidence = min(1.0 if is_checked else CONFIDENCE_MAX, max(known.confidence, again.confidence))
    evidence = (*known.evidence, f"the second pass ({again.source}) reports it, too: {again.title}")
    return replace(known, confidence=confidence, evidence=evidence, related=(*known.related, again.id))


def word_similarity(one: str, other: str) -> float:
    """Return the share of words that two texts have in common (Jaccard).

    >>> word_similarity("Result is never closed", "the result is never closed"), word_similarity("a", "b")
    (0.8, 0.0)
    """
    left, right = set(_normalize_words(one).split()), set(_normalize_words(other).split())
    return len(left & right) / len(left | right) if left | right else 1.0


def _normalize_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


# -- what is stored, and shown -----------------------------------------------------------------------------------------


def make_pending(
    result: ReviewResult,
    options: ReviewOptions,
    files: Iterable[ReviewedFile],
    redact: Redact,
    rules: Iterable[str] = (),
) -> PendingReview:
    """Return what is stored of a review, and of its change: code before tests, tests before everything else."""

    def rank(file: ReviewedFile) -> tuple[int, str]:
        is_code = file.new is not None and file.new.is_code
        return int(file.is_test) if is_code else 2, file.path

    stored: list[FileDiff] = []
    room = LINES_MAX
    for file in sorted(files, key=rank):
        lines = sum(len(hunk.lines) for hunk in file.diff.hunks)
        if 0 < lines <= room:
            room -= lines
            stored.append(replace(file.diff, hunks=tuple(_redact_hunk(hunk, redact) for hunk in _cut_hunks(file))))
    masked = replace(result, questions=tuple(map(redact, result.questions)), ms=())
    return PendingReview(tuple(stored), masked, options, tuple(map(redact, rules)))


def _cut_hunks(file: ReviewedFile) -> Iterator[DiffHunk]:
    """Yield the hunks of a file in pieces with changes, each with the function or class around it."""
    for hunk in file.diff.hunks:
        for start in range(0, len(hunk.lines), PIECE_LINES):
            lines = hunk.lines[start : start + PIECE_LINES]
            added = next((line.new for line in lines if line.mark == "+"), 0)
            if added or any(line.mark == "-" for line in lines):
                symbol = file.new.enclosing(added) if file.new and added else None
                spans = (_span([line.old for line in lines]), _span([line.new for line in lines]))
                yield DiffHunk(*spans, symbol.name if symbol else hunk.section, lines)


def _span(numbers: Iterable[int | None]) -> LineSpan | None:
    known = list(filter(None, numbers))
    return LineSpan(known[0], known[-1]) if known else None


def _redact_hunk(hunk: DiffHunk, redact: Redact) -> DiffHunk:
    """Return a hunk without secrets, also without those of several lines."""
    texts = redact("\n".join(line.text for line in hunk.lines)).split("\n")
    if len(texts) != len(hunk.lines):  # a line contains a line end of another kind
        texts = [redact(line.text) for line in hunk.lines]
    lines: Iterator[DiffLine] = (line._replace(text=text) for line, text in zip(hunk.lines, texts, strict=True))
    return replace(hunk, lines=tuple(lines))


def review_brief(pending: PendingReview) -> str:
    """Return the brief of a second pass; what does not fit is counted."""
    hunks = [(file.path, hunk) for file in pending.files for hunk in file.hunks if hunk.new]
    known = [
        f"{PRIORITIES[finding.priority]} {finding.path}:{finding.span} {finding.rule}: {finding.title}"
        for finding in pending.result.findings[:KNOWN_MAX]
    ]
    questions = list(pending.result.questions)
    parts = [
        BriefSection("The checks found already (do not repeat them)", known),
        BriefSection("Questions (nothing is certain: look, and report only what is wrong)", questions),
        BriefSection("Rules of this repository", list(pending.rules[:RULES_MAX])),
        BriefSection("Hunks", [_number_lines(number, path, hunk) for number, (path, hunk) in enumerate(hunks, 1)]),
    ]
    task = f"{_TASK}\n{pending.options.custom_instructions.strip()}".rstrip()
    return build_brief(task, parts)


def _number_lines(number: int, path: str, hunk: DiffHunk) -> str:
    section = f" in {hunk.section}" if hunk.section else ""
    lines = (f"{line.mark}{line.new or '':>5} {line.text[:LINE_CHARS].rstrip()}" for line in hunk.lines)
    return "\n".join((f"[{number}] {path}:{hunk.new}{section}", *lines))


# -- a second pass over a content --------------------------------------------------------------------------------------

CRITIQUE_CATEGORIES = ("correctness", "completeness", "security", "clarity")
CRITIQUE_FINDINGS_MAX = 30
CRITIQUE_KNOWN_MAX = 10
"""Findings that the brief repeats."""
SAME_CONTENT = "<the same content>"
"""Placeholder in the next call for the content, which the agent already has and need not pay for twice."""
CRITIQUE_SCHEMA = make_findings_schema(
    {
        "line": _LINE,
        "quote": _TEXT | {"description": "The line, word for word."},
        "category": {"type": "string", "enum": list(CRITIQUE_CATEGORIES)},
        "message": _TEXT | {"minLength": 3, "maxLength": 500},
        "suggestion": _TEXT,
    },
    CRITIQUE_FINDINGS_MAX,
)
_CRITIQUE_TASK = (
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
            BriefSection("Known already", known[:CRITIQUE_KNOWN_MAX]),
            BriefSection(f"Content ({request.path or request.kind})", lines),
        ]
        next_call = {"content": SAME_CONTENT, "content_type": request.kind, "file_path": request.path}
        brief = build_brief(_CRITIQUE_TASK, sections)
        return SecondPass("validate_content", brief, CRITIQUE_SCHEMA, next_call, draft="findings", is_stored=False)

    def explain_rejection(self, draft: Mapping[str, Any]) -> str:
        """Return why a whole draft is unusable; empty when some of it fits, or when it is empty."""
        checked = self._check(draft)
        return checked.rejected[0].reason if checked.rejected and not checked.kept else ""

    def merge(self, draft: Any) -> tuple[ValidationResult, list[dict[str, str]]]:
        """Add the findings of a draft to the result, and return those that were rejected, with the reasons.

        Raises: InvalidArgument (the draft violates its schema).
        """
        checked = self._check(accept_draft(draft, CRITIQUE_SCHEMA, "findings"))
        lines, found = split_lines(self.content), []
        for row in checked.kept:
            line = find_quote(enumerate(lines, 1), row["quote"], row["line"], row["line"])
            rule, place = f"critique-{row['category']}", (min(line, len(lines)), 1)
            message, advice = row["message"].strip(), row["suggestion"].strip()
            found.append(report(rule, message, place, family="critique", category=row["category"], advice=advice))
        findings = (*self.result.findings, *complete_findings(found, self.content))
        rejected = [{"place": item.place, "reason": item.reason} for item in checked.rejected]
        return replace(self.result, findings=findings, tiers_run=(*self.result.tiers_run, 3)), rejected

    def _check(self, draft: Mapping[str, Any]) -> CheckedClaims:
        rows = [
            row | {"file_path": _HERE, "start_line": row["line"], "end_line": row["line"]} for row in draft["findings"]
        ]
        claims = [make_claim(row, f"findings[{number}]") for number, row in enumerate(rows)]
        return check_claims(claims, RepositoryFacts(has_path=_HERE.__eq__, text=lambda _: self.content))
