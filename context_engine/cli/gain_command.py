"""`ctx gain`: what the calls of agents showed them and what that cost, for each client and session."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from context_engine.cli.common_options import NOTHING_FOUND, print_json, resolve_root
from context_engine.cli.console import print_note, print_table
from context_engine.repo import check_workspace_root
from context_engine.server import GainSession, delete_counts, gain_file, read_sessions
from context_engine.settings import Settings
from context_engine.storage import workspace_id

CHARS_OF_TOKEN = 4
HEAD = ("last call", "client", "workspace", "calls", "failed", "characters", "tokens", "seconds")


def gain(root: Path | None, *, limit: int, as_json: bool, delete: bool) -> int:
    """Print the counts of the newest sessions and of all, or delete all counts; return the exit code."""
    settings = Settings.load(resolve_root(root))
    file = gain_file(settings)
    if delete:
        delete_counts(file)
        print_note(f"the counts in {file} are deleted")
        return 0
    sessions = read_sessions(file)
    if root is not None:
        workspace = workspace_id(check_workspace_root(root))
        sessions = [session for session in sessions if session.workspace == workspace]
    if as_json:
        rows = [asdict(session) for session in sessions[:limit]]
        print_json({"sessions": rows, "all": _add_up(sessions), "counting": settings.gain, "file": str(file)})
        return 0
    if not settings.gain:
        print_note("nothing is counted: the setting gain is off")
    if not sessions:
        print_note("no call of an agent was counted yet; ctx setup adds the server to one")
        return NOTHING_FOUND
    print_table(HEAD, [*map(_format_session, sessions[:limit]), ("all", "", "", *_format_counts(_add_up(sessions)))])
    return 0


def _add_up(sessions: Sequence[GainSession]) -> dict[str, float]:
    return {name: sum(getattr(session, name) for session in sessions) for name in ("calls", "failed", "shown", "ms")}


def _format_session(session: GainSession) -> tuple[str, ...]:
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.ended))
    return (moment, session.client or "-", session.folder, *_format_counts(asdict(session)))


def _format_counts(counts: dict[str, float]) -> tuple[str, ...]:
    """Format calls, failures, characters, about as many tokens, and the time of a server."""
    shown = counts["shown"]
    numbers = (counts["calls"], counts["failed"], shown, shown / CHARS_OF_TOKEN)
    return (*(f"{number:,.0f}" for number in numbers), f"{counts['ms'] / 1_000:,.1f}")
