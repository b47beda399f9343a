"""What it would cost and win to let the database search: Qdrant's engine over HTTP and pgvector beside our own ranking.

    python bench/engines.py --tasks FILE --corpus DIR --chunks 10000 100000 [--keep DIR]

The same chunks, vectors and words for each: one large repository, made as in bench/sizes.py, is asked for times and
recall; the repositories of FILE, as they are, lie beside it and are asked for quality. Databases give two lists, by
meaning and by words, which are fused by rank; ours is what the product answers. `--keep` uses an index again that
bench/sizes.py kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import sizes
from bench.engine_layouts import DEPTH, Layout, OnPostgres, OnQdrant, Part, Wanted
from bench.measure import ms, p50_p95, places, table
from bench.one_size import NEAREST, Job
from context_engine.embedding import normalize_rows
from context_engine.engine import Engine
from context_engine.index import StaticEncoder
from context_engine.model import CHUNK_KINDS
from context_engine.search import K1, RankingView
from context_engine.search.question import Question as ParsedQuestion
from evals.retrieval.adapter import Bench
from evals.retrieval.metrics import Target, ndcg, ranks
from evals.retrieval.score import scored, targets_of

LARGE = "large"
FILTERS: tuple[Wanted, ...] = ({"kind": ("definitions",)}, {"language": ("python", "rust")})
"""As in bench/one_size.py."""
QUESTIONS = 60
"""Evenly out of all: enough for a 95th percentile."""
ROUNDS = 2
RANK_OFFSET = 60
"""Of reciprocal rank fusion, as its authors have it (Cormack, Clarke and Buettcher 2009)."""
OURS = "fetched once, ranked here"
ROWS = {
    "build_s": "put in, and made ready to be asked (s)",
    "p50_ms": "a question, p50 (ms)",
    "p95_ms": "... p95 (ms)",
    "near_p50_ms": "... its list by meaning alone, p50 (ms)",
    "filtered_p50_ms": "a question with a filter, p50 (ms)",
    "filtered_p95_ms": "... p95 (ms)",
    "recall_chunks": "nearest 15 chunks of all, found (share)",
    "recall_filtered": "... with a filter (share)",
    "ndcg": "NDCG@10 on the questions of the small repositories",
    "rss_mb": "memory of its processes that is no file's; here above Python with numpy (MB)",
    "disk_mb": "disk (MB)",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question as vector and words."""

    text: str
    vector: npt.NDArray[np.float32]
    words: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, text: str, encoder: StaticEncoder) -> Question:
        """As the product takes it apart."""
        vector = encoder.query(text)
        assert vector is not None
        return cls(text, vector, ParsedQuestion.of(text).hashes)


@dataclass(frozen=True, slots=True)
class Small:
    """A repository with questions whose answers are known, and how good ours are."""

    part: Part
    asked: list[tuple[Question, list[Target]]]
    ours: float


# -- what is put in -----------------------------------------------------------------------------------------------


def part_of(repository: str, snapshot: Any) -> Part:
    """The chunks of an index that was just built, with vectors and words as it has them."""
    assert snapshot.all_alive
    file = snapshot.chunk_file
    languages = [snapshot.languages[code] for code in snapshot.file_column("language")[file].tolist()]
    lines = zip(snapshot.chunk_column("first").tolist(), snapshot.chunk_column("last").tolist(), strict=True)
    return Part(
        repository,
        [snapshot.paths[number] for number in file.tolist()],
        list(lines),
        [CHUNK_KINDS[kind] for kind in snapshot.chunk_column("kind").tolist()],
        languages,
        normalize_rows(np.concatenate([rows.floats() for rows, _ in snapshot.static().chunk])),
        list(words_of(snapshot)),
    )


def words_of(snapshot: Any) -> Iterator[tuple[Any, Any]]:
    """(hashes, BM25 weights but for IDF) of each chunk; the words of its path count as if they stood in it once."""
    norms = RankingView(snapshot).norms("body", K1)[0]
    both = zip(snapshot.postings("body"), snapshot.postings("path"), snapshot.segments, strict=True)
    for (body, base), (path, _), segment in both:
        terms, chunks = body.pairs()
        path_terms, files = path.pairs()
        owned = np.diff(segment.chunk_starts.astype(np.intp))[files]
        firsts = np.repeat(segment.chunk_starts[files] - np.cumsum(owned) + owned, owned)
        chunks = np.concatenate([chunks, firsts + np.arange(len(firsts))]).astype(np.intp)
        hashes = np.concatenate([body.hashes[terms], np.repeat(path.hashes[path_terms], owned)])
        counts = np.concatenate([body.counts, np.ones(len(firsts))]).astype(np.float32)
        order = np.lexsort((hashes, chunks))
        chunks, hashes = chunks[order], hashes[order]
        is_new = np.ones(len(order), bool)
        is_new[1:] = (chunks[1:] != chunks[:-1]) | (hashes[1:] != hashes[:-1])
        starts = np.flatnonzero(is_new)
        weights = np.add.reduceat((counts[order] * (K1 + 1) / (counts[order] + norms[chunks + base])), starts)
        stops = np.searchsorted(chunks[starts], np.arange(1, segment.chunks))
        yield from zip(np.split(hashes[starts], stops), np.split(weights, stops), strict=True)


def small_ones(tasks: Path, corpus: Path, encoder: StaticEncoder) -> list[Small]:
    """The repositories of a tasks file, indexed and asked by the product."""
    found = []
    for repository in json.loads(tasks.read_text(encoding="utf-8")):
        folder = corpus / repository["name"] / (repository["root"] or "")
        with closing(Bench(workers=0, whole_chunks=False)) as bench:
            scores = scored(bench, folder, repository["queries"], by_file=False, misses=False)
            assert bench._engine is not None
            part = part_of(repository["name"], bench._engine.index.store.snapshot())
        asked = [
            (Question.of(each["query"], encoder), targets_of(each, by_file=False)) for each in repository["queries"]
        ]
        found.append(Small(part, asked, statistics.mean(score.ndcg for score in scores)))
    return found


