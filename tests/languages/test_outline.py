"""Outlining never fails, whatever the bytes, and what it returns keeps its shape."""

from __future__ import annotations

import gc
import time
import tomllib
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.languages import (
    Grammars,
    Language,
    Languages,
    Outline,
    find_references,
    outline_file,
    read_file_header,
)
from context_engine.languages.language import ORDER
from context_engine.languages.outline_types import SYMBOL_KINDS
from tests.support.engines import GRAMMARS

LANGUAGES = Languages.builtin()
EXAMPLES = max(100, settings().max_examples)


def sources() -> dict[str, bytes]:
    """The first example of every language: a small world in which every language has something to say."""
    folder = resources.files("context_engine.languages")
    found = {}
    for name in ORDER:
        examples = tomllib.loads((folder / f"{name}.toml").read_text("utf-8")).get("examples", [])
        if examples:
            found[name] = examples[0]["source"].encode()
    return found


SOURCES = sources()


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    """The parsers, unpacked once for all tests."""
    return GRAMMARS


def assert_well_formed(found: Outline, data: bytes) -> None:
    """What every outline promises: kinds from the list, lines that exist, parents that hold their children."""
    last_line = data.count(b"\n") + 1
    for index, symbol in enumerate(found.symbols):
        assert symbol.kind in SYMBOL_KINDS
        assert 1 <= symbol.first <= symbol.last <= last_line
        assert symbol.first <= symbol.line <= last_line
        assert 0 <= symbol.start <= symbol.stop <= len(data)
        if symbol.parent >= 0:
            parent = found.symbols[symbol.parent]
            assert symbol.parent < index
            assert parent.start <= symbol.start and symbol.stop <= parent.stop
            assert parent.first <= symbol.first and symbol.last <= parent.last
    assert all(1 <= imported.line <= last_line for imported in found.imports)
    assert len(found.problems) <= 20


@pytest.mark.parametrize("name", SOURCES)
def test_a_file_cut_anywhere_still_has_a_well_formed_outline(name: str, grammars: Grammars) -> None:
    data = SOURCES[name]
    for stop in range(0, len(data), 7):
        piece = data[:stop]
        assert_well_formed(outline_file(LANGUAGES[name], piece, grammars), piece)


@pytest.mark.parametrize("name", SOURCES)
def test_details_add_to_an_outline_and_change_nothing_in_it(name: str, grammars: Grammars) -> None:
    data = SOURCES[name]
    plain = outline_file(LANGUAGES[name], data, grammars)
    detailed = outline_file(LANGUAGES[name], data, grammars, details=True)
    assert [symbol._replace(signature="", doc="") for symbol in detailed.symbols] == list(plain.symbols)
    assert detailed.imports == plain.imports
    assert all("\n" not in symbol.signature and len(symbol.signature) <= 300 for symbol in detailed.symbols)
    assert all(len(symbol.doc) <= 1_000 for symbol in detailed.symbols)
    assert_well_formed(detailed, data)


@settings(max_examples=EXAMPLES, deadline=None)
@given(name=st.sampled_from(ORDER), data=st.binary(max_size=300), details=st.booleans())
def test_any_bytes_have_an_outline_in_any_language(name: str, data: bytes, details: bool) -> None:
    assert_well_formed(outline_file(LANGUAGES[name], data, GRAMMARS, details=details), data)
    assert len(read_file_header(LANGUAGES[name], data)) <= 600


@settings(max_examples=EXAMPLES, deadline=None)
@given(name=st.sampled_from(sorted(SOURCES)), spoil=st.binary(min_size=1, max_size=6), at=st.floats(0, 1))
def test_spoiling_a_file_spoils_no_outline(name: str, spoil: bytes, at: float) -> None:
    data = SOURCES[name]
    middle = int(at * len(data))
    spoiled = data[:middle] + spoil + data[middle:]
    assert_well_formed(outline_file(LANGUAGES[name], spoiled, GRAMMARS, details=True), spoiled)


