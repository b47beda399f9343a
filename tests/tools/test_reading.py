"""The reading tools on a real work tree: whole files, parts of them, folders; what cannot be read says why and what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine import tools
from context_engine.engine import Engine
from context_engine.errors import CallError, FileNotFound, InvalidArgument, InvalidLineRange
from context_engine.index import parsed_files
from context_engine.repo.walker import walk
from context_engine.text.words import estimate_tokens
from context_engine.tools.reply import reply_size
from context_engine.tools.tool import Call
from tests.e2e.conftest import FILES
from tests.support.engines import indexed, open_engine
from tests.support.tool_calls import text, told
from tests.support.trees import tree

NUMBERED = "".join(f"line {number}\n" for number in range(1, 101))
LONG = "".join(f"def part_{number}(a, b):\n    return {number}\n\n\n" for number in range(1_000))
"""Far over the reply limit, below one megabyte."""
BIG = "".join(f"def big_{number}(first, second):\n    return {number}  # {'x' * 300}\n\n\n" for number in range(3_000))
"""Over one megabyte."""

WORLD: dict[str, str | bytes] = FILES | {
    "numbered.txt": NUMBERED,
    "long.py": LONG,
    "big.py": BIG,
    "minified.js": "x" * 60_000 + "needle" + "y" * 39_994,
    "crlf.txt": "one\r\ntwo\r\nthree\r\n",
    "utf16.txt": "größer\nzwei\n".encode("utf-16"),
    "bom.py": b"\xef\xbb\xbfimport os\n",
    "latin.txt": "größer\nzwei\n".encode("latin-1"),
    "empty.txt": "",
    "endless.txt": "one\ntwo",
    "feed.txt": "one\x0cstill one\ntwo\n",
    "logo.png": b"\x89PNG\r\n\x1a\n" + bytes(50),
    "blob.dat": b"a\0b" * 50,
    ".env": "PASSWORD=hunter2\n",
    ".env.example": "PASSWORD=\n",
    ".github/workflows/ci.yml": "on: push\n",
    ".git/config": "[core]\n",
    "keys/id_rsa": "-----BEGIN\n",
    "docs/.gitignore": "*.tmp\n!kept.tmp\ndrafts/\n",
    "docs/a.tmp": "x",
    "docs/kept.tmp": "x",
    "docs/drafts/one.md": "x",
    "docs/guide.md": "# Guide\n\ntext\n\n## Install\n\nmore\n",
    "node_modules/left/index.js": "x\n",
    "many/": "",
    **{f"many/file_{number:03}.txt": "x\n" for number in range(150)},
    "broken.py": "import till.auth\nfrom till.orders import total\n\n\ndef oops(:\n    return total\n",
    "hub.py": "from till import auth, orders\nimport long\nimport big\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work tree with everything that is awkward to read."""
    place = tmp_path_factory.mktemp("reading")
    (place / "outside.txt").write_text("not yours\n")
    world = tree(place / "till", WORLD)
    os.mkfifo(world / "pipe")
    (world / "escape.txt").symlink_to(place / "outside.txt")
    (world / "null").symlink_to("/dev/null")
    (world / "link.py").symlink_to("till/auth.py")
    (world / "docs" / "loop").symlink_to(world / "docs")
    return world


@pytest.fixture(scope="module")
def engine(root: Path) -> Iterator[Engine]:
    """Nothing is indexed: reading needs no index."""
    with open_engine(root) as engine:
        yield engine


@pytest.fixture(scope="module")
def narrow(root: Path) -> Iterator[Engine]:
    """The same, with the least reply limit there is."""
    with open_engine(root, result_chars_max=2_000) as engine:
        yield engine


def heads(reply: str) -> list[str]:
    return [line for line in reply.split("\n") if line.startswith("@@ ")]


# -- a tool for each purpose ------------------------------------------------------------------------------------------


