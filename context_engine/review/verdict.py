"""PURE. The result of a review: the findings shown, the suppressed ones, the verdict, the kind and risk of the change.

The verdict of checks alone is never "patch is correct": they find almost none of the real logic errors, so their
silence says little. Only a second pass by an agent or a model may say so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from context_engine.model import Finding, Skipped
from context_engine.review.checks import CHECKS
from context_engine.review.finding import PRIORITIES, ReviewOptions
from context_engine.text import format_count

if TYPE_CHECKING:
    from context_engine.review.source_versions import ReviewedFile

# -- what was looked at ------------------------------------------------------------------------------------------------

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


def merge_runs(runs: Iterable[AnalyzerRun]) -> tuple[AnalyzerRun, ...]:
    """Merge the runs over several parts of one change to one run of each analyzer."""
    merged: dict[str, AnalyzerRun] = {}
    for run in runs:
        one = merged.get(run.name, AnalyzerRun(run.name, ran=False))
        why_not = "; ".join(dict.fromkeys(filter(None, (one.why_not, run.why_not))))
        ran, ms, findings = one.ran or run.ran, one.ms + run.ms, one.findings + run.findings
        merged[run.name] = AnalyzerRun(run.name, ran, ms, findings, why_not)
    return tuple(merged[name] for name in sorted(merged))


# -- the kind of a change, and its risk --------------------------------------------------------------------------------

# Risk is 1 plus the points of these, at most 5:
#     size      0 up to 50 changed lines, 1 up to 400, 2 above        what a person reads in ten minutes, in an hour
#     spread    1 above ten files
#     heat      1 when it changes one of the files that change most (the top tenth of the repository)
#     kind      1 when it touches migrations, deployment, dependencies or access rights
#     tests     1 when code changes and no test does

SMALL_LINES, LARGE_LINES = 50, 400
"""A person reads some 400 lines an hour with care; reviewers find little in longer changes."""
MANY_FILES = 10
RISK_MAX = 5
HOTSPOTS_MAX = 5
KINDS = {
    "dependencies": re.compile(
        r"(?:^|/)(?:package(?:-lock)?\.json|yarn\.lock|pnpm-lock\.yaml|pyproject\.toml|poetry\.lock|uv\.lock"
        r"|setup\.(?:py|cfg)|requirements[^/]*\.txt|go\.(?:mod|sum)|Cargo\.(?:toml|lock)|Gemfile(?:\.lock)?"
        r"|composer\.(?:json|lock)|pom\.xml|[^/]*\.gradle(?:\.kts)?)$"
    ),
    "migration": re.compile(r"(?:^|/)(?:migrations?|alembic|db/migrate)/"),
    "deployment": re.compile(
        r"(?:^|/)(?:\.github|\.gitlab-ci|\.circleci|deploy\w*|k8s|helm|terraform)|Dockerfile|docker-compose|Jenkinsfile|\.tf$"
    ),
    "docs": re.compile(r"(?i)\.(?:md|rst|txt|adoc)$|(?:^|/)docs?/|(?:^|/)(?:license|changelog|authors|notice)[^/]*$"),
}
"""The kinds of files that their paths name; the first that fits counts."""
ACCESS = re.compile(
    r"(?i)(?:^|[/_.-])(?:auth\w*|login|permissions?|session|crypto|secrets?|security|password|token)(?:[/_.-]|$)"
)
RISKY_KINDS = {
    "migrations": KINDS["migration"],
    "deployment": KINDS["deployment"],
    "dependencies": KINDS["dependencies"],
    "access": ACCESS,
}


def _kind_of(file: ReviewedFile) -> str:
    """Return the kind of a file: tests, code, data, or a kind that its path names."""
    if file.is_test:
        return "tests"
    named = next((name for name, pattern in KINDS.items() if pattern.search(file.path)), "")
    return named or ("code" if file.is_code else "data")


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """A change in short. `factors` name the source of each point of the risk."""

    classification: str = "empty"
    risk: int = 1
    factors: tuple[str, ...] = ()
    hotspots: tuple[str, ...] = ()
    files: int = 0
    added: int = 0
    removed: int = 0


def summarize_change(files: Sequence[ReviewedFile], hot_paths: Iterable[str] = ()) -> ChangeSummary:
    """Return the summary of a change: the kind of all its files, else what they mostly are, and its risk."""
    added, removed = sum(len(file.added) for file in files), sum(len(file.removed) for file in files)
    hotspots = sorted(set(hot_paths) & {file.path for file in files})
    kinds = set(map(_kind_of, files)) or {"empty"}
    factors = list(_find_factors(files, kinds, added + removed, hotspots))
    mixed = "code" if "code" in kinds else "mixed"
    return ChangeSummary(
        classification=mixed if len(kinds) > 1 else min(kinds),
        risk=min(RISK_MAX, 1 + sum(points for points, _ in factors)),
        factors=tuple(reason for _, reason in factors),
        hotspots=tuple(hotspots[:HOTSPOTS_MAX]),
        files=len(files),
        added=added,
        removed=removed,
    )


def _find_factors(
    files: Sequence[ReviewedFile], kinds: set[str], lines: int, hotspots: Sequence[str]
) -> Iterator[tuple[int, str]]:
    if lines > SMALL_LINES:
        yield 2 if lines > LARGE_LINES else 1, f"{lines:,} changed lines"
    if len(files) > MANY_FILES:
        yield 1, f"{len(files)} files"
    if hotspots:
        yield 1, f"often changed: {', '.join(hotspots[:3])}"
    paths = [file.path for file in files if not file.is_test]
    if risky := [name for name, pattern in RISKY_KINDS.items() if any(map(pattern.search, paths))]:
        yield 1, f"about {', '.join(risky)}"
    if "code" in kinds and "tests" not in kinds:
        yield 1, "code changed, no test changed"


# -- verdict -----------------------------------------------------------------------------------------------------------

Verdict = Literal["blocking_findings", "needs_attention", "no_deterministic_findings"]
QUESTIONS_MAX = 8
"""A reader of more suspicions stops looking at the change."""
BLOCKING = 1
"""P0 and P1."""
CORRECT_CONFIDENCE = 0.6
"""The confidence of a second pass that found nothing: it reads what checks cannot, and overlooks much."""
HEADLINES = {
    "blocking_findings": "Must not be merged as it is",
    "needs_attention": "Needs attention",
    "no_deterministic_findings": "The checks found nothing",
}
SAME_RULES = {other: check.rule for check in CHECKS for other in check.also}
"""Rules of analyzers that report the same as a check of this package."""


REASONS = ("preexisting", "off_changed_lines", "allow_listed", "category", "below_confidence", "over_max")
"""Why a finding is not shown; the first that applies counts."""


@dataclass(frozen=True, slots=True)
class ReviewResult:
    """The result of a review. `findings` are those that are shown, most pressing first; `filtered` counts the others.

    `questions` are suspicions without a direction, for a reader. `is_partial`: the time was over before everything
    was reviewed. `second_pass`: the findings of an agent or a model are among them.
    """

    findings: tuple[Finding, ...]
    filtered: Mapping[str, int]
    coverage: Coverage
    summary: ChangeSummary
    fail_reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_partial: bool = False
    second_pass: bool = False
    ms: tuple[tuple[str, float], ...] = ()
    questions: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict by the findings that are shown."""
        if any(finding.priority <= BLOCKING for finding in self.findings):
            return "blocking_findings"
        return "needs_attention" if self.findings else "no_deterministic_findings"

    @property
    def suppressed(self) -> str:
        """How many findings are not shown, by the names of the options that would show these."""
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.filtered.items() if count)

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
        is_clean = self.second_pass and not self.findings and not self.is_partial
        return "patch is correct" if is_clean else "needs attention"

    @property
    def overall_confidence(self) -> float:
        """The highest confidence of a finding; the silence of checks alone has none."""
        silence = CORRECT_CONFIDENCE if self.second_pass else 0.0
        return max((finding.confidence for finding in self.findings), default=silence)

    @property
    def overall_explanation(self) -> str:
        """One or two sentences: what was found, and what that means."""
        count, total = self.coverage.files_reviewed, len(self.coverage.files)
        reviewed = f"{format_count(count, 'file')} reviewed" if count == total else f"{count} of {total} files reviewed"
        counts = Counter(PRIORITIES[finding.priority] for finding in self.findings)
        if counts:
            return f"{', '.join(f'{counts[name]} {name}' for name in PRIORITIES if counts[name])}; {reviewed}."
        if self.second_pass:
            return f"Neither the checks nor the second pass found anything; {reviewed}."
        return f"The checks found nothing; {reviewed}. They rarely catch logic errors."


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
    shown, filtered = select_findings([finding for finding in merged if not is_question(finding)], options)
    reasons = [
        f"{PRIORITIES[finding.priority]} {finding.title} at {finding.path}:{finding.span.first}"
        for finding in shown
        if options.is_failing(finding.priority)
    ]
    if options.fail_on != "none" and is_partial:
        reasons.append("the review is not complete: the time was over")
    return ReviewResult(
        shown,
        filtered,
        coverage,
        summary,
        tuple(reasons),
        tuple(warnings),
        is_partial=is_partial,
        second_pass=second_pass,
        ms=tuple(ms),
        questions=ask_about_suspicions(merged, options),
    )


def select_findings(findings: Iterable[Finding], options: ReviewOptions) -> tuple[tuple[Finding, ...], dict[str, int]]:
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
    return tuple(shown), {name: suppressed[name] for name in REASONS}


def is_question(finding: Finding) -> bool:
    """Whether a finding only asks: a difference without a direction may be a bug or its repair."""
    return finding.rule == "difference"


def ask_about_suspicions(findings: Iterable[Finding], options: ReviewOptions) -> tuple[str, ...]:
    """Return the suspicions among the findings as questions to a reader. They never count in a verdict."""
    asked = [found for found in findings if is_question(found)]
    kept = [found for found in asked if suppression_reason(found, options) in ("", "below_confidence")]
    return tuple(f"P3 {found.path}:{found.span.first} {found.body} {found.title}" for found in kept[:QUESTIONS_MAX])


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
