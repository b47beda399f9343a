"""A file's bytes -> its outline: what it defines and imports. Never raises: a broken file is a file with problems.

One parse and one query, with no walk over nodes in Python: this runs on every file of a work tree.
`details` adds what only an answer needs (signatures, doc comments, references, syntax errors); see `details.py`.

>>> from context_engine.languages import Grammars, Languages
>>> python = Languages.builtin()["python"]
>>> found = outline(python, b"import os\\n\\nclass Cat:\\n    def purr(self): ...\\n", Grammars("/tmp/grammars"))
>>> [(symbol.kind, symbol.name, symbol.first, symbol.last) for symbol in found.symbols]
[('class', 'Cat', 3, 4), ('method', 'purr', 4, 4)]
>>> found.imports
(Import(target='os', line=1, names=()),)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tree_sitter import Node, Tree

from context_engine.languages import details as detailed
from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language
from context_engine.languages.parts import SYMBOL_KINDS, Found, Import, Problem, Reference, Symbol, joined, nested
from context_engine.languages.scanners import SCANNERS

KINDS = frozenset(SYMBOL_KINDS)
MAY_BE_CONSTANT = frozenset({"variable", "field", "property"})
QUOTES = "\"'`<"
NAME_CHARS_MAX = 200  # a CSS selector or a SQL name can be a page long; a title cannot
WORDS = re.compile(r"(\w+)(?:\s+as\s+\w+)?")
KEYWORDS = re.compile(
    r"(?:(?:pub|public|export|global|static|import|using|use|open|unsafe|function|const|type|struct|class)\s+)+"
    r"(?:\w+\s*=\s*)?"
)
Captured: TypeAlias = dict[str, list[Node]]


@dataclass(frozen=True, slots=True)
class Outline:
    """What a file holds. `references` are there in detailed outlines only; `problems` say what could not be read."""

    symbols: tuple[Symbol, ...] = ()
    imports: tuple[Import, ...] = ()
    references: tuple[Reference, ...] = ()
    problems: tuple[Problem, ...] = ()


def outline(language: Language, data: bytes, grammars: Grammars, *, details: bool = False) -> Outline:
    """The outline of one file. `data` may be anything: not UTF-8, cut in half, nested a hundred thousand deep."""
    if language.scanner is not None:
        return _scanned(language, data, grammars, details)
    if language.grammar is None:
        return Outline()
    parser = grammars.parser(language.grammar)
    cursor = grammars.cursor(language.grammar, language.definitions) if parser and language.definitions else None
    if parser is None or cursor is None:
        return Outline(problems=(Problem(1, 1, grammars.problem(language.grammar, language.definitions)),))
    if language.only_inside:
        data = _only_inside(language.only_inside, data)
    tree = parser.parse(data)
    if language.depth_max is not None:
        cursor.set_max_start_depth(language.depth_max)
    found, imports, nodes = _sorted_out(language, data, cursor.matches(tree.root_node))
    symbols = nested(joined(found) if language.joins_clauses else found)
    if not details:
        return Outline(tuple(symbols), tuple(imports))
    return _with_details(language, data, grammars, tree, symbols, imports, nodes)


BLANKS = bytes(byte if byte in b"\n\r" else 32 for byte in range(256))


def _only_inside(pairs: tuple[tuple[str, str], ...], data: bytes) -> bytes:
    """The same bytes with everything outside the pairs blank, so that lines and offsets stay what they were.

    >>> _only_inside((("<a>", "</a>"),), b"no<a>yes</a>no")
    b'     yes      '
    """
    pieces, end = [], 0
    for opening, closing in pairs:
        for match in re.finditer(rb"%b(.*?)(?:%b|\Z)" % (opening.encode(), closing.encode()), data, re.S | re.I):
            if match.start(1) >= end:
                pieces += [data[end : match.start(1)].translate(BLANKS), match[1]]
                end = match.end(1)
    return b"".join([*pieces, data[end:].translate(BLANKS)])


def _sorted_out(
    language: Language, data: bytes, matches: list[tuple[int, Captured]]
) -> tuple[list[Found], list[Import], dict[tuple[int, int], Node]]:
    """The query's matches as definitions and imports; of two on one name, the pattern written first wins."""
    best: dict[int, tuple[int, str, Node, Node, str]] = {}
    imports: list[Import] = []
    for pattern, captured in matches:
        names = captured.pop("name", None)
        if names is None:
            if "import" in captured:
                _add_imports(imports, data, captured)
            continue
        name = names[0]
        start = name.start_byte
        before = best.get(start)
        if before is None or pattern < before[0]:
            owners = captured.pop("owner", None)
            owner = _name(data, owners[0]) if owners else ""
            kind, found = captured.popitem() if len(captured) == 1 else _kind(captured, name)
            best[start] = (pattern, kind, found[0], name, owner)
    found, nodes = _found(language, data, best)
    return found, imports, nodes


