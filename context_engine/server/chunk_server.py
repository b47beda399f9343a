"""`ctx serve --chunks-dir`: a folder of chunk files, read during the first replies and watched until the server ends.

If the folder is missing or its vectors do not fit, the server does not start; later repairs are noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.errors import ContextEngineError
from context_engine.server.projects import Loader

if TYPE_CHECKING:
    from context_engine.embedding import Embedder
    from context_engine.search import ServedChunks
    from context_engine.server.server_log import Log
    from context_engine.settings import Settings


def load_chunks(
    folder: Path, settings: Settings, env: Mapping[str, str], *, log: Log, failed: Callable[[ContextEngineError], None]
) -> Loader[ServedChunks]:
    """Return the loader of a served folder; `failed` receives the error if it cannot be served."""

    def open_folder() -> ServedChunks:
        from context_engine.search import ServedChunks

        def report(is_good: bool, news: str) -> None:
            log({"event": "chunks", "ok": is_good, "told": news})

        return ServedChunks(folder, lambda model: open_query_embedder(model, settings, env), on_change=report)

    return Loader("the chunk files", open_folder, failed=failed)


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
