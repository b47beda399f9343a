"""`ctx review`: review a change, and print it for people or in the formats of CI and code hosts.

Exit codes: 0 reviewed, 2 not reviewed, 3 a finding of `--fail-on`, 130 interrupted. With `--fail-on`, a review that
could not look at everything fails, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from context_engine import __version__, repo, tools
from context_engine import review as reviews
from context_engine.cli.command_runner import FINDINGS, INTERRUPTED
from context_engine.cli.common_options import AsJson, Root
from context_engine.cli.progress import run_with_progress
from context_engine.cli.screens import Screen, process_screen
from context_engine.cli.tool_commands import split_lists
from context_engine.cli.workspace_choice import open_engine, print_json
from context_engine.errors import Cancelled, InvalidArgument, PreconditionFailed

COLORS = ("bold red", "red", "yellow", "cyan")
"""By priority."""
DEFAULT_TARGET = "head"
"""All that is not committed yet."""


def review(
    rev: Annotated[
        str | None, typer.Argument(help="A commit, a branch, a..b or a...b; default: all uncommitted changes.")
    ] = None,
    root: Root = None,
    staged: Annotated[bool, typer.Option("--staged", help="Review what the next commit would contain.")] = False,
    base: Annotated[str, typer.Option("--base", help="Compare with this ref; default range: merge base to HEAD.")] = "",
    fail_on: Annotated[
        Literal["none", "P0", "P1", "P2", "P3"],
        typer.Option("--fail-on", help="Exit with code 3 from this priority on.", case_sensitive=False),
    ] = "none",
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Also write SARIF 2.1.0 to this file.")] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        Literal["text", "markdown", "json", "sarif", "rdjson"], typer.Option("--format", help="Format of the output.")
    ] = "text",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=100, help="Maximum findings.")] = 20,
    confidence: Annotated[float, typer.Option("--confidence", min=0, max=1, help="Minimum confidence.")] = 0.7,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="No paths that match this glob.")] = None,
    invariants: Annotated[str, typer.Option("--invariants", help="Rules file; default: .review-invariants.yml.")] = "",
    analyzer: Annotated[
        list[str] | None, typer.Option("--analyzer", help="Run only this analyzer; none: no analyzer; repeatable.")
    ] = None,
    untracked: Annotated[bool, typer.Option("--untracked", help="Include new files that git does not track.")] = False,
    as_json: AsJson = False,
) -> None:
    """Review a change: list the problems in its new lines by priority. Needs no model, no network and no index."""
    change = select_change(rev, staged=staged, base=base, untracked=untracked)
    options = tools.parse_review_options(
        {
            "fail_on": fail_on,
            "max_findings": limit,
            "confidence_threshold": confidence,
            "exclude_patterns": split_lists(exclude or ()),
            "invariants_path": invariants,
            "analyzers": split_lists(analyzer or ["auto"]),
        }
    )
    raise typer.Exit(_review(root, change, options, "json" if as_json else format, sarif))


def _review(
    root: Path | None, change: repo.DiffRequest, options: reviews.ReviewOptions, shown: str, sarif: Path | None
) -> int:
    """Review a change and print the result in a format; return the exit code."""
    screen = process_screen()
    with open_engine(root) as engine:
        try:
            _, result = run_with_progress(
                lambda _, cancel: engine.reviews.review_git(change, options, cancel=cancel), "reviewing"
            )
        except Cancelled:
            screen.warn("interrupted", "nothing was reviewed")
            return INTERRUPTED
        except PreconditionFailed as error:
            if "reason" not in error.details:
                raise
            if shown == "json":
                print_json({"findings": [], "nothing_to_review": error.details["reason"]})
            step = ": `ctx review` reviews what is not staged" if change.target == "staged" else ""
            screen.note(f"nothing to review: {error.details['reason']}{step}")
            return 0  # this must not fail a hook or CI
    if sarif:
        page = reviews.render_review(result, "sarif", version=__version__)
        repo.write_atomic(sarif.expanduser().absolute(), page.encode())
        screen.note(f"SARIF in {sarif}")
    if shown == "text":
        _show(result, screen)
    else:
        print(reviews.render_review(result, shown, version=__version__), end="")
    return FINDINGS if result.should_fail else 0


def select_change(rev: str | None, *, staged: bool, base: str, untracked: bool) -> repo.DiffRequest:
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
        return repo.DiffRequest("staged", include_untracked=untracked)
    if rev is None and base:
        return repo.DiffRequest(f"{base}...HEAD", include_untracked=untracked)
    return repo.DiffRequest(rev or DEFAULT_TARGET, base, include_untracked=untracked)


def _show(result: reviews.ReviewResult, screen: Screen) -> None:
    """Print the findings to stdout, the most urgent first, and notes about the review to stderr."""
    for number, finding in enumerate(result.findings):
        head, *below = reviews.format_finding(finding)
        priority, rest = head.split(" ", 1)
        if number:
            screen.out.write("")
        screen.out.show((priority, COLORS[finding.priority]), f" {rest}")
        for line in below:
            screen.out.show((line, "" if "│" in line else "dim"))
    verdict, *notes = reviews.format_review(result)
    screen.err.show((verdict, COLORS[min(finding.priority for finding in result.findings)] if result.findings else ""))
    for note in notes:
        if note.startswith(("warning: ", "fails: ")):
            screen.warn(*note.split(": ", 1))
        else:
            screen.note(note)
