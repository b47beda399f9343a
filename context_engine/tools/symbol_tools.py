"""Tools that answer from the code graph: where a name is defined, who uses it, what a file defines and imports."""

from typing import TYPE_CHECKING, Annotated

from context_engine.errors import InvalidArgument
from context_engine.text import compact_json, drop_empty, escape_line, format_count
from context_engine.tools.arguments import BooleanArg, ChoiceArg, IntegerArg, TextArg
from context_engine.tools.reply import (
    NOTE_CHARS,
    clip_line,
    count_fitting,
    join_first,
    join_headline,
    keep_fitting,
    pick_fields,
    take_fitting_rows,
)
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from context_engine.engine import Engine
    from context_engine.model import Definition, Direction, Edge, FileOutline, Found, Trace

LINE_CHARS_MAX = 160
TESTS_SHOWN = 8
"""Test files named with an impact."""
DIRECTIONS: "tuple[Direction, ...]" = (
    *("callers", "callees", "references", "implementations", "hierarchy"),
    *("imports", "importers", "impact", "unused"),
)
RELATIONS = ("definition", *DIRECTIONS, "outline")
OF_FILES = ("imports", "importers", "outline", "unused")


@tool(touches="nothing", always_load=True, instead="grep_codebase", rare=("kind", "depth", "possible"))
def symbols(
    engine: "Engine",
    call: Call,
    name: Annotated[str, TextArg("Name, Class.method or glob."), "symbol"] = "",
    relation: Annotated[
        str,
        ChoiceArg("impact: all that a change affects, with tests.", RELATIONS),
    ] = "definition",
    path: Annotated[str, TextArg("Only in it; file of imports, importers, outline.")] = "",
    kind: Annotated[str, TextArg("function, class, method, ...")] = "",
    limit: Annotated[int, IntegerArg("Most rows.", 1, 200, clamp=True)] = 20,
    depth: Annotated[int, IntegerArg("Levels; 0: 1, or 3 for impact.", 0, 4, clamp=True)] = 0,
    possible: Annotated[bool, BooleanArg("List uses that may mean something else, too.")] = False,
) -> Reply:
    """Find where a symbol is defined, its callers, callees and references, or what a file defines and imports.

    Example: {"name": "Pool.close", "relation": "callers"}
    """
    chars_max = engine.settings.result_chars_max
    is_named = bool(name.strip())
    if relation == "outline" or (relation == "definition" and path.strip() and not is_named):
        outline = engine.symbols.outline(path or name)
        return Reply(_outline_json(outline, chars_max) if call.structured else format_outline(outline, chars_max))
    if not (is_named or path.strip() or relation == "unused"):
        raise InvalidArgument("name is missing", suggestion="Give name, or the path of a file for its outline.")
    if is_named:
        engine.search.hurry(name)
    if relation == "definition":
        found = engine.symbols.find(name, kind=kind or None, path=path or None, limit=limit)
        return Reply(_definitions_json(found, chars_max) if call.structured else _format_definitions(found, chars_max))
    target = path if relation in OF_FILES or not is_named else name
    traced = engine.symbols.trace(
        target or name,
        relation,  # ty: ignore[invalid-argument-type] - Choice checked it
        depth=depth,
        limit=limit,
        with_possible=possible,
    )
    if call.structured:
        return Reply(_trace_json(traced, chars_max, possible=possible))
    return Reply(_format_trace(traced, chars_max, possible=possible))


@tool(touches="nothing", instead="grep_codebase")
def find_symbol(
    engine: "Engine",
    name: Annotated[str, TextArg("Name, qualified name, or glob such as *Handler.")] = "",
    kind: Annotated[str, TextArg("function, class, method, ...")] = "",
    path: Annotated[str, TextArg("Only in this file or folder.")] = "",
    limit: Annotated[int, IntegerArg("Most definitions.", 1, 200)] = 20,
    outline: Annotated[str, TextArg("A file: list its symbols, instead of name.")] = "",
) -> Reply:
    """Find where a function, class, method, type or variable is defined, by name, qualified name or glob.

    Returns signature, lines and doc line; with outline, every symbol of one file.
    """
    if not (outline or name.strip()):
        raise InvalidArgument("name is missing", suggestion="Give name, or outline with the path of a file.")
    chars_max = engine.settings.result_chars_max
    if outline:
        return Reply(format_outline(engine.symbols.outline(outline), chars_max))
    engine.search.hurry(name)
    found = engine.symbols.find(name, kind=kind or None, path=path or None, limit=limit)
    return Reply(_format_definitions(found, chars_max))


