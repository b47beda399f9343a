"""Text search in three steps: choose files, count matches in each, and read the lines that are shown.

Counting comes first, so that totals are exact and only shown lines are in memory.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

from context_engine.errors import InvalidArgument, SearchTimeout
from context_engine.model import Progress, RelPath, Scan, TextFile, TextLine, TextPart, TextQuery
from context_engine.repo import (
    FileLister,
    GrepRequest,
    JointService,
    LineStart,
    LineWindow,
    MatchedLine,
    Root,
    SearchDeadline,
    TextEngine,
    Walk,
    WalkedFile,
    qualify,
    qualify_rows,
    read_lines_at,
)
from context_engine.search.gram_index import GramIndex
from context_engine.search.gram_parts import any_of, factors_of, factors_of_text
from context_engine.search.text_search import GlobSet, definition_pattern, limit_matches, rank_by_words
from context_engine.secrets import RedactedDocuments
from context_engine.text import escape_literal, find_near_words

PATTERN_CHARS_MAX = 8_000
"""All queries of one search; Windows takes 32,767 characters for a whole command line."""
DEFINING_FILES_MAX = 2_000
"""A word in more files is not a name whose definition is searched."""
KEPT = 32
"""Cached answers and choices of files; each is a few hundred kilobytes at most."""
LISTING_S_MAX = 40.0
"""The first list of 86,000 files takes 4 s of a processor; with the search itself this is what clients wait for."""
NEAR_MAX = 3
UNSEARCHED = ("ignored", "binary", "sensitive", "unreadable")
"""Reasons for not searching a file that are reported."""


class _CachedScan(NamedTuple):
    """An answer, the files that it is about, and those of them that were read for it."""

    listing: Walk
    files: tuple[WalkedFile, ...]
    candidates: tuple[WalkedFile, ...]
    scan: Scan


class TextScanner(JointService):
    """Searches the text of one workspace, or of several. Thread-safe. `engine` is called at the first search."""

    def __init__(
        self,
        root: Root,
        lister: FileLister,
        engine: Callable[[], TextEngine],
        texts: RedactedDocuments | None = None,
        grams: GramIndex | None = None,
    ) -> None:
        """`texts` remembers where the secrets of files are, `grams` which files may match."""
        self._root = root
        self._lister = lister
        self._find_engine = engine
        self._texts = texts or RedactedDocuments()
        self._grams = grams
        self._lock = threading.Lock()
        self._answers: dict[tuple[TextQuery, bool], _CachedScan] = {}
        self._choices: dict[tuple[Any, ...], tuple[Walk, tuple[WalkedFile, ...]]] = {}

    def scan(
        self,
        query: TextQuery,
        *,
        definitions: bool = False,
        progress: Callable[[Progress], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> Scan:
        """Return which files match and how often, exactly. `definitions`: also which of them define a searched name.

        Raises: InvalidArgument (pattern, globs), InvalidPath, FileNotFound, AccessDenied, SearchTimeout, Cancelled.
        """
        if self.joined:
            ask = partial(TextScanner.scan, definitions=definitions, progress=progress, cancel=cancel)
            scans = self.ask_owners([query.under], lambda one, own: ask(one, query=replace(query, under=own[0] or ".")))
            return _join_scans(scans)
        on_progress = progress or (lambda _: None)
        under = self._check_query(query)
        on_progress(Progress("listing", 0, 0))
        listing = self._lister.listing(SearchDeadline.of(cancel, LISTING_S_MAX).check)
        patience = SearchDeadline.of(cancel)  # the first list of a large workspace is not the fault of the pattern
        files = self._choose_files(listing, query, under)
        known = self._answers.get((query, definitions))
        if known and known.files == files and self._lister.is_unchanged(known.listing, known.candidates):
            return known.scan
        on_progress(Progress("searching", 0, len(files)))
        candidates = self._narrow(query, listing, files)
        lines, by_query, is_complete = self._count_lines([file.path for file in candidates], query, patience)
        defined = self._find_defining(query, list(lines), patience) if definitions else {}
        found = tuple(
            TextFile(path, size, lines[path], tuple(by_query[path]), path in defined, self._lister.encoding_of(path))
            for path, size, _ in candidates
            if path in lines
        )
        reason, next_step = ("", "") if found else self._explain_no_match(query, listing, files, under)
        scan = Scan(found, len(files), self._engine.name, is_complete, under, reason, next_step)
        with self._lock:
            _keep(self._answers, (query, definitions), _CachedScan(listing, files, candidates, scan))
        return scan

    def lines(
        self,
        query: TextQuery,
        parts: Sequence[TextPart],
        *,
        context: int = 0,
        chars_max: int = 300,
        cancel: threading.Event | None = None,
    ) -> dict[RelPath, list[TextLine]]:
        """Return the lines of some matches with `context` lines on either side, each line once. Raises: as `scan`."""
        if self.joined:
            ask = partial(TextScanner.lines, query=query, context=context, chars_max=chars_max, cancel=cancel)
            return self._ask_for_lines(parts, lambda one, own: ask(one, parts=own))
        patience = SearchDeadline.of(cancel)
        request = _build_request(query)
        most_taken = max((part.take for part in parts), default=0)
        paths_by_most: dict[int, list[str]] = defaultdict(list)  # so that one long file does not slow all
        for part in parts:
            paths_by_most[part.skip + part.take if part.skip else most_taken].append(part.path)
        by_path: dict[str, list[MatchedLine]] = defaultdict(list)
        for most, paths in paths_by_most.items():
            for place in self._engine.places(paths, request, patience, context=context, most=most):
                by_path[place.path].append(place)
        return {part.path: self._read_matches(part, by_path[part.path], context, chars_max) for part in parts}

    def keyword_lines(
        self, query: TextQuery, parts: Sequence[TextPart], *, chars_max: int, cancel: threading.Event | None = None
    ) -> dict[RelPath, list[TextLine]]:
        """Return the first lines of some files with each keyword, one row for each pair. Raises: as `scan`."""
        if self.joined:
            ask = partial(TextScanner.keyword_lines, query=query, chars_max=chars_max, cancel=cancel)
            return self._ask_for_lines(parts, lambda one, own: ask(one, parts=own))
        patience, paths = SearchDeadline.of(cancel), [part.path for part in parts]
        most = max((part.take for part in parts), default=0)
        found: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
        for keyword, text in enumerate(query.queries):
            for place in self._engine.places(paths, _build_request(query, text), patience, most=most):
                found[place.path].append((place.line, place.column, keyword, place.offset))
        shown: dict[RelPath, list[TextLine]] = {}
        for part in parts:
            rows = limit_matches(sorted(found[part.path]), part.take)
            read = self._read(part.path, [LineStart(offset, column) for _, column, _, offset in rows], chars_max)
            shown[part.path] = [
                TextLine(line, seen.column, seen.text, keyword)
                for (line, _, keyword, _), seen in zip(rows, read, strict=False)
            ]
        return shown

    def find_by_words(self, words: Mapping[str, float], paths: Sequence[str], *, wait_s: float) -> list[str]:
        """Return which of some files hold most of some words by their weights, best first; no index is needed.

        Words for which the time does not suffice do not count. Raises: AccessFailed.
        """
        patience = SearchDeadline.of(None, wait_s)
        found: list[tuple[float, Mapping[str, int]]] = []
        with suppress(SearchTimeout):
            for word, weight in words.items():
                request = GrepRequest((escape_literal(word),), ignore_case=True)
                lines, _ = self._engine.counts(paths, request, patience)
                in_path = {path: lines.get(path, 0) + 1 for path in paths if word in path.lower()}
                found.append((weight, lines | in_path))
        return rank_by_words(found, len(paths))

    @cached_property
    def _engine(self) -> TextEngine:
        return self._find_engine()

    # -- files --

    def _check_query(self, query: TextQuery) -> str:
        """Return the folder or file to search in, "" for all.

        Raises: InvalidArgument, InvalidPath, FileNotFound, AccessDenied.
        """
        if not query.queries or not all(query.queries):
            raise InvalidArgument("query is empty", suggestion="Say what to look for.")
        if any("\n" in text or "\r" in text for text in query.queries):
            raise InvalidArgument(
                "a query contains a line end, but a search goes line by line",
                suggestion="Search for text on one line, then read the lines around it.",
            )
        if any(char == "\0" or "\ud800" <= char <= "\udfff" for text in query.queries for char in text):
            raise InvalidArgument("a query contains a character that is not text", suggestion="Leave it out.")
        if sum(map(len, query.queries)) > PATTERN_CHARS_MAX:
            raise InvalidArgument(
                f"the queries have more than {PATTERN_CHARS_MAX:,} characters", suggestion="Ask for fewer at once."
            )
        under = str(self._root.rel(query.under or "."))
        return "" if under == "." else under

    def _choose_files(self, listing: Walk, query: TextQuery, under: str) -> tuple[WalkedFile, ...]:
        """Return the listed files that a query is about; the last choices are cached with their listing."""
        key = (query.globs_from_under, under, query.includes, query.excludes)
        known = self._choices.get(key)
        if known and known[0] is listing:
            return known[1]
        files = listing.entries
        if under:
            files = tuple([file for file in files if file.path == under or file.path.startswith(f"{under}/")])
        cut = 0
        if query.globs_from_under and under and files and files[0].path != under:
            cut = len(under) + 1
        for globs, is_wanted in ((query.includes, True), (query.excludes, False)):
            if globs:
                matches = GlobSet(globs, (file.path for file in listing.entries)).matches
                files = tuple([file for file in files if matches(file.path[cut:]) == is_wanted])
        with self._lock:
            _keep(self._choices, key, (listing, files))
        return files

    def _narrow(self, query: TextQuery, listing: Walk, files: tuple[WalkedFile, ...]) -> tuple[WalkedFile, ...]:
        """Return the files that may match, by what the queries say and the index of trigrams knows."""
        if self._grams is None:
            return files
        self._grams.wake(listing)
        read = factors_of if query.regex else factors_of_text
        factor = any_of(map(read, query.queries))
        if factor is None:
            return files
        return self._grams.narrow(listing, files, factor)

    def _explain_no_match(
        self, query: TextQuery, listing: Walk, files: tuple[WalkedFile, ...], under: str
    ) -> tuple[str, str]:
        if files:
            left_out = _describe_skipped(listing, under)
            return f"no line of the {len(files):,} searched files matches{left_out}", _suggest_other_words(query)
        if under and (why := self._lister.why_not(under)):
            detail = f" ({why.detail})" if why.detail else ""
            return f"{under} is left out: {why.reason}{detail}", "read opens a single file."
        if query.includes or query.excludes:
            names = sorted({file.path.rpartition("/")[2] for file in listing.entries})
            near = [name for glob in query.includes for name in find_near_words(glob.rpartition("/")[2], names)]
            step = "list_directory lists the files."
            if near:
                step = f"Did you mean {', '.join(near[:NEAR_MAX])}?"
            return "no file of the workspace passes the globs", step
        return "there is no text file here", "list_directory lists the files."

    # -- several repositories --

    def _ask_for_lines(
        self, parts: Sequence[TextPart], ask: Callable[[Self, list[TextPart]], dict[RelPath, list[TextLine]]]
    ) -> dict[RelPath, list[TextLine]]:
        """Ask each repository for the lines of its own files; return them in the order of `parts`."""
        answers = self.ask_owners(parts, ask)
        found = {qualify(name, path): lines for name, own in answers.items() for path, lines in own.items()}
        return {part.path: found.get(part.path, []) for part in parts}

    # -- counting --

    def _count_lines(
        self, paths: Sequence[str], query: TextQuery, patience: SearchDeadline
    ) -> tuple[Mapping[str, int], Mapping[str, list[int]], bool]:
        """Return path -> matching lines, path -> lines of each query, and whether every file could be read."""
        lines, is_complete = self._engine.counts(paths, _build_request(query), patience)
        if len(query.queries) == 1:
            return lines, {path: [count] for path, count in lines.items()}, is_complete
        by_query: dict[str, list[int]] = {path: [0] * len(query.queries) for path in lines}
        for number, text in enumerate(query.queries):
            counts, _ = self._engine.counts(list(lines), _build_request(query, text), patience)
            for path, count in counts.items():
                by_query[path][number] = count
        return lines, by_query, is_complete

    def _find_defining(self, query: TextQuery, paths: list[str], patience: SearchDeadline) -> Mapping[str, int]:
        names = "" if query.regex else definition_pattern(query.queries)
        if not names or not 0 < len(paths) <= DEFINING_FILES_MAX:
            return {}
        return self._engine.counts(paths, GrepRequest((names,), not query.case_sensitive), patience)[0]

    # -- reading lines --

    def _read_matches(
        self, part: TextPart, places: Sequence[MatchedLine], context: int, chars_max: int
    ) -> list[TextLine]:
        matches = [place for place in places if place.column][part.skip : part.skip + part.take]
        if not matches:
            return []
        near = {line for match in matches for line in range(match.line - context, match.line + context + 1)}
        wanted = {match.line for match in matches}
        rows = [place for place in places if place.line in near]
        # A match that another page shows is context here.
        spots = [LineStart(place.offset, place.column if place.line in wanted else 0) for place in rows]
        read = self._read(part.path, spots, chars_max)
        return [TextLine(place.line, seen.column, seen.text) for place, seen in zip(rows, read, strict=False)]

    def _read(self, path: str, spots: list[LineStart], chars_max: int) -> list[LineWindow]:
        try:
            redact = partial(self._texts.of, path=path)
            return read_lines_at(self._root.confined, path, spots, chars_max, redact)
        except OSError:  # deleted meanwhile: the totals still count it
            return []


def _join_scans(scans: Mapping[str, Scan]) -> Scan:
    """Return what was found in some repositories, by name; why nothing was is what the first one says."""
    files = qualify_rows({name: scan.files for name, scan in scans.items()})
    name, first = next(iter(scans.items()))
    return replace(
        first,
        files=tuple(sorted(files, key=lambda file: file.path)),
        files_searched=sum(scan.files_searched for scan in scans.values()),
        is_complete=all(scan.is_complete for scan in scans.values()),
        under=qualify(name, first.under) if len(scans) == 1 else "",
        reason="" if files else first.reason,
        next_step="" if files else first.next_step,
    )


def _build_request(query: TextQuery, text: str = "") -> GrepRequest:
    texts = (text,) if text else query.queries
    return GrepRequest(texts if query.regex else tuple(map(escape_literal, texts)), not query.case_sensitive)


def _describe_skipped(listing: Walk, under: str) -> str:
    """Return what was not searched, in brackets; empty when everything was."""
    inside = f"{under}/" if under else ""
    rows = [row for row in listing.skipped if row.path.startswith(inside)]
    counts = Counter(row.reason for row in rows)
    ignored = sorted((row.path for row in rows if row.reason == "ignored"), key=lambda path: (path.count("/"), path))
    phrases = [f"{counts[reason]:,} {reason}" for reason in UNSEARCHED if counts.get(reason)]
    if ignored:
        phrases[0] += f" such as {ignored[0]}"
    return f" (left out: {', '.join(phrases)})" if phrases else ""


def _suggest_other_words(query: TextQuery) -> str:
    steps = []
    if not query.regex and any(set(text) & set("\\|*+?^$[") for text in query.queries):
        steps.append("For a regular expression: search_text with regex: true.")
    if query.case_sensitive:
        steps.append("Search without regard to case.")
    if query.includes or query.excludes or query.under not in ("", "."):
        steps.append("Search the whole workspace: leave out the folder and the globs.")
    return " ".join(steps) or "Search for a shorter part of the word, or ask search_code in words."


def _keep(kept: dict[Any, Any], key: object, value: object) -> None:
    """Put a value into a small cache that drops the oldest."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > KEPT:
        del kept[next(iter(kept))]
