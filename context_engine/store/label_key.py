"""The key of one workspace that the labels of redacted secrets are made with: random, made once, readable by its owner alone.

With it the same secret has the same label in every text of a workspace; without it a label tells nothing, for nobody can try
out passwords against it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from context_engine.errors import ContextEngineError
from context_engine.store.state import make_folder, owned_like, renew_ignored

NAME = "secrets.key"
KEY_BYTES = 32
"""As many as SHA-256 has."""


def label_key(folder: Path) -> bytes:
    """The key kept in the state folder of a workspace, made there if there is none.

    Where nothing can be written it lasts as long as the caller keeps it.
    """
    path = folder / NAME
    if (key := _read(path)) is None:
        with suppress(OSError, ContextEngineError):
            _make(path)
        key = _read(path)
    return key or os.urandom(KEY_BYTES)


def _read(path: Path) -> bytes | None:
    """A whole key, or None. One that was damaged is made anew: labels are then new as well, which harms nobody."""
    with suppress(OSError):
        key = path.read_bytes()
        if len(key) == KEY_BYTES:
            return key
        path.unlink()
    return None


def _make(path: Path) -> None:
    """Written beside its place, under a name of its own, and linked to it: of two that make one the second takes the first's."""
    make_folder(path.parent)
    renew_ignored(path.parent)
    handle, name = tempfile.mkstemp(".tmp", f"{NAME}.", path.parent)  # readable by its owner alone
    beside = Path(name)
    with os.fdopen(handle, "wb") as out:
        out.write(os.urandom(KEY_BYTES))
    try:
        with suppress(FileExistsError):
            os.link(beside, path)
        owned_like(path.parent, path)
    finally:
        beside.unlink(missing_ok=True)
