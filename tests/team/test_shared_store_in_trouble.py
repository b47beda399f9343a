"""What one machine does with a shared store: it never waits long for it to answer, and holds nothing that nobody needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import StoreUnavailable
from context_engine.team import remote_view
from context_engine.team.shared_store import SharedStore
from tests.contracts.test_store import fill, holding, put
from tests.support.databases import forbid, new_database, sever

pytest.importorskip("psycopg", reason="no wheel of it for this system")


@cache
def database() -> str:
    return new_database()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[..., SharedStore]]:
    """Opens the repository of a test as a machine of some name sees it."""
    from context_engine.team.postgres_store import PostgresStore

    opened: list[SharedStore] = []

    def open_one(name: str, address: str = "", **knobs: Any) -> SharedStore:
        remote = PostgresStore(address or database())
        opened.append(SharedStore(tmp_path / name, remote, str(tmp_path), **knobs))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def until(true: Callable[[], object]) -> None:
    for _ in range(2_000):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never became so")


def segments(folder: Path) -> set[str]:
    """The segments that lie in a folder."""
    return {path.stem for path in folder.glob("*.seg")}


@contextmanager
def stuck(address: str) -> Generator[None]:
    """The database takes every question meanwhile, and answers none."""
    import psycopg

    with psycopg.connect(address) as connection:
        connection.execute("LOCK TABLE context_engine.manifest, context_engine.piece IN ACCESS EXCLUSIVE MODE")
        yield
        connection.rollback()


# -- a remote that is slow --


def test_an_answer_does_not_wait_for_a_depot_that_is_slow(
    machine: Callable[..., SharedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it did, it would wait for ever here: the remote answers only after the answers were given."""
    monkeypatch.setattr(remote_view, "SILENT_S", 0.0)
    address = new_database()
    ci, server = machine("ci", address), machine("server", address, publishes=False, wait_s=0.01)
    fill(ci, {"a.py": "lion"})
    assert holding(server.snapshot(), "lion") == ["a.py"]
    fill(ci, {"a.py": "lynx"})
    with stuck(address):
        for _ in range(3):
            assert holding(server.snapshot(), "lion") == ["a.py"], "what was seen last serves"
            assert "silent" in server.problem, "and it is told"
        again = machine("server", address, publishes=False, wait_s=0.01)
        assert holding(again.snapshot(), "lion") == ["a.py"], "so it does for a process that begins now"
        assert sum(thread.name == "ctx-remote-store" for thread in threading.enumerate()) == 2, (
            "one look at a time each"
        )
    for store in (server, again):
        until(lambda store=store: holding(store.snapshot(), "lynx") == ["a.py"])
        assert store.problem == ""


