"""The commands of `ctx`, in the order of `ctx --help`. Each command imports what it needs when it runs.

Exit codes: 0 found or done, 1 nothing found or the answer no, 2 error (two lines say what and the next step), 3 a
review found what `--fail-on` names, 130 interrupted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from context_engine import __version__
from context_engine.cli import (
    chunk_commands,
    daemon_commands,
    shell_completion,
    workspace_commands,
)
from context_engine.cli.command_runner import run_to_exit_code
from context_engine.cli.command_table import MEMORIES, PLANS, QUERIES, RECORDS
from context_engine.cli.common_options import AsJson, CommandApp, CommandGroup, HelpCommand, Root, WorkspaceName, Yes
from context_engine.cli.record_commands import memory_app, plan_app
from context_engine.cli.tool_commands import add_commands, build_parameters
from context_engine.team_parts import load_team_part

TEAM_COMMANDS = ("store", "job", "token")


class MainGroup(CommandGroup):
    """The commands of `ctx`; those for a team are imported when one of them is named, or when all are listed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those for a team after `workspace`."""
        names = [name for name in super().list_commands(ctx) if name not in TEAM_COMMANDS]
        after = names.index("workspace") + 1
        return [*names[:after], *TEAM_COMMANDS, *names[after:]]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None for an unknown name."""
        if cmd_name in TEAM_COMMANDS:
            return typer.main.get_command(load_team_part(cmd_name))
        return super().get_command(ctx, cmd_name)


app = CommandApp(
    name="ctx",
    cls=MainGroup,
    help="Find the right code in a repository, at the terminal and for coding agents.",
    epilog="Start with: ctx search where are passwords hashed",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> int:
    """Run the command line and return the exit code."""
    return run_to_exit_code(lambda: app(prog_name="ctx", standalone_mode=False))


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"ctx {__version__}")
        raise typer.Exit


