"""How what is remembered is compared by meaning: vectors that somebody hands in, or none, with the reason told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from context_engine.errors import HostError
from context_engine.memory.memory_index import Recall
from context_engine.memory.memory_ranking import COSINE_MIN


@dataclass(frozen=True, slots=True)
class Embed:
    """What makes vectors: the name of their space, which changes with whatever changes one of them, and how.

    It must be quick, a fraction of a millisecond a text: an answer waits for it. `texts` raises a HostError when it
    fails.
    """

    space: str
    texts: Callable[[Sequence[str]], npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Nearness:
    """The cosine of each item with a text, by number. `why_not` says why there are none; empty when there are."""

    cosines: dict[int, float]
    why_not: str = ""


def nearness(recall: Recall, embed: Embed | None, text: str) -> Nearness:
    """How near items come to a text, those that come near at all. A failing embedder is a reason, never an error."""
    if embed is None:
        return Nearness({}, "no embeddings are at hand")
    try:
        return Nearness(recall.cosines(embed.space, embed.texts, text, least=COSINE_MIN))
    except HostError as error:
        return Nearness({}, f"embedding failed: {error.message}")


def prepare(recall: Recall, embed: Embed | None) -> None:
    """Give everything its vector now, so that no question waits for it.

    A failing embedder is told of when one is asked.
    """
    if embed is not None:
        with suppress(HostError):
            recall.fill(embed.space, embed.texts)
