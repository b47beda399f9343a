"""PURE. The result of a review: which findings are shown, which are suppressed and why, the verdict, the risk.

The verdict of checks alone is never "patch is correct": they find almost none of the real logic errors, so their
silence says little. Only a second pass by an agent or a model may say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from context_engine.model import Finding, Skipped
from context_engine.review.checks import CHECKS
from context_engine.review.classification import ChangeSummary
from context_engine.review.finding import PRIORITIES
from context_engine.review.review_options import ReviewOptions

# -- review coverage ---------------------------------------------------------------------------------------------------

# The coverage of a review: every file or the reason why not, and every analyzer with its outcome.

NO_TIME = "no time was left"
"""Why a file or an analyzer was left out: the next review may have the time."""


@dataclass(frozen=True, slots=True)
class AnalyzerRun:
    """One external program. `why_not` is set when it did not run, or not to its end."""

    name: str
    ran: bool
    ms: int = 0
    findings: int = 0
    why_not: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether another run may report more: this one failed, or had no time."""
        return bool(self.why_not) and (self.ran or self.why_not == NO_TIME)


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """One file. `skipped` is why it was not reviewed at all, `partly` what could not be checked, and why."""

    path: str
    skipped: str = ""
    partly: str = ""

    def with_reason(self, why: str) -> FileCoverage:
        """Add the reason why the text of the file, or a part of it, is missing.

        >>> FileCoverage("a.py").with_reason("the old version is too large").partly
        'the old version is too large'
        """
        return replace(self, **{"skipped" if self.skipped else "partly": why}) if why else self


@dataclass(frozen=True, slots=True)
class Coverage:
    """All files of a change, each reviewed or skipped, and all analyzers."""

    files: tuple[FileCoverage, ...] = ()
    analyzers: tuple[AnalyzerRun, ...] = ()

    @property
    def files_reviewed(self) -> int:
        """The number of files that were reviewed."""
        return sum(not file.skipped for file in self.files)

    @property
    def files_skipped(self) -> tuple[Skipped, ...]:
        """The files that were not reviewed, with their reasons."""
        return tuple(Skipped(file.path, file.skipped) for file in self.files if file.skipped)

    @property
    def files_partly(self) -> tuple[Skipped, ...]:
        """The files of which only a part was reviewed, with the reasons."""
        return tuple(Skipped(file.path, file.partly) for file in self.files if file.partly and not file.skipped)


def merge_coverage(parts: Iterable[Coverage]) -> Coverage:
    """Merge the coverage of several parts of one change; an analyzer that ran for several becomes one run."""
    files: dict[str, FileCoverage] = {}
    runs: dict[str, AnalyzerRun] = {}
    for part in parts:
        files |= {file.path: file for file in part.files}
        for run in part.analyzers:
            one = runs.get(run.name, AnalyzerRun(run.name, ran=False))
            why_not = "; ".join(dict.fromkeys(filter(None, (one.why_not, run.why_not))))
            merged = replace(one, ran=one.ran or run.ran, ms=one.ms + run.ms, why_not=why_not)
            runs[run.name] = replace(merged, findings=one.findings + run.findings)
    return Coverage(tuple(files[path] for path in sorted(files)), tuple(runs[name] for name in sorted(runs)))


# -- verdict -----------------------------------------------------------------------------------------------------------

Verdict = Literal["blocking_findings", "needs_attention", "no_deterministic_findings"]
QUESTIONS_MAX = 8
"""A reader of more suspicions stops looking at the change."""
QUESTION_CONFIDENCE_MIN = 0.1
"""Nine of ten suspicions below it are wrong. Without it 28 of 100 clean commits of four repositories were asked about
(evals/reviews)."""
BLOCKING = 1
"""P0 and P1."""
CORRECT_CONFIDENCE = 0.6
"""The confidence of a second pass that found nothing: it reads what checks cannot, and overlooks much."""
HEADLINES = {
    "blocking_findings": "Must not be merged as it is",
    "needs_attention": "Needs attention",
    "no_deterministic_findings": "The checks found nothing",
}


@dataclass(frozen=True, slots=True)
class SuppressedCounts:
    """How many findings are not shown, by the first reason that applies."""

    preexisting: int = 0
    off_changed_lines: int = 0
    allow_listed: int = 0
    category: int = 0
    below_confidence: int = 0
    over_max: int = 0

    def __str__(self) -> str:
        """Return the counts above 0, by the names of the options that would show these findings."""
        counts = asdict(self).items()
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts if count)


