"""The tools about tools: list and find them with their schemas, and call those that a client does not list."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import InvalidArgument, UnknownTool
from context_engine.text import compact_json, drop_empty, format_count, suggest_nearest
from context_engine.tools.arguments import BooleanArg, ObjectArg, TextArg, TextListArg, argument_error, bind
from context_engine.tools.reply import Listing, note_lines, take_fitting_rows
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


@tool(touches="nothing", aliases={"tool_manifest": {"schemas": False}})
def list_tools(
    engine: "Engine",
    call: Call,
    query: Annotated[str, TextArg("What to do.")] = "",
    names: Annotated[tuple[str, ...], TextListArg("Show these with all arguments.")] = (),
    *,
    schemas: Annotated[bool, BooleanArg("All with all their arguments.")] = False,
) -> Reply:
    """Find tools that are not listed: undo, rename, memories, plans, reviews, index.

    Example: {"query": "undo the last edit"}
    """
    from context_engine.tools import ALL  # imported here, since the catalog contains this tool

    chars_max = engine.settings.result_chars_max
    callable_now = [candidate for candidate in ALL if candidate.name not in call.disabled]
    chosen = [find_tool(ALL, name) for name in names] or _matching(callable_now, query)
    if names or schemas:
        rows = [
            {"name": one.alias or one.name, "description": one.description, "inputSchema": one.schema}
            | _marks(one, call)
            for one in chosen
        ]
        shown = take_fitting_rows(rows, chars_max=chars_max)
        left = ", ".join(candidate.name for candidate in chosen[len(shown) :])
        step = f"did not fit, ask for them by names: {left}" if left else ""
        return Reply(compact_json({"tools": shown, "total": len(rows)} | drop_empty({"next": step})))
    hidden = sum(_is_hidden(candidate, call) for candidate in chosen)
    head = format_count(len(chosen), "tool") + (f" for {query!r}" if query else "")
    lines: Iterable[str] = (f"{one.name}{_marks_text(_marks(one, call))} - {one.one_liner}" for one in chosen)
    if not query:  # of all tools the names, since their descriptions are as long as a file
        groups = {"listed": [one.name for one in chosen if not _is_hidden(one, call)]}
        groups["hidden"] = [one.name for one in chosen if _is_hidden(one, call)]
        lines = note_lines(drop_empty(groups | {"next": "a query or names shows what they do"}))
    switched_off: dict[str, Any] = {"switched_off": dict(call.disabled)}
    if not call.structured:
        switched_off = {}
        for name, option in sorted(call.disabled.items(), key=lambda row: row[1]):
            switched_off.setdefault(f"switched off by {option}", []).append(name)
    listing = Listing(
        head=f"{head}, {hidden} hidden: use call_tool for those" if hidden else head,
        fields={"total": len(chosen)},
        name="tools",
        lines=lines,
        rows=({"name": one.name, "description": one.one_liner} | _marks(one, call) for one in chosen),
        notes=switched_off if chosen else {"next": "leave `query` out to see all"},
    )
    return listing.write(chars_max, as_json=call.structured)


def _marks(candidate: Tool, call: Call) -> dict[str, Any]:
    """Return the other names of a tool, and whether the client does not list it."""
    return drop_empty({"aliases": list(candidate.aliases), "hidden": _is_hidden(candidate, call) or None})


def _is_hidden(candidate: Tool, call: Call) -> bool:
    return call.listed is not None and call.listed.isdisjoint((candidate.name, *candidate.aliases))


def _marks_text(marks: Mapping[str, Any]) -> str:
    names = [f"also {', '.join(marks['aliases'])}"] if "aliases" in marks else []
    notes = "; ".join([*names, *["hidden"] * ("hidden" in marks)])
    return f" ({notes})" if notes else ""


@tool(touches="anything")
def call_tool(
    engine: "Engine",
    call: Call,
    name: Annotated[str, TextArg("Tool.")],
    arguments: Annotated[Mapping[str, Any], ObjectArg("Its arguments, as JSON.")] = {},
) -> Reply:
    """Call a tool that is not listed, found by list_tools.

    Example: {"name": "undo_edit", "arguments": "{}"}
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
    words = {word.rstrip("s") for word in _words(query) if len(word) > 1} - STOP_WORDS
    if not words:
        return list(tools)
    matches: dict[str, list[str]] = {}
    for candidate in tools:
        arguments = (f"{parameter.name} {parameter.kind.description}" for parameter in candidate.parameters)
        known = _words(" ".join([candidate.name, *candidate.aliases, candidate.description, *arguments]))
        longer = [word for word in words if any(one.startswith(word) for one in known)]
        matches[candidate.name] = [word for word in longer if len(word) >= WORD_CHARS_MIN or {word, f"{word}s"} & known]
    frequencies = Counter(word for found in matches.values() for word in found)
    scores = {name: sum((1 + (word in name)) / frequencies[word] for word in found) for name, found in matches.items()}
    matching = [candidate for candidate in tools if scores[candidate.name]]
    return sorted(matching, key=lambda candidate: -scores[candidate.name])[:MATCHES_MAX]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))
