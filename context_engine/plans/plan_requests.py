"""PURE. What can be asked of plans, as values: which of them to list, who moves a step and what is said of it, who decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from context_engine.plans.plan_lifecycle import ApprovalMove, PlanStatus

SORTS = ("updated_at", "created_at", "name", "progress")
ORDERS = ("desc", "asc")
DAMAGED = "damaged"
"""Stands where the status would, when a file of the plan cannot be read as it was written."""
STATUSES: tuple[str, ...] = (*get_args(PlanStatus), DAMAGED)

PROGRESS_MODES = ("keep", "reset", "reconcile")
"""What becomes of progress when an old version comes back: all that still has a step, nothing, or what has the same content."""

DECISIONS: tuple[ApprovalMove, ...] = ("approve", "reject", "request_modification")
PERSON, AGENT = "user", "agent"
HOURS_MAX = 24 * 365


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """Which plans are asked for; empty parts ask for nothing. `tags` and words of `query`: all of them."""

    status: str = ""
    tags: tuple[str, ...] = ()
    query: str = ""
    sort_by: str = "updated_at"
    sort_order: str = "desc"
    limit: int = 50
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class StepCaller:
    """What all moves of a step are told: the event the caller has seen last, who calls, a key under which the call counts once."""

    expected_seq: int | None = None
    actor: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class CompletionReport:
    """What is said of a completed step: by whoever did it, and whether git is asked as well."""

    notes: str = ""
    files_modified: tuple[str, ...] = ()
    evidence: tuple[Mapping[str, Any], ...] = ()
    criteria_met: tuple[str, ...] = ()
    auto_detect_files: bool = True


NO_CALLER, EMPTY_REPORT = StepCaller(), CompletionReport()
