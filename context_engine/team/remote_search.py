"""Search repositories that are not on this machine: candidates from a database, order from our ranker.

The database applies the filter and returns the best files by their words, names and definitions. They become a snapshot
whose statistics are those of all repositories, and the searcher ranks it like any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pathspec import GitIgnoreSpec

from context_engine.context import Workspace
from context_engine.errors import InvalidArgument, NotIndexed
from context_engine.index import (
    SCHEMA_VERSION,
    Matches,
    Snapshot,
    StaticEncoder,
    term_hashes,
)
from context_engine.model import Answer, Filter, Query
from context_engine.repo import WorkspaceFile
from context_engine.search.question import Question
from context_engine.search.rankers import compute_idf
from context_engine.search.search_service import SearchService, SearchState
from context_engine.search.searcher import Searcher
from context_engine.search.semantic_scores import QueryVector, SemanticRanker
from context_engine.secrets import RedactedDocument
from context_engine.settings import Settings
from context_engine.team.candidate_store import (
    CANDIDATES_MAX,
    Candidate,
    CandidateQuery,
    FileFilter,
    SearchableTotals,
)
from context_engine.team.remote_store import open_backend
from context_engine.team.search_publisher import unpack_texts
from context_engine.team.search_rows import COUNTED_FIELDS, IMPACT_UNIT, LENGTH_TOTALS, join_files
from context_engine.text import format_count

if TYPE_CHECKING:
    from context_engine.team.candidate_store import CandidateStore

FIELD_WORTHS: Mapping[str, float] = {"body": 1.0, "path": 1.5, "def": 1.0, "doc": 0.7, "symbol": 8.0}
"""Of a term in each field for the choice of candidates; the impact of a body is at most 4 (BM25 with k1 = 3)."""
STORE_PROJECT, STORE_PREFIX = "store", "store:"
"""How a call names repositories of the database: all of them, or `store:github.com/team/app`."""
STORE_TOOL = "search_code"
"""The tool that can search repositories of a database, which have no files here."""
NAME_CHARS_MAX = 200
POSTINGS_MAX = 100_000
"""Postings of bodies that one question reads, those of the rarest terms first: some 50 ms of the database."""


class CorpusStatistics:
    """The statistics of all repositories of a question: their sizes, and how frequent its terms are."""

    def __init__(self, totals: SearchableTotals, frequencies: Mapping[int, Sequence[int]]) -> None:
        """`frequencies`: documents by `COUNTED_FIELDS`, then files, by hash."""
        self.files = totals.files
        self.chunks = totals.chunks
        self.outdated = totals.outdated
        self._lengths = dict(zip(LENGTH_TOTALS, totals.lengths, strict=True))
        self._frequencies = frequencies

    def mean_length(self, field: str) -> tuple[int, float]:
        """Return the number of documents of a field, and their mean length."""
        count = self.chunks if field == "body" else self.files
        return count, self._lengths["body" if field == "file" else field] / max(count, 1)

    def frequency(self, field: str, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
        """Return the number of documents with each term; `file`: of files with it in their bodies."""
        at = COUNTED_FIELDS.index(field) if field in COUNTED_FIELDS else len(COUNTED_FIELDS)
        counts = [self._frequencies.get(hashed, ()) for hashed in hashes.view(np.int64).tolist()]
        return np.array([row[at] if row else 0 for row in counts], np.intp)


class CandidateSnapshot(Snapshot):
    """The candidates of one question as a snapshot, with the statistics of all files that they were chosen from."""

    def __init__(
        self, candidates: Sequence[Candidate], hashes: npt.NDArray[np.uint64], corpus: CorpusStatistics
    ) -> None:
        """`hashes`: the terms of the question, of which the snapshot has the postings. Raises: StorageCorrupt."""
        importance = np.frombuffer(b"".join(row.importance for row in candidates), "<f2")
        segment = join_files([row.payload for row in candidates], hashes)
        super().__init__([segment], [()], [importance], generation="candidates", epoch=0, numbers=[0])
        self.candidates = candidates
        self.corpus = corpus
        self.living_files = corpus.files
        self.living_chunks = corpus.chunks

    def repository(self, file: int) -> str:
        """Return the name of the repository of a file, as `github.com/team/app`."""
        return self.candidates[file].repository.partition("/")[2]

    @cached_property
    def by_path(self) -> dict[str, int]:
        """File numbers by key."""
        return {self.key(number): number for number in range(self.files)}

    def length_statistics(self, field: str) -> tuple[int, float]:
        """Return the number of documents of a field in all repositories, and their mean length."""
        return self.corpus.mean_length(field)

    def matches(self, field: str, hashes: npt.NDArray[np.uint64]) -> Matches:
        """Return the occurrences of the terms in the candidates, with their frequencies in all repositories."""
        found = super().matches(field, hashes)
        if field not in COUNTED_FIELDS:
            return found
        in_files = self.corpus.frequency("file", hashes) if field == "body" else None
        return replace(found, frequency=self.corpus.frequency(field, hashes), in_files=in_files)


class RemoteSearch(SearchService):
    """Answers questions about some repositories of a database. Thread-safe. It has no other part of the service."""

    def __init__(self, store: CandidateStore, repositories: Collection[str], static: QueryVector | None) -> None:
        """`repositories`: those that its user may see, by their names in the database; `static`: question vectors."""
        self.repositories = tuple(f"{SCHEMA_VERSION}/{name}" for name in dict.fromkeys(repositories))
        self._store = store
        self._static = static
        self._meaning = SemanticRanker(static) if static else None

    def find(self, query: Query) -> Answer:
        """Find the places worth reading in any of the repositories.

        `total` counts among the candidates. Raises: InvalidArgument for an empty query, NotIndexed, StoreUnavailable,
        StoreUnusable, StorageCorrupt.
        """
        if not query.text.strip():
            raise InvalidArgument("query is empty", suggestion="say what to find, in words or code")
        snapshot = self.candidates(query)
        searcher = Searcher(snapshot, self._meaning)
        reader = _TextReader(self._store, self.repositories, snapshot)
        outdated = snapshot.corpus.outdated
        behind = f"; {format_count(outdated, 'repository', 'repositories')} being published" if outdated else ""
        freshness = f"as published on {self._store.name}{behind}"
        answer = SearchState(searcher, reader.read, freshness, prepare=reader.fetch).answer(query)
        if answer.hits or query.filter.is_empty:
            return answer
        return replace(answer, reason="nothing that passes the filter matches the query", near_tags=())

    def candidates(self, query: Query) -> CandidateSnapshot:
        """Return the candidates of a question. Raises: as `find`."""
        asked = Question.of(query.text)
        named = [(asked.symbol, 1.0)] if asked.symbol else list(asked.mentioned)
        symbols = term_hashes(name for name, _ in named)
        hashes = np.unique(np.concatenate([asked.hashes, symbols]))
        totals, frequencies = self._store.read_statistics(self.repositories, hashes.view(np.int64).tolist())
        if not totals.files:
            raise NotIndexed(
                f"none of these repositories can be searched on {self._store.name}",
                suggestion="Run `ctx index` with CTX_STORE_SHARES=1 and CTX_STORE_SEARCH=1 where they are checked out.",
            )
        corpus = CorpusStatistics(totals, frequencies)
        trusts = dict(zip(symbols.tolist(), (trust for _, trust in named), strict=True))
        vector = self._static(query.text) if self._static else None
        wanted = CandidateQuery(
            hashes.view(np.int64).tolist(),
            _weigh_terms(asked, hashes, trusts, corpus),
            sorted({place.path.rpartition("/")[2] for place in asked.places}),
            translate_filter(query.filter),
            CANDIDATES_MAX,
            [] if vector is None or not vector.any() else vector.tolist(),
        )
        return CandidateSnapshot(self._store.find_candidates(self.repositories, wanted), hashes, corpus)


class _TextReader:
    """Reads the texts of hits: those that were stored with the index, already redacted."""

    def __init__(self, store: CandidateStore, repositories: Collection[str], snapshot: CandidateSnapshot) -> None:
        self._store = store
        self._repositories = repositories
        self._snapshot = snapshot
        self._packed: dict[int, bytes | None] = {}

    def read(self, key: str) -> WorkspaceFile | None:
        """Return the chunks of a file; their text is empty where none was stored. Raises: StorageCorrupt."""
        snapshot = self._snapshot
        file = snapshot.by_path[key]
        self.fetch([key])
        packed = self._packed[file]
        start, stop = snapshot.chunk_starts[file : file + 2].tolist()
        starts, stops = (snapshot.chunk_column(name)[start:stop].tolist() for name in ("start", "stop"))
        texts = unpack_texts(packed) if packed else [""] * len(starts)
        size, mtime_ns = (snapshot.file_column(name).item(file) for name in ("size", "mtime_ns"))
        chunks = dict(zip(zip(starts, stops, strict=True), texts, strict=True))
        return _StoredFileText(b"", size, mtime_ns, chunks=_StoredChunks(chunks))

    def fetch(self, keys: Sequence[str]) -> None:
        """Fetch the stored texts of these files in one message, those that are here already left out."""
        wanted = [file for key in keys if (file := self._snapshot.by_path[key]) not in self._packed]
        places = [self._snapshot.candidates[file][1:3] for file in wanted]
        found = self._store.read_texts(self._repositories, places) if places else {}
        self._packed |= {file: found.get(place) for file, place in zip(wanted, places, strict=True)}


class _StoredChunks(RedactedDocument):
    """The chunks of a file whose text was redacted when it was stored."""

    def __init__(self, chunks: Mapping[tuple[int, int], str]) -> None:
        super().__init__(b"", ())
        self._chunks = chunks

    def part(self, start: int, stop: int) -> str:
        """Return the text of a chunk by its place in the file; empty for any other place."""
        return self._chunks.get((start, stop), "")


@dataclass(frozen=True)
class _StoredFileText(WorkspaceFile):
    """A file of which only chunks are known."""

    chunks: RedactedDocument = field(default_factory=lambda: _StoredChunks({}))

    @cached_property
    def shown(self) -> RedactedDocument:
        """Its chunks, as replies show them."""
        return self.chunks


def list_searchable(store: CandidateStore) -> list[str]:
    """Return the repositories that can be searched, sorted. Raises: StoreUnavailable, StoreUnusable."""
    schema = f"{SCHEMA_VERSION}/"
    return [row.name.removeprefix(schema) for row in store.list_repositories() if row.name.startswith(schema)]


# -- choosing candidates -------------------------------------------------------------------------------------------


def _weigh_terms(
    asked: Question, hashes: npt.NDArray[np.uint64], trusts: Mapping[int, float], corpus: CorpusStatistics
) -> list[list[float]]:
    """Return the worth of each term in each of `COUNTED_FIELDS`; very frequent terms have none in bodies."""
    weights = dict(zip(asked.hashes.tolist(), asked.weights.tolist(), strict=True))
    weight = np.array([weights.get(hashed, 0.0) for hashed in hashes.tolist()])
    trust = np.array([trusts.get(hashed, 0.0) for hashed in hashes.tolist()])
    worths = []
    for name in COUNTED_FIELDS:
        frequency = corpus.frequency("file" if name == "body" else name, hashes)
        documents = corpus.chunks if name == "symbol" else corpus.files
        worth = compute_idf(frequency, documents) * FIELD_WORTHS[name] * (trust if name == "symbol" else weight)
        if name == "body":
            order = np.argsort(frequency, kind="stable")
            is_read = np.zeros(len(hashes), bool)
            is_read[order] = np.cumsum(frequency[order]) <= POSTINGS_MAX
            worth = worth * is_read / IMPACT_UNIT
        worths.append(worth.tolist())
    return worths


def translate_filter(wanted: Filter) -> FileFilter:
    """Return the conditions of a file that has a chunk that passes.

    The ranker applies the whole filter again: to single chunks, and with globs that take others back (`!docs/`).
    Outlines are made of files with any kinds.
    """
    has_outlines = "symbols" in wanted.kinds or "symbols" in wanted.tags
    included, excluded = _translate_globs(wanted.include_paths), _translate_globs(wanted.exclude_paths)
    regexes = [regex for regex, includes in included if includes]
    return FileFilter(
        [name.lower() for name in wanted.languages],
        () if has_outlines else wanted.kinds,
        [tag.lower() for tag in wanted.tags if tag != "symbols"],
        regexes,
        [regex for regex, _ in excluded] if all(includes for _, includes in excluded) else (),
        _find_parts(wanted.include_paths) if regexes else (),
    )


def _translate_globs(globs: Sequence[str]) -> list[tuple[str, bool]]:
    """Return (regular expression of PostgreSQL, whether it includes) of each glob."""
    spec = GitIgnoreSpec.from_lines([_clean_glob(glob) for glob in globs])
    return [
        (pattern.regex.pattern.replace("(?P<ps_d>", "(?:"), bool(pattern.include))
        for pattern in spec.patterns
        if pattern.regex is not None
    ]


def _clean_glob(glob: str) -> str:
    return glob.removeprefix("./").replace("\\", "/")


def _find_parts(globs: Iterable[str]) -> list[str]:
    """Return, for each glob that includes, the longest name or ending that its paths have; nothing if one has none.

    >>> _find_parts(["src/**", "*.d.ts", "**/web/*.go"]), _find_parts(["src/", "*"])
    (['src', '*.d.ts', '*.go'], [])
    """
    found = []
    for glob in globs:
        if not glob.startswith("!"):
            names = _clean_glob(glob).split("/")
            plain = [name for name in names if not set(name.removeprefix("*.")) & set("*?[")]
            found.append(max(plain, key=len, default=""))
    return found if all(found) else []


class RemoteRepositories(Workspace):
    """Repositories that a database searches, without a copy on this machine: `search` answers, nothing else does."""

    def __init__(
        self, store: CandidateStore, repositories: Collection[str], settings: Settings, encoder: StaticEncoder | None
    ) -> None:
        """`repositories`: those that the caller may see, by their names in the database. The store is the caller's."""
        self.settings = settings
        self.search = RemoteSearch(store, repositories, encoder.query if encoder else None)


