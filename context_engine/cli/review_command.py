"""`ctx review`: what is wrong with a change, to read at the terminal, and as the formats that CI and code hosts take.

Exit codes: 0 reviewed, 1 it could not be reviewed, 3 reviewed and found what `--fail-on` names, 130 interrupted. A
review that could not look at everything fails, too, when something was to fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine import __version__
from context_engine.cli.console import err, escape_text, out, print_note, run_with_progress
from context_engine.cli.workspace_root import resolve_root
from context_engine.engine import Engine
from context_engine.errors import Cancelled, InvalidArgument, PreconditionFailed
from context_engine.model import Finding
from context_engine.repo import DiffRequest, write_atomic
from context_engine.review import PRIORITIES, ReviewOptions, render_review

if TYPE_CHECKING:
    from context_engine.review import ReviewResult

INTERRUPTED = 130
FOUND = 3
"""Neither 1, which says that there is no review, nor 2, which the command line says of its own use."""
COLOURS = ("bold red", "red", "yellow", "cyan")
"""By priority."""
NAMED_MAX = 5
TARGET = "head"
"""Without a word about it: all that is not committed yet."""


@dataclass(frozen=True, slots=True)
class ReviewArguments:
    """What the command line asked for."""

    target: str
    base: str
    options: ReviewOptions
    format: str = "text"
    sarif: Path | None = None
    untracked: bool = False


def parse_arguments(
    rev: str | None,
    *,
    staged: bool,
    base: str,
    options: ReviewOptions,
    format: str,  # noqa: A002 - the word of the option
    sarif: Path | None,
    untracked: bool,
) -> ReviewArguments:
    """Return what the options ask for. Raises InvalidArgument when two of them name different changes.

    >>> everything = ReviewOptions()
    >>> parse_arguments(
    ...     None, staged=False, base="main", options=everything, format="text", sarif=None, untracked=False
    ... ).target
    'main...HEAD'
    """
    if staged and (rev or base):
        raise InvalidArgument(
            "--staged already selects the change to review; a revision or --base selects another one",
            suggestion="Leave one of them out.",
        )
    if rev is None and base:
        return ReviewArguments(f"{base}...HEAD", "", options, format, sarif, untracked)
    return ReviewArguments("staged" if staged else rev or TARGET, base, options, format, sarif, untracked)


def review(root: Path | None, wanted: ReviewArguments) -> int:
    """Review a change and show it; the exit code."""
    asked = DiffRequest(wanted.target, wanted.base, include_untracked=wanted.untracked)
    with Engine.open(resolve_root(root)) as engine:
        try:
            _, reviewed = run_with_progress(
                lambda _tell, cancel: engine.reviews.review_git(asked, wanted.options, cancel=cancel), "review"
            )
        except Cancelled:
            err.print("[yellow]interrupted[/yellow]: nothing was reviewed")
            return INTERRUPTED
        except PreconditionFailed as error:
            if "reason" not in error.details:
                raise
            print_note(f"nothing to review: {error.details['reason']}")  # an empty change must not fail a hook or CI
            return 0
    if wanted.sarif:
        write_atomic(
            wanted.sarif.expanduser().absolute(), render_review(reviewed, "sarif", version=__version__).encode()
        )
        print_note(f"SARIF in {wanted.sarif}")
    if wanted.format == "text":
        _show(reviewed)
    else:
        print(render_review(reviewed, wanted.format, version=__version__), end="")
    return FOUND if reviewed.should_fail else 0


def _show(reviewed: ReviewResult) -> None:
    """Findings on stdout, most pressing first; about the review itself on stderr."""
    for number, finding in enumerate(reviewed.findings):
        if number:
            out.print()
        _show_finding(finding)
    colour = "green" if not reviewed.findings else COLOURS[min(each.priority for each in reviewed.findings)]
    said = f"{reviewed.headline}." if reviewed.findings else ""
    err.print(f"[{colour}]{said}[/{colour}] {escape_text(reviewed.overall_explanation)}".strip())
    factors = f" ({'; '.join(reviewed.summary.factors)})" if reviewed.summary.factors else ""
    print_note(f"risk {reviewed.summary.risk} of 5{factors}")
    for line in _about(reviewed):
        print_note(line)
    for warning in reviewed.warnings:
        err.print(f"[yellow]warning:[/yellow] {escape_text(warning)}")
    for reason in reviewed.fail_reasons:
        err.print(f"[red]fails:[/red] {escape_text(reason)}")


def _show_finding(finding: Finding) -> None:
    """A header line `P1 path:lines  title`, then the line itself, why, and what to do."""
    colour = COLOURS[finding.priority]
    place = f"[bold]{escape_text(finding.path)}[/bold]:[green]{finding.span}[/green]"
    out.print(f"[{colour}]{PRIORITIES[finding.priority]}[/{colour}] {place}  {escape_text(finding.title)}")
    if finding.quote.strip():
        out.print(f"   [dim]{finding.span.first:>5} │[/dim] {escape_text(finding.quote.strip())}")
    if finding.body and finding.body != finding.title:
        out.print(f"   {escape_text(' '.join(finding.body.split()))}")
    for each in finding.evidence:
        out.print(f"   [dim]see[/dim] {escape_text(each)}")
    if finding.suggestion:
        out.print(f"   [dim]do[/dim]  {escape_text(' '.join(finding.suggestion.description.split()))}")
    sure = f"{finding.source} {finding.rule} · {finding.category} · confidence {finding.confidence:.2f} · {finding.id}"
    out.print(f"   [dim]{escape_text(sure)}[/dim]")


def _about(reviewed: ReviewResult) -> list[str]:
    """What was not looked at, which analysers ran, what is not told."""
    coverage = reviewed.coverage
    return [
        *_files("not looked at", [(each.path, each.reason) for each in coverage.files_skipped]),
        *_files("only in part", [(each.path, each.reason) for each in coverage.files_partly]),
        *_analyzers(reviewed),
        *([f"not told: {not_told}"] if (not_told := str(reviewed.filtered)) else []),
    ]


def _files(what: str, files: list[tuple[str, str]]) -> list[str]:
    if not files:
        return []
    more = f" and {len(files) - NAMED_MAX} more" if len(files) > NAMED_MAX else ""
    return [f"{what}: {', '.join(f'{path} ({why})' for path, why in files[:NAMED_MAX])}{more}"]


def _analyzers(reviewed: ReviewResult) -> list[str]:
    coverage = reviewed.coverage
    ran = [f"{run.name} {run.ms} ms" for run in coverage.analyzers if run.ran]
    missing = [f"{run.name} ({run.why_not})" for run in coverage.analyzers if not run.ran]
    return [
        *([f"analysers: {', '.join(ran)}"] if ran else []),
        *([f"did not run: {', '.join(missing)}"] if missing else []),
    ]
