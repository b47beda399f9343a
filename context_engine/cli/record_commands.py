"""Commands on plans and memories that are not views of one tool, and how people name plans and memories."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine import plans, tools
from context_engine.cli import shell_completion
from context_engine.cli.command_runner import INTERRUPTED, NOTHING_FOUND
from context_engine.cli.common_options import AsJson, Root, Yes, command_group
from context_engine.cli.next_commands import name_commands
from context_engine.cli.progress import ensure_index
from context_engine.cli.screens import process_screen
from context_engine.cli.tool_commands import Values
from context_engine.cli.workspace_choice import open_engine, print_json
from context_engine.errors import Conflict, InvalidArgument, PlanNotFound
from context_engine.secrets import redact_file
from context_engine.text import compact_json, drop_empty, ids_ending_with, join_first

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.memory import MemoryEntry

REQUEST_PREFIX = "apr_"
"""The ids of approval requests begin with this."""
RULES_CHARS_MAX = 100_000
"""Of the page with all rules: more than anyone reads, and a limit all the same."""
FILES_SHOWN = 8

plan_app = command_group("plan", "List, create, read and approve plans, and follow their progress.")
memory_app = command_group("memory", "Manage team memories.")


# -- how people name plans and memories -------------------------------------------------------------------------------


def resolve_plan(engine: Engine, typed: str) -> str:
    """Return the id of the plan that was typed; by default the most recently changed plan. Raises: PlanNotFound."""
    if typed:
        return engine.plans.repository.resolve_id(typed, by_prefix=True)
    rows = engine.plans.repository.list_page(plans.PlanQuery(limit=1)).rows
    if not rows:
        raise PlanNotFound("there is no plan yet", suggestion="Run `ctx plan create TASK` to make one.")
    return rows[0].id


def find_plan(engine: Engine, _: Path, values: Values) -> Values:
    """Return the plan of a command."""
    return {"plan_id": resolve_plan(engine, values["plan_id"])}


def sort_names(_: Engine, __: Path, values: Values) -> Values:
    """Return the order of a list: names from A to Z, everything else with the newest or the most first."""
    return {"sort_order": "asc"} if values["sort_by"] == "name" else {}


def find_progress(engine: Engine, folder: Path, values: Values) -> Values:
    """Return the plan of a command, and that its steps are wanted."""
    return {**find_plan(engine, folder, values), "include_steps": True}


def find_versions(engine: Engine, _: Path, values: Values) -> Values:
    """Return the plan and the two versions to compare; by default the newest and the one before."""
    plan_id = resolve_plan(engine, values["plan_id"])
    last = values["to_version"] or engine.plans.repository.load(plan_id).versions[-1]
    first = values["from_version"] or int(last) - 1
    if not first:
        problem = "the plan has only one version, so there is nothing to compare"
        raise InvalidArgument(problem, suggestion="Run `ctx plan show` to read it.")
    return {"plan_id": plan_id, "from_version": first, "to_version": last}


def find_memory(engine: Engine, name: str) -> MemoryEntry:
    """Return the memory with this id, or with this end of an id.

    Raises: MemoryNotFound, InvalidArgument when several ids end like that.
    """
    ids = [entry.memory.id for entry in engine.memory.memories.entries() if entry.memory]
    found = [name] if name in ids else ids_ending_with(name, ids)
    if len(found) > 1:
        step = f"Write more: {', '.join(found[:3])}."
        raise InvalidArgument(f"{len(found)} memories end with {name!r}", suggestion=step)
    return engine.memory.memories.get(found[0] if found else name)


def read_content(_: Engine, __: Path, values: Values) -> Values:
    """Return the content of a new memory; `-` reads stdin."""
    return {"content": sys.stdin.read()} if values["content"] == "-" else {}


def find_edited(engine: Engine, folder: Path, values: Values) -> Values:
    """Return the memory to edit with its version. Raises: InvalidArgument if nothing is to be changed."""
    if not any(value for name, value in values.items() if name not in ("id", "root", "as_json")):
        raise InvalidArgument(
            "no option says what to change",
            suggestion="Pass --content, --title, --tag, ... or --revalidate; `ctx memory show` names its file.",
        )
    return {**_name_memory(find_memory(engine, values["id"])), **read_content(engine, folder, values)}


def confirm_deletion(engine: Engine, _: Path, values: Values) -> Values:
    """Return the memory to delete, after the user agreed. Raises: InvalidArgument where no one can be asked."""
    entry = find_memory(engine, values["id"])
    assert entry.memory
    if not (values["yes"] or sys.stdin.isatty()):
        raise InvalidArgument("stdin is not a terminal, so you cannot be asked", suggestion="Repeat it with --yes.")
    screen = process_screen()
    if not values["yes"] and not screen.confirm(f"Delete {entry.memory.title!r} permanently?"):
        screen.err.write("nothing was deleted")
        raise typer.Exit(NOTHING_FOUND)
    return _name_memory(entry)


def _name_memory(entry: MemoryEntry) -> Values:
    assert entry.memory
    return {"id": entry.memory.id, "expected_version": entry.version}


def learn(engine: Engine, _: Path, __: Values) -> Values:
    """Derive all that files and commits say, before it is searched."""
    engine.memory.run_to_end()
    return {}


# -- memories ---------------------------------------------------------------------------------------------------------


@memory_app.command("show")
def memory_show(
    memory: Annotated[str, typer.Argument(metavar="ID", help="As ctx memory list shows it, or the whole id.")],
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Show one memory in full, with its status."""
    with open_engine(root) as engine:
        entry = find_memory(engine, memory)
        status = engine.memory.memories.start_status_check()(entry)
    assert entry.memory
    row = dataclasses.asdict(entry.memory) | {"status": status.status, "stale_reason": status.why}
    if as_json:
        print(compact_json({"ok": True} | drop_empty(row | {"path": entry.path, "version": entry.version})))
        return
    title, content = row.pop("title"), row.pop("content")
    row["linked_files"] = [link.path for link in entry.memory.linked_files]
    row["file"] = entry.path
    out = process_screen().out
    out.show((title, "bold"))
    out.show_rows((name.replace("_", " "), tools.format_value(value)) for name, value in row.items())
    out.write("")
    out.show_markdown(content)


