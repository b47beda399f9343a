"""Which folder a command works on."""

from __future__ import annotations

import os
from pathlib import Path

from context_engine.repo import nearest_project

ROOT_VARIABLE = "CTX_ROOT"


def resolve_root(root: Path | None) -> Path:
    """Return the given folder, else the one in CTX_ROOT, else the project around the current folder."""
    chosen = root or os.environ.get(ROOT_VARIABLE, "").strip()
    return Path(chosen).expanduser().absolute() if chosen else find_project(Path.cwd())


def find_project(start: Path) -> Path:
    """Return the nearest project at or above `start`, or `start` itself if there is none."""
    return nearest_project(start) or start
