"""What one Engine knows about its repository: memories, discoveries, history, and which files are used.

Memories are written and read at once. The rest is derived from files and commits in the background. An answer waits a
moment for what is missing, then does without it and says so.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from context_engine.context import KnowledgeEntry, ProjectKnowledge
from context_engine.errors import BugError, Cancelled, ContextEngineError
from context_engine.history import Blame, FileHistory, HistoryFile, HistoryMiner, predict_changes, search_messages
from context_engine.index import IndexService, StaticEncoder
from context_engine.memory import importers
from context_engine.memory.knowledge import IN_COMMITS, IN_FILES, Knowledge
from context_engine.memory.memories import Memories
from context_engine.memory.memory_folder import LinkedFiles, MemoryFolder
from context_engine.memory.memory_index import MemoryIndex, TextEmbedder
from context_engine.model import Query
from context_engine.references import SymbolService
from context_engine.repo import Git, JointService, Root, WorkspaceFiles
from context_engine.search import FileUsage, SearchService, lower_thread_priority
from context_engine.secrets import Redactor
from context_engine.storage import STATE_FOLDER, RecordFolder, workspace_id
from context_engine.timestamps import Now

if TYPE_CHECKING:
    from context_engine.storage import SharedRecords

MEMORIES = "memories"
WAIT_S = 3.0
"""Wait of an answer for what was never derived here: one second for 5,000 files, three for 20,000 commits; once."""
MOMENT_S = 0.3
"""Wait of an answer for what follows from the last edit, some 10 ms of work."""
DATES_S = 0.5
"""Time for dates of issues before the first answer, enough for all issues of a small repository."""
CLOSE_WAIT_S = 10.0
"""A running git process is waited for; it has a time limit of its own."""


class KnowledgeService(JointService):
    """The knowledge of one Engine. Thread-safe; nothing is opened before it is needed.

    One thread of low priority derives the history, then discoveries in files and commits, then dates of issues. It
    starts with the first question, and runs again when the head moves or files are indexed.
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
        self.knowledge = Knowledge(self.memories, now=now, access=lambda path: access.ranking_scores().get(path, 0.0))
        self._blame = Blame(git)
        self._miner: HistoryMiner | None = None
        self._history: FileHistory | None = None
        self._history_head = ""  # the head that `_history` is of
        self._changed = threading.Condition()
        self._wanted = False  # somebody asked since the thread last began
        self._works = False
        self._is_behind = True  # something is not read yet; dates do not count
        self._is_there = False  # everything was read once
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._interrupt = threading.Event()  # dates are left alone: there is something to read, or an end
        self._problem: ContextEngineError | None = None

    @classmethod
    def join(cls, services: Mapping[str, Self], absent: Mapping[str, str]) -> Self:
        """Return what is known of several repositories; the history of each stays with it."""
        joint = super().join(services, absent)
        joint.knowledge = Knowledge.join({name: one.knowledge for name, one in services.items()}, absent)
        joint._history = None
        return joint

    # -- what is known --

    def get_project_knowledge(self, wait_s: float = WAIT_S) -> ProjectKnowledge:
        """Return what is known at this moment, for bundles and prompts.

        Wait up to `wait_s` for what was never derived here; what is missing then is said by `is_partial`.
        """
        are_fresh = [one._wait_until_fresh(wait_s) for one in self.members.values()]
        history = self._history or None  # an empty one says nothing
        predict = partial(self._predict_files, history) if history else None
        return ProjectKnowledge(history, self.knowledge.recall, predict, is_partial=not all(are_fresh))

    def history(self) -> FileHistory | None:
        """Return the history of the head after a moment's wait; None if there is none, or it is still being read."""
        self._wait_until_fresh()
        return self._history or None

    def get_knowledge(self) -> Knowledge:
        """Return the knowledge, after a moment's wait for what was never derived here."""
        for one in self.members.values():
            one._wait_until_fresh()
        return self.knowledge

    def _predict_files(self, history: FileHistory, query: Query) -> Sequence[tuple[str, float]]:
        searcher = self._search.searcher()
        found = predict_changes(searcher, query, history) if searcher else ()
        return [(change.path, change.score) for change in found]

    def clear(self) -> None:
        """Forget which files are used. Memories stay."""
        self._access.clear()

    # -- the thread --

    def start(self) -> None:
        """Derive everything in the background, for the first time or again."""
        with self._changed:
            if self._stop.is_set():
                return
            self._wanted = self._is_behind = True
            self._interrupt.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ctx-learning", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wake(self) -> None:
        """Derive again after an index run, if the first question was asked."""
        if self._thread is not None:
            self.start()

    def run_to_end(self) -> None:
        """Derive everything, and wait for it. Raises: StorageBusy, or the error that stopped it."""
        self.start()
        with self._changed:
            self._changed.wait_for(lambda: not (self._wanted or self._works))
        if self._problem is not None:
            raise self._problem

    def close(self) -> None:
        """Stop the thread, and close the files."""
        with self._changed:
            self._stop.set()
            self._interrupt.set()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_WAIT_S)
        self._access.close()
        self.memories.recall.close()

    def _wait_until_fresh(self, most_s: float = WAIT_S) -> bool:
        """Wait a moment for what is not read yet; up to `most_s` the first time, and when the head has moved.

        Return whether everything is read.
        """
        seconds = MOMENT_S
        if not self._is_there or self._head() != self._history_head:
            self.start()
            seconds = most_s
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_behind, min(seconds, most_s))

    def _run(self) -> None:
        lower_thread_priority()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._stop.is_set())
                if self._stop.is_set():
                    return
                self._wanted, self._works = False, True
                self._interrupt.clear()
            self._work()

    def _work(self) -> None:
        """Read, then look up dates. An error is kept for `run_to_end`; the next wake tries again."""
        self._problem = None
        try:
            try:
                self._read_history()
                self._read_discoveries()
                self._add_dates(DATES_S)
                self._is_there = self._is_there or self._is_indexed()
            finally:
                with self._changed:
                    self._is_behind = self._wanted
                    self._changed.notify_all()
            self._add_dates(math.inf)
        except Cancelled:
            pass
        except ContextEngineError as error:
            self._problem = error
        except Exception as error:  # noqa: BLE001 - a thread has no caller
            self._problem = BugError(f"nothing could be derived: {type(error).__name__}: {error}")
        finally:
            with self._changed:
                self._works = False
                self._changed.notify_all()

    def _read_history(self) -> None:
        head = self._head()
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
        history = FileHistory(mined.facts, mined.head, under=self._git.below())
        history.find_similar_changes("x")  # computes what is costly now, and not while somebody waits
        self._access.follow_renames(history.map_renames)
        self._history, self._history_head = history, head

    def _read_discoveries(self) -> None:
        """Derive discoveries from files and from commit messages."""
        head = self._head()
        if self._is_indexed():
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

    def _add_dates(self, seconds: float) -> None:
        """Look up when issues were written: one process for each file, for which no answer waits."""
        if self._history_head:
            self.knowledge.add_dates(self._blame, seconds=seconds, cancel=self._interrupt)

    def _head(self) -> str:
        head = self._git.head()
        return (head.commit if head else None) or ""

    def _is_indexed(self) -> bool:
        return self._index.live.snapshot() is not None


def _build_embedder(encoder: StaticEncoder | None) -> TextEmbedder | None:
    """Return an embedder of static vectors; None if the user wants none, or the table cannot be used."""
    if encoder is None or not encoder.identity:
        return None
    return TextEmbedder(encoder.identity, lambda texts: encoder.rows(texts).floats())
