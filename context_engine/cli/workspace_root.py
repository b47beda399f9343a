"""Which folder is meant: the one that was named, or the project around the current folder."""

from __future__ import annotations

from pathlib import Path

from context_engine.repo import workspace_roots


def resolve_root(named: Path | None) -> Path:
    """The named folder, or the project around the current one, or the current one."""
    return named.expanduser().absolute() if named else find_project(Path.cwd())


def find_project(start: Path) -> Path:
    """The nearest project at or above `start`; `start` itself when there is none."""
    return workspace_roots.nearest_project(start) or start
