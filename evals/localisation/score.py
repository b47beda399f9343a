"""Which files will this task change? Commit subjects as tasks, asked of the tree and the history before each commit.

    python evals/localisation/score.py --mirrors DIR                   every repository in DIR, 60 commits each
    python evals/localisation/score.py --mirrors DIR --only caddy,flask --count 20
    python evals/localisation/score.py --mirrors DIR --answers answers.jsonl     and keep what each system answered

DIR holds git directories with their whole history: `owner+name`, `owner+name/repo` or `owner+name.git`. Prints
recall@10, the share of changed files among the ten first, as Markdown: the mean over a repository's questions, and over
repositories.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.history.change_prediction import FOUND_MAX, ROLE_POWER, combine_signals
from context_engine.model import Query
from context_engine.search.fuse import WEIGHTS
from context_engine.search.question import Question as ParsedQuestion
from context_engine.search.searcher import rank_query
from evals.localisation.replay import Question, questions

K = 10
COUNT = 60
Found = list[tuple[str, float]]
System = Callable[[Question], list[str]]


def main() -> None:
    """Parse, ask repository after repository, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--count", type=int, default=COUNT, help="commits of a repository")
    parser.add_argument("--answers", type=Path, help="a file to add every answer to, one line of JSON each")
    chosen = parser.parse_args()
    rows: dict[str, list[dict]] = {}
    for name, mirror in mirrors(chosen.mirrors, chosen.only):
        began = time.perf_counter()
        try:
            rows[name] = asked(name, mirror, chosen.count)
        except subprocess.CalledProcessError as error:  # a mirror from which something is missing
            print(f"{name}: left out, {error.stderr.decode('utf-8', 'replace').strip()[:200]}", file=sys.stderr)
            continue
        print(f"{name}: {len(rows[name])} questions, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        if chosen.answers:
            with chosen.answers.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(row) + "\n" for row in rows[name])
    if not any(rows.values()):
        raise SystemExit(f"{chosen.mirrors} holds no history that questions could be taken from")
    for title, targets in (("All files that were changed", "files"), ("Source files alone", "source")):
        print(f"\n### {title}\n\n{table(rows, targets)}")


def mirrors(folder: Path, only: str) -> list[tuple[str, Path]]:
    """(name, git directory) of the repositories of a folder."""
    found = []
    for entry in sorted(folder.iterdir()):
        place = next((path for path in (entry, entry / "repo", entry / ".git") if (path / "HEAD").is_file()), None)
        name = entry.name.removesuffix(".git").rpartition("+")[2]
        if place and (not only or any(part in entry.name for part in only.split(","))):
            found.append((name, place))
    return found


def asked(name: str, mirror: Path, count: int) -> list[dict]:
    """What every system answers to the questions of one repository."""
    with tempfile.TemporaryDirectory(prefix="ctx-localisation-") as scratch:
        return [
            {
                "repository": name,
                "commit": question.commit.hash,
                "subject": question.commit.subject,
                "files": sorted(question.files),
                "source": sorted(question.source),
                "answers": {system: answer(question) for system, answer in SYSTEMS.items()},
            }
            for question in questions(mirror, Path(scratch), count)
        ]


# -- who is asked ---------------------------------------------------------------------------------------------------


def by_words(question: Question, weights: Mapping[str, float]) -> Found:
    """BM25 alone: no vectors, no file is held back for its role."""
    view = question.searcher.view
    prior, only = np.ones(view.snapshot.files, np.float32), dict.fromkeys(WEIGHTS, 0.0) | weights
    ranking = rank_query(view, wide(question), ParsedQuestion.of(question.commit.subject), None, prior, weights=only)
    return files(question, ranking)


def by_search(question: Question, role_power: float = 1.0) -> Found:
    """The product's search."""
    return files(question, question.searcher.rank(wide(question), role_power=role_power))