def large_one(job: Job) -> Part:
    """The index that bench/sizes.py built."""
    with closing(Engine.open(job.tree, settings=job.settings("build"))) as engine:
        return part_of(LARGE, engine.index.store.snapshot())


# -- what is asked ------------------------------------------------------------------------------------------------


def answer(layout: Layout, repository: str, question: Question, wanted: Wanted) -> list[int]:
    """Both lists of a database, fused."""
    near = layout.near(repository, question.vector, wanted, DEPTH)
    return fused([near, layout.said(repository, question.words, wanted, DEPTH)])


def fused(lists: Sequence[Sequence[int]]) -> list[int]:
    """By reciprocal rank, the lower number first among equals.

    >>> fused([[1, 2], [2, 3]])
    [2, 1, 3]
    """
    scores: Counter[int] = Counter()
    for each in lists:
        for rank, number in enumerate(each, 1):
            scores[number] += 1 / (RANK_OFFSET + rank)  # ty: ignore[invalid-assignment] - a Counter of floats adds up as well
    return sorted(scores, key=lambda number: (-scores[number], number))


def measured(layout: Layout, large: Part, small: Sequence[Small], questions: Sequence[Question]) -> dict[str, float]:
    """Fill a database and ask it; what that took."""
    began = time.perf_counter()
    layout.build([large, *(each.part for each in small)])
    figures = {"build_s": time.perf_counter() - began}
    for prefix, share, chosen in (("", "recall_chunks", [{}]), ("filtered_", "recall_filtered", FILTERS)):
        took, shares = [], []
        for question, wanted in zip(questions, itertools.cycle(chosen), strict=False):
            took.append(min(ms(lambda q=question, w=wanted: answer(layout, LARGE, q, w)) for _ in range(ROUNDS)))
            shares.append(recall(large, question, wanted, layout.near(LARGE, question.vector, wanted, DEPTH)))
        figures[f"{prefix}p50_ms"], figures[f"{prefix}p95_ms"] = p50_p95(took)
        figures[share] = statistics.mean(shares)
    nearest = (ms(lambda q=each: layout.near(LARGE, q.vector, {}, DEPTH)) for each in questions)
    figures["near_p50_ms"] = p50_p95(nearest)[0]
    figures["ndcg"] = statistics.mean(quality(layout, each) for each in small)
    return figures | {"rss_mb": layout.memory_mb(), "disk_mb": layout.disk_mb()}


def recall(part: Part, question: Question, wanted: Wanted, listed: Sequence[int]) -> float:
    """The share of the nearest that pass a filter which stands at the head of a list; equal ones all count."""
    cosines = np.where(part.passing(wanted), part.vectors @ question.vector, -1)
    least = np.partition(cosines, -NEAREST)[-NEAREST] - 1e-6  # what is added up in another order
    return float((cosines[list(listed[:NEAREST])] >= least).sum()) / NEAREST


def quality(layout: Layout, small: Small) -> float:
    """NDCG@10 over the questions of a repository, each file at the place of its best chunk."""
    told = []
    for question, targets in small.asked:
        best: dict[str, dict[str, Any]] = {}
        for number in answer(layout, small.part.repository, question, {}):
            path, (first, last) = small.part.paths[number], small.part.lines[number]
            best.setdefault(path, {"path": path, "start": first, "end": last})
        told.append(ndcg(ranks(list(best.values()), targets), wanted=len(targets)))
    return statistics.mean(told)


# -- the table ----------------------------------------------------------------------------------------------------


def compared(at: Path, chosen: argparse.Namespace, chunks: int, small: Sequence[Small], encoder: StaticEncoder) -> str:
    """All figures of one size, as a table."""
    found = places(chosen.tasks, chosen.corpus)
    server = sizes.started(at / "database")
    job = sizes.prepared(at / str(chunks), found, chunks, server, 1)[sizes.ALONE]
    figures = {OURS: sizes.built(job) | sizes.told(job, "ask")}
    figures[OURS]["ndcg"] = statistics.mean(each.ours for each in small)
    large = large_one(job)
    questions = [Question.of(text, encoder) for text in job.questions[:: max(1, len(job.questions) // QUESTIONS)]]
    with tempfile.TemporaryDirectory(prefix="ctx-engines-") as name:
        mine = sizes.database(server, f"engines_{chunks}_{time.time_ns()}")
        for layout in (OnQdrant(Path(name)), OnPostgres(mine)):
            with closing(layout):
                figures[layout.name] = measured(layout, large, small, questions)
    beside = sum(len(each.part) for each in small)
    head = f"{len(large):,} chunks in one repository, {beside:,} in {len(small)} others"
    return table((head, *figures), ((ROWS[row], *(_cell(each.get(row)) for each in figures.values())) for row in ROWS))


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if value <= 1 else f"{value:.1f}"


def main() -> None:
    """Parse; index the small repositories once; for each size build, fill, ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--chunks", type=int, nargs="+", default=sizes.SIZES)
    parser.add_argument("--keep", type=Path, help="a folder where the large repository and its index stay")
    chosen = parser.parse_args()
    encoder = StaticEncoder()
    small = small_ones(chosen.tasks, chosen.corpus, encoder)
    with tempfile.TemporaryDirectory(prefix="ctx-engines-") as name:
        for chunks in chosen.chunks:
            print(
                compared((chosen.keep or Path(name)).resolve(), chosen, chunks, small, encoder), end="\n\n", flush=True
            )


if __name__ == "__main__":
    main()
