"""What a question finds, gathered by file: the hits of a search, or without an index the lines that hold its words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

from context_engine.context.workspace import Workspace
from context_engine.errors import NotIndexed, TooLarge
from context_engine.index.file_roles import role_of
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

SPOTS_PER_FILE = 6
"""Chunks of one file that are weighed against each other; the seventh best tells little that the others do not."""
NEXT_FILES = 3
"""Files that are named because they come next."""
WORDS_MAX = 12
"""Words of a question that a text search looks for: more are an essay, and its first words say what it is about."""
WORD_CHARS_MIN = 3
STEM_CHARS_MIN = 4
"""Two letters off a longer word make most of its forms meet: hashed, hashes, hashing."""
LINES_MAX = 4
"""Lines of one file that a text search shows: those that hold most of what is rare."""
ASIDE_FACTOR = 0.6
"""Documents and tests repeat the words of the code that they are about."""
SIGNALS: Mapping[str, str] = {
    **dict.fromkeys(("static", "static3", "static_card", "model", "model3", "model_card"), "semantic"),
    **dict.fromkeys(("symbol", "mention", "name", "def"), "symbol"),
    "importance": "structure",
}
"""Which kind of signal an addend of a score is; every other one is lexical."""


class FoundPlace(NamedTuple):
    """Lines that were found, what they are worth beside the best (0-1), and of which symbol they are."""

    span: LineSpan
    relevance: float
    symbol: str = ""
    text: str = ""  # what stands there, when it is known


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file with its spots, best first."""

    path: RelPath
    relevance: float
    spots: tuple[FoundPlace, ...]
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class GatheredFiles:
    """Files, best first. `sources` counts the spots that each kind of signal helped to find."""

    files: tuple[FoundFile, ...]
    engine: str
    freshness: str
    sources: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    reason: str = ""  # why there are none
    next_files: tuple[str, ...] = ()  # the best of those beyond `files_max`


@dataclass(frozen=True, slots=True)
class GatherRequest:
    """A question, and the least and most of an answer: `relevance_min` is relative to the best hit (0-1)."""

    text: str
    files_max: int
    filter: Filter
    relevance_min: float = 0.0


def gather_files(asked: GatherRequest, workspace: Workspace) -> GatheredFiles:
    """What is found, by the index where there is one. Raises: as `Engine.search` and `Engine.scan`."""
    query = Query(asked.text, asked.files_max + NEXT_FILES, asked.filter, asked.relevance_min, chunks_per_file=1)
    try:
        answer = workspace.search.find(query)
    except NotIndexed as error:
        return _by_text(asked, workspace, f"{error.message}, so only words were looked for: {error.suggestion}")
    if answer.hits or "building" not in answer.freshness:
        return _by_search(asked, answer, workspace)
    return _by_text(asked, workspace, f"{answer.freshness}, so only words were looked for")


# -- with an index ----------------------------------------------------------------------------------------------------


def _by_search(asked: GatherRequest, answer: Answer, workspace: Workspace) -> GatheredFiles:
    """The best files, each with its best chunks: a second look into these files alone, which the first named by one chunk."""
    firsts = {hit.chunk.path: hit for hit in reversed(answer.hits)}  # of a file the best one
    paths = list(dict.fromkeys(hit.chunk.path for hit in answer.hits))
    shown, next_files = paths[: asked.files_max], paths[asked.files_max :]
    hits: dict[RelPath, list[Hit]] = {path: [firsts[path]] for path in shown}
    only = Filter(include_paths=tuple(map(glob_for_path, shown)))
    query = Query(asked.text, len(shown) * SPOTS_PER_FILE, only, chunks_per_file=SPOTS_PER_FILE)
    for hit in workspace.search.find(query).hits if shown else ():
        if hit.chunk.path in hits and hit.chunk.id != hits[hit.chunk.path][0].chunk.id:
            hits[hit.chunk.path].append(hit)
    best = answer.hits[0].score if answer.hits else 1.0
    files = tuple(_found(path, hits[path], best) for path in shown)
    kinds = (kind for path in shown for hit in hits[path] for kind in _kinds(hit))
    return GatheredFiles(files, answer.engine, answer.freshness, _counted(kinds), (), answer.reason, tuple(next_files))


def glob_for_path(path: str) -> str:
    """The glob that means one path, and those that differ from it in signs that globs give a meaning to.

    >>> glob_for_path("src/[id]/a b.ts")
    '/src/?id?/a b.ts'
    """
    return "/" + re.sub(r"[\[\]*?!#{},\\]| +$", "?", path)


