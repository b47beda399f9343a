"""The commands of `ctx plans`: what can be typed. What they do stands in `plans.py`, which is imported when one of them runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from context_engine.cli import shell_completion
from context_engine.cli.common_options import AsJson, Root

app = typer.Typer(
    name="plans",
    help="Plans: what is to be done, how far it is, who said yes.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Which = Annotated[
    str,
    typer.Argument(
        metavar="PLAN",
        help="Its short name as ctx plans list shows it, its name or its id.",
        autocompletion=shell_completion.complete_plans,
    ),
]
MaybeWhich = Annotated[
    str,
    typer.Argument(
        metavar="[PLAN]",
        help="Its short name, its name or its id; default: the plan that changed last.",
        autocompletion=shell_completion.complete_plans,
    ),
]


@app.command("list")
def plans_list(
    root: Root = None,
    query: Annotated[str, typer.Option("--query", help="Only plans with these words.")] = "",
    status: Annotated[
        str,
        typer.Option(
            "--status", help="ready, executing, completed, ...", autocompletion=shell_completion.complete_plan_statuses
        ),
    ] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Must carry this tag; repeatable.")] = None,
    sort: Annotated[
        Literal["updated_at", "created_at", "name", "progress"], typer.Option("--sort", help="By what.")
    ] = "updated_at",
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=200, help="How many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List plans with their status and progress, the one that changed last first.

    **Examples**

    - `ctx plans list`
    - `ctx plans list --status executing`
    - `ctx plans list --json | jq -r '.plans[].name'`
    """
    from context_engine.cli.plans import list_plans
    from context_engine.plans.plan_listing import PlanQuery

    order = "asc" if sort == "name" else "desc"
    wanted = PlanQuery(status.replace(" ", "_"), tuple(tag or ()), query, sort, order, number)
    raise typer.Exit(list_plans(root, wanted, as_json=as_json))


@app.command("create")
def plans_create(
    task: Annotated[str, typer.Argument(help="What to do, in a sentence or as an issue says it.")],
    root: Root = None,
    name: Annotated[str, typer.Option("--name", help="What to call it; default: the task.")] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", help="To find it by; repeatable.")] = None,
    files: Annotated[int, typer.Option("--files", min=1, max=30, help="Likely files to look at.")] = 8,
    include: Annotated[list[str] | None, typer.Option("--include", help="Only paths like this glob.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="No paths like this glob.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a plan out of this repository: steps with files, places, tests, risks and questions. Needs no model.

    **Examples**

    - `ctx plans create "Rename hash_password to derive_key"`
    - `ctx plans create "Retry failed requests" --include 'src/**' --name retries`
    """
    from context_engine.cli.call_command import drop_unset
    from context_engine.cli.plans import create

    told = drop_unset(save_name=name, save_tags=tag, include_paths=include, exclude_paths=exclude)
    raise typer.Exit(create(root, task, told | {"max_context_files": files}, as_json=as_json))


@app.command("show")
def plans_show(
    plan: MaybeWhich = "",
    root: Root = None,
    version: Annotated[int | None, typer.Option("--version", min=1, help="Not the newest but this one.")] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write it as one HTML file with its Mermaid source; it needs no network."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a plan with what is done of it, at the terminal or as one page for the browser.

    **Examples**

    - `ctx plans show`
    - `ctx plans show retries --html plan.html`
    - `ctx plans show retries --version 2`
    """
    from context_engine.cli.plans import show

    raise typer.Exit(show(root, plan, version, html, as_json=as_json))


@app.command("progress")
def plans_progress(
    plan: MaybeWhich = "",
    root: Root = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Stay until the plan has ended; Ctrl-C leaves.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how far a plan is: what is done, running, ready, held up. With `--watch` it follows whoever carries it out.

    Exit codes with `--watch`: 0 the plan is completed, 1 it failed, 130 left before its end.

    **Examples**

    - `ctx plans progress`
    - `ctx plans progress retries --watch`
    """
    from context_engine.cli.plans import progress

    raise typer.Exit(progress(root, plan, watch=watch, as_json=as_json))


@app.command("history")
def plans_history(
    plan: MaybeWhich = "",
    root: Root = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=200, help="How many versions.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the versions of a plan: when, by whom, what changed.

    **Examples**

    - `ctx plans history retries`
    """
    from context_engine.cli.plans import history

    raise typer.Exit(history(root, plan, number, as_json=as_json))


@app.command("diff")
def plans_diff(
    plan: MaybeWhich = "",
    first: Annotated[int | None, typer.Argument(metavar="[FROM]", min=1, help="Default: the one before.")] = None,
    last: Annotated[int | None, typer.Argument(metavar="[TO]", min=1, help="Default: the newest.")] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two versions of a plan, field by field.

    **Examples**

    - `ctx plans diff`
    - `ctx plans diff retries 1 3`
    """
    from context_engine.cli.plans import diff

    raise typer.Exit(diff(root, plan, first, last, as_json=as_json))


@app.command("approve")
def plans_approve(
    which: Annotated[
        str,
        typer.Argument(
            metavar="REQUEST|PLAN", help="A request, or a plan.", autocompletion=shell_completion.complete_plans
        ),
    ],
    root: Root = None,
    step: Annotated[list[str] | None, typer.Option("--step", help="Only this step; repeatable.")] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Say no.")] = False,
    changes: Annotated[str, typer.Option("--changes", help="Say what is to be different first.")] = "",
    comment: Annotated[str, typer.Option("--comment", help="Why.")] = "",
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="Refuse if this is not the newest version any more.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say yes to a plan, or to steps of it; or no, or not yet. It holds for the version that you see.

    At a terminal it is recorded as the word of a person, elsewhere as that of an agent.

    **Examples**

    - `ctx plans approve retries`
    - `ctx plans approve retries --step 2 --step 3`
    - `ctx plans approve apr_01a2... --reject --comment "not before the release"`
    - `ctx plans approve retries --changes "keep the old name as an alias"`
    """
    from context_engine.cli.plans import ApprovalVerdict, approve
    from context_engine.errors import InvalidArgument

    if reject and changes:
        raise InvalidArgument("--reject and --changes cannot be meant together", suggestion="Leave one of them out.")
    action = "reject" if reject else "request_modification" if changes else "approve"
    said = ApprovalVerdict(action, comment, changes, tuple(step or ()), version, yes)
    raise typer.Exit(approve(root, which, said, as_json=as_json))


@app.command("archive")
def plans_archive(plan: Which, root: Root = None) -> None:
    """Put a plan away that nobody needs at hand: it and all its versions stay readable, old ones take less room.

    **Examples**

    - `ctx plans archive retries`
    """
    from context_engine.cli.plans import archive

    raise typer.Exit(archive(root, plan))
