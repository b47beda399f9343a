"""The desk: where plans are laid down, found again, taken back to what they were, and thrown away.

    desk = Desk(keeper, Register(keeper), tree, ground)
    saved = desk.save(plan, name="Money in cents")
    desk.load("money in cents").plan.steps

A saved plan is a new version behind those there are; none is ever written over. The list is derived, and kept beside the plans
only so that it need not be worked out each time.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import msgspec

from context_engine.errors import (
    Conflict,
    InvalidArgument,
    InvalidPlan,
    PreconditionFailed,
    StorageCorrupt,
    TooLarge,
)
from context_engine.plans import plan_listing
from context_engine.plans.drift import Drift, WorkTree
from context_engine.plans.model import Plan, numbers
from context_engine.plans.plan_diff import difference, summary
from context_engine.plans.plan_index import ARCHIVED, NAME_CHARS_MAX, Register, headline
from context_engine.plans.plan_lifecycle import DONE, Approval
from context_engine.plans.plan_listing import Listed
from context_engine.plans.plan_parsing import BYTES_MAX, Parsed, named, parsed
from context_engine.plans.plan_progress import Event, Execution, Policy, folded
from context_engine.plans.plan_requests import CARRIED, Wanted
from context_engine.plans.plan_serialization import carried, content_hash, step_hash
from context_engine.plans.plan_storage import Current, Keeper, check_version, unknown
from context_engine.plans.plan_validation import Checked, Ground, refuse, validated
from context_engine.plans.plan_version import Change, Version
from context_engine.plans.slugs import handles, meant
from context_engine.storage.numbered_versions import name as file_of
from context_engine.storage.timestamps import iso

NAMES = "names"
"""Held by who gives a plan a name: names are unique among all plans."""
NEAR_MAX = 3
KEPT_PLAIN = 100
"""The newest versions are left as git and people can read them when old ones are packed."""
_ID = re.compile(r"plan_[a-z0-9][a-z0-9-]{0,63}")
"""Lower case: some file systems take `A` and `a` for one name."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What came of saving. `unchanged`: the newest version said the same already, and nothing was written."""

    plan: Plan
    version: Version
    path: str
    unchanged: bool
    warnings: tuple[str, ...]
    validation: Checked


