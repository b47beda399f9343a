"""What is done with one index in a process of its own, so that memory is its alone: built, asked, edited.

See bench/sizes.py.

python bench/one_size.py build|ask|edit < JOB       figures to stdout; a job is JSON
"""

from __future__ import annotations

import itertools
import json
import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import cpu_ms, ms, p50_p95, rss_anon_mb

ROUNDS = 3
FILTERS: tuple[dict[str, Any], ...] = ({"kinds": ("definitions",)}, {"languages": ("python", "rust")})
"""Each question is asked with one of them in turn: about what something is, and about what it is written in."""
NEAREST = 15
"""How many of the nearest chunks and files a list of vectors must hold (the goal's recall@15)."""
COMPARED_EVERY = 10
"""Every tenth question is compared with brute force: at a million chunks that takes a second each."""
EDITS = 60
EDITED_CHUNKS_MAX = 12
"""The goal speaks of files with no more."""


@dataclass(frozen=True, slots=True)
class Job:
    """An index and what to ask it; on this machine when there is no address."""

    tree: str
    folder: str
    questions: tuple[str, ...]
    workers: int = 1
    address: str = ""
    repository: str = ""

    def settings(self, cache: str, *, shares: bool = False) -> Any:
        """Those of an Engine over it."""
        from context_engine.settings import Settings

        return Settings(
            cache_folder=Path(self.folder) / cache,
            workers=self.workers,
            staleness_ms=600_000,
            embedder="static",
            store_url=self.address,
            store_repository=self.repository,
            store_shares=shares,
        )


def build(job: Job) -> dict[str, float]:
    """Build the index from nothing; how long that took. Processor time is that of all its processes."""
    from context_engine.engine import Engine

    with Engine.open(job.tree, settings=job.settings("build", shares=bool(job.address))) as engine:
        began = time.perf_counter()
        report = engine.index.update()
        figures = {"build_s": time.perf_counter() - began, "files": report.files, "chunks": report.chunks}
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return figures | {"build_cpu_s": sum(each.ru_utime + each.ru_stime for each in used)}


def ask(job: Job) -> dict[str, float]:
    """Open and ask, with and without filters; what it took. Memory is told above Python with numpy.

    A shared index is asked from an empty folder: what it takes to fetch it belongs to the first answer.
    """
    import numpy as np

    np.ones(3) @ np.ones(3)  # whatever numpy sets up on first use is numpy's
    bare = rss_anon_mb()
    from context_engine.engine import Engine
    from context_engine.model import Filter, Query

    cache = "ask" if job.address else "build"
    if job.address:
        shutil.rmtree(Path(job.folder) / cache, ignore_errors=True)
    began, work = time.perf_counter(), time.process_time()
    with closing(Engine.open(job.tree, settings=job.settings(cache))) as engine:
        engine.watch()  # as in a server: the watcher reports edits, no answer scans for them
        assert engine.search.find(Query(job.questions[0])).hits
        figures = {"open_ms": (time.perf_counter() - began) * 1e3, "open_cpu_ms": (time.process_time() - work) * 1e3}
        figures["rss_first_mb"] = rss_anon_mb() - bare
        plain, filtered = [], []
        for text, chosen in zip(job.questions, itertools.cycle(FILTERS), strict=False):
            free, bound = Query(text), Query(text, filter=Filter(**chosen))
            plain.append(min(cpu_ms(lambda q=free: engine.search.find(q)) for _ in range(ROUNDS)))
            filtered.append(min(cpu_ms(lambda q=bound: engine.search.find(q)) for _ in range(ROUNDS)))
        figures["p50_ms"], figures["p95_ms"] = p50_p95(plain)
        figures["filtered_p50_ms"], figures["filtered_p95_ms"] = p50_p95(filtered)
        figures["filtered_ratio"] = figures["filtered_p50_ms"] / figures["p50_ms"]
        figures["rss_mb"] = rss_anon_mb() - bare
        figures["disk_mb"] = engine.index.store.disk_bytes() / 1e6
        return figures | recalls(engine, job.questions[::COMPARED_EVERY])