def test_each_purpose_has_a_tool_of_its_own() -> None:
    purposes = {
        "read_file": "a file", "read_fragment": "parts of files", "read_regions": "ranges of lines",
        "list_directory": "a directory", "search_text": "lines",
    }  # fmt: skip
    for name, purpose in purposes.items():
        assert purpose in tools.find(name).description.lower()
        assert tools.find(name).name == name


def test_a_part_of_a_file_costs_a_fraction_of_the_file(engine: Engine) -> None:
    part = text(engine, "read_fragment", path="long.py", symbols=["part_700"], context=0)
    assert "def part_700(a, b):\n    return 700" in part
    assert estimate_tokens(part) < estimate_tokens(LONG) / 100


def test_get_file_returns_the_complete_file(engine: Engine) -> None:
    assert NUMBERED.removesuffix("\n") in text(engine, "get_file", path="numbered.txt")


# -- read_file: any text ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "header", "content"),
    [
        ("numbered.txt", "numbered.txt · 100 lines · ", NUMBERED.removesuffix("\n")),
        ("crlf.txt", "crlf.txt · 3 lines · ", "one\r\ntwo\r\nthree\r"),
        ("utf16.txt", "utf16.txt · 2 lines · ", "größer\nzwei"),
        ("bom.py", "bom.py · 1 line · ", "import os"),
        ("latin.txt", "latin.txt · 2 lines · ", "größer\nzwei"),
        ("endless.txt", "endless.txt · 2 lines · ", "one\ntwo"),
        ("feed.txt", "feed.txt · 2 lines · ", "one\x0cstill one\ntwo"),
        (".env.example", ".env.example · 1 line · ", "PASSWORD="),
        (".github/workflows/ci.yml", ".github/workflows/ci.yml · 1 line · ", "on: push"),
        ("link.py", "till/auth.py · 23 lines · ", FILES["till/auth.py"].removesuffix("\n")),
        ("docs\\guide.md", "docs/guide.md · 7 lines · ", "# Guide\n\ntext\n\n## Install\n\nmore"),
        ("./docs//guide.md", "docs/guide.md · 7 lines · ", "# Guide\n\ntext\n\n## Install\n\nmore"),
        ("ignored.log", "ignored.log · 1 line · ", "nothing to see"),
    ],
)
def test_any_text_file_is_read_as_it_is(engine: Engine, path: str, header: str, content: str) -> None:
    head, _, body = text(engine, "read_file", path=path).partition("\n")
    assert head.startswith(header)
    assert re.search(r" · sha256 [0-9a-f]{12}$", head)
    assert body == content


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("logo.png", "BINARY_FILE"),
        ("blob.dat", "BINARY_FILE"),
        ("pipe", "INVALID_PATH"),
        ("null", "INVALID_PATH"),
        ("/dev/zero", "INVALID_PATH"),
        ("docs", "INVALID_PATH"),
        ("..\\outside.txt", "INVALID_PATH"),
        ("../outside.txt", "INVALID_PATH"),
        ("docs/../../outside.txt", "INVALID_PATH"),
        ("escape.txt", "INVALID_PATH"),
        ("/etc/passwd", "INVALID_PATH"),
        ("file:///etc/passwd", "INVALID_PATH"),
        ("~/notes.txt", "INVALID_PATH"),
        ("numbered.txt\0.py", "INVALID_PATH"),
        (".env", "ACCESS_DENIED"),
        (".ENV", "ACCESS_DENIED"),
        (".git/config", "ACCESS_DENIED"),
        (".git/HEAD", "ACCESS_DENIED"),
        (".Git/config", "ACCESS_DENIED"),
        ("keys/id_rsa", "ACCESS_DENIED"),
        ("missing.txt", "FILE_NOT_FOUND"),
        ("Readme.MD", "FILE_NOT_FOUND"),
    ],
)
@pytest.mark.parametrize("name", ["read_file", "read_fragment", "read_regions"])
def test_what_must_not_or_cannot_be_read_is_refused_with_a_way_on(
    engine: Engine, name: str, path: str, code: str
) -> None:
    arguments: dict[str, Any] = {
        "read_file": {"path": path},
        "read_fragment": {"path": path, "keywords": ["x"]},
        "read_regions": {"filePath": path, "regions": [{"start": 1, "end": 1}]},
    }[name]
    with pytest.raises(CallError) as caught:
        text(engine, name, **arguments)
    assert caught.value.code == code
    assert caught.value.suggestion
    assert "hunter2" not in str(caught.value.as_dict())


