"""Reads files and folders of one workspace: for replies with their secrets redacted, for the index as bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from context_engine.errors import ContextEngineError, InvalidLineRange, InvalidPath
from context_engine.languages import Languages
from context_engine.model import FileText, Skipped, TreeEntry
from context_engine.repo import file_reader
from context_engine.repo.paths import Root
from context_engine.repo.walker import Walk, walk
from context_engine.secrets import RedactedDocument, RedactedDocuments, mark_searched
from context_engine.text import LineSpan, count_lines
from context_engine.timestamps import format_utc

READ_BYTES_MAX = 1_000_000
"""Larger files are read in parts (docs/tools.md)."""
LISTED_BYTES_MAX = 1 << 62
"""A listing shows files of any size."""
FILES_KEPT = 200
KEPT_BYTES_MAX = 100_000
"""The files of the last answers are kept, 20 MB at most: the questions of one session concern the same files."""


@dataclass(frozen=True)
class WorkspaceFile:
    """A file as it is now: its text in UTF-8, its size and time; `texts` remembers where its secrets are."""

    data: bytes
    size: int
    mtime_ns: int
    path: str = ""
    texts: RedactedDocuments = field(default_factory=RedactedDocuments)

    @cached_property
    def shown(self) -> RedactedDocument:
        """Its text with the secrets redacted, as replies show it."""
        return self.texts.of(self.data, self.path)


ReadFile = Callable[[str], WorkspaceFile | None]


class WorkspaceFiles:
    """The files of one workspace as they are now. Thread-safe."""

    def __init__(self, root: Root, languages: Languages, texts: RedactedDocuments) -> None:
        """`texts` remembers where the secrets of files are."""
        self.root = root
        self._languages = languages
        self._texts = texts
        self._kept: dict[str, WorkspaceFile] = {}

    # -- for replies --

    def read(self, path: str, *, first: int | None = None, last: int | None = None) -> FileText:
        """Read a file, or its lines `first` to `last` (1-based, inclusive, clipped to the file), with secrets redacted.

        Raises: InvalidPath, AccessDenied, FileNotFound, BinaryFile, TooLarge, InvalidLineRange.
        """
        rel = self.root.rel(path)
        is_part = first is not None or last is not None
        source = file_reader.read_file(
            self.root, rel, bytes_max=file_reader.SOURCE_BYTES_MAX if is_part else READ_BYTES_MAX
        )
        lines = count_lines(source.text)
        span = _requested_lines(first, last, lines, rel)
        data = source.text.encode("utf-8", "replace")
        shown = self._texts.of(data, rel)
        text = shown.lines(*span) if is_part else shown.text
        mark_searched(text)
        language = self._languages.detect(rel, data)
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
        seen = walk(self.root.path, [folder], bytes_max=LISTED_BYTES_MAX, levels=depth)
        if folder not in seen.folders:
            raise InvalidPath(f"{path!r} is a file, not a folder", suggestion=f"Read it: read {path}")
        return _tree_entries(seen, rel, depth=depth, max_items=max_items, include_hidden=include_hidden)

    # -- for the index and for edits --

    def load(self, path: str) -> WorkspaceFile | None:
        """Load a text file, kept while it does not change; None when it is gone or not text."""
        known = self._kept.get(path)
        if known is not None:
            stamp = file_reader.size_and_mtime(f"{self.root.path}{os.sep}{path}")
            if stamp == (known.size, known.mtime_ns):
                return known
        loaded = file_reader.load_for_index(self.root.confined, path, bytes_max=file_reader.SOURCE_BYTES_MAX)
        if isinstance(loaded, Skipped):
            self._kept.pop(path, None)
            return None
        if len(self._kept) >= FILES_KEPT:
            self._kept.clear()
        known = WorkspaceFile(loaded.data, loaded.size, loaded.mtime_ns, path, self._texts)
        if loaded.size <= KEPT_BYTES_MAX:
            self._kept[path] = known
        return known

    def read_kept(self, path: str) -> bytes | None:
        """Return the text of a file in UTF-8, kept as `load` keeps it."""
        loaded = self.load(path)
        if loaded:
            return loaded.data
        return None

    def read_once(self, path: str) -> bytes | None:
        """Return the text of a file in UTF-8 without keeping it: for readers that look at every file once."""
        loaded = file_reader.load_for_index(self.root.confined, path, bytes_max=file_reader.SOURCE_BYTES_MAX)
        if isinstance(loaded, Skipped):
            return None
        return loaded.data

    def read_raw(self, path: str) -> bytes | None:
        """Return the bytes of a file as they are on the disk; None when it cannot be read."""
        try:
            return file_reader.read_bytes(self.root, self.root.rel(path), bytes_max=READ_BYTES_MAX)[0]
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


# -- a folder as a tree ------------------------------------------------------------------------------------------------

# Folders first, cut to a depth and a number of lines; what was cut is counted.


UNSEEN = frozenset({"ignored", "vanished"})
"""Skipped paths that a listing does not show either; the others are there, they are only not indexed."""


@dataclass(slots=True)
class _TreeFolder:
    folders: dict[str, _TreeFolder] = field(default_factory=dict)
    files: dict[str, tuple[int, str]] = field(default_factory=dict)  # size and note

    def at(self, parts: list[str]) -> _TreeFolder:
        """Return the folder below this one, which is made if necessary."""
        folder = self
        for part in parts:
            folder = folder.folders.setdefault(part, _TreeFolder())
        return folder


def _tree_entries(seen: Walk, base: str, *, depth: int, max_items: int, include_hidden: bool) -> tuple[TreeEntry, ...]:
    """Return the tree below `base` ("." for the root), `depth` levels deep, at most `max_items` lines.

    Items are given out level by level, so that a large folder does not hide its neighbors; what was cut is an entry
    with `hidden_items`.
    """
    top = _grow(seen, base, include_hidden)
    shown = _shares(top, depth, max_items)
    rows: list[TreeEntry] = []
    _render(top, 0, shown, rows)
    return tuple(rows)


def _grow(seen: Walk, base: str, include_hidden: bool) -> _TreeFolder:
    top = _TreeFolder()
    start = 0 if base == "." else len(base) + 1
    for path in seen.folders:
        if len(path) > start and path.startswith("" if base == "." else base + "/"):
            _place(top, path[start:], None, include_hidden)
    for entry in seen.entries:
        _place(top, entry.path[start:], (entry.size, ""), include_hidden)
    for skipped in seen.skipped:
        if skipped.reason not in UNSEEN and len(skipped.path) > start:
            _place(top, skipped.path[start:], (0, skipped.reason), include_hidden)
    return top


def _place(top: _TreeFolder, path: str, file: tuple[int, str] | None, include_hidden: bool) -> None:
    parts = path.split("/")
    if not include_hidden and any(part.startswith(".") for part in parts):
        return
    if file is None:
        top.at(parts)
    else:
        top.at(parts[:-1]).files[parts[-1]] = file


def _shares(top: _TreeFolder, depth: int, max_items: int) -> dict[int, int]:
    """How many items each folder (by identity) may show: breadth first, until the lines are used up."""
    shares: dict[int, int] = {}
    left, level = max_items, [top]
    for _ in range(depth):
        following = []
        for number, folder in enumerate(level):
            count = len(folder.folders) + len(folder.files)
            fair = 0
            if left > 0:
                fair = max(1, left // (len(level) - number))
            shares[id(folder)] = min(count, fair)
            left -= shares[id(folder)]
            following += [inner for _, inner in sorted(folder.folders.items())][: shares[id(folder)]]
        level = following
    return shares


def _render(folder: _TreeFolder, depth: int, shares: dict[int, int], rows: list[TreeEntry]) -> None:
    # As deep as the caller asked for, which the tool limits: no danger to the stack.
    share = shares.get(id(folder), 0)
    if id(folder) not in shares:
        return
    items: list[tuple[str, _TreeFolder | None, int, str]] = []
    items += [(name, inner, 0, "") for name, inner in sorted(folder.folders.items())]
    items += [(name, None, size, note) for name, (size, note) in sorted(folder.files.items())]
    for name, inner, size, note in items[:share]:
        rows.append(TreeEntry(name, depth, inner is not None, size, 0, note))
        if inner is not None:
            _render(inner, depth + 1, shares, rows)
    if len(items) > share:
        rows.append(TreeEntry("", depth, False, 0, len(items) - share))
