"""Plan storage: each version is a file that is written once, and everything that happens is an event in a log.

A writer locks the plan, reads its state, decides, and appends an event or a version. Status, progress and approvals
are derived at each call, so a crash loses nothing. The index is derived too: a row for each plan in `index.json`, next
to the stamp of the files it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec

from context_engine.errors import Conflict, HostError, NextStep, PlanNotFound, StorageCorrupt
from context_engine.plans.model import Plan
from context_engine.plans.plan_events import (
    Approval,
    Execution,
    PlanEvent,
    PlanStatus,
    fold_approvals,
    fold_progress,
    is_approved,
    plan_status,
)
from context_engine.plans.plan_json import PlanVersion, decode_version, encode_version
from context_engine.plans.plan_markdown import render_plan
from context_engine.storage import LogContent, VersionedRecords, prepare_type
from context_engine.storage import version_file_name as file_of
from context_engine.text import CHANCE_BYTES, shorten_prose, uuid7
from context_engine.timestamps import Now, format_timestamp

MIRROR = "PLAN.md"
DAMAGED = "damaged"
"""The status of a plan when one of its files cannot be read as it was written."""
DAMAGED_LOG_ADVICE = (
    "steps may be further than they look. Restore the file from git or a backup, or delete events.head next to it "
    "to go on with the rest."
)
NAME_CHARS_MAX = 120
"""A headline."""
INDEX_FORMAT = 1
"""1: pairs of the stamp of what a row was made from, and the row."""


@dataclass(frozen=True, slots=True)
class PlanState:
    """One plan as it is at a moment.

    `unlogged` are events of versions whose writer died before it could append them.
    """

    version: PlanVersion
    plan: Plan
    versions: tuple[int, ...]
    log: LogContent
    events: tuple[PlanEvent, ...]
    unlogged: tuple[PlanEvent, ...]
    execution: Execution
    approvals: tuple[Approval, ...]

    @property
    def status(self) -> PlanStatus:
        """The status of the plan as lists show it."""
        return plan_status(self.plan, self.execution, approved=is_approved(self.approvals, self.plan))


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row in a list of plans. `progress` is a percentage; `problem` describes damage to its files.

    `requests` are the ids of all approval requests ever made about it.
    """

    id: str
    name: str
    goal: str = ""
    status: str
    version: int
    step_count: int = 0
    progress: float = 0.0
    created_at: str = ""
    updated_at: str = ""
    tags: tuple[str, ...] = ()
    problem: str = ""
    requests: tuple[str, ...] = ()


class _PlanIndexFile(msgspec.Struct):
    """The content of `index.json`."""

    format: int = 0
    plans: list[tuple[tuple[int, ...], PlanRow]] = []


