"""A served folder of chunk files: loading it, one file of it rewritten, a question, memory.

In a process of its own each.

    python bench/chunk_files.py FOLDER                  10,000 chunks of the text under FOLDER, static vectors
    python bench/chunk_files.py FOLDER --chunks 100000

Goals are those of the fourth design document: 1,000 chunks 1 MB, a reload 100 to 500 ms for a typical project, a
question of 10,000 chunks within 10 ms for the vectors, of 100,000 within 100 ms in all.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import cpu_ms, ms, p50_p95, table
from context_engine.embedding import StaticEmbedder
from context_engine.model import CHUNK_KINDS, Filter, Query
from context_engine.search import FILES, ServedChunks
from context_engine.search.chunk_files import ChunkRow, format_chunk_file
from context_engine.search.chunk_folder import write_folder
from context_engine.server.chunk_server import open_query_embedder
from context_engine.settings import Settings

CHUNKS = 10_000
CHUNK_CHARS = 1_200
QUESTIONS = (
    "where is a configuration file parsed",
    "retry policy for connections to an upstream host",
    "how are variables of a template rendered",
    "certificate renewal",
    "log level",
)
ROUNDS = 40


def pieces(folder: Path) -> Iterator[tuple[str, str]]:
    """(path, text) of pieces of the readable files under a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".git" not in path.parts and path.stat().st_size < 300_000:
            text = path.read_bytes().decode("utf-8", "replace")
            name = path.relative_to(folder).as_posix()
            yield from ((name, text[at : at + CHUNK_CHARS]) for at in range(0, len(text), CHUNK_CHARS))


def make(source: Path, folder: Path, chunks: int) -> None:
    """Write four files of as many chunks; where the text is too short it is told again."""
    static = StaticEmbedder.open_shipped()
    texts = list(islice(cycle(islice(pieces(source), chunks)), chunks))
    share = -(-chunks // len(FILES))

    def contents() -> Iterator[tuple[str, bytes]]:
        for number, kind in enumerate(CHUNK_KINDS):
            own = texts[number * share : (number + 1) * share]
            rows = [
                ChunkRow(f"{kind}-{at}", kind, Path(name).name, text, ("code", kind), {"file_path": name})
                for at, (name, text) in enumerate(own)
            ]
            vectors = static.embed([f"{name}\n{text}" for name, text in own], "passage")
            yield FILES[kind], format_chunk_file(kind, rows, vectors, model="static", fingerprint=static.fingerprint)

    write_folder(folder, contents())


def resident_mb() -> float:
    """What this process holds in memory now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def measure(folder: Path) -> dict[str, float]:
    """What one served folder costs, in this process."""
    before_mb = resident_mb()
    began = time.process_time()
    with ServedChunks(folder, lambda model: open_query_embedder(model, Settings(), {})) as served:
        loaded_ms = (time.process_time() - began) * 1e3
        count = sum(served.status().kinds.values())
        filtered = Filter(tags=("definitions",))
        asked = [
            ms(lambda text=f"{text} {number}", wanted=wanted: served.search(Query(text, 15, wanted)))
            for number in range(ROUNDS)
            for text in QUESTIONS
            for wanted in (Filter(), filtered)
        ]
        after_mb = resident_mb()
        one = folder / "code-data.json"
        one.write_bytes(one.read_bytes() + b"\n")
        reload_ms = cpu_ms(served._folder.reload)
        for name in FILES.values():
            (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
        reload_all_ms = cpu_ms(served._folder.reload)
    p50, p95 = p50_p95(asked)
    return {
        "chunks": count,
        "open, CPU ms": loaded_ms,
        "one file anew, CPU ms": reload_ms,
        "all four anew, CPU ms": reload_all_ms,
        "question p50, ms": p50,
        "question p95, ms": p95,
        "resident, MB per 1,000 chunks": (after_mb - before_mb) / count * 1_000,
    }


def main() -> None:
    """Make the folder, measure it in a fresh process, print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(asked.folder)))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(asked.folder, folder, asked.chunks)
        command = [sys.executable, __file__, str(folder), "--measure"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(table(("what", "value"), [(name, f"{value:,.1f}") for name, value in json.loads(told).items()]))


if __name__ == "__main__":
    main()
