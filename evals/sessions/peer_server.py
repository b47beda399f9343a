"""The peer in our place: the MCP server of semble 0.7.0 as it is, by words, since its model is not to be had offline.

Vectors of zeros have no weight (`alpha=0`), as in bench/speed.py. It needs the extra `bench`.
"""

from __future__ import annotations

import asyncio
import functools

import numpy as np
import semble.mcp
from semble.index import index


class Zeros:
    """In place of its embedding model."""

    dim = 4

    def encode(self, texts, **_):
        return np.zeros((len(texts), self.dim), np.float32)


def load_zeros(*_: object) -> tuple[Zeros, str]:
    """Return what stands in for the model, and its name."""
    return Zeros(), "words-alone"


if __name__ == "__main__":
    index.load_model = semble.mcp.load_model = load_zeros
    index.SembleIndex.search = functools.partialmethod(index.SembleIndex.search, alpha=0.0)
    asyncio.run(semble.mcp.serve())
