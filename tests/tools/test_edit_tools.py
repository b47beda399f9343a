"""The editing tools on a real work tree: what is certain is written and told in a line; what is not is refused, in words that help."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from context_engine import tools
from context_engine.engine import Engine
from context_engine.errors import (
    AccessDenied,
    CallError,
    FileNotFound,
    InvalidArgument,
    InvalidEdit,
    InvalidLineRange,
    InvalidPath,
    StaleFile,
)
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.profiles import ToolSelection
from context_engine.tools import Call, Reply
from tests.support.engines import found, indexed, open_engine
from tests.support.tool_calls import text, told
from tests.support.trees import tree

SHOP = "def total(prices):\n    return sum(prices)\n\n\ndef mean(prices):\n    return total(prices) / len(prices)\n"
TWICE = "one = 1\nsame = 0\ntwo = 2\nsame = 0\nthree = 3\n"
KEY = "sk-ant-" + "Zq3vN8xT1mB6wR4yK9pL2cD7"
LINES = "".join(f"line {number}\n" for number in range(1, 101))
WORLD: dict[str, str | bytes] = {
    "shop.py": SHOP,
    "twice.py": TWICE,
    "lines.txt": LINES,
    "crlf.txt": "one\r\ntwo\r\nthree\r\n",
    "client.py": f'import shop\n\nKEY = "{KEY}"\nTIMEOUT_S = 10\n',
    "masks.md": "Secrets are shown as [masked api key].\nNothing else.\n",
    "logo.png": b"\x89PNG\r\n\x1a\n" + bytes(50),
    ".env": "PASSWORD=hunter2\n",
    ".git/config": "[core]\n",
    ".context-engine/config.yml": "watch: true\n",
    "keys/id_rsa": "-----BEGIN\n",
    "docs/guide.md": "# Guide\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A work tree with a handful of files, and one outside of it."""
    (tmp_path / "outside.txt").write_text("not yours\n")
    world = tree(tmp_path / "shop", WORLD)
    (world / "escape.txt").symlink_to(tmp_path / "outside.txt")
    (world / "link.py").symlink_to("shop.py")
    return world


@pytest.fixture
def engine(root: Path) -> Iterator[Engine]:
    """Nothing is indexed: editing needs no index."""
    with open_engine(root, flush=False) as engine:
        yield engine


def sent(engine: Engine, name: str, /, **arguments: Any) -> Reply:
    """As a client gets it: refusals are replies."""
    return (
        ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all", "seeds")))
        .call(name, arguments, Call())
        .reply
    )


def replaced(engine: Engine, old: str, new: str, path: str = "shop.py", **more: Any) -> dict[str, Any]:
    return told(engine, "safe_replace", filePath=path, oldContent=old, newContent=new, **more)


def refused(engine: Engine, old: str, new: str, path: str = "shop.py", **more: Any) -> dict[str, Any]:
    """The error of a replacement that is refused; the file is as it was."""
    before = (engine.root / path).read_bytes()
    reply = sent(engine, "safe_replace", filePath=path, oldContent=old, newContent=new, **more)
    assert reply.is_error
    assert (engine.root / path).read_bytes() == before
    row = json.loads(reply.text)
    assert row["success"] is False
    assert set(row["error"]) == {"code", "message", "suggestion", "retryable", "details"}
    assert row["error"]["suggestion"], "a refusal names the next step"
    return row["error"]


def short(data: bytes) -> str:
    return sha256(data).hexdigest()[:12]


def undo_id(reply: str) -> str:
    return reply.rsplit("undo ", 1)[1].split("\n")[0]


# -- edit_file --------------------------------------------------------------------------------------------------------


def test_an_edit_is_told_in_one_line_with_where_it_is_now_its_hash_and_how_to_undo_it(engine: Engine) -> None:
    reply = text(
        engine, "edit_file", path="shop.py", edits=[{"target": "sum(prices)", "replace": "sum(\n        prices\n    )"}]
    )
    new = SHOP.replace("sum(prices)", "sum(\n        prices\n    )")
    assert (engine.root / "shop.py").read_text() == new
    assert reply == f"edited shop.py · lines 2-4 · sha256 {short(new.encode())} · syntax ok · undo {undo_id(reply)}"


