"""Plans: create, check, refine, store, approve and carry them out, and draw them.

`plan_creation` makes each version: `changeset` finds the files of a task with their evidence, `plan_draft` makes steps
of them, `operations` change these, `plan_validation` checks the result. `plan_events` decides which moves are legal;
`step_tracking`, `plan_service` (approvals) and `plan_execution` (changes, through `edit`) carry them out.
`work_packets` name the code of a step; `plan_json`, `plan_markdown` and `mermaid` write plans, `plan_diff` compares.

Each version is a file that is never overwritten, and each event is a line of a log with a hash chain (`plan_storage`).
Status, progress and approvals are computed from both at each call and stored nowhere else, so any process may
continue. A cycle of steps is refused by name; no text of a plan is read as syntax by a diagram.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.plans.changeset import PlanRequest
    from context_engine.plans.mermaid import LABEL_CHARS, draw_architecture, draw_plan
    from context_engine.plans.model import Plan, PlanStep
    from context_engine.plans.plan_creation import PlanResult, SaveOptions
    from context_engine.plans.plan_diff import compare_plans
    from context_engine.plans.plan_events import (
        AGENT,
        APPROVAL_HOURS_MAX,
        DECISIONS,
        PERSON,
        Approval,
        CompletionReport,
        Execution,
        fold_progress,
    )
    from context_engine.plans.plan_execution import ExecutionResult
    from context_engine.plans.plan_json import PlanVersion, parse_plan, serialize_plan
    from context_engine.plans.plan_markdown import (
        format_step,
        render_difference,
        render_history,
        render_plan,
        render_progress,
    )
    from context_engine.plans.plan_repository import PROGRESS_MODES, PlanQuery
    from context_engine.plans.plan_service import ApprovalResult, PlanService, workspace_paths
    from context_engine.plans.plan_validation import validate_plan
    from context_engine.plans.step_tracking import StepUpdate
    from context_engine.plans.work_packets import build_packet

__getattr__ = lazy_exports(__name__)