class RemoteProjects:
    """Opens repositories of the database in the settings, for callers that see some of them. Thread-safe.

    The setting `store_visible` says which there are, and a token sees those that are among its projects by that name.
    """

    def __init__(self, settings: Settings) -> None:
        """Connect to nothing yet."""
        self.settings = settings
        self._patterns = settings.store_visible.replace(",", " ").split()
        self._lock = threading.Lock()
        self._opened: tuple[CandidateStore, StaticEncoder | None] | None = None

    def is_named_by(self, project: str) -> bool:
        """Return whether a project is one of a database, visible or not."""
        return bool(self._patterns) and (project == STORE_PROJECT or project.startswith(STORE_PREFIX))

    def open(self, project: str, tool: str, sees: Callable[[str, str], bool]) -> RemoteRepositories:
        """Return the repositories that a project names, as far as the caller sees them.

        Raises: InvalidArgument for another tool, or when there is none, StoreUnavailable, StoreUnusable.
        """
        if tool != STORE_TOOL:
            raise InvalidArgument(
                f"{tool} needs the files of a project, and those of {project[:NAME_CHARS_MAX]!r} are not here",
                suggestion=f"Use {STORE_TOOL}, or name a project that is open.",
                details={"argument": "project"},
            )
        with self._lock:
            if self._opened is None:
                encoder = None if self.settings.embedder == "none" else StaticEncoder()
                self._opened = open_backend(self.settings.store_url, "Search"), encoder
            store, encoder = self._opened
        names = [
            name
            for name in list_searchable(store)
            if any(fnmatchcase(name, pattern) for pattern in self._patterns) and sees(f"{STORE_PREFIX}{name}", "")
        ]
        if project != STORE_PROJECT:
            names = [name for name in names if f"{STORE_PREFIX}{name}" == project]
        if not names:
            raise InvalidArgument(
                f"no repository that can be searched is called {project[:NAME_CHARS_MAX]!r}",
                suggestion="Leave project out, or name a project that is open.",
                details={"argument": "project"},
            )
        return RemoteRepositories(store, names, self.settings, encoder)
