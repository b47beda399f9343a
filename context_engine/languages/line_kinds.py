"""PURE. Say of each line of a file whether it is code, or only what every file has: imports, a license, headers.

An answer that shows only such lines shows nothing. They are found line by line, with what the outline knows: where
imports are and which definitions contain others. It takes time linear in the text.

>>> from context_engine.languages import Languages
>>> lines = ["// Copyright 2020 Zoo", "", "package zoo;", "import cats.*;", "/** Feeds. */", "void feed() {", "}"]
>>> classify_lines(Languages.builtin()["java"], lines, imports=[4])
['license', 'blank', 'frame', 'import', 'comment', 'code', 'frame']
>>> find_boilerplate(["license", "blank", "frame", "import", "comment", "code", "frame"])
[LineSpan(first=1, last=5), LineSpan(first=7, last=7)]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Literal, Protocol

from context_engine.languages.comments import ATTRIBUTE, LICENCE_TEXTS
from context_engine.languages.language import Comments, Language
from context_engine.text import LineSpan

LineKind = Literal["code", "blank", "comment", "license", "import", "frame"]
"""`frame`: package, namespace and class headers, include guards, and lines of closing brackets alone."""

STATEMENT_LINES_MAX = 100
"""A longer import or module header is not followed to its end."""
CONTAINERS = frozenset({"class", "interface", "struct", "trait", "module", "namespace", "enum"})
CALLABLES = frozenset({"function", "method", "constructor"})
_LICENSE = (*LICENCE_TEXTS, "copyright", "all rights reserved")
_DOC_QUOTE = re.compile(r"(?:@\w*doc\s+)?[rRuUbBsS~]{0,2}(\"\"\"|''')")
_CLOSING = re.compile(r"(?:[\[\](){}<>;,=\s]|(?:end|begin|do|else)\b)*$")
_FRAME = re.compile(
    r"(?:package|namespace|module|library|part of|unit|program)\s+[\w.:\\/\"'-]+(?:\s*[;{(]|\s+where)?$"
    r"|inline namespace\b|namespace\s*\{|(?:impl|extension)\b[^{}]*\{$|(?:import|require|use)\s*\($"
    r"|[\"']use \w+[\"'];?$|<\?php\b[^\w]*$|\?>$|declare\(strict_types=\d\);$|@file:|extern \"C\"\s*\{?$"
    r"|#\s*pragma\b|#\s*(?:ifndef|ifdef|define)\s+\w+$|#\s*(?:endif|else)\b|#\s*if\s+(?:!\s*)?defined\b"
    r"|(?:public|private|protected)\s*:$|defmodule\s+[\w.]+\s+do$"
)


class OutlinedSymbol(Protocol):
    """What is needed of a symbol (1-based lines; `parent` is an index or -1)."""

    @property
    def kind(self) -> str:
        """Its kind."""
        ...

    @property
    def first(self) -> int:
        """Its first line."""
        ...

    @property
    def last(self) -> int:
        """Its last line."""
        ...

    @property
    def line(self) -> int:
        """The line of its name."""
        ...

    @property
    def parent(self) -> int:
        """The index of the symbol around it, -1 for none."""
        ...


def classify_lines(
    language: Language, lines: Sequence[str], symbols: Sequence[OutlinedSymbol] = (), imports: Collection[int] = ()
) -> list[LineKind]:
    """Return the kind of each line of a file. `imports` are the lines of its imports, counted from 1.

    Documents and data have no boilerplate: each of their lines is code or blank.
    """
    if language.content != "code":
        return ["code" if line.strip() else "blank" for line in lines]
    kinds = _classify_texts(language, lines)
    _mark_licenses(kinds, lines)
    _mark_imports(kinds, lines, symbols, imports)
    parents = {symbol.parent for symbol in symbols}
    for number, symbol in enumerate(symbols):
        if number in parents and symbol.kind in CONTAINERS:
            for row in range(symbol.first - 1, min(symbol.line, len(kinds))):
                kinds[row] = "frame" if kinds[row] == "code" else kinds[row]
    return kinds


def find_boilerplate(kinds: Sequence[LineKind]) -> list[LineSpan]:
    """Return the runs of lines without code, in order, without the blank lines at their ends."""
    spans = []
    row = 0
    for is_code, run in groupby(kinds, key="code".__eq__):
        found = list(run)
        filled = [place for place, kind in enumerate(found, row + 1) if kind != "blank"]
        if filled and not is_code:
            spans.append(LineSpan(filled[0], filled[-1]))
        row += len(found)
    return spans


def measure_code(kinds: Sequence[LineKind]) -> float:
    """Return the share of the lines that are code, blank lines left out; 0 if all are blank."""
    filled = len(kinds) - kinds.count("blank")
    return kinds.count("code") / filled if filled else 0.0


def _classify_texts(language: Language, lines: Sequence[str]) -> list[LineKind]:
    """Classify the lines by their text alone."""
    comments, kinds = language.comments, list[LineKind]()
    closing, inside = "", "code"  # of the block comment or string around the line
    module_header = False
    for line in lines:
        text = line.strip()
        if closing:
            kinds.append("comment" if inside == "comment" else "code")
            closing = "" if closing in text else closing
            continue
        kind, closing = _classify_text(comments, text)
        inside = kind
        if module_header or (language.name == "haskell" and text.startswith("module ")):
            module_header = not text.endswith("where") and len(kinds) < STATEMENT_LINES_MAX
            kind = "frame" if kind == "code" else kind
        kinds.append(kind)
    return kinds


def _classify_text(comments: Comments, text: str) -> tuple[LineKind, str]:
    """Return the kind of one line, and the end of the comment or string that it leaves open."""
    if not text:
        return "blank", ""
    for opening, closing in comments.block:
        if text.startswith(opening):
            rest = text[len(opening) :]
            if closing not in rest:
                return "comment", closing
            return ("comment" if rest.endswith(closing) else "code"), ""
    if comments.line and text.startswith(comments.line) and not ATTRIBUTE.match(text):
        return "comment", ""
    if comments.docstring:
        return _classify_with_docstrings(text)
    return ("frame" if _CLOSING.match(text) or _FRAME.match(text) else "code"), ""


def _classify_with_docstrings(text: str) -> tuple[LineKind, str]:
    """Classify a line where triple quotes make a comment at the start of a statement, and a string elsewhere."""
    quoted = _DOC_QUOTE.match(text)
    if quoted:
        quote, rest = quoted[1], text[quoted.end() :]
        return "comment", "" if quote in rest else quote
    for quote in ('"""', "'''"):
        if text.count(quote) % 2:
            return "code", quote
    return ("frame" if _CLOSING.match(text) or _FRAME.match(text) else "code"), ""


