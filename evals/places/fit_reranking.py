"""Fit the weights by which texts correct the chances of places (context_engine/search/reranking.py).

    python evals/places/fit_reranking.py collect --mirrors DIR --out FACTS --per 48 OWNER/NAME ...   a file each, seconds to minutes
    python evals/places/fit_reranking.py fit --facts FACTS [--without NAME ...]                      the weights, and what they gain

`collect` walks through the newest commits of a repository from the oldest to the newest, in one work tree, and asks each
message of the tree before the commit. It keeps the facts of the likeliest places, and which of them the commit changed.
`fit` prints the weights, and for each place of the order before and after how often it was changed: once with the weights of
the other folds of repositories. Use repositories that no evaluation uses.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import numpy.typing as npt

from context_engine.engine import Engine
from context_engine.model import Hit, Query
from context_engine.search.hit_reading import HitReader
from context_engine.search.reranking import PLACES_MAX, PlaceFacts, read_facts
from context_engine.search.search_service import drop_distant
from evals.places.commits import tasks_of
from evals.places.prepare import check_out, mirror_of
from evals.scratch_engine import open_indexed

FILES, PLACES_PER_FILE = 14, 12
"""What a bundle asks for."""
FOLDS = 4
STEPS, RATE, DECAY = 1_500, 0.03, 1e-4
"""Of gradient descent (Adam) on all tasks at once; a second of processor time."""
PLACE_SHARE = 8.0
"""Weight of the mean loss of single places: few of them are needed."""
Floats = npt.NDArray[np.float64]


# -- collecting facts --------------------------------------------------------------------------------------------------


def collect(name: str, mirror: Path, per: int) -> dict[str, Any]:
    """Return the facts of the places of a repository's tasks, whether each is needed, and the places of each task."""
    facts: list[PlaceFacts] = []
    needed: list[bool] = []
    counts: list[int] = []
    tasks = list(islice(tasks_of(name, mirror, short_too=True), per))[::-1]
    with tempfile.TemporaryDirectory(prefix="ctx-facts-") as scratch:
        for task, engine in walk(tasks, mirror, Path(scratch)):
            hits = find_places(engine, task["query"])
            facts += read_facts(task["query"], hits)
            needed += [is_changed(hit, task["hunks"]) for hit in hits]
            counts.append(len(hits))
    return {"facts": np.array(facts, np.float32), "needed": np.array(needed, bool), "counts": np.array(counts, int)}


def walk(tasks: Sequence[Mapping[str, Any]], mirror: Path, scratch: Path) -> Iterator[tuple[Mapping[str, Any], Engine]]:
    """Yield each task with the product on the tree of its parent; one tree and one index follow the commits."""
    tree = scratch / "tree"
    if not tasks:
        return
    check_out(mirror, tasks[0]["parent"], tree)
    with closing(open_indexed(tree, scratch / "cache")) as engine:
        for task in tasks:
            for words in (["update-ref", "refs/heads/main"], ["read-tree", "--reset", "-u"]):
                subprocess.run(["git", *words, task["parent"]], cwd=tree, check=True, capture_output=True)
            engine.index.update()
            if engine.embeddings.has_provider:
                engine.embeddings.embed_all()
            yield task, engine


def find_places(engine: Engine, question: str) -> list[Hit]:
    """Return the likeliest places of a question as the ranking has them, before their texts are read."""
    state = engine.search.state()
    if state is None:
        return []
    query = Query(question, FILES * PLACES_PER_FILE, chunks_per_file=PLACES_PER_FILE, files_max=FILES)
    reader = HitReader(state.searcher.view, state.read)
    places = reader.skip_comments(drop_distant(state.searcher.rank(query).places, 0.0))
    return sorted(reader.hits(places), key=lambda hit: -hit.chance)[:PLACES_MAX]


def is_changed(hit: Hit, hunks: Mapping[str, Sequence[Sequence[int]]]) -> bool:
    """Return whether a commit changed a line of a hit."""
    span = hit.chunk.span
    return any(first <= span.last and span.first <= last for first, last in hunks.get(hit.chunk.path, ()))


# -- fitting weights ---------------------------------------------------------------------------------------------------


def fit(facts: Floats, needed: Floats, counts: Sequence[int]) -> Floats:
    """Return the weights of the facts and the constant, last: those that put needed places first, made probabilities.

    The loss is the softmax over the places of a task, for all that are needed together, and that of each place. The
    odds of places that were needed and were not are then fitted to the shares that were seen (Platt 1999).
    """
    mean, spread = facts.mean(axis=0), facts.std(axis=0) + 1e-6
    scaled = np.column_stack([(facts - mean) / spread, np.ones(len(facts))])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    weights = np.zeros(scaled.shape[1])
    weights[0] = spread[0]  # the odds as they are
    moved, squared = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        slope = scaled.T @ _slope_by_odds(scaled @ weights, needed, starts, counts) + DECAY * weights
        moved = 0.9 * moved + 0.1 * slope
        squared = 0.999 * squared + 0.001 * slope * slope
        rate = RATE * (1 - step / STEPS)
        weights -= rate * (moved / (1 - 0.9**step)) / (np.sqrt(squared / (1 - 0.999**step)) + 1e-9)
    scale, shift = _calibrate(scaled @ weights, needed)
    plain = scale * weights[:-1] / spread
    return np.append(plain, scale * weights[-1] + shift - plain @ mean)


