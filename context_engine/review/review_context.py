"""What a change stands in: the tree it leads to, and what the repository's past says.

Handed in as callables; nothing is opened here.

Where nothing is known the defaults say so by knowing nothing, and the checks that ask them find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from context_engine.languages import PathIndex
from context_engine.review.source_versions import FileVersion

if TYPE_CHECKING:
    from context_engine.history import CochangedFile
    from context_engine.review.source_versions import Parsers


WordSearch = Callable[[Sequence[str]], Mapping[str, Sequence[str]]]
"""Words -> for each of them the files of the new tree in which it stands as a whole word."""


@dataclass(frozen=True)
class ReviewContext:
    """`listed` and `read` tell of the tree as the change leaves it; `is_known` is False where there is no such tree.

    `usually_with` names the files that history says belong to one; `hot` are the tenth of all files that change most.
    """

    parsers: Parsers
    is_known: bool = False
    list_paths: Callable[[], Sequence[str]] = tuple
    read: Callable[[Sequence[str]], Mapping[str, bytes]] = lambda _paths: {}
    files_with_words: WordSearch = lambda _words: {}
    partners_of: Callable[[str], Sequence[CochangedFile]] = lambda _path: ()
    hot_paths: Callable[[], frozenset[str]] = frozenset

    @cached_property
    def paths(self) -> PathIndex:
        """The files of the new tree, for resolving imports."""
        return PathIndex(self.list_paths())

    @cached_property
    def _sources(self) -> dict[str, FileVersion | None]:
        return {}

    def source(self, path: str) -> FileVersion | None:
        """A file of the new tree; None when it is not there, or not known."""
        self.fetch((path,))
        return self._sources[path]

    def fetch(self, paths: Sequence[str]) -> None:
        """Read these files at once, each only the first time: one question to git instead of many."""
        missing = [path for path in paths if path not in self._sources]
        found = self.read(missing) if missing else {}
        for path in missing:
            self._sources[path] = FileVersion(path, found[path], self.parsers) if path in found else None
