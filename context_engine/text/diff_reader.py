"""PURE. Read a unified diff in the form of any program: git, GNU diff, Mercurial or a mail with a patch in it.

The reader counts the lines of each hunk, and refuses what would otherwise silently be read as no change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NamedTuple

from context_engine.errors import DiffCombinedUnsupported, DiffInvalid, DiffTruncated, TooLarge
from context_engine.text.lines import LineSpan

# -- diff --------------------------------------------------------------------------------------------------------------

# A unified diff as values: files, hunks and lines with their numbers; and a file's other version by its diff.

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
    r"""The change of one file. Paths are as written, never checked; `""` is a file that does not exist.

    Modes are git's (`100644`), blobs the hashes of its `index` line; both are `""` if the diff does not name them.

    >>> change = parse_diff("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n")[0]
    >>> change.path, change.added_lines
    ('x', (DiffLine(mark='+', old=0, new=2, text='three'),))
    >>> change.apply("one\ntwo\n"), change.revert("one\nthree\n"), change.apply("other\n")
    ('one\nthree\n', 'one\ntwo\n', None)
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
    old_has_newline: bool = True
    new_has_newline: bool = True

    @classmethod
    def of_new_file(cls, path: str, text: str | None) -> FileDiff:
        r"""Return the change that adds a file; without a text it is binary.

        >>> head = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n"
        >>> FileDiff.of_new_file("x", "one\n") == parse_diff(f"{head}+one\n")[0]
        True
        """
        lines = text.removesuffix("\n").split("\n") if text else []
        added = tuple(DiffLine("+", 0, number, line) for number, line in enumerate(lines, 1))
        hunks = (DiffHunk(None, LineSpan(1, len(lines)), "", added),) if added else ()
        has_newline = not text or text.endswith("\n")
        return cls("", path, "added", hunks, text is None, new_mode="100644", new_has_newline=has_newline)

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


def _patch(diff: FileDiff, text: str, removed: str, added: str, *, ends: bool) -> str | None:
    """Return the text with the lines marked `removed` replaced by those marked `added`; None where it does not fit."""
    lines = text.removesuffix("\n").split("\n") if text else []
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
    patched += lines[at:]
    has_newline = ends if reaches_end else text.endswith("\n")
    return "\n".join(patched) + "\n" * has_newline if patched else ""


def _hunk_start(hunk: DiffHunk, removed: str, patched: int, at: int) -> int:
    """Return how many lines of the given version come before a hunk."""
    own, other = ("old", "new") if removed == "-" else ("new", "old")
    first = next(filter(None, (getattr(line, own) for line in hunk.lines)), 0)
    if first:
        return first - 1
    # Lines are only added here: their numbers in the other version say where.
    return at + next(filter(None, (getattr(line, other) for line in hunk.lines)), 1) - 1 - patched


# -- diff reader -------------------------------------------------------------------------------------------------------

DIFF_BYTES_MAX = 2_000_000
"""Of a diff that a caller sends; a larger change is reviewed commit by commit."""
GIT_DIFF_BYTES_MAX = 32_000_000
"""Of a diff that we ask git for: the most that git may print in one call (`repo.git`)."""
SHOWN_CHARS = 80
PREFIXES = frozenset({"a/ b/", "c/ i/", "i/ w/", "c/ w/", "o/ w/", "1/ 2/", "i/ c/", "w/ i/", "w/ c/", "b/ a/"})
"""Prefixes of the old and new name: git's own, those of diff.mnemonicPrefix, of --no-index, and of a reversed diff."""
NOWHERE = "/dev/null"

