"""Find the differences between a workspace and its index by names, sizes and times: no file is opened.

A run that finds nothing changed ends here, before anything is imported that builds or reads an index.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from operator import attrgetter
from pathlib import Path

from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.encoder import StaticEncoder
from context_engine.model import IndexReport
from context_engine.repo import Git, Walk, walk

EXAMPLES_KEPT = 50
"""Skipped files that a status names one by one."""


class ChangeFinder:
    """Compares one root with one store."""

    def __init__(self, root: Path, store: EmbeddedStore, *, bytes_max: int) -> None:
        """Files of more than `bytes_max` are not indexed."""
        self._root, self._store, self._bytes_max = root, store, bytes_max
        self._git = Git(root)

    def list_files(self, *under: str) -> Walk:
        """Walk these files and folders; `""` is the whole workspace."""
        return walk(self._root, under, bytes_max=self._bytes_max, excludes_file=self._git.excludes_file())

    def find_stale_files(self) -> tuple[frozenset[str], int]:
        """Return the files that differ from the index by name, size or time, and how many there are; none is opened."""
        seen = self.list_files("").entries
        return frozenset(str(path) for path, *_ in self._store.file_stamps().symmetric_difference(seen)), len(seen)

    def report_unchanged(self, encoder: StaticEncoder | None) -> IndexReport | None:
        """Return the report of a run that has nothing to do, and note when; None for any other.

        The static vectors must be those of the `encoder`, if there is one. Raises: as `EmbeddedStore.snapshot`.
        """
        began = time.perf_counter()
        summary = self._store.summary()
        if summary is None or (encoder is not None and summary.static != encoder.identity):
            return None
        seen = self.list_files("")
        if self._store.file_stamps() != set(seen.entries):
            return None
        self._store.set_metadata(describe_walk(seen))
        skipped, examples = self._store.count_skipped(EXAMPLES_KEPT)
        if "unreadable" in skipped:  # permission comes without another size or time
            return None
        counts = {name: getattr(summary, name) for name in ("files", "chunks", "symbols")}
        return IndexReport(
            added=0,
            changed=0,
            removed=0,
            unchanged=summary.files,
            **counts,
            skipped=skipped,
            skipped_examples=examples,
            seconds=time.perf_counter() - began,
        )


def describe_walk(seen: Walk) -> dict[str, str | float]:
    """Return what a status reports of the walk: why files were skipped, with some examples, and when."""
    chosen = sorted(seen.skipped, key=attrgetter("order"))[:EXAMPLES_KEPT]
    examples = [(skipped.path, skipped.reason, skipped.detail) for skipped in chosen]
    return {
        "skipped_counts": json.dumps(Counter(row.reason for row in seen.skipped)),
        "skipped_examples": json.dumps(examples),
        "walked_at": time.time(),
    }
