"""A Qdrant over real HTTP: what is asked of it, and what it is like in trouble: away, killed, cut, refusing, too old."""

from __future__ import annotations

import json
import os
import signal
import string
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client", reason="no client of Qdrant: pip install qdrant-client")
pytest.importorskip("qdrant_edge", reason="no engine of Qdrant: pip install qdrant-edge-py")

import qdrant_edge as edge
from qdrant_client import models

from context_engine.errors import DiskFull, InvalidArgument, StorageBusy, StoreUnavailable, StoreUnusable
from context_engine.index import term_hashes
from context_engine.index.embedded_store import SCHEMA_VERSION
from context_engine.search.question import Question
from context_engine.team import qdrant_search, qdrant_session
from context_engine.team.candidate_store import CandidateQuery, FileFilter
from context_engine.team.qdrant_search import COLLECTION, QdrantSearch
from context_engine.team.qdrant_session import QdrantSession, match_value
from context_engine.team.search_rows import join_files
from context_engine.team.shared_index import SharedIndex
from tests.contracts.test_store import fill
from tests.support import preloaded
from tests.support.qdrant_shim import Cut, Refused, Shim

ROOT = Path(__file__).resolve().parents[2]
APP = f"{SCHEMA_VERSION}/app"
OpenIndex = Callable[..., SharedIndex]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    """One server: to make a collection and let go of it takes as long as ten publications."""
    started = Shim(tmp_path_factory.mktemp("server")).start()
    yield started
    started.stop()


@pytest.fixture
def shim(server: Shim) -> Iterator[Shim]:
    """A server without points, to which anything may be done."""
    yield server
    server.before = server.after = lambda method, path: None
    for shard in server.cluster.shards.values():
        shard.update(edge.UpdateOperation.delete_points_by_filter(edge.Filter()))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[OpenIndex]:
    """Opens the index of one machine, which publishes it as some repository."""
    opened: list[SharedIndex] = []

    def open_one(address: str, name: str = "one", repository: str = "app") -> SharedIndex:
        opened.append(SharedIndex(tmp_path / name, repository, search=QdrantSearch(address), publishes=True))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(shim: Shim) -> Iterator[QdrantSearch]:
    with closing(QdrantSearch(shim.url)) as opened:
        yield opened


def holding(store: QdrantSearch, words: str, *repositories: str, **more: Any) -> list[str]:
    """The paths of the candidates for some words."""
    hashes = Question.of(words).hashes.view("<i8").tolist()
    query = CandidateQuery(hashes, [[1.0] * len(hashes)] * 5, **more)
    found = store.find_candidates(repositories or [APP], query)
    return join_files([row.payload for row in found], term_hashes([])).paths


# -- what is sent --


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """Each request: its method, the end of its path, and its body."""
    requests: list[tuple[str, str, Any]] = []
    exchange = QdrantSession._exchange

    def note(self: QdrantSession, method: str, path: str, body: Any, *part: str) -> Any:
        text = qdrant_session.msgspec.json.encode(body)
        requests.append((method, path.partition("?")[0].removeprefix(f"/collections/{COLLECTION}"), json.loads(text)))
        return exchange(self, method, path, body, *part)

    monkeypatch.setattr(QdrantSession, "_exchange", note)
    return requests


MODELS: dict[tuple[str, str], tuple[Any, ...]] = {
    ("PUT", ""): (models.CreateCollection,),
    ("PUT", "/index"): (models.CreateFieldIndex,),
    ("PUT", "/points"): (models.PointsList,),
    ("POST", "/points"): (models.PointRequest,),
    ("POST", "/points/payload"): (models.SetPayload,),
    ("POST", "/points/delete"): (models.FilterSelector,),
    ("POST", "/points/scroll"): (models.ScrollRequest,),
    ("POST", "/points/query/batch"): (models.QueryRequestBatch,),
}
"""Bodies as Qdrant's own client describes them; it refuses fields that it does not know."""


def test_every_request_is_one_that_qdrant_describes(
    tmp_path: Path, machine: OpenIndex, sent: list[tuple[str, str, Any]]
) -> None:
    shim = Shim(tmp_path / "server").start()
    ci = machine(shim.url)
    fill(ci, {"src/a.py": "lion", "b.py": "lion"})
    fill(ci, {"b.py": "tiger"})
    chosen = FileFilter(["python"], ["src"], ["python"], ["^src/"], ["^b"], ["src"])
    with closing(QdrantSearch(shim.url)) as store:
        assert holding(store, "lion", filter=chosen, vector=[0.1] * 256, names=["a.py"]) == ["src/a.py"]
    ci.clear()
    shim.stop()
    seen = {(method, path) for method, path, body in sent if body is not None}
    assert seen == MODELS.keys()
    for method, path, body in sent:
        for model in MODELS.get((method, path), ()):
            model.model_validate(body)