def with_prior(question: Question, found: Found, *, frequency: float = 0.35, recency: float = 0.25) -> Found:
    """What was found, and for each file how often and how lately it was changed, each as a share of the greatest."""
    paths = [path for path, _ in found]
    often, lately = (np.sqrt(of(paths)) for of in (question.history.frequency, question.history.recency))
    prior = frequency * often / max(often.max(initial=0), 1e-9) + recency * lately / max(lately.max(initial=0), 1e-9)
    top = found[0][1] if found else 1.0
    rows = [(path, score / top + more) for (path, score), more in zip(found, prior.tolist(), strict=True)]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def ranked(question: Question, found: Found, **weights: float) -> list[str]:
    """What was found, and what the history adds under these weights."""
    alive = question.searcher.snapshot.by_path
    chosen = dict.fromkeys(WEIGHTS, 0.0) | {"search": 1.0} | weights
    rows = combine_signals(
        found, question.history, question.commit.subject, limit=K, passes=alive.__contains__, weights=chosen
    )
    return [row.path for row in rows]


def wide(question: Question) -> Query:
    return Query(question.commit.subject, limit=FOUND_MAX, chunks_per_file=1)


def files(question: Question, ranking) -> Found:
    """The files of a ranking with their scores, each once."""
    rows: dict[str, float] = {}
    for place in ranking.places:
        rows.setdefault(question.searcher.snapshot.paths[place.file], place.score)
    return list(rows.items())


FILE, PATH = {"file": 1.0}, {"file": 1.0, "path": 0.5}
HISTORY = {name: WEIGHTS[name] for name in ("alike", "together", "recent")}
SYSTEMS: Mapping[str, System] = {
    "BM25": lambda q: ranked(q, by_words(q, FILE)),
    "+ path": lambda q: ranked(q, by_words(q, PATH)),
    "+ git prior": lambda q: ranked(q, with_prior(q, by_words(q, PATH))),
    "+ co-change": lambda q: ranked(q, with_prior(q, by_words(q, PATH)), together=0.3),
    "search": lambda q: ranked(q, by_search(q)),
    "roles ^ 1/3": lambda q: ranked(q, by_search(q, ROLE_POWER)),
    "+ git prior ": lambda q: ranked(
        q, with_prior(q, by_search(q, ROLE_POWER))
    ),  # a name of its own: a blank behind it
    "+ recent": lambda q: ranked(q, by_search(q, ROLE_POWER), recent=WEIGHTS["recent"]),
    "+ together": lambda q: ranked(q, by_search(q, ROLE_POWER), together=0.5),
    "+ alike": lambda q: ranked(q, by_search(q, ROLE_POWER), alike=WEIGHTS["alike"]),
    "localised": lambda q: ranked(q, by_search(q, ROLE_POWER), **HISTORY),
}
"""First the ladder of the design, out of words alone; then the product's search, with one thing more, and what ships."""


# -- the tables -----------------------------------------------------------------------------------------------------


def recall(answer: list[str], targets: list[str]) -> float:
    """The share of the targets among the first ten.

    >>> recall(["a", "b"], ["b", "c"])
    0.5
    """
    return len(set(answer[:K]) & set(targets)) / len(targets)


def table(rows: Mapping[str, list[dict]], targets: str) -> str:
    """Recall by repository and system; questions without such targets are left out."""
    names = list(SYSTEMS)
    lines = [
        f"| recall@{K} | questions | {' | '.join(name.strip() for name in names)} |",
        "| --- " * (len(names) + 2) + "|",
    ]
    means: dict[str, list[float]] = {name: [] for name in names}
    for repository, asked_of in rows.items():
        counted = [row for row in asked_of if row[targets]]
        if not counted:
            continue
        figures = [statistics.mean(recall(row["answers"][name], row[targets]) for row in counted) for name in names]
        for name, figure in zip(names, figures, strict=True):
            means[name].append(figure)
        lines.append(f"| {repository} | {len(counted)} | {' | '.join(f'{figure:.3f}' for figure in figures)} |")
    total = sum(bool(row[targets]) for asked_of in rows.values() for row in asked_of)
    lines.append(f"| **mean** | {total} | {' | '.join(f'{statistics.mean(means[name]):.3f}' for name in names)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
