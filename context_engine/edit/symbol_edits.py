"""Edits that name a definition or lines instead of quoting them.

A definition is replaced whole, or a text inside of it, or something is put before or after it.

The definition is found in the outline of the file as it is now, and becomes an ordinary edit whose target are its
lines. A definition is its lines, with the attributes that the parser counts to it. Comments above it are replaced when
the new text has some too, and stay when it does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, NoReturn

from context_engine.edit import edit_errors
from context_engine.edit.file_content import BLANKS, FileContent, content_of, indent_of
from context_engine.edit.indent import BOTH_WAYS, NO_LEVEL, OTHER_CHARACTERS, Doubt, map_indents, unit_of
from context_engine.edit.model import AnyEdit, Edit, Fuzzy, LineEdit, SymbolEdit, SymbolPlace
from context_engine.errors import InvalidEdit, InvalidLineRange, MultipleMatches, SymbolNotFound, WrongEncoding
from context_engine.index import qualified_names
from context_engine.languages import (
    ATTRIBUTE,
    Grammars,
    Language,
    Languages,
    Outline,
    Symbol,
    find_leading_lines,
    find_lines_above,
    outline_file,
)
from context_engine.text import LineSpan, dotted_name, find_near_words, format_count

NAMES_MAX = 5
BLANK_LINES_MAX = 3
"""More blank lines part chapters, not definitions."""
BY_TARGET = "Quote its lines as the target of an edit instead."
TAKEN_AWAY = "Say what to write; to take a definition away, quote its lines as the target of an edit."

_WORDS = re.compile(r"[\w$. \t]*")
_ENDING = re.compile(r"\A[;,]")


def resolve_symbols(
    data: bytes, path: str, edits: Sequence[AnyEdit], languages: Languages, grammars: Grammars
) -> list[Edit]:
    """Return the edits of a file with every symbol and line looked up; those that quote their target stay as they are.

    Raises: SymbolNotFound, MultipleMatches, FuzzyUnsafe, InvalidEdit, InvalidLineRange, WrongEncoding, BinaryFile,
    TooLarge.
    """
    quoting = [edit for edit in edits if isinstance(edit, Edit)]
    if len(quoting) == len(edits):
        return quoting
    content = content_of(data)
    parsed: list[_ParsedFile] = []  # once, for the first edit that names a symbol

    def resolve(_: int, edit: AnyEdit) -> Edit:
        if isinstance(edit, Edit):
            return edit
        if isinstance(edit, LineEdit):
            return _quote_lines(content, path, edit)
        if not parsed:
            parsed.append(_file(content, path, languages, grammars))
        return _quote(parsed[0], edit)

    return edit_errors.for_each_edit(edits, resolve)


def _quote_lines(content: FileContent, path: str, edit: LineEdit) -> Edit:
    """Return the edit that quotes the lines. Raises: InvalidLineRange."""
    first, last = edit.lines
    count = len(content.lines)
    if not 1 <= first <= last <= count:
        raise InvalidLineRange(
            f"{path} has no lines {edit.lines}: it has {format_count(count, 'line')}",
            suggestion="Read the file again for its line numbers.",
            details={"path": path, "lines": count},
        )
    target, text = "\n".join(content.lines[first - 1 : last]), edit.text.replace("\r\n", "\n")
    if content.norm.startswith(f"{target}\n", content.starts[first - 1]):
        target += "\n"
        text += "\n" if text and not text.endswith("\n") else ""
    return Edit(target, text, line_range=edit.lines, fuzzy=Fuzzy(enabled=False))


@dataclass(frozen=True, slots=True)
class _ParsedFile:
    """A file as its symbols are looked up: `data` are the bytes that the outline counts."""

    path: str
    content: FileContent
    data: bytes
    language: Language
    outline: Outline
    qualified: list[str]

    def above(self, symbol: Symbol) -> int:
        """Return the first line of a definition with the comments and attributes above it."""
        return find_lines_above(self.language.comments, self.content.lines, symbol.first).first

    def text(self, first: int, last: int) -> str:
        """Return lines of the file, counted from 1."""
        return "\n".join(self.content.lines[first - 1 : last])


def _file(content: FileContent, path: str, languages: Languages, grammars: Grammars) -> _ParsedFile:
    data = content.norm.encode("utf-8", "surrogateescape")
    language = languages.detect(path, data)
    if language is None:
        raise SymbolNotFound(f"no symbols are known of files like {path}", suggestion=BY_TARGET, details={"path": path})
    found = outline_file(language, data, grammars)
    return _ParsedFile(path, content, data, language, found, qualified_names(found.symbols))


# -- which definition ------------------------------------------------------------------------------------------------


def _find_symbol(file: _ParsedFile, edit: SymbolEdit) -> Symbol:
    """Return the definition that an edit names. Raises: SymbolNotFound, MultipleMatches."""
    name = dotted_name(edit.symbol)
    symbols = file.outline.symbols
    found = [number for number, qualified in enumerate(file.qualified) if is_name_of(name, qualified)]
    if edit.line_range is not None:
        found = [number for number in found if edit.line_range.first <= symbols[number].line <= edit.line_range.last]
    found = [number for number in found if symbols[number].parent not in found or symbols[number].kind != "constructor"]
    if not found:
        raise _symbol_not_found(file, name)
    if len(found) > 1:
        raise _several(file, name, found)
    return symbols[found[0]]


def is_name_of(name: str, qualified: str) -> bool:
    """Return whether a name means a definition; one with a dot before it is complete.

    >>> is_name_of("cat", "Zoo.cat"), is_name_of(".cat", "Zoo.cat"), is_name_of(".Zoo.cat", "Zoo.cat")
    (True, False, True)
    """
    return f".{qualified}" == name or f".{qualified}".endswith(f".{name}")


def _symbol_not_found(file: _ParsedFile, name: str) -> SymbolNotFound:
    last = name.rpartition(".")[2]
    names = dict(zip((symbol.name for symbol in file.outline.symbols), file.qualified, strict=True))
    near = [names[near] for near in find_near_words(last, names, NAMES_MAX)]
    problem = next((f": {found.title}" for found in file.outline.problems), "")
    return SymbolNotFound(
        f"{file.path} defines no {name!r}{problem}",
        suggestion=f"Did you mean {' or '.join(near)}?" if near else "symbols with the path lists what it defines.",
        details={"path": file.path, "near": near},
    )


def _several(file: _ParsedFile, name: str, found: Sequence[int]) -> MultipleMatches:
    rows = [(file.qualified[number], file.outline.symbols[number]) for number in found]
    matches = [{"symbol": name, "line": span.first, "endLine": span.last, "kind": span.kind} for name, span in rows]
    own = {qualified for qualified, _ in rows}
    step = "Name the one you mean with its owner, as in the details; a dot before a name means one inside of nothing."
    return edit_errors.ambiguous_error(
        f"{file.path} defines {len(found)} symbols named {name!r}",
        step if len(own) == len(rows) else "Add line_range with the line of the one you mean.",
        matches,
    )


# -- as an edit that quotes it ---------------------------------------------------------------------------------------


def _quote(file: _ParsedFile, edit: SymbolEdit) -> Edit:
    symbol = _find_symbol(file, edit)
    if edit.target:
        return Edit(edit.target, edit.text, line_range=LineSpan(symbol.first, symbol.last))
    text = trim(edit.text)
    if not text:
        raise InvalidEdit("the text for the symbol is blank", suggestion=TAKEN_AWAY)
    if edit.place == "replace":
        first, last, new = _replacement_lines(file, symbol, text)
    elif edit.place == "before":
        _alone_before(file, symbol)
        first = last = file.above(symbol)
        new = f"{_laid_out(file, symbol, text)}\n{_gap(file, symbol, text, edit.place)}{file.text(first, last)}"
    else:
        _alone_after(file, symbol)
        first = last = symbol.last
        new = f"{file.text(first, last)}\n{_gap(file, symbol, text, edit.place)}{_laid_out(file, symbol, text)}"
    target = file.text(first, last)
    if any("\udc80" <= char <= "\udcff" for char in target):
        raise WrongEncoding(
            "the definition has bytes that are not UTF-8", suggestion="Edit its other lines by their text."
        )
    return Edit(target, new, line_range=LineSpan(first, last), fuzzy=Fuzzy(enabled=False))


def _replacement_lines(file: _ParsedFile, symbol: Symbol, text: str) -> tuple[int, int, str]:
    """Return the first and last line that a text for a whole definition replaces, and the new lines."""
    before, after = _alone_before(file, symbol), _alone_after(file, symbol)
    comments = file.language.comments
    has, brings = (
        find_lines_above(comments, file.content.lines, symbol.first),
        find_leading_lines(comments, text.split("\n")),
    )
    own_line = text.split("\n")[brings.first - 1].lstrip(BLANKS)
    if before and not own_line.startswith(before):
        _refuse(file, symbol, f"its line begins with {before!r} and the text does not")
    wears = symbol.line > symbol.first and ATTRIBUTE.match(file.content.lines[symbol.first - 1])
    if wears and not brings.attributes:
        _refuse(file, symbol, "it begins with decorators or annotations and the text does not")
    brings_attributes = brings.attributes and not wears
    takes_over = (has.comments and brings.comments) or (has.attributes and brings_attributes)
    if takes_over and ((has.comments and not brings.comments) or (has.attributes and not brings_attributes)):
        _refuse(file, symbol, "comments and attributes stand above it, and the text brings only one of both")
    if after.strip(BLANKS):
        if any(mark in text.rpartition("\n")[2] for mark in comments.line):
            _refuse(file, symbol, f"{after.strip(BLANKS)!r} follows it, and the text ends with a comment")
        if after.lstrip(BLANKS)[0] in ";,":
            text = text.removesuffix(after.lstrip(BLANKS)[0])
    return has.first if takes_over else symbol.first, symbol.last, _laid_out(file, symbol, text) + after


def _laid_out(file: _ParsedFile, symbol: Symbol, text: str) -> str:
    """Return the text as deep as the definition. Raises: FuzzyUnsafe."""
    line = symbol.first - 1
    nearby = file.content.nearby(file.content.starts[line])
    try:
        return laid_out(text, indent_of(file.content.lines[line]), nearby)
    except Doubt as doubt:
        _refuse(file, symbol, f"it is not certain how the text is indented: {doubt}")


def _alone_before(file: _ParsedFile, symbol: Symbol) -> str:
    """Return the words before a definition on its first line, such as `export`.

    Raises: FuzzyUnsafe when there is something else.
    """
    begins = file.data.rfind(b"\n", 0, symbol.start) + 1
    before = file.data[begins : symbol.start].decode("utf-8", "replace")
    if not _WORDS.fullmatch(before):
        _refuse(file, symbol, "it does not begin its line")
    return before.strip(BLANKS)


def _alone_after(file: _ParsedFile, symbol: Symbol) -> str:
    """Return what follows a definition on its last line: a separator, a comment.

    Raises: FuzzyUnsafe when there is something else.
    """
    if file.data[symbol.stop - 1 : symbol.stop] == b"\n":
        return ""
    ends = file.data.find(b"\n", symbol.stop)
    after = file.data[symbol.stop : ends if ends >= 0 else len(file.data)].decode("utf-8", "replace")
    rest = _ENDING.sub("", after.lstrip(BLANKS), count=1).lstrip(BLANKS)
    openings = (*file.language.comments.line, *(opening for opening, _ in file.language.comments.block))
    if rest and not (openings and rest.startswith(openings)):
        _refuse(file, symbol, "something else stands on its last line")
    return after


def _refuse(file: _ParsedFile, symbol: Symbol, why: str) -> NoReturn:
    first = file.above(symbol)
    raise edit_errors.unsafe_error(
        file.content,
        first - 1,
        symbol.last - 1,
        f"{symbol.name}: {why}",
        suggestion="Write the text as deep as fileText, with all it begins with; or quote it as the target of an edit.",
    )


# -- blank lines -----------------------------------------------------------------------------------------------------


def _gap(file: _ParsedFile, symbol: Symbol, text: str, place: SymbolPlace) -> str:
    """Return the blank lines between a definition and a text next to it: as many as between such neighbors."""
    is_long = "\n" in text or symbol.last > symbol.first

    def rank(pair: _Pair) -> int:
        if (pair.one if place == "after" else pair.other) == symbol.first:
            return 0
        return 1 if symbol.first in (pair.one, pair.other) else 2

    nearest = min((pair for pair in _neighbors(file, symbol.parent) if pair.is_long == is_long), key=rank, default=None)
    if nearest is not None:
        known = nearest.blank_lines
    else:
        known = file.content.blank_beside(file.above(symbol) - 1, -1) or 1 if is_long else 0
    return "\n" * min(known, BLANK_LINES_MAX)


class _Pair(NamedTuple):
    """Two definitions that follow each other, by their first lines, and the blank lines between them."""

    one: int
    other: int
    blank_lines: int
    is_long: bool


def _neighbors(file: _ParsedFile, parent: int) -> Iterator[_Pair]:
    """Yield the definitions directly inside of another that only blank lines separate."""
    inside = [symbol for symbol in file.outline.symbols if symbol.parent == parent]
    for one, other in pairwise(inside):
        between = file.content.lines[one.last : file.above(other) - 1]
        if other.first > one.last and not any(line.strip(BLANKS) for line in between):
            yield _Pair(one.first, other.first, len(between), one.last > one.first or other.last > other.first)


# -- layout ------------------------------------------------------------------------------------------------------------

# How text that was written for a file is laid out in it: how far it is indented, how many blank lines separate it. The
# text is meant as it is, or counted from its own first line. It is only used where exactly one of both is possible.


OPENING = ("(", "[", "{")
CLOSING = (")", "]", "}")
MARKS = ("@", "#", "//", "--")
"""Decorators, attributes and comments are right above what they belong to, as deep as that."""
DOCSTRING = re.compile(r"(?<![=(,\[A-Za-z])(?<![=(,\[] )[A-Za-z]{0,2}(\"{3}|'{3})(?:(?!\1).)*?\1", re.DOTALL)
"""What is moved with its code, as any formatter does."""
SHORT_STRINGS = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\\n])*`")
COMMENTS = re.compile(r"/\*.*?\*/|(?://|#|--).*?$|(?<=[&<,+ ])'\w+(?=[ >,+)\]:])", re.DOTALL | re.MULTILINE)
"""What may hold a quotation mark that opens nothing, lifetimes of Rust with it."""
LONG_STRINGS = re.compile(r"[\"'`]|<<[<~-]?[\"'A-Z]")


def trim(text: str) -> str:
    r"""Return a text in line feeds, without blank lines at its edges and blanks at its end.

    >>> trim("\n  a\r\n  b \n\n")
    '  a\n  b'
    """
    lines = text.replace("\r\n", "\n").split("\n")
    solid = [number for number, line in enumerate(lines) if line.strip(BLANKS)]
    return "\n".join(lines[solid[0] : solid[-1] + 1]).rstrip(BLANKS) if solid else ""


def laid_out(text: str, indent: str, nearby: Sequence[str]) -> str:
    r"""Return a trimmed text with its first line at an indent, among these lines of the file. Raises: Doubt.

    >>> laid_out("def b(self):\n    return 1", "    ", ["class A:", "    def a(self):", "        pass"])
    '    def b(self):\n        return 1'
    >>> laid_out("def b(self):\n        return 1", "    ", ["class A:", "    def a(self):", "        pass"])
    '    def b(self):\n        return 1'
    """
    lines = text.split("\n")
    first, further = indent_of(lines[0]), [indent_of(line) for line in lines[1:] if line.strip(BLANKS)]
    if first == "" and indent and further:
        indents = _from_the_margin(lines, indent, further, nearby)
    else:
        indents = map_indents([(first, indent)], further, nearby=nearby)
    if [first, *further] == [indent, *indents]:
        return text
    if further and _has_long_string(text):
        raise Doubt("a string that goes over several lines would be moved")
    placed = iter([indent, *indents])
    return "\n".join(next(placed) + line.lstrip(BLANKS) if line.strip(BLANKS) else line for line in lines)


def _from_the_margin(lines: list[str], indent: str, further: list[str], nearby: Sequence[str]) -> list[str]:
    """Return the indents of further lines when the first has none.

    All count from the margin, or the first alone lost its indent.
    """
    unit = unit_of(nearby) or indent
    solid = [line for line in lines if line.strip(BLANKS)]
    moved, kept = (_fits(solid, further, base, unit) for base in ("", indent))
    if moved == kept:
        raise Doubt(BOTH_WAYS if moved else NO_LEVEL)
    if kept:
        return further
    if any(set(extra) - set(indent) for line, extra in zip(solid[1:], further, strict=True) if not _is_starred(line)):
        raise Doubt(OTHER_CHARACTERS)
    return [indent + extra for extra in further]


def _fits(solid: list[str], further: list[str], base: str, unit: str) -> bool:
    """Return whether further lines are indented as they would be if the first one were indented by `base`."""
    if not all(extra.startswith(base) for extra in further):
        return False
    head, following, more = solid[0].rstrip(BLANKS), solid[1].lstrip(BLANKS), further[0].removeprefix(base)
    if head.startswith("/*") and _is_starred(following):
        return more == " "
    if head.endswith(("{", ":")) and not following.startswith(CLOSING):
        return more == unit
    if head.endswith(OPENING) and not following.startswith(CLOSING):
        return bool(more) and base in further
    if head.startswith(MARKS) or following == "{":
        return not more
    return min(further, key=len) in (base, base + unit)


def _has_long_string(text: str) -> bool:
    r"""Return whether a string may go over several lines, which must not be moved.

    >>> _has_long_string("a = 'b'  # don't"), _has_long_string("a = `b\nc`"), _has_long_string("a = <<<EOF")
    (False, True, True)
    """
    for known in (DOCSTRING, SHORT_STRINGS, COMMENTS):
        text = known.sub("", text)
    return bool(LONG_STRINGS.search(text))


def _is_starred(line: str) -> bool:
    """Return whether a line is one of a block comment, which is aligned by a blank."""
    return line.lstrip(BLANKS).startswith("*")
