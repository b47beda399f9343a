"""`ctx search`, `read` and `call`: the commands that do more with a tool than show its reply."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine import tools
from context_engine.cli.command_runner import FAILED, INTERRUPTED
from context_engine.cli.tool_commands import QueryPlace, ToolCommand, Values, build_dispatcher, call_for_text
from context_engine.cli.workspace_commands import index_missing, open_workspace
from context_engine.errors import Cancelled, ContextEngineError, FileNotFound, InvalidArgument, InvalidPath

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
        if not values["workspace"]:
            return super().run(place, values)
        with open_workspace(values["workspace"]) as engines:
            try:
                index_missing(engines)
            except Cancelled:
                place.screen.warn("interrupted", "nothing searched; ctx workspace update goes on from there")
                return INTERRUPTED
            everywhere = replace(place, open=lambda: nullcontext(engines))
            return ToolCommand.run(replace(self, nothing=""), everywhere, values)


def ask_for_lines(_: Engine, __: Path, values: Values) -> Values:
    """Return the budget of a search whose lines are printed."""
    return {"token_budget": CODE_TOKENS} if values["format"] != "text" else {}


def find_target(_: Engine, folder: Path, values: Values) -> Values:
    """Return the symbol or the file from which a trace starts."""
    target = values["target"]
    is_file = "/" in target or (Path(target).suffix and (folder / target).exists())
    return {"path" if values["relation"] == "unused" or is_file else "name": target}


# -- reading ----------------------------------------------------------------------------------------------------------


class ReadCommand(ToolCommand):
    """`ctx read`, which reads files, ranges of their lines, or single definitions, one after the other."""

    __slots__ = ()

    def run(self, place: QueryPlace, values: Values) -> int:
        """Read all targets."""
        targets = list(values["targets"])
        with place.open() as engine:
            texts = [_read_target(engine, target, targets) for target in targets]
        if values["as_json"]:
            rows = [{"target": target, "text": text} for target, text in zip(targets, texts, strict=True)]
            place.screen.out.write(json.dumps(rows, ensure_ascii=False))
        else:
            place.screen.out.write("\n\n".join(texts))
        return 0


def _read_target(engine: Engine, target: str, targets: Sequence[str]) -> str:
    """Return the text of a target, or the tree of a folder. Raises: the error of the tool, with advice on lines."""
    try:
        return call_for_text(engine, *_read_call(target))
    except FileNotFound as error:
        before = targets[: targets.index(target)]
        if not before or not target.replace("-", "").isdecimal():
            raise
        lines = "-".join(targets[len(before) :][:2])
        step = f"Lines follow a colon: `ctx read {before[-1]}:{lines}`."
        raise FileNotFound(error.message, suggestion=step, details=error.details) from None
    except InvalidPath as error:
        try:
            return call_for_text(engine, "list_directory", {"path": target})
        except ContextEngineError:
            raise error from None  # it is not a folder either


def _read_call(target: str) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments that read `path`, `path:10-40` or `path#name`.

    >>> _read_call("a.py:10-40")
    ('read_file', {'path': 'a.py', 'start_line': 10, 'end_line': 40})
    >>> _read_call("a.py#main")
    ('read_fragment', {'path': 'a.py', 'symbols': ['main']})
    >>> _read_call("c#/a.js#Pool.#close")
    ('read_fragment', {'path': 'c#/a.js', 'symbols': ['Pool.#close']})
    """
    at = target.rfind("#")
    while at > 0 and target[at - 1] in ".#":  # it begins the name of a private member of JavaScript: `Pool.#close`
        at = target.rfind("#", 0, at)
    path, name = target[: max(at, 0)], target[at + 1 :]
    if path and name:
        return "read_fragment", {"path": path, "symbols": [name]}
    path, mark, lines = target.rpartition(":")
    first, _, last = lines.partition("-")
    if mark and path and first.isdecimal() and (last or first).isdecimal():
        return "read_file", {"path": path, "start_line": int(first), "end_line": int(last or first)}
    return "read_file", {"path": target}


# -- any tool ---------------------------------------------------------------------------------------------------------


class CallCommand(ToolCommand):
    """`ctx call`, which calls a tool with JSON arguments as a client does."""

    __slots__ = ()

    def run(self, place: QueryPlace, values: Values) -> int:
        """Show the text of the reply, or the error as JSON; without a tool list all tools."""
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
            place.screen.out.write(tools.failure(error).text)
            return FAILED
        with open_workspace(values["workspace"]) if values["workspace"] else place.open() as opened:
            reply = build_dispatcher(opened).call(name, arguments, tools.Call()).reply
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
