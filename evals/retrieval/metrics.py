"""What a ranking is worth: ranks, recall, MRR, NDCG and what an agent has to read. No file, no engine.

NDCG is binary with the ideal of min(k, targets); a target is found when one path ends in the other after a slash and,
where the target names lines, the lines overlap. These are the rules of the dev set's own bench, so figures compare.

>>> ndcg([1, 3], wanted=2)
0.9197207891481876
>>> reciprocal([]), recall([2, 11], wanted=2, k=10)
(0.0, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CHARS_PER_TOKEN = 4
"""The same yardstick for every system: a tokenizer would favor those trained on code."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file that answers a question; `first` and `last` narrow it to lines, 0 means the whole file."""

    path: str
    first: int = 0
    last: int = 0

    def is_hit_by(self, row: Mapping[str, Any]) -> bool:
        """Whether a result row (`path`, `start`, `end`) shows this target."""
        found = row["path"]
        same = found == self.path or found.endswith("/" + self.path) or self.path.endswith("/" + found)
        return same and not (self.first and (row["end"] < self.first or row["start"] > self.last))


def ranks(rows: Sequence[Mapping[str, Any]], targets: Sequence[Target]) -> list[int]:
    """The rank, from 1, at which each target shows up first; targets that never do are left out."""
    firsts = (next((rank for rank, row in enumerate(rows, 1) if target.is_hit_by(row)), 0) for target in targets)
    return sorted(rank for rank in firsts if rank)


def ndcg(found: Sequence[int], *, wanted: int, k: int = 10) -> float:
    """Normalized discounted cumulative gain at `k`, from ranks."""
    got = sum(1 / math.log2(rank + 1) for rank in set(found) if rank <= k)
    return got / sum(1 / math.log2(place + 2) for place in range(min(k, wanted)))


def recall(found: Sequence[int], *, wanted: int, k: int) -> float:
    """The share of targets among the first `k` rows."""
    return sum(rank <= k for rank in found) / wanted


def reciprocal(found: Sequence[int]) -> float:
    """One over the rank of the first target; 0 without any."""
    return 1 / found[0] if found else 0.0


def recall_within(rows: Sequence[Mapping[str, Any]], targets: Sequence[Target], tokens: int) -> float:
    """The share of targets an agent has seen when it stops before the row that would exceed `tokens`."""
    spent, seen = 0, set()
    for row in rows:
        spent += max(1, len(row["content"]) // CHARS_PER_TOKEN)
        if spent > tokens:
            break
        seen |= {number for number, target in enumerate(targets) if target.is_hit_by(row)}
    return len(seen) / len(targets)
