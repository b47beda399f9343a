"""What an outline is made of: symbols, imports and references, as plain tuples.

Lines and columns are 1-based, a span's `last` line is included; `start`/`stop` are byte offsets, half-open.
There may be thousands a file, so these are tuples and nothing more.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

SymbolKind = Literal[
    "function", "method", "class", "interface", "struct", "enum", "trait", "type", "module", "namespace",
    "constant", "variable", "field", "property", "macro", "constructor", "key", "section", "table", "rule",
    "stage", "target",
]  # fmt: skip
SYMBOL_KINDS: tuple[SymbolKind, ...] = get_args(SymbolKind)

CLASS_LIKE = frozenset({"class", "interface", "struct", "enum", "trait"})
"""A function directly inside one of these is a method."""


EXTENDS = "extends"
"""A block that adds to a type defined elsewhere (`impl`, `extension`): not a symbol,
but the owner of what it contains."""


class Symbol(NamedTuple):
    """One definition. `parent` indexes the outline's symbols (-1: top of the file); `line` is that of the name.

    `owner` names the type it belongs to if that type is not its parent: a Go receiver, a Rust `impl`, a C++
    `Widget::draw`, a Swift extension. `signature` and `doc` are filled in detailed outlines only.
    """

    name: str
    kind: str
    first: int
    last: int
    start: int
    stop: int
    parent: int
    line: int
    owner: str = ""
    signature: str = ""
    doc: str = ""


class Import(NamedTuple):
    """One import as written: `target` is the module, header or path; `names` what is taken from it, where cheap."""

    target: str
    line: int
    names: tuple[str, ...] = ()


class SymbolReference(NamedTuple):
    """A name that is used at `start` in bytes: `kind` is call, type or read."""

    start: int
    name: str
    line: int
    column: int
    kind: str


class FoundSymbol(NamedTuple):
    """A definition before nesting. Sorting these puts every parent in front of its children.

    `at` is the offset of the name: it orders several names of one declaration (`const a, b = 1, 2`).
    """

    start: int
    minus_stop: int
    at: int
    name: str
    kind: str
    first: int
    last: int
    line: int
    owner: str = ""


def nest_symbols(found: list[FoundSymbol]) -> list[Symbol]:
    """Return the symbols in file order, each with its parent.

    >>> found = [FoundSymbol(9, -20, 13, "run", "function", 2, 3, 2), FoundSymbol(0, -30, 6, "Task", "class", 1, 4, 1)]
    >>> [(symbol.name, symbol.kind, symbol.parent) for symbol in nest_symbols(found)]
    [('Task', 'class', -1), ('run', 'method', 0)]
    """
    found.sort()
    symbols: list[Symbol] = []
    make = tuple.__new__
    parent, begin, stop, scope = -1, -1, 1 << 62, ""
    opened: list[tuple[int, int, int, str]] = []
    for start, minus_stop, _, name, kind, first, last, line, owner in found:
        while start >= stop or -minus_stop > stop or (start == begin and -minus_stop == stop):
            parent, begin, stop, scope = opened.pop()
        opened.append((parent, begin, stop, scope))
        if kind == EXTENDS:
            begin, stop, scope = start, -minus_stop, name
            continue
        owner = owner or scope
        if kind == "function" and (owner or (parent >= 0 and symbols[parent][1] in CLASS_LIKE)):
            kind = "method"
        symbols.append(make(Symbol, (name, kind, first, last, start, -minus_stop, parent, line, owner, "", "")))
        parent, begin, stop, scope = len(symbols) - 1, start, -minus_stop, ""
    return symbols


def join_clauses(found: list[FoundSymbol]) -> list[FoundSymbol]:
    """Join clauses that follow each other into one definition: a Haskell signature and its equations, Elixir's `def`s.

    >>> one = FoundSymbol(0, -9, 0, "add", "function", 1, 1, 1)
    >>> two = FoundSymbol(10, -19, 10, "add", "function", 2, 2, 2)
    >>> [(symbol.first, symbol.last) for symbol in join_clauses([one, two])]
    [(1, 2)]
    """
    joined: list[FoundSymbol] = []
    for symbol in sorted(found):
        before = joined[-1] if joined else None
        if before and (before.name, before.kind) == (symbol.name, symbol.kind) and symbol.start >= -before.minus_stop:
            joined[-1] = before._replace(minus_stop=symbol.minus_stop, last=symbol.last)
        else:
            joined.append(symbol)
    return joined
