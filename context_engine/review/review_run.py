"""One review from the files of a change to what is told of them: look at each, at all together, ask the analysers, judge.

Time is the only thing that ends it early, and then it says so: what was not looked at is in the coverage, by name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.errors import Cancelled
from context_engine.review.analyzers.analyzer_runner import AnalyzerReport, AnalyzerRunner, TreeReader
from context_engine.review.classification import summarize_change
from context_engine.review.finding import Scrub, scrub_finding
from context_engine.review.review_coverage import Coverage, FileCoverage, add_reason
from context_engine.review.reviewer import FileFindings, Reviewer, count_lines
from context_engine.review.verdict import ReviewResult, make_result

if TYPE_CHECKING:
    from context_engine.model import Skipped
    from context_engine.review.review_context import ReviewContext
    from context_engine.review.review_options import ReviewOptions
    from context_engine.review.source_versions import ChangedFile

ACROSS_SHARE = 0.8
"""When so much of the time is over, what looks through the whole tree is not begun any more."""


@dataclass(frozen=True, slots=True)
class ReviewedChange:
    """What is reviewed: its files, the tree they lead to, and the whole tree they come from, for compilers.

    `left_out` are files whose text is not here, with the reasons; `began` is a moment of `time.monotonic`.
    """

    files: tuple[ChangedFile, ...]
    context: ReviewContext
    began: float
    before: TreeReader = dict
    left_out: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class ReviewRun:
    """Who reviews, under which options: `excludes` says which paths not, `scrub_parts` takes secrets out of parts of files."""

    reviewer: Reviewer
    bench: AnalyzerRunner
    options: ReviewOptions
    excludes: Callable[[str], bool]
    scrub_parts: Callable[[Iterable[ChangedFile]], Scrub]
    warnings: tuple[str, ...] = ()

    def review(self, change: ReviewedChange, cancel: threading.Event | None = None) -> ReviewResult:
        """What the change shows. Raises: Cancelled."""
        wanted = [file for file in change.files if not self.excludes(file.path)]
        deadline = change.began + self.options.time_budget_s
        looked, is_partial = self._looked(wanted, deadline, cancel)
        findings = [finding for each in looked for finding in each.findings]
        marks = [time.monotonic()]
        if is_partial or marks[0] > change.began + ACROSS_SHARE * self.options.time_budget_s:
            is_partial = True
        else:
            findings += self.reviewer.review_change(wanted, change.context)
        marks.append(time.monotonic())
        analysed = self._analysed(wanted, change, deadline, cancel)
        marks.append(time.monotonic())
        scrub = self.scrub_parts(wanted)  # what is told repeats no secret; a finding is known by its id already
        return make_result(
            [scrub_finding(each, scrub) for each in (*findings, *analysed.findings)],
            self.options,
            Coverage(self._covered(change, looked), analysed.runs),
            summarize_change(count_lines(wanted), change.context.hot_paths()),
            warnings=(*self.warnings, *analysed.warnings),
            is_partial=is_partial,
            ms=(*sum_stages(looked), ("across", _ms(marks[0], marks[1])), ("analyzers", _ms(marks[1], marks[2]))),
        )

    def _looked(
        self, files: Sequence[ChangedFile], deadline: float, cancel: threading.Event | None
    ) -> tuple[list[FileFindings], bool]:
        """Each file looked at while there is time; whether it ran out."""
        looked: list[FileFindings] = []
        for file in files:
            _check(cancel)
            if time.monotonic() > deadline:
                return looked, True
            looked.append(self.reviewer.review_file(file))
        return looked, False

    def _analysed(
        self, files: Sequence[ChangedFile], change: ReviewedChange, deadline: float, cancel: threading.Event | None
    ) -> AnalyzerReport:
        def after() -> Mapping[str, bytes]:
            return change.context.read(change.context.list_paths())

        analysed = self.bench.run(
            files, self.options, deadline=deadline, before=change.before, after=after, cancel=cancel
        )
        _check(cancel)
        return analysed

    def _covered(self, change: ReviewedChange, looked: Iterable[FileFindings]) -> tuple[FileCoverage, ...]:
        """Every file of the change: looked at, or why not."""
        whys = {each.path: each.detail or each.reason for each in change.left_out}
        covered = {each.coverage.path: add_reason(each.coverage, whys.get(each.coverage.path, "")) for each in looked}
        for file in change.files:
            why = "excluded by a pattern" if self.excludes(file.path) else "no time was left"
            covered.setdefault(file.path, FileCoverage(file.path, why))
        for path, why in whys.items():  # what git names, and the diff does not
            covered.setdefault(path, FileCoverage(path, why))
        return tuple(covered[path] for path in sorted(covered))


def _check(cancel: threading.Event | None) -> None:
    """Raises: Cancelled."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the review was cancelled", suggestion="ask again")


def sum_stages(looked: Iterable[FileFindings]) -> list[tuple[str, float]]:
    """The milliseconds of each stage over all files."""
    total: dict[str, float] = {}
    for each in looked:
        for name, ms in each.ms:
            total[name] = total.get(name, 0.0) + ms
    return list(total.items())


def _ms(start: float, stop: float) -> float:
    return (stop - start) * 1_000
