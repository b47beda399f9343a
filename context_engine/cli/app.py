"""The commands of `ctx`, in the order of `ctx --help`. Their help pages are in `commands.md`.

Exit codes: 0 found or done, 1 nothing found or the answer no, 2 error (two lines say what and the next step), 3 a
review found what `--fail-on` names, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from context_engine import __version__, server
from context_engine.cli import chunk_commands, daemon_commands, shell_completion, workspace_commands
from context_engine.cli.command_runner import run_to_exit_code
from context_engine.cli.command_table import GROUPS
from context_engine.cli.common_options import AsJson, CommandApp, CommandGroup, HelpCommand, Root, Yes
from context_engine.cli.gain_command import gain
from context_engine.cli.record_commands import memory_app, plan_app
from context_engine.cli.review_command import review
from context_engine.cli.tool_commands import add_commands, build_parameters
from context_engine.cli.ui_command import serve_page
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
        bool, typer.Option("--embed", help="Also create missing vectors with the chosen provider.")
    ] = False,
    store: Annotated[
        str, typer.Option("--store", metavar="URL", help="Database of the team, for this run; default: CTX_STORE_URL.")
    ] = "",
    share: Annotated[
        bool, typer.Option("--share", help="Publish the index to that database; default: CTX_STORE_SHARES.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Index a repository, or update its index."""
    from context_engine.cli.index_commands import index as run_index

    raise typer.Exit(run_index(path, root, force=force, embed=embed, store=store, share=share, as_json=as_json))


for group in (app, memory_app, plan_app):
    add_commands(group, GROUPS[group.group])
app.add_typer(memory_app)
app.add_typer(plan_app)
app.add_typer(workspace_commands.app)
app.command()(review)


class ServeCommand(HelpCommand):
    """The help page and the completion of `ctx serve`, which `cli.main` starts without this module."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters."""
        return [*_serve_options(), *super().get_params(ctx)]


def _serve_options() -> list[Any]:
    """Build the options of `ctx serve` from their table."""
    offered = {
        "profile": shell_completion.complete_profiles,
        "tools": shell_completion.complete_tools,
        "exclude-tools": shell_completion.complete_tools,
    }
    signature: dict[str, tuple[Any, Any]] = {}
    for option in server.OPTIONS:
        kind: Any = bool if option.kind == "flag" else list[str]
        meaning, complete = f"{option.meaning} [env: {option.variable}]", offered.get(option.name)
        asked = typer.Option(f"--{option.name}", help=meaning, metavar=option.metavar or None, autocompletion=complete)
        signature[option.name.replace("-", "_")] = (Annotated[kind, asked], False if option.kind == "flag" else None)
    return build_parameters(signature)


@app.command(cls=ServeCommand)
def serve() -> None:
    """Serve projects to coding agents over MCP. Clients start it; you rarely do."""
    raise typer.Exit(server.main(sys.argv[2:], os.environ))


app.command("ui")(serve_page)


@app.command()
def hook(
    event: Annotated[str, typer.Argument(help="The event, as the client names it.")] = "",
    client: Annotated[str, typer.Option("--client", help="claude, codex, gemini, cursor or opencode.")] = "claude",
) -> None:
    """Answer a hook of a coding agent: its JSON on standard input, the reply on standard output."""
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
    hooks: Annotated[bool, typer.Option("--hooks", help="Also add the hooks that add code to each prompt.")] = False,
    guidance: Annotated[bool, typer.Option("--guidance", help="Add a section to CLAUDE.md or AGENTS.md.")] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let hooks quote this project to your agents; with --remove: no longer.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add `ctx` to a coding agent's MCP configuration. Everything else in the file stays unchanged."""
    from context_engine.cli.setup_command import SetupOptions
    from context_engine.cli.setup_command import setup as run_setup

    options = SetupOptions(
        root=tuple(root or ()), profile=profile, read_only=read_only, project=project, only_print=only_print,
        remove=remove, all_installed=all_installed, yes=yes, hooks=hooks, guidance=guidance,
        trust=trust, as_json=as_json,
    )  # fmt: skip
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
    """Check every part of the installation and suggest fixes."""
    from context_engine.cli.doctor import doctor as run_doctor

    raise typer.Exit(run_doctor(root, clients or (), as_json=as_json))


app.command()(gain)
app.add_typer(chunk_commands.app)
app.add_typer(daemon_commands.app)
