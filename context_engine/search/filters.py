"""Filters: each becomes a mask over chunks before anything is ranked. Masks are cached for the life of a snapshot.

The tags of a chunk are its language, kind and folders, `code` or `documentation`, and the tags of its own text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from context_engine.index import term_hashes
from context_engine.model import CHUNK_KINDS, Filter
from context_engine.search.rankers import Mask, RankingView
from context_engine.search.text_search import GlobSet
from context_engine.text import find_near_words

MASKS_KEPT = 64


def find_similar(tags: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return known tags that resemble those of `tags` that are unknown.

    >>> find_similar(["pyton", "Code", "notatag"], ["python", "code", "data"])
    ('python',)
    """
    unknown = [tag.lower() for tag in tags if tag.lower() not in known]
    return tuple(dict.fromkeys(near for tag in unknown for near in find_near_words(tag, known)))


class FilterMasks:
    """The masks of one snapshot. Thread-safe."""

    def __init__(self, view: RankingView) -> None:
        self._view = view
        self._snapshot = view.snapshot
        self._known: dict[Filter | str, Mask] = {}

    def of(self, wanted: Filter) -> Mask | None:
        """Return the chunks that pass; None when there is no restriction and no file is dead."""
        if wanted.is_empty and self._snapshot.all_alive:
            return None
        mask = self._known.get(wanted)
        if mask is None:
            if len(self._known) >= MASKS_KEPT:
                self._known.clear()
            mask = self._known[wanted] = self._combine_masks(wanted)
        return mask

    def similar_tags(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        """Return known tags that resemble those of `tags` that no chunk has."""
        return find_similar(tags, list(self.counts()))

    def counts(self) -> dict[str, int]:
        """Return every tag with its number of living chunks, most first."""
        snapshot = self._snapshot
        folders = (part for path in snapshot.by_path for part in path.lower().split("/")[:-1])
        names = {*folders, *snapshot.languages, *snapshot.names("tag"), "code", *CHUNK_KINDS}
        counts = {name: int((self._tag(name) & snapshot.chunk_alive).sum()) for name in names}
        found = [(name, count) for name, count in counts.items() if count]
        return dict(sorted(found, key=lambda item: (-item[1], item[0])))

    def _combine_masks(self, wanted: Filter) -> Mask:
        snapshot = self._snapshot
        mask = snapshot.chunk_alive.copy()
        if wanted.kinds:
            mask &= np.isin(snapshot.chunk_column("kind"), [CHUNK_KINDS.index(kind) for kind in wanted.kinds])
        if wanted.languages:
            names = {name.lower() for name in wanted.languages}
            codes = [code for code, name in enumerate(snapshot.languages) if name in names]
            mask &= np.isin(snapshot.file_column("language"), codes)[snapshot.chunk_file]
        if wanted.include_paths:
            mask &= self._paths(wanted.include_paths)[snapshot.chunk_file]
        if wanted.exclude_paths:
            mask &= ~self._paths(wanted.exclude_paths)[snapshot.chunk_file]
        for tag in wanted.tags:
            mask &= self._tag(tag.lower())
        return mask

    def _paths(self, globs: tuple[str, ...]) -> Mask:
        matches = GlobSet(globs, self._snapshot.paths).matches
        return np.fromiter(map(matches, self._snapshot.paths), bool, self._snapshot.files)

    def _tag(self, tag: str) -> Mask:
        known = self._known.get(tag)
        if known is not None:
            return known
        snapshot = self._snapshot
        files = np.fromiter(
            (f"/{tag}/" in f"/{path.lower()}".rpartition("/")[0] + "/" for path in snapshot.paths), bool, snapshot.files
        )
        if tag in snapshot.languages:
            files |= snapshot.file_column("language") == snapshot.languages.index(tag)
        if tag == "code":
            files |= self._view.is_code
        mask = files[snapshot.chunk_file]
        if tag in CHUNK_KINDS:
            mask |= snapshot.chunk_column("kind") == CHUNK_KINDS.index(tag)
        mask[snapshot.matches("tag", term_hashes([tag])).docs] = True
        self._known[tag] = mask
        return mask
