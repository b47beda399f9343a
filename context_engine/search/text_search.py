r"""PURE. Decisions of a text search: paths that match globs, keywords in lines, the order of files, and pages.

>>> GlobSet(["*.{ts,tsx}"]).matches("src/app.tsx"), GlobSet(["src/**"]).matches("lib/app.ts")
(True, False)
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from context_engine.errors import InvalidArgument
from context_engine.model import TextFile, TextPart, TextQuery
from context_engine.repo import GlobMatcher
from context_engine.text import fold_case, hash_page

ALTERNATIVES_MAX = 100
"""Globs that one glob with braces may become; more is a mistake or an attack."""
LONG_FILE_BYTES = 8_000
"""Two screens of code: a match in a file of this size counts half as much as one in a small file."""

DEFINING = (
    "abstract class const constexpr data def define defmodule defp defun enum export fn fun func function impl "
    "interface let macro macro_rules! message mod module namespace object package private proc protected protocol pub "
    "public record service static struct sub trait type typedef union val var"
).split()
"""Words that begin a definition in some language."""

# -- which files --------------------------------------------------------------------------------------------------


class GlobSet(GlobMatcher):
    """Globs in gitignore notation, with braces: `src/`, `*.py`, `docs/**/*.{md,rst}`; a `!glob` excludes.

    A part of a glob that is the name of a file or folder in one of `paths` means it, whatever brackets it has.

    >>> GlobSet(["app/[id]/**"], ["app/[id]/page.tsx", "app/i/page.tsx"]).matches("app/[id]/page.tsx")
    True
    """

    def __init__(self, globs: Iterable[str], paths: Iterable[str] = ()) -> None:
        names = {name for path in paths if _MARKS.search(path) for name in path.split("/")}
        super().__init__(one for glob in globs for one in expand_braces(_quote_names(glob, names)))


_MARKS = re.compile(r"[\\*?\[\]{},!#]")


def _quote_names(glob: str, names: Collection[str]) -> str:
    parts = glob.removeprefix("./").replace("\\", "/").split("/")
    return "/".join(_MARKS.sub(r"\\\g<0>", part) if part in names else part for part in parts)


def expand_braces(glob: str) -> list[str]:
    """Expand a glob with braces into globs without.

    >>> expand_braces("*.{ts,tsx}"), expand_braces("a{b{c,d},e}"), expand_braces("{odd"), expand_braces("{one}")
    (['*.ts', '*.tsx'], ['abc', 'abd', 'ae'], ['{odd'], ['{one}'])

    Raises: InvalidArgument when there are too many.
    """
    done, waiting = [], [glob]
    while waiting:
        one = waiting.pop()
        inner = re.search(r"(?<!\\)\{((?:\\.|[^{}\\])*,(?:\\.|[^{}\\])*)\}", one)
        if inner:
            head, tail = one[: inner.start()], one[inner.end() :]
            waiting += [head + alternative + tail for alternative in reversed(re.split(r"(?<!\\),", inner[1]))]
        else:
            done.append(one)
        if len(done) + len(waiting) > ALTERNATIVES_MAX:
            raise InvalidArgument(
                f"{glob!r} stands for more than {ALTERNATIVES_MAX} globs", suggestion="Write fewer alternatives."
            )
    return sorted(dict.fromkeys(done))


# -- keywords on lines --------------------------------------------------------------------------------------------


def limit_matches(rows: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """Return at most so many rows (line, column, keyword, ...), in order: the first of each keyword, then the second...

    >>> limit_matches([(1, 1, 0), (2, 1, 0), (3, 1, 1)], 2)
    [(1, 1, 0), (3, 1, 1)]
    """
    seen: Counter[int] = Counter()
    turns: list[tuple[int, tuple[int, ...]]] = []
    for row in rows:
        turns.append((seen[row[2]], row))
        seen[row[2]] += 1
    return sorted(row for _, row in sorted(turns)[:most])


# -- the order of files -------------------------------------------------------------------------------------------


def definition_pattern(queries: Iterable[str]) -> str:
    r"""Return a pattern for lines that define one of these names; empty when none of them is a name.

    >>> import re
    >>> bool(re.search(definition_pattern(["login"]), "async def login(user):")), definition_pattern(["a b"])
    (True, '')
    """
    names = [query for query in queries if re.fullmatch(r"\w+", query) and not query.isdigit()]
    if not names:
        return ""
    words = "|".join(re.escape(word) for word in DEFINING)
    # ripgrep takes twice as long for \b, which it cannot decide byte by byte in a text that is not ASCII.
    return rf"(?:^|\s)(?:{words})\s+(?:\([^()]*\)\s*|[\w.]+[.:])?(?:{'|'.join(names)})(?:\W|$)"


def rank_files(files: Iterable[TextFile], queries: Sequence[str]) -> list[TextFile]:
    """Sort files: by the number of distinct queries, then by a definition, then by the path, then by density.

    A path counts when it contains a query. Density is the number of matching lines, of which each further one counts
    less, as does each further page of the file.
    """
    words = [fold_case(query) for query in queries]

    def place(file: TextFile) -> tuple[int, bool, bool, float, str]:
        distinct = sum(count > 0 for count in file.by_query)
        in_path = any(word in fold_case(file.path) for word in words)
        return -distinct, not file.defines, not in_path, -density(file.lines, file.size_bytes), file.path

    return sorted(files, key=place)


def rank_by_words(found: Sequence[tuple[float, Mapping[str, int]]], files: int) -> list[str]:
    """Return the files that hold the most of some words, best first: (weight, matching lines by file) for each word.

    A word counts by its weight and by how few of all `files` hold it, each further line of a file less.

    >>> rank_by_words([(1.0, {"a.py": 9, "b.py": 1}), (1.0, {"b.py": 1})], files=100)
    ['b.py', 'a.py']
    """
    scores: dict[str, float] = defaultdict(float)
    for weight, lines in found:
        rarity = math.log1p(files / (len(lines) + 1))
        for path, count in lines.items():
            scores[path] += weight * rarity * count / (count + 1)
    return sorted(scores, key=lambda path: (-scores[path], path))


def density(lines: int, size_bytes: int) -> float:
    """Return how much a file is about the queries, from 0 to 1.

    >>> [round(density(*sizes), 2) for sizes in ((1, 1_000), (5, 1_000), (5, 100_000))]
    [0.47, 0.82, 0.27]
    """
    return lines / (lines + 1 + size_bytes / LONG_FILE_BYTES)


def sort_by_keywords(files: Iterable[TextFile]) -> list[TextFile]:
    """Sort files: by the number of distinct keywords, then by the number of matches, then by path."""
    return sorted(files, key=lambda file: (-sum(count > 0 for count in file.by_query), -sum(file.by_query), file.path))


# -- pages --------------------------------------------------------------------------------------------------------


def select_page(files: Iterable[TextFile], start: int, limit: int) -> list[TextPart]:
    """Return the matches `start` to `start + limit` of files in this order, as parts of the files."""
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
    """Return what a cursor stores of a search: a hash of the query and of the matching files in their order."""
    return hash_page(query, (f"{file.path}\0{file.lines}" for file in files))
