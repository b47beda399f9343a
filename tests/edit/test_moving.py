"""A file goes by another name: its bytes and permissions with it, all or nothing, and back again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.apply import Editor
from context_engine.edit.file_edit import rename_file
from context_engine.errors import AccessDenied, InvalidArgument, InvalidPath, StaleFile
from tests.support import edits
from tests.support.trees import tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path / "work", {"a.sh": b"#!/bin/sh\r\n\xff\x00", "b.txt": "b\n", "kept.txt": "kept\n"})


@pytest.fixture
def editing(root: Path) -> Iterator[Editor]:
    with edits.editing(root) as one:
        yield one


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if ".context-engine" not in str(path))


def test_bytes_of_any_kind_and_permissions_go_with_a_file(root: Path, editing: Editor) -> None:
    (root / "a.sh").chmod(0o750)
    before = (root / "a.sh").read_bytes()
    receipt = editing.apply(editing.move_file("a.sh", "bin/deep/run.sh"))
    assert (root / "bin/deep/run.sh").read_bytes() == before
    assert (root / "bin/deep/run.sh").stat().st_mode & 0o777 == 0o750
    assert [(each.path, bool(each.before), bool(each.after)) for each in receipt.files] == [
        ("a.sh", True, False),
        ("bin/deep/run.sh", False, True),
    ]


def test_it_is_undone_with_the_folders_that_were_made_for_it_and_done_again(root: Path, editing: Editor) -> None:
    was = names(root)
    receipt = editing.apply(editing.move_file("a.sh", "bin/run.sh"))
    moved = names(root)
    editing.undo(receipt.undo_id)
    assert names(root) == was
    editing.redo(receipt.undo_id)
    assert names(root) == moved


def test_a_name_that_is_taken_is_refused(root: Path, editing: Editor) -> None:
    with pytest.raises(InvalidArgument, match="exists already"):
        editing.apply(editing.move_file("a.sh", "b.txt"))
    assert (root / "b.txt").read_text() == "b\n"
    assert names(root) == ["a.sh", "b.txt", "kept.txt"]


@pytest.mark.parametrize("new", ["../out.sh", "/tmp/out.sh", ".git/config"])
def test_no_name_leads_out_or_where_nobody_may_write(root: Path, editing: Editor, new: str) -> None:
    with pytest.raises((InvalidPath, AccessDenied)):
        editing.apply(editing.move_file("a.sh", new))
    assert (root / "a.sh").exists()


def test_a_file_that_changed_meanwhile_stays_where_it_is(root: Path, editing: Editor) -> None:
    changes = editing.move_file("b.txt", "c.txt")
    (root / "b.txt").write_text("somebody else\n")
    with pytest.raises(StaleFile):
        editing.apply(changes)
    assert names(root) == ["a.sh", "b.txt", "kept.txt"]


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=60)))
def test_the_two_halves_of_a_rename_lose_and_make_the_same_bytes(old: bytes, new: bytes | None) -> None:
    gone, made = rename_file("a", "b", old, new=new)
    assert gone.plan(old).data is None
    assert made.plan(None).data == (old if new is None else new)
    with pytest.raises(InvalidArgument):
        made.plan(b"")
