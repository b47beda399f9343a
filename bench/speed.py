"""Speed beside a peer: the lexical part of semble 0.7.0, on the same folders, taking turns in the same process.

    python bench/speed.py                                       on the packages that `make eval` fetched
    python bench/speed.py --tasks dev.json --corpus DIR         on repositories with annotated questions
    python bench/speed.py --only cold --rounds 5                one part: cold, query, edit, unchanged

The peer gets an encoder that returns zeros, so that it spends its time on files, chunks and BM25. It indexes code only
and keeps its index in memory; ours indexes every text file and writes an index that survives a crash. Figures are the
least of some rounds; a ratio below 1 means that ours is quicker.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import Place, cpu_ms, interleaved, ms, p50_p95, places, table
from context_engine.engine import Engine
from context_engine.model import Query
from context_engine.settings import Settings
from context_engine.tools import Call, search_code

TOP_K = 10
ALIKE_SHARE = 0.1
"""Folders where the two index numbers of files this close are compared on their own: the peer leaves prose and data
out."""
EDITS = 60
STILL_FILES = 5_000
NO_LOOK_MS = 600_000
"""While queries are timed nobody edits, so no answer needs a look at the files; a server has its watcher for that."""
PARTS = ("cold", "query", "edit", "unchanged")


class Zeros:
    """In place of the peer's embedding model."""

    dim = 4

    def encode(self, texts, **_):
        return np.zeros((len(texts), self.dim), np.float32)


class Peer:
    """The peer's lexical part on one folder."""

    def __init__(self, folder: Path) -> None:
        from semble.index.create import create_index_from_path
        from semble.search import _search_bm25, search

        self._create, self._bm25_of, self._search = create_index_from_path, _search_bm25, search
        self._folder = folder.resolve()

    def index(self) -> None:
        """Index the folder anew."""
        self._index, self._vectors, self.chunks, self.files = self._create(
            self._folder, Zeros(), display_root=self._folder
        )

    def bm25(self, question: str) -> None:
        """Its BM25 alone."""
        self._bm25_of(question, self._index, self.chunks, TOP_K, None)

    def search(self, question: str) -> None:
        """Its search as it is, BM25, boosts and penalties, with vectors of zeros."""
        self._search(question, Zeros(), self._vectors, self._index, self.chunks, TOP_K)

    def rank_by_words(self, question: str, limit: int) -> list[Any]:
        """Return the chunks of its search in which vectors weigh nothing, the best first."""
        found = self._search(question, Zeros(), self._vectors, self._index, self.chunks, limit, alpha=0.0)
        return [result.chunk for result in found]


class Ours:
    """The engine on one folder, each time in a cache of its own; unpacked parsers are shared, as on a user's machine."""

    def __init__(self, folder: Path, scratch: Path, *, workers: int = 0) -> None:
        self._folder, self._scratch, self._workers = folder, scratch, workers

    def open(self) -> Engine:
        """An engine without an index; its worker, when it has one, is ready."""
        cache = Path(tempfile.mkdtemp(dir=self._scratch))
        grammars = self._scratch / "grammars"
        grammars.mkdir(exist_ok=True)
        (cache / "grammars").symlink_to(grammars, target_is_directory=True)
        engine = Engine.open(
            self._folder, settings=Settings(cache_folder=cache, workers=self._workers, staleness_ms=NO_LOOK_MS)
        )
        if self._workers:
            engine.index.pool.wait_ready()
        return engine


# -- the parts ----------------------------------------------------------------------------------------------------


def cold(found: list[Place], rounds: int, scratch: Path) -> str:
    """Indexing from nothing. `first` is a new engine, which loads its parsers and queries; `again` a forced rebuild.

    Processor time is that of this process: right for the peer and for ours alone, half the story with a worker.
    """
    names = ("peer", "first", "again", "first + worker", "again + worker")
    rows, alike, wall, cpu = [], [], [], []
    for place in found:
        peer, files, chunks, times, work = _cold_one(place, rounds, scratch)
        wall.append(times)
        cpu.append(work)
        alike.append(abs(files - len(peer.files)) <= ALIKE_SHARE * files)
        sizes = f"{len(peer.files)} / {files}", f"{len(peer.chunks)} / {chunks}"
        rows.append((place.name, *sizes, *(f"{value:.0f}" for value in (*times, *work[:3]))))
    same = np.array(alike)
    for title, chosen in (("all", np.full(len(found), True)), ("where both index the same files", same)):
        if chosen.any():
            means = np.concatenate([np.mean(np.array(wall)[chosen], 0), np.mean(np.array(cpu)[chosen], 0)[:3]])
            base = np.repeat([means[0], means[5]], [5, 3])
            rows.append((f"mean of {chosen.sum()}, {title}", "", "", *(f"{value:.0f}" for value in means)))
            rows.append(("... as a ratio to the peer", "", "", *(f"{value:.2f}" for value in means / base)))
    return table(
        ("folder", "files", "chunks", *(f"{n}, ms" for n in names), *(f"{n}, cpu ms" for n in names[:3])), rows
    )


