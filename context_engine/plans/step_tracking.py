"""Track steps: start, complete, fail and skip them, one event each, if their state allows it.

    tracker.start(plan_id, 1, actor="agent")
    tracker.complete(plan_id, 1, CompletionReport("cents everywhere"))

The lock decides between two processes that start the same step. Git reports what changed in the work tree meanwhile;
without git the answer says so instead of guessing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from context_engine.errors import (
    AccessFailed,
    Conflict,
    InvalidArgument,
    NextStep,
    PreconditionFailed,
    TooLarge,
    UnsupportedHost,
)
from context_engine.plans.dependency_graph import build_graph
from context_engine.plans.model import Plan, PlanStep
from context_engine.plans.plan_events import (
    DONE,
    CompletionReport,
    Execution,
    PlanEvent,
    PlanRules,
    StepState,
    check_approved,
    move_step,
)
from context_engine.plans.plan_json import hash_step
from context_engine.plans.plan_storage import PlanState, PlanStorage
from context_engine.plans.step_evidence import find_failures, find_open_checks, find_open_criteria
from context_engine.repo import Git, Root, size_and_mtime
from context_engine.storage import STATE_FOLDER, prepare_type

DIRTY_BYTES_MAX = 40_000
"""Of the paths that had changed before a step began: they are part of an event, whose line has 64 KiB."""
TEXT_CHARS_MAX = 4_000
"""Of an error, a note or the output of a command; its beginning and its end are kept."""
OUTPUT_CHARS_MAX = 2_000
EVIDENCE_MAX = 20
FILES_MAX = 300
"""Of what a step changed, so that its event stays a line."""
RUN_CHECKS = 'Run the checks and pass evidence: [{"command": "...", "exit_code": 0, "output": "..."}].'
_NO_GIT = (AccessFailed, UnsupportedHost, InvalidArgument, TooLarge)


# -- the work tree -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanDrift:
    """The changes of the workspace since a plan was created; `commits_since` is None if git does not know them."""

    files_missing: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    commits_since: int | None = None
    warnings: tuple[str, ...] = ()


class StepBaseline(msgspec.Struct, frozen=True):
    """The work tree as a step began: the commit, and what had changed by then, each file with its size and time.

    `dirty` is None where that was too much to keep; `problem` is why git could not compare.
    """

    commit: str = ""
    dirty: dict[str, str] | None = {}
    problem: str = ""


class PlanWorkTree:
    """The work tree of one workspace, as far as plans speak of it."""

    def __init__(self, root: Root, git: Git) -> None:
        """Create the view; git is not asked yet."""
        self._root = root
        self._git = git

    def head_commit(self) -> str:
        """Return the commit that is checked out; empty when there is none."""
        head = self._git.head()
        return (head.commit if head else "") or ""

    def find_drift(self, plan: Plan, has_path: Callable[[str], bool]) -> PlanDrift:
        """Find what happened to the files of a plan since it was created."""
        to_be_there = {path for step in plan.steps for path in (*step.files_to_modify, *step.files_to_delete)}
        made = {path for step in plan.steps for path in step.files_to_create}
        missing = tuple(sorted(path for path in to_be_there - made if not has_path(path)))
        if not plan.base_commit:
            why = "the plan names no commit it was created at: changes since then are unknown"
            return PlanDrift(missing, warnings=(why,))
        try:
            base = self._git.commit(plan.base_commit)
            changed = self._changed_since(base) & plan.files
            since = int(self._git.run("rev-list", "--count", f"{base}..HEAD"))
        except _NO_GIT as error:
            return PlanDrift(missing, warnings=(f"changes since the plan was created are unknown: {error.message}",))
        return PlanDrift(missing, tuple(sorted(changed)), since)

    def take_baseline(self) -> StepBaseline:
        """Return the present work tree, to be compared with later.

        An empty commit means that git knows nothing here.
        """
        commit = self.head_commit()
        if not commit:
            return StepBaseline()
        try:
            dirty = {path: self._stamp(path) for path in sorted(self._changed_since(commit))}
        except _NO_GIT as error:
            return StepBaseline(problem=error.message)
        return StepBaseline(commit, dirty if len(msgspec.json.encode(dirty)) <= DIRTY_BYTES_MAX else None)

    def find_changes_since(self, base: StepBaseline) -> tuple[frozenset[str], str]:
        """Return the files that changed since a baseline, without those that had changed before it.

        The text says why they are unknown; it is empty when they are known.
        """
        if base.problem:
            return frozenset(), f"git could not compare when the step started: {base.problem}"
        if not base.commit:
            return frozenset(), "there was no git repository, or no commit in it, when the step started"
        if base.dirty is None:
            return frozenset(), "too many files had uncommitted changes when the step started"
        try:
            now = self._changed_since(self._git.commit(base.commit))
        except _NO_GIT as error:
            return frozenset(), error.message
        before = base.dirty
        taken_back = {path for path in before if path not in now}  # edits from before the step that it undid
        return frozenset(taken_back | {path for path in now if before.get(path) != self._stamp(path)}), ""

    def _changed_since(self, commit: str) -> frozenset[str]:
        """Return the files that differ from a commit, committed meanwhile or not, and those untracked by git."""
        with ThreadPoolExecutor(max_workers=1) as pool:  # git compares while we list
            listing = pool.submit(self._git.untracked_paths)
            tracked = self._git.run("diff", "--name-only", "--no-renames", "--relative", "-z", commit, "--")
            names = filter(None, (*tracked.split(b"\0"), *map(os.fsencode, listing.result())))
        paths = (name.decode("utf-8", "replace") for name in names)
        return frozenset(path for path in paths if not path.startswith(f"{STATE_FOLDER}/"))

    def _stamp(self, path: str) -> str:
        """Return the size and time of a file; empty when it is gone."""
        stamp = size_and_mtime(str(self._root.path / path))
        return "-".join(map(str, stamp)) if stamp else ""


# -- steps -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepUpdate:
    """A step that was moved, and the plan as it is then.

    `unlocked` are steps that became ready, and `skipped` those that were skipped, by uid. The fields after `warnings`
    compare the work in a completed step with the plan; `files` is None if they are unknown.
    """

    plan: Plan
    step: PlanStep
    execution: Execution
    unlocked: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    files: tuple[str, ...] | None = None
    unexpected_files: tuple[str, ...] = ()
    missing_files: tuple[str, ...] = ()
    unmet_criteria: tuple[str, ...] = ()

    @property
    def state(self) -> StepState:
        """The state of the step."""
        return self.execution.steps[self.step.uid]


class StepTracker:
    """The steps of the plans of one workspace. Thread-safe; other processes may work on them, too."""

    def __init__(self, storage: PlanStorage, id_of: Callable[[str], str], tree: PlanWorkTree, rules: PlanRules) -> None:
        """Create the tracker; `id_of` resolves the id or name of a plan."""
        self._storage = storage
        self._id_of = id_of
        self._tree = tree
        self._rules = rules

    def start(self, which: str, step: int | str, *, force: bool = False, actor: str = "") -> StepUpdate:
        """Start a step. `force` starts one with open dependencies; it does not replace an approval.

        Raises: PlanNotFound, InvalidArgument, Conflict (in progress already), NeedsApproval, PreconditionFailed with
        what is `unmet`, StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
        """
        plan_id, base = self._id_of(which), self._tree.take_baseline()  # git is slow: not under the lock
        with self._storage.lock(plan_id):
            now = self._storage.read_state(plan_id)
            wanted = now.plan.find_step(step)
            state = now.execution.steps[wanted.uid]
            _check_free(now, wanted, state)
            check_approved(now.approvals, now.plan, wanted, required=self._rules.approval)
            _check_startable(now, wanted, state, force=force)
            data = {"base": msgspec.to_builtins(base), "forced": bool(state.unmet)}
            started = self._append_events(now, wanted, self._step_event("step_started", wanted, actor, data))
        if not base.problem:
            return started
        return replace(started, warnings=(f"the changes of this step will be unknown: {base.problem}",))

    def complete(
        self,
        which: str,
        step: int | str,
        report: CompletionReport = CompletionReport(),  # noqa: B008 - it is frozen
        *,
        force: bool = False,
        actor: str = "",
    ) -> StepUpdate:
        """Complete a step whose checks ran and whose criteria were answered.

        `force` completes one that was never started, or with open checks and criteria; that is recorded. Evidence of
        a failure always fails the step. Raises: PlanNotFound, InvalidArgument, PreconditionFailed (not in progress,
        something is open, or the evidence shows a failure), StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
        """
        plan_id = self._id_of(which)
        # Stored criteria have no secrets: an answer may have their words with or without them.
        cleaned = (self._storage.clean(answer) for answer in report.criteria_met)
        report = replace(report, criteria_met=tuple(dict.fromkeys((*report.criteria_met, *cleaned))))
        seen = self._storage.read_state(plan_id)
        work = self._compare_work(seen, seen.plan.find_step(step), report)
        with self._storage.lock(plan_id):
            now = self._storage.read_state(plan_id)
            wanted = now.plan.find_step(step)
            state = now.execution.steps[wanted.uid]
            move_step(state.status, "step_completed", forced=force, what=_step_name(now.plan, wanted))
            self._refuse_failures(now, wanted, report, actor)
            is_open = self._check_done(now.plan, wanted, report, force=force)
            data = {
                "notes": self._clean_text(report.notes),
                "files_modified": list((work["files"] or ())[:FILES_MAX]),
                "evidence": self._clean_evidence(report),
                "criteria_met": [self._clean_text(criterion) for criterion in report.criteria_met],
                "forced": state.status != "in_progress" or is_open,
            }
            moved = self._append_events(now, wanted, self._step_event("step_completed", wanted, actor, data))
        return replace(moved, **work)

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
        actor: str = "",
    ) -> StepUpdate:
        """Record that a step failed.

        `retry` opens it again, `skip` goes on without it, `release` gives back a started step as if it had not been.
        `skip_dependents` skips all that waits for it. Raises: as `complete`; PreconditionFailed when it was tried too
        often.
        """
        plan_id = self._id_of(which)
        chosen = [name for name, is_set in (("retry", retry), ("skip", skip), ("release", release)) if is_set]
        if len(chosen) > 1:
            raise InvalidArgument(
                f"{' and '.join(chosen)} exclude each other",
                suggestion="retry opens the step again, skip goes on without it, release gives it back.",
                details={"argument": chosen[0]},
            )
        with self._storage.lock(plan_id):
            now = self._storage.read_state(plan_id)
            wanted = now.plan.find_step(step)
            status = now.execution.steps[wanted.uid].status
            kinds = ["step_skipped"] if skip else ["step_released"] if release else ["step_failed"]
            if retry:
                kinds = ["step_retried"] if status == "failed" else ["step_failed", "step_retried"]
            _check_moves(now, wanted, kinds)
            data = {"notes" if skip else "error": self._clean_text(error)}
            others = _open_dependents(now, wanted) if skip_dependents else ()
            note = {"notes": f"skipped with {_step_name(now.plan, wanted)}, which it waits for"}
            events = [self._step_event(kind, wanted, actor, data) for kind in kinds]
            events += [self._step_event("step_skipped", other, actor, note) for other in others]
            moved = self._append_events(now, wanted, *events)
        return replace(moved, skipped=tuple(item.uid for item in (*((wanted,) if skip else ()), *others)))

    def read_state(self, which: str) -> PlanState:
        """Read the present state of a plan. Raises: PlanNotFound, StorageCorrupt with the line of a broken log."""
        return self._storage.read_state(self._id_of(which))

    # -- events --

    def _step_event(self, kind: str, step: PlanStep, actor: str, details: Mapping[str, Any]) -> PlanEvent:
        """Return an event of a step; `hash` identifies its work at that time."""
        data = {"hash": hash_step(step), **details}
        kept = {key: value for key, value in data.items() if value not in ("", [], False)}
        return self._storage.new_event(kind, actor=actor, step=step.uid, data=kept)

    def _append_events(self, now: PlanState, step: PlanStep, *events: PlanEvent) -> StepUpdate:
        after = self._storage.append_events(now, *events)
        before = {*now.execution.ready, step.uid}
        unlocked = tuple(uid for uid in after.execution.ready if uid not in before)
        return StepUpdate(after.plan, step, after.execution, unlocked)

    def _clean_text(self, text: str, most: int = TEXT_CHARS_MAX) -> str:
        # The other order could cut a secret in two.
        return shorten_middle(self._storage.clean(text), most)

    def _clean_evidence(self, report: CompletionReport) -> list[dict[str, Any]]:
        """Return the evidence as it is saved: a command, its exit code, its output."""
        return [
            {
                key: self._clean_text(value, OUTPUT_CHARS_MAX) if isinstance(value, str) else value
                for key, value in row.items()
                if isinstance(value, str | int | float | bool)
            }
            for row in report.evidence[:EVIDENCE_MAX]
        ]

    # -- the work of a step --

    def _compare_work(self, now: PlanState, step: PlanStep, report: CompletionReport) -> dict[str, Any]:
        """Compare what a step changed with the plan, as fields of its update. Git is asked before the lock is taken."""
        changed, why = set(report.files_modified), ""
        if report.auto_detect_files:
            found, why = self._tree.find_changes_since(_find_baseline(now.events, step.uid))
            changed |= found
        unmet = find_open_criteria(step.acceptance_criteria, report.criteria_met, report.evidence)
        if why and not changed:
            warnings = (f"the changes of the step are unknown: {why}",)
            return {"files": None, "unmet_criteria": unmet, "warnings": warnings}
        states = now.execution.steps
        # The files of other started steps may have changed in the same time.
        started = [other for other in now.plan.steps if other.uid != step.uid and states[other.uid].started_at]
        theirs = frozenset().union(*(other.files for other in started))
        return {
            "files": tuple(sorted(changed)),
            "unexpected_files": tuple(sorted(changed - step.files - theirs)),
            "missing_files": tuple(sorted(step.files - changed)),
            "unmet_criteria": unmet,
            "warnings": (f"only the files that you named are known: {why}",) if why else (),
        }

    def _refuse_failures(self, now: PlanState, step: PlanStep, report: CompletionReport, actor: str) -> None:
        """Fail the step when its evidence shows a failure. Raises: PreconditionFailed, with what failed."""
        failures = find_failures(report.evidence[:EVIDENCE_MAX])
        if not failures:
            return
        is_recorded = now.execution.steps[step.uid].status == "in_progress"
        if is_recorded:
            error = self._clean_text(f"its evidence shows a failure: {'; '.join(map(str, failures))}")
            data = {"error": error, "evidence": self._clean_evidence(report)}
            self._append_events(now, step, self._step_event("step_failed", step, actor, data))
        outcome = "it is recorded as failed" if is_recorded else "nothing was recorded"
        raise _refused_step(
            now.plan,
            step,
            f"is not complete, {outcome}: {failures[0]}",
            "Fix the cause, run the check again, and complete the step with its new result.",
            NextStep("fail_step", "to open it again", {"retry": True}) if is_recorded else (),
            failures=[failure._asdict() for failure in failures],
            recorded_as_failed=is_recorded,
        )

    def _check_done(self, plan: Plan, step: PlanStep, report: CompletionReport, *, force: bool) -> bool:
        """Return whether a check or criterion is open. Raises: PreconditionFailed without force."""
        if self._rules.evidence and not report.evidence:
            why = "has no evidence, which this workspace requires"
            criteria = list(step.acceptance_criteria)
            raise _refused_step(plan, step, why, RUN_CHECKS, checks=list(step.checks), acceptance_criteria=criteria)
        evidence = report.evidence[:EVIDENCE_MAX]
        checks = list(find_open_checks(step.checks, evidence))
        criteria = list(find_open_criteria(step.acceptance_criteria, report.criteria_met, evidence))
        if force or not (checks or criteria):
            return bool(checks or criteria)
        counts, advice, still_open = [], [], {}
        if checks:
            counts.append(f"{len(checks)} {'check has' if len(checks) == 1 else 'checks have'} no result")
            advice.append(RUN_CHECKS)
            still_open["open_checks"] = checks
        if criteria:
            counts.append(f"{len(criteria)} {'criterion has' if len(criteria) == 1 else 'criteria have'} no answer")
            advice.append("Answer each criterion in criteria_met: its number, or its text.")
            still_open["open_criteria"] = criteria
        advice.append("Or repeat with force: true, which is recorded.")
        raise _refused_step(plan, step, f"is not complete: {' and '.join(counts)}", " ".join(advice), **still_open)


def shorten_middle(text: str, most: int) -> str:
    r"""Cut the middle out of a long text: its beginning and its end say most about a failure.

    >>> shorten_middle("abcdefghijklmnopqrstuvwxyz" * 3, 40)
    'abcdefghij\n[58 left out]\nqrstuvwxyz'
    """
    if len(text) <= most:
        return text
    half = (most - 20) // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} left out]\n{text[-half:]}"


def _find_baseline(events: Iterable[PlanEvent], uid: str) -> StepBaseline:
    """Return the baseline of a step: of its first start since it was open; a retry goes on with the same work."""
    kinds = ("step_started", "step_released", "step_reopened")
    own = [event for event in events if event.kind in kinds and event.step == uid]
    opened = [at for at, event in enumerate(own, 1) if event.kind != "step_started"]
    started = own[opened[-1] if opened else 0 :]
    try:
        return msgspec.convert(started[0].data.get("base", {}) if started else {}, prepare_type(StepBaseline))
    except msgspec.ValidationError:
        return StepBaseline()


def _open_dependents(now: PlanState, step: PlanStep) -> tuple[PlanStep, ...]:
    """Return the open steps that depend on this one, directly or not."""
    drawn, waiting = build_graph(now.plan), {step.uid}
    for uid in drawn.order:  # a step comes after all that it depends on
        if not waiting.isdisjoint(drawn.depends[uid]):
            waiting.add(uid)
    return tuple(other for other in now.plan.steps if other.uid in waiting - {step.uid} - now.execution.done)


def _step_name(plan: Plan, step: PlanStep) -> str:
    return f"step {plan.step_numbers()[step.uid]}"


# -- refusals ----------------------------------------------------------------------------------------------------------


def _refused_step(
    plan: Plan,
    step: PlanStep,
    why: str,
    suggestion: str = "",
    next_steps: NextStep | tuple[NextStep, ...] = (),
    **details: object,
) -> PreconditionFailed:
    number = plan.step_numbers()[step.uid]
    return PreconditionFailed(
        f"step {number} {why}", suggestion=suggestion, next_steps=next_steps, details={"step": number, **details}
    )


def _check_free(now: PlanState, step: PlanStep, state: StepState) -> None:
    if state.status == "in_progress":
        number = now.plan.step_numbers()
        raise Conflict(
            f"step {number[step.uid]} is in progress" + (f" by {state.actor}" if state.actor else ""),
            suggestion="Take another of the ready steps, or release this one first.",
            next_steps=NextStep("fail_step", "to release it", {"release": True}),
            details={
                "step": number[step.uid],
                "actor": state.actor,
                "started_at": state.started_at,
                "ready": now.plan.list_numbers(now.execution.ready),
            },
        )


def _check_startable(now: PlanState, step: PlanStep, state: StepState, *, force: bool) -> None:
    """Refuse a step that has open dependencies, failed or is done. Raises: PreconditionFailed."""
    plan, number = now.plan, now.plan.step_numbers()
    if state.unmet and not force:
        unmet = [{"step": number[uid], "status": now.execution.steps[uid].status} for uid in state.unmet]
        open_steps = ", ".join(f"{row['step']} ({str(row['status']).replace('_', ' ')})" for row in unmet)
        advice = "Complete or skip those first, or repeat with force: true, which is recorded."
        raise _refused_step(plan, step, f"waits for step {open_steps}", advice, unmet=unmet)
    if state.status == "failed":
        again = NextStep("fail_step", "to open it again", {"retry": True})
        why = f"failed: {state.error[:200] or 'no reason was given'}"
        raise _refused_step(plan, step, why, next_steps=again, retries_left=state.retries_left)
    if state.status in DONE:
        reopen = NextStep("refine_plan", "with force_reopen to open this one again")
        ways_on = NextStep("view_progress", "to see the next step"), reopen
        following = number.get(now.execution.next)
        raise _refused_step(plan, step, f"is {state.status} already", next_steps=ways_on, next=following)
    move_step(state.status, "step_started", forced=force, what=_step_name(plan, step))


def _check_moves(now: PlanState, step: PlanStep, kinds: Sequence[str]) -> None:
    """Refuse moves that the state of the step does not allow. Raises: PreconditionFailed."""
    state = now.execution.steps[step.uid]
    status = state.status
    if "step_retried" in kinds and not state.retries_left:
        why, change = f"was tried {state.attempts} times", NextStep("refine_plan", "to change it")
        advice = "To go on without it, repeat the call with skip: true."
        raise _refused_step(now.plan, step, why, advice, change, attempts=state.attempts)
    for kind in kinds:
        status = move_step(status, kind, what=_step_name(now.plan, step))
