"""Notes which embedding model has a vector for everything in a workspace, in a file next to its index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

SERVED_FILE = "served-model.json"


def read_served_model(folder: Path) -> Mapping[str, Any]:
    """Return the last note; empty when there is none, or it cannot be read."""
    try:
        stated = json.loads((folder / SERVED_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if isinstance(stated, dict):
        return stated
    return {}


def write_served_model(folder: Path, stated: Mapping[str, Any]) -> None:
    """Write the note.

    A folder that cannot be written keeps the old note: the next change of models then has no older model to use.
    """
    with suppress(OSError):
        (folder / SERVED_FILE).write_text(json.dumps(dict(stated)), "utf-8")
