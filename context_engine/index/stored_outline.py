"""PURE. The outline of a file as the index stores it: enough to find its symbols; the rest is read from the file."""

from __future__ import annotations

import msgspec


class StoredSymbol(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A symbol as the index stores it: enough to find it; the rest is read from the file when needed."""

    name: str
    kind: str
    first: int
    last: int
    line: int
    parent: int
    owner: str = ""


class StoredOutline(msgspec.Struct, array_like=True, frozen=True):
    """The outline of a file as the index stores it; `imports` are (target, line)."""

    symbols: list[StoredSymbol]
    imports: list[tuple[str, int]]
    lines: int
    problem: str = ""


encode_outline = msgspec.msgpack.Encoder().encode
decode_outline = msgspec.msgpack.Decoder(StoredOutline).decode
