"""`ctx plans`: what a team wants to do, as tables; how far it is, as it happens; and the yes or no of a person."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.cli.call_command import call_for_text, drop_unset, print_reply
from context_engine.cli.console import (
    Cell,
    confirm,
    ensure_index,
    err,
    escape_text,
    format_age,
    out,
    print_markdown,
    print_note,
    print_table,
)
from context_engine.cli.workspace_root import resolve_root
from context_engine.engine import Engine
from context_engine.errors import Conflict, InvalidArgument, PlanNotFound
from context_engine.plans.plan_diff import compare_plans
from context_engine.plans.plan_listing import PlanQuery, make_slugs, resolve_slug
from context_engine.plans.plan_markdown import render_difference, render_history, render_plan
from context_engine.storage import timestamps

if TYPE_CHECKING:
    from context_engine.plans.approval_service import ApprovalOutcome, ApprovalRequest
    from context_engine.plans.plan_listing import PlanRow

INTERRUPTED = 130
NOTHING_FOUND = 1
"""As `ctx search`: an empty list is exit code 1."""
BAR_CHARS = 10
REQUEST = "apr_"
"""How the id of a request for approval begins."""
FILES_SHOWN = 8
STYLES = {
    "executing": "blue", "completed": "green", "failed": "red", "stalled": "red", "damaged": "red",
    "needs_clarification": "yellow", "approved": "cyan", "archived": "dim", "draft": "dim",
}  # fmt: skip


# -- looking ----------------------------------------------------------------------------------------------------------


def list_plans(root: Path | None, wanted: PlanQuery, *, as_json: bool) -> int:
    """Plans, newest change first; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        if as_json:
            asked = drop_unset(status=wanted.status, tags=wanted.tags, query=wanted.query, sort_by=wanted.sort_by)
            return print_reply(engine, "list_plans", asked | {"limit": wanted.limit})
        rows, found, now = _all_plans(engine), engine.plans.repository.list_page(wanted), engine.now()
    if not found.rows:
        there = f"There are {len(rows)} others: ask for less." if rows else "make one with ctx plans create"
        err.print(f"[yellow]no plans[/yellow]: {there}")
        return NOTHING_FOUND
    by_id = make_slugs((row.id, row.name) for row in rows)
    print_table(
        ("plan", "status", "progress", "steps", "changed", "goal"),
        [_row(row, by_id[row.id], format_age(timestamps.parse_timestamp(row.updated_at), now)) for row in found.rows],
    )
    if len(found.rows) < found.total:
        print_note(f"{len(found.rows)} of {found.total:,} plans")
    for row in found.rows:
        if row.problem:
            err.print(f"[yellow]warning:[/yellow] {escape_text(f'{row.id}: {row.problem}')}")
    return 0


def _row(row: PlanRow, handle: str, changed: str) -> list[Cell]:
    status = row.status.replace("_", " ")
    return [
        (handle, "bold cyan"),
        (status, STYLES.get(row.status, "")),
        format_bar(row.progress),
        str(row.step_count),
        changed,
        row.goal or row.name,
    ]


def format_bar(percentage: float) -> str:
    """How far something is, at a glance.

    >>> format_bar(0), format_bar(43.2), format_bar(99.9)
    ('░░░░░░░░░░   0 %', '████░░░░░░  43 %', '█████████░  99 %')
    """
    filled = int(percentage * BAR_CHARS / 100)
    return f"{'█' * filled}{'░' * (BAR_CHARS - filled)} {int(percentage):>3} %"