@tool(touches="nothing", instead="grep_codebase")
def trace(
    engine: "Engine",
    symbol: Annotated[str, TextArg("Function, class or method, best qualified.")] = "",
    path: Annotated[str, TextArg("A file, for its imports or importers.")] = "",
    direction: Annotated[str, ChoiceArg("What to follow.", DIRECTIONS)] = "callers",
    depth: Annotated[int, IntegerArg("Levels; 0: 1, or 3 for impact.", 0, 4)] = 0,
    possible: Annotated[bool, BooleanArg("List uses that may mean something else, too.")] = False,
) -> Reply:
    """Find references in the code graph: callers, callees, imports, importers, or all that a change affects (impact).

    Names are resolved by imports and types. Each step has path:line and its source line; impact names the tests to run.
    """
    if bool(symbol.strip()) == bool(path.strip()):
        raise InvalidArgument("trace takes a symbol or a path", suggestion="Give exactly one of symbol and path.")
    if symbol.strip():
        engine.search.hurry(symbol)
    traced = engine.symbols.trace(symbol or path, direction, depth=depth, limit=STEPS_MAX, with_possible=possible)  # ty: ignore[invalid-argument-type] - Choice checked it
    return Reply(_format_trace(traced, engine.settings.result_chars_max, possible=possible))


STEPS_MAX = 100
"""Steps of `trace`, which takes no limit."""


def _format_definitions(found: "Found", chars_max: int) -> str:
    blocks = [_definition_text(definition) for definition in found.definitions]
    count = count_fitting(blocks, chars_max=chars_max - NOTE_CHARS)
    lines = [join_headline(format_count(found.total, "definition"), found.freshness), *blocks[:count]]
    if count < found.total:
        lines.append(f"… {found.total - count:,} more: raise limit, or narrow with kind or path.")
    if not found.total:
        near = f"near: {', '.join(found.near)}" if found.near else "no name comes close: try search_code"
        lines.append(f"nothing is defined under that name; {near}")
    return "\n".join(lines)


def _format_trace(traced: "Trace", chars_max: int, *, possible: bool) -> str:
    blocks = [_edge_text(edge, traced.direction) for edge in traced.edges]
    count = count_fitting(blocks, chars_max=chars_max - NOTE_CHARS)
    shown = _with_levels(blocks[:count], traced) if traced.direction == "impact" else blocks[:count]
    lines = [join_headline(format_count(len(traced.edges), "step"), traced.freshness), *shown]
    if count < len(blocks) or traced.truncated:
        lines.append("… there is more: lower depth, or ask for one of the steps above.")
    if traced.tests:
        lines.append(f"tests to run first: {join_first(traced.tests, TESTS_SHOWN)}")
    if traced.possible and not possible:
        lines.append(f"{format_count(traced.possible, 'possible use')} hidden: the receiver is unknown; possible: true")
    lines += [f"note: {note}" for note in traced.notes]
    return "\n".join(lines)


def _with_levels(blocks: "Sequence[str]", traced: "Trace") -> list[str]:
    """Return the steps with a line before those of each level."""
    levels = [edge.depth for edge in traced.edges]
    lines: list[str] = []
    for number, block in enumerate(blocks):
        if number == 0 or levels[number] != levels[number - 1]:
            lines.append(f"level {levels[number]}: {format_count(levels.count(levels[number]), 'definition')}")
        lines.append(block)
    return lines


