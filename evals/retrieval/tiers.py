"""The product at each of its tiers, asked without a clock: words alone, static vectors, a model in each state of its filling.

A tier is a `Searcher` of the product over the same snapshot; what differs is the `SemanticRanker` it is given. The background
is not waited for: everything is embedded before the first question, and the tiers hide what would not be there yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from context_engine.embedding import DeadlineEmbedder, EmbedderConfig, open_embedder
from context_engine.engine import Engine
from context_engine.errors import HostError
from context_engine.index import ROLES, StaticEncoder
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.model import Query
from context_engine.repo import WorkspaceFile, file_reader
from context_engine.search import CandidateScores, RankingView, Searcher, SemanticSignals
from context_engine.search.fuse import WEIGHTS
from context_engine.search.hit_reading import HitReader
from context_engine.search.semantic_scores import Mask, SemanticRanker
from context_engine.semantic.embedding_backfill import vector_space
from context_engine.semantic.missing_vectors import EmbeddingProgress
from context_engine.semantic.reranker import Reranker
from context_engine.semantic.vector_store import VectorStore
from context_engine.settings import Settings
from context_engine.storage import ConfinedFolder
from context_engine.tools import excerpt_hit
from evals.retrieval.metrics import Target
from evals.retrieval.weighing import Sheet

FILE_BYTES_MAX = 50_000_000
LOAD_S = 60.0
ROWS_MIN = 50
"""Places that a sheet holds, or as many as there are files: by other weights one of these may become one of the first
ten."""
NAMES = tuple(WEIGHTS)
STATES = {
    "cards": EmbeddingProgress(1, 1, 0, 1),
    "two-stage, no cards": EmbeddingProgress(0, 1, 0, 1),
    "two-stage": EmbeddingProgress(1, 1, 0, 1),
    "full": EmbeddingProgress(1, 1, 1, 1),
}
"""How far a model is in each of its tiers."""
TIERS = ("lexical", "static", *STATES)


class Patient(DeadlineEmbedder):
    """A model that is given all the time it wants: what an evaluation finds must not depend on how busy the machine is."""

    def embed_query(self, text: str, until: float) -> np.ndarray | None:
        return super().embed_query(text, time.monotonic() + LOAD_S)

    def embed_passages(
        self, texts: Sequence[str], until: float, keep: Callable[[int, np.ndarray], object]
    ) -> np.ndarray:
        return super().embed_passages(texts, time.monotonic() + LOAD_S * len(texts), keep)


@dataclass(frozen=True, slots=True)
class OnlyCards:
    """A model that has seen every file's card and no chunk."""

    model: Reranker

    def near(
        self, view: RankingView, text: str, ranked: CandidateScores, allowed: Mask | None
    ) -> SemanticSignals | None:
        said = self.model.near(view, text, ranked, allowed)
        if said is None:
            return None
        cards = {name: values for name, values in said.files.items() if name == "model_card"}
        return replace(said, files=cards, chunk=np.zeros_like(said.chunk))


