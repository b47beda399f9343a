"""The memories of a workspace: added, listed, changed and deleted by any number of processes and people at once.

    memories.add(MemoryDraft("decisions", "Money is counted in cents."))
    memories.list_page(MemoryQuery(query="money"))

Secrets are removed before anything is written. The files are authoritative; the index next to them is derived.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from context_engine.errors import InvalidArgument, MemoryNotFound, NextStep, StaleFile, StorageBusy
from context_engine.memory import memory_file
from context_engine.memory.memory_file import (
    SAME_MEANING_MIN,
    SAME_WORDS_MIN,
    Memory,
    RedactText,
    collect_terms,
    compare_terms,
    format_file,
    hash_content,
    parse_file,
    update_file,
)
from context_engine.memory.memory_folder import LinkedFiles, MemoryEntry, MemoryFolder
from context_engine.memory.memory_index import IndexItem, MemoryIndex, take_best
from context_engine.memory.memory_requests import (
    CATEGORIES,
    PRIORITIES,
    MemoryDraft,
    MemoryQuery,
)
from context_engine.secrets import redact
from context_engine.text import CHANCE_BYTES, escape_line, hash_page, join_first, parse_cursor, query_terms, uuid7
from context_engine.timestamps import Now, format_timestamp, parse_timestamp

MEMORIES_MAX = 2_000
"""Number of memories from which on adding warns: nobody reads more."""
COMPARED_MAX = 50
"""Memories with common words that are compared with a new one in detail."""
SHOWN_SIMILAR_MAX = 5
UNREAD_SHOWN = 3

Action = Literal["created", "superseded", "rejected", "duplicate"]


@dataclass(frozen=True, slots=True)
class MemoryListing:
    """One page of memories; `total` and the counts are of all pages."""

    rows: tuple[MemoryEntry, ...]
    total: int
    first: int
    stamp: str
    by_category: Mapping[str, int]
    by_status: Mapping[str, int]  # of all memories, whatever was asked for
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddResult:
    """Result of an addition. Nothing is written if the action is `rejected` or `duplicate`, or in a dry run."""

    id: str
    path: str
    action: Action
    similar: tuple[MemoryEntry, ...] = ()
    redactions: int = 0
    indexed: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """Result of a change."""

    entry: MemoryEntry
    changed: tuple[str, ...]
    redactions: int


class Memories:
    """The memories of one workspace, of the project and of its user.

    Thread-safe; other processes may change them at the same time.
    """

    def __init__(
        self,
        shelves: Mapping[str, MemoryFolder],
        linked: LinkedFiles,
        recall: MemoryIndex,
        *,
        now: Now,
        redact_text: RedactText = redact,
    ) -> None:
        """`shelves` are the folders by scope; `project` is always one of them."""
        self.recall = recall
        self._shelves = shelves
        self._linked = linked
        self._now = now
        self._redact_text = redact_text

    # -- reading --

    def entries(self) -> list[MemoryEntry]:
        """Return every memory file as it is now, the project's first. Raises: StorageBusy."""
        return [entry for shelf in self._shelves.values() for entry in shelf.entries()]

    def start_status_check(self) -> Callable[[MemoryEntry], MemoryEntry]:
        """Return a function that returns a memory with its status at this moment: whether it holds, and if not, why."""
        now, why_stale = self._now(), self._linked.start_check()

        def check(entry: MemoryEntry) -> MemoryEntry:
            memory = entry.memory
            if memory is None:
                return replace(entry, status="invalid", why=entry.problem)
            if entry.replaced_by:
                return replace(entry, status="superseded", why=f"by {entry.replaced_by}")
            expires = parse_timestamp(memory.expires_at) if memory.expires_at else None
            if expires is not None and expires <= now:
                return replace(entry, status="expired", why=f"on {memory.expires_at}")
            if memory.linked_files and (why := why_stale(memory.linked_files)):
                return replace(entry, status="stale", why=why)
            return entry

        return check

    def list_page(self, wanted: MemoryQuery) -> MemoryListing:
        """Return a page of the memories that pass a filter, sorted.

        Raises: StorageBusy, InvalidArgument for a cursor of another list.
        """
        entries, check = self.entries(), self.start_status_check()
        warnings = [shelf.records.problem for shelf in self._shelves.values()]
        found = None
        if wanted.query.strip():
            readable = {entry.number for entry in entries if entry.memory}
            found, problem = self.recall.rank(wanted.query, query_terms(wanted.query), readable)
            warnings.append(problem and f"found by words alone: {problem}")
        known = list(map(check, entries))
        rows = [entry for entry in known if _passes(wanted, entry)]
        if found is not None:
            rows = [replace(entry, score=found[entry.number]) for entry in rows if entry.number in found]
        rows.sort(key=lambda row: _order(wanted, row))
        question = (wanted.category, wanted.query, wanted.tags, wanted.status, wanted.linked_file, wanted.sort)
        stamped = hash_page(question, (f"{row.path}@{row.version}" for row in rows))
        start = parse_cursor(wanted.cursor, stamped)
        return MemoryListing(
            rows=tuple(rows[start : start + wanted.limit]),
            total=len(rows),
            first=start,
            stamp=stamped,
            by_category=dict(sorted(Counter(map(_category, rows)).items())),
            by_status=dict(sorted(Counter(entry.status for entry in known).items())),
            warnings=tuple(filter(None, (*warnings, *describe_unreadable(entries)))),
        )

    def redact_text(self, text: str) -> str:
        """Return a text without secrets."""
        return self._redact_text(text).text

    def get(self, id: str) -> MemoryEntry:  # noqa: A002 - the word of the reply
        """Return the memory with an id. Raises: MemoryNotFound."""
        for entry in self.entries():
            if entry.memory and entry.memory.id == id:
                return entry
        raise MemoryNotFound(
            f"no memory has the id {id[:80]!r}",
            next_steps=NextStep("list_memories", "to see their ids"),
            details={"id": id[:80]},
        )

    # -- writing --

    def add(self, draft: MemoryDraft, *, on_similar: str = "warn", dry_run: bool = False) -> AddResult:
        """Write a memory, unless it exists already.

        Raises: InvalidArgument, InvalidPath, AccessDenied and FileNotFound for linked files, MemoryNotFound for ids to
        supersede, WriteFailed, DiskFull, StorageBusy.
        """
        values, redactions = memory_file.remove_secrets(asdict(draft), self._redact_text)
        clean = memory_file.normalize_draft(MemoryDraft(**values))
        memory_file.check_draft(clean, CATEGORIES)
        shelf = self._shelf(clean.scope)
        made = self._build_memory(clean)
        with nullcontext() if dry_run else shelf.records.writing():
            result, older = self._plan_addition(shelf, made, clean.supersedes, on_similar)
            if not dry_run and result.action in ("created", "superseded"):
                result = _write_new(shelf, made, older, result)
        return replace(result, redactions=redactions)

    def _build_memory(self, draft: MemoryDraft) -> Memory:
        at = self._now()
        stamp = format_timestamp(at)
        plain = {field.name: getattr(draft, field.name) for field in fields(draft) if field.name != "scope"}
        plain |= {
            "linked_files": self._linked.hash_files(draft.linked_files, _subject(draft)),
            "expires_at": memory_file.parse_expiry(draft.expires_at),
        }
        new_id = f"mem_{uuid7(int(at * 1000), os.urandom(CHANCE_BYTES))}"
        made = Memory(id=new_id, created_at=stamp, updated_at=stamp, **plain)
        memory_file.check_writable(made)
        return made

    def _plan_addition(
        self, shelf: MemoryFolder, made: Memory, supersedes: Sequence[str], on_similar: str
    ) -> tuple[AddResult, list[MemoryEntry]]:
        """Decide what to do with a new memory given the existing ones; return also those that it supersedes."""
        entries = [*map(self.start_status_check(), (entry for entry in shelf.entries() if entry.memory))]
        holding = [entry for entry in entries if entry.status in ("active", "stale")]
        older = _find_named(entries, supersedes)
        same = next((entry for entry in holding if entry.digest == hash_content(made.content)), None)
        if same and same.memory and not older:
            return AddResult(same.memory.id, same.path, "duplicate", indexed=True), []
        similar = self._find_similar(made, [entry for entry in holding if entry not in older])
        warnings: list[str] = []
        if similar and on_similar == "warn":
            way_on = "update_memory changes one; `on_similar: supersede` puts this in its place"
            warnings.append(f"{len(similar)} similar: {way_on}")
        if len(entries) >= MEMORIES_MAX:
            warnings.append(
                f"{len(entries):,} memories are more than a team can keep up to date: delete or archive some"
            )
        if similar and on_similar == "reject":
            best = similar[0]
            best_id = best.memory.id if best.memory else ""
            return AddResult(best_id, best.path, "rejected", similar, warnings=tuple(warnings)), []
        if on_similar == "supersede":
            older += similar
        action: Action = "superseded" if older else "created"
        path = shelf.display_path(made.file_name)
        return AddResult(made.id, path, action, similar, warnings=tuple(warnings)), older

    def _find_similar(self, made: Memory, entries: Sequence[MemoryEntry]) -> tuple[MemoryEntry, ...]:
        """Return the memories with nearly the same content with their likeness, best first."""
        text = IndexItem(b"", made.title, made.content).text
        cosines, _ = self.recall.compute_similarity(text)
        shared = self.recall.score_words(query_terms(text))
        near = {number for number, cosine in cosines.items() if cosine >= SAME_MEANING_MIN}
        compared, new = near | take_best(shared, COMPARED_MAX).keys(), collect_terms(made.content)
        similar: list[tuple[float, MemoryEntry]] = []
        for entry in entries:
            if entry.number in compared and entry.memory:
                words = compare_terms(new, collect_terms(entry.memory.content))
                if words >= SAME_WORDS_MIN or entry.number in near:
                    similar.append((max(words, cosines.get(entry.number, 0.0)), entry))
        similar.sort(key=lambda row: (-row[0], row[1].name))
        return tuple(replace(entry, score=score) for score, entry in similar[:SHOWN_SIMILAR_MAX])

    def update(
        self,
        id: str,  # noqa: A002 - the word of the reply
        changes: Mapping[str, Any],
        *,
        still_true: bool = False,
        expected_version: str = "",
    ) -> UpdateResult:
        """Change the named fields of a memory. Others stay byte for byte; another category moves the file.

        `changes` are fields of `MemoryDraft`. Linked files are hashed again if they are named, and with `still_true`:
        then the memory is no longer stale.

        Raises: MemoryNotFound, InvalidArgument, StaleFile when `expected_version` is no longer the file's, and as
        `add`.
        """
        shelf = self._shelf(self.get(id).scope)
        with shelf.records.writing():
            entry = self.get(id)
            old = _check_version(entry, expected_version)
            clean, redactions = memory_file.remove_secrets(changes, self._redact_text)
            new = memory_file.apply_changes(old, clean)
            if still_true or "linked_files" in clean:
                paths = clean.get("linked_files", [link.path for link in new.linked_files])
                new = replace(new, linked_files=self._linked.hash_files(paths, _subject(new)))
            changed = tuple(field.name for field in fields(new) if getattr(new, field.name) != getattr(old, field.name))
            if not changed:
                return UpdateResult(entry, (), redactions)
            new = replace(new, updated_at=format_timestamp(self._now()))
            memory_file.check_writable(new)
            _rewrite(shelf, entry, new)
        return UpdateResult(self.get(id), changed, redactions)

    def delete(self, id: str, *, expected_version: str = "") -> MemoryEntry:  # noqa: A002
        """Delete a memory and return it. A memory that it superseded becomes active again.

        Raises: MemoryNotFound, StaleFile when `expected_version` is no longer the file's, WriteFailed, StorageBusy.
        """
        shelf = self._shelf(self.get(id).scope)
        with shelf.records.writing():
            entry = self.get(id)
            _check_version(entry, expected_version)
            shelf.records.remove(entry.name)
        return entry

    def _shelf(self, scope: str) -> MemoryFolder:
        if scope not in self._shelves:
            raise InvalidArgument(
                f"there is no scope {scope!r}", suggestion=f"It is one of {', '.join(self._shelves)}."
            )
        return self._shelves[scope]


