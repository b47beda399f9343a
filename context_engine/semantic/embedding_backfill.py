"""Fills a vector space in the background: whatever a snapshot lacks, summaries of files first, then chunks.

The work is done by one thread of low priority, which waits while answers are computed, and one process of the machine
for each space. Texts are made from the
files as they are now and compared with the keys of the index: edited ones are skipped, so no vector is ever stored
under the key of another text. A killed process loses one group of texts.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from context_engine.embedding import DeadlineEmbedder, Keys, VectorSpace, compute_fingerprint, hash_texts
from context_engine.errors import ContextEngineError
from context_engine.index import (
    PLAIN,
    ChunkLocation,
    Snapshot,
    build_chunk_texts,
    build_file_summary,
    embedding_text,
    summary_names,
)
from context_engine.languages import Languages, read_file_header
from context_engine.semantic.missing_vectors import (
    CARDS,
    KINDS,
    EmbeddingProgress,
    EmbeddingQueue,
    MissingVectors,
    VectorKind,
    order_files,
)
from context_engine.semantic.vector_store import VectorStore

Ints = npt.NDArray[np.intp]
Read = Callable[[str], bytes | None]
"""Returns a file's current text in UTF-8; None if it cannot be read."""

GROUP = 32
"""Texts that are made and stored together: one lock and one write, a second of a slow machine, one request to an
endpoint."""
HOT_MAX = 50
"""Files of the last answers and edits, which come before all others."""
NICENESS = 10
"""On Linux: a tenth of a core that others want. With less it would wait for one while it has the interpreter's lock."""
HELD_LOOK_S = 1.0
"""Interval for checking whether the reason to wait is over."""
OPEN_WAIT_S = 0.5
"""Wait for an embedder to open: a few milliseconds, except for those that load everything at once."""
OPEN_LOOK_S = 5.0
"""Interval for trying an embedder that cannot be opened."""
OTHERS_LOOK_S = 15.0
"""Interval for checking what the process that fills this space, or the team, has added, or whether it has ended."""
RETRY_S = 60.0
"""Wait after an error: a file that cannot be read, a full disk."""
RELOOK_S = 600.0
"""Interval for checking whether stored vectors were dropped because there are too many on this machine."""
COMPACT_REST_S = 3_600.0
CLOSE_WAIT_S = 1.0


def vector_space(embedder: DeadlineEmbedder) -> VectorSpace | None:
    """Return the space of an embedder's vectors; None until it was opened once."""
    identity = embedder.identity
    if identity is None:
        return None
    return VectorSpace(compute_fingerprint(identity.fingerprint, embedding_text.RECIPE), identity.dimensions)


