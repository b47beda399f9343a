"""What the commands of `ctx` share: options, old names, exit codes, and the workspace that a command works on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from context_engine.cli.exit_codes import INTERRUPTED, NOTHING_FOUND
from context_engine.cli.workspace_root import find_project, open_engine, resolve_root

__all__ = [
    "INTERRUPTED", "NOTHING_FOUND", "AliasGroup", "AsJson", "CommandApp", "HelpCommand", "Root", "WorkspaceName", "Yes",
    "command_group",
    "find_project", "open_engine", "print_json", "replace_old_options", "resolve_root",
]  # fmt: skip

Root = Annotated[
    Path | None,
    typer.Option(
        "--root", help="Workspace folder; default: CTX_ROOT, or the nearest parent with .git or a project file."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
WorkspaceName = Annotated[
    str,
    typer.Option(
        "--workspace", "-w", metavar="NAME", help="Use all repositories of this workspace; see ctx workspace."
    ),
]


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False))


# -- old names --------------------------------------------------------------------------------------------------------

OLD_COMMANDS = {"memories": "memory", "plans": "plan", "chunks": "chunk", "models": "model"}
"""Old names still work, and no help text lists them."""
OLD_OPTIONS = {
    "--number": ["--limit"],
    "--steps": ["--limit"],
    "--files": ["--limit"],
    "--still-true": ["--revalidate"],
    "--mine": ["--scope", "user"],
}
"""An old option and the words that replace it."""


class HelpCommand(TyperCommand):
    """A command whose help page is plain text."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the command line; an error knows the command, which the parser does not give to all of them."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # the class is in typer's own copy of click
            if getattr(error, "ctx", ctx) is None:
                vars(error)["ctx"] = ctx
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        write_help(self, ctx, formatter)


def write_help(command: Any, context: Any, formatter: Any) -> None:
    """Write the help page of a command, with styles where this terminal shows them."""
    from context_engine.cli.help_pages import render_help
    from context_engine.cli.quick_pages import style_page

    formatter.write(style_page(render_help(command, context), os.environ))


class CommandApp(typer.Typer):
    """Commands with plain help pages."""

    def command(self, name: str | None = None, *, cls: Any = HelpCommand, **options: Any) -> Any:
        """Define a command."""
        return super().command(name, cls=cls, **options)


class AliasGroup(TyperGroup):
    """A group of commands that also accepts the old names."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page: of `ctx` itself, or of a group in it."""
        write_help(self, ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and its arguments, each under its present name."""
        name = OLD_COMMANDS.get(args[0], args[0])
        name, command, rest = super().resolve_command(ctx, [name, *args[1:]])
        options = {option for parameter in getattr(command, "params", ()) for option in parameter.opts}
        return name, command, replace_old_options(rest, options)


def replace_old_options(words: list[str], options: set[str]) -> list[str]:
    """Replace the old options that a command with these `options` does not have.

    One for a number is only replaced with its number: `--files` alone is of another program.

    >>> replace_old_options(["a", "--number=3"], {"--limit"}), replace_old_options(["--files", "3"], {"--files"})
    (['a', '--limit=3'], ['--files', '3'])
    >>> replace_old_options(["--files", "3", "--files"], {"--limit"})
    ['--limit', '3', '--files']
    """
    replaced: list[str] = []
    for word, behind in zip(words, [*words, ""][1:], strict=True):
        option, equals, value = word.partition("=")
        present, *more = OLD_OPTIONS.get(option, [option])
        is_complete = present != "--limit" or (value if equals else behind).isdecimal()
        if option not in options and present in options and is_complete:
            replaced += [f"{present}{equals}{value}", *more]
        else:
            replaced.append(word)
    return replaced


def command_group(name: str, description: str) -> CommandApp:
    """Create an empty group of commands, such as `ctx memory`."""
    return CommandApp(name=name, help=description, cls=AliasGroup, no_args_is_help=True)
