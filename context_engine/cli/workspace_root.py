"""The workspace that a command works on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.cli.global_options import VERBOSE
from context_engine.repo import nearest_project
from context_engine.text import escape_line

if TYPE_CHECKING:
    from context_engine.engine import Engine

ROOT_VARIABLE = "CTX_ROOT"


def resolve_root(root: Path | None, folder: Path | None = None) -> Path:
    """Return the given workspace, else the one in CTX_ROOT, else the project around a folder, by default this one."""
    folder = folder or Path.cwd()
    variable = os.environ.get(ROOT_VARIABLE, "").strip()
    chosen = root or variable
    if chosen:
        found, reason = folder / Path(chosen).expanduser(), "--root" if root else ROOT_VARIABLE
    else:
        found, reason = find_project(folder), "the project around this folder"
    if os.environ.get(VERBOSE):
        sys.stderr.write(f"workspace {escape_line(str(found))} ({reason})\n")
    return found


def find_project(start: Path) -> Path:
    """Return the nearest project at or above `start`, or `start` itself if there is none."""
    return nearest_project(start) or start


def open_engine(root: Path | None) -> Engine:
    """Open the engine of the workspace. It is imported here, because it takes longer than the help of a command."""
    from context_engine.engine import Engine

    return Engine.open(resolve_root(root))
