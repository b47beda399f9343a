"""An `Engine` opens the services of one workspace, the only place that chooses implementations, and closes them.

with Engine.open("path/to/repository") as engine:
    engine.index.update()
    for hit in engine.search.find(Query("where are passwords hashed")).hits:
        print(hit.chunk.path, hit.chunk.span, hit.score)
"""

from __future__ import annotations

import os
import threading
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from context_engine import edit, engine_parts, index, memory, plans, references, repo, review, search
from context_engine.context import Workspace
from context_engine.index import EmbeddedStore, IndexService, load_languages
from context_engine.languages import Grammars
from context_engine.model import Filter, Hit, Progress, Query, Status
from context_engine.repo import Git, Root, WorkspaceFiles, check_workspace_root, is_clone
from context_engine.secrets import RedactedDocuments, Redactor
from context_engine.settings import Settings
from context_engine.storage import (
    STATE_FOLDER,
    ConfinedFolder,
    StateFolder,
    user_cache_folder,
    user_config_folder,
    user_data_folder,
)
from context_engine.team_parts import load_team_part
from context_engine.timestamps import make_clock

if TYPE_CHECKING:
    from context_engine.context import SecondPassRunner
    from context_engine.edit import EditService
    from context_engine.memory import KnowledgeService
    from context_engine.plans import PlanService
    from context_engine.references import SymbolService
    from context_engine.repo import FileLister, Watcher
    from context_engine.review import ReviewService, ValidationService
    from context_engine.search import EmbeddingService, FileUsage, GramIndex, SearchService, TextScanner
    from context_engine.storage import SharedRecords

Service = TypeVar("Service")
JOURNAL = "journal.db"  # where there is none, no edit can be half written
__all__ = ["Engine", "Filter", "Hit", "Progress", "Query", "Settings", "Status"]


class LazyService(cached_property[Service]):
    """A service that is opened at its first use, by one thread: its packages take long to import."""

    def __get__(self, engine: Any, owner: type | None = None) -> Service:  # ty: ignore[incompatible-method-override]
        """Return the service. Only the first use comes here."""
        with engine.lock:
            return super().__get__(engine, owner)


