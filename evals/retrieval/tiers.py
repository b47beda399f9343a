"""The product at each of its tiers: words alone, static vectors, and the provider that the environment names.

A tier is a `Searcher` of the product over the same snapshot; what differs is the `SemanticRanker` that it is given.
Everything is embedded before the first question.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from context_engine.engine import Engine
from context_engine.index import StaticEncoder
from context_engine.model import Query
from context_engine.repo import WorkspaceFile, file_reader
from context_engine.search import Searcher
from context_engine.search.fuse import WEIGHTS
from context_engine.search.hit_reading import HitReader
from context_engine.search.semantic_scores import SemanticRanker
from context_engine.settings import Settings
from context_engine.storage import ConfinedFolder
from context_engine.tools.search_tools import excerpt_hit
from evals.retrieval.metrics import Target
from evals.retrieval.weighing import Sheet

FILE_BYTES_MAX = 50_000_000
ROWS_MIN = 50
"""Places that a sheet holds, or as many as there are files: by other weights one of these may become one of the first
ten."""
NAMES = tuple(WEIGHTS)
TIERS = ("lexical", "static", "provider")


class Workbench:
    """Where indexes and vectors of an evaluation lie between runs, and the provider, if the environment names one."""

    def __init__(self, cache: Path) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        self.cache = cache
        self.encoder = StaticEncoder()
        usual = {"CTX_WORKERS": "0", "CTX_STALENESS_MS": "600000"}
        self.settings = Settings.load(None, usual | os.environ | {"CTX_CACHE_FOLDER": str(cache.resolve())})

    @property
    def tiers(self) -> tuple[str, ...]:
        """The tiers that can be asked here."""
        return TIERS[:2] if self.settings.embedder in ("static", "none") else TIERS

    @contextmanager
    def opened(self, folder: Path) -> Generator[dict[str, Searcher]]:
        """A repository, indexed and embedded: a searcher for each tier."""
        with Engine.open(folder, settings=self.settings) as engine:
            engine.index.update()
            if engine.embeddings.has_provider:
                engine.embeddings.embed_all()
            snapshot = engine.index.live.snapshot()
            if snapshot is None or snapshot.static() is None:
                raise SystemExit(
                    f"{folder}: no static vectors ({self.encoder.problem or 'the index was built without'})"
                )
            query = self.encoder.query
            rankers = (None, SemanticRanker(query), SemanticRanker(query, engine.embeddings))
            yield {tier: Searcher(snapshot, ranker) for tier, ranker in zip(self.tiers, rankers, strict=False)}


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
