"""Review one change in one go: each file, the change as a whole, the analyzers, then the verdict.

Only the time budget ends it early, and the result says so: files that were not reviewed are in the coverage, by name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.errors import Cancelled
from context_engine.review.analyzers.analyzer_runner import TreeReader
from context_engine.review.classification import summarize_change
from context_engine.review.finding import scrub_finding
from context_engine.review.review_coverage import NO_TIME, Coverage, FileCoverage
from context_engine.review.reviewer import FileFindings, Reviewer, count_lines
from context_engine.review.verdict import ReviewResult, make_result

if TYPE_CHECKING:
    from context_engine.model import Skipped
    from context_engine.review.review_context import ReviewContext
    from context_engine.review.review_options import ReviewOptions
    from context_engine.review.review_workspace import ReviewWorkspace
    from context_engine.review.source_versions import ChangedFile

WHOLE_CHANGE_SHARE = 0.8
"""When so much of the time is over, the checks that read the whole tree are not begun any more."""


@dataclass(frozen=True, slots=True)
class ReviewedChange:
    """What is reviewed: its files, the tree they lead to, and the whole tree they come from, for compilers.

    `left_out` are files whose text is unavailable, with the reasons; `began` is a moment of `time.monotonic`.
    """

    files: tuple[ChangedFile, ...]
    context: ReviewContext
    began: float
    before: TreeReader = dict
    left_out: tuple[Skipped, ...] = ()


def review_change(
    change: ReviewedChange,
    options: ReviewOptions,
    workspace: ReviewWorkspace,
    cancel: threading.Event | None = None,
) -> ReviewResult:
    """Review a change. Raises: InvalidArgument (patterns, the file of rules), Cancelled."""
    reviewer, warnings = workspace.make_reviewer(options)
    is_excluded = workspace.make_exclude_filter(options)
    files = [file for file in change.files if not is_excluded(file.path)]
    deadline = change.began + options.time_budget_s
    reviewed = _review_files(reviewer, files, deadline, cancel)
    findings = [finding for result in reviewed for finding in result.findings]
    files_end = time.monotonic()
    is_late = files_end > change.began + WHOLE_CHANGE_SHARE * options.time_budget_s
    is_partial = is_late or len(reviewed) < len(files)
    if not is_partial:
        findings += reviewer.review_change(files, change.context)
    change_end = time.monotonic()
    report = workspace.analyzers.run(
        files,
        options,
        deadline=deadline,
        before=change.before,
        after=lambda: change.context.read(change.context.list_paths()),
        cancel=cancel,
    )
    _check_cancelled(cancel)
    analyzers_s = time.monotonic() - change_end
    scrub = workspace.scrub_parts(files)  # what is shown repeats no secret; ids were computed before
    return make_result(
        [scrub_finding(finding, scrub) for finding in (*findings, *report.findings)],
        options,
        Coverage(_cover_files(change, reviewed, is_excluded), report.runs),
        summarize_change(count_lines(files), change.context.hot_paths()),
        warnings=(*warnings, *report.warnings),
        is_partial=is_partial,
        ms=(*_sum_stages(reviewed), ("across", (change_end - files_end) * 1_000), ("analyzers", analyzers_s * 1_000)),
    )


def _review_files(
    reviewer: Reviewer, files: Sequence[ChangedFile], deadline: float, cancel: threading.Event | None
) -> list[FileFindings]:
    """Review the files one after the other while there is time."""
    reviewed: list[FileFindings] = []
    for file in files:
        _check_cancelled(cancel)
        if time.monotonic() > deadline:
            break
        reviewed.append(reviewer.review_file(file))
    return reviewed


def _cover_files(
    change: ReviewedChange, reviewed: Iterable[FileFindings], is_excluded: Callable[[str], bool]
) -> tuple[FileCoverage, ...]:
    """Return every file of the change: reviewed, or why not."""
    reasons = {skipped.path: skipped.detail or skipped.reason for skipped in change.left_out}
    covered = {}
    for result in reviewed:
        path = result.coverage.path
        covered[path] = result.coverage.with_reason(reasons.get(path, ""))
    for file in change.files:
        why = "excluded by a pattern" if is_excluded(file.path) else NO_TIME
        covered.setdefault(file.path, FileCoverage(file.path, why))
    for path, why in reasons.items():  # files that git names and the diff does not
        covered.setdefault(path, FileCoverage(path, why))
    return tuple(covered[path] for path in sorted(covered))


def _check_cancelled(cancel: threading.Event | None) -> None:
    """Do nothing unless the review was cancelled. Raises: Cancelled."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the review was cancelled", suggestion="Call again.")


def _sum_stages(reviewed: Iterable[FileFindings]) -> Iterable[tuple[str, float]]:
    """Return the milliseconds of each stage over all files."""
    total: dict[str, float] = {}
    for result in reviewed:
        for stage, ms in result.ms:
            total[stage] = total.get(stage, 0.0) + ms
    return total.items()
