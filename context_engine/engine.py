"""The built house: an `Engine` is one workspace, indexed and searchable, and the only place that chooses implementations.

with Engine.open("path/to/repository") as engine:
    engine.index()
    for hit in engine.search(Query("where are passwords hashed")).hits:
        print(hit.chunk.path, hit.chunk.span, hit.score)
"""

from __future__ import annotations

import json
import os
import platform
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Self

from context_engine import __version__
from context_engine.context.project_knowledge import Team
from context_engine.context.refinement import Ladder, ladder
from context_engine.edit import diff_hunks
from context_engine.edit.apply import Editor, Past, Receipt
from context_engine.edit.edit_request import Want, planned, whole
from context_engine.edit.file_edit import Change, deleted, edited, written
from context_engine.edit.read_tracker import Ledger
from context_engine.edit.rename import Renamer, Renaming, bare_name
from context_engine.edit.syntax_check import broken
from context_engine.embedding.embedder import Choice
from context_engine.embedding.embedder_registry import open_embedder
from context_engine.errors import (
    AccessDenied,
    CallError,
    ContextEngineError,
    EmbedderUnusable,
    InvalidArgument,
    InvalidLineRange,
    InvalidPath,
    NotIndexed,
    PreconditionFailed,
    SymbolNotFound,
    TooLarge,
)
from context_engine.history.file_history import History
from context_engine.index import index_archive
from context_engine.index.build import IndexBuilder
from context_engine.index.embedded_store import SCHEMA_VERSION, EmbeddedStore
from context_engine.index.file_roles import ROLES
from context_engine.index.graph_traversal import GraphTraversal
from context_engine.index.index_repair import RepairReport, find_problems, repair
from context_engine.index.index_store import IndexStats
from context_engine.index.index_transfer import has_index, migrate, seed
from context_engine.index.live_index import LiveIndex
from context_engine.index.store_factory import AnyStore, open_store
from context_engine.index.symbol_graph import ParsedFileCache, SymbolDefinition, SymbolGraph
from context_engine.index.worker import WorkerPool
from context_engine.index.workspace_languages import load_languages
from context_engine.languages import OWN_FOLDER, Grammars, PathIndex
from context_engine.memory.knowledge import Knowledge
from context_engine.memory.knowledge_service import Remembering, Surroundings
from context_engine.memory.memories import Memories
from context_engine.model import (
    Answer,
    Definition,
    Direction,
    Edge,
    FileOutline,
    FileText,
    Filter,
    Found,
    Hit,
    IndexReport,
    Landmarks,
    Progress,
    Query,
    RelPath,
    Scan,
    Skipped,
    Status,
    TextLine,
    TextPart,
    TextQuery,
    Trace,
    TreeEntry,
)
from context_engine.repo import file_reader, file_tree, workspace_roots
from context_engine.repo.clone_folders import is_clone
from context_engine.repo.git import Git
from context_engine.repo.paths import Root, is_sensitive
from context_engine.repo.repository_id import shared_name
from context_engine.repo.ripgrep import text_engine
from context_engine.repo.searchable_files import Lister
from context_engine.repo.walk import look
from context_engine.repo.watch import Watcher
from context_engine.repo.worktrees import siblings
from context_engine.search.chunk_export import ExportReport, collect_chunks, write_chunk_files
from context_engine.search.file_usage import Kind
from context_engine.search.hit_reading import Source
from context_engine.search.name_completion import Completer
from context_engine.search.repo_overview import landmarks
from context_engine.search.search_service import Standing, answered
from context_engine.search.searcher import Searcher
from context_engine.search.text_scanner import Scanner
from context_engine.secrets import KeyedRedaction
from context_engine.secrets.masked_text import RedactedDocuments, mark_searched
from context_engine.semantic.embedding_service import Chosen, Embeddings, Shared, World
from context_engine.settings import Settings
from context_engine.storage.index_folders import user_cache_folder, user_data_folder, workspace_id
from context_engine.storage.state_folder import FOLDER
from context_engine.storage.timestamps import make_clock
from context_engine.text.lines import count_lines
from context_engine.text.spans import LineSpan

if TYPE_CHECKING:
    from context_engine.plans.plan_service import PlanService
    from context_engine.review.review_service import Reviewing
    from context_engine.review.validation_service import Validating
    from context_engine.sharing.shared_records import Commons

__all__ = [
    "Answer", "Change", "Definition", "Direction", "Edge", "Engine", "FileOutline", "FileText", "Filter", "Found", "Hit",
    "IndexReport", "Landmarks", "Past", "Progress", "Query", "Receipt", "Scan", "Settings", "Skipped", "Status",
    "TextLine", "TextPart", "TextQuery", "Trace", "TreeEntry",
]  # fmt: skip

READ_BYTES_MAX = 1_000_000
"""Larger files are read in parts (docs/tools.md)."""
LISTED_BYTES_MAX = 1 << 62
"""A listing shows files of any size."""
RANGE_BYTES_MAX = 50_000_000
"""A line range may be read out of files up to this size."""
RENAMED_FILES_MAX = 2_000
"""Parsing so many takes some ten seconds, and nobody looks through what may be meant in them."""
WORKERS_MAX = 3
"""More processes than this wait for each other's disk and memory more than they gain."""
SOURCES_KEPT = 200
SOURCE_KEPT_BYTES_MAX = 100_000
"""Files of the last answers are kept, 20 MB at most: questions of one session circle around the same files."""
SESSIONS_MAX = 100
"""What the session that was heard of first has read is forgotten beyond these; its edits only lose a warning."""
SHIFTED_LINES_MAX = 50
"""A definition found this near to where it was indexed is taken for the same."""


