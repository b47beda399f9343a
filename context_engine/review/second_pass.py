"""The second look at a change: what is kept of a review until an agent or a model comes back, and what becomes of it then.

    review_id = seconds.keep(make_pending(reviewed, options, files, scrub))
    result = engine.second_pass.run(seconds.offer("review_changes", review_id), assist)
    again = seconds.merge_draft(review_id, draft, source="host")     # the checks' findings and those that stand, judged as one

Handing the same draft in again changes nothing. Secrets are taken out before anything is kept or shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import msgspec

from context_engine.context.fact_check import RejectedItem
from context_engine.context.proposals import accept_draft, compute_draft_id, parse_draft
from context_engine.context.refinement import SecondPass
from context_engine.errors import ReviewNotFound
from context_engine.model import Finding
from context_engine.review.classification import ChangeSummary
from context_engine.review.review_coverage import Coverage
from context_engine.review.review_options import ReviewOptions
from context_engine.review.review_prompt import review_brief
from context_engine.review.review_store import ReviewStore
from context_engine.review.reviewer import TESTS
from context_engine.review.second_pass_findings import SCHEMA, join_findings, validate_draft
from context_engine.review.source_versions import ChangedFile
from context_engine.review.verdict import ReviewResult, SuppressedCounts, make_result
from context_engine.storage.timestamps import Now
from context_engine.text import CHANCE_BYTES, DiffHunk, DiffLine, FileDiff, LineSpan, uuid7

LINES_MAX = 20_000
"""Of all hunks together; the brief shows some hundred of them, and no draft speaks of what it was not shown."""
PIECE_LINES = 40
"""A longer hunk is shown in pieces, so that one of them does not take all the room of a brief."""


@dataclass(frozen=True, slots=True)
class PendingReview:
    """A review that waits for a second look, or has had one: `submissions` are the drafts that were taken."""

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

    @property
    def result(self) -> ReviewResult:
        """What the review says now."""
        second = bool(self.submissions)
        told = make_result(
            self.findings, self.options, self.coverage, self.summary,
            warnings=self.warnings, is_partial=self.is_partial, second_pass=second,
        )  # fmt: skip
        return replace(told, filtered=_sum(self.filtered, told.filtered))


class MergedReview(NamedTuple):
    """A review after a second look: what to keep, what it says, what of the draft does not stand and why."""

    pending: PendingReview
    result: ReviewResult
    rejected: tuple[RejectedItem, ...]
    warnings: tuple[str, ...]


class PendingReviews:
    """The reviews of one workspace that wait for a second look. Thread-safe."""

    def __init__(self, store: ReviewStore, now: Now) -> None:
        self._store = store
        self._now = now

    def keep(self, kept: PendingReview, review_id: str = "") -> str:
        """Keep a review, under an id of its own unless it has one; the id."""
        at = self._now()
        review_id = review_id or f"rev_{uuid7(round(at * 1000), os.urandom(CHANCE_BYTES))}"
        self._store.keep(review_id, encode_pending(kept), at)
        return review_id

    def load(self, review_id: str) -> PendingReview:
        """A review that was kept. Raises: ReviewNotFound."""
        stored = self._store.read_kept(review_id)
        if stored is None:
            raise ReviewNotFound(
                f"no review that waits for findings is called {review_id[:60]!r}",
                suggestion="Review the change again, and send findings with the review_id of that reply.",
                details={"review_id": review_id[:100]},
            )
        return decode_pending(stored)

    def offer(self, tool: str, review_id: str) -> SecondPass:
        """What somebody is asked for: the brief, the schema, and the call that takes the findings back.

        Raises: ReviewNotFound.
        """
        kept = self.load(review_id)
        instructions = kept.options.custom_instructions
        brief = review_brief(kept.files, kept.findings, kept.rules, instructions=instructions)
        return SecondPass(tool, brief, SCHEMA, {"review_id": review_id}, draft="findings")

    def merge_draft(self, review_id: str, given: Any, *, source: str, submission_id: str = "") -> MergedReview:
        """What the review says with the findings of a second look; from now on, too.

        Raises: ReviewNotFound, InvalidArgument.
        """
        before = self.load(review_id)
        again = merge_draft_into(before, given, source=source, submission_id=submission_id)
        if again.pending != before:
            self.keep(again.pending, review_id)
        return again


def make_pending(
    reviewed: ReviewResult,
    options: ReviewOptions,
    files: Iterable[ChangedFile],
    scrub: Callable[[str], str],
    rules: Iterable[str] = (),
) -> PendingReview:
    """What is kept of a review, and of the change it is about: code before tests, tests before the rest."""
    shown: list[FileDiff] = []
    room = LINES_MAX
    for file in sorted(files, key=_deserves):
        lines = sum(len(hunk.lines) for hunk in file.diff.hunks)
        if 0 < lines <= room:
            room -= lines
            shown.append(replace(file.diff, hunks=tuple(_scrubbed(each, scrub) for each in _pieces(file))))
    return PendingReview(
        files=tuple(shown),
        findings=reviewed.findings,
        filtered=reviewed.filtered,
        coverage=reviewed.coverage,
        summary=reviewed.summary,
        options=options,
        warnings=reviewed.warnings,
        is_partial=reviewed.is_partial,
        rules=tuple(map(scrub, rules)),
    )


def _deserves(file: ChangedFile) -> tuple[int, str]:
    """In which order files are shown where there is no room for all."""
    is_code = bool(file.new and file.new.language and file.new.language.content == "code")
    return 2 if not is_code else int(bool(TESTS.search(file.path))), file.path


def _pieces(file: ChangedFile) -> Iterator[DiffHunk]:
    """The hunks of a file, long ones cut, each with the function or class it is in; what is unchanged only is left out."""
    for hunk in file.diff.hunks:
        for start in range(0, len(hunk.lines), PIECE_LINES):
            lines = hunk.lines[start : start + PIECE_LINES]
            changed = next((line.new for line in lines if line.mark == "+"), 0)
            if changed or any(line.mark == "-" for line in lines):
                symbol = file.new.enclosing(changed) if file.new and changed else None
                yield DiffHunk(_side(lines, "old"), _side(lines, "new"), symbol.name if symbol else hunk.section, lines)


def _side(lines: Iterable[DiffLine], side: Literal["old", "new"]) -> LineSpan | None:
    """The lines of one version that are among these."""
    numbers = [number for line in lines if (number := getattr(line, side))]
    return LineSpan(numbers[0], numbers[-1]) if numbers else None


def merge_draft_into(kept: PendingReview, given: Any, *, source: str, submission_id: str = "") -> MergedReview:
    """What a review says with the findings of a second look.

    Raises: InvalidArgument (they do not keep to the schema).
    """
    draft = accept_draft(_as_object(given), SCHEMA, "findings")
    name = submission_id or compute_draft_id(draft)
    if name in kept.submissions:
        return MergedReview(kept, kept.result, (), ())
    found = validate_draft(draft, kept.files, source=source)
    if found.rejected and not found.findings:  # nothing of it stands: that is no second look
        return MergedReview(kept, kept.result, found.rejected, found.warnings)
    after = replace(kept, findings=join_findings(kept.findings, found.findings), submissions=(*kept.submissions, name))
    return MergedReview(after, after.result, found.rejected, found.warnings)


def explain_rejections(kept: PendingReview, draft: Mapping[str, Any]) -> str:
    """What a model is told of its draft before its second try; empty when all of it stands."""
    return "; ".join(
        f"{each.place}: {each.reason}" for each in validate_draft(draft, kept.files, source="model").rejected
    )


def encode_pending(kept: PendingReview) -> bytes:
    """A review as it is stored."""
    return msgspec.json.encode(kept)


def decode_pending(stored: bytes) -> PendingReview:
    """The review that was stored."""
    return msgspec.json.decode(stored, type=PendingReview)


def _as_object(given: Any) -> Any:
    """The draft as its schema has it: a bare list of findings is understood, and JSON in a text."""
    if isinstance(given, str):
        try:
            given = parse_draft(given)
        except ValueError:
            return given  # `taken` says what is wrong with it
    return {"findings": list(given)} if isinstance(given, list | tuple) else given


def _scrubbed(hunk: DiffHunk, scrub: Callable[[str], str]) -> DiffHunk:
    """A hunk without secrets, those that go over several lines too."""
    clean = scrub("\n".join(line.text for line in hunk.lines)).split("\n")
    if len(clean) != len(hunk.lines):  # a line of theirs holds a line end of another kind
        clean = [scrub(line.text) for line in hunk.lines]
    return replace(hunk, lines=tuple(line._replace(text=text) for line, text in zip(hunk.lines, clean, strict=True)))


def _sum(one: SuppressedCounts, other: SuppressedCounts) -> SuppressedCounts:
    more = asdict(other)
    return SuppressedCounts(**{name: count + more[name] for name, count in asdict(one).items()})