def _cold_one(
    place: Place, rounds: int, scratch: Path
) -> tuple[Peer, int, int, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """One folder: the peer, our files and chunks, the least wall and processor time of each way."""
    peer = Peer(place.folder)
    alone, helped = Ours(place.folder, scratch), Ours(place.folder, scratch, workers=1)
    wall, cpu = [], []
    with closing(alone.open()) as warm, closing(helped.open()) as warm_helped:
        report = warm.index.update(force=True)
        warm_helped.index.update(force=True)
        for number in range(2 * rounds):
            with closing(alone.open()) as fresh, closing(helped.open()) as fresh_helped:
                calls = (
                    peer.index,
                    fresh.index.update,
                    lambda: warm.index.update(force=True),
                    fresh_helped.index.update,
                    lambda: warm_helped.index.update(force=True),
                )
                clock, kept = (cpu_ms, cpu) if number % 2 else (ms, wall)
                kept.append([clock(call) for call in calls])
    return peer, report.files, report.chunks, np.min(wall, axis=0), np.min(cpu, axis=0)


def query(found: list[Place], rounds: int, scratch: Path) -> str:
    """Warm queries in process: each question's least time over some rounds, then the median and p95 over questions."""
    names = (
        "peer, BM25 alone",
        "peer, BM25 and ranking",
        "ours, ranking",
        "ours, search with hits",
        "ours, tool reply",
    )
    times: list[list[float]] = []
    for place in found:
        peer = Peer(place.folder)
        peer.index()
        with closing(Ours(place.folder, scratch).open()) as engine:
            engine.index.update()
            times += [_query_one(peer, engine, question, rounds) for question in place.questions]
    rows = [
        (name, *(f"{value:.2f}" for value in p50_p95(each)))
        for name, each in zip(names, np.transpose(times), strict=True)
    ]
    return f"{len(times)} questions\n\n" + table(("", "p50 ms", "p95 ms"), rows)


def _query_one(peer: Peer, engine: Engine, question: str, rounds: int) -> list[float]:
    """The least time of each way to answer one question."""
    searcher, asked = engine.search.searcher(), Query(question, TOP_K)
    calls = (
        lambda: peer.bm25(question),
        lambda: peer.search(question),
        lambda: searcher.rank(asked),
        lambda: engine.search.find(asked),
        lambda: search_code.call(engine, {"query": question}, Call()),
    )
    return interleaved(calls, rounds)


def edit(found: list[Place], rounds: int, scratch: Path) -> str:
    """One changed file until it can be found: a line more in each of some files, one after the other."""
    largest = max(found, key=lambda place: sum(1 for _ in place.folder.rglob("*")))
    folder = scratch / "edited"
    shutil.copytree(largest.folder, folder, symlinks=True)
    times: dict[str, list[float]] = {"index(path=...)": [], "what the watcher does": []}
    with closing(Ours(folder, scratch).open()) as engine:
        report = engine.index.update()
        paths = sorted(path for path in engine.search.searcher().snapshot.paths)[:: max(1, report.files // EDITS)]
        for _ in range(max(1, rounds // 3)):
            for number, path in enumerate(paths):
                with (folder / path).open("a", encoding="utf-8") as file:
                    file.write(f"\n// {number} more words about parcels and remotes\n")
                name = "index(path=...)" if number % 2 else "what the watcher does"
                calls = {
                    "index(path=...)": lambda p=path: engine.index.update(path=p),
                    "what the watcher does": lambda p=path: engine.index.builder.index_paths([p]),
                }
                times[name].append(ms(calls[name]))
    rows = [(name, len(values), *(f"{value:.1f}" for value in p50_p95(values))) for name, values in times.items()]
    told = f"{largest.name}, {report.files} files, {report.chunks} chunks"
    return f"{told}\n\n" + table(("", "edits", "p50 ms", "p95 ms"), rows)


def unchanged(found: list[Place], rounds: int, scratch: Path, more: list[Path]) -> str:
    """Indexing once more when nothing changed: all folders side by side, and again until there are enough files."""
    folder, copies, report = scratch / "still", 0, None
    folder.mkdir()
    with closing(Ours(folder, scratch).open()) as engine:
        while report is None or report.files < STILL_FILES:
            copies += 1
            for source in [place.folder for place in found] + more:
                shutil.copytree(source, folder / f"copy{copies}" / source.parent.name / source.name, symlinks=True)
            report = engine.index.update()
        again = [ms(engine.index.update) for _ in range(rounds)]
        sweeps = [ms(engine.index.live.scan) for _ in range(rounds)]
    rows = [
        ("the run before, with the last copies new", f"{report.seconds * 1e3:.0f}"),
        ("unchanged, least / median", f"{min(again):.0f} / {statistics.median(again):.0f}"),
        ("look for edits before an answer, least / median", f"{min(sweeps):.0f} / {statistics.median(sweeps):.0f}"),
    ]
    return f"{report.files} files, {report.chunks} chunks\n\n" + table(("", "ms"), rows)


def main() -> None:
    """Parse, run the parts, print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--more", type=Path, action="append", default=[], help="another tree for the unchanged run")
    chosen = parser.parse_args()
    found = places(chosen.tasks, chosen.corpus)
    for part in chosen.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="ctx-speed-") as name:
            arguments = [found, chosen.rounds, Path(name)]
            if part == "unchanged":
                arguments.append(chosen.more)
            run = {"cold": cold, "query": query, "edit": edit, "unchanged": unchanged}[part]
            print(f"## {part}\n\n{run(*arguments)}\n", flush=True)


if __name__ == "__main__":
    main()
