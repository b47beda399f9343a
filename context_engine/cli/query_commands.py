"""`ctx search`, `symbol`, `trace`, `why`, `context`, `read` and `call`: the commands that a daemon can answer as well.

Each is a function of its options and of a `QueryPlace`, which says where it works and where it writes. So it does the
same in a process of its own and in the daemon.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.cli.exit_codes import FAILED, INTERRUPTED, NOTHING_FOUND
from context_engine.cli.screens import Screen, one_line, process_screen
from context_engine.cli.workspace_root import open_engine
from context_engine.errors import Cancelled, ContextEngineError, FileNotFound, InvalidArgument, InvalidPath

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import Answer, Hit
    from context_engine.server import ToolDispatcher

Options = Mapping[str, Any]
"""The options of a command by the names of its parameters."""
SEARCH_HITS_MAX, DEFINITIONS_MAX = 50, 200
"""The largest --limit of each command."""
FILTERS = {
    "kind": "chunk_types",
    "tag": "tags",
    "lang": "languages",
    "include": "include",
    "exclude": "exclude_paths",
}
"""Option of `ctx search` -> argument of the tool."""
STDIN = "-"
HAND_OVER_S, HAND_OVER_LOOK_S = 5.0, 0.1
"""How long a command waits for a daemon that takes over the rest of an index."""


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """Where a query works: the folder that relative paths start from, the Engine of the workspace, the screen."""

    folder: Path
    open: Callable[[], AbstractContextManager[Engine]]
    screen: Screen
    ensure_index: Callable[[Engine, str, str], bool]
    """Builds the index if there is none, and returns whether there is one; the first text completes "nothing ...", the
    second is the question, whose files are indexed first."""


def run_query(command: str, root: Path | None, options: Options) -> int:
    """Run one of the commands in this process and return its exit code. Raises: the error of its tool."""
    unfinished: list[Path] = []

    def ensure_index(engine: Engine, nothing: str, question: str) -> bool:
        if engine.index.is_complete():
            return True
        from context_engine.cli import console

        is_there = console.ensure_index(engine, nothing, question)
        if is_there and not engine.index.is_complete():
            unfinished.append(engine.root)
        return is_there

    screen = process_screen(os.environ)
    code = COMMANDS[command](QueryPlace(Path.cwd(), lambda: open_engine(root), screen, ensure_index), options)
    for folder in unfinished:
        screen.note(_hand_over(folder))
    return code


def _ensure_index(place: QueryPlace, engine: Engine, nothing: str, question: str) -> bool:
    """Return whether there is an index; a store that does not answer is named before another one is built."""
    warn_of_store(engine, place.screen)
    return place.ensure_index(engine, nothing, question)


def warn_of_store(engine: Engine, screen: Screen) -> None:
    """Ask the store of a team, and warn if it does not answer."""
    engine.index.is_available()
    if engine.index.store_problem:
        screen.warn("warning", engine.index.store_warning)


def _hand_over(root: Path) -> str:
    """Have the daemon go on with an index that this process began; return a note about it."""
    from context_engine.daemon import ask_daemon, start_daemon

    until = time.monotonic() + HAND_OVER_S
    request = {"kind": "index", "root": str(root), "patient": True}
    if start_daemon(os.environ):
        while time.monotonic() < until:
            if ask_daemon(request, HAND_OVER_S):
                return "the daemon indexes the rest in the background"
            time.sleep(HAND_OVER_LOOK_S)
    return "ctx index completes the index"


# -- calling a tool ---------------------------------------------------------------------------------------------------


def call(place: QueryPlace, options: Options) -> int:
    """Call a tool with JSON arguments as a client does; show its text, or the error as JSON."""

    def run(arguments: dict[str, Any]) -> int:
        with place.open() as engine:
            return _print_call(build_dispatcher(engine), options["tool"], arguments, place.screen)

    return _call_with(options, run, place.screen)


def call_workspace(workspace: str, name: str, text: str) -> int:
    """Call a tool on the repositories of a workspace, as a client of `ctx serve --workspace` does."""
    from context_engine.cli.workspace_commands import build_workspace_dispatcher, open_workspace

    screen = process_screen(os.environ)

    def run(arguments: dict[str, Any]) -> int:
        with open_workspace(workspace) as engines:
            return _print_call(build_workspace_dispatcher(engines), name, arguments, screen)

    return _call_with({"tool": name, "arguments": text}, run, screen)


def _call_with(options: Options, run: Callable[[dict[str, Any]], int], screen: Screen) -> int:
    from context_engine import tools

    text = options["arguments"]
    try:
        tools.find(options["tool"])
        return run(parse_arguments(sys.stdin.read() if text == STDIN else text, options["tool"]))
    except ContextEngineError as error:
        screen.out.write(tools.failure(error).text)
        return FAILED


MORE = "… there are more: raise limit"
"""The last line of a long history, which names the option of the tool."""


def show_reply(root: Path | None, name: str, arguments: dict[str, Any], *, as_json: bool = False) -> int:
    """Call a tool and print its text or JSON; return the exit code. Raises: the error of the tool."""
    with open_engine(root) as engine:
        print(call_for_text(engine, name, arguments, structured=as_json).replace(MORE, "there are more: raise -n"))
    return 0


def call_for_text(engine: Engine, name: str, arguments: dict[str, Any], *, structured: bool = False) -> str:
    """Return the text of a tool's reply, or its JSON. Raises: the error of the tool."""
    from context_engine.tools import Call

    outcome = build_dispatcher(engine, structured=structured).call(name, arguments, Call())
    if outcome.error:
        raise outcome.error
    return outcome.reply.text


