"""PURE. The manifest: which segments make up an index, and what of them no longer counts. A value; every change makes a new one.

It names segments by the SHA-256 of their bytes, so whoever has a manifest can fetch what it lacks, from wherever, and be
sure of it. What is in the files stands in the segments; a manifest of ten thousand files is some kilobytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from context_engine.index.segment import Segment
from context_engine.index.snapshot import Snapshot

Look = tuple[int, int, int]
"""(file number, size, mtime_ns) of a file that was written again with the content it had."""
Kept = tuple[str, str, int, int]
"""(reason, detail, size, mtime_ns) of a file whose content kept it out."""


class Part(msgspec.Struct, array_like=True, frozen=True):
    """One segment of an index. `name`: SHA-256 of its bytes; `importance`: a float16 for each file."""

    number: int
    name: str
    size: int
    files: int
    chunks: int
    importance: bytes
    dead: tuple[int, ...] = ()
    touched: tuple[Look, ...] = ()

    def weights(self) -> npt.NDArray[np.float16]:
        """The importance of its files."""
        return np.frombuffer(self.importance, "<f2")

    def alive(self) -> npt.NDArray[np.bool_]:
        """Which of its files count."""
        living = np.ones(self.files, bool)
        living[list(self.dead)] = False
        return living


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """One state of an index. `epoch` rises with every commit; within a `generation` a number means one segment only."""

    generation: str
    epoch: int = 0
    last_number: int = 0
    parts: tuple[Part, ...] = ()
    skipped: dict[str, Kept] = {}
    facts: dict[str, Any] = {}

    @property
    def names(self) -> frozenset[str]:
        """The segments it is made of."""
        return frozenset(part.name for part in self.parts)

    def with_facts(self, facts: Mapping[str, Any]) -> Manifest:
        """With some facts set; no commit."""
        return msgspec.structs.replace(self, facts={**self.facts, **facts})

    def committed(
        self,
        new: Iterable[Part],
        *,
        dead: Mapping[int, Iterable[int]],
        touched: Mapping[int, Iterable[Look]],
        skipped: Mapping[str, Kept],
        facts: Mapping[str, Any],
    ) -> Manifest:
        """The next state: parts added, files of parts dead or touched; `skipped` and `facts` take the place of the old."""
        parts = [
            msgspec.structs.replace(
                part,
                dead=_united(part.dead, dead.get(part.number, ())),
                touched=_looked(part.touched, touched.get(part.number, ())),
            )
            for part in (*self.parts, *new)
        ]
        return self._next(parts, skipped=dict(skipped), facts=dict(facts))

    def weighed(self, values: npt.NDArray[Any]) -> Manifest:
        """The next state: the importance of every file of every part, in their order."""
        parts, at = [], 0
        for part in self.parts:
            weights = np.asarray(values[at : at + part.files], "<f2").tobytes()
            parts.append(msgspec.structs.replace(part, importance=weights))
            at += part.files
        return self._next(parts)

    def merged(self, chosen: Iterable[int], merged: Part) -> Manifest:
        """The next state: one part in the place of several."""
        gone = set(chosen)
        return self._next([*(part for part in self.parts if part.number not in gone), merged])

    def without(self, names: Collection[str], facts: Mapping[str, Any]) -> Manifest:
        """The next state: some parts gone, and what is to be known of that."""
        return self._next([part for part in self.parts if part.name not in names], facts={**self.facts, **facts})

    def _next(self, parts: Sequence[Part], **changed: Any) -> Manifest:
        last = max([self.last_number, *(part.number for part in parts)])
        return msgspec.structs.replace(self, parts=tuple(parts), epoch=self.epoch + 1, last_number=last, **changed)

    def snapshot(self, segments: Mapping[str, Segment]) -> Snapshot:
        """What a reader holds, of segments by name."""
        return Snapshot(
            [segments[part.name] for part in self.parts],
            [part.dead for part in self.parts],
            [part.weights() for part in self.parts],
            generation=self.generation,
            epoch=self.epoch,
            numbers=[part.number for part in self.parts],
            touched=[part.touched for part in self.parts],
        )


def _united(before: tuple[int, ...], more: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({*before, *more}))


def _looked(before: tuple[Look, ...], newer: Iterable[Look]) -> tuple[Look, ...]:
    """The last look at each file."""
    return tuple(sorted({look[0]: look for look in (*before, *newer)}.values()))


encoded = msgspec.msgpack.Encoder().encode
decoded = msgspec.msgpack.Decoder(Manifest).decode
