r"""PURE. Decisions of a text search: paths that match globs, keywords in lines, the order of files, and pages.

>>> GlobSet(["*.{ts,tsx}"]).matches("src/app.tsx"), GlobSet(["src/**"]).matches("lib/app.ts")
(True, False)
>>> overlap_texts(["error", "retry"])
('erroretry',)
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import NamedTuple

from context_engine.errors import InvalidArgument
from context_engine.model import TextFile, TextPart, TextQuery
from context_engine.repo import GlobMatcher
from context_engine.text import escape_literal, fold_case

ALTERNATIVES_MAX = 100
"""Globs that one glob with braces may become; more is a slip or an attack."""
LONG_FILE_BYTES = 8_000
"""A match in a file of this size counts half of one in a small file: about two screens of code."""
STAMP_CHARS = 8
"""Of the hash in a cursor: an old cursor that fits by chance is as unlikely as one in four thousand million."""

DEFINING = (
    "abstract class const constexpr data def define defmodule defp defun enum export fn fun func function impl interface "
    "let macro macro_rules! message mod module namespace object package private proc protected protocol pub public "
    "record service static struct sub trait type typedef union val var"
).split()
"""Words after which a line says what something is, in one language or the other."""

# -- which files --------------------------------------------------------------------------------------------------


class GlobSet(GlobMatcher):
    """Globs in gitignore notation, with braces: `src/`, `*.py`, `docs/**/*.{md,rst}`; a later `!glob` takes back."""

    def __init__(self, globs: Iterable[str]) -> None:
        super().__init__(part for glob in globs for part in expand_braces(glob.removeprefix("./").replace("\\", "/")))


def expand_braces(glob: str) -> list[str]:
    """A glob with braces as globs without.

    >>> expand_braces("*.{ts,tsx}"), expand_braces("a{b{c,d},e}"), expand_braces("{odd"), expand_braces("{one}")
    (['*.ts', '*.tsx'], ['abc', 'abd', 'ae'], ['{odd'], ['{one}'])

    Raises: InvalidArgument when there are too many.
    """
    done, waiting = [], [glob]
    while waiting:
        one = waiting.pop()
        inner = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if inner:
            waiting += [one[: inner.start()] + each + one[inner.end() :] for each in reversed(inner[1].split(","))]
        else:
            done.append(one)
        if len(done) + len(waiting) > ALTERNATIVES_MAX:
            raise InvalidArgument(
                f"{glob!r} stands for more than {ALTERNATIVES_MAX} globs", suggestion="Write fewer alternatives."
            )
    return sorted(dict.fromkeys(done))


# -- which keyword stands where -----------------------------------------------------------------------------------


Occurrence = tuple[str, int, int, int, str]
"""What a search tells of one place: file, line, column and offset in bytes, and the text that stands there."""


Marks = dict[tuple[int, int], tuple[int, int]]
"""Of one file: (line, keyword) -> (column, where the line begins), both in bytes. Plain, since there may be many."""


class KeywordMatch(NamedTuple):
    """One keyword on one line: the first place where it stands there. `start` is the byte at which the line begins."""

    line: int
    column: int
    keyword: int
    start: int


def overlap_texts(keywords: Iterable[str]) -> tuple[str, ...]:
    """Every text in which one keyword begins inside another and ends behind it.

    A search that tells what it finds one beside the other misses the second of such a pair, and nothing else. Searching
    for the joints too shows where that happens.

    >>> overlap_texts(['User', 'UserService']), overlap_texts(['abc', 'cab'])
    ((), ('abcab', 'cabc'))
    """
    known = set(keywords)
    found = {
        one + other[shared:]
        for one, other in permutations(sorted(known), 2)
        for shared in range(1, min(len(one), len(other)))
        if one.endswith(other[:shared])
    }
    return tuple(sorted(found - known))


def longest_first(keywords: Iterable[str]) -> tuple[str, ...]:
    """The patterns to search for, so that of several at one place the longest is told."""
    return tuple(escape_literal(word) for word in sorted(keywords, key=lambda word: (-len(word), word)))


def find_keywords(
    occurrences: Iterable[Occurrence], keywords: Sequence[str], *, case_sensitive: bool
) -> tuple[dict[str, Marks], set[str]]:
    """Each keyword once on each line, by file; and the files in which keywords overlap, to be looked at anew."""
    seen: dict[str, Marks] = defaultdict(dict)
    tangled: set[str] = set()
    inside: dict[str, list[tuple[int, int]]] = {}
    wanted = keywords if case_sensitive else [fold_case(word) for word in keywords]
    known = set(wanted)
    for path, line, column, offset, text in occurrences:
        within = inside.get(text)
        if within is None:
            plain = text if case_sensitive else fold_case(text)
            within = inside[text] = _within(plain, text, wanted) if plain in known else []
        marks = seen[path]
        if not within:
            tangled.add(path)
        for keyword, before in within:
            marks.setdefault((line, keyword), (column + before, offset - column + 1))
    for path in tangled:
        del seen[path]
    return seen, tangled


def sort_matches(marks: Marks) -> list[KeywordMatch]:
    """The finds of a file by line and column."""
    return sorted(KeywordMatch(line, column, keyword, start) for (line, keyword), (column, start) in marks.items())


def _within(plain: str, text: str, wanted: Sequence[str]) -> list[tuple[int, int]]:
    """(keyword, bytes before it) for each keyword that stands in a text; folding keeps the number of characters."""
    places = [(number, plain.find(word)) for number, word in enumerate(wanted)]
    return [(number, len(text[:at].encode())) for number, at in places if at >= 0]


def limit_matches(rows: Sequence[KeywordMatch], most: int) -> list[KeywordMatch]:
    """At most so many rows, in order: of each keyword the first, then of each the second, and so on.

    >>> [(row.line, row.keyword) for row in limit_matches([KeywordMatch(1, 1, 0, 0), KeywordMatch(2, 1, 0, 0), KeywordMatch(3, 1, 1, 0)], 2)]
    [(1, 0), (3, 1)]
    """
    if len(rows) <= most:
        return list(rows)
    seen: Counter[int] = Counter()
    turns: list[tuple[int, KeywordMatch]] = []
    for row in rows:
        turns.append((seen[row.keyword], row))
        seen[row.keyword] += 1
    return sorted(row for _, row in sorted(turns)[:most])


# -- which file comes first ---------------------------------------------------------------------------------------


def definition_pattern(queries: Iterable[str]) -> str:
    r"""A pattern for lines that define one of these names; empty when none of them is a name.

    >>> import re
    >>> bool(re.search(definition_pattern(["login"]), "async def login(user):")), definition_pattern(["a b"])
    (True, '')
    """
    names = [query for query in queries if re.fullmatch(r"\w+", query) and not query.isdigit()]
    if not names:
        return ""
    words = "|".join(re.escape(word) for word in DEFINING)
    return rf"(?:^|\s)(?:{words})\s+(?:\([^()]*\)\s*|[\w.]+[.:])?(?:{'|'.join(names)})\b"


def rank_files(files: Iterable[TextFile], queries: Sequence[str]) -> list[TextFile]:
    """The files that match best first: the most distinct queries, then a definition, then the path, then the density.

    A path counts when it holds a query; density is matching lines, of which each further one and each further page of
    the file weighs less.
    """
    words = [fold_case(query) for query in queries]

    def place(file: TextFile) -> tuple[int, bool, bool, float, str]:
        distinct = sum(count > 0 for count in file.by_query)
        in_path = any(word in fold_case(file.path) for word in words)
        return -distinct, not file.defines, not in_path, -density(file.lines, file.size_bytes), file.path

    return sorted(files, key=place)


def density(lines: int, size_bytes: int) -> float:
    """How much a file is about what was looked for, from 0 to 1.

    >>> [round(density(*each), 2) for each in ((1, 1_000), (5, 1_000), (5, 100_000))]
    [0.47, 0.82, 0.27]
    """
    return lines / (lines + 1 + size_bytes / LONG_FILE_BYTES)


def sort_by_keywords(files: Iterable[TextFile]) -> list[TextFile]:
    """Files with the most distinct keywords first, then with the most matches, then by path."""
    return sorted(files, key=lambda each: (-sum(n > 0 for n in each.by_query), -sum(each.by_query), each.path))


# -- pages --------------------------------------------------------------------------------------------------------


def select_page(files: Iterable[TextFile], start: int, limit: int) -> list[TextPart]:
    """The matches `start` to `start + limit` of files in this order, as parts of them."""
    parts: list[TextPart] = []
    for file in files:
        if limit <= 0:
            break
        if start < file.lines:
            take = min(limit, file.lines - start)
            parts.append(TextPart(file.path, start, take))
            limit -= take
        start = max(0, start - file.lines)
    return parts


def hash_search(query: TextQuery, files: Iterable[TextFile]) -> str:
    """What a cursor remembers of a search: the question, and the files that answer it in their order."""
    told = [repr(query), *(f"{file.path}\0{file.lines}" for file in files)]
    return hashlib.sha256("\n".join(told).encode("utf-8", "surrogatepass")).hexdigest()[:STAMP_CHARS]


def format_cursor(start: int, stamped: str) -> str:
    """Where to go on, for the caller to send back.

    >>> format_cursor(50, "0123abcd"), parse_cursor("0123abcd-50", "0123abcd")
    ('0123abcd-50', 50)
    """
    return f"{stamped}-{start}"


def parse_cursor(sent: str, stamped: str) -> int:
    """Where a cursor says to go on; 0 without one. Raises: InvalidArgument when it is of another search or state."""
    if not sent:
        return 0
    made = re.fullmatch(r"([0-9a-f]{8})-(\d{1,12})", sent.strip())
    if not made:
        raise InvalidArgument("cursor is none of ours", suggestion="Leave it out to begin anew.")
    if made[1] != stamped:
        raise InvalidArgument(
            "cursor belongs to another search, or the files have changed since",
            suggestion="Repeat the search without it; keep all other arguments the same from page to page.",
        )
    return int(made[2])
