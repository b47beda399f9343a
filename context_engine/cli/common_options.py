"""The options that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Root = Annotated[
    Path | None,
    typer.Option("--root", help="The workspace; default: the nearest folder above with .git or a project file."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

WorkspaceName = Annotated[
    str,
    typer.Option("--workspace", "-w", metavar="NAME", help="All repositories of this workspace; see ctx workspace."),
]
