"""PURE. Operations on a plan: all of them are applied, or none, on a copy.

    apply_operations(plan, [{"op": "remove_step", "step": 4}, {"op": "add_step", "title": "Test it", "after": 3}])

Each operation is a function that changes the copy; its parameters are the fields that `refine_plan` takes. This file
must not defer its annotations: they are read here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from context_engine.errors import InvalidArgument, PreconditionFailed
from context_engine.plans.model import (
    FILE_FIELDS,
    LEVELS,
    TITLE_CHARS_MAX,
    Hours,
    Level,
    Plan,
    PlanRisk,
    PlanScope,
    PlanStep,
    Texts,
    Title,
    Uid,
    format_effort,
)
from context_engine.plans.plan_json import hash_step, normalize_plan, parse_part
from context_engine.search import GlobSet
from context_engine.text import suggest_nearest

OPERATIONS_MAX = 200
"""In one call; for more, send a new draft."""

STEP_FIELDS = (
    *FILE_FIELDS,
    "description",
    "priority",
    "estimated_effort",
    "hours",
    "acceptance_criteria",
    "checks",
    "evidence",
)
"""The fields of a step that operations set as they are sent."""
StepName = int | str
"""The number of a step before the first operation, or its uid; a step that was added on the way has only a uid."""


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
    plan: Plan, operations: Sequence[object], *, closed: Collection[str] = (), force_reopen: bool = False
) -> OperationsResult:
    """Apply all operations to a copy of the plan. `closed` are the uids of its done steps; others do not count.

    Raises: InvalidArgument (with the index of the operation), PreconditionFailed when one changes a done step.
    """
    if len(operations) > OPERATIONS_MAX:
        raise InvalidArgument(
            f"{len(operations):,} operations, at most {OPERATIONS_MAX} are carried out",
            suggestion="Send a whole draft instead.",
        )
    try:
        msgspec.json.encode(operations)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidArgument(
            "operations contain something that cannot be encoded as JSON in UTF-8",
            suggestion="Send whole characters and plain values.",
        ) from None
    work = _PlanEditor(normalize_plan(plan), closed, force_reopen=force_reopen)
    applied = tuple(_apply_operation(work, place, sent) for place, sent in enumerate(operations))
    changed = replace(work.plan, steps=tuple(work.steps.values()))
    return OperationsResult(normalize_plan(changed), applied, tuple(sorted(work.reopened)))


def check_done_steps(
    before: Plan, after: Plan, closed: Collection[str], *, force_reopen: bool = False
) -> tuple[str, ...]:
    """Return the uids of done steps that a draft changes or removes: with `force_reopen` they are reopened.

    Raises: PreconditionFailed without it.
    """
    new = {step.uid: hash_step(step) for step in after.steps}
    changed = [step.uid for step in before.steps if step.uid in closed and new.get(step.uid) != hash_step(step)]
    if changed and not force_reopen:
        raise _step_closed_error(before, changed)
    return tuple(uid for uid in changed if uid in new)


def operations_schema() -> dict[str, Any]:
    """Return the JSON schema of the argument `operations`, for an agent or a model that turns feedback into them.

    The fields of all operations are in one list, since most of them have the same ones; feedback gives no evidence.
    """
    kinds = {name: operation.kind for name, operation in OPERATIONS.items()}
    _, parts = msgspec.json.schema_components(kinds.values())
    rows = {name: parts[kind.__name__] for name, kind in kinds.items()}
    forms: dict[str, list[Any]] = {}
    for row in rows.values():
        row["properties"].pop("evidence", None)
        for field, form in row["properties"].items():
            plain = {key: value for key, value in form.items() if key in ("type", "enum", "items", "anyOf")}
            forms.setdefault(field, []).extend([plain] if plain not in forms.get(field, ()) else [])
    fields = {field: kept[0] if len(kept) == 1 else {"anyOf": kept} for field, kept in forms.items()}
    uses = [f"{name}({', '.join([*row['properties']][1:])})" for name, row in rows.items()]
    says = [row["description"].partition("\n")[0] for row in rows.values()]
    fields["op"] = {
        "enum": [*rows],
        "description": "\n".join(f"{use}: {said}" for use, said in zip(uses, says, strict=True)),
    }
    item = {"type": "object", "properties": fields, "required": ["op"], "additionalProperties": False}
    operations = {"type": "array", "items": item}
    return {"type": "object", "properties": {"operations": operations}, "required": ["operations"]}


def _apply_operation(work: "_PlanEditor", place: int, sent: object) -> AppliedOperation:
    """Apply one operation. Raises: InvalidArgument, which names the operation."""
    where = f"operations[{place}]"
    if not isinstance(sent, Mapping):
        raise InvalidArgument(f"{where} is not an object", suggestion='Write {"op": "remove_step", "step": 4}.')
    name = str(sent.get("op", ""))
    operation = OPERATIONS.get(name)
    if operation is None:
        raise InvalidArgument(
            f"{where}.op is {name[:60]!r}",
            suggestion=suggest_nearest(name, OPERATIONS).strip() or f"It is one of {', '.join(OPERATIONS)}.",
            details={"operation": place, "valid": list(OPERATIONS)},
        )
    fields = operation.kind.__struct_fields__
    try:
        read = parse_part(operation.kind, sent, where=name, advice=f"It takes {', '.join(fields)}.")
        given = {field: value for field in fields if (value := getattr(read, field)) is not UNSET}
        if operation.one_of and given.keys().isdisjoint(operation.one_of):
            raise InvalidArgument("it changes nothing", suggestion=f"Name one of {', '.join(operation.one_of)}.")
        said, *uids = operation.apply(work, **given)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{where} ({name}): {error.message}",
            suggestion=error.suggestion,
            details={"operation": place} | error.details,
        ) from None
    return AppliedOperation(name, said, tuple(uids))


class _PlanEditor:
    """A copy of a plan under way: its steps by uid, in their order, and everything else in `plan`."""

    def __init__(self, start: Plan, closed: Collection[str], *, force_reopen: bool) -> None:
        self.plan = start
        self.steps = {step.uid: step for step in start.steps}
        self.closed = self.steps.keys() & closed
        self.reopened: set[str] = set()
        self._start = start
        self._force_reopen = force_reopen

    def set(self, **fields: Any) -> None:
        self.plan = replace(self.plan, **fields)

    def uid(self, which: StepName) -> str:
        """Return the uid of a step, by its number before the first operation or by its uid now."""
        uid = which if which in self.steps else self._start.find_step(which).uid
        if uid not in self.steps:
            raise InvalidArgument(
                f"step {which} was removed by an operation before this one", suggestion="Leave one of them out."
            )
        return str(uid)

    def uids(self, names: Iterable[StepName]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(self.uid, names)))

    def unlock(self, *names: StepName) -> tuple[str, ...]:
        """Return the uids of steps that may be changed. Raises: PreconditionFailed for a done step."""
        uids = self.uids(names)
        done = [uid for uid in uids if uid in self.closed and uid not in self.reopened]
        if done and not self._force_reopen:
            raise _step_closed_error(self._start, done)
        self.reopened.update(done)
        return uids

    def change(self, uid: str, **fields: Any) -> None:
        self.steps[uid] = replace(self.steps[uid], **fields)

    def label(self, uid: str) -> int | str:
        """Return the number of a step before the first operation; its uid if it is new."""
        return self._start.step_numbers().get(uid, uid)

    def adopt(self, step: PlanStep) -> PlanStep:
        """Return a new step with a unique uid; `depends_on` may have numbers."""
        if step.uid and step.uid in (*self.steps, *self._start.step_numbers()):
            raise InvalidArgument(f"there is a step {step.uid!r} already", suggestion="Leave uid out: it gets one.")
        if not step.uid:
            self.set(uids_minted=self.plan.uids_minted + 1)
        return replace(step, uid=step.uid or f"s{self.plan.uids_minted}", depends_on=self.uids(step.depends_on))

    def insert(self, place: int, *steps: PlanStep) -> None:
        listed = list(self.steps.values())
        listed[place:place] = steps
        self.steps = {step.uid: step for step in listed}

    def remove(self, uid: str) -> PlanStep:
        """Remove a step; what depended on it depends on what it depended on."""
        gone = self.steps.pop(uid)
        self.redirect({uid}, gone.depends_on)
        self.reopened.discard(uid)
        return gone

    def redirect(self, old: Collection[str], new: Sequence[str]) -> None:
        """Let all dependents of the old steps depend on the new ones instead."""
        for uid, step in self.steps.items():
            if not set(step.depends_on).isdisjoint(old):
                waits = [other for other in step.depends_on if other not in old]
                waits += [other for other in new if other != uid]
                self.steps[uid] = replace(step, depends_on=tuple(dict.fromkeys(waits)))

    def include(self, old: Collection[str], new: Sequence[str]) -> None:
        """Let milestones that count any of the old steps count the new ones as well."""
        milestones = []
        for milestone in self.plan.milestones:
            added = () if set(milestone.steps_included).isdisjoint(old) else new
            milestones.append(replace(milestone, steps_included=(*milestone.steps_included, *added)))
        self.set(milestones=tuple(milestones))

    def target_index(self, to: int | str | None, before: StepName | None, after: StepName | None) -> int:
        """Return the index for a step: at a number or the end, before or after another step."""
        for name, offset in ((before, 0), (after, 1)):
            if name is not None:
                return list(self.steps).index(self.uid(name)) + offset
        last = len(self.steps) + 1
        wanted = "end" if to is None else str(to).strip()
        if wanted == "end":
            return last - 1
        if not (wanted.isdecimal() and len(wanted) < 7 and 1 <= int(wanted) <= last):
            raise InvalidArgument(f"to is {wanted[:40]!r}", suggestion=f"It goes from 1 to {last}.")
        return int(wanted) - 1


# -- the operations on steps -------------------------------------------------------------------------------------------


class PlanOperation(NamedTuple):
    """An operation: the struct of its fields, and the function that changes the editor.

    The function returns what it did and the uids of the steps it was about. If `one_of` has names, one of these fields
    has to be sent.
    """

    kind: type[msgspec.Struct]
    apply: Callable[..., tuple[str, ...]]
    one_of: tuple[str, ...]


_NO_FIELDS = ("work", "fields", "return")


def _operation(*names: str, of: Any = PlanStep) -> Callable[[Callable[..., tuple[str, ...]]], PlanOperation]:
    """Make an operation of a function: its fields are these of a step (or another value), and its own parameters.

    A parameter that is None by default need not be sent. Where only `step` has to be sent, one of the others has to.
    """

    def make(apply: Callable[..., tuple[str, ...]]) -> PlanOperation:
        hints, name = get_type_hints(of, include_extras=True) if names else {}, getattr(apply, "__name__", "")
        types = {field: hints[field] for field in names} | apply.__annotations__
        defaults = dict.fromkeys(names) | (getattr(apply, "__kwdefaults__", None) or {})
        fields: list[Any] = [(field, types[field]) for field in types if field not in (*defaults, *_NO_FIELDS)]
        is_open = {field for field, _ in fields} <= {"step"}
        optional = [field for field, default in defaults.items() if default is None]
        fields += [(field, _unset_type(types[field]), UNSET) for field in optional]
        fields += [(field, types[field], default) for field, default in defaults.items() if default is not None]
        struct_name = f"_{name.title().replace('_', '')}"
        described = {"__doc__": apply.__doc__}
        kind = msgspec.defstruct(
            struct_name, fields, namespace=described, kw_only=True, tag_field="op", tag=name, forbid_unknown_fields=True
        )
        return PlanOperation(kind, apply, tuple(optional) if is_open else ())

    return make


def _unset_type(kind: Any) -> Any:
    """Return the type of a field that need not be sent."""
    parts = get_args(kind) if NoneType in get_args(kind) else (kind,)
    return reduce(or_, (part for part in parts if part is not NoneType), UnsetType)


@_operation(*STEP_FIELDS)
def add_step(
    work: _PlanEditor,
    *,
    title: Title,
    uid: Uid = "",
    depends_on: tuple[StepName, ...] = (),
    to: int | str | None = None,
    before: StepName | None = None,
    after: StepName | None = None,
    **fields: Any,
) -> tuple[str, ...]:
    """Add a step, at the end or at a position."""
    place = work.target_index(to, before, after)
    step = work.adopt(PlanStep(title=title, uid=uid, depends_on=tuple(map(str, depends_on)), **fields))
    work.insert(place, step)
    return f"added step {step.title!r}", step.uid


@_operation()
def remove_step(work: _PlanEditor, *, step: StepName) -> tuple[str, ...]:
    """Remove a step; the order of the others stays as it was."""
    (uid,) = work.unlock(step)
    gone = work.remove(uid)
    return f"removed step {work.label(uid)} {gone.title!r}", uid


@_operation("title", *STEP_FIELDS)
def update_step(work: _PlanEditor, *, step: StepName, **fields: Any) -> tuple[str, ...]:
    """Set fields of a step."""
    (uid,) = work.unlock(step)
    work.change(uid, **fields)
    return f"changed {', '.join(fields)} of step {work.label(uid)}", uid


@_operation()
def split_step(work: _PlanEditor, *, step: StepName, into: tuple[str | dict[str, Any], ...]) -> tuple[str, ...]:
    """Split a step into a chain: the first part keeps the uid, and dependents of the whole depend on the last.

    A part is a title, or an object with fields of a step. A file that no part names stays with the first.
    """
    (uid,) = work.unlock(step)
    if len(into) < 2:
        advice = 'Say into what: "into": ["first part", "second part"].'
        raise InvalidArgument("it names no two parts", suggestion=advice)
    parts = [{"title": part} if isinstance(part, str) else part for part in into]
    whole, place = work.steps[uid], list(work.steps).index(uid)
    hours = whole.hours and whole.hours / len(parts)
    own = {key: value for key, value in parts[0].items() if key not in ("uid", "depends_on")}
    shared = {"description": whole.description, "priority": whole.priority, "checks": whole.checks, "hours": hours}
    first = parse_part(PlanStep, own, replace(whole, hours=hours, estimated_effort=""), where="into[0]")
    steps = [first]
    for at, part in enumerate(parts[1:], 1):
        new = work.adopt(parse_part(PlanStep, shared | part, where=f"into[{at}]"))
        steps.append(replace(new, depends_on=(*new.depends_on, steps[-1].uid)))
    named = frozenset().union(*(new.files for new in steps[1:]))
    left = {f: tuple(p for p in getattr(first, f) if p not in named) for f in FILE_FIELDS if f not in own}
    steps[0] = replace(first, **left)
    del work.steps[uid]
    work.redirect({uid}, [steps[-1].uid])
    work.insert(place, *steps)
    work.include({uid}, [new.uid for new in steps])
    return f"split step {work.label(uid)} into {len(steps)}", *(new.uid for new in steps)


@_operation()
def merge_steps(work: _PlanEditor, *, steps: tuple[StepName, ...], title: str = "") -> tuple[str, ...]:
    """Merge steps: the first keeps its uid and position, and takes over the work of all."""
    named = work.unlock(*steps)
    if len(named) < 2:
        raise InvalidArgument("steps must name two or more", suggestion='Write "steps": [2, 3].')
    first, *gone = uids = [uid for uid in work.steps if uid in named]
    work.steps[first] = _merge([work.steps[uid] for uid in uids], title)
    for uid in gone:
        del work.steps[uid]
    work.redirect(gone, [first])
    work.include(gone, [first])
    return f"merged steps {', '.join(str(work.label(uid)) for uid in uids)}", *uids


def _merge(steps: Sequence[PlanStep], title: str) -> PlanStep:
    def together(name: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(item for step in steps for item in getattr(step, name)))

    uids = {step.uid for step in steps}
    lists = {name: together(name) for name in (*FILE_FIELDS, "acceptance_criteria", "checks", "evidence")}
    lists["files_to_modify"] = tuple(path for path in lists["files_to_modify"] if path not in lists["files_to_create"])
    return replace(
        steps[0],
        title=title.strip() or "; ".join(step.title for step in steps)[:TITLE_CHARS_MAX],
        description="\n\n".join(dict.fromkeys(step.description for step in steps if step.description)),
        depends_on=tuple(uid for uid in together("depends_on") if uid not in uids),
        priority=min((step.priority for step in steps), key=LEVELS.index),
        hours=sum(step.hours or 0 for step in steps) or None,
        estimated_effort="",
        **lists,
    )


@_operation()
def move_step(
    work: _PlanEditor,
    *,
    step: StepName,
    to: int | str | None = None,
    before: StepName | None = None,
    after: StepName | None = None,
) -> tuple[str, ...]:
    """Move a step: to a number or the end, before or after another step."""
    uid = work.uid(step)
    if uid in work.uids(other for other in (before, after) if other is not None):
        raise InvalidArgument("a step cannot be moved next to itself", suggestion="Name another step.")
    moved = work.steps.pop(uid)
    place = work.target_index(to, before, after)
    work.insert(place, moved)
    return f"moved step {work.label(uid)} to {place + 1}", uid


@_operation()
def set_dependencies(
    work: _PlanEditor,
    *,
    step: StepName,
    depends_on: tuple[StepName, ...] | None = None,
    add: tuple[StepName, ...] | None = None,
    remove: tuple[StepName, ...] | None = None,
) -> tuple[str, ...]:
    """Set the dependencies of a step: `depends_on` replaces all, `add` and `remove` change some."""
    (uid,) = work.unlock(step)
    waits = work.steps[uid].depends_on if depends_on is None else work.uids(depends_on)
    gone = work.uids(remove or ())
    kept = tuple(wait for wait in dict.fromkeys((*waits, *work.uids(add or ()))) if wait not in gone)
    work.change(uid, depends_on=kept)
    listed = ", ".join(str(work.label(wait)) for wait in kept) or "nothing"
    return f"step {work.label(uid)} depends on {listed}", uid


@_operation(*FILE_FIELDS)
def set_files(
    work: _PlanEditor, *, step: StepName, add: Texts | None = None, remove: Texts | None = None, **fields: Texts
) -> tuple[str, ...]:
    """Set the files of a step: a list replaces all, `add` (files to modify) and `remove` change some."""
    (uid,) = work.unlock(step)
    gone = remove or ()
    if unknown := [path for path in gone if path not in work.steps[uid].files]:
        why = f"step {work.label(uid)} does not touch {unknown[0]!r:.80}"
        raise InvalidArgument(why, suggestion="Check its files.")
    work.change(uid, **fields)
    changed = work.steps[uid]
    lists = {f: tuple(path for path in getattr(changed, f) if path not in gone) for f in FILE_FIELDS}
    there = {path for paths in lists.values() for path in paths}
    lists["files_to_modify"] += tuple(path for path in add or () if path not in there)
    work.change(uid, **lists)
    return f"step {work.label(uid)} touches {len(work.steps[uid].files)} files", uid


@_operation()
def set_estimate(work: _PlanEditor, *, step: StepName, hours: Hours) -> tuple[str, ...]:
    """Set the hours that a step takes."""
    (uid,) = work.unlock(step)
    work.change(uid, hours=hours, estimated_effort="")
    return f"step {work.label(uid)} takes {format_effort(hours)}", uid


# -- the operations on the rest of the plan ----------------------------------------------------------------------------


@_operation()
def answer_question(work: _PlanEditor, *, question: str, answer: str) -> tuple[str, ...]:
    """Answer a question of the plan, by its id or its text."""
    name, answer = question.strip().casefold(), " ".join(answer.split())
    questions = work.plan.questions
    found = next((row for row in questions if name in (row.id.casefold(), row.text.casefold())), None)
    if found is None:
        listed = "; ".join(f"{row.id}: {row.text[:80]}" for row in questions[:10]) or "it asks nothing"
        raise InvalidArgument(f"the plan does not ask {question[:80]!r}", suggestion=f"It asks: {listed}.")
    if not answer:
        raise InvalidArgument("the answer is empty", suggestion="Give an answer.")
    work.set(questions=tuple(replace(row, answer=answer) if row is found else row for row in questions))
    return (f"{found.id} is answered: {answer[:80]}",)


@_operation(*PlanScope.__struct_fields__, of=PlanScope)
def set_scope(work: _PlanEditor, **fields: Texts) -> tuple[str, ...]:
    """Set lists of the scope."""
    work.set(scope=replace(work.plan.scope, **fields))
    return (f"set {', '.join(fields)} of the scope",)


@_operation()
def exclude(work: _PlanEditor, *, path: str) -> tuple[str, ...]:
    """Exclude a glob: add it to the scope, and remove its files and the steps without other files."""
    glob = path.strip()
    matches = GlobSet([glob], (path for step in work.steps.values() for path in step.files)).matches
    scope = work.plan.scope
    work.set(scope=replace(scope, excluded=tuple(dict.fromkeys((*scope.excluded, glob)))))
    open_steps = [step for uid, step in work.steps.items() if uid not in work.closed]
    touched = [step for step in open_steps if any(map(matches, step.files))]
    for step in touched:
        left = {f: tuple(p for p in getattr(step, f) if not matches(p)) for f in FILE_FIELDS}
        if any(left.values()):
            work.change(step.uid, **left)
        else:
            work.remove(step.uid)
    count = f", {len(touched)} steps touched it" if touched else ""
    return f"excluded {glob}{count}", *(step.uid for step in touched)


@_operation()
def add_risk(work: _PlanEditor, *, issue: str, mitigation: str = "", likelihood: Level = "medium") -> tuple[str, ...]:
    """Add a risk."""
    work.set(risks=(*work.plan.risks, PlanRisk(issue, mitigation, likelihood)))
    return (f"added the risk {issue[:80]!r}",)


@_operation()
def set_goal(work: _PlanEditor, *, goal: str) -> tuple[str, ...]:
    """Set the goal."""
    goal = " ".join(goal.split())
    if not goal:
        raise InvalidArgument("the goal is empty", suggestion="Say what the plan is for.")
    work.set(goal=goal)
    return ("set the goal",)


OPERATIONS: Mapping[str, PlanOperation] = {
    name: value for name, value in list(globals().items()) if isinstance(value, PlanOperation)
}
"""Every operation by its name."""


def _step_closed_error(plan: Plan, uids: Sequence[str]) -> PreconditionFailed:
    steps = plan.list_numbers(uids)
    subject = f"step {steps[0]} is" if len(steps) == 1 else f"steps {', '.join(map(str, steps))} are"
    return PreconditionFailed(
        f"{subject} done and cannot be changed",
        suggestion="Add a step for what is left, or repeat with force_reopen: true to open it again.",
        details={"steps": steps},
    )
