"""PURE. Operations on a plan: all of them are applied, or none, on a copy.

    apply_operations(plan, [{"op": "remove_step", "step": 4}, {"op": "add_step", "title": "Test it", "after": 3}])

Numbers refer to the plan before the first operation; a step that was added on the way has only a uid. Done steps are
not changed. `parse_feedback` reads operations from simple imperative sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from pathspec import GitIgnoreSpec

from context_engine.errors import InvalidArgument, PreconditionFailed
from context_engine.plans.model import (
    TITLE_CHARS_MAX,
    Estimate,
    Plan,
    PlanQuestion,
    PlanRisk,
    PlanScope,
    PlanStep,
    format_effort,
    parse_effort,
)
from context_engine.plans.plan_json import hash_step, normalize_plan, parse_part
from context_engine.text import suggest_nearest

OPERATIONS_MAX = 200
"""In one call; for more, send a new draft."""
_FILES = ("files_to_modify", "files_to_create", "files_to_delete")
_UNTOUCHED = ("uid", "depends_on")
"""Fields of a step that have an operation of their own, or none."""

Operation = Mapping[str, Any]


class AppliedOperation(NamedTuple):
    """An operation that was carried out, in words, and the steps it was about, by uid."""

    op: str
    said: str
    steps: tuple[str, ...] = ()


class OperationsResult(NamedTuple):
    """A plan after its operations. `reopened` are steps that were done and are open again, by uid."""

    plan: Plan
    applied: tuple[AppliedOperation, ...]
    reopened: tuple[str, ...] = ()


def apply_operations(
    plan: Plan, operations: Sequence[Operation], *, closed: Collection[str] = (), force_reopen: bool = False
) -> OperationsResult:
    """Apply all operations to a copy of the plan. `closed` are the uids of its done steps; others do not count.

    Raises: InvalidArgument (with the index of the operation), PreconditionFailed when one changes a done step.
    """
    if len(operations) > OPERATIONS_MAX:
        raise InvalidArgument(
            f"{len(operations):,} operations, at most {OPERATIONS_MAX} are carried out",
            suggestion="Send a whole draft instead.",
        )
    _check_encodable(operations)
    start = normalize_plan(plan)
    work = _PlanEditor(start, frozenset(start.step_numbers()).intersection(closed), force_reopen)
    applied = [_apply_operation(work, place, operation) for place, operation in enumerate(operations)]
    return OperationsResult(normalize_plan(work.plan()), tuple(applied), tuple(sorted(work.reopened)))


def _check_encodable(operations: Sequence[Operation]) -> None:
    """Check that the operations can be encoded. Raises: InvalidArgument."""
    try:
        msgspec.json.encode(operations)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidArgument(
            "operations contain something that cannot be encoded as JSON in UTF-8",
            suggestion="Send whole characters and plain values.",
        ) from None


def answer_operations(clarifications: Mapping[str, Any]) -> list[Operation]:
    """Return the operations for answers by question."""
    return [
        {"op": "answer_question", "question": question, "answer": answer} for question, answer in clarifications.items()
    ]


def check_done_steps(
    before: Plan, after: Plan, closed: Collection[str], *, force_reopen: bool = False
) -> tuple[str, ...]:
    """Return the uids of done steps that a draft changes or removes: with `force_reopen` they are reopened.

    Raises: PreconditionFailed without it.
    """
    new = {step.uid: hash_step(step) for step in after.steps}
    changed = [step.uid for step in before.steps if step.uid in closed and new.get(step.uid) != hash_step(step)]
    if changed and not force_reopen:
        raise _step_closed_error([before.step_numbers()[uid] for uid in changed])
    return tuple(uid for uid in changed if uid in new)


@dataclass(slots=True)
class _PlanEditor:
    """A copy of a plan under way: its steps in a list, everything else as fields."""

    start: Plan
    closed: frozenset[str]
    force_reopen: bool
    steps: list[PlanStep] = field(default_factory=list)
    rest: dict[str, Any] = field(default_factory=dict)
    reopened: set[str] = field(default_factory=set)
    number: dict[str, int] = field(default_factory=dict)
    minted: int = 0

    def __post_init__(self) -> None:
        self.number = self.start.step_numbers()
        self.steps = list(self.start.steps)
        self.minted = self.start.uids_minted

    def plan(self) -> Plan:
        return msgspec.structs.replace(self.start, steps=tuple(self.steps), uids_minted=self.minted, **self.rest)

    def value(self, name: str) -> Any:
        return self.rest.get(name, getattr(self.start, name))

    def uid(self, which: object) -> str:
        """Return the uid of a step, by its number before the first operation or by its uid now.

        Raises: InvalidArgument.
        """
        if isinstance(which, float) and which.is_integer():
            which = int(which)
        if isinstance(which, bool) or not isinstance(which, int | str):
            raise InvalidArgument("a step is named by its number or uid", suggestion='Write "step": 3.')
        here = {step.uid for step in self.steps}
        # Numbers refer to the plan before the first operation; a new step can only be named by its uid.
        if which in here:
            uid = which
        else:
            uid = self.start.find_step(which).uid
        if uid not in here:
            raise InvalidArgument(
                f"step {which} was removed by an operation before this one", suggestion="Leave one of them out."
            )
        return uid

    def place(self, uid: str) -> int:
        return next(place for place, step in enumerate(self.steps) if step.uid == uid)

    def step(self, uid: str) -> PlanStep:
        return self.steps[self.place(uid)]

    def change(self, uid: str, **fields: Any) -> None:
        place = self.place(uid)
        self.steps[place] = msgspec.structs.replace(self.steps[place], **fields)

    def unlock(self, *uids: str) -> None:
        """Make sure that these steps may be changed. Raises: PreconditionFailed."""
        done = [uid for uid in uids if uid in self.closed and uid not in self.reopened]
        if done and not self.force_reopen:
            raise _step_closed_error([self.number[uid] for uid in done])
        self.reopened.update(done)

    def label(self, uid: str) -> int | str:
        """Return the number of a step before the first operation; its uid if it is new."""
        return self.number.get(uid, uid)

    def mint(self) -> str:
        self.minted += 1
        return f"s{self.minted}"

    def redirect_dependents(self, old: Collection[str], new: Iterable[str]) -> None:
        """Let all dependents of the old steps depend on the new ones instead."""
        instead = tuple(new)
        for place, step in enumerate(self.steps):
            if not set(step.depends_on).isdisjoint(old):
                waits = [uid for uid in step.depends_on if uid not in old]
                waits += [uid for uid in instead if uid != step.uid]
                self.steps[place] = msgspec.structs.replace(step, depends_on=tuple(dict.fromkeys(waits)))

    def redirect_milestones(self, old: Collection[str], new: Iterable[str]) -> None:
        """Let milestones that count any of the old steps count the new ones."""
        instead = tuple(new)
        self.rest["milestones"] = tuple(
            milestone
            if set(milestone.steps_included).isdisjoint(old)
            else msgspec.structs.replace(milestone, steps_included=(*milestone.steps_included, *instead))
            for milestone in self.value("milestones")
        )


def _apply_operation(work: _PlanEditor, place: int, operation: Operation) -> AppliedOperation:
    """Apply one operation. Raises: InvalidArgument, which names the operation."""
    where = f"operations[{place}]"
    if not isinstance(operation, Mapping):
        raise InvalidArgument(f"{where} is not an object", suggestion='Write {"op": "remove_step", "step": 4}.')
    name = str(operation.get("op", ""))
    if name not in OPERATIONS:
        raise InvalidArgument(
            f"{where}.op is {name[:60]!r}",
            suggestion=suggest_nearest(name[:60], OPERATIONS, 0.5).strip() or f"It is one of {', '.join(OPERATIONS)}.",
            details={"operation": place, "valid": list(OPERATIONS)},
        )
    takes, run = OPERATIONS[name]
    fields = {key: value for key, value in operation.items() if key != "op" and value is not None}
    try:
        _check_fields(fields, takes)
        return run(work, fields)
    except InvalidArgument as error:
        message = f"{where} ({name}): {error.message}"
        raise InvalidArgument(
            message, suggestion=error.suggestion, details={"operation": place} | error.details
        ) from None


def _check_fields(fields: Mapping[str, Any], takes: Sequence[str]) -> None:
    """Check the fields of an operation; those with `!` are required. Raises: InvalidArgument."""
    known = [required.rstrip("!") for required in takes]
    for key in fields:
        if key not in known:
            raise InvalidArgument(
                f"it takes no {str(key)[:60]!r}",
                suggestion=suggest_nearest(str(key)[:60], known).strip() or f"It takes {', '.join(known)}.",
                details={"valid": known},
            )
    for required in takes:
        if required.endswith("!") and required[:-1] not in fields:
            raise InvalidArgument(f"{required[:-1]} is missing", suggestion=f"It takes {', '.join(known)}.")


# -- steps -------------------------------------------------------------------------------------------------------------


def _add_step(work: _PlanEditor, fields: Mapping[str, Any]) -> AppliedOperation:
    place = _target_index(work, fields, len(work.steps))
    step = _new_step(work, {key: value for key, value in fields.items() if key not in _POSITION_FIELDS})
    work.steps.insert(place, step)
    return AppliedOperation("add_step", f"added step {step.title!r}", (step.uid,))


def _new_step(work: _PlanEditor, fields: Mapping[str, Any]) -> PlanStep:
    """Create a step with a unique uid."""
    waits = tuple(work.uid(which) for which in _as_list(fields.get("depends_on", ())))
    step = parse_part(PlanStep, {key: value for key, value in fields.items() if key != "depends_on"}, where="step")
    if step.uid and any(step.uid == other.uid for other in (*work.steps, *work.start.steps)):
        raise InvalidArgument(f"there is a step {step.uid!r} already", suggestion="Leave uid out: it gets one.")
    estimate = step.estimate or parse_effort(step.estimated_effort)
    return msgspec.structs.replace(step, uid=step.uid or work.mint(), depends_on=waits, estimate=estimate)


def _remove_step(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    uid = work.uid(arguments["step"])
    work.unlock(uid)
    gone = work.step(uid)
    work.steps.remove(gone)
    work.redirect_dependents({uid}, gone.depends_on)  # the order of the others stays as it was
    work.reopened.discard(uid)
    return AppliedOperation("remove_step", f"removed step {work.label(uid)} {gone.title!r}", (uid,))


def _update_step(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    uid = work.uid(arguments["step"])
    work.unlock(uid)
    fields = {key: value for key, value in arguments.items() if key != "step"}
    if not fields:
        raise InvalidArgument("it changes nothing", suggestion=f"Name a field: {', '.join(_UPDATABLE)}.")
    if "estimated_effort" in fields and "estimate" not in fields:
        fields["estimate"] = parse_effort(str(fields["estimated_effort"])) or work.step(uid).estimate
        fields["estimate"] = msgspec.to_builtins(fields["estimate"])
    work.steps[work.place(uid)] = parse_part(PlanStep, fields, work.step(uid), where="step")
    return AppliedOperation("update_step", f"changed {', '.join(fields)} of step {work.label(uid)}", (uid,))


def _split_step(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    """Split a step into a chain: the first part keeps the uid, and dependents of the whole depend on the last."""
    uid = work.uid(arguments["step"])
    work.unlock(uid)
    whole = work.step(uid)
    parts = [
        {"title": part} if isinstance(part, str) else part
        for part in _as_list(arguments.get("into", _natural_parts(whole)))
    ]
    if len(parts) < 2 or not all(isinstance(part, Mapping) for part in parts):
        raise InvalidArgument(
            "it names no two parts, and the step has none by itself",
            suggestion='Say into what: "into": ["first part", "second part"].',
        )
    estimate = whole.estimate
    share = estimate and Estimate(estimate.o / len(parts), estimate.m / len(parts), estimate.p / len(parts))
    heir = msgspec.structs.replace(whole, estimate=share, estimated_effort="")
    inherited = {name: getattr(whole, name) for name in ("description", "priority", "checks") if getattr(whole, name)}
    first = parse_part(
        PlanStep, {key: value for key, value in parts[0].items() if key not in _UNTOUCHED}, heir, where="into[0]"
    )
    steps = [first]
    for part in parts[1:]:
        made = _new_step(work, inherited | dict(part))
        waits = (*made.depends_on, steps[-1].uid)
        steps.append(msgspec.structs.replace(made, depends_on=waits, estimate=made.estimate or share))
    steps = _share_files(steps, parts)
    place = work.place(uid)
    work.steps[place : place + 1] = []
    work.redirect_dependents({uid}, [steps[-1].uid])
    work.steps[place:place] = steps
    work.redirect_milestones({uid}, [step.uid for step in steps])
    return AppliedOperation(
        "split_step", f"split step {work.label(uid)} into {len(steps)}", tuple(step.uid for step in steps)
    )


def _natural_parts(whole: PlanStep) -> list[dict[str, Any]]:
    """Return the natural parts of a step: its files, else its criteria; none if there are fewer than two."""
    rows = [{"title": f"{whole.title}: {path}", name: [path]} for name in _FILES for path in getattr(whole, name)]
    if len(rows) < 2:
        rows = [
            {"title": f"{whole.title}: {criterion}", "acceptance_criteria": [criterion]}
            for criterion in whole.acceptance_criteria
        ]
    return [row | {"title": row["title"][:TITLE_CHARS_MAX]} for row in rows]


def _share_files(steps: Sequence[PlanStep], parts: Sequence[Mapping[str, Any]]) -> list[PlanStep]:
    """Share the files of the whole: a file that no part names stays with the first."""
    named_paths = frozenset().union(*(step.files for step in steps[1:]))
    inherited = [name for name in _FILES if name not in parts[0]]
    kept = {name: tuple(path for path in getattr(steps[0], name) if path not in named_paths) for name in inherited}
    return [msgspec.structs.replace(steps[0], **kept), *steps[1:]]


def _merge_steps(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    """Merge steps: the first keeps its uid and position, and takes over the work of all."""
    uids = list(dict.fromkeys(work.uid(which) for which in _as_list(arguments["steps"])))
    if len(uids) < 2:
        raise InvalidArgument("steps must name two or more", suggestion='Write "steps": [2, 3].')
    work.unlock(*uids)
    uids.sort(key=work.place)
    merged = _merge_into_one([work.step(uid) for uid in uids], str(arguments.get("title", "")))
    for uid in uids[1:]:
        work.steps.remove(work.step(uid))
    work.redirect_dependents(set(uids[1:]), uids[:1])
    work.redirect_milestones(set(uids[1:]), uids[:1])
    work.steps[work.place(uids[0])] = merged
    listed = ", ".join(str(work.label(uid)) for uid in uids)
    return AppliedOperation("merge_steps", f"merged steps {listed}", tuple(uids))


def _merge_into_one(steps: Sequence[PlanStep], title: str) -> PlanStep:
    def together(name: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(item for step in steps for item in getattr(step, name)))

    uids = {step.uid for step in steps}
    lists = {name: together(name) for name in (*_FILES, "acceptance_criteria", "checks", "evidence")}
    lists["files_to_modify"] = tuple(path for path in lists["files_to_modify"] if path not in lists["files_to_create"])
    estimates = [step.estimate for step in steps if step.estimate]
    return msgspec.structs.replace(
        steps[0],
        title=title.strip() or "; ".join(step.title for step in steps)[:TITLE_CHARS_MAX],
        description="\n\n".join(dict.fromkeys(step.description for step in steps if step.description)),
        depends_on=tuple(uid for uid in together("depends_on") if uid not in uids),
        priority=min((step.priority for step in steps), key=("high", "medium", "low").index),
        estimate=Estimate(*(sum(getattr(part, end) for part in estimates) for end in "omp")) if estimates else None,
        estimated_effort="",
        **lists,
    )


def _move_step(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    uid = work.uid(arguments["step"])
    if not set(arguments) & set(_POSITION_FIELDS):
        raise InvalidArgument("it names no position", suggestion='Write "to": 2, "before": 3 or "after": 3.')
    if uid in {work.uid(arguments[name]) for name in ("before", "after") if name in arguments}:
        raise InvalidArgument("a step cannot be moved next to itself", suggestion="Name another step.")
    step = work.step(uid)
    work.steps.remove(step)
    work.steps.insert(_target_index(work, arguments, len(work.steps)), step)
    return AppliedOperation("move_step", f"moved step {work.label(uid)} to {work.place(uid) + 1}", (uid,))


def _swap_steps(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    """Let two steps change places. If the later one waits for the earlier one, it is the other way round afterwards."""
    uids = list(dict.fromkeys(work.uid(which) for which in _as_list(arguments["steps"])))
    if len(uids) != 2:
        raise InvalidArgument("steps must name two steps", suggestion='Write "steps": [2, 3].')
    first, second = sorted(uids, key=work.place)
    places = work.place(first), work.place(second)
    if first in work.step(second).depends_on:
        work.unlock(first, second)
        before = work.step(first).depends_on
        after = (uid for uid in work.step(second).depends_on if uid != first)
        # A step that waited for the later one waited for both.
        for step in [step for step in work.steps if second in step.depends_on and step.uid != first]:
            work.change(step.uid, depends_on=tuple(dict.fromkeys((*step.depends_on, first))))
        work.change(first, depends_on=(*before, second))
        work.change(second, depends_on=tuple(dict.fromkeys((*before, *after))))
    work.steps[places[0]], work.steps[places[1]] = work.steps[places[1]], work.steps[places[0]]
    return AppliedOperation(
        "swap_steps", f"swapped steps {work.label(first)} and {work.label(second)}", (first, second)
    )


def _add_check(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    uid = work.uid(arguments["step"])
    work.unlock(uid)
    command = " ".join(str(arguments["command"]).split())
    if not command:
        raise InvalidArgument("the command is empty", suggestion='Write "command": "make test".')
    work.change(uid, checks=tuple(dict.fromkeys((*work.step(uid).checks, command))))
    return AppliedOperation("add_check", f"step {work.label(uid)} runs `{command[:80]}`", (uid,))


_POSITION_FIELDS = ("to", "before", "after")


def _target_index(work: _PlanEditor, arguments: Mapping[str, Any], otherwise: int) -> int:
    """Return the index for a step: at a number, or before or after another step."""
    if "before" in arguments:
        return work.place(work.uid(arguments["before"]))
    if "after" in arguments:
        return work.place(work.uid(arguments["after"])) + 1
    if "to" not in arguments:
        return otherwise
    to = arguments["to"]
    if to == "end":
        return len(work.steps)
    if isinstance(to, str) and to.strip().isdecimal() and len(to) < 7:
        to = int(to)
    if isinstance(to, bool) or not isinstance(to, int) or not 1 <= to <= len(work.steps) + 1:
        raise InvalidArgument(f"to is {to!r:.40}", suggestion=f"It goes from 1 to {len(work.steps) + 1}.")
    return to - 1


def _set_dependencies(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    """Set the dependencies of a step: `depends_on` replaces all, `add` and `remove` change some."""
    uid = work.uid(arguments["step"])
    if not set(arguments) & {"depends_on", "add", "remove"}:
        raise InvalidArgument("it changes nothing", suggestion='Write "depends_on": [1, 2], or "add"/"remove".')
    work.unlock(uid)
    if "depends_on" in arguments:
        waits = [work.uid(which) for which in _as_list(arguments["depends_on"])]
    else:
        waits = list(work.step(uid).depends_on)
    waits += [work.uid(which) for which in _as_list(arguments.get("add", ()))]
    gone = {work.uid(which) for which in _as_list(arguments.get("remove", ()))}
    kept = tuple(dict.fromkeys(wait for wait in waits if wait not in gone))
    work.change(uid, depends_on=kept)
    listed = ", ".join(str(work.label(dependency)) for dependency in kept) or "nothing"
    return AppliedOperation("set_dependencies", f"step {work.label(uid)} depends on {listed}", (uid,))


def _set_files(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    """Set the files of a step: a list replaces all, `add` and `remove` change some."""
    uid = work.uid(arguments["step"])
    if not set(arguments) & {*_FILES, "add", "remove"}:
        raise InvalidArgument("it names no files", suggestion=f"It takes {', '.join(_FILES)}, add and remove.")
    work.unlock(uid)
    fields = {name: _as_list(arguments.get(name, getattr(work.step(uid), name))) for name in _FILES}
    gone = _as_list(arguments.get("remove", ()))
    unknown = [path for path in gone if path not in work.step(uid).files]
    if unknown:
        raise InvalidArgument(
            f"step {work.label(uid)} does not touch {unknown[0]!r:.80}", suggestion="Check its files."
        )
    fields = {name: [path for path in paths if path not in gone] for name, paths in fields.items()}
    known = {path for paths in fields.values() for path in paths}
    fields["files_to_modify"] += [path for path in _as_list(arguments.get("add", ())) if path not in known]
    work.steps[work.place(uid)] = parse_part(PlanStep, fields, work.step(uid), where="step")
    return AppliedOperation("set_files", f"step {work.label(uid)} touches {len(work.step(uid).files)} files", (uid,))


def _set_estimate(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    """Set an estimate from three numbers, hours alone, or an effort in words."""
    uid = work.uid(arguments["step"])
    work.unlock(uid)
    if {"o", "m", "p"} <= set(arguments):
        estimate = parse_part(Estimate, {key: arguments[key] for key in "omp"}, where="estimate")
    else:
        effort = arguments.get("effort", f"{arguments['hours']}h" if "hours" in arguments else "")
        estimate = parse_effort(str(effort))
    if estimate is None or not estimate.o <= estimate.m <= estimate.p:
        raise InvalidArgument(
            "it has no estimate", suggestion='Write "effort": "2-4 hours", "hours": 3, or o <= m <= p.'
        )
    work.change(uid, estimate=estimate, estimated_effort="")
    return AppliedOperation("set_estimate", f"step {work.label(uid)} takes {format_effort(estimate.hours)}", (uid,))


# -- the rest of the plan ----------------------------------------------------------------------------------------------


def _answer_question(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    name = str(arguments.get("question", arguments.get("question_id", ""))).strip()
    answer = " ".join(str(arguments["answer"]).split())
    questions: tuple[PlanQuestion, ...] = work.value("questions")
    found = next(
        (
            question
            for question in questions
            if name and name.casefold() in (question.id.casefold(), question.text.casefold())
        ),
        None,
    )
    if found is None:
        listed = "; ".join(f"{question.id}: {question.text[:80]}" for question in questions[:10]) or "it asks nothing"
        raise InvalidArgument(f"the plan does not ask {name[:80]!r}", suggestion=f"It asks: {listed}.")
    if not answer:
        raise InvalidArgument("the answer is empty", suggestion="Give an answer.")
    work.rest["questions"] = tuple(
        msgspec.structs.replace(question, answer=answer) if question is found else question for question in questions
    )
    return AppliedOperation("answer_question", f"{found.id} is answered: {answer[:80]}")


def _set_scope(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    if not arguments:
        raise InvalidArgument("it changes nothing", suggestion="It takes included, excluded, assumptions, constraints.")
    work.rest["scope"] = parse_part(PlanScope, arguments, work.value("scope"), where="scope")
    return AppliedOperation("set_scope", f"set {', '.join(arguments)} of the scope")


def _exclude(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    """Exclude a glob: add it to the scope, and remove its files and the steps without other files."""
    glob = str(arguments["path"]).strip()
    try:
        spec = GitIgnoreSpec.from_lines([glob])
    except ValueError as error:
        raise InvalidArgument(f"{glob!r:.60} is not a glob: {error}", suggestion="Write docs/** or *.md.") from None
    scope: PlanScope = work.value("scope")
    work.rest["scope"] = msgspec.structs.replace(scope, excluded=tuple(dict.fromkeys((*scope.excluded, glob))))
    touched = [
        step for step in work.steps if any(spec.match_file(path) for path in step.files) and step.uid not in work.closed
    ]
    for step in touched:
        left = {name: tuple(path for path in getattr(step, name) if not spec.match_file(path)) for name in _FILES}
        if any(left.values()):
            work.change(step.uid, **left)
        else:
            _remove_step(work, {"step": step.uid})
    if touched:
        count = f", {len(touched)} steps touched it"
    else:
        count = ""
    return AppliedOperation("exclude", f"excluded {glob}{count}", tuple(step.uid for step in touched))


def _add_risk(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    risk = parse_part(PlanRisk, arguments, where="risk")
    work.rest["risks"] = (*work.value("risks"), risk)
    return AppliedOperation("add_risk", f"added the risk {risk.issue[:80]!r}")


def _set_goal(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    goal = " ".join(str(arguments["goal"]).split())
    if not goal:
        raise InvalidArgument("the goal is empty", suggestion="Say what the plan is for.")
    work.rest["goal"] = goal
    return AppliedOperation("set_goal", "set the goal")


def _settle_feedback(work: _PlanEditor, arguments: Mapping[str, Any]) -> AppliedOperation:
    """Remove feedback that is settled, by its number or its text; all of it when none is named."""
    open_ones: tuple[str, ...] = work.value("open_feedback")
    which = str(arguments.get("feedback", "")).strip()
    if which.isdecimal() and len(which) < 7:
        by_number = int(which) - 1
    else:
        by_number = -1
    left = [text for place, text in enumerate(open_ones) if which and place != by_number and text != which]
    if len(left) == len(open_ones):
        raise InvalidArgument(
            "no such feedback is open", suggestion=f"There are {len(open_ones)}; leave it out to settle all."
        )
    work.rest["open_feedback"] = tuple(left)
    return AppliedOperation("settle_feedback", f"settled {len(open_ones) - len(left)} of {len(open_ones)}")


_UPDATABLE = (
    *("title", "description", "priority", "estimated_effort", "estimate", "acceptance_criteria", "checks", "evidence"),
    *_FILES,
)
_NEW_STEP_FIELDS = ("title!", *(name for name in _UPDATABLE if name != "title"), "uid", "depends_on")

OPERATIONS: Mapping[str, tuple[tuple[str, ...], Callable[[_PlanEditor, Mapping[str, Any]], AppliedOperation]]] = {
    "add_step": ((*_NEW_STEP_FIELDS, *_POSITION_FIELDS), _add_step),
    "remove_step": (("step!",), _remove_step),
    "update_step": (("step!", *_UPDATABLE), _update_step),
    "split_step": (("step!", "into"), _split_step),
    "merge_steps": (("steps!", "title"), _merge_steps),
    "move_step": (("step!", *_POSITION_FIELDS), _move_step),
    "swap_steps": (("steps!",), _swap_steps),
    "add_check": (("step!", "command!"), _add_check),
    "set_dependencies": (("step!", "depends_on", "add", "remove"), _set_dependencies),
    "set_files": (("step!", *_FILES, "add", "remove"), _set_files),
    "set_estimate": (("step!", "o", "m", "p", "hours", "effort"), _set_estimate),
    "answer_question": (("question", "question_id", "answer!"), _answer_question),
    "set_scope": (("included", "excluded", "assumptions", "constraints"), _set_scope),
    "exclude": (("path!",), _exclude),
    "add_risk": (("issue!", "mitigation", "likelihood"), _add_risk),
    "set_goal": (("goal!",), _set_goal),
    "settle_feedback": (("feedback",), _settle_feedback),
}
"""Name -> the fields it takes (`!`: it must have it), and what it does."""


def _as_list(value: object) -> list[Any]:
    """Return one value or several as a list."""
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


def _step_closed_error(steps: Sequence[int]) -> PreconditionFailed:
    if len(steps) == 1:
        subject = f"step {steps[0]} is"
    else:
        subject = f"steps {', '.join(str(step) for step in steps)} are"
    return PreconditionFailed(
        f"{subject} done and cannot be changed",
        suggestion="Add a step for what is left, or repeat with force_reopen: true to open it again.",
        details={"steps": list(steps)},
    )


_STEP = r"(?:step|#)\s*#?(\d{1,6})"
_STEPS = r"(?:steps?|#)?\s*#?(\d{1,6}(?:\s*(?:,|and|&|,\s*and)\s*(?:step\s*)?#?\d{1,6})*)"
_LEVEL = r"(high|medium|low)(?: priority)?"
_QUOTED = r"[\"'“”‘’`](.+)[\"'“”‘’`]"
_PROGRAM = (
    r"(?:\./|(?:bash|bazel|bun|bundle|cargo|composer|ctest|deno|dotnet|eslint|flake8|go|golangci-lint|gradle|just|make|mix|mvn"
    r"|mypy|nox|npm|npx|phpstan|phpunit|pnpm|pre-commit|pyright|pytest|python3?|rake|rspec|rubocop|ruff|sbt|swift|tox|tsc|uv"
    r"|yarn|zig)(?= |$))"
)
"""The beginning of a command that is not quoted: "step 2 should run faster" names none."""
_COMMAND = rf"(?:(?:the )?(?:check|command) )?(?:{_QUOTED}|({_PROGRAM}[^\n]*?))"
_PATH = r"`?[\w.+@-]{1,99}(?:/[\w.+@-]{1,99}){1,30}`?|`?[\w+@-]{1,99}\.\w{1,12}`?"
_BULLET = re.compile(r"^[ \t]*+(?:[-*+]|\d+[.)])\s+", re.MULTILINE)
_CLAUSE = re.compile(r"(?<=[^\s.])\.(?:\s+|\Z)|[;\n]+|(?:,|(?<!\s))\s++(?:and )?then\s+", re.IGNORECASE)
_POLITE = re.compile(r"(?:please|also|and|now|can you|could you|i want you to|let's)[, ]+", re.IGNORECASE)
CHARS_MAX = 10_000
"""Of one feedback; a page or two."""


class ParsedFeedback(NamedTuple):
    """The operations that a text names, and the clauses that name none."""

    operations: tuple[Mapping[str, Any], ...]
    left: tuple[str, ...]


def parse_feedback(text: str) -> ParsedFeedback:
    """Read feedback clause by clause; a clause that is not exactly an operation is left over as it was written.

    >>> feedback = parse_feedback("Remove step 4. step 2 depends on 1; make it faster")
    >>> [dict(operation) for operation in feedback.operations], feedback.left
    ([{'op': 'remove_step', 'step': 4}, {'op': 'set_dependencies', 'step': 2, 'add': [1]}], ('make it faster',))
    """
    operations: list[Mapping[str, Any]] = []
    left: list[str] = []
    for part in _CLAUSE.split(_BULLET.sub("", text[:CHARS_MAX])):
        clause = part.strip()
        found = _parse_clause(_POLITE.sub("", clause, count=1) if _POLITE.match(clause) else clause)
        operations += found
        left += [clause] if clause and not found else []
    return ParsedFeedback(tuple(operations), tuple(left))


def _parse_clause(clause: str) -> list[dict[str, Any]]:
    for pattern, build in _PATTERNS:
        if match := pattern.fullmatch(clause.rstrip(" ,!")):
            return build(match)
    return []


def _parse_numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]


def _step_operation(name: str, match: re.Match[str], **fields: Any) -> list[dict[str, Any]]:
    """Return an operation on the step whose number is the first group."""
    return [{"op": name, "step": int(match[1]), **fields}]


def _exclude_operations(match: re.Match[str]) -> list[dict[str, Any]]:
    """Return an operation per path or glob; none if a word is a part of the work instead.

    A word after "don't touch" is a file or folder, also without a dot: "don't touch Makefile".
    """
    paths = [path.strip(" `\"'") for path in re.split(r",|\s+(?:and|or)\s+", match[2])]
    is_certain = "touch" in match[1].lower()
    if all(path and " " not in path and (is_certain or set(path) & set("/*.")) for path in paths):
        return [{"op": "exclude", "path": path} for path in paths]
    return []


def _swap_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    steps = _parse_numbers(match[1])
    return [{"op": "swap_steps", "steps": steps}] if len(steps) == 2 else []


def _check_operation(step: str, *commands: str | None) -> list[dict[str, Any]]:
    """Return the operation for the first command that matched."""
    command = next(command for command in commands if command)
    return [{"op": "add_check", "step": int(step), "command": command.strip()}]


def _split_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    if not match[2]:
        return _step_operation("split_step", match)
    parts = [part.strip(" `\"'") for part in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", match[2])]
    parts = [part[:1].upper() + part[1:] for part in parts]
    if len(parts) > 1 and all(parts):
        return _step_operation("split_step", match, into=parts)
    return []


def _merge_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    steps = _parse_numbers(match[1])
    if len(steps) > 1:
        return [{"op": "merge_steps", "steps": steps}]
    return []


def _add_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    if match[2]:
        position = {match[2].lower(): int(match[3])}
    else:
        position = {}
    title = match[1].strip()
    return [{"op": "add_step", "title": title[:1].upper() + title[1:], **position}]


_WAIT = "set_dependencies"
_CLAUSES: tuple[tuple[str, Callable[[re.Match[str]], list[dict[str, Any]]]], ...] = (
    (
        rf"(?:remove|delete|drop|skip out) (?:the )?(?=steps?|#){_STEPS}",
        lambda match: [{"op": "remove_step", "step": number} for number in _parse_numbers(match[1])],
    ),
    (
        rf"{_STEP} (?:should |must )?(?:depends? on|needs?|waits? for|(?:comes? |goes? |runs? )?after) {_STEPS}",
        lambda match: _step_operation(_WAIT, match, add=_parse_numbers(match[2])),
    ),
    (
        rf"(?:let|make) {_STEP} (?:depend on|need|wait for) {_STEPS}",
        lambda match: _step_operation(_WAIT, match, add=_parse_numbers(match[2])),
    ),
    (
        rf"{_STEP} (?:no longer|does not|doesn't|should not|need not) (?:depends? on|needs?|waits? for) {_STEPS}",
        lambda match: _step_operation(_WAIT, match, remove=_parse_numbers(match[2])),
    ),
    (rf"{_STEP} (?:depends on|waits for) nothing", lambda match: _step_operation(_WAIT, match, depends_on=[])),
    (
        r"(exclude|leave out|ignore|(?:do not|don['’]?t|never) touch) (?:the )?(?:files? |folders? |path )?(\S.*)",
        _exclude_operations,
    ),
    (rf"split {_STEP}(?: (?:in|into|up into):? (.+))?", _split_operation),
    (rf"{_STEP} is (?:far |much )?too (?:big|large|long)", lambda match: _step_operation("split_step", match)),
    (rf"(?:merge|join|combine) {_STEPS}", _merge_operation),
    (rf"(?:swap|exchange) (?:the order of )?{_STEPS}", _swap_operation),
    (
        rf"{_STEP} (?:should|must|has to|needs to) (?:also )?run {_COMMAND}(?: too| as well)?",
        lambda match: _check_operation(match[1], match[2], match[3]),
    ),
    (
        rf"(?:also )?(?:run|add) {_COMMAND} (?:in|to|after|at the end of) {_STEP}",
        lambda match: _check_operation(match[3], match[1], match[2]),
    ),
    (
        rf"(?:add|also change) ({_PATH}) (?:to|in) {_STEP}",
        lambda match: [{"op": "set_files", "step": int(match[2]), "add": [match[1].strip("`")]}],
    ),
    (
        rf"(?:remove|drop|take) ({_PATH}) (?:from|out of) {_STEP}",
        lambda match: [{"op": "set_files", "step": int(match[2]), "remove": [match[1].strip("`")]}],
    ),
    (
        rf"{_STEP} (?:must not|should not|shouldn['’]?t|does not|doesn['’]?t) (?:change|touch|edit) ({_PATH})",
        lambda match: _step_operation("set_files", match, remove=[match[2].strip("`")]),
    ),
    (
        rf"move {_STEP} (to|before|after) (?:place |position |step )?#?(\d{{1,6}})",
        lambda match: _step_operation("move_step", match, **{match[2].lower(): int(match[3])}),
    ),
    (rf"move {_STEP} to the (?:very )?(?:end|bottom)", lambda match: _step_operation("move_step", match, to="end")),
    (
        rf"move {_STEP} to the (?:very )?(?:start|beginning|front|top)",
        lambda match: _step_operation("move_step", match, to=1),
    ),
    (
        rf"(?:rename|retitle|call) {_STEP} (?:(?:to |as )?{_QUOTED}|(?:to|as) (\S[^\n]*))",
        lambda match: _step_operation("update_step", match, title=(match[2] or match[3]).strip(" \"'“”`")),
    ),
    (
        rf"(?:(?:make |set )?{_STEP}(?: is|'s priority to| to)?|set (?:the )?priority of {_STEP} to) {_LEVEL}",
        lambda match: [{"op": "update_step", "step": int(match[1] or match[2]), "priority": match[3].lower()}],
    ),
    (
        rf"(?:{_STEP} (?:takes?|needs?) (?:about )?|estimate {_STEP} (?:at|as|with)? ?)(\d.*)",
        lambda match: [{"op": "set_estimate", "step": int(match[1] or match[2]), "effort": match[3]}],
    ),
    (
        r"add (?:a |another )?(?:new )?step(?::| to| that) ([^\"'“`].*?)(?: (before|after) step #?(\d{1,6}))?",
        _add_operation,
    ),
    (rf"(?:add|insert) (?:a )?(?:new )?step:? {_QUOTED}(?: (before|after) (?:step )?#?(\d{{1,6}}))?", _add_operation),
    (
        r"add (?:a |the )?risk:? [\"'“`]?(.+?)[\"'”`]?",
        lambda match: [{"op": "add_risk", "issue": match[1].strip()}],
    ),
)
"""Whole clauses only: a sentence that merely contains one of these means more than it."""
_PATTERNS = tuple((re.compile(text, re.IGNORECASE), build) for text, build in _CLAUSES)