def show(root: Path | None, which: str, version: int | None, html: Path | None, *, as_json: bool) -> int:
    """One plan to read, or as a page for the browser; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        plan_id = _resolve_plan(engine, which)
        if as_json:
            return print_reply(engine, "load_plan", drop_unset(plan_id=plan_id, version=version))
        loaded = engine.plans.repository.load(plan_id, version)
        drift = engine.plans.repository.drift(loaded.plan)
        versions, _ = engine.plans.repository.history(plan_id) if html else ((), ())
    for warning in (*loaded.warnings, *drift.warnings):
        err.print(f"[yellow]warning:[/yellow] {escape_text(warning)}")
    if html:
        from context_engine.plans.plan_html import render_html
        from context_engine.repo.file_writer import write_atomic

        written = render_html(loaded.plan, loaded.execution, loaded.approvals, versions).encode()
        write_atomic(html.expanduser().absolute(), written)
        print_note(f"{html}: {len(written) // 1000:,} kB, opens in any browser, needs no network")
        return 0
    print_markdown(render_plan(loaded.plan, loaded.execution))
    if drift.files_missing or drift.files_changed:
        print_note(
            f"since the plan was made: {_format_paths(drift.files_missing, 'gone')}{_format_paths(drift.files_changed, 'changed')}"
        )
    return 0


def _format_paths(paths: Sequence[str], what: str) -> str:
    more = f" and {len(paths) - FILES_SHOWN} more" if len(paths) > FILES_SHOWN else ""
    return f"{what} {', '.join(paths[:FILES_SHOWN])}{more}  " if paths else ""


def history(root: Path | None, which: str, number: int, *, as_json: bool) -> int:
    """The versions of a plan, newest first; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        plan_id = _resolve_plan(engine, which)
        if as_json:
            return print_reply(engine, "view_history", {"plan_id": plan_id, "limit": number})
        versions, damaged = engine.plans.repository.history(plan_id)
    print_markdown(render_history(versions[:number]))
    if len(versions) > number:
        print_note(f"{number} of {len(versions):,} versions")
    for each in damaged:
        err.print(f"[yellow]warning:[/yellow] {escape_text(each)}")
    return 0


def diff(root: Path | None, which: str, first: int | None, last: int | None, *, as_json: bool) -> int:
    """What changed between two versions: by default the newest and the one before; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        desk = engine.plans.repository
        plan_id = _resolve_plan(engine, which)
        newest = desk.load(plan_id).versions[-1]
        until = last or newest
        since = first or until - 1
        if since < 1:
            raise InvalidArgument(
                "the plan has one version, so there is nothing to compare", suggestion="See it with ctx plans show."
            )
        if as_json:
            asked = {"plan_id": plan_id, "from_version": since, "to_version": until}
            return print_reply(engine, "compare_plan_versions", asked)
        found = compare_plans(desk.load(plan_id, since).plan, desk.load(plan_id, until).plan)
    print_markdown(render_difference(found))
    return 0


def progress(root: Path | None, which: str, *, watch: bool, as_json: bool) -> int:
    """How far a plan is; the exit code."""
    from context_engine.cli import watch_progress

    with Engine.open(resolve_root(root)) as engine:
        plan_id = _resolve_plan(engine, which)
        if as_json:
            return print_reply(engine, "view_progress", {"plan_id": plan_id})
        steps = engine.plans.steps
        if watch:
            return watch_progress.watch(lambda: steps.read_state(plan_id), engine.now)
        return watch_progress.print_progress(steps.read_state(plan_id), engine.now())


def archive(root: Path | None, which: str) -> int:
    """Put a plan away, its older versions packed; it stays readable; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        packed = engine.plans.repository.archive(_resolve_plan(engine, which), author="user")
    out.print(f"archived; {packed} older versions were packed")
    return 0


# -- making -----------------------------------------------------------------------------------------------------------


def create(root: Path | None, task: str, told: dict[str, Any], *, as_json: bool) -> int:
    """Make a plan out of the repository, keep it and show it; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        if not ensure_index(engine, "planned"):
            return INTERRUPTED
        made = call_for_text(engine, "create_plan", {"task": task, **told})
        if as_json:
            print(made)
            return 0
        reply = json.loads(made)
        loaded = engine.plans.repository.load(reply["persistence"]["plan_id"])
        handle = make_slugs((row.id, row.name) for row in _all_plans(engine))[loaded.plan.id]
    print_markdown(render_plan(loaded.plan))
    for warning in reply.get("warnings", ()):
        err.print(f"[yellow]warning:[/yellow] {escape_text(warning)}")
    print_note(f"kept as {handle}: ctx plans show {handle} --html plan.html; ctx plans approve {handle}")
    return 0


# -- deciding ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApprovalVerdict:
    """What somebody at the terminal says about a request. `version`: refused unless that is the plan's newest."""

    action: str = "approve"
    comment: str = ""
    changes: str = ""
    steps: tuple[str, ...] = ()
    version: int | None = None
    sure: bool = False


