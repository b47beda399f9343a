"""The tree that a change leads to, and what the history says of its files.

Nothing is opened here: the readers are passed in. Without a tree they return nothing, so the checks that need one
report nothing.
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
"""Returns for each word the files of the new tree that contain it as a whole word."""


@dataclass(frozen=True)
class ReviewContext:
    """The new tree: its paths, texts and history. `is_known` is False where there is no such tree.

    `partners_of` returns the files that usually change with one; `hot_paths` the tenth of all files that changes most.
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
        """Return a file of the new tree; None when it is absent or unknown."""
        self.fetch((path,))
        return self._sources[path]

    def fetch(self, paths: Sequence[str]) -> None:
        """Read files that were not read before, with one call to git for all of them."""
        missing = [path for path in paths if path not in self._sources]
        contents = self.read(missing) if missing else {}
        for path in missing:
            self._sources[path] = FileVersion(path, contents[path], self.parsers) if path in contents else None
