"""A store that searches: the best files for a question over many repositories, with filters and rights applied there.

The writer of an index gives it the rows of each segment (`index/search_rows.py`). A reader names the repositories that
may be seen with every call, and gets candidates, which our ranker orders. Contents of rows are not interpreted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from context_engine.errors import InvalidArgument
from context_engine.sharing.remote_store import open_backend

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
    the included ones and none of the excluded ones.
    """

    languages: Sequence[str] = ()
    tags_any: Sequence[str] = ()
    tags_all: Sequence[str] = ()
    included: Sequence[str] = ()
    excluded: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """Whether every file passes."""
        return not any(self)


EVERY_FILE = FileFilter()


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """The terms of a question by hash, and their worth.

    `worths[f]` has a number for each term, for bodies, paths, definitions, leading comments and symbols, in this order.
    `names` are file names in the question.
    """

    hashes: Sequence[int]
    worths: Sequence[Sequence[float]]
    names: Sequence[str] = ()
    filter: FileFilter = EVERY_FILE
    limit: int = CANDIDATES_MAX


class StoredTerm(NamedTuple):
    """The row of a term: file numbers by field, `impacts` those of `files` as 16 bits."""

    hash: int
    frequency: Sequence[int]
    files: Sequence[int]
    impacts: Sequence[int]
    path: Sequence[int]
    definition: Sequence[int]
    doc: Sequence[int]
    symbol: Sequence[int]


class StoredFile(NamedTuple):
    """The row of a file; `texts` is what a reply shows of it, None where it could not be read."""

    number: int
    path: str
    language: str
    tags: Sequence[str]
    payload: bytes
    texts: bytes | None


class SegmentState(NamedTuple):
    """The changeable part of a segment: its place, its dead files, and the importance of each file (float16)."""

    name: str
    number: int
    dead: Sequence[int]
    importance: bytes


class SearchableRevision(NamedTuple):
    """One revision of a repository: its totals and its segments. `lengths`: terms of bodies, paths, names, comments."""

    revision: int
    files: int
    chunks: int
    lengths: Sequence[int]
    segments: Sequence[SegmentState]


SegmentRows = Callable[[str], tuple[Iterable[StoredTerm], Iterable[StoredFile]]]
"""Returns the rows of a segment by its name."""


class CandidateStore(ABC):
    """The searchable rows of many repositories. Thread-safe.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is.
    """

    name: str
    """Its address without a password."""

    @abstractmethod
    def list_repositories(self) -> dict[str, int]:
        """Return the searchable repositories, sorted, and the revision of each."""

    @abstractmethod
    def revision(self, repository: str) -> int:
        """Return the revision that is searched; 0 when the repository is not searchable."""

    @abstractmethod
    def sum_totals(self, repositories: Collection[str]) -> SearchableTotals:
        """Return the totals of all these repositories."""

    @abstractmethod
    def count_documents(self, repositories: Collection[str], hashes: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """Return the frequencies of each term that occurs, by hash, as its rows have them."""

    @abstractmethod
    def find_candidates(self, repositories: Collection[str], query: CandidateQuery) -> list[Candidate]:
        """Return the best files of these repositories, ordered by repository, segment and number."""

    @abstractmethod
    def read_texts(
        self, repositories: Collection[str], files: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], bytes | None]:
        """Return the texts of files by (segment, number); files of other repositories are left out."""

    @abstractmethod
    def publish(self, repository: str, state: SearchableRevision, rows_of: SegmentRows) -> None:
        """Replace what is searched of a repository by another revision; only new segments are sent.

        The caller has the lease of the repository. Raises: DiskFull.
        """

    @abstractmethod
    def remove(self, repository: str) -> None:
        """Delete the rows of a repository."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections; they are opened again when needed."""


def open_candidate_store(address: str) -> CandidateStore:
    """Return the store that searches at an address, without connecting.

    Raises: InvalidArgument where it is not a PostgreSQL, UnsupportedHost when its library is not installed.
    """
    if address.partition("://")[0] not in ("postgres", "postgresql"):
        raise InvalidArgument(
            "only PostgreSQL can search for many repositories",
            suggestion="Set CTX_STORE_URL to postgresql://user@host/database.",
        )
    return open_backend(address, "Search")