class PlanStorage:
    """The plans of one workspace on disk. Thread-safe; other processes may work on them, too."""

    def __init__(
        self,
        records: VersionedRecords,
        *,
        now: Now,
        chance: Callable[[int], bytes],
        redact_text: Callable[[str], str],
        retries_max: int,
    ) -> None:
        """Create the storage; no file is created until a plan is saved. `redact_text` removes the secrets of a text."""
        self.records = records
        self.retries_max = retries_max
        self.now = now
        self._chance = chance
        self._redact_text = redact_text

    def new_id(self, prefix: str) -> str:
        """Return a new id such as `plan_01890a5d-...`."""
        return f"{prefix}_{uuid7(int(self.now() * 1000), self._chance(CHANCE_BYTES))}"

    def clean(self, value: Any) -> Any:
        """Return the value with all its texts free of secrets: everything that is saved passes through here."""
        return _map_texts(value, cache(self._redact_text))

    # -- reading --

    def version_numbers(self, plan_id: str) -> tuple[int, ...]:
        """Return the numbers of the versions; empty if the plan does not exist."""
        return self.records.numbers(plan_id)

    def read_version(self, plan_id: str, number: int) -> tuple[PlanVersion, Plan]:
        """Read a version and its plan. Raises: PlanNotFound, StorageCorrupt naming the file."""
        data = self.records.read(plan_id, number)
        if data is None:
            raise _unknown_version(plan_id, number, self.records.numbers(plan_id))
        try:
            return decode_version(data)
        except ValueError as error:
            raise self.records.corrupt_error(plan_id, number, str(error)) from error

    def read_state(self, plan_id: str) -> PlanState:
        """Read the present state of a plan.

        Raises: PlanNotFound, StorageCorrupt naming the file, and the line of a broken log.
        """
        # The log comes first: a version that is added meanwhile brings its event along.
        log = self.records.log(plan_id).read()
        numbers = self.version_numbers(plan_id)
        if not numbers:
            raise unknown_plan(plan_id)
        return self._build_state(*self.read_version(plan_id, numbers[-1]), numbers, log)

    def _build_state(self, version: PlanVersion, plan: Plan, numbers: tuple[int, ...], log: LogContent) -> PlanState:
        logged = self._decode_events(version.plan_id, log)
        named = (event.data.get("version") for event in logged)
        known = max((number for number in named if isinstance(number, int)), default=0)
        # A version that the log does not name was written by a process that died before it appended its events.
        missed = [self.read_version(version.plan_id, number)[0].events for number in numbers if number > known]
        late = tuple(
            msgspec.structs.replace(event, seq=seq)
            for seq, event in enumerate((event for events in missed for event in events), len(logged) + 1)
        )
        events = (*logged, *late)
        execution = fold_progress(plan, events, retries_max=self.retries_max)
        if log.doubt:
            damage = f"events.jsonl of {version.plan_id}: {log.doubt}; {DAMAGED_LOG_ADVICE}"
            execution = replace(execution, damage=damage)
        approvals = fold_approvals(events, version.version, version.content_hash, self.now())
        return PlanState(version, plan, numbers, log, events, late, execution, approvals)

    def _decode_events(self, plan_id: str, log: LogContent) -> tuple[PlanEvent, ...]:
        try:
            return tuple(msgspec.convert(list(log.events), prepare_type(list[PlanEvent])))
        except msgspec.ValidationError as error:
            path = self.records.log(plan_id).path
            raise StorageCorrupt(
                f"{path.name} of {plan_id} contains something that is not an event: {error}",
                suggestion="It was written by a newer release, or by hand: take it back from git or a backup.",
                details={"path": str(path)},
            ) from error

    # -- writing --

    def lock(self, plan_id: str, *also: str) -> AbstractContextManager[None]:
        """Lock a plan against other writers until the block ends. Raises: StorageBusy, WriteFailed, DiskFull."""
        return self.records.writing(plan_id, *also)

    def new_event(
        self, kind: str, *, actor: str = "", step: str = "", data: Mapping[str, Any] | None = None
    ) -> PlanEvent:
        """Return an event of this moment, to be appended."""
        at = format_timestamp(self.now())
        return PlanEvent(seq=0, at=at, kind=kind, actor=actor, step=step, data=dict(data or {}))

    def append_events(self, current: PlanState, *events: PlanEvent) -> PlanState:
        """Append events; return the state after them. The caller must have the lock.

        Raises: TooLarge, StorageBusy, WriteFailed, DiskFull, StorageCorrupt.
        """
        plan_id = current.version.plan_id
        # The log counts events by itself; empty fields are left out.
        bodies = [
            self.clean({key: value for key, value in row.items() if key != "seq" and value not in ("", {})})
            for row in map(msgspec.to_builtins, (*current.unlogged, *events))
        ]
        log = self.records.log(plan_id).append(current.log, bodies)
        after = self._build_state(current.version, current.plan, current.versions, log)
        with suppress(HostError):  # the Markdown is only for people
            text = render_plan(after.plan, after.execution)
            self.records.put_mirror(plan_id, MIRROR, text.encode())
        return after

    def add_version(self, version: PlanVersion, plan: Plan, before: PlanState | None) -> None:
        """Add a version of a plan and append its events. The caller must have the lock.

        Raises: Conflict when that version exists, WriteFailed, DiskFull, StorageCorrupt.
        """
        if not self.records.add(version.plan_id, version.version, encode_version(version, plan)):
            raise Conflict(
                f"version {version.version} of {version.plan_id} was made by another process",
                suggestion="Load the plan again and repeat the change on what is there now.",
                details={"plan_id": version.plan_id, "current": version.version},
            )
        numbers = (*(before.versions if before else ()), version.version)
        log = before.log if before else self.records.log(version.plan_id).read()
        self.append_events(self._build_state(version, plan, numbers, log))

    # -- the index --

    def rows(self) -> list[PlanRow]:
        """Return every plan, by id. Rows of unchanged plans come from the file, which is repaired where it is wrong."""
        try:
            stored = msgspec.json.decode(self.records.read_index() or b"{}", type=prepare_type(_PlanIndexFile))
        except msgspec.DecodeError:
            stored = _PlanIndexFile()
        index = {row.id: (stamp, row) for stamp, row in stored.plans if stored.format == INDEX_FORMAT}
        rows: list[tuple[tuple[int, ...], PlanRow]] = []
        for plan_id in self.records.list_names():
            stamp, row = index.get(plan_id, ((), None))
            if row is None or not stamp or self.records.stamp(plan_id, file_of(row.version)) != stamp:
                stamp, row = self._build_row(plan_id)
            if row is not None:
                rows.append((stamp, row))
        if rows != list(index.values()):  # also when a plan was deleted
            data = msgspec.json.encode(_PlanIndexFile(INDEX_FORMAT, rows))
            self.records.put_index(msgspec.json.format(data, indent=1))
        return [row for _, row in rows]

    def _build_row(self, plan_id: str) -> tuple[tuple[int, ...], PlanRow | None]:
        """Build the row of a plan, and the stamp of its files; None for a folder without a plan."""
        numbers = self.version_numbers(plan_id)
        if not numbers:
            return (), None
        stamp = self.records.stamp(plan_id, file_of(numbers[-1]))
        try:
            now = self.read_state(plan_id)
        except PlanNotFound:  # deleted in this moment
            return (), None
        except StorageCorrupt as error:
            return stamp, self._damaged_row(plan_id, numbers, error.message)
        return stamp, msgspec.structs.replace(
            _new_row(now.version, now.plan, now.status),
            progress=now.execution.percentage,
            updated_at=max(now.version.created_at, now.events[-1].at if now.events else ""),
            requests=tuple(approval.id for approval in now.approvals),
            problem=now.execution.damage,
        )

    def _damaged_row(self, plan_id: str, numbers: Sequence[int], problem: str) -> PlanRow:
        """Return the row of an unreadable plan, from its newest sound version."""
        for number in reversed(numbers):
            with suppress(StorageCorrupt, PlanNotFound):
                row = _new_row(*self.read_version(plan_id, number), DAMAGED)
                return msgspec.structs.replace(row, version=numbers[-1], problem=problem)
        return PlanRow(id=plan_id, name=plan_id, status=DAMAGED, version=numbers[-1], problem=problem)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return the value with each text in it changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_texts(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_map_texts(item, change) for item in value)
    return value


