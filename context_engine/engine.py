"""The built house: `Engine` is one workspace, indexed and searchable, and the only place that chooses implementations.

    with Engine.open("path/to/repository") as engine:
        engine.index()
        for hit in engine.search(Query("where are passwords hashed")).hits:
            print(hit.chunk.path, hit.chunk.span, hit.score)
"""
# SKETCH: signatures are fixed, bodies follow.
from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from context_engine.model import Hit, Query, RelPath, Skipped
from context_engine.settings import Settings
from context_engine.text.spans import LineSpan


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long piece of work is: `done` of `total` files, and what is going on (`scanning`, `indexing`, `merging`)."""
    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one indexing run did. Counts are files unless named otherwise; `seconds` is wall time."""
    added: int
    changed: int
    removed: int
    unchanged: int
    files: int            # in the index now
    chunks: int
    symbols: int
    skipped: tuple[Skipped, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    """What is indexed, how fresh it is, and where it lies."""
    root: Path
    state: Literal["absent", "building", "ready"]
    building_share: float          # 0-1 while building
    files: int
    chunks: int
    symbols: int
    languages: dict[str, int]      # files per language, most first
    branch: str | None
    commit: str | None
    stale: tuple[str, ...]         # files edited, added or deleted since they were indexed
    skipped: dict[str, int]        # reason -> count
    skipped_examples: tuple[Skipped, ...]
    engine: str                    # "lexical"
    generation: str
    disk_bytes: int
    cache_folder: Path
    indexed_at: str | None         # UTC ISO-8601
    watcher: str                   # "running" | "off" | why it cannot run
    last_error: str | None
    versions: dict[str, str]       # product, schema, python, libraries


@dataclass(frozen=True, slots=True)
class Answer:
    """Ranked hits and the truth about them."""
    hits: tuple[Hit, ...]
    engine: str                    # which engine answered: "lexical"
    freshness: str                 # "fresh" | "3 files edited since index" | "index building 63 %"
    total: int                     # chunks that passed the filter and match the query
    reason: str                    # why `hits` is empty; "" when it is not
    near_tags: tuple[str, ...]     # known tags close to an unknown one that was asked for


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a symbol is defined."""
    name: str
    qualified: str                 # Outer.inner.name
    kind: str
    path: RelPath
    span: LineSpan
    signature: str
    doc: str                       # first line of the doc comment
    language: str


@dataclass(frozen=True, slots=True)
class Found:
    """Definitions that match a name, best first; `total` counts those beyond the limit too."""
    definitions: tuple[Definition, ...]
    total: int
    near: tuple[str, ...]          # close names when nothing matched
    freshness: str


@dataclass(frozen=True, slots=True)
class FileOutline:
    """One file's skeleton, nested by `depth`."""
    path: RelPath
    language: str
    lines: int
    symbols: tuple[tuple[int, Definition], ...]    # (depth, definition) in file order
    imports: tuple[tuple[str, int], ...]           # (raw target, line)
    problems: tuple[tuple[int, str], ...]          # (line, message)


@dataclass(frozen=True, slots=True)
class Edge:
    """One step of a trace: `source` reaches `target` at path:line (evidence is that line's text)."""
    source: str
    target: str
    path: RelPath
    line: int
    evidence: str
    depth: int                     # 1 = direct


@dataclass(frozen=True, slots=True)
class Trace:
    """Who calls, is called by, imports or is imported by something."""
    target: str
    direction: str
    edges: tuple[Edge, ...]
    truncated: bool
    notes: tuple[str, ...]         # what the answer cannot know (dynamic calls, unresolved imports, several definitions)
    freshness: str


@dataclass(frozen=True, slots=True)
class FileText:
    """A file read out for a caller (secret-masked later, by the gate)."""
    path: RelPath
    text: str
    language: str
    lines: int                     # of the whole file
    span: LineSpan                 # what `text` holds
    sha256: str
    size_bytes: int
    encoding: str
    modified_at: str


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One line of a directory listing."""
    name: str
    depth: int
    is_folder: bool
    size_bytes: int
    hidden_items: int              # > 0: this many more items in this folder were cut; name is ""


Direction = Literal["callers", "callees", "imports", "importers", "impact"]


class Engine:
    """One workspace. Thread-safe; two Engines live in one process; close it or use it as a context manager."""

    settings: Settings
    root: Path

    @classmethod
    def open(cls, root: str | Path, *, settings: Settings | None = None) -> Engine:
        """Open the workspace at `root`. Cheap: nothing is read or imported until the first call.

        Raises: UnsuitableRoot, FileNotFound, InvalidPath.
        """

    def index(self, *, path: str | None = None, force: bool = False, progress: Callable[[Progress], None] | None = None,
              cancel: threading.Event | None = None) -> IndexReport:
        """Bring the index up to date; `path` limits it to a folder; `force` rebuilds all into a new generation while the old one serves.

        Raises: StorageBusy, DiskFull, Cancelled, FileNotFound.
        """

    def index_in_background(self, *, force: bool = False) -> bool:
        """Start `index` in a thread; False when one is already running. Its outcome shows in `status()`."""

    def clear(self) -> int:
        """Delete the index (never memories, plans or settings); bytes freed."""

    def status(self) -> Status: ...
    def search(self, query: Query) -> Answer: ...
    def find_symbol(self, name: str, *, kind: str | None = None, path: str | None = None, limit: int = 20) -> Found: ...
    def outline(self, path: str) -> FileOutline: ...
    def trace(self, target: str, direction: Direction = "callers", *, depth: int = 1, limit: int = 100) -> Trace:
        """`target` is a symbol (name or qualified) or a path. Raises: SymbolNotFound (with near names)."""
    def read(self, path: str, *, first: int | None = None, last: int | None = None) -> FileText: ...
    def dependencies(self, path: str) -> tuple[RelPath, ...]:
        """Project files that this file imports."""
    def list_directory(self, path: str = ".", *, depth: int = 2, max_items: int = 200, include_hidden: bool = False) -> tuple[TreeEntry, ...]: ...
    def tags(self) -> dict[str, int]:
        """Every tag of the index and how many chunks carry it."""
    def watch(self) -> None:
        """Start following edits (500 ms debounce) until close()."""
    def close(self) -> None: ...
    def __enter__(self) -> Engine: ...
    def __exit__(self, *_: object) -> None: ...
