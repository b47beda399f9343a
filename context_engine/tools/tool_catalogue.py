"""The tools about tools: what there is, found by words, with schemas on request; and the way to those a client does not list."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import InvalidArgument, UnknownTool
from context_engine.tools.arguments import (
    BooleanArg,
    ObjectArg,
    TextArg,
    TextListArg,
    argument_error,
    bind,
    suggest_nearest,
)
from context_engine.tools.tool import Call, Reply, Tool, tool
from context_engine.tools.truncate import compact_json, format_count, take_fitting_rows

if TYPE_CHECKING:
    from context_engine.engine import Engine

ASK_MANIFEST = "tool_manifest lists the tools that can be called."
"""The way on from a name that leads nowhere."""
WORD_CHARS_MIN = 4
"""Shorter words are found only as whole ones: `who` is not in `whole`."""
STOP_WORDS = frozenset(
    ("the", "and", "for", "this", "that", "with", "what", "where", "which", "who", "how", "all", "from")
)
MATCHES_MAX = 8
"""Beyond these a query was too wide to tell tools apart."""


@tool(touches="nothing")
def tool_manifest(
    engine: "Engine",
    call: Call,
    query: Annotated[str, TextArg("What you want to do.")] = "",
    names: Annotated[tuple[str, ...], TextListArg("These tools, with schemas.")] = (),
    schemas: Annotated[bool, BooleanArg("All of them with schemas.")] = False,
) -> Reply:
    """List all tools, hidden ones too, one line each, or find the tool for a task by words.

    names or schemas: with their arguments, rare ones too.
    """
    from context_engine.tools import ALL  # the catalogue names this tool too

    callable_now = [each for each in ALL if each.name not in call.disabled]
    chosen = [_find_tool(ALL, name) for name in names] or _matching(callable_now, query)
    if names or schemas:
        return Reply(_schemas(chosen, call, engine.settings.result_chars_max))
    return Reply("\n".join([*_lines(chosen, call, query), *_switched_off(call)]))


@tool(touches="anything")
def call_tool(
    engine: "Engine",
    call: Call,
    name: Annotated[str, TextArg("The tool.", 1)],
    arguments: Annotated[Mapping[str, Any], ObjectArg("Its arguments.")] = {},
) -> Reply:
    """Call any tool by name, also one that your list does not show; tool_manifest tells names and arguments."""
    meant, given = resolve_call({"name": name, "arguments": arguments})
    return meant.call(engine, given, call)


def resolve_call(arguments: Any) -> tuple[Tool, Mapping[str, Any]]:
    """The tool that a `call_tool` means, and what it is given. Raises: InvalidArgument."""
    from context_engine.tools import ALL

    given = bind(call_tool.parameters, arguments)
    try:
        meant = _find_tool(ALL, given["name"])
    except UnknownTool as error:  # to the caller of call_tool the name is an argument
        raise InvalidArgument(error.message, suggestion=error.suggestion, details={"argument": "name"}) from None
    if meant is call_tool:
        raise argument_error("name", "is call_tool itself", "Name the tool that call_tool shall reach.")
    return meant, given["arguments"]


def manifest_row(each: Tool) -> dict[str, object]:
    """A tool with everything a caller needs."""
    row: dict[str, object] = {"name": each.name, "description": each.description, "inputSchema": each.schema}
    return row | ({"aliases": list(each.aliases)} if each.aliases else {})


def _lines(chosen: Sequence[Tool], call: Call, query: str) -> list[str]:
    """How many there are, then one line each."""
    hidden = [each for each in chosen if _is_hidden(each, call)]
    head = f"{format_count(len(chosen), 'tool')}{f' for {query!r}' if query else ''}"
    if hidden:
        head += f", {len(hidden)} hidden: reach those with call_tool"
    if not chosen:
        return [head, "no tool matches; leave query out to see all"]
    return [head, *(f"{each.name}{_also(each, call)} - {each.one_liner}" for each in chosen)]


def _schemas(chosen: Sequence[Tool], call: Call, chars_max: int) -> str:
    """The tools in full, as many as one reply holds."""
    rows = [manifest_row(each) | ({"hidden": True} if _is_hidden(each, call) else {}) for each in chosen]
    shown = take_fitting_rows(rows, chars_max=chars_max)
    reply: dict[str, Any] = {"tools": shown, "total": len(rows)}
    if len(shown) < len(rows):
        reply["next"] = f"did not fit, ask for them by names: {', '.join(each.name for each in chosen[len(shown) :])}"
    return compact_json(reply)


def _switched_off(call: Call) -> list[str]:
    """A line for each option that forbids tools."""
    options = sorted(set(call.disabled.values()))
    return [
        f"switched off by {each}: {', '.join(name for name in call.disabled if call.disabled[name] == each)}"
        for each in options
    ]


def _is_hidden(each: Tool, call: Call) -> bool:
    return call.listed is not None and each.name not in call.listed


def _find_tool(tools: Sequence[Tool], name: str) -> Tool:
    names = {alias: each for each in tools for alias in (each.name, *each.aliases)}
    if name not in names:
        suggestion = suggest_nearest(name, names).strip() or ASK_MANIFEST
        raise UnknownTool(f"no tool is called {name[:60]!r}", suggestion=suggestion)
    return names[name]


def _matching(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Tools that hold any word of the query; a word that few tools hold counts most, one in the name twice."""
    words = {
        word.rstrip("s") for word in re.findall(r"[a-z]{2,}", query.lower().replace("_", " ")) if word not in STOP_WORDS
    }
    if not words:
        return list(tools)
    held = {each.name: {word for word in words if _holds(_words_of(each), word)} for each in tools}
    holders = Counter(word for found in held.values() for word in found)
    scores = {name: sum((1 + (word in name)) / holders[word] for word in found) for name, found in held.items()}
    return sorted((each for each in tools if scores[each.name]), key=lambda each: -scores[each.name])[:MATCHES_MAX]


def _words_of(each: Tool) -> set[str]:
    """What a tool is found by: its names, its description, its arguments and what they mean."""
    arguments = (f"{parameter.name} {parameter.kind.says}" for parameter in each.parameters)
    text = " ".join([each.name, *each.aliases, each.description, *arguments])
    return set(re.findall(r"[a-z]+", text.lower()))


def _holds(words: set[str], asked: str) -> bool:
    """Whether a word, or a longer one that begins with it, is among them."""
    if len(asked) < WORD_CHARS_MIN:
        return asked in words or f"{asked}s" in words
    return any(word.startswith(asked) for word in words)


def _also(each: Tool, call: Call) -> str:
    """Its other names, and whether the client's list lacks it."""
    notes = [f"also {', '.join(each.aliases)}"] * bool(each.aliases) + ["hidden"] * _is_hidden(each, call)
    return f" ({'; '.join(notes)})" if notes else ""
