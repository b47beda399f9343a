"""PURE. Plans as people read them: Markdown for `PLAN.md`, replies and the terminal; written and never read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from context_engine.plans.dependency_graph import build_graph, compute_timing
from context_engine.plans.model import Plan, PlanStep, format_effort
from context_engine.plans.plan_diff import STEP_ORDER, FieldChange, PlanDifference
from context_engine.plans.plan_events import DONE, Execution, StepState
from context_engine.plans.plan_json import PlanVersion
from context_engine.text import escape_line

BAR_CHARS = 20
VALUE_CHARS = 80
"""Of a changed value in a table; the JSON has all of it."""
EVIDENCE_MAX = 5
"""Places named under a step: the best ones."""
_STATES = {"in_progress": "in progress"}


def render_plan(plan: Plan, execution: Execution | None = None) -> str:
    """Render a whole plan; with its execution, the progress as well."""
    place = plan.step_numbers()
    notes = (plan.architecture.notes, *plan.architecture.patterns_used)
    parts = [
        f"# {single_line(plan.goal)}",
        _render_head(plan, execution) + _render_damage(execution),
        plan.task.strip() if plan.task.strip() not in ("", plan.goal) else "",
        _render_scope(plan),
        _render_list("## Architecture", [single_line(note) for note in notes if note.strip()]),
        "## Steps" if plan.steps else "No steps yet.",
        *(_render_step(step, place, execution) for step in plan.steps),
        _render_milestones(plan),
        _render_risks(plan),
        _render_list("## Testing", _testing_rows(plan)),
        _render_list(
            "## Questions",
            [f"`{question.id}` {_question(question.text, question.answer)}" for question in plan.questions],
        ),
        _render_list("## Open feedback", [single_line(text) for text in plan.open_feedback]),
        *(f"```mermaid\n{diagram.mermaid.strip()}\n```" for diagram in plan.architecture.diagrams),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_progress(plan: Plan, execution: Execution) -> str:
    """Render the progress of a plan: a bar, a row for each step, the next step."""
    number = plan.step_numbers()
    done = sum(state.status in DONE for state in execution.steps.values())
    filled = round(BAR_CHARS * execution.percentage / 100)
    bar = "█" * filled + "░" * (BAR_CHARS - filled)
    counted = f"{execution.percentage:g} % - {done} of {len(plan.steps)} steps, {execution.status}"
    head = f"{bar} {counted}{_render_damage(execution)}"
    has_estimate = any(step.hours is not None for step in plan.steps)
    rows = [
        [
            str(number[step.uid]),
            single_line(step.title),
            *_state_cells(execution.steps[step.uid], number),
            *([_render_estimate(step)] if has_estimate else []),
        ]
        for step in plan.steps
    ]
    path = " → ".join(str(number[uid]) for uid in execution.critical_path_remaining)
    tail = [
        f"Next: step {number[execution.next]}, {single_line(plan.find_step(execution.next).title)}"
        if execution.next
        else "",
        f"Critical path left: {path}" if path else "",
        f"About {format_effort(execution.eta_hours)} left at the pace so far"
        if execution.eta_hours is not None
        else "",
    ]
    table = render_table(("step", "title", "state", "", *(["takes"] if has_estimate else [])), rows)
    return "\n\n".join(part for part in (head, table, "\n".join(filter(None, tail))) if part) + "\n"


def _render_estimate(step: PlanStep) -> str:
    return "" if step.hours is None else format_effort(step.hours)


def _render_damage(execution: Execution | None) -> str:
    if execution and execution.damage:
        return f"\n\nWarning: {execution.damage}"
    return ""


def render_history(versions: Iterable[PlanVersion]) -> str:
    """Render the versions of a plan, one per row."""
    rows = [
        [
            str(version.version),
            version.created_at[:16].replace("T", " "),
            version.change_type,
            version.author or version.provenance,
            "; ".join(filter(None, (version.change_summary, version.reason))),
        ]
        for version in versions
    ]
    return render_table(("version", "at (UTC)", "change", "by", "what"), rows) + "\n"


def render_difference(found: PlanDifference) -> str:
    """Render the differences between two versions: a sentence, then a row for each field.

    Removed steps have their old number in brackets.
    """
    old, new = found.before.step_numbers(), found.after.step_numbers()
    number = {uid: f"({place})" for uid, place in old.items()} | {uid: str(place) for uid, place in new.items()}
    rows = [
        [
            _field_name(change.path, number),
            change.type,
            _changed_value(change, change.old, number),
            _changed_value(change, change.new, number),
        ]
        for change in found.changes
    ]
    moved = [f"step {moved_step.after} was step {moved_step.before}" for moved_step in found.moved]
    head = f"Version {found.before.version} to {found.after.version}: {found.summary}."
    if rows:
        table = render_table(("field", "change", "before", "after"), rows)
    else:
        table = ""
    return (
        "\n\n".join(part for part in (head, _render_list("", moved), table, _graph_line(found, number)) if part) + "\n"
    )


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Render a Markdown table; cells are escaped and stay on one line.

    >>> print(render_table(("a", "b"), [("x|y", "1\n2")]))
    | a | b |
    | --- | --- |
    | x\|y | 1 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(single_line(cell).replace("|", "\\|") for cell in row) + " |" for row in lines)


def single_line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def shorten_value(value: Any) -> str:
    """Return a value as a table cell."""
    if isinstance(value, str):
        described = value
    else:
        described = "" if value is None else _describe_value(value)
    text = single_line(described)
    if len(text) <= VALUE_CHARS:
        return text
    return text[: VALUE_CHARS - 1] + "…"


# -- parts of a plan ---------------------------------------------------------------------------------------------------


def _render_head(plan: Plan, execution: Execution | None) -> str:
    """Render one line: id, version, progress, and the duration if every step has an estimate."""
    number = plan.step_numbers()
    timed = compute_timing(build_graph(plan), {step.uid: step.weight for step in plan.steps})
    path = " → ".join(str(number[uid]) for uid in timed.critical_path[:12])
    more = " …" if len(timed.critical_path) > 12 else ""
    duration = f"{format_effort(timed.duration_h)} at least" if plan.has_estimates else "longest chain"
    facts = [
        f"`{plan.id}`" if plan.id else "",
        f"version {plan.version}" if plan.version else "",
        f"{execution.status}, {execution.percentage:g} % done" if execution else "",
        f"{len(plan.steps)} steps, {duration} ({path}{more})" if plan.steps else "",
        f"confidence {plan.confidence_score:.2f}" if plan.confidence_score else "",
    ]
    return " · ".join(part for part in facts if part)


def _render_scope(plan: Plan) -> str:
    rows = {
        "Included": ["the top folder" if path == "." else path for path in plan.scope.included],
        "Excluded": plan.scope.excluded,
        "Assumes": plan.scope.assumptions,
        "Constraint": plan.scope.constraints,
        "Must": plan.mvp_features,
        "May": plan.nice_to_have_features,
    }
    return _render_list(
        "## Scope", [f"{name}: {single_line(value)}" for name, values in rows.items() for value in values]
    )


def _render_step(step: PlanStep, place: Mapping[str, int], execution: Execution | None) -> str:
    """Render a step with everything needed to carry it out."""
    state = execution.steps[step.uid] if execution else None
    if state and state.status not in ("pending", "ready"):
        mark = f" - {_state_word(state)}"
    else:
        mark = ""
    waits = ", ".join(str(place.get(uid, uid)) for uid in sorted(step.depends_on, key=lambda uid: place.get(uid, 0)))
    facts = [
        f"after {waits}" if waits else "",
        f"{step.priority} priority" if step.priority != "medium" else "",
        step.estimated_effort or _render_estimate(step),
        f"`{step.uid}`",
    ]
    if state and state.status == "completed":
        box = "x"
    else:
        box = " "
    rows = [
        _render_paths("Changes", step.files_to_modify),
        _render_paths("Creates", step.files_to_create),
        _render_paths("Deletes", step.files_to_delete),
        _render_paths("Check", step.checks),
        *(f"- [{box}] {single_line(criterion)}" for criterion in step.acceptance_criteria),
        _render_evidence(step),
        f"- Failed: {single_line(state.error)}" if state and state.error else "",
        f"- Note: {single_line(state.notes)}" if state and state.notes else "",
    ]
    listed = "\n".join(row for row in rows if row)
    parts = (
        f"### {place[step.uid]}. {single_line(step.title)}{mark}",
        " · ".join(filter(None, facts)),
        step.description.strip(),
        listed,
    )
    return "\n\n".join(part for part in parts if part)


def _render_paths(name: str, paths: Sequence[str]) -> str:
    if paths:
        return f"- {name}: {', '.join(f'`{escape_line(path)}`' for path in paths)}"
    return ""


def _render_evidence(step: PlanStep) -> str:
    places = []
    for evidence_item in step.evidence[:EVIDENCE_MAX]:
        path = escape_line(evidence_item.path)
        if evidence_item.line:
            where = f"`{path}:{evidence_item.line}`"
        else:
            where = f"`{path}`" if path else ""
        places.append(
            " ".join(
                part
                for part in (
                    where,
                    f"`{evidence_item.symbol}`" if evidence_item.symbol else "",
                    f"({evidence_item.kind})",
                )
                if part
            )
        )
    if places:
        return f"- Why: {', '.join(places)}"
    return ""


def _render_milestones(plan: Plan) -> str:
    number = plan.step_numbers()
    rows = []
    for milestone in plan.milestones:
        included = sorted(number[uid] for uid in milestone.steps_included if uid in number)
        if milestone.estimated_time:
            time = f" ({single_line(milestone.estimated_time)})"
        else:
            time = ""
        rows.append(f"{single_line(milestone.name)}: steps {', '.join(map(str, included))}{time}")
    return _render_list("## Milestones", rows)


def _render_risks(plan: Plan) -> str:
    rows = [(risk.issue, risk.likelihood, risk.mitigation) for risk in plan.risks]
    if rows:
        return f"## Risks\n\n{render_table(('risk', 'likelihood', 'what to do'), rows)}"
    return ""


def _testing_rows(plan: Plan) -> list[str]:
    strategy = plan.testing_strategy
    rows = {"Unit": strategy.unit, "Integration": strategy.integration, "Coverage": strategy.coverage_target}
    return [f"{name}: {single_line(text)}" for name, text in rows.items() if text.strip()]


def _question(text: str, answer: str) -> str:
    if answer:
        return f"{single_line(text)} - {single_line(answer)}"
    return single_line(text)


def _render_list(head: str, rows: Sequence[str]) -> str:
    """Render a heading and its list; empty when the list is empty."""
    if rows:
        return "\n\n".join(part for part in (head, "\n".join(f"- {row}" for row in rows)) if part)
    return ""


# -- cells -------------------------------------------------------------------------------------------------------------


def _state_cells(state: StepState, number: Mapping[str, int]) -> tuple[str, str]:
    """Return the state of a step, and its explanation."""
    if state.blocked_by:
        return "blocked", f"by {', '.join(str(number[uid]) for uid in state.blocked_by)}"
    if state.unmet:
        return "waiting", f"for {', '.join(str(number[uid]) for uid in state.unmet)}"
    if state.status == "failed":
        return "failed", shorten_value(state.error)
    return _state_word(state), state.actor if state.status == "in_progress" else ""


def _state_word(state: StepState) -> str:
    return _STATES.get(state.status, state.status)


def _field_name(path: str, number: Mapping[str, str]) -> str:
    """Return a JSON pointer in words: steps by their number.

    >>> _field_name("/steps/s9/title", {"s9": "3"}), _field_name("/scope/excluded", {})
    ('step 3: title', 'scope: excluded')
    """
    head, *rest = path.split("/")[1:]
    if head == "steps" and rest:
        head, rest = f"step {number.get(rest[0], rest[0])}", rest[1:]
    if rest:
        return f"{head.replace('_', ' ')}: {' '.join(rest)}"
    return head.replace("_", " ")


def _changed_value(change: FieldChange, value: Any, number: Mapping[str, str]) -> str:
    """Return one side of a change; uids as numbers, where there are any."""
    if change.path.endswith(("/depends_on", f"/{STEP_ORDER}")) and isinstance(value, list | tuple):
        return shorten_value([number.get(uid, uid) for uid in value])
    return shorten_value(value)


def _describe_value(value: Any) -> str:
    """Describe a list or an object in a few words."""
    if isinstance(value, list | tuple):
        return ", ".join(_describe_value(item) for item in value)
    if isinstance(value, dict):
        return str(
            value.get("title")
            or value.get("issue")
            or value.get("text")
            or ", ".join(str(part) for part in value.values())
        )
    return str(value)


def _graph_line(found: PlanDifference, number: Mapping[str, str]) -> str:
    """Render the critical path before and after, if it or its length changed."""
    paths = found.graph.critical_path_before, found.graph.critical_path_after
    before, after = (" → ".join(number[uid] for uid in path) for path in paths)
    delta_h = found.graph.duration_delta_h
    if paths[0] == paths[1] and not delta_h:
        return ""
    longer = f"; {delta_h:+g} h" if delta_h is not None else ""
    return f"Critical path: {before or 'none'}, now {after or 'none'}{longer}."
