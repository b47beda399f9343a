"""A file goes by another name: its bytes and permissions with it, all or nothing, and back again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.file_edit import rename_file
from context_engine.errors import InvalidArgument
from tests.support import edits
from tests.support.trees import tree


def test_bytes_of_any_kind_and_permissions_go_with_a_file(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.sh": b"#!/bin/sh\r\n\xff\x00"})
    (root / "a.sh").chmod(0o750)
    with edits.editing(root) as one:
        receipt = one.apply(one.move_file("a.sh", "bin/deep/run.sh"))
    assert edits.contents(root) == {"bin/deep/run.sh": b"#!/bin/sh\r\n\xff\x00"}
    assert (root / "bin/deep/run.sh").stat().st_mode & 0o777 == 0o750
    assert [(each.path, bool(each.before), bool(each.after)) for each in receipt.files] == [
        ("a.sh", True, False),
        ("bin/deep/run.sh", False, True),
    ]


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=60)))
def test_the_two_halves_of_a_rename_lose_and_make_the_same_bytes(old: bytes, new: bytes | None) -> None:
    gone, made = rename_file("a", "b", old, new=new)
    assert gone.plan(old).new_data is None
    assert made.plan(None).data == (old if new is None else new)
    with pytest.raises(InvalidArgument):
        made.plan(b"")
