"""PURE. Rows of different lengths in one array, so that numpy can work on all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class RaggedArray:
    """The `values` of all rows, end to end, and the length of each row. Fewer than 2^31 values."""

    values: npt.NDArray[Any]
    lengths: npt.NDArray[np.signedinteger]

    def __len__(self) -> int:
        return len(self.lengths)

    def starts(self) -> npt.NDArray[np.signedinteger]:
        """Return the place of the first value of each row."""
        return np.cumsum(self.lengths) - self.lengths

    def rows(self, first: int, stop: int) -> RaggedArray:
        """Return the rows from `first` to before `stop`."""
        lengths = self.lengths[first:stop]
        start = int(self.lengths[:first].sum())
        return RaggedArray(self.values[start : start + int(lengths.sum())], lengths)

    def take(self, numbers: npt.NDArray[Any]) -> RaggedArray:
        """Return the rows with these numbers, in this order."""
        lengths = self.lengths[numbers]
        shifts = self.starts()[numbers] - np.cumsum(lengths) + lengths
        places = np.repeat(shifts.astype(np.int32), lengths)  # half the memory of the widest arrays of a batch
        places += np.arange(len(places), dtype=np.int32)
        return RaggedArray(self.values[places], lengths)

    def expand(self, inner: RaggedArray) -> RaggedArray:
        """Return the rows with each value replaced by the row of `inner` that has its number.

        >>> texts = RaggedArray(np.array([1, 0, 1]), np.array([2, 0, 1]))
        >>> words = RaggedArray(np.array([7, 8, 9]), np.array([1, 2]))
        >>> expanded = texts.expand(words)
        >>> expanded.values.tolist(), expanded.lengths.tolist()
        ([8, 9, 7, 8, 9], [3, 0, 2])
        """
        found = inner.take(self.values)
        ends = np.append(0, np.cumsum(found.lengths))
        return RaggedArray(found.values, np.diff(ends[np.append(0, np.cumsum(self.lengths))]))

    def replace(self, numbers: npt.NDArray[np.intp], values: npt.NDArray[Any]) -> RaggedArray:
        """Return the rows with those of these numbers (ascending) replaced by a single value each.

        >>> rows = RaggedArray(np.array([7, 8, 9]), np.array([2, 1])).replace(np.array([0]), np.array([5]))
        >>> rows.values.tolist(), rows.lengths.tolist()
        ([5, 9], [1, 1])
        """
        lengths = self.lengths.copy()
        lengths[numbers] = 0
        kept = np.repeat(lengths > 0, self.lengths)
        at = (np.cumsum(lengths) - lengths)[numbers]
        lengths[numbers] = 1
        return RaggedArray(np.insert(self.values[kept], at, values), lengths)