class Workbench:
    """Where indexes and vectors of an evaluation lie between runs, and the model, when there is one."""

    def __init__(self, cache: Path, models: Path) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        self.cache = cache
        self.encoder = StaticEncoder()
        self.model = Patient(partial(open_embedder, EmbedderConfig("minilm", models_folder=models)))
        self.why_no_model = "" if self.model.ensure_loaded(time.monotonic() + LOAD_S) else self.model.state
        if not self.why_no_model and not (cache / "models").exists():
            (cache / "models").symlink_to(models.resolve(), target_is_directory=True)

    @property
    def tiers(self) -> tuple[str, ...]:
        """The tiers that can be asked here."""
        return TIERS[:2] if self.why_no_model else TIERS

    @contextmanager
    def opened(self, folder: Path) -> Generator[dict[str, Searcher]]:
        """A repository, indexed and embedded: a searcher for each tier."""
        embedder = "static" if self.why_no_model else "minilm"
        settings = Settings(cache_folder=self.cache, workers=0, staleness_ms=600_000, embedder=embedder)
        with ExitStack() as held:
            with Engine.open(folder, settings=settings) as engine:
                engine.index.update()
                if not self.why_no_model:
                    _embed(engine)
            snapshot = held.enter_context(closing(EmbeddedStore(engine.cache_folder))).snapshot()
            if snapshot is None or snapshot.static() is None:
                raise SystemExit(
                    f"{folder}: no static vectors ({self.encoder.problem or 'the index was built without'})"
                )
            models = {} if self.why_no_model else self._models(held)
            meanings = {"lexical": None, "static": SemanticRanker(self.encoder.query)}
            meanings |= {tier: SemanticRanker(self.encoder.query, model) for tier, model in models.items()}
            yield {tier: Searcher(snapshot, ROLES, meaning) for tier, meaning in meanings.items()}

    def _models(self, held: ExitStack) -> dict[str, Any]:
        space = vector_space(self.model)
        if space is None:
            raise SystemExit("the model was opened, yet nobody knows the space of its vectors")
        vectors = held.enter_context(closing(VectorStore(self.cache / "vectors", space)))
        models: dict[str, Any] = {
            tier: Reranker(self.model, lambda: vectors, lambda _, state=state: state, lambda *_: [])
            for tier, state in STATES.items()
        }
        return models | {"cards": OnlyCards(models["cards"])}

    def close(self) -> None:
        """Let go of the model."""
        self.model.close()


def _embed(engine: Engine) -> None:
    """Everything has its vector; what an earlier run made is there already."""
    try:
        engine.embeddings.embed_all()
    except HostError as error:
        raise SystemExit(f"{engine.root}: {error.message} {error.suggestion}") from error


def read(folder: Path, path: str) -> WorkspaceFile | None:
    """A file as a hit shows it."""
    loaded = file_reader.load_for_index(ConfinedFolder(folder), path, bytes_max=FILE_BYTES_MAX)
    return (
        WorkspaceFile(loaded.data, loaded.size, loaded.mtime_ns) if isinstance(loaded, file_reader.LoadedFile) else None
    )


def shown(searcher: Searcher, folder: Path, text: str, limit: int) -> list[dict[str, Any]]:
    """The rows of an answer as an agent reads them: path, lines and the part of the text."""
    ranking = searcher.rank(Query(text, limit, chunks_per_file=1, files_max=limit))
    rows = []
    for place, hit in enumerate(HitReader(searcher.view, partial(read, folder)).hits(ranking.places)):
        span, content = excerpt_hit(hit, text, place)
        rows.append({"path": hit.chunk.path, "start": span.first, "end": span.last, "content": content})
    return rows


def sheet(searcher: Searcher, text: str, targets: Sequence[Target], **facts: str) -> Sheet:
    """All places of an answer with the addends of their scores, divided by their weights."""
    asked = Query(text)
    ranking = searcher.rank(replace(asked, limit=max(ROWS_MIN, searcher.snapshot.files)))
    by_file = groupby(sorted(ranking.places, key=attrgetter("file")), key=attrgetter("file"))
    usual = {place.chunk for _, places in by_file for place in list(places)[: asked.chunks_per_file]}
    kept = [place for place in ranking.places if place.chunk in usual]
    first, last = (searcher.snapshot.chunk_column(name) for name in ("first", "last"))
    rows = [
        {"path": searcher.snapshot.paths[place.file], "start": int(first[place.chunk]), "end": int(last[place.chunk])}
        for place in kept
    ]
    addends = np.array(
        [[place.why.get(name, 0.0) / (WEIGHTS[name] or 1.0) for name in NAMES] for place in kept], np.float32
    ).reshape(-1, len(NAMES))
    hits = tuple(np.array([n for n, row in enumerate(rows) if each.is_hit_by(row)], np.intp) for each in targets)
    return Sheet(names=NAMES, addends=addends, hits=hits, **facts)