def format_outline(outline: "FileOutline", chars_max: int) -> str:
    """Format the outline of a file: one indented line for each symbol, with its line range."""
    size, count = format_count(outline.lines, "line"), format_count(len(outline.symbols), "symbol")
    head = join_headline(outline.path, size, outline.language, count)
    rows = [f"{'  ' * depth}{symbol.span} {_signature(symbol)}" for depth, symbol in outline.symbols]
    shown = keep_fitting(
        rows,
        chars_max=chars_max - NOTE_CHARS,
        name_rest=lambda left: (
            f"… {format_count(left, 'more symbol')} from line {outline.symbols[-left][1].span.first}"
        ),
    )
    problems = [f"problem at line {line}: {message}" for line, message in outline.problems[:3]]
    return "\n".join([head, *shown, *problems])


def _definition_text(definition: "Definition") -> str:
    head = f"{escape_line(definition.path)}:{definition.span} {definition.kind} {definition.qualified}"
    rest = [clip_line(line, LINE_CHARS_MAX) for line in (definition.signature, definition.doc) if line]
    return "\n    ".join([head, *rest])


def _edge_text(edge: "Edge", direction: str) -> str:
    """Format a step; on the first level the caller knows one of its ends."""
    indent = "  " if direction == "impact" else "  " * (edge.depth - 1)
    evidence = clip_line(edge.evidence.strip(), LINE_CHARS_MAX)
    ends = f"{edge.source} -> {edge.target}"
    if edge.depth == 1:
        ends = edge.target if direction in ("callees", "imports") else edge.source
    if direction == "impact" and edge.kind == "definition":
        ends = f"{edge.source}, which overrides or extends {edge.target}"
    if edge.kind == "base":
        ends = f"{edge.source}, which {edge.target} overrides"
    ends += f" via {edge.via}" if edge.via else ""
    ends += f" ({edge.origin or edge.certainty})" if edge.origin or edge.certainty != "exact" else ""
    ends += f", {edge.uses} uses" if edge.uses > 1 else ""
    what = "" if ends == edge.path else f" {ends}"
    return f"{indent}{escape_line(edge.path)}:{edge.line}{what} | {evidence}"


def _signature(symbol: "Definition") -> str:
    return clip_line(symbol.signature or f"{symbol.kind} {symbol.name}", LINE_CHARS_MAX)


# -- for programs -----------------------------------------------------------------------------------------------------


def _definitions_json(found: "Found", chars_max: int) -> str:
    rows = [
        {"path": definition.path, "lines": str(definition.span), "kind": definition.kind, "name": definition.qualified}
        | drop_empty(pick_fields(definition, "signature doc"))
        for definition in found.definitions
    ]
    head = {"total": found.total, "freshness": found.freshness}
    shown = take_fitting_rows(rows, chars_max=chars_max)
    return compact_json(head | {"definitions": shown} | drop_empty({"near": list(found.near)}))


def _trace_json(traced: "Trace", chars_max: int, *, possible: bool) -> str:
    rows = [
        pick_fields(edge, "path line source target depth certainty")
        | {"evidence": clip_line(edge.evidence.strip(), LINE_CHARS_MAX)}
        | drop_empty(pick_fields(edge, "via origin"))
        for edge in traced.edges
    ]
    shown = take_fitting_rows(rows, chars_max=chars_max - NOTE_CHARS)
    notes = {
        "tests": list(traced.tests[:TESTS_SHOWN]),
        "possible": traced.possible if traced.possible and not possible else None,
        "truncated": traced.truncated or len(shown) < len(rows) or None,
        "notes": list(traced.notes),
    }
    return compact_json({"freshness": traced.freshness, "steps": shown} | drop_empty(notes))


def _outline_json(outline: "FileOutline", chars_max: int) -> str:
    rows = [
        {"lines": str(symbol.span), "depth": depth, "kind": symbol.kind, "name": symbol.qualified}
        | drop_empty({"signature": symbol.signature})
        for depth, symbol in outline.symbols
    ]
    shown = take_fitting_rows(rows, chars_max=chars_max)
    problems = [f"line {line}: {message}" for line, message in outline.problems[:3]]
    fields = {"path": outline.path, "total_lines": outline.lines, "language": outline.language, "symbols": shown}
    notes = {"truncated": len(shown) < len(rows) or None}
    return compact_json({"outline": fields | drop_empty({"problems": problems})} | drop_empty(notes))
