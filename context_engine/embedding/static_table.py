"""PURE. The static table as bytes.

The static table as bytes: a vocabulary and one row of four-bit numbers a piece, in a form that shows tampering.

    magic 8 | header length 4 | header JSON | body: pieces by line, scales float16, rows (two numbers a byte)

The header has shape and provenance and the sha256 of the body; the name of the form is the magic. What was cut short,
changed by one bit or is something else is refused with the reason; nothing of it is used.

>>> rows = np.array([[7.0, -7.0], [0.5, 0.25]], dtype=np.float32)
>>> table = unpack_table(pack_table(["get", "##s"], rows, {"seed": 1}))
>>> table.pieces, table.rows(np.array([0])).tolist(), table.facts["seed"]
(['get', '##s'], [[7.0, -7.0]], 1)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAGIC = b"CTXSTAT1"
"""The last character counts the formats: 1 four bits, one scale for each row, an even number of dimensions."""
LEVEL_MAX = 7
"""Numbers from -7 to 7: symmetric, so that zero is zero. They are stored plus eight, in four bits."""


class BadTableError(ValueError):
    """These bytes are not a table; the message is the reason."""


@dataclass(frozen=True, slots=True)
class StaticTable:
    """A table whose rows stay packed until they are needed.

    `sha256` is that of its header, which contains that of the body.
    """

    pieces: list[str]
    scales: np.ndarray
    nibbles: np.ndarray
    facts: Mapping[str, Any]
    sha256: str

    @property
    def dimensions(self) -> int:
        """Numbers in a row."""
        return self.nibbles.shape[1] * 2

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return these rows as float32, shape `(len(numbers), dimensions)`."""
        packed_rows = self.nibbles[numbers]
        found = np.empty((len(numbers), self.dimensions), dtype=np.float32)
        found[:, 0::2] = packed_rows >> 4
        found[:, 1::2] = packed_rows & 15
        found -= LEVEL_MAX + 1
        found *= self.scales[numbers].astype(np.float32)[:, None]
        return found


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


def unpack_table(data: bytes | memoryview) -> StaticTable:
    """Return the table in these bytes; the rows are views of them, not copies. Raises: BadTableError."""
    facts, body, sha256 = _header(memoryview(data))
    count, half = facts["rows"], facts["dimensions"] // 2
    scales_at = facts["piece_bytes"]
    rows_at = scales_at + 2 * count
    if len(body) != rows_at + count * half:
        raise BadTableError(f"it is cut short: {len(body):,} of {rows_at + count * half:,} bytes")
    if hashlib.sha256(body).hexdigest() != facts["sha256"]:
        raise BadTableError("its bytes are not those that were written (sha256 differs)")
    return StaticTable(
        str(body[:scales_at], "utf-8").split("\n"),
        np.frombuffer(body[scales_at:rows_at], dtype="<f2"),
        np.frombuffer(body[rows_at:], dtype=np.uint8).reshape(count, half),
        facts,
        sha256,
    )


def read_sha256(data: bytes | memoryview) -> str:
    """Return the `sha256` of the table from its header; the body is not read. Raises: BadTableError."""
    return _header(memoryview(data))[2]


def _header(view: memoryview) -> tuple[dict[str, Any], memoryview, str]:
    """Return the facts of the header, the body, and the sha256 of everything before the body."""
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise BadTableError("it is not a static table of this version")
    start = len(MAGIC) + 4
    stop = start + int.from_bytes(view[len(MAGIC) : start], "little")
    try:
        facts = json.loads(bytes(view[start:stop]))
        shape = [facts[name] for name in ("rows", "dimensions", "piece_bytes")]
    except (ValueError, KeyError, TypeError) as error:
        raise BadTableError("its header cannot be read") from error
    if not all(isinstance(number, int) and number >= 0 for number in shape) or "sha256" not in facts:
        raise BadTableError("its header cannot be read")
    return facts, view[stop:], hashlib.sha256(view[:stop]).hexdigest()
