"""PURE. Lists of plans: filters, order, pages and slugs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, get_args

import msgspec

from context_engine.errors import InvalidArgument
from context_engine.plans.plan_events import PlanStatus
from context_engine.search import format_cursor, parse_cursor
from context_engine.text import ids_ending_with, make_slug, short_id

DAMAGED = "damaged"
"""The status of a plan when one of its files cannot be read as it was written."""

PROGRESS_MODES = ("keep", "reset", "reconcile")
"""Effect of a rollback on progress: keep it for all steps that exist, reset it, or keep it where the work is the same.
"""


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """A filter for plans; empty fields do not filter. All `tags` and all words of `query` must match."""

    STATUSES: ClassVar[tuple[str, ...]] = (*get_args(PlanStatus), DAMAGED)
    SORTS: ClassVar[tuple[str, ...]] = ("updated_at", "created_at", "name", "progress")
    ORDERS: ClassVar[tuple[str, ...]] = ("desc", "asc")

    status: str = ""
    tags: tuple[str, ...] = ()
    query: str = ""
    sort_by: str = "updated_at"
    sort_order: str = "desc"
    limit: int = 50
    cursor: str = ""


STAMP_CHARS = 8


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row in a list of plans. `progress` is a percentage; `problem` describes damage to its files.

    `requests` are the ids of all approval requests ever made about it.
    """

    id: str
    name: str
    goal: str
    status: str
    version: int
    step_count: int
    progress: float
    created_at: str
    updated_at: str
    tags: tuple[str, ...] = ()
    problem: str = ""
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanListPage:
    """One page of plans; `total` is of all pages, `by_status` of all plans, whatever was asked for."""

    rows: tuple[PlanRow, ...]
    total: int
    first: int
    stamped: str
    by_status: Mapping[str, int]

    def cursor_after(self, count: int) -> str:
        """Return the cursor after this many rows of the page; empty at the end."""
        stop = self.first + count
        return format_cursor(stop, self.stamped) if stop < self.total else ""


def list_page(wanted: PlanQuery, rows: Sequence[PlanRow]) -> PlanListPage:
    """Return a page of plans. Raises: InvalidArgument for unknown words, or a cursor of another list."""
    _check_query(wanted)
    passing = [row for row in rows if _matches(wanted, row)]
    passing.sort(key=lambda row: row.id)
    passing.sort(key=lambda row: _sort_key(wanted.sort_by, row), reverse=wanted.sort_order == "desc")
    stamped = _page_stamp(wanted, passing)
    start = parse_cursor(wanted.cursor, stamped)
    by_status = dict(sorted(Counter(row.status for row in rows).items()))
    return PlanListPage(tuple(passing[start : start + wanted.limit]), len(passing), start, stamped, by_status)


def _check_query(wanted: PlanQuery) -> None:
    for name, among in (("status", ("", *wanted.STATUSES)), ("sort_by", wanted.SORTS), ("sort_order", wanted.ORDERS)):
        value = getattr(wanted, name)
        if value not in among:
            suggestion = f"It is one of {', '.join(filter(None, among))}."
            raise InvalidArgument(f"{name} is {value[:40]!r}", suggestion=suggestion, details={"argument": name})


def _matches(wanted: PlanQuery, row: PlanRow) -> bool:
    if wanted.status not in ("", row.status):
        return False
    if not {tag.casefold() for tag in wanted.tags} <= {tag.casefold() for tag in row.tags}:
        return False
    text = " ".join((row.id, row.name, row.goal, *row.tags)).casefold()
    return all(word in text for word in wanted.query.casefold().split())


def _sort_key(sort_by: str, row: PlanRow) -> str | float:
    return row.name.casefold() if sort_by == "name" else getattr(row, sort_by)


def _page_stamp(wanted: PlanQuery, rows: Iterable[PlanRow]) -> str:
    """Return the stamp that a cursor contains: of the query, and of the matching plans in their order."""
    filters = (wanted.status, wanted.tags, wanted.query, wanted.sort_by, wanted.sort_order)
    lines = [repr(filters), *(f"{row.id}@{row.updated_at}" for row in rows)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:STAMP_CHARS]


CHARS_MAX = 28
"""Four or five words: a longer slug is not short."""


def make_slugs(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the slug of each plan by id, from ids and names.

    >>> make_slugs([("plan_1-aaaaaaaa", "Money in cents"), ("plan_1-bbbbbbbb", "???")])
    {'plan_1-aaaaaaaa': 'money-in-cents', 'plan_1-bbbbbbbb': 'bbbbbbbb'}
    """
    rows = [(plan_id, _slug_words(name)) for plan_id, name in named]
    slug_counts = Counter(words for _, words in rows)
    return {key: words if words and slug_counts[words] == 1 else short_id(key) for key, words in rows}


def _slug_words(name: str) -> str:
    """Return the first words of a name, joined by dashes."""
    whole = make_slug(name, "")
    return whole if len(whole) <= CHARS_MAX else whole[: CHARS_MAX + 1].rpartition("-")[0] or whole[:CHARS_MAX]


def resolve_slug(typed: str, by_id: Mapping[str, str], *, is_begun: bool = False) -> str:
    """Return the id that a slug or the end of an id refers to; ambiguous and unknown text is returned as it is.

    With `is_begun` the beginning of a slug is enough, for people at a terminal.

    >>> known = {"plan_1-aaaaaaaa": "money-in-cents"}
    >>> resolve_slug("money-in-cents", known), resolve_slug("money", known), resolve_slug("money", known, is_begun=True)
    ('plan_1-aaaaaaaa', 'money', 'plan_1-aaaaaaaa')
    """
    found = [plan_id for plan_id, handle in by_id.items() if typed in (handle, plan_id)]
    if is_begun and typed:
        found = found or [plan_id for plan_id, handle in by_id.items() if handle.startswith(typed)]
    found = found or ids_ending_with(typed, by_id)
    return found[0] if len(found) == 1 else typed
