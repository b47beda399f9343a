"""Compares memories by meaning, with vectors if there is an embedder, else with the reason why not."""

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
    """Makes vectors. `space` names how they are made, and changes with anything that changes a vector.

    It must be quick, a fraction of a millisecond for a text, because an answer waits for it. `texts` raises a HostError
    if it fails.
    """

    space: str
    texts: Callable[[Sequence[str]], npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class SimilarityScores:
    """The cosine of each item with a text, by number. `problem` says why there are none; empty if there are."""

    cosines: dict[int, float]
    problem: str = ""


def compute_similarity(recall: MemoryIndex, embed: TextEmbedder | None, text: str) -> SimilarityScores:
    """Return the similarity of items to a text, without distant ones. A failing embedder is a reason, not an error."""
    if embed is None:
        return SimilarityScores({}, "no embeddings are at hand")
    try:
        return SimilarityScores(recall.score_vectors(embed.space, embed.texts, text, least=COSINE_MIN))
    except HostError as error:
        return SimilarityScores({}, f"embedding failed: {error.message}")


def embed_missing(recall: MemoryIndex, embed: TextEmbedder | None) -> None:
    """Make all missing vectors now, so that no question waits for them.

    A failing embedder is reported when it is used.
    """
    if embed is not None:
        with suppress(HostError):
            recall.embed_missing(embed.space, embed.texts)
