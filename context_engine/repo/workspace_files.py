"""Reads files and folders of one workspace: for replies with their secrets masked, for the index as bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from context_engine.errors import ContextEngineError, InvalidLineRange, InvalidPath
from context_engine.languages import Languages
from context_engine.model import FileText, Skipped, TreeEntry
from context_engine.repo import file_reader, file_tree
from context_engine.repo.paths import Root
from context_engine.repo.walk import look
from context_engine.secrets import RedactedDocument, RedactedDocuments, mark_searched
from context_engine.text import LineSpan, count_lines
from context_engine.timestamps import format_utc

READ_BYTES_MAX = 1_000_000
"""Larger files are read in parts (docs/tools.md)."""
RANGE_BYTES_MAX = 50_000_000
"""A line range may be read out of files up to this size."""
LISTED_BYTES_MAX = 1 << 62
"""A listing shows files of any size."""
FILES_KEPT = 200
KEPT_BYTES_MAX = 100_000
"""The files of the last answers are kept, 20 MB at most: the questions of one session concern the same files."""
LANGUAGE_CHARS = 200
"""The first line of a script names its interpreter."""


@dataclass(frozen=True)
class LoadedFile:
    """A file as it is now: its text in UTF-8, its size and time; `texts` remembers where its secrets are."""

    data: bytes
    size: int
    mtime_ns: int
    path: str = ""
    texts: RedactedDocuments = field(default_factory=RedactedDocuments)

    @cached_property
    def shown(self) -> RedactedDocument:
        """Its text with the secrets masked, as replies show it."""
        return self.texts.of(self.data, self.path)


ReadFile = Callable[[str], LoadedFile | None]


class WorkspaceFiles:
    """The files of one workspace as they are now. Thread-safe."""

    def __init__(self, root: Root, languages: Languages, texts: RedactedDocuments) -> None:
        """`texts` remembers where the secrets of files are."""
        self.root = root
        self._languages = languages
        self._texts = texts
        self._kept: dict[str, LoadedFile] = {}

    # -- for replies --

    def read(self, path: str, *, first: int | None = None, last: int | None = None) -> FileText:
        """Read a file, or its lines `first` to `last` (1-based, inclusive, clipped to the file), with secrets masked.

        Raises: InvalidPath, AccessDenied, FileNotFound, BinaryFile, TooLarge, InvalidLineRange.
        """
        rel = self.root.rel(path)
        is_part = first is not None or last is not None
        source = file_reader.read(self.root, rel, bytes_max=RANGE_BYTES_MAX if is_part else READ_BYTES_MAX)
        lines = count_lines(source.text)
        span = _requested_lines(first, last, lines, rel)
        shown = self._texts.of(source.text.encode("utf-8", "replace"), rel)
        text = shown.lines(*span) if is_part else shown.text
        mark_searched(text)
        language = self._languages.detect(rel, source.text[:LANGUAGE_CHARS].encode())
        return FileText(
            path=rel,
            text=text,
            language=language.name if language else "text",
            lines=lines,
            span=span,
            sha256=source.sha256.hex(),
            size_bytes=source.size,
            encoding=source.encoding,
            modified_at=format_utc(source.mtime_ns / 1e9),
        )

    def list_directory(
        self, path: str = ".", *, depth: int = 2, max_items: int = 200, include_hidden: bool = False
    ) -> tuple[TreeEntry, ...]:
        """List what a folder contains; ignore rules apply.

        Raises: InvalidPath, FileNotFound, AccessDenied, AccessFailed.
        """
        rel = str(self.root.rel(path))
        folder = "" if rel == "." else rel
        walk = look(self.root.path, [folder], bytes_max=LISTED_BYTES_MAX, levels=depth)
        if folder not in walk.folders:
            raise InvalidPath(f"{path!r} is a file, not a folder", suggestion=f"read_file {path!r}")
        return file_tree.entries(walk, rel, depth=depth, max_items=max_items, include_hidden=include_hidden)

    # -- for the index and for edits --

    def load(self, path: str) -> LoadedFile | None:
        """Load a text file, kept while it does not change; None when it is gone or not text."""
        known = self._kept.get(path)
        if known is not None:
            stamp = file_reader.stamp(f"{self.root.path}{os.sep}{path}")
            if stamp == (known.size, known.mtime_ns):
                return known
        loaded = file_reader.load_for_index(self.root.confined, path, bytes_max=RANGE_BYTES_MAX)
        if isinstance(loaded, Skipped):
            self._kept.pop(path, None)
            return None
        if len(self._kept) >= FILES_KEPT:
            self._kept.clear()
        known = LoadedFile(loaded.data, loaded.size, loaded.mtime_ns, path, self._texts)
        if loaded.size <= KEPT_BYTES_MAX:
            self._kept[path] = known
        return known

    def read_kept(self, path: str) -> bytes | None:
        """Return the text of a file in UTF-8, kept as `load` keeps it."""
        loaded = self.load(path)
        return loaded.data if loaded else None

    def read_once(self, path: str) -> bytes | None:
        """Return the text of a file in UTF-8 without keeping it: for readers that look at every file once."""
        loaded = file_reader.load_for_index(self.root.confined, path, bytes_max=RANGE_BYTES_MAX)
        return None if isinstance(loaded, Skipped) else loaded.data

    def read_raw(self, path: str) -> bytes | None:
        """Return the bytes of a file as they are on the disk; None when it cannot be read."""
        try:
            return file_reader.contents(self.root, self.root.rel(path), bytes_max=READ_BYTES_MAX)[0]
        except ContextEngineError:
            return None


def _requested_lines(first: int | None, last: int | None, lines: int, path: str) -> LineSpan:
    start = first or 1
    stop = last if last is not None else max(lines, 1)
    is_below_one = first is not None and first < 1
    is_past_end = start > lines and lines > 0
    if is_below_one or stop < start or is_past_end:
        raise InvalidLineRange(
            f"lines {start}-{stop} are not in {path}, which has {lines}",
            suggestion=f"ask for lines between 1 and {lines}",
            details={"path": path, "lines": lines},
        )
    return LineSpan(start, min(stop, max(lines, 1)))
