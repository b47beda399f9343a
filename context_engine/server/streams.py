"""The two pipes of a stdio server, taken away from everybody else before anything heavy is imported. Stdlib only.

From here on descriptor 0 reads nothing and descriptor 1 writes to stderr, so neither a print of some library nor a child
process can reach the client.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Pipes:
    """What comes from the client and what goes to it, as UTF-8 text, one JSON-RPC message a line."""

    incoming: TextIO
    outgoing: TextIO


def claim() -> Pipes:
    """Take stdin and stdout for the protocol. Call once, first."""
    sys.stdout.flush()
    incoming, outgoing = _duplicate(0), _duplicate(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdin = io.StringIO()
    sys.stdout = sys.stderr
    return Pipes(
        io.TextIOWrapper(os.fdopen(incoming, "rb"), encoding="utf-8", errors="replace", newline="\n"),
        io.TextIOWrapper(os.fdopen(outgoing, "wb"), encoding="utf-8", newline="\n", write_through=False),
    )


def _duplicate(descriptor: int) -> int:
    """A copy that children do not inherit, above the three standard ones."""
    copy = os.dup(descriptor)
    os.set_inheritable(copy, False)
    return copy
