"""Reads files and folders of one workspace: for replies with their secrets redacted, for the index as bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from context_engine.errors import ContextEngineError, InvalidLineRange, InvalidPath
from context_engine.languages import Languages
from context_engine.model import FileText, Skipped, TreeEntry
from context_engine.repo import file_reader
from context_engine.repo.joint_service import JointService, qualify
from context_engine.repo.paths import Root
from context_engine.repo.walker import Walk, walk
from context_engine.secrets import RedactedDocument, RedactedDocuments, mark_searched
from context_engine.text import LineSpan, count_lines
from context_engine.timestamps import format_timestamp

READ_BYTES_MAX = 1_000_000
"""Larger files are read in parts (docs/tools.md)."""
LISTED_BYTES_MAX = 1 << 62
"""A listing shows files of any size."""
FILES_KEPT = 200
KEPT_BYTES_MAX = 10_000_000
"""The files of the last answers are kept, up to so many bytes: the questions of one session concern the same files."""


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


class WorkspaceFiles(JointService):
    """The files of one workspace as they are now. Thread-safe.

    `read` is for replies: secrets are redacted. `load`, and `read_kept` for the text alone, are for search and
    references, which ask for the same files again; `read_once` is for readers that look at every file once, such as
    reviews; `read_raw` is for renames, which need the bytes on the disk.
    """

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
        if self.joined:
            name, files, rest = self.find_owner(path)
            return qualify(name, files.read(rest, first=first, last=last))
        rel = self.root.rel(path)
        is_part = first is not None or last is not None
        source = file_reader.read_file(
            self.root, rel, bytes_max=file_reader.SOURCE_BYTES_MAX if is_part else READ_BYTES_MAX
        )
        lines = count_lines(source.text)
        span = _requested_lines(first, last, lines, rel)
        shown = self._texts.of(source.data, rel)
        text = shown.lines(*span) if is_part else shown.text
        mark_searched(text)
        language = self._languages.detect(rel, source.data)
        return FileText(
            path=rel,
            text=text,
            language=language.name if language else "text",
            lines=lines,
            span=span,
            sha256=source.sha256.hex(),
            size_bytes=source.size,
            encoding=source.encoding,
            modified_at=format_timestamp(source.mtime_ns / 1e9),
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
        kept_bytes = sum(file.size for file in tuple(self._kept.values()))
        if len(self._kept) >= FILES_KEPT or kept_bytes + loaded.size > KEPT_BYTES_MAX:
            self._kept.clear()
        known = WorkspaceFile(loaded.data, loaded.size, loaded.mtime_ns, path, self._texts)
        if loaded.size <= KEPT_BYTES_MAX:
            self._kept[path] = known
        return known

    def read_kept(self, path: str) -> bytes | None:
        """Return the text of a file in UTF-8, kept as by `load`."""
        loaded = self.load(path)
        return loaded.data if loaded else None

    def read_once(self, path: str) -> bytes | None:
        """Return the text of a file in UTF-8 without keeping it."""
        loaded = file_reader.load_for_index(self.root.confined, path, bytes_max=file_reader.SOURCE_BYTES_MAX)
        return None if isinstance(loaded, Skipped) else loaded.data

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


class _Item(NamedTuple):
    """One name of a folder; the order of a listing is that of these values."""

    is_file: bool
    name: str
    size: int = 0
    note: str = ""


def _tree_entries(seen: Walk, base: str, *, depth: int, max_items: int, include_hidden: bool) -> tuple[TreeEntry, ...]:
    """Return the tree below `base` ("." for the root), `depth` levels deep, at most `max_items` lines.

    Items are given out level by level, so that a large folder does not hide its neighbors; what was cut is an entry
    with `hidden_items`.
    """
    folders = _group_by_folder(seen, base, include_hidden=include_hidden)
    shares = _share_lines(folders, depth, max_items)
    rows: list[TreeEntry] = []

    def render(folder: str, level: int) -> None:  # as deep as the tool allows: no danger to the stack
        items = folders.get(folder, [])
        for item in items[: shares[folder]]:
            rows.append(TreeEntry(item.name, level, not item.is_file, item.size, 0, item.note))
            if not item.is_file and (inner := f"{folder}/{item.name}") in shares:
                render(inner, level + 1)
        if len(items) > shares[folder]:
            rows.append(TreeEntry("", level, False, 0, len(items) - shares[folder]))

    render("", 0)
    return tuple(rows)


def _group_by_folder(seen: Walk, base: str, *, include_hidden: bool) -> dict[str, list[_Item]]:
    """Return the items of each folder in the order of the listing; the keys are `""` and paths such as `/src/lib`."""
    start = 0 if base == "." else len(base) + 1
    skipped = [row for row in seen.skipped if row.reason not in UNSEEN]
    found = [
        *((path[start:], _Item(False, "")) for path in seen.folders),
        *((entry.path[start:], _Item(True, "", entry.size)) for entry in seen.entries),
        *((row.path[start:], _Item(True, "", 0, row.reason)) for row in skipped),
    ]
    folders: dict[str, set[_Item]] = {}
    for path, item in found:
        *above, name = path.split("/")
        if not name or (not include_hidden and any(part.startswith(".") for part in (*above, name))):
            continue
        folder = ""
        for part in above:
            folders.setdefault(folder, set()).add(_Item(False, part))
            folder = f"{folder}/{part}"
        folders.setdefault(folder, set()).add(item._replace(name=name))
    return {folder: sorted(items) for folder, items in folders.items()}


def _share_lines(folders: Mapping[str, list[_Item]], depth: int, max_items: int) -> dict[str, int]:
    """Return how many items each folder may show: breadth first, until the lines are used up."""
    shares: dict[str, int] = {}
    left, level = max_items, [""]
    for _ in range(depth):
        following = []
        for number, folder in enumerate(level):
            items = folders.get(folder, [])
            fair = max(1, left // (len(level) - number)) if left > 0 else 0
            shares[folder] = min(len(items), fair)
            left -= shares[folder]
            following += [f"{folder}/{item.name}" for item in items[: shares[folder]] if not item.is_file]
        level = following
    return shares
