"""The tool about tools: what there is, found by words, with full schemas on request."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from context_engine.errors import UnknownTool
from context_engine.tools.arguments import Flag, Text, Texts, near
from context_engine.tools.fit import compact, counted
from context_engine.tools.tool import Call, Reply, Tool, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine


@tool(touches="nothing")
def tool_manifest(
    engine: "Engine",  # noqa: ARG001 - every tool takes it
    call: Call,  # noqa: ARG001 - every tool takes it
    query: Annotated[str, Text("Words of what you want to do; empty: all tools.")] = "",
    names: Annotated[tuple[str, ...], Texts("These tools, with their full schemas.")] = (),
    schemas: Annotated[bool, Flag("Full schemas for all that are listed.")] = False,
) -> Reply:
    """List the available tools with one line each, or find the tool for a task by words.

    Ask by names, or with schemas, for full descriptions and arguments.
    """
    from context_engine.tools import ALL  # the catalogue names this tool too

    chosen = [_named(ALL, name) for name in names] or _matching(ALL, query)
    if names or schemas:
        return Reply(compact({"tools": [manifest_row(each) for each in chosen], "total": len(chosen)}))
    lines = [f"{counted(len(chosen), 'tool')}{f' for {query!r}' if query else ''}"]
    lines += [f"{each.name}{_also(each)} - {each.one_liner}" for each in chosen]
    if not chosen:
        lines.append(f"no tool matches; there are {', '.join(each.name for each in ALL)}")
    return Reply("\n".join(lines))


def manifest_row(each: Tool) -> dict[str, object]:
    """A tool with everything a caller needs."""
    row: dict[str, object] = {"name": each.name, "description": each.description, "inputSchema": each.schema}
    return row | ({"aliases": list(each.aliases)} if each.aliases else {})


def _named(tools: Sequence[Tool], name: str) -> Tool:
    names = {alias: each for each in tools for alias in (each.name, *each.aliases)}
    if name not in names:
        raise UnknownTool(f"no tool is called {name!r}", suggestion=near(name, names).strip())
    return names[name]


def _matching(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Tools that hold any word of the query, those with most of them first."""
    words = [word for word in query.lower().replace("_", " ").split() if len(word) > 2]
    if not words:
        return list(tools)
    texts = {each.name: f"{each.name} {each.description}".lower().replace("_", " ") for each in tools}
    counts = {each.name: sum(word.rstrip("s") in texts[each.name] for word in words) for each in tools}
    return sorted((each for each in tools if counts[each.name]), key=lambda each: -counts[each.name])


def _also(each: Tool) -> str:
    return f" (also {', '.join(each.aliases)})" if each.aliases else ""