# a line with a larger number would fill the memory with blank ones before it
_HUNK_HEADER = re.compile(r"@@ -(\d{1,7})(?:,(\d{1,7}))? \+(\d{1,7})(?:,(\d{1,7}))? @@")
_BINARY = re.compile(r"(?:Binary files (?=.* differ\Z)(.+) and (.+) differ|Binary file (.+) has changed)")
_SUBMODULE_LOG = re.compile(r"Submodule (.+?) (?:([0-9a-f]{7,})\.{2,3}([0-9a-f]{7,})|contains )")
_INDEX = re.compile(r"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: (\d{6}))?")
_HEADER = re.compile(
    r"(new file mode|deleted file mode|old mode|new mode|rename from|rename to|copy from|copy to"
    r"|similarity index|dissimilarity index) (.*)",
    re.DOTALL,
)
_QUOTED_PAIR = re.compile(r'("(?:[^"\\]|\\.)*"|[^"]\S*) ("(?:[^"\\]|\\.)*"|[^"].*)')
_CONVERTED = re.compile(r"^(?:diff --git |--- |\+\+\+ )[^\n]*\r$", re.MULTILINE)
_EMPTY_BLOBS = ("e69de29", "473a0f4")
"""How the hash of an empty file begins, in SHA-1 and SHA-256: a new empty file has no hunks."""
_BODY = frozenset((" ", "+", "-", "\\", "", "\r"))
"""The first characters of the lines of a hunk; a blank context line may have lost its blank."""


def parse_diff(
    text: str, *, bytes_max: int = DIFF_BYTES_MAX, may_be_empty: bool = False, more: Iterable[FileDiff] = ()
) -> tuple[FileDiff, ...]:
    """Return the files of a diff; prose around it, as in a mail, is left out. `more` are files that follow it.

    A diff without a change is refused, unless it `may_be_empty`.
    Raises: DiffInvalid, DiffTruncated, DiffCombinedUnsupported, TooLarge.
    """
    check_diff_size(len(text) if text.isascii() else len(text.encode("utf-8", "replace")), bytes_max)
    files = tuple(_join_sections(chain(_Reader(text).read(), more)))
    if not files and not may_be_empty:
        raise DiffInvalid(
            "the text contains no change of a file in the unified format",
            suggestion="Send what git diff or diff -u writes: `--- a/x`, `+++ b/x`, `@@ -1 +1 @@`, then the lines.",
        )
    return files


def check_diff_size(size: int, bytes_max: int) -> None:
    """Refuse a diff that is too large to read. Raises: TooLarge."""
    if size > bytes_max:
        raise TooLarge(
            f"the diff has {size:,} bytes, at most {bytes_max:,} are read",
            suggestion="Review it commit by commit or folder by folder, or let review_git_diff take it from git.",
            details={"bytes": size, "limit": bytes_max},
        )


def _join_sections(files: Iterable[FileDiff]) -> Iterator[FileDiff]:
    """Join the two sections of one file.

    A file that becomes a link is deleted and added; in a conflict, a line without a change comes before the change.
    """
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


@dataclass(slots=True)
class _Section:
    """The content of a diff about one file, as far as it has been read; `headers` are git's extended ones by name."""

    line: int
    header_names: tuple[str, str] = ("", "")
    marked_names: tuple[str, str] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    is_binary: bool = False
    is_unmerged: bool = False
    hunks: list[DiffHunk] = field(default_factory=list)
    without_newline: set[str] = field(default_factory=set)

    def take_header_line(self, line: str) -> bool:
        """Take in a line between `diff --git` and the first hunk; return False if it is not one of git's."""
        if index := _INDEX.fullmatch(line):
            self.headers |= {"old blob": index[1], "new blob": index[2], "mode": index[3] or ""}
        elif header := _HEADER.fullmatch(line):
            self.headers[header[1]] = header[2]
        return bool(index or header)

    def to_file_diff(self) -> FileDiff:
        """Return the section as a value."""
        old, new = self._paths()
        known, mode = self.headers, self.headers.get("mode", "")
        old_blob, new_blob = (known.get(name, "") for name in ("old blob", "new blob"))
        return FileDiff(
            old_path=old,
            new_path=new,
            kind=self._kind(old, new),
            hunks=tuple(self.hunks),
            is_binary=self.is_binary,
            old_mode=known.get("old mode", known.get("deleted file mode", mode)) if old else "",
            new_mode=known.get("new mode", known.get("new file mode", mode)) if new else "",
            old_blob=old_blob if old_blob.strip("0") else "",
            new_blob=new_blob if new_blob.strip("0") else "",
            old_has_newline="-" not in self.without_newline,
            new_has_newline="+" not in self.without_newline,
        )

    def _paths(self) -> tuple[str, str]:
        """Return the old and the new name, without prefixes; empty where there is none."""
        known = self.headers
        if moved_from := known.get("rename from", known.get("copy from", "")):
            return unquote_path(moved_from), unquote_path(known.get("rename to", known.get("copy to", "")))
        old, new = strip_prefixes(*(self.marked_names or self.header_names))
        has_old = old != NOWHERE and "new file mode" not in known
        has_new = new != NOWHERE and "deleted file mode" not in known
        return old if has_old else "", new if has_new else ""

    def _kind(self, old: str, new: str) -> Kind:
        if self.is_unmerged:
            return "unmerged"
        if not old or not new:
            return "deleted" if old else "added"
        if "copy from" in self.headers:
            return "copied"
        return "modified" if old == new else "renamed"

    def check(self, *, is_last: bool = False) -> None:
        """Refuse a file whose names are given, but no hunk; or a header alone at the end of the text, which was cut.

        Raises: DiffTruncated.
        """
        old, new = self.headers.get("old blob", ""), self.headers.get("new blob", "")
        is_empty = set(old + new) == {"0"} or new.startswith(_EMPTY_BLOBS) or old.startswith(_EMPTY_BLOBS)
        is_cut = self.marked_names is not None or (is_last and old != new and not is_empty)
        if is_cut and not (self.hunks or self.is_binary or self.is_unmerged):
            path = self.to_file_diff().path
            raise DiffTruncated(
                f"the diff names {path} as changed, but does not show how",
                suggestion="Send the diff whole.",
                details={"line": self.line, "path": path},
            )