# -- read_file: ranges and limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "last"), [(101, None), (101, 105), (50, 49), (None, 0)])
def test_a_range_that_is_not_in_the_file_is_refused_with_its_length(
    engine: Engine, first: int | None, last: int | None
) -> None:
    with pytest.raises(CallError) as caught:
        text(engine, "read_file", path="numbered.txt", start_line=first, end_line=last)
    assert caught.value.code == ("INVALID_ARGUMENT" if last == 0 else "INVALID_LINE_RANGE")
    if last != 0:
        assert caught.value.details["lines"] == 100
        assert "100" in caught.value.suggestion


def test_a_range_is_clipped_to_the_file(engine: Engine) -> None:
    reply = text(engine, "read_file", path="numbered.txt", startLine="99", endLine="500")
    assert reply.startswith("numbered.txt · 100 lines · ")
    assert reply.endswith("\n@@ 99-100\nline 99\nline 100")


def test_following_the_line_to_go_on_from_reads_a_long_file_whole(engine: Engine) -> None:
    pieces, item = [], "long.py"
    while item:
        _, _, *lines = text(engine, "read", items=[item], token_budget=100_000).split("\n")
        more = re.fullmatch(r"… cut here: the rest is (long\.py:\d+-4000)", lines[-1])
        pieces += lines[:-1] if more else lines
        item = more[1] if more else ""
    assert "\n".join(pieces) + "\n" == LONG


def test_following_next_line_reads_a_long_file_whole_as_json(engine: Engine) -> None:
    whole, start = "", 1
    while start:
        file = told(engine, "read_file", path="long.py", start_line=start, format="json")["file"]
        whole += file["content"]
        start = file.get("nextLine", 0)
    assert whole == LONG


def test_a_line_of_a_hundred_thousand_characters_is_cut_and_says_so(engine: Engine) -> None:
    shown = text(engine, "read_file", path="minified.js")
    assert shown.endswith("… long lines are cut; search_text shows the part around a word")
    assert len(shown) < 5_000
    file = told(engine, "read_file", path="minified.js", format="json")["file"]
    assert set(file["content"]) == {"x"}
    assert file["cut"].startswith("line 1 is 100,000 characters long")
    assert "nextLine" not in file


def test_a_file_over_a_megabyte_answers_with_its_outline_and_parts_of_it_can_be_read(engine: Engine) -> None:
    outline = text(engine, "read_file", path="big.py")
    assert re.match(r"big.py · 12,000 lines · python · 2,\d\d\d symbols\n1-2 def big_0\(first, second\)\n", outline)
    assert re.search(
        r"problem at line 11,?\d{3}: not outlined from here, after 9\d\d,\d{3} of 1,0\d\d,\d{3} bytes\n", outline
    )
    assert outline.endswith("read parts of it by their lines.")
    assert "return 2999" in text(engine, "read_fragment", path="big.py", symbols=["big_2999"])
    assert "return 2999" in text(engine, "read_file", path="big.py", start_line=11_990)
    assert "return 2999" in text(engine, "read_fragment", path="big.py", lines=["11990-"])
    regions = told(engine, "read_regions", filePath="big.py", regions=[{"start": 11_998, "end": 11_998}])["regions"]
    assert "return 2999" in regions[0]["content"]


# -- read_file: what it imports ---------------------------------------------------------------------------------------


