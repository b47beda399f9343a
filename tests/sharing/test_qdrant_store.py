"""A Qdrant over real HTTP, in trouble: away, restarted, killed, cut in the middle, refusing, too small, or no Qdrant at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client", reason="no Qdrant: pip install 'smart-context-engine[qdrant]'")
pytest.importorskip("qdrant_edge", reason="no engine of Qdrant: pip install qdrant-edge-py")

from qdrant_client import QdrantClient, models

from context_engine.errors import DiskFull, InvalidArgument, StorageBusy, StoreUnavailable, StoreUnusable
from context_engine.index import shared_store
from context_engine.index.shared_store import SharedStore
from context_engine.sharing import qdrant_session, qdrant_store, remote_store
from context_engine.sharing.qdrant_store import QdrantStore
from context_engine.sharing.remote_store import RepositoryLease
from tests.contracts.test_store import fill, holding, put
from tests.support import preloaded
from tests.support.qdrant_shim import REQUEST_BYTES_MAX, Cut, Refused, Shim

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    """A server of its own, to which anything may be done."""
    server = Shim(tmp_path / "server").start()
    yield server
    server.stop()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[..., SharedStore]]:
    """Opens the store of one repository, as a machine of some name sees it."""
    opened: list[SharedStore] = []

    def open_one(address: str, name: str = "one", *, shares: bool = True) -> SharedStore:
        opened.append(SharedStore(tmp_path / name, QdrantStore(address), "app", publishes=shares))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def test_the_engine_behind_http_answers_as_the_clients_own_imitation_does(shim: Shim) -> None:
    """Vectors and words with filters, pages and counts: what the product and its vectors ask."""
    told: list[list[Any]] = []
    for client in (qdrant_session._connect_over_http(shim.url, ""), QdrantClient(":memory:")):
        client.create_collection(
            "points",
            vectors_config={"dense": models.VectorParams(size=3, distance=models.Distance.COSINE)},
            sparse_vectors_config={"words": models.SparseVectorParams()},
        )
        if client.init_options["location"] is None:  # the imitation has none, and warns of it
            for field, kind in (("colour", "KEYWORD"), ("number", "INTEGER")):
                client.create_payload_index("points", field, field_schema=models.PayloadSchemaType[kind])
        client.upsert("points", [_point(number) for number in range(30)])
        client.set_payload("points", {"colour": "green"}, points=[3, 4])
        client.delete("points", points_selector=models.FilterSelector(filter=_having(7, 9)))
        for chosen in (None, _having(5, 20), models.Filter(must_not=[qdrant_session.match_value("colour", "red")])):
            sparse = models.SparseVector(indices=[1, 2], values=[1.0, 0.5])
            told.append([client.count("points", count_filter=chosen).count])
            told[-1] += [point.id for point in client.scroll("points", scroll_filter=chosen, limit=40)[0]]
            for query, using in (([0.3, 0.2, 0.9], "dense"), (sparse, "words")):
                found = client.query_points("points", query=query, using=using, query_filter=chosen, limit=8).points
                told[-1] += [(point.id, round(point.score, 4)) for point in found]
        client.close()
    assert told[:3] == told[3:]
    assert len(told[0]) == 1 + 27 + 8 + 8


def _point(number: int) -> models.PointStruct:
    words = models.SparseVector(indices=[number % 4, 10 + number], values=[1.0 + number / 100, 1.0])
    vector: Any = {"dense": [number + 1.0, 30.5 - number, (number * 7) % 11 + 0.25], "words": words}
    return models.PointStruct(
        id=number, vector=vector, payload={"colour": ("red", "blue")[number % 2], "number": number}
    )


def _having(first: int, last: int) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key="number", range=models.Range(gte=first, lte=last))])


# -- away, and back --


def test_what_was_committed_is_there_after_a_restart(shim: Shim, machine: Callable[..., SharedStore]) -> None:
    ci = machine(shim.url)
    fill(ci, {"a.py": "lion"})
    shim.stop()
    shim.start()
    assert holding(machine(shim.url, "two").snapshot(), "lion") == ["a.py"]
    fill(ci, {"a.py": "tiger"})
    assert holding(machine(shim.url, "three").snapshot(), "tiger") == ["a.py"]


def test_while_it_is_away_what_was_seen_answers(
    shim: Shim, machine: Callable[..., SharedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_store, "RETRY_DELAY_S", 0.0)
    ci = machine(shim.url)
    fill(ci, {"a.py": "lion"})
    shim.stop()
    try:
        assert holding(machine(shim.url).snapshot(), "lion") == ["a.py"]
        with pytest.raises(StoreUnavailable) as refused:
            fill(ci, {"b.py": "tiger"})
        assert refused.value.retryable
        with pytest.raises(StoreUnavailable):
            machine(shim.url, "never seen").snapshot()
    finally:
        shim.start()
    fill(ci, {"b.py": "tiger"})
    assert (ci.problem, ci.check()) == ("", [])


REQUESTS = 8
"""Of one commit: the lease and its proof, what was sent before, what is there, the piece, the manifest and its proof,
what goes."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_that_breaks_once_is_not_noticed(
    moment: str, shim: Shim, machine: Callable[..., SharedStore]
) -> None:
    """Before a request is carried out, or after it, when only the answer is lost."""
    writing, reader = machine(shim.url), machine(shim.url, "two")
    fill(writing, {"a.py": "begun"})
    for number in range(REQUESTS):
        cuts = _cut(shim, moment, {number})
        fill(writing, {"a.py": f"version number{number}"}, rebuild=True)
        assert cuts == [number]
        assert (holding(reader.snapshot(), f"number{number}"), reader.check()) == (["a.py"], [])
        assert len(reader.remote.list_segment_sizes(reader.repository)) == 1, "what nobody names is gone"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_server_that_goes_away_between_any_two_requests_leaves_a_whole_state(
    moment: str, shim: Shim, machine: Callable[..., SharedStore]
) -> None:
    writing, reader = machine(shim.url), machine(shim.url, "two")
    fill(writing, {"a.py": "begun"})
    seen = "begun"
    for number in range(REQUESTS):
        cuts, word = _cut(shim, moment, set(range(number, 1_000))), f"number{number}"
        with pytest.raises(StoreUnavailable):
            fill(writing, {"a.py": word}, rebuild=True)
        assert cuts
        _cut(shim, moment, set())
        found = [each for each in (seen, word) if holding(reader.snapshot(), each) == ["a.py"]]
        assert (len(found), reader.check()) == (1, [])
        _end_lease(reader)
        fill(writing, {"a.py": seen}, rebuild=True)
        assert (holding(reader.snapshot(), seen), reader.check()) == (["a.py"], [])
        assert len(reader.remote.list_segment_sizes(reader.repository)) == 1, "what nobody names is gone"


