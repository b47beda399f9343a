"""What the documents promise of memory and one test can show: how much a process grows with its index (Linux)."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from context_engine.index import segment
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.segment import Heap
from tests.support.engines import cache_for, indexed
from tests.support.trees import tree

ASK = """
import sys
from pathlib import Path
from context_engine.engine import Engine
from context_engine.model import Query
from context_engine.settings import Settings

with Engine.open(sys.argv[1], settings=Settings(cache_folder=Path(sys.argv[2]), workers=0)) as engine:
    for number in range(20):
        assert engine.search.find(Query(f"how is part {number} of a pool drained")).hits
    status = Path("/proc/self/status").read_text()
    held = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    print(engine.status().chunks, held.split()[1])
"""


def held_kb(root: Path) -> tuple[int, int]:
    """Chunks of an index, and the kilobytes that a process of its own holds after twenty answers."""
    asked = [sys.executable, "-c", ASK, str(root), str(cache_for(root))]
    chunks, kilobytes = subprocess.run(asked, capture_output=True, check=True, text=True).stdout.split()
    return int(chunks), int(kilobytes)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_thousand_chunks_more_need_no_more_than_a_megabyte(tmp_path: Path) -> None:
    held = []
    for files in (20, 400):
        page = "".join(f"def part_{n}(pool):\n    return drain(pool, {n})  # {'word ' * 150}\n\n\n" for n in range(20))
        root = tree(tmp_path / f"w{files}", {f"src/part_{n}.py": page for n in range(files)})
        with indexed(root):
            pass
        held.append(held_kb(root))
    (few, small), (many, large) = held
    assert many > few + 5_000
    assert (large - small) / (many - few) < 1.0, "kilobytes a chunk"


def multiply(root: Path, store: EmbeddedStore, times: int) -> None:
    """Each file so many times, and its place in the index as well: a hundred thousand chunks without reading as many."""
    snapshot = store.snapshot()
    assert snapshot is not None
    with store.writer() as writer:
        for copy in range(1, times):
            (root / f"copy_{copy}").mkdir()
            for part in snapshot.segments:
                before = part.heaps["path"].texts()
                paths = [f"copy_{copy}/{path.rpartition('/')[2]}" for path in before]
                for one, other in zip(before, paths, strict=True):
                    (root / other).hardlink_to(root / one)
                number, file = writer.new_segment()
                heap = Heap.of([path.encode() for path in paths])
                segment.write(replace(part, heaps=part.heaps | {"path": heap}), file)
                writer.put([number])
        writer.compact(everything=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_hundred_thousand_chunks_are_searched_within_150_megabytes(tmp_path: Path) -> None:
    """All of the process, Python and libraries included. How long a query takes is measured by bench/sizes.py."""
    page = "".join(f"def part_{n}(pool):\n    return drain(pool, {n})  # {'word ' * 150}\n\n\n" for n in range(20))
    root = tree(tmp_path / "w", {f"src/part_{n}.py": page for n in range(100)})
    with indexed(root) as engine:
        store = engine.index.store
        assert isinstance(store, EmbeddedStore)
        multiply(root, store, 1 + 100_000 // engine.status().chunks)
    chunks, kilobytes = held_kb(root)
    assert chunks >= 100_000
    assert kilobytes < 150_000
