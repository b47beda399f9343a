"""PURE. Validate a plan: errors, warnings, and fixes that were made.

validation = validate_plan(plan, paths)      `validation.plan` contains the autofixes
validation.raise_fatal_errors()              a cycle, or a dependency on a missing step
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec

from context_engine.errors import Cycle, DanglingDependency
from context_engine.plans.dependency_graph import StepGraph, build_graph, compute_closure
from context_engine.plans.model import FILE_FIELDS, Plan, PlanStep
from context_engine.plans.plan_json import PlanFinding, normalize_plan

REMARKS_MAX = 50
"""Findings reported of each kind; fixing these comes first."""
CIRCLE_SHOWN_MAX = 12
"""In the sentence; the details have all of it."""
BARE_SHOWN_MAX = 10
SHARED_MAX = 2_000
"""Pairs of steps that are put in order one by one; a plan with more has one file in every step, and its order is its
own."""


class WorkspacePaths(NamedTuple):
    """The paths of a workspace: does a file exist, what is the nearest name, why is a path refused."""

    has_path: Callable[[str], bool]
    nearest: Callable[[str], str]
    refusal: Callable[[str], str]


class PlanValidation(NamedTuple):
    """A plan with its autofixes, and the findings about it. It can be carried out when there are no errors."""

    plan: Plan
    errors: tuple[PlanFinding, ...] = ()
    warnings: tuple[PlanFinding, ...] = ()
    autofixes: tuple[PlanFinding, ...] = ()

    def serialize(self) -> dict[str, Any]:
        """Return the `validation` field of a reply."""
        named = {"errors": self.errors, "warnings": self.warnings, "autofixes": self.autofixes}
        return {name: [_serialize_remark(row) for row in rows[:REMARKS_MAX]] for name, rows in named.items()}

    def raise_fatal_errors(self) -> None:
        """Raise Cycle (with `cycle`) or DanglingDependency (with `dangling`): no version of a plan may have those."""
        for error in self.errors:
            if error.code == Cycle.code:
                raise Cycle(error.message, suggestion=error.suggestion, details={"cycle": list(error.steps)})
        dangling = [error for error in self.errors if error.code == DanglingDependency.code]
        if dangling:
            first = dangling[0]
            rows = [{"step": error.steps[0], "depends_on": error.path} for error in dangling[:REMARKS_MAX]]
            details = {"dangling": rows, "total": len(dangling)}
            raise DanglingDependency(first.message, suggestion=first.suggestion, details=details)


def validate_plan(
    plan: Plan,
    ground: WorkspacePaths,
    *,
    strict: bool = True,
    remarks: Iterable[PlanFinding] = (),
    closed: Collection[str] = (),
) -> PlanValidation:
    """Validate a plan. `remarks` come from parsing; `closed` are the uids of done steps, whose files are history.

    Without `strict`, dangling dependencies are removed.
    """
    # A file is looked for once.
    ground = ground._replace(has_path=cache(ground.has_path), refusal=cache(ground.refusal))
    plan, fixed = _clean_paths(normalize_plan(plan))
    dangling = list(_find_dangling(plan))
    if dangling and not strict:
        known = plan.step_numbers()
        plan = _map_steps(plan, lambda step: {"depends_on": tuple(uid for uid in step.depends_on if uid in known)})
        fixed += [finding._replace(message=f"{finding.message}: left out", suggestion="") for finding in dangling]
        dangling = []
    drawn = build_graph(plan)
    errors, shared = [*dangling, *_find_cycle(plan, drawn)], []
    if not drawn.cycle:  # without an order of the steps nothing can be said about files
        errors += _check_files(plan, drawn, ground, closed)
        plan, shared = _order_shared_files(plan, drawn)
    for row in shared:
        message = f"step {row.steps[1]} now depends on step {row.steps[0]}"
        fixed.append(PlanFinding("DEPENDENCY_ADDED", message, "", row.steps, row.path))
    sent = list(remarks)
    fixed = [*(remark for remark in sent if remark.code == "RENUMBERED"), *fixed]
    others = [remark for remark in sent if remark.code != "RENUMBERED"]
    warnings = (*others, *shared, *_find_existing(plan, ground, closed), *_find_doubts(plan))
    return PlanValidation(plan, tuple(errors), warnings, tuple(fixed))


# -- dependencies -----------------------------------------------------------------------------------------------


def _find_cycle(plan: Plan, drawn: StepGraph) -> Iterator[PlanFinding]:
    number = plan.step_numbers()
    circle = tuple(number[uid] for uid in drawn.cycle)
    if circle:
        shown = [*circle[:CIRCLE_SHOWN_MAX], "...", circle[-1]] if len(circle) > CIRCLE_SHOWN_MAX else circle
        message = f"steps wait for each other: {' -> '.join(map(str, shown))}"
        yield PlanFinding(Cycle.code, message, "Take one of these dependencies out of depends_on.", circle)


def _find_dangling(plan: Plan) -> Iterator[PlanFinding]:
    known = plan.step_numbers()
    advice = f"Steps go from 1 to {len(known)}: name one, or leave it out."
    for number, step in enumerate(plan.steps, 1):
        for uid in (uid for uid in step.depends_on if uid not in known):
            message = f"step {number} depends on {uid!r:.60}, which is not a step of the plan"
            yield PlanFinding(DanglingDependency.code, message, advice, (number,), uid)


# -- files -------------------------------------------------------------------------------------------------------------


def _clean_paths(plan: Plan) -> tuple[Plan, list[PlanFinding]]:
    """Return the plan with normalized paths, and the findings about them."""
    found = [
        PlanFinding("PATH_WRITTEN_ANEW", f"{path} was changed to {_clean(path)}", steps=(number,), path=_clean(path))
        for number, step in enumerate(plan.steps, 1)
        for path in sorted(step.files)
        if path != _clean(path)
    ]
    if found:
        plan = _map_steps(
            plan, lambda step: {f: tuple(dict.fromkeys(map(_clean, getattr(step, f)))) for f in FILE_FIELDS}
        )
    return plan, found


def _clean(path: str) -> str:
    r"""Return a path with forward slashes and without empty or `.` parts.

    >>> _clean("./src\\app.py"), _clean("a//b/./c.py"), _clean("../x")
    ('src/app.py', 'a/b/c.py', '../x')
    """
    parts = [part for part in path.strip().replace("\\", "/").split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _check_files(plan: Plan, drawn: StepGraph, ground: WorkspacePaths, closed: Collection[str]) -> list[PlanFinding]:
    """Check the files that steps name: missing, deleted before, deleted in parallel, or not allowed."""
    makers, removers = _steps_by_file(plan, "files_to_create"), _steps_by_file(plan, "files_to_delete")
    before = compute_closure(drawn.order, drawn.depends)
    bit = {uid: 1 << place for place, uid in enumerate(drawn.order)}

    def comes_before(one: str, other: str) -> bool:
        return bool(bit[one] & before[other])

    def is_made(path: str, uid: str, after: str = "") -> bool:
        """Return whether a step creates a file, or one before it does, and that one comes after another step."""
        earlier = [maker for maker in makers.get(path, ()) if comes_before(maker, uid)]
        return uid in makers.get(path, ()) or any(not after or comes_before(after, maker) for maker in earlier)

    number, found = plan.step_numbers(), []
    for step in plan.steps:
        one = number[step.uid]
        for path in sorted(step.files) if step.uid not in closed else ():
            is_there = ground.has_path(path)  # then it may be named, too
            if not is_there and (why := ground.refusal(path)):
                found.append(PlanFinding("INVALID_PATH", f"step {one} names {path}: {why}", "", (one,), path))
            elif not is_there and not is_made(path, step.uid):
                near = ground.nearest(path) if len(found) < REMARKS_MAX else ""
                way_on = (f"Did you mean {near}? " if near else "") + "List a new file in files_to_create."
                if path in makers:
                    way_on = "A step creates it, but this one does not wait for that: add it to depends_on."
                message = f"step {one} changes {path}, which does not exist"
                found.append(PlanFinding("FILE_NOT_FOUND", message, way_on, (one,), path))
            for remover in removers.get(path, ()):
                other = number[remover]
                if comes_before(remover, step.uid):
                    if not is_made(path, step.uid, after=remover):
                        message = f"step {one} needs {path}, which step {other} deletes before"
                        found.append(PlanFinding("DELETED_BEFORE", message, "Delete it last.", (other, one), path))
                elif remover != step.uid and not comes_before(step.uid, remover):
                    message = f"step {other} deletes {path} while step {one} may be using it"
                    way_on = f"Let step {other} depend on step {one}, or leave the file out of one of them."
                    found.append(PlanFinding("DELETED_BESIDE", message, way_on, (other, one), path))
    return found


def _find_existing(plan: Plan, ground: WorkspacePaths, closed: Collection[str]) -> Iterator[PlanFinding]:
    """Warn about each file that a step creates although it exists."""
    way_on = "To change it, list it in files_to_modify."
    for number, step in enumerate(plan.steps, 1):
        for path in sorted(step.files_to_create) if step.uid not in closed else ():
            if ground.has_path(path):
                message = f"step {number} creates {path}, which exists already"
                yield PlanFinding("FILE_EXISTS", message, way_on, (number,), path)


def _steps_by_file(plan: Plan, field: str) -> dict[str, list[str]]:
    """Return the steps that name each file in this field."""
    found: dict[str, list[str]] = {}
    for step in plan.steps:
        for path in getattr(step, field):
            found.setdefault(path, []).append(step.uid)
    return found


def _order_shared_files(plan: Plan, drawn: StepGraph) -> tuple[Plan, list[PlanFinding]]:
    """Order steps that share a file, and report each pair that was not ordered.

    Steps are visited in the order of the plan if no step waits for a later one, else in an order of the graph. Each new
    dependency points back in that order, as the old ones do, so that none can close a cycle.
    """
    number, waits = plan.step_numbers(), {step.uid: list(step.depends_on) for step in plan.steps}
    is_in_order = all(number[other] < number[uid] for uid, earlier in drawn.depends.items() for other in earlier)
    bit = {uid: 1 << place for uid, place in number.items()}
    before: dict[str, int] = {}
    last: dict[str, str] = {}
    steps, found = {step.uid: step for step in plan.steps}, []
    for uid in number if is_in_order else drawn.order:
        before[uid] = 0
        for other in drawn.depends[uid]:
            before[uid] |= before[other] | bit[other]
        for path in sorted(steps[uid].files):
            earlier = last.get(path)
            # Only a pair that no chain of dependencies orders yet gets a new dependency.
            if earlier and not before[uid] & bit[earlier] and len(found) < SHARED_MAX:
                waits[uid].append(earlier)
                before[uid] |= before[earlier] | bit[earlier]
                one, other = number[earlier], number[uid]
                message = f"steps {one} and {other} both touch {path} and neither waited for the other"
                way_on = f"Step {other} now depends on step {one}."
                found.append(PlanFinding("SHARED_FILE", message, way_on, (one, other), path))
            last[path] = uid
    if not found:
        return plan, []
    return normalize_plan(_map_steps(plan, lambda step: {"depends_on": tuple(waits[step.uid])})), found


def _find_doubts(plan: Plan) -> Iterator[PlanFinding]:
    """Report what a plan lacks although it can be carried out."""
    if not plan.steps:
        yield PlanFinding("NO_STEPS", "the plan has no steps", "Add some with refine_plan.")
    bare = tuple(number for number, step in enumerate(plan.steps, 1) if not step.acceptance_criteria)
    if bare:
        subject = f"{'step' if len(bare) == 1 else 'steps'} {', '.join(map(str, bare[:BARE_SHOWN_MAX]))}"
        more = f" and {len(bare) - BARE_SHOWN_MAX} more" if len(bare) > BARE_SHOWN_MAX else ""
        message = f"{subject}{more}: no acceptance criterion says when it is done"
        yield PlanFinding("NO_CRITERION", message, "Say how to check it: a test that passes, an output.", bare)


def _map_steps(plan: Plan, changes: Callable[[PlanStep], dict[str, Any]]) -> Plan:
    steps = tuple(msgspec.structs.replace(step, **changes(step)) for step in plan.steps)
    return msgspec.structs.replace(plan, steps=steps)


def _serialize_remark(remark: PlanFinding) -> dict[str, Any]:
    row = remark._asdict() | {"steps": list(remark.steps[:REMARKS_MAX])}
    return {key: value for key, value in row.items() if value or key in ("code", "message")}
