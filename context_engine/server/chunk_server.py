"""`ctx serve --chunks-dir`: a folder of chunk files, read during the first replies and watched until the server ends.

If the folder is missing or its vectors do not fit, the server does not start; later repairs are noticed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.errors import BugError, ContextEngineError
from context_engine.repo import check_workspace_root

if TYPE_CHECKING:
    from context_engine.embedding import Embedder
    from context_engine.search import ServedChunks
    from context_engine.settings import Settings


def choose_folder(named: str) -> Path:
    """Return the given folder. Raises: FileNotFound, InvalidPath, AccessFailed, each with the next step."""
    return check_workspace_root(named, allow_any=True)


class ChunkFolderLoader:
    """Loads a served folder in a thread. `start` returns at once; `wait` waits for the result."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        env: Mapping[str, str],
        *,
        log: Callable[[dict[str, Any]], None],
        failed: Callable[[ContextEngineError], None] = lambda _: None,
    ) -> None:
        self._folder = folder
        self._open_embedder = lambda model: open_query_embedder(model, settings, env)
        self._log = log
        self._failed = failed
        self._loaded: Future[ServedChunks] = Future()

    def start(self) -> None:
        """Begin to read the folder."""
        threading.Thread(target=self._open, name="chunks", daemon=True).start()

    def wait(self) -> ServedChunks:
        """Return the loaded folder. Raises: the error that prevented loading."""
        return self._loaded.result()

    def close(self) -> None:
        """Stop watching the folder."""
        if self._loaded.done() and not self._loaded.exception():
            self._loaded.result().close()

    def _open(self) -> None:
        from context_engine.search import ServedChunks

        def report(is_good: bool, news: str) -> None:
            self._log({"event": "chunks", "ok": is_good, "told": news})

        try:
            self._loaded.set_result(ServedChunks(self._folder, self._open_embedder, on_change=report))
        except Exception as error:  # noqa: BLE001 - a thread has no caller; the next call raises it
            bug = BugError(f"the chunk files did not open: {type(error).__name__}: {error}")
            known = error if isinstance(error, ContextEngineError) else bug
            self._loaded.set_exception(known)
            self._failed(known)


def open_query_embedder(model: str, settings: Settings, env: Mapping[str, str]) -> Embedder | None:
    """Return the embedder for questions to vectors of a model: the static table by its name, else the chosen provider.

    None when neither has this name. Raises: EmbedderUnusable, UnsupportedHost.
    """
    from context_engine.embedding import EmbedderConfig, open_embedder
    from context_engine.engine_parts import read_embedder_config

    if model == "static":
        return open_embedder(EmbedderConfig("static"))
    chosen = settings.embedding_model
    if chosen and model in (chosen, f"{settings.embedder}:{chosen}"):
        return open_embedder(read_embedder_config(settings, env))
    return None
