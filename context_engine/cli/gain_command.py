"""`ctx gain`: what the calls of agents showed them and what that cost, for each client and session."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from context_engine import server
from context_engine.cli.command_runner import NOTHING_FOUND
from context_engine.cli.common_options import AsJson, Root
from context_engine.cli.screens import process_screen
from context_engine.cli.workspace_choice import print_json, resolve_root
from context_engine.repo import check_workspace_root
from context_engine.settings import Settings
from context_engine.storage import workspace_id

CHARS_OF_TOKEN = 4
NO_AGENTS = ("terminal", "ctx doctor")
"""The clients that a person starts, whose calls take no place in a conversation."""
HEAD = ("last call", "client", "workspace", "calls", "failed", "characters", "tokens", "seconds")


def gain(
    root: Root = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=500, help="Maximum sessions, newest first.")] = 10,
    as_json: AsJson = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete all counts.")] = False,
) -> None:
    """Show what the calls of agents cost, for each client and session."""
    settings, screen = Settings.load(resolve_root(root)), process_screen()
    file = server.gain_file(settings)
    if delete:
        server.delete_counts(file)
        screen.note(f"the counts in {file} are deleted")
        return
    rows = [row for row in server.read_sessions(file) if row["client"] not in NO_AGENTS]
    if root is not None:
        workspace = workspace_id(check_workspace_root(root))
        rows = [row for row in rows if row["workspace"] == workspace]
    total = {name: sum(row[name] for row in rows) for name in ("calls", "failed", "shown", "ms")}
    if as_json:
        print_json({"sessions": rows[:limit], "all": total, "counting": settings.gain, "file": str(file)})
        return
    if not settings.gain:
        screen.note("nothing is counted: the setting gain is off")
    if not rows:
        screen.note("no agent session yet; ctx setup adds the server to an agent")
        raise typer.Exit(NOTHING_FOUND)
    cells = []
    for row in rows[:limit]:
        moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["ended"]))
        cells.append((moment, row["client"] or "-", row["folder"], *_format_counts(row)))
    screen.out.show_table(HEAD, [*cells, ("all", "", "", *_format_counts(total))])


def _format_counts(counts: dict[str, Any]) -> tuple[str, ...]:
    """Format calls, failures, characters, about as many tokens, and the time of a server."""
    shown = counts["shown"]
    numbers = (counts["calls"], counts["failed"], shown, shown / CHARS_OF_TOKEN)
    return (*(f"{number:,.0f}" for number in numbers), f"{counts['ms'] / 1_000:,.1f}")
