"""Options that many commands share, and the exit codes of `ctx`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from context_engine.cli.command_aliases import AliasGroup

NOTHING_FOUND = 1
"""As with grep, an empty answer is exit code 1."""
INTERRUPTED = 130
"""The exit code that shells report for a program that Ctrl-C ended."""

Root = Annotated[
    Path | None,
    typer.Option(
        "--root", help="Workspace folder; default: CTX_ROOT, or the nearest parent with .git or a project file."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
WorkspaceName = Annotated[
    str,
    typer.Option(
        "--workspace", "-w", metavar="NAME", help="Use all repositories of this workspace; see ctx workspace."
    ),
]


def command_group(name: str, description: str) -> typer.Typer:
    """Create an empty group of commands, such as `ctx memory`."""
    return typer.Typer(name=name, help=description, cls=AliasGroup, no_args_is_help=True, rich_markup_mode="markdown")
