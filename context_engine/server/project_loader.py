"""Opening the workspace without letting a client wait: in a thread, once, with its outcome kept for every call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.errors import BugError, ContextEngineError
from context_engine.repo import workspace_roots

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.settings import Settings

AFTER_REPLY_S = 0.05
"""The Engine's imports would hold up the first reply: they start when it is on its way."""
READ_AFTER_S = 5.0
"""Loading a model takes a second of work, which the first answers can do without."""


class ProjectLoader:
    """An Engine that is, or will be, open. `start` returns at once; `engine` waits for the outcome."""

    def __init__(
        self, root: str | Path, *, log: Callable[[dict[str, Any]], None], follow: bool = True, isolated: bool = False
    ) -> None:
        self.root = root
        self._log = log
        self._follow = follow
        self._apart = isolated
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked = threading.Event()
        self._engine: Engine | None = None
        self._error: ContextEngineError | None = None

    def start(self) -> None:
        """Start to open the project after a short delay, or as soon as the Engine is needed."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._open, name="opening", daemon=True)
                self._thread.start()

    def engine(self) -> Engine:
        """The open Engine. Raises: UnsuitableRoot, FileNotFound, InvalidArgument (settings), each time it is asked."""
        self._asked.set()
        self.start()
        assert self._thread is not None
        self._thread.join()
        if self._engine is None:
            raise self._error or BugError("the workspace did not open")
        return self._engine

    @property
    def open_engine(self) -> Engine | None:
        """The Engine once it is open; waits for nothing."""
        return self._engine

    @property
    def state(self) -> str:
        """`open`, `failed`, or `opening` while neither is known."""
        return "open" if self._engine else "failed" if self._error else "opening"

    def close(self) -> None:
        """Close the Engine if it is open; a later `engine` raises."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _open(self) -> None:
        self._asked.wait(AFTER_REPLY_S)
        try:
            from context_engine.engine import Engine

            engine = Engine.open(self.root, settings=_isolated_settings(self.root) if self._apart else None)
            if self._follow:
                engine.index.update_in_background()  # before any call sees the Engine: it then answers "being built"
                engine.embeddings.start(READ_AFTER_S)
                engine.memory.start(READ_AFTER_S)
        except ContextEngineError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a thread has no caller; the next call hears of it
            self._fail(BugError(f"the workspace did not open: {type(error).__name__}: {error}"))
        else:
            self._engine = engine
            mended = {"mended": list(engine.mended)} if engine.mended else {}
            ignored = {"ignored_settings": list(engine.settings.ignored)} if engine.settings.ignored else {}
            self._log({"event": "open", "root": str(self.root), "ok": True} | mended | ignored)
            if self._follow and engine.settings.watch:
                threading.Thread(target=self._watch, args=(engine,), name="watching", daemon=True).start()

    def _fail(self, error: ContextEngineError) -> None:
        self._error = error
        self._log({"event": "open", "root": str(self.root), "ok": False, "error": error.as_dict()})

    def _watch(self, engine: Engine) -> None:
        """Begin to follow edits, behind the first answers: a watcher looks at every folder once."""
        try:
            engine.watch()
        except ContextEngineError as error:
            self._log({"event": "watch", "ok": False, "error": error.as_dict()})


def _isolated_settings(root: str | Path) -> Settings:
    """The settings of a workspace, with the memories of its users in a folder that no other workspace reads.

    Raises: UnsuitableRoot, FileNotFound, InvalidArgument.
    """
    from dataclasses import replace

    from context_engine.settings import Settings
    from context_engine.storage.index_folders import user_data_folder, workspace_id

    chosen = workspace_roots.choose(root)
    settings = Settings.load(chosen)
    return replace(settings, data_folder=(settings.data_folder or user_data_folder()) / "shared" / workspace_id(chosen))
