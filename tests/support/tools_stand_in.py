"""An Engine whose answers a test can read at a glance: fixed values, no index. Journeys use the real one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from context_engine.errors import Cancelled, FileNotFound, InvalidArgument
from context_engine.languages import Languages
from context_engine.model import (
    Answer,
    Chunk,
    Definition,
    Edge,
    EmbeddingStatus,
    FileOutline,
    FileText,
    Found,
    Hit,
    IndexReport,
    Progress,
    Query,
    RelPath,
    Skipped,
    Status,
    Trace,
    TreeEntry,
)  # fmt: skip
from context_engine.repo import Git
from context_engine.settings import Settings
from context_engine.text.lines import LineSpan

LOGIN = 'def login(user, password):\n    """Let a user in."""\n    return check(user, hash_password(password))'


def hit(path: str = "src/auth.py", text: str = LOGIN, *, first: int = 10, score: float = 4.0, **chunk: Any) -> Hit:
    """A hit on a Python definition."""
    values: dict[str, Any] = {"kind": "definitions", "language": "python", "title": "login", "tags": ("code", "python")}
    values |= chunk
    span = LineSpan(first, first + text.count("\n"))
    made = Chunk(id=f"id-{path}-{first}", path=RelPath(path), span=span, text=text, **values)
    return Hit(made, score, {"chunk": score * 0.6, "name": score * 0.38, "doc": score * 0.02})


def definition(name: str = "login", *, first: int = 10) -> Definition:
    """A function of src/auth.py."""
    return Definition(
        name, f"auth.{name}", "function", RelPath("src/auth.py"), LineSpan(first, first + 2),
        f"def {name}(user, password)", "Let a user in.", "python",
    )  # fmt: skip


def status(**changed: Any) -> Status:
    """A small, fresh index."""
    values: dict[str, Any] = {
        "root": Path("/work"), "state": "ready", "building_share": 1.0, "files": 2, "chunks": 5, "symbols": 3,
        "languages": {"python": 2}, "branch": "main", "commit": "abc", "stale": (), "skipped": {"binary": 1},
        "skipped_examples": (Skipped("logo.png", "binary"),), "engine": "lexical",
        "embeddings": EmbeddingStatus("off", "", "", "", (0, 0)), "generation": "g-000001",
        "disk_bytes": 4096, "cache_folder": Path("/cache"), "indexed_at": "2026-11-21T08:00:00Z", "watcher": "off",
        "last_error": None, "versions": {"product": "0.1.0"},
    }  # fmt: skip
    return Status(**(values | changed))


class Named:
    """A service of a stand-in in which one name means another method."""

    def __init__(self, stand_in: Any, **methods: Any) -> None:
        self._stand_in = stand_in
        self.__dict__ |= methods

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stand_in, name)


@dataclass
class StandIn:
    """Fixed answers; remembers the queries it got. It is each of its own services."""

    hits: tuple[Hit, ...] = field(default_factory=lambda: (hit(),))
    settings: Settings = field(default_factory=Settings)
    reason: str = "no match"
    near_tags: tuple[str, ...] = ()
    weakness: str = ""
    text: str = LOGIN
    root: Path = Path("/work")
    is_clone: bool = False
    queries: list[Query] = field(default_factory=list)
    state: Status = field(default_factory=status)
    steps: tuple[Progress, ...] = ()
    hold: threading.Event | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    store_problem: str = ""
    STORE_STEP: str = ""
    store_warning: str = ""

    def __post_init__(self) -> None:
        self.symbols = Named(self, find=self.find_symbol, mentions=lambda _: [], files_named=lambda *_: ())
        self.search = Named(self, find=self.search_for, hurry=lambda _: True)
        self.index = self.files = self.edits = self.memory = self
        self.git = Git("/no/such/folder")
        self.languages = Languages.builtin()

    def search_for(self, query: Query) -> Answer:
        """The fixed hits."""
        self.queries.append(query)
        found = self.hits[: query.limit]
        return Answer(
            found, "lexical", "fresh", len(self.hits), "" if found else self.reason, self.near_tags, self.weakness
        )

    def status(self) -> Status:
        """The fixed status."""
        return self.state

    def indexed_at(self) -> str:
        """The fixed status's."""
        return self.state.indexed_at or ""

    def find_symbol(self, name: str, *, kind: str | None = None, path: str | None = None, limit: int = 20) -> Found:
        """One definition of `login`, none of anything else."""
        if name != "login":
            return Found((), 0, ("login",), "fresh")
        return Found((definition(),), 1, (), "fresh")

    def outline(self, path: str) -> FileOutline:
        """Two nested symbols."""
        symbols = ((0, definition("Auth", first=1)), (1, definition()))
        return FileOutline(RelPath(path), "python", 40, symbols, (("hashlib", 1),), ())

    def trace(self, target: str, direction: str, *, depth: int, limit: int = 100, **others: object) -> Trace:
        """One caller."""
        edge = Edge("main", target, RelPath("src/app.py"), 7, "    login(user, password)", 1)
        return Trace(target, direction, (edge,), False, ("dynamic calls are not seen",), "fresh")

    def read(self, path: str, *, first: int | None = None, last: int | None = None) -> FileText:
        """The fixed text, whatever the path, except `missing.py`."""
        if path == "missing.py":
            raise FileNotFound(f"no file {path}", suggestion="Did you mean src/auth.py?", details={"path": path})
        lines = self.text.split("\n")
        span = LineSpan(first or 1, last or len(lines))
        text = "\n".join(lines[span.first - 1 : span.last])
        return FileText(
            RelPath(path), text, "python", len(lines), span, "0123456789abcdef" * 4, len(self.text), "",
            "2026-11-21T08:00:00Z",
        )  # fmt: skip

    def note_read(self, path: str, sha256: str, *, session: str, kind: str = "read") -> None:
        """Nobody asks what was seen."""

    def undo(self, undo_id: str, *, session: str) -> NoReturn:
        """Nothing was edited."""
        raise InvalidArgument("there is nothing to undo", suggestion="Call undo_edit with list=true.")

    @property
    def memories(self) -> NoReturn:
        """Nothing is remembered."""
        raise InvalidArgument("nothing is remembered here", suggestion="Call add_memory.")

    @property
    def plans(self) -> NoReturn:
        """Nothing is planned."""
        raise InvalidArgument("nothing is planned here", suggestion="Call create_plan.")

    @property
    def reviews(self) -> NoReturn:
        """Nothing is reviewed."""
        raise InvalidArgument("nothing is reviewed here", suggestion="Call review_changes.")

    @property
    def validation(self) -> NoReturn:
        """Nothing is validated."""
        raise InvalidArgument("nothing is validated here", suggestion="Call validate_content.")

    def dependencies(self, path: str) -> tuple[RelPath, ...]:
        """One import."""
        return (RelPath("src/hashing.py"),)

    def list_directory(self, path: str, *, depth: int, max_items: int, include_hidden: bool) -> tuple[TreeEntry, ...]:
        """A folder with two files, one more that was cut, and a file beside it."""
        return (
            TreeEntry("src", 0, True, 0, 0),
            TreeEntry("app.py", 1, False, 100, 0),
            TreeEntry("auth.py", 1, False, 2048, 0),
            TreeEntry("", 1, False, 0, 123),
            TreeEntry("README.md", 0, False, 10, 0),
        )

    def update(self, *, path: str | None, force: bool, progress: Any, cancel: threading.Event) -> IndexReport:
        """Tells its steps; waits where a test holds it, and gives up when canceled."""
        for step in self.steps:
            progress(step)
        while self.hold and not self.hold.wait(0.01):
            if cancel.is_set():
                self.cancelled.set()
                raise Cancelled("indexing was cancelled")
        skipped = (Skipped("logo.png", "binary"), Skipped("a.min.js", "ignored"))
        return IndexReport(1, 0, 0, 1, 2, 5, 3, {"binary": 1, "ignored": 1}, skipped, 0.1234567)

    def update_in_background(self, *, force: bool = False) -> bool:
        """Always starts."""
        return True

    def clear_index(self) -> int:
        """Frees a page."""
        return 4096
