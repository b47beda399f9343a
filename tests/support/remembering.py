"""A workspace that remembers, for tests: its memories and what is known about it, with a clock that stands still."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from context_engine import tools
from context_engine.context import KnowledgeEntry
from context_engine.index import ParsedFileCache, load_languages
from context_engine.languages import Grammars
from context_engine.memory.importers import import_file
from context_engine.memory.knowledge import IN_FILES, Knowledge
from context_engine.memory.memories import Memories
from context_engine.memory.memory_folder import LinkedFiles, MemoryFolder
from context_engine.memory.memory_index import MemoryIndex, TextEmbedder
from context_engine.references import SymbolService
from context_engine.repo import WorkspaceFiles
from context_engine.repo.paths import Root
from context_engine.secrets import RedactedDocuments
from context_engine.storage.records import RecordFolder
from context_engine.team.synced_folder import SharedRecords
from context_engine.timestamps import make_clock
from tests.support.engines import grammars_folder

NOON = "2026-11-21T12:00:00Z"
FOLDER = ".context-engine/memories"


class Remembering:
    """One process that has a workspace open: `memories`, `knowledge`, and the time, which `at` sets."""

    def __init__(
        self,
        root: Path,
        *,
        embed: TextEmbedder | None = None,
        access: Callable[[str], float] | None = None,
        shared_records: SharedRecords | None = None,
    ) -> None:
        self.folder = root
        self._at = make_clock(NOON)
        self.recall = MemoryIndex(root.parent / f"cache of {root.name}" / "recall.db", embed)
        home = root.parent / f"home of {root.name}"
        shelves = {
            "project": self._shelf("project", root / ".context-engine", FOLDER, shared_records),
            "user": self._shelf("user", home, str(home / "memories")),
        }
        texts = RedactedDocuments()
        languages = load_languages(root)
        files = WorkspaceFiles(Root(root), languages, texts)
        parses = ParsedFileCache(languages, Grammars(grammars_folder()), files.read_kept, texts)
        unused: Any = None  # outlines need no index
        linked = LinkedFiles(Root(root), SymbolService(Root(root), unused, parses, unused).outline)
        self.memories = Memories(shelves, linked, self.recall, now=self.now)
        self.knowledge = Knowledge(self.memories, access=access)
        self.memory = self
        self.settings = SimpleNamespace(result_chars_max=36_000)

    def get_knowledge(self) -> Knowledge:
        return self.knowledge

    def date_issues(self, found: Sequence[KnowledgeEntry]) -> Sequence[KnowledgeEntry]:
        return found

    def find_unread(self) -> list[str]:
        return []

    def learn(self, files: dict[str, str], cancel: threading.Event | None = None) -> int:
        """Derive discoveries from these files alone; return how many were read."""

        def read(path: str) -> list[KnowledgeEntry]:
            return import_file(path, files[path], commit="c0ffee" * 7)

        stamps = {path: str(hash(text)).encode() for path, text in files.items()}
        return self.knowledge.refresh(IN_FILES, stamps, read, cancel=cancel)

    def _shelf(self, scope: str, home: Path, shown: str, shared_records: SharedRecords | None = None) -> MemoryFolder:
        return MemoryFolder(
            scope, RecordFolder(home, "memories", flush=False, shared_records=shared_records), self.recall, shown=shown
        )

    def now(self) -> float:
        return self._at()

    def at(self, moment: str) -> None:
        self._at = make_clock(moment)

    def write(self, path: str, text: str) -> Path:
        """A file of the workspace, as an editor leaves it."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        return target

    def files(self) -> list[Path]:
        return sorted((self.folder / FOLDER).glob("*/*.md"))

    def run(self, tool: tools.Tool, **arguments: object) -> tools.Reply:
        return tool.call(self, arguments, tools.Call())
