"""Plans for whole files: a text that is written keeps what the file was, and what was done is turned back or refused."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.delta import ByteChange, make_delta
from context_engine.edit.file_edit import delta_of, hash_of, revert_op, write_file
from context_engine.edit.journal import Op
from context_engine.edit.patch import EditPlan
from context_engine.errors import BinaryFile, BugError, InvalidArgument, StaleFile, StorageCorrupt, WrongEncoding

LINES = "".join(f"line {n}\n" for n in range(40)).encode()


def rewritten(old: bytes | None, text: str) -> bytes | None:
    return write_file("a.txt", text).plan(old).data


@pytest.mark.parametrize(
    ("old", "text", "new"),
    [
        (None, "é\r\nb\n", "é\r\nb\n".encode()),
        (b"", "a\n", b"a\n"),
        (b"x\r\ny\r\n", "a\nb\n", b"a\r\nb\r\n"),
        (b"x\r\ny\r\n", "a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"x\ny\r\n", "a\nb\n", b"a\nb\n"),
        (b"one line", "a\nb\n", b"a\nb\n"),
        (codecs.BOM_UTF8 + b"x\n", "a\n", codecs.BOM_UTF8 + b"a\n"),
        (codecs.BOM_UTF8 + b"x\n", "\ufeffa\n", codecs.BOM_UTF8 + b"a\n"),
        (codecs.BOM_UTF16_LE + "x\r\n".encode("utf-16-le"), "é\n", codecs.BOM_UTF16_LE + "é\r\n".encode("utf-16-le")),
        ("naïve".encode("latin-1"), "café\n", "café\n".encode("latin-1")),
        (b"x\n", "", b""),
    ],
)
def test_a_text_is_written_the_way_the_file_was(old: bytes | None, text: str, new: bytes) -> None:
    assert rewritten(old, text) == new


@pytest.mark.parametrize("text", ["→", "\ud800"])
def test_a_character_that_the_file_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(WrongEncoding):
        rewritten("naïve".encode("latin-1"), text)


def test_a_binary_file_is_not_overwritten_with_text() -> None:
    with pytest.raises(BinaryFile):
        rewritten(b"\x89PNG\r\n\x1a\n\0\0", "a")


def test_a_file_that_exists_is_only_overwritten_when_that_is_wanted() -> None:
    with pytest.raises(InvalidArgument, match="exists"):
        write_file("a.txt", "new", overwrite=False).plan(b"")
    assert write_file("a.txt", "new", overwrite=False).plan(None).data == b"new"


def test_a_plan_that_does_not_lead_back_is_a_bug_and_not_a_change() -> None:
    with pytest.raises(BugError):
        delta_of(b"a b", EditPlan(b"a c", delta=(ByteChange(0, b"a b", b"a d"),)))


# -- turning back ------------------------------------------------------------------------------------------------------


def op(old: bytes | None, new: bytes | None) -> Op:
    return Op("a.txt", hash_of(old), hash_of(new), make_delta(old or b"", new or b""), 0o755, folders=("made",))


CONTENT = st.none() | st.binary(max_size=30)


@given(CONTENT, CONTENT)
def test_what_lies_there_as_it_was_left_becomes_what_it_was(old: bytes | None, new: bytes | None) -> None:
    back = revert_op(op(old, new)).plan(new)
    assert back.new_data == old
    again = Op("a.txt", hash_of(new), hash_of(old), delta_of(new or b"", back))
    assert revert_op(again).plan(old).new_data == new


def test_folders_go_with_a_file_only_when_they_came_with_it() -> None:
    assert revert_op(op(None, b"new")).leaves == ("made",)
    assert revert_op(op(b"old", None)).leaves == ()
    assert revert_op(op(b"old", None)).mode == 0o755


@pytest.mark.parametrize(
    ("old", "new", "now"),
    [
        (LINES, LINES.replace(b"line 20\n", b"twenty\n"), LINES.replace(b"line 20\n", b"two tens\n")),
        (LINES, LINES.replace(b"line 20\n", b"twenty\n"), LINES),
        (LINES, LINES.replace(b"line 20\n", b"twenty\n"), None),
        (None, b"new\n", b"new and more\n"),
        (b"old\n", None, b"made again\n"),
        (b"old\n", b"", b"something"),
    ],
    ids=["changed there", "changed back", "gone", "created and edited", "deleted and made again", "emptied"],
)
def test_what_was_changed_again_is_not_turned_back(old: bytes | None, new: bytes | None, now: bytes | None) -> None:
    with pytest.raises(StaleFile, match="nothing was written") as caught:
        revert_op(op(old, new)).plan(now)
    assert caught.value.suggestion.startswith("Read it")


def test_a_journal_that_lies_is_not_believed() -> None:
    lying = Op("a.txt", hash_of(b"one"), hash_of(b"two"), make_delta(b"three", b"two"))
    with pytest.raises(StorageCorrupt):
        revert_op(lying).plan(b"two")
    broken = Op("a.txt", hash_of(b"one"), hash_of(b"two"), make_delta(b"one", b"four"))
    with pytest.raises(StorageCorrupt):
        revert_op(broken).plan(b"two")
