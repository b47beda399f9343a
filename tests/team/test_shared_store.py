"""What stores that machines share keep beside the promise of all stores: nobody's data is another's, and trouble has a name."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import (
    InvalidArgument,
    StorageBusy,
    StorageCorrupt,
    StoreUnavailable,
    StoreUnusable,
    UnsupportedHost,
)
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.model import Query
from context_engine.team import remote_view
from context_engine.team.index_stores import PublishedStore, open_team_store
from context_engine.team.postgres_store import PostgresStore
from context_engine.team.remote_store import TeamStore, open_remote_store
from context_engine.team.shared_store import SharedStore
from tests.contracts.test_store import fill, holding, put
from tests.index.test_index_damage import flipped
from tests.support import preloaded
from tests.support.databases import (
    forbid,
    new_database,
    sever,
    sql,
)
from tests.support.engines import answers, open_engine
from tests.support.trees import repository, tree


@cache
def database() -> str:
    return new_database()


def on_postgres() -> PostgresStore:
    return PostgresStore(database())


REMOTE_STORES: dict[str, Callable[[], PostgresStore]] = {
    "postgres": on_postgres,
}


@pytest.fixture(params=list(REMOTE_STORES))
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., SharedStore]]:
    """Opens a repository as a machine of some name sees it."""
    opened: list[SharedStore] = []

    def open_one(name: str = "one", repository: str = "app", *, shares: bool = True) -> SharedStore:
        folder = tmp_path / name / repository
        opened.append(SharedStore(folder, REMOTE_STORES[request.param](), f"{tmp_path}/{repository}", publishes=shares))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


# -- machines --


def test_what_one_machine_shares_another_finds(machine: Callable[..., SharedStore]) -> None:
    fill(machine("ci"), {"a.py": "lion", "b.py": "tiger"}, metadata={"colour": "red"})
    server = machine("server", shares=False)
    assert holding(server.snapshot(), "lion") == ["a.py"]
    assert (set(server.files()), server.metadata("colour"), server.check()) == ({"a.py", "b.py"}, "red", [])
    fill(machine("ci"), {"a.py": "lynx"}, removed=["b.py"])
    assert (holding(server.snapshot(), "lynx"), set(server.files())) == (["a.py"], {"a.py"})


def test_what_is_indexed_here_is_seen_here_alone(machine: Callable[..., SharedStore]) -> None:
    fill(machine("ci"), {"a.py": "lion", "b.py": "tiger"})
    mine, theirs = machine("mine", shares=False), machine("theirs", shares=False)
    fill(mine, {"a.py": "lynx"})
    assert holding(mine.snapshot(), "lynx") == holding(theirs.snapshot(), "lion") == ["a.py"]
    assert holding(theirs.snapshot(), "lynx") == holding(mine.snapshot(), "lion") == []
    assert holding(machine("mine", shares=False).snapshot(), "lynx") == ["a.py"], "it outlives the process"


def test_when_the_depot_moves_on_what_was_looked_at_stays_known(machine: Callable[..., SharedStore]) -> None:
    ci, mine = machine("ci"), machine("mine", shares=False)
    fill(ci, {"a.py": "lion", "b.py": "tiger"})
    fill(mine, {"a.py": "lynx"}, touched=[("b.py", 5, 77)])
    fill(ci, {"c.py": "new"})
    assert holding(mine.snapshot(), "lynx") == [], "theirs serves until this work tree is compared with it"
    with mine.writer() as writer:
        assert writer.files()["b.py"].mtime_ns == 77
    assert {path: state.mtime_ns for path, state in mine.files().items()} == {"a.py": 1, "b.py": 77, "c.py": 1}
    assert mine.check() == []


def test_a_machine_fetches_each_segment_once(
    machine: Callable[..., SharedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(machine("ci"), {"a.py": "lion"})
    server = machine("server")
    fetched: list[str] = []
    fetch = server.remote.fetch

    def noted(repository: str, name: str, *rest: Any) -> None:
        fetched.append(name)
        fetch(repository, name, *rest)

    monkeypatch.setattr(server.remote, "fetch", noted)
    server.snapshot()
    fill(machine("ci"), {"b.py": "tiger"})
    server.snapshot()
    server.close()
    server.snapshot()
    assert len(fetched) == len(set(fetched)) == 2


def test_the_same_question_has_the_same_answer_everywhere(tmp_path: Path) -> None:
    """Ties included: 60 files hold the same words."""
    files = {f"src/part_{n:02}.py": f"def part(zebra):\n    return zebra  # {n % 3}\n" for n in range(60)}
    files |= {f"docs/page_{n}.md": f"# Page {n}\n\nAbout part {n} and the zebra.\n" for n in range(20)}
    asked = ("zebra", "part", "page about the zebra", "part_07", "return")
    told = []
    for number, knobs in enumerate(({}, {"store_shares": True}, {"store_shares": False})):
        root = repository(tmp_path / f"machine{number}" / "app", files)
        chosen: dict[str, Any] = {"store_url": database(), "store_repository": f"{tmp_path}/same"} if knobs else {}
        with open_engine(root, embedder="static", **chosen, **knobs) as engine:
            report = engine.index.update()
            assert report.files == 80
            assert knobs != {"store_shares": False} or (report.added, report.changed) == (0, 0), "all was there already"
            told.append(answers(engine, asked, limit=40))
    assert told[0] == told[1] == told[2]


def test_an_edit_on_one_machine_is_found_there_and_does_not_disturb_the_others(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"store_url": database(), "store_repository": f"{tmp_path}/edited", "embedder": "static"}
    ci, laptop = (repository(tmp_path / name / "app", {"a.py": "def lion(): ...\n"}) for name in ("ci", "laptop"))
    with open_engine(ci, store_shares=True, **chosen) as shares, open_engine(laptop, **chosen) as keeps:
        shares.index.update()
        tree(laptop, {"a.py": "def lynx(): ...\n"})
        keeps.index.update()
        assert [len(each.search.find(Query("lynx")).hits) for each in (shares, keeps)] == [0, 1]
        assert [len(each.search.find(Query("lion")).hits) for each in (shares, keeps)] == [1, 0]


def test_without_the_database_a_workspace_is_indexed_and_searched_all_the_same(tmp_path: Path) -> None:
    root = repository(tmp_path / "app", {"a.py": "def lion(): ...\n"})
    away: dict[str, Any] = {"store_url": "postgresql://127.0.0.1:9/team", "embedder": "none"}
    with open_engine(root, **away) as engine:
        assert engine.index.update().added == 1
        assert [str(hit.chunk.path) for hit in engine.search.find(Query("lion")).hits] == ["a.py"]
        assert "does not answer" in (engine.status().last_error or "")
    with open_engine(root, store_shares=True, **away) as engine, pytest.raises(StoreUnavailable):
        engine.index.update()


def test_a_workspace_moves_to_a_database_and_back_by_another_address(tmp_path: Path) -> None:
    root = repository(tmp_path / "app", {"a.py": "def lion(): ...\n", "b.md": "# Lions\n\nAbout lions.\n"})
    name: dict[str, Any] = {"store_repository": f"{tmp_path}/moved", "embedder": "static"}
    found = []
    addresses: tuple[dict[str, Any], ...] = ({}, {"store_url": database(), "store_shares": True}, {})
    for address in addresses:
        with open_engine(root, **address, **name) as engine:
            engine.index.update()
            found.append((answers(engine, ("lion", "about")), engine.index.find_problems()))
    assert found[0] == found[1] == found[2]
    assert found[0][1] == []


# -- repositories --


def test_no_repository_sees_another(machine: Callable[..., SharedStore]) -> None:
    chance = random.Random(9)
    stores = [machine("server", f"repository{number}") for number in range(8)]
    for number, store in enumerate(stores):
        fill(store, {f"{file}.py": f"lion only{number} word{chance.randrange(20)}" for file in range(5)})
    for _ in range(200):
        at, of = chance.randrange(8), chance.randrange(8)
        found = holding(stores[at].snapshot(), f"only{of}")
        assert len(found) == (5 if at == of else 0)
        assert len(holding(stores[at].snapshot(), "lion")) == 5
    assert stores[0].clear() > 0
    assert stores[0].snapshot() is None
    assert len(holding(stores[1].snapshot(), "lion")) == 5


def test_the_segment_of_another_repository_cannot_be_fetched_by_its_name(machine: Callable[..., SharedStore]) -> None:
    mine, theirs = machine("one", "mine"), machine("one", "theirs")
    fill(theirs, {"a.py": "secret"})
    (name,) = theirs.remote.list_segment_sizes(theirs.repository)
    with pytest.raises(FileNotFoundError):
        mine.remote.fetch(mine.repository, name, mine.folder.parent / "stolen")
    assert mine.remote.list_segment_sizes(mine.repository) == {}


def test_repositories_are_listed_until_they_are_cleared(machine: Callable[..., SharedStore]) -> None:
    stores = [machine("one", name) for name in ("b", "a")]
    for store in stores:
        fill(store, {"a.py": "lion"})
    names = [store.repository for store in stores]
    assert [each for each in stores[0].remote.list_repositories() if each in names] == sorted(names)
    stores[0].clear()
    assert [each for each in stores[0].remote.list_repositories() if each in names] == [stores[1].repository]


# -- two at once --


def test_two_machines_never_write_one_repository_at_once(machine: Callable[..., SharedStore]) -> None:
    first, second = machine("one"), machine("two")
    with first.writer(), pytest.raises(StorageBusy) as refused, second.writer():
        pass
    assert refused.value.retryable
    with second.writer() as writer:
        put(writer, {"a.py": "lion"})


def test_a_writer_that_lost_its_place_changes_nothing(machine: Callable[..., SharedStore]) -> None:
    """Its connection was cut and another one wrote meanwhile: what it knew is no longer so."""
    slow, quick = machine("slow"), machine("quick")
    fill(slow, {"a.py": "lion"})
    held = slow.remote.read_manifest(slow.repository)
    fill(quick, {"a.py": "tiger"})
    with slow.remote.acquire_lease(slow.repository, 0) as lease, pytest.raises(StorageBusy):
        lease.commit(held.revision, held.manifest or b"", {}, [])
    assert holding(machine("third").snapshot(), "tiger") == ["a.py"]


def test_readers_elsewhere_see_whole_states_while_one_writes(machine: Callable[..., SharedStore]) -> None:
    ci = machine("ci")
    fill(ci, {"a.py": "version number0", "b.py": "other"})
    wrong: list[object] = []
    stop = threading.Event()

    def look(store: SharedStore) -> None:
        while not stop.is_set():
            snapshot = store.snapshot()
            held = [path for n in range(21) for path in holding(snapshot, f"number{n}")]
            if held != ["a.py"] or holding(snapshot, "other") != ["b.py"]:
                wrong.append(held)

    threads = [threading.Thread(target=look, args=(machine(f"reader{n}"),)) for n in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 21):
        with ci.writer(rebuild=number % 7 == 0) as writer:
            put(writer, {"a.py": f"version number{number}", "b.py": "other"})
            writer.compact(everything=number % 5 == 0)
            writer.publish()
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


# -- trouble --


def test_a_damaged_segment_is_fetched_anew(machine: Callable[..., SharedStore]) -> None:
    fill(machine("ci"), {"a.py": "lion"})
    server = machine("server")
    server.snapshot()
    server.close()
    for damage in (b"", b"garbage" * 100):
        next(server.folder.glob("*.seg")).write_bytes(damage)
        again = machine("server")
        assert holding(again.snapshot(), "lion") == ["a.py"]
        assert again.check() == []


def test_a_damaged_list_of_segments_is_fetched_anew(machine: Callable[..., SharedStore]) -> None:
    fill(machine("ci"), {"a.py": "lion"})
    server = machine("server")
    server.snapshot()
    kept = server.folder / "base.manifest"
    for damage in (b"", kept.read_bytes()[:8] + b"\xc1garbage"):
        kept.write_bytes(damage)
        assert holding(machine("server").snapshot(), "lion") == ["a.py"]


def test_a_writer_takes_nothing_from_under_a_reader_that_fetches(machine: Callable[..., SharedStore]) -> None:
    store = machine("one")
    fill(store, {"a.py": "lion"})
    fresh, old = (store.folder / f"{name}.part" for name in ("fresh", "old"))
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    fill(machine("one"), {"b.py": "lion"})
    assert (fresh.exists(), old.exists()) == (True, False)
    store.clear()
    assert fresh.exists()


def test_an_address_of_no_kind_is_refused(tmp_path: Path) -> None:
    for address in ("nonsense", "mysql://host/db", "://"):
        with pytest.raises(InvalidArgument) as refused:
            open_team_store(TeamStore(address, "app"), tmp_path)
        assert "postgresql://" in refused.value.suggestion


def test_a_database_that_only_searches_shares_no_index(tmp_path: Path) -> None:
    """The index stays on this machine, and where it is published each writer sends its rows."""
    for publishes, kind in ((False, EmbeddedStore), (True, PublishedStore)):
        team = TeamStore("qdrant://127.0.0.1:1", "app", publishes)
        with closing(open_team_store(team, tmp_path, read=lambda _: None)) as store:
            assert type(store) is kind
    with pytest.raises(InvalidArgument, match="does not serve store") as refused:
        open_remote_store("qdrant://127.0.0.1:1")
    assert "postgresql://" in refused.value.suggestion


def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "context_engine.team.postgres_store", None)
    with pytest.raises(UnsupportedHost) as refused:
        open_team_store(TeamStore("postgresql://host/db", "app"), tmp_path)
    assert "[postgres]" in refused.value.suggestion


# -- a PostgreSQL in trouble --


def store_at(folder: Path, address: str, *, shares: bool = True) -> SharedStore:
    from context_engine.team.postgres_store import PostgresStore

    return SharedStore(folder, PostgresStore(address), "app", publishes=shares)


@pytest.fixture
def postgres_store() -> Iterator[Callable[..., SharedStore]]:
    opened: list[SharedStore] = []

    def open_one(folder: Path, address: str, *, shares: bool = True) -> SharedStore:
        opened.append(store_at(folder, address, shares=shares))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def test_a_database_that_is_not_there_is_told_and_no_password_with_it(
    tmp_path: Path, postgres_store: Callable[..., SharedStore]
) -> None:
    store = postgres_store(tmp_path, "postgresql://me:hunter2@127.0.0.1:9/team")
    for ask in (store.snapshot, store.files, store.clear, lambda: fill(store, {"a.py": "lion"})):
        with pytest.raises(StoreUnavailable) as refused:
            ask()
        assert refused.value.retryable and refused.value.suggestion
        assert "hunter2" not in str(refused.value.as_dict())
    assert "does not answer" in store.check()[0]


def test_while_the_database_is_away_what_was_seen_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_store: Callable[..., SharedStore]
) -> None:
    monkeypatch.setattr(remote_view, "RETRY_DELAY_S", 0.0)
    address = new_database()
    store = postgres_store(tmp_path / "one", address)
    fill(store, {"a.py": "lion"})
    with forbid(address):
        for again in (store, postgres_store(tmp_path / "one", address)):
            assert holding(again.snapshot(), "lion") == ["a.py"]
            assert "does not answer" in again.problem and again.check() == [again.problem]
        with pytest.raises(StoreUnavailable):
            fill(store, {"b.py": "tiger"})
        kept = postgres_store(tmp_path / "one", address, shares=False)
        fill(kept, {"b.py": "tiger"})
        assert holding(kept.snapshot(), "tiger") == ["b.py"], "what stays here needs no database"
    assert (holding(store.snapshot(), "lion"), store.problem) == (["a.py"], "")
    fill(store, {"b.py": "tiger"})


def test_a_commit_whose_connection_is_cut_is_not_half_there(
    tmp_path: Path, postgres_store: Callable[..., SharedStore]
) -> None:
    address = new_database()
    store = postgres_store(tmp_path / "one", address)
    fill(store, {"a.py": "lion"})
    with store.writer() as writer:
        sever(address)
        with pytest.raises(StoreUnavailable):
            put(writer, {"a.py": "tiger"})
    for each in (store, postgres_store(tmp_path / "two", address)):
        assert (holding(each.snapshot(), "lion"), each.check()) == (["a.py"], [])
    fill(store, {"a.py": "tiger"})


def test_who_may_only_read_can_search_and_is_told_why_it_cannot_share(
    tmp_path: Path, postgres_store: Callable[..., SharedStore]
) -> None:
    address = new_database()
    fill(postgres_store(tmp_path / "one", address), {"a.py": "lion"})
    sql(
        address,
        "DROP ROLE IF EXISTS ctx_reader; CREATE ROLE ctx_reader LOGIN; GRANT USAGE ON SCHEMA context_engine TO ctx_reader;"
        "GRANT SELECT ON ALL TABLES IN SCHEMA context_engine TO ctx_reader",
    )
    reader = postgres_store(tmp_path / "two", address.replace("postgres:@", "ctx_reader:@"))
    assert holding(reader.snapshot(), "lion") == ["a.py"]
    with pytest.raises(StoreUnusable) as refused:
        fill(reader, {"b.py": "tiger"})
    assert "grant" in refused.value.suggestion
    sql(address, "DROP OWNED BY ctx_reader; DROP ROLE ctx_reader")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE context_engine.piece SET content = '\\x00'",
        "DELETE FROM context_engine.piece",
        "UPDATE context_engine.manifest SET content = '\\xc1', revision = revision + 1",
    ],
)
def test_damage_in_the_depot_is_told_and_mended_by_a_rebuild(
    damage: str, tmp_path: Path, postgres_store: Callable[..., SharedStore]
) -> None:
    address = new_database()
    ci = postgres_store(tmp_path / "one", address)
    fill(ci, {"a.py": "lion"})
    sql(address, damage)
    other = postgres_store(tmp_path / "two", address)
    with pytest.raises(StorageCorrupt) as refused:
        other.snapshot()
    assert "ctx index --force" in refused.value.suggestion
    assert other.check() != []
    fill(ci, {"a.py": "tiger"}, rebuild=True)
    assert (holding(other.snapshot(), "tiger"), other.check()) == (["a.py"], [])


def test_a_segment_that_is_damaged_here_is_fetched_again(tmp_path: Path) -> None:
    store = store_at(tmp_path / "one", new_database())
    fill(store, {"a.py": "lion"})
    (segment,) = store.folder.glob("*.seg")
    content = segment.read_bytes()
    segment.unlink()  # never write into what is mapped
    segment.write_bytes(flipped(content))
    assert (store.check(), holding(store.snapshot(), "lion")) == ([], ["a.py"])
    assert segment.read_bytes() == content


KILLED = """
    import sys
    from pathlib import Path
    from tests.team.test_shared_store import store_at
    from tests.contracts.test_store import fill
    folder, address = Path(sys.argv[1]), sys.argv[2]
    store = store_at(folder, address)
    print("go", flush=True)
    for number in range(1, 10_000):
        fill(store, {"a.py": f"version number{number}", "b.py": "other " * 20_000}, rebuild=number % 4 == 0)
