"""Workers of the queue and its database are killed again and again: no job is lost, each index is that of its files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from context_engine.errors import StoreUnavailable
from context_engine.index import StaticEncoder
from context_engine.model import Query
from context_engine.team.index_jobs import IndexSource, QueuedJob
from context_engine.team.postgres_jobs import PostgresJobs
from context_engine.team.postgres_store import PostgresStore
from context_engine.team.remote_search import RemoteSearch
from context_engine.team.remote_store import open_backend
from tests.support.databases import OwnPostgres, sql
from tests.support.trees import commit, repository, tree
from tests.team.test_index_jobs import job_environment

pytest.importorskip("psycopg", reason="no wheel of it for this system")

REPOSITORIES = 4
FILES = 12
WORKERS = 3
KILLS = int(os.environ.get("CTX_TEST_JOB_KILLS", "3"))
"""Of workers and, each third one, of the database; `CTX_TEST_JOB_KILLS=60` for a longer trial."""
PATIENCE_S = 120.0 + 20 * KILLS
ATTEMPTS_MAX = 3
"""A job whose worker dies five times in a row is given up, which is not the question here."""


@pytest.fixture
def database() -> Iterator[OwnPostgres]:
    with tempfile.TemporaryDirectory(prefix="ctx-pg-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # PostgreSQL runs as another user where the tests run as root
        server = OwnPostgres(Path(folder))
        yield server
        server.close()


class Workers:
    """Processes of `ctx job work`, each started again when it ends, as a service manager does it."""

    def __init__(self, folder: Path, address: str) -> None:
        self.ended: Counter[int] = Counter()
        self._command = [sys.executable, "-m", "context_engine", "job", "work", "--until-empty"]
        self._environment = job_environment(folder, address, CTX_EMBEDDER="static", CTX_STORE_SEARCH="1")
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def keep_running(self) -> None:
        """Start those that are missing."""
        self.ended.update(process.returncode for process in self._running if process.poll() is not None)
        self._running = [process for process in self._running if process.poll() is None]
        while len(self._running) < WORKERS:
            null = subprocess.DEVNULL
            self._running.append(
                subprocess.Popen(self._command, env=self._environment, cwd=self._folder, stdout=null, stderr=null)
            )

    def kill(self, name: str) -> bool:
        """Kill the worker of this name by SIGKILL; False when it is not one of those that run."""
        for process in self._running:
            if name.endswith(f":{process.pid}") and process.poll() is None:
                process.kill()
                process.wait()
                return True
        return False

    def stop(self) -> None:
        """Kill what runs."""
        for process in self._running:
            process.kill()
            process.wait()


def write_files(root: Path, version: int) -> Mapping[str, str]:
    """The files of a repository in a version; one of them has a word of its own."""
    body = "".join(f"def lion_{line}():\n    return {line}\n\n\n" for line in range(60))
    mark = f"def walrus_{root.name}_{version}(): ...\n"
    return {f"m{number}.py": body for number in range(FILES)} | {"mark.py": mark}


def list_jobs(address: str) -> list[QueuedJob]:
    """The queue; nothing while the database is away."""
    with suppress(StoreUnavailable), closing(PostgresJobs(address)) as jobs:
        return jobs.list_jobs()
    return []


def choose_victim(jobs: Sequence[QueuedJob], chance: random.Random) -> str:
    """The worker of a job that may still fail; none when there is no such job."""
    running = [job for job in jobs if job.state == "running"]
    if not running or max(job.attempts for job in running) > ATTEMPTS_MAX:
        return ""
    return chance.choice(running).worker


def let_time_pass(address: str, dead: str = "") -> None:
    """End the lease of a worker that was killed, and the waits after failures."""
    sql(
        address,
        "UPDATE context_engine.index_job SET due_at = now() WHERE due_at > now(); "
        f"UPDATE context_engine.index_job SET leased_until = now() WHERE worker = '{dead}' AND leased_until > now()",
    )


@pytest.mark.slow
def test_no_job_is_lost_when_workers_and_the_database_are_killed(tmp_path: Path, database: OwnPostgres) -> None:
    roots = {f"app{number}": tmp_path / f"app{number}" for number in range(REPOSITORIES)}
    version = dict.fromkeys(roots, 0)
    address, chance = database.address, random.Random(4)
    killed: Counter[str] = Counter()

    def ask_for(name: str) -> None:
        with closing(PostgresJobs(address)) as queue:
            queue.add(IndexSource(str(roots[name]), name=name))

    for name, root in roots.items():
        repository(root, write_files(root, 0))
        ask_for(name)
    workers = Workers(tmp_path, address)
    until = time.monotonic() + PATIENCE_S
    try:
        while killed.total() < KILLS or {job.state for job in list_jobs(address)} != {"done"}:
            assert time.monotonic() < until, (killed, workers.ended, list_jobs(address))
            workers.keep_running()
            time.sleep(0.05 + chance.random() / 10)
            victim = choose_victim(list_jobs(address), chance) if killed.total() < KILLS else ""
            if victim:
                name = chance.choice(sorted(roots))  # it changes, and is asked for while it may be indexed
                version[name] += 1
                tree(roots[name], write_files(roots[name], version[name]))
                commit(roots[name], f"version {version[name]}")
                ask_for(name)
                if killed.total() % 3 == 2:
                    database.kill()
                    database.start()
                    killed["database"] += 1
                elif workers.kill(victim):
                    killed["worker"] += 1
            let_time_pass(address, victim)
    finally:
        workers.stop()
    print(f"killed: {dict(killed)}; workers that ended, by exit code: {dict(workers.ended)}")
    assert killed["worker"] > killed["database"] > 0
    with closing(PostgresStore(address)) as store:
        assert {row.name.partition("/")[2] for row in store.list_repositories()} == roots.keys()
    with closing(open_backend(address, "Search")) as store:
        for name in roots:
            search = RemoteSearch(store, [name], StaticEncoder().query)
            word = f"walrus_{name}_{version[name]}"
            hits = search.find(Query(word, 5)).hits
            assert [hit.chunk.text for hit in hits[:1]] == [f"def {word}(): ..."]
            assert search.candidates(Query("lion")).living_files == FILES + 1
