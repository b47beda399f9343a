"""Work packets in replies: what a step needs in code, within the tokens that one may cost, secrets masked."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from context_engine.tools.file_tools import SHA_CHARS
from context_engine.tools.truncate import compact_json, cut_to_size, drop_empty

if TYPE_CHECKING:
    from context_engine.plans.model import Plan, PlanStep
    from context_engine.plans.plan_progress import Execution
    from context_engine.plans.plan_sources import PlanSources
    from context_engine.plans.work_packets import PacketFile, WorkPacket
    from context_engine.tools.plan_tools import PlanToolsEngine

FIELDS_TOKENS = 200
"""What a packet costs beside the words of its step and its files: the names of its fields, how to take it back."""
TRIES = 4
"""Each try is smaller by what the last one was too large by, and as a rule the second fits."""
ROLLBACK = "apply_changes answers with backup_id: undo_edit with undo_id set to it takes everything back"


def packet_rows(
    engine: "PlanToolsEngine", plan: "Plan", execution: "Execution", steps: "Iterable[PlanStep]"
) -> list[dict[str, Any]]:
    """A packet for each of these steps."""
    sources = engine.plans.sources()
    rows = []
    for step in steps:
        row, shown = _fit_packet(plan, execution, step, sources)
        engine.showed(shown)
        rows.append(row)
    return rows


def _fit_packet(
    plan: "Plan", execution: "Execution", step: "PlanStep", sources: "PlanSources"
) -> tuple[dict[str, Any], list[str]]:
    """The packet of a step as a row that costs no more than it may, and the files that it shows."""
    from context_engine.plans.work_packets import TOKENS_MAX, build_packet

    room, over, count = TOKENS_MAX - FIELDS_TOKENS, 0, sources.team.count
    for _ in range(TRIES):
        made = build_packet(plan, step, sources.code, count, tokens_max=room)
        row = _packet_row(made, execution.steps[step.uid].status)
        if (over := count(compact_json(row)) - TOKENS_MAX) <= 0:
            break
        room -= over
    if over > 0:
        row |= {"why": cut_to_size(step.title, TOKENS_MAX), "files": row.get("files", [])[:1]}
    return row, [file.path for file in made.files if file.sha]


def _packet_row(made: "WorkPacket", status: str) -> dict[str, Any]:
    step = made.step
    row = {
        "step": made.number,
        "uid": step.uid,
        "title": step.title,
        "status": status,
        "why": step.description,
        "waits_for": list(made.waits_for),
        "files": [_file_row(each) for each in made.files],
        "files_left_out": made.left_out or None,
        "symbols": list(made.symbols),
        "acceptance_criteria": list(step.acceptance_criteria),
        "checks": list(step.checks),
        "rollback": ROLLBACK,
    }
    return drop_empty(row)


def _file_row(file: "PacketFile") -> dict[str, Any]:
    row = {
        "path": file.path,
        "change": file.change,
        "sha": file.sha[:SHA_CHARS],
        "why": file.why,
        "note": "it is not there now" if not file.sha and file.change != "create" else "",
        "snippets": [
            drop_empty({"lines": str(each.span), "symbol": each.symbol, "text": each.text}) for each in file.snippets
        ],
    }
    return drop_empty(row)
