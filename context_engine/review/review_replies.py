"""PURE. A review as JSON for replies, and as Markdown for people, with the most pressing finding first.

Both name the files that were not reviewed as clearly as the findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from context_engine.model import Finding, Skipped
from context_engine.review.finding import PRIORITIES, finding_to_json
from context_engine.review.review_coverage import AnalyzerRun, Coverage
from context_engine.review.verdict import ReviewResult
from context_engine.text import escape_line

JSON_FILES_MAX = 200
MARKDOWN_FILES_MAX = 20
"""More skipped files than this are counted, not listed."""


def review_to_json(result: ReviewResult) -> dict[str, Any]:
    """Return the whole review as JSON values; empty fields stay, so that callers need not guess."""
    return {
        "findings": [finding_to_json(finding) for finding in result.findings],
        "verdict": result.verdict,
        "headline": result.headline,
        "overall_correctness": result.overall_correctness,
        "overall_explanation": result.overall_explanation,
        "overall_confidence_score": round(result.overall_confidence, 3),
        "should_fail": result.should_fail,
        "fail_reasons": list(result.fail_reasons),
        "findings_filtered": asdict(result.filtered),
        "coverage": _coverage_to_json(result.coverage),
        "summary": {name: _to_json(value) for name, value in asdict(result.summary).items()},
        "partial": result.is_partial,
        "second_pass": result.second_pass,
        "warnings": list(result.warnings),
    }


def _coverage_to_json(coverage: Coverage) -> dict[str, Any]:
    skipped = [{"path": file.path, "why": file.reason} for file in coverage.files_skipped]
    partly = [{"path": file.path, "why": file.reason} for file in coverage.files_partly]
    return {
        "files": len(coverage.files),
        "files_reviewed": coverage.files_reviewed,
        "files_skipped": skipped[:JSON_FILES_MAX],
        "files_skipped_count": len(skipped),
        "files_partly": partly[:JSON_FILES_MAX],
        "analyzers": [asdict(run) | {"why_not": run.why_not or None} for run in coverage.analyzers],
    }


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value


# -- Markdown ----------------------------------------------------------------------------------------------------------


def render_markdown(result: ReviewResult) -> str:
    """Return the whole review as Markdown."""
    factors = "; ".join(map(_inline, result.summary.factors))
    risk = f"Risk {result.summary.risk} of 5" + (f" ({factors})" if factors else "")
    blocks = [
        f"# Review: {result.headline}",
        f"{result.overall_explanation} {risk}.",
        *map(_render_finding, result.findings),
        "\n".join(("## What was looked at", *_render_coverage(result))),
    ]
    if result.fail_reasons:
        blocks.append("\n".join(("## Why this fails", *(f"- {_inline(reason)}" for reason in result.fail_reasons))))
    return "\n\n".join(blocks) + "\n"


def _render_finding(finding: Finding) -> str:
    place = f"`{escape_line(finding.path)}:{finding.span}`"
    source = f"{finding.category} · {finding.source} `{finding.rule}`"
    lines = [
        f"## {PRIORITIES[finding.priority]} {_inline(finding.title)}",
        f"{place} · {source} · confidence {finding.confidence:.2f} · `{finding.id}`",
        *_fence(finding.quote),
    ]
    if finding.body not in ("", finding.title):
        lines.append(_inline(finding.body))
    lines += [f"- {_inline(evidence)}" for evidence in finding.evidence]
    if finding.suggestion:
        lines.append(f"**Suggestion:** {_inline(finding.suggestion.description)}")
        lines += _fence(finding.suggestion.replacement)
    return "\n\n".join(lines)


def _fence(code: str) -> list[str]:
    """Return code in a fence that is longer than any fence in it."""
    if not code.strip():
        return []
    fence = "```"
    while fence in code:
        fence += "`"
    return [f"{fence}\n{code}\n{fence}"]


def _render_coverage(result: ReviewResult) -> Iterator[str]:
    coverage = result.coverage
    yield f"- {coverage.files_reviewed} of {len(coverage.files)} files."
    yield from _render_files("Not looked at", coverage.files_skipped)
    yield from _render_files("Only in part", coverage.files_partly)
    if coverage.analyzers:
        yield f"- Analyzers: {', '.join(map(_render_run, coverage.analyzers))}."
    if suppressed := str(result.filtered):
        yield f"- Findings that are not shown: {suppressed}."
    if result.is_partial:
        yield "- **Not complete**: the time was over before everything was looked at."
    yield from (f"- Warning: {_inline(warning)}" for warning in result.warnings)


def _render_files(label: str, files: Sequence[Skipped]) -> Iterator[str]:
    if files:
        named = [f"`{escape_line(file.path)}` ({_inline(file.reason)})" for file in files[:MARKDOWN_FILES_MAX]]
        if len(files) > MARKDOWN_FILES_MAX:
            more = f" and {len(files) - MARKDOWN_FILES_MAX} more"
        else:
            more = ""
        yield f"- {label}: {', '.join(named)}{more}."


def _render_run(run: AnalyzerRun) -> str:
    if not run.ran:
        return f"{run.name} did not run ({_inline(run.why_not)})"
    if run.findings != 1:
        found = f"{run.findings} findings"
    else:
        found = "1 finding"
    if run.why_not:
        problem = f"; {_inline(run.why_not)}"
    else:
        problem = ""
    return f"{run.name} ({found}, {run.ms} ms{problem})"


def _inline(text: str) -> str:
    """Return a text as one paragraph that contains no Markdown block and no HTML."""
    plain = " ".join(text.split()).replace("<", "&lt;")
    if plain[:1] in ("#", "-", ">", "*", "+"):
        return "\\" + plain
    return plain
