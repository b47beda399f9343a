"""PURE. Findings and options -> what a review says: what is told, what is left out and why, the verdict, the risk.

The verdict of checks alone is never "patch is correct": they find almost none of the real logic errors, so their
silence says little. Only a second pass by an agent or a model may say it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from context_engine.model import Finding
from context_engine.review.classification import ChangeSummary
from context_engine.review.finding import PRIORITIES
from context_engine.review.review_coverage import Coverage
from context_engine.review.review_options import ReviewOptions

Verdict = Literal["blocking_findings", "needs_attention", "no_deterministic_findings"]
BLOCKING = 1
"""P0 and P1."""
CORRECT_CONFIDENCE = 0.6
"""How sure a second pass that found nothing makes: it reads what checks cannot, and overlooks much."""


@dataclass(frozen=True, slots=True)
class SuppressedCounts:
    """How many findings are not told, by the first reason that applies."""

    preexisting: int = 0
    off_changed_lines: int = 0
    allow_listed: int = 0
    category: int = 0
    below_confidence: int = 0
    over_max: int = 0


@dataclass(frozen=True, slots=True)
class ReviewResult:
    """What a review says. `findings` are those that are told, most pressing first.

    `is_partial`: the time was over before all was looked at. `second_pass`: an agent's or a model's findings are among
    them.
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
    review_id: str = ""
    ms: tuple[tuple[str, float], ...] = field(default=())

    @property
    def should_fail(self) -> bool:
        """Whether CI should stop here."""
        return bool(self.fail_reasons)

    @property
    def overall_correctness(self) -> str:
        """In the words of the origin."""
        if self.verdict == "blocking_findings":
            return "patch is incorrect"
        calm = self.second_pass and self.verdict == "no_deterministic_findings" and not self.is_partial
        return "patch is correct" if calm else "needs attention"

    @property
    def overall_confidence(self) -> float:
        """How sure the worst finding is; of silence alone nobody is sure."""
        if self.findings:
            return max(each.confidence for each in self.findings)
        return CORRECT_CONFIDENCE if self.second_pass else 0.0

    @property
    def overall_explanation(self) -> str:
        """One or two sentences: what was found, and what that means."""
        looked = f"{self.coverage.files_reviewed} of {len(self.coverage.files)} files were looked at"
        counts = Counter(PRIORITIES[each.priority] for each in self.findings)
        said = ", ".join(f"{counts[name]} {name}" for name in PRIORITIES if counts[name])
        if said:
            return f"{said}; {looked}."
        if self.second_pass:
            return f"Neither the checks nor the second pass found anything; {looked}."
        return f"The checks found nothing; {looked}. Checks see few logic errors: this says nothing of those."


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
    """What is told of all findings, and what that means."""
    told, filtered = select_findings(merge_duplicates(findings), options)
    reasons = [f"{PRIORITIES[each.priority]} {each.title} at {each.path}:{each.span.first}" for each in told]
    failing = [why for why, each in zip(reasons, told, strict=True) if options.is_failing(each.priority)]
    if options.fail_on != "none" and is_partial:
        failing.append("the review is not complete: the time was over")
    return ReviewResult(
        findings=told,
        filtered=filtered,
        verdict=decide_verdict(told),
        coverage=coverage,
        summary=summary,
        fail_reasons=tuple(failing),
        warnings=tuple(warnings),
        is_partial=is_partial,
        second_pass=second_pass,
        ms=tuple(ms),
    )


def decide_verdict(findings: Sequence[Finding]) -> Verdict:
    """What the findings that are told amount to."""
    if any(each.priority <= BLOCKING for each in findings):
        return "blocking_findings"
    return "needs_attention" if findings else "no_deterministic_findings"


def select_findings(
    findings: Iterable[Finding], options: ReviewOptions
) -> tuple[tuple[Finding, ...], SuppressedCounts]:
    """The findings that are told, most pressing first, and how many are not, each counted once."""
    kept: list[Finding] = []
    dropped: Counter[str] = Counter()
    for finding in sorted(findings, key=lambda each: each.order):
        why = suppression_reason(finding, options)
        if not why and len(kept) >= options.max_findings:
            why = "over_max"
        if why:
            dropped[why] += 1
        else:
            kept.append(finding)
    return tuple(kept), SuppressedCounts(**dropped)


def suppression_reason(finding: Finding, options: ReviewOptions) -> str:
    """Why a finding is not told; empty when it is. A P0 needs no changed line."""
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
    """Findings without their doubles: of those that say the same of one line, the surest stays and names the others."""
    best: dict[tuple[str, int, str], Finding] = {}
    for finding in sorted(
        findings, key=lambda each: (each.priority, -each.confidence, each.source != "builtin", each.order)
    ):
        key = (finding.path, finding.span.first, ALIKE.get(finding.rule, finding.rule))
        known = best.get(key)
        if known is None:
            best[key] = finding
        elif finding.id != known.id:
            best[key] = replace(known, related=(*known.related, finding.id))
    return list(best.values())


ALIKE = {
    "E722": "bare-except",
    "S110": "swallowed-exception",
    "B006": "mutable-default",
    "F632": "is-literal",
    "E711": "equals-none",
    "F631": "assert-tuple",
    "F901": "raise-notimplemented",
    "F601": "duplicate-key",
    "PLR0124": "self-comparison",
    "B015": "comparison-unused",
    "B012": "return-in-finally",
    "S307": "eval",
    "S102": "eval",
    "S602": "shell-true",
    "S605": "shell-true",
    "S506": "unsafe-yaml",
    "S301": "unsafe-pickle",
    "S501": "unverified-tls",
    "S608": "sql-built",
    "S201": "flask-debug",
    "ASYNC251": "unawaited-sleep",
    "T100": "breakpoint",
    "F811": "duplicate-definition",
    "F821": "removed-symbol",
    "PLW0177": "nan-comparison",
    "no-empty": "empty-catch",
    "use-isnan": "nan-comparison-js",
    "no-debugger": "debugger",
    "no-cond-assign": "assignment-condition",
    "valid-typeof": "typeof-literal",
    "no-dupe-keys": "duplicate-key-js",
    "no-self-compare": "self-comparison-js",
    "no-unreachable": "unreachable-js",
    "no-eval": "eval-js",
    "no-console": "console-log",
    "eqeqeq": "equals-none",
}
"""Rules of analysers that say what a check of ours says."""