class Engine(Workspace):
    """The services of one workspace.

    Thread-safe; two Engines live in one process; close it or use it as a context manager.

    `index` builds the index, `search` ranks, `text_search` finds exact text, `symbols` knows definitions and imports,
    `files` reads, `edits` writes, `memory` stores knowledge; `plans`, `reviews` and `validation` are those services.
    `embeddings` are the vectors of a provider, `redactor` removes secrets from texts.
    """

    def __init__(self, root: Path, settings: Settings) -> None:
        """Use `Engine.open`."""
        self.root = root
        self.settings = settings
        self.now = make_clock(os.environ.get("CTX_FAKE_NOW", ""))
        self.git = Git(root)
        self._root = Root(root)
        self._cache = settings.cache_folder or user_cache_folder()
        self.cache_folder = settings.workspace_cache(root)
        self._user_folder = settings.data_folder or user_data_folder()
        self.is_clone = is_clone(root, self._cache)
        """Whether this is a clone in our cache, which follows its remote and is never edited."""
        self.lock = threading.RLock()  # of `LazyService`
        self._watcher: Watcher | None = None
        self._memory_timer: threading.Timer | None = None

        self.languages = load_languages(root)
        self.grammars = Grammars(self._cache / "grammars")
        self._texts = RedactedDocuments()
        self.files = WorkspaceFiles(self._root, self.languages, self._texts)
        self.redactor = Redactor(root / STATE_FOLDER, self.files.read_once)
        self._encoder = engine_parts.open_encoder(settings)
        self.index = self._create_index()
        self._shared_records: SharedRecords | None = None
        if settings.store_records and not self.is_clone:
            self._shared_records = load_team_part("records")(root, settings, self.cache_folder)
        self.index.live.subscribe(self._wake_services)
        self.mended: tuple[str, ...] = ()
        """A sentence for each half-written edit of a killed process that was repaired at the start."""

    @classmethod
    def open(cls, root: str | Path, *, settings: Settings | None = None) -> Self:
        """Open the workspace at `root`. Cheap: only names in our own folders are read until the first call.

        Raises: UnsuitableRoot, FileNotFound, InvalidPath, InvalidArgument (settings).
        """
        chosen = check_workspace_root(root)
        settings = settings or Settings.load(chosen)
        settings.check_folders(chosen)
        engine = cls(chosen, settings)
        if JOURNAL in StateFolder(chosen / STATE_FOLDER).names():
            engine.mended = engine.edits.recover()
        engine._sweep()
        return engine

    def _sweep(self) -> None:
        """Delete what killed writers left in our folders; `recover` does so in the user's, where the journal has it."""
        ConfinedFolder(self.root).folder(STATE_FOLDER).sweep()
        caches = (self.cache_folder, *(self._cache / name for name in ("grammars", "histories", "scratch")))
        for folder in (*caches, self._user_folder, user_config_folder()):
            ConfinedFolder(folder).sweep()

    # -- services that are opened when they are asked for; the names of a package import its modules --

    @LazyService
    def symbols(self) -> SymbolService:
        """Definitions, imports, callers and uses."""
        parses = index.ParsedFileCache(self.languages, self.grammars, self.files.read_kept, self._texts)
        edges = references.ExternalEdges(self._root, self.settings.scip_index)
        return references.SymbolService(self._root, self.index.live, parses, edges)

    @LazyService
    def usage(self) -> FileUsage:
        """Which files this user works with."""
        file = self.cache_folder / "access.db"
        return search.FileUsage(file, clock=self.now, enabled=self.settings.access_scoring)

    @LazyService
    def embeddings(self) -> EmbeddingService:
        """The vectors of a provider."""
        return search.EmbeddingService(
            engine_parts.read_embedder_config(self.settings, os.environ),
            self._encoder,
            live=self.index.live,
            files=self.files,
            store_file=self._cache / "vectors.db",
            bytes_max=self.settings.vectors_bytes_max,
        )

    @LazyService
    def _lister(self) -> FileLister:
        """The files that are searched and edited."""
        stale_s = self.settings.staleness_ms / 1_000
        return repo.FileLister(self.root, stale_s=stale_s, excludes_file=self.git.excludes_file)

    @LazyService
    def _grams(self) -> GramIndex:
        return search.GramIndex(self._lister, self.cache_folder / "grams")

    @LazyService
    def text_search(self) -> TextScanner:
        """Exact text and regular expressions."""
        find_engine = partial(repo.find_text_engine, self.root, self._lister.encoding_of)
        return search.TextScanner(self._root, self._lister, find_engine, self._texts, self._grams)

    @LazyService
    def search(self) -> SearchService:
        """Ranked answers."""
        near = self.embeddings.near
        return search.SearchService(self.index, self.files, self.usage, self._encoder, near, self.text_search)

    @LazyService
    def second_pass(self) -> SecondPassRunner:
        """Refines what a tool found out: a model that the user named, or the calling agent."""
        return engine_parts.open_second_pass(self.settings)

    @LazyService
    def edits(self) -> EditService:
        """Changes of files, all or none, and their undo."""
        return edit.EditService(
            self.files,
            self.languages,
            self.grammars,
            live=self.index.live,
            lister=self._lister,
            scanner=self.text_search,
            symbols=self.symbols,
            access=self.usage,
            flush=self.settings.flush,
        )

    @LazyService
    def memory(self) -> KnowledgeService:
        """Memories, and what is derived from the repository and its history."""
        return memory.KnowledgeService(
            self._root,
            self.git,
            index=self.index,
            files=self.files,
            symbols=self.symbols,
            search=self.search,
            access=self.usage,
            redactor=self.redactor,
            encoder=self._encoder,
            cache=self._cache,
            workspace_cache=self.cache_folder,
            user_folder=self._user_folder,
            now=self.now,
            shared_records=self._shared_records,
        )

    def start_background_work(self, after_s: float) -> None:
        """Let embeddings and memories catch up in the background, `after_s` seconds from now."""
        self.embeddings.start(after_s)
        timer = threading.Timer(after_s, lambda: self.memory.start())
        timer.daemon = True
        timer.start()
        self._memory_timer = timer

    def _list_open(self, *names: str) -> list[Any]:
        """Return those of the services that were asked for."""
        return [self.__dict__[name] for name in names if name in self.__dict__]

    def _wake_services(self) -> None:
        for service in self._list_open("embeddings", "memory"):  # any other one has nothing to bring up to date
            service.wake()

    @LazyService
    def plans(self) -> PlanService:
        """Plans of this workspace, with their progress and approvals."""
        settings = self.settings
        return plans.PlanService(
            self._root,
            self.git,
            self.now,
            workspace=self,
            edits=self.edits,
            knowledge=self.memory,
            verify_commands=settings.verify_commands,
            review=lambda diff: self.reviews.find_objections(diff),
            approval_needed=settings.approvals_mode == "required",
            person_needed=settings.approvals_require_human,
            evidence_needed=settings.plan_evidence_required,
            retries_max=settings.plan_retries_max,
            flush=settings.flush,
            redact_text=lambda text: self.redactor.redact(text).text,
            shared_records=self._shared_records,
        )

    @LazyService
    def reviews(self) -> ReviewService:
        """Reviews of changes: checks, analyzers, sessions."""
        workspace = review.ReviewWorkspace(
            root=self._root,
            git=self.git,
            languages=self.languages,
            grammars=self.grammars,
            files=self.files,
            knowledge=self.memory,
            redactor=self.redactor,
            scratch=self._cache / "scratch",
            programs=tuple(name.strip() for name in self.settings.review_programs.split(",")),
        )
        return review.ReviewService(workspace, now=self.now, shared_records=self._shared_records)

    @LazyService
    def validation(self) -> ValidationService:
        """Checks of content: secrets, syntax, style, and claims about this workspace."""
        return review.ValidationService(self.languages, self.grammars, self.redactor, self, self._root)

    # -- watching, status and closing --

    def watch(self) -> None:
        """Follow edits until `close`; where that is impossible, the files are scanned before answers."""
        if self._watcher is None:
            self._watcher = repo.Watcher(self.root, self._note_changes, quiet_ms=self.settings.quiet_ms)
            self._watcher.start()
            self.index.live.follow(self._watcher)
            self._lister.follow(self._watcher)

    def _note_changes(self, paths: frozenset[str]) -> None:
        self._lister.note(paths)
        self.index.live.mark_stale(paths)

    def clear_index(self) -> int:
        """Delete the index (never memories, plans or settings) and return the bytes freed. Raises: StorageBusy."""
        self.search.forget()
        self.symbols.forget()
        self.memory.clear()
        self._grams.clear()
        return self.index.store.clear()

    def status(self) -> Status:
        """Return what is indexed, how fresh it is and where it is stored. Looks at the workspace for edits."""
        watcher = (self._watcher.problem or "running") if self._watcher else "off"
        return engine_parts.read_status(
            self.index,
            self.search,
            self.embeddings,
            self.git,
            root=self.root,
            cache_folder=self.cache_folder,
            watcher=watcher,
            records_problem=self._shared_records.problem if self._shared_records else "",
        )

    def notes(self) -> list[tuple[str, str]]:
        """Return what is not used of the settings and languages of the repository and the user, and next steps."""
        return [*self.settings.notes(), *self.languages.unused]

    def close(self) -> None:
        """Stop the threads and processes and close the files."""
        if self._watcher is not None:
            self._watcher.stop()
        for service in self._list_open("reviews", "_grams", "embeddings", "second_pass"):
            service.close()
        if self._memory_timer is not None:
            self._memory_timer.cancel()
            self._memory_timer.join()
        for service in self._list_open("memory", "usage", "symbols", "index", "edits", "_shared_records"):
            if service is not None:
                service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- creating the services --

    def _create_index(self) -> IndexService:
        settings = self.settings
        if settings.store_url in engine_parts.LOCAL_STORES:
            store = EmbeddedStore(self.cache_folder)
        else:
            store = load_team_part("index_store")(self.root, settings, self.cache_folder, self.files.load)
        return IndexService(
            self._root,
            self.cache_folder,
            self.languages,
            self.grammars,
            self._encoder,
            store=store,
            git=self.git,
            workers=settings.workers,
            bytes_max=settings.index_bytes_max,
            sweep_rest_s=settings.staleness_ms / 1_000,
        )
