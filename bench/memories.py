"""How long is a search over what is remembered? 5,000 memories in files, asked 200 times; prints percentiles.

    python bench/memories.py [--count 5000]

The first search indexes and embeds all of them; each later one looks at every file again, as the product does.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from context_engine.index import StaticEncoder
from context_engine.memory import KnowledgeQuery, MemoryDraft, MemoryQuery
from context_engine.memory.knowledge import Knowledge
from context_engine.memory.memories import Memories
from context_engine.memory.memory_file import LinkedFile, Memory, format_file
from context_engine.memory.memory_folder import LinkedFiles, MemoryFolder
from context_engine.memory.memory_index import MemoryIndex, TextEmbedder
from context_engine.repo import Root
from context_engine.storage import RecordFolder
from context_engine.text import uuid7

SEED = 1
ASKED = 200
FILES = 100  # linked by the memories, in turns
NOW = 1_790_000_000.0


def main() -> None:
    """Write the memories, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        chance = random.Random(SEED)
        words = [f"{first}{last}" for first in _syllables(chance, 40) for last in _syllables(chance, 40)]
        fill(Path(folder), count, words, chance)
        memories, knowledge = opened(Path(folder))
        began = time.perf_counter()
        knowledge.search(KnowledgeQuery("the first one"))
        print(f"{count:,} memories, indexed and embedded in {time.perf_counter() - began:.1f} s\n")
        print("| call | p50 ms | p95 ms |\n| --- | --- | --- |")
        questions = [" ".join(chance.choices(words, k=4)) for _ in range(ASKED)]
        show("context_search", [spent(lambda text=text: knowledge.search(KnowledgeQuery(text))) for text in questions])
        show("list_memories", [spent(lambda: memories.list_page(MemoryQuery())) for _ in range(20)])
        new = (MemoryDraft("facts", f"{text} is new {number}") for number, text in enumerate(questions[:20]))
        show("add_memory", [spent(lambda draft=draft: memories.add(draft)) for draft in new])


def _syllables(chance: random.Random, count: int) -> list[str]:
    return ["".join(chance.choices("bdfgklmnprstvz", k=1) + chance.choices("aeiou", k=1)) * 2 for _ in range(count)]


def fill(root: Path, count: int, words: list[str], chance: random.Random) -> None:
    """Write the memories as they lie in a workspace, and the files that they speak of."""
    (root / "src").mkdir()
    for number in range(FILES):
        (root / f"src/{number}.py").write_text("x = 1\n")
    (root / ".context-engine/memories/facts").mkdir(parents=True)
    for number in range(count):
        made = Memory(
            id=f"mem_{uuid7(number, chance.randbytes(10))}",
            category="facts",
            title=" ".join(chance.choices(words, k=6)),
            content=" ".join(chance.choices(words, k=60)),
            created_at="2026-01-01T00:00:00.000Z",
            updated_at="2026-01-01T00:00:00.000Z",
            linked_files=(LinkedFile(f"src/{number % FILES}.py"),),
        )
        (root / ".context-engine/memories" / made.file_name).write_text(format_file(made))


def opened(root: Path) -> tuple[Memories, Knowledge]:
    """The room as the Engine puts it together, with static vectors."""
    recall, encoder = MemoryIndex(root / "cache/recall.db"), StaticEncoder()
    shelf = MemoryFolder(
        "project", RecordFolder(root / ".context-engine", "memories"), recall, shown=".context-engine/memories"
    )
    embed = TextEmbedder(encoder.identity, lambda texts: encoder.rows(texts).floats())
    memories = Memories({"project": shelf}, LinkedFiles(Root(root)), recall, now=lambda: NOW, embed=embed)
    return memories, Knowledge(memories, now=lambda: NOW)


def spent(call) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def show(name: str, times_ms: list[float]) -> None:
    """One row of the table."""
    ordered = sorted(times_ms)
    print(f"| {name} | {ordered[len(ordered) // 2]:.1f} | {ordered[int(len(ordered) * 0.95)]:.1f} |")


if __name__ == "__main__":
    main()
