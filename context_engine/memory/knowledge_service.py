"""What one Engine knows about its repository: memories, discoveries, history, and which files are used.

Memories are written and read at once. The rest is derived from files and commits in the background
(`memory.background_refresh`). An answer waits a moment for what is missing, then does without it and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.context import ProjectKnowledge, estimate_max_tokens, load_tokenizer
from context_engine.history import FileHistory, predict_changes
from context_engine.index import IndexService, StaticEncoder, SymbolService
from context_engine.memory.background_refresh import WAIT_S, BackgroundRefresh, RefreshSources
from context_engine.memory.knowledge import Knowledge
from context_engine.memory.linked_files import LinkedFiles
from context_engine.memory.memories import Memories
from context_engine.memory.memory_folder import MemoryFolder
from context_engine.memory.memory_index import MemoryIndex, TextEmbedder
from context_engine.model import Query
from context_engine.repo import Git, Root, WorkspaceFiles
from context_engine.search import FileUsage, SearchService
from context_engine.secrets import Redactor
from context_engine.sharing import RecordFolder
from context_engine.storage import STATE_FOLDER
from context_engine.timestamps import Now

if TYPE_CHECKING:  # for those who have a team
    from context_engine.sharing import SharedRecords

MEMORIES = "memories"


@dataclass(frozen=True, slots=True)
class KnowledgeDependencies:
    """Dependencies: the workspace, its index, search and files, the removal of secrets, and the user's folders.

    `user_folder` contains the memories of this person; without `tokenizer_file` tokens are counted by an upper bound.
    `shared_records` is where a team shares its memories, except those of this person.
    """

    root: Root
    git: Git
    index: IndexService
    files: WorkspaceFiles
    symbols: SymbolService
    search: SearchService
    access: FileUsage
    redactor: Redactor
    encoder: StaticEncoder | None
    cache: Path
    workspace_cache: Path
    user_folder: Path
    now: Now
    tokenizer_file: Path | None = None
    shared_records: SharedRecords | None = None


class KnowledgeService:
    """The knowledge of one Engine. Thread-safe; nothing is opened before it is needed."""

    def __init__(self, parts: KnowledgeDependencies) -> None:
        self._parts = parts
        index, access = parts.index, parts.access
        recall = MemoryIndex(parts.workspace_cache / "recall.db")
        records = RecordFolder(parts.root.path / STATE_FOLDER, MEMORIES, shared_records=parts.shared_records)
        own_records = RecordFolder(parts.user_folder, MEMORIES)
        shelves = {
            "project": MemoryFolder("project", records, recall, shown=f"{STATE_FOLDER}/{MEMORIES}"),
            "user": MemoryFolder("user", own_records, recall, shown=str(parts.user_folder / MEMORIES)),
        }
        self.access = access
        self.memories = Memories(
            shelves,
            LinkedFiles(parts.root, parts.symbols.outline),
            recall,
            now=parts.now,
            embed=_embed(parts.encoder),
            redact_text=parts.redactor.redact,
        )
        self.knowledge = Knowledge(
            self.memories, now=parts.now, access=lambda path: access.ranking_scores().get(path, 0.0)
        )
        self._learning = BackgroundRefresh(
            RefreshSources(
                parts.git,
                parts.cache / "histories",
                files=lambda: {path: state.sha256 for path, state in index.store.files().items()},
                read=parts.files.read_once,
                is_indexed=lambda: index.live.snapshot() is not None,
            ),
            self.knowledge,
            access,
        )
        self._count = estimate_max_tokens
        self._counts = False

    # -- what is known --

    def get_project_knowledge(self, wait_s: float = WAIT_S) -> ProjectKnowledge:
        """Return what is known at this moment, and how tokens are counted, for bundles and prompts.

        Wait up to `wait_s` for what was never derived here; what is missing then is said by `is_partial`.

        Raises: UnsupportedHost, InvalidArgument (the configured tokenizer cannot be read).
        """
        if self._parts.tokenizer_file is not None and not self._counts:
            self._count, self._counts = load_tokenizer(self._parts.tokenizer_file), True
        is_fresh = self._learning.wait_until_fresh(wait_s)
        history = self._learning.history(0.0)
        return ProjectKnowledge(
            self._count,
            history,
            self.knowledge.recall,
            self._build_predictor(history) if history else None,
            is_partial=not is_fresh,
        )

    def history(self) -> FileHistory | None:
        """Return the history of the head; None while it is being read, and if there is none."""
        return self._learning.history()

    def get_knowledge(self) -> Knowledge:
        """Return the knowledge, after a moment's wait for what was never derived here."""
        self._learning.wait_until_fresh()
        return self.knowledge

    def _build_predictor(self, history: FileHistory) -> Callable[[Query], Sequence[tuple[str, float]]]:
        def predict_files(query: Query) -> Sequence[tuple[str, float]]:
            searcher = self._parts.search.searcher()
            if searcher:
                return [(change.path, change.score) for change in predict_changes(searcher, query, history)]
            return []

        return predict_files

    # -- its life --

    def start(self, after_s: float = 0.0) -> None:
        """Derive everything in the background, `after_s` seconds from now."""
        self._learning.start(after_s)

    def wake(self) -> None:
        """Derive again after an index run, if the first question was asked."""
        self._learning.wake()

    def run_to_end(self) -> None:
        """Derive everything, and wait for it. Raises: StorageBusy, or the error that stopped it."""
        self._learning.run_to_end()

    def clear(self) -> None:
        """Forget which files are used. Memories stay."""
        self.access.clear()

    def close(self) -> None:
        """Stop, and close the files."""
        self._learning.close()
        self.access.close()
        self.memories.recall.close()


def _embed(encoder: StaticEncoder | None) -> TextEmbedder | None:
    """Return an embedder of static vectors; None if the user wants none, or the table cannot be used."""
    if encoder is None or not encoder.identity:
        return None
    return TextEmbedder(encoder.identity, lambda texts: encoder.rows(texts).floats())
