"""What search by meaning costs: indexing with static vectors, answers while a model reads in the background, and memory.

    python bench/meaning.py index --repo DIR                        words alone beside words and static vectors, in turns
    python bench/meaning.py fill --repo DIR --models DIR             answers without a model, while it reads, and when it has
    python bench/meaning.py rerank --repo DIR --models DIR           answers whose places have no vector yet
    python bench/meaning.py memory --repo DIR --models DIR --chunks 10000

`--models` is a folder in which `ctx model pull` made MiniLM ready (`<cache>/models`). Each figure is one process's.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ms, p50_p95, table
from context_engine.engine import Engine
from context_engine.model import Query
from context_engine.settings import Settings

ROUNDS = 5
WARM = 3
WORDS = re.compile(r"[a-z]{4,12}").findall
RELEASED_S = 900.0


@contextmanager
def opened(repo: Path, cache: Path, *, embedder: str, workers: int = 0) -> Iterator[Engine]:
    """An engine with a cache of its own."""
    settings = Settings(cache_folder=cache, embedder=embedder, workers=workers)
    with Engine.open(repo, settings=settings) as engine:
        yield engine


def questions(engine: Engine, count: int) -> list[str]:
    """Questions in words that stand in the repository: the words of symbol names, three at a time."""
    names = [name for name, _ in itertools.islice(engine.search.tags().items(), 200)]
    hits = engine.search.find(Query(" ".join(names[:8]) or "main", 50)).hits
    words = list(dict.fromkeys(word for hit in hits for word in WORDS(hit.chunk.text)))
    return [f"where is {' '.join(words[n : n + 3])} handled" for n in range(0, min(len(words) - 3, count * 3), 3)]


def index(repo: Path, rounds: int, workers: int) -> None:
    """A first index with and without static vectors, in turns; caches are thrown away each time."""
    took: dict[str, list[tuple[float, float]]] = {"none": [], "static": []}
    for _ in range(rounds):
        for embedder, times in took.items():
            with tempfile.TemporaryDirectory() as cache:
                with opened(repo, Path(cache), embedder="none", workers=workers) as engine:
                    engine.index.broken_parsers()  # unpacked once, as on a machine that has indexed before
                with opened(repo, Path(cache), embedder=embedder, workers=workers) as engine:
                    began = time.process_time()
                    wall = ms(engine.index.update)
                    times.append((wall, (time.process_time() - began) * 1e3))
                    status = engine.status()
    print(
        f"{repo.name}: {status.files:,} files, {status.chunks:,} chunks, {workers} helping processes, {rounds} rounds"
    )
    least = {name: [min(column) for column in zip(*times, strict=True)] for name, times in took.items()}
    rows = [[name, *(f"{value:,.0f}" for value in values)] for name, values in least.items()]
    rows.append(["ratio", *(f"{one / two:.2f}" for one, two in zip(least["static"], least["none"], strict=True))])
    print(table(["first index, the least of all rounds", "wall ms", "processor ms of this process"], rows))


def answers(engine: Engine, asked: list[str], rounds: int = 1) -> list[float]:
    """Milliseconds of each question."""
    return [ms(lambda text=text: engine.search.find(Query(text, 10))) for _ in range(rounds) for text in asked]


def row(name: str, times: list[float]) -> list[str]:
    """A line of a table."""
    return [name, *(f"{value:.1f}" for value in p50_p95(times))]


def fill(repo: Path, models: Path) -> None:
    """Answers without a model, while it reads in the background, and when it has read all."""
    with (
        tempfile.TemporaryDirectory() as cache,
        opened(repo, with_models(Path(cache), models), embedder="auto") as engine,
    ):
        engine.index.update()
        asked = questions(engine, 60)
        answers(engine, asked, WARM)
        rows = [row("static vectors alone", answers(engine, asked, ROUNDS))]
        engine.embeddings.start()
        while engine.status().embeddings.chunks[0] == 0 and not engine.status().embeddings.state.startswith("absent"):
            time.sleep(0.2)
        engine.search._meaning._model = None  # the background alone: what answers ask of the model is another figure
        during: list[float] = []
        for text in itertools.cycle(asked):
            during += answers(engine, [text])
            time.sleep(0.5)  # an agent reads before it asks again; the background gets its turn
            read, total = engine.status().embeddings.chunks
            if len(during) >= 3 * len(asked) or read == total:
                break
        rows.append(row("the same, while a model reads in the background", during))
        engine.search._meaning._model = engine.embeddings
        began = time.perf_counter()
        files, chunks = engine.embeddings.embed_all()
        seconds = time.perf_counter() - began
        answers(engine, asked, 1)
        rows.append(row("with the model, everything read", answers(engine, asked, ROUNDS)))
        print(f"{repo.name}: {files:,} files, {chunks:,} chunks; the last part was read in {seconds:.0f} s")
        print(table(["answers", "p50 ms", "p95 ms"], rows))


def rerank(repo: Path, models: Path) -> None:
    """Answers whose best places have no vector yet: each question is new, and the background stands still."""
    with (
        tempfile.TemporaryDirectory() as cache,
        opened(repo, with_models(Path(cache), models), embedder="auto") as engine,
    ):
        engine.index.update()
        asked = questions(engine, 80)
        answers(engine, asked, 1)
        engine.embeddings.start()
        thinker = engine.embeddings._new
        thinker.backfill.close()
        assert thinker.embedder.ensure_loaded(time.monotonic() + 30)
        store = thinker.vectors()
        times, made = [], []
        for text in asked:
            before = len(store)
            times += answers(engine, [text])
            time.sleep(1.0)  # a late batch is kept after the answer has gone
            made.append(len(store) - before)
        print(table(["answers with uncached places", "p50 ms", "p95 ms"], [row(f"{len(asked)} questions", times)]))
        print(f"vectors made for each, in time or just behind it: mean {statistics.mean(made):.1f}")


def memory(repo: Path, models: Path, chunks: int) -> None:
    """Resident memory of a process with the model loaded and a repository of so many chunks read; then after an idle time."""
    with tempfile.TemporaryDirectory() as at:
        kept = some(repo, Path(at) / "w", chunks)
        cache = with_models(Path(at) / "cache", models)
        rows = [["Python and the engine imported", f"{resident_mb():.0f}"]]
        with opened(kept, cache, embedder="auto") as engine:
            engine.index.update()
            asked = questions(engine, 40)
            answers(engine, asked)
            rows.append(["indexed, 40 answers by static vectors", f"{resident_mb():.0f}"])
            thinker = engine.embeddings
            files, read = engine.embeddings.embed_all()
        with opened(kept, cache, embedder="auto") as engine:
            engine.embeddings.start()
            thinker = engine.embeddings._new
            assert thinker.embedder.ensure_loaded(time.monotonic() + 30)
            thinker.embedder._idle_s = 2.0
            answers(engine, asked, ROUNDS)
            rows.append([f"model loaded, {read:,} chunks read, {ROUNDS * len(asked)} answers", f"{resident_mb():.0f}"])
            until = time.monotonic() + RELEASED_S
            while thinker.embedder.state == "ready" and time.monotonic() < until:
                time.sleep(0.5)
            time.sleep(2.0)  # the memory goes back a moment after
            rows.append([f"idle ({thinker.embedder.state})", f"{resident_mb():.0f}"])
        print(f"{repo.name}: {files:,} files")
        print(table(["resident memory", "MB"], rows))


def some(repo: Path, target: Path, chunks: int) -> Path:
    """A copy of about so many chunks of a repository's source files."""
    target.mkdir(parents=True)
    room = chunks * 1_000
    for path in sorted(repo.rglob("*")):
        if path.suffix in (".py", ".php", ".go", ".js", ".ts", ".rs", ".java") and path.is_file() and room > 0:
            place = target / path.relative_to(repo)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
            room -= path.stat().st_size
    return target


def with_models(cache: Path, models: Path) -> Path:
    """A cache folder in which the models are."""
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "models").symlink_to(models.resolve())
    return cache


def resident_mb() -> float:
    """Megabytes of this process that lie in memory now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """One measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["index", "fill", "rerank", "memory"])
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--chunks", type=int, default=10_000)
    chosen = parser.parse_args()
    if chosen.what == "index":
        index(chosen.repo, chosen.rounds, chosen.workers)
        return
    if chosen.models is None:
        parser.error("--models is missing")
    if chosen.what == "memory":
        memory(chosen.repo, chosen.models, chosen.chunks)
    else:
        {"fill": fill, "rerank": rerank}[chosen.what](chosen.repo, chosen.models)


if __name__ == "__main__":
    main()
