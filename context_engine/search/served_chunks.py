"""Serve a folder of chunk files while its indexer writes: each answer comes from one consistent state of it.

At the start a broken file is skipped and named. Later, while a file in use is broken or missing, everything stays as it
was. Queries use meaning where the files name a model that is available here; else every answer says why not.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

from context_engine.embedding import Embedder
from context_engine.errors import ContextEngineError, HostError, InvalidArgument, InvalidVectors
from context_engine.model import CHUNK_KINDS, ChunkKind, Filter, Query, Skipped
from context_engine.repo import Watcher
from context_engine.search.chunk_files import FILES, ChunkSet, read_folder
from context_engine.search.chunk_search import CHUNK_WEIGHTS, STATIC_WEIGHTS, ChunkHit, ChunkSearcher
from context_engine.search.question import Question
from context_engine.search.rankers import Floats


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


class _PreparedState(NamedTuple):
    """One state of the folder, ready for queries; `missing`: why it has no embedder of questions."""

    searcher: ChunkSearcher
    embedder: Embedder | None
    missing: str


class ServedChunks:
    """The folder, watched from the start. Thread-safe; a query never waits for a reload."""

    def __init__(
        self,
        folder: Path,
        opener: Callable[[str], Embedder | None],
        *,
        quiet_ms: int = Watcher.QUIET_MS,
        on_change: Callable[[bool, str], None] = lambda *_: None,
    ) -> None:
        """Read the folder and prepare it. Raises: FileNotFound, InvalidVectors.

        `opener` maps the name of a model in a chunk file to what makes vectors of questions for it, if anything here
        does. `on_change` is called at each change of the state: whether it is good news, and a sentence about it.
        """
        self._path = folder
        self._opener = opener
        self._on_change = on_change
        self._opened: dict[str, Embedder | None] = {}
        self._lock = threading.Lock()
        self._state = self._prepare(read_folder(folder))
        self.problem = ""
        """Why the newest state of the files is not what is served; empty when it is."""
        chunks = self.chunks
        on_change(True, f"{len(chunks.rows)} chunks of {len(chunks.files)} files are served from {folder}")
        for skipped in chunks.skipped:
            on_change(False, f"{skipped.path} is left out: {skipped.detail}")
        if self._state.missing:
            on_change(True, f"chunks are found by words alone: {self._state.missing}")
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
                new = read_folder(self._path)
                if new.hash == self.chunks.hash and not self.problem:
                    return True
                why = {skipped.path: skipped.detail for skipped in new.skipped}
                lost = [name for name in self.chunks.files if name not in new.files]
                self.problem = "; ".join(f"{name}: {why.get(name, 'it is gone')}" for name in lost)
                if not self.problem:
                    self._state = self._prepare(new)
                    left_out = "".join(f"; {path} is left out: {detail}" for path, detail in why.items())
                    text = f"chunks are loaded again: {len(new.rows)} in {len(new.files)} files{left_out}"
                    self._on_change(True, text)
                    return True
            except ContextEngineError as error:
                self.problem = error.message
            self._on_change(False, f"chunks are served as they were: {self.problem}")
            return False

    def search(self, query: Query) -> ChunkAnswer:
        """Return the chunks for a question. Raises: InvalidArgument when it is empty."""
        if not query.text.strip():
            raise InvalidArgument("query is empty", suggestion="say what to find, in words or code")
        state = self._state
        searcher = state.searcher
        vector, missing = _embed_query(state, Question.of(query.text).focus)
        weights = STATIC_WEIGHTS if searcher.chunks.model == "static" else CHUNK_WEIGHTS
        ranking = searcher.rank(query, vector, weights=weights)
        return ChunkAnswer(
            hits=ranking.hits,
            engine="lexical" if vector is None else "hybrid",
            missing=missing,
            freshness=self.problem or "fresh",
            reason="" if ranking.hits else _explain_no_hits(searcher, query, ranking.passing),
            near_tags=() if ranking.hits else searcher.similar_tags(query.filter.tags),
        )

    def status(self) -> ChunkStatus:
        """Return what is served now."""
        state = self._state
        chunks = state.searcher.chunks
        counts = Counter(row.kind for row in chunks.rows)
        return ChunkStatus(
            folder=self._path.name,
            files=chunks.files,
            kinds={kind: counts[kind] for kind in CHUNK_KINDS},
            model=chunks.model,
            dimensions=chunks.dimensions,
            engine="lexical" if state.missing else "hybrid",
            missing=state.missing,
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
        return _PreparedState(ChunkSearcher(chunks), *self._find_embedder(chunks))

    def _find_embedder(self, chunks: ChunkSet) -> tuple[Embedder | None, str]:
        """Return the embedder of questions for these chunks, or why there is none.

        Raises: InvalidVectors when a model of that name is here and makes vectors of another size.
        """
        model = chunks.model
        if not chunks.dimensions:
            return None, "the chunks have no vectors"
        if not model:
            return None, "the files do not say which model made their vectors"
        try:
            if model not in self._opened:
                self._opened[model] = self._opener(model)
        except HostError as error:
            return None, error.message
        embedder = self._opened[model]
        if embedder is None:
            return None, f"no model called {model} is available to embed the question"
        if chunks.fingerprint not in ("", embedder.fingerprint):
            return None, f"the vectors were made by another version of {model} than the one here"
        try:
            dimensions = embedder.dimensions
        except HostError:
            return embedder, ""  # each question tries it again
        if dimensions != chunks.dimensions:
            raise InvalidVectors(
                f"the files have vectors of {chunks.dimensions} numbers, but those of {model} have {dimensions}",
                suggestion="write all four files again, or name the model that made the vectors in their _metadata",
            )
        return embedder, ""


def _embed_query(state: _PreparedState, text: str) -> tuple[Floats | None, str]:
    """Return the vector of a question, or why there is none."""
    if state.embedder is None:
        return None, state.missing
    chunks = state.searcher.chunks
    try:
        vector = state.embedder.embed([text], "query")[0]
    except HostError as error:
        return None, error.message
    if len(vector) != chunks.dimensions:
        sizes = f"{len(vector)} numbers, the chunks have such of {chunks.dimensions}"
        return None, f"{chunks.model} makes vectors of {sizes}"
    if vector.any():
        return vector, ""
    return None, f"{chunks.model} knows no word of the question"


def _explain_no_hits(searcher: ChunkSearcher, query: Query, passing: int) -> str:
    if not searcher.chunks.rows:
        return "the chunk files are empty"
    if not passing:
        return "no chunk passes the filter"
    if not query.filter.is_empty and searcher.rank(replace(query, filter=Filter(), min_score=0.0)).hits:
        return f"none of the {passing} chunks that pass the filter contains a word of the query"
    return "no chunk contains a word of the query"
