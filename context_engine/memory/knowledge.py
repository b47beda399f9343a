"""What is known about a repository, in one ranking: memories that people wrote, and its own discoveries.

Discoveries are derived: they are only in the index, can be made again at any time, and never touch what a person wrote.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from context_engine import timestamps
from context_engine.context import EVERYWHERE, RememberedItem, RuleScope
from context_engine.errors import Cancelled, InvalidArgument
from context_engine.memory import importers
from context_engine.memory.importers import Discovery
from context_engine.memory.memories import Memories, MemoryStatus, describe_unreadable
from context_engine.memory.memory_checks import check_choice
from context_engine.memory.memory_folder import MemoryEntry
from context_engine.memory.memory_index import (
    IndexItem,
    IndexPage,
    Pages,
    compute_freshness,
    compute_score,
    compute_similarity,
    fuse_scores,
    take_best,
)
from context_engine.memory.memory_requests import PRIORITIES, QUERY_CHARS, RESULTS_MAX, TYPES, KnowledgeQuery
from context_engine.secrets import redact_file
from context_engine.text import query_terms
from context_engine.timestamps import DAY_S, Now

IMPORTERS_VERSION = b"7:"
"""Increase it when an importer finds something else: every file is then read again."""
FILES_AT_ONCE = 500
"""Files of one commit of the index; cancellation is checked between two."""
COMMITS_SHOWN = 2
JUDGED_MAX = 200
"""Items that are weighed: age, status and use lift nothing from beyond these into the first twenty."""
IN_FILES, LEARNED = "discovery", "learned"
"""Sources of the index: pages named by path, and pages named by what was learned from."""
USE_GREP = "search_text finds text; search_code finds code."

Blame = Callable[[str, int], tuple[str, str] | None]
"""Returns the commit and the day (ISO-8601) in which a line was written; None if unknown."""


@dataclass(frozen=True, slots=True)
class KnowledgeEntry:
    """One thing that is known. `place` is its provenance (`path:line@commit`), or its own file."""

    id: str
    type: str
    title: str
    content: str
    source: str
    place: str
    paths: tuple[str, ...]  # the files it speaks of
    date: str
    confidence: float
    links: tuple[str, ...]
    status: str = "active"
    scope: RuleScope = EVERYWHERE  # the files that a rule applies to

    @property
    def module(self) -> str:
        """The folder of its first file."""
        return self.paths[0].rpartition("/")[0] if self.paths else ""


@dataclass(frozen=True, slots=True)
class KnowledgeResult:
    """One result. `score` is 0 to 1; `project` names its repository if several were searched."""

    entry: KnowledgeEntry
    score: float
    status: str
    why: str = ""  # why it is stale
    project: str = ""


@dataclass(frozen=True, slots=True)
class KnowledgeResults:
    """The results of a search. `total` counts those beyond the limit, too; `left_out` those that no longer hold."""

    results: tuple[KnowledgeResult, ...]
    total: int
    left_out: int
    engine: Literal["hybrid", "lexical"]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefreshCounts:
    """Counts of a refresh: files read, files forgotten, and discoveries in files now."""

    read_count: int
    removed_count: int
    discovery_count: int


class Knowledge:
    """What is known about one workspace. Thread-safe. `access` returns how much a path is used, 0 to 1."""

    def __init__(self, memories: Memories, *, now: Now, access: Callable[[str], float] | None = None) -> None:
        """Read nothing until it is needed."""
        self._memories = memories
        self.redact_text = memories.redact_text
        self._recall = memories.recall
        self._now = now
        self._access = access
        self._lock = threading.Lock()
        self._dated: dict[str, bytes] = {}  # files whose issues were dated, and the stamp they had
        self._seen: (
            tuple[tuple[list[MemoryEntry], Pages, Pages], dict[int, MemoryEntry], dict[int, KnowledgeEntry]] | None
        ) = None
        self._damage: tuple[str, ...] = ()

    # -- learning --

    def refresh(
        self,
        stamps: Mapping[str, bytes],
        read: Callable[[str], str | None],
        *,
        commit: str = "",
        blame: Blame | None = None,
        cancel: threading.Event | None = None,
    ) -> RefreshCounts:
        """Read every file whose stamp has changed, and forget deleted ones. A second call does nothing.

        `stamps` are all files by path, each with what changes when its content does; `read` gives a text, or None for
        what holds none. What was done before a cancel stays. Raises: Cancelled, StorageBusy.
        """
        known = self._recall.pages(IN_FILES)
        wanted = {path: IMPORTERS_VERSION + stamp for path, stamp in stamps.items()}
        changed = [path for path in sorted(wanted) if path not in known or known[path].stamp != wanted[path]]
        gone = [path for path in known if path not in wanted]
        self._recall.put(IN_FILES, {}, gone)
        for first in range(0, len(changed), FILES_AT_ONCE):
            if cancel is not None and cancel.is_set():
                raise Cancelled("looking for discoveries was cancelled", suggestion="Call again; it goes on from here.")
            paths = changed[first : first + FILES_AT_ONCE]
            discoveries = {path: self._read_file(path, read(path), commit, blame) for path in paths}
            self._recall.put(
                IN_FILES, {path: (wanted[path], _encode_items(found)) for path, found in discoveries.items()}
            )
        self._recall.embed_missing(self._memories.embed)
        pages = self._recall.pages(IN_FILES)
        return RefreshCounts(len(changed), len(gone), sum(len(page.items) for page in pages.values()))

    def _read_file(self, path: str, text: str | None, commit: str, blame: Blame | None) -> list[Discovery]:
        """Return the discoveries of one file, from its text without secrets."""
        found = importers.import_file(path, text, commit=commit) if text else []
        if text and found:  # few files have any, and a search for secrets is slow
            found = importers.import_file(path, self.redact_text(text), commit=commit)
        return importers.add_dates(found, blame) if blame else found

    def refresh_page(self, name: str, stamp: bytes, make: Callable[[], Iterable[Discovery]]) -> bool:
        """Call `make` and store its discoveries, if the stamp is not that of the last call.

        Return whether it was called.
        """
        known = self._recall.pages(LEARNED).get(name)
        wanted = IMPORTERS_VERSION + stamp
        if known is not None and known.stamp == wanted:
            return False
        self._recall.put(LEARNED, {name: (wanted, _encode_items(make()))})
        self._recall.embed_missing(self._memories.embed)
        return True

    def add_dates(self, blame: Blame, *, seconds: float = math.inf, cancel: threading.Event | None = None) -> int:
        """Look up when undated issues were written, file by file; return how many files were looked up in this time.

        A line that is in no commit is asked for again by the next process. Raises: Cancelled, StorageBusy.
        """
        asked = 0
        ends = time.monotonic() + seconds
        for path, page in sorted(self._recall.pages(IN_FILES).items()):
            if self._dated.get(path) == page.stamp:
                continue
            found = [_decode(payload) for _, payload in page.items]
            if any(discovery.type == "issue" and not discovery.date for discovery in found):
                if cancel is not None and cancel.is_set():
                    raise Cancelled("looking for dates was cancelled", suggestion="Call again; it goes on from here.")
                if time.monotonic() >= ends:
                    return asked
                asked += 1
                if (dated := importers.add_dates(found, blame)) != found:
                    self._recall.put(IN_FILES, {path: (page.stamp, _encode_items(dated))})
            self._dated[path] = page.stamp
        return asked

    # -- finding --

    def search(
        self, sought: KnowledgeQuery, is_wanted: Callable[[KnowledgeEntry], bool] | None = None
    ) -> KnowledgeResults:
        """Return what is known about a question, best first. Filters come before ranking. Nothing is changed.

        `is_wanted` is a further filter.

        Raises: InvalidArgument for a query of fewer than 3 or more than 500 characters, or an unknown type;
        StorageBusy.
        """
        _check(sought)
        entries, known = self._load_all()
        passing = {
            number: item
            for number, item in known.items()
            if sought.type in ("all", item.type)
            and _in_module(item, sought.module)
            and (not is_wanted or is_wanted(item))
        }
        near = compute_similarity(self._recall, self._memories.embed, sought.query)
        relevance = take_best(
            fuse_scores(self._recall.score_words(_select_terms(sought.query)), near.cosines, passing), JUDGED_MAX
        )
        access = self._percentiles({number: passing[number] for number in relevance})
        standing = self._memories.start_status_check()
        judged = []
        for number, share in relevance.items():
            status = standing(entries[number]) if number in entries else None
            judged.append(self._judge(passing[number], status, share, access.get(number, 1.0)))
        found = [result for result in judged if sought.include_stale or result.status == "active"]
        found = [result for result in found if result.score >= sought.min_score]
        found.sort(key=lambda result: (-result.score, result.entry.place, result.entry.id))
        left_out = 0 if sought.include_stale else sum(result.status == "stale" for result in judged)
        engine: Literal["hybrid", "lexical"] = "lexical" if near.problem else "hybrid"
        warnings = [f"found by words alone: {near.problem}. {USE_GREP}"] if near.problem else []
        if left_out:
            warnings.append(f"{left_out} left out whose files have changed since: include_stale shows them")
        results = tuple(found[: sought.limit])
        return KnowledgeResults(results, len(found), left_out, engine, (*warnings, *self._damage))

    def recall(self, text: str, limit: int, files: Collection[str] | None = None) -> list[RememberedItem]:
        """Return what still holds about a text of any length, best first, for bundles and prompts.

        Rules are only those that apply to one of `files`; to every file, if None are known. Of commits at most
        `COMMITS_SHOWN`: many say the same, and what they fixed is in the code. Nothing for a text that is too short to
        ask with. Raises: StorageBusy.
        """
        least, most = QUERY_CHARS
        query = " ".join(text.split())[:most]
        if len(query) < least:
            return []
        found = self.search(KnowledgeQuery(query, limit=RESULTS_MAX), lambda known: _applies(known, files)).results
        commits = [result for result in found if result.entry.source == "git"]
        return [_to_remembered_item(result) for result in found if result not in commits[COMMITS_SHOWN:]][:limit]

    def list_binding(self) -> list[KnowledgeEntry]:
        """Return active rules and decisions: memories by priority first, then discoveries by confidence, newest first.

        Rules for every file come before those for some.

        Raises: StorageBusy.
        """
        entries, known = self._load_all()
        standing = self._memories.start_status_check()
        found = [(entries.get(number), item) for number, item in known.items() if item.type in ("rule", "decision")]
        active = [
            (entry, item) for entry, item in found if (standing(entry).status if entry else item.status) == "active"
        ]

        def rank(entry: MemoryEntry | None, known: KnowledgeEntry) -> tuple[bool, int, float]:
            priority = PRIORITIES.index(entry.memory.priority) if entry and entry.memory else len(PRIORITIES)
            return not known.scope.is_everywhere, priority, -known.confidence

        active.sort(key=lambda row: (row[1].place, row[1].id))
        active.sort(key=lambda row: row[1].date, reverse=True)
        active.sort(key=lambda row: rank(*row))
        return [item for _, item in active]

    def _load_all(self) -> tuple[dict[int, MemoryEntry], dict[int, KnowledgeEntry]]:
        """Return every memory, and every entry, by the number of its item."""
        state = self._memories.entries(), self._recall.pages(IN_FILES), self._recall.pages(LEARNED)
        with self._lock:
            if self._seen is None or self._seen[0] != state:
                entries = {entry.number: entry for entry in state[0] if entry.memory}
                known = {number: _entry_of_memory(entry) for number, entry in entries.items()}
                known |= _decode_pages(state[1].values()) | _decode_pages(state[2].values())
                self._seen = state, entries, known
                self._damage = describe_unreadable(state[0])
            return self._seen[1:]

    def _judge(
        self, known: KnowledgeEntry, standing: MemoryStatus | None, relevance: float, access: float
    ) -> KnowledgeResult:
        """Return one entry with its score. `standing` is the status of a memory; a discovery has its own."""
        status, why = (standing.status, standing.why) if standing else (known.status, "")
        age_days = 0.0
        if known.date and (at := timestamps.parse_timestamp(known.date)) is not None:
            age_days = (self._now() - at) / DAY_S
        fresh = compute_freshness(known.type, age_days=age_days, stale=status != "active")
        score = compute_score(relevance, confidence=known.confidence, fresh=fresh, access=access)
        return KnowledgeResult(known, score, status, why)

    def _percentiles(self, known: Mapping[int, KnowledgeEntry]) -> dict[int, float]:
        """Return for each entry the share of all entries whose files are used less; {} if use is not counted."""
        if self._access is None:
            return {}
        used = {
            number: max((self._access(path) for path in entry.paths), default=0.0) for number, entry in known.items()
        }
        order = sorted(used.values())
        below = {score: place for place, score in reversed([*enumerate(order)])}
        return {number: below[score] / len(order) for number, score in used.items()}


def _check(sought: KnowledgeQuery) -> None:
    least, most = QUERY_CHARS
    length = len(sought.query.strip())
    if not least <= length <= most:
        limit = f"at least {least} are needed" if length < least else f"at most {most} are allowed"
        raise InvalidArgument(
            f"the query has {length:,} characters, {limit}",
            suggestion="Ask one thing with a word or a sentence, such as: how are amounts rounded.",
            details={"argument": "query"},
        )
    check_choice("type", sought.type, TYPES)


def _select_terms(query: str) -> list[str]:
    """Return the terms of a question except names of kinds: "known issues with tokens" asks for tokens."""
    kinds = set(query_terms(f"{' '.join(TYPES)} known"))
    terms = query_terms(query)
    return [term for term in terms if term not in kinds] or terms


def _encode_items(found: Iterable[Discovery]) -> Sequence[IndexItem]:
    encode = msgspec.msgpack.encode
    return [IndexItem(encode(one), one.title, one.content, one.path.replace("/", " ")) for one in found]


_decode = msgspec.msgpack.Decoder(Discovery).decode


def _decode_pages(pages: Iterable[IndexPage]) -> dict[int, KnowledgeEntry]:
    return {number: _entry_of_discovery(_decode(payload)) for page in pages for number, payload in page.items}


def _entry_of_discovery(found: Discovery) -> KnowledgeEntry:
    place, paths = found.provenance, (found.path,) if found.path else ()
    status = "active" if found.status == "active" else "stale"
    return KnowledgeEntry(
        *(found.id, found.type, found.title, found.content, found.source, place, paths, found.date, found.confidence),
        links=(place,),
        status=status,
        scope=found.scope,
    )


def _entry_of_memory(entry: MemoryEntry) -> KnowledgeEntry:
    memory = entry.memory
    assert memory
    title, content = redact_file(memory.title), redact_file(memory.content)  # people write these files, too
    paths = tuple(link.path for link in memory.linked_files)
    links = (entry.path, *paths, *memory.linked_symbols, *memory.linked_plans)
    # Its confidence is 1: somebody wrote it down on purpose.
    return KnowledgeEntry(
        memory.id, memory.type, title, content, "memory", entry.path, paths, memory.updated_at, 1.0, links
    )


def _applies(known: KnowledgeEntry, files: Collection[str] | None) -> bool:
    """Return whether an entry is not a rule of a file, or is one for a task that changes `files`.

    If no files are known, a rule has to be one for every file.
    """
    if known.type != "rule" or known.source != "discovery":
        return True
    return known.scope.is_everywhere if files is None else known.scope.applies_to_any(files)


def _in_module(known: KnowledgeEntry, module: str) -> bool:
    """Return whether one of its files is in a folder or has its name, or whether it is a rule for this path.

    >>> known = KnowledgeEntry("", "", "", "", "", "", ("src/Auth/login.py",), "", 1.0, ())
    >>> [_in_module(known, module) for module in ("", "src/auth", "auth", "login", "src/auth/", "aut", "src/login")]
    [True, True, True, True, True, False, False]
    """
    path = module.strip().strip("/")
    wanted = path.casefold()
    if "/" in path and known.type == "rule" and known.source == "discovery" and known.scope.applies_to(path):
        return True
    for one in map(str.casefold, known.paths):
        parts = one.split("/")
        if f"{one}/".startswith(f"{wanted}/") or wanted in (*parts, parts[-1].partition(".")[0]):
            return True
    return not wanted


def _to_remembered_item(result: KnowledgeResult) -> RememberedItem:
    known = result.entry
    source: Literal["memory", "discovery"] = "memory" if known.source == "memory" else "discovery"
    return RememberedItem(
        known.id, source, known.type, known.title, known.content, known.place, result.score, known.scope
    )