def edit(job: Job) -> dict[str, float]:
    """Change files and take them in as a watcher does, which is not at work here; then change them back."""
    from context_engine.engine import Engine
    from context_engine.model import Query

    clock = ms if job.address else cpu_ms
    with closing(Engine.open(job.tree, settings=job.settings("build", shares=bool(job.address)))) as engine:
        assert engine.search.find(Query(job.questions[0])).hits
        snapshot = engine.search.searcher().snapshot
        small = (snapshot.chunk_starts[1:] - snapshot.chunk_starts[:-1] <= EDITED_CHUNKS_MAX) & snapshot.file_alive
        paths = [snapshot.paths[number] for number in small.nonzero()[0].tolist()]
        took, after = [], []
        for number, path in enumerate(paths[:: max(1, len(paths) // EDITS)][:EDITS]):
            file = Path(job.tree) / path
            before = file.read_bytes()
            for content in (before + f"\n// {number} more words about parcels and remotes\n".encode(), before):
                file.write_bytes(content)
                took.append(clock(lambda p=path: engine.index.builder.index_paths([p])))
                after.append(clock(lambda: engine.search.find(Query("parcels and remotes"))))
        engine.index.builder.merge_segments()
    figures = {}
    figures["replace_p50_ms"], figures["replace_p95_ms"] = p50_p95(took)
    figures["after_p50_ms"], figures["after_p95_ms"] = p50_p95(after)
    return figures


# -- what lists of vectors hold, beside brute force ---------------------------------------------------------------


def recalls(engine: Any, questions: Sequence[str]) -> dict[str, float]:
    """The share of the nearest files and chunks that the lists hold which the ranking sees, with a filter and without."""
    import numpy as np

    from context_engine.model import Filter, Query
    from context_engine.search.semantic_scores import SemanticRanker

    class Heard(SemanticRanker):
        """Keeps what was said last."""

        def by_static(self, *asked: Any) -> Any:
            self.allowed, self.near = asked[-1], super().by_static(*asked)
            return self.near

    searcher = engine.search.searcher()
    snapshot, query_vector = searcher.snapshot, searcher.meaning._static
    heard = searcher.meaning = Heard(query_vector)
    parts = snapshot.static()
    shares: dict[str, list[float]] = {"recall_files": [], "recall_chunks": [], "recall_filtered": []}
    for text, chosen in zip(questions, itertools.cycle(FILTERS), strict=False):
        vector = query_vector(text)
        files, chunks = nearness(parts.summary, vector), nearness(parts.chunk, vector)
        searcher.rank(Query(text))
        shares["recall_files"].append(held(heard.near.files["static_card"], files, snapshot.file_alive))
        shares["recall_chunks"].append(held(heard.near.chunk, chunks, snapshot.chunk_alive))
        searcher.rank(Query(text, filter=Filter(**chosen)))
        shares["recall_filtered"].append(held(heard.near.chunk, chunks, heard.allowed))
    return {name: float(np.mean(values)) for name, values in shares.items()}


def nearness(parts: Sequence[tuple[Any, int]], query: Any) -> Any:
    """The cosine of every row of all parts, by nothing but a product."""
    import numpy as np

    return np.concatenate([(rows.values @ query.astype(np.float64)) * rows.scales for rows, _ in parts])


def held(listed: Any, exact: Any, passing: Any) -> float:
    """How many of the greatest listed values are among the greatest exact ones of those that pass; equal ones all count."""
    import numpy as np

    exact, listed = np.where(passing, exact, -1), np.where(passing, listed, -1)
    wanted = min(NEAREST, int((exact > 0).sum()))
    if not wanted:
        return 1.0
    least = np.partition(exact, -wanted)[-wanted] - 1e-6  # cosines are rounded to six digits
    best = np.argsort(-listed, kind="stable")[:wanted]
    return float(((exact[best] >= least) & (listed[best] > 0)).mean())


STEPS: dict[str, Callable[[Job], dict[str, float]]] = {"build": build, "ask": ask, "edit": edit}


if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](Job(**json.load(sys.stdin)))))
