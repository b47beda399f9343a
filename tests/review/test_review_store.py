"""The store of reviews: many processes write one file, nothing of it is lost, and it is kept small."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from context_engine.errors import StorageCorrupt, WriteFailed
from context_engine.review import review_store as module
from context_engine.review.finding import ReviewRequest
from context_engine.review.review_store import ReviewSession, ReviewStore
from context_engine.storage.locks import LivenessLock, PathLocks
from tests.support.trees import ordinary_user

POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")


def session(name: str = "rev_1", **other: Any) -> ReviewSession:
    made = ReviewSession(name, "key", 1.0, 1.0, 2, ReviewRequest("c0ffee", "ba5e"), status="running", owner="me.1")
    return replace(made, **other)


def store(folder: Path, **other: Any) -> ReviewStore:
    made = ReviewStore(folder)
    made.add(session(**other))
    return made


def touch(given: ReviewSession) -> ReviewSession:
    return replace(given, updated_at=given.updated_at + 1.0)


def test_nothing_is_created_before_something_is_kept(tmp_path: Path) -> None:
    empty = ReviewStore(tmp_path / "state")
    found = empty.session("x"), empty.sessions(), empty.bodies("x"), empty.read_cached(["k"]), empty.read_kept("x")
    assert found == (None, [], {}, {}, None)
    assert list(tmp_path.iterdir()) == []


def test_no_change_of_many_threads_and_processes_is_lost(tmp_path: Path) -> None:
    stores = [store(tmp_path), *(ReviewStore(tmp_path) for _ in range(3))]

    def work(made: ReviewStore) -> None:
        for _ in range(20):
            made.update("rev_1", touch)

    threads = [threading.Thread(target=work, args=(each,)) for each in stores * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stores[1].session("rev_1") == session(updated_at=161.0)


def test_two_processes_make_the_file_one_after_the_other(tmp_path: Path) -> None:
    made = ReviewStore(tmp_path)
    thread = threading.Thread(target=made.add, args=(session(),))
    with PathLocks(tmp_path / "locks").hold(
        ["state.db"]
    ):  # as the other one does, for SQLite lets only one begin a log
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        assert not (tmp_path / "state.db").exists()
    thread.join()
    assert made.session("rev_1") == session()


def test_a_refused_change_leaves_all_as_it_was(tmp_path: Path) -> None:
    made = store(tmp_path)

    def refuse(_: ReviewSession) -> ReviewSession:
        raise WriteFailed("no", suggestion="Do not.")

    with pytest.raises(WriteFailed):
        made.update("rev_1", refuse, {"0000": b"body"})
    assert made.update("rev_1", lambda each: each, {"0000": b"body"}, cache={"k": b"kept"}) == session()
    assert (made.bodies("rev_1"), made.read_cached(["k"])) == ({}, {}), "without a change nothing is stored"
    assert made.update("rev_none", refuse) is None


def test_old_sessions_go_with_all_they_hold_and_running_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    made = store(tmp_path)
    for number in range(2, 6):
        made.add(session(f"rev_{number}", status="completed", created_at=float(number)))
        made.update(f"rev_{number}", touch, {"0000": b"body"})
    assert [each.id for each in made.sessions()] == ["rev_5", "rev_4", "rev_1"]
    db = apsw.Connection(str(tmp_path / "state.db"))
    assert db.execute("SELECT count(*) FROM record").fetchall() == [(5,)]
    db.close()


def test_the_cache_keeps_what_was_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = store(tmp_path)
    bodies = {f"k{number}": os.urandom(1_000) for number in range(4)}
    made.update("rev_1", touch, cache=bodies)
    made.update("rev_1", touch, cache={name: bodies[name] for name in ("k1", "k3")})
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
def test_a_closed_or_damaged_file_is_told_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StorageCorrupt) as damaged:
        ReviewStore(tmp_path).sessions()
    assert "Move it away" in damaged.value.suggestion
    with ordinary_user() as place:
        place.chmod(0o500)
        with pytest.raises(WriteFailed):
            store(place / "state")


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
    made.add(session("rev_9"))
    assert [each.id for each in made.sessions()] == ["rev_9"]


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
