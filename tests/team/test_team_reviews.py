"""The reviews of a team, on one real PostgreSQL: what one machine found another one tells, and each unit is done by one of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import StoreUnavailable
from context_engine.review import review_store
from context_engine.review.finding import ReviewRequest
from context_engine.review.review_sessions import SILENT_S
from context_engine.review.review_store import ReviewSession
from context_engine.team.postgres_records import PostgresRecords
from context_engine.team.synced_folder import TeamRecords
from context_engine.team.synced_reviews import SyncedReviews
from tests.support.databases import common_database, forbid, new_database, sql
from tests.support.engines import open_engine
from tests.support.pull_requests import FILES as FILES_OF_REQUEST
from tests.support.pull_requests import killed_in_the_middle, pull_request
from tests.support.small_reviews import NOON, Process, change
from tests.support.waiting import Clock

FILES = change(20)
OpenMachine = Callable[[str], Process]


def open_machine(folder: Path, clock: Clock, address: str, repository: str) -> Process:
    common = SyncedReviews(TeamRecords(PostgresRecords(address), repository, folder / "cache", rest_s=0.0))
    return Process(folder, f"process@{folder.name}", FILES, clock, common)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[OpenMachine]:
    made: list[Process] = []
    clock = Clock(NOON)

    def open_one(name: str) -> Process:
        made.append(open_machine(tmp_path / name, clock, common_database(), str(tmp_path)))
        return made[-1]

    yield open_one
    for each in made:
        each.gate.open()
        each.sessions.close()


def test_what_one_machine_finds_another_tells_with_the_same_cursors(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    here.gate.open(1)
    session = here.start()
    here.gate.await_begun(2)
    _, cursor = here.sessions.page(session, "", 3)
    assert there.sessions.status(session).status == "running"
    rest = there.sessions.page(session, cursor, 100)
    assert rest == here.sessions.page(session, cursor, 100)
    here.gate.open()
    assert here.ended(session) == there.ended(session) == "completed"
    assert there.sessions.findings(session) == here.sessions.findings(session) != []
    assert there.store.session(session) == here.store.session(session)
    assert there.store.bodies(session) == here.store.bodies(session)
    assert [each.id for each in there.store.sessions()] == [session]


def test_a_pause_that_is_asked_for_elsewhere_is_heard_and_who_resumes_goes_on(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    here.gate.open(1)
    session = here.start()
    here.gate.await_begun(2)
    assert there.sessions.pause(session, "lunch").status == "pausing"
    here.gate.open()
    assert here.ended(session) == "paused"
    assert there.sessions.resume(session).status == "running"
    assert there.ended(session) == here.ended(session) == "completed"
    assert set(here.tries(session)) == {1}
    assert there.gate.begun, "who resumed it did the rest"


def test_a_machine_that_is_gone_is_believed_in_for_some_minutes(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    clock = there.clock
    assert isinstance(clock, Clock)
    here.gate.open(1)
    session = here.start()
    here.gate.await_begun(2)  # nothing more is heard of it, as after a power cut
    assert there.sessions.resume(session).status == "running"
    assert there.gate.begun == [], "its machine may be alive"
    clock.now += SILENT_S + 1
    assert there.sessions.status(session).status == "failed"
    assert there.sessions.resume(session).status == "running"
    assert there.ended(session) == "completed"
    here.gate.open()  # what it still brings is thrown away
    assert there.tries(session) == [1, 2, 1]


def test_the_same_change_is_reviewed_once_whoever_asks(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    here.gate.open(0)
    session = here.start()
    assert there.start() == session
    here.gate.open()
    assert here.ended(session) == "completed"
    assert there.gate.begun == []


def test_old_sessions_go_everywhere(machine: OpenMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = machine("here"), machine("there")
    monkeypatch.setattr(review_store, "SESSIONS_MAX", 2)
    for number in range(4):
        (here, there)[number % 2].store.add(
            ReviewSession(
                f"rev_{number}", str(number), float(number), 0.0, 1, ReviewRequest("a", "b"), status="completed"
            )
        )
    assert (
        [each.id for each in here.store.sessions()]
        == [each.id for each in there.store.sessions()]
        == ["rev_3", "rev_2"]
    )
    sql(
        common_database(),
        "DO $$ BEGIN ASSERT (SELECT count(*) FROM context_engine.record WHERE path = 'rev_0/session' AND content IS NOT NULL) = 0; END $$",
    )


def test_whoever_comes_later_or_lost_his_file_has_all_of_them(machine: OpenMachine, tmp_path: Path) -> None:
    here, there = machine("here"), machine("there")
    session = here.start()
    here.ended(session)
    assert there.sessions.findings(session) == here.sessions.findings(session)
    for path in (tmp_path / "there").rglob("state.db*"):
        path.unlink()
    assert there.sessions.findings(session) == here.sessions.findings(session)


def test_while_the_database_is_away_reviews_are_read_and_none_is_begun(tmp_path: Path) -> None:
    address = new_database()
    here = open_machine(tmp_path / "here", Clock(NOON), address, "app")
    session = here.start()
    here.ended(session)
    with forbid(address):
        assert here.sessions.status(session).status == "completed"
        with pytest.raises(StoreUnavailable):
            here.start(commit="decaf")
        assert [each.id for each in here.store.sessions()] == [session]
        here.store.keep("rev_9", b"what was found", 1.0)
        assert here.store.read_kept("rev_9") == b"what was found", "a review alone needs no team"
        assert isinstance(here.store._common, SyncedReviews)
        assert "does not answer" in here.store._common._problems["reviews"]
    here.ended(here.start(commit="decaf"))
    here.sessions.close()


def test_reviews_of_another_repository_are_not_seen(machine: OpenMachine, tmp_path: Path) -> None:
    here = machine("here")
    here.ended(here.start())
    other = open_machine(tmp_path / "other", Clock(NOON), common_database(), "somebody else's")
    assert other.store.sessions() == []
    other.sessions.close()


def of_team(address: str) -> dict[str, Any]:
    return {"store_url": address, "store_records": True, "store_repository": "shop"}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_review_whose_machine_was_killed_goes_on_on_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, root = new_database(), pull_request(tmp_path / "here")
    shutil.copytree(root, tmp_path / "there")
    monkeypatch.setenv("CTX_FAKE_NOW", "2026-11-21T12:00:00Z")
    session = killed_in_the_middle(root, **of_team(address))
    monkeypatch.setenv("CTX_FAKE_NOW", "2026-11-21T12:10:00Z")  # nothing was heard of it for minutes
    with open_engine(tmp_path / "there", **of_team(address)) as engine:
        sessions = engine.reviews.sessions
        seen = sessions.status(session)
        assert (seen.status, seen.progress.units_done) == ("failed", 2)
        sessions.resume(session)
        seen = sessions.wait(session, 55)
        assert (seen.status, seen.progress.files_done) == ("completed", FILES_OF_REQUEST)
        assert [unit.tries for unit in seen.units] == [1, 1, 2, *(1 for _ in seen.units[3:])]
        found = sessions.findings(session)
    with open_engine(root, **of_team(address)) as engine:
        assert engine.reviews.sessions.findings(session) == found != []
