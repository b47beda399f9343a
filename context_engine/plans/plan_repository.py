"""The plan repository: save, load, list, roll back and delete plans.

    saved = repository.save(plan, name="Money in cents")
    repository.load("money in cents").plan.steps

Saving a plan appends a version; no version is ever overwritten.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import Any, ClassVar, get_args

import msgspec
from msgspec.structs import replace

from context_engine.errors import Conflict, InvalidArgument, InvalidPlan, NextStep, PreconditionFailed, StorageCorrupt
from context_engine.plans.model import Plan
from context_engine.plans.plan_diff import compare_plans
from context_engine.plans.plan_events import DONE, Approval, Execution, PlanEvent, PlanStatus, fold_progress
from context_engine.plans.plan_json import (
    ChangeType,
    ParsedPlan,
    PlanVersion,
    check_size,
    hash_content,
    hash_step,
    normalize_plan,
    parse_plan,
)
from context_engine.plans.plan_storage import (
    DAMAGED,
    NAME_CHARS_MAX,
    PlanRow,
    PlanState,
    PlanStorage,
    shorten_headline,
    unknown_plan,
)
from context_engine.plans.plan_validation import PlanValidation, WorkspacePaths, validate_plan
from context_engine.plans.step_tracking import PlanDrift, PlanWorkTree
from context_engine.storage import prepare_type
from context_engine.storage import version_file_name as file_of
from context_engine.text import (
    find_near_words,
    format_count,
    hash_page,
    make_slugs,
    parse_cursor,
    resolve_slug,
)
from context_engine.timestamps import format_timestamp

NAMES = "names"
"""The lock for naming a plan: names are unique among all plans."""
PROGRESS_MODES = ("keep", "reset", "reconcile")
"""Effect of a rollback on progress: keep it for all steps that exist, reset it, or keep it where the work is the same.
"""
_ID = re.compile(r"plan_[a-z0-9][a-z0-9-]{0,63}")
"""Lower case: on some file systems `A` and `a` are the same name."""


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """The result of saving. `unchanged`: the newest version had the same content, and nothing was written."""

    plan: Plan
    version: PlanVersion
    path: str
    unchanged: bool
    warnings: tuple[str, ...]
    validation: PlanValidation


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A saved plan. `execution` is None if its log is damaged; then a warning says so."""

    plan: Plan
    version: PlanVersion
    versions: tuple[int, ...]
    events: tuple[PlanEvent, ...] = ()
    execution: Execution | None = None
    approvals: tuple[Approval, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """The result of a rollback: the new version, and what happened to done steps, by uid."""

    plan: Plan
    version: PlanVersion
    kept: tuple[str, ...]
    lost: tuple[str, ...]
    reopened: tuple[str, ...]


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

    def matches(self, row: PlanRow) -> bool:
        """Return whether a plan passes."""
        text = " ".join((row.id, row.name, row.goal, *row.tags)).casefold()
        return (
            self.status in ("", row.status)
            and {tag.casefold() for tag in self.tags} <= {tag.casefold() for tag in row.tags}
            and all(word in text for word in self.query.casefold().split())
        )


@dataclass(frozen=True, slots=True)
class PlanListPage:
    """One page of plans; `total` is of all pages, `by_status` of all plans, whatever was asked for."""

    rows: tuple[PlanRow, ...]
    total: int
    first: int
    stamped: str
    by_status: Mapping[str, int]


class PlanRepository:
    """The plans of one workspace. Thread-safe; other processes may work on them, too."""

    def __init__(self, storage: PlanStorage, tree: PlanWorkTree, ground: WorkspacePaths) -> None:
        """Create the repository; `ground` knows which files exist, and which a plan may name."""
        self._storage = storage
        self._tree = tree
        self._ground = ground
        self.clean = storage.clean

    # -- saving --

    def parse(self, sent: object) -> ParsedPlan:
        """Parse a plan that was sent; its steps are matched with those of the version that it replaces.

        Raises: InvalidArgument, InvalidPlan, TooLarge.
        """
        read = parse_plan(sent)
        plan_id = read.plan.id
        numbers = self._storage.version_numbers(plan_id) if _ID.fullmatch(plan_id) else ()
        if not numbers:
            return read
        return parse_plan(sent, before=self._storage.read_version(plan_id, numbers[-1])[1])

    def save(
        self,
        plan: Plan,
        *,
        name: str = "",
        tags: Sequence[str] | None = None,
        overwrite: bool = False,
        expected_version: int | None = None,
        change: ChangeType = "modified",
        author: str = "agent",
        reason: str = "",
        reopened: Sequence[str] = (),
        allow_invalid: bool = False,
    ) -> SavedPlan:
        """Save a plan: a new one, or with `overwrite` the next version of the plan with its id.

        Empty `name` and None as `tags` keep the present ones. `reopened`: uids of completed steps to reopen. Raises:
        Conflict, InvalidPlan, Cycle, DanglingDependency, TooLarge, InvalidArgument, StorageCorrupt, StorageBusy,
        WriteFailed, DiskFull.
        """
        plan_id, warnings = plan.id, []
        if not _ID.fullmatch(plan_id):  # it would not be a valid folder name everywhere
            plan_id = self._storage.new_id("plan")
            warnings += [f"{plan.id[:80]!r} cannot be the id of a plan; it is saved as {plan_id}"] if plan.id else []
        with self._storage.lock(plan_id, NAMES):  # two plans that are saved at once must not get the same name
            before = self._storage.read_state(plan_id) if self._storage.version_numbers(plan_id) else None
            current = before.version if before else None
            check_version(current.version if current else 0, expected_version)
            if current and not overwrite:
                raise Conflict(
                    f"there is a plan {plan_id} already, at version {current.version}",
                    suggestion="Pass overwrite: true to make this its next version, or leave the id out for a new one.",
                    details={"plan_id": plan_id, "current": current.version},
                )
            checked = self._validate(plan, before, allow_invalid=allow_invalid)
            made = self._next_plan(checked.plan, plan_id, before)
            title, renamed = self._unique_name(name, made, before)
            warnings += renamed
            kept_tags = current.tags if current else ()
            if tags is not None:
                cleaned = (" ".join(tag.split()) for tag in self._storage.clean(tags))
                kept_tags = tuple(dict.fromkeys(filter(None, cleaned)))
            same = (hash_content(made), title, kept_tags)
            if before and current and (current.content_hash, current.name, current.tags) == same:
                return SavedPlan(before.plan, current, self._path(current), True, tuple(warnings), checked)
            again = _find_reworded(before, made, reopened) if before else ()
            metadata = {"author": author, "reason": reason, "name": title, "tags": kept_tags}
            events = [self._storage.new_event("step_reopened", actor=author, step=uid) for uid in again]
            kind = "plan_changed" if before else "plan_created"
            version = self._new_version(made, before, change if before else "created", metadata, kind, {}, events)
            self._storage.add_version(version, made, before)
        self._storage.rows()  # writes the new row, so that the next list reads no plan
        if again:
            listed = ", ".join(map(str, made.list_numbers(again)))
            warnings.append(f"open again, because its work changed after it was done: step {listed}")
        return SavedPlan(made, version, self._path(version), False, tuple(warnings), checked)

    def _path(self, version: PlanVersion) -> str:
        return self._storage.records.display_path(f"{version.plan_id}/{file_of(version.version)}")

    def _validate(self, plan: Plan, before: PlanState | None, *, allow_invalid: bool) -> PlanValidation:
        """Remove secrets from the plan and validate it. Raises: Cycle, DanglingDependency, InvalidPlan."""
        clean = msgspec.convert(self._storage.clean(msgspec.to_builtins(plan)), prepare_type(Plan))
        clean = normalize_plan(clean, before.plan if before else None)
        closed = before.execution.done if before else ()
        checked = validate_plan(clean, self._ground, closed=closed)
        checked.raise_fatal_errors()
        if allow_invalid:
            return checked._replace(plan=clean)
        if checked.errors:
            first, more = checked.errors[0], len(checked.errors) - 1
            raise InvalidPlan(
                first.message + (f" (and {more} more)" if more else ""),
                suggestion=f"{first.suggestion} allow_invalid: true keeps it as it is.".strip(),
                details={"validation": checked.serialize()},
            )
        return checked

    def _next_plan(self, plan: Plan, plan_id: str, before: PlanState | None) -> Plan:
        """Return the plan as it will be saved: with its version, and the commit it is based on. Raises: TooLarge."""
        check_size(len(msgspec.json.encode(plan)))
        return replace(
            plan,
            id=plan_id,
            version=before.version.version + 1 if before else 1,
            created_at=before.plan.created_at if before else format_timestamp(self._storage.now()),
            base_commit=plan.base_commit or (before.plan.base_commit if before else self._tree.head_commit()),
        )

    def _unique_name(self, name: str, plan: Plan, before: PlanState | None) -> tuple[str, list[str]]:
        """Return a name that no other plan has, ignoring case, if needed with a number behind it; and a warning."""
        wanted = " ".join(self._storage.clean(name).split())[:NAME_CHARS_MAX]
        if before and wanted in ("", before.version.name):
            return before.version.name, []
        wanted = wanted or shorten_headline(plan.goal)
        used = {row.name.casefold() for row in self._storage.rows() if row.id != plan.id}
        names = (f"{wanted} ({twin})" if twin > 1 else wanted for twin in count(1))
        free = next(numbered for numbered in names if numbered.casefold() not in used)
        return free, [f"another plan is called {wanted!r}; this one is {free!r}"] if name and free != wanted else []

    def _new_version(
        self,
        plan: Plan,
        before: PlanState | None,
        change: ChangeType,
        metadata: dict[str, Any],
        kind: str,
        data: Mapping[str, Any],
        events: Sequence[PlanEvent] = (),
    ) -> PlanVersion:
        """Return the metadata of a new version with its events; its own event, of a kind and with data, is the last."""
        hashed = hash_content(plan)
        metadata = self._storage.clean(metadata)
        data = {"version": plan.version, "hash": hashed, "change_type": change, **data}
        created = f"created with {format_count(len(plan.steps), 'step')}"
        return PlanVersion(
            plan_id=plan.id,
            version=plan.version,
            created_at=format_timestamp(self._storage.now()),
            change_type=change,
            content_hash=hashed,
            change_summary=compare_plans(before.plan, plan).summary if before else created,
            provenance=plan.provenance,
            events=(*events, self._storage.new_event(kind, actor=metadata["author"], data=data)),
            **metadata,
        )

    # -- finding --

    def resolve_id(self, which: str, *, by_prefix: bool = False) -> str:
        """Resolve the id, name or slug of a plan to its id; for people at a terminal also the beginning of a slug.

        Raises: PlanNotFound, with the nearest names.
        """
        typed = " ".join(which.split())
        if _ID.fullmatch(typed) and self._storage.version_numbers(typed):
            return typed
        rows = self._storage.rows()
        folded = typed.casefold()
        names = {row.name.casefold(): row for row in reversed(rows)} | {row.id: row for row in rows}
        if folded in names:
            return names[folded].id
        short = resolve_slug(folded, make_slugs((row.id, row.name) for row in rows), is_begun=by_prefix)
        if short in names:
            return short
        near = find_near_words(typed[:NAME_CHARS_MAX], names)
        raise unknown_plan(which, [name if name == names[name].id else names[name].name for name in near])

    def load(self, which: str, version: int | None = None) -> LoadedPlan:
        """Load the newest or another version of a plan.

        Raises: PlanNotFound, StorageCorrupt naming a damaged version.
        """
        plan_id = self.resolve_id(which)
        numbers = self._storage.version_numbers(plan_id)
        if not numbers:  # damaged beyond all versions, or deleted this moment
            raise unknown_plan(which)
        metadata, plan = self._storage.read_version(plan_id, version or numbers[-1])
        progress: dict[str, Any] = {}
        warning = f"this is version {version} of {numbers[-1]}"
        if version in (None, numbers[-1]):
            try:
                now = self._storage.read_state(plan_id)
                warning = now.execution.damage
                progress = {"events": now.events, "execution": now.execution, "approvals": now.approvals}
            except StorageCorrupt as error:
                warning = f"{error.message}. {error.suggestion}"
        warnings = tuple(filter(None, (warning, self._storage.records.problem)))
        return LoadedPlan(plan, metadata, numbers, warnings=warnings, **progress)

    def drift(self, plan: Plan) -> PlanDrift:
        """Return what happened to the files of a plan since it was created."""
        return self._tree.find_drift(plan, self._ground.has_path)

    def history(self, which: str) -> tuple[tuple[PlanVersion, ...], tuple[str, ...]]:
        """Return the metadata of every version, newest first, and the damages. Raises: PlanNotFound."""
        plan_id = self.resolve_id(which)
        versions: list[PlanVersion] = []
        damaged: list[str] = []
        for number in reversed(self._storage.version_numbers(plan_id)):
            try:
                versions.append(self._storage.read_version(plan_id, number)[0])
            except StorageCorrupt as error:
                damaged.append(error.message)
        with suppress(StorageCorrupt):  # then the version reports it
            damaged += filter(None, [self._storage.read_state(plan_id).execution.damage])
        return tuple(versions), tuple(damaged)

    def list_page(self, wanted: PlanQuery) -> PlanListPage:
        """Return a page of the plans that match a query. Raises: InvalidArgument for a cursor of another list."""
        known = self._storage.rows()
        rows = sorted(filter(wanted.matches, known), key=lambda row: row.id)
        keys = {"name": lambda row: row.name.casefold()}
        rows.sort(key=keys.get(wanted.sort_by, attrgetter(wanted.sort_by)), reverse=wanted.sort_order == "desc")
        filters = (wanted.status, wanted.tags, wanted.query, wanted.sort_by, wanted.sort_order)
        stamped = hash_page(filters, (f"{row.id}@{row.updated_at}" for row in rows))
        start = parse_cursor(wanted.cursor, stamped)
        by_status = dict(sorted(Counter(row.status for row in known).items()))
        return PlanListPage(tuple(rows[start : start + wanted.limit]), len(rows), start, stamped, by_status)

    # -- rollback and deletion --

    def rollback(
        self,
        which: str,
        target: int,
        *,
        reason: str = "",
        execution: str = "reconcile",
        expected_version: int | None = None,
        force: bool = False,
    ) -> RollbackResult:
        """Make an earlier version the newest again, as a new one. Approvals expire; nothing is lost.

        `execution` is one of `PROGRESS_MODES`. Raises: PlanNotFound, InvalidArgument, Conflict, PreconditionFailed (a
        step is in progress, unless `force`), StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
        """
        if execution not in PROGRESS_MODES:
            raise InvalidArgument(
                f"execution is {execution[:40]!r}", suggestion=f"It is one of {', '.join(PROGRESS_MODES)}."
            )
        plan_id = self.resolve_id(which)
        with self._storage.lock(plan_id):
            before = self._storage.read_state(plan_id)
            current = before.version
            check_version(current.version, expected_version)
            _, old = self._storage.read_version(plan_id, target)  # before anything is decided: it may be damaged
            if before.execution.current and not force:
                steps = before.plan.list_numbers(before.execution.current)
                raise PreconditionFailed(
                    f"step {', '.join(map(str, steps))} of the plan is in progress",
                    suggestion="Complete or fail it first, or repeat the call with force: true.",
                    details={"plan_id": plan_id, "steps": steps},
                )
            minted = max(old.uids_minted, before.plan.uids_minted)  # no uid is ever given twice
            plan = replace(old, version=current.version + 1, created_at=before.plan.created_at, uids_minted=minted)
            kept, lost, reopened = _carry_progress(before, plan, execution, retries_max=self._storage.retries_max)
            metadata = {"author": "agent", "reason": reason, "name": current.name, "tags": current.tags}
            data = {"to": target, "execution": execution, "reopened": list(reopened)}
            version = self._new_version(plan, before, "rolled_back", metadata, "rolled_back", data)
            version = replace(version, rolled_back_from=current.version, rolled_back_to=target)
            self._storage.add_version(version, plan, before)
        self._storage.rows()
        return RollbackResult(plan, version, kept, lost, reopened)

    def delete(self, which: str, *, purge: bool = False, confirm: bool = False) -> tuple[PlanRow, str]:
        """Move a plan into the trash, or delete it for good; return what it was, and its path in the trash.

        Raises: PlanNotFound, PreconditionFailed (a plan under way, without `confirm`), WriteFailed, DiskFull,
        StorageBusy.
        """
        plan_id = self.resolve_id(which)
        with self._storage.lock(plan_id):
            row = next((row for row in self._storage.rows() if row.id == plan_id), None)
            if row is None:
                raise unknown_plan(which)
            if row.status == "executing" and not confirm:
                raise PreconditionFailed(
                    f"{row.name!r} is being executed; it was not deleted",
                    suggestion="Repeat the call with confirm: true to delete it anyway.",
                    details={"plan_id": plan_id, "status": row.status},
                )
            stamp = format_timestamp(self._storage.now()).partition(".")[0].replace("-", "").replace(":", "")
            trashed = self._storage.records.move_to_trash(plan_id, stamp, purge=purge)
        self._storage.rows()
        return row, trashed


def check_version(current: int, expected: int | None) -> None:
    """Refuse a call that is based on another version than the newest. Raises: Conflict with the present number."""
    if expected is not None and expected != current:
        raise Conflict(
            f"the plan is at version {current}, not {expected}",
            suggestion="Repeat the change on the newest version.",
            next_steps=NextStep("compare_plan_versions", "to see what changed"),
            details={"expected_version": expected, "current": current},
        )


def _find_reworded(before: PlanState, plan: Plan, named_open: Sequence[str]) -> tuple[str, ...]:
    """Return the uids of done steps whose work changed in this version, and of those that are named."""
    old, done = {step.uid: hash_step(step) for step in before.plan.steps}, before.execution.done
    there = [step for step in plan.steps if step.uid in done]
    return tuple(step.uid for step in there if step.uid in named_open or old[step.uid] != hash_step(step))


def _carry_progress(
    before: PlanState, plan: Plan, how: str, *, retries_max: int
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Decide about done steps after a rollback: which stay done, which no longer exist, which are reopened."""
    work = {step.uid: hash_step(step) for step in plan.steps}
    states = fold_progress(plan, before.events, retries_max=retries_max).steps
    hashes = {step.uid: hash_step(step) for step in before.plan.steps}
    # Events of a step say in `hash` what it was like then.
    hashes |= {event.step: event.data["hash"] for event in before.events if event.step and event.data.get("hash")}
    touched = [uid for uid, state in states.items() if state.status not in ("pending", "ready")]
    stay = {uid for uid in touched if how == "keep" or (how == "reconcile" and work[uid] == hashes.get(uid))}
    kept = tuple(uid for uid in touched if uid in stay and states[uid].status in DONE)
    lost = tuple(step.uid for step in before.plan.steps if step.uid in before.execution.done and step.uid not in work)
    return kept, lost, tuple(uid for uid in touched if uid not in stay)
