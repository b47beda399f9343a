"""Which way of putting words and meaning together finds what was remembered: prints a table. Nothing is written.

    python evals/remembering/run.py

Words are FTS5 over our terms, meaning the static vectors of this package, each as the product has it.
"""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from context_engine.index import StaticEncoder
from context_engine.memory import memory_index
from context_engine.memory.memory_index import IndexItem, MemoryIndex, TextEmbedder
from context_engine.text import query_terms

Scores = Mapping[int, float]
RRF_K = 60
"""The constant of the paper that named it."""


def main() -> None:
    """Ask every question in every way."""
    told = tomllib.loads((Path(__file__).parent / "items.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        encoder = StaticEncoder()
        embedder = TextEmbedder("static", lambda texts: encoder.rows(texts).floats())
        recall = MemoryIndex(Path(folder) / "recall.db", embedder)
        names = list(told["items"])
        recall.put("eval", {name: (b"", [IndexItem(name.encode(), "", text)]) for name, text in told["items"].items()})
        numbers = {name: page.items[0][0] for name, page in recall.pages("eval").items()}
        asked = [
            (
                recall.score_words(query_terms(text)),
                recall.compute_similarity(text)[0],
                [numbers[each] for each in right],
            )
            for text, right in told["questions"].items()
        ]
        recall.close()
    print(
        f"{len(names)} items, {len(asked)} questions\n\n| way | first is right | recall@5 | MRR |\n| --- | --- | --- | --- |"
    )
    for way, rank in ways().items():
        print(f"| {way} | {measured(asked, rank)} |")


def ways() -> dict[str, Callable[[Scores, Scores], list[int]]]:
    """The ways to rank, by name."""
    sums = {f"sum, meaning {weight:g}": summed(weight) for weight in (0.3, 0.6, 1.0, 1.5)}
    return {
        "words": lambda words, _: best(words),
        "meaning": lambda _, meaning: best(meaning),
        "RRF": lambda words, meaning: best(reciprocal(words, meaning)),
        **sums,
        "product": lambda words, meaning: best(memory_index.fuse_scores(words, meaning, words.keys() | meaning.keys())),
    }


def summed(weight: float) -> Callable[[Scores, Scores], list[int]]:
    """The sum of both, each divided by its best."""

    def rank(words: Scores, meaning: Scores) -> list[int]:
        most, nearest = max(words.values(), default=1.0), max(meaning.values(), default=1.0)
        both = words.keys() | meaning.keys()
        return best(
            {each: words.get(each, 0) / most + weight * max(0.0, meaning.get(each, 0)) / nearest for each in both}
        )

    return rank


def reciprocal(words: Scores, meaning: Scores) -> dict[int, float]:
    """Reciprocal rank fusion."""
    scores: dict[int, float] = {}
    for ranked in (best(words), best(meaning)):
        for place, number in enumerate(ranked, 1):
            scores[number] = scores.get(number, 0.0) + 1 / (RRF_K + place)
    return scores


def best(scores: Scores) -> list[int]:
    """Numbers, best first."""
    return sorted(scores, key=lambda number: (-scores[number], number))


def measured(asked: list[tuple[Scores, Scores, list[int]]], rank: Callable[[Scores, Scores], list[int]]) -> str:
    """Share of questions whose first answer is right, recall@5 and mean reciprocal rank of the first right one."""
    first = recall = reciprocals = 0.0
    for words, meaning, right in asked:
        ranked = rank(words, meaning)
        first += bool(ranked) and ranked[0] in right
        recall += len(set(ranked[:5]) & set(right)) / len(right)
        reciprocals += next((1 / place for place, number in enumerate(ranked, 1) if number in right), 0.0)
    return " | ".join(f"{value / len(asked):.3f}" for value in (first, recall, reciprocals))


if __name__ == "__main__":
    main()
