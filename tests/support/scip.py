"""SCIP indexes for tests, written field by field as the format says."""

from __future__ import annotations

from typing import Any

DEFINITION = 1


def number(value: int) -> bytes:
    """A number as protocol buffers write it."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(key: int, value: int | str | bytes) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return number(key << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(key << 3 | 2) + number(len(data)) + data


def symbol_of(path: str, name: str, package: str = "shop") -> str:
    """The symbol of a definition in a file, as `cart.py` and `Cart#add().`."""
    return f"test . {package} 1 `{path}`/{name}"


def name_at(text: str, word: str, symbol: str, *, nth: int = 0, roles: int = 0, shift: int = 0) -> bytes:
    """The occurrence of a word in a text, counted from 0; `shift` moves its column."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(word, at + 1)
    line, start = text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1 + shift
    place = b"".join(map(number, (line, start, start + len(word))))
    return field(1, place) + field(2, symbol) + (field(3, roles) if roles else b"")


def document(path: str, *names: bytes, implements: dict[str, str] | None = None, **more: Any) -> bytes:
    """A document with its names; `text` and `encoding` as in the format."""
    rows = [field(1, path), *(field(2, name) for name in names)]
    for symbol, base in (implements or {}).items():
        rows.append(field(3, field(1, symbol) + field(4, field(1, base) + field(3, 1))))
    rows += [field(5, more["text"])] if "text" in more else []
    rows += [field(6, more["encoding"])] if "encoding" in more else []
    return b"".join(rows)


def index_of(*documents: bytes, root: str = "file:///somewhere/else") -> bytes:
    """An index of documents."""
    head = field(2, field(1, "test") + field(2, "1")) + field(3, root) + field(4, 1)
    return field(1, head) + b"".join(field(2, one) for one in documents)