def _cut(shim: Shim, moment: str, which: set[int]) -> list[int]:
    """Break off these requests from now on; those that were, by number."""
    count, cuts = iter(range(1_000_000)), []

    def told(method: str, path: str) -> None:
        if (number := next(count)) in which:
            cuts.append(number)
            raise Cut

    shim.before = shim.after = lambda method, path: None
    setattr(shim, moment, told)
    return cuts


def _end_lease(store: SharedStore) -> None:
    """As if a minute had gone by."""
    assert isinstance(store.remote, QdrantStore)
    held = models.Filter(must=[qdrant_session.match_value("what", "writer")])
    store.remote.delete(held)


def test_a_collection_that_somebody_dropped_is_made_anew(shim: Shim, machine: Callable[..., SharedStore]) -> None:
    ci = machine(shim.url)
    fill(ci, {"a.py": "lion"})
    client = qdrant_session._connect_over_http(shim.url, "")
    client.delete_collection(qdrant_store.COLLECTION)
    client.close()
    fill(ci, {"a.py": "tiger"}, rebuild=True)
    assert holding(machine(shim.url, "two").snapshot(), "tiger") == ["a.py"]


def test_a_server_that_does_not_answer_in_time_is_unavailable(
    shim: Shim, machine: Callable[..., SharedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant_session, "TIMEOUT_S", 1)
    monkeypatch.setattr(qdrant_session, "RETRY_MAX_S", 0.5)
    store, ended = machine(shim.url), threading.Event()
    fill(store, {"a.py": "lion"})

    def stall(method: str, path: str) -> None:
        ended.wait()

    shim.before = stall
    asked: list[str] = []
    try:
        with pytest.raises(StoreUnavailable) as refused:
            store.remote.revision(store.repository)
        asked.append(refused.value.message)
    finally:
        ended.set()
        shim.before = lambda method, path: None
    assert "timed out" in asked[0]


KILLED = """
import sys
from pathlib import Path
from tests.sharing.test_qdrant_store import QdrantStore, SharedStore, fill
store = SharedStore(Path(sys.argv[1]), QdrantStore(sys.argv[2]), "app", shares=True)
print("go", flush=True)
for number in range(1, 10_000):
    fill(store, {"a.py": f"version number{number}", "b.py": "other " * 20_000}, rebuild=number % 4 == 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("victim", ["server", "writer"])
def test_a_kill_at_any_moment_leaves_a_whole_state(
    victim: str, tmp_path: Path, machine: Callable[..., SharedStore]
) -> None:
    """Of the server's process, or of the one that writes to it."""
    server, port = _served(tmp_path / "data", 0)
    address = f"http://127.0.0.1:{port}"
    fill(machine(address), {"a.py": "version number0", "b.py": "other"})
    for trial in range(int(os.environ.get("CTX_TEST_SHARED_KILLS", "1"))):
        _end_lease(machine(address))
        with preloaded.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "ci"), address],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what it says when its server is gone
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            threading.Event().wait(0.3 + 0.17 * trial)
            (server if victim == "server" else writer).send_signal(signal.SIGKILL)
            if victim == "server":
                server.communicate()
                server, _ = _served(tmp_path / "data", port)
            writer.kill()
        reader = machine(address, f"reader{trial}")
        snapshot = reader.snapshot()
        assert len([path for n in range(300) for path in holding(snapshot, f"number{n}")]) == 1
        assert set(holding(snapshot, "other")) == {"b.py"}
        assert reader.check() == []
    _end_lease(machine(address))
    with machine(address).writer() as last:
        put(last, {"a.py": "back"})
    assert holding(machine(address, "last").snapshot(), "back") == ["a.py"]
    server.terminate()
    server.communicate()


