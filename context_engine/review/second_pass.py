"""Second passes: what is kept of a review until an agent or a model reads the change, and the merge of its findings.

    review_id = second_passes.keep(make_pending(result, options, files, redact))
    refined = engine.second_pass.run(second_passes.offer("review_changes", review_id), assist)
    merged = second_passes.merge_draft(review_id, refined.draft, source="host")

A draft that is sent twice changes nothing. Secrets are removed before anything is stored or shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import msgspec

from context_engine.context import (
    BRIEF_TOKENS_MAX,
    BriefSection,
    RejectedItem,
    SecondPass,
    accept_draft,
    build_brief,
    compute_draft_id,
    parse_draft,
)
from context_engine.errors import ReviewNotFound
from context_engine.model import Finding
from context_engine.review.classification import ChangeSummary
from context_engine.review.finding import PRIORITIES, Redact
from context_engine.review.review_options import ReviewOptions
from context_engine.review.review_store import ReviewStore
from context_engine.review.reviewer import TESTS
from context_engine.review.second_pass_findings import SCHEMA, join_findings, validate_draft
from context_engine.review.source_versions import ReviewedFile
from context_engine.review.verdict import Coverage, ReviewResult, SuppressedCounts, make_result
from context_engine.text import CHANCE_BYTES, DiffHunk, DiffLine, FileDiff, LineSpan, uuid7
from context_engine.timestamps import Now

LINES_MAX = 20_000
"""Of all hunks together; the brief shows some hundred of them, and no draft is about lines that it did not show."""
PIECE_LINES = 40
"""A longer hunk is shown in pieces, so that one of them does not fill a whole brief."""
LINE_CHARS = 200
FINDINGS_MAX = 12
RULES_MAX = 12
_TASK = (
    "Review this change as an experienced colleague would. Report only what is wrong in the new lines: logic errors,"
    " broken callers, missed cases, races, leaks, security holes. Each finding names its file, its lines as numbered"
    " below and quotes the line it is about, word for word. No praise, no style, nothing you are not sure of; an empty"
    " list is a good answer."
)


@dataclass(frozen=True, slots=True)
class PendingReview:
    """A review that waits for a second pass, or has had one. `submissions` are the drafts that were merged."""

    files: tuple[FileDiff, ...]
    findings: tuple[Finding, ...]
    filtered: SuppressedCounts
    coverage: Coverage
    summary: ChangeSummary
    options: ReviewOptions
    warnings: tuple[str, ...] = ()
    is_partial: bool = False
    rules: tuple[str, ...] = ()
    submissions: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    @property
    def result(self) -> ReviewResult:
        """The result of the review as it is now."""
        result = make_result(
            self.findings,
            self.options,
            self.coverage,
            self.summary,
            warnings=self.warnings,
            is_partial=self.is_partial,
            second_pass=bool(self.submissions),
        )
        before, now = asdict(self.filtered), asdict(result.filtered)
        filtered = SuppressedCounts(**{reason: before[reason] + count for reason, count in now.items()})
        return replace(result, filtered=filtered)


class MergedReview(NamedTuple):
    """A review after a second pass: what to store, its result, and the findings that were rejected, with reasons."""

    pending: PendingReview
    result: ReviewResult
    rejected: tuple[RejectedItem, ...]
    warnings: tuple[str, ...]


class PendingReviews:
    """The reviews of one workspace that wait for a second pass. Thread-safe."""

    def __init__(self, store: ReviewStore, now: Now) -> None:
        self._store = store
        self._now = now

    def keep(self, pending: PendingReview, review_id: str = "") -> str:
        """Store a review, under a new id unless it has one, and return the id."""
        now = self._now()
        review_id = review_id or f"rev_{uuid7(round(now * 1000), os.urandom(CHANCE_BYTES))}"
        self._store.keep(review_id, encode_pending(pending), now)
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
        return msgspec.json.decode(stored, type=PendingReview)

    def offer(self, tool: str, review_id: str) -> SecondPass:
        """Return the request for a second pass: the brief, the schema, and the next call. Raises: ReviewNotFound."""
        pending = self.load(review_id)
        instructions = pending.options.custom_instructions
        prompt = review_brief(
            pending.files, pending.findings, pending.rules, instructions=instructions, questions=pending.questions
        )
        return SecondPass(tool, prompt, SCHEMA, {"review_id": review_id}, draft="findings")

    def merge_draft(self, review_id: str, draft: Any, *, source: str, submission_id: str = "") -> MergedReview:
        """Merge the findings of a second pass into a stored review. Raises: ReviewNotFound, InvalidArgument."""
        before = self.load(review_id)
        merged = merge_draft_into(before, draft, source=source, submission_id=submission_id)
        if merged.pending != before:
            self.keep(merged.pending, review_id)
        return merged


def encode_pending(pending: PendingReview) -> bytes:
    """Return a review as it is stored."""
    return msgspec.json.encode(pending)


def merge_draft_into(pending: PendingReview, draft: Any, *, source: str, submission_id: str = "") -> MergedReview:
    """Merge the findings of a draft into a review. Raises: InvalidArgument (the draft violates its schema)."""
    checked = accept_draft(_normalize_draft(draft), SCHEMA, "findings")
    name = submission_id or compute_draft_id(checked)
    if name in pending.submissions:
        return MergedReview(pending, pending.result, (), ())
    valid = validate_draft(checked, pending.files, source=source)
    if valid.rejected and not valid.findings:  # a draft without one valid finding is not a second pass
        return MergedReview(pending, pending.result, valid.rejected, valid.warnings)
    findings = join_findings(pending.findings, valid.findings)
    merged = replace(pending, findings=findings, submissions=(*pending.submissions, name))
    return MergedReview(merged, merged.result, valid.rejected, valid.warnings)


def explain_rejections(pending: PendingReview, draft: Mapping[str, Any]) -> str:
    """Return the text for a model about its draft before its second try; empty when all findings are valid."""
    rejected = validate_draft(draft, pending.files, source="model").rejected
    return "; ".join(f"{finding.place}: {finding.reason}" for finding in rejected)


def _normalize_draft(draft: Any) -> Any:
    """Return the draft as its schema has it: a bare list of findings is accepted, and JSON in a text."""
    if isinstance(draft, str):
        try:
            draft = parse_draft(draft)
        except ValueError:
            return draft  # `accept_draft` reports what is wrong with it
    if isinstance(draft, list | tuple):
        return {"findings": list(draft)}
    return draft


# -- what is stored ----------------------------------------------------------------------------------------------------


def make_pending(
    result: ReviewResult,
    options: ReviewOptions,
    files: Iterable[ReviewedFile],
    redact: Redact,
    rules: Iterable[str] = (),
) -> PendingReview:
    """Return what is stored of a review, and of its change: code before tests, tests before everything else."""
    stored: list[FileDiff] = []
    room = LINES_MAX
    for file in sorted(files, key=_rank):
        lines = sum(len(hunk.lines) for hunk in file.diff.hunks)
        if 0 < lines <= room:
            room -= lines
            stored.append(replace(file.diff, hunks=tuple(_redact_hunk(hunk, redact) for hunk in _cut_hunks(file))))
    return PendingReview(
        files=tuple(stored),
        findings=result.findings,
        filtered=result.filtered,
        coverage=result.coverage,
        summary=result.summary,
        options=options,
        warnings=result.warnings,
        is_partial=result.is_partial,
        rules=tuple(map(redact, rules)),
        questions=tuple(map(redact, result.questions)),
    )


def _rank(file: ReviewedFile) -> tuple[int, str]:
    """Sort key of files where there is no room for all."""
    if file.new is None or not file.new.is_code:
        return 2, file.path
    return int(bool(TESTS.search(file.path))), file.path


def _cut_hunks(file: ReviewedFile) -> Iterator[DiffHunk]:
    """Yield the hunks of a file in pieces with changes, each with the function or class around it."""
    for hunk in file.diff.hunks:
        for start in range(0, len(hunk.lines), PIECE_LINES):
            lines = hunk.lines[start : start + PIECE_LINES]
            added = next((line.new for line in lines if line.mark == "+"), 0)
            if added or any(line.mark == "-" for line in lines):
                symbol = None
                if file.new and added:
                    symbol = file.new.enclosing(added)
                section = symbol.name if symbol else hunk.section
                yield DiffHunk(_span(lines, "old"), _span(lines, "new"), section, lines)


def _span(lines: Iterable[DiffLine], side: Literal["old", "new"]) -> LineSpan | None:
    """Return the lines of one version that are among these."""
    numbers = [number for line in lines if (number := getattr(line, side))]
    if numbers:
        return LineSpan(numbers[0], numbers[-1])
    return None


def _redact_hunk(hunk: DiffHunk, redact: Redact) -> DiffHunk:
    """Return a hunk without secrets, also without those of several lines."""
    texts = redact("\n".join(line.text for line in hunk.lines)).split("\n")
    if len(texts) != len(hunk.lines):  # a line contains a line end of another kind
        texts = [redact(line.text) for line in hunk.lines]
    return replace(hunk, lines=tuple(line._replace(text=text) for line, text in zip(hunk.lines, texts, strict=True)))


# -- what is shown -----------------------------------------------------------------------------------------------------


def review_brief(
    files: Iterable[FileDiff],
    findings: Sequence[Finding],
    rules: Sequence[str] = (),
    *,
    instructions: str = "",
    questions: Sequence[str] = (),
    tokens_max: int = BRIEF_TOKENS_MAX,
) -> str:
    """Return the brief of a second pass; what does not fit is counted."""
    hunks = [(file.path, hunk) for file in files for hunk in file.hunks if hunk.new]
    known = [
        f"{PRIORITIES[finding.priority]} {finding.path}:{finding.span} {finding.rule}: {finding.title}"
        for finding in findings[:FINDINGS_MAX]
    ]
    parts = [
        BriefSection("The checks found already (do not repeat them)", known),
        BriefSection("Questions (nothing is certain: look, and report only what is wrong)", list(questions)),
        BriefSection("Rules of this repository", list(rules[:RULES_MAX])),
        BriefSection("Hunks", [_number_lines(number, path, hunk) for number, (path, hunk) in enumerate(hunks, 1)]),
    ]
    task = _TASK
    if instructions.strip():
        task = f"{_TASK}\n{instructions.strip()}"
    return build_brief(task, parts, tokens_max=tokens_max)


def _number_lines(number: int, path: str, hunk: DiffHunk) -> str:
    section = f" in {hunk.section}" if hunk.section else ""
    lines = (f"{line.mark}{line.new or '':>5} {line.text[:LINE_CHARS].rstrip()}" for line in hunk.lines)
    return "\n".join((f"[{number}] {path}:{hunk.new}{section}", *lines))