def test_imports_are_followed_for_no_level_or_one(engine: Engine) -> None:
    assert told(engine, "read_file", path="till/orders.py", includeDeps=True, maxDepth=0)["dependencies"] == []
    with pytest.raises(InvalidArgument, match="max_depth"):
        told(engine, "read_file", path="till/orders.py", includeDeps=True, maxDepth=2)


def test_a_large_dependency_is_told_by_its_signatures(engine: Engine) -> None:
    rows = {each["path"]: each for each in told(engine, "read_file", path="hub.py", includeDeps=True)["dependencies"]}
    assert rows["till/auth.py"]["content"] == FILES["till/auth.py"]
    assert "def part_0(a, b)" in rows["long.py"]["signatures"]
    assert "return 0" not in rows["long.py"]["signatures"]


def test_without_room_every_dependency_is_still_named(narrow: Engine) -> None:
    rows = told(narrow, "read_file", path="hub.py", includeDeps=True)["dependencies"]
    assert {each["path"] for each in rows} >= {"till/auth.py", "till/orders.py", "long.py"}
    assert {each["omitted"] for each in rows if "omitted" in each} == {"did not fit: read it"}
    assert [each for each in rows if not {"omitted", "signatures", "content"} & set(each)] == []


def test_dependencies_are_read_as_text_too(engine: Engine) -> None:
    reply = text(engine, "read_file", path="till/orders.py", include_deps=True, format="text")
    assert reply.startswith("till/orders.py · 13 lines · ")
    assert f"\n@@ import till/auth.py\n{FILES['till/auth.py']}" in reply
    assert "@@ import long.py · signatures\n" in text(
        engine, "read_file", path="hub.py", includeDeps=True, format="text"
    )


def test_a_file_that_cannot_be_parsed_says_so_with_the_line_beside_its_content(engine: Engine) -> None:
    reply = told(engine, "read_file", path="broken.py", includeDeps=True)
    assert reply["file"]["content"] == WORLD["broken.py"]
    assert [each["path"] for each in reply["dependencies"]] == ["till/auth.py", "till/orders.py"]
    assert [note[:8] for note in reply["notes"]] == ["line 5: "]
    assert "note: line 5: " in text(engine, "read_file", path="broken.py", include_deps=True, format="text")


def test_imports_are_parsed_once_until_the_file_is_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    real = parsed_files.outline_file

    def counted(language: Any, data: bytes, *rest: Any, **more: Any) -> Any:
        parsed.append(data)
        return real(language, data, *rest, **more)

    monkeypatch.setattr(parsed_files, "outline_file", counted)
    root = tree(tmp_path / "w", FILES)
    with open_engine(root) as engine:
        for _ in range(3):
            told(engine, "read_file", path="till/orders.py", includeDeps=True)
        assert parsed == [FILES["till/orders.py"].encode()]
        (root / "till/orders.py").write_text("import web\n")
        told(engine, "read_file", path="till/orders.py", includeDeps=True)
        assert parsed[1:] == [b"import web\n"]


# -- read_fragment ----------------------------------------------------------------------------------------------------


def test_a_fragment_holds_what_was_asked_and_says_what_it_was_found_for(engine: Engine) -> None:
    reply = text(engine, "read_fragment", path="till/auth.py", symbols=["hash_password"], keywords=["SALT"], context=0)
    assert reply == (
        "till/auth.py · 23 lines · sha256 a6e1251c4e87\n"
        "@@ 5 keyword SALT\n"
        "SALT_BYTES = 16\n"
        "@@ 8-10 keyword SALT 8, 9, 10 · hash_password\n"
        "def hash_password(password: str, salt: bytes) -> bytes:\n"
        '    """Hash a password with its salt, slowly on purpose."""\n'
        '    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 200_000)\n'
        "@@ 22 keyword SALT\n"
        '    hash_password(password, b"salt" * 4)'
    )


