"""Fit and check what the product says of an answer: whether it is what was asked for, and where its rows end.

    python evals/wide/relevance.py --data OUT --dev dev.json --corpus DIR

Every question is asked of its own repository, and as many questions of other repositories of the same language are asked
of each. A logistic regression on `Evidence` tells the two apart. It is fitted on six folds of repositories and measured on
the seventh; the last line fits all of them, for `context_engine/search/relevance.py`. A question to another repository may
have an answer there, so the precision of a weak answer is at least what is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import numpy.typing as npt

from context_engine.model import Query
from context_engine.search import Searcher
from context_engine.search.relevance import KEPT_FILES, WEAK_BELOW, Evidence
from context_engine.search.search_service import drop_distant
from context_engine.search.searcher import Ranking
from evals.retrieval.ablation import table
from evals.retrieval.metrics import Target, ranks, recall
from evals.retrieval.score import targets_of
from evals.retrieval.tiers import Workbench
from evals.retrieval.weighing import folds_of
from evals.wide.score import KINDS

Floats = npt.NDArray[np.float64]
DEV_KINDS = {"questions": "queries", "commits": "commit_queries"}
LOSSES = (0.01, 0.02, 0.05, 0.1)
SHARES = (0.01, 0.3, 0.4, 0.5, 0.6)
RIDGE = 1e-3
STEPS = 60


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the repository that it belongs to."""

    repo: str
    language: str
    kind: str
    text: str
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A question asked of a repository: its evidence, and for its own one recall@10 and rows by `SHARES`."""

    repo: str
    kind: str
    is_own: bool
    evidence: Evidence
    recalls: tuple[float, ...]
    rows: tuple[int, ...]


def questions_of(task: Mapping[str, Any], kinds: Mapping[str, str]) -> list[Question]:
    """Return all questions of one repository of a tasks file."""
    return [
        Question(task["name"], task["language"], kind, each["query"], tuple(targets_of(each, by_file=True)))
        for kind, key in kinds.items()
        for each in task.get(key, [])
    ]


def strangers(own: Sequence[Question], every: Sequence[Question]) -> list[Question]:
    """Return as many questions of other repositories, of the same language where there are two or more."""
    name, language = own[0].repo, own[0].language
    others = [each for each in every if each.repo != name]
    alike = [each for each in others if each.language == language]
    pool = alike if len({each.repo for each in alike}) > 1 else others
    return random.Random(name).sample(pool, min(len(own), len(pool)))


def judge(searcher: Searcher, question: Question, repo: str) -> Judged | None:
    """Ask a question; None where there is no evidence, because no word of it has a vector."""
    ranking = searcher.rank(Query(question.text, limit=10, chunks_per_file=1, files_max=10))
    if ranking.evidence is None:
        return None
    kept = [_rows(searcher, ranking, share) for share in SHARES]
    wanted = len(question.targets)
    recalls = tuple(recall(ranks(rows, question.targets), wanted=wanted, k=10) for rows in kept)
    sizes = tuple(map(len, kept))
    return Judged(repo, question.kind, question.repo == repo, ranking.evidence, recalls, sizes)


def _rows(searcher: Searcher, ranking: Ranking, share: float) -> list[dict[str, Any]]:
    paths = searcher.snapshot.paths
    return [{"path": paths[place.file], "start": 0, "end": 0} for place in drop_distant(ranking.places, share)]


# -- the regression ---------------------------------------------------------------------------------------------------


def fit(facts: Floats, right: Floats) -> Floats:
    """Return the constant and the weights of a logistic regression, by Newton's method with a small ridge.

    >>> fit(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 0.0, 1.0])).round(1).tolist()
    [-1.3, 0.8]
    """
    ridge = RIDGE * len(right) * np.diag([0.0] + [1.0] * facts.shape[1])
    rows, weights = np.column_stack([np.ones(len(facts)), facts]), np.zeros(facts.shape[1] + 1)
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (right - chances) - ridge @ weights
        bend = (rows * (chances * (1 - chances))[:, None]).T @ rows + ridge
        weights = weights + np.linalg.solve(bend, slope)
    return weights


def held_out(judged: Sequence[Judged]) -> Floats:
    """Return the probability of each answer, fitted on the other folds."""
    facts, right = _facts(judged), np.array([float(each.is_own) for each in judged])
    repos = np.array([each.repo for each in judged])
    chances = np.zeros(len(judged))
    for fold in folds_of(repos.tolist()):
        inside = np.isin(repos, list(fold))
        weights = fit(facts[~inside], right[~inside])
        chances[inside] = 1 / (1 + np.exp(-(weights[0] + facts[inside] @ weights[1:])))
    return chances


def _facts(judged: Sequence[Judged]) -> Floats:
    return np.array([astuple(each.evidence) for each in judged], np.float64)


# -- the tables -------------------------------------------------------------------------------------------------------


def weak_rows(judged: Sequence[Judged], chances: Floats) -> Iterator[list[str]]:
    """Yield what calling answers weak below a probability costs, and what it finds."""
    own = np.array([each.is_own for each in judged])
    limits = [*(float(np.quantile(chances[own], loss)) for loss in LOSSES), WEAK_BELOW]
    for limit in limits:
        weak = chances < limit
        precision, found = (~own & weak).sum() / max(weak.sum(), 1), (~own & weak).sum() / (~own).sum()
        yield [f"{limit:.2f}", f"{(own & weak).sum() / own.sum():.3f}", f"{precision:.3f}", f"{found:.3f}"]


def kind_rows(judged: Sequence[Judged], chances: Floats) -> Iterator[list[str]]:
    """Yield for each kind how many answers are called weak, of its own and of another repository."""
    for kind in (*DEV_KINDS, *KINDS):
        groups = [
            [
                chance < WEAK_BELOW
                for each, chance in zip(judged, chances, strict=True)
                if (each.kind, each.is_own) == key
            ]
            for key in ((kind, True), (kind, False))
        ]
        yield [kind, *(f"{np.mean(group):.3f}" for group in groups)]


def cut_rows(judged: Sequence[Judged]) -> Iterator[list[str]]:
    """Yield recall@10 of own questions by where the rows end, and how many rows there are."""
    for kind in (*DEV_KINDS, *KINDS):
        own = [each for each in judged if each.is_own and each.kind == kind]
        means = zip(
            np.mean([each.recalls for each in own], axis=0), np.mean([each.rows for each in own], axis=0), strict=True
        )
        yield [kind, *(f"{found:.3f} / {rows:.1f}" for found, rows in means)]


def main() -> None:
    """Ask everything, print the tables and the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    chosen = parser.parse_args()
    wide, dev = (json.loads(path.read_text(encoding="utf-8")) for path in (chosen.data / "tasks.json", chosen.dev))
    folders = {task["name"]: chosen.data / "trees" / task["name"] for task in wide}
    folders |= {task["name"]: chosen.corpus / task["name"] / (task["root"] or "") for task in dev}
    asked = {task["name"]: questions_of(task, KINDS) for task in wide}
    asked |= {task["name"]: questions_of(task, DEV_KINDS) for task in dev}
    every = [question for questions in asked.values() for question in questions]
    judged: list[Judged] = []
    bench = Workbench(chosen.data / "cache")
    for name, own in asked.items():
        with bench.opened(folders[name]) as searchers:
            found = [judge(searchers["static"], each, name) for each in own + strangers(own, every)]
        judged += [each for each in found if each]
        print(f"asked {name}", file=sys.stderr, flush=True)
    chances = held_out(judged)
    print(table(["weak below", "of its own", "precision", "of another"], list(weak_rows(judged, chances))), "\n")
    print(table([f"weak below {WEAK_BELOW}", "of its own", "of another"], list(kind_rows(judged, chances))), "\n")
    heads = [f"recall@10 / rows from {share:g} of the best, at least {KEPT_FILES}" for share in SHARES]
    print(table(["kind", *heads], list(cut_rows(judged))), "\n")
    right = np.array([float(each.is_own) for each in judged])
    print("constant, coverage, cosine, card, named:", fit(_facts(judged), right).round(2).tolist())


if __name__ == "__main__":
    main()
