"""The index of one workspace: it is built, kept up to date and checked.

index.update()
index.live.snapshot()
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from context_engine.errors import ContextEngineError
from context_engine.index.build import IndexBuilder
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.encoder import StaticEncoder
from context_engine.index.index_seeding import seed
from context_engine.index.live_index import LiveIndex
from context_engine.index.path_explanation import PathExplainer
from context_engine.index.worker import WorkerPool
from context_engine.languages import OWN_FOLDER, Grammars, Languages
from context_engine.model import IndexReport, Progress
from context_engine.repo import Git, JointService, Root
from context_engine.storage import workspace_id
from context_engine.timestamps import format_timestamp

WORKERS_MAX = 3
"""More processes than this wait for each other's disk and memory more than they gain."""


class IndexService(JointService):
    """Owns the store of an index, the processes that fill it, and the live index that answers from it. Thread-safe."""

    STORE_STEP = "Check CTX_STORE_URL (host, port, user, password) and that the database runs, or leave it empty."
    """The next step about `store_problem`."""

    def __init__(
        self,
        root: Root,
        cache_folder: Path,
        languages: Languages,
        grammars: Grammars,
        encoder: StaticEncoder | None,
        *,
        store: EmbeddedStore,
        git: Git,
        workers: int,
        bytes_max: int,
        sweep_rest_s: float,
    ) -> None:
        """`cache_folder` is that of this workspace. The store is closed with this. Nothing is read or built yet.

        `workers` are processes, negative: as many as fit the machine; `sweep_rest_s` is the pause between two sweeps.
        """
        self._root = root
        self._cache_folder = cache_folder
        self._languages = languages
        self._grammars = grammars
        self._git = git
        self._bytes_max = bytes_max
        self.store = store
        self.pool = WorkerPool(_worker_count(workers), grammars_folder=str(grammars.folder), root=str(root.path))
        self.builder = IndexBuilder(
            root.path,
            self.store,
            languages,
            grammars,
            self.pool,
            bytes_max=bytes_max,
            encoder=encoder,
            seed=self._start_from_copy,
        )
        self.live = LiveIndex(self.store, self.builder, rest_s=sweep_rest_s)

    # -- building --

    def update(
        self,
        *,
        path: str | None = None,
        force: bool = False,
        progress: Callable[[Progress], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> IndexReport:
        """Bring the index up to date; `path` limits it to one folder or file; `force` rebuilds it next to the old one.

        Raises: StorageBusy, DiskFull, StorageCorrupt, Cancelled, InvalidPath, FileNotFound.
        """
        under = str(self._root.rel(path or "."))
        return self.live.run(under="" if under == "." else under, force=force, progress=progress, cancel=cancel)

    def update_in_background(self, *, force: bool = False) -> bool:
        """Start `update` in a thread; False when a run is in progress. `Engine.status` shows its outcome."""
        return self.live.run_in_background(force=force)

    # -- its state --

    def is_available(self) -> bool:
        """Return whether there is an index to answer from, complete or not; False when the store cannot be reached."""
        try:
            return self.live.snapshot() is not None
        except ContextEngineError:
            return False  # `store_problem` and the status say why

    def is_complete(self) -> bool:
        """Return whether every file was indexed once; False during a first run, and when that was stopped."""
        return self.is_available() and bool(self.store.metadata("walked_at"))

    @property
    def store_problem(self) -> str:
        """Why the shared store could not be reached the last time; empty when it could, and on this machine."""
        return self.store.problem

    @property
    def store_warning(self) -> str:
        """`store_problem` with what follows from it and the next step, in words for any surface; empty like it."""
        if not self.store_problem:
            return ""
        return f"{self.store_problem}; answers come from the index of this machine. {self.STORE_STEP}"

    def indexed_at(self) -> str:
        """Return when the index was last brought up to date as a whole, UTC ISO-8601; empty when never.

        Of several, when that was longest ago.
        """
        if self.joined:
            return min(index.indexed_at() for index in self.joined.values())
        walked_at = self.store.metadata("walked_at")
        return format_timestamp(walked_at) if walked_at else ""

    def path_explainer(self) -> PathExplainer:
        """Return what explains why paths are in the index or not."""
        return PathExplainer(
            self._root,
            self.live,
            self.store,
            self._languages,
            bytes_max=self._bytes_max,
            excludes_file=self._git.excludes_file(),
        )

    def broken_parsers(self) -> dict[str, str]:
        """Return each grammar that cannot be loaded, and why. Unpacks those that were not needed yet."""
        names = sorted({language.grammar for language in self._languages.listed if language.grammar})
        self._grammars.prepare(names)
        return {name: why for name in names if (why := self._grammars.problem(name))}

    # -- closing --

    def close(self) -> None:
        """Stop the threads and processes that build, and close the store."""
        self.live.close()
        self.pool.close()
        self.store.close()

    def _start_from_copy(self, identity: str) -> None:
        """Begin the index with that of the team, else of another work tree of this repository, where there is one."""
        if self.store.start_from_team(identity):
            return
        trees = self._git.other_work_trees(unless=OWN_FOLDER)
        indexes = [self._cache_folder.parent / workspace_id(Path(tree)) for tree in trees]
        seed(self.store, [index for index in indexes if index != self._cache_folder], identity)


def _worker_count(configured: int) -> int:
    if configured >= 0:
        return configured
    return min(WORKERS_MAX, (os.cpu_count() or 1) - 1)
