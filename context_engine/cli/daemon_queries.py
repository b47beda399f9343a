"""Answers in the daemon to the query commands of the terminal."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from context_engine.cli.app import app
from context_engine.cli.command_runner import report_failure
from context_engine.cli.command_table import QUERIES
from context_engine.cli.query_commands import STDIN
from context_engine.cli.screens import RecordedScreen
from context_engine.cli.tool_commands import QueryPlace, Values
from context_engine.cli.workspace_choice import find_project
from context_engine.errors import ContextEngineError
from context_engine.server import parse_call

if TYPE_CHECKING:
    from context_engine.daemon import DaemonConnection, EnginePool
    from context_engine.engine import Engine

SCANNED_FILES_MAX = 3_000
"""In a work tree of at most so many files a command looks for edits itself, in 5 to 15 ms for 1,000 files: the watcher
reports an edit some 0.1 s later, and a script asks sooner. In larger ones a command relies on the watcher."""
DECLINED = {"state": "declined"}
"""The answer to a request that the client's own process must carry out."""
GROUP: Any = typer.main.get_command(app)


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
        name, *words = request["words"]
        recorded = RecordedScreen(request["terminals"], request["env"])
        folder = Path(request["folder"])
        try:
            values: Values = GROUP.commands[name].make_context(name, words).params
        except Exception:  # noqa: BLE001 - `--help` and wrong usage, of the library's own classes
            return DECLINED
        if values.get("workspace") or (name == "call" and not _may_be_repeated(values)):
            return DECLINED
        root = folder / Path(values["root"] or request["root"] or find_project(folder)).expanduser()
        place = QueryPlace(folder, partial(self._lease, root), recorded, _check_index)
        try:
            code = QUERIES[name].run(place, values)
        except DeclinedError:
            return DECLINED
        except Exception as error:  # noqa: BLE001 - as at the terminal: every failure becomes one line
            code = report_failure(error, recorded, as_json=values.get("as_json") is True)
        self.count = next(self._counter)
        return {"code": code, "texts": recorded.texts}

    def index(self, request: Mapping[str, Any], _: DaemonConnection) -> Mapping[str, Any]:
        """Go on with an index that a command began. Raises: KeyError for a request that no client sends."""
        root = Path(request["root"])
        with self._pool.lease(root) as lease:
            lease.engine().index.update_in_background()
        return {"root": str(root)}

    @contextmanager
    def _lease(self, root: Path) -> Generator[Engine]:
        with self._pool.lease(root) as lease:
            engine = lease.engine()
            _find_edits(engine)
            yield engine


def _check_index(engine: Engine, *_: str) -> bool:
    if not engine.index.live.is_building and not engine.index.is_complete():
        raise DeclinedError
    return True


def _find_edits(engine: Engine) -> None:
    """Look for edits that the watcher has not reported yet. Raises: AccessFailed."""
    live = engine.index.live
    snapshot = live.snapshot()
    if snapshot is not None and len(snapshot.by_path) <= SCANNED_FILES_MAX and not live.is_building:
        live.scan()


def _may_be_repeated(values: Values) -> bool:
    """Return whether a call changes nothing and needs no stdin: what is answered here may be repeated elsewhere."""
    if values["arguments"] == STDIN or not values["tool"]:
        return False
    try:
        return parse_call(values["tool"], values["arguments"]).tool.hints.read_only
    except ContextEngineError:
        return True  # it fails before it does anything
