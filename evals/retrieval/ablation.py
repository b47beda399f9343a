"""What each signal and each tier of the ranking is worth, and whether the weights hold on repositories they were not tuned on.

    python evals/retrieval/ablation.py --tasks dev.json --corpus DIR                the annotated part of each repository
    python evals/retrieval/ablation.py --tasks dev.json --corpus DIR --whole        whole trees
    CTX_EMBEDDER=ollama ... python evals/retrieval/ablation.py --tasks dev.json --corpus DIR   and the tier of a provider

It asks the product itself, at every tier, and prints Markdown: tiers, categories, repositories, each signal left out,
the scalars cross-validated by repository, and the rules that must hold; a broken rule exits with 1. Without a provider
its tier is left out. Indexes and vectors are kept in `--cache`, so that only the first run embeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from context_engine.search.fuse import WEIGHTS
from evals.retrieval.score import Score, targets_of
from evals.retrieval.tiers import NAMES, TIERS, Workbench, sheet, shown
from evals.retrieval.weighing import (
    DRAWS,
    FOLDS,
    SETS,
    Scores,
    Sheet,
    around,
    column,
    folds_of,
    grid,
    held_out,
    mean_by,
)

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"questions": "queries", "commits": "commit_queries"}
"""What the sets are called in a tasks file."""
SCALARS = {
    "static chunks": ("static", "static3"),
    "static card": ("static_card",),
    "provider": ("model", "model3"),
}
"""All that was tuned of the signals of vectors; each scalar multiplies the weights it names."""
STEPS = (0.5, 0.75, 1.0, 1.33)
TUNED_FOR = ("static", "provider")
LOSS_MAX = 0.03
"""No repository may lose more against words alone."""
NOISE = 0.001
"""What the mean over weights around the chosen ones still moves by chance."""
BUDGET = 500
ROWS = 10
"""Rows of an answer as an agent reads it: more than fit into that budget."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything that was asked at one tier: sheets for the weights, and the answers as they were read."""

    sheets: list[Sheet]
    answers: dict[str, list[Score]]

    def scores(self, draws: int) -> Scores:
        """By the product's weights, or by `draws` weights around them."""
        weights = column(NAMES, WEIGHTS)
        return Scores.of(self.sheets, around(weights, draws=draws) if draws > 1 else weights, draws)


def asked(bench: Workbench, folder: Path, repo: Mapping[str, Any], tiers: Mapping[str, Asked]) -> None:
    """Ask one repository everything at every tier."""
    with bench.opened(folder) as searchers:
        for tier, searcher in searchers.items():
            for kind, key in KEYS.items():
                for task in repo[key]:
                    targets = targets_of(task, by_file=False)
                    facts = {"repo": repo["name"], "kind": kind, "category": task.get("category", kind)}
                    tiers[tier].sheets.append(sheet(searcher, task["query"], targets, **facts))
                    rows = shown(searcher, folder, task["query"], ROWS)
                    tiers[tier].answers.setdefault(f"{kind} {repo['name']}", []).append(Score.of(rows, targets))


# -- the tables ---------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def figure(means: Mapping[str, Any], choice: int = 0) -> list[str]:
    """Both sets with four digits; a dash for a set that is not there."""
    return [f"{np.atleast_1d(means[kind])[choice]:.4f}" if kind in means else "-" for kind in SETS]


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """How both sets move."""
    return [f"{float(after[kind][0] - before[kind][0]):+.4f}" if kind in before else "-" for kind in SETS]


def answered(tier: Asked, kind: str) -> list[list[Score]]:
    """The answers of one set, by repository."""
    return [scores for name, scores in tier.answers.items() if name.startswith(kind)]


def tier_rows(tiers: Mapping[str, Asked]) -> list[list[str]]:
    """Each tier: as read by an agent, and by weights around the chosen ones."""
    rows = []
    for name, tier in tiers.items():
        questions, commits = answered(tier, "questions"), answered(tier, "commits")
        by_repo = Score.mean([Score.mean(each) for each in questions]) if questions else None
        by_commit = Score.mean([score for each in commits for score in each]) if commits else None
        plain = [f"{each.ndcg:.4f}" if each else "-" for each in (by_repo, by_commit)]
        within = [f"{each.within[0]:.3f}" if each else "-" for each in (by_repo, by_commit)]
        rows.append([name, *plain, *figure(tier.scores(DRAWS).means()), *within])
    return rows


def category_rows(tiers: Mapping[str, Asked]) -> list[list[str]]:
    """Each category of question, by tier."""
    weights = column(NAMES, WEIGHTS)
    means = {name: mean_by(tier.sheets, weights, lambda each: each.category) for name, tier in tiers.items()}
    categories = sorted(next(iter(means.values())))
    counts = {c: sum(each.category == c for each in next(iter(tiers.values())).sheets) for c in categories}
    return [[c, str(counts[c]), *(f"{found[c]:.4f}" for found in means.values())] for c in categories]


def repo_rows(tiers: Mapping[str, Asked]) -> list[list[str]]:
    """Each repository, both sets together: by words alone, and what each other tier changes."""
    scores = {name: tier.scores(1) for name, tier in tiers.items()}
    base = scores.pop("lexical")
    rows = []
    for repo in base.repos:
        before = float(base.pooled(repo)[0])
        moved = [f"{float(each.pooled(repo)[0]) - before:+.3f}" for each in scores.values()]
        rows.append(
            [repo, str(sum(len(found.get(repo, ())) for found in base.by_set.values())), f"{before:.3f}", *moved]
        )
    return rows


