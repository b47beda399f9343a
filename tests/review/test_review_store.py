"""The store of reviews: who took a unit and no other says how it ended, and nothing of it is lost."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.errors import StorageCorrupt, WriteFailed
from context_engine.review import review_store as module
from context_engine.review import review_tables
from context_engine.review.review_store import ReviewSession, ReviewStore, ReviewUnit, UnitCheckpoint
from context_engine.storage.locks import LivenessLock, PathLocks
from context_engine.storage.state_folder import is_state_path
from tests.support.trees import ordinary_user

POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")


def session(name: str = "rev_1", **other: Any) -> ReviewSession:
    made = ReviewSession(name, "key", "running", "me.1", 100.0, 1.0, 1.0, 2, b"{}")
    return replace(made, **other)


def store(folder: Path, units: int = 3, **other: Any) -> ReviewStore:
    made = ReviewStore(folder)
    made.add(session(**other), [ReviewUnit(number, (f"{number}.py", "é\n.py"), 10) for number in range(1, units + 1)])
    return made


def taken(made: ReviewStore, owner: str = "me.1") -> ReviewUnit:
    unit = made.take("rev_1", owner, 2.0)
    assert unit
    return unit


def states(made: ReviewStore) -> list[str]:
    return [unit.state for unit in made.units("rev_1")]


def test_nothing_is_created_before_something_is_kept(tmp_path: Path) -> None:
    empty = ReviewStore(tmp_path / "state")
    assert (empty.session("x"), empty.units("x"), empty.read_cached(["k"]), empty.read_kept("x"), empty.log("x")) == (
        None,
        [],
        {},
        None,
        [],
    )
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_is_read_by_another_process(tmp_path: Path) -> None:
    made = store(tmp_path)
    unit = taken(made)
    assert (unit.number, unit.paths, unit.state, unit.tries, unit.owner, unit.began_at) == (
        1,
        ("1.py", "é\n.py"),
        "running",
        1,
        "me.1",
        2.0,
    )
    left = UnitCheckpoint({"1.py": b"body"}, [b"one", b"two"], {"k": b"kept"}, (), b"{}")
    assert made.checkpoint("rev_1", unit, left, 3.0)
    other = ReviewStore(tmp_path)
    assert other.session("rev_1") == session()
    assert other.units("rev_1")[0] == replace(unit, state="done", ended_at=3.0, figures=b"{}")
    assert (other.bodies("rev_1"), other.read_cached(["k", "z"])) == ({"1.py": b"body"}, {"k": b"kept"})
    assert [body for _, body in other.findings("rev_1")] == [b"one", b"two"]
    assert other.findings("rev_1", after=other.findings("rev_1", limit=1)[0][0]) == other.findings("rev_1")[1:]
    assert [(event.unit, event.event) for event in other.log("rev_1")] == [(1, "taken"), (1, "done")]


def test_units_are_taken_in_order_each_once_by_the_owner_of_a_running_session(tmp_path: Path) -> None:
    made = store(tmp_path)
    assert made.take("rev_1", "somebody.1", 2.0) is None
    assert [taken(made).number for _ in range(3)] == [1, 2, 3]
    assert made.take("rev_1", "me.1", 2.0) is None
    paused = store(tmp_path / "paused", status="pausing")
    assert paused.take("rev_1", "me.1", 2.0) is None


def test_many_threads_and_processes_take_no_unit_twice(tmp_path: Path) -> None:
    stores = [store(tmp_path, 60), *(ReviewStore(tmp_path) for _ in range(3))]
    taken: list[int] = []

    def work(made: ReviewStore) -> None:
        while unit := made.take("rev_1", "me.1", 2.0):
            taken.append(unit.number)
            made.checkpoint("rev_1", unit, UnitCheckpoint({}), 3.0)

    threads = [threading.Thread(target=work, args=(each,)) for each in stores * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 61))
    assert {event.event for event in stores[1].log("rev_1")} == {"taken", "done"}
    assert len(stores[1].log("rev_1")) == 120


def test_two_processes_make_the_file_one_after_the_other(tmp_path: Path) -> None:
    made = ReviewStore(tmp_path)
    thread = threading.Thread(target=made.add, args=(session(), []))
    with PathLocks(tmp_path / "locks").hold(
        ["state.db"]
    ):  # as the other one does, for SQLite lets only one begin a log
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        assert not made.path.exists()
    thread.join()
    assert made.session("rev_1") == session()


def test_who_lost_a_unit_changes_nothing(tmp_path: Path) -> None:
    made = store(tmp_path)
    lost = taken(made)
    made.move("rev_1", lambda each: replace(each, owner="you.1"), requeue=("running",), at=5.0)
    assert states(made) == ["queued"] * 3
    again = taken(made, "you.1")
    assert (again.number, again.tries, again.queued_at) == (1, 2, 5.0)
    left = UnitCheckpoint({"1.py": b"old"}, [b"old"], {"k": b"old"})
    assert not made.checkpoint("rev_1", lost, left, 6.0)
    assert not made.give_back("rev_1", lost, 6.0)
    assert not made.fail("rev_1", lost, "no", 6.0, again=False)
    assert (made.bodies("rev_1"), made.findings("rev_1"), made.read_cached(["k"])) == ({}, [], {})
    assert made.units("rev_1")[0] == again
    assert [(event.owner, event.event) for event in made.log("rev_1")] == [
        ("me.1", "taken"),
        ("me.1", "lost"),
        ("you.1", "taken"),
    ]


def test_a_unit_goes_back_is_tried_again_or_fails(tmp_path: Path) -> None:
    made = store(tmp_path)
    assert made.give_back("rev_1", taken(made), 3.0)
    assert made.fail("rev_1", taken(made), "hm", 4.0, again=True)
    assert made.fail("rev_1", taken(made), "no", 5.0, again=False)
    unit = made.units("rev_1")[0]
    assert (unit.state, unit.tries, unit.error, unit.ended_at) == ("failed", 3, "no", 5.0)
    assert [event.event for event in made.log("rev_1")] == [
        "taken",
        "given back",
        "taken",
        "again",
        "taken",
        "failed",
    ]


def test_the_same_review_is_one_row_as_long_as_it_should_be(tmp_path: Path) -> None:
    made = store(tmp_path)
    assert made.add(session("rev_2"), [], instead_of=("running",)) == "rev_1"
    assert made.add(session("rev_2"), [], instead_of=("paused",)) == "rev_2"
    assert made.add(session("rev_3", key="other"), [], instead_of=("running",)) == "rev_3"
    assert {each.id for each in made.sessions()} == {"rev_1", "rev_2", "rev_3"}


def test_a_refused_change_leaves_all_as_it_was(tmp_path: Path) -> None:
    made = store(tmp_path)

    def refuse(_: ReviewSession) -> ReviewSession:
        raise WriteFailed("no", suggestion="Do not.")

    taken(made)
    with pytest.raises(WriteFailed):
        made.move("rev_1", refuse, requeue=("running",))
    assert made.move("rev_1", lambda each: each, requeue=("running",)) == session(), (
        "what does not change requeues nothing"
    )
    assert states(made) == ["running", "queued", "queued"]
    assert made.move("rev_none", refuse) is None


def test_only_the_owner_keeps_its_lease(tmp_path: Path) -> None:
    made = store(tmp_path)
    assert made.renew_lease("rev_1", "me.1", 500.0)
    assert not made.renew_lease("rev_1", "you.1", 900.0)
    assert made.session("rev_1") == session(lease_until=500.0)


def test_old_sessions_go_with_all_they_hold_and_running_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review_tables, "SESSIONS_MAX", 2)
    made = store(tmp_path)
    taken(made)
    for number in range(2, 6):
        made.add(session(f"rev_{number}", status="completed", created_at=float(number)), [ReviewUnit(1, ("a",), 1)])
    assert [each.id for each in made.sessions()] == ["rev_5", "rev_4", "rev_1"]
    db = apsw.Connection(str(made.path))
    assert db.execute("SELECT count(*) FROM unit").fetchall() == [(5,)]
    db.close()


def test_the_cache_keeps_what_was_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = store(tmp_path)
    bodies = {f"k{number}": os.urandom(1_000) for number in range(4)}
    assert made.checkpoint("rev_1", taken(made), UnitCheckpoint({}, cache=bodies), 1.0)
    assert made.checkpoint("rev_1", taken(made), UnitCheckpoint({}, used=("k1", "k3")), 2.0)
    monkeypatch.setattr(module, "CACHE_BYTES_MAX", 2_500)
    made.trim()
    assert made.read_cached(bodies) == {name: bodies[name] for name in ("k1", "k3")}


def test_what_waits_for_a_second_call_is_kept_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 2)
    made = ReviewStore(tmp_path)
    for number in range(3):
        made.keep(f"rev_{number}", b"body %d" % number, float(number))
    made.keep("rev_2", b"again", 9.0)
    assert [made.read_kept(f"rev_{number}") for number in range(3)] == [None, b"body 1", b"again"]


@POSIX
def test_it_is_readable_by_its_owner_alone_and_kept_out_of_git(tmp_path: Path) -> None:
    home = tmp_path / ".context-engine"
    store(home)
    assert stat.S_IMODE((home / "state.db").stat().st_mode) == 0o600
    assert "/state.db*" in (home / ".gitignore").read_text().split()
    assert is_state_path(".context-engine/state.db-wal")


def test_a_list_for_git_of_a_former_release_is_renewed_and_one_of_the_user_is_not(tmp_path: Path) -> None:
    old = "# Written by Context Engine: what lies here for this machine alone.\n/.gitignore\n/journal.db*\n/locks/\n"
    for name, text in (("old", old), ("own", old + "!plans\n"), ("other", "*\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".gitignore").write_text(text)
        store(tmp_path / name)
    lists = {name: (tmp_path / name / ".gitignore").read_text() for name in ("old", "own", "other")}
    assert "/state.db*" in lists["old"]
    assert (lists["own"], lists["other"]) == (old + "!plans\n", "*\n")


@POSIX
def test_a_closed_or_damaged_file_is_told_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StorageCorrupt) as damaged:
        ReviewStore(tmp_path).sessions()
    assert "Move it away" in damaged.value.suggestion
    with ordinary_user() as place:
        place.chmod(0o500)
        with pytest.raises(WriteFailed):
            store(place / "state")


def test_a_file_of_the_first_release_keeps_what_was_found_and_its_cursors(tmp_path: Path) -> None:
    store(tmp_path).close()
    db = apsw.Connection(str(tmp_path / "state.db"))
    db.execute(
        "DROP TABLE finding; DROP TABLE team; DROP TABLE shared;"
        "CREATE TABLE finding(id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, body BLOB NOT NULL);"
        "CREATE INDEX finding_of_session ON finding(session); INSERT INTO finding VALUES (7, 'rev_1', x'61');"
        "PRAGMA user_version = 1"
    )
    db.close()
    made = ReviewStore(tmp_path)
    assert made.findings("rev_1") == [(7, b"a")]
    made.checkpoint("rev_1", taken(made), UnitCheckpoint({}, [b"b"]), 3.0)
    assert made.findings("rev_1", after=7) == [(8, b"b")]


def test_a_file_of_another_release_is_not_guessed_at(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "state.db"))
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StorageCorrupt, match="99"):
        ReviewStore(tmp_path).sessions()


def test_somebody_may_clean_the_folder_up(tmp_path: Path) -> None:
    made = store(tmp_path)
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    assert made.sessions() == []
    made.add(session("rev_9"), [])
    assert [each.id for each in made.sessions()] == ["rev_9"]


bodies = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=9), st.binary(max_size=50), max_size=5)


@settings(max_examples=10)
@given(bodies)
def test_bodies_come_back_as_they_were(found: Mapping[str, bytes]) -> None:
    with TemporaryDirectory() as folder:
        made = store(Path(folder))
        assert made.checkpoint("rev_1", taken(made), UnitCheckpoint(found, cache=found), 1.0)
        assert (made.bodies("rev_1"), made.read_cached(found)) == (found, found)
        made.close()


# -- who is alive -----------------------------------------------------------------------------------------------------


def test_a_process_is_seen_until_it_ends(tmp_path: Path) -> None:
    one, other = LivenessLock(tmp_path, "one"), LivenessLock(tmp_path, "other")
    assert not one.is_alive("one")
    assert not other.is_alive("one")
    one.acquire()
    one.acquire()
    assert one.is_alive("one")
    assert other.is_alive("one")
    assert not other.is_alive("")
    one.release()
    assert not other.is_alive("one")
    assert list((tmp_path / "locks").iterdir()) == []
    one.acquire()
    assert other.is_alive("one"), "it can come back"
    one.release()


def test_what_a_dead_process_left_is_cleaned_away(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "alive-gone.lock").touch()
    assert not LivenessLock(tmp_path, "one").is_alive("gone")
    assert list((tmp_path / "locks").iterdir()) == []
