"""A store that searches: the best files for a question over many repositories, with filters and rights applied there.

The writer of an index gives it the rows of each segment (`index/search_rows.py`). A reader names the repositories that
may be seen with every call, and gets candidates, which our ranker orders. Contents of rows are not interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from context_engine.team.remote_store import SegmentState

if TYPE_CHECKING:  # their libraries are optional
    from context_engine.team.postgres_search import PostgresSearch
    from context_engine.team.qdrant_search import QdrantSearch

    CandidateStore = PostgresSearch | QdrantSearch
    """The searchable rows of many repositories; both keep one contract: tests/contracts/test_store.py."""

CANDIDATES_MAX = 300
"""Files that our ranker orders for a question (docs/benchmarks.md, "Search inside PostgreSQL")."""


class Candidate(NamedTuple):
    """A file that the database proposes. `payload` is what the writer of the index stored, `importance` a float16."""

    repository: str
    segment: int
    number: int
    worth: float
    importance: bytes
    payload: bytes


class SearchableTotals(NamedTuple):
    """The living files and chunks of some repositories, and the terms of bodies, paths, names and leading comments.

    `outdated` counts repositories whose index has a newer revision than the rows that are searched.
    """

    files: int
    chunks: int
    outdated: int
    lengths: tuple[int, ...]


class FileFilter(NamedTuple):
    """The conditions of a file. Empty parts restrict nothing.

    Languages and tags are in lower case. `included` and `excluded` are regular expressions: a path must match one of
    the included ones and none of the excluded ones. Every path that may be included has one of the `parts`, for
    databases without regular expressions (`split_path`).
    """

    languages: Sequence[str] = ()
    tags_any: Sequence[str] = ()
    tags_all: Sequence[str] = ()
    included: Sequence[str] = ()
    excluded: Sequence[str] = ()
    parts: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """Whether every file passes."""
        return not any(self)

    def accepts(self, path: str) -> bool:
        """Return whether a path passes."""
        is_in = not self.included or any(re.search(regex, path) for regex in self.included)
        return is_in and not any(re.search(regex, path) for regex in self.excluded)


EVERY_FILE = FileFilter()


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """The terms of a question by hash, and their worth.

    `worths[f]` has a number for each term, for bodies, paths, definitions, leading comments and symbols, in this order.
    `names` are file names in the question, `vector` is its vector of length 1.
    """

    hashes: Sequence[int]
    worths: Sequence[Sequence[float]]
    names: Sequence[str] = ()
    filter: FileFilter = EVERY_FILE
    limit: int = CANDIDATES_MAX
    vector: Sequence[float] = ()


class StoredTerm(NamedTuple):
    """The row of a term: `files` of its bodies with their `impacts` as 16 bits, and those of the other fields.

    `frequency` counts documents by field, chunks for bodies and symbols; the last entry counts files whose bodies have
    the term. `listed` has the files of paths, definitions, leading comments and symbols, in this order.
    """

    hash: int  # as signed 64 bits
    frequency: list[int]
    files: list[int]
    impacts: list[int]
    listed: tuple[list[int], list[int], list[int], list[int]]

    @classmethod
    def of(cls, hashed: int) -> StoredTerm:
        """Return an empty row, to be filled."""
        return cls(hashed, [0] * 6, [], [], ([], [], [], []))


class StoredFile(NamedTuple):
    """The row of a file. `card` is the vector of its summary, empty where there is none.

    `tags` are all tags of its chunks, their kinds included; `payload` is what our ranker needs of it; `texts` is what a
    reply shows of it, None where it could not be read.
    """

    number: int
    path: str
    language: str
    tags: Sequence[str]
    payload: bytes
    card: Sequence[float]
    texts: bytes | None


class SearchableRevision(NamedTuple):
    """One revision of a repository: its totals and its segments. `lengths`: terms of bodies, paths, names, comments."""

    revision: int
    files: int
    chunks: int
    lengths: Sequence[int]
    segments: Sequence[SegmentState]


SegmentRows = Callable[[str], tuple[Iterable[StoredTerm], Iterable[StoredFile]]]
"""Returns the rows of a segment by its name."""


def split_path(path: str) -> list[str]:
    """Return the names in a path, and each ending of a name as a glob: what a pattern of paths can ask for.

    >>> split_path("src/api.d.ts")
    ['*.d.ts', '*.ts', 'api.d.ts', 'src']
    """
    names = path.split("/")
    endings = {f"*{name[at:]}" for name in names for at in range(len(name)) if name[at] == "."}
    return sorted({*names, *endings})
