"""PURE. Reads the safetensors format: eight bytes with the length of a JSON header, the header, then the numbers.

The format contains nothing that could be run, and every number of the header is checked against the bytes that exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from context_engine.text import read_json

DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}
"""Types of the format that numpy knows; bfloat16 is not among them."""
COUNT_BYTES = 8
UNTOLD = "__metadata__"


def read_tensors(content: bytes) -> dict[str, np.ndarray]:
    """Return every tensor by its name, as views into the content. Raises: ValueError, saying what is wrong."""
    start = COUNT_BYTES + int.from_bytes(content[:COUNT_BYTES], "little")
    if not COUNT_BYTES < start <= len(content):
        raise ValueError("the header is cut off")
    header = read_json(content[COUNT_BYTES:start])  # its error is a ValueError
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")
    body = memoryview(content)[start:]
    return {name: _tensor(name, entry, body) for name, entry in header.items() if name != UNTOLD}


def _tensor(name: str, entry: Mapping[str, Any], body: memoryview) -> np.ndarray:
    try:
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), tuple(map(int, entry["shape"]))
        first, stop = map(int, entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the header does not describe the tensor {name}") from error
    if (
        not 0 <= first <= stop <= len(body)
        or stop - first != math.prod(shape) * dtype.itemsize
        or min(shape, default=0) < 0
    ):
        raise ValueError(f"the tensor {name} does not lie within the file")
    return np.frombuffer(body[first:stop], dtype).reshape(shape)
