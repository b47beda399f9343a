"""Shared by the commands of `ctx`: options and help pages."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

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
    from context_engine.cli.help_pages import render_help, style_page

    context.color = bool(os.environ.get("FORCE_COLOR")) or context.color
    formatter.write(style_page(render_help(command, context), os.environ))


@cache
def read_help_pages() -> dict[str, str]:
    """Return the help page of each command, from `commands.md`."""
    sections = Path(__file__).with_name("commands.md").read_text(encoding="utf-8").split("\n# ")
    return dict(section.split("\n\n", 1) for section in sections[1:])


class CommandApp(typer.Typer):
    """Commands with plain help pages; `group` is what is typed before their names."""

    group = "ctx"

    def command(self, name: str | None = None, *, cls: Any = HelpCommand, **options: Any) -> Any:
        """Define a command; its function has the name of the command, unless that is given."""

        def define(function: Any) -> Any:
            chosen = name or function.__name__
            page = read_help_pages().get(f"{self.group} {chosen}")
            return super(CommandApp, self).command(chosen, cls=cls, help=page, **options)(function)

        return define


class CommandGroup(TyperGroup):
    """A group of commands whose help page is plain text."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page: of `ctx` itself, or of a group in it."""
        write_help(self, ctx, formatter)


def command_group(name: str, description: str) -> CommandApp:
    """Create an empty group of commands, such as `ctx memory`."""
    app = CommandApp(name=name, help=description, cls=CommandGroup, no_args_is_help=True, add_completion=False)
    app.group = f"ctx {name}"
    return app
