"""How several repositories are best ranked together: the questions of each, asked of all of them at once.

    python evals/retrieval/across.py --tasks dev.json --corpus DIR [--repositories 8] [--questions 10]

*alone* asks only the repository that a question is about, which nobody knows beforehand. *by score* and *in turns* put
the lists of all repositories together afterwards; *together* ranks all files by one set of statistics
(docs/decisions/0040). NDCG@10 by file, the mean over repositories; *first* is the share of questions whose first hit is
from the right repository.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.engine import Engine
from context_engine.model import Hit, Query
from context_engine.multi_repo import MultiRepo
from context_engine.settings import Settings
from evals.retrieval.metrics import Target, ndcg, ranks

DEPTH = 10


def main() -> None:
    """Ask, and print one row a way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--repositories", type=int, default=8)
    parser.add_argument("--questions", type=int, default=10)
    chosen = parser.parse_args()
    tasks = [each for each in json.loads(chosen.tasks.read_text("utf-8")) if (chosen.corpus / each["name"]).is_dir()]
    tasks = tasks[: chosen.repositories]
    with tempfile.TemporaryDirectory() as cache, ExitStack() as stack:
        engines = {each["name"]: stack.enter_context(opened(each, chosen.corpus, Path(cache))) for each in tasks}
        scores: dict[str, list[tuple[float, float]]] = {}
        for task in tasks:
            for way, score in of_repository(task, engines, chosen.questions).items():
                scores.setdefault(way, []).append(score)
    for way, rows in scores.items():
        quality, first = (statistics.mean(column) for column in zip(*rows, strict=True))
        print(f"{way:<10} NDCG@10 {quality:.3f}  first {first:.2f}")


def opened(task: dict[str, Any], corpus: Path, cache: Path) -> Engine:
    """One repository, indexed."""
    root = corpus / task["name"] / (task["root"] or "")
    engine = Engine.open(root, settings=Settings(cache_folder=cache))
    engine.index.update()
    return engine


def of_repository(task: dict[str, Any], engines: dict[str, Engine], most: int) -> dict[str, tuple[float, float]]:
    """Of each way the mean over the questions of one repository: NDCG, and how often the first hit is from there."""
    across, name = MultiRepo(engines), task["name"]
    scores: dict[str, list[tuple[float, float]]] = {}
    for question in task["queries"][:most]:
        query = Query(question["query"], DEPTH)
        lists = {each: list(engine.search.find(query).hits) for each, engine in engines.items()}
        ways: dict[str, Sequence[tuple[str, str]]] = {
            "alone": [(name, hit.chunk.path) for hit in lists[name]],
            "by score": by_score(lists),
            "in turns": in_turns(lists),
            "together": [(hit.project, hit.chunk.path.partition(":")[2]) for hit in across.search.find(query).hits],
        }
        for way, found in ways.items():
            scores.setdefault(way, []).append(scored(found, name, question["relevant"]))
    return {
        way: (statistics.mean(a for a, _ in rows), statistics.mean(b for _, b in rows)) for way, rows in scores.items()
    }


def by_score(lists: dict[str, list[Hit]]) -> Sequence[tuple[str, str]]:
    rows = [(-hit.score, name, hit.chunk.path) for name, hits in lists.items() for hit in hits]
    return [(name, path) for _, name, path in sorted(rows)][:DEPTH]


def in_turns(lists: dict[str, list[Hit]]) -> Sequence[tuple[str, str]]:
    columns = [[(name, hit.chunk.path) for hit in hits] for name, hits in sorted(lists.items())]
    return [row for rank in zip_longest(*columns) for row in rank if row][:DEPTH]


def scored(found: Sequence[tuple[str, str]], name: str, relevant: list[Any]) -> tuple[float, float]:
    """NDCG@10 by file, where a hit of another repository hits nothing; and whether the first is of this one."""
    rows = [
        {"path": path if repository == name else f"\0{repository}", "start": 0, "end": 0} for repository, path in found
    ]
    targets = [Target(each["path"] if isinstance(each, dict) else each) for each in relevant]
    return ndcg(ranks(rows, targets), wanted=len(targets)), float(bool(found) and found[0][0] == name)


if __name__ == "__main__":
    main()
