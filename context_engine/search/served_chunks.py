"""Serve a folder of chunk files while its indexer writes: each answer comes from one consistent state of it.

At the start a broken file is skipped and named. Later, as long as a file in use is broken or missing, everything stays
as it was, because the next write is likely to repair it.

Queries always use words; they use meaning too where the files name a model that is available here. Every answer says
why meaning was not used, because the query could be repeated once that is fixed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from context_engine.embedding import Embedder
from context_engine.errors import ContextEngineError, HostError, InvalidArgument, InvalidVectors
from context_engine.model import CHUNK_KINDS, ChunkKind, Filter, Query, Skipped
from context_engine.repo import Watcher
from context_engine.search.chunk_files import FILES, ChunkSet
from context_engine.search.chunk_folder import FolderReader
from context_engine.search.chunk_search import STATIC_WEIGHTS, WEIGHTS, ChunkHit, ChunkSearcher
from context_engine.search.question import Question

Opener = Callable[[str], Embedder | None]
"""Maps the name of a model in a chunk file to what makes vectors of questions for it, if anything here does."""
OnStateChange = Callable[[bool, str], None]
"""Called at each change of the state: whether it is good news, and a sentence about it."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ChunkAnswer:
    """Hits, best first, and how they were found."""

    hits: tuple[ChunkHit, ...]
    engine: str  # "hybrid" | "lexical"
    missing: str  # why vectors took no part; "" when they did
    freshness: str  # "fresh", or why the newest state of the files does not answer
    reason: str  # why `hits` is empty; "" when it is not
    near_tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkStatus:
    """What is served, how, and its problems."""

    folder: str
    files: tuple[str, ...]
    kinds: Mapping[ChunkKind, int]
    model: str
    dimensions: int
    engine: str
    missing: str
    skipped: tuple[Skipped, ...]
    problem: str  # why the newest state of the files is not what is served
    watcher: str  # "running", or why changes are not noticed


@dataclass(frozen=True, slots=True)
class _PreparedState:
    """One state of the folder, ready for queries."""

    searcher: ChunkSearcher
    embedder: Embedder | None
    missing: str


