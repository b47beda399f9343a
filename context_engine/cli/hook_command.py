"""`ctx hook`: clients run it at their events. It never fails: trouble is one line of a log, and the agent goes on.

The daemon answers. Only a small part of the standard library is imported before it is asked. Without a daemon the event
is answered here, and one is started for the next.
"""

from __future__ import annotations

import json
import os
import sys
import time

import context_engine
from context_engine import hooks
from context_engine.daemon import ask_daemon, start_daemon
from context_engine.hooks import OTHER, PROMPT, SESSION, HookEvent, HookInputError, format_reply, parse_event

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from context_engine.context import ShownLinesBySession
    from context_engine.daemon import DaemonConnection, EnginePool

INPUT_BYTES_MAX = 16_000_000
"""Of an event; the longest have the output of a tool."""
ANSWER_S = 3.0
"""Clients wait for 10 s (`hook_config.PATIENCE_S`)."""
LATE_S = 1.0
"""If the daemon took longer for no answer, there is no time left to answer here."""
UNTRUSTED = "ctx says nothing unasked in this project until its user runs `ctx setup --trust` in it."
FIRST = frozenset(("", "startup"))
"""The sources of the start of a session that happens once."""
QUIET_PROBLEMS = frozenset(("NOT_INDEXED", "NO_PROJECT"))
"""Nothing is wrong: there is nothing to ask."""


def run_hook(words: Sequence[str], env: Mapping[str, str]) -> int | None:
    """Answer the event on standard input and return 0; None for `--help`, which the full program answers."""
    if "--help" in words or "-h" in words:
        return None
    client, name = _parse_words(words)
    try:
        raw = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
        if len(raw) > INPUT_BYTES_MAX:
            raise HookInputError("the input is too long")
        event = parse_event(client, name, raw.decode("utf-8", "replace"))
        text, problem = answer_event(event, env)
        if text:
            sys.stdout.write(json.dumps(format_reply(event, text)))
            sys.stdout.flush()
    except HookInputError as error:
        problem = str(error)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever fails, the client must not notice
        problem = type(error).__name__  # a message may quote the prompt
    if problem:
        _log_problem(client, name, problem, env)
    return 0


def is_trusted(root: Path) -> bool:
    """Return whether the user trusts a project with hooks, which quote it to an agent unasked."""
    return json.dumps(str(root)) in _read_trusted()


def record_trust(root: Path, *, is_trusted: bool) -> None:
    """Record whether the user trusts a project with hooks, in the user's own folder. Raises: OSError."""
    from context_engine.storage import make_private_folder, replace_private

    line, before = json.dumps(str(root)), _read_trusted()
    after = [one for one in before if one != line] + [line] * is_trusted
    if sorted(after) == sorted(before):
        return
    file = _trusted_file()
    make_private_folder(file.parent)
    replace_private(file, "".join(f"{one}\n" for one in after).encode())


def _read_trusted() -> list[str]:
    try:
        return _trusted_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _trusted_file() -> Path:
    from context_engine.storage import user_config_folder

    return user_config_folder() / "trusted-projects"


def answer_event(event: HookEvent, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the context for an event, and why there is none if something is in the way; both may be empty."""
    if event.kind == OTHER or (event.kind == PROMPT and not event.prompt.strip()):
        return "", ""
    began = time.monotonic()
    folder = os.getcwd()  # noqa: PTH109 - pathlib is slow to import
    request = {"kind": "hook", "event": list(event), "folder": folder, "client": os.getppid()}
    answer = ask_daemon(request, ANSWER_S, env=env)
    if answer is not None and isinstance(answer.get("text"), str):
        return answer["text"], str(answer.get("problem", ""))
    if time.monotonic() - began > LATE_S:
        return "", "the daemon did not answer in time"
    text, problem = _answer_here(event)
    start_daemon(env)
    return text, problem


def answer_hook_request(
    pool: EnginePool, shown: ShownLinesBySession, request: Mapping[str, Any], _: DaemonConnection
) -> Mapping[str, Any]:
    """Answer an event in the daemon. Raises: KeyError, TypeError for a request that no client sends."""

    def answer(root: Path) -> str:
        with pool.lease(root) as lease:
            return hooks.HookResponder(shown).answer(lease.engine(), event, client=int(request["client"]))

    event = HookEvent(*request["event"])
    text, problem = _answer_in_project(event, request["folder"], answer)
    return {"text": text, "problem": problem}


def _answer_here(event: HookEvent) -> tuple[str, str]:
    """Answer an event in this process, with an Engine that is opened for it."""

    def answer(root: Path) -> str:
        with context_engine.Engine.open(root) as engine:
            return hooks.HookResponder().answer(engine, event)

    return _answer_in_project(event, os.curdir, answer)


def _answer_in_project(event: HookEvent, folder: str, answer: Callable[[Path], str]) -> tuple[str, str]:
    """Answer an event in its project; return the text, and why there is none.

    A workspace that was never opened has no index, and needs no Engine to say so.
    """
    from context_engine.errors import ContextEngineError
    from context_engine.repo import nearest_project
    from context_engine.settings import Settings

    root = nearest_project(event.folder or folder)
    if root is None:
        return "", "NO_PROJECT"
    try:
        if not os.path.isdir(Settings.load(root).workspace_cache(root)):  # noqa: PTH112 - pathlib is slow to import
            return "", "NOT_INDEXED"
        if not is_trusted(root):
            return UNTRUSTED if event.kind == SESSION and event.source in FIRST else "", ""
        return answer(root), ""
    except ContextEngineError as error:
        return "", error.code


def _parse_words(words: Sequence[str]) -> tuple[str, str]:
    """Return the client and the event of a command line; what it does not know is left out.

    >>> _parse_words(["SessionStart", "--client", "codex"]), _parse_words(["--client=gemini", "BeforeAgent"])
    (('codex', 'SessionStart'), ('gemini', 'BeforeAgent'))
    """
    client, name = "claude", ""
    rest = iter(words)
    for word in rest:
        if word == "--client":
            client = next(rest, "")
        elif word.startswith("--client="):
            client = word.removeprefix("--client=")
        elif not word.startswith("-"):
            name = name or word
    return client, name


def _log_problem(client: str, name: str, problem: str, env: Mapping[str, str]) -> None:
    """Write a line to the daemon's log; at a terminal show it. A line that cannot be written is dropped."""
    if sys.stderr.isatty():
        sys.stderr.write(f"ctx hook: nothing to add: {problem}\n")
    if problem in QUIET_PROBLEMS:
        return
    from contextlib import suppress

    with suppress(Exception):
        from context_engine.daemon import DaemonLog, RuntimeFolder
        from context_engine.timestamps import make_clock

        with RuntimeFolder.open(env, create=True) as folder:
            log = DaemonLog(folder, now=make_clock())
            log.write({"event": "hook", "client": client[:20], "name": name[:40], "why": problem[:200]})
