"""Learns the rows: sentences must lie nearer to their own code than to the other codes of the batch. numpy alone.

The model is a bag: a text is the sum of the rows of its pieces, made one long. A row's length is the weight of its
piece, so there is nothing else to learn. The loss is softmax over a batch, both ways, on the first 384, 256 and 128
numbers; batches are made of runs of pairs of one file, so that the hardest wrong answers are always there. Rows move by
Adagrad, which gives a rare piece large steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

WIDTHS = (384, 256, 128)
"""The full row, and its first parts: they can be used on their own (Matryoshka)."""
SHARPNESS = 20.0
"""What cosines are multiplied by before the softmax; 1/.05, usual for this loss."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how fast. `run_max` pairs of one file stand side by side in a batch."""

    epochs: int = 4
    batch: int = 512
    run_max: int = 4
    rate: float = 0.02
    seed: int = 20261121


@dataclass(frozen=True, slots=True)
class Bags:
    """Texts as piece numbers, one after the other; text n is `pieces[starts[n]:starts[n + 1]]`."""

    pieces: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, texts: Sequence[np.ndarray]) -> Bags:
        """The same texts, end to end."""
        lengths = np.array([len(each) for each in texts], dtype=np.int64)
        return cls(np.concatenate([*texts, np.array([], dtype=np.int32)]), np.concatenate([[0], np.cumsum(lengths)]))

    def take(self, numbers: np.ndarray) -> Bags:
        """Some of the texts, in the order asked for."""
        return Bags.of([self.pieces[self.starts[n] : self.starts[n + 1]] for n in numbers])

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(slots=True)
class Learner:
    """The rows and how far each number has moved so far."""

    rows: np.ndarray
    moved: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.moved = np.full_like(self.rows, 1e-6)

    def step(self, pieces: np.ndarray, gradient: np.ndarray, rate: float) -> None:
        """Adagrad on the rows of one batch; `pieces` are distinct."""
        self.moved[pieces] += gradient * gradient
        self.rows[pieces] -= rate * gradient / np.sqrt(self.moved[pieces])


def loss_and_gradient(
    rows: np.ndarray, asked: Bags, answered: Bags, widths: Sequence[int] = WIDTHS
) -> tuple[float, np.ndarray, np.ndarray]:
    """The loss of one batch, the distinct pieces in it, and the gradient of their rows."""
    texts = Bags(
        np.concatenate([asked.pieces, answered.pieces]),
        np.concatenate([asked.starts, answered.starts[1:] + asked.starts[-1]]),
    )
    distinct, places = np.unique(texts.pieces, return_inverse=True)
    sums = summed(rows[distinct], places, texts.starts)
    loss, back = 0.0, np.zeros_like(sums)
    for width in widths:
        part_loss, part_back = _contrast(sums[:, :width], len(asked))
        loss += part_loss / len(widths)
        back[:, :width] += part_back / len(widths)
    return loss, distinct, spread(back, places, texts.starts, len(distinct))


def summed(rows: np.ndarray, places: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The sum of rows for each text; no text may be empty."""
    return np.add.reduceat(rows[places], starts[:-1], axis=0)


def spread(back: np.ndarray, places: np.ndarray, starts: np.ndarray, count: int) -> np.ndarray:
    """The other way round: what each row gets from the texts it stands in; every row stands somewhere."""
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.argsort(places, kind="stable")
    firsts = np.searchsorted(places[order], np.arange(count))
    return np.add.reduceat(back[owners[order]], firsts, axis=0)


def _contrast(sums: np.ndarray, half: int) -> tuple[float, np.ndarray]:
    """The loss over one width and its gradient by the sums: rows n and `half + n` belong together."""
    norms = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-12
    units = sums / norms
    scores = SHARPNESS * units[:half] @ units[half:].T
    forth, forth_back = _softmax_loss(scores)
    aback, aback_back = _softmax_loss(scores.T)
    by_scores = SHARPNESS * (forth_back + aback_back.T) / 2
    by_units = np.concatenate([by_scores @ units[half:], by_scores.T @ units[:half]])
    by_sums = (by_units - units * (by_units * units).sum(axis=1, keepdims=True)) / norms
    return (forth + aback) / 2, by_sums


def _softmax_loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean cross entropy of the diagonal, and its gradient by the scores."""
    scores = scores - scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    totals = shares.sum(axis=1)
    own = np.arange(len(scores))
    loss = float((np.log(totals) - scores[own, own]).mean())
    shares /= totals[:, None]
    shares[own, own] -= 1
    return loss, shares / len(scores)


def batches(files: Sequence[str], plan: Plan, chance: np.random.Generator) -> Iterator[np.ndarray]:
    """Pair numbers for one epoch: runs of at most `run_max` pairs of a file, shuffled, cut into batches."""
    by_file: dict[str, list[int]] = {}
    for number in chance.permutation(len(files)):
        by_file.setdefault(files[number], []).append(int(number))
    runs = [
        numbers[at : at + plan.run_max] for numbers in by_file.values() for at in range(0, len(numbers), plan.run_max)
    ]
    order = [number for run in chance.permutation(len(runs)) for number in runs[run]]
    for at in range(0, len(order), plan.batch):
        if len(order) - at > 1:
            yield np.array(order[at : at + plan.batch])


def train(
    rows: np.ndarray, asked: Bags, answered: Bags, files: Sequence[str], plan: Plan
) -> Iterator[tuple[np.ndarray, float]]:
    """After each epoch the rows as they are (not a copy) and the mean loss. The rate falls in a straight line."""
    learner = Learner(rows.astype(np.float32))
    chance = np.random.default_rng(plan.seed)
    steps_max = plan.epochs * -(-len(files) // plan.batch)
    done = 0
    for _ in range(plan.epochs):
        losses = []
        for numbers in batches(files, plan, chance):
            loss, pieces, gradient = loss_and_gradient(learner.rows, asked.take(numbers), answered.take(numbers))
            learner.step(pieces, gradient, plan.rate * max(0.05, 1 - done / steps_max))
            losses.append(loss)
            done += 1
        yield learner.rows, float(np.mean(losses))
