"""Answers in the daemon to the query commands of the terminal."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.cli.command_runner import report_failure
from context_engine.cli.query_commands import COMMANDS, STDIN, QueryPlace
from context_engine.cli.screens import RecordedScreen
from context_engine.cli.workspace_root import find_project
from context_engine.errors import ContextEngineError
from context_engine.server import parse_call

if TYPE_CHECKING:
    from context_engine.daemon import DaemonConnection, EnginePool
    from context_engine.engine import Engine

DECLINED = {"state": "declined"}
"""The answer to a request that the client's own process must carry out."""


class DeclinedError(Exception):
    """The command builds an index, which shows its progress and can be interrupted: it runs at the terminal."""


class QueryAnswerer:
    """Answers the commands of all clients. Thread-safe."""

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool
        self._counter = itertools.count(1)
        self.count = 0
        """The number of answers."""

    def answer(self, request: Mapping[str, Any], _: DaemonConnection) -> Mapping[str, Any]:
        """Return what a command writes and its exit code, or that its own process must run it.

        Raises: KeyError, TypeError, ValueError for a request that no client sends.
        """
        command, options = COMMANDS[request["command"]], dict(request["options"])
        recorded = RecordedScreen(request["terminals"], request["env"])
        if options.get("arguments") == STDIN or (request["command"] == "call" and _may_write(options)):
            return DECLINED
        folder = Path(request["folder"])
        place = QueryPlace(folder, partial(self._lease, folder, request["root"]), recorded.screen, _check_index)
        try:
            code = command(place, options)
        except DeclinedError:
            return DECLINED
        except Exception as error:  # noqa: BLE001 - as at the terminal: every failure becomes one line
            code = report_failure(error, recorded.screen, as_json=options.get("as_json") is True)
        out, err = recorded.texts
        self.count = next(self._counter)
        return {"code": code, "out": out, "err": err}

    def index(self, request: Mapping[str, Any], _: DaemonConnection) -> Mapping[str, Any]:
        """Go on with an index that a command began. Raises: KeyError for a request that no client sends."""
        root = Path(request["root"])
        with self._pool.lease(root) as lease:
            lease.engine().index.update_in_background()
        return {"root": str(root)}

    @contextmanager
    def _lease(self, folder: Path, root: str) -> Generator[Engine]:
        if root:
            chosen = folder / Path(root).expanduser()
        else:
            chosen = find_project(folder)
        with self._pool.lease(chosen) as lease:
            yield lease.engine()


def _check_index(engine: Engine, *_: str) -> bool:
    if engine.index.is_building:
        return True
    if not engine.index.is_complete():
        raise DeclinedError
    return True


def _may_write(options: Mapping[str, Any]) -> bool:
    """Return whether a call may change anything: a call that is answered here may be repeated elsewhere."""
    try:
        return not parse_call(options["tool"], options["arguments"]).tool.hints.read_only
    except ContextEngineError:
        return False  # it fails before it does anything
