"""The three tools that search text: the shapes of their seeds, exact totals, clear refusals, and nothing cut in silence."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.engine import Engine
from context_engine.errors import (
    AccessDenied,
    Cancelled,
    ContextEngineError,
    FileNotFound,
    InvalidArgument,
    InvalidPath,
    SearchTimeout,
)
from context_engine.model import Progress
from context_engine.repo import find_text_engine, ripgrep
from context_engine.repo.re2_search import Re2Search
from context_engine.search import text_scanner
from context_engine.tools import Call
from tests.support.engines import open_engine
from tests.support.tool_calls import text, told
from tests.support.trees import repository, tree
from tests.support.waiting import until

SHOP = {
    "src/users.py": "class UserService:\n    def find(self, user):\n        return User(user)\n",
    "src/auth/login.ts": "// Generate JWT token\nfunction generateToken(payload) {\n  const token = jwt.sign(payload, SECRET);\n    return token;\n  }\n",
    "src/app.js": "login()\n",
    "docs/users.md": "# Users\r\n\r\nA user logs in.\r\n",
    "node_modules/dep/index.js": "user\n",
    "build.log": "user\n",
    ".gitignore": "*.log\ngenerated/\n",
    "generated/out.py": "user = 1\n",
    ".context-engine/config.yml": "",
    "logo.txt": b"user\0\1\2",
    ".env": "USER=root\n",
    "latin.txt": b"caf\xe9 user\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Generator[Engine]:
    root = repository(tmp_path / "w")
    with open_engine(tree(root, SHOP)) as engine:
        yield engine


@pytest.fixture
def opened(tmp_path: Path) -> Generator[Callable[..., Engine]]:
    """Opens engines over files that a test names; closes them."""
    engines: list[Engine] = []

    def open_one(files: dict[str, str | bytes], **knobs: Any) -> Engine:
        engines.append(open_engine(tree(tmp_path / f"w{len(engines)}", files), **knobs))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.close()


# -- grep_codebase ----------------------------------------------------------------------------------------------------


def test_grep_leaves_out_what_is_ignored_binary_or_secret(shop: Engine) -> None:
    reply = told(shop, "grep_codebase", pattern="user")
    assert {match["file"] for match in reply["matches"]} == {"docs/users.md", "latin.txt", "src/users.py"}
    assert reply["totalMatches"] == 6
    assert reply["filesSearched"] == 6


def test_grep_takes_a_glob_and_case(shop: Engine) -> None:
    assert told(shop, "grep_codebase", pattern="user", filePattern="**/*.py")["totalMatches"] == 3
    assert told(shop, "grep_codebase", pattern="user", filePattern="*.{md,ts}")["totalMatches"] == 2
    assert told(shop, "grep_codebase", pattern="user", caseSensitive=True, filePattern="src/")["totalMatches"] == 2


def test_grep_counts_all_matches_and_shows_as_many_as_asked(opened: Callable[..., Engine]) -> None:
    engine = opened({f"f{number}": "x\n" * 30 for number in range(5)})
    reply = told(engine, "grep_codebase", pattern="x", limit=40)
    assert (len(reply["matches"]), reply["totalMatches"], reply["truncated"]) == (40, 150, True)
    assert [(match["file"], match["line"]) for match in reply["matches"]][29:31] == [("f0", 30), ("f1", 1)]
    assert "limit" in reply["next"]
    assert len(told(engine, "grep_codebase", pattern="x")["matches"]) == 50


def test_no_match_is_an_answer_with_its_reason(shop: Engine) -> None:
    reply = told(shop, "grep_codebase", pattern="nonexistent")
    assert (reply["matches"], reply["totalMatches"]) == ([], 0)
    assert reply["message"] == "No matches found for pattern 'nonexistent'"
    assert "6 searched files" in reply["reason"]
    assert "ignored" in reply["reason"]
    assert "search_code" in reply["next"]


@pytest.mark.parametrize("pattern", ["[invalid(", "(?=a)b", r"(a)\1", "a)(b", r"a\nb"])
def test_an_invalid_pattern_is_an_error_that_names_it(shop: Engine, pattern: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        told(shop, "grep_codebase", pattern=pattern)
    assert refusal.value.details["pattern"] == pattern
    assert refusal.value.details["reason"]
    assert refusal.value.suggestion


@pytest.mark.parametrize("arguments", [{"pattern": ""}, {"pattern": "x" * 201}, {}, {"pattern": "x", "limit": 0}, {"pattern": "x", "limit": 101}])  # fmt: skip
def test_grep_keeps_the_limits_of_its_seed(shop: Engine, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        told(shop, "grep_codebase", **arguments)


def test_a_long_line_is_cut_around_its_match_and_the_reply_stays_small(opened: Callable[..., Engine]) -> None:
    engine = opened(
        {"min.js": "a" * 50_000 + "needle" + "b" * 50_000, "wide.txt": ("ä" * 50_000 + "needle").encode("utf-16")}
    )
    reply = told(engine, "grep_codebase", pattern="needle")
    assert [match["column"] for match in reply["matches"]] == [50_001, 50_001]
    assert all("needle" in match["text"] and len(match["text"]) < 310 for match in reply["matches"])


def test_a_million_matches_are_counted_exactly(opened: Callable[..., Engine]) -> None:
    engine = opened({"big.txt": "line of text\n" * 1_000_000, "small.txt": "x"})
    reply = told(engine, "grep_codebase", pattern=".", limit=1)
    assert reply["totalMatches"] == 1_000_001
    assert len(reply["matches"]) == 1


def test_columns_count_characters_and_line_ends_do_not_matter(shop: Engine) -> None:
    (match,) = told(shop, "grep_codebase", pattern="user", filePattern="latin.txt")["matches"]
    assert (match["column"], match["text"]) == (6, "café user")
    (match,) = told(shop, "grep_codebase", pattern=r"logs in\.$")["matches"]
    assert match["text"] == "A user logs in."


# -- scout ------------------------------------------------------------------------------------------------------------


def test_keywords_are_literal_and_found_inside_words(shop: Engine) -> None:
    assert told(shop, "scout", keywords=["User"], caseSensitive=True, filePatterns=["*.py"])["totalMatches"] == 2
    assert told(shop, "scout", keywords=["e.w"])["totalMatches"] == 0
    assert told(shop, "scout", keywords=["jwt.sign(payload"])["totalMatches"] == 1


def test_each_keyword_counts_for_itself_on_a_line_and_files_with_more_of_them_come_first(
    opened: Callable[..., Engine],
) -> None:
    engine = opened({"many.py": "user\n" * 9, "both.py": "UserService user\n", "erroretry.py": "erroretry\n"})
    reply = told(engine, "scout", keywords=["user", "UserService"])
    assert [file["path"] for file in reply["files"]] == ["both.py", "many.py"]
    assert [(match["keyword"], match["column"]) for match in reply["files"][0]["matches"]] == [
        ("user", 1),
        ("UserService", 1),
    ]
    assert reply["totalMatches"] == 11
    joined = told(engine, "scout", keywords=["error", "retry"])["files"][0]["matches"]
    assert [(match["keyword"], match["column"]) for match in joined] == [("error", 1), ("retry", 5)]


def test_scout_stays_exact_when_it_is_cut(opened: Callable[..., Engine]) -> None:
    engine = opened({f"f{number:03}": "x y\n" * 70 for number in range(120)})
    reply = told(engine, "scout", keywords=["x", "y"], maxResults=3, maxMatchesPerFile=5)
    assert [len(file["matches"]) for file in reply["files"]] == [5, 5, 5]
    assert {match["keyword"] for match in reply["files"][0]["matches"]} == {"x", "y"}
    assert (reply["totalMatches"], reply["truncated"]) == (120 * 70 * 2, True)
    by_default = told(engine, "scout", keywords=["x"])
    assert len(by_default["files"]) == 100
    assert "a file fit" in by_default["next"]


def test_a_preview_is_short_and_holds_the_keyword(opened: Callable[..., Engine]) -> None:
    engine = opened({"long.js": f"\t\t{'a, ' * 500}needle{'b, ' * 500}"})
    (match,) = told(engine, "scout", keywords=["NEEDLE"])["files"][0]["matches"]
    assert "needle" in match["preview"]
    assert len(match["preview"]) <= 82
    assert match["column"] == 1_503


def test_scout_excludes_by_globs_below_its_root(shop: Engine) -> None:
    reply = told(shop, "scout", keywords=["token", "user"], rootPath="src", excludePatterns=["auth/**"])
    assert [file["path"] for file in reply["files"]] == ["users.py"]
    only = told(shop, "scout", keywords=["user"], rootPath="src/users.py")
    assert [file["path"] for file in only["files"]] == ["users.py"]


@settings(max_examples=8)
@given(
    st.lists(st.lists(st.text("abAB ", max_size=8), max_size=5), min_size=1, max_size=6),
    st.lists(st.text("abAB", min_size=1, max_size=3), min_size=1, max_size=4, unique=True),
    st.booleans(),
)
def test_scout_counts_what_a_reader_would_count(
    tmp_path_factory: pytest.TempPathFactory, sources: list[list[str]], keywords: list[str], case_sensitive: bool
) -> None:
    plain = str if case_sensitive else str.lower
    root = tree(tmp_path_factory.mktemp("w"), {f"f{number}": "\n".join(lines) for number, lines in enumerate(sources)})
    wanted = {
        (f"f{number}", line + 1, keyword): plain(row).index(plain(keyword)) + 1
        for number, lines in enumerate(sources)
        for line, row in enumerate(lines)
        for keyword in keywords
        if plain(keyword) in plain(row)
    }
    with open_engine(root) as engine:
        for chosen in (find_text_engine(root), Re2Search(root)):
            engine.text_search._engine = chosen
            engine.text_search._answers.clear()
            reply = told(engine, "scout", keywords=keywords, caseSensitive=case_sensitive)
            found = {(file["path"], match["line"], match["keyword"]): match["column"] for file in reply["files"] for match in file["matches"]}  # fmt: skip
            assert found == wanted
            assert reply["totalMatches"] == len(wanted)


# -- search_files -----------------------------------------------------------------------------------------------------


def test_search_files_is_a_text_grouped_by_file_under_exact_totals(shop: Engine) -> None:
    assert text(shop, "search_files", query="user") == (
        "6 matches in 3 files\n"
        "src/users.py\n"
        "1:class UserService:\n"
        "2:    def find(self, user):\n"
        "3:        return User(user)\n"
        "docs/users.md\n"
        "1:# Users\n"
        "3:A user logs in.\n"
        "latin.txt · latin-1?\n"
        "1:café user"
    )


def test_a_query_is_text_unless_it_is_called_a_pattern(shop: Engine) -> None:
    assert "0 matches" in text(shop, "search_files", query="jwt.*sign")
    assert "1 match in 1 file" in text(shop, "search_files", query="jwt.*sign", regex=True)
    assert "1 match in 1 file" in text(shop, "search_files", query="jwt.sign(")


def test_a_line_that_several_queries_match_is_shown_once(shop: Engine) -> None:
    reply = text(shop, "search_files", queries=["user", "find", "User"], includes=["*.py"])
    assert reply.startswith("3 matches in 1 file")
    assert [line.partition(":")[0] for line in reply.splitlines()[2:]] == ["1", "2", "3"]


def test_a_file_that_defines_the_word_comes_first(opened: Callable[..., Engine]) -> None:
    engine = opened({"a.py": "login()\n" * 20, "b.py": "def login():\n    pass\n"})
    assert text(engine, "search_files", query="login").splitlines()[1] == "b.py"


def test_paths_globs_and_case_narrow_a_search(shop: Engine) -> None:
    assert text(shop, "search_files", query="user", path="src").startswith("3 matches in 1 file\n")
    assert "2 matches in 1 file" in text(shop, "search_files", query="user", path="docs/users.md")
    assert "2 matches" in text(shop, "search_files", query="user", excludes=["src", "latin.txt"])
    assert "2 matches" in text(shop, "search_files", query="User", case_sensitive=True, includes="*.py")


def test_the_pages_one_after_the_other_are_the_whole_answer(opened: Callable[..., Engine]) -> None:
    files = {
        f"f{number:02}.py": "".join(f"x {line} {'=' * 100}\n" for line in range(number)) for number in range(1, 25)
    }
    engine = opened(files, result_chars_max=4_000)
    shown, cursor, pages = [], "", 0
    while True:
        lines = text(engine, "search_files", query="x", limit=70, cursor=cursor).splitlines()
        path = ""
        for line in lines[1:]:
            if line.startswith("f"):
                path = line.split(" ")[0]
            elif not line.startswith("…"):
                shown.append((path, int(line.partition(":")[0])))
        pages += 1
        if not lines[-1].startswith("…"):
            break
        cursor = lines[-1].rpartition(" ")[2]
    assert pages > 5
    assert sorted(shown) == [(path, line + 1) for path in sorted(files) for line in range(files[path].count("\n"))]
    assert len(shown) == len(set(shown)) == 300


def test_a_cursor_of_another_search_or_an_older_state_is_refused(opened: Callable[..., Engine]) -> None:
    engine = opened({"a.py": "x\n" * 9})
    cursor = text(engine, "search_files", query="x", limit=3).rpartition(" ")[2]
    assert "4:x" in text(engine, "search_files", query="x", limit=3, cursor=cursor)
    with pytest.raises(InvalidArgument, match="another search"):
        text(engine, "search_files", query="y", limit=3, cursor=cursor)
    tree(engine.root, {"b.py": "x\n"})
    with pytest.raises(InvalidArgument, match="changed since") as refusal:
        text(engine, "search_files", query="x", limit=3, cursor=cursor)
    assert "without it" in refusal.value.suggestion


def test_an_empty_answer_says_why_and_what_next(shop: Engine) -> None:
    assert "generated is left out: ignored (.gitignore:2: generated/)" in text(
        shop, "search_files", query="x", path="generated"
    )
    nothing = text(shop, "search_files", query="nonexistent", path="src")
    assert "no line of the 3 searched files matches" in nothing
    assert "whole workspace" in nothing
    assert "regex: true" in text(shop, "search_files", query=r"def _(bind|init)_\w+")
    assert "without regard to case" in text(shop, "scout", keywords=["NONEXISTENT"], case_sensitive=True)
    assert "no file of the workspace passes the globs" in text(shop, "search_files", query="x", includes=["*.rb"])


def test_searching_changes_no_file_and_needs_no_index(shop: Engine) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in shop.root.rglob("*")}

    before = state()
    assert shop.status().state == "absent"
    text(shop, "search_files", query="user")
    told(shop, "scout", keywords=["user"])
    told(shop, "grep_codebase", pattern="user")
    assert state() == before
    assert shop.status().state == "absent"


# -- repeated searches ------------------------------------------------------------------------------------------------


def test_a_kept_answer_is_never_older_than_the_files(opened: Callable[..., Engine]) -> None:
    engine = opened({"a.py": "token\n", "b.py": "nothing\n"}, staleness_ms=600_000)
    for path in engine.root.iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert "1 match " in text(engine, "search_files", query="token")
    assert "1 match " in text(engine, "search_files", query="token")
    tree(engine.root, {"b.py": "token\ntoken\n"})
    assert "3 matches" in text(engine, "search_files", query="token")


def test_a_new_file_is_searched_as_soon_as_the_watcher_has_heard_of_it(opened: Callable[..., Engine]) -> None:
    engine = opened({"a.py": "x\n", "src/": ""}, staleness_ms=600_000)
    engine.watch()
    text(engine, "search_files", query="token")
    tree(engine.root, {"src/new.py": "token\n"})
    until(lambda: "1 match " in text(engine, "search_files", query="token"))


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("search_files", {}, InvalidArgument),
        ("search_files", {"query": " "}, InvalidArgument),
        ("search_files", {"query": "a\nb"}, InvalidArgument),
        ("search_files", {"query": "a\ud800"}, InvalidArgument),
        ("search_files", {"queries": ["x" * 1_900 + str(number) for number in range(9)]}, InvalidArgument),
        ("search_files", {"query": "x", "path": "../outside"}, InvalidPath),
        ("search_files", {"query": "x", "path": "..\\outside"}, InvalidPath),
        ("search_files", {"query": "x", "path": "a\0b"}, InvalidPath),
        ("search_files", {"query": "x", "path": "/etc"}, InvalidPath),
        ("search_files", {"query": "x", "path": "gone"}, FileNotFound),
        ("search_files", {"query": "x", "path": ".git"}, AccessDenied),
        ("search_files", {"query": "x", "path": ".env"}, AccessDenied),
        ("search_files", {"query": "x", "includes": ["{a,b}" * 9]}, InvalidArgument),
        ("search_files", {"query": "x", "cursor": "nonsense"}, InvalidArgument),
        ("scout", {"keywords": []}, InvalidArgument),
        ("scout", {"keywords": ["x"], "rootPath": ".."}, InvalidPath),
        ("scout", {"keywords": ["x"], "maxResults": 0}, InvalidArgument),
        ("grep_codebase", {"pattern": "x\ny"}, InvalidArgument),
    ],
)
def test_bad_input_is_refused_with_the_next_step(
    shop: Engine, tool: str, arguments: dict[str, Any], error: type[ContextEngineError]
) -> None:
    with pytest.raises(error) as refusal:
        text(shop, tool, **arguments)
    assert refusal.value.suggestion


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_neither_searched_nor_waited_for(shop: Engine) -> None:
    os.mkfifo(shop.root / "pipe")
    assert "6 matches in 3 files" in text(shop, "search_files", query="user")
    with pytest.raises(InvalidPath, match="named pipe"):
        text(shop, "search_files", query="user", path="pipe")


def test_a_search_over_its_time_is_stopped_and_says_how_to_narrow_it(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened({"a.txt": "lion\n"})
    monkeypatch.setattr(ripgrep, "SEARCH_S_MAX", 0.0)
    with pytest.raises(SearchTimeout, match="too long") as stopped:
        text(engine, "grep_codebase", pattern="lion")
    assert "path" in stopped.value.suggestion


def test_a_long_first_list_of_the_files_takes_no_time_from_the_search(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened({"a.txt": "lion\n"})
    clock, ahead = time.monotonic, [0.0]
    monkeypatch.setattr(ripgrep.time, "monotonic", lambda: clock() + ahead[0])
    listing = engine.text_search._lister.listing

    def list_slowly(check: Callable[[], None]) -> Any:
        ahead[0] += ripgrep.SEARCH_S_MAX + 1
        check()
        return listing(check)

    monkeypatch.setattr(engine.text_search._lister, "listing", list_slowly)
    assert "1 match in 1 file" in text(engine, "search_files", query="lion")
    ahead[0] = 0.0
    monkeypatch.setattr(ripgrep, "SEARCH_S_MAX", text_scanner.LISTING_S_MAX)
    with pytest.raises(SearchTimeout):
        text(engine, "search_files", query="tiger")


def test_a_search_can_be_cancelled_and_tells_how_far_it_is(shop: Engine) -> None:
    steps: list[Progress] = []
    text(shop, "search_files", Call(progress=steps.append), query="user")
    assert [(step.stage, step.total) for step in steps] == [("listing", 0), ("searching", 6)]
    cancelled = Call()
    cancelled.cancel.set()
    for tool, arguments in (("search_files", {"query": "x"}), ("scout", {"keywords": ["x"]}), ("grep_codebase", {"pattern": "x"})):  # fmt: skip
        with pytest.raises(Cancelled):
            text(shop, tool, cancelled, **arguments)


def test_a_file_that_vanishes_during_the_search_is_told(shop: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = shop._lister.listing()
    monkeypatch.setattr(shop._lister, "listing", lambda *_: listing)
    (shop.root / "latin.txt").unlink()
    assert "vanished" in text(shop, "search_files", query="user")
    assert "vanished" in told(shop, "grep_codebase", pattern="user")["note"]
    assert "vanished" in told(shop, "scout", keywords=["user", "token"])["note"]
