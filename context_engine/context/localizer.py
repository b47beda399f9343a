"""Finds the files and places of a question: one search of the index, or without one the lines that contain its words.

A question is answered in the order of the search. For a task that changes files, the history of the repository may
order them; a file that only the history suggests shows its best place too.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import NamedTuple

from context_engine.context.project_knowledge import RankedPaths, Workspace
from context_engine.errors import NotIndexed, TooLarge
from context_engine.index import Role, role_of
from context_engine.model import Filter, Hit, Query, Scan, TextFile, TextLine, TextPart, TextQuery, group_by_file
from context_engine.search import SIGNALS
from context_engine.text import STOP_WORDS, LineSpan, split_lines, split_words, unique

SPOTS_PER_FILE = 12
"""Chunks of one file that can be shown."""
NEXT_FILES = 3
"""Files that are named because they come next."""
RANKED_MAX = 30
"""Files whose share of the best score is returned, if the history orders them."""

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


@dataclass(frozen=True, slots=True)
class GatheredFiles:
    """Files, best first. `sources` counts the places that each kind of signal helped to find."""

    files: tuple[FoundFile, ...]
    engine: str
    freshness: str
    sources: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    reason: str = ""  # why there are none
    next_files: tuple[str, ...] = ()  # the best of those beyond `files_max`
    is_weak: bool = False  # the files are probably about something else


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


def gather_files(request: GatherRequest, workspace: Workspace, predict: ChangePredictor | None = None) -> GatheredFiles:
    """Find the files of a question, by the index if there is one. Raises: as `Engine.search` and `Engine.scan`."""
    try:
        found, can_answer = locate_files(request, workspace, predict)
    except NotIndexed as error:
        warning = f"{error.message}, so only words were looked for: {error.suggestion}"
        return _gather_by_text(request, workspace, warning)
    if can_answer:
        return found
    return _gather_by_text(request, workspace, f"{found.freshness}, so only words were looked for")


# -- by the index -----------------------------------------------------------------------------------------------------


def locate_files(
    request: GatherRequest, workspace: Workspace, predict: ChangePredictor | None = None
) -> tuple[GatheredFiles, bool]:
    """Return the files of a question by the index, and whether the index may be asked at all: it may be being built.

    With `predict` they come in the order in which a task probably changes them. Raises: as `Engine.search`.
    """
    limit, places = request.files_max + NEXT_FILES, request.spots_per_file
    answer = workspace.search.find(Query(request.text, limit * places, request.filter, 0.0, places, limit))
    is_clear = bool(answer.hits) and lexical_score(answer.hits[0]) >= request.lexical_min
    hits = answer.hits if is_clear else ()
    by_path = group_by_file(hits)
    searched = list(by_path)
    ranked = [(path, found[0].score) for path, found in by_path.items()]
    if predict and is_clear:
        ranked = list(predict(Query(request.text, RANKED_MAX, request.filter, chunks_per_file=1))) or ranked
    allowed = [(path, score) for path, score in ranked if role_of(path, "code") not in request.excluded_roles]
    best = max((score for _, score in allowed), default=1.0) or 1.0
    relevant = [(path, score / best) for path, score in allowed if score >= request.relevance_min * best]
    shown, others = relevant[: request.files_max], relevant[request.files_max :]
    if unplaced := [path for path, _ in shown if path not in by_path]:
        only = replace(request.filter, include_paths=tuple(map(glob_for_path, unplaced)))
        best_places = workspace.search.find(Query(request.text, len(unplaced), only, chunks_per_file=1))
        by_path |= group_by_file(best_places.hits)
    found = GatheredFiles(
        files=tuple(_build_found_files(shown, by_path, searched, hits)),
        engine=answer.engine,
        freshness=answer.freshness,
        sources=_count_kinds(kind for path, _ in shown for hit in by_path.get(path, ()) for kind in _signal_kinds(hit)),
        warnings=tuple(filter(None, (answer.weakness, answer.missing))),
        reason=answer.reason,
        next_files=tuple(path for path, _ in others)[:NEXT_FILES],
        is_weak=bool(hits and answer.weakness),
    )
    return found, bool(answer.hits) or "building" not in answer.freshness


def glob_for_path(path: str) -> str:
    """Return a glob for one path; other paths match only if they differ in characters with a meaning in globs.

    >>> glob_for_path("src/[id]/a b.ts")
    '/src/?id?/a b.ts'
    """
    return "/" + re.sub(r"[\[\]*?!#{},\\]| +$", "?", path)


def lexical_score(hit: Hit) -> float:
    """Return the part of a hit's score that comes from words alone: the part that every index has."""
    return sum(share for name, share in hit.why.items() if SIGNALS[name].kind not in ("semantic", "structure"))


def _signal_kinds(hit: Hit) -> set[str]:
    return {SIGNALS[name].kind for name, share in hit.why.items() if share > 0} - {"structure"}


def _count_kinds(kinds: Iterable[str]) -> dict[str, int]:
    counts = Counter(kinds)
    return {kind: counts[kind] for kind in ("lexical", "semantic", "symbol")}


