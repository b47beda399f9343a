"""The key of one workspace that the labels of redacted secrets are made with: random, made once, readable by its owner alone.

With it the same secret has the same label in every text of a workspace; without it a label tells nothing, for nobody
can try out passwords against it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from context_engine.errors import ContextEngineError
from context_engine.storage import StateFolder

NAME = "secrets.key"
KEY_BYTES = 32
"""As many as SHA-256 has."""


def load_label_key(folder: Path) -> bytes:
    """The key kept in the state folder of a workspace, made there if there is none.

    Where nothing can be written it lasts as long as the caller keeps it.
    """
    files = StateFolder(folder)
    key = _read(files)
    if key is None:
        with suppress(ContextEngineError):
            files.make()
            files.update_git_ignore()
            files.create(NAME, os.urandom(KEY_BYTES), flush=False, mode=0o600)  # another process may have been first
        key = _read(files)
    return key or os.urandom(KEY_BYTES)


def _read(files: StateFolder) -> bytes | None:
    """A whole key, or None. One that was damaged is made anew: labels are then new as well, which harms nobody."""
    key = files.read(NAME, bytes_max=KEY_BYTES)
    if isinstance(key, bytes) and len(key) == KEY_BYTES:
        return key
    if isinstance(key, bytes):
        with suppress(ContextEngineError):
            files.remove(NAME)
    return None