def print_reply(engine: Engine, name: str, arguments: Any) -> int:
    """Call a tool and print its text, error or not; return the exit code."""
    return _print_call(build_dispatcher(engine), name, arguments, process_screen(os.environ))


def _print_call(dispatcher: ToolDispatcher, name: str, arguments: Any, screen: Screen) -> int:
    from context_engine.tools import Call

    reply = dispatcher.call(name, arguments, Call()).reply
    screen.out.write(reply.text)
    if reply.is_error:
        return FAILED
    return 0


def build_dispatcher(engine: Engine, *, structured: bool = False) -> ToolDispatcher:
    """Return the dispatcher that a client gets; at the terminal no tool is hidden. `structured`: replies in JSON."""
    from context_engine.server import ToolDispatcher, ToolSelection, single_engine

    selection = ToolSelection(profiles=("all",), structured=structured)
    return ToolDispatcher(single_engine(engine), selection=selection)


def drop_unset(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are set."""
    return {name: value for name, value in arguments.items() if value not in (None, "", [], ())}


def parse_arguments(text: str, tool: str = "symbols") -> dict[str, Any]:
    """Parse the arguments as an object. Raises: InvalidArgument, with the position of a JSON error."""
    from context_engine import tools

    try:
        arguments = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        needed = [parameter.name for parameter in tools.find(tool).parameters if parameter.required]
        example = json.dumps(dict.fromkeys(needed or ["name"], "..."))
        raise InvalidArgument(
            f"the arguments are not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            suggestion=f"Quote them for the shell: `ctx call {tool} '{example}'`.",
        ) from None
    if not isinstance(arguments, dict):
        raise InvalidArgument("the arguments are not an object", suggestion='Write {"name": "value"}.')
    return arguments


def list_tools(*, as_json: bool) -> None:
    """Print the name and the first sentence of every tool."""
    from context_engine import tools
    from context_engine.cli.console import print_rows

    if as_json:
        print(json.dumps([{"name": tool.name, "description": tool.one_liner} for tool in tools.ALL]))
    else:
        print_rows((tool.name, tool.one_liner) for tool in tools.ALL)


def symbol(place: QueryPlace, options: Options) -> int:
    """Show where a symbol is defined; 1 if nothing has that name."""
    arguments = {name: options[name] for name in ("name", "kind", "path", "limit")}
    with place.open() as engine:
        if not _ensure_index(place, engine, "looked up", options["name"]):
            return INTERRUPTED
        text = call_for_text(engine, "symbols", arguments, structured=True)
    row = json.loads(text)
    if options["as_json"]:
        place.screen.out.write(text)
    else:
        _show_definitions(row, options["name"], place.screen)
    if row["definitions"]:
        return 0
    return NOTHING_FOUND


def _show_definitions(row: Mapping[str, Any], name: str, screen: Screen) -> None:
    """Show a line `path:first-last  kind name` for each definition, its signature and its first doc line below."""
    for definition in row["definitions"]:
        lines = (":", (str(definition["lines"]), "green"), f"  {definition['kind']} ")
        screen.out.show((one_line(definition["path"]), "bold cyan"), *lines, (one_line(definition["name"]), "bold"))
        for detail in filter(None, (definition.get("signature"), definition.get("doc"))):
            screen.out.show((f"    {one_line(detail)}", "dim" if detail == definition.get("doc") else ""))
    if not row["definitions"]:
        near = [one_line(other) for other in row.get("near", ())]
        if near:
            step = f"did you mean {', '.join(near[:-1])}{' or ' if near[1:] else ''}{near[-1]}?"
        else:
            step = f"`ctx search {one_line(name)}` looks in the text"
        screen.warn("nothing found", f"nothing is defined as {one_line(name)!r}; {step}")
    shown = len(row["definitions"])
    if shown < row["total"]:
        screen.note(describe_rest(shown, row["total"], DEFINITIONS_MAX))
    else:
        _note_freshness(str(row["freshness"]), screen)


def _note_freshness(freshness: str, screen: Screen) -> None:
    """Note that the index is not fresh; of the store a warning was shown before."""
    from context_engine.index import WITHOUT_STORE

    phrase = freshness.removesuffix(WITHOUT_STORE)
    if phrase != "fresh":
        screen.note(phrase)


def describe_rest(shown: int, total: int, limit_max: int) -> str:
    """Describe what a list left out, and the option that shows more of it.

    >>> describe_rest(10, 45, 200), describe_rest(10, 4_000, 50), describe_rest(50, 4_000, 50)
    ('35 more: -n 45', '3,990 more: -n 50 shows the first 50', '3,950 more')
    """
    left_out = f"{total - shown:,} more"
    if shown >= limit_max:
        return left_out
    if total > limit_max:
        return f"{left_out}: -n {limit_max} shows the first {limit_max}"
    return f"{left_out}: -n {total}"


TRACE_WORDS = {
    "… there is more: lower depth, or ask for one of the steps above.": "there is more: raise -n, or lower --depth",
    "the receiver is unknown; possible: true": "the receiver is unknown; --possible lists them",
}
"""Phrases of the tool and what the terminal calls them."""
NO_STEPS = "0 steps"


def trace(place: QueryPlace, options: Options) -> int:
    """Follow the code graph from a symbol or a file; 1 if that leads nowhere."""
    target = options["target"]
    is_path = (
        options["direction"] == "unused" or "/" in target or (Path(target).suffix and (place.folder / target).exists())
    )
    subject = "path" if is_path else "name"
    arguments = {subject: target, "relation": options["direction"], "depth": options["depth"]}
    arguments |= {"limit": options["limit"], "possible": options["possible"]}
    with place.open() as engine:
        if not _ensure_index(place, engine, "followed", ""):
            return INTERRUPTED
        text = call_for_text(engine, "symbols", arguments, structured=options["as_json"])
    if options["as_json"]:
        is_empty = not json.loads(text)["steps"]
    else:
        is_empty = text.startswith(NO_STEPS)
        for phrase, words in TRACE_WORDS.items():
            text = text.replace(phrase, words)
    place.screen.out.write(text)
    if is_empty:
        return NOTHING_FOUND
    return 0


def why(place: QueryPlace, options: Options) -> int:
    """Explain why a file is in the index or not, or why a name is not found; 1 if it is not there."""
    from context_engine.cli.next_commands import name_commands
    from context_engine.tools import format_explanation

    with place.open() as engine:
        text = call_for_text(engine, "explain", {"target": options["target"], "format": "json"})
    row = json.loads(text)
    place.screen.out.write(text if options["as_json"] else name_commands(format_explanation(row)))
    is_there = row.get("in_index") or row["state"] == "defined"
    if is_there:
        return 0
    return NOTHING_FOUND


def context(place: QueryPlace, options: Options) -> int:
    """Show what to read before a task, within a budget of tokens."""
    with place.open() as engine:
        if not _ensure_index(place, engine, "bundled", options["task"]):
            return INTERRUPTED
        _warn_of_settings(engine, place.screen)
        arguments = {"query": options["task"], "max_files": options["limit"], "token_budget": options["budget"]}
        if options["as_json"]:
            return _print_call(build_dispatcher(engine), "get_context", arguments | {"format": "json"}, place.screen)
        text = call_for_text(engine, "get_context", arguments)
    _show_markdown(text, place.screen)
    return 0


def _show_markdown(text: str, screen: Screen) -> None:
    if screen.out.is_terminal:
        from rich.markdown import Markdown

        screen.out.render(Markdown(text, hyperlinks=False), soft_wrap=False)
    else:
        screen.out.write(text, end="" if text.endswith("\n") else "\n")


# -- search -----------------------------------------------------------------------------------------------------------


def search(place: QueryPlace, options: Options) -> int:
    """Search with the arguments of `search_code`, after indexing if there is no index."""
    from context_engine.tools import parse_search_arguments

    if not options["query"].strip():
        raise InvalidArgument("the question is empty", suggestion="For example: `ctx search where is the retry`.")

    arguments = _search_arguments(options)
    query = parse_search_arguments(arguments)  # a mistake is reported before an index is built
    with place.open() as engine:
        if not _ensure_index(place, engine, "searched", options["query"]):
            return INTERRUPTED
        _warn_of_settings(engine, place.screen)
        if _shape_of(options) == "json":
            return _print_search(build_dispatcher(engine), arguments, place.screen)
        answer = engine.search.find(query)
    _note_folders(options["query"], place)
    return _show_answer(answer, place.screen, options)


def _warn_of_settings(engine: Engine, screen: Screen) -> None:
    """Warn of settings that are ignored, and of a store that does not answer."""
    for what, step in engine.settings.notes():
        screen.warn("note", f"{what}. {step}")
    if engine.index.live.last_error:
        screen.warn("warning", engine.index.live.last_error)


def search_workspace(workspace: str, options: Options) -> int:
    """Search all repositories of a workspace, after indexing those without an index."""
    from context_engine.cli.workspace_commands import build_workspace_dispatcher, index_missing, open_workspace
    from context_engine.multi_repo import MultiRepo
    from context_engine.tools import parse_search_arguments

    arguments, screen = _search_arguments(options), process_screen(os.environ)
    with open_workspace(workspace) as engines:
        try:
            index_missing(engines)
        except Cancelled:
            screen.warn("interrupted", "nothing searched; ctx workspace update goes on from there")
            return INTERRUPTED
        if _shape_of(options) == "json":
            return _print_search(build_workspace_dispatcher(engines), arguments, screen)
        answer = MultiRepo(engines).search.find(parse_search_arguments(arguments))
    return _show_answer(answer, screen, options)


def _search_arguments(options: Options) -> dict[str, Any]:
    chosen = {argument: split_lists(options[name]) for name, argument in FILTERS.items() if options.get(name)}
    return {"query": options["query"], "limit": options["limit"], **chosen}


def split_lists(values: Iterable[str]) -> list[str]:
    """Return the entries of comma lists; the commas in the braces of a glob stay.

    >>> split_lists(["python,go", "*.{ts,tsx}", "a,,b"])
    ['python', 'go', '*.{ts,tsx}', 'a', 'b']
    """
    from context_engine.tools import split_list

    return [part for value in values for part in map(str.strip, split_list(value)) if part]


def _shape_of(options: Options) -> str:
    """Return the format of the output: text, lines, vimgrep, paths or json."""
    if options["as_json"]:
        return "json"
    if options.get("only_paths"):
        return "paths"
    return options.get("format") or "text"


def _print_search(dispatcher: ToolDispatcher, arguments: dict[str, Any], screen: Screen) -> int:
    """Print the JSON of a search; return the exit code."""
    from context_engine.tools import Call

    reply = dispatcher.call("search_code", arguments | {"format": "json"}, Call()).reply
    screen.out.write(reply.text)
    if reply.is_error:
        return FAILED
    if json.loads(reply.text).get("results"):
        return 0
    return NOTHING_FOUND


def _note_folders(question: str, place: QueryPlace) -> None:
    """Note that a folder at the end of a question, as grep takes one, is a word of it here."""
    *words, last = question.split()
    if words and "/" in last and (place.folder / last).is_dir():
        other = f"`ctx -C {shlex.quote(last)} search ...`"
        if not last.startswith(("/", "..")):
            other = f"--include {shlex.quote(last.rstrip('/') + '/')}"
        place.screen.note(f"{last} is a word of the question; {other} searches only there")


def _show_answer(answer: Answer, screen: Screen, options: Options) -> int:
    """Show the hits, best first, and notes about the answer on stderr; return the exit code."""
    shape, query = _shape_of(options), options["query"]
    if shape == "text":
        for number, hit in enumerate(answer.hits):
            if number:
                screen.out.show()
            _show_hit(hit, screen, query=query, row=number, why=options["why"])
    elif shape == "paths":
        for path in dict.fromkeys(hit.chunk.path for hit in answer.hits):
            screen.out.show((one_line(path), "cyan"))
    else:
        for hit in answer.hits:
            _show_line(hit, screen, query, has_column=shape == "vimgrep")
    if not answer.hits:
        is_empty = answer.reason.startswith("the index is empty")
        tags = ""
        if answer.near_tags:
            tags = f" Tags that exist: {', '.join(answer.near_tags)}."
        step = "Is this the right folder?" if is_empty else "Try other words, or ctx symbol."
        screen.warn("nothing found", f"{_name_tools(answer.reason)}.{tags} {step}")
        return NOTHING_FOUND
    if answer.weakness:
        screen.warn("weak", answer.weakness)
    if answer.missing:
        screen.warn("vectors", answer.missing)
    _note_freshness(answer.freshness, screen)
    if len(answer.hits) < answer.total:
        screen.note(describe_rest(len(answer.hits), answer.total, SEARCH_HITS_MAX))
    return 0


def _name_tools(reason: str) -> str:
    """Return the reason in the words of the terminal."""
    from context_engine.cli.next_commands import name_commands

    return name_commands(reason)


def _show_line(hit: Hit, screen: Screen, query: str, *, has_column: bool) -> None:
    """Show the best line of a hit as editors read it: `path:line:text`, or `path:line:column:text`."""
    from context_engine.tools import find_best_line

    line, text = find_best_line(hit, query)
    column = len(text) - len(text.lstrip()) + 1
    place = (one_line(hit.chunk.path), "cyan"), ":", (str(line), "green"), f":{column}:" if has_column else ":"
    screen.out.show(*place, one_line(text.rstrip()))


def _show_hit(hit: Hit, screen: Screen, *, query: str, row: int, why: bool) -> None:
    """Show a header line `path:first-last  title`, then the code: more of the best hit, which is row 0."""
    from context_engine.tools import excerpt_hit

    span, code = excerpt_hit(hit, query, row)
    name = hit.chunk.name_at(span)
    title = ""
    if name != hit.chunk.path:
        title = one_line(name)
    place = ((one_line(hit.chunk.path), "bold cyan"), ":", (f"{span.first}-{span.last}", "green"))
    stale = " (edited since indexed)" if hit.stale else ""
    screen.out.show(*place, f"  {title}" if title else "", (stale, "yellow"))
    if why:
        parts = ", ".join(f"{name} {share:g}" for name, share in hit.main_parts().items())
        screen.out.show((f"  {hit.score:.3f} = {parts}", "dim"))
    _show_code(code, screen, hit.chunk.language, span.first)


def _show_code(code: str, screen: Screen, language: str, first: int) -> None:
    from context_engine.text import escape_controls

    text = escape_controls(code)
    if not screen.out.is_terminal:
        screen.out.write(text)
        return
    from rich.syntax import Syntax

    shown = Syntax(text, language, line_numbers=True, start_line=first, theme="ansi_dark", word_wrap=False)
    screen.out.render(shown)


# -- reading ----------------------------------------------------------------------------------------------------------


def read(place: QueryPlace, options: Options) -> int:
    """Show files, ranges of their lines, or single definitions, one after the other."""
    with place.open() as engine:
        texts = [_read_target(engine, target, options["targets"]) for target in options["targets"]]
    if options["as_json"]:
        rows = [{"target": target, "text": text} for target, text in zip(options["targets"], texts, strict=True)]
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


Command = Callable[[QueryPlace, Options], int]
COMMANDS: Mapping[str, Command] = {
    "search": search,
    "symbol": symbol,
    "trace": trace,
    "why": why,
    "context": context,
    "read": read,
    "call": call,
}
