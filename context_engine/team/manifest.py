"""PURE. The manifest: the segments of an index and their dead files. A value; every change makes a new one.

It names segments by the SHA-256 of their bytes, so a machine that has a manifest can fetch missing segments from
anywhere and verify them. The content of the files is in the segments; a manifest of ten thousand files is some
kilobytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from context_engine.index.segment import Segment
from context_engine.index.snapshot import Snapshot

TouchedState = tuple[int, int, int]
"""(file number, size, mtime_ns) of a file that was rewritten with the same content."""
SkippedState = tuple[str, str, int, int]
"""(reason, detail, size, mtime_ns) of a file that was skipped for its content."""


class SegmentRef(msgspec.Struct, array_like=True, frozen=True):
    """One segment of an index. `name`: SHA-256 of its bytes; `importance`: a float16 for each file."""

    number: int
    name: str
    size: int
    files: int
    chunks: int
    importance: bytes
    dead: tuple[int, ...] = ()
    touched: tuple[TouchedState, ...] = ()

    def weights(self) -> npt.NDArray[np.float16]:
        """Return the importance of its files."""
        return np.frombuffer(self.importance, "<f2")

    def alive(self) -> npt.NDArray[np.bool_]:
        """Return which of its files count."""
        living = np.ones(self.files, bool)
        living[list(self.dead)] = False
        return living


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """One state of an index. `epoch` rises with every commit; within a `generation` a number means one segment only."""

    generation: str
    epoch: int = 0
    last_number: int = 0
    segments: tuple[SegmentRef, ...] = ()
    skipped: dict[str, SkippedState] = {}
    metadata: dict[str, Any] = {}

    @property
    def names(self) -> frozenset[str]:
        """The segments it consists of."""
        return frozenset(part.name for part in self.segments)

    def with_metadata(self, metadata: Mapping[str, Any]) -> Manifest:
        """Return it with some metadata changed; not a commit."""
        return msgspec.structs.replace(self, metadata={**self.metadata, **metadata})

    def with_commit(
        self,
        new: Iterable[SegmentRef],
        *,
        dead: Mapping[int, Iterable[int]],
        touched: Mapping[int, Iterable[TouchedState]],
        skipped: Mapping[str, SkippedState],
        metadata: Mapping[str, Any],
    ) -> Manifest:
        """Return the next state: segments added, files dead or touched, `skipped` and `metadata` replaced."""
        parts = []
        for part in (*self.segments, *new):
            gone = {*part.dead, *dead.get(part.number, ())}
            latest = {state[0]: state for state in (*part.touched, *touched.get(part.number, ()))}
            states = tuple(sorted(latest.values()))
            parts.append(msgspec.structs.replace(part, dead=tuple(sorted(gone)), touched=states))
        return self._next(parts, skipped=dict(skipped), metadata=dict(metadata))

    def with_importance(self, values: npt.NDArray[Any]) -> Manifest:
        """Return the next state: the importance of every file of every segment, in order."""
        parts, at = [], 0
        for part in self.segments:
            weights = np.asarray(values[at : at + part.files], "<f2").tobytes()
            parts.append(msgspec.structs.replace(part, importance=weights))
            at += part.files
        return self._next(parts)

    def with_merged(self, chosen: Iterable[int], merged: SegmentRef) -> Manifest:
        """Return the next state: one segment in the place of several."""
        gone = set(chosen)
        return self._next([*(part for part in self.segments if part.number not in gone), merged])

    def _next(self, parts: Sequence[SegmentRef], **changed: Any) -> Manifest:
        last = max([self.last_number, *(part.number for part in parts)])
        return msgspec.structs.replace(self, segments=tuple(parts), epoch=self.epoch + 1, last_number=last, **changed)

    def snapshot(self, segments: Mapping[str, Segment]) -> Snapshot:
        """Return the snapshot for a reader, of segments by name."""
        return Snapshot(
            [segments[part.name] for part in self.segments],
            [part.dead for part in self.segments],
            [part.weights() for part in self.segments],
            generation=self.generation,
            epoch=self.epoch,
            numbers=[part.number for part in self.segments],
            touched=[part.touched for part in self.segments],
        )


encode_manifest = msgspec.msgpack.Encoder().encode
decode_manifest = msgspec.msgpack.Decoder(Manifest).decode
