"""Decides from values which memories are listed, in what order, and whether each still holds. Nothing is read here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from context_engine import timestamps
from context_engine.memory.memory_checks import check_choice
from context_engine.memory.memory_folder import MemoryEntry, WhyStale
from context_engine.memory.memory_requests import PRIORITIES, SORTS, STATUSES, MemoryQuery
from context_engine.text import escape_line, format_cursor, hash_page, parse_cursor

Status = Literal["active", "stale", "superseded", "expired", "invalid"]
UNREAD_SHOWN = 3


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """Whether a memory holds, and why not."""

    status: Status
    why: str = ""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One memory of a list. `score` is its relevance, None without a query."""

    entry: MemoryEntry
    status: MemoryStatus
    score: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryListing:
    """One page of memories; `total` and the counts are of all pages."""

    rows: tuple[MemoryRow, ...]
    total: int
    first: int
    stamp: str
    by_category: Mapping[str, int]
    by_status: Mapping[str, int]  # of all memories, whatever was asked for
    warnings: tuple[str, ...] = ()

    def cursor_after(self, count: int) -> str:
        """Return the cursor after the first `count` rows of this page; empty at the end."""
        stop = self.first + count
        return format_cursor(stop, self.stamp) if stop < self.total else ""


def compute_status(entry: MemoryEntry, now: float, why_stale: WhyStale) -> MemoryStatus:
    """Return whether a memory holds at a time. A superseded or expired one is not checked for changed files."""
    memory = entry.memory
    if memory is None:
        return MemoryStatus("invalid", entry.problem)
    if entry.replaced_by:
        return MemoryStatus("superseded", f"by {entry.replaced_by}")
    if memory.expires_at:
        expires = timestamps.parse_timestamp(memory.expires_at)
        if expires is not None and expires <= now:
            return MemoryStatus("expired", f"on {memory.expires_at}")
    if memory.linked_files and (why := why_stale(memory.linked_files)):
        return MemoryStatus("stale", why)
    return MemoryStatus("active")


def list_memories(
    wanted: MemoryQuery,
    known: Sequence[tuple[MemoryEntry, MemoryStatus]],
    found: Mapping[int, float] | None,
) -> MemoryListing:
    """Return the requested page. `found` is the relevance of each item to the query, None without a query.

    Raises: InvalidArgument for an unknown status or sort, or a cursor of another list.
    """
    check_choice("status", wanted.status, STATUSES)
    check_choice("sort", wanted.sort, ("", *SORTS))
    rows = [
        MemoryRow(entry, status, None if found is None else found.get(entry.number, 0.0))
        for entry, status in known
        if _passes(wanted, entry, status) and (found is None or entry.number in found)
    ]
    rows.sort(key=lambda row: _order(wanted, row))
    stamped = _stamp(wanted, rows)
    start = parse_cursor(wanted.cursor, stamped)
    return MemoryListing(
        rows=tuple(rows[start : start + wanted.limit]),
        total=len(rows),
        first=start,
        stamp=stamped,
        by_category=dict(sorted(Counter(_category(row.entry) for row in rows).items())),
        by_status=dict(sorted(Counter(status.status for _, status in known).items())),
    )


def describe_unreadable(entries: Iterable[MemoryEntry]) -> tuple[str, ...]:
    """Report the memories that cannot be read, and so are not found."""
    left = [entry for entry in entries if entry.memory is None]
    if not left:
        return ()
    shown = ", ".join(f"{escape_line(entry.path)} ({entry.problem})" for entry in left[:UNREAD_SHOWN])
    more = f" and {len(left) - UNREAD_SHOWN} more" if len(left) > UNREAD_SHOWN else ""
    return (f"left out, since they cannot be read: {shown}{more}. Repair these files, or take them back from git.",)


def _passes(wanted: MemoryQuery, entry: MemoryEntry, status: MemoryStatus) -> bool:
    if wanted.status not in ("all", status.status) or wanted.category not in ("", _category(entry)):
        return False
    memory = entry.memory
    if memory is None:
        return not (wanted.tags or wanted.linked_file)
    tags = {tag.casefold() for tag in memory.tags}
    files = ("", *(link.path for link in memory.linked_files))
    return wanted.linked_file in files and tags.issuperset(tag.casefold() for tag in wanted.tags)


def _category(entry: MemoryEntry) -> str:
    return entry.name.split("/")[0]


def _order(wanted: MemoryQuery, row: MemoryRow) -> tuple[float, float, bool, str]:
    """Return the sort key: best first; ties by the last change, then by name. Unreadable files come last."""
    memory, first = row.entry.memory, 0.0
    if wanted.sort == "priority":
        first = PRIORITIES.index(memory.priority) if memory else len(PRIORITIES)
    elif wanted.sort in ("", "relevance"):
        first = -(row.score or 0.0)
    updated = timestamps.parse_timestamp(memory.updated_at) if memory else None
    return first, -(updated or 0.0), memory is None, row.entry.name


def _stamp(wanted: MemoryQuery, rows: Iterable[MemoryRow]) -> str:
    """Return a hash of the question and of the memories that answer it, which a cursor contains."""
    question = (wanted.category, wanted.query, wanted.tags, wanted.status, wanted.linked_file, wanted.sort)
    return hash_page(question, (f"{row.entry.path}@{row.entry.version}" for row in rows))
