"""Scores the engine on repositories with annotated questions: mean over repositories, mean over questions, tokens.

    python evals/retrieval/score.py --tasks dev.json --corpus DIR                     the annotated part of each repository
    python evals/retrieval/score.py --tasks dev.json --corpus DIR --whole             whole trees, tests and docs included
    python evals/retrieval/score.py --tasks dev.json --corpus DIR --set commit_queries

A tasks file is a list of {name, root, queries: [{query, relevant, secondary}], commit_queries: [...]}; DIR holds one
checked-out tree a name. `--by-file` ignores the lines of targets. It asks through `adapter.py`, in this process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.retrieval.adapter import Bench
from evals.retrieval.metrics import Target, ndcg, ranks, recall, recall_within, reciprocal

DEPTH = 50
BUDGETS = (500, 1_000, 2_000, 4_000)
MISS_BELOW = 0.5


@dataclass(frozen=True, slots=True)
class Score:
    """One question, or the mean of many. `within` is recall inside each of `BUDGETS`."""

    ndcg: float
    hit1: float
    recall10: float
    mrr: float
    within: tuple[float, ...]

    @classmethod
    def of(cls, rows: list[dict[str, Any]], targets: list[Target]) -> Score:
        """Score one ranking."""
        found, wanted = ranks(rows, targets), len(targets)
        within = tuple(recall_within(rows, targets, budget) for budget in BUDGETS)
        return cls(
            ndcg(found, wanted=wanted),
            float(found[:1] == [1]),
            recall(found, wanted=wanted, k=10),
            reciprocal(found),
            within,
        )

    @classmethod
    def mean(cls, scores: list[Score]) -> Score:
        """The mean of each figure."""
        plain = [statistics.mean(column) for column in zip(*(astuple(each)[:4] for each in scores), strict=True)]
        within = tuple(statistics.mean(column) for column in zip(*(each.within for each in scores), strict=True))
        return cls(*plain, within)

    def __str__(self) -> str:
        within = " ".join(f"{share:.3f}" for share in self.within)
        return f"{self.ndcg:.4f}  {self.hit1:.3f}  {self.recall10:.3f}  {self.mrr:.3f}  {within}"


def targets_of(task: dict[str, Any], *, by_file: bool) -> list[Target]:
    """The targets of a question: paths, or objects with lines."""
    found = []
    for each in task.get("relevant", []) + task.get("secondary", []):
        plain = {"path": each} if isinstance(each, str) else each
        lines = () if by_file else (plain.get("start_line") or 0, plain.get("end_line") or 0)
        found.append(Target(plain["path"], *lines))
    return found


def scored(bench: Bench, folder: Path, tasks: list[dict[str, Any]], *, by_file: bool, misses: bool) -> list[Score]:
    """The scores of one repository's questions."""
    bench.answer({"op": "index", "dir": str(folder)})
    scores = []
    for task in tasks:
        rows = bench.answer({"op": "search", "query": task["query"], "top_k": DEPTH})["results"]
        scores.append(Score.of(rows, targets_of(task, by_file=by_file)))
        if misses and scores[-1].ndcg < MISS_BELOW:
            print(f"  {scores[-1].ndcg:.2f} {task['query']!r}: {[row['path'] for row in rows[:3]]}")
    return scores


def main() -> None:
    """Parse, score repository after repository, print both means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--set", default="queries", choices=["queries", "commit_queries"])
    parser.add_argument("--whole", action="store_true", help="index the whole tree instead of its annotated root")
    parser.add_argument("--by-file", action="store_true", help="a target is its file, whatever lines it names")
    parser.add_argument("--whole-chunks", action="store_true", help="content is the whole chunk, not its telling part")
    parser.add_argument("--misses", action="store_true", help="print the questions that score badly")
    parser.add_argument("--repo", action="append", help="only this repository; may be repeated")
    chosen = parser.parse_args()
    began, by_repo = time.perf_counter(), {}
    print(f"{'':20s} ndcg@10  hit@1  rec@10  mrr    recall within {'/'.join(map(str, BUDGETS))} tokens")
    for repo in json.loads(chosen.tasks.read_text(encoding="utf-8")):
        folder = chosen.corpus / repo["name"] / ("" if chosen.whole else repo["root"] or "")
        if not repo[chosen.set] or not folder.is_dir() or (chosen.repo and repo["name"] not in chosen.repo):
            continue
        with closing(Bench(whole_chunks=chosen.whole_chunks)) as bench:
            scores = scored(bench, folder, repo[chosen.set], by_file=chosen.by_file, misses=chosen.misses)
        by_repo[repo["name"]] = scores
        print(f"{repo['name']:20s} {Score.mean(scores)}", flush=True)
    if not by_repo:
        raise SystemExit(f"{chosen.corpus} holds none of the repositories of {chosen.tasks}")
    every = [score for scores in by_repo.values() for score in scores]
    print(
        f"{'mean of ' + str(len(by_repo)) + ' repos':20s} {Score.mean([Score.mean(each) for each in by_repo.values()])}"
    )
    print(f"{'mean of ' + str(len(every)) + ' asked':20s} {Score.mean(every)}   ({time.perf_counter() - began:.0f} s)")


if __name__ == "__main__":
    main()