def test_every_request_of_a_question_names_the_repositories_that_may_be_seen(
    shim: Shim, machine: OpenIndex, store: QdrantSearch, sent: list[tuple[str, str, Any]]
) -> None:
    fill(machine(shim.url, "one", "app"), {"a.py": "lion"})
    fill(machine(shim.url, "two", "other"), {"b.py": "lion"})
    sent.clear()
    store.read_statistics([APP], Question.of("lion").hashes.view("<i8").tolist())
    assert holding(store, "lion", vector=[0.1] * 256) == ["a.py"]
    store.read_texts([APP], [(1, 1)])
    asked = [each for _, _, body in sent if body for each in body.get("searches", [body])]
    assert len(asked) == 7
    for body in asked:
        (visible,) = [part["match"] for part in body["filter"]["must"] if part.get("key") == "repository"]
        assert visible == {"any": [APP]}


# -- candidates --


def test_a_file_without_a_word_of_the_question_is_found_by_its_summary(
    shim: Shim, machine: OpenIndex, store: QdrantSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = qdrant_search._file_point

    def with_card(file: Any, words: Any) -> Any:
        return point(file._replace(card=[float(file.path == "b.py")] + [0.0] * 255), words)

    monkeypatch.setattr(qdrant_search, "_file_point", with_card)
    monkeypatch.setattr(qdrant_search, "NEAR_FILES", 1)
    fill(machine(shim.url), {"a.py": "lion", "b.py": "tiger", "c.py": "lynx"})
    assert holding(store, "lion") == ["a.py"]
    assert holding(store, "lion", vector=[1.0] + [0.0] * 255) == ["a.py", "b.py"]


def test_paths_are_compared_beyond_the_first_page(shim: Shim, machine: OpenIndex, store: QdrantSearch) -> None:
    """Many better files do not pass: no part of a path says so to the engine."""
    fill(machine(shim.url), {f"src/a{number}.py": "lion lion lion" for number in range(40)} | {"docs/z.md": "# lion"})
    assert holding(store, "lion", filter=FileFilter(excluded=["^src/"]), limit=2) == ["docs/z.md"]
    assert len(holding(store, "lion", filter=FileFilter(included=["[1-3]5"]), limit=2)) == 2


def test_a_question_that_meets_a_newer_revision_reads_again(
    shim: Shim, machine: OpenIndex, store: QdrantSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ci = machine(shim.url)
    fill(ci, {"a.py": "lion", "b.py": "lion"})
    rank, left = QdrantSearch._rank_files, [1]

    def rank_late(self: QdrantSearch, *arguments: Any) -> Any:
        found = rank(self, *arguments)
        if left:
            left.pop()
            fill(ci, {"b.py": "tiger", "c.py": "lion"})
        return found

    monkeypatch.setattr(QdrantSearch, "_rank_files", rank_late)
    assert holding(store, "lion") == ["a.py", "c.py"]


def test_a_file_that_is_alive_again_is_found_again(shim: Shim, machine: OpenIndex, store: QdrantSearch) -> None:
    """An older index comes back with the same segment, of which the newer one had deleted a file."""
    fill(machine(shim.url, "one"), {"a.py": "lion", "b.py": "lion"})
    fill(machine(shim.url, "one"), {}, removed=["b.py"])
    assert holding(store, "lion") == ["a.py"]
    fill(machine(shim.url, "two"), {"a.py": "lion", "b.py": "lion"})
    assert holding(store, "lion") == ["a.py", "b.py"]


# -- away, and back --


def test_what_was_published_is_there_after_a_restart(shim: Shim, machine: OpenIndex, store: QdrantSearch) -> None:
    ci = machine(shim.url)
    fill(ci, {"a.py": "lion"})
    shim.stop()
    with pytest.raises(StoreUnavailable):
        holding(store, "lion")
    with pytest.raises(StoreUnavailable):
        fill(ci, {"b.py": "tiger"})
    shim.start()
    assert holding(store, "lion tiger") == ["a.py"]
    fill(ci, {"c.py": "tiger"})
    assert holding(store, "lion tiger") == ["a.py", "b.py", "c.py"]


REQUESTS = 14
"""Of one publication that replaces a file; a failure of the last one, which gives up the lease, is not an error."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_that_breaks_once_is_not_noticed(
    moment: str, shim: Shim, machine: OpenIndex, store: QdrantSearch
) -> None:
    """Before a request is carried out, or after it, when only the answer is lost."""
    ci = machine(shim.url)
    fill(ci, {"a.py": "begun"})
    for number in range(REQUESTS):
        _cut(shim, moment, {number})
        word = f"word{string.ascii_lowercase[number]}"
        fill(ci, {"a.py": word})
        _cut(shim, moment, set())
        assert holding(store, word) == ["a.py"]
    assert count_points(shim, "file") == 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_server_that_goes_away_between_any_two_requests_leaves_a_whole_state(
    moment: str, shim: Shim, machine: OpenIndex, store: QdrantSearch
) -> None:
    ci = machine(shim.url)
    fill(ci, {"a.py": "begun"})
    seen, letters = "begun", string.ascii_lowercase
    for number in range(REQUESTS):
        cuts, word = _cut(shim, moment, set(range(number, 1_000))), f"word{letters[number]}"
        failure = pytest.raises(StoreUnavailable) if number < REQUESTS - 1 else closing(ci)
        with failure:
            fill(ci, {"a.py": word})
        assert cuts
        _cut(shim, moment, set())
        found = [known for known in (seen, word) if holding(store, known)]
        assert len(found) == 1, "either the state before it or the state after it"
        _end_lease(shim)
        seen = f"again{letters[number]}"
        fill(ci, {"a.py": seen})
        assert holding(store, seen) == ["a.py"]
        assert [known for known in ("begun", word) if holding(store, known)] == []
    assert count_points(shim, "file") == 1, "what nobody names is gone"


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


def _end_lease(shim: Shim) -> None:
    """As if a minute had gone by."""
    with closing(QdrantSession(shim.url)) as session:
        chosen = {"must": [match_value("what", "writer")]}
        session.request("POST", f"/collections/{COLLECTION}/points/delete", {"filter": chosen})


def count_points(shim: Shim, kind: str) -> int:
    with closing(QdrantSession(shim.url)) as session:
        return len(list(session.scroll(COLLECTION, [match_value("what", kind)], ["what"])))


def test_a_server_that_does_not_answer_in_time_is_unavailable(
    shim: Shim, machine: OpenIndex, monkeypatch: pytest.MonkeyPatch, store: QdrantSearch
) -> None:
    fill(machine(shim.url), {"a.py": "lion"})
    monkeypatch.setattr(qdrant_session, "TIMEOUT_S", 1)
    monkeypatch.setattr(qdrant_session, "RETRY_MAX_S", 0.5)
    ended = threading.Event()

    def stall(method: str, path: str) -> None:
        ended.wait()

    shim.before = stall
    try:
        with pytest.raises(StoreUnavailable, match="timed out"):
            holding(store, "lion")
    finally:
        ended.set()


KILLED = """
import sys
from pathlib import Path
from tests.team.test_qdrant_search import SharedIndex, QdrantSearch, fill
store = SharedIndex(Path(sys.argv[1]), "app", search=QdrantSearch(sys.argv[2]), publishes=True)
print("go", flush=True)
for number in range(1, 10_000):
    fill(store, {"a.py": f"version number{number}", "b.py": "other " * 20_000})
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("victim", ["server", "writer"])
def test_a_kill_at_any_moment_leaves_a_whole_state(victim: str, tmp_path: Path, machine: OpenIndex) -> None:
    """Of the server's process, or of the one that writes to it."""
    server, port = _served(tmp_path / "data", 0)
    address = f"http://127.0.0.1:{port}"
    fill(machine(address), {"a.py": "version number0", "b.py": "other"})
    for trial in range(int(os.environ.get("CTX_TEST_SHARED_KILLS", "1"))):
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
        with closing(QdrantSearch(address)) as store:
            assert holding(store, "version") == ["a.py"]
            assert holding(store, "other") == ["b.py"]
        with closing(QdrantSession(address)) as session:
            chosen = {"filter": {"must": [match_value("what", "writer")]}}
            session.request("POST", f"/collections/{COLLECTION}/points/delete", chosen)
    fill(machine(address, "last"), {"a.py": "back"})
    with closing(QdrantSearch(address)) as store:
        assert holding(store, "back version other") == ["a.py"]
    server.terminate()
    server.communicate()


def _served(folder: Path, port: int) -> tuple[subprocess.Popen[Any], int]:
    """A server in a process of its own, and its port."""
    code = "from tests.support.qdrant_shim import main; main()"
    command = [sys.executable, "-c", code, str(folder), "--port", str(port)]
    process = preloaded.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, int(process.stdout.readline().rpartition(b":")[2])


# -- writers --


def test_a_writer_that_was_killed_holds_up_the_next_for_its_lease_only(
    shim: Shim, machine: OpenIndex, store: QdrantSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant_search, "LEASE_WAIT_S", 0.0)
    fill(machine(shim.url, "one"), {"a.py": "lion"})
    killed = QdrantSearch(shim.url)
    lease = killed._acquire_lease(APP)
    lease.__enter__()
    with pytest.raises(StorageBusy):
        fill(machine(shim.url, "two"), {"a.py": "tiger"})
    now = qdrant_search.time.time()
    monkeypatch.setattr(qdrant_search.time, "time", lambda: now + qdrant_search.LEASE_S + 1)
    fill(machine(shim.url, "two"), {"b.py": "tiger"})
    assert holding(store, "lion tiger") == ["a.py", "b.py"]
    lease.__exit__(None, None, None)
    killed.close()


def test_a_writer_that_wakes_up_after_its_lease_takes_nothing_from_the_next(
    shim: Shim, machine: OpenIndex, store: QdrantSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It falls asleep between its state and what it deletes; meanwhile the next one publishes."""
    slow, quick = machine(shim.url, "slow"), machine(shim.url, "quick")
    fill(slow, {"a.py": "lion"})
    now, delete = qdrant_search.time.time(), QdrantSearch._delete_unnamed

    def rest(self: QdrantSearch, *arguments: Any) -> None:
        monkeypatch.setattr(QdrantSearch, "_delete_unnamed", delete)
        monkeypatch.setattr(qdrant_search.time, "time", lambda: now + 2 * qdrant_search.LEASE_S)
        fill(quick, {"b.py": "tiger"})
        delete(self, *arguments)

    monkeypatch.setattr(QdrantSearch, "_delete_unnamed", rest)
    fill(slow, {"a.py": "lynx"})
    assert holding(store, "lion lynx tiger") == ["b.py"]
    assert count_points(shim, "terms") == 1


# -- keys and refusals --


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
        with closing(QdrantSearch(f"http://{key}{host}")) as asked:
            if is_let_in:
                assert asked.list_repositories() == []
            else:
                with pytest.raises(StoreUnusable) as refused:
                    asked.list_repositories()
                assert "QDRANT_API_KEY" in refused.value.suggestion
                assert not refused.value.retryable
            assert "hunter2" not in asked.name
    shim.stop()


def test_a_key_is_not_sent_in_the_clear_beyond_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "hunter2")
    for address, is_sent in (
        ("https://db:6333", True),
        ("http://db:6333", False),
        ("qdrant://db:6333", False),
        ("qdrant://localhost", True),
    ):
        assert ("hunter2" in QdrantSession(address)._headers.values()) == is_sent
    for address in ("http://hunter2@db", "qdrant://hunter2@db:6333", "http://hunter2@localhost.example.org"):
        with pytest.raises(InvalidArgument):
            QdrantSearch(address)


def test_a_key_that_only_reads_searches_and_does_not_publish(tmp_path: Path, machine: OpenIndex) -> None:
    shim = Shim(tmp_path / "server", key="writes", reading_key="reads").start()
    with_key = shim.url.replace("http://", "http://{}@")
    fill(machine(with_key.format("writes")), {"a.py": "lion"})
    with closing(QdrantSearch(with_key.format("reads"))) as reader:
        assert holding(reader, "lion") == ["a.py"]
    with pytest.raises(StoreUnusable) as refused:
        fill(machine(with_key.format("reads"), "two"), {"b.py": "tiger"})
    assert "do not share" in refused.value.suggestion
    shim.stop()


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
        (200, "welcome", StoreUnavailable, "not Qdrant's"),
    ],
)
def test_each_refusal_says_who_must_act(
    status: int, why: str, kind: type[Any], told: str, shim: Shim, store: QdrantSearch
) -> None:
    store.list_repositories()

    def refuse(method: str, path: str) -> None:
        raise Refused(status, why)

    shim.before = refuse
    with pytest.raises(kind) as refused:
        store.list_repositories()
    assert type(refused.value) is kind
    assert told in refused.value.message and "\n" not in refused.value.message
    assert refused.value.suggestion


def test_a_server_that_is_too_old_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    shim = Shim(tmp_path / "server", version="1.15.4").start()
    with closing(QdrantSearch(shim.url)) as store, pytest.raises(StoreUnusable) as refused:
        store.remove("app")
    assert "1.16" in refused.value.suggestion
    assert shim.cluster.shards == {}
    shim.stop()
