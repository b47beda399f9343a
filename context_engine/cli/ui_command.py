"""`ctx ui`: the page for the developer next to the agent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from context_engine.cli.common_options import resolve_root

DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
"""Without one of these, Linux has no screen to show a browser on."""


def serve_page(roots: Sequence[Path], workspace: str, *, port: int, may_write: bool, opens_browser: bool) -> int:
    """Serve the page until Ctrl-C, and open it in the browser or print its address. Return the exit code."""
    from context_engine.cli.console import print_note
    from context_engine.ui import LocalPage

    page = LocalPage(_find_folders(roots, workspace), may_write=may_write, is_person=sys.stdin.isatty())
    page.bind(port)
    if hangup := getattr(signal, "SIGHUP", None):
        signal.signal(hangup, signal.default_int_handler)
    if opens_browser:
        _open_browser(page.ticket_address)
    print(page.address, flush=True)
    verb = "reads and writes" if may_write else "only reads; ctx ui --write lets it approve, edit and undo"
    print_note(f"the page {verb}. Ctrl-C ends it. The address is a key: do not pass it on")
    page.run()
    return 0


def _find_folders(roots: Sequence[Path], workspace: str) -> dict[str, str]:
    """Return path -> name of what the page shows: the given folders, a workspace, or the project around here.

    The repositories of all workspaces follow the project around here, so that the page can switch to them.

    Raises: UnsuitableRoot, FileNotFound, InvalidArgument.
    """
    from context_engine.repo import check_workspace_root
    from context_engine.server import name_folders, workspace_folders

    if workspace:
        return workspace_folders(workspace)
    chosen = [str(check_workspace_root(resolve_root(root))) for root in roots or (None,)]
    if not roots:
        chosen += [path for path in _registered_folders() if path not in chosen]
    return {path: name for name, path in name_folders(chosen).items()}


def _registered_folders() -> list[str]:
    """Return the existing repositories of all workspaces; none if their list cannot be read."""
    from context_engine.cli.workspace_commands import load_repositories
    from context_engine.errors import ContextEngineError

    repositories = load_repositories()
    try:
        members = [member for listed in repositories.workspaces().values() for member in listed]
    except ContextEngineError:
        return []
    return list(dict.fromkeys(os.path.realpath(member.root) for member in members if repositories.is_there(member)))


def _open_browser(address: str) -> None:
    """Open the address in a browser with a window; one that takes the terminal is not started."""
    import webbrowser

    has_display = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in DISPLAY_VARIABLES)
    if has_display:
        webbrowser.open(address)
