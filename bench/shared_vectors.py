"""Vectors of a model fetched from a team's database beside making them: a second machine's whole start, and the remote alone.

    python bench/shared_vectors.py REPOSITORY --models build/models     a PostgreSQL is started
    python bench/shared_vectors.py --rows 100000                        the remotes alone, with rows drawn by chance

`--models` is a folder in which `ctx model pull` made MiniLM ready. `--store` measures a database of your own instead.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import table
from context_engine.embedding import VectorSpace, hash_texts, quantize
from context_engine.engine import Engine
from context_engine.index import StaticEncoder
from context_engine.model import Query
from context_engine.semantic.embedding_backfill import EmbeddingTexts
from context_engine.semantic.missing_vectors import KINDS
from context_engine.semantic.vector_store import VectorStore
from context_engine.semantic.vector_sync import VectorSync
from context_engine.settings import Settings
from context_engine.sharing import open_vector_store
from tests.support.databases import new_database

DIMENSIONS = 384
"""MiniLM's, and those of our own table."""
ASKED = ("where are errors handled", "configuration file", "parse request headers", "test")


def main() -> None:
    """Measure, and print tables for docs/benchmarks.md."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("repository", type=Path, nargs="?")
    asked.add_argument("--models", type=Path, default=Path("build/models"))
    asked.add_argument("--rows", type=int, default=20_000)
    asked.add_argument("--store", action="append", default=[], help="the address of a database; again for several")
    chosen = asked.parse_args()
    stores = chosen.store or [new_database()]
    with tempfile.TemporaryDirectory() as folder:
        print(
            table(
                ["store", "given s", "known s", "taken s", "a vector, taken", "database"],
                remotes(stores, chosen.rows, Path(folder)),
            )
        )
        if chosen.repository:
            print()
            print(table(["store", "machine", "texts", "read by the model", "s", "by our own table", "same rows and answers"], machines(stores, chosen, Path(folder))))  # fmt: skip


def remotes(stores: Sequence[str], count: int, folder: Path) -> Generator[list[object]]:
    """So many rows given to each store, asked for, and taken by a machine that has none."""
    numbers = np.random.default_rng(9).standard_normal((count, DIMENSIONS)).astype(np.float32)
    keys, rows, space = (
        hash_texts([f"text {n}" for n in range(count)]),
        quantize(numbers),
        VectorSpace("beef", DIMENSIONS),
    )
    for number, address in enumerate(stores):
        name = f"bench-{time.time_ns()}"
        with closing(open_vector_store(address)) as remote:
            given_s = seconds(lambda here=remote, own=name: here.put(own, space, keys, rows, 1))
            known_s = seconds(lambda here=remote, own=name: here.contains(own, space, keys))
            machine = VectorStore(folder / f"machine-{number}", space)
            vector_sync = VectorSync(lambda address=address: open_vector_store(address), name)
            taken_s = seconds(lambda to=machine, by=vector_sync: by.fetch(to, keys, threading.Event()))
            assert vector_sync.fetched_count == count
            size = on_disk(address)
            remote.delete_unused(name, 1 << 30)
            vector_sync.close()
        yield [
            "PostgreSQL",
            f"{given_s:.2f}",
            f"{known_s:.2f}",
            f"{taken_s:.2f}",
            f"{taken_s / count * 1e6:.0f} µs",
            size,
        ]


def machines(stores: Sequence[str], chosen: argparse.Namespace, folder: Path) -> Generator[list[object]]:
    """A machine that embeds and shares, and another one whose vectors all come from there."""
    for number, address in enumerate(stores):
        shared: dict[str, Any] = {"store_url": address, "store_repository": f"bench-{time.time_ns()}"}
        seen: list[object] = []
        for name, shares in (("first", True), ("second", False)):
            cache = folder / f"{number}-{name}"
            cache.mkdir()
            (cache / "models").symlink_to(chosen.models.absolute())
            settings = Settings(cache_folder=cache, embedder="minilm", store_shares=shares, **shared)
            with Engine.open(chosen.repository, settings=settings) as engine:
                engine.index.update()
                took_s = seconds(engine.embeddings.embed_all)
                texts, state = texts_of(engine), engine.status().embeddings
                seen.append((rows_of(engine), answers(engine)))
                static_s = seconds(lambda made=texts: StaticEncoder().rows(made))
            made = len(set(texts)) - state.taken
            alike = "yes" if seen[0] == seen[-1] else "NO"
            yield ["PostgreSQL", name, f"{len(texts):,}", f"{made:,}", f"{took_s:.1f}", f"{static_s:.2f}", alike]


def texts_of(engine: Engine) -> list[str]:
    """What is embedded of a workspace."""
    snapshot, texts = engine.index.store.snapshot(), EmbeddingTexts(engine.files.read_once, engine.languages)
    assert snapshot is not None
    return [text for part in KINDS for text in texts.make_texts(part, snapshot, np.flatnonzero(part.alive(snapshot)))]


def rows_of(engine: Engine) -> bytes:
    """All rows of a workspace on its machine."""
    snapshot, thinker = engine.index.store.snapshot(), engine.embeddings._new
    assert snapshot is not None
    assert thinker is not None
    vectors = thinker.vectors()
    assert vectors is not None
    rows = [vectors.get(part.keys(snapshot))[0] for part in KINDS]
    return b"".join(each.values.tobytes() + each.scales.tobytes() for each in rows)


def answers(engine: Engine) -> list[list[tuple[str, int, float]]]:
    """What some questions find, with scores."""
    return [
        [(str(hit.chunk.path), hit.chunk.span.first, hit.score) for hit in engine.search.find(Query(text)).hits]
        for text in ASKED
    ]


def on_disk(address: str) -> str:
    """What a database of PostgreSQL takes for the tables of vectors and their indexes."""
    import psycopg

    with psycopg.connect(address) as connection:
        size = "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'context_engine.vector'::regclass"
        (taken,) = connection.execute(size).fetchone() or (0,)
    return f"{int(taken) / 1e6:.1f} MB"


def seconds(work: Callable[[], Any]) -> float:
    """Of one call, by the clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
