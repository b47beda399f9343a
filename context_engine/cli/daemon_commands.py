"""`ctx daemon`: the local process that answers commands and stdio servers, and what it can be asked."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from context_engine import daemon
from context_engine.cli.command_runner import NOTHING_FOUND
from context_engine.cli.common_options import AsJson, command_group
from context_engine.cli.screens import process_screen
from context_engine.text import format_count
from context_engine.timestamps import make_clock

if TYPE_CHECKING:
    from pathlib import Path


ANSWER_S = 10.0
"""A daemon answers about itself at once, and later on a machine with much other work."""
END_LOOK_S = 0.02
HAND_OVER_S, HAND_OVER_LOOK_S = 5.0, 0.1
"""How long a command waits for a daemon that takes over the rest of an index."""

app = command_group("daemon", "The local process that keeps indexes open, so that commands answer at once.")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show the daemons of this user: version, work trees, clients. Exit code 1 if none runs."""
    found = _ask_all("status")
    lines = []
    for row in found:
        clients = format_count(row.get("sessions", 0), "client")
        facts = (f"pid {row['pid']}", f"version {row['version']}", row["state"], clients, f"{row['seconds']} s")
        lines += ["  ".join((*facts, row["program"])), *(f"  {root}" for root in row.get("roots", ()))]
    _report(found, lines, as_json=as_json)


@app.command()
def stop(as_json: AsJson = False) -> None:
    """Stop all daemons of this user, of any version. Clients continue without one, and the next command starts one."""
    stopped = [row["pid"] for row in _ask_all("stop")]
    until = time.monotonic() + ANSWER_S
    while {row["pid"] for row in _ask_all("status")}.intersection(stopped) and time.monotonic() < until:
        time.sleep(END_LOOK_S)
    _report(stopped, [f"stopped {pid}" for pid in stopped], as_json=as_json)


@app.command()
def run(
    background: Annotated[bool, typer.Option("--background", help="Detach from the terminal, as clients do.")] = False,
) -> None:
    """Run the daemon in this process until it is stopped or idle. Clients start it; you rarely need to."""
    raise typer.Exit(run_daemon(background=background))


def run_daemon(*, background: bool) -> int:
    """Be the daemon of this environment; return 0 at its end, 1 where another process is."""
    key = daemon.process_key(os.environ)
    with daemon.RuntimeFolder.open(os.environ, create=True) as folder:
        log = daemon.DaemonLog(folder, now=make_clock())
        server = daemon.DaemonServer(folder, key, load_services, log=log.write)
        is_daemon = server.run()
    if background:
        os._exit(0)  # without waiting for threads
    if not is_daemon:
        sys.stderr.write(f"another process is the daemon of this environment; its log is {folder.path}/daemon.log\n")
    return int(not is_daemon)


def load_services() -> daemon.DaemonServices:
    """Import what answers requests. Raises: InvalidArgument (settings)."""
    from context_engine.cli.daemon_queries import QueryAnswerer
    from context_engine.cli.hook_command import answer_hook_request
    from context_engine.context import ShownLinesBySession
    from context_engine.server import TURN_S, SessionServer, follow_edits
    from context_engine.settings import Settings

    sys.setswitchinterval(TURN_S)
    settings = Settings.load(None)
    pool, shown = daemon.EnginePool(settings.daemon_engines, prepare=follow_edits), ShownLinesBySession()
    queries, sessions = QueryAnswerer(pool), SessionServer(pool, shown)
    return daemon.DaemonServices(
        handlers={
            "query": queries.answer,
            "index": queries.index,
            "hook": partial(answer_hook_request, pool, shown),
            "session": sessions.serve,
        },
        idle_s=settings.daemon_idle_minutes * 60.0,
        describe=lambda: {"roots": pool.roots(), "queries": queries.count, "sessions": sessions.count},
        close=pool.close,
    )


def hand_over_index(root: Path) -> str:
    """Have the daemon go on with an index that this process began; return a note about it."""
    until = time.monotonic() + HAND_OVER_S
    request = {"kind": "index", "root": str(root), "patient": True}
    if daemon.start_daemon(os.environ):
        while time.monotonic() < until:
            if daemon.ask_daemon(request, HAND_OVER_S):
                return "the daemon indexes the rest in the background"
            time.sleep(HAND_OVER_LOOK_S)
    return "ctx index completes the index"


def _ask_all(kind: str) -> list[dict[str, Any]]:
    """Ask every daemon of this user and return the answers."""
    try:
        with daemon.RuntimeFolder.open(os.environ) as folder:
            keys = folder.list_keys()
    except OSError:
        return []
    env = {**os.environ, "CTX_DAEMON": "1"}  # it may be switched off for this shell and still run for another client
    answers = (daemon.ask_daemon({"kind": kind}, ANSWER_S, env=env, key=key) for key in keys)
    return [answer for answer in answers if answer is not None]


def _report(found: list[Any], lines: list[str], *, as_json: bool) -> None:
    """Print what daemons answered; where none did, say why and leave with exit code 1."""
    for line in [json.dumps(found)] if as_json else lines:
        print(line)
    if found:
        return
    reason = "no daemon is running; the next ctx search starts one"
    if daemon.is_switched_off(os.environ):
        reason = "no daemon is running: CTX_DAEMON=0, or this system has no Unix sockets"
    try:
        with suppress(FileNotFoundError):
            daemon.RuntimeFolder.open(os.environ).close()
    except daemon.RuntimeFolderError as error:
        reason = f"no daemon can run: {error}"
    process_screen().note(reason)
    raise typer.Exit(NOTHING_FOUND)
