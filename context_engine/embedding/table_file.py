"""The file of the static table, and the fingerprint of its vectors, for those who need no vector: without numpy."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from context_engine.errors import StorageCorrupt
from context_engine.repo import pip_install

# The static table as bytes: a vocabulary and one row of four-bit numbers a piece, in a form that shows tampering.
#
#     magic 8 | header length 4 | header JSON | body: pieces by line, scales float16, rows (two numbers a byte)
#
# The header has shape and provenance and the sha256 of the body; the name of the form is the magic. What was cut short,
# changed by one bit or is something else is refused with the reason; nothing of it is used.

MAGIC = b"CTXSTAT1"
"""The last character counts the formats: 1 four bits, one scale for each row, an even number of dimensions."""
SHIPPED = Path(__file__).with_name("static.table")
NAME = "static"
RECIPE = 1
"""How a text becomes pieces. 1: words of letters, digits and underscores, split, lower case, WordPiece, all counted."""


class BadTableError(ValueError):
    """These bytes are not a table; the message is the reason."""


def compute_fingerprint(*facts: object) -> str:
    """Return 32 hex digits for the facts that decide a vector, equal in every process; their order counts.

    >>> compute_fingerprint("static", 1) == compute_fingerprint("static", "1")
    True
    >>> compute_fingerprint("ab", "c") == compute_fingerprint("a", "bc")
    False
    """
    stated = "\0".join(str(fact) for fact in facts)
    return hashlib.sha256(stated.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_fingerprint(path: Path = SHIPPED) -> str:
    """Return the fingerprint of `StaticEmbedder(path)` from the header alone. Raises: StorageCorrupt."""
    with name_refusal(path):
        return compute_fingerprint(NAME, RECIPE, read_header(map_file(path))[2])


def read_header(view: memoryview) -> tuple[dict[str, Any], memoryview, str]:
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


def map_file(path: Path) -> memoryview:
    """Return the bytes of a file. Raises: OSError, ValueError if it is empty."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@contextmanager
def name_refusal(path: Path) -> Generator[None]:
    """Turn errors into one that names the file and what to do about it. Raises: StorageCorrupt."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, BadTableError):
            reason = str(error)
        else:
            reason = f"it cannot be read ({error})"
        raise StorageCorrupt(
            f"the static embedding table {path} is refused: {reason}",
            suggestion=f"Install ctx again. In a clone of its repository: {pip_install()} --force-reinstall .",
            details={"path": str(path)},
        ) from error