class _Reader:
    """One pass over the lines. `_at` is the next line; the last section of `_sections` is still open.

    A method that reads a kind of lines returns how many, 0 if they are prose after all.
    """

    def __init__(self, text: str) -> None:
        if _CONVERTED.search(text):  # the headers end in carriage returns, so a program converted all lines
            text = text.replace("\r\n", "\n")
        self._lines = text.removesuffix("\n").split("\n")
        self._at = 0
        self._sections: list[_Section] = []
        self._in_header = False

    def read(self) -> Iterator[FileDiff]:
        """Yield the changed files, in order; git also shows a header for a file that was touched and is as before."""
        while self._at < len(self._lines):
            self._at += self._step() or 1
        if self._sections:
            self._sections[-1].check(is_last=True)
        for file in (section.to_file_diff() for section in self._sections):
            if file.kind != "modified" or file.hunks or file.is_binary or file.old_mode != file.new_mode:
                yield file

    def _step(self) -> int:
        """Read the next line, and those that belong to it."""
        line = self._line(self._at)
        for start, read in _READERS:
            if line.startswith(start) and (count := read(self, line)):
                return count
        if not (self._in_header and self._sections[-1].take_header_line(line)):
            self._in_header = self._in_header and not line
        return 1

    def _line(self, place: int) -> str:
        return self._lines[place].rstrip("\r") if place < len(self._lines) else ""

    def _open(self, *, in_header: bool = False, **known: Any) -> _Section:
        if self._sections:
            self._sections[-1].check()
        self._sections.append(_Section(self._at + 1, **known))
        self._in_header = in_header
        return self._sections[-1]

    def read_git_header(self, line: str) -> int:
        """Open a section for `diff --git a/x b/x`."""
        self._open(in_header=True, header_names=split_names(line.removeprefix("diff --git ")))
        return 1

    def refuse_combined(self, line: str) -> int:
        """Refuse a diff against several parents."""
        raise DiffCombinedUnsupported(
            f"line {self._at + 1} begins a combined diff: {line[:SHOWN_CHARS]}",
            suggestion="Send the diff against one parent: git show -m --first-parent COMMIT;"
            " in a conflict, git diff --ours.",
            details={"line": self._at + 1},
        )

    def read_file_names(self, line: str) -> int:
        """Read `--- a/x` with `+++ b/x` after it; alone the first is prose."""
        after = self._line(self._at + 1)
        if not after.startswith("+++ "):
            return 0
        section = self._sections[-1] if self._in_header else self._open()
        section.marked_names = _marked_name(line[4:]), _marked_name(after[4:])
        self._in_header = False
        return 2

    def read_binary(self, line: str) -> int:
        """Read what stands for a whole binary change: one line of `diff`, or the head of a patch of encoded bytes."""
        match = _BINARY.fullmatch(line)
        if match is None and not (self._in_header and line == "GIT binary patch"):
            return 0
        if match and not self._in_header:
            self._open(marked_names=(_marked_name(match[1] or match[3]), _marked_name(match[2] or match[3])))
        self._sections[-1].is_binary = True
        self._in_header = False
        return 1

    def read_unmerged(self, line: str) -> int:
        """Read the line for a file in the middle of a merge; git shows nothing more of it."""
        name = unquote_path(line.removeprefix("* Unmerged path "))
        self._open(marked_names=(name, name), is_unmerged=True)
        return 1

    def read_submodule(self, line: str) -> int:
        """Read the line that `diff.submodule=log` writes instead of a hunk."""
        match = _SUBMODULE_LOG.match(line)
        if match is None:
            return 0
        commits = (
            DiffLine("-", 1, 0, f"Subproject commit {match[2]}"),
            DiffLine("+", 0, 1, f"Subproject commit {match[3]}"),
        )
        hunk = DiffHunk(LineSpan(1, 1), LineSpan(1, 1), "", commits)
        self._open(marked_names=(match[1], match[1]), headers={"mode": SUBMODULE}, hunks=[hunk])
        return 1

    def read_hunk(self, line: str) -> int:
        """Read a hunk with as many lines as its header announces."""
        header, first = _HUNK_HEADER.match(line), self._at
        if header is None:
            raise self._invalid_error(f"is not a hunk header with line numbers: {line[:SHOWN_CHARS]}")
        if not self._sections or self._sections[-1].marked_names is None:
            raise self._invalid_error("begins a hunk, but no file was named before it")
        self._in_header = False
        section = self._lines[first][header.end() :].removeprefix(" ")
        old, new = int(header[1]), int(header[3])
        lines = tuple(self._hunk_lines(int(header[2] or 1), int(header[4] or 1), old, new))
        old_count, new_count = (sum(line.mark != mark for line in lines) for mark in "+-")
        self._sections[-1].hunks.append(DiffHunk(_span(old, old_count), _span(new, new_count), section, lines))
        count, self._at = self._at - first, first
        return count

    def _hunk_lines(self, old_left: int, new_left: int, old: int, new: int) -> Iterator[DiffLine]:
        """Yield the lines of a hunk that has so many of each version left, from these line numbers on."""
        header, before = self._at, ""
        self._at += 1
        while old_left > 0 or new_left > 0:
            line = self._lines[self._at] if self._at < len(self._lines) else None
            if line is None and old_left == new_left == 1:  # the blank last line was trimmed with the text
                yield DiffLine(" ", old, new, "")
                return
            if line is None or line[:1] not in _BODY:
                raise self._truncated_error(header, old_left, new_left)
            self._at += 1
            match line[:1]:
                case "\\":
                    self._note_missing_newline(before)
                case "-":
                    yield DiffLine("-", old, 0, line[1:])
                    old, old_left = old + 1, old_left - 1
                case "+":
                    yield DiffLine("+", 0, new, line[1:])
                    new, new_left = new + 1, new_left - 1
                case mark:
                    yield DiffLine(" ", old, new, line[1:] if mark == " " else line)
                    old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
            before = line[:1] or " "
        if old_left < 0 or new_left < 0:
            raise self._invalid_error("goes beyond what the header of its hunk announces", header)
        if self._line(self._at).startswith("\\"):
            self._note_missing_newline(before)
            self._at += 1
        line = self._line(self._at)  # it must not look like more of the hunk
        if line[:1] in ("+", "-", " ") and line.strip() and not line.startswith(("--- ", "-- ")) and line != "--":
            raise self._invalid_error("follows the last line that the header of its hunk announces", header)

    def _note_missing_newline(self, mark: str) -> None:
        r"""Note `\ No newline at end of file` after a line with this mark; a context line is in both versions."""
        if mark:
            self._sections[-1].without_newline |= {mark} if mark in ("+", "-") else {"+", "-"}

    def _truncated_error(self, header: int, old: int, new: int) -> DiffTruncated:
        return DiffTruncated(
            f"the hunk at line {header + 1} ends too early: {old} old and {new} new lines are missing",
            suggestion="Send the diff whole; if it was written by hand, correct the numbers between @@ and @@.",
            details={"line": header + 1, "missing_old": old, "missing_new": new},
        )

    def _invalid_error(self, why: str, header: int | None = None) -> DiffInvalid:
        details = {"line": self._at + 1} | ({} if header is None else {"hunk": header + 1})
        suggestion = "Send what git diff writes; if it was written by hand, correct the numbers between @@ and @@."
        return DiffInvalid(f"line {self._at + 1} {why}", suggestion=suggestion, details=details)


