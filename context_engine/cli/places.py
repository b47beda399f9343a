"""Which folder is meant: the one that was named, or the project around the current folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MARKERS = (
    ".git", ".hg", ".jj", ".context-engine", "pyproject.toml", "setup.py", "package.json", "Cargo.toml", "go.mod",
    "pom.xml", "build.gradle", "build.gradle.kts", "CMakeLists.txt", "Gemfile", "composer.json", "mix.exs", "Makefile",
)  # fmt: skip
"""What stands at the top of a project; version control counts before anything else."""


def root_of(named: Path | None) -> Path:
    """The named folder, or the project around the current one, or the current one."""
    return named.expanduser().absolute() if named else project_around(Path.cwd())


def project_around(start: Path) -> Path:
    """The nearest folder at or above `start` with a marker; `start` itself when there is none.

    The home folder and what lies above it are never meant: a stray file there must not make a project of everything.
    """
    home = Path.home()
    for folder in (start, *start.parents):
        if folder == home or folder == Path(folder.anchor):
            break
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    return start


def serving_root(named: Path | None, env: Mapping[str, str]) -> Path:
    """For `ctx serve`: `--root`, then `CTX_ROOT`, then the variable a client sets, then the project around here."""
    for value in (named, env.get("CTX_ROOT"), env.get("CLAUDE_PROJECT_DIR")):
        if value:
            return Path(value).expanduser().absolute()
    return project_around(Path.cwd())