class ServedChunks:
    """The folder, watched from the start. Thread-safe; a query never waits for a reload."""

    def __init__(
        self,
        folder: Path,
        opener: Opener,
        *,
        quiet_ms: int = Watcher.QUIET_MS,
        on_change: OnStateChange = lambda *_: None,
    ) -> None:
        """Read the folder and prepare it. Raises: FileNotFound, InvalidVectors."""
        self._path = folder
        self._opener = opener
        self._on_change = on_change
        self._opened: dict[str, Embedder | None] = {}
        self._lock = threading.Lock()
        self._reader = FolderReader(folder)
        self._state = self._prepare(self._reader.read())
        self.problem = ""
        """Why the newest state of the files is not what is served; empty when it is."""
        self._report_start()
        self._watcher = Watcher(folder, self._note_changes, quiet_ms=quiet_ms)
        self._watcher.start()
        self.reload()

    @property
    def chunks(self) -> ChunkSet:
        """The chunks in use. Keep the value for as long as one answer takes."""
        return self._state.searcher.chunks

    def reload(self) -> bool:
        """Read the folder again and use it, if nothing in use is broken or missing in it; return whether it is used."""
        with self._lock:
            try:
                new = self._reader.read()
                problem = _describe_losses(self.chunks, new)
                if new is self.chunks and not self.problem:
                    return True
                if not problem:
                    self._state = self._prepare(new)
            except ContextEngineError as error:
                problem = error.message
            self.problem = problem
            if problem:
                self._on_change(False, f"chunks are served as they were: {problem}")
                return False
            left_out = "".join(f"; {skipped.path} is left out: {skipped.detail}" for skipped in new.skipped)
            self._on_change(True, f"chunks are loaded again: {len(new.rows)} in {len(new.files)} files{left_out}")
            return True

    def search(self, query: Query) -> ChunkAnswer:
        """Return the chunks for a question. Raises: InvalidArgument when it is empty."""
        if not query.text.strip():
            raise InvalidArgument("query is empty", suggestion="say what to find, in words or code")
        ready = self._state
        vector, missing = _embed_query(ready, Question.of(query.text).focus)
        if ready.searcher.chunks.model == "static":
            weights = STATIC_WEIGHTS
        else:
            weights = WEIGHTS
        ranking = ready.searcher.rank(query, vector, weights=weights)
        is_empty = not ranking.hits
        return ChunkAnswer(
            hits=ranking.hits,
            engine="lexical" if vector is None else "hybrid",
            missing=missing,
            freshness=self.problem or "fresh",
            reason=_explain_no_hits(ready.searcher, query, ranking.passing) if is_empty else "",
            near_tags=ready.searcher.similar_tags(query.filter.tags) if is_empty else (),
        )

    def status(self) -> ChunkStatus:
        """Return what is served now."""
        ready = self._state
        chunks = ready.searcher.chunks
        counts = Counter(row.kind for row in chunks.rows)
        return ChunkStatus(
            folder=str(self._path),
            files=chunks.files,
            kinds={kind: counts[kind] for kind in CHUNK_KINDS},
            model=chunks.model,
            dimensions=chunks.dimensions,
            engine="lexical" if ready.missing else "hybrid",
            missing=ready.missing,
            skipped=chunks.skipped,
            problem=self.problem,
            watcher=self._watcher.problem or "running",
        )

    def close(self) -> None:
        """Stop watching, and close models."""
        self._watcher.stop()
        for embedder in self._opened.values():
            if embedder is not None:
                embedder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _note_changes(self, paths: frozenset[str]) -> None:
        if not paths.isdisjoint(FILES.values()):
            self.reload()

    def _prepare(self, chunks: ChunkSet) -> _PreparedState:
        """Prepare a state, in whatever thread noticed it. Raises: InvalidVectors."""
        asked, missing = self._model_of(chunks)
        return _PreparedState(ChunkSearcher(chunks), asked, missing)

    def _model_of(self, chunks: ChunkSet) -> tuple[Embedder | None, str]:
        """Return the embedder of questions for these chunks, or why there is none.

        Raises: InvalidVectors when a model of that name is here and makes vectors of another size.
        """
        if not chunks.dimensions:
            return None, "the chunks have no vectors"
        if not chunks.model:
            return None, "the files do not say which model made their vectors"
        if chunks.model not in self._opened:
            try:
                self._opened[chunks.model] = self._opener(chunks.model)
            except HostError as error:
                return None, error.message
        asked = self._opened[chunks.model]
        if asked is None:
            return None, f"no model called {chunks.model} is available to embed the question"
        if chunks.fingerprint not in ("", asked.fingerprint):
            return None, f"the vectors were made by another version of {chunks.model} than the one here"
        try:
            dimensions = asked.dimensions
        except HostError:
            return asked, ""  # each question tries it again
        if dimensions != chunks.dimensions:
            raise InvalidVectors(
                f"the files have vectors of {chunks.dimensions} numbers, but those of {chunks.model} have {dimensions}",
                suggestion="write all four files again, or name the model that made the vectors in their _metadata",
            )
        return asked, ""

    def _report_start(self) -> None:
        chunks = self._state.searcher.chunks
        self._on_change(True, f"{len(chunks.rows)} chunks of {len(chunks.files)} files are served from {self._path}")
        for skipped in chunks.skipped:
            self._on_change(False, f"{skipped.path} is left out: {skipped.detail}")
        if missing := self._state.missing:
            self._on_change(True, f"chunks are found by words alone: {missing}")


def _describe_losses(old: ChunkSet, new: ChunkSet) -> str:
    """Return what a new state would lose of the old one, in words; empty when nothing."""
    why = {skipped.path: skipped.detail for skipped in new.skipped}
    lost = [f"{name}: {why.get(name, 'it is gone')}" for name in old.files if name not in new.files]
    return "; ".join(lost)


def _embed_query(ready: _PreparedState, text: str) -> tuple[Floats | None, str]:
    """Return the vector of a question, or why there is none."""
    if ready.embedder is None:
        return None, ready.missing
    chunks = ready.searcher.chunks
    try:
        vector = ready.embedder.embed([text], "query")[0]
    except HostError as error:
        return None, error.message
    if len(vector) != chunks.dimensions:
        return (
            None,
            f"{chunks.model} makes vectors of {len(vector)} numbers, the chunks have such of {chunks.dimensions}",
        )
    if vector.any():
        return (vector, "")
    return (None, f"{chunks.model} knows no word of the question")


def _explain_no_hits(searcher: ChunkSearcher, query: Query, passing: int) -> str:
    """Return why nothing was found."""
    if not searcher.chunks.rows:
        return "the chunk files are empty"
    if not passing:
        return "no chunk passes the filter"
    if not query.filter.is_empty and searcher.rank(replace(query, filter=Filter(), min_score=0.0)).hits:
        return f"none of the {passing} chunks that pass the filter contains a word of the query"
    return "no chunk contains a word of the query"
