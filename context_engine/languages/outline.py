r"""Outline a file: what it defines and imports. Never raises: a broken file is a file with problems.

One parse and one query without a walk over nodes in Python, since this runs on every file of a work tree. `details`
adds signatures, doc comments and syntax errors, which only answers need; see `signatures.py`.

>>> from context_engine.languages import Grammars, Languages
>>> python = Languages.builtin()["python"]
>>> source = b"import os\n\nclass Cat:\n    def purr(self): ...\n"
>>> found = outline_file(python, source, Grammars(getfixture("tmp_path")))
>>> [(symbol.kind, symbol.name, symbol.first, symbol.last) for symbol in found.symbols]
[('class', 'Cat', 3, 4), ('method', 'purr', 4, 4)]
>>> found.imports
(Import(target='os', line=1, names=()),)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from tree_sitter import Node

from context_engine.languages import signatures as detailed
from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language, compile_pattern, macro_call
from context_engine.languages.line_scanners import SCANNERS
from context_engine.languages.outline_types import (
    EXTENDS,
    SYMBOL_KINDS,
    FoundSymbol,
    Import,
    Symbol,
    SymbolReference,
    join_clauses,
    nest_symbols,
)
from context_engine.languages.syntax_pieces import PiecewiseTree, read_pieces
from context_engine.languages.syntax_trees import node_position
from context_engine.model import Finding, syntax_finding

PROBLEMS_MAX = 20
"""Errors in a detailed outline: enough to see that imports or symbols may be missing."""
DETAILED_BYTES_MAX = 1_000_000
"""The details of so many bytes take 0.4 s of processor time; the rest of a longer file has none."""
REFERENCES_MAX = 20_000  # more than any file a person wrote; a generated one must not fill the memory
USES = frozenset({"call", "type", "read"})


@dataclass(frozen=True, slots=True)
class Outline:
    """What a file contains; `problems` report what could not be read."""

    symbols: tuple[Symbol, ...] = ()
    imports: tuple[Import, ...] = ()
    problems: tuple[Finding, ...] = ()


def outline_file(language: Language, data: bytes, grammars: Grammars, *, details: bool = False) -> Outline:
    """Outline one file. `data` may be anything: not UTF-8, cut in half, nested a hundred thousand deep."""
    if details and len(data) > DETAILED_BYTES_MAX:
        part = data[: data.rfind(b"\n", 0, DETAILED_BYTES_MAX) + 1 or DETAILED_BYTES_MAX]
        found, line = outline_file(language, part, grammars, details=True), part.count(b"\n") + 1
        rest = syntax_finding(line, 1, f"not outlined from here, after {len(part):,} of {len(data):,} bytes")
        return replace(found, problems=(rest, *found.problems[: PROBLEMS_MAX - 1]))
    if language.scanner is not None:
        return _scan(language, data, details=details)
    if language.grammar is None:
        return Outline()
    cursor = grammars.cursor(language.grammar, language.definitions)
    if cursor is None:
        return _without(grammars.problem(language.grammar, language.definitions))
    data, tree = read_pieces(language, data, grammars)
    if isinstance(tree, str):
        return _without(tree)
    if language.depth_max is not None:
        cursor.set_max_start_depth(language.depth_max)
    found, imports, nodes = read_matches(language, data, tree.matches(cursor))
    if language.macros:
        found = add_macros(language, data, tree, found)
    symbols = nest_symbols(join_clauses(found) if language.joins_clauses else found)
    if not details:
        return Outline(tuple(symbols), tuple(imports))
    symbols = detailed.add_details(language, data, symbols, nodes)
    return Outline(tuple(symbols), tuple(imports), tree.errors(data, PROBLEMS_MAX))


def find_references(
    language: Language, data: bytes, symbols: Iterable[Symbol], grammars: Grammars
) -> list[SymbolReference]:
    """Return the uses of names in a file, in its order; the names of its symbols are none."""
    cursor = grammars.cursor(language.grammar or "", language.references) if language.references else None
    data, tree = read_pieces(language, data, grammars)
    if cursor is None or isinstance(tree, str):
        return []
    uses: dict[int, tuple[str, Node]] = {}
    for _, captured in tree.matches(cursor):
        for kind in captured.keys() & USES:
            for node in captured[kind]:
                uses.setdefault(node.start_byte, (kind, node))
    names = {data.find(symbol.name.encode("utf-8", "replace"), symbol.start) for symbol in symbols}
    found = []
    for start in sorted(uses.keys() - names)[:REFERENCES_MAX]:
        kind, node = uses[start]
        name = data[start : node.end_byte].decode("utf-8", "replace")
        found.append(SymbolReference(start, name, *node_position(data, node), kind))
    return found


def _scan(language: Language, data: bytes, *, details: bool) -> Outline:
    scan = SCANNERS.get(language.scanner or "")
    if scan is None:
        return _without(f"no scanner named {language.scanner}")
    found, imports = scan(data)
    symbols = nest_symbols(found)
    return Outline(tuple(detailed.add_details(language, data, symbols, {}) if details else symbols), tuple(imports))


def _without(problem: str) -> Outline:
    return Outline(problems=(syntax_finding(1, 1, problem),))


# -- matches of queries ------------------------------------------------------------------------------------------------

# Turn the matches of a query into definitions and imports. The hot path: one pass, without a walk over nodes.
#
# A pattern captures `@name` and the whole definition under the name of its kind (`@class`); `@owner` may add the type
# it belongs to. `@import` is an import's target, `@from` the statement around it. `@definition` with `@keyword` leaves
# the kind to the `keywords` of the language. `@extends` is a block that adds to the type it names, and is not a symbol.
# `@skip` keeps later patterns off a name; captures that start with `_` are for the predicates of the pattern.

KINDS = frozenset({*SYMBOL_KINDS, EXTENDS})
VALUES = frozenset({"variable", "field", "property"})
DECLARED = frozenset({"function", "method", "variable", "field", "type", "class", "struct"})
CALLABLE = {"variable": "function", "field": "method"}
QUOTES = "\"'`<"
IMPORT_CHARS_MAX = 10_000  # one `use` statement of Rust may list a hundred names
NAME_CHARS_MAX = 200  # a CSS selector or a SQL name can be a page long; a title cannot
WORDS = re.compile(r"(\w+)(?:\s+as\s+\w+)?")
STATEMENT = re.compile(
    r"(?:(?:pub|public|export|global|static|import|using|use|open|unsafe|function|const|type|struct|class)\s+)+"
    r"(?:\w+\s*=\s*)?"
)
Captured: TypeAlias = dict[str, list[Node]]
Nodes: TypeAlias = dict[tuple[int, int], Node]


class DefinitionMatch(NamedTuple):
    """One definition as the query found it; of two on one name, the `pattern` written first wins."""

    pattern: int
    kind: str
    node: Node
    name: Node
    owner: str = ""


def read_matches(
    language: Language, data: bytes, matches: Iterable[tuple[int, Captured]]
) -> tuple[list[FoundSymbol], list[Import], Nodes]:
    """Return the definitions, the imports, and the nodes of the definitions by (start, stop)."""
    best: dict[int, DefinitionMatch] = {}
    imports: list[Import] = []
    make = tuple.__new__
    for pattern, captured in matches:
        names = captured.pop("name", None)
        if names is None:
            if "import" in captured:
                _add_imports(imports, data, captured)
            continue
        name = names[0]
        start = name.start_byte
        before = best.get(start)
        if before is not None and before[0] <= pattern:
            continue
        if len(captured) == 1:
            kind, found = captured.popitem()
            best[start] = make(DefinitionMatch, (pattern, kind, found[0], name, ""))
        else:
            match = _with_extras(language, data, pattern, captured, name)
            if match.kind == "import":
                _add_imports(imports, data, {"import": names})
            best[start] = match
    found_, nodes = _find_symbols(language, data, best)
    return found_, imports, nodes


def _with_extras(language: Language, data: bytes, pattern: int, captured: Captured, name: Node) -> DefinitionMatch:
    """Read a match with an owner, a keyword that gives its kind, or captures for its own predicates."""
    owners, keywords = captured.pop("owner", None), captured.pop("keyword", None)
    owner = bare_type_name(_name(data, owners[0])) if owners else ""
    if keywords:
        kind = dict(language.keywords).get(_name(data, keywords[0]), "")
        return DefinitionMatch(pattern, kind, captured["definition"][0], name, owner)
    for kind, found in captured.items():
        if kind in KINDS:
            return DefinitionMatch(pattern, kind, found[0], name, owner)
    return DefinitionMatch(pattern, "skip", name, name)


def _find_symbols(language: Language, data: bytes, best: dict[int, DefinitionMatch]) -> tuple[list[FoundSymbol], Nodes]:
    found: list[FoundSymbol] = []
    nodes: Nodes = {}
    make = tuple.__new__
    declarator = _declarator(language)
    for _, kind, node, name, owner in best.values():
        if kind not in KINDS or name.start_byte == name.end_byte:
            continue  # a bit field may have no name
        text = _name(data, name)
        if kind == EXTENDS:
            text = bare_type_name(text)
        elif declarator is not None and kind in DECLARED:
            text, kind, owner = _read_declarator(declarator, text, kind, owner)
        if kind in VALUES and language.upper_is_constant and len(text) > 1 and text.isupper():
            kind = "constant"
        if kind != "rule" and text[:1] == ":":  # Ruby's attr_reader :name
            text = text[1:]
        start, stop = node.start_byte, node.end_byte
        row, (last, column) = node.start_point[0], node.end_point
        # A node that ends with its newline ends on the line before.
        last = last + 1 if column or last == row else last
        line = name.start_point[0] + 1
        found.append(make(FoundSymbol, (start, -stop, name.start_byte, text, kind, row + 1, last, line, owner)))
        nodes[start, stop] = node
    return found, nodes


def _name(data: bytes, node: Node, chars_max: int = NAME_CHARS_MAX) -> str:
    text = data[node.start_byte : node.end_byte].decode("utf-8", "replace")
    if text[:1] in QUOTES and any(map(str.isalnum, text)):  # an operator may be `<=>`
        text = text.strip(QUOTES + ">")
    if len(text) > 40 or "\n" in text:
        text = " ".join(text[: 10 * chars_max].split())[:chars_max]
    return text


@lru_cache(maxsize=256)
def _declarator(language: Language) -> re.Pattern[str] | None:
    return compile_pattern(language.declarator) if language.declarator else None


def _read_declarator(declarator: re.Pattern[str], text: str, kind: str, owner: str) -> tuple[str, str, str]:
    """Read name, kind and owner out of a whole declarator, as C writes them: `*zoo::Cat::purr(int)`."""
    match = declarator.match(text)
    if match is None or match["name"] is None:
        return text, kind, owner
    path, name, call = match.group("path", "name", "call")
    if call:
        kind = CALLABLE.get(kind, kind)
    return " ".join(name.split()), kind, bare_type_name(path[:-2]) if path else owner


def bare_type_name(text: str) -> str:
    """Return the name of a type without its path, its parameters and its marks.

    >>> [bare_type_name(text) for text in ("zoo::Cat<T>", "&'a mut Cat", "a.b.Cat")]
    ['Cat', 'Cat', 'Cat']
    """
    words = re.findall(r"[\w$]+", text.partition("<")[0] or text)
    return words[-1] if words else text


# -- macros ------------------------------------------------------------------------------------------------------


ARGUMENT = re.compile(rb'\s*+("[^"\n]*+"|(?![0-9])[^,()"]{0,200}+)([,)])')
INSIDE = frozenset({"comment", "compound_statement", "preproc_arg", "preproc_def", "raw_string_content"})
"""Where a macro defines nothing that others see."""


def add_macros(language: Language, data: bytes, tree: PiecewiseTree, found: list[FoundSymbol]) -> list[FoundSymbol]:
    """Add what calls of macros define outside of functions: `TEST(Zoo, purrs) { ... }`, `DEFINE_MUTEX(lock);`."""
    added: dict[int, FoundSymbol] = {}
    for pattern, number, kind in language.macros:
        for call in compile_pattern(macro_call(pattern), of_bytes=True).finditer(data):
            name = _find_argument(data, call.end(), number)
            start = call.start(1)
            node = tree.tree_at(start).root_node.descendant_for_byte_range(start, start + 1)
            node = node and _statement_of(node)
            if name is None or node is None:
                continue
            body = node.next_named_sibling
            is_around = body is not None and body.type == "compound_statement"
            last = body if is_around and not data[node.end_byte : body.start_byte].strip() else node
            line = data.count(b"\n", start, name.start(1)) + node.start_point[0] + 1
            text = name[1].decode("utf-8", "replace").strip().strip('"')
            first, stop = node.start_point[0] + 1, last.end_byte
            symbol = FoundSymbol(start, -stop, name.start(1), text, kind, first, last.end_point[0] + 1, line)
            added.setdefault(start, symbol)
    return [symbol for symbol in found if symbol.start not in added] + list(added.values())


def _find_argument(data: bytes, at: int, number: int) -> re.Match[bytes] | None:
    """Return an argument of a call by its number, or the last one; None if it is empty."""
    found = None
    for _ in range(number):
        argument = ARGUMENT.match(data, at)
        if argument is None:
            break
        found, at = argument, argument.end()
        if argument[2] == b")":
            break
    return found if found is not None and found[1].strip() else None


def _statement_of(node: Node) -> Node | None:
    """Return the statement that begins with a node; None if it is inside of a function or of no code."""
    outer: Node | None = node
    while outer is not None and outer.parent is not None:
        if outer.type in INSIDE:
            return None
        if outer.start_byte == node.start_byte:
            node = outer
        outer = outer.parent
    return node


# -- imports ------------------------------------------------------------------------------------------------------


def _add_imports(imports: list[Import], data: bytes, captured: Captured) -> None:
    """Read one import. `@from` spans the whole statement where the taken names follow the module (Python)."""
    statement = captured.get("from")
    for node in captured["import"]:
        target, line = _name(data, node, IMPORT_CHARS_MAX), node.start_point[0] + 1
        if " " in target:
            target = STATEMENT.sub("", target, count=1).rstrip("; \n").strip(QUOTES)
        if statement:
            tail = data[node.end_byte : statement[0].end_byte].decode("utf-8", "replace")
            names = tuple(name for name in WORDS.findall(tail) if name != "import")
            imports.append(Import(target, line, names))
        elif "{" in target:
            imports.extend(Import(path, line) for path in expand_braces(target))
        else:
            imports.append(Import(target.partition(" as ")[0], line))


def expand_braces(target: str) -> list[str]:
    """Return the single paths of an import that lists several in braces.

    >>> expand_braces("std::{fs, io::{self, Read as R}}")
    ['std::fs', 'std::io', 'std::io::Read']
    """
    paths: list[str] = []
    prefixes = [""]
    for text, mark in re.findall(r"([^{},]*)([{},]|$)", target):
        text = text.strip().partition(" as ")[0].partition(" => ")[0].strip()
        if mark == "{":
            prefixes.append(prefixes[-1] + text)
        elif text:
            paths.append((prefixes[-1] + text).removesuffix("::self"))
        if mark == "}" and len(prefixes) > 1:
            prefixes.pop()
    return paths
