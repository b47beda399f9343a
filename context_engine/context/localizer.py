"""Finds the files and places of a question by the index: one search, for bundles, prompts and plans.

A question is answered in the order of the search. For a task that changes files, the history of the repository may
order them; a file that only the history suggests shows its best place too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from context_engine.context.project_knowledge import RankedPaths
from context_engine.context.workspace import Workspace
from context_engine.index import Role, role_of
from context_engine.model import Filter, Hit, Query
from context_engine.text import LineSpan

SPOTS_PER_FILE = 12
"""Chunks of one file that can be shown."""
NEXT_FILES = 3
"""Files that are named because they come next."""
LEADERS = 2
"""First files of the search that are shown, wherever the history puts them."""
RANKED_MAX = 30
"""Files whose share of the best score is returned, if the history orders them."""
SIGNALS: Mapping[str, str] = {
    **dict.fromkeys(("static", "static3", "static_card", "model", "model3", "model_card"), "semantic"),
    **dict.fromkeys(("symbol", "mention", "name", "def"), "symbol"),
    "importance": "structure",
    **dict.fromkeys(("named", "scope"), "symbol"),
}
"""The kind of signal of an addend of a score; every other addend is lexical."""

ChangePredictor = Callable[[Query], RankedPaths]
"""Returns the files that a task may change, best first."""


class FoundPlace(NamedTuple):
    """Lines that were found, their relevance compared with the best (0-1), and the symbol they belong to.

    `chance` is the probability that the question needs them, as far as it is known.
    """

    span: LineSpan
    relevance: float
    symbol: str = ""
    text: str = ""  # the lines, if they are known
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file with its places, best first; none if only the history suggests it.

    `search_place` is its place in the order of the search, from 0; -1 if the search did not find it.
    """

    path: str
    relevance: float
    spots: tuple[FoundPlace, ...]
    is_stale: bool = False
    search_place: int = -1


class BestHit(NamedTuple):
    """The best hit of a search: its file, its score, whether it is probably about something else, and its chance."""

    path: str = ""
    score: float = 0.0
    is_weak: bool = False
    chance: float = 0.0


NO_HIT = BestHit()


@dataclass(frozen=True, slots=True)
class GatheredFiles:
    """Files, best first. `sources` counts the places that each kind of signal helped to find.

    `curve` has the shares of the best score in the order of the ranking.
    """

    files: tuple[FoundFile, ...]
    engine: str
    freshness: str
    sources: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    reason: str = ""  # why there are none
    next_files: tuple[str, ...] = ()  # the best of those beyond `files_max`
    curve: tuple[float, ...] = ()
    best: BestHit = NO_HIT


@dataclass(frozen=True, slots=True)
class GatherRequest:
    """A question, and the limits of its answer. `relevance_min` is relative to the best hit (0-1).

    Files are found only if the words of the best one score `lexical_min`.
    """

    text: str
    files_max: int
    filter: Filter
    relevance_min: float = 0.0
    spots_per_file: int = SPOTS_PER_FILE
    excluded_roles: tuple[Role, ...] = ()
    lexical_min: float = 0.0


def locate_files(
    request: GatherRequest, workspace: Workspace, predict: ChangePredictor | None = None
) -> tuple[GatheredFiles, bool]:
    """Return the files of a question by the index, and whether the index may be asked at all: it may be being built.

    With `predict` they come in the order in which a task probably changes them. Raises: as `Engine.search`.
    """
    answer = workspace.search.find(_query_for(request))
    is_clear = bool(answer.hits) and lexical_score(answer.hits[0]) >= request.lexical_min
    hits = answer.hits if is_clear else ()
    by_path = _group_hits(hits)
    searched = list(by_path)
    ranked = [(path, found[0].score) for path, found in by_path.items()]
    if predict and is_clear:
        ranked = list(predict(Query(request.text, RANKED_MAX, request.filter, chunks_per_file=1))) or ranked
    relevant = _select_relevant(ranked, searched, request)
    shown, others = relevant[: request.files_max], relevant[request.files_max :]
    by_path |= _find_best_places([path for path, _ in shown if path not in by_path], request, workspace)
    found = GatheredFiles(
        files=tuple(_build_found_files(shown, by_path, searched, hits)),
        engine=answer.engine,
        freshness=answer.freshness,
        sources=count_kinds(kind for path, _ in shown for hit in by_path.get(path, ()) for kind in _signal_kinds(hit)),
        warnings=(answer.weakness,) if answer.weakness else (),
        reason=answer.reason,
        next_files=tuple(path for path, _ in others)[:NEXT_FILES],
        curve=tuple(round(share, 4) for _, share in relevant),
        best=_describe_best(hits, is_weak=bool(answer.weakness)),
    )
    return found, bool(answer.hits) or "building" not in answer.freshness


