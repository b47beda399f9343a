"""PURE. A review as Markdown: what a person reads in a pull request, the most pressing finding first.

What was not looked at stands in it as plainly as what was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from context_engine.model import Finding, Skipped
from context_engine.review.finding import PRIORITIES
from context_engine.review.review_coverage import AnalyzerRun, Coverage
from context_engine.review.verdict import ReviewResult
from context_engine.text import escape_line

SKIPPED_MAX = 20
"""More files than this are counted, not listed."""
VERDICTS = {
    "blocking_findings": "Must not be merged as it is",
    "needs_attention": "Needs attention",
    "no_deterministic_findings": "The checks found nothing",
}


def render_markdown(reviewed: ReviewResult, *, title: str = "Review") -> str:
    """The whole review."""
    blocks = [
        f"# {title}: {format_headline(reviewed)}",
        f"{reviewed.overall_explanation} Risk {reviewed.summary.risk} of 5{_factors(reviewed.summary.factors)}.",
        *(_finding(each) for each in reviewed.findings),
        "\n".join(("## What was looked at", *_coverage(reviewed))),
    ]
    if reviewed.fail_reasons:
        blocks.append("\n".join(("## Why this fails", *(f"- {_inline(reason)}" for reason in reviewed.fail_reasons))))
    return "\n\n".join(blocks) + "\n"


def format_headline(reviewed: ReviewResult) -> str:
    """The verdict in a few words; `patch is correct` only where somebody has read it."""
    if reviewed.overall_correctness == "patch is correct":
        return "Nothing found, by the checks and by a second pass"
    return VERDICTS[reviewed.verdict]


def format_suppressed(reviewed: ReviewResult) -> str:
    """How many findings are not told, and why; empty when all are.

    The names are those of the options that would show them.
    """
    counts = asdict(reviewed.filtered)
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)


def _factors(factors: Sequence[str]) -> str:
    return f" ({'; '.join(map(_inline, factors))})" if factors else ""


def _finding(finding: Finding) -> str:
    """One finding as a section."""
    place = f"`{escape_line(finding.path)}:{finding.span}`"
    lines = [
        f"## {PRIORITIES[finding.priority]} {_inline(finding.title)}",
        f"{place} · {finding.category} · {finding.source} `{finding.rule}` · confidence {finding.confidence:.2f} · `{finding.id}`",
    ]
    lines += [*_quoted(finding.quote), *([_inline(finding.body)] if finding.body not in ("", finding.title) else [])]
    lines += [f"- {_inline(each)}" for each in finding.evidence]
    if finding.suggestion:
        lines.append(f"**Suggestion:** {_inline(finding.suggestion.description)}")
        lines += _quoted(finding.suggestion.replacement)
    return "\n\n".join(lines)


def _quoted(code: str) -> list[str]:
    """Code in a fence that is longer than any in it."""
    if not code.strip():
        return []
    fence = "```"
    while fence in code:
        fence += "`"
    return [f"{fence}\n{code}\n{fence}"]


def _coverage(reviewed: ReviewResult) -> Iterator[str]:
    coverage = reviewed.coverage
    yield f"- {coverage.files_reviewed} of {len(coverage.files)} files."
    yield from _files("Not looked at", coverage.files_skipped)
    yield from _files("Only in part", coverage.files_partly)
    yield from _analyzers(coverage)
    if not_told := format_suppressed(reviewed):
        yield f"- Findings that are not told: {not_told}."
    if reviewed.is_partial:
        yield "- **Not complete**: the time was over before everything was looked at."
    yield from (f"- Warning: {_inline(warning)}" for warning in reviewed.warnings)


def _files(what: str, files: Sequence[Skipped]) -> Iterator[str]:
    if files:
        more = f" and {len(files) - SKIPPED_MAX} more" if len(files) > SKIPPED_MAX else ""
        shown = ", ".join(f"`{escape_line(each.path)}` ({_inline(each.reason)})" for each in files[:SKIPPED_MAX])
        yield f"- {what}: {shown}{more}."


def _analyzers(coverage: Coverage) -> Iterator[str]:
    if coverage.analyzers:
        yield f"- Analysers: {', '.join(map(_run, coverage.analyzers))}."


def _run(run: AnalyzerRun) -> str:
    if not run.ran:
        return f"{run.name} did not run ({_inline(run.why_not)})"
    found = f"{run.findings} findings" if run.findings != 1 else "1 finding"
    return f"{run.name} ({found}, {run.ms} ms{f'; {_inline(run.why_not)}' if run.why_not else ''})"


def _inline(text: str) -> str:
    """A text in one paragraph, which starts nothing that Markdown or HTML would take for its own."""
    plain = " ".join(text.split()).replace("<", "&lt;")
    return "\\" + plain if plain[:1] in ("#", "-", ">", "*", "+") else plain
