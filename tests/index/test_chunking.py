"""A file is cut so that every line is found once and nothing that belongs together is torn apart."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.index.chunking import (
    CHUNK_CHARS_MAX,
    DATA_KINDS,
    HEADING_ONLY_CHARS,
    OWN_CHUNK_CHARS,
    ChunkSpan,
    split_chunks,
)
from context_engine.languages import outline_file
from tests.support.engines import GRAMMARS, LANGUAGES, segment_of


@dataclass(frozen=True)
class Symbol:
    kind: str
    first: int
    last: int
    parent: int = -1


# A small world: a file is a list of lines and blocks; a block is a definition with a header and more of the same
# inside.
plain_lines = st.sampled_from(["", "", "x", "x" * 300, "# " + "c" * 200, "x" * 800, "x" * (2 * CHUNK_CHARS_MAX + 7)])
kinds = st.sampled_from(["function", "class", "constant", "enum", "variable"])
bodies = st.recursive(
    st.lists(plain_lines, max_size=4),
    lambda inner: st.lists(plain_lines | st.tuples(kinds, plain_lines, inner), max_size=4),
    max_leaves=12,
)
files = st.lists(plain_lines | st.tuples(kinds, plain_lines, bodies), max_size=6)


def laid_out(items: list, lines: list[str], symbols: list[Symbol], parent: int = -1) -> None:
    for item in items:
        if isinstance(item, str):
            lines.append(item)
            continue
        kind, header, inner = item
        lines.append(f"def {header}")
        index, first = len(symbols), len(lines)
        symbols.append(Symbol(kind, first, first, parent))
        laid_out(inner, lines, symbols, index)
        symbols[index] = Symbol(kind, first, len(lines), parent)


def written(items: list, *, newline_at_end: bool = False) -> tuple[str, list[Symbol]]:
    lines: list[str] = []
    symbols: list[Symbol] = []
    laid_out(items, lines, symbols)
    return "\n".join(lines) + "\n" * newline_at_end, symbols


def lines_of(piece: ChunkSpan) -> range:
    return range(piece.first, piece.last + 1)


def size(text: str, first: int, last: int) -> int:
    """Characters of these lines, their line breaks counted."""
    return sum(len(line) + 1 for line in text.split("\n")[first - 1 : last])


@given(files, st.booleans(), st.sampled_from(["code", "documentation", "data"]))
def test_every_line_that_is_not_blank_is_in_exactly_one_piece(items: list, ended: bool, content: str) -> None:
    text, symbols = written(items, newline_at_end=ended)
    pieces = split_chunks(text, symbols, content)
    whole = {(piece.first, piece.last) for piece in pieces}  # parts of one long line share their line
    held = [line for first, last in whole for line in range(first, last + 1)]
    assert len(held) == len(set(held))
    assert {line for line, words in enumerate(text.split("\n"), 1) if words.strip()} <= set(held)


@given(files, st.sampled_from(["code", "documentation", "data"]))
def test_a_piece_is_the_characters_of_its_lines(items: list, content: str) -> None:
    text, symbols = written(items)
    pieces = split_chunks(text, symbols, content)
    assert [piece.start for piece in pieces] == sorted({piece.start for piece in pieces})
    lines = text.split("\n")
    for first, last in dict.fromkeys((piece.first, piece.last) for piece in pieces):
        held = "".join(text[p.start : p.stop] for p in pieces if (p.first, p.last) == (first, last))
        asked = "\n".join(lines[first - 1 : last])
        assert held in (asked, asked + "\n")


@given(files, st.sampled_from(["code", "documentation", "data"]))
def test_no_piece_is_longer_than_it_may_be(items: list, content: str) -> None:
    text, symbols = written(items)
    assert [piece for piece in split_chunks(text, symbols, content) if piece.stop - piece.start > CHUNK_CHARS_MAX] == []


@given(files, st.sampled_from(["code", "data"]))
@example([("class", "x" * 300, [("function", "x" * 300, []), ""]), "x" * 300, "x" * 300, "x" * 300, "x" * 300], "code")
@example([("function", "", ["x" * 800, ""]), "x" * 300, "x" * 300, "x" * 800], "code")
@example([("function", "", ["x", "# " + "c" * 200]), ("class", "x" * 800, ["x" * 300, "x" * 800])], "code")
@example([("function", "", ["x", "# " + "c" * 200]), ("constant", "", [])], "code")
def test_a_definition_that_fits_is_never_split(items: list, content: str) -> None:
    text, symbols = written(items)
    pieces = split_chunks(text, symbols, content)
    for symbol in symbols:
        if size(text, symbol.first, symbol.last) <= CHUNK_CHARS_MAX:
            assert any(p.first <= symbol.first and symbol.last <= p.last for p in pieces), symbol


@given(files)
def test_a_long_definition_shares_its_piece_with_no_other(items: list) -> None:
    text, symbols = written(items)
    sizes = [size(text, symbol.first, symbol.last) for symbol in symbols]
    own = []
    for symbol, chars in zip(symbols, sizes, strict=True):
        around = symbol.parent
        while around >= 0 and sizes[around] > CHUNK_CHARS_MAX:
            around = symbols[around].parent
        if around < 0 and OWN_CHUNK_CHARS <= chars <= CHUNK_CHARS_MAX and symbol.kind not in DATA_KINDS:
            own.append(symbol)
    for piece in split_chunks(text, symbols, "code"):
        assert sum(piece.first <= symbol.first and symbol.last <= piece.last for symbol in own) <= 1


@given(files)
def test_constants_stand_apart_from_code(items: list) -> None:
    text, symbols = written(items)
    pieces = split_chunks(text, symbols, "code")
    for piece in pieces:
        tops = [one for one in symbols if one.parent < 0 and one.first in lines_of(piece)]
        assert len({one.kind in DATA_KINDS for one in tops}) <= 1
        if tops:
            assert piece.kind == ("data" if tops[0].kind in DATA_KINDS else "definitions")


@given(files)
def test_prose_is_documentation_and_configuration_is_data(items: list) -> None:
    text, symbols = written(items)
    assert {piece.kind for piece in split_chunks(text, symbols, "documentation")} <= {"documentation"}
    assert {piece.kind for piece in split_chunks(text, symbols, "data")} <= {"data"}


@given(files)
def test_a_heading_begins_a_piece_unless_what_stands_above_is_next_to_nothing(items: list) -> None:
    text, symbols = written(items)
    for piece in split_chunks(text, symbols, "documentation"):
        for symbol in symbols:
            if piece.first < symbol.first <= piece.last:
                assert size(text, piece.first, symbol.first - 1) < HEADING_ONLY_CHARS


@given(files)
def test_a_piece_is_about_something_that_stands_in_it_or_around_it(items: list) -> None:
    text, symbols = written(items)
    for piece in split_chunks(text, symbols, "code"):
        begun = [n for n, symbol in enumerate(symbols) if symbol.first in lines_of(piece)]
        around = [n for n, symbol in enumerate(symbols) if symbol.first <= piece.first <= symbol.last]
        if begun:
            assert piece.symbol in begun
        else:
            assert piece.symbol == (around[-1] if around else -1)


def test_a_comment_goes_with_the_definition_below_it() -> None:
    filler = "\n".join(f"value_{n} = {n}" for n in range(150))
    text = f"{filler}\n\n\n# Tells the time.\n@cached\ndef clock():\n    return {'1 + ' * 300}1\n"
    piece = next(p for p in cut_python(text) if "def clock" in text[p.start : p.stop])
    assert text[piece.start : piece.stop].startswith("# Tells the time.")


def test_what_is_short_goes_with_the_definition_that_it_belongs_to() -> None:
    body = f"  return {'1 + ' * 200}1;\n }}\n"
    text = f"class Clock {{\n hour = 1;\n\n tell() {{\n{body}\n stop() {{\n{body}}}\n"
    language = LANGUAGES["javascript"]
    pieces = split_chunks(text, outline_file(language, text.encode(), GRAMMARS).symbols, language.content)
    assert [text[p.start : p.stop].split("\n")[0] for p in pieces] == ["class Clock {", " stop() {"]
    assert text[pieces[-1].start : pieces[-1].stop].endswith(" }\n}\n")


def test_a_comment_without_room_for_its_definition_ends_where_that_begins() -> None:
    comment = "".join(f"# Tells the time, line {n} of many.\n" for n in range(35))
    text = f"{comment}def clock():\n" + 300 * "    tick()\n"
    firsts = [text[p.start : p.stop].split()[0] for p in cut_python(text)]
    assert firsts[:2] == ["#", "def"]


def test_python_constants_are_data_and_functions_are_definitions() -> None:
    text = "LIMIT = 3\nNAMES = ['a']\n\n\ndef run():\n    return LIMIT\n\n\nLAST = 4\n"
    assert [(p.kind, text[p.start : p.stop].split()[0]) for p in cut_python(text)] == [
        ("data", "LIMIT"),
        ("definitions", "def"),
        ("data", "LAST"),
    ]


def test_markdown_is_cut_at_its_headings() -> None:
    prose = "Words about it, enough of them to stand alone as a section of their own, surely so.\n"
    text = f"# Zoo\n\n{prose}\n## Cats\n\n{prose}\n### Lions\n{prose}"
    language = LANGUAGES["markdown"]
    pieces = split_chunks(text, outline_file(language, text.encode(), GRAMMARS).symbols, language.content)
    assert [text[p.start : p.stop].split("\n")[0] for p in pieces] == ["# Zoo", "## Cats", "### Lions"]


def cut_python(text: str) -> list[ChunkSpan]:
    language = LANGUAGES["python"]
    return split_chunks(text, outline_file(language, text.encode(), GRAMMARS).symbols, language.content)


@given(st.text("aé日\n #\t", max_size=60), st.sampled_from(["a.py", "a.md", "a.json", "a.unknown"]))
def test_byte_offsets_lead_to_the_text_of_each_piece(text: str, path: str) -> None:
    segment, data = segment_of({path: text}), text.encode()
    starts, stops = segment.chunk["start"].tolist(), segment.chunk["stop"].tolist()
    held = "".join(data[a:b].decode() for a, b in zip(starts, stops, strict=True))
    assert "".join(held.split()) == "".join(text.split())
