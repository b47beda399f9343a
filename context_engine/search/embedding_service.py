"""The vectors of one Engine: the static ones in its index, and those of a provider that the user chose.

Vectors of a provider are made by `ctx index --embed` or by one thread, and stored by the hash of their text. Until
nearly all chunks have one, and while the provider fails, an answer does without and says so; it never waits for them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from context_engine.embedding import (
    Embedder,
    EmbedderConfig,
    Keys,
    VectorRows,
    VectorStore,
    compute_fingerprint,
    hash_texts,
    open_embedder,
    raise_if_cancelled,
)
from context_engine.errors import ContextEngineError, EmbedderUnusable
from context_engine.index import (
    TEXT_RECIPE,
    ChunkLocation,
    LiveIndex,
    Snapshot,
    StaticEncoder,
    build_chunk_texts,
    lower_priority,
    no_index,
)
from context_engine.model import EmbeddingStatus, Progress
from context_engine.repo import WorkspaceFiles
from context_engine.search.rankers import Floats, Mask, RankingView
from context_engine.search.semantic_scores import Ints, SemanticSignals, compute_cosines, fold_by_file

NO_PROVIDER = frozenset({"none", "static"})
WITH_NEXT_RUN = "there with the next full index run"
GROUP = 32
"""Texts that are embedded and stored together: a second of a slow machine, one request to an endpoint."""
NEARLY_ALL = 0.97
"""Share of vectors from which on they are used. At nine in ten the ranking is no better than without."""
QUERIES_KEPT = 64
RETRY_S = 60.0
"""Wait of the background after an error."""
CLOSE_WAIT_S = 1.0


class EmbeddingService:
    """The vectors of one Engine. Thread-safe; nothing is opened before it is needed."""

    def __init__(
        self,
        config: EmbedderConfig,
        encoder: StaticEncoder | None,
        *,
        live: LiveIndex,
        files: WorkspaceFiles,
        store_file: Path,
        bytes_max: int,
    ) -> None:
        """Open nothing yet.

        `encoder` makes the static vectors of the index; None if the user wants words alone. `store_file` has the
        vectors of all workspaces, in at most `bytes_max`.
        """
        self._config, self._encoder, self._live, self._files = config, encoder, live, files
        self._store_file, self._bytes_max = store_file, bytes_max
        self._lock = threading.Lock()
        self._provider: _Provider | None = None
        self._problem: ContextEngineError | None = None
        self._cancel, self._woken = threading.Event(), threading.Event()
        self._begin: threading.Timer | None = None
        self._thread: threading.Thread | None = None

    @property
    def has_provider(self) -> bool:
        """Whether the user chose a provider in addition to the static table."""
        return self._config.provider not in NO_PROVIDER

    # -- answers --

    def near(self, view: RankingView, text: str, allowed: Mask | None) -> tuple[SemanticSignals | None, str]:
        """Return the similarities of all chunks and files to a question, or why there are none."""
        if not self.has_provider:
            return None, ""
        try:
            if self._problem is not None:
                raise self._problem
            provider = self._open()
            vectors = provider.vectors_of(view.snapshot)
            missing = f"not every chunk has a vector of {provider.embedder.name} yet: ctx index --embed makes all"
            if vectors.share >= NEARLY_ALL:
                return _compare(view, vectors, provider.embed_query(text), allowed), missing * (vectors.share < 1)
        except ContextEngineError as error:
            if self._thread is not None:  # it tries again, and no other answer waits meanwhile
                self._problem = error
                self.wake()
            return None, f"{self._config.provider} took no part: {error.message}"
        self.wake()
        return None, f"{missing}, which take no part until then"

    # -- making vectors --

    def start(self, after_s: float = 0.0) -> None:
        """Prepare the first answer; let the background make what is missing from `after_s` seconds on."""
        if self._encoder is not None:
            threading.Thread(target=self._encoder.open, name="ctx-static", daemon=True).start()
        if self.has_provider and self._begin is None:
            self._begin = threading.Timer(after_s, self._start_thread)
            self._begin.daemon = True
            self._begin.start()

    def wake(self) -> None:
        """Look for missing vectors, as after an index run."""
        self._woken.set()

    def embed_all(
        self, *, progress: Callable[[Progress], None] | None = None, cancel: threading.Event | None = None
    ) -> int:
        """Make all missing vectors now; return how many chunks have theirs. Chunks that were edited since have none.

        Raises: NotIndexed, EmbedderUnusable (no provider is chosen, or it cannot be used), EmbedderFailed, Cancelled
        (what was made is kept), StorageBusy, DiskFull.
        """
        snapshot = self._live.snapshot()
        if snapshot is None:
            raise no_index()
        if not self.has_provider:
            raise EmbedderUnusable(
                "no provider of vectors is chosen",
                suggestion="Set CTX_EMBEDDER to one of those in docs/guides/embeddings.md; static vectors need none.",
            )
        self._fill(snapshot, progress, cancel or threading.Event())
        return len(self._open().vectors_of(snapshot).numbers)

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._work, name="ctx-embedding", daemon=True)
        self._woken.set()
        self._thread.start()

    def _work(self) -> None:
        """Make what the newest snapshot lacks, whenever it is woken."""
        lower_priority(threading.get_native_id())
        while not self._cancel.is_set():
            self._woken.wait()
            self._woken.clear()
            snapshot = self._live.snapshot()
            if snapshot is None or self._live.is_building:
                continue  # the end of an index run wakes it again
            try:
                self._fill(snapshot, None, self._cancel)
            except Exception as error:  # noqa: BLE001 - a thread has no caller; the status shows it
                unknown = EmbedderUnusable(repr(error), suggestion="ctx doctor checks every part.")
                self._problem = error if isinstance(error, ContextEngineError) else unknown
                self._cancel.wait(RETRY_S)

    def _fill(self, snapshot: Snapshot, progress: Callable[[Progress], None] | None, cancel: threading.Event) -> None:
        provider = self._open()
        embed = partial(provider.embedder.embed, cancel=cancel)
        if self._problem is not None:
            embed(["is it there again"], "query")
        keys = snapshot.chunk_column("key")
        with provider.store.sole_filler(cancel):
            missing = provider.store.missing(keys) & snapshot.chunk_alive
            done, total = snapshot.living_chunks - int(missing.sum()), snapshot.living_chunks
            for numbers, texts in self._missing_texts(snapshot, missing):
                raise_if_cancelled(cancel)
                is_same = hash_texts(texts) == keys[numbers]  # a file that was edited since has other texts
                same = [text for text, keep in zip(texts, is_same.tolist(), strict=True) if keep]
                if same:
                    provider.store.put(keys[numbers][is_same], embed(same, "passage"))
                done += len(same)
                if progress is not None:
                    progress(Progress("embedding", done, total))
        provider.forget()
        self._problem = None

    def _missing_texts(self, snapshot: Snapshot, missing: Mask) -> Iterator[tuple[Ints, list[str]]]:
        """Yield the numbers of some chunks without a vector, and their texts as the files are now."""
        numbers: list[int] = []
        texts: list[str] = []
        for file in np.unique(snapshot.chunk_file[missing]).tolist():
            path = snapshot.paths[file]
            data = self._files.read_once(path)
            if data is None:
                continue
            start, stop = snapshot.chunk_starts[file : file + 2]
            own = start + np.flatnonzero(missing[start:stop])
            columns = [snapshot.chunk_column(name)[own].tolist() for name in ("start", "stop", "symbol")]
            locations = [ChunkLocation(*row) for row in zip(*columns, strict=True)]
            numbers += own.tolist()
            texts += [text.text() for text in build_chunk_texts(path, data, snapshot.outline(file), locations)]
            while len(texts) >= GROUP:
                yield np.array(numbers[:GROUP], np.intp), texts[:GROUP]
                del numbers[:GROUP], texts[:GROUP]
        if texts:
            yield np.array(numbers, np.intp), texts

    # -- the rest --

    def status(self, snapshot: Snapshot | None) -> EmbeddingStatus:
        """Return what exists and what is missing, for a status."""
        static = "off"
        if self._encoder is not None:
            static = self._encoder.problem or ("ready" if snapshot and snapshot.static() else WITH_NEXT_RUN)
        if not self.has_provider:
            return EmbeddingStatus(static, "", "", "", (0, 0))
        name, counts, problem = self._config.provider, (0, 0), self._problem
        try:
            provider = self._open()
            name = provider.embedder.name
            if snapshot is not None:
                missing = provider.store.missing(snapshot.chunk_column("key")) & snapshot.chunk_alive
                counts = (snapshot.living_chunks - int(missing.sum()), snapshot.living_chunks)
        except ContextEngineError as error:
            problem = error
        if problem is not None:
            return EmbeddingStatus(static, name, f"failing: {problem.message}", problem.suggestion, counts)
        if counts[0] >= NEARLY_ALL * counts[1]:
            return EmbeddingStatus(static, name, "ready", "", counts)
        return EmbeddingStatus(static, name, "incomplete", "ctx index --embed makes the missing vectors.", counts)

    def close(self) -> None:
        """Stop, and free memory and files; what was made is stored."""
        self._cancel.set()
        self._woken.set()
        if self._begin is not None:
            self._begin.cancel()
            self._begin.join()
        if self._thread is not None:
            self._thread.join(CLOSE_WAIT_S)
        with self._lock:
            if self._provider is not None:
                self._provider.close()
                self._provider = None

    def _open(self) -> _Provider:
        with self._lock:
            if self._provider is None:
                self._provider = _Provider(open_embedder(self._config), self._store_file, self._bytes_max)
            return self._provider


class SnapshotVectors(NamedTuple):
    """The vectors of a snapshot: chunk `numbers[i]` has `rows[places[i]]`; `share` of the living chunks have one."""

    numbers: Ints
    places: Ints
    rows: VectorRows
    share: float


class _Provider:
    """One embedder and its stored vectors; those of the newest snapshot, and of the last questions, are in memory."""

    def __init__(self, embedder: Embedder, store_file: Path, bytes_max: int) -> None:
        space = compute_fingerprint(embedder.fingerprint, TEXT_RECIPE)
        self.embedder = embedder
        self.store = VectorStore(store_file, space, bytes_max=bytes_max)
        self._lock = threading.Lock()
        self._keys, self._rows = hash_texts([]), VectorRows(np.zeros((0, 0), np.int8), np.zeros(0, np.float32))
        self._known: tuple[weakref.ref[Snapshot], SnapshotVectors] | None = None  # a snapshot keeps its files open
        self._queries: dict[str, Floats] = {}

    def vectors_of(self, snapshot: Snapshot) -> SnapshotVectors:
        """Return the vectors of a snapshot. Those that are in memory already are not read again."""
        with self._lock:
            if self._known is None or self._known[0]() is not snapshot:
                alive = np.flatnonzero(snapshot.chunk_alive)
                keys = snapshot.chunk_column("key")[alive]
                self._read(np.unique(keys))
                found = np.isin(keys, self._keys)
                share = float(found.mean()) if len(found) else 1.0
                places = np.searchsorted(self._keys, keys[found])
                self._known = weakref.ref(snapshot), SnapshotVectors(alive[found], places, self._rows, share)
            return self._known[1]

    def _read(self, keys: Keys) -> None:
        """Have the vectors of these keys in memory, ordered by key."""
        new = keys[~np.isin(keys, self._keys)]
        rows, found = self.store.get(new)
        if not len(rows):
            return
        is_kept = np.isin(self._keys, keys) & (self._rows.values.shape[1] == rows.values.shape[1])
        both = np.concatenate([self._keys[is_kept], new[found]])
        order = np.argsort(both)
        values, scales = self._rows.values[is_kept], self._rows.scales[is_kept]
        if len(values):
            rows = VectorRows(np.concatenate([values, rows.values]), np.concatenate([scales, rows.scales]))
        self._keys, self._rows = both[order], VectorRows(rows.values[order], rows.scales[order])

    def forget(self) -> None:
        """Look for vectors again that were missing."""
        with self._lock:
            self._known = None

    def embed_query(self, text: str) -> Floats:
        """Return the vector of a question; those of the last ones are kept. Raises: as `Embedder.embed`."""
        vector = self._queries.get(text)
        if vector is None:
            vector = self.embedder.embed([text], "query")[0]
            self._queries = dict([*self._queries.items(), (text, vector)][-QUERIES_KEPT:])
        return vector

    def close(self) -> None:
        """Free memory, files and connections."""
        self.embedder.close()
        self.store.close()


def _compare(view: RankingView, vectors: SnapshotVectors, query: Floats, allowed: Mask | None) -> SemanticSignals:
    """Compare all chunks with a question; the few without a vector count as the farthest.

    Cosines are counted from the least one: some models give any two texts a cosine of 0.7.
    """
    snapshot = view.snapshot
    cosines = compute_cosines(vectors.rows, query)[vectors.places]
    chunk = np.zeros(snapshot.chunks, np.float32)
    chunk[vectors.numbers] = cosines - cosines.min(initial=1.0)
    counts = np.ones(snapshot.chunks, bool) if allowed is None else allowed
    best, top3 = fold_by_file(chunk, counts, snapshot.chunk_file, snapshot.files)
    return SemanticSignals({"model": best, "model3": top3}, chunk, vectors.numbers, np.zeros(snapshot.files, bool))
