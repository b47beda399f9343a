"""Steps under way: started, completed, failed, skipped, one event each, and refused where the plan does not stand so.

    tracking.start(plan_id, 1, actor="agent")
    tracking.complete(plan_id, 1, notes="cents everywhere").unlocked

Two processes that start the same step are told apart by the lock: the second one hears who has it. What changed in the work tree
meanwhile, git says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from context_engine.errors import Conflict, InvalidArgument, PreconditionFailed
from context_engine.plans.approvals import Rules, check_approved
from context_engine.plans.dependency_graph import graph, reach
from context_engine.plans.drift import Base, WorkTree
from context_engine.plans.model import Plan, Step, numbers, step_of
from context_engine.plans.plan_lifecycle import DONE, step_moved
from context_engine.plans.plan_progress import MOVES, Event, Execution, StepState
from context_engine.plans.plan_requests import NOBODY, NOTHING, Caller, Report
from context_engine.plans.plan_serialization import step_hash
from context_engine.plans.plan_storage import Current, Keeper, check_seq

TEXT_CHARS_MAX = 4_000
"""Of an error, a note or the output of a command: its beginning and its end are kept."""
OUTPUT_CHARS_MAX = 2_000
EVIDENCE_MAX = 20
FILES_MAX = 300
"""Of what a step changed, so that its event stays a line."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """A step that was moved, and the plan as it is then. `unlocked` are steps that became ready, by uid.

    `repeated`: the call had been made before, with the same key, and changed nothing now.
    """

    plan: Plan
    step: Step
    execution: Execution
    seq: int
    unlocked: tuple[str, ...] = ()
    repeated: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def state(self) -> StepState:
        """Where the step stands."""
        return self.execution.steps[self.step.uid]


@dataclass(frozen=True, slots=True)
class Work:
    """What was done in a step, against what the plan says. `files` is None where nobody could tell."""

    files: tuple[str, ...] | None = None
    unexpected_files: tuple[str, ...] = ()
    missing_files: tuple[str, ...] = ()
    unmet_criteria: tuple[str, ...] = ()


class Tracking:
    """The steps of the plans of one workspace. Thread-safe; other processes may work on them, too."""

    def __init__(self, keeper: Keeper, id_of: Callable[[str], str], tree: WorkTree, rules: Rules) -> None:
        """`id_of` gives the id of a plan, out of its id or name."""
        self._keeper = keeper
        self._id_of = id_of
        self._tree = tree
        self._rules = rules

    def start(self, which: str, step: int | str, *, force: bool = False, caller: Caller = NOBODY) -> Tracked:
        """Begin a step. `force` starts one that still waits for others; it does not stand in for an approval.

        Raises: PlanNotFound, InvalidArgument, Conflict (in progress already, or another `expected_seq`), NeedsApproval,
        PreconditionFailed with what is `unmet`, StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
        """
        plan_id, base = self._id_of(which), self._tree.base()
        with self._keeper.writing(plan_id):
            now = self._keeper.current(plan_id)
            wanted = step_of(now.plan, step)
            if repeated := _repeated(now, wanted, ("step_started",), caller):
                return repeated
            check_seq(now, caller.expected_seq)
            state = now.execution.steps[wanted.uid]
            _check_free(now, wanted, state)
            check_approved(now.approvals, now.plan, wanted, required=self._rules.approval)
            _check_startable(now, wanted, state, force=force)
            told = {"base": msgspec.to_builtins(base)}
            told |= {"forced": True} if state.unmet else {}
            told |= {"taken_over": state.actor or "somebody"} if state.lease_expired else {}
            return self._put(now, wanted, self._event("step_started", wanted, caller, told))

    def complete(
        self,
        which: str,
        step: int | str,
        report: Report = NOTHING,
        *,
        force: bool = False,
        caller: Caller = NOBODY,
    ) -> tuple[Tracked, Work]:
        """Say that a step is done. `force` completes one that was never started.

        Raises: PlanNotFound, InvalidArgument, Conflict, PreconditionFailed (not in progress, or evidence is asked for),
        StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
        """
        plan_id = self._id_of(which)
        seen = self._keeper.current(plan_id)
        work, warnings = self._work(seen, step_of(seen.plan, step), report)
        with self._keeper.writing(plan_id):
            now = self._keeper.current(plan_id)
            wanted = step_of(now.plan, step)
            if repeated := _repeated(now, wanted, ("step_completed",), caller):
                return repeated, work
            check_seq(now, caller.expected_seq)
            state = now.execution.steps[wanted.uid]
            step_moved(state.status, "complete", forced=force, what=_named(now.plan, wanted))
            self._check_proven(now.plan, wanted, report)
            told = {
                "notes": self._short(report.notes),
                "files_modified": list((work.files or ())[:FILES_MAX]),
                "evidence": [self._proof(each) for each in report.evidence[:EVIDENCE_MAX]],
                "criteria_met": [self._short(each) for each in report.criteria_met],
                "forced": state.status != "in_progress",
            }
            moved = self._put(now, wanted, self._event("step_completed", wanted, caller, told), warnings=warnings)
        return moved, work

    def fail(
        self,
        which: str,
        step: int | str,
        *,
        error: str = "",
        retry: bool = False,
        skip: bool = False,
        skip_dependents: bool = False,
        release: bool = False,
        caller: Caller = NOBODY,
    ) -> tuple[Tracked, tuple[str, ...]]:
        """Say that a step failed; and the steps that were skipped, by uid. `retry` opens it again, `skip` goes on without it.

        `release` gives back a step that was begun, as if it had not been. `skip_dependents` skips all that waits for it.
        Raises: as `complete`; PreconditionFailed when it was tried too often.
        """
        plan_id = self._id_of(which)
        _check_one(retry=retry, skip=skip, release=release)
        with self._keeper.writing(plan_id):
            now = self._keeper.current(plan_id)
            wanted = step_of(now.plan, step)
            kinds = _kinds(now.execution.steps[wanted.uid], retry=retry, skip=skip, release=release)
            if repeated := _repeated(now, wanted, _FAILING, caller):
                return repeated, ()
            check_seq(now, caller.expected_seq)
            _check_moves(now, wanted, kinds)
            told = {"notes" if skip else "error": self._short(error)}
            events = [self._event(kind, wanted, caller, told) for kind in kinds]
            others = _waiting(now, wanted) if skip_dependents else ()
            events += [
                self._event("step_skipped", each, Caller(actor=caller.actor), {"notes": _because(now.plan, wanted)})
                for each in others
            ]
            moved = self._put(now, wanted, *events)
        return moved, tuple(each.uid for each in (*((wanted,) if skip else ()), *others))

    def current(self, which: str) -> Current:
        """How far a plan is. Raises: PlanNotFound, StorageCorrupt with the line of a broken log."""
        return self._keeper.current(self._id_of(which))

    # -- putting events down --

    def _event(self, kind: str, step: Step, caller: Caller, told: Mapping[str, Any]) -> Event:
        """An event of a step; `hash` says what the step was like then."""
        data = {"hash": step_hash(step), "key": caller.key, **told}
        kept = {key: value for key, value in data.items() if value not in ("", [], False)}
        return self._keeper.event(kind, actor=caller.actor, step=step.uid, data=kept)

    def _put(self, now: Current, step: Step, *events: Event, warnings: tuple[str, ...] = ()) -> Tracked:
        after = self._keeper.append(now, *events)
        ready = set(now.execution.ready)
        unlocked = tuple(uid for uid in after.execution.ready if uid not in ready and uid != step.uid)
        return Tracked(after.plan, step, after.execution, after.seq, unlocked, warnings=warnings)

    def _short(self, text: str) -> str:
        """A text without secrets, cut in its middle where it is too long: a secret must not be cut in two before."""
        return shortened(self._keeper.clean(text), TEXT_CHARS_MAX)

    def _proof(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """One piece of evidence as it is kept: a command, how it ended, what it said."""
        return {
            key: shortened(self._keeper.clean(value), OUTPUT_CHARS_MAX) if isinstance(value, str) else value
            for key, value in row.items()
            if isinstance(value, str | int | float | bool)
        }

    # -- what was done --

    def _work(self, now: Current, step: Step, report: Report) -> tuple[Work, tuple[str, ...]]:
        """What a step changed, against what it was to change. Git is asked before anybody waits for the lock."""
        changed, why = set(report.files_modified), ""
        if report.auto_detect_files:
            found = self._tree.touched_since(_base(now.events, step.uid))
            changed |= found.files or frozenset()
            why = found.why
        met = {_criterion(each) for each in report.criteria_met}
        unmet = tuple(
            each for number, each in enumerate(step.acceptance_criteria, 1) if not {_criterion(each), str(number)} & met
        )
        if why and not changed:
            return Work(None, unmet_criteria=unmet), (f"what the step changed is not known: {why}",)
        theirs = _of_others(now, step)
        work = Work(
            tuple(sorted(changed)),
            tuple(sorted(changed - step.files - theirs)),
            tuple(sorted(step.files - changed)),
            unmet,
        )
        return work, (f"only the files you name are known: {why}",) if why else ()

    def _check_proven(self, plan: Plan, step: Step, report: Report) -> None:
        if self._rules.evidence and not report.evidence:
            raise PreconditionFailed(
                f"{_named(plan, step)} has no evidence, which this workspace asks for",
                suggestion='Run its checks and pass evidence: [{"command": "...", "exit_code": 0, "output": "..."}].',
                details={"checks": list(step.checks), "acceptance_criteria": list(step.acceptance_criteria)},
            )


def shortened(text: str, most: int) -> str:
    r"""A text, cut in its middle where it is too long: how a failure begins and how it ends tells most.

    >>> shortened("abcdefghijklmnopqrstuvwxyz" * 3, 40)
    'abcdefghij\n[58 left out]\nqrstuvwxyz'
    """
    if len(text) <= most:
        return text
    half = (most - 20) // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} left out]\n{text[-half:]}"


def _base(events: Iterable[Event], uid: str) -> Base:
    """The work tree as a step was started last."""
    started = [event for event in events if event.kind == "step_started" and event.step == uid]
    try:
        return msgspec.convert(started[-1].data.get("base", {}), Base) if started else Base()
    except msgspec.ValidationError:
        return Base()


def _of_others(now: Current, step: Step) -> frozenset[str]:
    """The files of other steps that have been begun: they may have changed in the same time."""
    begun = (each for each in now.plan.steps if each.uid != step.uid and now.execution.steps[each.uid].started_at)
    return frozenset().union(*(each.files for each in begun))


def _criterion(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


# -- refusals -----------------------------------------------------------------------------------------------------------


def _repeated(now: Current, step: Step, kinds: Sequence[str], caller: Caller) -> Tracked | None:
    """The answer to a call that was made before. Raises: Conflict when its key stands for another call."""
    if not caller.key:
        return None
    known = next((event for event in now.events if event.data.get("key") == caller.key), None)
    if known is None:
        return None
    if known.kind not in kinds or known.step != step.uid:
        raise Conflict(
            f"the key {caller.key[:60]!r} was used for another call",
            suggestion="Take a new idempotency_key for each call that means something else.",
            details={"seq": known.seq, "kind": known.kind},
        )
    return Tracked(now.plan, step, now.execution, now.seq, repeated=True)


def _check_free(now: Current, step: Step, state: StepState) -> None:
    if state.status == "in_progress":
        raise Conflict(
            f"{_named(now.plan, step)} is in progress" + (f" by {state.actor}" if state.actor else ""),
            suggestion="Take another of the ready steps, or give this one back first: fail_step with release: true.",
            details={
                "step": numbers(now.plan)[step.uid],
                "actor": state.actor,
                "started_at": state.started_at,
                "ready": sorted(numbers(now.plan)[uid] for uid in now.execution.ready),
                "current": now.seq,
            },
        )


def _check_startable(now: Current, step: Step, state: StepState, *, force: bool) -> None:
    """Refuse a step that waits for others, failed or is done. Raises: PreconditionFailed."""
    if state.unmet and not force:
        number = numbers(now.plan)
        others = [(number[uid], now.execution.steps[uid].status) for uid in state.unmet]
        said = ", ".join(f"{other} ({status.replace('_', ' ')})" for other, status in others)
        raise PreconditionFailed(
            f"{_named(now.plan, step)} waits for step {said}",
            suggestion="Complete or skip those first, or repeat with force: true, which is recorded.",
            details={
                "step": number[step.uid],
                "unmet": [{"step": other, "status": status} for other, status in others],
            },
        )
    if state.status == "failed":
        raise PreconditionFailed(
            f"{_named(now.plan, step)} failed: {state.error[:200] or 'nobody said why'}",
            suggestion="fail_step with retry: true opens it again.",
            details={"step": numbers(now.plan)[step.uid], "retries_left": state.retries_left},
        )
    if state.status in DONE:
        raise PreconditionFailed(
            f"{_named(now.plan, step)} is {state.status} already",
            suggestion="view_progress names the next one; refine_plan with force_reopen opens this one again.",
            details={"step": numbers(now.plan)[step.uid], "next": numbers(now.plan).get(now.execution.next)},
        )
    step_moved(state.status, "start", forced=force, what=_named(now.plan, step))


def _check_one(**wanted: bool) -> None:
    chosen = [name for name, value in wanted.items() if value]
    if len(chosen) > 1:
        raise InvalidArgument(
            f"{' and '.join(chosen)} cannot be meant together",
            suggestion="retry opens the step again, skip goes on without it, release gives it back.",
            details={"argument": chosen[0]},
        )


def _kinds(state: StepState, *, retry: bool, skip: bool, release: bool) -> tuple[str, ...]:
    """The events that a failure is made of."""
    if skip:
        return ("step_skipped",)
    if release:
        return ("step_released",)
    if retry:
        return ("step_retried",) if state.status == "failed" else ("step_failed", "step_retried")
    return ("step_failed",)


def _check_moves(now: Current, step: Step, kinds: Sequence[str]) -> None:
    """Refuse what the state of the step does not allow. Raises: PreconditionFailed."""
    state, what = now.execution.steps[step.uid], _named(now.plan, step)
    if "step_retried" in kinds and not state.retries_left:
        raise PreconditionFailed(
            f"{what} was tried {state.attempts} times",
            suggestion="Change it with refine_plan, or go on without it: skip: true.",
            details={"step": numbers(now.plan)[step.uid], "attempts": state.attempts},
        )
    status = state.status
    for kind in kinds:
        status = step_moved(status, MOVES[kind], what=what)


_FAILING = ("step_failed", "step_retried", "step_skipped", "step_released")


def _named(plan: Plan, step: Step) -> str:
    return f"step {numbers(plan)[step.uid]}"


def _waiting(now: Current, step: Step) -> tuple[Step, ...]:
    """Steps that wait for this one, directly or not, and are not done."""
    uids = reach(graph(now.plan).needed_by, [step.uid])
    return tuple(
        each for each in now.plan.steps if each.uid in uids and now.execution.steps[each.uid].status not in DONE
    )


def _because(plan: Plan, step: Step) -> str:
    return f"skipped with {_named(plan, step)}, which it waits for"
