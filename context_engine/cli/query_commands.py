"""`ctx search`, `ctx call` and the commands that print the reply of one tool."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine import tools
from context_engine.cli.common_options import INTERRUPTED, NOTHING_FOUND, open_engine
from context_engine.errors import Cancelled, ContextEngineError, InvalidArgument
from context_engine.server import ToolDispatcher, ToolSelection, single_engine
from context_engine.tools import Call

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import Answer, Hit

# -- calling a tool ---------------------------------------------------------------------------------------------------


def call(root: Path | None, name: str, text: str) -> int:
    """Call a tool with JSON arguments as a client does; print its text, or the error as JSON."""

    def run(arguments: dict[str, Any]) -> int:
        with open_engine(root) as engine:
            return print_reply(engine, name, arguments)

    return _call_with(name, text, run)


def call_workspace(workspace: str, name: str, text: str) -> int:
    """Call a tool on the repositories of a workspace, as a client of `ctx serve --workspace` does."""
    from context_engine.cli.workspace_commands import build_workspace_dispatcher, open_workspace

    def run(arguments: dict[str, Any]) -> int:
        with open_workspace(workspace) as engines:
            return _print_call(build_workspace_dispatcher(engines), name, arguments)

    return _call_with(name, text, run)


def _call_with(name: str, text: str, run: Callable[[dict[str, Any]], int]) -> int:
    try:
        tools.find(name)
        return run(parse_arguments(sys.stdin.read() if text == "-" else text))
    except ContextEngineError as error:
        print(tools.failure(error).text)
        return 1


def show_reply(root: Path | None, name: str, arguments: dict[str, Any]) -> int:
    """Call a tool and print its text; return the exit code. Raises: the error of the tool."""
    with open_engine(root) as engine:
        print(call_for_text(engine, name, arguments))
    return 0


def call_for_text(engine: Engine, name: str, arguments: dict[str, Any]) -> str:
    """Return the text of a tool's reply. Raises: the error of the tool."""
    outcome = build_dispatcher(engine).call(name, arguments, Call())
    if outcome.error:
        raise outcome.error
    return outcome.reply.text


def print_reply(engine: Engine, name: str, arguments: Any) -> int:
    """Call a tool and print its text, error or not; return the exit code."""
    return _print_call(build_dispatcher(engine), name, arguments)


def _print_call(dispatcher: ToolDispatcher, name: str, arguments: Any) -> int:
    reply = dispatcher.call(name, arguments, Call()).reply
    print(reply.text)
    return int(reply.is_error)


def build_dispatcher(engine: Engine) -> ToolDispatcher:
    """Return the dispatcher that a client gets; at the terminal no tool is hidden."""
    return ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all",)))


def drop_unset(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are set."""
    return {name: value for name, value in arguments.items() if value not in (None, "", [], ())}


def parse_arguments(text: str) -> dict[str, Any]:
    """Parse the arguments as an object. Raises: InvalidArgument, with the position of a JSON error."""
    try:
        arguments = json.loads(text or "{}")
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


def print_context(root: Path | None, task: str, *, files: int, budget: int, as_json: bool) -> int:
    """Print what to read before a task, within a budget of tokens; return the exit code."""
    from context_engine.cli.console import ensure_index, print_markdown

    with open_engine(root) as engine:
        if not ensure_index(engine, "bundled"):
            return INTERRUPTED
        arguments = {"query": task, "max_files": files, "token_budget": budget}
        if as_json:
            return print_reply(engine, "get_context_for_prompt", arguments)
        text = call_for_text(engine, "get_context_for_prompt", arguments | {"format": "markdown"})
    print_markdown(text)
    return 0


# -- search -----------------------------------------------------------------------------------------------------------


def search(root: Path | None, arguments: dict[str, Any], *, as_json: bool, why: bool) -> int:
    """Search with the arguments of `codebase_retrieval`, after indexing if there is no index."""
    from context_engine.cli.console import ensure_index
    from context_engine.tools import parse_search_arguments

    with open_engine(root) as engine:
        if not ensure_index(engine, "searched"):
            return INTERRUPTED
        if as_json:
            return print_reply(engine, "codebase_retrieval", arguments)
        answer = engine.search.find(parse_search_arguments(arguments))
    return _show_answer(answer, arguments["query"], why=why)


def search_workspace(workspace: str, arguments: dict[str, Any], *, as_json: bool, why: bool) -> int:
    """Search all repositories of a workspace, after indexing those without an index."""
    from context_engine.cli.console import err
    from context_engine.cli.workspace_commands import build_workspace_dispatcher, index_missing, open_workspace
    from context_engine.multi_repo import MultiRepo
    from context_engine.tools import parse_search_arguments

    with open_workspace(workspace) as engines:
        try:
            index_missing(engines)
        except Cancelled:
            err.print("[yellow]interrupted[/yellow]: nothing searched; ctx workspace update goes on from there")
            return INTERRUPTED
        if as_json:
            return _print_call(build_workspace_dispatcher(engines), "codebase_retrieval", arguments)
        answer = MultiRepo(engines).search.find(parse_search_arguments(arguments))
    return _show_answer(answer, arguments["query"], why=why)


def _show_answer(answer: Answer, query: str, *, why: bool) -> int:
    """Print the hits, best first, and notes about the answer to stderr; return the exit code."""
    from context_engine.cli.console import err, escape_text, out, print_note

    for number, hit in enumerate(answer.hits):
        if number:
            out.print()
        _show_hit(hit, query, why=why)
    if not answer.hits:
        tags = f" Tags that exist: {', '.join(answer.near_tags)}." if answer.near_tags else ""
        explanation = escape_text(f"{answer.reason}.{tags} Try other words, or ctx symbol.")
        err.print(f"[yellow]nothing found[/yellow]: {explanation}")
        return NOTHING_FOUND
    if answer.weakness:
        err.print(f"[yellow]weak[/yellow]: {escape_text(answer.weakness)}")
    if answer.freshness != "fresh" or len(answer.hits) < answer.total:
        print_note(f"{len(answer.hits)} of {answer.total:,} matches · {answer.freshness}")
    return 0


def _show_hit(hit: Hit, query: str, *, why: bool) -> None:
    """Print a header line `path:first-last  title`, then the code."""
    from context_engine.cli.console import escape_text, out
    from context_engine.tools import excerpt_hit

    span, code = excerpt_hit(hit, query)
    title = hit.chunk.title if hit.chunk.title != hit.chunk.path else ""
    stale = " [yellow](edited since indexed)[/yellow]" if hit.stale else ""
    place = f"[bold cyan]{escape_text(hit.chunk.path)}[/bold cyan]:[green]{span.first}-{span.last}[/green]"
    out.print(f"{place}  {escape_text(title)}{stale}".rstrip())
    if why:
        parts = ", ".join(f"{name} {share:g}" for name, share in hit.main_parts().items())
        out.print(f"  [dim]{hit.score:.3f} = {parts}[/dim]")
    _show_code(code, hit.chunk.language, span.first)


def _show_code(code: str, language: str, first: int) -> None:
    from context_engine.cli.console import out
    from context_engine.text import escape_controls

    text = escape_controls(code)
    if not out.is_terminal:
        out.print(text, markup=False)
        return
    from rich.syntax import Syntax

    out.print(Syntax(text, language, line_numbers=True, start_line=first, theme="ansi_dark", word_wrap=False))
