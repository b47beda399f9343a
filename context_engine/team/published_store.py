"""An index on this machine that a database searches as well: each writer publishes what it changed when it ends.

The database has rows and no segments, so other machines search there and copy nothing. A run that could not publish
leaves the index of this machine whole, and the next run publishes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from context_engine.index.embedded_store import SCHEMA_VERSION, EmbeddedStore, EmbeddedWriter
from context_engine.index.snapshot import Snapshot
from context_engine.team.manifest import Manifest, SegmentRef, encode_manifest
from context_engine.team.remote_store import hash_file
from context_engine.team.search_publisher import SearchPublisher


class PublishedStore(EmbeddedStore):
    """The embedded store of one repository, and its rows in a database."""

    def __init__(self, folder: Path, repository: str, publisher: SearchPublisher) -> None:
        """Open and connect to nothing yet."""
        super().__init__(folder)
        self.repository = f"{SCHEMA_VERSION}/{repository}"
        self._publisher = publisher
        self._names: dict[Path, str] = {}

    @contextmanager
    def writer(self, *, rebuild: bool = False, wait_s: float = 0.0) -> Generator[EmbeddedWriter]:
        """Yield the right to write; publish at the end. Raises: as the embedded store and the database do."""
        with super().writer(rebuild=rebuild, wait_s=wait_s) as writer:
            yield writer
            if writer.is_published and self.generation() == writer.generation:
                self._publish(writer.snapshot())

    def _publish(self, snapshot: Snapshot) -> None:
        manifest = self._describe(snapshot)
        digest = hashlib.blake2b(encode_manifest(manifest), digest_size=8).digest()
        revision = int.from_bytes(digest, "big") >> 1 or 1
        segments = {part.name: segment for part, segment in zip(manifest.segments, snapshot.segments, strict=True)}
        self._publisher.publish(self.repository, revision, manifest, segments.__getitem__)

    def _describe(self, snapshot: Snapshot) -> Manifest:
        """Return the manifest of a state; segments are named by their content."""
        parts, base = [], snapshot.file_base.tolist()
        for number, segment, start in zip(snapshot.segment_numbers, snapshot.segments, base, strict=False):
            stop = start + segment.files
            dead = (~snapshot.file_alive[start:stop]).nonzero()[0].tolist()
            weights = snapshot.importance[start:stop].astype("<f2").tobytes()
            parts.append(
                SegmentRef(number, self._name_of(segment.path), 0, segment.files, segment.chunks, weights, tuple(dead))
            )
        return Manifest("", segments=tuple(parts))

    def _name_of(self, path: Path | None) -> str:
        assert path is not None, "segments of a store are files"
        if path not in self._names:
            self._names[path] = hash_file(path)
        return self._names[path]

    def clear(self) -> int:
        """Delete the index, here and in the database; return the bytes freed here."""
        freed = super().clear()
        self._publisher.remove(self.repository)
        return freed

    def close(self) -> None:
        """Close files and connections; the store can be used again afterwards."""
        super().close()
        self._publisher.close()