def _write_new(shelf: MemoryFolder, made: Memory, older: Sequence[MemoryEntry], result: AddResult) -> AddResult:
    """Write a new file, and mark the memories that it supersedes. Raises: WriteFailed, DiskFull, StorageBusy."""
    made = replace(made, supersedes=tuple(entry.memory.id for entry in older if entry.memory))
    if not shelf.records.create(made.file_name, format_file(made).encode()):
        raise StorageBusy(f"there is a file {result.path} already", suggestion="Call again.")
    for entry in older:
        if entry.memory:
            _rewrite(shelf, entry, replace(entry.memory, superseded_by=made.id))
    with suppress(StorageBusy):  # then the next look indexes it
        shelf.entries()
        return replace(result, indexed=True)
    return result


def describe_unreadable(entries: Sequence[MemoryEntry]) -> tuple[str, ...]:
    """Report the memories that cannot be read, and so are not found."""
    left = [f"{escape_line(entry.path)} ({entry.problem})" for entry in entries if entry.memory is None]
    if not left:
        return ()
    shown = join_first(left, UNREAD_SHOWN)
    return (f"left out, since they cannot be read: {shown}. Repair these files, or take them back from git.",)


def _passes(wanted: MemoryQuery, entry: MemoryEntry) -> bool:
    if wanted.status not in ("all", entry.status) or wanted.category not in ("", _category(entry)):
        return False
    memory = entry.memory
    if memory is None:
        return not (wanted.tags or wanted.linked_file)
    tags = {tag.casefold() for tag in memory.tags}
    files = ("", *(link.path for link in memory.linked_files))
    return wanted.linked_file in files and tags.issuperset(tag.casefold() for tag in wanted.tags)