def approve(root: Path | None, which: str, said: ApprovalVerdict, *, as_json: bool) -> int:
    """Decide about a request for approval, or about a plan for which nobody asked; the exit code.

    What is decided where no terminal is, counts as the word of a program. Raises: InvalidArgument when nobody can be asked.
    """
    from context_engine.plans.approval_service import AGENT, PERSON

    is_person = sys.stdin.isatty()
    if not (is_person or said.sure):
        raise InvalidArgument(
            "this is no terminal, so nobody can be asked",
            suggestion="Repeat it with --yes; it is recorded as an agent's.",
        )
    with Engine.open(resolve_root(root)) as engine:
        asked = _find_request(engine, which, said)
        if said.version not in (None, asked.plan.version):
            raise Conflict(
                f"the plan is at version {asked.plan.version}, not {said.version}",
                suggestion=f"See what changed: ctx plans diff {which} {said.version} {asked.plan.version}.",
                details={"current": asked.plan.version},
            )
        if not said.sure and not _confirm(asked, said.action):
            err.print("nothing was decided")
            return NOTHING_FOUND
        decided = engine.plans.approvals.respond(
            asked.approval.id,
            said.action,
            comment=said.comment,
            modifications=said.changes,
            by=PERSON if is_person else AGENT,
        )
    _print_outcome(decided, as_json=as_json)
    return 0


def _find_request(engine: Engine, which: str, said: ApprovalVerdict) -> ApprovalRequest:
    """The request that is meant: by its id, the one that is pending for a plan, or one that is made now.

    Raises: InvalidArgument when several are pending, ApprovalNotFound, PlanNotFound.
    """
    approvals = engine.plans.approvals
    if which.startswith(REQUEST):
        return approvals.get(which)
    plan_id = _resolve_plan(engine, which)
    pending = [each.id for each in engine.plans.repository.load(plan_id).approvals if each.status == "pending"]
    if said.steps or not pending:
        return approvals.request(plan_id, steps=said.steps, actor="user")
    if len(pending) > 1:
        raise InvalidArgument(
            f"{len(pending)} requests are pending for this plan: {', '.join(pending)}",
            suggestion="Name one of them, or the steps: --step 2.",
            details={"requests": pending},
        )
    return approvals.get(pending[0])


def _confirm(asked: ApprovalRequest, action: str) -> bool:
    """Show what is to be decided, and ask."""
    from context_engine.plans.plan_diff import compute_diffstat

    planned = compute_diffstat(asked.plan, asked.steps, lambda _path: None)
    paths = [each.path for each in planned.files]
    err.print(f"[bold]{escape_text(asked.plan.goal)}[/bold], version {asked.plan.version}")
    for step in asked.steps:
        err.print(f"  {asked.plan.steps.index(step) + 1}. {escape_text(step.title)}")
    err.print(f"  {escape_text(_format_paths(paths, f'{planned.summary}:')) or 'no files'}".rstrip())
    for risk in asked.plan.risks:
        err.print(f"  [yellow]risk[/yellow] {escape_text(risk.issue)}")
    return confirm(f"{action.replace('_', ' ').capitalize()}?")


def _print_outcome(decided: ApprovalOutcome, *, as_json: bool) -> None:
    from context_engine.tools.plan_tools import approval_row
    from context_engine.tools.truncate import compact_json

    request = approval_row(decided.approval, decided.plan)
    if as_json:
        print(compact_json({"ok": True, "request": request, "plan_status": decided.plan_status}))
        return
    about = f"steps {', '.join(map(str, request['steps']))}" if "steps" in request else "the whole plan"
    status = decided.approval.status.replace("_", " ")
    out.print(f"{status}: {about}, version {decided.approval.plan_version}, by {decided.approval.decided_by}")
    out.print(f"[dim]the plan is {decided.plan_status.replace('_', ' ')}[/dim]")


# -- which plan -------------------------------------------------------------------------------------------------------


def _resolve_plan(engine: Engine, which: str) -> str:
    """The id of the plan that was typed; nothing typed means the one that changed last. Raises: PlanNotFound."""
    rows = _all_plans(engine)
    if which:
        return engine.plans.repository.resolve_id(
            resolve_slug(which, make_slugs((row.id, row.name) for row in rows), is_begun=True)
        )
    if not rows:
        raise PlanNotFound("there is no plan yet", suggestion="Make one with ctx plans create.")
    return rows[0].id


def _all_plans(engine: Engine) -> tuple[PlanRow, ...]:
    """Every plan, the one that changed last first."""
    return engine.plans.repository.list_page(PlanQuery(limit=sys.maxsize)).rows
