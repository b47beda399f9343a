"""The register: a row for each plan, worked out of its files, and kept in `index.json` until one of them changes.

A row stands beside the stamp of what it was made from, so a list looks at all plans and reads only those that changed. Whoever
finds the register missing or wrong makes it anew; nothing is lost with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from context_engine.errors import PlanNotFound, StorageCorrupt
from context_engine.plans.approvals import is_approved
from context_engine.plans.model import Plan
from context_engine.plans.plan_listing import PlanRow
from context_engine.plans.plan_progress import PlanEvent, plan_status
from context_engine.plans.plan_requests import DAMAGED
from context_engine.plans.plan_storage import PlanStorage
from context_engine.plans.plan_version import PlanVersion
from context_engine.sharing.versioned_records import Stamp
from context_engine.storage.numbered_versions import name as file_of

INDEX_FORMAT = 1
"""1: rows beside the stamps of what they were made from."""
ARCHIVED = "plan_archived"
NAME_CHARS_MAX = 120
"""A headline."""


class PlanIndex:
    """The rows of all plans of one workspace. Thread-safe; other processes may work on the plans, too."""

    def __init__(self, keeper: PlanStorage) -> None:
        """Nothing is read yet."""
        self._keeper = keeper

    def rows(self) -> list[PlanRow]:
        """Every plan, by id. Rows whose plans did not change since are taken from the index, which is mended where it is wrong."""
        index = self._read_index()
        rows: list[tuple[Stamp, PlanRow]] = []
        names = self._keeper.records.names()
        for plan_id in names:
            stamp, row = index.get(plan_id, ((), None))
            now = self._keeper.records.stamp(plan_id, file_of(row.version)) if row else ()
            if row is None or not stamp or now != stamp:
                stamp, row = self._build_row(plan_id)
            if row is not None:
                rows.append((stamp, row))
        if rows != list(index.values()):
            self._write_index(rows)
        return [row for _, row in rows]

    def _build_row(self, plan_id: str) -> tuple[Stamp, PlanRow | None]:
        """The row of a plan, and the stamp of what it was made from; None for a folder without a plan."""
        numbers = self._keeper.version_numbers(plan_id)
        if not numbers:
            return (), None
        stamp = self._keeper.records.stamp(plan_id, file_of(numbers[-1]))
        try:
            now = self._keeper.read_state(plan_id)
        except PlanNotFound:  # deleted in this moment
            return (), None
        except StorageCorrupt as error:
            return stamp, self._damaged_row(plan_id, numbers, error.message)
        archived = _is_archived(now.events)
        status = plan_status(now.plan, now.execution, approved=is_approved(now.approvals, now.plan), archived=archived)
        at = max(now.version.created_at, now.events[-1].at if now.events else "")
        row = _new_row(now.version, now.plan, status=status, progress=now.execution.percentage, updated_at=at)
        requests = tuple(each.id for each in now.approvals)
        return stamp, msgspec.structs.replace(row, requests=requests, problem=now.execution.damage)

    def _damaged_row(self, plan_id: str, numbers: Sequence[int], problem: str) -> PlanRow:
        """The row of a plan that cannot be read as it is: what its newest sound version says."""
        for number in reversed(numbers):
            with suppress(StorageCorrupt, PlanNotFound):
                version, plan = self._keeper.read_version(plan_id, number)
                row = _new_row(version, plan, status=DAMAGED, progress=0.0, updated_at=version.created_at)
                return msgspec.structs.replace(row, version=numbers[-1], problem=problem)
        return PlanRow(
            id=plan_id, name=plan_id, goal="", status=DAMAGED, version=numbers[-1], step_count=0, progress=0.0,
            created_at="", updated_at="", problem=problem,
        )  # fmt: skip

    def _read_index(self) -> dict[str, tuple[Stamp, PlanRow]]:
        """The rows that are kept, with the stamps of what they were made from; none when they are of another make."""
        try:
            index = msgspec.json.decode(self._keeper.records.index() or b"{}", type=_PlanIndexFile)
        except msgspec.DecodeError:
            return {}
        if (index.format, index.policy) != (INDEX_FORMAT, repr(self._keeper.limits)):
            return {}
        return {each.row.id: (each.stamp, each.row) for each in index.plans}

    def _write_index(self, rows: Sequence[tuple[Stamp, PlanRow]]) -> None:
        index = _PlanIndexFile(
            INDEX_FORMAT, repr(self._keeper.limits), [_PlanIndexEntry(stamp, row) for stamp, row in rows]
        )
        self._keeper.records.put_index(msgspec.json.format(msgspec.json.encode(index), indent=1))


class _PlanIndexEntry(msgspec.Struct):
    stamp: tuple[int, ...]
    row: PlanRow


class _PlanIndexFile(msgspec.Struct):
    """What `index.json` holds. The stamps show whether a plan changed since; the policy has a say in what `failed` means."""

    format: int = 0
    policy: str = ""
    plans: list[_PlanIndexEntry] = []


def _new_row(version: PlanVersion, plan: Plan, *, status: str, progress: float, updated_at: str) -> PlanRow:
    return PlanRow(
        id=plan.id,
        name=version.name,
        goal=shorten_headline(plan.goal or plan.task),
        status=status,
        version=version.version,
        step_count=len(plan.steps),
        progress=progress,
        created_at=plan.created_at,
        updated_at=updated_at,
        tags=version.tags,
    )


def _is_archived(events: Sequence[PlanEvent]) -> bool:
    """Whether a plan was put among those that are over, and nothing has happened to it since."""
    return bool(events) and events[-1].kind == ARCHIVED


def shorten_headline(text: str) -> str:
    """The first line of a text, cut where it would be no headline any more."""
    line = " ".join(text.strip().split("\n", 1)[0].split())
    return line if len(line) <= NAME_CHARS_MAX else line[: NAME_CHARS_MAX - 1].rstrip() + "…"
