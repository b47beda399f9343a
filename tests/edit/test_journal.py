"""The journal: nothing it holds is lost or half there, and it never grows beyond its ring."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import apsw
import pytest

from context_engine.edit import journal as module
from context_engine.edit.delta import make_delta
from context_engine.edit.journal import Journal, Op
from context_engine.errors import StorageBusy, StorageCorrupt, WriteFailed
from context_engine.storage import database
from tests.support.trees import ordinary_user

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")


def op(path: str = "a.py", old: bytes = b"one\n", new: bytes = b"two\n") -> Op:
    return Op(path, old.hex(), new.hex(), make_delta(old, new), 0o644, None, ".ctx-1.tmp", ("src", "src/deep"))


def done(journal: Journal, *ops: Op, session: str = "", turns: int = 0) -> int:
    number = journal.begin(ops or (op(),), at=1.5, session=session, turns=turns)
    journal.finish(number)
    return number


def numbers(journal: Journal) -> list[tuple[int, str]]:
    return [(each.id, each.state) for each in journal.entries(1_000)]


def test_nothing_is_created_before_something_is_recorded(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state")
    assert (journal.entries(9), journal.newest("done"), journal.find_unfinished(), journal.entry(1)) == (
        [],
        None,
        [],
        None,
    )
    assert list(tmp_path.iterdir()) == []


def test_what_was_begun_is_open_until_it_is_finished_and_then_survives(tmp_path: Path) -> None:
    begun = Op("é.py", "ab", "", make_delta(b"x\0\xff", b""), None, b"whole", "", ())
    journal = Journal(tmp_path)
    number = journal.begin([begun, op()], at=12.5, session="s")
    for each in (journal, Journal(tmp_path)):
        (outline,) = each.find_unfinished()
        assert [(op.path, op.delta, op.image) for op in outline.ops] == [("é.py", (), None), ("a.py", (), None)]
        entry = each.entry(outline.id)
        assert entry is not None
        assert (entry.id, entry.at, entry.session, entry.state, entry.ops) == (number, 12.5, "s", "open", (begun, op()))
        assert each.entries(9) == []
        assert each.newest("done") is None
    journal.finish(number)
    journal.close()
    again = Journal(tmp_path)
    assert again.find_unfinished() == []
    (outline,) = again.entries(9)
    entry = again.entry(outline.id)
    assert entry is not None
    assert entry.state == "done"
    assert [(each.image, each.temp) for each in entry.ops] == [(None, ""), (None, "")], "only a crash needs these"
    assert [each.folders for each in entry.ops] == [(), ("src", "src/deep")]


def test_a_turn_of_what_has_left_the_ring_leaves_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    done(journal, turns=77)
    assert numbers(journal) == []


def test_the_ring_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPS_MAX", 5)
    journal = Journal(tmp_path, flush=False)
    begun = journal.begin([op()], at=0.0)
    kept = [done(journal, op("a"), op("b")) for _ in range(4)]
    assert [number for number, _ in numbers(journal)] == [kept[3], kept[2]]
    assert [each.id for each in journal.find_unfinished()] == [begun]
    db = apsw.Connection(str(tmp_path / "journal.db"))
    assert db.execute("SELECT count(*) FROM op").fetchall() == [(5,)], "what left the ring takes no room"
    db.close()


def test_the_ring_has_an_end_in_bytes_but_the_newest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BYTES_MAX", 10_000)
    journal = Journal(tmp_path, flush=False)
    old = [done(journal, op(old=os.urandom(4_000), new=b"")) for _ in range(3)]
    assert [number for number, _ in numbers(journal)] == [old[2], old[1]]
    large = done(journal, op(old=os.urandom(40_000), new=b""))
    assert numbers(journal) == [(large, "done")]


def test_a_journal_that_somebody_cleaned_up_begins_anew(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state")
    done(journal)
    shutil.rmtree(tmp_path / "state")
    assert numbers(journal) == []
    number = done(journal)
    assert numbers(Journal(tmp_path / "state")) == [(number, "done")]


@POSIX
def test_it_is_readable_by_its_owner_alone_and_unseen_by_git(tmp_path: Path) -> None:
    if IS_ROOT:
        os.chown(tmp_path, 1234, 4321)
    journal = Journal(tmp_path / ".context-engine")
    done(journal)
    for path in (tmp_path / ".context-engine").iterdir():
        if path.name.startswith("journal.db"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        if IS_ROOT:
            assert path.stat().st_uid == 1234, f"{path.name} belongs to whom the workspace belongs"
    ignored = (tmp_path / ".context-engine" / ".gitignore").read_text().split("\n")
    assert {"/.gitignore", "/journal.db*", "/locks/"} <= set(ignored)
    journal.close()


def test_an_ignore_file_of_the_user_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    done(Journal(tmp_path))
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4_096])
def test_a_damaged_journal_is_reported_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal.db").write_bytes(content)
    with pytest.raises(StorageCorrupt, match=r"journal\.db"):
        Journal(tmp_path).begin([op()], at=0.0)
    assert (tmp_path / "journal.db").read_bytes() == content


def test_a_journal_of_another_release_is_not_guessed_at(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    done(journal)
    journal.close()
    db = apsw.Connection(str(tmp_path / "journal.db"))
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StorageCorrupt, match="format 99"):
        Journal(tmp_path).entries(9)


def test_a_journal_that_somebody_holds_for_long_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_MS", 10)
    journal = Journal(tmp_path)
    done(journal)
    holder = apsw.Connection(str(tmp_path / "journal.db"))
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusy):
        journal.begin([op()], at=0.0)
    holder.execute("ROLLBACK")
    holder.close()
    done(journal)


@POSIX
def test_where_nothing_can_be_recorded_it_says_what_to_do() -> None:
    with ordinary_user() as folder:
        folder.chmod(0o500)
        with pytest.raises(WriteFailed, match="cannot be written") as caught:
            Journal(folder / ".context-engine").begin([op()], at=0.0)
        folder.chmod(0o700)
    assert "permission" in caught.value.suggestion
