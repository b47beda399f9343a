"""Score the product on the wider set, and its weights on it and the dev set together, with folds by repository.

    python evals/wide/score.py --data OUT                              OUT is what evals/wide/build.py wrote
    python evals/wide/score.py --data OUT --misses                     and the questions that score badly
    python evals/wide/score.py --data OUT --dev dev.json --corpus DIR  weights tuned on both sets, held out by repository

Figures are means over repositories: NDCG@10, hit@1 and recall@10 by file; for doc comments also by the lines shown.
Indexes are kept in OUT/cache, so a second run asks at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from context_engine.search.fuse import WEIGHTS
from evals.retrieval.ablation import figure, table
from evals.retrieval.score import Score, targets_of
from evals.retrieval.tiers import NAMES, Workbench, sheet, shown
from evals.retrieval.weighing import DRAWS, Scores, Sheet, around, column, folds_of, grid, held_out

KINDS = {"subjects": "commit_queries", "messages": "message_queries", "docs": "queries"}
"""What the kinds of questions are called in a tasks file."""
SETS = {"subjects": "commits", "messages": "commits", "docs": "questions"}
"""Which of the two sets of the dev set a kind is weighed like (`weighing.SETS`)."""
SCALARS = {"five chunks": ("top5",), "path": ("path",), "whole file": ("file",)}
"""All that was tuned on this set; each scalar multiplies the weights it names."""
STEPS = (0.6, 0.8, 1.0, 1.25)
ROWS = 10
MISS_BELOW = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of one kind: its scores by file and by lines, and the sheet that gives all other weightings."""

    repo: str
    language: str
    kind: str
    by_file: Score
    by_lines: Score
    sheet: Sheet


def ask(bench: Workbench, folder: Path, task: Mapping[str, Any], kinds: Mapping[str, str]) -> list[Asked]:
    """Ask one repository all its questions, with static vectors."""
    asked = []
    with bench.opened(folder) as searchers:
        searcher = searchers["static"]
        for kind, key in kinds.items():
            for question in task.get(key, []):
                rows = shown(searcher, folder, question["query"], ROWS)
                files, lines = (targets_of(question, by_file=by_file) for by_file in (True, False))
                facts = {"repo": task["name"], "kind": SETS.get(kind, kind), "category": kind}
                weighed = sheet(searcher, question["query"], files, **facts)
                scores = Score.of(rows, files), Score.of(rows, lines)
                asked.append(Asked(task["name"], task["language"], kind, *scores, weighed))
    return asked


def misses(task: Mapping[str, Any], asked: Sequence[Asked]) -> Iterable[str]:
    """Yield the questions that score badly."""
    queries = [question["query"] for key in KINDS.values() for question in task.get(key, [])]
    for query, each in zip(queries, asked, strict=True):
        if each.by_file.ndcg < MISS_BELOW:
            yield f"  {each.kind} {each.by_file.ndcg:.2f} {query.splitlines()[0]!r}"


def mean_over_repositories(asked: Iterable[Asked], *, by_lines: bool = False) -> Score:
    """Return the mean score, each repository counting the same."""
    groups: dict[str, list[Score]] = {}
    for each in asked:
        groups.setdefault(each.repo, []).append(each.by_lines if by_lines else each.by_file)
    return Score.mean([Score.mean(scores) for scores in groups.values()])


def report(asked: Sequence[Asked]) -> str:
    """Return the tables by kind and by language."""
    by_kind = []
    for kind in KINDS:
        of_kind = [each for each in asked if each.kind == kind]
        if of_kind:
            by_kind.append([kind, str(len(of_kind)), *_figures(mean_over_repositories(of_kind))])
    docs = [each for each in asked if each.kind == "docs"]
    if docs:
        by_kind.append(["docs, by lines", str(len(docs)), *_figures(mean_over_repositories(docs, by_lines=True))])
    by_language = []
    for language in sorted({each.language for each in asked}):
        cells = []
        for kind in KINDS:
            scores = [each.by_file.ndcg for each in asked if (each.language, each.kind) == (language, kind)]
            cells.append(f"{statistics.mean(scores):.3f} ({len(scores)})" if scores else "-")
        by_language.append([language, *cells])
    return "\n\n".join(
        [
            table(["kind", "asked", "NDCG@10", "hit@1", "recall@10"], by_kind),
            table(["language, NDCG@10 (asked)", *KINDS], by_language),
        ]
    )


def _figures(score: Score) -> list[str]:
    return [f"{score.ndcg:.4f}", f"{score.hit1:.3f}", f"{score.recall10:.3f}"]


def fold_rows(sets: Mapping[str, Sequence[Sheet]]) -> list[list[str]]:
    """Return for each set the product's weights, the best of the grid, and what was held out by repository."""
    choices = grid(WEIGHTS, SCALARS, STEPS)
    weights = around(np.hstack([column(NAMES, choice.weights) for choice in choices]))
    scores = [Scores.of(sheets, weights, DRAWS) for sheets in sets.values()]
    folds = folds_of([repo for score in scores for repo in score.repos])
    kept = next(number for number, choice in enumerate(choices) if set(choice.steps.values()) == {1.0})
    best = int(np.mean([np.mean(list(score.means().values()), axis=0) for score in scores], axis=0).argmax())
    steps = ", ".join(f"{name} x {step:g}" for name, step in choices[best].steps.items())
    rows = []
    for name, score, found in zip(sets, scores, held_out(scores, folds), strict=True):
        rows.append([name, "the product's weights", *figure(score.means(), kept)])
        rows.append([name, f"best of {len(choices)}: {steps}", *figure(score.means(), best)])
        rows.append([name, "held out", *figure(found.means)])
    return rows


def main() -> None:
    """Ask what is there, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dev", type=Path, help="a tasks file of evals/retrieval: tune on both")
    parser.add_argument("--corpus", type=Path, help="the trees of --dev")
    parser.add_argument("--misses", action="store_true", help="print the questions that score badly")
    parser.add_argument("--only", action="append", help="only this repository; may be repeated")
    chosen = parser.parse_args()
    asked: list[Asked] = []
    dev: list[Asked] = []
    bench = Workbench(chosen.data / "cache")
    for task in json.loads((chosen.data / "tasks.json").read_text(encoding="utf-8")):
        if chosen.only and task["github"] not in chosen.only:
            continue
        found = ask(bench, chosen.data / "trees" / task["name"], task, KINDS)
        asked += found
        if found:
            print(f"{task['name']:32s} {mean_over_repositories(found)}", file=sys.stderr, flush=True)
        if chosen.misses:
            print(task["name"], *misses(task, found), sep="\n")
    for task in json.loads(chosen.dev.read_text(encoding="utf-8")) if chosen.dev else ():
        folder = chosen.corpus / task["name"] / (task["root"] or "")
        dev += ask(bench, folder, task, {"questions": "queries", "commits": "commit_queries"})
    print(report(asked))
    if dev:
        sheets = {"dev": [each.sheet for each in dev], "wide": [each.sheet for each in asked]}
        head = ["set", "weights", "questions or docs", "commits"]
        print(f"\n{table(head, fold_rows(sheets))}")


if __name__ == "__main__":
    main()
