"""Write to a shared store: the commits of an embedded one, each a new manifest that replaces the old one."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from context_engine.index import segment as segments
from context_engine.index.embedded_store import INHERIT_FILES_MAX, SEGMENTS_MAX, choose_merge
from context_engine.index.index_seeding import file_states
from context_engine.index.index_store import FileState, IndexWriter, SkippedFile
from context_engine.index.segment import Segment
from context_engine.index.snapshot import Snapshot
from context_engine.team.manifest import Manifest, SegmentRef, SkippedState, TouchedState
from context_engine.team.remote_store import hash_file

Places = dict[str, tuple[int, int]]
"""The place of each living file: (segment, its number there)."""
Keep = Callable[[Manifest, Mapping[str, Path]], None]
"""Publishes a manifest, with the segments that are new in it."""


class SharedWriter(IndexWriter):
    """Collects and commits the changes of one process to a shared index, whose lease `shared_store` has taken.

    Every method that returns has committed.
    """

    def __init__(
        self,
        folder: Path,
        keep: Keep,
        manifest: Manifest,
        *,
        published: bool,
        load_segment: Callable[[str], Segment],
        known: Mapping[int, Segment],
    ) -> None:
        """`keep` is called once the manifest is published, `load_segment` with a name; `known`: segments by number."""
        self.is_published = published
        self._folder = folder
        self._keep = keep
        self._manifest = manifest
        self._load_segment = load_segment
        self._mapped = {part.name: known[part.number] for part in manifest.segments if part.number in known}
        self._parts: dict[int, Path] = {}
        self._added: dict[str, Path] = {}

    @property
    def generation(self) -> str:
        """The name of the generation that is written."""
        return self._manifest.generation

    def close(self) -> None:
        """Delete files without a segment, and what a failure left."""
        for part in self._parts.values():
            with suppress(OSError):
                part.unlink()

    # -- what is there --

    def snapshot(self) -> Snapshot:
        """Return what has been committed by now, published or not."""
        return self._manifest.snapshot({part.name: self._segment(part.name) for part in self._manifest.segments})

    def _segment(self, name: str) -> Segment:
        if name not in self._mapped:
            self._mapped[name] = self._load_segment(name)
        return self._mapped[name]

    def files(self) -> dict[str, FileState]:
        """Return what is indexed, by path."""
        return file_states(self.snapshot())

    def count_files(self) -> int:
        """Return how many files are indexed."""
        return sum(part.files - len(part.dead) for part in self._manifest.segments)

    def states(self, paths: Iterable[str]) -> dict[str, FileState]:
        """Return what is indexed of these files and, where they are folders, of everything below them."""
        wanted = set(paths)
        if not wanted:
            return {}
        looks = {part.number: {look[0]: look for look in part.touched} for part in self._manifest.segments}
        found = {}
        for path in _paths_within(self._places, wanted):
            number, file = self._places[path]
            segment = self._segment(self._part(number).name)
            look = looks[number].get(file, (0, int(segment.file["size"][file]), int(segment.file["mtime_ns"][file])))
            found[path] = FileState(look[1], look[2], segment.heaps["sha256"][file])
        return found

    def skipped_files(self) -> list[SkippedFile]:
        """Return (path, reason, detail, size, mtime_ns) of files that were skipped for their content."""
        return sorted((path, *kept) for path, kept in self._manifest.skipped.items())

    def skipped_states(self, paths: Sequence[str] = ("",)) -> dict[str, tuple[int, int]]:
        """Return (size, mtime_ns) of files below `paths` that were skipped for their content: they are not read again.

        A file that could not be read is tried every time: permission comes without another size or time.
        """
        skipped = self._manifest.skipped
        within = skipped if "" in paths else list(_paths_within(skipped, set(paths)))
        states = {path: skipped[path] for path in within}
        return {path: (-1, -1) if kept[0] == "unreadable" else (kept[2], kept[3]) for path, kept in states.items()}

    @property
    def is_unfinished(self) -> bool:
        """Whether files were committed that nothing has been computed over yet, or nothing is published."""
        return not self.is_published or bool(self._manifest.metadata.get("unfinished"))

    @cached_property
    def _places(self) -> Places:
        return {
            path: (part.number, file)
            for part in self._manifest.segments
            for path, file in _living(part, self._segment(part.name))
        }

    def _part(self, number: int) -> SegmentRef:
        return next(part for part in self._manifest.segments if part.number == number)

    # -- changing it --

    def new_segment(self) -> tuple[int, Path]:
        """Return an unused number and file name, for a segment that is then given to `put`."""
        number = max([self._manifest.last_number, *self._parts]) + 1
        descriptor, name = tempfile.mkstemp(prefix=f"{number:06d}-", suffix=".part", dir=self._folder)
        os.close(descriptor)
        self._parts[number] = Path(name)
        return number, self._parts[number]

    def put(
        self,
        written: Sequence[int],
        *,
        removed: Iterable[str] = (),
        skipped: Iterable[SkippedFile] = (),
        touched: Iterable[tuple[str, int, int]] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Commit everything that belongs together.

        The files of written segments replace older entries of the same path. `removed` files are gone, `skipped` ones
        are left out for their content, `touched` ones (path, size, mtime_ns) did not change.
        """
        loaded = [(number, *self._finish_segment(number)) for number in written]
        kept_out: dict[str, SkippedState] = {
            path: (reason, detail, size, at) for path, reason, detail, size, at in skipped
        }
        new = [self._make_ref(number, name, segment) for number, name, segment in loaded]
        gone = {*removed, *kept_out, *(path for _, _, segment in loaded for path in segment.heaps["path"].texts())}
        dead: defaultdict[int, list[int]] = defaultdict(list)
        for path in gone & self._places.keys():
            number, file = self._places.pop(path)
            dead[number].append(file)
        for part, (_, _, segment) in zip(new, loaded, strict=True):
            self._places |= {path: (part.number, file) for path, file in _living(part, segment)}
        looks: defaultdict[int, list[TouchedState]] = defaultdict(list)
        for path, size, mtime_ns in touched:
            if path in self._places:
                number, file = self._places[path]
                looks[number].append((file, size, mtime_ns))
        still = {path: kept for path, kept in self._manifest.skipped.items() if path not in gone}
        new_metadata = {**self._manifest.metadata, **(metadata or {})}
        self._change(
            self._manifest.with_commit(
                new, dead=dead, touched=looks, skipped={**still, **kept_out}, metadata=new_metadata
            )
        )

    def _finish_segment(self, number: int) -> tuple[str, Segment]:
        """Rename a written segment to the hash of its content; return both."""
        part = self._parts[number]
        name = hash_file(part)
        place = self._folder / f"{name}.seg"
        os.replace(part, place)
        del self._parts[number]
        self._mapped[name] = segments.load(place)
        self._added[name] = place
        return name, self._mapped[name]

    def _make_ref(self, number: int, name: str, segment: Segment) -> SegmentRef:
        """Return the entry of a new segment; a changed file keeps its rank until ranks are computed again."""
        weights = np.zeros(segment.files, "<f2")
        if segment.files <= INHERIT_FILES_MAX:
            for file, path in enumerate(segment.heaps["path"].texts()):
                if path in self._places:
                    of, was = self._places[path]
                    weights[file] = self._part(of).weights()[was]
        return self._refer(number, name, segment, weights)

    def _refer(self, number: int, name: str, segment: Segment, weights: np.ndarray) -> SegmentRef:
        size = (self._folder / f"{name}.seg").stat().st_size
        return SegmentRef(number, name, size, segment.files, segment.chunks, weights.tobytes())

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Set values next to the index; readers' snapshots stay as they are."""
        if metadata:
            self._change(self._manifest.with_metadata(metadata))

    def set_importance(self, values: np.ndarray) -> None:
        """Set the importance of every file of `snapshot()`, in its numbering."""
        self._change(self._manifest.with_importance(values))

    def compact(self, *, everything: bool = False, segments_max: int = SEGMENTS_MAX) -> int:
        """Merge segments that are more than `segments_max`, or mostly dead; return how many files were merged.

        Readers are not disturbed.
        """
        parts = self._manifest.segments
        dead = {part.number: len(part.dead) for part in parts}
        rows = [(part.number, part.files, part.chunks) for part in parts]
        chosen = {row[0] for row in rows} if everything else set(choose_merge(rows, dead, segments_max))
        if len(chosen) < 2 and not any(dead[number] for number in chosen):
            return 0
        merging = [part for part in parts if part.number in chosen]
        whole = [self._segment(part.name).with_touched(part.touched) for part in merging]
        alive = [part.alive() for part in merging]
        number, path = self.new_segment()
        segments.write(segments.merge(whole, alive), path)
        name, merged = self._finish_segment(number)
        weights = np.concatenate([part.weights()[living] for part, living in zip(merging, alive, strict=True)])
        part = self._refer(number, name, merged, weights.astype("<f2"))
        self._change(self._manifest.with_merged(chosen, part))
        self.__dict__.pop("_places", None)
        return merged.files

    def publish(self) -> None:
        """Put this generation in use; readers of the old one finish undisturbed."""
        if not self.is_published:
            self._share(self._manifest)
            self.is_published = True

    def _change(self, manifest: Manifest) -> None:
        if self.is_published:
            self._share(manifest)
        self._manifest = manifest

    def _share(self, manifest: Manifest) -> None:
        """Publish a manifest with the new segments that were not merged before."""
        self._keep(manifest, {name: path for name, path in self._added.items() if name in manifest.names})
        self._added.clear()


def _living(part: SegmentRef, segment: Segment) -> Iterator[tuple[str, int]]:
    dead = set(part.dead)
    return ((path, file) for file, path in enumerate(segment.paths) if file not in dead)


def _paths_within(paths: Mapping[str, Any], wanted: set[str]) -> Iterator[str]:
    """Yield the wanted paths, and those below a wanted folder. All are scanned only where a folder may be meant."""
    yield from wanted & paths.keys()
    if folders := wanted - paths.keys():
        below = tuple(f"{folder}/" for folder in folders)
        yield from (path for path in paths if path.startswith(below))


def confirmed_states(before: Mapping[str, FileState], now: Mapping[str, FileState]) -> list[tuple[str, int, int]]:
    """Return (path, size, mtime_ns) of files that were read here before with the same content."""
    return [
        (path, before[path].size, before[path].mtime_ns)
        for path, state in now.items()
        if path in before and before[path] != state and before[path].sha256 == state.sha256
    ]
