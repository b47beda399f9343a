"""The nouns that more than one room speaks. Read this first.

They are values: frozen, compared by content, never serialised as they are (replies are built in `tools/`).
Lines are 1-based and both ends included; paths are workspace-relative POSIX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from context_engine.text.spans import LineSpan

ChunkKind = Literal["documentation", "symbols", "definitions", "data"]
"""What a chunk holds: prose by heading, a file's outline, code, or constants and configuration."""

CHUNK_KINDS: tuple[ChunkKind, ...] = get_args(ChunkKind)


class RelPath(str):
    """A checked, workspace-relative POSIX path. Minted by `workspace.paths` or nowhere; nobody below checks again."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one file that can be found on its own.

    `id` is stable for (path, kind, content); `title` names what is inside (`Engine.search`, `Install > Linux`);
    `tags` are lower case, sorted.
    """

    id: str
    path: RelPath
    span: LineSpan
    kind: ChunkKind
    language: str
    title: str
    text: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """What a hit must satisfy before anything is ranked. Empty means no restriction; all parts are ANDed.

    `kinds`, `languages`: any of them. `tags`: all of them. `include_paths` / `exclude_paths`: globs in gitignore
    notation (`src/**`, `*.py`, `docs/`), any included and none excluded.
    """

    kinds: tuple[ChunkKind, ...] = ()
    languages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    exclude_paths: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether everything passes."""
        return not (self.kinds or self.languages or self.tags or self.include_paths or self.exclude_paths)


@dataclass(frozen=True, slots=True)
class Query:
    """A question to the index. `limit` counts hits; `min_score` is relative to the best hit (0-1)."""

    text: str
    limit: int = 10
    filter: Filter = field(default_factory=Filter)
    min_score: float = 0.0
    chunks_per_file: int = 3


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk and why it was found: `why` maps signal names to addends, and `score` is their sum."""

    chunk: Chunk
    score: float
    why: Mapping[str, float]
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is not in the index, and the reason in one word (`binary`, `ignored`, `too_large`...)."""

    path: str
    reason: str
    detail: str = ""
