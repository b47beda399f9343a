"""PURE. Plans as people read them: Markdown for `PLAN.md`, replies and the terminal; written and never read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from context_engine.plans.dependency_graph import build_graph, compute_timing
from context_engine.plans.model import Plan, PlanEvidence, PlanStep, format_effort, single_line
from context_engine.plans.plan_diff import STEP_ORDER, PlanDifference
from context_engine.plans.plan_events import Execution, StepState
from context_engine.plans.plan_json import PlanVersion
from context_engine.text import escape_line

BAR_CHARS = 20
VALUE_CHARS = 80
"""Of a changed value in a table; the JSON has all of it."""
EVIDENCE_MAX = 5
"""Places named under a step: the best ones."""
STEP_FILES_SHOWN = 4
"""Files of a step in one line."""
PATH_SHOWN_MAX = 12
"""Steps of the critical path in the line below the title."""


def render_plan(plan: Plan, execution: Execution | None = None) -> str:
    """Render a whole plan; with its execution, the progress as well."""
    number, strategy, scope = plan.step_numbers(), plan.testing_strategy, plan.scope
    limits = {
        "Included": ["the top folder" if path == "." else path for path in scope.included],
        "Excluded": scope.excluded,
        "Assumes": scope.assumptions,
        "Constraint": scope.constraints,
        "Must": plan.mvp_features,
        "May": plan.nice_to_have_features,
    }
    testing = {"Unit": strategy.unit, "Integration": strategy.integration, "Coverage": strategy.coverage_target}
    risks = [(risk.issue, risk.likelihood, risk.mitigation) for risk in plan.risks]
    milestones = []
    for milestone in plan.milestones:
        included = ", ".join(map(str, plan.list_numbers(milestone.steps_included)))
        time = f" ({milestone.estimated_time})" if milestone.estimated_time else ""
        milestones.append(f"{milestone.name}: steps {included}{time}")
    questions = [f"`{row.id}` {row.text}{f' - {row.answer}' if row.answer else ''}" for row in plan.questions]
    parts = [
        f"# {single_line(plan.goal)}",
        _render_head(plan, execution),
        _render_damage(execution),
        plan.task.strip() if plan.task.strip() != plan.goal else "",
        _render_list("## Scope", [f"{name}: {value}" for name, values in limits.items() for value in values]),
        _render_list("## Architecture", [plan.architecture.notes, *plan.architecture.patterns_used]),
        "## Steps" if plan.steps else "No steps yet.",
        *(_render_step(step, number, execution.steps[step.uid] if execution else None) for step in plan.steps),
        _render_list("## Milestones", milestones),
        f"## Risks\n\n{render_table(('risk', 'likelihood', 'what to do'), risks)}" if risks else "",
        _render_list("## Testing", [f"{name}: {text}" for name, text in testing.items() if text.strip()]),
        _render_list("## Questions", questions),
        _render_list("## Open feedback", plan.open_feedback),
        *(f"```mermaid\n{diagram.mermaid.strip()}\n```" for diagram in plan.architecture.diagrams),
    ]
    return _join(parts)


def format_step(plan: Plan, step: PlanStep) -> str:
    """Return a step in one line: number, title, what it waits for, and the places that its title does not name."""
    waits = ", ".join(map(str, plan.list_numbers(step.depends_on)))
    lines = {proof.path: f"{proof.path}:{proof.line}" for proof in reversed(step.evidence) if proof.line}
    others = [lines.get(path, path) for path in step.files_to_modify if path not in step.title]
    others += [f"new {path}" for path in step.files_to_create if path not in step.title]
    others += [f"delete {path}" for path in step.files_to_delete]
    more = [f"{len(others) - STEP_FILES_SHOWN} more"] if len(others) > STEP_FILES_SHOWN else []
    files = ", ".join([*others[:STEP_FILES_SHOWN], *more])
    after = f" (after {waits})" if waits else ""
    return f"{plan.step_numbers()[step.uid]}. {single_line(step.title)}{after}{f': {files}' if files else ''}"


def render_progress(plan: Plan, execution: Execution) -> str:
    """Render the progress of a plan: a bar, a row for each step, the next step."""
    number = plan.step_numbers()
    filled = round(BAR_CHARS * execution.percentage / 100)
    bar = "█" * filled + "░" * (BAR_CHARS - filled)
    head = f"{bar} {execution.percentage:g} % - {len(execution.done)} of {len(plan.steps)} steps, {execution.status}"
    columns = 5 if any(step.hours is not None for step in plan.steps) else 4
    rows = [
        [str(number[step.uid]), step.title, *_state_cells(execution.steps[step.uid], number), _hours(step)]
        for step in plan.steps
    ]
    tail = []
    if execution.next:
        tail.append(f"Next: step {number[execution.next]}, {single_line(plan.find_step(execution.next).title)}")
    if execution.critical_path_remaining:
        path = " → ".join(str(number[uid]) for uid in execution.critical_path_remaining)
        tail.append(f"Critical path left: {path}")
    table = render_table(("step", "title", "state", "", "takes")[:columns], [row[:columns] for row in rows])
    return _join([head, _render_damage(execution), table, *tail])


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
    rows = []
    for change in found.changes:
        values = [change.old, change.new]
        if change.path.endswith(("/depends_on", f"/{STEP_ORDER}")):
            values = [
                [number.get(uid, uid) for uid in uids] if isinstance(uids, list | tuple) else uids for uids in values
            ]
        rows.append([_field_name(change.path, number), change.type, *map(shorten_value, values)])
    head = f"Version {found.before.version} to {found.after.version}: {found.summary}."
    table = render_table(("field", "change", "before", "after"), rows) if rows else ""
    return _join([head, table])


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Render a Markdown table; cells are escaped and stay on one line.

    >>> print(render_table(("a", "b"), [("x|y", "1\n2")]))
    | a | b |
    | --- | --- |
    | x\|y | 1 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(single_line(cell).replace("|", "\\|") for cell in row) + " |" for row in lines)


def _join(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_list(head: str, rows: Iterable[str]) -> str:
    """Render a heading and its list; empty when the list is empty."""
    listed = "\n".join(f"- {single_line(row)}" for row in rows if row.strip())
    return "\n\n".join(filter(None, (head, listed))) if listed else ""


def _render_damage(execution: Execution | None) -> str:
    return f"Warning: {execution.damage}" if execution and execution.damage else ""


def _render_head(plan: Plan, execution: Execution | None) -> str:
    """Render one line: id, version, progress, and the duration if every step has an estimate."""
    number = plan.step_numbers()
    hours, critical_path = compute_timing(build_graph(plan), {step.uid: step.weight for step in plan.steps})
    path = " → ".join(str(number[uid]) for uid in critical_path[:PATH_SHOWN_MAX])
    more = " …" if len(critical_path) > PATH_SHOWN_MAX else ""
    duration = f"{format_effort(hours)} at least" if plan.has_estimates else "longest chain"
    facts = [
        f"`{plan.id}`" if plan.id else "",
        f"version {plan.version}" if plan.version else "",
        f"{execution.status}, {execution.percentage:g} % done" if execution else "",
        f"{len(plan.steps)} steps, {duration} ({path}{more})" if plan.steps else "",
        f"confidence {plan.confidence_score:.2f}" if plan.confidence_score else "",
    ]
    return " · ".join(filter(None, facts))


def _render_step(step: PlanStep, number: Mapping[str, int], state: StepState | None) -> str:
    """Render a step with everything needed to carry it out."""
    mark = f" - {_state_word(state)}" if state and state.status not in ("pending", "ready") else ""
    waits = ", ".join(str(number.get(uid, uid)) for uid in sorted(step.depends_on, key=lambda uid: number.get(uid, 0)))
    facts = [
        f"after {waits}" if waits else "",
        f"{step.priority} priority" if step.priority != "medium" else "",
        step.estimated_effort or _hours(step),
        f"`{step.uid}`",
    ]
    named = {
        "Changes": step.files_to_modify,
        "Creates": step.files_to_create,
        "Deletes": step.files_to_delete,
        "Check": step.checks,
    }
    box = "x" if state and state.status == "completed" else " "
    rows = [
        *(f"{name}: {', '.join(f'`{escape_line(row)}`' for row in rows)}" for name, rows in named.items() if rows),
        *(f"[{box}] {criterion}" for criterion in step.acceptance_criteria),
        f"Why: {', '.join(map(_render_evidence, step.evidence[:EVIDENCE_MAX]))}" if step.evidence else "",
        f"Failed: {state.error}" if state and state.error else "",
        f"Note: {state.notes}" if state and state.notes else "",
    ]
    head = f"### {number[step.uid]}. {single_line(step.title)}{mark}"
    return _join([head, " · ".join(filter(None, facts)), step.description.strip(), _render_list("", rows)]).rstrip("\n")


def _render_evidence(proof: PlanEvidence) -> str:
    place = escape_line(proof.path) + (f":{proof.line}" if proof.line and proof.path else "")
    return " ".join([*(f"`{name}`" for name in (place, proof.symbol) if name), f"({proof.kind})"])


def _hours(step: PlanStep) -> str:
    return "" if step.hours is None else format_effort(step.hours)


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
    return state.status.replace("_", " ")


def shorten_value(value: Any) -> str:
    """Return a value as a table cell."""
    text = single_line("" if value is None else _describe_value(value))
    return text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 1] + "…"


def _describe_value(value: Any) -> str:
    """Describe a list or an object in a few words."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_describe_value, value))
    if isinstance(value, dict):
        main = value.get("title") or value.get("issue") or value.get("text")
        return str(main or ", ".join(map(str, value.values())))
    return str(value)


def _field_name(path: str, number: Mapping[str, str]) -> str:
    """Return a JSON pointer in words: steps by their number.

    >>> _field_name("/steps/s9/title", {"s9": "3"}), _field_name("/scope/excluded", {})
    ('step 3: title', 'scope: excluded')
    """
    head, *rest = path.split("/")[1:]
    if head == "steps" and rest:
        head, rest = f"step {number.get(rest[0], rest[0])}", rest[1:]
    head = head.replace("_", " ")
    return f"{head}: {' '.join(rest)}" if rest else head
