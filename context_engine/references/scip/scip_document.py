"""The content of a SCIP index: which symbol each name of a file means, and which symbols implement others. PURE.

The format is that of github.com/sourcegraph/scip, `scip.proto`. A file of it comes from elsewhere, so all sizes are
bounded.

>>> symbol_names("scip-python python shop 1.0 `shop.cart`/Cart#add().")
['Cart', 'add']
>>> package_of("scip-python python shop 1.0 `shop.cart`/Cart#add()."), package_of("local 3")
('scip-python python shop 1.0', '')
>>> [(field.number, field.value) for field in read_fields(bytes([8, 150, 1]))]
[(1, 150)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

UTF8, UTF16, UTF32 = 1, 2, 3
"""The units of columns: bytes, halves of UTF-16 as in JavaScript, or characters."""
VARINT_BYTES_MAX = 10
"""A number of 64 bits takes so many bytes; a longer one is damage."""
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
FIXED_BYTES = {FIXED_64: 8, FIXED_32: 4}


class ProtobufError(ValueError):
    """The bytes are not a message."""


class ProtobufField(NamedTuple):
    """A field: its number; the value of a varint; and where its content is, which is empty for a varint."""

    number: int
    value: int
    start: int
    stop: int


def read_varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Return a number and where it ends. Raises: ProtobufError."""
    if at < stop and data[at] < 0x80:  # nearly all are of one byte
        return data[at], at + 1
    value = shift = 0
    for place in range(at, min(stop, at + VARINT_BYTES_MAX)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise ProtobufError(f"a number at byte {at} does not end")


def read_fields(data: bytes, start: int = 0, stop: int | None = None) -> Iterator[ProtobufField]:
    """Yield the fields of the message in a part of some bytes. Raises: ProtobufError."""
    stop = len(data) if stop is None else stop
    at = start
    while at < stop:
        tag, at = read_varint(data, at, stop)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = read_varint(data, at, stop)
            yield ProtobufField(number, value, at, at)
            continue
        if wire == BYTES:
            size, at = read_varint(data, at, stop)
        elif wire in FIXED_BYTES:
            size = FIXED_BYTES[wire]
        else:
            raise ProtobufError(f"a field at byte {at} has the unknown type {wire}")
        if size > stop - at:
            raise ProtobufError(f"a field at byte {at} is longer than its message")
        yield ProtobufField(number, 0, at, at + size)
        at += size


def read_numbers(data: bytes, start: int, stop: int, *, count_max: int) -> list[int]:
    """Return the numbers of a packed field. Raises: ProtobufError, also for more than `count_max`."""
    numbers: list[int] = []
    at = start
    while at < stop:
        if len(numbers) == count_max:
            raise ProtobufError(f"a list at byte {start} has more than {count_max} numbers")
        number, at = read_varint(data, at, stop)
        numbers.append(number)
    return numbers


# -- documents -------------------------------------------------------------------------------------------------------


DOCUMENT_BYTES_MAX = 64_000_000
"""A file of generated code with a million names takes so much."""
OCCURRENCES_MAX = 1_000_000
SYMBOL_BYTES_MAX = 10_000
DEFINITION = 1
"""The bit of `symbol_roles` for a definition."""


class ScipOccurrence(NamedTuple):
    """A symbol at a range, whose lines and columns count from 0."""

    symbol: str
    is_definition: bool
    line: int
    start: int
    stop: int


class ScipDocument(NamedTuple):
    """A file. `relations` are pairs of a symbol and one that it implements. `text` is the file, if the index has it."""

    path: str
    occurrences: tuple[ScipOccurrence, ...]
    relations: tuple[tuple[str, str], ...]
    encoding: int
    text: bytes | None


def read_document(data: bytes) -> ScipDocument:
    """Return one document. Raises: ProtobufError (ValueError)."""
    path, encoding, text = "", UTF16, None
    occurrences: list[ScipOccurrence] = []
    relations: list[tuple[str, str]] = []
    shared: dict[bytes, str] = {}
    for field in read_fields(data):
        if field.number == 1:
            path = _text(data, field)
        elif field.number == 2:
            if len(occurrences) >= OCCURRENCES_MAX:
                raise ProtobufError(f"{path} has more than {OCCURRENCES_MAX:,} names")
            occurrence = _read_occurrence(data, field, shared)
            occurrences += [occurrence] if occurrence is not None else []
        elif field.number == 3:
            relations += _read_relations(data, field)
        elif field.number == 5:
            text = data[field.start : field.stop]
        elif field.number == 6 and field.value in (UTF8, UTF16, UTF32):
            encoding = field.value
    return ScipDocument(path, tuple(occurrences), tuple(relations), encoding, text)


def read_path(data: bytes) -> str:
    """Return the path of a document from its first bytes, where indexers write it; empty if it is not there."""
    try:
        first = next(read_fields(data), None)
    except ProtobufError:  # these bytes end in it, or are anything
        return ""
    return _text(data, first) if first is not None and first.number == 1 else ""


def _read_occurrence(data: bytes, around: ProtobufField, shared: dict[bytes, str]) -> ScipOccurrence | None:
    """Return an occurrence; None for one without a symbol, and for one of several lines, which is not a name.

    An index has as many of them as the code has names, so their fields are read without values in between.
    """
    raw, roles = b"", 0
    place: list[int] = []
    at, stop = around.start, around.stop
    while at < stop:
        tag, at = read_varint(data, at, stop)
        if tag & 7 != BYTES:
            value, at = read_varint(data, at, stop) if tag & 7 == VARINT else (0, stop)
            roles = value if tag >> 3 == 3 else roles
            continue
        size, at = read_varint(data, at, stop)
        if size > stop - at:
            raise ProtobufError(f"a field at byte {at} is longer than its message")
        if tag >> 3 == 1:
            place = read_numbers(data, at, at + size, count_max=4)
        elif tag >> 3 == 2:
            raw = data[at : at + size]
        elif tag >> 3 == 8:  # a range on one line, as newer indexers write it
            numbers = {part.number: part.value for part in read_fields(data, at, at + size)}
            place = [numbers.get(1, 0), numbers.get(2, 0), numbers.get(3, 0)]
        at += size
    if len(place) == 4 and place[0] == place[2]:
        del place[2]
    if not raw or len(place) != 3:
        return None
    if raw not in shared:
        shared[raw] = _decode(raw)
    return ScipOccurrence(shared[raw], bool(roles & DEFINITION), *place)


def _read_relations(data: bytes, around: ProtobufField) -> Iterator[tuple[str, str]]:
    symbol = ""
    for field in read_fields(data, around.start, around.stop):
        if field.number == 1:
            symbol = _text(data, field)
        elif field.number == 4:
            parts = list(read_fields(data, field.start, field.stop))
            other = next((_text(data, part) for part in parts if part.number == 1), "")
            if symbol and other and any(part.number == 3 and part.value for part in parts):
                yield symbol, other


def _text(data: bytes, field: ProtobufField) -> str:
    return _decode(data[field.start : field.stop])


def _decode(raw: bytes) -> str:
    if len(raw) > SYMBOL_BYTES_MAX:
        raise ProtobufError(f"a name has more than {SYMBOL_BYTES_MAX:,} bytes")
    return raw.decode("utf-8", "replace")


# -- symbols ----------------------------------------------------------------------------------------------------------

_DESCRIPTOR = re.compile(
    r"\[(?P<t>[^\]]*)\]|\((?P<p>[^)]*)\)|(?P<name>`(?:[^`]|``)*`|[\w+\-$]+)(?:\([\w+\-$]*\)\.|[/#.:!])"
)


def package_of(symbol: str) -> str:
    """Return scheme, manager, name and version of the package of a symbol; empty for a local one."""
    if symbol.startswith("local "):
        return ""
    return symbol[: _descriptors_at(symbol)].rstrip(" ")


def symbol_names(symbol: str) -> list[str]:
    """Return the names of a symbol, the outermost first, without its package and its namespaces.

    >>> symbol_names("scip-typescript npm a 1.0 src/`a.ts`/A#`<constructor>`().(size)"), symbol_names("local 1")
    (['A', '<constructor>', 'size'], [])
    """
    names: list[str] = []
    for found in _read_descriptors(symbol):
        if found[0].endswith("/"):
            names.clear()
            continue
        name = found["name"] or found["t"] or found["p"] or ""
        names.append(name.strip("`").replace("``", "`"))
    return names


def owner_of(symbol: str) -> str:
    """Return the symbol that a symbol is part of; empty for one at the top.

    >>> owner_of("s m p 1 src/`a.ts`/A#`<constructor>`().")
    's m p 1 src/`a.ts`/A#'
    """
    last = _read_descriptors(symbol)[-1:]
    owner = symbol[: last[0].start()] if last else ""
    return owner if owner.endswith(("#", ".")) else ""


def _read_descriptors(symbol: str) -> list[re.Match[str]]:
    """Return the parts of a symbol after its package; none if one is not understood."""
    found: list[re.Match[str]] = []
    at = _descriptors_at(symbol)
    while at < len(symbol):
        part = _DESCRIPTOR.match(symbol, at)
        if part is None:
            return []
        found.append(part)
        at = part.end()
    return found


def _descriptors_at(symbol: str) -> int:
    """Return where the descriptors of a symbol begin: after four words, in which a space is written twice."""
    words = re.match(r"(?:(?:[^ ]|  )*+ ){4}+", symbol) if not symbol.startswith("local ") else None
    return words.end() if words else len(symbol)
