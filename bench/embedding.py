"""How fast an embedder on this machine is, how soon it is there, and what it weighs: the "must hold" list of its design.

    python bench/embedding.py                            MiniLM, on one core and on two
    python bench/embedding.py --provider static          the table
    python bench/embedding.py --only start,rerank        some parts: start, fill, rerank
    python bench/embedding.py --models DIR               where `ctx models pull` put it; default: build/models, then the cache

Texts are the functions of this repository's own package, cut to a chunk's size, each a different one. `start` is measured
in new processes, numpy already imported, because every server has it; memory is the most that a new process held.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ROOT, cpu_ms, ms, p50_p95, table
from context_engine.embedding.embedder import Choice, Embedder
from context_engine.embedding.minilm import MiniLM
from context_engine.embedding.model_files import MINILM, require_present
from context_engine.embedding.registry import open_embedder
from context_engine.store.place import user_cache_folder

PARTS = ("start", "fill", "rerank")
CHUNK_CHARS = 1_200
"""Chunks are 1,000 to 1,500 characters."""
CANDIDATES = 24
"""Eight files, three chunks each: what is embedded while a query waits."""
QUERY = "where are passwords hashed"
GOALS = {
    "minilm": "goals: load + first query 0.5 s, memory 200 MB, 300 texts/s (10,000 in 35 s), 20 uncached texts p95 120 ms",
    "static": "goals: 10,000 texts a second of processor time, 100,000 in 10 s",
}
CHILD = """
import json, sys, time
import numpy
from pathlib import Path
from context_engine.embedding.embedder import Choice
from context_engine.embedding.registry import open_embedder
before = time.perf_counter()
embedder = open_embedder(Choice(sys.argv[1], models_folder=Path(sys.argv[2])))
embedder.embed([sys.argv[3]], "query")
ready = time.perf_counter() - before
embedder.embed(json.load(sys.stdin), "passage")
def memory(name):
    return next(int(line.split()[1]) / 1e3 for line in open("/proc/self/status") if line.startswith(name))
most = memory("VmHWM")
embedder.close()
print(json.dumps([ready * 1e3, most, memory("VmRSS")]))
"""


def chunks() -> Iterator[str]:
    """Different texts without end: the functions of this package, round after round under another name."""
    sources = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "context_engine").rglob("*.py"))]
    functions = [
        (node.name, ast.get_source_segment(source, node) or "")
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    ]
    number = 0
    while True:
        yield from (f"{name} {number}\n{code}"[:CHUNK_CHARS] for name, code in functions)
        number += 1


# -- the parts ----------------------------------------------------------------------------------------------------


def start(provider: str, models: Path, rounds: int) -> str:
    """Load and first query, and memory, each round in a new process."""
    given = chunks()
    some = json.dumps([next(given) for _ in range(200)])
    words = [sys.executable, "-c", CHILD, provider, str(models), QUERY]
    told = [
        json.loads(subprocess.run(words, input=some, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
        for _ in range(rounds)
    ]
    ready, most, after = zip(*told, strict=True)
    head = ("load + first query ms, median", "worst", "memory MB, most", "after close")
    return table(head, [[f"{value:.0f}" for value in (statistics.median(ready), max(ready), max(most), max(after))]])


def fill(embedders: dict[str, Embedder], count: int) -> str:
    """Many texts in calls of 256, as the background worker makes them."""
    rows = []
    for name, embedder in embedders.items():
        given = chunks()
        calls = [[next(given) for _ in range(min(256, count))] for _ in range(-(-count // 256))]
        embedder.embed(calls[0][:8], "passage")
        began, worked = time.perf_counter(), time.process_time()
        for texts in calls:
            embedder.embed(texts, "passage")
        wall, cpu, done = time.perf_counter() - began, time.process_time() - worked, sum(map(len, calls))
        rows.append((name, done, f"{done / wall:,.0f}", f"{done / cpu:,.0f}", f"{10_000 * wall / done:,.1f}"))
    return table(("", "texts", "texts/s", "texts per CPU s", "10,000 take s"), rows)


def rerank(embedders: dict[str, Embedder], rounds: int) -> str:
    """One query and its candidates, none of which was embedded before."""
    rows = []
    for name, embedder in embedders.items():
        given = chunks()
        embedder.embed([QUERY], "query")
        for count in (1, 20, CANDIDATES):
            sets = [[next(given) for _ in range(count)] for _ in range(rounds)]
            wall = p50_p95([ms(partial(embedder.embed, texts, "passage")) for texts in sets])
            cpu = p50_p95([cpu_ms(partial(embedder.embed, texts, "passage")) for texts in sets])
            rows.append((name, count, *(f"{value:.1f}" for value in (*wall, *cpu))))
    return table(("", "texts", "ms p50", "p95", "CPU ms p50", "p95"), rows)


def lengths(embedder: MiniLM, count: int) -> str:
    """How long the texts are in the model's own tokens: what decides every figure."""
    _, cutter = embedder._ready()
    given = chunks()
    found = [len(cutter.ids(next(given))) for _ in range(count)]
    at_most = sum(each == embedder.tokens_max for each in found) / count
    return f"texts of {statistics.mean(found):.0f} tokens on average, {at_most:.0%} cut at {embedder.tokens_max}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=tuple(GOALS), default="minilm")
    parser.add_argument("--models", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--texts", type=int, default=2_048)
    parser.add_argument("--rounds", type=int, default=25)
    asked = parser.parse_args()
    folders = [asked.models] if asked.models else [ROOT / "build" / "models", user_cache_folder() / "models"]
    models = next((folder for folder in folders if (folder / MINILM.folder).is_dir()), folders[-1])
    embedders = opened(asked.provider, models)
    print(GOALS[asked.provider], "\n")
    for each in embedders.values():
        if isinstance(each, MiniLM):
            print(lengths(each, min(asked.texts, 1_000)), "\n")
            break
    parts = {
        "start": lambda: start(asked.provider, models, min(asked.rounds, 9)),
        "fill": lambda: fill(embedders, asked.texts),
        "rerank": lambda: rerank(embedders, asked.rounds),
    }
    for part in asked.only.split(","):
        print(f"## {part}\n\n{parts[part]()}\n", flush=True)


def opened(provider: str, models: Path) -> dict[str, Embedder]:
    """What is measured, by the name of its row."""
    if provider == "minilm":
        folder = require_present(models, MINILM)
        return {f"minilm, {threads} thread{'s' * (threads > 1)}": MiniLM(folder, threads=threads) for threads in (1, 2)}
    embedder = open_embedder(Choice(provider))
    assert embedder is not None
    return {provider: embedder}


if __name__ == "__main__":
    main()
