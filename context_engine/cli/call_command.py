"""`ctx call`: one tool call in this process, exactly as a client would get it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine import tools
from context_engine.cli.workspace_root import root_of
from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.server.dispatcher import Gate, alone
from context_engine.server.profiles import Shown
from context_engine.tools import Call

if TYPE_CHECKING:
    from context_engine.engine import Engine


def call(root: Path | None, name: str, written: str) -> int:
    """Call a tool with JSON arguments; its text, or the error as JSON, on stdout; the exit code."""
    try:
        tools.find(name)
        arguments = parsed(sys.stdin.read() if written == "-" else written)
        with _opened(root) as engine:
            return printed(engine, name, arguments)
    except ContextEngineError as error:
        print(tools.failure(error).text)
        return 1


def call_workspace(workspace: str, name: str, written: str) -> int:
    """The same, put to the repositories of a workspace as a client of `ctx serve --workspace` does."""
    from context_engine.cli import workspaces

    try:
        tools.find(name)
        arguments = parsed(sys.stdin.read() if written == "-" else written)
        with workspaces.opened(workspace) as engines:
            reply = workspaces.gate_to(engines).call(name, arguments, Call()).reply
    except ContextEngineError as error:
        reply = tools.failure(error)
    print(reply.text)
    return int(reply.is_error)


def show(root: Path | None, name: str, arguments: dict[str, Any]) -> int:
    """Call a tool and print its text; an error is raised for the terminal to tell."""
    with _opened(root) as engine:
        print(answered(engine, name, arguments))
    return 0


def answered(engine: Engine, name: str, arguments: dict[str, Any]) -> str:
    """The text that a tool answers with. Raises: what the tool does."""
    outcome = gate_to(engine).call(name, arguments, Call())
    if outcome.error:
        raise outcome.error
    return outcome.reply.text


def given(**arguments: Any) -> dict[str, Any]:
    """Those arguments that say something."""
    return {name: value for name, value in arguments.items() if value not in (None, "", [], ())}


def printed(engine: Engine, name: str, arguments: Any) -> int:
    """Call a tool and print its text, error or not; the exit code."""
    reply = gate_to(engine).call(name, arguments, Call()).reply
    print(reply.text)
    return int(reply.is_error)


def gate_to(engine: Engine) -> Gate:
    """What a client passes too; at the terminal no tool is hidden."""
    return Gate(alone(engine), shown=Shown(profiles=("all",)))


def parsed(written: str) -> dict[str, Any]:
    """The arguments as an object. Raises: InvalidArgument, pointing at the place that is not JSON."""
    try:
        arguments = json.loads(written or "{}")
    except json.JSONDecodeError as error:
        raise InvalidArgument(
            f"the arguments are not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            suggestion="""Quote them for the shell: ctx call find_symbol '{"name": "main"}'""",
        ) from None
    if not isinstance(arguments, dict):
        raise InvalidArgument("the arguments are not an object", suggestion='Write {"name": "value"}.')
    return arguments


def list_tools() -> None:
    """Name and first sentence of every tool."""
    from context_engine.cli.console import rows

    rows((tool.name, tool.one_liner) for tool in tools.ALL)


def _opened(root: Path | None) -> Engine:
    from context_engine.engine import Engine

    return Engine.open(root_of(root))