def _found(path: RelPath, hits: Sequence[Hit], best: float) -> FoundFile:
    """A file with its chunks; none of the further ones is worth more than the first."""
    first = hits[0].score / best
    spots = tuple(
        FoundPlace(
            each.chunk.span,
            round(min(first, first * each.score / hits[0].score), 3),
            each.chunk.title if each.chunk.title != path else "",
            each.chunk.text,
        )
        for each in hits
    )
    return FoundFile(path, spots[0].relevance, spots, any(each.stale for each in hits))


def _kinds(hit: Hit) -> set[str]:
    return {SIGNALS.get(name, "lexical") for name, share in hit.why.items() if share > 0} - {"structure"}


def _counted(kinds) -> dict[str, int]:
    counts = {"lexical": 0, "semantic": 0, "symbol": 0}
    for kind in kinds:
        counts[kind] += 1
    return counts


# -- without one ------------------------------------------------------------------------------------------------------


def _by_text(asked: GatherRequest, workspace: Workspace, warning: str) -> GatheredFiles:
    """The files that hold most of the words, the rarer a word the more it counts, and the lines that do."""
    stems = extract_stems(asked.text)
    query = TextQuery(stems, includes=asked.filter.include_paths, excludes=asked.filter.exclude_paths)
    scan = workspace.text_search.scan(query) if stems else None
    if scan is None or not scan.files:
        reason = scan.reason if scan else "the question has no word to look for"
        return GatheredFiles((), scan.engine if scan else "none", "no index", _counted(()), (warning,), reason)
    rarity = _rarity(scan)
    worth = {file.path: _worth(file, rarity) for file in scan.files}
    ranked = sorted(scan.files, key=lambda file: (-worth[file.path], file.path))
    best = worth[ranked[0].path]
    good = [file for file in ranked if worth[file.path] >= asked.relevance_min * best]
    shown = good[: asked.files_max]
    next_files = tuple(file.path for file in good[asked.files_max :][:NEXT_FILES])
    lines = workspace.text_search.keyword_lines(query, [TextPart(file.path, 0, 40) for file in shown], chars_max=200)
    files = tuple(
        FoundFile(
            file.path, round(worth[file.path] / best, 3), _spots(lines[file.path], rarity, worth[file.path] / best)
        )
        for file in shown
    )
    counts = _counted("lexical" for file in files for _ in file.spots)
    return GatheredFiles(files, scan.engine, "no index", counts, (warning,), "", next_files)


def extract_stems(text: str) -> tuple[str, ...]:
    """The beginnings of the words that tell something, lower case, each once.

    >>> extract_stems("How are passwords hashed, and the hashes checked?")
    ('passwor', 'hash', 'check')
    """
    telling = (
        word.lower() for word in split_words(text) if word.lower() not in STOP_WORDS and len(word) >= WORD_CHARS_MIN
    )
    return tuple(unique(word[: max(STEM_CHARS_MIN, len(word) - 2)] for word in telling)[:WORDS_MAX])


def _rarity(scan: Scan) -> list[float]:
    """What each word is worth: the fewer of the files hold it, the more."""
    holding = [sum(bool(file.by_query[number]) for file in scan.files) for number in range(len(scan.files[0].by_query))]
    return [log(1 + scan.files_searched / max(1, count)) for count in holding]


def _worth(file: TextFile, rarity: Sequence[float]) -> float:
    """Of a file: each word once, a little more where they stand close together, less in what is not the program itself."""
    held = sum(value for value, count in zip(rarity, file.by_query, strict=True) if count)
    density = 1 + 1 / (1 + log(1 + file.size_bytes / 1_000))
    return held * density * (1.0 if role_of(file.path, "code") == "source" else ASIDE_FACTOR)


def _spots(lines: Sequence[TextLine], rarity: Sequence[float], relevance: float) -> tuple[FoundPlace, ...]:
    """The lines that hold most, best first."""
    by_line: dict[int, set[int]] = defaultdict(set)
    for line in lines:
        by_line[line.number].add(line.query)
    worth = {number: sum(rarity[query] for query in held) for number, held in by_line.items()}
    ranked = sorted(worth, key=lambda number: (-worth[number], number))[:LINES_MAX]
    return tuple(
        FoundPlace(LineSpan(number, number), round(relevance * worth[number] / worth[ranked[0]], 3))
        for number in ranked
    )


def read_lines(file: FoundFile, workspace: Workspace) -> dict[int, str]:
    """The lines of a file by number; of one that is too large to be read whole those that were found.

    Raises: FileNotFound, BinaryFile, AccessDenied.
    """
    try:
        return dict(enumerate(split_lines(workspace.files.read(file.path).text), 1))
    except TooLarge:
        return {
            number: line for spot in file.spots for number, line in enumerate(split_lines(spot.text), spot.span.first)
        }