def test_a_newer_state_serves_once_its_segments_lie_here(
    machine: Callable[..., SharedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    ci, server = machine("ci"), machine("server", wait_s=0.01)
    fill(ci, {"a.py": "lion"})
    assert holding(server.snapshot(), "lion") == ["a.py"]
    may_come, threads = threading.Event(), []
    fetch = server.remote.fetch

    def slowly(*arguments: Any) -> None:
        threads.append(threading.current_thread())
        may_come.wait(20)
        fetch(*arguments)

    monkeypatch.setattr(server.remote, "fetch", slowly)
    fill(ci, {"b.py": "tiger"})
    until(lambda: server.snapshot() is not None and threads)
    assert holding(server.snapshot(), "tiger") == []
    may_come.set()
    until(lambda: holding(server.snapshot(), "tiger") == ["b.py"])
    assert threading.current_thread() not in threads, "an answer had to fetch"


def test_a_look_that_something_newer_overtook_does_not_count(machine: Callable[..., SharedStore]) -> None:
    address = new_database()
    store = machine("one", address, wait_s=0.0)
    fill(store, {"a.py": "lion"})
    with stuck(address):
        store.snapshot()
    fill(store, {"a.py": "lynx"})
    for _ in range(50):
        assert holding(store.snapshot(), "lynx") == ["a.py"]


def test_a_depot_that_went_away_is_found_out_behind_the_answers(
    machine: Callable[..., SharedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_view, "RETRY_DELAY_S", 0.0)
    address = new_database()
    store = machine("one", address, wait_s=0.0)
    fill(store, {"a.py": "lion"})
    with forbid(address):
        until(lambda: holding(store.snapshot(), "lion") == ["a.py"] and "does not answer" in store.problem)
    until(lambda: holding(store.snapshot(), "lion") == ["a.py"] and store.problem == "")


# -- a first index, and what is left of it --


def in_rounds(store: SharedStore, rounds: int = 5) -> None:
    """As a first index is made: each round is published, and in the end all are merged."""
    with store.writer() as writer:
        for number in range(rounds):
            put(writer, {f"{number}.py": f"lion number{number}"})
            writer.publish()
        writer.compact(everything=True)


def test_a_first_index_is_searched_here_while_it_is_made_and_shared_when_it_is_whole(
    machine: Callable[..., SharedStore],
) -> None:
    ci, server = machine("ci"), machine("server", publishes=False)
    with ci.writer() as writer:
        put(writer, {"a.py": "lion"})
        writer.publish()
        assert holding(ci.snapshot(), "lion") == ["a.py"]
        assert server.snapshot() is None
        put(writer, {"b.py": "lion"})
    assert holding(server.snapshot(), "lion") == ["a.py", "b.py"]
    assert server.check() == ci.check() == []


def test_a_first_index_sends_nothing_that_a_later_round_merges(
    machine: Callable[..., SharedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    ci, sent = machine("ci"), []
    from context_engine.team.postgres_store import RepositoryLease

    commit = RepositoryLease.commit

    def noted(lease: Any, revision: int, manifest: bytes, added: Any, named: Any) -> int:
        sent.extend(added)
        return commit(lease, revision, manifest, added, named)

    monkeypatch.setattr(RepositoryLease, "commit", noted)
    in_rounds(ci)
    assert len(sent) == 1


def test_a_first_index_that_was_broken_off_goes_on_where_it_was(machine: Callable[..., SharedStore]) -> None:
    ci = machine("ci")
    with pytest.raises(ZeroDivisionError):
        break_off(ci)
    assert machine("server", publishes=False).snapshot() is None
    again = machine("ci")
    assert holding(again.snapshot(), "lion") == ["a.py"], "and serves here"
    with again.writer() as writer:
        assert set(writer.files()) == {"a.py"}
        put(writer, {"b.py": "lion"})
    assert holding(machine("server", publishes=False).snapshot(), "lion") == ["a.py", "b.py"]


def break_off(store: SharedStore) -> None:
    with store.writer() as writer:
        put(writer, {"a.py": "lion"})
        writer.publish()
        raise ZeroDivisionError


def test_a_first_index_that_cannot_be_shared_is_told_and_shared_by_the_next_run(
    machine: Callable[..., SharedStore],
) -> None:
    address = new_database()
    ci = machine("ci", address)
    with pytest.raises(StoreUnavailable):
        fill_and_lose(ci, address)
    with ci.writer():
        pass
    assert holding(machine("server", address, publishes=False).snapshot(), "lion") == ["a.py"]


def fill_and_lose(store: SharedStore, address: str) -> None:
    """The connection is cut when all is written and nothing sent."""
    with store.writer() as writer:
        put(writer, {"a.py": "lion"})
        writer.publish()
        sever(address)


def test_a_first_index_of_somebody_else_takes_the_place_of_an_unfinished_one(
    machine: Callable[..., SharedStore],
) -> None:
    ci, other = machine("ci"), machine("other")
    with pytest.raises(ZeroDivisionError):
        break_off(ci)
    fill(other, {"c.py": "tiger"})
    assert (holding(ci.snapshot(), "lion"), holding(ci.snapshot(), "tiger")) == ([], ["c.py"])
    fill(ci, {"a.py": "lion"})
    assert set(machine("server").files()) == {"a.py", "c.py"}