def _found(
    language: Language, data: bytes, best: dict[int, tuple[int, str, Node, Node, str]]
) -> tuple[list[Found], dict[tuple[int, int], Node]]:
    found: list[Found] = []
    nodes: dict[tuple[int, int], Node] = {}
    make = tuple.__new__
    for _, kind, node, name, owner in best.values():
        text = _name(data, name)
        if kind in MAY_BE_CONSTANT:
            if language.upper_is_constant and len(text) > 1 and text.isupper():
                kind = "constant"
            elif text[:1] == ":":  # Ruby's attr_reader :name
                text = text[1:]
        elif kind not in KINDS:
            continue
        start, stop = node.start_byte, node.end_byte
        last, column = node.end_point
        first = node.start_point[0] + 1
        # A node that ends with its newline ends on the line before.
        last = last + 1 if column or last < first else last
        found.append(make(Found, (start, -stop, name.start_byte, text, kind, first, last, name.start_point[0] + 1, owner)))
        nodes[start, stop] = node
    return found, nodes


def _kind(captured: Captured, name: Node) -> tuple[str, list[Node]]:
    """The capture that names a kind, where a pattern has others for its predicates (`@_keyword`)."""
    for kind, found in captured.items():
        if kind in KINDS:
            return kind, found
    return "", [name]


def _name(data: bytes, node: Node) -> str:
    text = data[node.start_byte : node.end_byte].decode("utf-8", "replace")
    if text[:1] in QUOTES:
        text = text.strip(QUOTES + ">")
    if len(text) > 40 or "\n" in text:
        text = " ".join(text.split())[:NAME_CHARS_MAX]
    return text


# -- imports ------------------------------------------------------------------------------------------------------


def _add_imports(imports: list[Import], data: bytes, captured: Captured) -> None:
    """Read one import. `@from` spans the whole statement where the taken names follow the module (Python)."""
    statement = captured.get("from")
    for node in captured["import"]:
        target, line = _name(data, node), node.start_point[0] + 1
        if " " in target:
            target = KEYWORDS.sub("", target, count=1).rstrip("; \n").strip(QUOTES)
        if statement:
            tail = data[node.end_byte : statement[0].end_byte].decode("utf-8", "replace")
            names = tuple(name for name in WORDS.findall(tail) if name != "import")
            imports.append(Import(target, line, names))
        elif "{" in target:
            imports.extend(Import(each, line) for each in unfolded(target))
        else:
            imports.append(Import(target.partition(" as ")[0], line))


def unfolded(target: str) -> list[str]:
    """The single paths of an import that lists several in braces.

    >>> unfolded("std::{fs, io::{self, Read as R}}")
    ['std::fs', 'std::io', 'std::io::Read']
    """
    paths: list[str] = []
    prefixes = [""]
    for text, mark in re.findall(r"([^{},]*)([{},]|$)", target):
        text = text.strip().partition(" as ")[0].partition(" => ")[0].strip()
        if mark == "{":
            prefixes.append(prefixes[-1] + text)
        elif text:
            path = prefixes[-1] + text
            paths.append(path.removesuffix("::self"))
        if mark == "}" and len(prefixes) > 1:
            prefixes.pop()
    return paths


# -- the two ways that are not one query --------------------------------------------------------------------------


def _scanned(language: Language, data: bytes, grammars: Grammars, details: bool) -> Outline:
    scan: Callable[[bytes], tuple[list[Found], list[Import]]] | None = SCANNERS.get(language.scanner or "")
    if scan is None:
        return Outline(problems=(Problem(1, 1, f"no scanner named {language.scanner}"),))
    found, imports = scan(data)
    symbols = nested(found)
    if details:
        symbols = detailed.described(language, data, symbols, {})
    return Outline(tuple(symbols), tuple(imports))


def _with_details(
    language: Language,
    data: bytes,
    grammars: Grammars,
    tree: Tree,
    symbols: list[Symbol],
    imports: list[Import],
    nodes: dict[tuple[int, int], Node],
) -> Outline:
    plain = Outline(tuple(symbols), tuple(imports), problems=detailed.problems(data, grammars, language, tree))
    cursor = grammars.cursor(language.grammar or "", language.references) if language.references else None
    references = detailed.references(data, symbols, cursor.matches(tree.root_node)) if cursor else ()
    return replace(
        plain, symbols=tuple(detailed.described(language, data, symbols, nodes)), references=references
    )
