"""A peer for a bench of places: semble 0.7.0 by words, without a model (needs the extra `bench`); the protocol of adapter.py.

Its chunks are shown whole, as it shows them, the best first.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.speed import Peer
from evals.places.adapter import Reply, answer_requests, fill
from evals.places.shown import Place

CHUNKS_MAX = 60


@lru_cache(1)
def _indexed(root: Path) -> Peer:
    peer = Peer(root)
    peer.index()
    return peer


@lru_cache(1)
def _ranked(root: Path, query: str) -> list[Any]:
    return _indexed(root).rank_by_words(query, CHUNKS_MAX)


def ask_semble(root: Path, query: str, tokens: int) -> Reply:
    """Show its best chunks, one below the other, until the budget is filled."""
    began = time.perf_counter()
    pieces = (
        (Place(chunk.file_path, chunk.start_line, chunk.end_line), chunk.content) for chunk in _ranked(root, query)
    )
    shown, text = fill(pieces, tokens)
    return Reply(shown, text, (time.perf_counter() - began) * 1e3)


if __name__ == "__main__":
    answer_requests(ask_semble)
