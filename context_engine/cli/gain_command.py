"""`ctx gain`: the cost of the calls of agents, and of reading whole files instead."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.cli.common_options import NOTHING_FOUND, resolve_root
from context_engine.repo import check_workspace_root
from context_engine.settings import Settings
from context_engine.storage import workspace_id

if TYPE_CHECKING:
    from context_engine.server import GainCounts, GainSession


CHARS_OF_TOKEN = 4
HEAD = ("session", "workspace", "calls", "failed", "shown", "by reading", "saved", "share")
WIDTH = 100


def gain(root: Path | None, *, limit: int, as_json: bool, delete: bool) -> int:
    """Print the counts of the newest sessions and of all, or delete all counts; return the exit code."""
    from context_engine.cli.console import print_note
    from context_engine.server import delete_counts, gain_file, read_sessions

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
        print(json.dumps(_format_json(sessions, limit) | {"counting": settings.gain, "file": str(file)}))
        return 0
    if not settings.gain:
        print_note("nothing is counted: the setting gain is off")
    if not sessions:
        print_note("no call of an agent was counted yet; ctx setup adds the server to one")
        return NOTHING_FOUND
    _print_report(sessions, limit)
    return 0


def _print_report(sessions: Sequence[GainSession], limit: int) -> None:
    from context_engine.cli.console import print_table
    from context_engine.server import GAIN_RULE, add_counts

    newest = [session for session in sessions if session.folder][:limit]
    rows = [(_format_time(session.ended), session.folder, *_format_counts(session.total)) for session in newest]
    total = add_counts(session.total for session in sessions)
    print_table(HEAD, [*rows, ("all", "", *_format_counts(total))])
    tokens = abs(total.saved) // CHARS_OF_TOKEN
    if total.saved >= 0:
        verdict = "saved"
    else:
        verdict = "spent more than reading would have cost"
    print(f"\nIn characters; all in all about {tokens:,} tokens {verdict}, at {CHARS_OF_TOKEN} characters a token.")
    print("\n".join(textwrap.wrap(GAIN_RULE, WIDTH)))


def _format_counts(counts: GainCounts) -> tuple[str, ...]:
    share = "-"
    if counts.estimate:
        share = f"{counts.saved / counts.estimate:.0%}"
    numbers = (counts.calls, counts.failed, counts.shown, counts.estimate, counts.saved)
    return (*(f"{number:,}" for number in numbers), share)


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _format_json(sessions: Sequence[GainSession], limit: int) -> dict[str, Any]:
    from context_engine.server import GAIN_RULE, add_counts

    rows = [
        {
            "began": session.began,
            "ended": session.ended,
            "workspace": session.workspace,
            "folder": session.folder,
            **_counts_json(session.total),
            "tools": {tool: _counts_json(counts) for tool, counts in session.tools.items()},
        }
        for session in sessions[:limit]
    ]
    return {"rule": GAIN_RULE, "sessions": rows, "all": _counts_json(add_counts(one.total for one in sessions))}


def _counts_json(counts: GainCounts) -> dict[str, int]:
    return {
        "calls": counts.calls,
        "failed": counts.failed,
        "shown_chars": counts.shown,
        "estimate_chars": counts.estimate,
        "saved_chars": counts.saved,
    }


# -- top command -------------------------------------------------------------------------------------------------------

# `ctx top`: the calls of all clients at the terminal, a line for each, as they happen.

EVERY_S = 0.25
TOP_HEAD = f"{'time':<8}  {'client':<16}  {'tool':<18}  {'tokens':>7}  {'ms':>7}  {'saved':>7}  asked"


def show_calls(root: Path | None, *, limit: int, as_json: bool, follows: bool) -> int:
    """Print the newest calls, then each further one until Ctrl-C; return the exit code."""
    from context_engine.cli.console import print_note
    from context_engine.repo import check_workspace_root
    from context_engine.server import open_activity
    from context_engine.storage import workspace_id

    settings = Settings.load(resolve_root(root))
    workspace = workspace_id(check_workspace_root(root)) if root is not None else ""
    reader = open_activity(settings)
    try:
        calls = _of_workspace(reader.read_new(), workspace)[-limit:]
        if not settings.gain:
            print_note("nothing is recorded: the setting gain is off")
        if not as_json and (calls or follows):
            print(TOP_HEAD)
        _print_calls(calls, as_json=as_json)
        if not follows:
            return 0 if calls else NOTHING_FOUND
        while True:
            time.sleep(EVERY_S)
            _print_calls(_of_workspace(reader.read_new(), workspace), as_json=as_json)
    finally:
        reader.close()


def _of_workspace(calls: list[dict[str, Any]], workspace: str) -> list[dict[str, Any]]:
    return [call for call in calls if workspace in ("", call["workspace"])]


def _print_calls(calls: list[dict[str, Any]], *, as_json: bool) -> None:
    for call in calls:
        print(json.dumps(call) if as_json else _format_call(call), flush=True)


def _format_call(call: Mapping[str, Any]) -> str:
    from context_engine.text import escape_line

    clock = time.strftime("%H:%M:%S", time.localtime(call["at"]))
    client, tool = escape_line(call["client"] or "-")[:16], escape_line(call["tool"])[:18]
    shown, saved = call["shown"] // CHARS_OF_TOKEN, (call["estimate"] - call["shown"]) // CHARS_OF_TOKEN
    asked = escape_line(call["error"].lower().replace("_", " ") or call["asked"])
    figures = f"{shown:>7,}  {call['ms']:>7,.0f}  {max(saved, 0) or '':>7}"
    return f"{clock:<8}  {client:<16}  {tool:<18}  {figures}  {asked}".rstrip()
