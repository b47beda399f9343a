r"""PURE. A unified diff as values: files, hunks and lines with their numbers; and a file's other version by its diff.

>>> from context_engine.text.diff_reader import parse_diff
>>> change = parse_diff("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n").files[0]
>>> change.path, change.added_lines
('x', (DiffLine(mark='+', old=0, new=2, text='three'),))
>>> change.apply("one\ntwo\n"), change.revert("one\nthree\n"), change.apply("other\n")
('one\nthree\n', 'one\ntwo\n', None)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from context_engine.text.lines import LineSpan

SYMLINK = "120000"
SUBMODULE = "160000"
LFS_MARK = "version https://git-lfs.github.com/spec/"

Kind = Literal["added", "deleted", "modified", "renamed", "copied", "unmerged"]
Mark = Literal["+", "-", " "]


class DiffLine(NamedTuple):
    """One line of a hunk: `old` and `new` are its numbers in both versions, 0 where it does not exist."""

    mark: Mark
    old: int
    new: int
    text: str


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """Neighboring lines. `old` and `new` are None where a version has no line here; `section` is git's hint."""

    old: LineSpan | None
    new: LineSpan | None
    section: str
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True)
class FileDiff:
    """The change of one file. Paths are as written, never checked; `""` is a file that does not exist.

    Modes are git's (`100644`), blobs the hashes of its `index` line; both are `""` if the diff does not name them.
    """

    old_path: str
    new_path: str
    kind: Kind
    hunks: tuple[DiffHunk, ...] = ()
    is_binary: bool = False
    old_mode: str = ""
    new_mode: str = ""
    old_blob: str = ""
    new_blob: str = ""
    similarity: int | None = None
    old_has_newline: bool = True
    new_has_newline: bool = True

    @property
    def path(self) -> str:
        """The name of the file now; of a deleted file, its last name."""
        return self.new_path or self.old_path

    @cached_property
    def added_lines(self) -> tuple[DiffLine, ...]:
        """The lines that only the new version has."""
        return tuple(line for hunk in self.hunks for line in hunk.lines if line.mark == "+")

    @cached_property
    def removed_lines(self) -> tuple[DiffLine, ...]:
        """The lines that only the old version has."""
        return tuple(line for hunk in self.hunks for line in hunk.lines if line.mark == "-")

    @cached_property
    def added_numbers(self) -> frozenset[int]:
        """The numbers of the added lines."""
        return frozenset(line.new for line in self.added_lines)

    @property
    def is_submodule(self) -> bool:
        """Whether it is another repository, of which a commit is named."""
        return SUBMODULE in (self.old_mode, self.new_mode)

    @property
    def is_symlink(self) -> bool:
        """Whether it is, or was, a symbolic link; its content is its target."""
        return SYMLINK in (self.old_mode, self.new_mode)

    @cached_property
    def is_lfs(self) -> bool:
        """Whether it is, or was, a pointer of Git LFS, which stores the content elsewhere."""
        first = (line for hunk in self.hunks[:1] for line in hunk.lines if 1 in (line.old, line.new))
        return any(line.text.startswith(LFS_MARK) for line in first)

    @property
    def is_mode_only(self) -> bool:
        """Whether nothing but the mode changes."""
        return self.kind == "modified" and not self.hunks and not self.is_binary and self.old_mode != self.new_mode

    def apply(self, old: str) -> str | None:
        """Return the new version of a file; None if the diff was not made for it."""
        return _patch(self, old, "-", "+", ends=self.new_has_newline)

    def revert(self, new: str) -> str | None:
        """Return the old version of a file; None if the diff was not made for it."""
        return _patch(self, new, "+", "-", ends=self.old_has_newline)

    def text_of_hunks(self) -> str:
        """Return the part of the new version that the hunks contain, each line at its number, blank ones between."""
        known = {line.new: line.text for hunk in self.hunks for line in hunk.lines if line.new}
        return "\n".join(known.get(number, "") for number in range(1, max(known, default=0) + 1))


@dataclass(frozen=True)
class UnifiedDiff:
    """All files of a diff, in its order."""

    files: tuple[FileDiff, ...]

    @property
    def added(self) -> int:
        """The number of added lines."""
        return sum(len(file.added_lines) for file in self.files)

    @property
    def removed(self) -> int:
        """The number of removed lines."""
        return sum(len(file.removed_lines) for file in self.files)

    def filter_paths(self, keep: Callable[[str], bool]) -> UnifiedDiff:
        """Return the files whose path passes."""
        return replace(self, files=tuple(file for file in self.files if keep(file.path)))

    def file(self, path: str) -> FileDiff | None:
        """Return the file with this name now or before."""
        return next((file for file in self.files if path in (file.new_path, file.old_path)), None)


def _patch(diff: FileDiff, text: str, removed: str, added: str, *, ends: bool) -> str | None:
    """Return the text with the lines marked `removed` replaced by those marked `added`; None where it does not fit."""
    if text:
        lines = text.removesuffix("\n").split("\n")
    else:
        lines = []
    patched: list[str] = []
    at = 0
    for hunk in diff.hunks:
        start = _hunk_start(hunk, removed, len(patched), at)
        if start < at or start > len(lines):
            return None
        patched += lines[at:start]
        at = start
        for line in hunk.lines:
            if line.mark == added:
                patched.append(line.text)
                continue
            if at >= len(lines) or lines[at] != line.text:
                return None
            at += 1
            if line.mark != removed:
                patched.append(line.text)
    reaches_end = bool(diff.hunks) and at >= len(lines)
    return _join_lines([*patched, *lines[at:]], has_newline=ends if reaches_end else text.endswith("\n"))


def _hunk_start(hunk: DiffHunk, removed: str, patched: int, at: int) -> int:
    """Return how many lines of the given version come before a hunk."""
    if removed == "-":
        own, other = ("old", "new")
    else:
        own, other = ("new", "old")
    first = next(filter(None, (getattr(line, own) for line in hunk.lines)), 0)
    if first:
        return first - 1
    # Lines are only added here: their numbers in the other version say where.
    return at + next(filter(None, (getattr(line, other) for line in hunk.lines)), 1) - 1 - patched


def _join_lines(lines: Sequence[str], *, has_newline: bool) -> str:
    if lines:
        return "\n".join(lines) + "\n" * has_newline
    return ""
