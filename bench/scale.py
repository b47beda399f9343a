"""A workspace of 100,000 chunks: queries, opening, memory and edits, each where a user would feel it.

    python bench/scale.py --corpus DIR --at /tmp/scale         make it there (once), index it, measure
    python bench/scale.py --corpus DIR --chunks 30000

Real files are put side by side under many folders; in each copy a third of the compound names is renamed, so that the
vocabulary grows as it does in a large code base. Opening, queries and memory are measured in a process of their own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ms, p50_p95, places, table

CHUNKS = 100_000
EDITS = 60
ROUNDS = 3
FILE_BYTES_MAX = 500_000
SYLLABLES = "ba de fi go lu mer nor pas qui ral sten tor vul wex yon zar".split()
COMPOUND = re.compile(r"\b[A-Za-z]+(?:_[A-Za-z]+|[a-z][A-Z][A-Za-z]*)+\b")
"""Only compound names are renamed: they are never keywords, so every file still parses."""


def renamed(text: str, copy: int) -> str:
    """The text with a third of its compound names changed, the same way all over one copy.

    >>> renamed("return find_file(the_path)", 0)
    'return find_file(the_path)'
    """

    def other(match: re.Match[str]) -> str:
        name = match[0]
        digest = hashlib.blake2b(f"{copy} {name}".encode(), digest_size=4).digest()
        if digest[0] % 3:
            return name
        word = "".join(SYLLABLES[byte % len(SYLLABLES)] for byte in digest[1:])
        return f"{name}_{word}" if "_" in name else name + word.capitalize()

    return COMPOUND.sub(other, text) if copy else text


def copied(sources: list[Path], target: Path, copy: int) -> int:
    """One more copy of all trees, in bytes; what is not text stays away."""
    written = 0
    for source in sources:
        for path in sorted(source.rglob("*")):
            if not path.is_file() or path.is_symlink() or path.stat().st_size > FILE_BYTES_MAX:
                continue
            try:
                text = path.read_bytes().decode("utf-8")
            except UnicodeDecodeError:
                continue
            place = target / f"group{copy}" / source.parent.name / source.name / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            written += place.write_bytes(renamed(text, copy).encode())
    return written


def make(sources: list[Path], at: Path, cache: Path, chunks: int) -> dict[str, float]:
    """Copy and index until there are enough chunks; figures of the last state."""
    from context_engine.engine import Engine
    from context_engine.settings import Settings

    copy, report, began = 0, None, 0.0
    with closing(Engine.open(_folder(at), settings=Settings(cache_folder=cache, workers=1))) as engine:
        while report is None or report.chunks < chunks:
            each = report.chunks / copy if report else chunks
            for _ in range(max(1, round((chunks - (report.chunks if report else 0)) / each))):
                copied(sources, at, copy)
                copy += 1
            began = time.perf_counter()
            report = engine.index.update()
        seconds = time.perf_counter() - began
        return {
            "files": report.files,
            "chunks": report.chunks,
            "last_index_s": seconds,
            "disk_mb": engine.status().disk_bytes / 1e6,
        }


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


# -- in a process of its own --------------------------------------------------------------------------------------


def rss_anon_mb() -> float:
    """Anonymous memory of this process; mapped files do not count, the system takes those back when it needs to."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) / 1024


def watch_it(at: Path, cache: Path, questions: list[str]) -> dict[str, float]:
    """Open, ask, edit; what it took. Memory is told above Python with numpy."""
    import numpy as np

    np.ones(3) @ np.ones(3)  # whatever numpy sets up on first use is numpy's
    bare = rss_anon_mb()
    from context_engine.engine import Engine
    from context_engine.model import Query
    from context_engine.settings import Settings

    figures = {"rss_imports_mb": rss_anon_mb() - bare}
    began = time.perf_counter()
    engine = Engine.open(at, settings=Settings(cache_folder=cache, workers=0, staleness_ms=600_000))
    engine.watch()  # as in a server: the watcher reports edits, no answer scans for them
    first = engine.search.find(Query(questions[0]))
    figures["open_ms"] = (time.perf_counter() - began) * 1e3
    assert first.hits
    figures["rss_first_mb"] = rss_anon_mb() - bare
    searcher = engine.search.searcher()
    ranked, asked = [], []
    for question in questions:
        query = Query(question)
        ranked.append(min(ms(lambda q=query: searcher.rank(q)) for _ in range(ROUNDS)))
        asked.append(min(ms(lambda q=query: engine.search.find(q)) for _ in range(ROUNDS)))
    figures["rank_p50_ms"], figures["rank_p95_ms"] = p50_p95(ranked)
    figures["search_p50_ms"], figures["search_p95_ms"] = p50_p95(asked)
    figures["rss_queries_mb"] = rss_anon_mb() - bare
    figures |= edited(engine, at)
    figures["rss_edits_mb"] = rss_anon_mb() - bare
    figures["look_ms"] = min(ms(engine.index.live.scan) for _ in range(ROUNDS))
    engine.close()
    return figures


