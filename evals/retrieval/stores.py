"""Do all stores rank alike? The dev set's questions, asked of each store: NDCG@10, and how many lists are the same throughout.

    python evals/retrieval/stores.py --tasks dev.json --corpus DIR [--set commit_queries] [--repo NAME ...]

On the stores that machines share one machine indexes and another, with an empty cache, is asked. A list is the same when every
row is: path, lines and score, down to the last. Exits with 1 when one is not, or when a mean differs by more than .002.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.engine import Engine
from context_engine.index import AnyStore
from context_engine.model import Query
from context_engine.settings import Settings
from context_engine.team.postgres_store import PostgresStore
from context_engine.team.remote_store import open_remote_store
from context_engine.team.shared_store import SharedStore
from evals.retrieval.metrics import ndcg, ranks
from evals.retrieval.score import targets_of

DEPTH = 50
DIFFERENCE_MAX = 0.002
"""Of the means, as the specification of the shared stores has it."""
EMBEDDED = "embedded"

Places = Callable[[], PostgresStore]
"""Opens the remote of one store."""
Row = tuple[str, int, int, float]
"""(path, first line, last line, score)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one store answered: the list of each question, and what it is worth."""

    lists: list[list[Row]]
    ndcg: list[float]


def main() -> None:
    """Ask each store about each repository; print one row a store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--set", default="queries", choices=["queries", "commit_queries"])
    parser.add_argument("--repo", action="append", help="only this repository; may be repeated")
    chosen = parser.parse_args()
    told: dict[str, Asked] = {}
    places = stores()
    with tempfile.TemporaryDirectory(prefix="ctx-stores-") as name:
        for task in json.loads(chosen.tasks.read_text("utf-8")):
            root = chosen.corpus / task["name"] / (task["root"] or "")
            if not task[chosen.set] or not root.is_dir() or (chosen.repo and task["name"] not in chosen.repo):
                continue
            for store, place in {EMBEDDED: None, **places}.items():
                answers = asked(root, Path(name) / store / task["name"], place, task[chosen.set])
                known = told.setdefault(store, Asked([], []))
                known.lists.extend(answers.lists)
                known.ndcg.extend(answers.ndcg)
    if not told:
        raise SystemExit(f"{chosen.corpus} holds none of the repositories of {chosen.tasks}")
    sys.exit(report(told))


def report(told: Mapping[str, Asked]) -> int:
    """Print what each store answered beside the embedded one; 1 when one of them ranks otherwise."""
    plain, failed = told[EMBEDDED], 0
    print(f"{len(plain.lists)} questions, {sum(map(len, plain.lists))} rows\n")
    print(
        "| store | NDCG@10 | greatest difference of a question | lists that are the same to the last line and score |"
    )
    print("| --- | --- | --- | --- |")
    for store, answers in told.items():
        most = max(abs(one - other) for one, other in zip(answers.ndcg, plain.ndcg, strict=True))
        same = sum(one == other for one, other in zip(answers.lists, plain.lists, strict=True))
        apart = abs(statistics.mean(answers.ndcg) - statistics.mean(plain.ndcg))
        failed |= same < len(plain.lists) or apart > DIFFERENCE_MAX
        print(f"| {store} | {statistics.mean(answers.ndcg):.4f} | {most:.4f} | {same} of {len(plain.lists)} |")
    return int(failed)


# -- the stores ---------------------------------------------------------------------------------------------------


def stores() -> dict[str, Places]:
    """What machines can share."""
    from tests.support.databases import new_database

    database = new_database()
    return {"PostgreSQL": lambda: open_remote_store(database)}


def asked(root: Path, cache: Path, place: Places | None, tasks: Sequence[Mapping[str, Any]]) -> Asked:
    """One repository, indexed into one store and asked all questions; on a shared one by another machine."""
    if place is None:
        with closing(opened(root, cache, None)) as engine:
            engine.index.update()
            return answers_of(engine, tasks)
    with closing(opened(root, cache / "indexes", place)) as engine:
        engine.index.update()
    with closing(opened(root, cache / "reads", place, shares=False)) as engine:
        return answers_of(engine, tasks)


def opened(root: Path, cache: Path, place: Places | None, *, shares: bool = True) -> Engine:
    """An Engine over one store. The tree does not change meanwhile, so no answer looks for edits."""

    class Placed(Engine):
        """Its index lies where it is told."""

        def _open_store(self) -> AnyStore:
            if place is None:
                return super()._open_store()
            return SharedStore(self.cache_folder / "shared", place(), str(root), publishes=shares)

    return Placed.open(root, settings=Settings(cache_folder=cache, workers=0, staleness_ms=600_000, embedder="static"))


def answers_of(engine: Engine, tasks: Sequence[Mapping[str, Any]]) -> Asked:
    """The list of each question, and what it is worth."""
    told = Asked([], [])
    for task in tasks:
        rows = [
            (str(hit.chunk.path), hit.chunk.span.first, hit.chunk.span.last, hit.score)
            for hit in engine.search.find(Query(task["query"], DEPTH)).hits
        ]
        shown = [{"path": path, "start": first, "end": last} for path, first, last, _ in rows]
        targets = targets_of(dict(task), by_file=False)
        told.lists.append(rows)
        told.ndcg.append(ndcg(ranks(shown, targets), wanted=len(targets)))
    return told


if __name__ == "__main__":
    main()