@memory_app.command("rules")
def memory_rules(root: Root = None, as_json: AsJson = False) -> None:
    """Print all valid rules and decisions with their sources: what an agent should know before it begins."""
    with open_engine(root) as engine:
        if not ensure_index(engine, "searched"):
            raise typer.Exit(INTERRUPTED)
        engine.memory.run_to_end()
        page = name_commands(tools.render_rules_page(engine, chars_max=RULES_CHARS_MAX))
    if as_json:
        print_json({"markdown": redact_file(page)})
    else:
        process_screen().out.show_markdown(page)


# -- plans ------------------------------------------------------------------------------------------------------------


@plan_app.command("approve")
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
    """Approve a plan or some of its steps, reject it, or ask for changes. The decision covers the version you see."""
    if reject and changes:
        raise InvalidArgument("--reject and --changes exclude each other", suggestion="Leave one of them out.")
    action = "reject" if reject else "request_modification" if changes else "approve"
    with open_engine(root) as engine:
        request = _find_request(engine, which, step or (), version, is_confirmed=yes)
        if not yes and not _confirm_decision(request, action):
            print("nothing was decided", file=sys.stderr)
            raise typer.Exit(NOTHING_FOUND)
        by = plans.PERSON if sys.stdin.isatty() else plans.AGENT
        outcome = engine.plans.approvals.respond(
            request.approval.id, action, comment=comment, modifications=changes, by=by
        )
    approval, row = outcome.approval, tools.approval_row(outcome.approval, outcome.plan)
    if as_json:
        print_json({"ok": True, "request": row, "plan_status": outcome.now.status})
        return
    about = f"steps {', '.join(map(str, row['steps']))}" if "steps" in row else "the whole plan"
    status = approval.status.replace("_", " ")
    print(f"{status}: {about}, version {approval.plan_version}, by {approval.decided_by}")
    print(f"status of the plan: {outcome.now.status.replace('_', ' ')}")


def _find_request(
    engine: Engine, which: str, steps: Sequence[str], version: int | None, *, is_confirmed: bool
) -> plans.ApprovalResult:
    """Return the request with this id, the pending request of a plan, or a new one.

    Raises: InvalidArgument when several are pending or no one can confirm, Conflict for another version,
    ApprovalNotFound, PlanNotFound.
    """
    is_request = which.startswith(REQUEST_PREFIX)
    plan_id = "" if is_request else resolve_plan(engine, which)
    if not (is_confirmed or sys.stdin.isatty()):
        raise InvalidArgument(
            "stdin is not a terminal, so no one can confirm this",
            suggestion=f"Run `ctx plan approve {which} --yes`; the decision is recorded as an agent's.",
        )
    approvals = engine.plans.approvals
    if is_request:
        pending, newest = [which], approvals.get(which).plan.version
    else:
        loaded = engine.plans.repository.load(plan_id)
        pending = [approval.id for approval in loaded.approvals if approval.status == "pending"]
        newest = loaded.plan.version
    if version not in (None, newest):
        raise Conflict(
            f"the plan is at version {newest}, not {version}",
            suggestion=f"Run `ctx plan diff {which} {version} {newest}` to see what changed.",
            details={"current": newest},
        )
    if steps or not pending:
        return approvals.request(plan_id, steps=tuple(steps), actor="user")
    if len(pending) > 1:
        raise InvalidArgument(
            f"{len(pending)} requests are pending for this plan: {', '.join(pending)}",
            suggestion="Name one of them, or the steps: --step 2.",
            details={"requests": pending},
        )
    return approvals.get(pending[0])


def _confirm_decision(request: plans.ApprovalResult, action: str) -> bool:
    """Show the steps, files and risks that a decision is about, and ask for confirmation."""
    diffstat = request.diffstat
    paths = [file.path for file in diffstat.files]
    screen = process_screen()
    screen.err.show((request.plan.goal, "bold"), f", version {request.plan.version}")
    for step in request.steps:
        screen.err.show(f"  {request.plan.steps.index(step) + 1}. {step.title}")
    screen.err.show(f"  {diffstat.summary}: {join_first(paths, FILES_SHOWN)}" if paths else "  no files")
    for risk in request.plan.risks:
        screen.err.show(("  risk", "yellow"), f" {risk.issue}")
    return screen.confirm(f"{action.replace('_', ' ').capitalize()}?")
