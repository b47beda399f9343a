"""`ctx ui`: the page for the developer next to the agent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from context_engine import server, ui
from context_engine.cli.common_options import WorkspaceName
from context_engine.cli.screens import process_screen
from context_engine.cli.workspace_choice import resolve_root
from context_engine.cli.workspace_commands import load_repositories
from context_engine.errors import ContextEngineError
from context_engine.repo import check_workspace_root

DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
"""Without one of these, Linux has no screen to show a browser on."""


def serve_page(
    root: Annotated[
        list[Path] | None,
        typer.Option("--root", help="Show this folder; repeatable. Default: the project here, and all workspaces."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port on 127.0.0.1; 0: any.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Let the page approve plans, edit memories and undo.")] = False,
    workspace: WorkspaceName = "",
) -> None:
    """Show the calls of agents live on a page in the browser."""
    page = ui.LocalPage(_find_folders(root or (), workspace), may_write=write, is_person=sys.stdin.isatty())
    page.bind(port)
    if hangup := getattr(signal, "SIGHUP", None):
        signal.signal(hangup, signal.default_int_handler)
    if not no_open:
        _open_browser(page.ticket_address)
    print(page.address, flush=True)
    verb = "reads and writes" if write else "only reads; ctx ui --write lets it approve, edit and undo"
    process_screen().note(f"the page {verb}. Ctrl-C ends it. The address is a key: do not pass it on")
    page.run()


def _find_folders(roots: Sequence[Path], workspace: str) -> dict[str, str]:
    """Return path -> name of what the page shows: the given folders, a workspace, or the project around here.

    The repositories of all workspaces follow the project around here, so that the page can switch to them; none do if
    their list cannot be read.

    Raises: UnsuitableRoot, FileNotFound, InvalidArgument.
    """
    if workspace:
        return server.workspace_folders(workspace)
    chosen = [str(check_workspace_root(resolve_root(root))) for root in roots or (None,)]
    if not roots:
        repositories = load_repositories()
        try:
            members = [member for listed in repositories.workspaces().values() for member in listed]
        except ContextEngineError:
            members = []
        chosen += [os.path.realpath(member.root) for member in members if repositories.is_there(member)]
    return {path: name for name, path in server.name_folders(list(dict.fromkeys(chosen))).items()}


def _open_browser(address: str) -> None:
    """Open the address in a browser with a window; one that takes the terminal is not started."""
    import webbrowser

    has_display = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in DISPLAY_VARIABLES)
    if has_display:
        webbrowser.open(address)
