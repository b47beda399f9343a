"""How much a review says of real commits: findings per commit and seconds per review, at the defaults, over whole histories.

    python evals/noise/noise.py REPOSITORY [REPOSITORY ...] [--commits 100] [--newest 2000] [--show]

Commits are taken evenly from the newest two thousand that are no merges and touch at most fifty files. Each is reviewed
as `review_git_diff` with its hash as the target: against its own parent, with the tree as it was then. What is told is
what a user would have read; somebody has to read it and say whether it was right, which is what --show is for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from context_engine.model import Finding
from context_engine.repo import DiffRequest, Git
from context_engine.review import PRIORITIES, ReviewOptions
from context_engine.settings import Settings

FILES_MAX = 50
TARGET_PER_COMMIT, TARGET_P95_S = 0.6, 2.0


def chosen(git: Git, count: int, newest: int) -> list[str]:
    """Evenly spaced commits of the newest, oldest last."""
    said = git.run("log", f"--max-count={newest}", "--no-merges", "--min-parents=1", "--format=%H", "HEAD").decode()
    hashes = said.split()
    step = max(1, len(hashes) // count)
    return hashes[::step][:count]


def reviewed(repository: Path, count: int, newest: int, options: ReviewOptions) -> dict[str, Any]:
    """What the reviews of one repository come to."""
    rows: list[tuple[str, Finding]] = []
    seconds: list[float] = []
    worked: list[float] = []
    slow: Counter[str] = Counter()
    left_out = partly = 0
    with (
        tempfile.TemporaryDirectory(prefix="ctx-noise-") as cache,
        Engine.open(repository, settings=Settings(cache_folder=Path(cache))) as engine,
    ):
        for commit in chosen(Git(repository), count, newest):
            began, work = time.perf_counter(), cpu_s()
            try:
                taken, result = engine.reviews.review_git(DiffRequest(commit), options)
            except ContextEngineError as error:
                print(f"  {commit[:10]} {error.code}: {error.message}", file=sys.stderr)
                continue
            if len(taken.files) > FILES_MAX:
                left_out += 1
                continue
            seconds.append(time.perf_counter() - began)
            worked.append(cpu_s() - work)
            partly += result.is_partial
            slow.update(dict(result.ms))
            rows += [(commit, finding) for finding in result.findings]
    return {
        "repository": repository.name,
        "commits": len(seconds),
        "left_out": left_out,
        "partial": partly,
        "findings": len(rows),
        "per_commit": round(len(rows) / max(1, len(seconds)), 3),
        "p50_s": round(statistics.median(seconds), 3),
        "p95_s": p95(seconds),
        "max_s": round(max(seconds), 3),
        "cpu_p50_s": round(statistics.median(worked), 3),
        "cpu_p95_s": p95(worked),
        "rules": dict(Counter(finding.rule for _, finding in rows).most_common()),
        "ms": {name: round(ms / len(seconds), 1) for name, ms in slow.items()},
        "rows": rows,
    }


def cpu_s() -> float:
    """The processor's seconds of this process and of what it waited for: those of the clock are those of a busy machine."""
    return sum(os.times()[:4])


def p95(values: Sequence[float]) -> float:
    """What nineteen of twenty stay below."""
    return round(sorted(values)[int(0.95 * (len(values) - 1))], 3)


def shown(commit: str, finding: Finding) -> str:
    """One finding, to be judged by a reader."""
    head = f"{commit[:10]} {finding.path}:{finding.span.first} {PRIORITIES[finding.priority]} {finding.rule} ({finding.source})"
    lines = [
        head,
        f"    {finding.quote[:140]}",
        f"    {finding.body[:200]}",
        *(f"    ~ {each}" for each in finding.evidence),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Review, print, and fail when it is too much or too slow."""
    parser = argparse.ArgumentParser(description="findings per commit and seconds per review, at the defaults")
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--newest", type=int, default=2_000, help="how far back they are taken from")
    parser.add_argument("--show", action="store_true", help="print every finding")
    parser.add_argument("--threshold", type=float, default=ReviewOptions().confidence_threshold)
    asked = parser.parse_args(arguments)
    fine = True
    for repository in asked.repositories:
        told = reviewed(repository, asked.commits, asked.newest, ReviewOptions(confidence_threshold=asked.threshold))
        rows = told.pop("rows")
        print(json.dumps(told))
        if asked.show:
            print("\n".join(shown(*row) for row in rows))
        fine &= told["per_commit"] <= TARGET_PER_COMMIT and told["p95_s"] <= TARGET_P95_S
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