_READERS: tuple[tuple[str, Callable[[_Reader, str], int]], ...] = (
    ("diff --git ", _Reader.read_git_header),
    ("diff --cc ", _Reader.refuse_combined),
    ("diff --combined ", _Reader.refuse_combined),
    ("@@@", _Reader.refuse_combined),
    ("@@ ", _Reader.read_hunk),
    ("--- ", _Reader.read_file_names),
    ("Binary file", _Reader.read_binary),
    ("GIT binary patch", _Reader.read_binary),
    ("* Unmerged path ", _Reader.read_unmerged),
    ("Submodule ", _Reader.read_submodule),
)
"""The beginning of a line -> its reader."""


def _span(start: int, length: int) -> LineSpan | None:
    return LineSpan(start, start + length - 1) if length else None


# -- names -------------------------------------------------------------------------------------------------------------


def split_names(text: str) -> tuple[str, str]:
    r"""Split the two names after `diff --git`. Blanks in them are ambiguous, unless both names are equal.

    >>> split_names("a/x y b/x y"), split_names(r'"a/t\tb" b/x')
    (('a/x y', 'b/x y'), ('a/t\tb', 'b/x'))
    """
    if '"' in text and (pair := _QUOTED_PAIR.fullmatch(text)):
        return unquote_path(pair[1]), unquote_path(pair[2])
    for place, character in enumerate(text):
        old, new = text[:place], text[place + 1 :]
        if character == " " and (old == new or (f"{old[:2]} {new[:2]}" in PREFIXES and old[2:] == new[2:])):
            return old, new
    old, _, new = text.partition(" ")
    return old, new


