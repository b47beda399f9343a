"""What every engine of the text search keeps: the same lines, totals and places, whatever is in the files and the pattern."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context_engine.errors import Cancelled, InvalidArgument, SearchTimeout
from context_engine.repo.re2_search import Re2Search, TextEngine
from context_engine.repo.ripgrep import (
    GrepRequest,
    Ripgrep,
    SearchDeadline,
    batches,
    find_ripgrep,
)
from context_engine.text.patterns import escape_literal
from tests.support.trees import ordinary_user, tree

ENGINES: dict[str, Callable[[Path], TextEngine]] = {
    "ripgrep": lambda root: Ripgrep(root, find_ripgrep("") or "no ripgrep beside this Python"),
    "re2": Re2Search,
}


@pytest.fixture(params=list(ENGINES))
def make(request: pytest.FixtureRequest) -> Callable[[Path], TextEngine]:
    """Each engine in turn."""
    return ENGINES[request.param]


def counts(engine: TextEngine, files: Sequence[str], *patterns: str, ignore_case: bool = False) -> dict[str, int]:
    found, is_complete = engine.counts(files, GrepRequest(patterns, ignore_case), SearchDeadline.of(None))
    assert is_complete
    return found


def places(
    engine: TextEngine, path: str, pattern: str, *, context: int = 0, most: int = 100
) -> list[tuple[int, int, int]]:
    asked = GrepRequest((pattern,), ignore_case=False)
    found = engine.places([path], asked, SearchDeadline.of(None), context=context, most=most)
    assert {place.path for place in found} <= {path}
    return [(place.line, place.column, place.offset) for place in found]


# -- what is found --

WORDS = st.text("abAéß. *\t", min_size=1, max_size=4)
LINES = st.lists(st.text("abAéß. *\t", max_size=6), min_size=1, max_size=6)
SOURCES = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans()), min_size=1, max_size=12)


@settings(max_examples=12)
@given(SOURCES, WORDS, st.booleans())
def test_a_text_is_found_on_the_lines_that_hold_it(
    sources: list[tuple[list[str], str, bool]], word: str, ignore_case: bool
) -> None:
    plain = str.lower if ignore_case else str
    wanted = {
        f"f{number}": sum(plain(word) in plain(line) for line in lines) for number, (lines, _, _) in enumerate(sources)
    }
    with tempfile.TemporaryDirectory() as folder:
        root = tree(Path(folder), {f"f{n}": end.join([*lines, ""] if ended else lines) for n, (lines, end, ended) in enumerate(sources)})  # fmt: skip
        for engine in (each(root) for each in ENGINES.values()):
            found = counts(engine, sorted(wanted), escape_literal(word), ignore_case=ignore_case)
            assert found == {path: count for path, count in wanted.items() if count}, engine.name


ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", r"\s", r"\S", r"\b", "^", "$", "é", "(a|b)", "(?i)A"]
)
PATTERNS = st.lists(st.tuples(ATOMS, st.sampled_from(["", "", "", "*", "+", "?", "{1,2}"])), min_size=1, max_size=4)
ZERO_WIDTH = ("^", "$", r"\b")


@settings(max_examples=12)
@example([["A"], ["", "A", ""]], [[("^", ""), ("$", "")]], "\n")
@given(
    st.lists(LINES, min_size=1, max_size=8), st.lists(PATTERNS, min_size=1, max_size=3), st.sampled_from(["\n", "\r\n"])
)
def test_a_pattern_finds_the_same_lines_and_columns_with_every_engine(
    sources: list[list[str]], written: list[list[tuple[str, str]]], end: str
) -> None:
    patterns = [
        "".join(atom if atom in ZERO_WIDTH or atom.startswith("(?i") else atom + times for atom, times in each)
        for each in written
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = tree(Path(folder), {f"f{n}": end.join(lines) + end for n, lines in enumerate(sources)})
        ours = [each(root) for each in ENGINES.values()]
        for pattern in patterns:
            files = [f"f{n}" for n in range(len(sources))]
            if r"\b" in pattern and not all(line.isascii() for lines in sources for line in lines):
                continue  # to RE2 only the letters of ASCII have boundaries
            expected = {
                path: count
                for path, lines in zip(files, sources, strict=True)
                if (count := sum(bool(re.search(as_plain_python(pattern), line)) for line in lines))
            }
            assert [counts(engine, files, pattern) for engine in ours] == [expected, expected]
            first, second = [places(engine, "f0", pattern, context=1, most=2) for engine in ours]
            assert first == second


def as_plain_python(pattern: str) -> str:
    """The same for a few patterns, in plainer words than the code: Python wants its flag around what it is about."""
    before, flag, after = pattern.partition("(?i)")
    return f"{before}(?i:{after.replace('(?i)', '')})" if flag else before


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("a.c", ["abc", "aéc"], ["ac"]),
        ("[^b]", ["a"], ["b"]),
        (r"^\D|^\W", ["-"], ["1"]),
        ("^b", ["b"], ["ab"]),
        ("a$", ["a"], ["ab"]),
        (r"^\s", [" ", "\t", "\u2003"], ["a"]),
        (r"^[\w-]+$", ["é-ß٣"], ["a b"]),
        (r"^[^\s\d]$", ["é"], ["٣", "\u2003"]),
        ("(?i)straße", ["STRAẞE", "straße"], ["strasse"]),
        ("(?i)i", ["I"], ["İ", "ı"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(?i:x)Y", ["XY", "xY"], ["Xy"]),
        ("(a(?i)b)C", ["aBC"], ["aBc"]),
        ("x{2}", ["xxxx"], ["x"]),
        (r"\x41\x{e9}", ["Aé"], ["aé"]),
        (r"\p{Greek}\pL", ["αa"], ["aα"]),
        ("[]a]b", ["]b", "ab"], ["b"]),
        ("[[:digit:]a-]", ["5", "a", "-"], ["b"]),
        (r"[^\n]b", ["ab"], ["b"]),
        (r"\ba\b", ["a", "b a c"], ["ab"]),
    ],
)
def test_a_pattern_means_the_same_to_every_engine(
    make: Callable[[Path], TextEngine], tmp_path: Path, pattern: str, found: list[str], not_found: list[str]
) -> None:
    texts = {f"f{number}": f"{text}\n" for number, text in enumerate([*found, *not_found])}
    engine = make(tree(tmp_path, texts))
    assert counts(engine, list(texts), pattern) == {f"f{number}": 1 for number in range(len(found))}


def test_a_place_is_a_line_a_column_and_a_byte(make: Callable[[Path], TextEngine], tmp_path: Path) -> None:
    engine = make(tree(tmp_path, {"a": "äöü x\nx x\n\nno\nend x"}))
    assert places(engine, "a", "x") == [(1, 8, 0), (2, 1, 9), (5, 5, 17)]
    assert places(engine, "a", "x", most=1) == [(1, 8, 0)]


def test_lines_around_a_match_come_without_a_column(make: Callable[[Path], TextEngine], tmp_path: Path) -> None:
    engine = make(tree(tmp_path, {"a": "1\n2\n3x\n4x\n5\n6\n7\n8\n9x\n"}))
    assert places(engine, "a", "x", context=1) == [
        (2, 0, 2), (3, 2, 4), (4, 2, 7), (5, 0, 10), (8, 0, 16), (9, 2, 18),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("foo\r\nfoo\r\n", 2),
        ("foo\nx\nfoo", 2),
        ("\ufefffoo\n", 1),
        ("foo ä\nfoo\n".encode("utf-16"), 2),
        ("foo ä\n".encode("utf-16-be").join([b"\xfe\xff", b""]), 1),
        (b"caf\xe9 foo\n", 1),
        (b"foo\0\nfoo\n", 2),
        (b"x" * 10_000 + b"\n\0foo\n", 1),
        ("x" * 2_000_000 + "foo" + "y" * 2_000_000, 1),
        ("", 0),
        ("\n\n\n", 0),
    ],
)
def test_whatever_the_file_looks_like_its_lines_are_counted(
    make: Callable[[Path], TextEngine], tmp_path: Path, content: str | bytes, lines: int
) -> None:
    engine = make(tree(tmp_path, {"a": content}))
    assert counts(engine, ["a"], "^?.*foo") == ({"a": lines} if lines else {})
    assert counts(engine, ["a"], "foo$|foo") == ({"a": lines} if lines else {})


def test_names_may_hold_spaces_newlines_dashes_and_what_a_shell_would_run(
    make: Callable[[Path], TextEngine], tmp_path: Path
) -> None:
    names = ["a b", "new\nline", "-e", "--files", "$(touch x)", ";ls", "ü", "'\"", "d/e:1:2"]
    engine = make(tree(tmp_path, dict.fromkeys(names, "foo\n")))
    assert counts(engine, names, "foo") == dict.fromkeys(names, 1)
    assert sorted(
        place.path for place in engine.places(names, GrepRequest(("foo",), False), SearchDeadline.of(None), most=1)
    ) == sorted(names)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("used", ["", "\x01", "\x01\x02\x03"])
def test_a_name_may_contain_what_ripgrep_prints_for_a_slash(
    make: Callable[[Path], TextEngine], tmp_path: Path, used: str
) -> None:
    names = ["top", "d/e/f", *(f"d/{char}/a{char}b" for char in used)]
    engine = make(tree(tmp_path, dict.fromkeys(names, "foo\n")))
    assert counts(engine, names, "foo") == dict.fromkeys(names, 1)
    asked = GrepRequest(("foo",), False)
    assert sorted(place.path for place in engine.places(names, asked, SearchDeadline.of(None), most=1)) == sorted(names)


@pytest.mark.parametrize(
    "pattern", ["-e", "--version", "--pre=touch x", "$(touch x)", "`touch x`", "; touch x #", "-f/etc/passwd"]
)
def test_a_pattern_is_never_an_option_or_a_command(
    make: Callable[[Path], TextEngine], tmp_path: Path, pattern: str
) -> None:
    engine = make(tree(tmp_path, {"a": f"{pattern}\nother\n"}))
    assert counts(engine, ["a"], escape_literal(pattern)) == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


# -- what is refused --


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)(b", "[invalid(", "*a", "a{2,1}", "(?=a)", "(?<!a)b", r"(a)\1", r"\Q", "a\\", r"\n", r"a\r", "[b-a]", "a{99999}{99999}"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_with_the_reason(
    make: Callable[[Path], TextEngine], tmp_path: Path, pattern: str
) -> None:
    engine = make(tree(tmp_path, {"a": "a\n"}))
    with pytest.raises(InvalidArgument) as refusal:
        counts(engine, ["a"], pattern)
    assert refusal.value.details["pattern"] == pattern
    assert repr(pattern) in refusal.value.message
    assert refusal.value.suggestion


def test_the_fallback_refuses_what_it_cannot_promise_and_says_what_would(tmp_path: Path) -> None:
    engine = Re2Search(tree(tmp_path, {"a": "a\n"}))
    for pattern in ("[a-z&&[^b]]", "[a[b]]", r"[\W]", "(?x) a", r"\Aa", r"a\>", r"\b{start}a", r"\u{e9}"):
        with pytest.raises(InvalidArgument, match="without ripgrep") as refusal:
            counts(engine, ["a"], pattern)
        assert "pip install ripgrep" in refusal.value.suggestion


# -- trouble on the way --


def test_files_that_vanished_are_told_and_the_others_searched(
    make: Callable[[Path], TextEngine], tmp_path: Path
) -> None:
    engine = make(tree(tmp_path, {"a": "foo\n"}))
    assert engine.counts(["a", "gone"], GrepRequest(("foo",), False), SearchDeadline.of(None)) == ({"a": 1}, False)
    assert [
        place.path
        for place in engine.places(["a", "gone"], GrepRequest(("foo",), False), SearchDeadline.of(None), most=9)
    ] == ["a"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are another matter elsewhere")
def test_a_closed_file_is_told_and_the_others_searched(make: Callable[[Path], TextEngine]) -> None:
    with ordinary_user() as root:
        engine = make(tree(root, {"a": "foo\n", "closed": "foo\n"}))
        (root / "closed").chmod(0)
        assert engine.counts(["a", "closed"], GrepRequest(("foo",), False), SearchDeadline.of(None)) == (
            {"a": 1},
            False,
        )


def test_many_files_are_searched_in_several_runs_and_found_once_each(
    make: Callable[[Path], TextEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("context_engine.repo.ripgrep.argv_room", lambda: 400)
    names = [f"folder/file_{number}" for number in range(40)]
    engine = make(tree(tmp_path, dict.fromkeys(names, "foo\n")))
    assert counts(engine, names, "foo") == dict.fromkeys(names, 1)


@given(st.lists(st.text("aä", min_size=1, max_size=9), max_size=12), st.integers(0, 60))
def test_runs_hold_every_name_once_in_order_and_fit(files: list[str], room: int) -> None:
    runs = list(batches(files, room))
    assert [path for run in runs for path in run] == files
    assert all(len(run) == 1 or sum(len(path.encode()) + 9 for path in run) <= room for run in runs)


def test_a_catastrophic_pattern_is_answered(make: Callable[[Path], TextEngine], tmp_path: Path) -> None:
    assert counts(make(tree(tmp_path, {"a": "a" * 40 + "!\n"})), ["a"], "(a+)+$") == {}


def test_a_search_ends_when_it_is_cancelled_or_late(make: Callable[[Path], TextEngine], tmp_path: Path) -> None:
    engine, asked = make(tree(tmp_path, {"a": "a\n"})), GrepRequest(("a",), False)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        engine.counts(["a"], asked, SearchDeadline.of(cancel))
    with pytest.raises(SearchTimeout, match="too long") as stopped:
        engine.counts(["a"], asked, SearchDeadline.of(None, -1))
    assert "includes" in stopped.value.suggestion


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_our_own_search_never_waits_for_a_pipe_nor_follows_a_link(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a": "foo\n"})
    tree(tmp_path, {"outside": "foo\n"})
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(tmp_path / "outside")
    found = Re2Search(root).counts(["a", "pipe", "link"], GrepRequest(("foo",), False), SearchDeadline.of(None, 10))
    assert found == ({"a": 1}, False)


def test_the_settings_of_the_terminal_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, {"a": "foo\n", "rc": "--invert-match\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(root / "rc"))
    assert counts(ENGINES["ripgrep"](root), ["a"], "nothing") == {}


def test_an_rg_in_the_repository_is_never_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "rg"
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\necho ripgrep 14.1.0\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/nowhere")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert find_ripgrep(os.pathsep.join([".", "", "bin"])) is None
    assert not (tmp_path / "started").exists()
    assert find_ripgrep(str(tmp_path)) == str(planted)


def test_an_old_rg_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/nowhere")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    for version in ("ripgrep 12.1.1", "something else"):
        (tmp_path / "rg").write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / "rg").chmod(0o755)
        assert find_ripgrep(str(tmp_path)) is None
