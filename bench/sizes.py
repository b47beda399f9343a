"""An index as it grows, on this machine alone and on a PostgreSQL that is shared: building, asking, memory, disk.

    python bench/sizes.py --tasks FILE --corpus DIR --chunks 10000 100000     without --store a PostgreSQL is started

The files are made as in bench/scale.py: real ones side by side, with other names in each copy. Each index is built from
nothing, once. Questions are asked in a process of its own that begins with an empty folder where the index is shared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import Place, ms, p50_p95, places, table
from bench.scale import copied, rss_anon_mb

SIZES = (10_000, 100_000)
CHUNK_BYTES = 1_000
"""Of the development repositories' files for each chunk, measured; what comes out is told."""
ROUNDS = 3
FILTERS: tuple[dict[str, Any], ...] = ({"kinds": ("definitions",)}, {"languages": ("python", "rust")})
"""Each question is asked with one of them in turn: about what something is, and about what it is written in."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Where an index is: on this machine when there is no address."""

    folder: Path
    address: str = ""
    repository: str = ""

    def settings(self, cache: str, *, shares: bool = False) -> Any:
        """Those of an Engine over it."""
        from context_engine.engine import Settings

        return Settings(
            cache_folder=self.folder / cache,
            workers=1,
            staleness_ms=600_000,
            embedder="static",
            store_url=self.address,
            store_repository=self.repository,
            store_shares=shares,
        )


def grown(found: Sequence[Place], tree: Path, chunks: int) -> None:
    """Files for about so many chunks: one repository after the other, then a copy of each with other names."""
    for copy, place in steps(found):
        if size_of(tree) >= chunks * CHUNK_BYTES:
            return
        copied([place.folder.resolve()], tree, copy)


def steps(found: Sequence[Place]) -> Iterator[tuple[int, Place]]:
    """(number of the copy, what to copy), without end."""
    return ((copy, place) for copy in itertools.count() for place in found)


def size_of(tree: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())


def built(tree: Path, kept: Kept) -> dict[str, float]:
    """Build the index from nothing; how long that took and what it takes."""
    from context_engine.engine import Engine

    with Engine.open(tree, settings=kept.settings("build", shares=bool(kept.address))) as engine:
        began = time.perf_counter()
        report = engine.index()
        figures = {"build_s": time.perf_counter() - began, "files": report.files, "chunks": report.chunks}
        return figures | {"disk_mb": engine.status().disk_bytes / 1e6}


def asked(tree: Path, kept: Kept, questions: Sequence[str]) -> dict[str, float]:
    """Open and ask, with and without filters; what it took. Memory is told above Python with numpy."""
    import numpy as np

    np.ones(3) @ np.ones(3)  # whatever numpy sets up on first use is numpy's
    bare = rss_anon_mb()
    from context_engine.engine import Engine, Filter, Query

    began = time.perf_counter()
    engine = Engine.open(tree, settings=kept.settings("ask" if kept.address else "build"))
    engine._live.watching = True  # as in a server: the watcher tells of edits, no answer sweeps
    assert engine.search(Query(questions[0])).hits
    figures = {"open_ms": (time.perf_counter() - began) * 1e3}
    plain, filtered = [], []
    for text, chosen in zip(questions, itertools.cycle(FILTERS), strict=False):
        free, bound = Query(text), Query(text, filter=Filter(**chosen))
        plain.append(min(ms(lambda q=free: engine.search(q)) for _ in range(ROUNDS)))
        filtered.append(min(ms(lambda q=bound: engine.search(q)) for _ in range(ROUNDS)))
    figures["p50_ms"], figures["p95_ms"] = p50_p95(plain)
    figures["filtered_p50_ms"], figures["filtered_p95_ms"] = p50_p95(filtered)
    figures["rss_mb"] = rss_anon_mb() - bare
    engine.close()
    return figures


def asked_apart(tree: Path, kept: Kept, questions: Sequence[str]) -> dict[str, float]:
    """The same in a process of its own."""
    told = {"tree": str(tree), "kept": asdict(kept) | {"folder": str(kept.folder)}, "questions": list(questions)}
    ran = subprocess.run(
        [sys.executable, __file__, "--ask"], input=json.dumps(told), capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    return json.loads(ran.stdout)


def answer() -> None:
    """The questions of stdin, the figures to stdout."""
    told = json.load(sys.stdin)
    kept = Kept(**told["kept"] | {"folder": Path(told["kept"]["folder"])})
    print(json.dumps(asked(Path(told["tree"]), kept, told["questions"])))


def in_depot_mb(kept: Kept) -> float:
    """What the database takes for it, as that counts."""
    import psycopg

    with psycopg.connect(kept.address, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return row[0] / 1e6 if row else 0.0


def both(at: Path, found: Sequence[Place], chunks: int, address: str) -> tuple[dict[str, float], dict[str, float]]:
    """The figures of one size: on this machine alone, and shared."""
    tree = at / "tree"
    grown(found, tree, chunks)
    questions = [question for place in found for question in place.questions]
    alone = Kept(at / "alone")
    shared = Kept(at / "shared", address, f"sizes-{chunks}-{time.time_ns()}")
    empty_mb = in_depot_mb(shared)
    here, there = (built(tree, kept) | asked_apart(tree, kept, questions) for kept in (alone, shared))
    return here, there | {"depot_mb": in_depot_mb(shared) - empty_mb}


ROWS = {
    "build_s": "build from nothing (s)",
    "open_ms": "open to first answer, fresh process; shared: all is fetched (ms)",
    "p50_ms": "a question, p50 (ms)",
    "p95_ms": "... p95 (ms)",
    "filtered_p50_ms": "a question with a filter, p50 (ms)",
    "filtered_p95_ms": "... p95 (ms)",
    "rss_mb": "anonymous memory above Python with numpy (MB)",
    "disk_mb": "disk here (MB)",
    "depot_mb": "disk of the database (MB)",
}


def report(alone: dict[str, float], shared: dict[str, float]) -> str:
    """The table of one size."""
    head = (f"{alone['files']:,} files, {alone['chunks']:,} chunks", "this machine", "PostgreSQL")
    return table(head, ((ROWS[key], *(_cell(each.get(key)) for each in (alone, shared))) for key in ROWS))


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def main() -> None:
    """Parse; for each size make the files, build both indexes, ask both; print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--chunks", type=int, nargs="+", default=SIZES)
    parser.add_argument("--store", default="", help="the address of an empty database")
    parser.add_argument("--ask", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.ask:
        answer()
        return
    from tests.databases import new_database

    found = places(chosen.tasks, chosen.corpus)
    for chunks in chosen.chunks:
        with tempfile.TemporaryDirectory(prefix="ctx-sizes-") as name:
            figures = both(Path(name).resolve(), found, chunks, chosen.store or new_database())
        print(report(*figures), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
