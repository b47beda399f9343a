"""Dossiers keep versions and a log together, show that they changed, and can be put away and taken back."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from context_engine.sharing.versioned_records import Dossiers


@pytest.fixture
def dossiers(tmp_path: Path) -> Dossiers:
    return Dossiers(tmp_path / ".context-engine", "plans")


def settled(dossiers: Dossiers) -> None:
    """Make everything an hour old, as it is when nobody has touched it for long."""
    for path in [*dossiers.folder.rglob("*"), dossiers.folder]:
        facts = path.stat()
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns - 3_600_000_000_000))


def fill(dossiers: Dossiers, name: str) -> None:
    dossiers.versions(name).add(1, b"{}")
    log = dossiers.log(name)
    log.append(log.read(), [{"kind": "made"}])


def test_dossiers_are_listed_by_name_without_the_trash(dossiers: Dossiers) -> None:
    assert dossiers.names() == []
    for name in ("two", "one"):
        fill(dossiers, name)
    (dossiers.folder / "loose.json").write_text("{}")
    assert dossiers.put_away("two", "20261121") == ".context-engine/plans/.trash/two-20261121"
    assert dossiers.names() == ["one"]


def test_a_stamp_tells_of_every_change_but_not_of_rest(dossiers: Dossiers) -> None:
    fill(dossiers, "one")
    assert dossiers.stamp("one", "v0001.json") == (), "what changed a moment ago may change again unseen"
    settled(dossiers)
    before = dossiers.stamp("one", "v0001.json")
    assert before == dossiers.stamp("one", "v0001.json") != ()
    for change in (
        lambda: dossiers.versions("one").add(2, b"{}"),
        lambda: dossiers.log("one").append(dossiers.log("one").read(), [{"kind": "opened"}]),
        lambda: (dossiers.folder / "one" / "v0001.json").write_bytes(b"by hand"),
    ):
        change()
        settled(dossiers)
        after = dossiers.stamp("one", "v0001.json")
        assert after != before
        before = after


def test_what_was_put_away_can_be_moved_back_whole(dossiers: Dossiers) -> None:
    fill(dossiers, "one")
    first = dossiers.put_away("one", "today")
    fill(dossiers, "one")
    second = dossiers.put_away("one", "today")
    assert first != second
    (dossiers.folder / ".trash" / "one-today").rename(dossiers.folder / "one")
    assert dossiers.versions("one").numbers() == (1,)
    assert len(dossiers.log("one").read().events) == 1


def test_what_is_purged_is_gone_and_links_in_it_are_not_followed(dossiers: Dossiers, tmp_path: Path) -> None:
    fill(dossiers, "one")
    (tmp_path / "mine.txt").write_text("mine")
    if os.name == "posix":
        (dossiers.folder / "one" / "link").symlink_to(tmp_path)
    assert dossiers.put_away("one", "today", purge=True) == ""
    assert [*(dossiers.folder / ".trash").iterdir()] == []
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_one_writer_of_a_dossier_at_a_time_and_another_of_another(dossiers: Dossiers) -> None:
    entered: list[str] = []

    def write(name: str) -> None:
        with Dossiers(dossiers.folder.parent, "plans").writing(name):
            entered.append(name)

    same, other = (threading.Thread(target=write, args=(name,)) for name in ("one", "two"))
    with dossiers.writing("one"):
        same.start()
        other.start()
        other.join(60)
        assert entered == ["two"]
    same.join(60)
    assert entered == ["two", "one"]


def test_what_killed_writers_left_half_done_is_cleared_away_by_the_next(dossiers: Dossiers) -> None:
    fill(dossiers, "one")
    left = dossiers.folder / "one" / ".ctx-0a1b.tmp"
    left.write_bytes(b"hal")
    with dossiers.writing("one"):
        assert not left.exists()


def test_an_index_that_a_killed_writer_began_is_cleared_away_and_one_that_is_being_written_is_not(
    dossiers: Dossiers,
) -> None:
    dossiers.put_index(b"[]")
    left, under_way = dossiers.folder / ".ctx-0a1b.tmp", dossiers.folder / ".ctx-2c3d.tmp"
    left.write_bytes(b"hal")
    under_way.write_bytes(b"hal")
    os.utime(left, (1, 1))
    dossiers.put_index(b"[1]")
    assert (left.exists(), under_way.exists()) == (False, True)


def test_the_index_is_read_as_it_was_kept_and_may_be_missing(dossiers: Dossiers) -> None:
    assert dossiers.index() == b""
    dossiers.put_index(b"[]")
    assert dossiers.index() == b"[]"
    (dossiers.folder / "index.json").unlink()
    (dossiers.folder / "index.json").mkdir()
    assert dossiers.index() == b""
    dossiers.put_index(b"[1]")
    assert dossiers.index() == b"", "where it cannot be kept it is derived again"


def test_git_is_told_to_leave_out_what_is_derived(dossiers: Dossiers) -> None:
    with dossiers.writing("one"):
        pass
    ignored = (dossiers.folder.parent / ".gitignore").read_text().split("\n")
    assert {"/plans/index.json", "/plans/.trash/", "/locks/", "*.tmp"} <= set(ignored)