def _served(folder: Path, port: int) -> tuple[subprocess.Popen[str], int]:
    """A server in a process of its own, and its port."""
    command = [sys.executable, "-m", "tests.support.qdrant_shim", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline().rpartition(":")[2])


def test_of_two_writers_whose_lease_ran_out_one_wins_each_time(
    shim: Shim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides is the engine's own conditional upsert."""
    monkeypatch.setattr(qdrant_store, "LEASE_S", -1.0)
    remotes = [QdrantStore(shim.url) for _ in range(2)]
    for revision in range(8):
        told: list[str] = []

        def write(lease: RepositoryLease, name: str, at: int = revision, told: list[str] = told) -> None:
            try:
                lease.commit(at, name.encode(), {}, [])
                told.append(name)
            except StorageBusy:
                told.append("")

        with remotes[0].acquire_lease("app", 0) as first, remotes[1].acquire_lease("app", 0) as second:
            threads = [threading.Thread(target=write, args=pair) for pair in ((first, "x"), (second, "y"))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        with remotes[0].acquire_lease("app", 0) as first, pytest.raises(StorageBusy):
            first.commit(revision, b"late", {}, [])
        held = remotes[0].read_manifest("app")
        assert held.manifest is not None
        assert (held.revision, sorted(told)) == (revision + 1, ["", held.manifest.decode()])
    for each in remotes:
        each.close()


def test_a_writer_that_wakes_up_after_its_lease_takes_nothing_from_the_next(
    shim: Shim, machine: Callable[..., SharedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It falls asleep between its manifest and what it drops; meanwhile the next one sends a segment and is about to commit."""
    slow, quick = machine(shim.url, "slow"), machine(shim.url, "quick")
    fill(slow, {"a.py": "lion"})
    now, woken = time.time(), threading.Event()

    def sleep(method: str, path: str) -> None:
        if not path.endswith("/delete") or woken.is_set():
            return
        woken.set()
        monkeypatch.setattr(qdrant_store.time, "time", lambda: now + 2 * qdrant_store.LEASE_S)
        waiting.start()
        assert sent.wait(60)

    def commit() -> None:
        with quick.writer() as writer:
            lease = quick._acquired_lease
            swap = lease._swap  # ty: ignore[missing-attribute] - it is one of Qdrant

            def told(*arguments: Any) -> None:
                sent.set()
                assert dropped.wait(60)
                swap(*arguments)

            lease._swap = told  # ty: ignore[missing-attribute] - the same
            put(writer, {"b.py": "tiger"})

    sent, dropped, waiting = threading.Event(), threading.Event(), threading.Thread(target=commit)
    shim.before = sleep
    fill(slow, {"a.py": "lynx"})
    dropped.set()
    waiting.join()
    reader = machine(shim.url, "reader")
    assert (holding(reader.snapshot(), "lynx"), holding(reader.snapshot(), "tiger")) == (["a.py"], ["b.py"])
    assert reader.check() == []


# -- keys --


def test_a_key_is_taken_from_the_environment_or_the_address_and_never_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = Shim(tmp_path / "server", key="hunter2").start()
    host = shim.url.removeprefix("http://")
    for key, variable, is_let_in in (
        ("", "hunter2", True),
        ("hunter2@", "", True),
        ("", "", False),
        ("other@", "hunter2", False),
    ):
        monkeypatch.setenv("QDRANT_API_KEY", variable)
        asked = QdrantStore(f"http://{key}{host}")
        if is_let_in:
            assert asked.list_repositories() == []
        else:
            with pytest.raises(StoreUnusable) as refused:
                asked.list_repositories()
            assert "QDRANT_API_KEY" in refused.value.suggestion
            assert not refused.value.retryable
        assert "hunter2" not in asked.name
        asked.close()
    shim.stop()


def test_a_key_is_not_sent_in_the_clear_beyond_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, str]] = []

    def noted(url: str, key: str) -> Any:
        sent.append((url, key))
        raise OSError("nobody there")

    monkeypatch.setenv("QDRANT_API_KEY", "hunter2")
    monkeypatch.setattr(qdrant_session, "_connect_over_http", noted)
    for address in ("https://db:6333", "http://db:6333", "qdrant://db:6333", "qdrant://localhost"):
        with pytest.raises(StoreUnavailable):
            QdrantStore(address).list_repositories()
    assert dict(sent) == {
        "https://db:6333": "hunter2",
        "http://db:6333": "",
        "http://localhost": "hunter2",
    }
    for address in ("http://hunter2@db", "qdrant://hunter2@db:6333", "http://hunter2@localhost.example.org"):
        with pytest.raises(InvalidArgument):
            QdrantStore(address)


def test_with_a_key_that_only_reads_one_can_search_and_is_told_why_one_cannot_share(
    tmp_path: Path, machine: Callable[..., SharedStore]
) -> None:
    shim = Shim(tmp_path / "server", key="writes", reading_key="reads").start()
    with_key = shim.url.replace("http://", "http://{}@")
    fill(machine(with_key.format("writes")), {"a.py": "lion"})
    reader = machine(with_key.format("reads"), "reader")
    assert holding(reader.snapshot(), "lion") == ["a.py"]
    with pytest.raises(StoreUnusable) as refused:
        fill(reader, {"b.py": "tiger"})
    assert "do not share" in refused.value.suggestion
    shim.stop()


# -- answers that are none --


@pytest.mark.parametrize(
    ("status", "why", "kind", "told"),
    [
        (500, "Service internal error: task panicked", StoreUnavailable, "task panicked"),
        (503, "<html>maintenance</html>", StoreUnavailable, "503"),
        (429, "Rate limiting exceeded", StoreUnavailable, "429"),
        (404, "no such page", StoreUnavailable, "404"),
        (400, "Wrong input: something", StoreUnusable, "Wrong input: something"),
        (413, "", StoreUnusable, "our size"),
        (500, "Service internal error: No space left on device (os error 28)", DiskFull, "no space left"),
    ],
)
def test_each_refusal_says_who_must_act(status: int, why: str, kind: type[Any], told: str, shim: Shim) -> None:
    asked = QdrantStore(shim.url)
    asked.list_repositories()

    def refuse(method: str, path: str) -> None:
        raise Refused(status, why)

    shim.before = refuse
    with pytest.raises(kind) as refused:
        asked.list_repositories()
    assert type(refused.value) is kind
    assert told in refused.value.message and refused.value.suggestion
    asked.close()


def test_what_is_no_qdrant_is_told_in_a_sentence(shim: Shim) -> None:
    def say(method: str, path: str) -> None:
        raise Refused(200, "welcome")

    asked, shim.before = QdrantStore(shim.url), say
    with pytest.raises(StoreUnavailable) as refused:
        asked.list_repositories()
    assert "not Qdrant's" in refused.value.message
    assert "\n" not in refused.value.message


def test_a_server_that_is_too_old_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    shim = Shim(tmp_path / "server", version="1.15.4").start()
    with pytest.raises(StoreUnusable) as refused:
        QdrantStore(shim.url).list_repositories()
    assert "1.16" in refused.value.suggestion
    assert shim.cluster.shards == {}
    shim.stop()


# -- sizes --


def test_the_largest_piece_passes_a_server_that_nobody_configured(shim: Shim, tmp_path: Path) -> None:
    kept, path = QdrantStore(shim.url), tmp_path / "large"
    path.write_bytes(os.urandom(remote_store.PIECE_BYTES + 1))
    with kept.acquire_lease("app", 0) as lease:
        lease.commit(0, b"m", {"large": path}, ["large"])
    assert kept.list_segment_sizes("app") == {"large": remote_store.PIECE_BYTES + 1}
    kept.fetch("app", "large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == path.read_bytes()
    kept.close()


def test_a_message_that_is_too_large_for_the_server_is_told_with_the_setting_that_helps(
    shim: Shim, tmp_path: Path
) -> None:
    kept = QdrantStore(shim.url)
    with kept.acquire_lease("app", 0) as lease, pytest.raises(StoreUnusable) as refused:
        lease.commit(0, bytes(REQUEST_BYTES_MAX), {}, [])
    assert "max_request_size_mb" in refused.value.suggestion
    assert kept.read_manifest("app").manifest is None
    kept.close()
