"""What a machine has seen of its team's records is kept as a whole, one process at a time, and can be done without."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from context_engine.errors import StorageBusy, StorageCorrupt
from context_engine.team.sync_state import MergeBase, SyncState

FILE = MergeBase("sha", (1, 2, 3))


@pytest.fixture
def seen(tmp_path: Path) -> SyncState:
    return SyncState(tmp_path / "cache" / "commons-notes.db")


def test_what_is_noted_is_there_for_the_next_process(seen: SyncState) -> None:
    with seen.lock(1.0):
        assert (seen.revision, seen.files()) == (0, {})
        seen.note("a/b.md", FILE)
        seen.note("a/c.md", FILE)
        seen.note("a/c.md", None)
        seen.advance(7)
    seen.close()
    with seen.lock(1.0):
        assert (seen.revision, seen.files()) == (7, {"a/b.md": FILE})
        seen.reset()
        assert (seen.revision, seen.files()) == (0, {})
    seen.close()


def test_what_ends_badly_was_never_noted(seen: SyncState) -> None:
    with pytest.raises(ZeroDivisionError), seen.lock(1.0):
        seen.advance(1 // 0)
    with seen.lock(1.0):
        assert seen.revision == 0
    seen.close()


def test_one_at_a_time_among_threads_and_processes(seen: SyncState, tmp_path: Path) -> None:
    other = SyncState(tmp_path / "cache" / "commons-notes.db")
    refused: list[StorageBusy] = []

    def look(at: SyncState) -> None:
        try:
            with at.lock(0.0):
                pass
        except StorageBusy as error:
            refused.append(error)

    with seen.lock(1.0):
        for each in (seen, other):
            thread = threading.Thread(target=look, args=(each,))
            thread.start()
            thread.join()
    assert len(refused) == 2
    look(other)
    assert len(refused) == 2
    for each in (seen, other):
        each.close()


def test_a_cache_that_was_deleted_is_begun_anew_and_a_damaged_one_is_told_of(seen: SyncState, tmp_path: Path) -> None:
    with seen.lock(1.0):
        seen.advance(7)
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    with seen.lock(1.0):
        assert seen.revision == 0
    seen.close()
    (tmp_path / "cache" / "commons-notes.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StorageCorrupt) as damaged, seen.lock(1.0):
        pass
    assert "Delete it" in damaged.value.suggestion
