"""Access scoring: decay and sums as laws, and counts that stay exact whoever counts."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.search import file_usage
from context_engine.search.file_usage import BOOST_MAX, HALF_LIFE_S, AccessCounter, FileUsage, boost, score
from tests.support.children import child, wait_for_all
from tests.support.trees import ordinary_user
from tests.support.waiting import Clock

START = 1_800_000_000.0
MOMENTS = st.floats(0, 60 * HALF_LIFE_S).map(lambda seconds: START + seconds)
COUNTERS = st.builds(AccessCounter, st.floats(0, 1e3), MOMENTS, st.integers(0, 1_000))


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "access.db"


def strength(counted: FileUsage, path: str) -> float:
    return counted.counters()[path].strength


def counts(counted: FileUsage) -> dict[str, int]:
    return {path: counter.count for path, counter in counted.counters().items()}


# -- laws -------------------------------------------------------------------------------------------------------------


@given(COUNTERS)
def test_after_a_half_life_half_is_left(counter: AccessCounter) -> None:
    later = counter.decay_to(counter.at + HALF_LIFE_S)
    assert math.isclose(later.strength, counter.strength / 2, rel_tol=1e-9)
    assert later.count == counter.count


@given(st.lists(COUNTERS, min_size=1, max_size=6))
def test_events_are_worth_together_what_they_are_worth_alone(events: list[AccessCounter]) -> None:
    end = max(each.at for each in events)
    alone = sum(each.strength * 0.5 ** ((end - each.at) / HALF_LIFE_S) for each in events)
    assert math.isclose(total(events).strength, alone, rel_tol=1e-9, abs_tol=1e-12)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_scores_and_boosts_keep_their_bounds_and_their_order(one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert 0 <= score(low) <= score(high) <= 1
    assert 1 <= boost(score(low)) <= boost(score(high)) <= 1 + BOOST_MAX


def total(events: Sequence[AccessCounter]) -> AccessCounter:
    counted, *more = events
    for event in more:
        counted = counted.plus(event)
    return counted


# -- counting ---------------------------------------------------------------------------------------------------------


def test_a_read_counts_and_halves_in_a_week_of_use(file: Path, clock: Clock) -> None:
    counted, other = FileUsage(file, clock=clock), FileUsage(file, clock=clock)
    counted.note("a.py", "read")
    scores = counted.ranking_scores()
    counted.flush()
    clock.now += HALF_LIFE_S
    assert counted.ranking_scores() == scores == {"a.py": 0.25}, "a week in which nothing is read changes nothing"
    other.note("b.py", "read")
    other.close()
    assert strength(counted, "a.py") == pytest.approx(0.5, abs=1e-9)
    assert counted.ranking_scores() == {"a.py": pytest.approx(0.5 / 3.5, abs=1e-9), "b.py": 0.25}
    assert counts(counted) == {"a.py": 1, "b.py": 1}
    counted.close()


def test_few_events_are_written_after_a_while(file: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_usage, "FLUSH_S", 0.01)
    flushed = threading.Event()
    add = file_usage._write
    monkeypatch.setattr(file_usage, "_write", lambda *args: (add(*args), flushed.set()))
    counted = FileUsage(file, clock=clock)
    counted.note("a.py", "read")
    assert flushed.wait(60)
    counted.close()


def test_processes_that_count_at_once_lose_nothing(file: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from context_engine.search.file_usage import FileUsage\n"
        "counted = FileUsage(Path(sys.argv[1]), clock=lambda: 1.8e9)\n"
        "for number in range(60):\n"
        "    counted.note('a.py', 'read'); counted.note(f'{sys.argv[2]}.py', 'edit')\n"
        "    number % 7 or counted.flush()\n"
        "counted.close(); sys.exit(counted.problem or None)"
    )
    wait_for_all([child(program, str(file), str(number)) for number in range(3)])
    expected = {"a.py": 180} | {f"{number}.py": 60 for number in range(3)}
    assert counts(FileUsage(file)) == expected


def test_what_was_counted_survives_a_restart(file: Path, clock: Clock) -> None:
    counted = FileUsage(file, clock=clock)
    counted.note("größe.py", "edit")
    counted.close()
    clock.now += HALF_LIFE_S
    again = FileUsage(file, clock=clock)
    again.note("b.py", "read")
    assert strength(again, "größe.py") == pytest.approx(1.5)
    again.close()


# -- names, forgetting, trouble ---------------------------------------------------------------------------------------


def test_a_renamed_file_keeps_its_score(file: Path, clock: Clock) -> None:
    counted = FileUsage(file, clock=clock)
    counted.note("old.py", "edit")
    counted.note("old.py", "read")
    counted.note("new.py", "read")
    counted.follow_renames({"old.py": "new.py", "never.py": "seen.py"})
    assert counts(counted) == {"new.py": 3}
    counted.follow_renames({"old.py": "new.py"})
    assert strength(counted, "new.py") == pytest.approx(5)
    counted.close()


def test_switched_off_nothing_is_counted_and_nothing_is_said(file: Path, clock: Clock) -> None:
    on = FileUsage(file, clock=clock)
    on.note("a.py", "read")
    on.close()
    off = FileUsage(file, clock=clock, enabled=False)
    off.note("b.py", "read")
    off.follow_renames({"a.py": "c.py"})
    assert (off.ranking_scores(), off.counters()) == ({}, {})
    off.close()
    assert counts(FileUsage(file, clock=clock)) == {"a.py": 1}


def test_the_longest_unused_is_forgotten_when_there_is_too_much(
    file: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = FileUsage(file, clock=clock)
    for name in "abcd":
        clock.now += 1
        counted.note(name, "read")
    counted.close()
    monkeypatch.setattr(file_usage, "ROWS_MAX", 2)
    again = FileUsage(file, clock=clock)
    clock.now += 1
    again.note("e", "read")
    again.flush()
    assert list(again.counters()) == ["d", "e"]
    again.close()


@pytest.mark.parametrize("content", [b"no database at all" * 99, b"SQLite format 3\0" + b"\xff" * 4_000])
def test_a_damaged_file_is_begun_anew(file: Path, clock: Clock, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    counted = FileUsage(file, clock=clock)
    counted.note("a.py", "read")
    counted.close()
    assert counted.problem == ""
    assert counts(FileUsage(file, clock=clock)) == {"a.py": 1}


def test_on_a_disk_that_takes_nothing_events_wait_and_nobody_fails(clock: Clock) -> None:
    with ordinary_user() as folder:
        counted = FileUsage(folder / "cache" / "access.db", clock=clock)
        folder.chmod(0o500)
        counted.note("a.py", "read")
        counted.flush()
        assert "cannot be written" in counted.problem
        assert counts(counted) == {"a.py": 1}
        folder.chmod(0o700)
        counted.flush()
        assert counted.problem == ""
        assert counts(counted) == {"a.py": 1}
        counted.close()


def test_a_name_that_is_no_text_is_left_out_and_harms_nobody(file: Path, clock: Clock) -> None:
    counted = FileUsage(file, clock=clock)
    counted.note("\udcff.py", "read")
    counted.note("a.py", "read")
    counted.follow_renames({"a.py": "\udcff.py", "\udcff.py": "b.py"})
    assert counts(counted) == {"a.py": 1}
    counted.close()
    assert counted.problem == ""