def _new_row(version: PlanVersion, plan: Plan, status: str) -> PlanRow:
    return PlanRow(
        id=plan.id,
        name=version.name,
        goal=shorten_headline(plan.goal),
        status=status,
        version=version.version,
        step_count=len(plan.steps),
        created_at=plan.created_at,
        updated_at=version.created_at,
        tags=version.tags,
    )


def shorten_headline(text: str) -> str:
    """Return the first line of a text, cut to the length of a headline."""
    return shorten_prose(" ".join(text.strip().split("\n", 1)[0].split()), NAME_CHARS_MAX)


def unknown_plan(which: str, near: Sequence[str] = ()) -> PlanNotFound:
    """Return the error for an unknown plan."""
    return PlanNotFound(
        f"there is no plan {which[:80]!r}",
        suggestion=f"Did you mean {' or '.join(near)}?" if near else "",
        next_steps=NextStep("list_plans", "to see all plans"),
        details={"plan": which[:80], "near": list(near)},
    )


def _unknown_version(plan_id: str, number: int, numbers: Sequence[int]) -> PlanNotFound:
    if not numbers:
        return unknown_plan(plan_id)
    return PlanNotFound(
        f"{plan_id} has no version {number}",
        suggestion=f"It has versions {numbers[0]} to {numbers[-1]}.",
        next_steps=NextStep("view_history", "to see what changed in each"),
        details={"plan_id": plan_id, "version": number, "current": numbers[-1]},
    )
