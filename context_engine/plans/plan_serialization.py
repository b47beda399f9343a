"""PURE. Plans as they are written: all that is said, and all that follows from it.

    wire(plan)      the JSON that tools answer and version files hold: a plan with numbers, `blocks`, its graph
    parsed(wire(plan)).plan == plan      see `reading`

Nothing here decides anything; the same plan is always the same bytes.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from context_engine.plans.dependency_graph import StepGraph, build_graph, find_parallel, serialize_graph
from context_engine.plans.effort import format_effort
from context_engine.plans.model import Milestone, Plan, PlanStep, step_numbers

VOLATILE_FIELDS = ("id", "version", "created_at", "uids_minted")
"""What may differ between two plans that say the same."""
_WORK_FIELDS = (
    *("uid", "title", "description", "files_to_modify", "files_to_create", "files_to_delete"),
    *("acceptance_criteria", "checks"),
)
"""What of a step somebody carries out."""
_OMITTED_IF_EMPTY = ("task", "base_commit", "created_at")
"""Texts that are left out when they are empty: they are ours, and nobody who reads a plan waits for them."""


def serialize_plan(plan: Plan) -> dict[str, Any]:
    """The plan as JSON can carry it, with the field names of `EnhancedPlanOutput`."""
    said = msgspec.to_builtins(plan)
    drawn, number = build_graph(plan), step_numbers(plan)
    said["steps"] = [
        _serialize_step(step, row, drawn, number) for step, row in zip(plan.steps, said["steps"], strict=True)
    ]
    said["milestones"] = [_serialize_milestone(each, number) for each in plan.milestones]
    said["dependency_graph"] = serialize_graph(plan, drawn)
    said["questions_for_clarification"] = [each.text for each in plan.open_questions]
    for key in _OMITTED_IF_EMPTY:
        if not said[key]:
            del said[key]
    return {key: said[key] for key in ("id", "version", "goal")} | said


def carry_forward(target: Plan, current: Plan) -> Plan:
    """An earlier version as the next one of the same plan: no uid that was given since is given again."""
    minted = max(target.uids_minted, current.uids_minted)
    return msgspec.structs.replace(target, id=current.id, created_at=current.created_at, uids_minted=minted)


def hash_content(plan: Plan) -> str:
    """What names the content of a plan, whatever its id and version are."""
    said = msgspec.to_builtins(plan)
    return _digest({key: value for key, value in said.items() if key not in VOLATILE_FIELDS})


def hash_step(step: PlanStep) -> str:
    """What names the work of a step: with the same work, what was done still holds, whatever it waits for now."""
    said = msgspec.to_builtins(step)
    return _digest({key: said[key] for key in _WORK_FIELDS})


def _digest(said: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


def _serialize_step(step: PlanStep, row: dict[str, Any], drawn: StepGraph, number: dict[str, int]) -> dict[str, Any]:
    """A step with its number and what follows from what waits for what."""
    row["depends_on"] = [number.get(uid, _dangling_reference(uid)) for uid in step.depends_on]
    row["depends_on"].sort(key=str if any(isinstance(each, str) for each in row["depends_on"]) else None)
    row["blocks"] = sorted(number[uid] for uid in drawn.needed_by[step.uid])
    row["can_parallel_with"] = sorted(number[uid] for uid in find_parallel(drawn, step.uid))
    row["estimated_effort"] = step.estimated_effort or (format_effort(step.hours) if step.estimate else "")
    for key in ("files_to_delete", "checks", "evidence", "estimate"):
        if not row[key]:
            del row[key]
    return {"step_number": number[step.uid]} | row


def _dangling_reference(uid: str) -> int | str:
    """A step that is not there, as it was written."""
    return int(uid) if uid.isdecimal() else uid


def _serialize_milestone(each: Milestone, number: dict[str, int]) -> dict[str, Any]:
    included = sorted(number[uid] for uid in each.steps_included if uid in number)
    return {"name": each.name, "steps_included": included, "estimated_time": each.estimated_time}
