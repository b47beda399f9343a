"""A move that breaks off costs what had not arrived, and changes nothing for those who read; what nobody goes on with is tidied."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.embedding.vector_rows import KEY_BYTES, VectorRows, VectorSpace
from context_engine.errors import Cancelled, NotIndexed, StorageBusy, StoreUnavailable
from context_engine.index.embedded_store import SCHEMA_VERSION, EmbeddedStore
from context_engine.index.index_transfer import migrate
from context_engine.index.shared_store import SharedStore
from context_engine.index.tenants import list_tenants, remove_tenant
from context_engine.model import Progress
from context_engine.sharing import postgres_store, qdrant_store, remote_store
from context_engine.sharing.remote_store import RemoteStore
from tests.contracts.test_shared_store import REMOTE_STORES, store_at
from tests.contracts.test_store import fill, holding, put
from tests.support import preloaded
from tests.support.databases import in_memory, new_database, sever
from tests.support.remote_vector_stores import DictionaryVectorStore

PIECE_BYTES = 1_000
"""Each of the segments below takes three of them or more."""
MOST_BYTES = 3 * PIECE_BYTES


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (remote_store, postgres_store, qdrant_store):
        monkeypatch.setattr(module, "PIECE_BYTES", PIECE_BYTES)


@pytest.fixture(params=list(REMOTE_STORES))
def place(request: pytest.FixtureRequest) -> Iterator[RemoteStore]:
    with closing(REMOTE_STORES[request.param]()) as opened:
        yield opened


@pytest.fixture
def there(place: RemoteStore, tmp_path: Path, small_pieces: None) -> SharedStore:
    return SharedStore(tmp_path / "there", place, f"{tmp_path}/app")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """An index of three segments."""
    with closing(EmbeddedStore(tmp_path / "here")) as store:
        for name in ("lion", "tiger", "lynx"):
            fill(store, {f"{name}.py": f"{name} cat"})
        yield store


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The segment of each piece that is really sent to a database."""
    import psycopg
    from qdrant_client import QdrantClient

    names: list[str] = []
    execute, upsert = psycopg.Connection.execute, QdrantClient.upsert

    def executed(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
        if isinstance(query, str) and query.startswith("INSERT INTO context_engine.piece"):
            names.append(params[1])
        return execute(self, query, params, **more)

    def upserted(self: Any, alias: str, points: Any, **more: Any) -> Any:
        names.extend(point.payload["name"] for point in points if point.payload["what"] == "piece")
        return upsert(self, alias, points, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", executed)
    monkeypatch.setattr(QdrantClient, "upsert", upserted)
    return names


def broken_off(source: Any, target: SharedStore, after_bytes: int | None = MOST_BYTES) -> None:
    """Cancel a move when so much of it has arrived, or (None) all but the list."""
    cancel = threading.Event()

    def watch(step: Progress) -> None:
        if step.stage == "sending" and step.done >= (after_bytes or step.total):
            cancel.set()

    with pytest.raises(Cancelled) as refused:
        migrate(source, target, tell=watch, cancel=cancel)
    assert "goes on" in refused.value.suggestion


def pieces_of(store: SharedStore) -> int:
    """How many pieces its segments take; what was committed twice is there once."""
    return sum(-(-size // PIECE_BYTES) for size in {part.name: part.size for part in store.segment_refs()}.values())


# -- broken off ---------------------------------------------------------------------------------------------------


def test_what_has_arrived_is_not_sent_again(here: EmbeddedStore, there: SharedStore, sent: list[str]) -> None:
    broken_off(here, there)
    first = len(sent)
    steps: list[Progress] = []
    assert migrate(here, there, tell=steps.append).files == 3
    assert first == 3
    assert len(sent) == pieces_of(there), "each piece once"
    assert (holding(there.snapshot(), "cat"), there.check()) == (["lion.py", "lynx.py", "tiger.py"], [])
    told = [step for step in steps if step.stage == "sending"]
    assert [step.done for step in told] == sorted(step.done for step in told)
    assert told[-1].done == told[-1].total == sum(part.size for part in there.segment_refs())


def test_until_all_has_arrived_readers_see_what_was_there(
    here: EmbeddedStore, there: SharedStore, place: RemoteStore, tmp_path: Path
) -> None:
    fill(there, {"old.py": "dodo"})
    reader = SharedStore(tmp_path / "reader", place, f"{tmp_path}/app", publishes=False)
    broken_off(here, there)
    for each in (there, reader):
        assert (holding(each.snapshot(), "dodo"), set(each.files())) == (["old.py"], {"old.py"})
        assert each.check() == []
    migrate(here, there)
    assert set(reader.files()) == {"lion.py", "tiger.py", "lynx.py"}


def test_an_edit_between_two_tries_costs_the_edit(here: EmbeddedStore, there: SharedStore, sent: list[str]) -> None:
    """Segments move as they are, the dead included: what is old of an index keeps its name."""
    broken_off(here, there, after_bytes=None)
    assert there.snapshot() is None
    before = len(sent)
    fill(here, {"lion.py": "lion king"}, removed=["lynx.py"])
    migrate(here, there)
    assert len(set(sent[before:])) == 1
    assert (holding(there.snapshot(), "king"), set(there.files())) == (["lion.py"], {"lion.py", "tiger.py"})


def test_what_nobody_goes_on_with_is_dropped_by_the_next_commit(here: EmbeddedStore, there: SharedStore) -> None:
    broken_off(here, there, after_bytes=None)
    assert len(there.remote.list_segment_sizes(there.repository)) == 3
    fill(there, {"a.py": "dodo"})
    assert {part.name for part in there.segment_refs()} == set(there.remote.list_segment_sizes(there.repository))
    assert there.remote.count_stored_bytes(there.repository) == sum(part.size for part in there.segment_refs())


def test_a_commit_of_much_that_breaks_off_goes_on_too(there: SharedStore, sent: list[str]) -> None:
    """An index run that is killed while it sends what it made: the next one makes the same."""
    left = [2]

    def cut(path: Path) -> Iterator[tuple[int, bytes]]:
        for piece in remote_store.read_pieces(path):
            left[0] -= 1
            if left[0] < 0:
                raise remote_store.unavailable_error("the database", "connection lost")
            yield piece

    with pytest.MonkeyPatch.context() as patched:
        for module in (postgres_store, qdrant_store):
            patched.setattr(module, "read_pieces", cut)
        with pytest.raises(StoreUnavailable):
            fill(there, {"a.py": "lion"})
    assert (len(sent), there.remote.read_manifest(there.repository).manifest) == (2, None)
    fill(there, {"a.py": "lion"})
    assert len(sent) == pieces_of(there)
    assert holding(there.snapshot(), "lion") == ["a.py"]


def test_only_who_may_write_sends(here: EmbeddedStore, there: SharedStore, place: RemoteStore, tmp_path: Path) -> None:
    other = SharedStore(tmp_path / "other", place, f"{tmp_path}/app")
    with other.writer(), pytest.raises(StorageBusy):
        migrate(here, there)
    migrate(here, there)


def test_nothing_is_moved_of_nothing(there: SharedStore, tmp_path: Path) -> None:
    with closing(EmbeddedStore(tmp_path / "empty")) as empty, pytest.raises(NotIndexed):
        migrate(empty, there)
    assert there.remote.list_repositories() == [] or there.repository not in there.remote.list_repositories()


def test_a_database_that_goes_away_in_the_middle(
    here: EmbeddedStore, tmp_path: Path, small_pieces: None, sent: list[str]
) -> None:
    address = new_database()

    def cut(step: Progress) -> None:
        if step.stage == "sending" and step.done == PIECE_BYTES:
            sever(address)

    with closing(store_at(tmp_path / "there", address)) as there:
        with pytest.raises(StoreUnavailable):
            migrate(here, there, tell=cut)
        first = len(sent)
        assert migrate(here, there).files == 3
        assert first == 2, "the piece that arrived, and the one that was under way"
        assert len(sent) == 1 + pieces_of(there)


def test_a_qdrant_that_goes_away_in_the_middle(
    here: EmbeddedStore, tmp_path: Path, small_pieces: None, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdrant_client.http.exceptions import ResponseHandlingException

    client = in_memory()
    there = SharedStore(tmp_path / "there", qdrant_store.QdrantStore("qdrant://memory", lambda: client), "app")
    upsert, arrived = client.upsert, []

    def refuse(*arguments: Any, **more: Any) -> Any:
        if len(arrived) == 3:
            raise ResponseHandlingException(ConnectionError("connection refused"))
        arrived.append(arguments)
        return upsert(*arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(client, "upsert", refuse)
        with pytest.raises(StoreUnavailable):
            migrate(here, there)
    assert len(sent) == 2, "after the lease"
    assert migrate(here, there).files == 3
    assert len(sent) == pieces_of(there)


KILLED = """
    import sys
    from pathlib import Path
    from context_engine.sharing import postgres_store, remote_store
    from context_engine.index.embedded_store import EmbeddedStore
    from context_engine.index.index_transfer import migrate
    from tests.contracts.test_shared_store import store_at
    here, there, address, least = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    remote_store.PIECE_BYTES = postgres_store.PIECE_BYTES = 1_000

    def tell(step):
        if step.stage == "sending" and step.done >= least:
            print("so far", flush=True)
            sys.stdin.readline()

    migrate(EmbeddedStore(here), store_at(there, address), tell=tell)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_move_that_is_killed_goes_on(
    here: EmbeddedStore, tmp_path: Path, small_pieces: None, sent: list[str]
) -> None:
    address = new_database()
    with closing(store_at(tmp_path / "reader", address, shares=False)) as reader:
        for trial in range(int(os.environ.get("CTX_TEST_MOVE_KILLS", "1"))):
            arguments = [str(tmp_path / "here"), str(tmp_path / "there"), address, str(PIECE_BYTES * (2 + trial % 15))]
            with preloaded.Popen(
                [sys.executable, "-c", textwrap.dedent(KILLED), *arguments],
                cwd=Path(__file__).resolve().parents[2],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == b"so far\n"
                process.send_signal(signal.SIGKILL)
            assert reader.snapshot() is None
        with closing(store_at(tmp_path / "there", address)) as there:
            assert migrate(here, there).files == 3
            assert 0 < len(sent) < pieces_of(there)
        assert (holding(reader.snapshot(), "cat"), reader.check()) == (["lion.py", "lynx.py", "tiger.py"], [])


# -- what arrives -------------------------------------------------------------------------------------------------

PATHS = st.sampled_from(["a.py", "b.py", "c.md", "d/e.py"])
WORDS = st.sampled_from(["lion", "tiger", "lynx"])
COMMITS = st.lists(
    st.fixed_dictionaries(
        {
            "files": st.dictionaries(PATHS, WORDS, max_size=3),
            "removed": st.sets(PATHS, max_size=1),
            "touched": st.sets(PATHS, max_size=2),
            "merge": st.booleans(),
        }
    ),
    min_size=1,
    max_size=6,
)


def carry_out(store: EmbeddedStore, commits: list[dict[str, Any]]) -> None:
    """A history of commits; a file that goes in and out in one of them stays."""
    for number, commit in enumerate(commits):
        with store.writer() as writer:
            looks = [(path, 50 + number, 1_000 + number) for path in sorted(commit["touched"])]
            put(writer, commit["files"], removed=commit["removed"] - commit["files"].keys(), touched=looks)
            if commit["merge"]:
                writer.compact(everything=True)
            files = writer.snapshot().files
            writer.set_importance(np.linspace(0.0, 1.0, files) if files else np.zeros(0))
            writer.publish()


def known(store: Any) -> dict[str, Any]:
    """All that can be asked of an index."""
    snapshot = store.snapshot()
    return {
        "files": store.files(),
        "words": {word: holding(snapshot, word) for word in ("lion", "tiger", "lynx")},
        "importance": {path: float(snapshot.importance[at]) for path, at in snapshot.by_path.items()},
        "problems": store.check(),
    }


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commits=COMMITS)
def test_whatever_was_done_to_an_index_it_arrives_as_it_is(
    commits: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("moved")
    client = in_memory()
    with closing(EmbeddedStore(folder / "here")) as here, closing(EmbeddedStore(folder / "back")) as back:
        carry_out(here, commits)
        there = SharedStore(folder / "there", qdrant_store.QdrantStore("qdrant://memory", lambda: client), "app")
        told = known(here)
        for source, target in ((here, there), (there, back)):
            migrate(source, target)
            assert known(target) == told


def test_what_is_not_here_yet_is_fetched_with_a_count(
    here: EmbeddedStore, there: SharedStore, place: RemoteStore, tmp_path: Path
) -> None:
    migrate(here, there)
    server = SharedStore(tmp_path / "server", place, f"{tmp_path}/app", publishes=False)
    steps: list[Progress] = []
    with closing(EmbeddedStore(tmp_path / "back")) as back:
        migrate(server, back, tell=steps.append)
        assert known(back) == known(here)
    fetched = [step for step in steps if step.stage == "fetching"]
    assert fetched[-1].done == fetched[-1].total == sum(part.size for part in there.segment_refs())
    assert len(fetched) > 3, "told with each piece"


# -- who lies there -----------------------------------------------------------------------------------------------


def test_a_list_says_what_lies_there_and_what_was_broken_off(
    here: EmbeddedStore, there: SharedStore, place: RemoteStore, tmp_path: Path
) -> None:
    half = SharedStore(tmp_path / "half", place, f"{tmp_path}/half")
    migrate(here, there)
    broken_off(here, half)
    found = {each.repository: each for each in list_tenants(place) if each.repository.startswith(str(tmp_path))}
    whole, begun = found[f"{tmp_path}/app"], found[f"{tmp_path}/half"]
    assert (whole.schema, whole.files, whole.chunks) == (SCHEMA_VERSION, 3, 3)
    assert whole.bytes == sum(part.size for part in there.segment_refs())
    assert whole.committed_at > 1_700_000_000
    assert (begun.bytes, begun.files, begun.chunks, begun.committed_at) == (MOST_BYTES, None, None, 0)


def test_what_is_removed_is_gone_for_all_and_can_be_put_there_anew(
    here: EmbeddedStore, there: SharedStore, place: RemoteStore, tmp_path: Path
) -> None:
    half, kept = SharedStore(tmp_path / "half", place, f"{tmp_path}/half"), DictionaryVectorStore()
    migrate(here, there)
    broken_off(here, half)
    for name in ("app", "half"):
        remove_tenant(place, kept, f"{tmp_path}/{name}")
        with pytest.raises(NotIndexed) as refused:
            remove_tenant(place, kept, f"{tmp_path}/{name}")
        assert f"{tmp_path}/{name}" not in refused.value.suggestion
    assert (there.snapshot(), place.list_segment_sizes(half.repository)) == (None, {})
    assert migrate(here, there).files == 3


def vectors_of(repository: str) -> DictionaryVectorStore:
    """What a model made of one text of a repository."""
    kept, space = DictionaryVectorStore(), VectorSpace("feed", 2)
    rows = VectorRows(np.ones((1, 2), np.int8), np.ones(1, np.float32))
    kept.put(repository, space, np.array([b"k" * KEY_BYTES], f"S{KEY_BYTES}"), rows, day=1)
    return kept


def test_the_last_index_of_a_repository_takes_its_vectors_with_it(
    here: EmbeddedStore, there: SharedStore, place: RemoteStore, tmp_path: Path
) -> None:
    migrate(here, there)
    older, kept = f"{SCHEMA_VERSION - 1}/{tmp_path}/app", vectors_of(f"{tmp_path}/app")
    with place.acquire_lease(older, 0):
        place.commit(older, 0, b"what this release cannot read", {}, ())
    remove_tenant(place, kept, f"{tmp_path}/app", SCHEMA_VERSION - 1)
    assert sum(kept.count_by_space(f"{tmp_path}/app").values()) == 1
    remove_tenant(place, kept, f"{tmp_path}/app")
    assert sum(kept.count_by_space(f"{tmp_path}/app").values()) == 0


def test_an_index_of_another_release_is_listed_and_removed_by_its_number(place: RemoteStore, tmp_path: Path) -> None:
    older, kept = f"{SCHEMA_VERSION - 1}/{tmp_path}/app", vectors_of(f"{tmp_path}/app")
    with place.acquire_lease(older, 0):
        place.commit(older, 0, b"what this release cannot read", {}, ())
    (entry,) = [each for each in list_tenants(place) if each.repository == f"{tmp_path}/app"]
    assert (entry.schema, entry.files) == (SCHEMA_VERSION - 1, None)
    with pytest.raises(NotIndexed):
        remove_tenant(place, kept, f"{tmp_path}/app")
    remove_tenant(place, kept, f"{tmp_path}/app", SCHEMA_VERSION - 1)
    assert older not in place.list_repositories()