@pytest.mark.parametrize(
    ("asked", "spans"),
    [
        ({"lines": ["1-5", "4-8"], "context_lines": 0}, ["1-8"]),
        ({"lines": ["1-5", "6-8"], "context": 0}, ["1-8"]),
        ({"lines": ["1-5", "7-8"], "context": 0}, ["1-5", "7-8"]),
        ({"lines": "50, 90-", "context": "0"}, ["50", "90-100"]),
        ({"lines": [50]}, ["48-52"]),
        ({"keywords": ["LINE 70"], "context": 3}, ["67-73"]),
        ({"keywords": ["line 100"], "context": 5}, ["95-100"]),
        ({"patterns": ["^line [23]$"], "context": 0}, ["2-3"]),
        ({"patterns": ["^LINE 4$"], "context": 0}, ["4"]),
        ({"keywords": ["$(touch x)", "line 9*"], "lines": ["1"], "context": 0}, ["1"]),
    ],
)
def test_what_is_asked_is_widened_clipped_and_joined(engine: Engine, asked: dict[str, Any], spans: list[str]) -> None:
    reply = text(engine, "read_fragment", path="numbered.txt", **asked)
    assert [head.split(" ")[1] for head in heads(reply)] == spans


def test_several_files_are_read_in_one_call_and_one_that_cannot_be_read_hides_no_other(engine: Engine) -> None:
    reply = text(
        engine, "read_fragment", path="till/auth.py", paths=["till/orders.py", "till/oders.py", "./till/auth.py"],
        symbols=["login", "total"], context=0,
    )  # fmt: skip
    assert re.findall(r"^(\S+) · \d+ lines · sha256", reply, re.MULTILINE) == ["till/auth.py", "till/orders.py"]
    assert "not read: there is no 'till/oders.py' in the workspace. Did you mean till/orders.py" in reply
    with pytest.raises(FileNotFound):
        text(engine, "read_fragment", paths=["no.py", "none.py"], symbols=["login"])


def test_what_is_not_found_is_named_with_what_comes_close(engine: Engine) -> None:
    reply = text(
        engine, "read_fragment", path="till/auth.py", keywords=["teleport"], symbols=["logn", "Session.zap"],
        patterns=["^zzz"], lines=["500-510"],
    )  # fmt: skip
    assert reply.startswith("till/auth.py · 23 lines · sha256 ")
    assert reply.endswith(
        "not found: lines 500-510 (till/auth.py has 23); symbol logn (near: login); "
        "symbol Session.zap; pattern ^zzz; keyword teleport"
    )


def test_asked_for_nothing_it_gives_the_outline_and_never_the_whole_file(engine: Engine) -> None:
    reply = text(engine, "read_fragment", path="till/auth.py", paths=["docs/guide.md"])
    assert "till/auth.py · 23 lines · python · 5 symbols\n5 SALT_BYTES = 16\n8-10 def hash_password(" in reply
    assert "docs/guide.md · 7 lines · markdown" in reply
    assert "return Session(user)" not in reply
    assert reply.endswith("ask for symbols, lines, keywords or patterns")


def test_a_definition_is_followed_by_the_other_lines_that_have_its_name_once(tmp_path: Path) -> None:
    files = {"pool.py": "def drain(pool):\n    pool.close()\n", "app.py": "from pool import drain\n\n\ndrain(None)\n"}
    with indexed(tree(tmp_path / "w", files)) as engine:
        call = Call()
        reply = tools.call(engine, "read", {"items": ["pool.py#drain"]}, call).text
        assert reply.endswith("1 other line with drain:\napp.py:4: drain(None)"), "but no line that imports it"
        assert "other line" not in tools.call(engine, "symbols", {"name": "drain"}, call).text
        assert "app.py:4: drain(None)" in tools.call(engine, "symbols", {"name": "drain"}, Call()).text
        tools.call(engine, "read", {"items": ["app.py"]}, call := Call())
        assert "other line" not in tools.call(engine, "read", {"items": ["pool.py#drain"]}, call).text


