"""What is known about a repository, in one ranking: memories that people wrote, and its own discoveries.

Discoveries are derived: they are only in the index, can be made again at any time, and never touch what a person wrote.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from context_engine import timestamps
from context_engine.context import KnowledgeEntry
from context_engine.memory.memories import Memories, describe_unreadable
from context_engine.memory.memory_folder import MemoryEntry
from context_engine.memory.memory_index import (
    IndexItem,
    IndexPage,
    Pages,
    compute_freshness,
    compute_score,
    take_best,
)
from context_engine.memory.memory_requests import PRIORITIES, QUERY_CHARS, RESULTS_MAX, TYPES, KnowledgeQuery
from context_engine.repo import JointService, qualify_rows
from context_engine.secrets import redact_file
from context_engine.text import query_terms, unique
from context_engine.timestamps import DAY_S

IMPORTERS_VERSION = b"10:"
"""Increase it when an importer finds something else: every file is then read again."""
COMMITS_SHOWN = 2
JUDGED_MAX = 200
"""Items that are weighed: age, status and use lift nothing from beyond these into the first twenty."""
IN_FILES, IN_COMMITS = "discovery", "learned"
"""Sources of the index: a page for each file, and one for the history."""
_WORD = re.compile(r"\w(?:[\w./-]*\w)?")
"""A word, or a path."""
USE_GREP = "search_text finds text; search_code finds code."


@dataclass(frozen=True, slots=True)
class KnowledgeResults:
    """The results of a search. `total` counts those beyond the limit, too; `left_out` those that no longer hold."""

    results: tuple[KnowledgeEntry, ...]
    total: int
    left_out: int
    engine: Literal["hybrid", "lexical"]
    warnings: tuple[str, ...]


class Knowledge(JointService):
    """What is known about one workspace, or several. Thread-safe. `access` returns how much a path is used, 0 to 1."""

    def __init__(self, memories: Memories, *, access: Callable[[str], float] | None = None) -> None:
        """Read nothing until it is needed."""
        self._memories = memories
        self._recall = memories.recall
        self._access = access
        self._lock = threading.Lock()
        self._seen: (
            tuple[tuple[list[MemoryEntry], Pages, Pages], dict[int, MemoryEntry], dict[int, KnowledgeEntry]] | None
        ) = None
        self._damage: tuple[str, ...] = ()

    # -- learning --

    def refresh(
        self,
        source: str,
        stamps: Mapping[str, bytes],
        import_page: Callable[[str], Iterable[KnowledgeEntry]],
        *,
        cancel: threading.Event | None = None,
    ) -> int:
        """Import the changed pages of a source, and forget deleted ones, as `MemoryIndex.refresh`; return how many."""
        wanted = {name: IMPORTERS_VERSION + stamp for name, stamp in stamps.items()}
        count = self._recall.refresh(source, wanted, lambda name: _encode_items(import_page(name)), cancel=cancel)
        self._recall.embed_missing()
        return count

    # -- finding --

    def search(
        self, sought: KnowledgeQuery, is_wanted: Callable[[KnowledgeEntry], bool] | None = None
    ) -> KnowledgeResults:
        """Return what is known about a question, best first. Filters come before ranking. Nothing is changed.

        `is_wanted` is a further filter.

        Raises: StorageBusy.
        """
        if self.joined:
            return _join_results({name: one.search(sought) for name, one in self.joined.items()}, sought.limit)
        entries, known = self._load_all()
        wanted = {number: item for number, item in known.items() if not is_wanted or is_wanted(item)}
        filters = {number: _find_filter(item, sought) for number, item in wanted.items()}
        passing = {number: item for number, item in wanted.items() if not filters[number]}
        terms = _select_terms(sought.query)
        scores, problem = self._recall.rank(sought.query, terms, passing)
        relevance = take_best(scores, JUDGED_MAX)
        access = self._percentiles({number: passing[number] for number in relevance})
        standing = self._memories.start_status_check()
        newest = max((item.date for item in known.values()), default="")
        judged = []
        for number, share in relevance.items():
            memory = standing(entries[number]) if number in entries else None
            judged.append(_judge(passing[number], memory, share, access.get(number, 1.0), newest))
        found = [result for result in judged if sought.include_stale or result.status == "active"]
        found = [result for result in found if result.score >= sought.min_score]
        found.sort(key=lambda result: (-result.score, result.place, result.id))
        left_out = 0 if sought.include_stale else sum(result.status == "stale" for result in judged)
        engine: Literal["hybrid", "lexical"] = "lexical" if problem else "hybrid"
        warnings = [f"found by words alone: {problem}. {USE_GREP}"] if problem else []
        if left_out:
            warnings.append(f"{left_out} left out whose files have changed since: `include_stale: true` shows them")
        if not judged:
            removed = Counter(filters[number] for number in self._recall.rank(sought.query, terms, wanted)[0])
            warnings += [f"{name} removed {count}" for name, count in removed.items()]
        elif not found and len(judged) > left_out:
            warnings.append(f"min_score {sought.min_score} removed {len(judged) - left_out}")
        results = tuple(found[: sought.limit])
        return KnowledgeResults(results, len(found), left_out, engine, (*warnings, *self._damage))

    def recall(self, text: str, limit: int, files: Collection[str] | None = None) -> list[KnowledgeEntry]:
        """Return what still holds about a text of any length, best first, for bundles and prompts.

        Rules are only those that apply to one of `files`; to every file, if None are known. Of commits at most
        `COMMITS_SHOWN`: many say the same, and what they fixed is in the code. Nothing for a text that is too short to
        ask with. Raises: StorageBusy.
        """
        if self.joined:
            found = {
                name: one.recall(text, limit, None if files is None else self.select_own(name, files))
                for name, one in self.joined.items()
            }
            return sorted(qualify_rows(found), key=lambda known: -known.score)[:limit]
        least, most = QUERY_CHARS
        query = " ".join(text.split())[:most]
        if len(query) < least:
            return []
        found = self.search(KnowledgeQuery(query, limit=RESULTS_MAX), lambda known: _applies(known, files)).results
        commits = [result for result in found if result.source == "git"]
        return [result for result in found if result not in commits[COMMITS_SHOWN:]][:limit]

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

        def rank(row: tuple[MemoryEntry | None, KnowledgeEntry]) -> tuple[bool, int, float]:
            entry, item = row
            priority = PRIORITIES.index(entry.memory.priority) if entry and entry.memory else len(PRIORITIES)
            return not item.scope.is_everywhere, priority, -item.confidence

        active.sort(key=lambda row: (row[1].place, row[1].id))
        active.sort(key=lambda row: row[1].date, reverse=True)
        return [item for _, item in sorted(active, key=rank)]

    def _load_all(self) -> tuple[dict[int, MemoryEntry], dict[int, KnowledgeEntry]]:
        """Return every memory, and every entry, by the number of its item."""
        state = self._memories.entries(), self._recall.pages(IN_FILES), self._recall.pages(IN_COMMITS)
        with self._lock:
            if self._seen is None or self._seen[0] != state:
                entries = {entry.number: entry for entry in state[0] if entry.memory}
                known = {number: _entry_of_memory(entry) for number, entry in entries.items()}
                known |= _decode_pages(state[1].values()) | _decode_pages(state[2].values())
                self._seen = state, entries, known
                self._damage = describe_unreadable(state[0])
            return self._seen[1:]

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


def _judge(
    known: KnowledgeEntry, memory: MemoryEntry | None, relevance: float, access: float, newest: str
) -> KnowledgeEntry:
    """Return one entry with its score. A `memory` has a status of this moment; a discovery has its own.

    An entry ages as others become newer, not with the clock: the same knowledge gives the same answer.
    """
    status, why = (memory.status, memory.why) if memory else (known.status, "")
    age_days = 0.0
    if (at := timestamps.parse_timestamp(known.date)) is not None:
        age_days = ((timestamps.parse_timestamp(newest) or at) - at) / DAY_S
    fresh = compute_freshness(known.type, age_days=age_days, stale=status != "active")
    score = compute_score(relevance, confidence=known.confidence, fresh=fresh, access=access)
    return replace(known, score=score, status=status, why=why)


def _join_results(found: Mapping[str, KnowledgeResults], limit: int) -> KnowledgeResults:
    """Return what was found in some repositories, by name, best first."""
    results = [replace(result, project=name) for name, one in found.items() for result in one.results]
    results.sort(key=lambda result: -result.score)
    return KnowledgeResults(
        results=tuple(results[:limit]),
        total=sum(one.total for one in found.values()),
        left_out=sum(one.left_out for one in found.values()),
        engine="hybrid" if all(one.engine == "hybrid" for one in found.values()) else "lexical",
        warnings=tuple(unique(warning for one in found.values() for warning in one.warnings)),
    )


def _select_terms(query: str) -> list[str]:
    """Return the terms of a question except names of kinds: "known issues with tokens" asks for tokens."""
    kinds = set(query_terms(f"{' '.join(TYPES)} known"))
    terms = query_terms(query)
    return [term for term in terms if term not in kinds] or terms


def _encode_items(found: Iterable[KnowledgeEntry]) -> Sequence[IndexItem]:
    return [IndexItem(msgspec.msgpack.encode(one), one.title, one.content, one.path.replace("/", " ")) for one in found]


_decode = msgspec.msgpack.Decoder(KnowledgeEntry).decode


def _decode_pages(pages: Iterable[IndexPage]) -> dict[int, KnowledgeEntry]:
    return {number: _decode(payload) for page in pages for number, payload in page.items}


def _entry_of_memory(entry: MemoryEntry) -> KnowledgeEntry:
    """Return a memory as an entry. Its confidence is 1: somebody wrote it down on purpose."""
    memory = entry.memory
    assert memory
    return KnowledgeEntry(
        memory.id,
        memory.type,
        redact_file(memory.title),  # people write these files, too
        redact_file(memory.content),
        "memory",
        entry.path,
        date=memory.updated_at,
        linked_files=tuple(link.path for link in memory.linked_files),
        linked_names=(*memory.linked_symbols, *memory.linked_plans),
        tags=memory.tags,
    )


def _applies(known: KnowledgeEntry, files: Collection[str] | None) -> bool:
    """Return whether an entry is not a rule of a file, or is one for a task that changes `files`.

    If no files are known, a rule has to be one for every file.
    """
    if known.type != "rule" or known.is_memory:
        return True
    return known.scope.is_everywhere if files is None else known.scope.applies_to_any(files)


def _find_filter(known: KnowledgeEntry, sought: KnowledgeQuery) -> str:
    """Return the filter of a question that leaves an entry out; empty if none does."""
    if sought.type not in ("all", known.type):
        return f"type {sought.type}"
    return "" if _in_module(known, sought.module) else f"module {sought.module}"


def _in_module(known: KnowledgeEntry, module: str) -> bool:
    """Return whether one of its files is in a folder or has its name, whether it is a rule for this path, or says so.

    The tags and the words of a memory count.

    >>> known = KnowledgeEntry("", "issue", "", "", "discovery", "src/Auth/login.py")
    >>> [_in_module(known, module) for module in ("", "src/auth", "auth", "login", "src/auth/", "aut", "src/login")]
    [True, True, True, True, True, False, False]
    >>> memory = KnowledgeEntry("", "issue", "Tokens", "They expire in src/web.", "memory", "a.md", tags=("Auth",))
    >>> [_in_module(memory, module) for module in ("auth", "src/web", "tokens", "web", "expires")]
    [True, True, True, False, False]
    """
    path = module.strip().strip("/")
    wanted = path.casefold()
    if "/" in path and known.type == "rule" and known.source == "discovery" and known.scope.applies_to(path):
        return True
    for one in map(str.casefold, known.paths):
        parts = one.split("/")
        if f"{one}/".startswith(f"{wanted}/") or wanted in (*parts, parts[-1].partition(".")[0]):
            return True
    words = _WORD.findall(f"{known.title} {known.content}".casefold()) if known.is_memory else ()
    return not wanted or wanted in (*map(str.casefold, known.tags), *words)
