r"""PURE. A unified diff as values: files, hunks and lines with their numbers, whatever program wrote it.

>>> change = parse_diff("--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n").files[0]
>>> change.path, change.added_lines
('x.py', (DiffLine(mark='+', old=0, new=2, text='y = 3'),))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

from context_engine.errors import DiffInvalid, TooLarge
from context_engine.text.diff_sections import HUNK_HEADER, SUBMODULE, Section, sections
from context_engine.text.spans import LineSpan

DIFF_BYTES_MAX = 2_000_000
"""What somebody sends; a change that large is reviewed commit by commit."""
GIT_DIFF_BYTES_MAX = 32_000_000
"""What we ask of git ourselves: all that it may say in one call (`workspace.git`)."""
SYMLINK = "120000"
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
    """Lines that stand together. `old` and `new` are None where a version has no line here; `section` is git's hint."""

    old: LineSpan | None
    new: LineSpan | None
    section: str
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True)
class FileDiff:
    """What becomes of one file. Paths are as written, never checked; `""` is a file that is not there.

    Modes are git's (`100644`), blobs the hashes of its `index` line; both are `""` where nothing is said of them.
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
        """What the file is called now; of a deleted one, what it was called."""
        return self.new_path or self.old_path

    @cached_property
    def added_lines(self) -> tuple[DiffLine, ...]:
        """The lines of the new version that the old has not."""
        return tuple(line for hunk in self.hunks for line in hunk.lines if line.mark == "+")

    @cached_property
    def removed_lines(self) -> tuple[DiffLine, ...]:
        """The lines of the old version that the new has not."""
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
        """Whether it is, or was, a symbolic link; its content is where it leads."""
        return SYMLINK in (self.old_mode, self.new_mode)

    @cached_property
    def is_lfs(self) -> bool:
        """Whether it is, or was, a pointer of Git LFS: the content lies elsewhere."""
        first = (line for hunk in self.hunks[:1] for line in hunk.lines if 1 in (line.old, line.new))
        return any(line.text.startswith(LFS_MARK) for line in first)

    @property
    def is_mode_only(self) -> bool:
        """Whether nothing but the mode changes."""
        return self.kind == "modified" and not self.hunks and not self.is_binary and self.old_mode != self.new_mode


@dataclass(frozen=True)
class UnifiedDiff:
    """All files of a diff, in its order."""

    files: tuple[FileDiff, ...]

    @property
    def added(self) -> int:
        """How many lines come."""
        return sum(len(each.added_lines) for each in self.files)

    @property
    def removed(self) -> int:
        """How many lines go."""
        return sum(len(each.removed_lines) for each in self.files)

    def filter_paths(self, keep: Callable[[str], bool]) -> UnifiedDiff:
        """The files whose path passes."""
        return replace(self, files=tuple(each for each in self.files if keep(each.path)))

    def file(self, path: str) -> FileDiff | None:
        """The file that is called so, or was."""
        return next((each for each in self.files if path in (each.new_path, each.old_path)), None)


def parse_diff(text: str, *, bytes_max: int = DIFF_BYTES_MAX) -> UnifiedDiff:
    """The values of a diff. Prose around it, as of a mail, is left out.

    Raises: DiffInvalid, DiffTruncated, DiffCombinedUnsupported, TooLarge.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    if size > bytes_max:
        raise TooLarge(
            f"the diff has {size:,} bytes, at most {bytes_max:,} are read",
            suggestion="Review it commit by commit or folder by folder, or let review_git_diff take it from git.",
            details={"bytes": size, "limit": bytes_max},
        )
    found = sections(text)
    if not found:
        raise DiffInvalid(
            "the text holds no change of a file in the unified format",
            suggestion="Send what git diff or diff -u writes: `--- a/x`, `+++ b/x`, `@@ -1 +1 @@`, then the lines.",
        )
    return UnifiedDiff(tuple(_joined(map(_file, found))))


def _joined(files: Iterable[FileDiff]) -> Iterator[FileDiff]:
    """A file in two sections is one file: deleted and added, it becomes a link; in a conflict a word goes before the change."""
    before: FileDiff | None = None
    for change in files:
        if before and before.kind == "unmerged" and before.path == change.path:
            before = None
        if before and (before.kind, change.kind, before.path) == ("deleted", "added", change.path):
            before = replace(
                before,
                new_path=change.new_path,
                kind="modified",
                hunks=before.hunks + change.hunks,
                new_mode=change.new_mode,
                new_blob=change.new_blob,
                new_has_newline=change.new_has_newline,
            )
            continue
        if before:
            yield before
        before = change
    if before:
        yield before


def _file(section: Section) -> FileDiff:
    old, new = section.paths
    hunks = tuple(map(_read_hunk, section.hunks))
    return FileDiff(
        old_path=old,
        new_path=new,
        kind=_kind(section, old, new),
        hunks=hunks,
        is_binary=section.is_binary,
        old_mode="" if not old else section.old_mode,
        new_mode="" if not new else section.new_mode,
        old_blob="" if not section.blobs[0].strip("0") else section.blobs[0],
        new_blob="" if not section.blobs[1].strip("0") else section.blobs[1],
        similarity=section.similarity,
        old_has_newline=not any(_ends_without_newline(lines, "-") for lines in section.hunks),
        new_has_newline=not any(_ends_without_newline(lines, "+") for lines in section.hunks),
    )


def _kind(section: Section, old: str, new: str) -> Kind:
    if section.is_unmerged:
        return "unmerged"
    if not old or not new:
        return "deleted" if old else "added"
    if section.copied:
        return "copied"
    return "modified" if old == new else "renamed"


def _read_hunk(lines: Sequence[str]) -> DiffHunk:
    """Read a hunk, its header line first. `sections` has counted its lines, so none is missing or too many."""
    header = HUNK_HEADER.match(lines[0])
    assert header  # `sections` read it
    old_start, new_start = int(header[1]), int(header[3])
    old, new = old_start, new_start
    read: list[DiffLine] = []
    for line in lines[1:]:
        body = line.removesuffix("\n")
        mark, text = body[:1], body[1:]
        if mark == "\\":  # `\ No newline at end of file`
            continue
        if mark == "-":
            read.append(DiffLine("-", old, 0, text))
            old += 1
        elif mark == "+":
            read.append(DiffLine("+", 0, new, text))
            new += 1
        else:  # a blank context line may have lost its blank
            read.append(DiffLine(" ", old, new, text if mark == " " else body))
            old, new = old + 1, new + 1
    section = lines[0][header.end() :].removesuffix("\n").removeprefix(" ")
    return DiffHunk(_span(old_start, old - old_start), _span(new_start, new - new_start), section, tuple(read))


def _span(start: int, length: int) -> LineSpan | None:
    return LineSpan(start, start + length - 1) if length else None


def _ends_without_newline(lines: Sequence[str], mark: str) -> bool:
    """Whether the diff says that the version with this mark, `-` old or `+` new, has no newline at its end."""
    return any(
        line.startswith("\\") and (before[:1] == mark or before[:1] not in ("+", "-"))
        for before, line in pairwise(lines[1:])
    )