"""


def stored_and_named(reader: SharedStore) -> tuple[set[str], frozenset[str]]:
    """Return the stored segments and those of the manifest, of one revision.

    The server may still commit what a killed process sent last.
    """
    while True:
        state = reader._view.read()
        stored = set(reader.remote.list_segment_sizes(reader.repository))
        if reader._view.read().revision == state.revision:
            manifest = reader._base_file.parse(state)
            assert manifest is not None
            return stored, frozenset(manifest.names)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_writer_that_is_killed_at_any_moment_leaves_a_whole_state(
    tmp_path: Path, postgres_store: Callable[..., SharedStore]
) -> None:
    address = new_database()
    fill(postgres_store(tmp_path / "ci", address), {"a.py": "version number0", "b.py": "other"})
    reader = postgres_store(tmp_path / "reader", address)
    for trial in range(int(os.environ.get("CTX_TEST_SHARED_KILLS", "3"))):
        with preloaded.Popen(
            [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "ci"), address],
            cwd=Path(__file__).resolve().parents[2],
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            threading.Event().wait(0.05 + 0.11 * trial)
            process.send_signal(signal.SIGKILL)
        snapshot = reader.snapshot()
        assert [path for n in range(300) for path in holding(snapshot, f"number{n}")] == ["a.py"]
        assert set(holding(snapshot, "other")) == {"b.py"}
        assert reader.check() == []
        stored, named = stored_and_named(reader)
        assert stored == named, "a segment that nobody names"
    with postgres_store(tmp_path / "ci", address).writer(wait_s=5.0) as writer:
        put(writer, {"a.py": "back"})
    assert holding(reader.snapshot(), "back") == ["a.py"]
