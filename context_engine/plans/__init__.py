"""Plans: create, check, refine, store, approve and carry them out, and draw them."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.plans.approval_service import ApprovalOutcome, ApprovalRequest
    from context_engine.plans.changeset import PlanRequest, PlanSources
    from context_engine.plans.mermaid import (
        LABEL_CHARS,
        draw_architecture,
        draw_dependencies,
        draw_gantt,
        draw_progress,
    )
    from context_engine.plans.model import Plan, PlanStep, format_effort
    from context_engine.plans.plan_creation import CreationResult, Refinement, RefinementRequest, SaveOptions
    from context_engine.plans.plan_diff import Diffstat, compare_plans, compute_diffstat
    from context_engine.plans.plan_events import (
        AGENT,
        APPROVAL_HOURS_MAX,
        DECISIONS,
        DONE,
        PERSON,
        Approval,
        CompletionReport,
        Execution,
        StepCaller,
        StepState,
        fold_progress,
    )
    from context_engine.plans.plan_execution import ExecutionResult, FileChange
    from context_engine.plans.plan_json import PlanFinding, PlanVersion, parse_plan, serialize_plan
    from context_engine.plans.plan_markdown import (
        render_difference,
        render_history,
        render_html,
        render_plan,
        render_progress,
    )
    from context_engine.plans.plan_repository import LoadedPlan
    from context_engine.plans.plan_service import PlanDependencies, PlanService, workspace_paths
    from context_engine.plans.plan_storage import PROGRESS_MODES, PlanQuery, PlanRow, PlanState
    from context_engine.plans.plan_validation import validate_plan
    from context_engine.plans.step_tracking import StepUpdate
    from context_engine.plans.work_packets import PACKET_TOKENS_MAX, PacketFile, WorkPacket, build_packet

__all__ = [
    "AGENT",
    "APPROVAL_HOURS_MAX",
    "DECISIONS",
    "DONE",
    "LABEL_CHARS",
    "PACKET_TOKENS_MAX",
    "PERSON",
    "PROGRESS_MODES",
    "Approval",
    "ApprovalOutcome",
    "ApprovalRequest",
    "CompletionReport",
    "CreationResult",
    "Diffstat",
    "Execution",
    "ExecutionResult",
    "FileChange",
    "LoadedPlan",
    "PacketFile",
    "Plan",
    "PlanDependencies",
    "PlanFinding",
    "PlanQuery",
    "PlanRequest",
    "PlanRow",
    "PlanService",
    "PlanSources",
    "PlanState",
    "PlanStep",
    "PlanVersion",
    "Refinement",
    "RefinementRequest",
    "SaveOptions",
    "StepCaller",
    "StepState",
    "StepUpdate",
    "WorkPacket",
    "build_packet",
    "compare_plans",
    "compute_diffstat",
    "draw_architecture",
    "draw_dependencies",
    "draw_gantt",
    "draw_progress",
    "fold_progress",
    "format_effort",
    "parse_plan",
    "render_difference",
    "render_history",
    "render_html",
    "render_plan",
    "render_progress",
    "serialize_plan",
    "validate_plan",
    "workspace_paths",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "AGENT": "plan_events",
        "APPROVAL_HOURS_MAX": "plan_events",
        "Approval": "plan_events",
        "ApprovalOutcome": "approval_service",
        "ApprovalRequest": "approval_service",
        "CompletionReport": "plan_events",
        "CreationResult": "plan_creation",
        "DECISIONS": "plan_events",
        "DONE": "plan_events",
        "Diffstat": "plan_diff",
        "Execution": "plan_events",
        "ExecutionResult": "plan_execution",
        "FileChange": "plan_execution",
        "LABEL_CHARS": "mermaid",
        "LoadedPlan": "plan_repository",
        "PACKET_TOKENS_MAX": "work_packets",
        "PERSON": "plan_events",
        "PROGRESS_MODES": "plan_storage",
        "PacketFile": "work_packets",
        "Plan": "model",
        "PlanDependencies": "plan_service",
        "PlanFinding": "plan_json",
        "PlanQuery": "plan_storage",
        "PlanRequest": "changeset",
        "PlanRow": "plan_storage",
        "PlanService": "plan_service",
        "PlanSources": "changeset",
        "PlanState": "plan_storage",
        "PlanStep": "model",
        "PlanVersion": "plan_json",
        "Refinement": "plan_creation",
        "RefinementRequest": "plan_creation",
        "SaveOptions": "plan_creation",
        "StepCaller": "plan_events",
        "StepState": "plan_events",
        "StepUpdate": "step_tracking",
        "WorkPacket": "work_packets",
        "build_packet": "work_packets",
        "compare_plans": "plan_diff",
        "compute_diffstat": "plan_diff",
        "draw_architecture": "mermaid",
        "draw_dependencies": "mermaid",
        "draw_gantt": "mermaid",
        "draw_progress": "mermaid",
        "fold_progress": "plan_events",
        "format_effort": "model",
        "parse_plan": "plan_json",
        "render_difference": "plan_markdown",
        "render_history": "plan_markdown",
        "render_html": "plan_markdown",
        "render_plan": "plan_markdown",
        "render_progress": "plan_markdown",
        "serialize_plan": "plan_json",
        "validate_plan": "plan_validation",
        "workspace_paths": "plan_service",
    },
)
