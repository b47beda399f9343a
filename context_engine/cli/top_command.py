"""`ctx top`: the calls of all clients at the terminal, a line for each, as they happen."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from context_engine.cli.common_options import NOTHING_FOUND, resolve_root
from context_engine.settings import Settings

CHARS_OF_TOKEN = 4
EVERY_S = 0.25
HEAD = f"{'time':<8}  {'client':<16}  {'tool':<18}  {'tokens':>7}  {'ms':>7}  {'saved':>7}  asked"


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
            print(HEAD)
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