def _category(entry: MemoryEntry) -> str:
    return entry.name.split("/")[0]


def _order(wanted: MemoryQuery, row: MemoryEntry) -> tuple[float, float, bool, str]:
    """Return the sort key: best first; ties by the last change, then by name. Unreadable files come last."""
    memory, first = row.memory, 0.0
    if wanted.sort == "priority":
        first = PRIORITIES.index(memory.priority) if memory else len(PRIORITIES)
    elif wanted.sort in ("", "relevance"):
        first = -(row.score or 0.0)
    updated = parse_timestamp(memory.updated_at) if memory else None
    return first, -(updated or 0.0), memory is None, row.name


def _subject(memory: Memory | MemoryDraft) -> str:
    """Return the text in which a memory mentions names of code."""
    return "\n".join((memory.title, memory.content, *(f"`{symbol}`" for symbol in memory.linked_symbols)))


def _find_named(entries: Sequence[MemoryEntry], ids: Sequence[str]) -> list[MemoryEntry]:
    """Return the memories with these ids. Raises: MemoryNotFound."""
    known = {entry.memory.id: entry for entry in entries if entry.memory}
    missing = [name for name in ids if name not in known]
    if missing:
        raise MemoryNotFound(
            f"no memory has the id {missing[0][:80]!r}; nothing was written",
            next_steps=NextStep(
                "list_memories", "to see all ids, also of memories that no longer apply", {"status": "all"}
            ),
            details={"ids": missing},
        )
    return [known[name] for name in dict.fromkeys(ids)]


