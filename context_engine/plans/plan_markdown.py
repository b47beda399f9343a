"""PURE. Plans as people read them: Markdown, for `PLAN.md`, replies and the terminal. It is written and never read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from context_engine.plans.dependency_graph import graph, timing
from context_engine.plans.effort import effort_of
from context_engine.plans.model import Plan, Step, numbers
from context_engine.plans.plan_diff import ORDER, Difference, FieldChange, summary
from context_engine.plans.plan_lifecycle import DONE
from context_engine.plans.plan_progress import Execution, StepState
from context_engine.plans.plan_version import Version
from context_engine.text.visible_text import one_line

BAR_CHARS = 20
VALUE_CHARS = 80
"""Of a changed value in a table; the JSON has all of it."""
EVIDENCE_MAX = 5
"""Places named under a step: the best ones."""
_STATES = {"in_progress": "in progress"}


def plan_text(plan: Plan, execution: Execution | None = None) -> str:
    """A whole plan; with its execution, what is done of it."""
    place = numbers(plan)
    parts = [
        f"# {line(plan.goal)}",
        _head(plan, execution) + _damage(execution),
        plan.task.strip() if plan.task.strip() not in ("", plan.goal) else "",
        _scope(plan),
        _listed("## Architecture", _architecture(plan)),
        "## Steps" if plan.steps else "No steps yet.",
        *(_step(step, place, execution) for step in plan.steps),
        _milestones(plan),
        _risks(plan),
        _listed("## Testing", _testing(plan)),
        _listed("## Questions", [f"`{each.id}` {_question(each.text, each.answer)}" for each in plan.questions]),
        _listed("## Open feedback", [line(text) for text in plan.open_feedback]),
        *(f"```mermaid\n{each.mermaid.strip()}\n```" for each in plan.architecture.diagrams),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def progress_text(plan: Plan, execution: Execution) -> str:
    """How far a plan is: a bar, a row for each step, what comes next."""
    number = numbers(plan)
    done = sum(state.status in DONE for state in execution.steps.values())
    filled = round(BAR_CHARS * execution.percentage / 100)
    bar = "█" * filled + "░" * (BAR_CHARS - filled)
    head = (
        f"{bar} {execution.percentage:g} % - {done} of {len(plan.steps)} steps, {execution.status}{_damage(execution)}"
    )
    rows = [
        [str(number[step.uid]), line(step.title), *_row(execution.steps[step.uid], number), effort_of(step.hours)]
        for step in plan.steps
    ]
    path = " → ".join(str(number[uid]) for uid in execution.critical_path_remaining)
    tail = [
        f"Next: step {number[execution.next]}, {line(_title(plan, execution.next))}" if execution.next else "",
        f"Critical path left: {path}" if path else "",
        f"About {effort_of(execution.eta_hours)} left at the pace so far" if execution.eta_hours is not None else "",
    ]
    table = table_of(("step", "title", "state", "", "takes"), rows)
    return "\n\n".join(part for part in (head, table, "\n".join(filter(None, tail))) if part) + "\n"


def _damage(execution: Execution | None) -> str:
    return f"\n\nWarning: {execution.damage}" if execution and execution.damage else ""


def history_text(versions: Iterable[Version]) -> str:
    """The versions of a plan, one a row."""
    rows = [
        [str(each.version), each.created_at[:16].replace("T", " "), each.change_type, _who(each), _what(each)]
        for each in versions
    ]
    return table_of(("version", "at (UTC)", "change", "by", "what"), rows) + "\n"


def difference_text(found: Difference) -> str:
    """How two versions differ: one sentence, then a row for each field; a step that is gone has its old number in brackets."""
    old, new = numbers(found.before), numbers(found.after)
    number = {uid: f"({place})" for uid, place in old.items()} | {uid: str(place) for uid, place in new.items()}
    rows = [
        [
            _field(change.path, number),
            change.type,
            _value(change, change.old, number),
            _value(change, change.new, number),
        ]
        for change in found.changes
    ]
    moved = [f"step {each.after} was step {each.before}" for each in found.moved]
    head = f"Version {found.before.version} to {found.after.version}: {summary(found)}."
    table = table_of(("field", "change", "before", "after"), rows) if rows else ""
    return "\n\n".join(part for part in (head, _listed("", moved), table, _graph_line(found, number)) if part) + "\n"


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A Markdown table; a cell stays on its line and in its column, whatever it holds.

    >>> print(table_of(("a", "b"), [("x|y", "1\n2")]))
    | a | b |
    | --- | --- |
    | x\|y | 1 2 |
    """
    told = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line(cell).replace("|", "\\|") for cell in row) + " |" for row in told)


