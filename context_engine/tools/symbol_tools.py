"""Tools that answer from the code graph: where a name is defined, who uses it, what a file defines and imports."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context import describe_mentions
from context_engine.errors import InvalidArgument
from context_engine.text import compact_json, drop_empty, escape_line, format_count, locate_lines
from context_engine.tools.arguments import BooleanArg, ChoiceArg, IntegerArg, TextArg
from context_engine.tools.reply import (
    NOTE_CHARS,
    Listing,
    add_rows,
    clip_line,
    count_fitting,
    count_rest,
    join_headline,
    pick_fields,
)
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import Definition, Direction, Edge, FileOutline, Found, Trace

LINE_CHARS_MAX = 160
TESTS_SHOWN = 8
"""Test files named with an impact."""
DIRECTIONS: "tuple[Direction, ...]" = (
    *("callers", "callees", "references", "implementations", "hierarchy"),
    *("imports", "importers", "impact", "unused"),
)
NOUNS = {"hierarchy": "relative", "impact": "affected definition", "unused": "unused definition"}
"""The names of found rows, for directions that are not their plural."""
RELATIONS = ("definition", *DIRECTIONS, "outline")
OF_FILES = ("imports", "importers", "outline", "unused")
FORWARD = ("callees", "imports")
"""Directions in which the target of a step is new to the caller, not its source."""


@tool(
    touches="nothing",
    always_load=True,
    instead="grep_codebase",
    aliases={"find_symbol": {}, "trace": {"relation": "callers", "limit": 100}},
)
def symbols(
    engine: "Engine",
    call: Call,
    name: Annotated[str, TextArg("Name, Class.method or glob."), "symbol"] = "",
    relation: Annotated[
        str, ChoiceArg("impact: all that a change affects, with tests.", RELATIONS), "direction"
    ] = "definition",
    path: Annotated[str, TextArg("Only this file or folder; needed for outline, imports, importers."), "outline"] = "",
    limit: Annotated[int, IntegerArg("Maximum rows.", 1, 200, clamp=True)] = 20,
    *,
    kind: Annotated[str, TextArg("function, class, method, ...")] = "",
    depth: Annotated[int, IntegerArg("Levels; default 1, for impact 3.", 0, 4, clamp=True)] = 0,
    possible: Annotated[bool, BooleanArg("List uses that may mean something else, too.")] = False,
) -> Reply:
    """Find where a symbol is defined, its callers, callees and references, or what a file defines and imports.

    Example: {"name": "Pool.close", "relation": "callers"}
    """
    chars_max, as_json = engine.settings.result_chars_max, call.structured
    is_named = bool(name.strip())
    if relation == "outline" or (relation == "definition" and path.strip() and not is_named):
        outline = engine.symbols.outline(path or name)
        return Reply(_outline_json(outline, chars_max) if as_json else format_outline(outline, chars_max))
    if not (is_named or path.strip() or relation == "unused"):
        raise InvalidArgument("name is missing", suggestion="Give name, or the path of a file for its outline.")
    if is_named:
        engine.search.hurry(name)
    if relation == "definition":
        found = engine.symbols.find(name, kind=kind or None, path=path or None, limit=limit)
        reply = _list_definitions(found).write(chars_max, as_json=as_json)
        if as_json or len(found.definitions) != 1:
            return reply
        (only,) = found.definitions
        mentions = describe_mentions(only.path, {only.qualified: only.span}, engine, call.shown)
        return Reply("\n".join([reply.text, *mentions]))
    target = path if relation in OF_FILES or not is_named else name
    traced = engine.symbols.trace(
        target or name,
        relation,  # ty: ignore[invalid-argument-type] - Choice checked it
        under=path if target == name else "",
        depth=depth,
        limit=limit,
        with_possible=possible,
    )
    return _list_steps(traced, with_possible=possible).write(chars_max, as_json=as_json)


# -- definitions ------------------------------------------------------------------------------------------------------


def _list_definitions(found: "Found") -> Listing:
    notes: dict[str, Any] = {}
    if not found.total:
        reason, step = "nothing is defined under that name", "" if found.near else "search_code finds code by words"
        if "building" in found.freshness:
            reason, step = f"{reason} in what is indexed so far: {found.freshness}", "ask again in a moment"
        notes = {"reason": reason, "near": list(found.near), "next": step}
    elif len(found.definitions) < found.total:
        more = found.total - len(found.definitions)
        notes["next"] = f"{more:,} more: raise `limit`, or narrow with `path`"
    return Listing(
        head=join_headline(format_count(found.total, "definition"), found.freshness),
        fields={"total": found.total, "freshness": found.freshness},
        name="definitions",
        lines=map(_definition_text, found.definitions),
        rows=(
            {"path": one.path, "lines": str(one.span), "kind": one.kind, "name": one.qualified}
            | drop_empty(pick_fields(one, "signature doc"))
            for one in found.definitions
        ),
        notes=notes,
        more=": narrow with `path`",
    )


def _definition_text(definition: "Definition") -> str:
    head = f"{escape_line(definition.path)}:{definition.span} {definition.kind} {definition.qualified}"
    rest = [clip_line(line, LINE_CHARS_MAX) for line in (definition.signature, definition.doc) if line]
    return "\n    ".join([head, *rest])


# -- steps of the graph -----------------------------------------------------------------------------------------------


def _list_steps(traced: "Trace", *, with_possible: bool) -> Listing:
    hidden = 0 if with_possible else traced.possible
    noun = NOUNS.get(traced.direction) or traced.direction.removesuffix("s")
    direct = sum(edge.depth == 1 for edge in traced.edges)
    steps = [f"ask for one of the {noun}s above"] * traced.truncated
    steps += ["a search for the name lists uses whose receiver is unknown"] * bool(hidden)
    return Listing(
        head=join_headline(
            "the first " * traced.truncated + format_count(len(traced.edges), noun),
            f"{direct} direct" if direct < len(traced.edges) else "",
            traced.freshness,
        ),
        fields={"freshness": traced.freshness} | ({"truncated": True} if traced.truncated else {}),
        name="steps",
        lines=_step_lines(traced),
        rows=(
            pick_fields(edge, "path line source target depth certainty")
            | {"evidence": clip_line(edge.evidence.strip(), LINE_CHARS_MAX)}
            | drop_empty(pick_fields(edge, "via origin"))
            for edge in traced.edges
        ),
        notes={
            "tests": list(traced.tests[:TESTS_SHOWN]),
            "possible": hidden or None,
            "notes": list(traced.notes),
            "next": "; ".join(steps),
        },
        more=f": ask for one of the {noun}s above",
    )


def _step_lines(traced: "Trace") -> Iterator[str]:
    """Yield a line for each step, below the one that it leads on from."""
    steps = list(_order_as_tree(traced))
    places = locate_lines((edge.path, edge.line) for edge in steps)
    return (_edge_text(edge, place, traced.direction) for edge, place in zip(steps, places, strict=True))


def _order_as_tree(traced: "Trace") -> "Iterator[Edge]":
    """Yield the steps of the first level, each before those of the next level that lead on from it."""
    is_forward = traced.direction in FORWARD
    below: dict[str, list[Edge]] = {}
    for edge in traced.edges:
        near = edge.source_at if is_forward else edge.target_at
        below.setdefault(near if edge.depth > 1 else "", []).append(edge)

    def walk(place: str) -> "Iterator[Edge]":
        for edge in below.pop(place, ()):
            yield edge
            if far := edge.target_at if is_forward else edge.source_at:
                yield from walk(far)

    yield from walk("")
    yield from (edge for rest in below.values() for edge in rest)


def _edge_text(edge: "Edge", place: str, direction: str) -> str:
    """Format a step at a place, indented by its level: the caller knows the end that it leads on from."""
    ends = edge.target if direction in FORWARD else edge.source
    if edge.kind == "base":
        ends = f"{edge.source}, which {edge.target} overrides"
    elif direction == "impact" and edge.kind == "definition":
        ends = f"{edge.source}, which overrides or extends {edge.target}"
    ends += f" via {edge.via}" if edge.via else ""
    ends += f" ({edge.origin or edge.certainty})" if edge.origin or edge.certainty != "exact" else ""
    ends += f", {edge.uses} uses" if edge.uses > 1 else ""
    what = "" if ends == edge.path else f" {ends}"
    return f"{'  ' * (edge.depth - 1)}{place}{what} | {clip_line(edge.evidence.strip(), LINE_CHARS_MAX)}"


# -- the outline of a file --------------------------------------------------------------------------------------------


def format_outline(outline: "FileOutline", chars_max: int) -> str:
    """Format the outline of a file: one indented line for each symbol, with its line range."""
    size, number = format_count(outline.lines, "line"), format_count(len(outline.symbols), "symbol")
    rows = [
        f"{'  ' * depth}{symbol.span} {clip_line(symbol.signature or f'{symbol.kind} {symbol.name}', LINE_CHARS_MAX)}"
        for depth, symbol in outline.symbols
    ]
    count = count_fitting(rows, chars_max=chars_max - NOTE_CHARS)
    left = outline.symbols[count:]
    lines = [f"{escape_line(outline.path)} · {join_headline(size, outline.language, number)}", *rows[:count]]
    lines += count_rest(len(left), f" from line {left[0][1].span.first}" if left else "", "symbol")
    return "\n".join([*lines, *(f"problem at line {line}: {message}" for line, message in outline.problems[:3])])


def _outline_json(outline: "FileOutline", chars_max: int) -> str:
    rows = [
        {"lines": str(symbol.span), "depth": depth, "kind": symbol.kind, "name": symbol.qualified}
        | drop_empty({"signature": symbol.signature})
        for depth, symbol in outline.symbols
    ]
    problems = [f"line {line}: {message}" for line, message in outline.problems[:3]]
    fields = {"path": outline.path, "total_lines": outline.lines, "language": outline.language}
    return compact_json({"outline": add_rows(fields | drop_empty({"problems": problems}), "symbols", rows, chars_max)})
