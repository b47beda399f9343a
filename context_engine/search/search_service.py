"""From a question to its answer: the hits of every kind that was asked for, how many there are, and why there are none.

What answers may be one workspace or several that are ranked together; here nobody can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from context_engine.model import Answer, Filter, Hit, Query
from context_engine.search.hit_reading import Read, Reader
from context_engine.search.searcher import Searcher

OUTLINE_FACTOR = 0.35
"""What a file's `symbols` chunk is worth beside the file's best chunk, when both are asked for."""


class Standing(NamedTuple):
    """What ranks at this moment, how its files are read as they are now, and how true its index is to them."""

    searcher: Searcher
    read: Read
    freshness: str
    trouble: str = ""  # why the index could not be brought up to date


def answered(standing: Standing, query: Query) -> Answer:
    """The places worth reading for a query; where there is none, why."""
    searcher = standing.searcher
    hits, total, engine = _hits(standing, query)
    near = searcher.masks.near(query.filter.tags) if not hits and query.filter.tags else ()
    reason = "" if hits else _silence(standing, query)
    return Answer(tuple(hits), engine, standing.freshness, total, reason, near)


def _hits(standing: Standing, query: Query) -> tuple[list[Hit], int, str]:
    """Hits of all kinds asked for, how many chunks match, and what ranked; a `symbols` chunk is made from an outline."""
    searcher, kinds = standing.searcher, query.filter.kinds
    reader = Reader(searcher.view, standing.read)
    tagged = "symbols" in query.filter.tags
    if "symbols" not in kinds and not (tagged and not kinds):
        ranking = searcher.rank(query)
        return reader.hits(ranking.places), ranking.matching, ranking.engine
    others = () if tagged else tuple(kind for kind in kinds if kind != "symbols")
    any_kind = replace(query, filter=replace(query.filter, kinds=(), tags=_without(query.filter.tags, "symbols")))
    by_file = searcher.rank(replace(any_kind, chunks_per_file=1))
    hits = reader.outlines(by_file.places, OUTLINE_FACTOR if others else 1.0)
    total = len(hits)
    if others:
        rest = searcher.rank(replace(query, filter=replace(query.filter, kinds=others)))
        hits += reader.hits(rest.places)
        total += rest.matching
    hits.sort(key=lambda hit: (-hit.score, hit.chunk.path, hit.chunk.span))
    return hits[: query.limit], total, by_file.engine


def _silence(standing: Standing, query: Query) -> str:
    """Why there is no hit."""
    searcher, freshness = standing.searcher, standing.freshness
    if not searcher.snapshot.living_files:
        return "the index is empty: no readable text files were found (index_status says what was skipped)"
    if not query.filter.is_empty:
        unfiltered = searcher.rank(replace(query, filter=Filter(), min_score=0.0))
        if unfiltered.places:
            return f"the filter removed all of {unfiltered.matching} matching chunks"
    trouble = [freshness] * (freshness != "fresh") + [standing.trouble] * bool(standing.trouble)
    ending = f" ({'; '.join(trouble)})" if trouble else ""
    return f"no indexed text holds any word of the query{ending}"


def _without(tags: Sequence[str], tag: str) -> tuple[str, ...]:
    return tuple(each for each in tags if each != tag)
