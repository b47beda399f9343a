"""What one Engine knows about its repository: memories, discoveries, history, and which files are used.

Memories are written and read at once. The rest is derived from files and commits, in the background where there is
time, else by the first answer that needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from context_engine.context import KnowledgeEntry, ProjectKnowledge
from context_engine.errors import BugError, Cancelled, ContextEngineError
from context_engine.history import Blame, FileHistory, HistoryFile, HistoryMiner, predict_changes, search_messages
from context_engine.index import IndexService, StaticEncoder, lower_priority
from context_engine.memory import importers
from context_engine.memory.knowledge import IN_COMMITS, IN_FILES, Knowledge
from context_engine.memory.memories import Memories
from context_engine.memory.memory_folder import LinkedFiles, MemoryFolder
from context_engine.memory.memory_index import MemoryIndex, TextEmbedder
from context_engine.model import Query
from context_engine.references import SymbolService
from context_engine.repo import Git, JointService, Root, WorkspaceFiles
from context_engine.search import FileUsage, SearchService
from context_engine.secrets import Redactor
from context_engine.storage import STATE_FOLDER, RecordFolder, workspace_id
from context_engine.timestamps import Now

if TYPE_CHECKING:
    from context_engine.storage import SharedRecords

MEMORIES = "memories"
CLOSE_WAIT_S = 10.0
"""A running git process is waited for; it has a time limit of its own."""


class KnowledgeService(JointService):
    """The knowledge of one Engine. Thread-safe; nothing is opened before it is needed.

    Before an answer the history and the discoveries in files and commits are brought up to date, so that the same index
    gives the same answer. That takes a second for 5,000 files and three for 20,000 commits, once, then some 10 ms after
    an edit.
    """

    def __init__(
        self,
        root: Root,
        git: Git,
        *,
        index: IndexService,
        files: WorkspaceFiles,
        symbols: SymbolService,
        search: SearchService,
        access: FileUsage,
        redactor: Redactor,
        encoder: StaticEncoder | None,
        cache: Path,
        workspace_cache: Path,
        user_folder: Path,
        now: Now,
        shared_records: SharedRecords | None = None,
    ) -> None:
        """`user_folder` contains the memories of this person; a team shares the others by `shared_records`."""
        self._git, self._index, self._files, self._search = git, index, files, search
        self._access, self._cache = access, cache
        recall = MemoryIndex(workspace_cache / "recall.db", _build_embedder(encoder))
        records = RecordFolder(root.path / STATE_FOLDER, MEMORIES, shared_records=shared_records)
        shelves = {
            "project": MemoryFolder("project", records, recall, shown=f"{STATE_FOLDER}/{MEMORIES}"),
            "user": MemoryFolder(
                "user", RecordFolder(user_folder, MEMORIES), recall, shown=str(user_folder / MEMORIES)
            ),
        }
        linked = LinkedFiles(root, symbols.outline)
        self.memories = Memories(shelves, linked, recall, now=now, redact_text=redactor.redact)
        self.knowledge = Knowledge(self.memories, access=lambda path: access.ranking_scores().get(path, 0.0))
        self._miner: HistoryMiner | None = None
        self._history: FileHistory | None = None
        self._history_head = ""  # the head that `_history` is of
        self._history_limit = ""  # what was not read of it
        self._reading = threading.Lock()
        self._read: tuple[str, object] | None = None  # the head and the version of the index, as they were read
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._stop = threading.Event()
        self._problem: ContextEngineError | None = None

    @classmethod
    def join(cls, services: Mapping[str, Self], absent: Mapping[str, str]) -> Self:
        """Return what is known of several repositories; the history of each stays with it."""
        joint = super().join(services, absent)
        joint.knowledge = Knowledge.join({name: one.knowledge for name, one in services.items()}, absent)
        joint._history = None
        return joint

    # -- what is known --

    def get_project_knowledge(self) -> ProjectKnowledge:
        """Return what is known, for bundles and prompts."""
        knowledge = self.get_knowledge()
        history = self._history or None  # an empty one says nothing
        predict = partial(self._predict_files, history) if history else None
        return ProjectKnowledge(history, knowledge.recall, predict)

    def history(self) -> FileHistory | None:
        """Return the history of the head; None if there is none."""
        self._catch_up()
        return self._history or None

    def get_knowledge(self) -> Knowledge:
        """Return the knowledge of everything that is indexed and committed."""
        for one in self.members.values():
            one._catch_up()
        return self.knowledge

    def find_unread(self) -> list[str]:
        """Return what is not read yet, for answers that may lack it."""
        return list(filter(None, (one._find_unread(name) for name, one in self.members.items())))

    def _find_unread(self, name: str) -> str:
        of = f" of {name}" * bool(name)
        if self._index.live.is_building and not self._index.is_complete():
            return f"not all files{of} are read yet: ask again in a moment"
        problem = self._problem.message if self._problem else self._history_limit
        return f"not all{of} could be read: {problem}" if problem else ""

    def date_issues(self, found: Iterable[KnowledgeEntry]) -> list[KnowledgeEntry]:
        """Return what is about to be shown, issues in comments with the commit and the day of their line.

        git is asked for the files of these alone: that takes some 10 ms a file.
        """
        blame = {name: Blame(one._git) for name, one in self.members.items()}
        return [entry for row in found for entry in importers.add_dates([row], blame[row.project])]

    def _predict_files(self, history: FileHistory, query: Query) -> Sequence[tuple[str, float]]:
        searcher = self._search.searcher()
        found = predict_changes(searcher, query, history) if searcher else ()
        return [(change.path, change.score) for change in found]

    def clear(self) -> None:
        """Forget which files are used. Memories stay."""
        self._access.clear()

    # -- catching up --

    def start(self) -> None:
        """Derive in the background what the next answer would wait for."""
        with self._starting:
            if not self._reading.locked() and not self._stop.is_set():
                self._thread = threading.Thread(target=self._catch_up_unheard, name="ctx-learning", daemon=True)
                self._thread.start()

    def wake(self) -> None:
        """Derive again after an index run, if anything was derived before."""
        if self._read is not None:
            self.start()

    def run_to_end(self) -> None:
        """Derive everything, also what failed before. Raises: StorageBusy, or the error that stopped it."""
        self._read = None
        self._catch_up()
        if self._problem is not None:
            raise self._problem

    def close(self) -> None:
        """Stop the thread, and close the files."""
        self._stop.set()
        with self._starting:  # the thread of the index may be starting it
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_WAIT_S)
        self._access.close()
        self.memories.recall.close()

    def _catch_up_unheard(self) -> None:
        lower_priority(threading.get_native_id())
        self._catch_up()

    def _catch_up(self) -> None:
        """Derive what is new. An error is kept for `run_to_end`; it is tried again when something has changed."""
        with self._reading:
            head, snapshot = self._head(), self._index.live.snapshot()
            version = snapshot and (snapshot.generation, snapshot.epoch)
            if self._read == (head, version) or self._stop.is_set():
                return
            self._read, self._problem = (head, version), None
            try:
                self._read_history(head)
                self._read_discoveries(head)
            except Cancelled:
                pass
            except ContextEngineError as error:
                self._problem = error
            except Exception as error:  # noqa: BLE001 - an answer does without
                self._problem = BugError(f"nothing could be derived: {type(error).__name__}: {error}")

    def _read_history(self, head: str) -> None:
        if head == self._history_head and self._history is not None:
            return
        if self._miner is None:
            repository = self._git.repository
            if repository is None:
                self._history_head = head
                return
            file = self._cache / "histories" / workspace_id(Path(repository.common_dir))
            self._miner = HistoryMiner(self._git, HistoryFile(file))
        mined = self._miner.mine(cancel=self._stop)
        self._history_limit = mined.problem if head else ""
        history = FileHistory(mined.facts, mined.head, under=self._git.below())
        history.find_similar_changes("x")  # computes what is costly now, and not while somebody waits
        self._access.follow_renames(history.map_renames)
        self._history, self._history_head = history, head

    def _read_discoveries(self, head: str) -> None:
        """Derive discoveries from files and from commit messages."""
        if self._index.live.snapshot() is not None:
            stamps = {path: state.sha256 for path, state in self._index.store.files().items()}
            self.knowledge.refresh(IN_FILES, stamps, lambda path: self._import_file(path, head), cancel=self._stop)
        if head:
            self.knowledge.refresh(IN_COMMITS, {"history": head.encode()}, lambda _: self._import_commits())

    def _import_file(self, path: str, head: str) -> list[KnowledgeEntry]:
        """Return the discoveries of one file, from its text without secrets."""
        data = self._files.read_once(path)
        text = "" if data is None else data.decode("utf-8", "replace")
        found = importers.import_file(path, text, commit=head)
        if not found:  # most files have none, and a search for secrets is slow
            return []
        return importers.import_file(path, self.memories.redact_text(text), commit=head)

    def _import_commits(self) -> list[KnowledgeEntry]:
        clean = self.memories.redact_text
        messages = search_messages(self._git, importers.COMMIT_PATTERN, most=importers.COMMITS_MAX)
        return importers.import_commits(
            replace(one, subject=clean(one.subject), body=clean(one.body)) for one in messages
        )

    def _head(self) -> str:
        head = self._git.head()
        return (head.commit if head else None) or ""


def _build_embedder(encoder: StaticEncoder | None) -> TextEmbedder | None:
    """Return an embedder of static vectors; None if the user wants none, or the table cannot be used."""
    if encoder is None or not encoder.identity:
        return None
    return TextEmbedder(encoder.identity, lambda texts: encoder.rows(texts).floats())
