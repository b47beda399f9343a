"""The tools about tools: list and find them with their schemas, and call those that a client does not list."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import InvalidArgument, UnknownTool
from context_engine.text import compact_json, drop_empty, format_count, suggest_nearest
from context_engine.tools.arguments import BooleanArg, ObjectArg, TextArg, TextListArg, argument_error, bind
from context_engine.tools.reply import take_fitting_rows
from context_engine.tools.tool import Call, Reply, Tool, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine

ASK_MANIFEST = "list_tools lists the tools that can be called."
"""The next step after an unknown name."""
WORD_CHARS_MIN = 4
"""Shorter words match only as whole words: `who` does not match `whole`."""
STOP_WORDS = frozenset(
    ("the", "and", "for", "this", "that", "with", "what", "where", "which", "who", "how", "all", "from")
)
MATCHES_MAX = 8
"""More matches would not help to choose a tool."""


@tool(touches="nothing", aliases={"tool_manifest": {"schemas": False}}, rare=("schemas",))
def list_tools(
    engine: "Engine",
    call: Call,
    query: Annotated[str, TextArg("What to do.")] = "",
    names: Annotated[tuple[str, ...], TextListArg("Show these with all arguments.")] = (),
    schemas: Annotated[bool, BooleanArg("All with all their arguments.")] = False,
) -> Reply:
    """Find tools that are not listed: undo, rename, memories, plans, reviews, index.

    Example: {"query": "undo the last edit"}
    """
    from context_engine.tools import ALL  # imported here, since the catalog contains this tool

    callable_now = [candidate for candidate in ALL if candidate.name not in call.disabled]
    chosen = [find_tool(ALL, name) for name in names] or _matching(callable_now, query)
    if names or schemas:
        return Reply(_schemas(chosen, call, engine.settings.result_chars_max))
    if call.structured:
        return Reply(_rows_json(chosen, call, engine.settings.result_chars_max))
    return Reply("\n".join([*_lines(chosen, call, query), *_switched_off(call)]))


@tool(touches="anything")
def call_tool(
    engine: "Engine",
    call: Call,
    name: Annotated[str, TextArg("Tool.", 1)],
    arguments: Annotated[Mapping[str, Any], ObjectArg("Its arguments.")] = {},
) -> Reply:
    """Call a tool that is not listed, found by list_tools.

    Example: {"name": "undo_edit", "arguments": {"steps": 1}}
    """
    target, target_arguments = resolve_call({"name": name, "arguments": arguments})
    return target.call(engine, target_arguments, call)


def resolve_call(arguments: Any) -> tuple[Tool, Mapping[str, Any]]:
    """Return the tool that the arguments of `call_tool` name, and its arguments. Raises: InvalidArgument."""
    from context_engine.tools import ALL

    values = bind(call_tool.parameters, arguments)
    try:
        target = find_tool(ALL, values["name"])
    except UnknownTool as error:  # for the caller of call_tool, the name is an argument
        raise InvalidArgument(error.message, suggestion=error.suggestion, details={"argument": "name"}) from None
    if target.name == call_tool.name:
        raise argument_error("name", "is call_tool itself", "Name another tool.")
    return target, values["arguments"]


def _lines(chosen: Sequence[Tool], call: Call, query: str) -> list[str]:
    """Format the number of tools, then a line for each."""
    hidden = sum(_is_hidden(candidate, call) for candidate in chosen)
    head = format_count(len(chosen), "tool") + (f" for {query!r}" if query else "")
    if hidden:
        head += f", {hidden} hidden: use call_tool for those"
    lines = [f"{candidate.name}{_also(candidate, call)} - {candidate.one_liner}" for candidate in chosen]
    return [head, *(lines or ["no tool matches; leave query out to see all"])]


def _schemas(chosen: Sequence[Tool], call: Call, chars_max: int) -> str:
    """Format the tools in full, as many as fit one reply."""
    rows = [
        {
            "name": candidate.alias or candidate.name,
            "description": candidate.description,
            "inputSchema": candidate.schema,
        }
        | _marks(candidate, call)
        for candidate in chosen
    ]
    shown = take_fitting_rows(rows, chars_max=chars_max)
    reply: dict[str, Any] = {"tools": shown, "total": len(rows)}
    if len(shown) < len(rows):
        reply["next"] = (
            f"did not fit, ask for them by names: {', '.join(candidate.name for candidate in chosen[len(shown) :])}"
        )
    return compact_json(reply)


def _rows_json(chosen: Sequence[Tool], call: Call, chars_max: int) -> str:
    """Return the tools with a sentence for each, and which option disables others."""
    rows = [
        {"name": candidate.name, "description": candidate.one_liner} | _marks(candidate, call) for candidate in chosen
    ]
    shown = take_fitting_rows(rows, chars_max=chars_max)
    return compact_json({"tools": shown, "total": len(rows)} | drop_empty({"switched_off": dict(call.disabled)}))


def _switched_off(call: Call) -> list[str]:
    """Return a line for each option that disables tools."""
    options = sorted(set(call.disabled.values()))
    return [
        f"switched off by {option}: {', '.join(name for name in call.disabled if call.disabled[name] == option)}"
        for option in options
    ]


def _marks(candidate: Tool, call: Call) -> dict[str, Any]:
    """Return the other names of a tool, and whether the client does not list it."""
    return drop_empty({"aliases": list(candidate.aliases), "hidden": _is_hidden(candidate, call) or None})


def _is_hidden(candidate: Tool, call: Call) -> bool:
    return call.listed is not None and call.listed.isdisjoint((candidate.name, *candidate.aliases))


NAMES_ELSEWHERE = {
    **dict.fromkeys(("grep", "rg", "ripgrep", "search_for_pattern"), "search_text"),
    **dict.fromkeys(("glob", "ls", "list_dir", "find_file"), "list_directory"),
    **dict.fromkeys(("cat", "view", "open_file"), "read"),
    **dict.fromkeys(("edit", "str_replace", "multi_edit", "apply_patch"), "edit_file"),
    **dict.fromkeys(("find_referencing_symbols", "find_references", "callers", "references"), "symbols"),
}
"""A tool of other products -> our tool that does the same."""


def find_tool(tools: Sequence[Tool], name: str) -> Tool:
    """Return the tool with this name, or as it is under an older one. Raises: UnknownTool, with the nearest name."""
    for candidate in tools:
        if name == candidate.name:
            return candidate
        if name in candidate.aliases:
            return candidate.under(name)
    names = [alias for candidate in tools for alias in (candidate.name, *candidate.aliases)]
    if same := NAMES_ELSEWHERE.get(name.lower()):
        suggestion = f"Did you mean {same}?"
    else:
        suggestion = suggest_nearest(name, names).strip() or ASK_MANIFEST
    raise UnknownTool(f"no tool is called {name[:60]!r}", suggestion=suggestion, details={"name": name})


def _matching(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Return the tools that contain a word of the query. Rare words count more, and words in the name twice."""
    words = {
        word.rstrip("s") for word in re.findall(r"[a-z]{2,}", query.lower().replace("_", " ")) if word not in STOP_WORDS
    }
    if not words:
        return list(tools)
    matches: dict[str, list[str]] = {}
    for candidate in tools:
        vocabulary = _words_of(candidate)
        matches[candidate.name] = [word for word in words if _contains(vocabulary, word)]
    frequencies = Counter(word for found in matches.values() for word in found)
    scores = {name: sum((1 + (word in name)) / frequencies[word] for word in found) for name, found in matches.items()}
    matching = [candidate for candidate in tools if scores[candidate.name]]
    return sorted(matching, key=lambda candidate: -scores[candidate.name])[:MATCHES_MAX]


def _words_of(candidate: Tool) -> set[str]:
    """Return the words of a tool's names, description and arguments."""
    arguments = (f"{parameter.name} {parameter.kind.description}" for parameter in candidate.parameters)
    text = " ".join([candidate.name, *candidate.aliases, candidate.description, *arguments])
    return set(re.findall(r"[a-z]+", text.lower()))


def _contains(words: set[str], word: str) -> bool:
    """Whether the words contain this one, or a longer one that begins with it."""
    if len(word) < WORD_CHARS_MIN:
        return word in words or f"{word}s" in words
    return any(candidate.startswith(word) for candidate in words)


def _also(candidate: Tool, call: Call) -> str:
    """Format a tool's other names, and whether it is hidden from the client."""
    names = [f"also {', '.join(candidate.aliases)}"] if candidate.aliases else []
    notes = "; ".join([*names, *["hidden"] * _is_hidden(candidate, call)])
    return f" ({notes})" if notes else ""