def _slope_by_odds(odds: Floats, needed: Floats, starts: Floats, counts: Sequence[int]) -> Floats:
    """Return the slope of the mean loss by the odds of each place."""
    powers = np.exp(odds - np.repeat(np.maximum.reduceat(odds, starts), counts))
    shares = powers / np.repeat(np.add.reduceat(powers, starts), counts)
    found = np.add.reduceat(shares * needed, starts)
    is_answered = np.repeat(found > 0, counts)
    targets = shares * needed / np.repeat(np.maximum(found, 1e-12), counts)
    of_lists = (shares - targets) * is_answered / max(1, int((found > 0).sum()))
    return of_lists + PLACE_SHARE * (1 / (1 + np.exp(-odds)) - needed) / len(odds)


def _calibrate(odds: Floats, needed: Floats) -> tuple[float, float]:
    """Return the factor and the addend that make odds those of the shares that were seen, by Newton's method."""
    columns = np.column_stack([odds, np.ones(len(odds))])
    solution = np.array([1.0, 0.0])
    for _ in range(25):
        chance = 1 / (1 + np.exp(-columns @ solution))
        curvature = (columns * (chance * (1 - chance))[:, None]).T @ columns
        solution += np.linalg.solve(curvature, columns.T @ (needed - chance))
    return float(solution[0]), float(solution[1])


def measure(odds: Floats, needed: Floats, counts: Sequence[int]) -> str:
    """Return how often the first place was needed, and the mean reciprocal rank of the first that was."""
    ranks = []
    for own, right in zip(
        np.split(odds, np.cumsum(counts)[:-1]), np.split(needed, np.cumsum(counts)[:-1]), strict=True
    ):
        at = np.flatnonzero(right[np.argsort(-own, kind="stable")])
        ranks.append(1 / (1 + at[0]) if len(at) else 0.0)
    return f"first {np.mean(np.array(ranks) == 1):.3f}, mean reciprocal rank {np.mean(ranks):.3f}"


def _compute_odds(facts: Floats, weights: Floats) -> Floats:
    return facts @ weights[:-1] + weights[-1]


def _join(parts: Iterable[tuple[Floats, Floats, Floats]]) -> list[Floats]:
    """Return the facts, the needed places and the counts of several repositories, one after the other."""
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def fit_and_report(folder: Path, without: Sequence[str]) -> None:
    """Print the weights of all repositories, and the order before and after, held out by folds of repositories.

    Facts in `without` are left out, to see what they gain.
    """
    names = [name for name in PlaceFacts._fields if name not in without]
    kept = [PlaceFacts._fields.index(name) for name in names]
    loaded = [np.load(path) for path in sorted(folder.glob("*.npz"))]
    parts = [(part["facts"].astype(float)[:, kept], part["needed"].astype(float), part["counts"]) for part in loaded]
    parts = [(facts, needed, counts[counts > 0]) for facts, needed, counts in parts if len(facts)]
    folds = [fit(*_join(parts[at] for at in range(len(parts)) if at % FOLDS != number)) for number in range(FOLDS)]
    held_out = [_compute_odds(facts, folds[at % FOLDS]) for at, (facts, _, _) in enumerate(parts)]
    facts, needed, counts = _join(parts)
    print(f"{len(counts)} tasks of {len(parts)} repositories")
    print(f"before:    {measure(facts[:, 0], needed, counts)}")
    print(f"held out:  {measure(np.concatenate(held_out), needed, counts)}")
    weights = fit(facts, needed, counts)
    for name, weight in zip((*names, "constant"), weights, strict=True):
        print(f"    {name}={weight:.2f},")


def main() -> None:
    """Parse, collect or fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    collecting = commands.add_parser("collect", help="walk through commits and keep facts")
    collecting.add_argument("--mirrors", type=Path, required=True)
    collecting.add_argument("--out", type=Path, required=True)
    collecting.add_argument("--per", type=int, default=48, help="commits of a repository")
    collecting.add_argument("repositories", nargs="+", metavar="OWNER/NAME")
    fitting = commands.add_parser("fit", help="print weights")
    fitting.add_argument("--facts", type=Path, required=True)
    fitting.add_argument("--without", nargs="+", choices=PlaceFacts._fields[1:], default=[], help="facts to leave out")
    chosen = parser.parse_args()
    if chosen.command == "fit":
        fit_and_report(chosen.facts, chosen.without)
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.repositories:
        try:
            found = collect(name, mirror_of(chosen.mirrors, name), chosen.per)
        except subprocess.CalledProcessError as error:  # the mirror lacks a file
            print(f"{name}: left out, {error}", file=sys.stderr)
            continue
        np.savez_compressed(chosen.out / name.replace("/", "+"), **found)
        print(f"{name}: {len(found['counts'])} tasks, {len(found['needed'])} places", flush=True)


if __name__ == "__main__":
    main()