@app.callback()
def _ctx(
    version: Annotated[  # noqa: ARG001 - the callback prints it
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks instead of one-line errors.")] = False,
) -> None:
    """Define the options before the command."""
    if debug:
        os.environ["CTX_DEBUG"] = "1"  # `run` reads it when an error occurs


@app.command()
def index(
    path: Annotated[Path | None, typer.Argument(help="The workspace, or a folder in it; default: here.")] = None,
    root: Root = None,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild everything; searches use the old index meanwhile.")
    ] = False,
    embed: Annotated[
        bool, typer.Option("--embed", help="Make the missing vectors of the chosen provider, too.")
    ] = False,
    store: Annotated[
        str, typer.Option("--store", metavar="URL", help="Database of the team, for this run; default: CTX_STORE_URL.")
    ] = "",
    share: Annotated[
        bool, typer.Option("--share", help="Publish the index to that database; default: CTX_STORE_SHARES.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Index a repository, or update its index.

    Only files whose content changed are read. You can interrupt it at any time and continue later. `ctx serve` makes
    the vectors of the chosen provider, if there is one, in the background. `--store` applies to this run only: the
    index of this machine does not change, and other commands use CTX_STORE_URL.

    **Examples**

    - `ctx index`
    - `ctx index ~/src/project`
    - `ctx index src --root .`
    - `ctx index --force`
    - `ctx index --embed`
    - `ctx index --store postgresql://ci@db/context --share`
    """
    from context_engine.cli.index_commands import index as run_index

    raise typer.Exit(run_index(path, root, force=force, embed=embed, store=store, share=share, as_json=as_json))


add_commands(app, {**QUERIES, **RECORDS})
add_commands(memory_app, MEMORIES)
add_commands(plan_app, PLANS)
app.add_typer(memory_app)
app.add_typer(plan_app)
app.add_typer(workspace_commands.app)


@app.command()
def review(
    rev: Annotated[
        str | None, typer.Argument(help="A commit, a branch, a..b or a...b; default: all uncommitted changes.")
    ] = None,
    root: Root = None,
    staged: Annotated[bool, typer.Option("--staged", help="Review what the next commit would contain.")] = False,
    base: Annotated[str, typer.Option("--base", help="Compare with this ref; default range: merge base to HEAD.")] = "",
    fail_on: Annotated[
        Literal["none", "P0", "P1", "P2", "P3"],
        typer.Option("--fail-on", help="Exit with code 3 from this priority on.", case_sensitive=False),
    ] = "none",
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Also write SARIF 2.1.0 to this file.")] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        Literal["text", "markdown", "json", "sarif", "rdjson"], typer.Option("--format", help="Format of the output.")
    ] = "text",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=100, help="Most findings.")] = 20,
    confidence: Annotated[float, typer.Option("--confidence", min=0, max=1, help="Minimum confidence.")] = 0.7,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="No paths that match this glob.")] = None,
    invariants: Annotated[str, typer.Option("--invariants", help="Rules file; default: .review-invariants.yml.")] = "",
    analyzer: Annotated[
        list[str] | None, typer.Option("--analyzer", help="Run only this analyzer; none: no analyzer; repeatable.")
    ] = None,
    untracked: Annotated[bool, typer.Option("--untracked", help="Include new files that git does not track.")] = False,
    as_json: AsJson = False,
) -> None:
    """Review a change: list the problems in its new lines by priority. Needs no model, no network and no index.

    Exit codes: 0 reviewed or nothing to review, 2 error, 3 found what `--fail-on` names.

    **Examples**

    - `ctx review`
    - `ctx review --staged --fail-on P1`
    - `ctx review --base origin/main --sarif review.sarif`
    - `ctx review HEAD~3..HEAD --format markdown`
    """
    from context_engine.cli.review_command import review as run_review
    from context_engine.cli.review_command import select_change
    from context_engine.cli.tool_commands import split_lists
    from context_engine.tools import parse_review_options

    change = select_change(rev, staged=staged, base=base, untracked=untracked)
    options = parse_review_options(
        {
            "fail_on": fail_on,
            "max_findings": limit,
            "confidence_threshold": confidence,
            "exclude_patterns": split_lists(exclude or ()),
            "invariants_path": invariants,
            "analyzers": split_lists(analyzer or ["auto"]),
        }
    )
    raise typer.Exit(run_review(root, change, options, "json" if as_json else format, sarif))


class ServeCommand(HelpCommand):
    """`ctx serve`, which parses its own options: this class makes them known to shell completion only."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, with the options during completion, when nothing runs."""
        params = super().get_params(ctx)
        if ctx.resilient_parsing:
            return [*params, *_serve_options()]
        return params


def _serve_options() -> list[Any]:
    """Build the options of `ctx serve` from their table."""
    from context_engine.server import OPTIONS

    offered = {
        "profile": shell_completion.complete_profiles,
        "tools": shell_completion.complete_tools,
        "exclude-tools": shell_completion.complete_tools,
    }
    signature: dict[str, tuple[Any, Any]] = {}
    for option in OPTIONS:
        kind: Any = bool if option.kind == "flag" else list[str]
        asked = typer.Option(f"--{option.name}", help=option.meaning, autocompletion=offered.get(option.name))
        signature[option.name.replace("-", "_")] = (Annotated[kind, asked], False if option.kind == "flag" else None)
    return build_parameters(signature)


@app.command(
    cls=ServeCommand,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def serve(context: typer.Context) -> None:
    """Serve projects to coding agents over MCP. Clients start it; you rarely do.

    `ctx serve --help` lists its options, which are defined in a module that loads fast.

    **Examples**

    - `ctx serve --root ~/src/project`
    - in a client's settings: command `ctx`, arguments `serve --root /path`
    """
    from context_engine.server import main

    raise typer.Exit(main(context.args, os.environ))


@app.command()
def ui(
    root: Annotated[
        list[Path] | None,
        typer.Option("--root", help="Show this folder; repeatable. Default: the project here, and all workspaces."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port on 127.0.0.1; 0: any.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Let the page approve plans, edit memories and undo.")] = False,
    workspace: WorkspaceName = "",
) -> None:
    """Open a page in the browser that shows the calls of agents live.

    It has search, symbol graphs, plans, reviews, memories and edits, too. It is served on 127.0.0.1 only,
    for those who have its address, until Ctrl-C, and loads nothing from elsewhere.

    **Examples**

    - `ctx ui`
    - `ctx ui --write`
    - `ctx ui --no-open --port 8123`
    - `ctx ui --root ~/src/web --root ~/src/api`
    """
    from context_engine.cli.ui_command import serve_page

    raise typer.Exit(serve_page(root or (), workspace, port=port, may_write=write, opens_browser=not no_open))


@app.command()
def hook(
    event: Annotated[str, typer.Argument(help="The event, as the client names it.")] = "",
    client: Annotated[str, typer.Option("--client", help="claude, codex, gemini, cursor or opencode.")] = "claude",
) -> None:
    """Answer a hook of a coding agent: its JSON on standard input, the reply on standard output.

    Always exits with 0. `ctx setup CLIENT --hooks` writes the configuration that runs it.

    **Examples**

    - `ctx hook UserPromptSubmit --client claude < event.json`
    """
    from context_engine.cli.hook_command import run_hook

    raise typer.Exit(run_hook([event, "--client", client], os.environ) or 0)


@app.command()
def setup(
    clients: Annotated[
        list[str] | None,
        typer.Argument(
            help="Clients, for example claude, codex or vscode; without one: list them.",
            autocompletion=shell_completion.complete_clients,
        ),
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the change as a diff and write nothing.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the entry.")] = False,
    project: Annotated[
        bool, typer.Option("--project", help="Use the settings of this project instead of yours.")
    ] = False,
    root: Annotated[list[Path] | None, typer.Option("--root", help="Always serve this folder; repeatable.")] = None,
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            help="Tools to list; see ctx serve.",
            autocompletion=shell_completion.complete_profiles,
        ),
    ] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Serve only tools that do not write.")] = False,
    all_installed: Annotated[bool, typer.Option("--all", help="Set up every client that is installed.")] = False,
    yes: Yes = False,
    hooks: Annotated[bool, typer.Option("--hooks", help="Add the hooks that give context unasked, too.")] = False,
    guidance: Annotated[bool, typer.Option("--guidance", help="Add a section to CLAUDE.md or AGENTS.md.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add `ctx` to a coding agent's MCP configuration. Everything else in the file stays unchanged.

    The file is backed up next to itself first. A second run changes nothing.

    **Examples**

    - `ctx setup` lists the clients and shows which are installed and set up
    - `ctx setup --all` shows the changes for every client found, and asks before it writes them
    - `ctx setup claude --hooks` adds the hooks as well, and shows the change
    - `ctx setup vscode --project`
    - `ctx setup claude-desktop --root ~/src/project`
    - `ctx setup cursor --remove`
    - `ctx setup claude --guidance` adds a section on ctx to the project's CLAUDE.md; `--remove` takes it out
    """
    from context_engine.cli.setup_command import SetupOptions
    from context_engine.cli.setup_command import setup as run_setup

    options = SetupOptions(
        roots=tuple(root or ()),
        profile=profile,
        read_only=read_only,
        in_project=project,
        only_print=only_print,
        remove=remove,
        all_installed=all_installed,
        yes=yes,
        hooks=hooks,
        guidance=guidance,
        as_json=as_json,
    )
    raise typer.Exit(run_setup(clients or (), options))


@app.command()
def doctor(
    clients: Annotated[
        list[str] | None,
        typer.Argument(
            help="Check these clients; default: all that are installed.",
            autocompletion=shell_completion.complete_clients,
        ),
    ] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Check every part of the installation and suggest fixes.

    The checks reach from the packages to a real conversation with the server. Exit code 1 when something does not
    work. Nothing is changed: the next step of each problem is a command to paste.

    **Examples**

    - `ctx doctor`
    - `ctx doctor claude`
    - `ctx doctor --json | jq '.findings[] | select(.verdict != "ok")'`
    """
    from context_engine.cli.doctor import doctor as run_doctor

    raise typer.Exit(run_doctor(root, clients or (), as_json=as_json))


@app.command()
def gain(
    root: Root = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=500, help="Most sessions, newest first.")] = 10,
    as_json: AsJson = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete all counts.")] = False,
) -> None:
    """Show what the calls of agents cost, for each client and session.

    Only calls, characters and time are counted, on this machine; the setting `gain` turns it off.

    **Examples**

    - `ctx gain`
    - `ctx gain --root . -n 3`
    - `ctx gain --json | jq .all`
    - `ctx gain --delete`
    """
    from context_engine.cli.gain_command import gain as show_gain

    raise typer.Exit(show_gain(root, limit=limit, as_json=as_json, delete=delete))


app.add_typer(chunk_commands.app)
app.add_typer(daemon_commands.app)
