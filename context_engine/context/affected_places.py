"""The reach of an edit: where else the changed definitions are used, and which tests cover them."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.context.related_files import find_partners, is_test
from context_engine.context.workspace import Workspace
from context_engine.errors import ContextEngineError
from context_engine.model import Definition
from context_engine.text import LineSpan, escape_line

SYMBOLS_MAX = 3
"""Changed definitions that are looked up; an edit of more is a rewrite of the file."""
TESTS_MAX = 3
USES_MAX = 5
FILES_MAX = 12
"""Files whose uses of a name are resolved, which takes a few milliseconds each. Of a name in more files, the edit names
some of the definitions that contain it."""


def describe_affected_places(path: str, changed: Sequence[LineSpan], workspace: Workspace) -> list[str]:
    """Return a line for each changed definition that is used elsewhere, and one for the tests, as far as there are any.

    `changed` are lines of the file as it is now. A file without an index, or that cannot be read, has no line.
    """
    try:
        outline = workspace.symbols.outline(path)
    except ContextEngineError:
        return []
    path, symbols = outline.path, [symbol for _, symbol in outline.symbols]
    lines, tests = [], list(find_partners(path, workspace.symbols.files_named))
    for symbol in find_changed_symbols(symbols, changed):
        line, used_by_tests = _describe_uses(path, symbol, workspace)
        lines += [line] if line else []
        tests += used_by_tests
    if tests and not is_test(path):
        named = list(dict.fromkeys(map(escape_line, tests)))
        more = ""
        if len(named) > TESTS_MAX:
            more = f" and {len(named) - TESTS_MAX} more"
        lines.append(f"tests: {', '.join(named[:TESTS_MAX])}{more}")
    return lines


def find_changed_symbols(symbols: Sequence[Definition], changed: Sequence[LineSpan]) -> list[Definition]:
    """Return the smallest definition around the first line of each change, each once, in order of the changes."""
    found: dict[str, Definition] = {}
    for span in changed:
        around = [symbol for symbol in symbols if symbol.kind != "section" and symbol.span.contains(span)]
        inside = [symbol for symbol in symbols if symbol.kind != "section" and span.contains(symbol.span)]
        for symbol in [min(around, key=lambda symbol: symbol.span.lines)] if around else inside:
            found.setdefault(symbol.qualified, symbol)
    return list(found.values())[:SYMBOLS_MAX]


def _describe_uses(path: str, symbol: Definition, workspace: Workspace) -> tuple[str, list[str]]:
    """Return a line about the callers of a definition, and the tests that mention it; nothing without an index."""
    try:
        neighbors = workspace.symbols.neighbors(path, symbol.span)
    except ContextEngineError:
        return "", []
    tests = [one.path for one in neighbors if one.relation == "tests it"]
    uses = [(one.path, one.line) for one in neighbors if one.relation == "uses it"]
    exact = workspace.symbols.list_uses(path, symbol.name, symbol.span.first, files_max=FILES_MAX) if uses else None
    if exact is not None:
        uses = [(file, line) for file, line in exact if not is_test(file)]
    if not uses:
        return "", tests
    named = ", ".join(f"{escape_line(file)}:{line}" for file, line in uses[:USES_MAX])
    more = f" and {len(uses) - USES_MAX} more" if len(uses) > USES_MAX else ""
    return f"`{symbol.qualified}` is used by {named}{more}", tests
