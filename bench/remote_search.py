"""Search inside a database next to a local index: quality, time, memory of the server, and whether tenants stay apart.

    python bench/remote_search.py --tasks FILE --corpus DIR [--whole] [--isolation 2000] [--database qdrant] [--copies 9]

Each repository of FILE is indexed into a PostgreSQL, or Qdrant's own engine behind HTTP, that is started for the run. All
questions and commits are put to its local index and to the database. Memory is that of fresh processes that have no
index: one asks one repository, one asks all of them; `--copies` publishes each again under so many names. Tenants see
some repositories, and their questions name files and words of others.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import p50_p95, rss_anon_mb, table
from context_engine.engine import Engine
from context_engine.index import StaticEncoder
from context_engine.model import Query
from context_engine.settings import Settings
from context_engine.team.remote_search import RemoteSearch
from context_engine.team.remote_store import open_backend
from evals.retrieval.metrics import Target, ndcg, ranks
from evals.retrieval.score import targets_of

DEPTH = 50
SETS = {"queries": "questions", "commit_queries": "commits"}
DIFFERENCE_MAX = 0.01
"""Of the means, as the requirement has it."""
SEED = 11
SEEN_MAX = 4
"""Repositories that a tenant sees."""


@dataclass(slots=True)
class Measured:
    """The results of one set of questions, in order."""

    local: list[float] = field(default_factory=list)
    remote: list[float] = field(default_factory=list)
    same: list[bool] = field(default_factory=list)
    targets: list[bool] = field(default_factory=list)
    local_s: list[float] = field(default_factory=list)
    remote_s: list[float] = field(default_factory=list)
    local_cpu_s: float = 0.0
    client_cpu_s: float = 0.0
    database_cpu_s: float = 0.0


def main() -> None:
    """Index, ask, print tables; exit with 1 when a mean differs by more than .01 or a tenant saw another one's file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--whole", action="store_true", help="whole trees instead of the annotated part of each")
    parser.add_argument("--database", choices=["postgres", "qdrant"], default="postgres")
    parser.add_argument("--copies", type=int, default=0, help="further names of each repository, for memory and time")
    parser.add_argument("--isolation", type=int, default=2_000, help="questions of tenants")
    parser.add_argument("--ask", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.ask:
        ask(*chosen.ask)
        return
    tasks = list(repositories(chosen.tasks, chosen.corpus, whole=chosen.whole))
    measured = {name: Measured() for name in SETS}
    with tempfile.TemporaryDirectory(prefix="ctx-remote-") as folder, start(chosen.database, Path(folder)) as database:
        address = database.address
        chunks = sum(measure(database, Path(folder), root, task, measured) for root, task in tasks)
        print(f"{len(tasks)} repositories, {chunks:,} chunks\n")
        failed = report(measured, chosen.database)
        names = [task["name"] for _, task in tasks]
        print_sizes(address, Path(folder))
        print_memory(address, names)
        if chosen.copies:
            names += publish_copies(address, Path(folder), tasks, chosen.copies)
            print_memory(address, names)
        failed |= isolation(address, names, tasks, chosen.isolation)
    sys.exit(failed)


@dataclass(frozen=True, slots=True)
class Database:
    """Where it listens, and the process that is it, or the parent of those that are."""

    address: str
    pid: int

    def cpu_s(self) -> float:
        """Processor time of the process and its children, those that have ended included; from /proc."""
        fields = [read_stat(path) for path in Path("/proc").iterdir() if path.name.isdigit()]
        own = [int(value) for pid, _, *times in fields if pid == self.pid for value in times]
        children = [int(value) for _, parent, *times in fields if parent == self.pid for value in times[:2]]
        return (sum(own) + sum(children)) / os.sysconf("SC_CLK_TCK")


def read_stat(process: Path) -> tuple[int, ...]:
    """A process, its parent, and its ticks: user, system, user and system of children that ended; zeros when it is gone."""
    try:
        fields = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return (0,) * 6
    return (int(process.name), int(fields[1]), *map(int, fields[11:15]))


@contextmanager
def start(database: str, folder: Path) -> Iterator[Database]:
    """An empty database that runs meanwhile."""
    if database == "postgres":
        import psycopg

        from tests.support.databases import new_database

        address = new_database()
        with psycopg.connect(address) as connection:
            ((data,),) = connection.execute("SHOW data_directory").fetchall()
        yield Database(address, int((Path(data) / "postmaster.pid").read_text().split()[0]))
        return
    command = [sys.executable, "-m", "tests.support.qdrant_shim", str(folder / "qdrant")]
    with subprocess.Popen(command, stdout=-1, text=True) as process:
        assert process.stdout is not None
        yield Database(process.stdout.readline().strip(), process.pid)
        process.terminate()


def publish_copies(
    address: str, folder: Path, tasks: Sequence[tuple[Path, dict[str, Any]]], copies: int
) -> Iterator[str]:
    """Publish each repository again from its index on this machine, under other names."""
    for root, task in tasks:
        for number in range(copies):
            name = f"{task['name']}-{number}"
            with closing(open_published(address, folder / task["name"], root, name)) as engine:
                engine.index.update()
            yield name


def repositories(tasks: Path, corpus: Path, *, whole: bool) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The repositories that are there, each with its folder."""
    for task in json.loads(tasks.read_text("utf-8")):
        root = corpus / task["name"] / ("" if whole else task["root"] or "")
        if root.is_dir():
            yield root, task


def measure(database: Database, folder: Path, root: Path, task: dict[str, Any], measured: dict[str, Measured]) -> int:
    """Publish one repository, and put its questions to both; return its chunks."""
    name, address = task["name"], database.address
    with closing(open_published(address, folder / name, root, name)) as engine:
        engine.index.update()
        snapshot = engine.index.live.snapshot()
        assert snapshot is not None
        remote = RemoteSearch(open_backend(address, "Search"), [name], StaticEncoder().query)
        remote.find(Query("warm up"))
        print(f"{name}: {snapshot.living_files:,} files", file=sys.stderr, flush=True)
        for kind, found in measured.items():
            before = database.cpu_s()
            for asked in task[kind]:
                compare(engine, remote, name, asked, found, set(snapshot.paths))
            found.database_cpu_s += database.cpu_s() - before
        return snapshot.chunks


def open_published(address: str, cache: Path, root: Path, name: str) -> Engine:
    """An engine that publishes what it indexes under a name."""
    settings = Settings(
        cache_folder=cache,
        workers=0,
        staleness_ms=600_000,
        embedder="static",
        store_url=address,
        store_repository=name,
        store_shares=True,
        store_search=True,
    )
    return Engine.open(root, settings=settings)


def compare(
    engine: Engine, remote: RemoteSearch, name: str, asked: dict[str, Any], found: Measured, paths: set[str]
) -> None:
    """Put one question to both."""
    query, targets = Query(asked["query"], DEPTH), targets_of(dict(asked), by_file=False)
    began, began_cpu = time.perf_counter(), time.process_time()
    here = engine.search.find(query)
    found.local_s.append(time.perf_counter() - began)
    found.local_cpu_s += time.process_time() - began_cpu
    began, began_cpu = time.perf_counter(), time.process_time()
    there = remote.find(query)
    found.remote_s.append(time.perf_counter() - began)
    found.client_cpu_s += time.process_time() - began_cpu
    local, distant = shown(here, 0), shown(there, len(name) + 1)
    found.local.append(ndcg(ranks(local, targets), wanted=len(targets)))
    found.remote.append(ndcg(ranks(distant, targets), wanted=len(targets)))
    found.same.append(local[:10] == distant[:10])
    candidates = set(remote.candidates(query).paths)
    known = [target for target in targets if is_there(target, paths)]
    found.targets += [is_there(target, candidates) for target in known]


def shown(answer: Any, cut: int) -> list[dict[str, Any]]:
    """The rows of an answer; `cut` characters of each path are the name of its repository."""
    return [
        {"path": str(hit.chunk.path)[cut:], "start": hit.chunk.span.first, "end": hit.chunk.span.last}
        for hit in answer.hits
    ]


def is_there(target: Target, paths: set[str]) -> bool:
    """Whether the file of a target is among these paths."""
    return any(Target(target.path).is_hit_by({"path": path, "start": 0, "end": 0}) for path in paths)


def report(measured: dict[str, Measured], database: str) -> int:
    """Print the table of both sets; 1 when a mean differs too much."""
    rows, failed = [], 0
    for kind, found in measured.items():
        here, there = statistics.mean(found.local), statistics.mean(found.remote)
        failed |= abs(here - there) > DIFFERENCE_MAX
        times = [
            f"{p50_p95(values)[0] * 1_000:.0f} / {p50_p95(values)[1] * 1_000:.0f}"
            for values in (found.local_s, found.remote_s)
        ]
        rows.append(
            [
                f"{len(found.local)} {SETS[kind]}",
                f"{here:.4f}",
                f"{there:.4f}",
                f"{sum(found.same)} of {len(found.same)}",
                f"{statistics.mean(found.targets):.4f}",
                *times,
                *(
                    f"{seconds / len(found.local) * 1_000:.1f}"
                    for seconds in (found.local_cpu_s, found.client_cpu_s, found.database_cpu_s)
                ),
            ]
        )
    head = ["", "NDCG@10 local", database, "same first ten", "recall@300", "local p50 / p95 ms", database]
    head += ["processor time of a question: local ms", "client", database]
    print(table(head, rows))
    return int(failed)


def print_sizes(address: str, folder: Path) -> None:
    """Print what the rows take in the database, next to the segments."""
    if address.startswith("http"):
        segments = sum(path.stat().st_size for path in folder.rglob("*.seg"))
        points = sum(path.stat().st_blocks * 512 for path in (folder / "qdrant").rglob("*") if path.is_file())
        print(f"\npoints and their indexes {points / 1e6:.0f} MB on disk, segments {segments / 1e6:.0f} MB")
        return
    import psycopg

    query = (
        "SELECT relname LIKE 'search%%', sum(pg_total_relation_size(c.oid)) / 1e6 FROM pg_class c JOIN pg_namespace n "
        "ON n.oid = relnamespace WHERE nspname = 'context_engine' AND relkind = 'r' GROUP BY 1"
    )
    with psycopg.connect(address) as connection:
        sizes = {bool(is_search): float(size) for is_search, size in connection.execute(query).fetchall()}
    print(f"\nrows that are searched {sizes[True]:.0f} MB, segments {sizes[False]:.0f} MB")


# -- memory --------------------------------------------------------------------------------------------------------


def print_memory(address: str, names: Sequence[str]) -> None:
    """Print the memory of fresh processes that ask one repository, and all of them."""
    for some in (names[:1], names):
        command = [sys.executable, __file__, "--ask", address, *some]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        print(f"a process that asks {len(some)} of them: {done.stdout.strip()}")


def ask(address: str, *names: str) -> None:
    """Ask 100 questions about these repositories at once; print time and anonymous memory."""
    remote = RemoteSearch(open_backend(address, "Search"), names, StaticEncoder().query)
    words = ("session", "parse", "retry", "buffer", "schedule", "encode", "request", "error", "config", "close")
    times = []
    for number in range(100):
        text = f"where is the {words[number % 10]} of a {words[number // 10]} handled"
        began = time.perf_counter()
        remote.find(Query(text, 10))
        times.append(time.perf_counter() - began)
    middle, late = p50_p95(times)
    print(f"{rss_anon_mb():.0f} MB of anonymous memory, p50 {middle * 1_000:.0f} ms, p95 {late * 1_000:.0f} ms")


# -- tenants -------------------------------------------------------------------------------------------------------


def isolation(address: str, names: Sequence[str], tasks: Sequence[tuple[Path, dict[str, Any]]], count: int) -> int:
    """Ask as tenants that see some repositories, mostly with questions to others; 1 when a hit is of another one."""
    chance, store, encoder = random.Random(SEED), open_backend(address, "Search"), StaticEncoder()
    texts = [(task["name"], asked["query"]) for _, task in tasks for kind in SETS for asked in task[kind]]
    leaks = hidden = hits = 0
    for _ in range(count):
        seen = set(chance.sample(names, chance.randint(1, min(SEEN_MAX, len(names)))))
        about, text = chance.choice(texts)
        hidden += about not in seen
        found = RemoteSearch(store, seen, encoder.query).find(Query(text, DEPTH)).hits
        hits += len(found)
        leaks += sum(hit.project not in seen for hit in found)
    print(
        f"{count:,} questions by tenants that see 1 to {SEEN_MAX} of {len(names)} repositories, {hidden:,} about one that they "
        f"do not see: {hits:,} hits, {leaks} leaks"
    )
    return int(leaks > 0)


if __name__ == "__main__":
    main()