class EmbeddingBackfill:
    """Fills the vectors of one workspace. Thread-safe; nothing happens before the first `wake`.

    `vectors` returns the store of the embedder's space, None while that is unknown; `snapshot` the newest one; nothing
    is filled while `hold` returns True.
    """

    def __init__(
        self,
        embedder: DeadlineEmbedder,
        *,
        vectors: Callable[[], VectorStore | None],
        snapshot: Callable[[], Snapshot | None],
        read: Read,
        languages: Languages,
        hold: Callable[[], bool] = lambda: False,
    ) -> None:
        self.problem = ""
        self._embedder, self._vectors, self._snapshot, self._hold = embedder, vectors, snapshot, hold
        self._texts = EmbeddingTexts(read, languages)
        self._gaps = MissingVectors()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._cancel, self._woken = threading.Event(), threading.Event()
        self._hot: dict[str, None] = {}
        self._through: weakref.ref[Snapshot] | None = None
        self._added = False
        self._compacted_at = self._looked_at = time.monotonic()

    def wake(self, paths: Iterable[str] = ()) -> None:
        """Look soon for what is missing; `paths` are in use, and come first from now on."""
        with self._lock:
            for path in paths:
                self._hot.pop(path, None)
                self._hot[path] = None
            for path in list(self._hot)[:-HOT_MAX]:
                del self._hot[path]
            if self._thread is None and not self._cancel.is_set():
                self._thread = threading.Thread(target=self._work, name="ctx-backfill", daemon=True)
                self._thread.start()
        self._woken.set()

    def count_progress(self, snapshot: Snapshot | None = None) -> EmbeddingProgress | None:
        """Return how much of a snapshot (the newest by default) has its vectors; None if the space is unknown."""
        vectors, snapshot = self._vectors(), snapshot or self._snapshot()
        if vectors is None or snapshot is None:
            return None
        return self._gaps.count_progress(snapshot, vectors)

    def is_covered(self, snapshot: Snapshot) -> bool:
        """Return whether everything in a snapshot that can have a vector has one; files edited since cannot."""
        return self._through is not None and self._through() is snapshot

    def is_finished(self, snapshot: Snapshot, filled: EmbeddingProgress) -> bool:
        """Return whether all vectors are made."""
        return filled.is_complete or self.is_covered(snapshot)

    def close(self) -> None:
        """Stop; what is made is stored."""
        with self._lock:
            self._cancel.set()
            thread = self._thread
        self._woken.set()
        if thread is not None:
            thread.join(CLOSE_WAIT_S)

    # -- the thread --

    def _work(self) -> None:
        lower_thread_priority()
        while not self._cancel.is_set():
            self._woken.clear()
            try:
                rest_s = self._round()
            except Exception as error:  # noqa: BLE001 - a thread has no caller; `problem` has the error
                self.problem = error.message if isinstance(error, ContextEngineError) else repr(error)
                rest_s = RETRY_S
            self._woken.wait(rest_s)

    def _round(self) -> float:
        """Fill what the newest snapshot lacks; return the seconds until the next look, unless woken."""
        if not self._embedder.ensure_open(time.monotonic() + OPEN_WAIT_S):
            return OPEN_LOOK_S
        vectors, snapshot = self._vectors(), self._snapshot()
        if vectors is None or snapshot is None or vectors.space != vector_space(self._embedder) or self._hold():
            return HELD_LOOK_S
        self._look(vectors)
        rest_s = self._complete(snapshot, vectors)
        if rest_s is None:
            self._mark_complete(snapshot)
        if rest_s is None:
            self._tidy(vectors)
            return RELOOK_S
        return rest_s

    def _complete(self, snapshot: Snapshot, vectors: VectorStore) -> float | None:
        """Embed what is missing; return None if nothing is left, else the seconds to wait."""
        if self._gaps.count_progress(snapshot, vectors).is_complete:
            return None
        with vectors.backfill_lock() as alone:
            if alone:
                return self._fill(snapshot, vectors)
            return OTHERS_LOOK_S

    def _fill(self, snapshot: Snapshot, vectors: VectorStore) -> float | None:
        """Embed group after group until nothing is left (None), or return the seconds to wait."""
        files, passed = order_files(snapshot), 0
        for part in KINDS:
            line = EmbeddingQueue(self._gaps.find_missing(part, snapshot, vectors), part.starts(snapshot), files)
            while len(numbers := line.take(self._hot_files(snapshot), GROUP)):
                if not self._embedder.wait_until_idle(self._cancel):
                    return HELD_LOOK_S
                if self._hold() or self._snapshot() is not snapshot:
                    return 0.0
                wanted = part.keys(snapshot)[numbers]
                texts, keys = _keep_unchanged(self._texts.make_texts(part, snapshot, numbers), wanted)
                passed += len(numbers) - len(texts)
                if not self._embed_group(vectors, texts, keys):
                    return OPEN_LOOK_S
                self._gaps.update(part, snapshot, vectors, numbers)
        if not passed:
            return None
        self._mark_complete(snapshot)
        return RETRY_S

    def _embed_group(self, vectors: VectorStore, texts: Sequence[str], keys: Keys) -> bool:
        """Embed and store what is still missing of some texts; return whether all was done."""
        missing = vectors.missing(keys)
        lacking = [text for text, is_missing in zip(texts, missing.tolist(), strict=True) if is_missing]
        if lacking:
            rows = self._embedder.embed_in_background(lacking, self._cancel)
        else:
            rows = np.zeros((0, vectors.space.dimensions))
        if len(rows):
            vectors.put(keys[missing][: len(rows)], rows)
            self._added = True
        return len(rows) == len(lacking)

    def _hot_files(self, snapshot: Snapshot) -> list[int]:
        """Return the files in use, the last one first."""
        with self._lock:
            paths = list(self._hot)[::-1]
        return [snapshot.by_path[path] for path in paths if path in snapshot.by_path]

    def _mark_complete(self, snapshot: Snapshot) -> None:
        self.problem = ""
        self._through = weakref.ref(snapshot)

    def _look(self, vectors: VectorStore) -> None:
        """Check what other processes have filled; now and then also what was dropped."""
        is_due = time.monotonic() - self._looked_at >= RELOOK_S
        if is_due:
            self._looked_at = time.monotonic()
        self._gaps.refresh(vectors, at_all=is_due)

    def _tidy(self, vectors: VectorStore) -> None:
        if self._added and time.monotonic() - self._compacted_at >= COMPACT_REST_S:
            self._compacted_at, self._added = time.monotonic(), False
            with suppress(ContextEngineError):  # another process writes; there is always a next time
                vectors.compact()


class EmbeddingTexts:
    """Makes the texts to embed from the files as they are now."""

    def __init__(self, read: Read, languages: Languages) -> None:
        self._read, self._languages = read, languages

    def make_texts(self, part: VectorKind, snapshot: Snapshot, numbers: Ints) -> list[str]:
        """Return the text of each thing; empty if its file cannot be read."""
        if part == CARDS:
            return self._cards(snapshot, numbers)
        return self._chunks(snapshot, numbers)

    def _cards(self, snapshot: Snapshot, files: Ints) -> list[str]:
        texts = []
        for file in files.tolist():
            path, data = snapshot.paths[file], self._read(snapshot.paths[file])
            if data is None:
                texts.append("")
                continue
            language = self._languages.detect(path, data) or PLAIN
            names = summary_names(snapshot.outline(file))
            texts.append(build_file_summary(path, read_file_header(language, data), names))
        return texts

    def _chunks(self, snapshot: Snapshot, chunks: Ints) -> list[str]:
        owners = snapshot.chunk_file[chunks]
        texts = [""] * len(chunks)
        for file in np.unique(owners).tolist():
            path, data = snapshot.paths[file], self._read(snapshot.paths[file])
            if data is None:
                continue
            places = np.flatnonzero(owners == file)
            columns = [snapshot.chunk_column(name)[chunks[places]].tolist() for name in ("start", "stop", "symbol")]
            outline = snapshot.outline(file)
            locations = [ChunkLocation(*row) for row in zip(*columns, strict=True)]
            made = build_chunk_texts(path, data, outline, locations)
            for place, chunk_text in zip(places.tolist(), made, strict=True):
                texts[place] = chunk_text.text()
        return texts


def _keep_unchanged(texts: Sequence[str], wanted: Keys) -> tuple[list[str], Keys]:
    """Return the texts that are still those of the index, and their keys."""
    keys = hash_texts(texts)
    same = keys == wanted
    return [text for text, is_same in zip(texts, same.tolist(), strict=True) if is_same], keys[same]


def lower_thread_priority() -> None:
    """Give this thread, and no other, a low priority.

    Only Linux has a priority for each thread: elsewhere all would become slower.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # it is lower already
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
