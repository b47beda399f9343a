"""Read the fields of a protocol buffer message from bytes that may be anything. PURE.

>>> [(field.number, field.value) for field in read_fields(bytes([8, 150, 1]))]
[(1, 150)]
>>> [data[field.start : field.stop] for data in [bytes([18, 2]) + b"hi"] for field in read_fields(data)]
[b'hi']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
