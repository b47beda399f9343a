"""The files that a run indexes, and their order: those that are probably asked about come first.

The first index of a large tree takes minutes, and answers before it is complete. It begins with files that were
changed lately, goes on with source, and leaves tests, documents and copies of other projects for the end. A question
that comes in between puts the files with its words before all others.

>>> order = BuildOrder({"docs/a.md": 1, "lib/b.py": 1, "src/c.py": 1})
>>> order.prefer(["docs/a.md", "gone.py"])
>>> order.next_round(4_000, 9_000), order.next_round(4_000, 9_000), order.next_round(4_000, 9_000)
(['docs/a.md'], ['lib/b.py', 'src/c.py'], [])
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from context_engine.errors import ContextEngineError
from context_engine.index.embedded_store import FileState
from context_engine.index.file_roles import role_of
from context_engine.languages import Languages
from context_engine.repo import Git

ORDERED_FILES_MIN = 1_000
"""Fewer files are indexed within seconds, in the order of their paths."""
RECENT_COMMITS = 200
GIT_WAIT_S = 5.0
FILE_BYTES_MIN = 2_000
"""A small file takes as long as one of this size."""
ROLE_RANKS = {"source": 0, "init": 0, "declaration": 1, "compat": 1, "test": 2, "example": 3, "bench": 3, "docs": 3}
"""Other roles - data, generated files, copies of other projects - come last."""
LAST_RANK = 4


class BuildOrder:
    """The files that a run has not indexed yet. Thread-safe: questions ask for files while the run goes on."""

    def __init__(self, sizes: Mapping[str, int], rank: Callable[[str], int] = lambda _: 0) -> None:
        """`sizes` are the bytes of each file; files of a lower `rank` come first."""
        self._sizes = sizes
        self._lock = threading.Lock()
        self._left = dict.fromkeys(sorted(sizes, key=lambda path: (rank(path), path)))
        self._preferred: list[str] = []
        self._bytes_max = 0  # of the last round
        self._in_work: frozenset[str] = frozenset()

    def pending(self) -> list[str]:
        """Return the files that are not indexed and committed yet."""
        with self._lock:
            return [*self._in_work, *self._left]

    def prefer(self, paths: Iterable[str]) -> None:
        """Let these files be the next round, the first ones first."""
        with self._lock:
            self._preferred = list(dict.fromkeys([*paths, *self._preferred]))

    def is_pending(self, paths: Iterable[str]) -> bool:
        """Return whether any of these files still has to be indexed and committed."""
        with self._lock:
            return any(path in self._left or path in self._in_work for path in paths)

    def next_round(self, bytes_min: int, bytes_max: int) -> list[str]:
        """Return the next files, of about `bytes_min` to `bytes_max` together; [] at the end.

        The files before are now committed. A round is twice the last one. Files that a question prefers are a small one
        of their own, since it waits for them, and so is the next, since further questions come soon.
        """
        with self._lock:
            preferred = [path for path in self._preferred if path in self._left]
            self._bytes_max = bytes_min if preferred else min(bytes_max, max(bytes_min, 2 * self._bytes_max))
            room, chosen = self._bytes_max, []
            for path in preferred or self._left:
                if room <= 0:
                    break
                chosen.append(path)
                room -= max(self._sizes[path], FILE_BYTES_MIN)
            for path in chosen:
                del self._left[path]
            self._preferred = [path for path in self._preferred if path in self._left]
            self._in_work = frozenset(chosen)
            return chosen


def rank_files(recent: Sequence[str], languages: Languages) -> Callable[[str], int]:
    """Return the rank of files in the order of a run: first the `recent` ones as they are listed, then by role."""
    newest = {path: place - len(recent) for place, path in enumerate(recent)}

    def rank(path: str) -> int:
        language = languages.detect(path)
        role = role_of(path, language.content if language else "data")
        return newest.get(path, ROLE_RANKS.get(role, LAST_RANK))

    return rank


def list_recent_files(git: Git) -> list[str]:
    """Return the files that were changed and not committed, and those of the newest commits; [] without git."""
    found: dict[str, None] = {}
    commands = (("diff", "HEAD"), ("log", f"-n{RECENT_COMMITS}", "--format=", "HEAD"))
    for command, *rest in commands:
        try:
            output = git.run(
                command, "--name-only", "--no-renames", "--relative", "-z", *rest, "--", timeout_s=GIT_WAIT_S
            )
        except ContextEngineError:
            continue  # no repository, no commit, or too slow: the order is only a matter of speed
        found |= dict.fromkeys(part.strip() for part in output.decode("utf-8", "replace").split("\0") if part.strip())
    return list(found)


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