def line(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def shortened(value: Any) -> str:
    """A value as a cell shows it."""
    told = value if isinstance(value, str) else "" if value is None else _plain(value)
    text = line(told)
    return text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 1] + "…"


# -- parts of a plan --------------------------------------------------------------------------------------------------------


def _head(plan: Plan, execution: Execution | None) -> str:
    """One line: which plan, how far, how long."""
    number = numbers(plan)
    timed = timing(graph(plan), {step.uid: step.hours for step in plan.steps})
    path = " → ".join(str(number[uid]) for uid in timed.critical_path[:12])
    more = " …" if len(timed.critical_path) > 12 else ""
    told = [
        f"`{plan.id}`" if plan.id else "",
        f"version {plan.version}" if plan.version else "",
        f"{execution.status}, {execution.percentage:g} % done" if execution else "",
        f"{len(plan.steps)} steps, {effort_of(timed.duration_h)} at least ({path}{more})" if plan.steps else "",
        f"confidence {plan.confidence_score:.2f}" if plan.confidence_score else "",
    ]
    return " · ".join(part for part in told if part)


def _scope(plan: Plan) -> str:
    rows = {
        "Included": ["the top folder" if each == "." else each for each in plan.scope.included],
        "Excluded": plan.scope.excluded,
        "Assumes": plan.scope.assumptions,
        "Constraint": plan.scope.constraints,
        "Must": plan.mvp_features,
        "May": plan.nice_to_have_features,
    }
    return _listed("## Scope", [f"{name}: {line(each)}" for name, values in rows.items() for each in values])


def _architecture(plan: Plan) -> list[str]:
    return [line(each) for each in (plan.architecture.notes, *plan.architecture.patterns_used) if each.strip()]


def _step(step: Step, place: Mapping[str, int], execution: Execution | None) -> str:
    """A step with all that somebody needs who carries it out."""
    state = execution.steps[step.uid] if execution else None
    mark = f" - {_shown(state)}" if state and state.status not in ("pending", "ready") else ""
    waits = ", ".join(str(place.get(uid, uid)) for uid in sorted(step.depends_on, key=lambda uid: place.get(uid, 0)))
    facts = [
        f"after {waits}" if waits else "",
        f"{step.priority} priority" if step.priority != "medium" else "",
        step.estimated_effort or (effort_of(step.hours) if step.estimate else ""),
        f"`{step.uid}`",
    ]
    box = "x" if state and state.status == "completed" else " "
    rows = [
        _paths("Changes", step.files_to_modify),
        _paths("Creates", step.files_to_create),
        _paths("Deletes", step.files_to_delete),
        _paths("Check", step.checks),
        *(f"- [{box}] {line(each)}" for each in step.acceptance_criteria),
        _because(step),
        f"- Failed: {line(state.error)}" if state and state.error else "",
        f"- Note: {line(state.notes)}" if state and state.notes else "",
    ]
    listed = "\n".join(row for row in rows if row)
    parts = (
        f"### {place[step.uid]}. {line(step.title)}{mark}",
        " · ".join(filter(None, facts)),
        step.description.strip(),
        listed,
    )
    return "\n\n".join(part for part in parts if part)


def _paths(name: str, paths: Sequence[str]) -> str:
    return f"- {name}: {', '.join(f'`{one_line(path)}`' for path in paths)}" if paths else ""


