"""A folder of chunk files that answers questions while its indexer writes: each answer rests on one whole state of it.

By words always; by meaning too where the files name a model that is at hand here. What keeps meaning out is told with
every answer, because the question could be asked again once it is mended.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from context_engine.embedding.deadline_embedder import DeadlineEmbedder
from context_engine.errors import InvalidArgument, InvalidVectors
from context_engine.index.chunk_files import ChunkSet
from context_engine.index.chunk_folder import ChunkFolder
from context_engine.model import CHUNK_KINDS, ChunkKind, Filter, Query, Skipped
from context_engine.repo.watch import QUIET_MS
from context_engine.search.chunk_search import STATIC_WEIGHTS, WEIGHTS, ChunkHit, ChunkSearcher

LOAD_S = 10.0
"""A local model is ready within a second; what takes longer must not keep words from answering."""
QUERY_S = 2.0
"""A local model takes milliseconds for a question, an endpoint far away half a second."""

Opener = Callable[[str], DeadlineEmbedder | None]
"""The name of a model, as a chunk file gives it, in; what makes vectors of questions for it out, if anything here does."""
OnStateChange = Callable[[bool, str], None]
"""Hears of each change of the state: whether it is good news, and the news."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ChunkAnswer:
    """Hits best first, and the truth about them."""

    hits: tuple[ChunkHit, ...]
    engine: str  # "hybrid" | "lexical"
    missing: str  # why meaning had no say; "" when it had
    freshness: str  # "fresh", or why the newest state of the files does not answer
    reason: str  # why `hits` is empty; "" when it is not
    near_tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkStatus:
    """What is served, how, and what is wrong with it."""

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
    """One state of the folder, ready to be asked."""

    searcher: ChunkSearcher
    embedder: DeadlineEmbedder | None
    missing: str


