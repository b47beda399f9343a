"""Old names of commands and options. They still work, and no help text lists them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

OLD_COMMANDS = {"memories": "memory", "plans": "plan", "chunks": "chunk", "models": "model"}
OLD_OPTIONS = {
    "--number": ["--limit"],
    "--steps": ["--limit"],
    "--files": ["--limit"],
    "--still-true": ["--revalidate"],
    "--mine": ["--scope", "user"],
}
"""An old option and the words that replace it."""


class AliasGroup(TyperGroup):
    """A group of commands that also accepts the old names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and its arguments, each under its present name."""
        name = OLD_COMMANDS.get(args[0], args[0])
        name, command, rest = super().resolve_command(ctx, [name, *args[1:]])
        options = {option for parameter in getattr(command, "params", ()) for option in parameter.opts}
        return name, command, replace_old_options(rest, options)


def replace_old_options(words: list[str], options: set[str]) -> list[str]:
    """Replace the old options that a command with these `options` does not have.

    >>> replace_old_options(["a", "--number=3"], {"--limit"}), replace_old_options(["--files", "3"], {"--files"})
    (['a', '--limit=3'], ['--files', '3'])
    """
    replaced: list[str] = []
    for word in words:
        option, equals, value = word.partition("=")
        present, *more = OLD_OPTIONS.get(option, [option])
        if option not in options and present in options:
            replaced += [f"{present}{equals}{value}", *more]
        else:
            replaced.append(word)
    return replaced
