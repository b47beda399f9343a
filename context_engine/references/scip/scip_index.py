"""A SCIP index on the disk: its documents by path, each read when it is asked for. It may be anything.

Only where documents begin is kept. A file that is replaced stays readable as it was; one that is overwritten in place
gives damaged documents, which are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BufferedReader
from typing import NamedTuple

from context_engine.errors import InvalidArgument
from context_engine.references.scip.scip_document import (
    DOCUMENT_BYTES_MAX,
    ProtobufError,
    ScipDocument,
    read_document,
    read_fields,
    read_path,
    read_varint,
)
from context_engine.repo import uri_to_path

INDEX_BYTES_MAX = 4_000_000_000
DOCUMENTS_MAX = 500_000
METADATA_BYTES_MAX = 1_000_000
HEAD_BYTES = 1_000
"""A path is within so many bytes of the start of its document."""
TAG_BYTES_MAX = 20


class _Part(NamedTuple):
    """Where a document is in the file."""

    start: int
    size: int


class ScipIndex:
    """An open index; close it."""

    def __init__(self, file: BufferedReader) -> None:
        """Read where the documents are. Raises: OSError, ProtobufError for another file."""
        self._file = file
        status = os.fstat(file.fileno())
        self.mtime_ns = status.st_mtime_ns
        self.project_root = ""
        """The path of the folder that was indexed, on the machine where it was."""
        if status.st_size > INDEX_BYTES_MAX:
            raise ProtobufError(f"it has more than {INDEX_BYTES_MAX:,} bytes")
        self._parts = dict(self._find_parts(status.st_size))

    def read(self, path: str) -> ScipDocument | None:
        """Return a document; None if it is not there or damaged."""
        part = self._parts.get(path)
        if part is None:
            return None
        try:
            return read_document(self._read(part.start, part.size))
        except (ProtobufError, OSError, ValueError):
            return None

    def find_describing(self, symbol: str) -> list[str]:
        """Return the documents that may describe a symbol, or one that implements it: its name is in a first field."""
        name = symbol.encode("utf-8", "replace")
        wanted = b"\n" + _as_varint(len(name)) + name
        found: list[str] = []
        for path, part in self._parts.items():
            try:
                found += [path] if wanted in self._read(part.start, part.size) else []
            except (OSError, ValueError):
                continue
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _find_parts(self, size: int) -> Iterator[tuple[str, _Part]]:
        at = count = 0
        while at < size:
            head = self._read(at, TAG_BYTES_MAX)
            tag, here = read_varint(head, 0, len(head))
            if tag & 7 != 2:
                raise ProtobufError("it is not a SCIP index")
            length, here = read_varint(head, here, len(head))
            start, at = at + here, at + here + length
            if at > size:
                raise ProtobufError("its end is missing")
            if tag >> 3 == 1 and length <= METADATA_BYTES_MAX:
                self.project_root = _read_project_root(self._read(start, length))
            if tag >> 3 != 2 or length > DOCUMENT_BYTES_MAX:
                continue
            count += 1
            if count > DOCUMENTS_MAX:
                raise ProtobufError(f"it has more than {DOCUMENTS_MAX:,} documents")
            path = read_path(self._read(start, min(length, HEAD_BYTES)))
            if path:
                yield path, _Part(start, length)

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)


def _read_project_root(data: bytes) -> str:
    for field in read_fields(data):
        if field.number == 3:
            try:
                return uri_to_path(data[field.start : field.stop].decode("utf-8", "replace"))
            except InvalidArgument:
                return ""
    return ""


def _as_varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
