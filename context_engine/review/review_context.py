"""What a change stands in: the tree it leads to, and what the repository's past says. Handed in as callables; nothing is opened here.

Where nothing is known the defaults say so by knowing nothing, and the checks that ask them find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from context_engine.languages import PathIndex
from context_engine.review.source_versions import Source

if TYPE_CHECKING:
    from context_engine.history.file_history import Partner
    from context_engine.review.source_versions import Parsers


Holding = Callable[[Sequence[str]], Mapping[str, Sequence[str]]]
"""Words -> for each of them the files of the new tree in which it stands as a whole word."""


@dataclass(frozen=True)
class Surroundings:
    """`listed` and `read` tell of the tree as the change leaves it; `is_known` is False where there is no such tree.

    `usually_with` names the files that history says belong to one; `hot` are the tenth of all files that change most.
    """

    parsers: Parsers
    is_known: bool = False
    listed: Callable[[], Sequence[str]] = tuple
    read: Callable[[Sequence[str]], Mapping[str, bytes]] = lambda _paths: {}
    holding: Holding = lambda _words: {}
    usually_with: Callable[[str], Sequence[Partner]] = lambda _path: ()
    hot: Callable[[], frozenset[str]] = frozenset

    @cached_property
    def paths(self) -> PathIndex:
        """The files of the new tree, for resolving imports."""
        return PathIndex(self.listed())

    @cached_property
    def _sources(self) -> dict[str, Source | None]:
        return {}

    def source(self, path: str) -> Source | None:
        """A file of the new tree; None when it is not there, or not known."""
        self.fetch((path,))
        return self._sources[path]

    def fetch(self, paths: Sequence[str]) -> None:
        """Read these files at once, each only the first time: one question to git instead of many."""
        missing = [path for path in paths if path not in self._sources]
        found = self.read(missing) if missing else {}
        for path in missing:
            self._sources[path] = Source(path, found[path], self.parsers) if path in found else None
