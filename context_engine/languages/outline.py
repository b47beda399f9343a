r"""Outline a file: what it defines and imports. Never raises: a broken file is a file with problems.

One parse and one query without a walk over nodes in Python, since this runs on every file of a work tree. `details`
adds signatures, doc comments, references and syntax errors, which only answers need; see `signatures.py`.

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

from collections.abc import Callable
from dataclasses import dataclass, replace

from tree_sitter import Node, Tree

from context_engine.languages import signatures as detailed
from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language
from context_engine.languages.line_scanners import SCANNERS
from context_engine.languages.outline_types import (
    FoundSymbol,
    Import,
    Symbol,
    SymbolReference,
    join_clauses,
    nest_symbols,
)
from context_engine.languages.query_matches import read_matches
from context_engine.languages.syntax_trees import read_tree, tree_errors
from context_engine.model import Finding, syntax_finding

PROBLEMS_MAX = 20
"""Errors in a detailed outline: enough to see that imports or symbols may be missing."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What a file contains. Only detailed outlines have `references`; `problems` report what could not be read."""

    symbols: tuple[Symbol, ...] = ()
    imports: tuple[Import, ...] = ()
    references: tuple[SymbolReference, ...] = ()
    problems: tuple[Finding, ...] = ()


def outline_file(language: Language, data: bytes, grammars: Grammars, *, details: bool = False) -> Outline:
    """Outline one file. `data` may be anything: not UTF-8, cut in half, nested a hundred thousand deep."""
    if language.scanner is not None:
        return _scan(language, data, grammars, details)
    if language.grammar is None:
        return Outline()
    cursor = grammars.cursor(language.grammar, language.definitions)
    if cursor is None:
        return Outline(problems=(syntax_finding(1, 1, grammars.problem(language.grammar, language.definitions)),))
    data, tree = read_tree(language, data, grammars)
    if isinstance(tree, str):
        return Outline(problems=(syntax_finding(1, 1, tree),))
    if language.depth_max is not None:
        cursor.set_max_start_depth(language.depth_max)
    found, imports, nodes = read_matches(language, data, cursor.matches(tree.root_node))
    symbols = nest_symbols(join_clauses(found) if language.joins_clauses else found)
    if not details:
        return Outline(tuple(symbols), tuple(imports))
    return _with_details(language, data, grammars, tree, symbols, imports, nodes)


# -- scanned and detailed outlines ------------------------------------------------------------------------------------


def _scan(language: Language, data: bytes, grammars: Grammars, details: bool) -> Outline:
    scan: Callable[[bytes], tuple[list[FoundSymbol], list[Import]]] | None = SCANNERS.get(language.scanner or "")
    if scan is None:
        return Outline(problems=(syntax_finding(1, 1, f"no scanner named {language.scanner}"),))
    found, imports = scan(data)
    symbols = nest_symbols(found)
    if details:
        symbols = detailed.add_details(language, data, symbols, {})
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
    plain = Outline(tuple(symbols), tuple(imports), problems=tree_errors(data, tree, PROBLEMS_MAX))
    if language.references:
        cursor = grammars.cursor(language.grammar or "", language.references)
    else:
        cursor = None
    if cursor:
        references = detailed.find_references(data, symbols, cursor.matches(tree.root_node))
    else:
        references = ()
    return replace(plain, symbols=tuple(detailed.add_details(language, data, symbols, nodes)), references=references)
