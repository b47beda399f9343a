"""Text search with the index of trigrams and without it: time, size, and equal answers.

    python bench/grams.py DIR                 a folder of at least 2,000 text files
    python bench/grams.py DIR --rounds 3

Both search the same list of files, with the same engine, in turns. Each round asks something new, so nothing comes from a cache; "again"
is the same question once more, "after an edit" a new question after the time of one file changed. Processor time is that of this
process and its children; it says more than the wall on a machine with other work.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import p50_p95, table
from context_engine.model import Scan, TextQuery
from context_engine.repo import FileLister, Root, find_text_engine
from context_engine.search import GramIndex, TextScanner

PATTERNS = (
    *(r"def \w+_timeout\(", "TODO|FIXME", "retry", r"class \w+Error\b", r"assert_\w+equal", "import os", "OutOfMemory"),
    *("raise NotImplementedError", r"\bdeprecat(ed|ion)\b", r"except \(.*Error", "utf-?8", r"__(init|repr)__\(self", "backoff"),
    *(r"max_?retries", r"self\._lock\b", r"sha(1|256)\(", "gitignore", r"^from typing import", r"f\"[^\"]*\{self", "xml.*parse"),
    *(r"#include <std\w+\.h>", r"\bmalloc\s*\(", "SIGKILL", r"\.decode\(", "Kelvin", r"lambda \w+:", "deadlock", r"json\.loads\("),
    *("warn_unused", r"[Tt]hread[Ll]ocal", r"if __name__ == .__main__.", r"@(static|class)method", "nonexistent_word_zq", r"\w+\d{4}\w+"),
)  # fmt: skip


def processor_s() -> float:
    """Processor time of this process and of its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Index, search, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    root = asked.folder.resolve()
    lister = FileLister(root, stale_s=3_600.0)
    listing = lister.listing()
    with tempfile.TemporaryDirectory() as cache:
        grams = GramIndex(lister, Path(cache) / "grams")
        began = processor_s()
        grams.build(listing)
        took_s = processor_s() - began
        size = sum(file.stat().st_size for file in (Path(cache) / "grams").iterdir())
        text = sum(file.size for file in listing.entries)
        print(
            f"{root.name}: {len(listing.entries):,} files, {text / 1e6:.0f} MB of text, load {os.getloadavg()[0]:.1f}"
        )
        print(f"the index: {size / 1e6:.1f} MB, {took_s:.1f} s of processor time\n")
        parts = (Root(root), lister, lambda: find_text_engine(root, lister.encoding_of))
        print(
            measured(
                TextScanner(*parts).scan,
                TextScanner(*parts, grams=grams).scan,
                asked.rounds,
                partial(edit, root, lister),
            )
        )


def edit(root: Path, lister: FileLister) -> None:
    """Give a file in the middle of the list another time."""
    files = lister.listing().entries
    file = files[len(files) // 2]
    os.utime(root / file.path, ns=(file.mtime_ns - 1_000_000, file.mtime_ns - 1_000_000))
    lister.note([file.path])


def measured(
    whole: Callable[[TextQuery], Scan], narrowed: Callable[[TextQuery], Scan], rounds: int, change: Callable[[], None]
) -> str:
    """Return the table; each pattern counts with its least time of the rounds. Raises: SystemExit for another answer."""
    searches = {"every file": whole, "with the index": narrowed, "again": narrowed, "after an edit": narrowed}
    walls: dict[str, list[float]] = {name: [] for name in searches}
    used: dict[str, list[float]] = {name: [] for name in searches}
    for number, pattern in enumerate(PATTERNS):
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in walls}
        for turn in range(rounds):
            query = TextQuery((f"{pattern}|zq{number}zq{turn}zq",), regex=True)
            answers = []
            for name, scan in searches.items():
                if name == "after an edit":
                    change()
                    query = TextQuery((f"{pattern}|zq{number}zq{turn}zq|zqedit",), regex=True)
                began, wall = processor_s(), time.perf_counter()
                answers.append(scan(query))
                taken[name].append(((time.perf_counter() - wall) * 1e3, (processor_s() - began) * 1e3))
            if any(answer != answers[0] for answer in answers):
                raise SystemExit(f"another answer with the index: {query.queries}")
        for name, pairs in taken.items():
            walls[name].append(min(wall for wall, _ in pairs))
            used[name].append(min(processor for _, processor in pairs))
    rows = []
    for name in walls:
        cells = [f"{value:.0f}" for values in (walls[name], used[name]) for value in (*p50_p95(values), max(values))]
        rows.append((name, *cells))
    head = (f"ms, {len(PATTERNS)} patterns", "wall p50", "p95", "most", "processor p50", "p95", "most")
    return table(head, rows)


if __name__ == "__main__":
    main()