@pytest.mark.parametrize("name", ["python", "javascript", "typescript", "c", "cpp", "rust", "json", "java", "go"])
@pytest.mark.parametrize("bracket", [b"(", b"[", b"{", b"if(a){", b"[(", b"f("])
def test_nesting_fifty_thousand_deep_overflows_nothing(name: str, bracket: bytes, grammars: Grammars) -> None:
    data = bracket * (50_000 // len(bracket))
    assert_well_formed(outline_file(LANGUAGES[name], data, grammars, details=True), data)


def test_nul_bytes_and_latin1_are_only_strange_characters(grammars: Grammars) -> None:
    data = b"def caf\xe9(): pass\n\x00\x00\nclass Caf\xc3\xa9: pass\n"
    names = [symbol.name for symbol in outline_file(LANGUAGES["python"], data, grammars).symbols]
    assert "Café" in names


def test_a_syntax_error_is_a_problem_with_its_place(grammars: Grammars) -> None:
    found = outline_file(LANGUAGES["python"], b"x = 1\ndef broken(:\n    pass\n", grammars, details=True)
    assert found.problems
    assert found.problems[0].line == 2


def test_a_signature_stands_below_attributes_of_any_length(grammars: Grammars) -> None:
    data = b"@option(%s)\ndef worker(pool):\n    return pool\n" % b",\n".join([b"'many words of help'"] * 400)
    (symbol,) = outline_file(LANGUAGES["python"], data, grammars, details=True).symbols
    assert symbol.signature == "def worker(pool)"


def test_a_reference_column_counts_characters(grammars: Grammars) -> None:
    found = find_references(LANGUAGES["python"], "ä = 'ööö'; call()\n".encode(), (), grammars)
    assert [(use.name, use.line, use.column) for use in found] == [("call", 1, 12)]


@pytest.mark.parametrize(
    ("language", "problem"),
    [
        (Language(name="alien", grammar="no-such-grammar", definitions="(x) @name"), "no-such-grammar"),
        (Language(name="wrong", grammar="python", definitions="(no_such_node) @name"), "query"),
    ],
)
def test_a_parser_or_a_query_that_does_not_work_is_a_problem_and_no_failure(
    tmp_path: Path, language: Language, problem: str
) -> None:
    found = outline_file(language, b"x = 1", Grammars(tmp_path))
    assert found.symbols == () and problem in found.problems[0].title


def test_an_unwritable_cache_is_a_problem_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    found = outline_file(LANGUAGES["python"], b"x = 1", Grammars(tmp_path / "file"))
    assert "cannot be loaded" in found.problems[0].title


def test_preparing_unpacks_several_parsers_at_once(tmp_path: Path) -> None:
    grammars = Grammars(tmp_path)
    grammars.prepare(["python", "go", "no-such-grammar"])
    assert len(list(tmp_path.rglob("*tree_sitter_*"))) == 2
    assert grammars.problem("go") == ""


def test_a_library_damaged_in_the_cache_is_replaced_and_never_run(tmp_path: Path) -> None:
    Grammars(tmp_path).prepare(["go"])
    (library,) = tmp_path.rglob("*tree_sitter_go*")
    library.write_bytes(b"not a library")
    assert outline_file(LANGUAGES["go"], b"package x", Grammars(tmp_path)).problems == ()


def test_threads_share_the_grammars_without_harm(grammars: Grammars) -> None:
    def work(number: int) -> int:
        return len(outline_file(LANGUAGES["python"], b"def f(): pass\n" * (number % 5), grammars).symbols)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(200))) == [number % 5 for number in range(200)]


def test_minified_code_is_not_parsed_and_says_so_and_minified_data_is(grammars: Grammars) -> None:
    code = outline_file(LANGUAGES["javascript"], b"function f(){};" * 2_000, grammars)
    assert code.symbols == () and "20,000 bytes" in code.problems[0].title
    data = outline_file(LANGUAGES["json"], b'{"a": [' + b"1," * 20_000 + b'1], "b": {"c": 1}}', grammars)
    assert [symbol.name for symbol in data.symbols] == ["a", "b", "c"]


LONG = 200_000


@pytest.mark.parametrize("name", ORDER)
@pytest.mark.parametrize(
    "piece",
    [b"a", b" ", b"[", b"](", b"# ", b"<script ", b"a:", b"- ", b"`", b"=", b'"', b"//", b"/*", b"@a ", b"x=", b"\\\\"],
    ids=repr,
)
def test_a_line_of_200000_characters_takes_no_quadratic_time(name: str, piece: bytes, grammars: Grammars) -> None:
    line = b"# " + piece * (LONG // len(piece)) + b"\nend"
    started = time.thread_time()
    assert_well_formed(outline_file(LANGUAGES[name], line, grammars), line)
    read_file_header(LANGUAGES[name], line)
    assert time.thread_time() - started < 5


def test_outlining_keeps_no_copy_of_a_source(grammars: Grammars) -> None:
    data = b"def drain(pool):\n    pool.close()\n" * 2_000
    outline_file(LANGUAGES["python"], data, grammars)
    tracemalloc.start()
    try:
        for _ in range(5):
            outline_file(LANGUAGES["python"], data, grammars)
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < len(data)
