"""A review session reviews each unit once, however often it is paused or resumed, and goes on when its process is gone."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from context_engine.errors import InvalidArgument, PreconditionFailed, ReviewBusy, ReviewNotFound
from context_engine.review.review_sessions import SESSIONS_MAX
from tests.support.small_reviews import WAIT_S, Process, change


@pytest.fixture
def process(tmp_path: Path) -> Generator[Process]:
    one = Process(tmp_path, "one", change(40))
    yield one
    one.gate.open()
    one.sessions.close()


@pytest.fixture
def other(tmp_path: Path, process: Process) -> Generator[Process]:
    """A second process on the same folder, with the same clock."""
    two = Process(tmp_path, "two", process.files, process.clock)
    yield two
    two.gate.open()
    two.sessions.close()


def findings(process: Process, session: str) -> list[str]:
    return [each["id"] for each in process.sessions.findings(session)]


EVERY_TODO = [f"{path}:2" for path in sorted(change(40))]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_session_reviews_every_file_once_and_is_completed(process: Process, workers: int) -> None:
    session = process.start(workers=workers)
    assert process.ended(session) == "completed"
    seen = process.sessions.status(session)
    assert (seen.progress.files_done, seen.progress.files_total, seen.progress.percentage) == (40, 40, 100)
    assert set(process.tries(session)) == {1}
    assert findings(process, session) == EVERY_TODO
    assert len(process.sessions.outcome(session)["files"]) == 40
    assert process.store.read_kept(session) == b"for a second look"


def test_a_pause_holds_until_somebody_resumes(process: Process) -> None:
    process.gate.open(1)
    session = process.start()
    process.gate.await_begun(2)
    assert process.sessions.pause(session, "lunch").status == "pausing"
    assert process.sessions.pause(session).status == "pausing", "asking twice changes nothing"
    process.gate.open()
    assert process.ended(session) == "paused"
    before = process.sessions.status(session).progress
    assert before.units_done == 2, "what was under way has ended, and nothing new was begun"
    assert process.start() == session, "the same review is asked for again"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ctx-review")], "nobody is left"
    after = process.sessions.status(session)
    assert (after.status, after.progress, after.error, after.pause_reason) == ("paused", before, "", "lunch")
    assert process.sessions.resume(session).status in {"running", "completed"}, "two files are soon done"
    assert process.ended(session) == "completed"
    assert set(process.tries(session)) == {1}
    assert findings(process, session) == EVERY_TODO


def test_another_process_reads_pauses_and_takes_over(process: Process, other: Process) -> None:
    process.gate.open(1)
    session = process.start()
    process.gate.await_begun(2)
    assert other.sessions.status(session).progress.units_done == 1
    assert other.sessions.pause(session).status == "pausing"
    process.gate.open()
    assert other.ended(session) == "paused"
    other.sessions.resume(session)
    assert other.ended(session) == "completed"
    assert set(process.tries(session)) == {1}
    assert process.sessions.outcome(session) == other.sessions.outcome(session)


def test_what_a_dead_process_ran_is_seen_as_failed_and_goes_on_elsewhere(process: Process, other: Process) -> None:
    process.gate.open(1)
    session = process.start()
    process.gate.await_begun(2)
    assert other.sessions.status(session).status == "running"
    process.sessions._liveness.release()
    seen = other.sessions.status(session)
    assert (seen.status, "resume_review" in seen.error) == ("failed", True)
    other.sessions.resume(session)
    assert other.ended(session) == "completed"
    process.gate.open()  # it was not dead after all: what it brings now is thrown away
    for thread in [each for each in threading.enumerate() if each.name.startswith("ctx-review")]:
        thread.join(WAIT_S)
    assert process.tries(session) == [1, 2, 1, 1, 1]
    assert findings(other, session) == EVERY_TODO


def test_a_review_that_is_started_again_takes_finished_files_from_the_cache(process: Process, other: Process) -> None:
    process.gate.open(2)
    session = process.start()
    process.gate.await_begun(3)
    process.sessions._liveness.release()
    again = other.start(again=True)
    assert other.ended(again) == "completed"
    assert other.sessions.telemetry(again)["cache"] == {"hits": 18, "misses": 22, "rate": 0.45}
    assert other.sessions.status(session).status == "failed"
    process.gate.open()


def test_a_session_with_a_file_that_cannot_be_reviewed_is_partial_and_can_be_tried_again(tmp_path: Path) -> None:
    files = change(30) | {"src/part1/f012.py": "BROKEN"}
    process = Process(tmp_path, "one", files)
    session = process.start()
    assert process.ended(session) == "partial"
    seen = process.sessions.status(session)
    assert (seen.progress.percentage, seen.progress.units_failed, seen.error) == (
        100,
        1,
        "src/part1/f012.py cannot be read",
    )
    with pytest.raises(PreconditionFailed):
        process.sessions.pause(session)
    process.files = change(30)
    process.sessions.resume(session)
    assert process.ended(session) == "completed"
    assert sorted(process.tries(session)) == [1, 1, 1, 2], "the others were not reviewed again"
    assert process.sessions.telemetry(session)["retries"] == 1
    process.sessions.close()


def test_the_same_review_is_one_session_as_long_as_it_is_not_over(process: Process, other: Process) -> None:
    process.gate.open(0)
    session = process.start()
    assert other.start() == session
    assert process.start(commit="other") != session
    assert process.start(again=True) != session
    process.gate.open()
    assert process.ended(session) == "completed"


def test_closing_leaves_a_session_to_whoever_resumes_it(tmp_path: Path, process: Process, other: Process) -> None:
    process.gate.open(2)
    session = process.start()
    process.gate.await_begun(3)
    process.sessions.close()
    assert other.sessions.status(session).status == "queued"
    other.sessions.resume(session)
    assert other.ended(session) == "completed"
    assert process.tries(session) == [1, 1, 2, 1, 1]
    assert [path.name for path in (tmp_path / ".context-engine" / "locks").glob("alive-*")] == ["alive-two.lock"]


def test_no_more_sessions_run_at_once_than_a_machine_bears(process: Process) -> None:
    process.gate.open(0)
    for number in range(SESSIONS_MAX):
        process.start(commit=str(number))
    with pytest.raises(ReviewBusy):
        process.start(commit="one too many")
    assert process.start(commit="0") in {session.id for session in process.store.sessions()}, "it is one of them"
    assert len(process.store.sessions()) == SESSIONS_MAX
    process.gate.open()


def test_what_is_not_there_or_over_is_refused_with_the_next_step(process: Process) -> None:
    session = process.start()
    assert process.ended(session) == "completed"
    for refused, kind in (
        (lambda: process.sessions.status("rev_none"), ReviewNotFound),
        (lambda: process.sessions.pause("rev_none"), ReviewNotFound),
        (lambda: process.sessions.pause(session), PreconditionFailed),
        (lambda: process.sessions.resume(session), PreconditionFailed),
        (lambda: process.sessions.page(session, "x", 9), InvalidArgument),
    ):
        with pytest.raises(kind) as error:
            refused()
        assert error.value.suggestion