def _build_found_files(
    shown: Iterable[tuple[str, float]], by_path: Mapping[str, Sequence[Hit]], searched: list[str], hits: Sequence[Hit]
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
        yield FoundFile(path, round(share, 3), tuple(places), any(hit.stale for hit in own), order.get(path, -1))


# -- without an index -------------------------------------------------------------------------------------------------

WORDS_MAX = 12
"""Words of a question that a text search looks for. A longer question is an essay whose first words say its subject."""
WORD_CHARS_MIN = 3
STEM_CHARS_MIN = 4
"""Longer words lose two letters, which makes most of their forms equal: hashed, hashes, hashing."""
LINES_MAX = 4
"""Lines of one file that a text search shows: those with the most rare words."""
NO_INDEX = "no index"
"""The freshness of an answer that no index gave."""
SECONDARY_FACTOR = 0.6
"""Documents and tests repeat the words of the code that they are about."""


def _gather_by_text(request: GatherRequest, workspace: Workspace, warning: str) -> GatheredFiles:
    """Return the files and lines with the most words of the question; rare words count more."""
    stems = extract_stems(request.text)
    query = TextQuery(stems, includes=request.filter.include_paths, excludes=request.filter.exclude_paths)
    scan = workspace.text_search.scan(query) if stems else None
    if scan is None or not scan.files:
        reason = scan.reason if scan else "the question has no word to look for"
        return GatheredFiles((), scan.engine if scan else "none", NO_INDEX, _count_kinds(()), (warning,), reason)
    weights = _weigh_words(scan)
    scores = {file.path: _score_file(file, weights) for file in scan.files}
    ours = [file for file in scan.files if role_of(file.path, "code") not in request.excluded_roles]
    ranked = sorted(ours or scan.files, key=lambda file: (-scores[file.path], file.path))
    best = scores[ranked[0].path]
    shares = {file.path: scores[file.path] / best for file in ranked}
    relevant = [file.path for file in ranked if scores[file.path] >= request.relevance_min * best]
    shown, others = relevant[: request.files_max], relevant[request.files_max :]
    lines = workspace.text_search.keyword_lines(query, [TextPart(path, 0, 40) for path in shown], chars_max=200)
    files = [
        FoundFile(path, round(shares[path], 3), _rank_lines(lines[path], weights, shares[path]), search_place=place)
        for place, path in enumerate(shown)
    ]
    return GatheredFiles(
        files=tuple(files),
        engine=scan.engine,
        freshness=NO_INDEX,
        sources=_count_kinds("lexical" for file in files for _ in file.spots),
        warnings=(warning,),
        next_files=tuple(others[:NEXT_FILES]),
    )


def extract_stems(text: str) -> tuple[str, ...]:
    """Return the beginnings of the words that are not stop words, in lower case, each once.

    >>> extract_stems("How are passwords hashed, and the hashes checked?")
    ('passwor', 'hash', 'check')
    """
    lowered = (word.lower() for word in split_words(text) if len(word) >= WORD_CHARS_MIN)
    kept = (word for word in lowered if word not in STOP_WORDS)
    return tuple(unique(word[: max(STEM_CHARS_MIN, len(word) - 2)] for word in kept)[:WORDS_MAX])


def _weigh_words(scan: Scan) -> list[float]:
    """Return the weight of each word: the fewer files contain it, the higher."""
    numbers = range(len(scan.files[0].by_query))
    counts = [sum(bool(file.by_query[number]) for file in scan.files) for number in numbers]
    return [log(1 + scan.files_searched / max(1, count)) for count in counts]


def _score_file(file: TextFile, weights: Sequence[float]) -> float:
    """Return the weights of the words of a file, each once; small files count more, documents and tests less."""
    total = sum(weight for weight, count in zip(weights, file.by_query, strict=True) if count)
    density = 1 + 1 / (1 + log(1 + file.size_bytes / 1_000))
    return total * density * (1.0 if role_of(file.path, "code") == "source" else SECONDARY_FACTOR)


def _rank_lines(lines: Sequence[TextLine], weights: Sequence[float], relevance: float) -> tuple[FoundPlace, ...]:
    words_by_line: dict[int, set[int]] = defaultdict(set)
    for line in lines:
        words_by_line[line.number].add(line.query)
    scores = {number: sum(weights[word] for word in words) for number, words in words_by_line.items()}
    ranked = sorted(scores, key=lambda number: (-scores[number], number))[:LINES_MAX]
    shares = [round(relevance * scores[number] / scores[ranked[0]], 3) for number in ranked]
    spans = (LineSpan(number, number) for number in ranked)
    return tuple(FoundPlace(span, share, chance=share) for span, share in zip(spans, shares, strict=True))


def read_lines(file: FoundFile, workspace: Workspace) -> dict[int, str]:
    """Return the lines of a file by number; if it is too large to be read, only those that were found.

    Raises: FileNotFound, BinaryFile, AccessDenied.
    """
    try:
        return dict(enumerate(split_lines(workspace.files.read(file.path).text), 1))
    except TooLarge:
        places = (enumerate(split_lines(place.text), place.span.first) for place in file.spots)
        return {number: line for place in places for number, line in place}
