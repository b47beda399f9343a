"""`ctx plan`: list, create and read plans, follow their progress, and approve them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from context_engine.cli import shell_completion
from context_engine.cli.common_options import (
    INTERRUPTED,
    NOTHING_FOUND,
    AsJson,
    Root,
    Yes,
    command_group,
    open_engine,
    print_json,
)

if TYPE_CHECKING:
    from context_engine.cli.console import Cell
    from context_engine.engine import Engine
    from context_engine.plans import ApprovalOutcome, ApprovalRequest, PlanRow

BAR_CHARS = 10
REQUEST_PREFIX = "apr_"
"""The ids of approval requests begin with this."""
FILES_SHOWN = 8
STATUS_STYLES = {
    "executing": "blue", "completed": "green", "failed": "red", "stalled": "red", "damaged": "red",
    "needs_clarification": "yellow", "approved": "cyan", "archived": "dim", "draft": "dim",
}  # fmt: skip

LISTED_MAX = 200
"""The largest --limit of a list."""

app = command_group("plan", "List, create, read and approve plans, and follow their progress.")

PlanName = Annotated[
    str,
    typer.Argument(
        metavar="PLAN",
        help="The slug that ctx plan list shows, its name or its id.",
        autocompletion=shell_completion.complete_plans,
    ),
]
OptionalPlanName = Annotated[
    str,
    typer.Argument(
        metavar="[PLAN]",
        help="Its slug, its name or its id; default: the plan that changed last.",
        autocompletion=shell_completion.complete_plans,
    ),
]


@app.command("list")
def plan_list(
    root: Root = None,
    query: Annotated[str, typer.Option("--query", help="Only plans with these words.")] = "",
    status: Annotated[
        str,
        typer.Option(
            "--status", help="ready, executing, completed, ...", autocompletion=shell_completion.complete_plan_statuses
        ),
    ] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Must have this tag; repeatable.")] = None,
    sort: Annotated[
        Literal["updated_at", "created_at", "name", "progress"], typer.Option("--sort", help="Sort by this.")
    ] = "updated_at",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=LISTED_MAX, help="Most plans to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List plans with their status and progress, the most recently changed first.

    **Examples**

    - `ctx plan list`
    - `ctx plan list --status executing`
    - `ctx plan list --json | jq -r '.plans[].name'`
    """
    from context_engine import timestamps
    from context_engine.cli.console import format_age, notes, print_note, print_table
    from context_engine.cli.query_commands import describe_rest, drop_unset, print_reply, split_lists
    from context_engine.plans import PlanQuery
    from context_engine.text import format_count, make_slugs

    order = "asc" if sort == "name" else "desc"
    plan_query = PlanQuery(status.replace(" ", "_"), tuple(split_lists(tag or ())), query, sort, order, limit)
    with open_engine(root) as engine:
        if as_json:
            arguments = drop_unset(status=plan_query.status, tags=plan_query.tags, query=query, sort_by=sort)
            raise typer.Exit(print_reply(engine, "list_plans", arguments | {"limit": limit}))
        rows, page, now_s = _all_plans(engine), engine.plans.repository.list_page(plan_query), engine.now()
    if not page.rows:
        hint = "make one with ctx plan create"
        if rows:
            hint = f"there are {format_count(len(rows), 'plan')} without these filters"
        notes.print(f"[yellow]no plans[/yellow]: {hint}")
        raise typer.Exit(NOTHING_FOUND)
    slugs = make_slugs((row.id, row.name) for row in rows)
    print_table(
        ("plan", "status", "progress", "steps", "changed", "goal"),
        [
            _table_row(row, slugs[row.id], format_age(timestamps.parse_timestamp(row.updated_at), now_s))
            for row in page.rows
        ],
    )
    if len(page.rows) < page.total:
        print_note(describe_rest(len(page.rows), page.total, LISTED_MAX))
    _print_warnings(f"{row.id}: {row.problem}" for row in page.rows if row.problem)