def test_over_the_budget_the_least_important_is_dropped_and_named(engine: Engine) -> None:
    asked: dict[str, Any] = {"path": "till/auth.py", "lines": ["13-14"], "symbols": ["login"], "keywords": ["hashlib"]}
    whole = text(engine, "read_fragment", **asked, context=0)
    assert heads(whole) == ["@@ 3 keyword hashlib", "@@ 10 keyword hashlib", "@@ 13-14", "@@ 20-23 login"]
    reply = text(engine, "read_fragment", **asked, context=0, maxTokens=110)
    assert heads(reply) == ["@@ 13-14", "@@ 20-23 login"]
    fragments, _, note = reply.partition("\n… ")
    assert note == "no room for till/auth.py: keyword hashlib 3, 10 - raise the budget, or ask for these alone"
    assert estimate_tokens(fragments) <= 110


def test_a_symbol_over_the_budget_is_cut_and_says_where_it_goes_on(engine: Engine) -> None:
    reply = text(engine, "read_fragment", path="numbered.txt", lines=["10-90"], max_tokens=100)
    shown = re.findall(r"^line (\d+)$", reply, re.MULTILINE)
    rest = int(shown[-1]) + 1
    assert shown[0] == "10"
    assert reply.endswith(f"… cut here: the rest is numbered.txt:{rest}-90")


SCRIPTS = {
    "Chinese": "第 {n} 节：在本地为编程代理提供代码检索与编辑功能。\n",
    "Japanese": "第 {n} 章：エージェントにコードを渡します。\n",
    "emoji": "{n} 🚀🔥✅🎉🐍📦🧪🔍\n",
    "ASCII": "def part_{n}(a, b): return {n}\n",
    "short lines": "}}\n",
}