@dataclass(frozen=True, slots=True)
class Loaded:
    """A plan as it lies there. `execution` is None where its log is damaged, which a warning tells."""

    plan: Plan
    version: Version
    versions: tuple[int, ...]
    events: tuple[Event, ...] = ()
    execution: Execution | None = None
    approvals: tuple[Approval, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What came of going back: the new version, and what became of the steps that were completed, by uid."""

    plan: Plan
    version: Version
    kept: tuple[str, ...]
    lost: tuple[str, ...]
    reopened: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """Where a plan lies now; an empty path when it is gone for good."""

    plan_id: str
    name: str
    trashed_to: str


class Desk:
    """The plans of one workspace. Thread-safe; other processes may work on them, too."""

    def __init__(self, keeper: Keeper, register: Register, tree: WorkTree, ground: Ground) -> None:
        """`ground` says which files there are, and which a plan may name."""
        self._keeper = keeper
        self._register = register
        self._tree = tree
        self._ground = ground

    # -- saving --

    def taken(self, sent: object) -> Parsed:
        """Read a plan that somebody sends; its steps are matched with those of the version that it replaces.

        Raises: InvalidArgument, InvalidPlan, TooLarge.
        """
        read = parsed(sent)
        plan_id = read.plan.id
        if not _ID.fullmatch(plan_id) or not self._keeper.numbers(plan_id):
            return read
        newest = self._keeper.numbers(plan_id)[-1]
        return parsed(sent, before=self._keeper.kept(plan_id, newest)[1])

    def save(
        self,
        plan: Plan,
        *,
        name: str = "",
        tags: Sequence[str] | None = None,
        overwrite: bool = False,
        expected_version: int | None = None,
        change: Change = "modified",
        author: str = "agent",
        reason: str = "",
        submission_id: str = "",
        reopened: Sequence[str] = (),
        allow_invalid: bool = False,
    ) -> Saved:
        """Keep a plan: a new one, or with `overwrite` the next version of the one that has its id.

        `name` empty and `tags` None: as they were. `reopened`: completed steps that are open again, by uid.
        Raises: Conflict, InvalidPlan, Cycle, DanglingDependency, TooLarge, InvalidArgument, StorageCorrupt, StorageBusy,
        WriteFailed, DiskFull.
        """
        plan_id, warnings = self._own_id(plan)
        with self._keeper.writing(plan_id, NAMES):
            before = self._keeper.current(plan_id) if self._keeper.numbers(plan_id) else None
            self._check_wanted(plan_id, before, expected_version, overwrite=overwrite)
            checked = self._checked(plan, before, allow_invalid=allow_invalid)
            made = self._made(checked.plan, plan_id, before)
            title, renamed = self._title(name, made, before)
            kept_tags = _tags(self._keeper.clean(tags)) if tags is not None else before.version.tags if before else ()
            if before and (content_hash(made), title, kept_tags) == (
                before.version.content_hash,
                before.version.name,
                before.version.tags,
            ):
                return Saved(
                    before.plan, before.version, self._shown(before.version), True, (*warnings, *renamed), checked
                )
            again = _reworded(before, made, reopened) if before else ()
            told = {
                "author": author,
                "reason": reason,
                "submission_id": submission_id,
                "name": title,
                "tags": kept_tags,
            }
            version = self._version(made, before, change if before else "created", told, again)
            self._keeper.add(version, made, before)
        self._register.rows()
        warnings = (*warnings, *renamed, *_told_open(made, again))
        return Saved(made, version, self._shown(version), False, warnings, checked)

    def _own_id(self, plan: Plan) -> tuple[str, tuple[str, ...]]:
        """The id a plan is kept under; one that cannot be the name of a folder everywhere is replaced."""
        if _ID.fullmatch(plan.id):
            return plan.id, ()
        made = self._keeper.new_id("plan")
        return made, (f"{plan.id[:80]!r} cannot be the id of a plan; it is kept as {made}",) if plan.id else ()

    def _check_wanted(self, plan_id: str, before: Current | None, expected: int | None, *, overwrite: bool) -> None:
        check_version(before.version.version if before else 0, expected)
        if before and not overwrite:
            raise Conflict(
                f"there is a plan {plan_id} already, at version {before.version.version}",
                suggestion="Pass overwrite: true to make this its next version, or leave the id out to keep it as a new plan.",
                details={"plan_id": plan_id, "current": before.version.version},
            )

    def _checked(self, plan: Plan, before: Current | None, *, allow_invalid: bool) -> Checked:
        """The plan without secrets, and whether it can be carried out here. Raises: Cycle, DanglingDependency, InvalidPlan."""
        clean = named(self._keeper.clean_plan(plan), before.plan if before else None)
        done = [uid for uid, state in before.execution.steps.items() if state.status in DONE] if before else []
        checked = validated(clean, self._ground, closed=done)
        refuse(checked)
        if allow_invalid:
            return checked._replace(plan=clean)
        if checked.errors:
            first = checked.errors[0]
            raise InvalidPlan(
                first.message + (f" (and {len(checked.errors) - 1} more)" if len(checked.errors) > 1 else ""),
                suggestion=f"{first.suggestion} allow_invalid: true keeps it as it is.".strip(),
                details={"validation": checked.wire()},
            )
        return checked

    def _made(self, plan: Plan, plan_id: str, before: Current | None) -> Plan:
        """The plan as it will be kept: with its number, and the commit that it was made on. Raises: TooLarge."""
        _check_size(plan)
        return msgspec.structs.replace(
            plan,
            id=plan_id,
            version=before.version.version + 1 if before else 1,
            created_at=before.plan.created_at if before else iso(self._keeper.now()),
            base_commit=plan.base_commit or (before.plan.base_commit if before else self._tree.commit()),
        )

    def _title(self, name: str, plan: Plan, before: Current | None) -> tuple[str, tuple[str, ...]]:
        """A name that no other plan has, whatever its capitals; a number behind it where it was taken."""
        asked = " ".join(self._keeper.clean(name).split())[:NAME_CHARS_MAX]
        if before and asked in ("", before.version.name):
            return before.version.name, ()
        asked = asked or headline(plan.goal or plan.task)
        taken = {row.name.casefold() for row in self._register.rows() if row.id != plan.id}
        free = next(each for each in _numbered(asked) if each.casefold() not in taken)
        warning = (f"another plan is called {asked!r}; this one is {free!r}",) if name and free != asked else ()
        return free, warning

    def _version(
        self, plan: Plan, before: Current | None, change: Change, told: dict, reopened: Sequence[str] = ()
    ) -> Version:
        """What is told of a new version, with the events that come with it: its own is the last."""
        told = self._keeper.clean(told)
        hashed = content_hash(plan)
        changed = summary(difference(before.plan, plan)) if before else _counted(len(plan.steps))
        data = {"version": plan.version, "hash": hashed, "change_type": change}
        kind = "plan_changed" if before else "plan_created"
        again = [self._keeper.event("step_reopened", actor=told["author"], step=uid) for uid in reopened]
        return Version(
            plan_id=plan.id,
            version=plan.version,
            created_at=iso(self._keeper.now()),
            change_type=change,
            content_hash=hashed,
            change_summary=changed,
            provenance=plan.provenance,
            events=(*again, self._keeper.event(kind, actor=told["author"], data=data)),
            **told,
        )

    # -- finding --

    def id_of(self, which: str) -> str:
        """The id of a plan, out of its id, its name or its handle. Raises: PlanNotFound, with the nearest names."""
        asked = " ".join(which.split())
        if _ID.fullmatch(asked) and self._keeper.numbers(asked):
            return asked
        rows = self._register.rows()
        for row in rows:
            if asked and asked.casefold() in (row.name.casefold(), row.id):
                return row.id
        short = meant(asked.casefold(), handles((row.id, row.name) for row in rows))
        if any(row.id == short for row in rows):
            return short
        names = {row.name.casefold(): row.name for row in rows} | {row.id: row.id for row in rows}
        near = difflib.get_close_matches(asked.casefold()[:NAME_CHARS_MAX], list(names), NEAR_MAX, 0.4)
        raise unknown(which, [names[each] for each in near])

    def clean(self, text: str) -> str:
        """A text without secrets, as it may be kept."""
        return self._keeper.clean(text)

    def load(self, which: str, version: int | None = None) -> Loaded:
        """A plan, its newest version or another one. Raises: PlanNotFound, StorageCorrupt naming a damaged version."""
        plan_id = self.id_of(which)
        numbers = self._keeper.numbers(plan_id)
        if not numbers:  # damaged beyond all versions, or deleted this moment
            raise unknown(which)
        told, plan = self._keeper.kept(plan_id, version or numbers[-1])
        of_team = tuple(filter(None, [self._keeper.dossiers.problem]))
        if version not in (None, numbers[-1]):
            return Loaded(plan, told, numbers, warnings=(f"this is version {version} of {numbers[-1]}", *of_team))
        try:
            now = self._keeper.current(plan_id)
        except StorageCorrupt as error:
            return Loaded(plan, told, numbers, warnings=(f"{error.message}. {error.suggestion}", *of_team))
        damage = tuple(filter(None, [now.execution.damage]))
        return Loaded(plan, told, numbers, now.events, now.execution, now.approvals, (*damage, *of_team))

    def drift(self, plan: Plan) -> Drift:
        """What became of the files of a plan since it was made."""
        return self._tree.drift(plan)

    def history(self, which: str) -> tuple[tuple[Version, ...], tuple[str, ...]]:
        """What is told of every version, newest first, and what is damaged. Raises: PlanNotFound."""
        plan_id = self.id_of(which)
        told: list[Version] = []
        damaged: list[str] = []
        for number in reversed(self._keeper.numbers(plan_id)):
            try:
                told.append(self._keeper.told(plan_id, number))
            except StorageCorrupt as error:
                damaged.append(error.message)
        with suppress(StorageCorrupt):  # then a version says so
            damaged += filter(None, [self._keeper.current(plan_id).execution.damage])
        return tuple(told), tuple(damaged)

    def listed(self, wanted: Wanted) -> Listed:
        """A page of the plans that pass a filter. Raises: InvalidArgument."""
        return plan_listing.listed(wanted, self._register.rows())

    # -- going back, throwing away --

    def rollback(
        self,
        which: str,
        target: int,
        *,
        reason: str = "",
        execution: str = "reconcile",
        expected_version: int | None = None,
        force: bool = False,
        author: str = "agent",
    ) -> RolledBack:
        """Make an earlier version the newest again, as a new one. Approvals expire; nothing is lost.

        `execution` is one of `CARRIED`. Raises: PlanNotFound, InvalidArgument, Conflict, PreconditionFailed (a step is in
        progress, unless `force`), StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
        """
        if execution not in CARRIED:
            raise InvalidArgument(f"execution is {execution[:40]!r}", suggestion=f"It is one of {', '.join(CARRIED)}.")
        plan_id = self.id_of(which)
        with self._keeper.writing(plan_id):
            before = self._keeper.current(plan_id)
            check_version(before.version.version, expected_version)
            _, old = self._keeper.kept(plan_id, target)
            _check_idle(before, force=force)
            plan = msgspec.structs.replace(
                carried(old, before.plan),
                id=plan_id,
                version=before.version.version + 1,
                created_at=before.plan.created_at,
            )
            kept, lost, reopened = _carried_over(before, plan, execution, policy=self._keeper.policy)
            told = {"author": author, "reason": reason, "name": before.version.name, "tags": before.version.tags}
            version = self._version(plan, before, "rolled_back", told)
            data = {"version": plan.version, "to": target, "execution": execution, "reopened": list(reopened)}
            event = self._keeper.event("rolled_back", actor=author, data=data | {"hash": version.content_hash})
            version = msgspec.structs.replace(
                version, rolled_back_from=before.version.version, rolled_back_to=target, events=(event,)
            )
            self._keeper.add(version, plan, before)
        self._register.rows()
        return RolledBack(plan, version, kept, lost, reopened)

    def delete(self, which: str, *, purge: bool = False, confirm: bool = False) -> Deleted:
        """Move a plan into the trash, or delete it for good.

        Raises: PlanNotFound, PreconditionFailed (a plan under way, without `confirm`), WriteFailed, DiskFull, StorageBusy.
        """
        plan_id = self.id_of(which)
        with self._keeper.writing(plan_id):
            row = next((row for row in self._register.rows() if row.id == plan_id), None)
            if row is None:
                raise unknown(which)
            if row.status == "executing" and not confirm:
                raise PreconditionFailed(
                    f"{row.name!r} is being carried out; it was not deleted",
                    suggestion="Repeat the call with confirm: true to delete it all the same.",
                    details={"plan_id": plan_id, "status": row.status},
                )
            trashed = self._keeper.dossiers.put_away(plan_id, _stamped(iso(self._keeper.now())), purge=purge)
        self._register.rows()
        return Deleted(plan_id, row.name, trashed)

    def archive(self, which: str, keep: int = KEPT_PLAIN, *, author: str = "agent") -> int:
        """Put a plan among those that are over, until something happens to it again; how many old versions were packed.

        Packed versions are read as before. Raises: PlanNotFound, StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
        """
        plan_id = self.id_of(which)
        with self._keeper.writing(plan_id):
            self._keeper.append(self._keeper.current(plan_id), self._keeper.event(ARCHIVED, actor=author))
            return self._keeper.dossiers.versions(plan_id).pack(keep)

    def _shown(self, version: Version) -> str:
        """Where a version lies, as replies name it."""
        return self._keeper.dossiers.shown(f"{version.plan_id}/{file_of(version.version)}")


def _check_size(plan: Plan) -> None:
    size = len(msgspec.json.encode(plan))
    if size > BYTES_MAX:
        raise TooLarge(
            f"the plan has {size:,} bytes, at most {BYTES_MAX:,} are kept",
            suggestion="Say less in descriptions and evidence, or split the task into several plans.",
            details={"bytes": size, "bytes_max": BYTES_MAX},
        )


def _check_idle(before: Current, *, force: bool) -> None:
    """Refuse to change a plan under somebody's hands. Raises: PreconditionFailed."""
    if before.execution.current and not force:
        number = numbers(before.plan)
        steps = sorted(number[uid] for uid in before.execution.current)
        raise PreconditionFailed(
            f"step {', '.join(map(str, steps))} of the plan is in progress",
            suggestion="Complete or fail it first, or repeat the call with force: true.",
            details={"plan_id": before.plan.id, "steps": steps},
        )


def _reworded(before: Current, plan: Plan, named_open: Iterable[str]) -> tuple[str, ...]:
    """Steps that are done in the version before and have something else to do in this one; and those that are named."""
    old = {step.uid: step_hash(step) for step in before.plan.steps}
    states = before.execution.steps
    wanted = set(named_open)
    again = [
        step.uid
        for step in plan.steps
        if step.uid in states
        and states[step.uid].status in ("completed", "skipped")
        and (step.uid in wanted or old[step.uid] != step_hash(step))
    ]
    return tuple(again)


def _told_open(plan: Plan, uids: Iterable[str]) -> tuple[str, ...]:
    number = numbers(plan)
    listed = [str(number[uid]) for uid in uids]
    return (
        (f"done already, but to be done differently now, and open again: step {', '.join(listed)}",) if listed else ()
    )


def _carried_over(
    before: Current, plan: Plan, how: str, *, policy: Policy
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Which done steps stay done in an old version that comes back, which it does not have, which are open again."""
    there = {step.uid: step for step in plan.steps}
    states = folded(plan, before.events, now=0.0, policy=policy).steps  # leases say nothing about what is done
    hashes = {event.step: event.data.get("hash") for event in before.events if event.kind in _DONE_KINDS}
    now = {step.uid: step_hash(step) for step in before.plan.steps}
    touched = [uid for uid, state in states.items() if state.status not in ("pending", "ready")]
    same = {uid for uid in touched if step_hash(there[uid]) == (hashes.get(uid) or now.get(uid))}
    stay = set(touched) if how == "keep" else set() if how == "reset" else same
    kept = tuple(uid for uid in touched if uid in stay and states[uid].status in DONE)
    lost = tuple(uid for uid, state in before.execution.steps.items() if state.status in DONE and uid not in there)
    return kept, lost, tuple(uid for uid in touched if uid not in stay)


_DONE_KINDS = frozenset({"step_completed", "step_skipped", "step_failed", "step_started"})
"""Events that say in `hash` what the step was like then."""


def _counted(steps: int) -> str:
    return f"made with {steps} step{'s' * (steps != 1)}"


def _tags(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(" ".join(tag.split()) for tag in tags if tag.strip()))


def _numbered(name: str) -> Iterator[str]:
    """The name, then the name with 2, 3, ... behind it.

    >>> names = _numbered("cents")
    >>> next(names), next(names), next(names)
    ('cents', 'cents (2)', 'cents (3)')
    """
    yield name
    yield from (f"{name} ({twin})" for twin in count(2))


def _stamped(at: str) -> str:
    """A moment as a part of a file name.

    >>> _stamped("2026-11-21T12:00:00.000Z")
    '20261121T120000'
    """
    return re.sub(r"[-:]|\.\d+Z", "", at)