def _because(step: Step) -> str:
    told = []
    for each in step.evidence[:EVIDENCE_MAX]:
        path = one_line(each.path)
        where = f"`{path}:{each.line}`" if each.line else f"`{path}`" if path else ""
        told.append(
            " ".join(part for part in (where, f"`{each.symbol}`" if each.symbol else "", f"({each.kind})") if part)
        )
    return f"- Why: {', '.join(told)}" if told else ""


def _milestones(plan: Plan) -> str:
    number = numbers(plan)
    rows = [
        f"{line(each.name)}: steps {', '.join(str(n) for n in sorted(number[uid] for uid in each.steps_included if uid in number))}"
        + (f" ({line(each.estimated_time)})" if each.estimated_time else "")
        for each in plan.milestones
    ]
    return _listed("## Milestones", rows)


def _risks(plan: Plan) -> str:
    rows = [(each.issue, each.likelihood, each.mitigation) for each in plan.risks]
    return f"## Risks\n\n{table_of(('risk', 'likelihood', 'what to do'), rows)}" if rows else ""


def _testing(plan: Plan) -> list[str]:
    told = plan.testing_strategy
    rows = {"Unit": told.unit, "Integration": told.integration, "Coverage": told.coverage_target}
    return [f"{name}: {line(text)}" for name, text in rows.items() if text.strip()]


def _question(text: str, answer: str) -> str:
    return f"{line(text)} - {line(answer)}" if answer else line(text)


def _listed(head: str, rows: Sequence[str]) -> str:
    """A heading and its list; nothing when the list is empty."""
    return "\n\n".join(part for part in (head, "\n".join(f"- {row}" for row in rows)) if part) if rows else ""


# -- cells ------------------------------------------------------------------------------------------------------------------


def _row(state: StepState, number: Mapping[str, int]) -> tuple[str, str]:
    """The state of a step, and what explains it."""
    if state.blocked_by:
        return "blocked", f"by {', '.join(str(number[uid]) for uid in state.blocked_by)}"
    if state.unmet:
        return "waiting", f"for {', '.join(str(number[uid]) for uid in state.unmet)}"
    if state.status == "failed":
        return "failed", shortened(state.error)
    return _shown(state), state.actor if state.status == "in_progress" else ""


def _shown(state: StepState) -> str:
    return _STATES.get(state.status, state.status)


def _title(plan: Plan, uid: str) -> str:
    return next(step.title for step in plan.steps if step.uid == uid)


def _who(version: Version) -> str:
    return version.author or version.provenance


def _what(version: Version) -> str:
    return "; ".join(part for part in (version.change_summary, version.reason) if part)


def _field(path: str, number: Mapping[str, str]) -> str:
    """A pointer as a reader says it: the step by its number.

    >>> _field("/steps/s9/title", {"s9": "3"}), _field("/scope/excluded", {})
    ('step 3: title', 'scope: excluded')
    """
    head, *rest = path.split("/")[1:]
    if head == "steps" and rest:
        head, rest = f"step {number.get(rest[0], rest[0])}", rest[1:]
    return f"{head.replace('_', ' ')}: {' '.join(rest)}" if rest else head.replace("_", " ")


def _value(change: FieldChange, value: Any, number: Mapping[str, str]) -> str:
    """One end of a change; uids as numbers, where there are any."""
    if change.path.endswith(("/depends_on", f"/{ORDER}")) and isinstance(value, list | tuple):
        return shortened([number.get(uid, uid) for uid in value])
    return shortened(value)


def _plain(value: Any) -> str:
    """A list or object in few words."""
    if isinstance(value, list | tuple):
        return ", ".join(_plain(each) for each in value)
    if isinstance(value, dict):
        return str(
            value.get("title")
            or value.get("issue")
            or value.get("text")
            or ", ".join(str(each) for each in value.values())
        )
    return str(value)


def _graph_line(found: Difference, number: Mapping[str, str]) -> str:
    """The critical path then and now, if that or its length changed."""
    paths = found.graph.critical_path_before, found.graph.critical_path_after
    before, after = (" → ".join(number[uid] for uid in path) for path in paths)
    if paths[0] == paths[1] and not found.graph.duration_delta_h:
        return ""
    return f"Critical path: {before or 'none'}, now {after or 'none'}; {found.graph.duration_delta_h:+g} h."