def write_lines(path: Path, line: str) -> None:
    path.write_text("".join(line.format(n=number) for number in range(200_000 // len(line))), "utf-8")


@pytest.mark.parametrize("line", SCRIPTS.values(), ids=SCRIPTS)
def test_a_budget_is_spent_in_tokens_whatever_the_script(engine: Engine, root: Path, line: str) -> None:
    write_lines(root / "script.txt", line)
    for budget in (200, 2_000, 6_000):
        shown, _, note = text(engine, "read", items=["script.txt"], token_budget=budget).rpartition("\n… ")
        assert note.startswith("cut here: ")
        assert budget - 40 <= estimate_tokens(shown) <= budget


@pytest.mark.parametrize("line", SCRIPTS.values(), ids=SCRIPTS)
def test_without_a_budget_a_reply_is_as_long_as_clients_take_whatever_the_script(
    engine: Engine, root: Path, line: str
) -> None:
    write_lines(root / "script.txt", line)
    limit = engine.settings.result_chars_max
    reply = text(engine, "read_file", path="script.txt")
    assert 0.94 * limit < reply_size(reply) <= limit
    as_json = tools.call(
        engine, "read", {"items": ["script.txt"], "token_budget": 100_000}, tools.Call(reader="program")
    ).text
    assert 0.7 * limit < reply_size(as_json) <= limit


def test_trees_and_outlines_are_inside_the_budget(engine: Engine) -> None:
    for asked in ({"items": ["."]}, {"items": ["big.py"]}, {"items": [".", "numbered.txt"]}):
        shown = text(engine, "read", **asked, token_budget=60).split("\n… ")[0]
        assert estimate_tokens(shown) <= 60
    assert "more lines: raise the budget" in text(engine, "read", items=["."], token_budget=60)


def test_a_long_line_is_shown_around_what_was_found_on_it(engine: Engine) -> None:
    for asked in ({"keywords": ["NEEDLE"]}, {"patterns": ["need.e"]}):
        reply = text(engine, "read_fragment", path="minified.js", **asked)
        assert "xxneedleyy" in reply
        assert len(reply) < 800
        assert reply.endswith("… long lines are cut; search_text shows the part around a word")


def test_a_foreign_pattern_can_neither_hang_nor_break_the_server(engine: Engine) -> None:
    assert "not found: pattern (x+)+z$" in text(engine, "read_fragment", path="minified.js", patterns=["(x+)+z$"])
    for pattern in ("(x", "(?=x)", "x\ny", "(?P<a"):
        with pytest.raises(InvalidArgument):
            text(engine, "read_fragment", path="minified.js", patterns=[pattern])


# -- read_regions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "spans", "merged"),
    [
        ([], [], False),
        ([(50, 55), (10, 15)], [(10, 15), (50, 55)], False),
        ([(1, 5), (6, 8)], [(1, 8)], True),
        ([(1, 5), (7, 8)], [(1, 5), (7, 8)], False),
        ([(95, 900)], [(95, 100)], False),
        ([(7, 7), (7, 7)], [(7, 7)], True),
    ],
)
def test_regions_come_in_the_order_of_the_file_joined_where_they_touch(
    engine: Engine, asked: list[tuple[int, int]], spans: list[tuple[int, int]], merged: bool
) -> None:
    ranges = [{"start": first, "end": last} for first, last in asked]
    reply = told(engine, "read_regions", filePath="numbered.txt", regions=ranges, contextLines=0)
    assert [(each["start"], each["end"]) for each in reply["regions"]] == spans
    assert reply["merged"] is merged
    assert sorted(str(one) for each in reply["regions"] for one in each["originalRanges"]) == sorted(map(str, ranges))


def test_widening_stops_at_both_ends_of_the_file(engine: Engine) -> None:
    asked = '[{"start": "2", "end": "2"}, {"start": 99, "end": 99}]'
    reply = told(engine, "read_regions", filePath="numbered.txt", regions=asked, contextLines="9")
    assert [(each["start"], each["end"]) for each in reply["regions"]] == [(1, 11), (90, 100)]


def test_over_max_total_lines_the_answer_names_the_next_line(engine: Engine) -> None:
    asked = [{"start": 10, "end": 20}, {"start": 50, "end": 90}]
    reply = told(engine, "read_regions", filePath="numbered.txt", regions=asked, contextLines=0, maxTotalLines=15)
    assert [(each["start"], each["end"]) for each in reply["regions"]] == [(10, 20), (50, 53)]
    assert reply["regions"][1]["content"].endswith("line 53")
    assert (reply["truncated"], reply["nextLine"]) == (True, 54)
    assert reply["next"] == "1 region did not fit: ask for the lines from 54 on"
    exactly = told(engine, "read_regions", filePath="numbered.txt", regions=asked[:1], contextLines=0, maxTotalLines=11)
    assert "truncated" not in exactly


@pytest.mark.parametrize("span", [(0, 5), (5, 4), (101, 101), (-3, 2)])
def test_a_region_that_is_not_in_the_file_is_refused_with_its_line_count(engine: Engine, span: tuple[int, int]) -> None:
    with pytest.raises(InvalidLineRange) as caught:
        text(engine, "read_regions", filePath="numbered.txt", regions=[{"start": span[0], "end": span[1]}])
    assert caught.value.details == {"path": "numbered.txt", "lines": 100}
    assert "100 lines" in caught.value.message
    with pytest.raises(InvalidLineRange, match="0 lines"):
        text(engine, "read_regions", filePath="empty.txt", regions=[{"start": 1, "end": 1}])


@pytest.mark.parametrize(
    "regions",
    [5, "ten", [1, 2], [[1, 2]], [{"start": 1}], [{"start": 1, "end": "x"}], [{"start": 1, "end": 2, "more": 3}],
     [{"start": 1.5, "end": 2}], [{"start": 1, "end": 2}] * 201, [None], {"end": 1}],
)  # fmt: skip
def test_what_is_no_list_of_ranges_is_refused(engine: Engine, regions: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        text(engine, "read_regions", filePath="numbered.txt", regions=regions)
    assert "regions" in caught.value.message


# -- list_directory ---------------------------------------------------------------------------------------------------


def test_a_listing_is_a_tree_without_what_nested_rules_ignore(engine: Engine) -> None:
    assert text(engine, "list_directory", path="docs") == ("docs · 3 items\n├── guide.md\n├── kept.tmp\n└── loop")
    hidden = text(engine, "list_directory", path="docs", include_hidden=True)
    assert "├── .gitignore\n" in hidden


def test_a_listing_goes_as_deep_as_it_is_asked_to(engine: Engine) -> None:
    flat = text(engine, "list_directory", depth=1, include_hidden=True)
    assert "├── .github/\n" in flat
    assert "workflows" not in flat
    assert ".git/" not in flat
    assert "│   └── workflows/\n│       └── ci.yml" in text(engine, "list_directory", depth=3, include_hidden=True)
    assert "ci.yml" not in text(engine, "list_directory", depth=2, include_hidden=True)


def test_a_listing_tells_sizes_and_what_is_no_text(engine: Engine) -> None:
    reply = text(engine, "list_directory", depth=1, sizes=True)
    for row in ("crlf.txt (17 B)", "big.py (1.0 MB)", "logo.png (binary)", "escape.txt (outside)", "pipe (special)"):
        assert f" {row}" in reply


def test_a_folder_that_is_not_there_has_near_names_and_a_file_is_no_folder(engine: Engine) -> None:
    with pytest.raises(FileNotFound) as caught:
        text(engine, "list_directory", path="tilll")
    assert caught.value.suggestion == "Did you mean till?"
    with pytest.raises(CallError, match="is a file, not a folder") as refused:
        text(engine, "list_directory", path="README.md")
    assert refused.value.suggestion == "Read it: read README.md"


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_a_look_at_some_levels_lists_no_folder_below_them_and_all_above(root: Path, levels: int) -> None:
    whole, some = walk(root, [""]), walk(root, [""], levels=levels)
    assert set(some.folders) == {folder for folder in whole.folders if not folder or folder.count("/") < levels}
    assert [each.path for each in some.entries] == [
        each.path for each in whole.entries if each.path.rpartition("/")[0] in some.folders
    ]


# -- every reply ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "long.py"}),
        ("read_file", {"path": "long.py", "format": "json", "include_deps": True}),
        ("read_file", {"path": "big.py"}),
        ("read_file", {"path": "minified.js", "format": "json"}),
        ("read_file", {"path": "hub.py", "include_deps": True, "format": "text"}),
        ("read_fragment", {"path": "long.py", "keywords": ["return", "def", "part_7"]}),
        (
            "read_fragment",
            {"paths": ["long.py", "big.py", "numbered.txt", "minified.js"], "patterns": ["[a-z]+ \\d+00\\b"]},
        ),
        ("read_fragment", {"path": "long.py", "symbols": [f"nothing_{number}" for number in range(100)]}),
        ("read_fragment", {"paths": ["numbered.txt", *(f"no/{number}.py" for number in range(19))], "lines": ["1-"]}),
        ("read_fragment", {"paths": ["long.py", "big.py", "till/auth.py"]}),
        ("read_fragment", {"paths": [f"many/file_{number:03}.txt" for number in range(20)]}),
        ("read_fragment", {"paths": ["long.py", "big.py"], "max_tokens": 1}),
        ("read_fragment", {"path": "minified.js", "lines": ["1-"]}),
        ("read_regions", {"filePath": "long.py", "regions": [{"start": 1, "end": 4_000}]}),
        ("read_regions", {"filePath": "minified.js", "regions": [{"start": 1, "end": 1}]}),
        ("list_directory", {"depth": 5, "max_items": 2_000, "include_hidden": True, "sizes": True}),
    ],
)
def test_a_reply_keeps_the_least_limit_there_is_and_says_that_it_was_cut(
    narrow: Engine, name: str, arguments: dict[str, Any]
) -> None:
    reply = text(narrow, name, **arguments)
    assert re.search(r"… |more|did not fit|nextLine|cut|not found|not read|read parts", reply)