def _query_for(request: GatherRequest) -> Query:
    files_max, places = request.files_max + NEXT_FILES, request.spots_per_file
    return Query(request.text, files_max * places, request.filter, 0.0, places, files_max)


def _select_relevant(
    ranked: Sequence[tuple[str, float]], searched: Sequence[str], request: GatherRequest
) -> list[tuple[str, float]]:
    """Return the files that are good enough with their shares of the best score, in the order in which they are shown.

    `searched` are the files in the order of the search.
    """
    allowed = [(path, score) for path, score in ranked if role_of(path, "code") not in request.excluded_roles]
    best = max((score for _, score in allowed), default=1.0) or 1.0
    relevant = [(path, score / best) for path, score in allowed if score >= request.relevance_min * best]
    return _keep_leaders(relevant, searched[:LEADERS], request.files_max)


def _describe_best(hits: Sequence[Hit], *, is_weak: bool) -> BestHit:
    if not hits:
        return NO_HIT
    return BestHit(str(hits[0].chunk.path), hits[0].score, is_weak, hits[0].chance)


def _keep_leaders(ranked: Sequence[tuple[str, float]], leaders: Sequence[str], most: int) -> list[tuple[str, float]]:
    """Return a ranking in which the first files of the search are among the first `most`, if it has them at all."""
    late = [row for row in ranked[most:] if row[0] in leaders][: most - 1]
    if not late:
        return list(ranked)
    kept = most - len(late)
    return [*ranked[:kept], *late, *(row for row in ranked[kept:] if row not in late)]


def glob_for_path(path: str) -> str:
    """Return a glob for one path; other paths match only if they differ in characters with a meaning in globs.

    >>> glob_for_path("src/[id]/a b.ts")
    '/src/?id?/a b.ts'
    """
    return "/" + re.sub(r"[\[\]*?!#{},\\]| +$", "?", path)


def lexical_score(hit: Hit) -> float:
    """Return the part of a hit's score that comes from words alone: the part that every index has."""
    return sum(share for name, share in hit.why.items() if SIGNALS.get(name) not in ("semantic", "structure"))


def count_kinds(kinds: Iterable[str]) -> dict[str, int]:
    """Return how often each kind of signal occurs."""
    counts = {"lexical": 0, "semantic": 0, "symbol": 0}
    for kind in kinds:
        counts[kind] += 1
    return counts


def _group_hits(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """Return the hits by file: files in the order of their best hit, the hits of a file best first."""
    by_path: dict[str, list[Hit]] = {}
    for hit in hits:
        by_path.setdefault(hit.chunk.path, []).append(hit)
    return by_path


def _find_best_places(paths: Sequence[str], request: GatherRequest, workspace: Workspace) -> dict[str, list[Hit]]:
    """Return the best place in each file that the search did not bring."""
    if not paths:
        return {}
    only = replace(request.filter, include_paths=tuple(map(glob_for_path, paths)))
    return _group_hits(workspace.search.find(Query(request.text, len(paths), only, chunks_per_file=1)).hits)


def _build_found_files(
    shown: Iterable[tuple[str, float]],
    by_path: Mapping[str, Sequence[Hit]],
    searched: Sequence[str],
    hits: Sequence[Hit],
) -> Iterator[FoundFile]:
    """Yield the files with their chunks; the relevance of a chunk is relative to the best hit of all."""
    best = hits[0].score if hits else 1.0
    order = {path: place for place, path in enumerate(searched)}
    for path, share in shown:
        own = by_path.get(path, ())
        places = [
            FoundPlace(hit.chunk.span, round(hit.score / best, 3), hit.chunk.symbol, hit.chunk.text, hit.chance)
            for hit in own
        ]
        is_stale = any(hit.stale for hit in own)
        yield FoundFile(path, round(share, 3), tuple(places), is_stale, order.get(path, -1))


def _signal_kinds(hit: Hit) -> set[str]:
    return {SIGNALS.get(name, "lexical") for name, share in hit.why.items() if share > 0} - {"structure"}
