"""A diff that somebody handed in -> its files in both versions, as far as they can be known.

Reads nothing: who may read is handed in.

The new version is what came with the diff, or the file of the work tree when the diff was made for it. Else the old one
is that of the base, or of the work tree while the diff is not applied yet. Else only the hunks are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.review.source_versions import ChangedFile, Parsers, make_changed_file

if TYPE_CHECKING:
    from context_engine.text import FileDiff

Read = Callable[[str], str | None]
"""A path -> the text that lies there, or None."""


@dataclass(frozen=True, slots=True)
class DiffVersions:
    """Where versions may be found: what came with the diff, the work tree, the base that was named."""

    contexts: Mapping[str, str]
    in_work_tree: Read
    in_base: Read

    def find_versions(self, diff: FileDiff, parsers: Parsers) -> ChangedFile:
        """A file of the diff with both its versions."""
        if not diff.hunks or diff.is_submodule:
            return make_changed_file(diff, None, None, parsers)
        if not diff.old_path:
            return make_changed_file(diff, None, _encoded(diff.apply("")), parsers)
        if not diff.new_path:
            return make_changed_file(diff, _encoded(diff.revert("")), None, parsers)
        for new in self._new(diff.new_path):
            if (old := diff.revert(new)) is not None:
                return make_changed_file(diff, _encoded(old), _encoded(new), parsers)
        for old in self._old(diff.old_path):
            if (new := diff.apply(old)) is not None:
                return make_changed_file(diff, _encoded(old), _encoded(new), parsers)
        return ChangedFile.of(diff, None, diff.text_of_hunks().encode(), parsers, is_whole=False)

    def _new(self, path: str) -> Iterator[str]:
        if path in self.contexts:
            yield self.contexts[path]
        elif (text := self.in_work_tree(path)) is not None:
            yield text

    def _old(self, path: str) -> Iterator[str]:
        for read in (self.in_base, self.in_work_tree):
            if (text := read(path)) is not None:
                yield text


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "replace")