def test_an_edit_names_what_else_uses_the_definition_and_its_tests(tmp_path: Path) -> None:
    files = {
        "shop.py": SHOP,
        "web.py": "from shop import mean\n\n\ndef show(prices):\n    return mean(prices)\n",
        "tests/test_shop.py": "from shop import mean\n\n\ndef test_mean():\n    assert mean([1]) == 1\n",
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        reply = text(engine, "edit_file", path="shop.py", symbol="mean", target="total(prices)", replace="sum(prices)")
        assert reply.split("\n")[1:] == [
            "tests: tests/test_shop.py:4 test_mean",
            "1 other line with mean:",
            "web.py:5: return mean(prices)",
        ]
        alone = text(engine, "edit_file", path="web.py", target="mean(prices)", replace="mean(prices or [0])")
        assert "other line" not in alone


def test_an_edit_may_be_given_flat_and_in_the_words_of_other_editors(engine: Engine) -> None:
    text(engine, "edit_file", file_path="shop.py", old_string="sum(prices)", new_string="max(prices)")
    assert (engine.root / "shop.py").read_text() == SHOP.replace("sum(prices)", "max(prices)")
    with pytest.raises(InvalidArgument, match="with a list of edits"):
        text(engine, "edit_file", path="shop.py", target="a", replace="b", edits=[{"target": "a", "replace": "b"}])


def test_a_target_is_looked_for_in_the_named_definition_alone(engine: Engine) -> None:
    body = "def one():\n    return 1\n\n\ndef two():\n    return 1\n"
    (engine.root / "twice.py").write_text(body)
    text(engine, "edit_file", path="twice.py", symbol="two", target="return 1", replace="return 2")
    assert (engine.root / "twice.py").read_text() == "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    with pytest.raises(CallError) as caught:
        text(engine, "edit_file", path="twice.py", symbol="two", target="return 1", replace="return 3")
    assert caught.value.code == "ANCHOR_FAILED"


def test_lines_are_replaced_only_in_a_file_that_is_as_the_session_read_it(engine: Engine) -> None:
    path, call = engine.root / "notes.txt", Call(session="lines")

    def edit(lines: str, new: str) -> str:
        arguments = {"path": "notes.txt", "line_range": lines, "replace": new}
        return tools.call(engine, "edit_file", arguments, call).text

    path.write_bytes(b"one\r\ntwo\r\nthree\r\nfour")
    with pytest.raises(InvalidArgument, match="not read in this session"):
        edit("2-3", "2")
    tools.call(engine, "read", {"items": ["notes.txt"]}, call)
    assert "· line 2 ·" in edit("2-3", "2\n")
    assert path.read_bytes() == b"one\r\n2\r\nfour"
    edit("1", "")
    assert path.read_bytes() == b"2\r\nfour"
    with pytest.raises(InvalidLineRange, match="it has 2 lines"):
        edit("2-3", "x")
    path.write_bytes(b"new\r\n2\r\nfour")
    with pytest.raises(StaleFile):
        edit("2", "x")
    assert path.read_bytes() == b"new\r\n2\r\nfour"


def test_of_very_many_failures_each_is_told_though_not_at_length(engine: Engine) -> None:
    block = "".join(f"value_{line} = {line}  # {'x' * 60}\n" for line in range(40))
    (engine.root / "long.py").write_text(block)
    wrong = {"target": block.replace("value_9 ", "value_x "), "replace": "gone = 1\n"}
    reply = sent(engine, "edit_file", path="long.py", edits=[wrong] * 60)
    assert reply.is_error
    assert len(reply.text) <= engine.settings.result_chars_max
    error = json.loads(reply.text)["error"]
    assert [each["edit"] for each in error["details"]["failed"]] == [*range(1, 61)]
    assert all(each["message"] for each in error["details"]["failed"])


def test_several_files_are_one_edit_and_one_undo(engine: Engine) -> None:
    files = [
        {"path": "shop.py", "edits": [{"target": "def total", "replace": "def summed"}]},
        {
            "path": "lines.txt",
            "edits": [{"target": "line 50", "replace": "LINE 50"}, {"target": "line 7\n", "replace": ""}],
        },
    ]
    head, shop, lines = text(engine, "edit_file", files=files).split("\n")
    assert head.startswith("edited 2 files · undo ")
    assert shop.startswith("shop.py · line 1 · sha256 ")
    assert lines.startswith("lines.txt · lines 49, 7 · sha256 ")
    text(engine, "undo_edit")
    assert (engine.root / "shop.py").read_text() == SHOP
    assert (engine.root / "lines.txt").read_text() == LINES


# -- dry runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelled", ["dry_run", "dryRun"])
def test_a_dry_run_shows_the_difference_and_touches_nothing(engine: Engine, spelled: str) -> None:
    before = sorted(engine.root.iterdir())
    edit = {"target": "return sum(prices)", "replace": "return sum((prices)"}
    reply = text(engine, "edit_file", path="shop.py", edits=[edit], **{spelled: "true"})
    assert reply.startswith("dry run: nothing was written\nshop.py · line 2 · new syntax error at line ")
    assert "--- a/shop.py\n+++ b/shop.py\n@@ -1,5 +1,5 @@\n" in reply
    assert "\n-    return sum(prices)\n+    return sum((prices)\n" in reply
    assert (engine.root / "shop.py").read_text() == SHOP
    assert sorted(engine.root.iterdir()) == before
    assert engine.edits.history() == []


def test_a_difference_is_cut_and_what_was_cut_is_counted(root: Path) -> None:
    with open_engine(root, flush=False, result_chars_max=2_000) as engine:
        reply = text(engine, "edit_file", path="lines.txt", dry_run=True,
                     edits=[{"target": LINES, "replace": "".join(f"new {line}\n" for line in range(100))}])  # fmt: skip
    assert len(reply) <= 2_000
    assert reply.endswith("more lines")


# -- stale edits ------------------------------------------------------------------------------------------------------


def test_the_hash_that_a_reading_tool_shows_lets_an_edit_pass_until_the_file_changes(engine: Engine) -> None:
    shown = text(engine, "read_file", path="shop.py").split("\n")[0].rsplit(" ", 1)[1]
    edit = [{"target": "def total", "replace": "def summed"}]
    text(engine, "edit_file", path="shop.py", edits=edit, expectedHash=shown)
    average = {"target": "def mean", "replace": "def average"}
    with pytest.raises(StaleFile) as caught:
        text(engine, "edit_file", path="shop.py", edits=[average], expected_hash=shown)
    assert caught.value.details["still_fits"] is True
    assert "def mean" in (engine.root / "shop.py").read_text()
    now = short((engine.root / "shop.py").read_bytes())
    files = [{"path": "shop.py", "expectedHash": now, "edits": [average]}]
    assert "def average" not in text(engine, "edit_file", files=files)


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_a_secret_is_masked_in_a_preview_and_survives_an_edit_beside_it(engine: Engine) -> None:
    edits = [{"target": "TIMEOUT_S = 10", "replace": "TIMEOUT_S = 20"}]
    preview = sent(engine, "edit_file", path="client.py", edits=edits, dry_run=True).text
    assert KEY not in preview
    assert "[masked api key]" in preview
    text(engine, "edit_file", path="client.py", edits=edits)
    assert KEY in (engine.root / "client.py").read_text()


def test_a_private_key_is_masked_in_a_preview_that_shows_a_part_of_it(engine: Engine) -> None:
    body = ["Qk3v" * 16, "Zx8w" * 16, "Ty5n" * 16, "Lp2c" * 16, "Vb7m" * 16]
    key = ["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----"]
    (engine.root / "k.py").write_text("\n".join(['KEY = """', *key, '"""', "x = 1", ""]))
    for edit in ({"target": "x = 1", "replace": "x = 2"}, {"target": "x = 1\n", "replace": ""}):
        shown = [
            sent(engine, "edit_file", path="k.py", edits=[edit], dry_run=True).text,
            sent(engine, "safe_replace", filePath="k.py", oldContent=edit["target"], newContent=edit["replace"], dryRun=True).text,
        ]  # fmt: skip
        assert "@@" in shown[0]
        assert '"success":true' in shown[1]
        assert [line for reply in shown for line in body if line in reply] == []
    refused = sent(
        engine, "edit_file", path="k.py", edits=[{"target": f"{body[2]}\n", "replace": ""}], dry_run=True
    ).text
    assert "INVALID_EDIT" in refused and body[2] not in refused


@pytest.mark.parametrize(
    "edit",
    [
        {"target": 'KEY = "[masked api key]"', "replace": 'KEY = "other"'},
        {"target": "import shop", "replace": 'KEY = "[masked api key]"'},
        {"target": "TIMEOUT_S = 10", "replace": "TIMEOUT_S = 20", "before": 'KEY = "[masked api key]"'},
    ],
)
def test_the_mask_of_a_secret_is_never_written_over_it(engine: Engine, edit: dict[str, str]) -> None:
    with pytest.raises(InvalidEdit, match="the file has no such text"):
        text(engine, "edit_file", path="client.py", edits=[edit])
    masked = (engine.root / "client.py").read_text().replace(KEY, "[masked api key]")
    with pytest.raises(InvalidEdit, match="the file has no such text"):
        text(engine, "write_file", path="client.py", content=masked)
    assert KEY in (engine.root / "client.py").read_text()


def test_a_refused_edit_of_a_secret_names_its_lines_and_what_to_do_instead_is_done(engine: Engine) -> None:
    body = ["Hk5v" * 16, "Zq8w" * 16, "Ty7n" * 16]
    lines = ["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----", f'KEY = "{KEY}"', ""]
    file = engine.root / "kept.txt"
    file.write_text("\n".join(lines))
    head = text(engine, "read_file", path="kept.txt").partition("\n")[0]
    by_line = {"path": "kept.txt", "expected_hash": head.rpartition("sha256 ")[2]}
    wrong = {
        "lines 2-4": {"line_range": "3", "replace": ""},
        "line 6": {"line_range": "6", "replace": 'KEY = "[masked api key]"', "labels_are_text": True},
        "line 6:": {"target": KEY[5:12], "replace": "x"},
    }
    for where, edit in wrong.items():
        with pytest.raises(InvalidEdit, match=f"hides a secret, {where}") as caught:
            text(engine, "edit_file", **by_line, **edit)
        assert "labels_are_text" not in caught.value.suggestion
        assert file.read_text() == "\n".join(lines)
    text(
        engine,
        "edit_file",
        **by_line,
        edits=[{"line_range": "2-4", "replace": ""}, {"line_range": "6", "replace": "KEY = 1"}],
    )
    assert file.read_text() == "\n".join([lines[0], lines[4], "KEY = 1", ""])


def test_a_text_that_speaks_of_masks_can_be_edited(engine: Engine) -> None:
    edit = {"target": "shown as [masked api key].", "replace": "always shown as [masked api key]."}
    text(engine, "edit_file", path="masks.md", edits=[edit])
    text(engine, "write_file", path="masks.md", content="Shown as [masked api key].\n")
    assert (engine.root / "masks.md").read_text() == "Shown as [masked api key].\n"


# -- what must not be touched -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (".env", AccessDenied),
        ("keys/id_rsa", AccessDenied),
        (".git/config", AccessDenied),
        (".context-engine/config.yml", AccessDenied),
        (".context-engine/journal.db", AccessDenied),
        ("../outside.txt", InvalidPath),
        ("escape.txt", InvalidPath),
        ("/etc/passwd", InvalidPath),
        ("missing.py", FileNotFound),
        ("docs", CallError),
        ("logo.png", CallError),
    ],
)
def test_what_is_not_for_agents_is_neither_edited_nor_written(
    engine: Engine, path: str, error: type[CallError]
) -> None:
    place = engine.root / path
    before = place.read_bytes() if place.is_file() else None
    with pytest.raises(error):
        text(engine, "edit_file", path=path, edits=[{"target": "a", "replace": "b"}])
    with pytest.raises(error):
        text(engine, "safe_replace", filePath=path, oldContent="a", newContent="b")
    if error is not FileNotFound:
        with pytest.raises(error):
            text(engine, "write_file", path=path, content="b\n")
    assert (place.read_bytes() if place.is_file() else None) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "one of the two"),
        ({"path": "shop.py"}, "edits are missing"),
        ({"edits": [{"target": "a", "replace": "b"}]}, "path is missing"),
        ({"path": "shop.py", "edits": [{"target": "a", "replace": "b"}], "files": [{"path": "x", "edits": [{"target": "a", "replace": "b"}]}]}, "one of the two"),
        ({"files": [{"path": "shop.py"}]}, "edits"),
        ({"path": "shop.py", "edits": [{"target": "a", "replace": "b", "occurrence": 1, "line_range": "1-2"}]}, "cannot be combined"),
    ],
)  # fmt: skip
def test_a_call_that_is_not_whole_says_what_is_missing(engine: Engine, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        text(engine, "edit_file", **arguments)
    assert says in caught.value.message
    assert caught.value.suggestion


# -- write_file -------------------------------------------------------------------------------------------------------


def test_a_file_is_written_with_its_folders_then_replaced_then_left_as_it_is(engine: Engine) -> None:
    path = engine.root / "new" / "deep" / "a.py"
    reply = text(engine, "write_file", path="new/deep/a.py", content="x = 1\n")
    assert reply.startswith("created new/deep/a.py · sha256 ")
    assert path.read_bytes() == b"x = 1\n"
    reply = text(engine, "write_file", path="new/deep/a.py", content="x = (\n")
    assert reply.split(" · ")[2].startswith("new syntax error")
    reply = text(engine, "write_file", path="new/deep/a.py", content="x = (\n")
    assert reply.startswith("unchanged new/deep/a.py")
    assert "undo" not in reply
    text(engine, "undo_edit", steps=2)
    assert not (engine.root / "new").exists()


# -- safe_replace: seed 000 -------------------------------------------------------------------------------------------


def test_a_replacement_says_where_it_was_found_and_where_the_lines_are_now(engine: Engine) -> None:
    row = replaced(engine, "return sum(prices)", "total = sum(prices)\n    return total")
    assert (engine.root / "shop.py").read_text() == SHOP.replace(
        "return sum(prices)", "total = sum(prices)\n    return total"
    )
    assert row["success"] is True
    assert row["matchInfo"] == {"line": 2, "column": 5, "matchType": "exact"}
    assert row["updatedLines"] == {"start": 2, "end": 3}
    assert row["syntax"] == "syntax ok"
    assert row["newHash"] == short((engine.root / "shop.py").read_bytes())
    assert row["undoId"] == engine.edits.history()[0].undo_id


def test_a_preview_shows_the_lines_around_before_and_after_and_writes_nothing(engine: Engine) -> None:
    row = replaced(engine, "return sum(prices)", "total = sum(prices)\n    return total", dryRun=True)
    assert row["preview"] == {
        "before": "def total(prices):\n    return sum(prices)\n\n\ndef mean(prices):",
        "after": "def total(prices):\n    total = sum(prices)\n    return total\n\n\ndef mean(prices):",
        "lineRange": {"start": 1, "end": 5},
    }
    assert "undoId" not in row
    assert (engine.root / "shop.py").read_text() == SHOP
    assert "preview" not in replaced(engine, "def total", "def summed"), (
        "by default it is done, and who did it knows what"
    )


def test_a_preview_of_a_deletion_shows_what_is_left(engine: Engine) -> None:
    row = replaced(engine, "line 50\nline 51\n", "", "lines.txt", dryRun=True)
    assert row["preview"]["before"].split("\n") == [f"line {number}" for number in range(47, 55)]
    assert row["preview"]["after"].split("\n") == ["line 47", "line 48", "line 49", "line 52", "line 53", "line 54"]


def test_two_equal_places_are_refused_with_line_and_preview_of_each(engine: Engine) -> None:
    error = refused(engine, "same = 0", "same = 1", "twice.py")
    assert error["code"] == "MULTIPLE_MATCHES"
    assert error["message"] == "found 2 occurrences of the target"
    assert "anchor" in error["suggestion"]
    assert error["details"]["matches"] == [
        {"line": 2, "column": 1, "preview": "same = 0"}, {"line": 4, "column": 1, "preview": "same = 0"},
    ]  # fmt: skip


def test_how_far_a_place_may_differ_is_the_callers_to_say(engine: Engine) -> None:
    (engine.root / "t.py").write_text("def compute_the_total(prices):\n    return sum(prices)\n")
    typo = "def compute_teh_total(prices):\n    return sum(prices)"
    fixed = typo.replace("sum(prices)", "0")
    spaced = "def compute_the_total(prices):\n    return  sum(prices)"
    loose = {"whitespaceOnly": False}
    for old, new, more in (
        (typo, fixed, {}),  # by default only whitespace may differ
        (typo, fixed, {"fuzzyMatch": loose | {"maxDistance": 1}}),
        (spaced, "x = 1", {"fuzzyMatch": {"enabled": False}}),
    ):
        assert refused(engine, old, new, "t.py", **more)["code"] in {"NO_MATCH", "FUZZY_UNSAFE"}
    row = replaced(engine, typo, fixed, "t.py", fuzzyMatch=loose, dryRun=True)
    assert row["matchInfo"] == {"line": 1, "column": 1, "matchType": "fuzzy", "distance": 2}
    assert "compute_the_total" in row["preview"]["after"], "the file's own line is kept"
    row = replaced(engine, spaced, "x = 1", "t.py", fuzzyMatch={"enabled": "true"})
    assert row["matchInfo"]["matchType"] == "fuzzy"


def test_what_cannot_be_written_is_a_failure_of_the_write(root: Path) -> None:
    (root / "shop.py").chmod(0o444)
    with open_engine(root, flush=False) as engine:
        assert refused(engine, "def total", "def summed")["code"] == "WRITE_FAILED"
        assert refused(engine, "nowhere in it", "def summed")["code"] == "NO_MATCH"


# -- undo_edit --------------------------------------------------------------------------------------------------------


def test_the_list_says_what_happened_and_what_was_undone(engine: Engine) -> None:
    assert text(engine, "undo_edit", list=True) == "nothing was edited yet"
    text(engine, "write_file", path="a.txt", content="1\n")
    text(engine, "edit_file", path="shop.py", edits=[{"target": "def total", "replace": "def one"}])
    text(engine, "undo_edit")
    head, newest, oldest = text(engine, "undo_edit", list=True).split("\n")
    assert head == "2 edits, newest first"
    assert newest.startswith("edit 2 · ")
    assert newest.endswith("Z · edited shop.py · undone")
    assert oldest.endswith("Z · created a.txt")


def test_undo_refuses_what_was_changed_since_and_stops_there(engine: Engine) -> None:
    text(engine, "edit_file", path="shop.py", edits=[{"target": "def total", "replace": "def one"}])
    text(engine, "edit_file", path="twice.py", edits=[{"target": "one = 1", "replace": "one = 11"}])
    (engine.root / "shop.py").write_text("something else\n")
    reply = text(engine, "undo_edit", steps=5)
    assert reply.startswith("undone: edit 2\n")
    assert "stopped after 1 edit: shop.py was changed since" in reply
    with pytest.raises(StaleFile):
        text(engine, "undo_edit")
    assert (engine.root / "shop.py").read_text() == "something else\n"


# -- the index --------------------------------------------------------------------------------------------------------


def test_an_edit_is_found_at_once_and_so_is_its_undoing(root: Path) -> None:
    with indexed(root, flush=False, staleness_ms=600_000) as engine:
        assert found(engine, "quokka_stew") == []
        text(engine, "edit_file", path="shop.py", edits=[{"target": "def mean", "replace": "def quokka_stew"}])
        assert found(engine, "quokka_stew") == ["shop.py"]
        text(engine, "undo_edit")
        assert found(engine, "quokka_stew") == []
