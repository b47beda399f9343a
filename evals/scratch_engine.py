"""The product for an evaluation: settings out of the environment, as a user's are, and a cache of the evaluation."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from context_engine.engine import Engine
from context_engine.settings import Settings
from context_engine.storage import user_cache_folder

DEFAULTS = {
    "CTX_EMBEDDER": "static",  # what everyone has
    "CTX_WORKERS": "0",
    "CTX_STALENESS_MS": "600000",  # a corpus does not change under its evaluation: answers need not look for edits
    "CTX_RESULT_CHARS_MAX": "1000000",  # an evaluation cuts by tokens itself
    "CTX_ACCESS_SCORING": "false",  # an answer must not depend on the ones before it
}
"""In place of the product's own; the environment wins over both."""


def open_indexed(folder: Path, cache: Path) -> Engine:
    """Open the product on a folder and bring its index in `cache` up to date, those of a provider included.

    Parsers are those of the user's own cache. Raises: whatever the product refuses.
    """
    cache.mkdir(parents=True, exist_ok=True)
    own = Path(os.environ.get("CTX_CACHE_FOLDER") or user_cache_folder())
    (own / "grammars").mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # it is there, or links are not allowed: then it is unpacked again
        (cache / "grammars").symlink_to(own / "grammars", target_is_directory=True)
    settings = Settings.load(folder, DEFAULTS | os.environ | {"CTX_CACHE_FOLDER": str(cache)})
    engine = Engine.open(folder, settings=settings)
    try:
        engine.index.update()
        if engine.embeddings.has_provider:
            engine.embeddings.embed_all()
    except BaseException:
        engine.close()
        raise
    return engine
