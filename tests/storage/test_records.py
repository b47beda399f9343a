"""Records appear whole or not at all, and only where they seem to be."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from context_engine.errors import StorageCorrupt
from context_engine.storage.records import RecordFolder


@pytest.fixture
def records(tmp_path: Path) -> RecordFolder:
    return RecordFolder(tmp_path / "home", "notes")


def test_a_record_is_made_once_changed_and_removed(records: RecordFolder) -> None:
    assert records.create("a/one.md", b"first")
    assert not records.create("a/one.md", b"second")
    assert records.read("a/one.md") == b"first"
    before = records.listing()
    records.replace("a/one.md", b"third")
    assert records.listing().keys() == before.keys() == {"a/one.md"}
    assert records.listing() != before
    records.remove("a/one.md")
    records.remove("a/one.md")
    assert records.listing() == {}
    assert records.read("a/one.md") is None
    assert list(records.folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps permissions elsewhere")
def test_the_mode_of_a_record_is_kept(records: RecordFolder) -> None:
    records.create("a/one.md", b"first")
    (records.folder / "a/one.md").chmod(0o640)
    records.replace("a/one.md", b"second")
    assert stat.S_IMODE((records.folder / "a/one.md").stat().st_mode) == 0o640


@pytest.mark.parametrize("link", ["notes", "notes/a"])
def test_a_link_is_not_followed_out_of_the_home(records: RecordFolder, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "home" / link
    target.parent.mkdir(parents=True)
    target.symlink_to(outside)
    with pytest.raises(StorageCorrupt, match="is a symbolic link"):
        records.create("a/one.md", b"first")
    assert list(outside.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said_and_nothing_is_left(records: RecordFolder, tmp_path: Path) -> None:
    (tmp_path / "home" / "notes").mkdir(parents=True)
    (tmp_path / "home" / "notes" / "a").write_text("a file")
    with pytest.raises(StorageCorrupt, match="is a file, not a folder") as refused:
        records.create("a/one.md", b"first")
    assert refused.value.suggestion
    assert records.read("a/one.md") is None or isinstance(records.read("a/one.md"), str)
