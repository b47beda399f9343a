"""`ctx review`: review a change, and print it for people or in the formats of CI and code hosts.

Exit codes: 0 reviewed, 2 not reviewed, 3 a finding of `--fail-on`, 130 interrupted. With `--fail-on`, a review that
could not look at everything fails, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from context_engine import __version__
from context_engine.cli.common_options import INTERRUPTED, open_engine, print_json
from context_engine.cli.console import err, escape_text, notes, out, print_note, run_with_progress
from context_engine.cli.exit_codes import FINDINGS
from context_engine.errors import Cancelled, InvalidArgument, PreconditionFailed
from context_engine.model import Finding
from context_engine.repo import DiffRequest, write_atomic
from context_engine.review import PRIORITIES, ReviewOptions, render_review

if TYPE_CHECKING:
    from context_engine.review import ReviewResult

COLORS = ("bold red", "red", "yellow", "cyan")
"""By priority."""
NAMED_MAX = 5
DEFAULT_TARGET = "head"
"""All that is not committed yet."""


def select_change(rev: str | None, *, staged: bool, base: str, untracked: bool) -> DiffRequest:
    """Return the change to review. Raises: InvalidArgument when two options name different changes.

    >>> select_change(None, staged=False, base="main", untracked=False).target
    'main...HEAD'
    """
    if staged and (rev or base):
        raise InvalidArgument(
            "--staged already selects the change to review; a revision or --base selects another one",
            suggestion="Leave one of them out.",
        )
    if staged:
        return DiffRequest("staged", include_untracked=untracked)
    if rev is None and base:
        return DiffRequest(f"{base}...HEAD", include_untracked=untracked)
    return DiffRequest(rev or DEFAULT_TARGET, base, include_untracked=untracked)


def review(
    root: Path | None,
    change: DiffRequest,
    options: ReviewOptions,
    format: str,  # noqa: A002 - the name of the option
    sarif: Path | None,
) -> int:
    """Review a change and print the result; return the exit code."""
    with open_engine(root) as engine:
        try:
            _, result = run_with_progress(
                lambda _tell, cancel: engine.reviews.review_git(change, options, cancel=cancel), "review"
            )
        except Cancelled:
            notes.print("[yellow]interrupted[/yellow]: nothing was reviewed")
            return INTERRUPTED
        except PreconditionFailed as error:
            if "reason" not in error.details:
                raise
            if format == "json":
                print_json({"findings": [], "nothing_to_review": error.details["reason"]})
            step = ": `ctx review` reviews what is not staged" if change.target == "staged" else ""
            print_note(f"nothing to review: {error.details['reason']}{step}")  # this must not fail a hook or CI
            return 0
    if sarif:
        write_atomic(sarif.expanduser().absolute(), render_review(result, "sarif", version=__version__).encode())
        print_note(f"SARIF in {sarif}")
    if format == "text":
        _show(result)
    else:
        print(render_review(result, format, version=__version__), end="")
    if result.should_fail:
        return FINDINGS
    return 0


def _show(result: ReviewResult) -> None:
    """Print the findings to stdout, the most urgent first, and notes about the review to stderr."""
    for number, finding in enumerate(result.findings):
        if number:
            out.print()
        _show_finding(finding)
    headline = ""
    if result.findings:
        color = COLORS[min(finding.priority for finding in result.findings)]
        headline = f"[{color}]{result.headline}.[/{color}] "
    err.print(f"{headline}{escape_text(result.overall_explanation)}")
    factors = ""
    if result.summary.factors:
        factors = f" ({'; '.join(result.summary.factors)})"
    print_note(f"risk {result.summary.risk} of 5{factors}")
    for note in _describe_coverage(result):
        print_note(note)
    for warning in result.warnings:
        notes.print(f"[yellow]warning:[/yellow] {escape_text(warning)}")
    for reason in result.fail_reasons:
        err.print(f"[red]fails:[/red] {escape_text(reason)}")


def _show_finding(finding: Finding) -> None:
    """Print a header line `P1 path:lines  title`, then the line itself, why, and what to do."""
    color = COLORS[finding.priority]
    place = f"[bold]{escape_text(finding.path)}[/bold]:[green]{finding.span}[/green]"
    out.print(f"[{color}]{PRIORITIES[finding.priority]}[/{color}] {place}  {escape_text(finding.title)}")
    if finding.quote.strip():
        out.print(f"   [dim]{finding.span.first:>5} │[/dim] {escape_text(finding.quote.strip())}")
    if finding.body and finding.body != finding.title:
        out.print(f"   {escape_text(' '.join(finding.body.split()))}")
    for place in finding.evidence:
        out.print(f"   [dim]see[/dim] {escape_text(place)}")
    if finding.suggestion:
        out.print(f"   [dim]do[/dim]  {escape_text(' '.join(finding.suggestion.description.split()))}")
    origin = (
        f"{finding.source} {finding.rule} · {finding.category} · confidence {finding.confidence:.2f} · {finding.id}"
    )
    out.print(f"   [dim]{escape_text(origin)}[/dim]")


def _describe_coverage(result: ReviewResult) -> list[str]:
    """Describe what was not reviewed, which analyzers ran, and which findings were filtered out."""
    coverage = result.coverage
    ran = ", ".join(f"{run.name} {run.ms} ms" for run in coverage.analyzers if run.ran)
    missing = ", ".join(f"{run.name} ({run.why_not})" for run in coverage.analyzers if not run.ran)
    notes = {
        "not looked at": _list_files([(file.path, file.reason) for file in coverage.files_skipped]),
        "reviewed in part": _list_files([(file.path, file.reason) for file in coverage.files_partly]),
        "analyzers": ran,
        "did not run": missing,
        "filtered out": str(result.filtered),
    }
    return [f"{label}: {text}" for label, text in notes.items() if text]


def _list_files(files: list[tuple[str, str]]) -> str:
    more = ""
    if len(files) > NAMED_MAX:
        more = f" and {len(files) - NAMED_MAX} more"
    return ", ".join(f"{path} ({reason})" for path, reason in files[:NAMED_MAX]) + more
