"""Writes the static table in the form that `context_engine/embedding/table_file.py` describes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from context_engine.embedding.static_embedder import LEVEL_MAX
from context_engine.embedding.table_file import MAGIC


def pack_table(pieces: Sequence[str], rows: np.ndarray, facts: Mapping[str, Any]) -> bytes:
    """Return the bytes of a table; the same input gives the same bytes."""
    scales = (np.abs(rows).max(axis=1) / LEVEL_MAX).astype(np.float16)
    steps = np.where(scales > 0, scales, 1).astype(np.float32)[:, None]
    levels = (np.clip(np.rint(rows / steps), -LEVEL_MAX, LEVEL_MAX) + LEVEL_MAX + 1).astype(np.uint8)
    nibbles = levels[:, 0::2] << 4 | levels[:, 1::2]
    body = "\n".join(pieces).encode() + scales.astype("<f2").tobytes() + nibbles.tobytes()
    header = dict(facts) | {
        "rows": len(pieces),
        "dimensions": rows.shape[1],
        "piece_bytes": len("\n".join(pieces).encode()),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    stated = json.dumps(header, sort_keys=True).encode()
    return MAGIC + len(stated).to_bytes(4, "little") + stated + body
