"""What a session has read, and whether it still lies there so."""

from __future__ import annotations

import pytest

from context_engine.edit import apply as module
from context_engine.edit.apply import ReadTracker


def test_a_file_that_was_never_seen_is_not_outdated() -> None:
    assert not ReadTracker().is_outdated("a.py", "1")
    assert ReadTracker().hash_of("a.py") == ""


def test_a_file_is_outdated_until_it_is_seen_again() -> None:
    ledger = ReadTracker()
    ledger.note_read("a.py", "1")
    assert not ledger.is_outdated("a.py", "1")
    assert ledger.is_outdated("a.py", "2")
    assert not ledger.is_outdated("b.py", "2")
    ledger.note_read("a.py", "2")
    assert not ledger.is_outdated("a.py", "2")
    assert ledger.hash_of("a.py") == "2"


def test_who_writes_what_he_knew_knows_it_still_and_who_did_not_does_not() -> None:
    ledger = ReadTracker()
    ledger.note_read("known.py", "1")
    ledger.note_read("changed.py", "0")
    for path in ("known.py", "changed.py", "new.py"):
        ledger.note_write(path, "1", "2")
    assert [ledger.is_outdated(path, "2") for path in ("known.py", "changed.py", "new.py")] == [False, True, False]


def test_it_does_not_grow_without_end_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_PATHS_MAX", 2)
    ledger = ReadTracker()
    for path in ("a", "b", "a", "c"):
        ledger.note_read(path, "1")
    assert [ledger.hash_of(path) for path in "abc"] == ["1", "", "1"]
