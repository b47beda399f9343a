"""PURE. Compare the files of the workspace with those of the index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from context_engine.index.index_store import FileState


class IndexChanges(NamedTuple):
    """`suspect` files have another size or time than when they were indexed; only their content can decide."""

    added: tuple[str, ...]
    suspect: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int

    @property
    def is_empty(self) -> bool:
        """Whether the index is up to date, judged by sizes and times."""
        return not (self.added or self.suspect or self.removed)


def compare_files(
    indexed: Mapping[str, FileState], present: Mapping[str, tuple[int, int]], kept_out: Mapping[str, tuple[int, int]]
) -> IndexChanges:
    """Compare files. `present` maps path to (size, mtime_ns), `kept_out` those skipped for their content.

    >>> old = {"a.py": FileState(1, 10, b"x"), "gone.py": FileState(1, 10, b"y")}
    >>> compare_files(old, {"a.py": (1, 10), "new.py": (5, 11)}, {})
    IndexChanges(added=('new.py',), suspect=(), removed=('gone.py',), unchanged=1)
    """
    added, suspect, unchanged = [], [], 0
    for path, (size, mtime_ns) in present.items():
        state = indexed.get(path)
        if state is None:
            if kept_out.get(path) != (size, mtime_ns):
                added.append(path)
        elif state.size != size or state.mtime_ns != mtime_ns:
            suspect.append(path)
        else:
            unchanged += 1
    removed = [path for path in (*indexed, *kept_out) if path not in present]
    return IndexChanges(tuple(sorted(added)), tuple(sorted(suspect)), tuple(sorted(removed)), unchanged)
