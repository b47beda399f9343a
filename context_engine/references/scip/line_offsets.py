r"""Lines and columns of other tools, both counted from 0, as offsets in bytes. PURE.

>>> offsets = LineOffsets("ü = 1\nö.b()\n".encode(), UTF16)
>>> offsets.locate(1, 2, 3)
(10, 11)
"""

from __future__ import annotations

UTF8, UTF16, UTF32 = 1, 2, 3
"""The units of columns: bytes, halves of UTF-16 as in JavaScript, or characters."""


class LineOffsets:
    """The lines of one file."""

    def __init__(self, data: bytes, encoding: int) -> None:
        self._data = data
        self._encoding = encoding
        self._is_plain = encoding == UTF8 or data.isascii()
        self._offsets: dict[int, list[int]] = {}
        self._starts = [0]
        at = data.find(b"\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = data.find(b"\n", at + 1)

    def locate(self, line: int, start: int, stop: int) -> tuple[int, int] | None:
        """Return where a range on a line is; None if the line does not reach so far."""
        if not 0 <= line < len(self._starts) or not 0 <= start <= stop:
            return None
        first, end = self._starts[line], self._end_of(line)
        if self._is_plain:
            found = first + start, first + stop
        else:
            found = self._bytes_before(line, start), self._bytes_before(line, stop)
        return found if found[1] <= end else None

    def _end_of(self, line: int) -> int:
        return self._starts[line + 1] - 1 if line + 1 < len(self._starts) else len(self._data)

    def _bytes_before(self, line: int, column: int) -> int:
        """Return the offset of a column; one behind the line if it is shorter."""
        columns = self._columns(line)
        return columns[column] if column < len(columns) else columns[-1] + column

    def _columns(self, line: int) -> list[int]:
        """Return the offset of each column of a line, and of its end."""
        if line not in self._offsets:
            offsets = [self._starts[line]]
            for character in self._data[self._starts[line] : self._end_of(line)].decode("utf-8", "replace"):
                if self._encoding != UTF32 and character > "\uffff":
                    offsets.append(offsets[-1])  # the middle of a pair
                offsets.append(offsets[-1] + len(character.encode()))
            self._offsets[line] = offsets
        return self._offsets[line]