def _marked_name(text: str) -> str:
    """Return the name after `---` or `+++`, up to the tab before a time."""
    return unquote_path(text.partition("\t")[0].rstrip("\r"))


def strip_prefixes(old: str, new: str) -> tuple[str, str]:
    """Strip the prefixes that programs put before both names.

    >>> strip_prefixes("a/x.py", "b/x.py"), strip_prefixes("x.py", "x.py"), strip_prefixes("/dev/null", "b/x.py")
    (('x.py', 'x.py'), ('x.py', 'x.py'), ('/dev/null', 'x.py'))
    >>> strip_prefixes("before/src/x.c", "after/src/x.c")
    ('src/x.c', 'src/x.c')
    """
    left, right = old[:2], new[:2]
    if f"{left} {right}" in PREFIXES:
        return old[2:], new[2:]
    if old == NOWHERE and right in ("b/", "w/", "i/", "2/"):
        return old, new[2:]
    if new == NOWHERE and left in ("a/", "c/", "i/", "1/", "o/"):
        return old[2:], new
    tails = old.partition("/")[2], new.partition("/")[2]
    return tails if old != new and tails[0] and tails[0] == tails[1] else (old, new)


_LETTERS = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
"""The escapes of C that git uses for a name with a quote, a backslash or a control character."""
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)


def unquote_path(name: str) -> str:
    r"""Return the name that git quoted. Octal escapes are bytes of UTF-8; an invalid byte becomes U+FFFD.

    >>> unquote_path(r'"t\303\244b\there"'), unquote_path("plain name")
    ('täb\there', 'plain name')
    """
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name

    def unescape(match: re.Match[bytes]) -> bytes:
        escape = match[1].decode("latin-1")
        return bytes([int(escape, 8)]) if len(escape) == 3 else _LETTERS.get(escape, escape).encode()

    return _ESCAPE.sub(unescape, name[1:-1].encode("utf-8", "replace")).decode("utf-8", "replace")