def edited(engine, at: Path) -> dict[str, float]:
    """Milliseconds of taking in one edited file, for files all over the workspace, and of the first answer after it."""
    from context_engine.model import Query

    paths = engine.search.searcher().snapshot.paths
    times: dict[str, list[float]] = {"replace": [], "replace_watched": [], "after": []}
    for number, path in enumerate(paths[:: max(1, len(paths) // (2 * EDITS))][: 2 * EDITS]):
        with (at / path).open("a", encoding="utf-8") as file:
            file.write(f"\n// {number} more words about parcels and remotes {time.time_ns()}\n")
        if number % 2:
            times["replace"].append(ms(lambda p=path: engine.index.update(path=p)))
        else:
            times["replace_watched"].append(ms(lambda p=path: engine.index.builder.index_paths([p])))
        times["after"].append(ms(lambda: engine.search.find(Query("parcels and remotes"))))
    figures = {}
    for name, values in times.items():
        figures[f"{name}_p50_ms"], figures[f"{name}_p95_ms"] = p50_p95(values)
    return figures


ROWS = {
    "open_ms": "open to first answer, fresh process, imports excluded (ms)",
    "rank_p50_ms": "ranking, p50 (ms)",
    "rank_p95_ms": "ranking, p95 (ms)",
    "search_p50_ms": "search with hits, p50 (ms)",
    "search_p95_ms": "search with hits, p95 (ms)",
    "replace_watched_p50_ms": "take in one edited file as the watcher does, p50 (ms)",
    "replace_watched_p95_ms": "... p95 (ms)",
    "replace_p50_ms": "take in one edited file by index(path=...), p50 (ms)",
    "replace_p95_ms": "... p95 (ms)",
    "after_p50_ms": "first answer after an edit, p50 (ms)",
    "after_p95_ms": "... p95 (ms)",
    "look_ms": "look at every file for edits (ms)",
    "rss_imports_mb": "anonymous memory above Python with numpy: imports (MB)",
    "rss_first_mb": "... after the first answer (MB)",
    "rss_queries_mb": "... after all queries (MB)",
    "rss_edits_mb": "... after the edits (MB)",
}


def main() -> None:
    """Parse; make and index the workspace; measure it in another process; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--at", type=Path, help="where to keep workspace and index; default: a folder that is deleted")
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        asked = json.loads((chosen.measure / "questions.json").read_text(encoding="utf-8"))
        print(json.dumps(watch_it(chosen.measure / "tree", chosen.measure / "cache", asked)))
        return
    found = places(chosen.tasks, chosen.corpus)
    with tempfile.TemporaryDirectory(prefix="ctx-scale-") as name:
        at = (chosen.at or Path(name)).resolve()
        made = make(
            [place.folder.resolve() for place in found], _folder(at / "tree"), _folder(at / "cache"), chosen.chunks
        )
        questions = [question for place in found for question in place.questions]
        (at / "questions.json").write_text(json.dumps(questions), encoding="utf-8")
        print(f"{made['files']} files, {made['chunks']} chunks, index {made['disk_mb']:.0f} MB on disk\n", flush=True)
        command = [sys.executable, __file__, "--measure", str(at)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SystemExit(ran.stderr)
        figures = json.loads(ran.stdout)
        print(table((f"{len(questions)} questions", ""), ((ROWS[key], f"{figures[key]:.1f}") for key in ROWS)))


if __name__ == "__main__":
    main()
