"""Compare the impact of definitions whose line a commit changed with the other files that it changed.

    python evals/renames/impact.py --mirrors DIR [--only spf13/cobra] [--commits 20]

The latest commits before the pinned one that change the line of a definition and between one and ten other files of the
language that contain its name. Next to impact: all files with the name as a word. Nothing of the repository is run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from context_engine.engine import Engine
from context_engine.errors import CallError
from context_engine.settings import Settings
from evals.references.golden import check_out
from evals.renames.renames import REPOSITORIES, SUFFIXES

CALLABLE = frozenset({"function", "method", "class", "interface", "struct", "trait"})
FILES_MAX = 10
LOOKED_AT_MAX = 1_500
DEPTHS = (1, 2)


class Task(NamedTuple):
    """A commit: the tree before it, the changed lines of each file, and what else it changed."""

    parent: str
    lines: dict[str, set[int]]


def git(mirror: Path, *words: str) -> str:
    """Return what git prints."""
    done = subprocess.run(["git", "-C", mirror, *words], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def tasks(mirror: Path, commit: str, language: str) -> Iterator[Task]:
    """Yield commits that change at least two files of a language."""
    listed = git(mirror, "log", "--no-merges", "--format=%H %P", f"-{LOOKED_AT_MAX}", commit)
    for row in listed.splitlines():
        own, _, parent = row.partition(" ")
        if not parent or " " in parent:
            continue
        lines: dict[str, set[int]] = {}
        path = ""
        for line in git(mirror, "diff", "-U0", "--no-renames", parent, own).splitlines():
            if line.startswith("--- "):
                path = line[6:] if line.startswith("--- a/") and line.endswith(SUFFIXES[language]) else ""
            elif path and (at := re.match(r"@@ -(\d+)(?:,(\d+))? ", line)):
                first, count = int(at[1]), int(at[2] or 1)
                lines.setdefault(path, set()).update(range(first, first + count))
        if 2 <= len(lines) <= FILES_MAX:
            yield Task(parent, lines)


def main() -> None:
    """Print precision and recall for each repository."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--commits", type=int, default=10)
    given = parser.parse_args()
    sums: dict[str, list[int]] = {}
    times: list[float] = []
    commits = 0
    for row in tomllib.loads(REPOSITORIES.read_text())["repositories"]:
        mirror = given.mirrors / row["name"].replace("/", "+") / "repo"
        if row["language"] not in SUFFIXES or given.only not in ("", row["name"]) or not mirror.exists():
            continue
        own: dict[str, list[int]] = {}
        done = 0
        for task in tasks(mirror, row["commit"], row["language"]):
            if done >= given.commits:
                break
            counts = judge(given.mirrors, row["name"], row["language"], task, times)
            done += bool(counts)
            for way, three in counts.items():
                own[way] = [a + b for a, b in zip(own.get(way, [0, 0, 0]), three, strict=True)]
                sums[way] = [a + b for a, b in zip(sums.get(way, [0, 0, 0]), three, strict=True)]
        commits += done
        print(row["name"], done, *[f"{way} {show(three)}" for way, three in own.items()], sep=" | ", flush=True)
    times.sort()
    print("all", commits, *[f"{way} {show(three)}" for way, three in sums.items()], sep=" | ")
    print(
        f"impact: p50 {median(times) * 1000:.0f} ms, p95 {times[int(len(times) * 0.95)] * 1000:.0f} ms, {len(times)} questions"
    )


def show(three: list[int]) -> str:
    """Return precision and recall."""
    right, wrong, missed = three
    return f"{right / max(1, right + wrong):.3f} / {right / max(1, right + missed):.3f}"


def judge(mirrors: Path, name: str, language: str, task: Task, times: list[float]) -> dict[str, list[int]]:
    """Return right, wrong and missed files for each way to find them; nothing for a commit that asks nothing."""
    folder = Path(tempfile.mkdtemp(prefix="impact-"))
    root = folder / "w"
    root.mkdir()
    try:
        check_out(mirrors, name, task.parent, root)
        settings = Settings.load(root, dict(os.environ) | {
            "CTX_EMBEDDER": "static", "CTX_WORKERS": "0", "CTX_CACHE_FOLDER": str(folder / "cache"),
            "CTX_DATA_FOLDER": str(folder / "data")})  # fmt: skip
        with Engine.open(root, settings=settings) as engine:
            changed = list(find_changed(engine, task))
            texts = {path.relative_to(root).as_posix(): path.read_text("utf-8", "replace")
                     for path in root.rglob("*") if path.suffix in SUFFIXES[language] and path.is_file()}  # fmt: skip
            words = {name.rpartition(".")[2] for _, name in changed}
            pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b") if words else None
            named = {path for path, text in texts.items() if pattern and pattern.search(text)}
            homes = {path for path, _ in changed}
            truth = (set(task.lines) & named) - homes
            if not truth:
                return {}
            engine.index.update()
            found: dict[str, set[str]] = {"by name": named - homes}
            for depth in DEPTHS:
                found[f"impact {depth}"] = set()
            for _, qualified in changed:
                for depth in DEPTHS:
                    start = time.perf_counter()
                    try:
                        traced = engine.symbols.trace(qualified, "impact", depth=depth, limit=500)
                    except CallError:
                        continue
                    times.append(time.perf_counter() - start)
                    found[f"impact {depth}"] |= {str(edge.path) for edge in traced.edges} | set(traced.tests)
            return {
                way: [len(files & truth), len(files - homes - truth), len(truth - files)]
                for way, files in found.items()
            }
    finally:
        shutil.rmtree(folder)


def find_changed(engine: Engine, task: Task) -> Iterator[tuple[str, str]]:
    """Yield the definitions whose line with the name was changed."""
    for path, lines in task.lines.items():
        try:
            outline = engine.symbols.outline(path)
        except CallError:
            continue
        for _, symbol in outline.symbols:
            if symbol.kind in CALLABLE and symbol.span.first in lines and "test" not in path.lower():
                yield path, symbol.qualified


if __name__ == "__main__":
    main()
