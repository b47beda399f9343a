"""An index starts from the one in the team's PostgreSQL and is published there: whole, once, and to nobody else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import InvalidArgument, StoreUnavailable, StoreUnusable, UnsupportedHost
from context_engine.index.embedded_store import SCHEMA_VERSION
from context_engine.model import Query
from context_engine.settings import Settings
from context_engine.team import postgres_store, remote_store
from context_engine.team.postgres_store import PostgresStore
from context_engine.team.remote_store import Manifest, decode_manifest
from context_engine.team.shared_index import SharedIndex, hash_file, open_index_store
from tests.contracts.test_store import fill, holding, put
from tests.support.children import killed
from tests.support.databases import common_database, new_database, reader_of, sql
from tests.support.engines import answers, open_engine
from tests.support.trees import repository, tree

pytest.importorskip("psycopg", reason="no wheel of it for this system")
PIECE_BYTES = 1_000
"""Each of the segments below takes three of them or more."""
OpenIndex = Callable[..., SharedIndex]


def index_at(folder: Path, address: str, repository: str = "app", *, publishes: bool = True) -> SharedIndex:
    return SharedIndex(folder, repository, remote=PostgresStore(address), publishes=publishes)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[OpenIndex]:
    """Opens a repository as a machine of some name sees it."""
    opened: list[SharedIndex] = []

    def open_one(name: str, repository: str = "app", *, address: str = "", publishes: bool = True) -> SharedIndex:
        folder = tmp_path / name / repository
        opened.append(index_at(folder, address or common_database(), f"{tmp_path}/{repository}", publishes=publishes))
        return opened[-1]

    yield open_one
    for index in opened:
        index.close()


def listed(index: SharedIndex) -> Manifest:
    """The segments that the database lists."""
    content = remote(index).read_manifest(index.repository)
    return () if content is None else decode_manifest(content)


def remote(index: SharedIndex) -> PostgresStore:
    assert index._remote is not None
    return index._remote


def started(index: SharedIndex) -> list[str]:
    """The files of an index that starts from the database."""
    assert index.start_from_team(""), index.problem
    assert index.check() == []
    return sorted(index.files())


# -- machines ------------------------------------------------------------------------------------------------------


def test_the_same_question_has_the_same_answer_everywhere(tmp_path: Path) -> None:
    """Ties included: 60 files hold the same words. The second machine parses nothing."""
    files = {f"src/part_{n:02}.py": f"def part(zebra):\n    return zebra  # {n % 3}\n" for n in range(60)}
    files |= {f"docs/page_{n}.md": f"# Page {n}\n\nAbout part {n} and the zebra.\n" for n in range(20)}
    found = []
    for number, settings in enumerate(({}, {"store_shares": True}, {"store_shares": False})):
        root = repository(tmp_path / f"machine{number}" / "app", files)
        team: dict[str, Any] = (
            {"store_url": common_database(), "store_repository": f"{tmp_path}/same"} if settings else {}
        )
        with open_engine(root, embedder="static", **team, **settings) as engine:
            report = engine.index.update()
            assert report.files == 80
            assert settings != {"store_shares": False} or (report.added, report.changed) == (0, 0)
            found.append(answers(engine, ("zebra", "part", "page about the zebra", "part_07", "return"), limit=40))
    assert found[0] == found[1] == found[2]


def test_an_edit_on_one_machine_is_found_there_and_does_not_disturb_the_others(tmp_path: Path) -> None:
    team: dict[str, Any] = {
        "store_url": common_database(),
        "store_repository": f"{tmp_path}/edited",
        "embedder": "static",
    }
    ci, laptop = (repository(tmp_path / name / "app", {"a.py": "def lion(): ...\n"}) for name in ("ci", "laptop"))
    with open_engine(ci, store_shares=True, **team) as publishes, open_engine(laptop, **team) as reads:
        publishes.index.update()
        tree(laptop, {"a.py": "def lynx(): ...\n"})
        report = reads.index.update()
        assert (report.added, report.changed) == (0, 1)
        assert [len(each.search.find(Query("lynx")).hits) for each in (publishes, reads)] == [0, 1]
        assert [len(each.search.find(Query("lion")).hits) for each in (publishes, reads)] == [1, 0]


def test_a_workspace_moves_to_a_database_and_back_by_another_address(tmp_path: Path) -> None:
    root = repository(tmp_path / "app", {"a.py": "def lion(): ...\n", "b.md": "# Lions\n\nAbout lions.\n"})
    name: dict[str, Any] = {"store_repository": f"{tmp_path}/moved", "embedder": "static"}
    found = []
    addresses: tuple[dict[str, Any], ...] = ({}, {"store_url": common_database(), "store_shares": True}, {})
    for address in addresses:
        with open_engine(root, **address, **name) as engine:
            engine.index.update()
            found.append((answers(engine, ("lion", "about")), engine.index.store.check()))
    assert found[0] == found[1] == found[2]
    assert found[0][1] == []


def test_without_the_database_a_workspace_is_indexed_and_searched_all_the_same(tmp_path: Path) -> None:
    root = repository(tmp_path / "app", {"a.py": "def lion(): ...\n"})
    away: dict[str, Any] = {"store_url": "postgresql://127.0.0.1:9/team", "embedder": "none"}
    with open_engine(root, **away) as engine:
        assert engine.index.update().added == 1
        assert [str(hit.chunk.path) for hit in engine.search.find(Query("lion")).hits] == ["a.py"]
        assert "does not answer" in (engine.status().last_error or "")
    with open_engine(root, store_shares=True, **away) as engine, pytest.raises(StoreUnavailable):
        engine.index.update(force=True)


def test_no_repository_reaches_another(machine: OpenIndex, tmp_path: Path) -> None:
    mine, theirs = machine("one", "mine"), machine("one", "theirs")
    fill(theirs, {"a.py": "secret"})
    assert not mine.start_from_team("")
    (segment,) = listed(theirs)
    with pytest.raises(FileNotFoundError):
        remote(mine).fetch(mine.repository, segment.name, tmp_path / "stolen")
    fill(mine, {"b.py": "lion"})
    mine.clear()
    assert (listed(mine), len(listed(theirs))) == ((), 1)


def test_what_the_last_machine_publishes_counts_as_a_whole(machine: OpenIndex) -> None:
    first, second = machine("one"), machine("two")
    fill(first, {"a.py": "lion"})
    fill(second, {"b.py": "tiger"})
    assert started(machine("three")) == ["b.py"]
    fill(first, {"c.py": "lynx"})
    assert started(machine("four")) == ["a.py", "c.py"]


def test_a_writer_that_was_overtaken_publishes_nothing(machine: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_store, "LOCK_WAIT_S", 0.0)
    index = machine("one")
    with remote(index).hold_lock(postgres_store.INDEX, index.repository, 0.0, remote_store.busy_error("app")):
        with pytest.raises(remote_store.StorageBusy) as refused:
            fill(index, {"a.py": "lion"})
        assert refused.value.retryable
    assert holding(index.snapshot(), "lion") == ["a.py"], "here it counts"
    assert listed(index) == ()


# -- interruptions and damage --------------------------------------------------------------------------------------


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The segment of each piece that is really sent to a database; pieces are small."""
    import psycopg

    monkeypatch.setattr(postgres_store, "PIECE_BYTES", PIECE_BYTES)
    names: list[str] = []
    execute = psycopg.Connection.execute

    def executed(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
        if isinstance(query, str) and query.startswith("INSERT INTO context_engine.piece"):
            names.append(params[1])
        return execute(self, query, params, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", executed)
    return names


def fill_until_cut_off(index: SharedIndex, files: dict[str, str], pieces: int) -> None:
    """Index some files on a connection that is lost after so many pieces."""
    left, read_pieces = [pieces], postgres_store.read_pieces

    def cut(path: Path) -> Iterator[tuple[int, bytes]]:
        for piece in read_pieces(path):
            left[0] -= 1
            if left[0] < 0:
                raise remote_store.unavailable_error("the database", "connection lost")
            yield piece

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(postgres_store, "read_pieces", cut)
        with pytest.raises(StoreUnavailable):
            fill(index, files)


def test_an_interrupted_publication_is_completed_and_sends_only_what_has_not_arrived(
    machine: OpenIndex, sent: list[str]
) -> None:
    index = machine("ci", "half")
    fill_until_cut_off(index, {"a.py": "lion"}, 2)
    assert (len(sent), listed(index)) == (2, ())
    assert not machine("server", "half").start_from_team("")
    with index.writer():
        pass
    (size,) = (path.stat().st_size for path in index.folder.rglob("*.seg"))
    assert len(sent) == -(-size // PIECE_BYTES)
    assert started(machine("server", "half")) == ["a.py"]


def test_a_fetch_that_was_broken_off_goes_on_where_it_was(machine: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    ci, server = machine("ci", "fetched"), machine("server", "fetched", publishes=False)
    for name in ("a", "b", "c"):
        fill(ci, {f"{name}.py": name})
    fetched: list[str] = []
    fetch = PostgresStore.fetch

    def break_off(self: Any, repository: str, name: str, target: Path) -> None:
        if len(fetched) == 2:
            raise remote_store.unavailable_error("the database", "connection lost")
        fetched.append(name)
        fetch(self, repository, name, target)

    with monkeypatch.context() as patched:
        patched.setattr(PostgresStore, "fetch", break_off)
        assert not server.start_from_team("")
    assert "connection lost" in server.problem
    monkeypatch.setattr(PostgresStore, "fetch", lambda *given: (fetched.append(given[2]), fetch(*given)))
    assert (started(server), server.problem) == (["a.py", "b.py", "c.py"], "")
    assert len(fetched) == len(set(fetched)) == 3
    assert not (server.folder / "fetched").exists()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE context_engine.piece SET content = '\\x00'",
        "UPDATE context_engine.piece SET content = set_byte(content, 70, 255 - get_byte(content, 70))",
        "DELETE FROM context_engine.piece",
        "UPDATE context_engine.manifest SET content = '\\xc1', revision = revision + 1",
    ],
)
def test_damage_in_the_database_is_reported_and_repaired_by_the_next_publication(
    damage: str, machine: OpenIndex
) -> None:
    address = new_database()
    ci, other = machine("ci", address=address), machine("other", address=address)
    fill(ci, {"a.py": "lion"})
    sql(address, damage)
    assert not other.start_from_team("")
    assert "on the shared store" in other.problem
    assert other.snapshot() is None
    fill(ci, {"a.py": "tiger"}, rebuild=True)
    assert started(other) == ["a.py"]


KILLED = """
    import sys
    from pathlib import Path
    from tests.team.test_shared_index import index_at
    from tests.contracts.test_store import fill
    index = index_at(Path(sys.argv[1]), sys.argv[2])
    print("go", flush=True)
    for number in range(1, 10_000):
        fill(index, {"a.py": f"version number{number}", "b.py": "other " * 20_000}, rebuild=number % 4 == 0)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_publisher_that_is_killed_at_any_moment_leaves_a_whole_state(tmp_path: Path) -> None:
    address = new_database()
    with closing(index_at(tmp_path / "ci", address)) as ci:
        fill(ci, {"a.py": "version number0", "b.py": "other"})
    for trial in range(int(os.environ.get("CTX_TEST_SHARED_KILLS", "3"))):
        killed(KILLED, str(tmp_path / "ci"), address, after_s=0.05 + 0.11 * trial)
        with closing(index_at(tmp_path / f"reader{trial}", address)) as reader:
            assert started(reader) == ["a.py", "b.py"]
            assert len([path for n in range(300) for path in holding(reader.snapshot(), f"number{n}")]) == 1
    with closing(index_at(tmp_path / "ci", address)) as ci:
        with ci.writer(wait_s=5.0) as writer:
            put(writer, {"a.py": "back"})
        (stored,) = remote(ci).list_repositories()
        sizes = {hash_file(path): path.stat().st_size for path in ci.folder.rglob("*.seg")}  # the same text comes twice
        assert {part.name for part in listed(ci)} == sizes.keys()
        assert stored.bytes == sum(sizes.values()), "a segment that nobody names"


# -- rights and addresses ------------------------------------------------------------------------------------------


def test_who_may_only_read_starts_from_the_database_and_learns_why_it_cannot_publish(machine: OpenIndex) -> None:
    address = new_database()
    fill(machine("ci", address=address), {"a.py": "lion"})
    reader = machine("reader", address=reader_of(address))
    assert started(reader) == ["a.py"]
    with pytest.raises(StoreUnusable) as refused:
        fill(reader, {"b.py": "tiger"})
    assert "grant" in refused.value.suggestion


def open_at(address: str, folder: Path, **settings: Any) -> SharedIndex:
    known = Settings(store_url=address, store_repository="app", **settings)
    return open_index_store(folder, known, folder, lambda _: None)


def test_an_address_of_no_kind_is_refused(tmp_path: Path) -> None:
    for address in ("nonsense", "mysql://host/db", "://"):
        with pytest.raises(InvalidArgument) as refused:
            open_at(address, tmp_path)
        assert "postgresql://" in refused.value.suggestion


def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "context_engine.team.postgres_store", None)
    with pytest.raises(UnsupportedHost) as refused:
        open_at("postgresql://host/db", tmp_path)
    assert "pip install 'psycopg[binary]'" in refused.value.suggestion


def test_a_database_that_only_searches_stores_no_index(tmp_path: Path) -> None:
    with closing(open_at("qdrant://127.0.0.1:1", tmp_path)) as index:
        assert not index.start_from_team("")
        fill(index, {"a.py": "lion"})
    with (
        closing(open_at("qdrant://127.0.0.1:1", tmp_path, store_shares=True)) as index,
        pytest.raises(StoreUnavailable),
    ):
        fill(index, {"b.py": "lion"})


# -- the repositories of a database --------------------------------------------------------------------------------


def test_a_list_has_complete_indexes_interrupted_ones_and_those_of_other_releases(
    machine: OpenIndex, sent: list[str]
) -> None:
    address = new_database()
    whole, half = (machine("one", name, address=address) for name in ("whole", "half"))
    fill(whole, {f"{name}.py": name for name in ("lion", "tiger", "lynx")})
    fill_until_cut_off(half, {"a.py": "lion"}, 2)
    older = f"{SCHEMA_VERSION - 1}/older"
    database = remote(whole)
    database.publish(older, b"what this release cannot read", {})
    found = {row.name: row for row in database.list_repositories()}
    assert (found[whole.repository].files, found[whole.repository].chunks) == (3, 3)
    assert found[whole.repository].committed_at > 1_700_000_000
    assert found[half.repository][1:] == (None, None, 0, 2 * PIECE_BYTES)
    assert found[older][1:3] == (None, None)
    for index in (whole, half):
        assert database.remove(index.repository) > 0
    assert [row.name for row in database.list_repositories()] == [older]
    fill(whole, {"d.py": "dodo"})
    assert len(listed(whole)) == 2