@app.command("create")
def plan_create(
    task: Annotated[
        list[str], typer.Argument(metavar="TASK...", help="What to do, in a sentence or as an issue describes it.")
    ],
    root: Root = None,
    name: Annotated[str, typer.Option("--name", help="Name of the plan; default: the task.")] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Add this tag; repeatable.")] = None,
    files: Annotated[int, typer.Option("--files", min=1, max=30, help="Likely files to look at.")] = 8,
    include: Annotated[list[str] | None, typer.Option("--include", help="Only paths that match this glob.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="No paths that match this glob.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a plan from this repository: steps with files, tests, risks and questions. Needs no model.

    **Examples**

    - `ctx plan create Rename hash_password to derive_key`
    - `ctx plan create Retry failed requests --include 'src/**' --name retries`
    """
    from context_engine.cli.console import ensure_index, print_markdown, print_note
    from context_engine.cli.query_commands import call_for_text, drop_unset, split_lists
    from context_engine.plans import render_plan
    from context_engine.text import make_slugs

    options = drop_unset(
        save_name=name,
        save_tags=split_lists(tag or ()),
        include_paths=split_lists(include or ()),
        exclude_paths=split_lists(exclude or ()),
    )
    with open_engine(root) as engine:
        if not ensure_index(engine, "planned"):
            raise typer.Exit(INTERRUPTED)
        options |= {"max_context_files": files, "detail": as_json}
        text = call_for_text(engine, "create_plan", {"task": " ".join(task), **options})
        if as_json:
            print(text)
            return
        reply = json.loads(text)
        loaded = engine.plans.repository.load(reply["plan_id"])
        slug = make_slugs((row.id, row.name) for row in _all_plans(engine))[loaded.plan.id]
    print_markdown(render_plan(loaded.plan))
    _print_warnings(reply.get("warnings", ()))
    print_note(f"saved as {slug}: ctx plan show {slug}; ctx plan approve {slug}")


@app.command("show")
def plan_show(
    plan: OptionalPlanName = "",
    root: Root = None,
    version: Annotated[int | None, typer.Option("--version", min=1, help="This version instead of the newest.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a plan with its progress.

    **Examples**

    - `ctx plan show`
    - `ctx plan show retries > plan.md`
    - `ctx plan show retries --version 2`
    """
    from context_engine.cli.console import print_markdown, print_note
    from context_engine.cli.query_commands import drop_unset, print_reply
    from context_engine.plans import render_plan

    with open_engine(root) as engine:
        plan_id = _resolve_plan(engine, plan)
        if as_json:
            raise typer.Exit(print_reply(engine, "load_plan", drop_unset(plan_id=plan_id, version=version)))
        loaded = engine.plans.repository.load(plan_id, version)
        drift = engine.plans.repository.drift(loaded.plan)
    _print_warnings((*loaded.warnings, *drift.warnings))
    print_markdown(render_plan(loaded.plan, loaded.execution))
    changed = _format_paths(drift.files_missing, "gone") + _format_paths(drift.files_changed, "changed")
    if changed:
        print_note(f"since the plan was created: {changed}")


@app.command("progress")
def plan_progress(
    plan: OptionalPlanName = "",
    root: Root = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow the plan until it ends; Ctrl-C stops.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show which steps of a plan are done, running, ready or blocked.

    Exit codes with `--watch`: 0 the plan is completed, 1 it failed, 130 stopped before its end.

    **Examples**

    - `ctx plan progress`
    - `ctx plan progress retries --watch`
    """
    from context_engine.cli import watch_progress
    from context_engine.cli.query_commands import print_reply

    with open_engine(root) as engine:
        plan_id = _resolve_plan(engine, plan)
        if as_json:
            raise typer.Exit(print_reply(engine, "view_progress", {"plan_id": plan_id, "include_steps": True}))
        steps = engine.plans.steps
        if watch:
            raise typer.Exit(watch_progress.watch(lambda: steps.read_state(plan_id), engine.now))
        watch_progress.print_progress(steps.read_state(plan_id), engine.now())


@app.command("history")
def plan_history(
    plan: OptionalPlanName = "",
    root: Root = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=LISTED_MAX, help="Most versions to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the versions of a plan: when and by whom it was changed, and what changed.

    **Examples**

    - `ctx plan history retries`
    """
    from context_engine.cli.console import print_markdown, print_note
    from context_engine.cli.query_commands import describe_rest, print_reply
    from context_engine.plans import render_history

    with open_engine(root) as engine:
        plan_id = _resolve_plan(engine, plan)
        if as_json:
            raise typer.Exit(print_reply(engine, "view_history", {"plan_id": plan_id, "limit": limit}))
        versions, damages = engine.plans.repository.history(plan_id)
    print_markdown(render_history(versions[:limit]))
    if len(versions) > limit:
        print_note(describe_rest(limit, len(versions), LISTED_MAX))
    _print_warnings(damages)


@app.command("diff")
def plan_diff(
    plan: OptionalPlanName = "",
    first: Annotated[int | None, typer.Argument(metavar="[FROM]", min=1, help="Default: the one before.")] = None,
    last: Annotated[int | None, typer.Argument(metavar="[TO]", min=1, help="Default: the newest.")] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two versions of a plan, field by field.

    **Examples**

    - `ctx plan diff`
    - `ctx plan diff retries 1 3`
    """
    from context_engine.cli.console import print_markdown
    from context_engine.cli.query_commands import print_reply
    from context_engine.errors import InvalidArgument
    from context_engine.plans import compare_plans, render_difference

    with open_engine(root) as engine:
        repository, plan_id = engine.plans.repository, _resolve_plan(engine, plan)
        until = last or repository.load(plan_id).versions[-1]
        since = first or until - 1
        if since < 1:
            raise InvalidArgument(
                "the plan has only one version, so there is nothing to compare",
                suggestion="Run `ctx plan show` to read it.",
            )
        if as_json:
            arguments = {"plan_id": plan_id, "from_version": since, "to_version": until}
            raise typer.Exit(print_reply(engine, "compare_plan_versions", arguments))
        difference = compare_plans(repository.load(plan_id, since).plan, repository.load(plan_id, until).plan)
    print_markdown(render_difference(difference))


@app.command("archive")
def plan_archive(plan: PlanName, root: Root = None, as_json: AsJson = False) -> None:
    """Archive a plan: all its versions stay readable, old ones are packed into less space.

    **Examples**

    - `ctx plan archive retries`
    """
    from context_engine.cli.console import out
    from context_engine.text import format_count

    with open_engine(root) as engine:
        plan_id = _resolve_plan(engine, plan)
        packed = engine.plans.repository.archive(plan_id, author="user")
    if as_json:
        print_json({"archived": plan_id, "versions_packed": packed})
    else:
        out.print(f"archived; {format_count(packed, 'older version')} packed")


# -- approval ---------------------------------------------------------------------------------------------------------


class ApprovalVerdict(NamedTuple):
    """A decision from the terminal. With `version` it is refused unless that is the newest version of the plan."""

    action: str = "approve"
    comment: str = ""
    changes: str = ""
    steps: tuple[str, ...] = ()
    version: int | None = None
    is_confirmed: bool = False


@app.command("approve")
def plan_approve(
    which: Annotated[
        str,
        typer.Argument(
            metavar="REQUEST|PLAN",
            help="An approval request, or a plan.",
            autocompletion=shell_completion.complete_plans,
        ),
    ],
    root: Root = None,
    step: Annotated[list[str] | None, typer.Option("--step", help="Only this step; repeatable.")] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Reject it.")] = False,
    changes: Annotated[str, typer.Option("--changes", help="Ask for these changes first.")] = "",
    comment: Annotated[str, typer.Option("--comment", help="Why.")] = "",
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="Refuse if this is no longer the newest version.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Approve a plan or some of its steps, reject it, or ask for changes. The decision covers the version you see.

    It is recorded as the decision of a person when stdin is a terminal, otherwise as that of an agent.

    **Examples**

    - `ctx plan approve retries`
    - `ctx plan approve retries --step 2 --step 3`
    - `ctx plan approve apr_01a2... --reject --comment "not before the release"`
    - `ctx plan approve retries --changes "keep the old name as an alias"`
    """
    from context_engine.errors import InvalidArgument

    if reject and changes:
        raise InvalidArgument("--reject and --changes exclude each other", suggestion="Leave one of them out.")
    action = "approve"
    if reject or changes:
        action = "reject" if reject else "request_modification"
    verdict = ApprovalVerdict(action, comment, changes, tuple(step or ()), version, yes)
    raise typer.Exit(_decide(root, which, verdict, as_json=as_json))


def _decide(root: Path | None, which: str, verdict: ApprovalVerdict, *, as_json: bool) -> int:
    """Decide about an approval request, or about a plan without one; return the exit code.

    Raises: InvalidArgument when confirmation is needed and stdin is not a terminal.
    """
    from context_engine.cli.console import err
    from context_engine.errors import Conflict, InvalidArgument
    from context_engine.plans import AGENT, PERSON

    is_person = sys.stdin.isatty()
    with open_engine(root) as engine:
        if not which.startswith(REQUEST_PREFIX):
            _resolve_plan(engine, which)
        if not (is_person or verdict.is_confirmed):
            raise InvalidArgument(
                "stdin is not a terminal, so no one can confirm this",
                suggestion=f"Run `ctx plan approve {which} --yes`; the decision is recorded as an agent's.",
            )
        request = _find_request(engine, which, verdict)
        newest = request.plan.version
        if verdict.version not in (None, newest):
            raise Conflict(
                f"the plan is at version {newest}, not {verdict.version}",
                suggestion=f"Run `ctx plan diff {which} {verdict.version} {newest}` to see what changed.",
                details={"current": newest},
            )
        if not verdict.is_confirmed and not _confirm_action(request, verdict.action):
            err.print("nothing was decided")
            return NOTHING_FOUND
        outcome = engine.plans.approvals.respond(
            request.approval.id,
            verdict.action,
            comment=verdict.comment,
            modifications=verdict.changes,
            by=PERSON if is_person else AGENT,
        )
    _print_outcome(outcome, as_json=as_json)
    return 0


def _find_request(engine: Engine, which: str, verdict: ApprovalVerdict) -> ApprovalRequest:
    """Return the request with this id, the pending request of a plan, or a new one.

    Raises: InvalidArgument when several are pending, ApprovalNotFound, PlanNotFound.
    """
    from context_engine.errors import InvalidArgument

    approvals = engine.plans.approvals
    if which.startswith(REQUEST_PREFIX):
        return approvals.get(which)
    plan_id = _resolve_plan(engine, which)
    loaded = engine.plans.repository.load(plan_id)
    pending = [approval.id for approval in loaded.approvals if approval.status == "pending"]
    if verdict.steps or not pending:
        return approvals.request(plan_id, steps=verdict.steps, actor="user")
    if len(pending) > 1:
        raise InvalidArgument(
            f"{len(pending)} requests are pending for this plan: {', '.join(pending)}",
            suggestion="Name one of them, or the steps: --step 2.",
            details={"requests": pending},
        )
    return approvals.get(pending[0])


def _confirm_action(request: ApprovalRequest, action: str) -> bool:
    """Show what the decision is about, and ask for confirmation."""
    from context_engine.cli.console import confirm, err, escape_text
    from context_engine.plans import compute_diffstat

    diffstat = compute_diffstat(request.plan, request.steps, lambda _path: None)
    files = _format_paths([file.path for file in diffstat.files], f"{diffstat.summary}:")
    err.print(f"[bold]{escape_text(request.plan.goal)}[/bold], version {request.plan.version}")
    for step in request.steps:
        err.print(f"  {request.plan.steps.index(step) + 1}. {escape_text(step.title)}")
    err.print(f"  {escape_text(files) or 'no files'}".rstrip())
    for risk in request.plan.risks:
        err.print(f"  [yellow]risk[/yellow] {escape_text(risk.issue)}")
    return confirm(f"{action.replace('_', ' ').capitalize()}?")


def _print_outcome(outcome: ApprovalOutcome, *, as_json: bool) -> None:
    from context_engine.cli.console import out
    from context_engine.text import compact_json
    from context_engine.tools import approval_row

    approval = outcome.approval
    row = approval_row(approval, outcome.plan)
    if as_json:
        print(compact_json({"ok": True, "request": row, "plan_status": outcome.plan_status}))
        return
    about = "the whole plan"
    if "steps" in row:
        about = f"steps {', '.join(map(str, row['steps']))}"
    status = approval.status.replace("_", " ")
    out.print(f"{status}: {about}, version {approval.plan_version}, by {approval.decided_by}")
    out.print(f"[dim]status of the plan: {outcome.plan_status.replace('_', ' ')}[/dim]")


# -- helpers ----------------------------------------------------------------------------------------------------------


def _table_row(row: PlanRow, slug: str, changed: str) -> list[Cell]:
    status = (row.status.replace("_", " "), STATUS_STYLES.get(row.status, ""))
    goal = row.goal or row.name
    return [(slug, "bold cyan"), status, format_bar(row.progress), str(row.step_count), changed, goal]


def format_bar(percentage: float) -> str:
    """Format a percentage as a bar of ten characters.

    >>> format_bar(0), format_bar(43.2), format_bar(99.9)
    ('░░░░░░░░░░   0 %', '████░░░░░░  43 %', '█████████░  99 %')
    """
    filled = int(percentage * BAR_CHARS / 100)
    return f"{'█' * filled}{'░' * (BAR_CHARS - filled)} {int(percentage):>3} %"


def _format_paths(paths: Sequence[str], label: str) -> str:
    more = ""
    if len(paths) > FILES_SHOWN:
        more = f" and {len(paths) - FILES_SHOWN} more"
    if paths:
        return f"{label} {', '.join(paths[:FILES_SHOWN])}{more}  "
    return ""


def _print_warnings(warnings: Iterable[str]) -> None:
    from context_engine.cli.console import escape_text, notes

    for warning in warnings:
        notes.print(f"[yellow]warning:[/yellow] {escape_text(warning)}")


def _resolve_plan(engine: Engine, typed: str) -> str:
    """Return the id of the plan that was typed; by default the most recently changed plan. Raises: PlanNotFound."""
    from context_engine.errors import PlanNotFound

    rows = _all_plans(engine)
    if typed:
        return engine.plans.repository.resolve_id(typed, by_prefix=True)
    if not rows:
        raise PlanNotFound("there is no plan yet", suggestion="Run `ctx plan create TASK` to make one.")
    return rows[0].id


def _all_plans(engine: Engine) -> tuple[PlanRow, ...]:
    """Return every plan, the most recently changed first."""
    from context_engine.plans import PlanQuery

    return engine.plans.repository.list_page(PlanQuery(limit=sys.maxsize)).rows
