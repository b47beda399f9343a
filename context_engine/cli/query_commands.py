"""`ctx search` and `ctx call`: the commands that do more with a tool than show its reply."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine import tools
from context_engine.cli.command_runner import FAILED, INTERRUPTED
from context_engine.cli.tool_commands import QueryPlace, ToolCommand, Values, build_dispatcher, show_reply
from context_engine.cli.workspace_commands import index_missing, open_workspace
from context_engine.errors import Cancelled, ContextEngineError, InvalidArgument

if TYPE_CHECKING:
    from context_engine.engine import Engine

STDIN = "-"
CODE_TOKENS = 20_000
"""Of a search whose lines are printed: enough for the code of every place."""


class SearchCommand(ToolCommand):
    """`ctx search`, which can also search all repositories of a workspace."""

    __slots__ = ()

    def run(self, place: QueryPlace, values: Values) -> int:
        """Search, after indexing if there is no index."""
        if not "".join(values["query"]).strip():
            raise InvalidArgument("the question is empty", suggestion="For example: `ctx search where is the retry`.")
        command, is_plain = self, values["format"] == "text" and not (values["only_paths"] or values["why"])
        if is_plain and not place.screen.out.is_terminal:  # an agent reads it
            command = replace(self, show=show_reply, shows_json=False)
        if not values["workspace"]:
            _note_folder(values["query"], place)
            return ToolCommand.run(command, place, values)
        with open_workspace(values["workspace"]) as engines:
            try:
                index_missing(engines)
            except Cancelled:
                place.screen.warn("interrupted", "nothing searched; ctx workspace update goes on from there")
                return INTERRUPTED
            everywhere = replace(place, open=lambda: nullcontext(engines))
            return ToolCommand.run(replace(command, nothing=""), everywhere, values)


def _note_folder(query: Sequence[str], place: QueryPlace) -> None:
    """Note that a folder at the end of a question, where grep takes one, is a word of it."""
    *words, last = " ".join(query).split()
    if words and "/" in last and (place.folder / last).is_dir():
        other = f"`ctx -C {shlex.quote(last)} search ...`"
        if not last.startswith(("/", "..")):
            other = f"--include {shlex.quote(last.rstrip('/') + '/')}"
        place.screen.note(f"{last} is a word of the question; {other} searches only there")


def ask_for_lines(_: Engine, __: Path, values: Values) -> Values:
    """Return the budget of a search whose lines are printed."""
    return {"token_budget": CODE_TOKENS} if values["format"] != "text" else {}


def name_items(_: Engine, __: Path, values: Values) -> Values:
    """Return what is read."""
    return {"items": values["targets"]}


def find_target(_: Engine, folder: Path, values: Values) -> Values:
    """Return the symbol or the file from which a trace starts."""
    target = values["target"]
    is_file = "/" in target or (Path(target).suffix and (folder / target).exists())
    return {"path" if values["relation"] == "unused" or is_file else "name": target}


# -- any tool ---------------------------------------------------------------------------------------------------------


class CallCommand(ToolCommand):
    """`ctx call`, which calls a tool with JSON arguments as a client does."""

    __slots__ = ()

    def run(self, place: QueryPlace, values: Values) -> int:
        """Show the reply, also if it is an error; without a tool list all tools."""
        name = values["tool"]
        if not name:
            for tool in tools.ALL:
                place.screen.out.write(f"{tool.name:<24}{tool.one_liner}")
            return 0
        try:
            tools.find(name)
            text = sys.stdin.read() if values["arguments"] == STDIN else values["arguments"]
            arguments = _parse_arguments(text, name)
        except ContextEngineError as error:
            text = tools.failure(error).text
            place.screen.out.write(text if values["as_json"] else tools.format_reply(text))
            return FAILED
        with open_workspace(values["workspace"]) if values["workspace"] else place.open() as opened:
            reply = build_dispatcher(opened, structured=values["as_json"]).call(name, arguments, tools.Call()).reply
        place.screen.out.write(reply.text)
        return FAILED if reply.is_error else 0


def _parse_arguments(text: str, tool: str) -> dict[str, Any]:
    """Parse the arguments as an object. Raises: InvalidArgument, with the position of a JSON error."""
    try:
        arguments = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        needed = [parameter.name for parameter in tools.find(tool).parameters if parameter.required]
        example = json.dumps(dict.fromkeys(needed or ["name"], "..."))
        raise InvalidArgument(
            f"the arguments are not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            suggestion=f"Quote them for the shell: `ctx call {tool} '{example}'`.",
        ) from None
    if not isinstance(arguments, Mapping):
        raise InvalidArgument("the arguments are not an object", suggestion='Write {"name": "value"}.')
    return dict(arguments)