def _mark_licenses(kinds: list[LineKind], lines: Sequence[str]) -> None:
    """Mark the comments that are a license."""
    row = 0
    for kind, run in groupby(list(kinds)):
        count = len(list(run))
        if kind == "comment":
            text = "\n".join(lines[row : row + count]).lower()
            if any(mark in text for mark in _LICENSE):
                kinds[row : row + count] = ["license"] * count
        row += count


def _mark_imports(
    kinds: list[LineKind], lines: Sequence[str], symbols: Sequence[OutlinedSymbol], imports: Collection[int]
) -> None:
    """Mark imports with all their lines. An import inside a function is part of its code."""
    if not imports:
        return
    bodies = [False] * (len(lines) + 2)
    reach = 0
    for symbol in symbols:
        if symbol.kind in CALLABLES and symbol.last > reach:
            for number in range(max(symbol.first, reach + 1), min(symbol.last, len(lines)) + 1):
                bodies[number] = True
            reach = symbol.last
    reach = 0
    depths = [sum(map(line.count, "({")) - sum(map(line.count, ")}")) for line in lines]
    for number in sorted(set(imports)):
        if not reach < number <= len(lines) or bodies[number]:
            continue
        first, reach = _statement_lines(lines, depths, number - 1)
        kinds[first:reach] = ["import"] * (reach - first)


def _statement_lines(lines: Sequence[str], depths: Sequence[int], row: int) -> tuple[int, int]:
    """Return the half-open range of the lines of an import: one that takes several names may span several lines.

    `depths` is how many brackets each line opens, minus those it closes.
    """
    depth = depths[row]
    if depth < 0 and lines[row].lstrip().startswith("}"):  # import {\n  a,\n} from "b"
        for first in range(row - 1, max(-1, row - STATEMENT_LINES_MAX), -1):
            depth += depths[first]
            if depth == 0:
                return first, row + 1
        return row, row + 1
    for stop in range(row + 1, min(len(lines), row + STATEMENT_LINES_MAX)):
        if depth <= 0:
            return row, stop
        depth += depths[stop]
    return row, row + 1