@dataclass(frozen=True, slots=True)
class ReviewResult:
    """The result of a review. `findings` are those that are shown, most pressing first.

    `questions` are suspicions below the threshold, for a second pass. `is_partial`: the time was over before everything
    was reviewed. `second_pass`: the findings of an agent or a model are among them.
    """

    findings: tuple[Finding, ...]
    filtered: SuppressedCounts
    verdict: Verdict
    coverage: Coverage
    summary: ChangeSummary
    fail_reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_partial: bool = False
    second_pass: bool = False
    ms: tuple[tuple[str, float], ...] = field(default=())
    questions: tuple[str, ...] = ()

    @property
    def should_fail(self) -> bool:
        """Whether CI should stop here."""
        return bool(self.fail_reasons)

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        if self.overall_correctness == "patch is correct":
            return "Nothing found, by the checks and by a second pass"
        return HEADLINES[self.verdict]

    @property
    def overall_correctness(self) -> str:
        """The verdict in the words of the first contract; only a second pass makes a patch correct."""
        if self.verdict == "blocking_findings":
            return "patch is incorrect"
        is_clean = self.second_pass and self.verdict == "no_deterministic_findings" and not self.is_partial
        return "patch is correct" if is_clean else "needs attention"

    @property
    def overall_confidence(self) -> float:
        """The highest confidence of a finding; the silence of checks alone has none."""
        if self.findings:
            return max(finding.confidence for finding in self.findings)
        return CORRECT_CONFIDENCE if self.second_pass else 0.0

    @property
    def overall_explanation(self) -> str:
        """One or two sentences: what was found, and what that means."""
        reviewed = f"{self.coverage.files_reviewed} of {len(self.coverage.files)} files were looked at"
        counts = Counter(PRIORITIES[finding.priority] for finding in self.findings)
        if counts:
            return f"{', '.join(f'{counts[name]} {name}' for name in PRIORITIES if counts[name])}; {reviewed}."
        if self.second_pass:
            return f"Neither the checks nor the second pass found anything; {reviewed}."
        return f"The checks found nothing; {reviewed}. Checks see few logic errors: this says nothing of those."


def make_result(
    findings: Iterable[Finding],
    options: ReviewOptions,
    coverage: Coverage,
    summary: ChangeSummary,
    *,
    warnings: Sequence[str] = (),
    is_partial: bool = False,
    second_pass: bool = False,
    ms: Sequence[tuple[str, float]] = (),
) -> ReviewResult:
    """Return the result of a review from everything that was found."""
    merged = merge_duplicates(findings)
    shown, filtered = select_findings(merged, options)
    failing = [finding for finding in shown if options.is_failing(finding.priority)]
    reasons = [
        f"{PRIORITIES[finding.priority]} {finding.title} at {finding.path}:{finding.span.first}" for finding in failing
    ]
    if options.fail_on != "none" and is_partial:
        reasons.append("the review is not complete: the time was over")
    return ReviewResult(
        findings=shown,
        filtered=filtered,
        verdict=_decide_verdict(shown),
        coverage=coverage,
        summary=summary,
        fail_reasons=tuple(reasons),
        warnings=tuple(warnings),
        is_partial=is_partial,
        second_pass=second_pass,
        ms=tuple(ms),
        questions=ask_about_suspicions(merged, options),
    )


def _decide_verdict(findings: Sequence[Finding]) -> Verdict:
    if any(finding.priority <= BLOCKING for finding in findings):
        return "blocking_findings"
    return "needs_attention" if findings else "no_deterministic_findings"


def select_findings(
    findings: Iterable[Finding], options: ReviewOptions
) -> tuple[tuple[Finding, ...], SuppressedCounts]:
    """Return the findings that are shown, most pressing first, and how many are not, each counted once."""
    shown: list[Finding] = []
    suppressed: Counter[str] = Counter()
    for finding in sorted(findings, key=lambda found: found.order):
        reason = suppression_reason(finding, options)
        if not reason and len(shown) >= options.max_findings:
            reason = "over_max"
        if reason:
            suppressed[reason] += 1
        else:
            shown.append(finding)
    return tuple(shown), SuppressedCounts(**suppressed)


def ask_about_suspicions(findings: Iterable[Finding], options: ReviewOptions) -> tuple[str, ...]:
    """Return the suspicions that are not certain enough to be shown, the likeliest first, as questions to a reader."""
    unsure = [
        finding
        for finding in findings
        if finding.rule == "difference"
        and finding.confidence >= QUESTION_CONFIDENCE_MIN
        and suppression_reason(finding, options) == "below_confidence"
    ]
    likely = sorted(unsure, key=lambda finding: (-finding.confidence, finding.order))[:QUESTIONS_MAX]
    return tuple(f"{finding.path}:{finding.span.first} {finding.title}? {finding.body}" for finding in likely)


def suppression_reason(finding: Finding, options: ReviewOptions) -> str:
    """Return why a finding is not shown; empty when it is. A P0 is shown on unchanged lines, too."""
    if not finding.is_new:
        return "preexisting"
    if options.changed_lines_only and not finding.is_on_changed_line and finding.priority > 0:
        return "off_changed_lines"
    if finding.id in options.allow_ids:
        return "allow_listed"
    if finding.category not in options.categories:
        return "category"
    return "below_confidence" if finding.confidence < options.confidence_threshold else ""


def merge_duplicates(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings that say the same of one line: the most certain one stays and names the others."""

    def by_certainty(finding: Finding) -> tuple[object, ...]:
        return finding.priority, -finding.confidence, finding.source != "builtin", finding.order

    best: dict[tuple[str, int, str], Finding] = {}
    for finding in sorted(findings, key=by_certainty):
        key = (finding.path, finding.span.first, SAME_RULES.get(finding.rule, finding.rule))
        known = best.setdefault(key, finding)
        if finding.id != known.id:
            best[key] = replace(known, related=(*known.related, finding.id))
    return list(best.values())


SAME_RULES = {other: check.rule for check in CHECKS for other in check.also}
"""Rules of analyzers that report the same as a check of this package."""