def signal_rows(tiers: Mapping[str, Asked], names: Sequence[str]) -> list[list[str]]:
    """Each signal left out, in some of the tiers."""
    with_all = {name: tiers[name].scores(DRAWS).means() for name in names}
    rows = []
    for signal in NAMES:
        moved = []
        for name in names:
            if not any(each.addends[:, NAMES.index(signal)].any() for each in tiers[name].sheets):
                moved += ["", ""]
                continue
            weights = around(column(NAMES, {**WEIGHTS, signal: 0.0}))
            moved += change(with_all[name], Scores.of(tiers[name].sheets, weights, DRAWS).means())
        rows.append([signal, f"{WEIGHTS[signal]:g}", *moved])
    return rows


def fold_rows(tiers: Mapping[str, Asked]) -> list[list[str]]:
    """The scalars, tuned anew for each fold on the repositories outside of it."""
    names = [name for name in TUNED_FOR if name in tiers]
    scalars = {name: each for name, each in SCALARS.items() if "provider" in names or name.startswith("static")}
    choices = grid(WEIGHTS, scalars, STEPS)
    weights = around(np.hstack([column(NAMES, choice.weights) for choice in choices]))
    scores = [Scores.of(tiers[name].sheets, weights, DRAWS) for name in names]
    folds = folds_of(scores[0].repos)
    kept = next(number for number, choice in enumerate(choices) if set(choice.steps.values()) == {1.0})
    rows = []
    for name, score, found in zip(names, scores, held_out(scores, folds), strict=True):
        best = int(np.mean(list(score.means().values()), axis=0).argmax())
        rows.append([name, "the product's weights", *figure(score.means(), kept)])
        rows.append([name, f"best of {len(choices)}: {_steps(choices[best].steps)}", *figure(score.means(), best)])
        rows.append([name, "held out", *figure(found.means)])
    chosen = [_steps(choices[number].steps) for number in found.choices]
    return rows + [["", f"chosen without fold {number}: {steps}", "", ""] for number, steps in enumerate(chosen, 1)]


def _steps(steps: Mapping[str, float]) -> str:
    return ", ".join(f"{name} x {step:g}" for name, step in steps.items())


# -- the rules ----------------------------------------------------------------------------------------------------


def broken_rules(tiers: Mapping[str, Asked]) -> list[str]:
    """What does not hold: a repository that loses much, a tier that is below the one before it."""
    smooth = {name: tier.scores(DRAWS) for name, tier in tiers.items()}
    base = smooth["lexical"]
    broken = [
        f"{repo} loses {loss:.3f} at the tier {name}"
        for name, each in smooth.items()
        for repo in base.repos
        if (loss := float((base.pooled(repo) - each.pooled(repo))[0])) > LOSS_MAX
    ]
    means = {name: each.means() for name, each in smooth.items()}
    for name, floor in [("static", "lexical"), *((name, "static") for name in tiers if name not in TIERS[:2])]:
        broken += [
            f"{kind}: {name} {float(means[name][kind][0]):.4f} is below {floor} {float(figures[0]):.4f}"
            for kind, figures in means[floor].items()
            if name in means and means[name][kind][0] < figures[0] - NOISE
        ]
    return broken


def report(tiers: Mapping[str, Asked]) -> str:
    """All tables."""
    both = list(dict.fromkeys(("static", list(tiers)[-1])))
    by_draws, within = (f"{kind} around" for kind in SETS), (f"{kind} @{BUDGET}" for kind in SETS)
    moved = (f"{name} {kind}" for name in both for kind in SETS)
    parts = [
        ("Tiers", ["tier", *SETS, *by_draws, *within], tier_rows(tiers)),
        ("Categories", ["category", "asked", *tiers], category_rows(tiers)),
        ("Repositories, both sets pooled", ["repository", "asked", *tiers], repo_rows(tiers)),
        ("A signal left out", ["signal", "weight", *moved], signal_rows(tiers, both)),
        (f"Scalars, {FOLDS} folds by repository", ["tier", "weights", *SETS], fold_rows(tiers)),
    ]
    return "\n\n".join(f"## {title}\n\n{table(head, rows)}" for title, head, rows in parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print the tables, and say which rules are broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "ablation")
    parser.add_argument("--whole", action="store_true", help="index the whole tree instead of its annotated root")
    parser.add_argument("--repo", action="append", help="only this repository; may be repeated")
    chosen = parser.parse_args(arguments)
    bench = Workbench(chosen.cache)
    tiers = {name: Asked([], {}) for name in bench.tiers}
    for repo in json.loads(chosen.tasks.read_text(encoding="utf-8")):
        folder = chosen.corpus / repo["name"] / ("" if chosen.whole else repo.get("root") or "")
        if folder.is_dir() and (not chosen.repo or repo["name"] in chosen.repo):
            asked(bench, folder, {"commit_queries": [], "queries": [], **repo}, tiers)
            print(f"asked {repo['name']}", file=sys.stderr, flush=True)
    if not tiers["lexical"].sheets:
        raise SystemExit(f"{chosen.corpus} holds none of the repositories of {chosen.tasks}")
    print(report(tiers))
    broken = broken_rules(tiers)
    print("\n## Rules\n\n" + ("\n".join(f"- BROKEN: {rule}" for rule in broken) or "All hold."))
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