class ServedChunks:
    """The folder, followed from the start. Thread-safe; a question never waits for a reload."""

    def __init__(
        self, folder: Path, opener: Opener, *, quiet_ms: int = QUIET_MS, on_change: OnStateChange = lambda *_: None
    ) -> None:
        """Reads the folder and makes it ready. Raises: FileNotFound, InvalidVectors."""
        self._path = folder
        self._opener = opener
        self._on_change = on_change
        self._opened: dict[str, DeadlineEmbedder | None] = {}
        self._ready: _PreparedState | None = None
        self._folder = ChunkFolder(folder, quiet_ms=quiet_ms, prepare=self._prepare, on_news=self._forward_news)
        self._report_start()
        self._folder.follow()

    def search(self, query: Query) -> ChunkAnswer:
        """The chunks worth reading for a question. Raises: InvalidArgument when it is empty."""
        if not query.text.strip():
            raise InvalidArgument("query is empty", suggestion="say what to find, in words or code")
        ready = self._state
        vector, missing = _embed_query(ready, query.text)
        weights = STATIC_WEIGHTS if ready.searcher.chunks.model == "static" else WEIGHTS
        ranking = ready.searcher.rank(query, vector, weights=weights)
        is_empty = not ranking.hits
        return ChunkAnswer(
            hits=ranking.hits,
            engine="lexical" if vector is None else "hybrid",
            missing=missing,
            freshness=self._folder.problem or "fresh",
            reason=_explain_no_hits(ready.searcher, query, ranking.passing) if is_empty else "",
            near_tags=ready.searcher.similar_tags(query.filter.tags) if is_empty else (),
        )

    def status(self) -> ChunkStatus:
        """What is served now."""
        ready = self._state
        chunks = ready.searcher.chunks
        counts = Counter(row.kind for row in chunks.rows)
        missing = ready.missing or _describe_unready(ready)
        return ChunkStatus(
            folder=str(self._path),
            files=chunks.files,
            kinds={kind: counts[kind] for kind in CHUNK_KINDS},
            model=chunks.model,
            dimensions=chunks.dimensions,
            engine="lexical" if missing else "hybrid",
            missing=missing,
            skipped=chunks.skipped,
            problem=self._folder.problem,
            watcher=self._folder.watcher_problem or "running",
        )

    def close(self) -> None:
        """Stop to follow, and let go of models."""
        self._folder.close()
        for each in self._opened.values():
            if each is not None:
                each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _state(self) -> _PreparedState:
        ready = self._ready
        assert ready is not None, "the folder was prepared when it was opened"
        return ready

    def _prepare(self, chunks: ChunkSet) -> None:
        """Make a state ready, in whatever thread noticed it. Raises: InvalidVectors."""
        asked, missing = self._model_of(chunks)
        before = self._ready.searcher if self._ready else None
        self._ready = _PreparedState(ChunkSearcher(chunks, before), asked, missing)

    def _model_of(self, chunks: ChunkSet) -> tuple[DeadlineEmbedder | None, str]:
        """What makes vectors of questions for these chunks, or why nothing does.

        Raises: InvalidVectors when a model of that name is here and makes vectors of another size.
        """
        if not chunks.dimensions:
            return None, "the chunks have no vectors"
        if not chunks.model:
            return None, "the files do not say which model made their vectors"
        if chunks.model not in self._opened:
            self._opened[chunks.model] = self._opener(chunks.model)
        asked = self._opened[chunks.model]
        if asked is None:
            return None, f"no model called {chunks.model} is at hand to make a vector of the question"
        asked.ensure_loaded(time.monotonic() + LOAD_S)
        made_by = asked.identity
        if made_by is None:
            return asked, ""  # it says itself why it cannot be asked, and is looked for again
        if chunks.fingerprint not in ("", made_by.fingerprint):
            return None, f"the vectors were made by another version of {chunks.model} than the one here"
        if made_by.dimensions not in (0, chunks.dimensions):
            raise InvalidVectors(
                f"the files hold vectors of {chunks.dimensions} numbers, but {chunks.model} makes such of {made_by.dimensions}",
                suggestion="write all four files anew, or name the model that made the vectors in their _metadata",
            )
        return asked, ""

    def _report_start(self) -> None:
        chunks = self._state.searcher.chunks
        self._on_change(True, f"{len(chunks.rows)} chunks of {len(chunks.files)} files are served from {self._path}")
        for each in chunks.skipped:
            self._on_change(False, f"{each.path} is left out: {each.detail}")
        if missing := self._state.missing:
            self._on_change(True, f"chunks are found by words alone: {missing}")

    def _forward_news(self, news: str) -> None:
        self._on_change(not self._folder.problem, news)


def _embed_query(ready: _PreparedState, text: str) -> tuple[Floats | None, str]:
    """The vector of a question, or why there is none."""
    if ready.embedder is None:
        return None, ready.missing
    chunks, until = ready.searcher.chunks, time.monotonic() + QUERY_S
    ready.embedder.ensure_loaded(until)
    vector = ready.embedder.embed_query(text, until)
    if vector is None:
        return None, _describe_unready(ready) or f"{chunks.model} did not answer in time"
    if len(vector) != chunks.dimensions:
        return (
            None,
            f"{chunks.model} makes vectors of {len(vector)} numbers, the chunks have such of {chunks.dimensions}",
        )
    return (vector, "") if vector.any() else (None, f"{chunks.model} knows no word of the question")


def _describe_unready(ready: _PreparedState) -> str:
    """Why the model cannot be asked now; empty when it can, if need be after it woke."""
    state = ready.embedder.state if ready.embedder else ""
    return "" if state in ("ready", "asleep") else f"{ready.searcher.chunks.model} is {state}"


def _explain_no_hits(searcher: ChunkSearcher, query: Query, passing: int) -> str:
    """Why nothing was found."""
    if not searcher.chunks.rows:
        return "the chunk files are empty"
    if not passing:
        return "no chunk passes the filter"
    if not query.filter.is_empty and searcher.rank(replace(query, filter=Filter(), min_score=0.0)).hits:
        return f"none of the {passing} chunks that pass the filter holds a word of the query"
    return "no chunk holds any word of the query"
