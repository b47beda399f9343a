"""How what is remembered is compared by meaning: vectors that somebody hands in, or none, with the reason told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from context_engine.errors import HostError
from context_engine.memory.memory_index import MemoryIndex
from context_engine.memory.memory_ranking import COSINE_MIN


@dataclass(frozen=True, slots=True)
class TextEmbedder:
    """What makes vectors: the name of their space, which changes with whatever changes one of them, and how.

    It must be quick, a fraction of a millisecond a text: an answer waits for it. `texts` raises a HostError when it
    fails.
    """

    space: str
    texts: Callable[[Sequence[str]], npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class SimilarityScores:
    """The cosine of each item with a text, by number. `why_not` says why there are none; empty when there are."""

    cosines: dict[int, float]
    problem: str = ""


def compute_similarity(recall: MemoryIndex, embed: TextEmbedder | None, text: str) -> SimilarityScores:
    """How near items come to a text, those that come near at all. A failing embedder is a reason, never an error."""
    if embed is None:
        return SimilarityScores({}, "no embeddings are at hand")
    try:
        return SimilarityScores(recall.score_vectors(embed.space, embed.texts, text, least=COSINE_MIN))
    except HostError as error:
        return SimilarityScores({}, f"embedding failed: {error.message}")


def embed_missing(recall: MemoryIndex, embed: TextEmbedder | None) -> None:
    """Give everything its vector now, so that no question waits for it.

    A failing embedder is told of when one is asked.
    """
    if embed is not None:
        with suppress(HostError):
            recall.embed_missing(embed.space, embed.texts)
