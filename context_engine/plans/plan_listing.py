"""PURE. Which plans a list shows, and in what order."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from context_engine.errors import InvalidArgument
from context_engine.plans.plan_requests import ORDERS, SORTS, STATUSES, PlanQuery
from context_engine.search.text_search import cursor, position

STAMP_CHARS = 8


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """One plan of a list. `progress` is a percentage; `problem` says what is wrong with its files.

    `requests` are the ids of all requests for approval ever made about it.
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
        """Where to go on when so many rows of this page were shown; empty at the end."""
        stop = self.first + count
        return cursor(stop, self.stamped) if stop < self.total else ""


def list_page(wanted: PlanQuery, rows: Sequence[PlanRow]) -> PlanListPage:
    """The page that was asked for. Raises: InvalidArgument for unknown words, or a cursor of another list."""
    _check_query(wanted)
    passing = [row for row in rows if _matches(wanted, row)]
    passing.sort(key=lambda row: row.id)
    passing.sort(key=lambda row: _sort_key(wanted.sort_by, row), reverse=wanted.sort_order == "desc")
    stamped = _page_stamp(wanted, passing)
    start = position(wanted.cursor, stamped)
    by_status = dict(sorted(Counter(row.status for row in rows).items()))
    return PlanListPage(tuple(passing[start : start + wanted.limit]), len(passing), start, stamped, by_status)


def _check_query(wanted: PlanQuery) -> None:
    for name, among in (("status", ("", *STATUSES)), ("sort_by", SORTS), ("sort_order", ORDERS)):
        value = getattr(wanted, name)
        if value not in among:
            said = f"It is one of {', '.join(filter(None, among))}."
            raise InvalidArgument(f"{name} is {value[:40]!r}", suggestion=said, details={"argument": name})


def _matches(wanted: PlanQuery, row: PlanRow) -> bool:
    if wanted.status not in ("", row.status):
        return False
    if not {tag.casefold() for tag in wanted.tags} <= {tag.casefold() for tag in row.tags}:
        return False
    said = " ".join((row.id, row.name, row.goal, *row.tags)).casefold()
    return all(word in said for word in wanted.query.casefold().split())


def _sort_key(sort_by: str, row: PlanRow) -> str | float:
    return row.name.casefold() if sort_by == "name" else getattr(row, sort_by)


def _page_stamp(wanted: PlanQuery, rows: Iterable[PlanRow]) -> str:
    """What a cursor remembers: the question, and the plans that answer it in their order."""
    asked = (wanted.status, wanted.tags, wanted.query, wanted.sort_by, wanted.sort_order)
    told = [repr(asked), *(f"{row.id}@{row.updated_at}" for row in rows)]
    return hashlib.sha256("\n".join(told).encode("utf-8", "surrogatepass")).hexdigest()[:STAMP_CHARS]