def _check_version(entry: MemoryEntry, version: str) -> Memory:
    """Return the memory, if its file is still the version that the caller has seen. Raises: StaleFile."""
    if version and version != entry.version:
        raise StaleFile(
            f"{entry.path} was changed by somebody else; nothing was written",
            suggestion="Repeat the call with its current version.",
            next_steps=NextStep("list_memories", "to see the version"),
            details={"path": entry.path, "version": entry.version},
        )
    assert entry.memory
    return entry.memory


def _rewrite(shelf: MemoryFolder, entry: MemoryEntry, new: Memory) -> None:
    """Write the changes to the file, and move it if its category changed.

    Raises: InvalidArgument, WriteFailed, DiskFull.
    """
    old = entry.memory
    assert old
    text = update_file(shelf.load_text(entry.name), old, new)
    name = f"{new.category}/{entry.name.partition('/')[2]}"
    read_back = parse_file(text, name)
    if isinstance(read_back, str) or read_back.content != new.content:
        raise memory_file.unwritable_error(
            str(read_back) if isinstance(read_back, str) else "it would not read as it was meant"
        )
    if name == entry.name:
        shelf.records.replace(name, text.encode())
    elif shelf.records.create(name, text.encode()):
        shelf.records.remove(entry.name)
    else:
        raise InvalidArgument(
            f"there is a file {shelf.display_path(name)} already", suggestion="Rename one of the two."
        )
