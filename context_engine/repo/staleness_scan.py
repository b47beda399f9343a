"""Is the index still true? A look at sizes and times alone: no file is opened, no ignore rule is read.

Known files are stat'ed one by one, which finds edits and deletions. What is new shows in the time of its folder, which
changes whenever a name in it comes or goes; then only a walk can tell, since the rules decide what counts. Measured
(decision 0004), this costs a third of a walk.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from context_engine.repo.ignore_rules import IGNORE_FILES


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What differs from the manifest. `needs_walk`: names came or went, or rules changed, so there may be new files."""

    changed: frozenset[str]
    removed: frozenset[str]
    needs_walk: bool

    @property
    def is_clean(self) -> bool:
        """Whether everything is as it was."""
        return not (self.changed or self.removed or self.needs_walk)


def scan(
    root: str | os.PathLike[str], files: Mapping[str, tuple[int, int]], folders: Mapping[str, int] | None = None
) -> ScanResult:
    """Compare `files`, path -> (size, mtime_ns), and `folders`, path -> mtime_ns (`Walk.folders`), with the disk.

    Without `folders` new files go unseen. A file that may not be looked at counts as changed: reading it tells why.
    """
    base = os.path.join(os.path.realpath(root), "")
    changed, removed = [], []
    look = os.lstat
    for path, known in files.items():
        try:
            status = look(base + path)
        except (FileNotFoundError, NotADirectoryError):
            removed.append(path)
        except OSError:  # closed to us by now
            changed.append(path)
        else:
            if status.st_mtime_ns != known[1] or status.st_size != known[0]:
                changed.append(path)
    rules = any(path.rpartition("/")[2] in IGNORE_FILES for path in changed)
    return ScanResult(frozenset(changed), frozenset(removed), rules or _any_folder_differs(base, folders or {}))


def _any_folder_differs(base: str, folders: Mapping[str, int]) -> bool:
    for path, mtime_ns in folders.items():
        try:
            status = os.lstat(base + path)
        except OSError:  # gone or closed: a walk says which
            return True
        if status.st_mtime_ns != mtime_ns:
            return True
    return False
