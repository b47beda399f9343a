"""Are the lines shown that answer a question? Asked of ten repositories, with annotated lines (questions.toml).

    python evals/lines/score.py --mirrors DIR --trees DIR --save rows.jsonl              search, bundles, two baselines
    python evals/lines/score.py --mirrors DIR --trees DIR --system "search 0" --against rows.jsonl    how each figure moved

DIR of mirrors has bare git repositories, DIR of trees gets the pinned commits and their indexes, made once. `lines` and
`files` are NDCG@10 over the places that a reply shows, in its order; places shown together count as one. `first` is the
share of questions whose first place shows a line that decides, `recall` that of these lines that are shown, `share` that
of shown lines that are annotated. A budget buys 4 characters a token; 0 is the reply of an agent that states none.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.places.adapter import CHARS_PER_TOKEN, ask_context, ask_search
from evals.places.prepare import check_out, mirror_of
from evals.places.ripgrep_words import ask_ripgrep
from evals.places.score import pay
from evals.places.shown import Place
from evals.places.windows import ask_windows
from evals.retrieval.metrics import Target, ndcg, ranks
from evals.scratch_engine import open_indexed

QUESTIONS = Path(__file__).with_name("questions.toml")
SYSTEMS = ("search 0", "search 1000", "search 2000", "context 2000", "windows 1000", "windows 2000", "ripgrep 2000")


class Row(NamedTuple):
    """The figures of one reply."""

    repository: str
    system: str
    question: str
    figures: dict[str, float]


class Question(NamedTuple):
    """A question, the places that decide and the places that help."""

    text: str
    primary: list[Place]
    secondary: list[Place]

    @classmethod
    def of(cls, text: str, *places: str) -> Question:
        """Read a row of the file."""
        spans = [re.fullmatch(r"(\+?)(.+):(\d+)-(\d+)", place).groups() for place in places]
        found = [(plus, Place(path, int(first), int(last))) for plus, path, first, last in spans]
        return cls(text, [place for plus, place in found if not plus], [place for plus, place in found if plus])


def score_reply(question: Question, shown: Sequence[Place]) -> dict[str, float]:
    """Return the figures of what is shown.

    >>> score_reply(Question("?", [Place("a", 3, 4)], [Place("b", 9, 9)]), [Place("b", 1, 2), Place("a", 4, 5)])
    {'lines': 0.38685280723454163, 'files': 1.0, 'first': 0.0, 'recall': 0.5, 'share': 0.25}
    """
    wanted = question.primary + question.secondary
    seen, decisive = _lines(shown), _lines(question.primary)
    files = [Place(path, 0, 0) for path in dict.fromkeys(place.path for place in shown)]
    return {
        "lines": _ndcg({Target(*place) for place in wanted}, shown),
        "files": _ndcg({Target(place.path) for place in wanted}, files),
        "first": float(not decisive.isdisjoint(_lines(shown[:1]))),
        "recall": len(seen & decisive) / len(decisive),
        "share": len(seen & _lines(wanted)) / max(len(seen), 1),
    }


def _lines(places: Iterable[Place]) -> set[tuple[str, int]]:
    return {(place.path, line) for place in places for line in range(place.first, place.last + 1)}


def _ndcg(targets: Collection[Target], shown: Iterable[Place]) -> float:
    found = ranks([{"path": place.path, "start": place.first, "end": place.last} for place in shown], [*targets])
    return ndcg(found, wanted=len(targets) - len(found) + len(set(found)))


def ask_all(repository: str, tree: Path, questions: Iterable[Question], systems: Iterable[str]) -> Iterator[Row]:
    """Yield what each system shows for each question to a tree, which is indexed first where it is not."""
    with closing(open_indexed(tree, tree.parent / "cache")) as engine:
        product = {"search": partial(ask_search, engine), "context": partial(ask_context, engine)}
        asked = product | {"windows": partial(ask_windows, tree), "ripgrep": partial(ask_ripgrep, tree)}
        for question in questions:
            for system in systems:
                name, budget = system.split(" ")
                reply = asked[name](question.text, int(budget))
                paid = pay(
                    reply.shown,
                    reply.text,
                    int(budget) or sys.maxsize,
                    lambda path: (tree / path).read_text("utf-8", "replace").split("\n"),
                )
                cost = {"tokens": len(reply.text) / CHARS_PER_TOKEN, "ms": reply.ms}
                yield Row(repository, system, question.text, score_reply(question, paid) | cost)


def table(rows: Sequence[Row], *keys: str) -> str:
    """Return the mean of each figure, a line for each value of the keys."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, key) for key in keys), []).append(row)
    lines = [" | ".join((*keys, *rows[0].figures)), " | ".join(["---"] * (len(keys) + len(rows[0].figures)))]
    for names, some in groups.items():
        means = (statistics.mean(row.figures[figure] for row in some) for figure in rows[0].figures)
        lines.append(" | ".join((*names, *(f"{mean:.4g}" for mean in means))))
    return "\n".join(f"| {line} |" for line in lines)


def main() -> None:
    """Parse, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="may be repeated; without it all")
    parser.add_argument("--save", type=Path, help="write the rows to this file")
    parser.add_argument("--against", type=Path, help="rows of an earlier run, to compare with")
    chosen = parser.parse_args()
    rows: list[Row] = []
    for repository in tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["repository"]:
        name, commit, questions = repository["name"], repository["commit"], repository["questions"]
        tree = chosen.trees.resolve() / f"{name.replace('/', '+')}@{commit[:10]}" / "tree"
        if not tree.is_dir():
            check_out(mirror_of(chosen.mirrors.resolve(), name), commit, tree)
        rows += ask_all(name, tree, [Question.of(*row) for row in questions], chosen.system or SYSTEMS)
    if chosen.save:
        chosen.save.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    if chosen.against:
        old = {tuple(key): figures for *key, figures in map(json.loads, chosen.against.read_text("utf-8").splitlines())}
        for row in rows:
            row.figures.update({name: value - old[row[:3]][name] for name, value in row.figures.items()})
    print(f"{table(rows, 'system')}\n\n{table(rows, 'repository', 'system')}")


if __name__ == "__main__":
    main()
