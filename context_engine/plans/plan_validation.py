"""PURE. Whether a plan can be carried out here: what is wrong with it, what is doubtful, and what could be put right.

    checked = validated(plan, ground)      errors, warnings, autofixes; `checked.plan` has the autofixes in it
    refuse(checked)                       raises for what no plan may have: a circle, a step that is not there

What there is in the workspace is handed in as `Ground`; this module looks nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from context_engine.errors import Cycle, DanglingDependency
from context_engine.plans.dependency_graph import Graph, closure, graph, in_plan_order
from context_engine.plans.model import Plan, Step, numbers
from context_engine.plans.plan_parsing import Remark, named

REMARKS_MAX = 50
"""Told of each kind: who has more to mend begins with these."""
CIRCLE_SHOWN_MAX = 12
"""In the sentence; the details have all of it."""
SHARED_MAX = 2_000
"""Pairs of steps that are put in order one by one; a plan with more has one file in every step, and its order is its own."""


class Ground(NamedTuple):
    """What there is: whether a file exists, the nearest to a name (empty: none), why a path must not be named (empty: it may)."""

    has_path: Callable[[str], bool]
    nearest: Callable[[str], str]
    refusal: Callable[[str], str]


class Checked(NamedTuple):
    """A plan with its autofixes, and what is to be told of it. It can be carried out when there are no errors."""

    plan: Plan
    errors: tuple[Remark, ...] = ()
    warnings: tuple[Remark, ...] = ()
    autofixes: tuple[Remark, ...] = ()

    def wire(self) -> dict[str, Any]:
        """The `validation` of a reply."""
        return {
            name: [_row(remark) for remark in remarks[:REMARKS_MAX]]
            for name, remarks in (("errors", self.errors), ("warnings", self.warnings), ("autofixes", self.autofixes))
        }


def validated(
    plan: Plan, ground: Ground, *, strict: bool = True, remarks: Iterable[Remark] = (), closed: Collection[str] = ()
) -> Checked:
    """Look at everything. `remarks` are those of the reader; `closed` are uids of steps that are done: their files are history.

    Without `strict` a step that waits for one which is not there no longer does.
    """
    ground = ground._replace(
        has_path=cache(ground.has_path), refusal=cache(ground.refusal)
    )  # a file is looked for once
    plan, cleaned = _clean_paths(named(plan))
    dangling = _dangling(plan)
    if dangling and not strict:
        plan = _without_dangling(plan)
    drawn = graph(plan)
    errors = [*(dangling if strict else ()), *_circle(plan, drawn)]
    shared: list[Remark] = []
    if not drawn.cycle:
        errors += _on_paths(plan, drawn, ground, closed)
        plan, shared = _in_turn(plan, drawn)
    told = tuple(remarks)
    fixed = [remark for remark in told if remark.code in ("RENUMBERED", "BLOCKS_OVERRULED")]
    return Checked(
        plan,
        tuple(errors),
        (
            *(remark for remark in told if remark not in fixed),
            *shared,
            *_there_already(plan, ground, closed),
            *_doubts(plan),
        ),
        (*fixed, *cleaned, *(() if strict else _dropped(dangling)), *_ordered(shared)),
    )


def refuse(checked: Checked) -> None:
    """Raises: Cycle (with `cycle`), DanglingDependency (with `dangling`): no version of a plan has those."""
    for remark in checked.errors:
        if remark.code == Cycle.code:
            raise Cycle(remark.message, suggestion=remark.suggestion, details={"cycle": list(remark.steps)})
    dangling = [remark for remark in checked.errors if remark.code == DanglingDependency.code]
    if dangling:
        rows = [{"step": remark.steps[0], "depends_on": remark.path} for remark in dangling[:REMARKS_MAX]]
        raise DanglingDependency(
            dangling[0].message, suggestion=dangling[0].suggestion, details={"dangling": rows, "total": len(dangling)}
        )


# -- what waits for what --------------------------------------------------------------------------------------------------


def _circle(plan: Plan, drawn: Graph) -> list[Remark]:
    number = numbers(plan)
    circle = tuple(number[uid] for uid in drawn.cycle)
    if not circle:
        return []
    shown = [*circle[:CIRCLE_SHOWN_MAX], "...", circle[-1]] if len(circle) > CIRCLE_SHOWN_MAX else circle
    told = " -> ".join(str(each) for each in shown)
    return [
        Remark(
            Cycle.code,
            f"steps wait for each other: {told}",
            "Take one of these dependencies out of depends_on.",
            circle,
        )
    ]


def _dangling(plan: Plan) -> list[Remark]:
    known, count = {step.uid for step in plan.steps}, len(plan.steps)
    return [
        Remark(
            DanglingDependency.code,
            f"step {number} depends on {uid!r:.60}, which is no step of the plan",
            f"Steps go from 1 to {count}: name one of them, or leave it out (create_plan and refine_plan do: strict: false).",
            (number,),
            uid,
        )
        for number, step in enumerate(plan.steps, 1)
        for uid in step.depends_on
        if uid not in known
    ]


def _without_dangling(plan: Plan) -> Plan:
    known = {step.uid for step in plan.steps}
    return _each_step(plan, lambda step: {"depends_on": tuple(uid for uid in step.depends_on if uid in known)})


def _dropped(dangling: Iterable[Remark]) -> list[Remark]:
    return [each._replace(message=f"{each.message}: left out", suggestion="") for each in dangling]


# -- files ------------------------------------------------------------------------------------------------------------------


def _clean_paths(plan: Plan) -> tuple[Plan, list[Remark]]:
    """The plan with its paths as the workspace writes them, and what that changed."""
    found = [
        Remark("PATH_WRITTEN_ANEW", f"{path} is written {_clean(path)}", steps=(number,), path=_clean(path))
        for number, step in enumerate(plan.steps, 1)
        for path in sorted(step.files)
        if path != _clean(path)
    ]
    fields = ("files_to_modify", "files_to_create", "files_to_delete")
    if found:
        plan = _each_step(
            plan, lambda step: {f: tuple(dict.fromkeys(_clean(p) for p in getattr(step, f))) for f in fields}
        )
    return plan, found


def _clean(path: str) -> str:
    r"""A path with plain slashes and without detours that lead nowhere.

    >>> _clean("./src\\app.py"), _clean("a//b/./c.py"), _clean("../x")
    ('src/app.py', 'a/b/c.py', '../x')
    """
    parts = [part for part in path.strip().replace("\\", "/").split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


class _Touched(NamedTuple):
    """Who makes and who deletes each file, and which steps come before which: bits by uid."""

    makers: Mapping[str, Sequence[str]]
    removers: Mapping[str, Sequence[str]]
    before: Mapping[str, int]
    bit: Mapping[str, int]

    def comes_before(self, one: str, other: str) -> bool:
        return bool(self.bit[one] & self.before[other])


def _on_paths(plan: Plan, drawn: Graph, ground: Ground, closed: Collection[str]) -> list[Remark]:
    """What is wrong with the files that steps name: not there, gone before, deleted beside, or not to be named at all."""
    touched = _Touched(
        _by_file(plan, "files_to_create"),
        _by_file(plan, "files_to_delete"),
        closure(drawn.order, drawn.depends),
        {uid: 1 << place for place, uid in enumerate(drawn.order)},
    )
    number, found = numbers(plan), []
    for step in plan.steps:
        for path in sorted(step.files) if step.uid not in closed else ():
            is_there = ground.has_path(path)  # then it may be named, too
            if not is_there and (why := ground.refusal(path)):
                invalid = Remark(
                    "INVALID_PATH", f"step {number[step.uid]} names {path}: {why}", "", (number[step.uid],), path
                )
                found.append(invalid)
            elif not is_there and not _is_made(step, path, touched):
                near = ground.nearest(path) if len(found) < REMARKS_MAX else ""
                found.append(_missing(number[step.uid], path, near, touched.makers.get(path, ())))
            for uid in touched.removers.get(path, ()):
                found += _on_deletion(step, uid, path, touched, number)
    return found


def _is_made(step: Step, path: str, touched: _Touched) -> bool:
    """Whether a file will be there when the step begins, or is made by it."""
    makers = touched.makers.get(path, ())
    return step.uid in makers or any(touched.comes_before(uid, step.uid) for uid in makers)


def _missing(number: int, path: str, near: str, makers: Sequence[str]) -> Remark:
    if makers:
        way_on = "A step creates it, but this one does not wait for that: add it to depends_on."
    else:
        way_on = (f"Did you mean {near}? " if near else "") + "A new file belongs into files_to_create."
    return Remark("FILE_NOT_FOUND", f"step {number} changes {path}, which is not there", way_on, (number,), path)


def _on_deletion(step: Step, remover: str, path: str, touched: _Touched, number: Mapping[str, int]) -> list[Remark]:
    """What is wrong with a step that touches a file which another one deletes: before it, or beside it."""
    one, other = number[step.uid], number[remover]
    if touched.comes_before(remover, step.uid):
        made_anew = step.uid in touched.makers.get(path, ()) or any(
            touched.comes_before(remover, uid) and touched.comes_before(uid, step.uid)
            for uid in touched.makers.get(path, ())
        )
        said = f"step {one} needs {path}, which step {other} deletes before"
        return [] if made_anew else [Remark("DELETED_BEFORE", said, "Delete it last.", (other, one), path)]
    if remover == step.uid or touched.comes_before(step.uid, remover):
        return []
    said = f"step {other} deletes {path} while step {one} may be using it"
    way_on = f"Let step {other} depend on step {one}, or leave the file out of one of them."
    return [Remark("DELETED_BESIDE", said, way_on, (other, one), path)]


def _there_already(plan: Plan, ground: Ground, closed: Collection[str]) -> list[Remark]:
    """A warning on each file that a step means to create and that exists."""
    return [
        Remark(
            "FILE_EXISTS",
            f"step {number} creates {path}, which is there already",
            "To change it, list it in files_to_modify.",
            (number,),
            path,
        )
        for number, step in enumerate(plan.steps, 1)
        if step.uid not in closed
        for path in sorted(step.files_to_create)
        if ground.has_path(path)
    ]


def _by_file(plan: Plan, field: str) -> dict[str, list[str]]:
    """File -> the steps that name it there."""
    found: dict[str, list[str]] = {}
    for step in plan.steps:
        for path in getattr(step, field):
            found.setdefault(path, []).append(step.uid)
    return found


def _in_turn(plan: Plan, drawn: Graph) -> tuple[Plan, list[Remark]]:
    """The plan in which steps that share a file come after each other, and a remark on each pair that did not.

    Steps are gone through in the order of the plan as far as what they wait for allows; each new dependency leads back in that
    order, as the old ones do, so that none can close a circle.
    """
    order = in_plan_order(drawn)
    bit = {uid: 1 << at for at, uid in enumerate(order)}
    number, waits = numbers(plan), {step.uid: list(step.depends_on) for step in plan.steps}
    before: dict[str, int] = {}
    last: dict[str, str] = {}
    steps, found = {step.uid: step for step in plan.steps}, []
    for uid in order:
        before[uid] = 0
        for other in drawn.depends[uid]:
            before[uid] |= before[other] | bit[other]
        for path in sorted(steps[uid].files):
            earlier = last.get(path)
            if earlier and not before[uid] & bit[earlier] and len(found) < SHARED_MAX:
                waits[uid].append(earlier)
                before[uid] |= before[earlier] | bit[earlier]
                found.append(_shared(number[earlier], number[uid], path))
            last[path] = uid
    if not found:
        return plan, []
    return named(_each_step(plan, lambda step: {"depends_on": tuple(waits[step.uid])})), found


def _shared(one: int, other: int, path: str) -> Remark:
    said = f"steps {one} and {other} both touch {path} and neither waited for the other"
    return Remark("SHARED_FILE", said, f"Step {other} now depends on step {one}.", (one, other), path)


def _ordered(shared: Iterable[Remark]) -> list[Remark]:
    return [
        Remark(
            "DEPENDENCY_ADDED", f"step {each.steps[1]} now depends on step {each.steps[0]}", "", each.steps, each.path
        )
        for each in shared
    ]


# -- doubts -----------------------------------------------------------------------------------------------------------------


def _doubts(plan: Plan) -> list[Remark]:
    """What a plan may lack and still be carried out."""
    found = [] if plan.steps else [Remark("NO_STEPS", "the plan has no steps", "Add some: refine_plan with add_step.")]
    bare = tuple(number for number, step in enumerate(plan.steps, 1) if not step.acceptance_criteria)
    if bare:
        told = f"{'step' if len(bare) == 1 else 'steps'} {', '.join(str(each) for each in bare[:10])}"
        more = f" and {len(bare) - 10} more" if len(bare) > 10 else ""
        said = f"{told}{more}: no acceptance criterion says when it is done"
        found.append(Remark("NO_CRITERION", said, "Say what must hold: a test that passes, an output.", bare))
    return found


def _each_step(plan: Plan, changes: Callable[[Step], dict[str, Any]]) -> Plan:
    steps = tuple(msgspec.structs.replace(step, **changes(step)) for step in plan.steps)
    return msgspec.structs.replace(plan, steps=steps)


def _row(remark: Remark) -> dict[str, Any]:
    said = {"suggestion": remark.suggestion, "steps": list(remark.steps[:REMARKS_MAX]), "path": remark.path}
    return {"code": remark.code, "message": remark.message} | {key: value for key, value in said.items() if value}
