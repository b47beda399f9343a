r"""A file's bytes -> its outline: what it defines and imports. Never raises: a broken file is a file with problems.

One parse and one query, with no walk over nodes in Python: this runs on every file of a work tree.
`details` adds what only an answer needs (signatures, doc comments, references, syntax errors); see `details.py`.

>>> from context_engine.languages import Grammars, Languages
>>> python = Languages.builtin()["python"]
>>> found = outline(python, b"import os\n\nclass Cat:\n    def purr(self): ...\n", Grammars(getfixture("tmp_path")))
>>> [(symbol.kind, symbol.name, symbol.first, symbol.last) for symbol in found.symbols]
[('class', 'Cat', 3, 4), ('method', 'purr', 4, 4)]
>>> found.imports
(Import(target='os', line=1, names=()),)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tree_sitter import Node, Tree

from context_engine.languages import details as detailed
from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language
from context_engine.languages.matches import read_matches
from context_engine.languages.parts import Found, Import, Problem, Reference, Symbol, joined, nested
from context_engine.languages.scanners import SCANNERS


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
    cursor = grammars.cursor(language.grammar, language.definitions)
    if cursor is None:
        return Outline(problems=(Problem(1, 1, grammars.problem(language.grammar, language.definitions)),))
    if language.only_inside:
        data = _only_inside(language.only_inside, data)
    for pattern in language.blanks:
        data = re.sub(pattern.encode(), _blanked, data)
    if language.content == "code" and len(data) > LINE_BYTES_MAX and _longest_line(data) > LINE_BYTES_MAX:
        return Outline(problems=(Problem(1, 1, f"a line of more than {LINE_BYTES_MAX:,} bytes: not parsed"),))
    tree = grammars.parse(language.grammar, data)
    if tree is None or (len(data) > TOO_BROKEN and _too_broken(tree)):
        return Outline(problems=(Problem(1, 1, "too broken to be outlined"),))
    if language.depth_max is not None:
        cursor.set_max_start_depth(language.depth_max)
    found, imports, nodes = read_matches(language, data, cursor.matches(tree.root_node))
    symbols = nested(joined(found) if language.joins_clauses else found)
    if not details:
        return Outline(tuple(symbols), tuple(imports))
    return _with_details(language, data, grammars, tree, symbols, imports, nodes)


LINE_BYTES_MAX = 20_000
"""Longer lines of code are minified or generated: their symbols say little, and several grammars need time quadratic
in such a line (20 KB of backticks keep Scala's busy for four seconds)."""


def _longest_line(data: bytes) -> int:
    return max(map(len, data.split(b"\n")))


TOO_BROKEN = 4_000
"""Unread tokens side by side in one error. A query looks at all of them for each of them: 40,000 take 1.3 s."""


def _too_broken(tree: Tree) -> bool:
    """Whether an error is so wide that a query over it would take forever; looks only where errors are."""
    waiting = [tree.root_node] if tree.root_node.has_error else []
    while waiting:
        node = waiting.pop()
        if node.is_error and node.child_count - node.named_child_count > TOO_BROKEN:
            return True
        waiting += [child for child in node.named_children if child.has_error]
    return False


BLANKS = bytes(byte if byte in b"\n\r" else 32 for byte in range(256))


def _blanked(match: re.Match[bytes]) -> bytes:
    """What a pattern found, with its first group blank, so that lines and offsets stay what they were."""
    found, (start, stop) = match[0], match.span(1)
    start, stop = start - match.start(), stop - match.start()
    return found[:start] + found[start:stop].translate(BLANKS) + found[stop:]


def _only_inside(pairs: tuple[tuple[str, str], ...], data: bytes) -> bytes:
    """The same bytes with everything outside the pairs blank, so that lines and offsets stay what they were.

    >>> _only_inside((("<a>", "</a>"),), b"no<a>yes</a>no")
    b'     yes      '
    """
    pieces, end = [], 0
    for opening, closing in pairs:
        for match in re.finditer(
            rb"%b(.*?)(?:%b|\Z)" % (opening.encode(), closing.encode()), data, re.DOTALL | re.IGNORECASE
        ):
            if match.start(1) >= end:
                pieces += [data[end : match.start(1)].translate(BLANKS), match[1]]
                end = match.end(1)
    return b"".join([*pieces, data[end:].translate(BLANKS)])


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
    return replace(plain, symbols=tuple(detailed.described(language, data, symbols, nodes)), references=references)
