"""What a question finds, by file: what the localizer finds, or without an index the lines that contain its words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import log

from context_engine.context.localizer import (
    NEXT_FILES,
    ChangePredictor,
    FoundFile,
    FoundPlace,
    GatheredFiles,
    GatherRequest,
    count_kinds,
    locate_files,
)
from context_engine.context.workspace import Workspace
from context_engine.errors import NotIndexed, TooLarge
from context_engine.index import role_of
from context_engine.model import Scan, TextFile, TextLine, TextPart, TextQuery
from context_engine.text import STOP_WORDS, LineSpan, split_lines, split_words, unique

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


def gather_files(request: GatherRequest, workspace: Workspace, predict: ChangePredictor | None = None) -> GatheredFiles:
    """Find the files of a question, by the index if there is one. Raises: as `Engine.search` and `Engine.scan`."""
    try:
        found, can_answer = locate_files(request, workspace, predict)
    except NotIndexed as error:
        return _gather_by_text(
            request, workspace, f"{error.message}, so only words were looked for: {error.suggestion}"
        )
    if can_answer:
        return found
    return _gather_by_text(request, workspace, f"{found.freshness}, so only words were looked for")


# -- without an index -------------------------------------------------------------------------------------------------


def _gather_by_text(request: GatherRequest, workspace: Workspace, warning: str) -> GatheredFiles:
    """Return the files and lines with the most words of the question; rare words count more."""
    stems = extract_stems(request.text)
    if not stems:
        return _found_nothing("none", warning, "the question has no word to look for")
    query = TextQuery(stems, includes=request.filter.include_paths, excludes=request.filter.exclude_paths)
    scan = workspace.text_search.scan(query)
    if not scan.files:
        return _found_nothing(scan.engine, warning, scan.reason)
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
        sources=count_kinds("lexical" for file in files for _ in file.spots),
        warnings=(warning,),
        next_files=tuple(others[:NEXT_FILES]),
        curve=tuple(round(shares[path], 4) for path in relevant),
    )


def _found_nothing(engine: str, warning: str, reason: str) -> GatheredFiles:
    return GatheredFiles((), engine, NO_INDEX, count_kinds(()), (warning,), reason)


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
