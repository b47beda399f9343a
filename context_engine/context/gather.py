"""What a question finds, by file: the hits of a search, or without an index the lines that contain its words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

from context_engine.context.workspace import Workspace
from context_engine.errors import NotIndexed, TooLarge
from context_engine.index import role_of
from context_engine.model import (
    Answer,
    Filter,
    Hit,
    Query,
    RelPath,
    Scan,
    TextFile,
    TextLine,
    TextPart,
    TextQuery,
)
from context_engine.text import STOP_WORDS, LineSpan, split_lines, split_words, unique

SPOTS_PER_FILE = 12
"""Chunks of one file that can be shown."""
NEXT_FILES = 3
"""Files that are named because they come next."""
WORDS_MAX = 12
"""Words of a question that a text search looks for. A longer question is an essay whose first words say its subject."""
WORD_CHARS_MIN = 3
STEM_CHARS_MIN = 4
"""Longer words lose two letters, which makes most of their forms equal: hashed, hashes, hashing."""
LINES_MAX = 4
"""Lines of one file that a text search shows: those with the most rare words."""
SECONDARY_FACTOR = 0.6
"""Documents and tests repeat the words of the code that they are about."""
SIGNALS: Mapping[str, str] = {
    **dict.fromkeys(("static", "static3", "static_card", "model", "model3", "model_card"), "semantic"),
    **dict.fromkeys(("symbol", "mention", "name", "def"), "symbol"),
    "importance": "structure",
    **dict.fromkeys(("named", "scope"), "symbol"),
}
"""The kind of signal of an addend of a score; every other addend is lexical."""


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
    """A file with its places, best first."""

    path: RelPath
    relevance: float
    spots: tuple[FoundPlace, ...]
    is_stale: bool = False


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


@dataclass(frozen=True, slots=True)
class GatherRequest:
    """A question, and the limits of its answer. `relevance_min` is relative to the best hit (0-1)."""

    text: str
    files_max: int
    filter: Filter
    relevance_min: float = 0.0


def gather_files(request: GatherRequest, workspace: Workspace) -> GatheredFiles:
    """Find the files of a question, by the index if there is one. Raises: as `Engine.search` and `Engine.scan`."""
    files_max = request.files_max + NEXT_FILES
    query = Query(request.text, files_max * SPOTS_PER_FILE, request.filter, 0.0, SPOTS_PER_FILE, files_max)
    try:
        answer = workspace.search.find(query)
    except NotIndexed as error:
        return _gather_by_text(
            request, workspace, f"{error.message}, so only words were looked for: {error.suggestion}"
        )
    if answer.hits or "building" not in answer.freshness:
        return _gather_by_search(request, answer)
    return _gather_by_text(request, workspace, f"{answer.freshness}, so only words were looked for")


# -- with an index ----------------------------------------------------------------------------------------------------


def _gather_by_search(request: GatherRequest, answer: Answer) -> GatheredFiles:
    """Return the best files with their places, the most relevant first."""
    hits: dict[RelPath, list[Hit]] = {}
    for hit in answer.hits:
        hits.setdefault(hit.chunk.path, []).append(hit)
    best = answer.hits[0].score if answer.hits else 1.0
    relevant = [path for path, own in hits.items() if own[0].score >= request.relevance_min * best]
    shown, next_files = relevant[: request.files_max], relevant[request.files_max :]
    files = tuple(_build_found_file(path, hits[path], best) for path in shown)
    kinds = (kind for path in shown for hit in hits[path] for kind in _signal_kinds(hit))
    warnings = (answer.weakness,) if answer.weakness else ()
    return GatheredFiles(
        files, answer.engine, answer.freshness, _count_kinds(kinds), warnings, answer.reason, tuple(next_files)
    )


def glob_for_path(path: str) -> str:
    """Return a glob for one path; other paths match only if they differ in characters with a meaning in globs.

    >>> glob_for_path("src/[id]/a b.ts")
    '/src/?id?/a b.ts'
    """
    return "/" + re.sub(r"[\[\]*?!#{},\\]| +$", "?", path)


def _build_found_file(path: RelPath, hits: Sequence[Hit], best: float) -> FoundFile:
    """Return a file with its chunks."""
    places = []
    for hit in hits:
        title = hit.chunk.title if hit.chunk.title != path else ""
        places.append(FoundPlace(hit.chunk.span, round(hit.score / best, 3), title, hit.chunk.text, hit.chance))
    return FoundFile(path, places[0].relevance, tuple(places), any(hit.stale for hit in hits))


def _signal_kinds(hit: Hit) -> set[str]:
    return {SIGNALS.get(name, "lexical") for name, share in hit.why.items() if share > 0} - {"structure"}


def _count_kinds(kinds: Iterable[str]) -> dict[str, int]:
    counts = {"lexical": 0, "semantic": 0, "symbol": 0}
    for kind in kinds:
        counts[kind] += 1
    return counts


# -- without an index -------------------------------------------------------------------------------------------------


def _gather_by_text(request: GatherRequest, workspace: Workspace, warning: str) -> GatheredFiles:
    """Return the files and lines with the most words of the question; rare words count more."""
    stems = extract_stems(request.text)
    query = TextQuery(stems, includes=request.filter.include_paths, excludes=request.filter.exclude_paths)
    scan = workspace.text_search.scan(query) if stems else None
    if scan is None or not scan.files:
        reason = scan.reason if scan else "the question has no word to look for"
        engine = scan.engine if scan else "none"
        return GatheredFiles((), engine, "no index", _count_kinds(()), (warning,), reason)
    weights = _weigh_words(scan)
    scores = {file.path: _score_file(file, weights) for file in scan.files}
    ranked = sorted(scan.files, key=lambda file: (-scores[file.path], file.path))
    best = scores[ranked[0].path]
    relevant = [file for file in ranked if scores[file.path] >= request.relevance_min * best]
    shown = relevant[: request.files_max]
    next_files = tuple(file.path for file in relevant[request.files_max :][:NEXT_FILES])
    lines = workspace.text_search.keyword_lines(query, [TextPart(file.path, 0, 40) for file in shown], chars_max=200)
    files = []
    for file in shown:
        relevance = scores[file.path] / best
        files.append(FoundFile(file.path, round(relevance, 3), _rank_lines(lines[file.path], weights, relevance)))
    counts = _count_kinds("lexical" for file in files for _ in file.spots)
    return GatheredFiles(tuple(files), scan.engine, "no index", counts, (warning,), "", next_files)


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
    """Return the lines with the most words, best first."""
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
        lines: dict[int, str] = {}
        for place in file.spots:
            lines.update(enumerate(split_lines(place.text), place.span.first))
        return lines
