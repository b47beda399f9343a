"""The workspace that a command works on, and what is printed of it; without the parser of the command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import context_engine
from context_engine.cli.global_options import VERBOSE
from context_engine.repo import nearest_project
from context_engine.text import escape_line

if TYPE_CHECKING:
    from context_engine.cli.screens import Screen
    from context_engine.engine import Engine

ROOT_VARIABLE = "CTX_ROOT"


def resolve_root(root: Path | None) -> Path:
    """Return the given workspace, else the one in CTX_ROOT, else the project around this folder."""
    folder = Path.cwd()
    chosen = root or os.environ.get(ROOT_VARIABLE, "").strip()
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
    """Open the engine of the workspace."""
    return context_engine.Engine.open(resolve_root(root))


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False))


def warn_of_index(engine: Engine, screen: Screen) -> None:
    """Warn if the store of a team did not answer, or the last run failed."""
    for problem in filter(None, (engine.index.store_warning, engine.index.live.last_error)):
        screen.warn("warning", problem)


def note_settings(notes: Iterable[tuple[str, str]], screen: Screen) -> None:
    """Name the settings that are ignored."""
    for what, step in notes:
        screen.warn("note", f"{what}. {step}")
