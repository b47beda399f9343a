"""One PostgreSQL as all of a process speak to it: few connections, each part laid out once, trouble told in our words."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import InvalidArgument, StorageBusy, StoreUnavailable, StoreUnusable
from context_engine.team.remote_store import busy_error
from tests.support.databases import new_database, sever
from tests.support.waiting import until

psycopg = pytest.importorskip("psycopg", reason="no wheel of it for this system")

from context_engine.team import postgres_session  # noqa: E402 - it needs what may be missing
from context_engine.team.postgres_session import (  # noqa: E402 - the same
    CONNECTIONS_MAX,
    PostgresSession,
    SchemaPart,
    fetch_value,
)

NOTES = SchemaPart("notes", (("CREATE TABLE context_engine.note (text text PRIMARY KEY)",),))
BOTH_STEPS = SchemaPart(
    "notes", (*NOTES.steps, ("ALTER TABLE context_engine.note ADD COLUMN colour text DEFAULT 'red'",))
)
ALL = "SELECT text FROM context_engine.note ORDER BY text"


@pytest.fixture
def address() -> str:
    return new_database()


def note(database: PostgresSession, text: str, part: SchemaPart = NOTES) -> None:
    with database.transaction(part) as connection:
        connection.execute("INSERT INTO context_engine.note (text) VALUES (%s)", (text,))


def noted(database: PostgresSession, part: SchemaPart = NOTES) -> list[str]:
    return [text for (text,) in database.query(part, ALL)]


def connections(address: str) -> int:
    """How many the server holds of ours."""
    with psycopg.connect(address) as connection:
        ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'context-engine'"
        return fetch_value(connection, ours)


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """What becomes of works that begin at the same moment."""
    barrier = threading.Barrier(len(works))

    def one(work: Callable[[], Any]) -> Any:
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(one, works))


# -- connections --


def test_all_of_a_process_share_a_few_connections(address: str) -> None:
    databases = [PostgresSession(address) for _ in range(20)]
    note(databases[0], "lion")
    assert at_once([lambda each=each: noted(each) for each in databases]) == [["lion"]] * 20
    assert 1 <= connections(address) <= CONNECTIONS_MAX
    databases[7].close()
    until(lambda: connections(address) == 0)
    assert noted(databases[3]) == ["lion"], "who asks next connects anew"


def test_a_connection_that_is_out_when_all_are_closed_does_not_come_to_rest(address: str) -> None:
    database = PostgresSession(address)
    with database.transaction(NOTES):
        database.close()
    until(lambda: connections(address) == 0)


def test_what_an_address_says_about_the_connection_holds(address: str) -> None:
    database = PostgresSession(f"{address}&application_name=mine")
    with database.transaction(NOTES) as connection:
        assert connection.info.get_parameters()["connect_timeout"] == "60"
        assert fetch_value(connection, "SHOW application_name") == "mine"


def test_a_connection_that_was_cut_while_it_rested_is_nobodys_trouble(address: str) -> None:
    database = PostgresSession(address)
    note(database, "lion")
    at_once([lambda: noted(database)] * CONNECTIONS_MAX)
    for number in range(2):
        sever(address)
        assert "lion" in noted(database)
        sever(address)
        note(database, f"after cut {number}")
    assert noted(database) == ["after cut 0", "after cut 1", "lion"]


def test_who_finds_all_connections_busy_is_told_so(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_session, "QUEUE_S", 0.05)
    monkeypatch.setattr(postgres_session, "CONNECTIONS_MAX", 1)
    database = PostgresSession(address)
    with database.transaction(NOTES), pytest.raises(StoreUnavailable, match="kept it busy"):
        noted(database)
    assert noted(database) == []


def test_what_failed_in_a_transaction_is_not_there_and_its_connection_serves_on(address: str) -> None:
    database = PostgresSession(address)
    note(database, "lion")
    with pytest.raises(ZeroDivisionError):
        break_off(database)
    with pytest.raises(StoreUnusable, match="cannot serve"):
        note(database, "lion")
    assert (noted(database), connections(address)) == (["lion"], 1)


def break_off(database: PostgresSession) -> None:
    with database.transaction(NOTES) as connection:
        connection.execute("INSERT INTO context_engine.note VALUES ('tiger')")
        raise ZeroDivisionError


FORKED = """
    import os, sys
    from tests.team.test_postgres_session import NOTES, PostgresSession, note
    database = PostgresSession(sys.argv[1])
    note(database, "parent")
    which = "SELECT pg_backend_pid()"
    mine = database.query(NOTES, which)
    child = os.fork()
    if child == 0:
        note(database, "child")
        os._exit(int(database.query(NOTES, which) == mine))
    assert os.waitpid(child, 0)[1] == 0, "the child speaks over its parent's connection"
    assert database.query(NOTES, which) == mine, "the child took it away"
    database.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_the_child_of_a_fork_does_not_touch_its_parents_connections(address: str) -> None:
    """In a process of its own: a fork beside the threads of a test run is warned of."""
    script = [sys.executable, "-c", textwrap.dedent(FORKED), address]
    ran = subprocess.run(
        script, cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr


# -- holding a name --


def test_a_name_is_held_by_one_at_a_time_and_no_other_name_with_it(address: str) -> None:
    database = PostgresSession(address)
    other_part = SchemaPart("others", (("CREATE TABLE context_engine.other ()",),))
    with database.hold_lock(NOTES, "app", 0, busy_error("app")):
        with pytest.raises(StorageBusy), database.hold_lock(NOTES, "app", 0.1, busy_error("app")):
            pass
        with (
            database.hold_lock(NOTES, "web", 0, busy_error("web")),
            database.hold_lock(other_part, "app", 0, busy_error("app")),
        ):
            pass
    with database.hold_lock(NOTES, "app", 0, busy_error("app")):
        pass


def test_a_name_whose_holder_was_cut_is_free_and_what_that_one_does_then_fails(address: str) -> None:
    database = PostgresSession(address)
    with ExitStack() as first:
        connection = first.enter_context(database.hold_lock(NOTES, "app", 0, busy_error("app")))
        sever(address)
        with database.hold_lock(NOTES, "app", 1.0, busy_error("app")), pytest.raises(psycopg.OperationalError):
            connection.execute("INSERT INTO context_engine.note VALUES ('too late')")
    assert noted(database) == []


# -- laying out --


def test_who_only_asks_lays_nothing_out_and_finds_nothing(address: str) -> None:
    assert noted(PostgresSession(address)) == []
    assert value_of(address, "SELECT count(*) FROM pg_namespace WHERE nspname = 'context_engine'") == 0


def value_of(address: str, query: Any) -> Any:
    with psycopg.connect(address) as connection:
        return fetch_value(connection, query)


@pytest.mark.parametrize("trial", range(3))
def test_many_who_find_it_empty_at_the_same_moment_lay_it_out_once(trial: int, address: str) -> None:
    """Each with a connection of its own that has looked before: what it saw then must not count after the wait."""
    database = PostgresSession(address)

    def hold(name: str) -> str:
        with database.hold_lock(NOTES, name, 5.0, busy_error(name)):
            return name

    names = [f"{trial}-{number}" for number in range(6)]
    assert at_once([lambda name=name: hold(name) for name in names]) == names
    assert value_of(address, "SELECT array_agg(part || version) FROM context_engine.layout") == ["notes1"]


def test_each_part_has_a_version_and_a_newer_step_is_made_by_who_writes(address: str) -> None:
    old, new = PostgresSession(address), PostgresSession(address)
    note(old, "lion")
    sever(address)
    with pytest.raises(StoreUnusable) as refused:
        noted(new, BOTH_STEPS)
    assert refused.value.details == {"found": 1, "known": 2}
    note(new, "tiger", BOTH_STEPS)
    assert new.query(BOTH_STEPS, "SELECT text, colour FROM context_engine.note ORDER BY text") == [
        ("lion", "red"),
        ("tiger", "red"),
    ]
    with pytest.raises(StoreUnusable, match="version 2") as refused:
        note(old, "puma")
    assert "same release" in refused.value.suggestion


# -- trouble --


def test_an_address_that_is_none_is_refused_and_what_is_told_has_no_password() -> None:
    with pytest.raises(InvalidArgument) as refused:
        PostgresSession("postgresql://me:hunter2@host/team?colour=red")
    assert "CTX_STORE_URL" in refused.value.suggestion
    assert "hunter2" not in str(refused.value.as_dict())
    database = PostgresSession("postgresql://me:hunter2@127.0.0.1:9/team")
    with pytest.raises(StoreUnavailable) as away:
        noted(database)
    assert "hunter2" not in str(away.value.as_dict()) + database.name
