"""Records appear whole or not at all, and only where they seem to be; versions and logs are kept together."""

from __future__ import annotations

import multiprocessing
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from context_engine.errors import StorageCorrupt
from context_engine.storage import records as records_module
from context_engine.storage.records import RecordFolder, VersionedRecords


@pytest.fixture
def notes(tmp_path: Path) -> RecordFolder:
    return RecordFolder(tmp_path / "home", "notes")


def test_a_record_is_made_once_changed_and_removed(notes: RecordFolder) -> None:
    assert notes.create("a/one.md", b"first")
    assert not notes.create("a/one.md", b"second")
    assert notes.read("a/one.md") == b"first"
    before = notes.listing()
    notes.replace("a/one.md", b"third")
    assert notes.listing().keys() == before.keys() == {"a/one.md"}
    assert notes.listing() != before
    notes.remove("a/one.md")
    notes.remove("a/one.md")
    assert notes.listing() == {}
    assert notes.read("a/one.md") is None
    assert list(notes.folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps permissions elsewhere")
def test_the_mode_of_a_record_is_kept(notes: RecordFolder) -> None:
    notes.create("a/one.md", b"first")
    (notes.folder / "a/one.md").chmod(0o640)
    notes.replace("a/one.md", b"second")
    assert stat.S_IMODE((notes.folder / "a/one.md").stat().st_mode) == 0o640


@pytest.mark.parametrize("link", ["notes", "notes/a"])
def test_a_link_is_not_followed_out_of_the_home(notes: RecordFolder, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "home" / link
    target.parent.mkdir(parents=True)
    target.symlink_to(outside)
    with pytest.raises(StorageCorrupt, match="is a symbolic link"):
        notes.create("a/one.md", b"first")
    assert list(outside.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said_and_nothing_is_left(notes: RecordFolder, tmp_path: Path) -> None:
    (tmp_path / "home" / "notes").mkdir(parents=True)
    (tmp_path / "home" / "notes" / "a").write_text("a file")
    with pytest.raises(StorageCorrupt, match="is a file, not a folder") as refused:
        notes.create("a/one.md", b"first")
    assert refused.value.suggestion
    assert notes.read("a/one.md") is None or isinstance(notes.read("a/one.md"), str)


@pytest.fixture
def records(tmp_path: Path) -> VersionedRecords:
    return VersionedRecords(tmp_path / ".context-engine", "plans")


def test_a_damaged_file_is_named_and_the_others_are_read(
    records: VersionedRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "VERSION_BYTES_MAX", 1_000)
    records.add("one", 1, b"x" * 1_001)
    records.add("one", 2, b"sound")
    with pytest.raises(StorageCorrupt, match=r"v0001\.json of one") as caught:
        records.read("one", 1)
    assert caught.value.details["file"] == "v0001.json"
    assert records.read("one", 2) == b"sound"


def test_other_files_are_no_versions(records: VersionedRecords) -> None:
    records.add("one", 3, b"third")
    for name in ("v3.json", "v0004.json.tmp", "w0005.json", "v0006.txt", "PLAN.md", "v0007.JSON"):
        (records.folder / "one" / name).write_bytes(b"?")
    assert records.numbers("one") == (3,)


def _adding(home: Path, worker: int, count: int) -> None:
    made = VersionedRecords(home, "plans", flush=False)
    for _ in range(count):
        number = 1
        while not made.add("one", number, f"{worker}".encode()):
            number = max(made.numbers("one"), default=0) + 1


def test_four_processes_that_add_as_fast_as_they_can_lose_none_and_overwrite_none(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_adding, args=(tmp_path, worker, 25)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    made = VersionedRecords(tmp_path, "plans")
    assert made.numbers("one") == tuple(range(1, 101))
    by_worker = [made.read("one", number) for number in made.numbers("one")]
    assert all(by_worker.count(f"{worker}".encode()) == 25 for worker in range(4))


def settled(records: VersionedRecords) -> None:
    """Make everything an hour old, as it is when nobody has touched it for long."""
    for path in [*records.folder.rglob("*"), records.folder]:
        facts = path.stat()
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns - 3_600_000_000_000))


def fill(records: VersionedRecords, name: str) -> None:
    records.add(name, 1, b"{}")
    log = records.log(name)
    log.append(log.read(), [{"kind": "made"}])


def test_a_stamp_tells_of_every_change_but_not_of_rest(records: VersionedRecords) -> None:
    fill(records, "one")
    assert records.stamp("one", "v0001.json") == (), "what changed a moment ago may change again unseen"
    settled(records)
    before = records.stamp("one", "v0001.json")
    assert before == records.stamp("one", "v0001.json") != ()
    for change in (
        lambda: records.add("one", 2, b"{}"),
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
    assert records.numbers("one") == (1,)
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


def test_dossiers_are_listed_by_name_without_the_trash(records: VersionedRecords) -> None:
    assert records.list_names() == []
    for name in ("two", "one"):
        fill(records, name)
    (records.folder / "loose.json").write_text("{}")
    assert records.move_to_trash("two", "20261121") == ".context-engine/plans/.trash/two-20261121"
    assert records.list_names() == ["one"]


def test_the_index_is_read_as_it_was_kept_and_may_be_missing(records: VersionedRecords) -> None:
    assert records.read_index() == b""
    records.put_index(b"[]")
    assert records.read_index() == b"[]"
    (records.folder / "index.json").unlink()
    (records.folder / "index.json").mkdir()
    assert records.read_index() == b""
    records.put_index(b"[1]")
    assert records.read_index() == b"", "where it cannot be kept it is derived again"