class Engine:
    """One workspace. Thread-safe; two Engines live in one process; close it or use it as a context manager."""

    def __init__(self, root: Path, settings: Settings) -> None:
        """Use `Engine.open`."""
        self.root = root
        self.settings = settings
        self._root = Root(root)
        self._git = Git(root)
        self._texts = RedactedDocuments()
        cache = settings.cache_folder or user_cache_folder()
        self._languages = load_languages(root)
        self._grammars = Grammars(cache / "grammars")
        self._pool = WorkerPool(_workers(settings.workers), grammars_folder=str(cache / "grammars"), root=str(root))
        self.cache_folder = cache / "workspaces" / workspace_id(root)
        name = settings.store_repository or (shared_name(str(root)) if settings.store_url else "")
        self._team = Shared(settings.store_url, name, settings.store_shares)
        self._store = self._opened_store()
        self._embeddings = Embeddings(_chosen(settings), self._world(cache))
        self._builder = IndexBuilder(
            root,
            self._store,
            self._languages,
            self._grammars,
            self._pool,
            bytes_max=settings.index_bytes_max,
            encoder=self._embeddings.encoder,
            seed=self._seed,
        )
        self._live = LiveIndex(
            self._store,
            self._builder,
            self._builder.find_stale_files,
            rest_s=settings.staleness_ms / 1_000,
            on_indexed=self._indexed,
        )
        self._now = make_clock(os.environ.get("CTX_FAKE_NOW", ""))
        self._commons = self._opened_commons()
        self._remembering = Remembering(self._surroundings(cache))
        self._lister = Lister(root, stale_s=settings.staleness_ms / 1_000, excludes_file=self._git.excludes_file)
        self._scanner = Scanner(self._root, self._lister, lambda: text_engine(root), self._texts)
        self._watcher: Watcher | None = None
        self._lock = threading.Lock()
        self._searcher: Searcher | None = None
        self._graph: SymbolGraph | None = None
        self._completer: Completer | None = None
        self._planning: PlanService | None = None
        self._reviewing: Reviewing | None = None
        self._validating: Validating | None = None
        self._sources: dict[str, Source] = {}
        self._parses = ParsedFileCache(self._languages, self._grammars, self._bytes, self._texts)
        self._editor = Editor(self._root, root / FOLDER, on_write=self._wrote, flush=settings.flush)
        self._ledgers: OrderedDict[str, Ledger] = OrderedDict()
        self.ladder = _ladder(settings)
        """Takes what a tool found out further: a model that the user named, or the calling agent."""
        self.mended: tuple[str, ...] = ()
        """What edits of killed processes had left half written when this was opened, a sentence for each."""

    def _opened_store(self) -> AnyStore:
        """Where the index is: in the cache of this machine, or on a database that a team shares."""
        team = self._team
        return open_store(team.address, self.cache_folder, repository=team.repository, shares=team.shares)

    def _seed(self, identity: str) -> None:
        """Begin the index with that of another work tree of this repository, where there is one and it is like ours."""
        if isinstance(self._store, EmbeddedStore):
            alike = siblings(str(self.root), unless=OWN_FOLDER)
            indexes = [self.cache_folder.parent / workspace_id(Path(each)) for each in alike]
            seed(self._store, [each for each in indexes if each != self.cache_folder], identity)

    def _world(self, cache: Path) -> World:
        """What `embeddings` needs of this Engine."""
        return World(
            cache=cache,
            workspace_cache=self.cache_folder,
            env=os.environ,
            snapshot=self._store.snapshot,
            read=self._bytes,
            read_once=self._bytes_once,
            languages=self._languages,
            hold=lambda: self._live.is_building,
            team=self._team,
        )

    def _surroundings(self, cache: Path) -> Surroundings:
        """What `remembering` needs of this Engine."""
        return Surroundings(
            root=self._root,
            git=self._git,
            cache=cache,
            workspace_cache=self.cache_folder,
            user_folder=self.settings.data_folder or user_data_folder(),
            files=lambda: {path: state.sha256 for path, state in self._store.files().items()},
            read=self._bytes_once,
            searcher=self._current,
            encoder=self._embeddings.encoder,
            now=self._now,
            counts_access=self.settings.access_scoring,
            tokenizer_file=self.settings.tokenizer_file,
            scrub=self._scrub,
            commons=self._commons,
        )

    def _opened_commons(self) -> Commons | None:
        """Where plans, memories and reviews are the team's; None where they are this machine's, and in a clone of ours."""
        if not self.settings.store_records or self.is_clone:
            return None
        from context_engine.sharing.shared_records import open_commons  # for those who have a team

        return open_commons(self._team.address, self._team.repository, self.cache_folder)

    def _scrub(self, text: str) -> KeyedRedaction:
        """A text without its secrets, as it may be kept."""
        return self.reviews.scrubber.redact(text)

    @classmethod
    def open(cls, root: str | Path, *, settings: Settings | None = None) -> Engine:
        """Open the workspace at `root`. Cheap: nothing is read until the first call.

        Raises: UnsuitableRoot, FileNotFound, InvalidPath, InvalidArgument (settings).
        """
        chosen = workspace_roots.choose(root)
        settings = settings or Settings.load(chosen)
        _check_outside(chosen, settings)
        engine = cls(chosen, settings)
        engine.mended = engine._editor.recover()
        return engine

    # -- the index --

    def index(
        self,
        *,
        path: str | None = None,
        force: bool = False,
        progress: Callable[[Progress], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> IndexReport:
        """Bring the index up to date; `path` looks at one folder or file only; `force` builds all anew beside the old.

        Raises: StorageBusy, DiskFull, StorageCorrupt, Cancelled, InvalidPath, FileNotFound.
        """
        under = "" if path in (None, "", ".") else str(self._root.rel(path))
        return self._live.run(under="" if under == "." else under, force=force, progress=progress, cancel=cancel)

    @property
    def is_clone(self) -> bool:
        """Whether this is a clone in our cache, which follows its remote: nobody edits it."""
        return is_clone(self.root, self.settings.cache_folder or user_cache_folder())

    def index_in_background(self, *, force: bool = False) -> bool:
        """Start `index` in a thread; False when a run is under way. Its outcome shows in `status()`."""
        return self._live.run_in_background(force=force)

    def clear(self) -> int:
        """Delete the index (never memories, plans or settings); bytes freed. Raises: StorageBusy."""
        with self._lock:
            self._searcher = self._graph = self._completer = None
        self._remembering.clear()
        return self._store.clear()

    def watch(self) -> None:
        """Follow edits until `close`; where that is impossible, sweeps before answers take its place."""
        if self._watcher is None:
            self._watcher = Watcher(self.root, self._heard, quiet_ms=self.settings.quiet_ms)
            self._watcher.start()
            self._live.follow(self._watcher)
            self._lister.follow(self._watcher)

    def _indexed(self) -> None:
        """Something may have been indexed: who derives from it looks what is new."""
        self._embeddings.wake()
        self._remembering.wake()

    def _heard(self, paths: frozenset[str]) -> None:
        self._lister.note(paths)
        self._live.mark_stale(paths)
        self._embeddings.wake(paths)

    def start_model(self, after_s: float = 0.0) -> None:
        """Have the embedding model that the user chose take part in answers, and `after_s` fill what it lacks.

        Without this call static vectors alone are asked: what lives for one answer should not load a model.
        """
        self._embeddings.start(after_s)

    def start_learning(self, after_s: float = 0.0) -> None:
        """Read history and discoveries in the background, `after_s` from now; else the first question for them begins it."""
        self._remembering.start(after_s)

    def embed(
        self, *, progress: Callable[[Progress], None] | None = None, cancel: threading.Event | None = None
    ) -> tuple[int, int]:
        """Have the chosen model embed all that it has not seen, now; how many files and chunks have their vectors.

        Raises: NotIndexed, EmbedderUnusable (no model is chosen, or it cannot be used), Cancelled (what was made is kept);
        StoreUnavailable, StoreUnusable and DiskFull when a team shall have them and cannot.
        """
        if self._live.snapshot() is None:
            raise _no_index()
        filled = self._embeddings.fill(progress, cancel)
        if filled is None:
            raise EmbedderUnusable(
                f"the embedder {self.settings.embedder} has no model to run",
                suggestion="set CTX_EMBEDDER to auto, or to one of `ctx model list`",
            )
        return filled.cards, filled.chunks

    def status(self) -> Status:
        """What is indexed, how fresh it is, where it lies. Looks at the workspace for edits."""
        progress = self._live.progress
        stats = self._store.stats()
        searcher = self._current()
        if searcher is not None and progress is None and not self._live.is_watching:
            self._live.scan()
        head = self._git.head()
        counts, examples = self._skipped()
        return Status(
            root=str(self.root),
            state="building" if progress else "ready" if searcher else "absent",
            building_share=progress.done / progress.total if progress and progress.total else 0.0,
            files=stats.files,
            chunks=stats.chunks,
            symbols=searcher.snapshot.symbols if searcher else 0,
            languages=_language_counts(searcher) if searcher else {},
            branch=head.branch if head else None,
            commit=head.commit if head else None,
            stale=tuple(sorted(self._live.stale_files())) if searcher else (),
            skipped=counts,
            skipped_examples=examples,
            engine="hybrid" if searcher and searcher.snapshot.static() else "lexical",
            embeddings=self._embeddings.status(searcher.snapshot if searcher else None),
            generation=f"{stats.generation}.{stats.epoch}" if stats.generation else "",
            disk_bytes=stats.disk_bytes,
            cache_folder=str(self.cache_folder),
            indexed_at=self.indexed_at() or None,
            watcher=self._watcher_state(),
            last_error=self._live.last_error or self.store_problem or self.records_problem or None,
            versions=_versions(),
        )

    @property
    def store_problem(self) -> str:
        """Why the store that a team shares could not be asked the last time; empty when it could, and on this machine."""
        return self._store.problem

    @property
    def records_problem(self) -> str:
        """Why plans, memories or reviews of the team may not be seen here, or differ; empty when all is well, and on this machine."""
        return self._commons.problem if self._commons else ""

    def has_index(self) -> bool:
        """Whether there is an index to answer from, complete or not. Asks the store for it."""
        try:
            return self._live.snapshot() is not None
        except ContextEngineError:
            return False  # `store_problem` and `status` say why

    def problems(
        self,
        *,
        thorough: bool = True,
        progress: Callable[[Progress], None] = lambda _: None,
        cancel: threading.Event | None = None,
    ) -> list[str]:
        """What is wrong with the stored index, in words; empty when it is sound. Reads all of it.

        What lies on a database that a team shares is fetched and compared when it is to be `thorough`, else only measured.
        Raises: Cancelled.
        """
        found = find_problems(self._store, thorough=thorough, tell=progress, cancel=cancel)
        return [*found, *(self._team.problems() if thorough and not self.store_problem else ())]

    def export_index(
        self,
        file: Path,
        *,
        progress: Callable[[Progress], None] = lambda _: None,
        cancel: threading.Event | None = None,
    ) -> index_archive.ArchiveManifest:
        """Write the index into one file, for `import_index` elsewhere. Raises: as `archive.write`."""
        head = self._git.head()
        commit = (head.commit if head else "") or ""
        return index_archive.export_index(
            self._store, file, name=self.root.name, commit=commit, now=self._now(), tell=progress, cancel=cancel
        )

    def import_index(
        self,
        file: Path,
        *,
        progress: Callable[[Progress], None] = lambda _: None,
        cancel: threading.Event | None = None,
    ) -> index_archive.ArchiveManifest:
        """Put an exported index in the place of this one; `index` then compares it with the files.

        Raises: as `archive.take_in`.
        """
        return index_archive.import_index(self._store, file, tell=progress, cancel=cancel)

    def mend(
        self,
        *,
        progress: Callable[[Progress], None] = lambda _: None,
        cancel: threading.Event | None = None,
    ) -> RepairReport:
        """Mend the index and forget what is lost of it; `index` then reads that again. Raises: as `mending.mend`."""
        mended = repair(self._store, tell=progress, cancel=cancel)
        vectors = tuple(self._team.problems(repair=self._team.shares))
        left = () if self._team.shares else vectors
        return replace(mended, problems=(*mended.problems, *vectors), left=(*mended.left, *left))

    def move_index(
        self,
        address: str,
        *,
        replace: bool = False,
        progress: Callable[[Progress], None] = lambda _: None,
        cancel: threading.Event | None = None,
    ) -> IndexStats:
        """Put this index into the store at an address, for all who use that; what is there then.

        `replace`: in the place of one that is there; else that is refused. Broken off, it goes on from there the next time.
        Raises: InvalidArgument, UnsupportedHost (no such store), PreconditionFailed, NotIndexed, Cancelled, and what stores raise.
        """
        name = self.settings.store_repository or shared_name(str(self.root))
        with closing(open_store(address, self.cache_folder, repository=name, shares=True)) as target:
            if isinstance(self._store, EmbeddedStore) and isinstance(target, EmbeddedStore):
                raise InvalidArgument(
                    "the index is on this machine already", suggestion="name a database, as postgresql://host/database"
                )
            if not replace and has_index(target):
                place = "this machine" if isinstance(target, EmbeddedStore) else target.depot.name
                raise PreconditionFailed(
                    f"there is an index of {name} on {place} already",
                    suggestion="use that one, or say --replace (in Python: replace=True) to put this one in its place",
                )
            return migrate(self._store, target, tell=progress, cancel=cancel)

    def broken_parsers(self) -> dict[str, str]:
        """Each grammar that cannot be loaded, and why. Unpacks those that were not needed yet."""
        names = sorted({language.grammar for language in self._languages.listed if language.grammar})
        self._grammars.prepare(names)
        return {name: why for name in names if (why := self._grammars.problem(name))}

    def indexed_at(self) -> str:
        """When the index was last brought up to date as a whole, UTC ISO-8601; empty when never."""
        walked_at = self._store.metadata("walked_at")
        return _stamp(walked_at) if walked_at else ""

    def tags(self) -> dict[str, int]:
        """Every tag of the index and how many chunks carry it, most first."""
        searcher = self._current()
        return searcher.masks.counts() if searcher else {}

    # -- searching --

    def search(self, query: Query) -> Answer:
        """The places worth reading for a query. Filters apply before ranking.

        Raises: NotIndexed when there is no index and none is being built, InvalidArgument for an empty query.
        """
        if not query.text.strip():
            raise InvalidArgument("query is empty", suggestion="say what to find, in words or code")
        standing = self.standing()
        if standing is None:
            return self._not_yet()
        with self._embeddings.answering():
            answer = answered(standing, query)
        self._embeddings.wake(hit.chunk.path for hit in answer.hits)
        return answer

    def standing(self) -> Standing | None:
        """What ranks here now, edits looked for; None without an index. Who ranks several workspaces together asks for it."""
        self._live.refresh()
        searcher = self._current()
        if searcher is None:
            return None
        return Standing(searcher, self._source, self._live.describe_freshness(), self._live.last_error or "")

    @property
    def freshness(self) -> str:
        """How true the index is to the files, as far as anybody has looked: `fresh`, `3 files edited since index`..."""
        return self._live.describe_freshness()

    @property
    def is_building(self) -> bool:
        """Whether this process is indexing."""
        return self._live.is_building

    def _not_yet(self) -> Answer:
        if not self._live.is_building:
            raise NotIndexed(
                "this workspace has no index yet",
                suggestion="call index_workspace (at a terminal: ctx index); it takes seconds",
                details={"last_error": self._live.last_error} if self._live.last_error else {},
            )
        return Answer(
            (), "lexical", self._live.describe_freshness(), 0, "the index is being built: ask again in a moment", ()
        )

    def _current(self) -> Searcher | None:
        """The searcher of the newest snapshot; kept until something is committed."""
        snapshot = self._live.snapshot()
        with self._lock:
            if snapshot is None:
                return None
            if self._searcher is None or self._searcher.snapshot is not snapshot:
                self._searcher = Searcher(snapshot, ROLES, self._embeddings.meaning, self._remembering.used)
                self._graph = None
            return self._searcher

    # -- what a team knows --

    def now(self) -> float:
        """What time it is here: seconds since 1970."""
        return self._now()

    def team(self) -> Team:
        """What a team knows beside its code, and how tokens are counted, for bundles and prompts.

        Raises: UnsupportedHost, InvalidArgument (a tokenizer that the settings name and nobody can read).
        """
        return self._remembering.team()

    @property
    def memories(self) -> Memories:
        """What was written down to be remembered."""
        return self._remembering.memories

    @property
    def knowledge(self) -> Knowledge:
        """That, and what the repository tells itself; what was never looked at here is waited for, a moment."""
        return self._remembering.informed()

    def history(self) -> History | None:
        """The commits of what is checked out as numbers about files; None without any, and while they are first read."""
        return self._remembering.history()

    def used(self) -> Mapping[str, float]:
        """How much each file was read and edited here of late, 0 to 1."""
        return self._remembering.used()

    def showed(self, paths: Iterable[str]) -> None:
        """Hits in these files were shown to somebody."""
        for path in dict.fromkeys(paths):
            self._remembering.access.note(path, "hit")

    def learn(self) -> None:
        """Derive all that can be known of history and files now, instead of in the background. Raises: StorageBusy."""
        self._remembering.settle()

    @property
    def reviews(self) -> Reviewing:
        """What is wrong with a change: checks, analysers, sessions."""
        from context_engine.review.review_service import (  # parsers of diffs and rules, for those who review
            Reviewing,
            World,
        )

        with self._lock:
            if self._reviewing is None:
                self._reviewing = Reviewing(
                    World(
                        root=self._root,
                        git=self._git,
                        languages=self._languages,
                        grammars=self._grammars,
                        read=self._bytes_once,
                        history=self._remembering.history,
                        state=self.root / FOLDER,
                        commons=self._commons,
                        now=self._now,
                        importers=self.importers,
                        programs=tuple(each.strip() for each in self.settings.review_programs.split(",")),
                    )
                )
            return self._reviewing

    def _objections(self, diff: str) -> tuple[str, ...]:
        """What a review finds pressing in a diff of files as they are now."""
        from context_engine.review.review_options import Options

        return self.reviews.review_diff(diff, Options(analyzers="none", fail_on="P1")).fail_reasons

    @property
    def plans(self) -> PlanService:
        """What is to be done here: plans, how far they are, who approved of them."""
        from context_engine.plans.plan_service import PlanDependencies, PlanService  # 20 ms, for those who plan

        with self._lock:
            if self._planning is None:
                said = self.settings
                place = PlanDependencies(
                    self._root,
                    self._git,
                    self._now,
                    self,
                    verify_commands=said.verify_commands,
                    objections=self._objections,
                    approval_needed=said.approvals_mode == "required",
                    person_needed=said.approvals_require_human,
                    evidence_needed=said.plan_evidence_required,
                    retries_max=said.plan_retries_max,
                    lease_hours=said.plan_lease_hours,
                    flush=said.flush,
                    scrub=lambda text: self._scrub(text).text,
                    commons=self._commons,
                )
                self._planning = PlanService(place)
            return self._planning

    @property
    def validation(self) -> Validating:
        """Whether content can be trusted: secrets, parsers, habits, and what it says of this workspace."""
        from context_engine.review.source_versions import Parsers
        from context_engine.review.validation_service import (  # 20 ms, for those who validate
            House,
            Validating,
            plan_reader,
        )

        with self._lock:
            if self._validating is None:
                house = House(
                    parsers=Parsers(self._languages, self._grammars),
                    workspace=self,
                    paths=self._file_paths,
                    find=lambda text, path: self.reviews.scrubber.find(text, path),
                    scrub=self._scrub,
                    read_plan=plan_reader(lambda: self.plans.paths),
                )
                self._validating = Validating(house)
            return self._validating

    # -- searching text --

    def scan(
        self,
        query: TextQuery,
        *,
        definitions: bool = False,
        progress: Callable[[Progress], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> Scan:
        """Which files hold matching lines and how many, exactly, as the files are now. Needs no index.

        Raises: InvalidArgument (pattern, globs), InvalidPath, FileNotFound, AccessDenied, SearchTimeout, Cancelled.
        """
        return self._scanner.scan(query, definitions=definitions, progress=progress, cancel=cancel)

    def grep(
        self,
        query: TextQuery,
        parts: Sequence[TextPart],
        *,
        context: int = 0,
        chars_max: int = 300,
        cancel: threading.Event | None = None,
    ) -> dict[RelPath, list[TextLine]]:
        """The matching lines of some files, with `context` lines on either side. Raises: as `scan`."""
        return self._scanner.lines(query, parts, context=context, chars_max=chars_max, cancel=cancel)

    def keyword_lines(
        self, query: TextQuery, parts: Sequence[TextPart], *, chars_max: int, cancel: threading.Event | None = None
    ) -> dict[RelPath, list[TextLine]]:
        """The lines of some files on which each keyword stands, a row for each of both. Raises: as `scan`."""
        return self._scanner.keyword_lines(query, parts, chars_max=chars_max, cancel=cancel)

    # -- the graph --

    def find_symbol(self, name: str, *, kind: str | None = None, path: str | None = None, limit: int = 20) -> Found:
        """Where a name is defined: exact, qualified or a glob. Raises: NotIndexed, InvalidPath."""
        graph = self._fresh_graph()
        under = "" if path in (None, "", ".") else str(self._root.rel(path))
        found = graph.definitions(name, kind=kind, under=under)
        near = () if found else tuple(graph.near_names(name))
        shown = tuple(self._definition(graph, defined) for defined in found[:limit])
        return Found(shown, len(found), near, self._live.describe_freshness())

    def outline(self, path: str) -> FileOutline:
        """One file's skeleton, as it is now. Raises: InvalidPath, FileNotFound, BinaryFile, TooLarge, AccessDenied."""
        rel = self._root.rel(path)
        source = file_reader.read(self._root, rel, bytes_max=RANGE_BYTES_MAX)
        language = self._languages.detect(rel, source.text[:200].encode())
        parsed = self._parses.parse(rel)
        lines = count_lines(source.text)
        if parsed is None or language is None:
            return FileOutline(rel, language.name if language else "text", lines, (), (), ())
        symbols = []
        depths: list[int] = []
        for number, symbol in enumerate(parsed.outline.symbols):
            depths.append(depths[symbol.parent] + 1 if symbol.parent >= 0 else 0)
            symbols.append((depths[-1], _definition(rel, language.name, symbol, parsed.qualified[number])))
        imports = tuple((each.target, each.line) for each in parsed.outline.imports)
        problems = tuple((each.line, each.message) for each in parsed.outline.problems)
        return FileOutline(rel, language.name, lines, tuple(symbols), imports, problems)

    def trace(self, target: str, direction: Direction = "callers", *, depth: int = 1, limit: int = 100) -> Trace:
        """Who uses or is used by a symbol, who imports or is imported by a file, with path:line evidence.

        Raises: SymbolNotFound (with near names), FileNotFound, NotIndexed.
        """
        graph = self._fresh_graph()
        tracer = GraphTraversal(graph, depth, limit)
        if direction in ("imports", "importers"):
            edges, notes = tracer.files(self._file_of(graph, target), direction)
        else:
            as_path = self._as_file(graph, target)
            if as_path and direction == "impact":
                edges, notes = tracer.files(as_path, "importers")
            else:
                defined = graph.definitions(target)
                if not defined:
                    raise _unknown_symbol(target, graph.near_names(target))
                edges, notes = tracer.symbols(defined, direction)
        return Trace(
            target, direction, tuple(edges[:limit]), len(edges) > limit, notes, self._live.describe_freshness()
        )

    def dependencies(self, path: str) -> tuple[RelPath, ...]:
        """Files of this workspace that a file imports, in order of its imports; without an index, too.

        Raises: InvalidPath, AccessDenied, FileNotFound.
        """
        rel = self._root.rel(path)
        imports = self._parses.imports(rel, self._file_paths())
        found = dict.fromkeys(file for _, _, meant in imports for file in meant if not is_sensitive(file))
        return tuple(self._root.rel(file, must_exist=False) for file in found)

    def importers(self, path: str) -> tuple[RelPath, ...]:
        """Files whose imports, as they were indexed, mean this file: quick, where `trace` is thorough. Raises: NotIndexed."""
        found = self._fresh_graph().importers_as_indexed(str(self._root.rel(path)))
        return tuple(self._root.rel(file, must_exist=False) for file in found if not is_sensitive(file))

    def files_named(self, name: str) -> tuple[RelPath, ...]:
        """Files of this workspace whose path ends with these components, sorted; without an index, too."""
        found = sorted(self._file_paths().by_suffix(name.strip("/"))) if name.strip("/") else []
        return tuple(self._root.rel(file, must_exist=False) for file in found if not is_sensitive(file))

    def _file_paths(self) -> PathIndex:
        """The files of the workspace: those of the index, or while there is no whole one what a walk finds."""
        if self._live.snapshot() is None or self._live.is_building:
            return PathIndex(entry.path for entry in look(self.root, [""]).entries)
        return self._fresh_graph().paths

    def _fresh_graph(self) -> SymbolGraph:
        self._live.refresh()
        searcher = self._current()
        if searcher is None:
            raise _no_index()
        with self._lock:
            if self._graph is None:
                self._graph = SymbolGraph(searcher.snapshot, self._parses)
            return self._graph

    def _file_of(self, graph: SymbolGraph, target: str) -> str:
        """A path as given, or the file that defines a symbol."""
        path = self._as_file(graph, target)
        if path:
            return path
        defined = graph.definitions(target)
        if not defined:
            raise _unknown_symbol(target, graph.near_names(target))
        return defined[0].path

    def _as_file(self, graph: SymbolGraph, target: str) -> str:
        try:
            rel = self._root.rel(target)
        except CallError:
            if "/" in target:
                raise
            return ""
        return str(rel) if rel in graph.paths else ""

    def _definition(self, graph: SymbolGraph, defined: SymbolDefinition) -> Definition:
        """A definition with signature and doc line, read from the file as it is now."""
        parsed = graph.parse(defined.path)
        path = self._root.rel(defined.path, must_exist=False)
        for number, symbol in enumerate(parsed.outline.symbols if parsed else ()):
            same = parsed and symbol.name == defined.name and parsed.qualified[number] == defined.qualified
            if same and abs(symbol.first - defined.span.first) < SHIFTED_LINES_MAX:
                return _definition(path, defined.language, symbol, defined.qualified)
        return Definition(defined.name, defined.qualified, defined.kind, path, defined.span, "", "", defined.language)

    def export_chunks(
        self,
        folder: Path,
        *,
        embedder: str = "static",
        progress: Callable[[Progress], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> ExportReport:
        """Write the index as the chunk files of seed 004, with vectors of `static` or `minilm`, or with `none`.

        What changed since it was indexed is left out.

        Raises: NotIndexed, Cancelled (nothing is written), InvalidPath (no folder), DiskFull, AccessFailed, and
        UnsupportedHost, EmbedderUnusable when the embedder is not here.
        """
        searcher = self._current()
        if searcher is None:
            raise _no_index()
        models_folder = (self.settings.cache_folder or user_cache_folder()) / "models"
        chosen = open_embedder(Choice(embedder, models_folder=models_folder))
        chunks = collect_chunks(searcher.view, self._source)
        try:
            return write_chunk_files(
                chunks, folder, stamp=self.indexed_at(), embedder=chosen, progress=progress, cancel=cancel
            )
        finally:
            if chosen is not None:
                chosen.close()

    # -- finding one's way --

    def landmarks(self) -> Landmarks:
        """Languages, folders, entry points and central files of the index. Raises: NotIndexed."""
        self._live.refresh()
        searcher = self._current()
        if searcher is None:
            raise _no_index()
        return landmarks(searcher.snapshot, ROLES, self._live.describe_freshness())

    def complete_path(self, typed: str, *, limit: int = 100, folders: bool = False) -> tuple[tuple[str, ...], int]:
        """Indexed files (and folders) that a half-typed path may become, best first, and how many; none without an index."""
        completer = self._completing()
        found, total = completer.paths(typed, limit, folders=folders) if completer else ([], 0)
        return tuple(found), total

    def complete_symbol(self, typed: str, *, limit: int = 100) -> tuple[tuple[str, ...], int]:
        """Defined names, or members after `Owner.`, that begin with what was typed, and how many; none without an index."""
        completer = self._completing()
        found, total = completer.symbols(typed, limit) if completer else ([], 0)
        return tuple(found), total

    def _completing(self) -> Completer | None:
        """The completer of the newest snapshot. It looks at no file: what is typed is completed at once."""
        searcher = self._current()
        if searcher is None:
            return None
        with self._lock:
            if self._completer is None or self._completer.snapshot is not searcher.snapshot:
                self._completer = Completer(searcher.snapshot)
            return self._completer

    # -- files --

    def read(self, path: str, *, first: int | None = None, last: int | None = None) -> FileText:
        """A file, or lines `first` to `last` of it (1-based, both included, clipped to the file), secrets masked.

        Raises: InvalidPath, AccessDenied, FileNotFound, BinaryFile, TooLarge, InvalidLineRange.
        """
        rel = self._root.rel(path)
        part = first is not None or last is not None
        source = file_reader.read(self._root, rel, bytes_max=RANGE_BYTES_MAX if part else READ_BYTES_MAX)
        lines = count_lines(source.text)
        span = _asked_lines(first, last, lines, rel)
        shown = self._texts.of(source.text.encode("utf-8", "replace"), rel)
        text = shown.lines(*span) if part else shown.text
        mark_searched(text)
        language = self._languages.detect(rel, source.text[:200].encode())
        return FileText(
            path=rel,
            text=text,
            language=language.name if language else "text",
            lines=lines,
            span=span,
            sha256=source.sha256.hex(),
            size_bytes=source.size,
            encoding=source.encoding,
            modified_at=_stamp(source.mtime_ns / 1e9),
        )

    def list_directory(
        self, path: str = ".", *, depth: int = 2, max_items: int = 200, include_hidden: bool = False
    ) -> tuple[TreeEntry, ...]:
        """What a folder holds, ignore rules applied. Raises: InvalidPath, FileNotFound, AccessDenied, AccessFailed."""
        rel = str(self._root.rel(path))
        seen = look(self.root, ["" if rel == "." else rel], bytes_max=LISTED_BYTES_MAX, levels=depth)
        if ("" if rel == "." else rel) not in seen.folders:
            raise InvalidPath(f"{path!r} is a file, not a folder", suggestion=f"read_file {path!r}")
        return file_tree.entries(seen, rel, depth=depth, max_items=max_items, include_hidden=include_hidden)

    def _source(self, path: str) -> Source | None:
        """A file for a hit, kept while it stays as it is; None when it is gone or no longer text."""
        known = self._sources.get(path)
        if known is not None and file_reader.stamp(f"{self.root}{os.sep}{path}") == (known.size, known.mtime_ns):
            return known
        loaded = file_reader.load_for_index(self._root.confined, path, bytes_max=RANGE_BYTES_MAX)
        if isinstance(loaded, Skipped):
            self._sources.pop(path, None)
            return None
        if len(self._sources) >= SOURCES_KEPT:
            self._sources.clear()
        known = Source(loaded.data, loaded.size, loaded.mtime_ns, path, self._texts)
        if loaded.size <= SOURCE_KEPT_BYTES_MAX:
            self._sources[path] = known
        return known

    def _bytes_once(self, path: str) -> bytes | None:
        """A file's text in UTF-8 as it is now, without a place among the kept ones."""
        loaded = file_reader.load_for_index(self._root.confined, path, bytes_max=RANGE_BYTES_MAX)
        return None if isinstance(loaded, Skipped) else loaded.data

    def _bytes(self, path: str) -> bytes | None:
        source = self._source(path)
        return source.data if source else None

    # -- changing files --

    def change(
        self, path: str, wants: Sequence[Want], *, expected_hash: str = "", labels_are_text: bool = False
    ) -> Change:
        """What becomes of a file by some edits of it, for `edit`. Nothing is read yet. Labels: see `edit.wanted`."""
        plan = partial(
            planned,
            path=path,
            wants=wants,
            languages=self._languages,
            grammars=self._grammars,
            labels_are_text=labels_are_text,
        )
        return edited(
            path,
            plan,
            expected_hash=expected_hash,
        )

    def rewrite(
        self, path: str, text: str, *, overwrite: bool = True, expected_hash: str = "", labels_are_text: bool = False
    ) -> Change:
        """A file gets this text, whether it is there or not, for `edit`. What is there keeps its encoding and line ends."""
        change = written(path, text, overwrite=overwrite, expected_hash=expected_hash)
        return whole(change, text, labels_are_text=labels_are_text)

    def patch(self, path: str, diff: str, *, expected_hash: str = "") -> Change:
        """What becomes of a file by a unified diff of it, for `edit`. Nothing is read yet."""
        return edited(
            path,
            lambda data: planned(
                data, path, [Want(each) for each in diff_hunks.edits(data, diff)], self._languages, self._grammars
            ),
            expected_hash=expected_hash,
        )

    def removal(self, path: str, *, expected_hash: str = "") -> Change:
        """A file goes, for `edit`."""
        return deleted(path, expected_hash=expected_hash)

    def move(self, path: str, new_path: str, change: Change | None = None) -> tuple[Change, Change]:
        """A file goes by another name, its content changed as `change` says, for `edit`. Raises: as `Editor.renaming`."""
        return self._editor.renaming(path, new_path, change.plan if change else None)

    def edit(self, changes: Sequence[Change], *, dry_run: bool = False, session: str = "") -> Receipt:
        """Change files, all or none; a dry run writes nothing. What is written is indexed at once and can be undone.

        `session` names who edits: what it was shown (`saw`) and has changed since is matched to the letter.
        Raises: as `Editor.apply`, all before anything is written; AccessDenied for our own files.
        """
        for change in changes:
            self._check_foreign(change.path)
        receipt = self._editor.apply(changes, dry_run=dry_run, session=session, ledger=self._ledger(session))
        for change in () if dry_run else changes:
            self._remembering.access.note(str(self._root.rel(change.path, must_exist=False)), "edit")
        return receipt

    def undo(self, undo_id: str = "", *, session: str = "") -> Receipt:
        """Take back an edit: this one, else the session's newest that stands. Raises: as `Editor.undo`."""
        return self._editor.undo(undo_id, session=session, ledger=self._ledger(session))

    def redo(self, undo_id: str = "", *, session: str = "") -> Receipt:
        """Do an edit again: this one, else what was undone last. Raises: as `Editor.redo`."""
        return self._editor.redo(undo_id, session=session, ledger=self._ledger(session))

    def edits(self, limit: int = 20) -> tuple[Past, ...]:
        """What can be undone, or done again; newest first."""
        return self._editor.history(limit)

    def saw(self, path: str, sha256: str, *, session: str, kind: Kind = "read") -> None:
        """A session was shown a file, or a fragment of it, which had this hash (hex)."""
        self._remembering.access.note(path, kind)
        if ledger := self._ledger(session):
            ledger.saw(path, sha256)

    def syntax(self, path: str, before: bytes | None, after: bytes | None) -> str:
        """Whether a file still parses, in a few words; errors that were there before do not count."""
        return broken(before, after, path, self._languages, self._grammars).said if after is not None else ""

    def renaming(self, name: str, new_name: str, *, path: str = "", cancel: threading.Event | None = None) -> Renaming:
        """What a new name for a definition changes, as the files are now; `edit` writes its `changes`.

        `path` is the file or folder of the definition. Raises: SymbolNotFound, MultipleMatches (with the places),
        InvalidArgument (the new name cannot be), TooLarge, InvalidPath, FileNotFound, Cancelled.
        """
        under = "" if path in ("", ".") else str(self._root.rel(path))
        query = TextQuery((bare_name(name),), case_sensitive=True)
        holding = [file.path for file in self.scan(query, cancel=cancel).files]
        if len(holding) > RENAMED_FILES_MAX:
            raise TooLarge(
                f"{len(holding):,} files hold {bare_name(name)!r}, over the {RENAMED_FILES_MAX:,} that are looked through",
                suggestion="A name so common is renamed by hand: search_files finds its places.",
            )
        renamer = Renamer(self._languages, self._grammars, self._file_paths(), self._raw)
        return renamer.renaming(name, new_name, holding, under=under)

    def _raw(self, path: str) -> bytes | None:
        """The bytes of a file as they are now; None when it cannot be read."""
        try:
            return file_reader.contents(self._root, self._root.rel(path), bytes_max=READ_BYTES_MAX)[0]
        except ContextEngineError:
            return None

    def _ledger(self, session: str) -> Ledger | None:
        """What a session has read; nobody keeps it for callers without one."""
        if not session:
            return None
        with self._lock:
            ledger = self._ledgers.setdefault(session, Ledger())
            self._ledgers.move_to_end(session)
            if len(self._ledgers) > SESSIONS_MAX:
                self._ledgers.popitem(last=False)
        return ledger

    def _check_foreign(self, path: str) -> None:
        """Refuse what belongs to Context Engine itself: an agent could lift its own limits there."""
        rel = self._root.rel(path, must_exist=False)
        if rel.split("/")[0].casefold() == FOLDER:
            raise AccessDenied(
                f"{rel} belongs to Context Engine itself",
                suggestion="Ask the user to change it.",
                details={"path": rel},
            )

    def _wrote(self, paths: frozenset[str]) -> None:
        """Files were edited: take them in at once, where there is an index."""
        self._lister.note(paths)
        if self._live.is_building or self._live.snapshot() is not None:
            self._live.mark_stale(paths)

    # -- the rest --

    def _skipped(self) -> tuple[dict[str, int], tuple[Skipped, ...]]:
        """Why files are not indexed: what the walk left out, and what content kept out."""
        counts = Counter(json.loads(self._store.metadata("skipped_counts") or "{}"))
        examples = [Skipped(*row) for row in json.loads(self._store.metadata("skipped_examples") or "[]")]
        for path, reason, detail, *_ in self._store.skipped_files():
            counts[reason] += 1
            examples.append(Skipped(path, reason, detail))
        telling = sorted(examples, key=lambda skipped: (skipped.reason == "ignored", skipped.path))
        return dict(counts.most_common()), tuple(telling[:20])

    def _watcher_state(self) -> str:
        if self._watcher is None:
            return "off"
        return self._watcher.problem or "running"

    def close(self) -> None:
        """Stop the threads and processes and let go of files."""
        if self._watcher is not None:
            self._watcher.stop()
        if self._reviewing is not None:
            self._reviewing.close()
        self._embeddings.close()
        self.ladder.close()
        self._remembering.close()
        self._live.close()
        self._pool.close()
        self._editor.close()
        if self._commons is not None:
            self._commons.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _chosen(settings: Settings) -> Chosen:
    return Chosen(
        provider=settings.embedder,
        model=settings.embedding_model,
        address=settings.embedding_address,
        key_variable=settings.embedding_key_variable,
        dimensions=settings.embedding_dimensions,
        query_prefix=settings.embedding_query_prefix,
        passage_prefix=settings.embedding_passage_prefix,
        bytes_max=settings.vectors_bytes_max,
    )


def _ladder(settings: Settings) -> Ladder:
    """The rungs that the user's environment gives."""
    key = os.environ.get(settings.assist_key_variable, "") if settings.assist_key_variable else ""
    return ladder(settings.assist_address, settings.assist_model, key, wait_s=settings.assist_wait_s)


def _check_outside(root: Path, settings: Settings) -> None:
    """Refuse folders of the user inside a workspace: what is read from there as ours could be the repository's.

    Raises: InvalidArgument.
    """
    folders = {
        "cache_folder": settings.cache_folder or user_cache_folder(),
        "data_folder": settings.data_folder or user_data_folder(),
    }
    for name, folder in folders.items():
        if Path(workspace_roots.real(folder)).is_relative_to(root):
            raise InvalidArgument(
                f"{name} is {folder}, inside the workspace: a repository could bring an index or memories of its own along",
                suggestion=f"Set CTX_{name.upper()} to a folder outside of {root}.",
                details={"setting": name, "path": str(folder)},
            )


def _workers(asked: int) -> int:
    return asked if asked >= 0 else min(WORKERS_MAX, (os.cpu_count() or 1) - 1)


def _language_counts(searcher: Searcher) -> dict[str, int]:
    snapshot = searcher.snapshot
    codes = snapshot.file_column("language")[snapshot.file_alive].tolist()
    return {snapshot.languages[code]: count for code, count in Counter(codes).most_common()}


def _definition(path: RelPath, language: str, symbol, qualified: str) -> Definition:
    doc = symbol.doc.strip().split("\n", 1)[0]
    span = LineSpan(symbol.first, symbol.last)
    return Definition(symbol.name, qualified, symbol.kind, path, span, symbol.signature, doc, language)


def _asked_lines(first: int | None, last: int | None, lines: int, path: str) -> LineSpan:
    start, stop = first or 1, last if last is not None else max(lines, 1)
    if (first is not None and first < 1) or stop < start or (start > lines and lines > 0):
        raise InvalidLineRange(
            f"lines {start}-{stop} are not in {path}, which has {lines}",
            suggestion=f"ask for lines between 1 and {lines}",
            details={"path": path, "lines": lines},
        )
    return LineSpan(start, min(stop, max(lines, 1)))


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _no_index() -> NotIndexed:
    return NotIndexed("this workspace has no index yet", suggestion="call index_workspace (at a terminal: ctx index)")


def _unknown_symbol(target: str, near: Sequence[str]) -> SymbolNotFound:
    return SymbolNotFound(
        f"nothing named {target!r} is defined in this workspace",
        suggestion=f"did you mean {' or '.join(near)}?" if near else "search for it with codebase_retrieval",
        details={"near": list(near)},
    )


def _versions() -> dict[str, str]:
    libraries = {name: version(name) for name in ("numpy", "tree-sitter", "semble-grammars", "apsw")}
    return {"ctx": __version__, "schema": str(SCHEMA_VERSION), "python": platform.python_version(), **libraries}
