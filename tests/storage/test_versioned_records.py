"""Dossiers keep versions and a log together, show that they changed, and can be put away and taken back."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from context_engine.storage.records import VersionedRecords


@pytest.fixture
def records(tmp_path: Path) -> VersionedRecords:
    return VersionedRecords(tmp_path / ".context-engine", "plans")


def settled(records: VersionedRecords) -> None:
    """Make everything an hour old, as it is when nobody has touched it for long."""
    for path in [*records.folder.rglob("*"), records.folder]:
        facts = path.stat()
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns - 3_600_000_000_000))


def fill(records: VersionedRecords, name: str) -> None:
    records.versions(name).add(1, b"{}")
    log = records.log(name)
    log.append(log.read(), [{"kind": "made"}])


def test_dossiers_are_listed_by_name_without_the_trash(records: VersionedRecords) -> None:
    assert records.list_names() == []
    for name in ("two", "one"):
        fill(records, name)
    (records.folder / "loose.json").write_text("{}")
    assert records.move_to_trash("two", "20261121") == ".context-engine/plans/.trash/two-20261121"
    assert records.list_names() == ["one"]


def test_a_stamp_tells_of_every_change_but_not_of_rest(records: VersionedRecords) -> None:
    fill(records, "one")
    assert records.stamp("one", "v0001.json") == (), "what changed a moment ago may change again unseen"
    settled(records)
    before = records.stamp("one", "v0001.json")
    assert before == records.stamp("one", "v0001.json") != ()
    for change in (
        lambda: records.versions("one").add(2, b"{}"),
        lambda: records.log("one").append(records.log("one").read(), [{"kind": "opened"}]),
        lambda: (records.folder / "one" / "v0001.json").write_bytes(b"by lease"),
    ):
        change()
        settled(records)
        after = records.stamp("one", "v0001.json")
        assert after != before
        before = after


def test_what_was_put_away_can_be_moved_back_whole(records: VersionedRecords) -> None:
    fill(records, "one")
    first = records.move_to_trash("one", "today")
    fill(records, "one")
    second = records.move_to_trash("one", "today")
    assert first != second
    (records.folder / ".trash" / "one-today").rename(records.folder / "one")
    assert records.versions("one").numbers() == (1,)
    assert len(records.log("one").read().events) == 1


def test_what_is_purged_is_gone_and_links_in_it_are_not_followed(records: VersionedRecords, tmp_path: Path) -> None:
    fill(records, "one")
    (tmp_path / "mine.txt").write_text("mine")
    if os.name == "posix":
        (records.folder / "one" / "link").symlink_to(tmp_path)
    assert records.move_to_trash("one", "today", purge=True) == ""
    assert [*(records.folder / ".trash").iterdir()] == []
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_one_writer_of_a_dossier_at_a_time_and_another_of_another(records: VersionedRecords) -> None:
    entered: list[str] = []

    def write(name: str) -> None:
        with VersionedRecords(records.folder.parent, "plans").writing(name):
            entered.append(name)

    same, other = (threading.Thread(target=write, args=(name,)) for name in ("one", "two"))
    with records.writing("one"):
        same.start()
        other.start()
        other.join(60)
        assert entered == ["two"]
    same.join(60)
    assert entered == ["two", "one"]


def test_what_killed_writers_left_half_done_is_cleared_away_by_the_next(records: VersionedRecords) -> None:
    fill(records, "one")
    left = records.folder / "one" / ".ctx-0a1b.tmp"
    left.write_bytes(b"hal")
    with records.writing("one"):
        assert not left.exists()


def test_an_index_that_a_killed_writer_began_is_cleared_away_and_one_that_is_being_written_is_not(
    records: VersionedRecords,
) -> None:
    records.put_index(b"[]")
    left, under_way = records.folder / ".ctx-0a1b.tmp", records.folder / ".ctx-2c3d.tmp"
    left.write_bytes(b"hal")
    under_way.write_bytes(b"hal")
    os.utime(left, (1, 1))
    records.put_index(b"[1]")
    assert (left.exists(), under_way.exists()) == (False, True)


def test_the_index_is_read_as_it_was_kept_and_may_be_missing(records: VersionedRecords) -> None:
    assert records.read_index() == b""
    records.put_index(b"[]")
    assert records.read_index() == b"[]"
    (records.folder / "index.json").unlink()
    (records.folder / "index.json").mkdir()
    assert records.read_index() == b""
    records.put_index(b"[1]")
    assert records.read_index() == b"", "where it cannot be kept it is derived again"
