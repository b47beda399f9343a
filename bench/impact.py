"""Time of an impact without and with stored syntax trees.

    python bench/impact.py DIR [--names 40]

DIR is indexed first. Each question is the impact of a random function or method; its processor time is that of the
whole process. The first run starts without stored trees. The second is another process, which parses nothing that was
stored. Both must give the same answers.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from context_engine.engine import Engine
from context_engine.errors import CallError
from context_engine.settings import Settings
from context_engine.storage import user_cache_folder

SEED = 5
FILES_MAX = 400


def main() -> None:
    """Print one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", type=int, default=40)
    parser.add_argument("--ask", action="store_true", help="one run in this process, as JSON")
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(ask(options.folder, options.names)))
        return
    settings = Settings.load(options.folder)
    with Engine.open(options.folder, settings=settings) as engine:
        engine.index.update()
        engine.symbols.forget()
        index_bytes = engine.status().disk_bytes
        files = engine.status().files
    print(f"{files:,} files, index {index_bytes / 1e6:.1f} MB, {user_cache_folder()}")
    answers = []
    for label in ("nothing stored", "stored"):
        command = [sys.executable, __file__, str(options.folder), "--names", str(options.names), "--ask"]
        run = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        times = sorted(run["times"])
        p95 = times[max(0, int(len(times) * 0.95) - 1)]
        answers.append(run["answers"])
        print(
            f"{label:15} first {run['times'][0]:.3f} s  p50 {statistics.median(times):.3f} s  p95 {p95:.3f} s"
            f"  max {times[-1]:.3f} s  sum {sum(times):.1f} s  trees {run['tree_bytes'] / 1e6:.1f} MB"
        )
    print("the same answers" if answers[0] == answers[1] else "DIFFERENT ANSWERS")


def ask(folder: Path, count: int) -> dict[str, object]:
    """Return the processor seconds and the steps of each question."""
    times, answers = [], []
    with Engine.open(folder) as engine:
        for name in choose_names(engine, count):
            began = time.process_time()
            try:
                trace = engine.symbols.trace(name, "impact")
                answers.append([(edge.source, str(edge.path), edge.line, edge.certainty) for edge in trace.edges])
            except CallError as error:
                answers.append([(error.message, "", 0, "")])
            times.append(time.process_time() - began)
        store = engine.cache_folder / "trees" / "trees.db"
    return {"times": times, "answers": answers, "tree_bytes": store.stat().st_size}


def choose_names(engine: Engine, count: int) -> list[str]:
    """Return the functions and methods to ask about, at most one of a file; nothing is parsed for that."""
    engine.index.live.refresh()
    snapshot = engine.index.live.snapshot()
    if snapshot is None:
        raise SystemExit("it is not indexed")
    chance = random.Random(SEED)
    paths = sorted(snapshot.by_path)
    names: list[str] = []
    for path in chance.sample(paths, min(FILES_MAX, len(paths))):
        symbols = snapshot.outline(snapshot.by_path[path]).symbols
        inside = [symbol for symbol in symbols if symbol.kind in ("function", "method")]
        if inside:
            symbol = chance.choice(inside)
            owner = symbols[symbol.parent].name if symbol.parent >= 0 else symbol.owner
            names.append(f"{owner}.{symbol.name}" if owner else symbol.name)
    return names[:count]


if __name__ == "__main__":
    main()
