"""`ctx call`: run one tool call in this process, exactly as for a client."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine import tools
from context_engine.cli.common_options import INTERRUPTED
from context_engine.cli.workspace_root import resolve_root
from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.server import ToolDispatcher, ToolSelection, single_engine
from context_engine.tools import Call

if TYPE_CHECKING:
    from context_engine.engine import Engine


def call(root: Path | None, name: str, written: str) -> int:
    """Call a tool with JSON arguments and print its text, or the error as JSON; return the exit code."""
    try:
        tools.find(name)
        arguments = parse_arguments(sys.stdin.read() if written == "-" else written)
        with _open_engine(root) as engine:
            return print_reply(engine, name, arguments)
    except ContextEngineError as error:
        print(tools.failure(error).text)
        return 1


def call_workspace(workspace: str, name: str, written: str) -> int:
    """Call a tool on the repositories of a workspace, as a client of `ctx serve --workspace` does."""
    from context_engine.cli.workspace_commands import build_workspace_dispatcher, open_workspace

    try:
        tools.find(name)
        arguments = parse_arguments(sys.stdin.read() if written == "-" else written)
        with open_workspace(workspace) as engines:
            reply = build_workspace_dispatcher(engines).call(name, arguments, Call()).reply
    except ContextEngineError as error:
        reply = tools.failure(error)
    print(reply.text)
    return int(reply.is_error)


def show_reply(root: Path | None, name: str, arguments: dict[str, Any]) -> int:
    """Call a tool and print its text; return the exit code. Raises: the error of the tool."""
    with _open_engine(root) as engine:
        print(call_for_text(engine, name, arguments))
    return 0


def print_context(root: Path | None, task: str, *, files: int, budget: int, as_json: bool) -> int:
    """Print what to read before a task, within a budget of tokens; return the exit code."""
    from context_engine.cli.console import ensure_index, print_markdown

    with _open_engine(root) as engine:
        if not ensure_index(engine, "bundled"):
            return INTERRUPTED
        arguments = {"query": task, "max_files": files, "token_budget": budget}
        if as_json:
            return print_reply(engine, "get_context_for_prompt", arguments)
        text = call_for_text(engine, "get_context_for_prompt", arguments | {"format": "markdown"})
    print_markdown(text)
    return 0


def call_for_text(engine: Engine, name: str, arguments: dict[str, Any]) -> str:
    """Return the text of a tool's reply. Raises: the error of the tool."""
    outcome = build_dispatcher(engine).call(name, arguments, Call())
    if outcome.error:
        raise outcome.error
    return outcome.reply.text


def drop_unset(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are set."""
    return {name: value for name, value in arguments.items() if value not in (None, "", [], ())}


def print_reply(engine: Engine, name: str, arguments: Any) -> int:
    """Call a tool and print its text, error or not; return the exit code."""
    reply = build_dispatcher(engine).call(name, arguments, Call()).reply
    print(reply.text)
    return int(reply.is_error)


def build_dispatcher(engine: Engine) -> ToolDispatcher:
    """What a client passes too; at the terminal no tool is hidden."""
    return ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all",)))


def parse_arguments(written: str) -> dict[str, Any]:
    """Parse the arguments as an object. Raises: InvalidArgument, with the position of a JSON error."""
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
    """Print the name and the first sentence of every tool."""
    from context_engine.cli.console import print_rows

    print_rows((tool.name, tool.one_liner) for tool in tools.ALL)


def _open_engine(root: Path | None) -> Engine:
    from context_engine.engine import Engine

    return Engine.open(resolve_root(root))
