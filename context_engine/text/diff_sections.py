"""PURE. Split the text of a diff into one `Section` per file: its header and the lines of its hunks, without prose.

It tells the lines of a header from lines of a hunk that look like one, counts the lines of each hunk, and refuses what
would otherwise silently be read as no change.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from context_engine.errors import DiffCombinedUnsupported, DiffInvalid, DiffTruncated
from context_engine.text.diff_header import Section, halves, header_line, name_of
from context_engine.text.git_quoting import unquote_path

SHOWN_CHARS = 80
SUBMODULE = "160000"

HUNK_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_BINARY = re.compile(r"(?:Binary files (?=.* differ\Z)(.+) and (.+) differ|Binary file (.+) has changed)")
_SUBMODULE_LOG = re.compile(r"Submodule (.+?) (?:([0-9a-f]{7,})\.{2,3}([0-9a-f]{7,})|contains )")
_EMPTY_BLOBS = ("e69de29", "473a0f4")
"""How the hash of an empty file begins, in SHA-1 and SHA-256: a new empty file has no hunks."""


def sections(text: str) -> list[Section]:
    """The files of a diff in their order. Raises: DiffCombinedUnsupported, DiffTruncated, DiffInvalid."""
    reader = _Reader(_lines(text))
    while reader.at < len(reader.lines):
        reader.step()
    found = reader.found
    if found:
        _check_last(found[-1])
    return [section for section in found if not section.says_nothing]


class _Reader:
    """One walk over the lines. `at` is the line that is next; what was found is in `found`, the last one open."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0
        self.found: list[Section] = []
        self._in_header = False

    def step(self) -> None:
        """Read the next line, and those that belong to it."""
        line = self.lines[self.at].rstrip("\r")
        for start, read in _READERS:
            if line.startswith(start) and read(self, line):
                return
        if not (self._in_header and header_line(self.found[-1], line)):
            self._in_header = self._in_header and not line
        self.at += 1

    def git_header(self, line: str) -> bool:
        """`diff --git a/x b/x` opens a section."""
        self._open(Section(self.at + 1, named=halves(line.removeprefix("diff --git "))))
        self._in_header = True
        self.at += 1
        return True

    def combined(self, line: str) -> bool:
        """A diff against several parents."""
        raise DiffCombinedUnsupported(
            f"line {self.at + 1} begins a combined diff: {line[:SHOWN_CHARS]}",
            suggestion="Send the diff against one parent: git show -m --first-parent COMMIT, or git diff --ours in a conflict.",
            details={"line": self.at + 1},
        )

    def file_names(self, line: str) -> bool:
        """`--- a/x` and `+++ b/x` together name a file; alone the first is prose."""
        after = self.lines[self.at + 1].rstrip("\r") if self.at + 1 < len(self.lines) else ""
        if not after.startswith("+++ "):
            return False
        if not self._in_header:
            self._open(Section(self.at + 1))
        self.found[-1].marked = name_of(line[4:]), name_of(after[4:])
        self._in_header = False
        self.at += 2
        return True

    def binary(self, line: str) -> bool:
        """One line stands for the whole change."""
        said = _BINARY.fullmatch(line)
        if said is None:
            return False
        if not self._in_header:
            self._open(Section(self.at + 1, marked=(name_of(said[1] or said[3]), name_of(said[2] or said[3]))))
        self.found[-1].is_binary = True
        self._in_header = False
        self.at += 1
        return True

    def binary_patch(self, line: str) -> bool:
        """The bytes that follow are written so that none of their lines looks like a header."""
        if not self._in_header or line != "GIT binary patch":
            return False
        self.found[-1].is_binary = True
        self._in_header = False
        self.at += 1
        return True

    def unmerged(self, line: str) -> bool:
        """A file in the middle of a merge, of which git shows nothing more."""
        name = unquote_path(line.removeprefix("* Unmerged path "))
        self._open(Section(self.at + 1, marked=(name, name), is_unmerged=True))
        self.at += 1
        return True

    def submodule(self, line: str) -> bool:
        """What `diff.submodule=log` writes instead of a hunk."""
        said = _SUBMODULE_LOG.match(line)
        if said is None:
            return False
        section = Section(self.at + 1, marked=(said[1], said[1]), old_mode=SUBMODULE, new_mode=SUBMODULE)
        section.hunks = [
            ["@@ -1 +1 @@\n", *(f"{mark}Subproject commit {said[side]}\n" for mark, side in (("-", 2), ("+", 3)))]
        ]
        self._open(section)
        self.at += 1
        return True

    def hunk(self, line: str) -> bool:
        """A hunk with as many lines as its header announces."""
        said = HUNK_HEADER.match(line)
        if said is None:
            raise self._invalid(f"is no hunk header with line numbers: {line[:SHOWN_CHARS]}")
        if not self.found or self.found[-1].marked is None:
            raise self._invalid("begins a hunk, but no file was named before it")
        self._in_header = False
        self.found[-1].hunks.append(self._body(int(said[2] or 1), int(said[4] or 1)))
        return True

    def _body(self, old: int, new: int) -> list[str]:
        """The lines of a hunk that has `old` and `new` lines. A blank context line may have lost its blank."""
        header, lines = self.at, self.lines
        body = [lines[header] + "\n"]
        self.at += 1
        while old > 0 or new > 0:
            line = lines[self.at] if self.at < len(lines) else None
            if line is None and old == new == 1:  # whoever trimmed the text took the blank last line along
                return [*body, "\n"]
            if line is None or line[:1] not in _BODY:
                raise self._truncated(header, old, new)
            old -= line[:1] not in ("+", "\\")
            new -= line[:1] not in ("-", "\\")
            body.append(line + "\n")
            self.at += 1
        if old < 0 or new < 0:
            raise self._invalid("goes beyond what the header of its hunk announces", header)
        if self.at < len(lines) and lines[self.at].startswith("\\"):
            body.append(lines[self.at] + "\n")
            self.at += 1
        self._check_end(header)
        return body

    def _check_end(self, header: int) -> None:
        """Behind a hunk nothing may stand that looks like more of it."""
        line = self.lines[self.at].rstrip("\r") if self.at < len(self.lines) else ""
        if line[:1] in ("+", "-", " ") and line.strip() and not line.startswith(("--- ", "-- ")) and line != "--":
            raise self._invalid("stands behind the lines that the header of its hunk announces", header)

    def _open(self, section: Section) -> None:
        if self.found:
            _check(self.found[-1])
        self.found.append(section)
        self._in_header = False

    def _truncated(self, header: int, old: int, new: int) -> DiffTruncated:
        return DiffTruncated(
            f"the hunk at line {header + 1} ends too early: {old} old and {new} new lines are missing",
            suggestion="Send the diff whole; if somebody wrote it by hand, correct the numbers between @@ and @@.",
            details={"line": header + 1, "missing_old": old, "missing_new": new},
        )

    def _invalid(self, why: str, header: int | None = None) -> DiffInvalid:
        details = {"line": self.at + 1} | ({} if header is None else {"hunk": header + 1})
        suggestion = "Send what git diff writes; if somebody wrote it by hand, correct the numbers between @@ and @@."
        return DiffInvalid(f"line {self.at + 1} {why}", suggestion=suggestion, details=details)


_BODY = frozenset((" ", "+", "-", "\\", "", "\r"))

_READERS: tuple[tuple[str, Callable[[_Reader, str], bool]], ...] = (
    ("diff --git ", _Reader.git_header),
    ("diff --cc ", _Reader.combined),
    ("diff --combined ", _Reader.combined),
    ("@@@", _Reader.combined),
    ("@@ ", _Reader.hunk),
    ("--- ", _Reader.file_names),
    ("Binary file", _Reader.binary),
    ("GIT binary patch", _Reader.binary_patch),
    ("* Unmerged path ", _Reader.unmerged),
    ("Submodule ", _Reader.submodule),
)
"""How a line begins -> who reads it; False means that it is prose after all."""


# -- what would be read as no change ----------------------------------------------------------------------------


def _check(section: Section) -> None:
    """A file whose names stand there, but no hunk."""
    if section.marked and not (section.hunks or section.is_binary or section.is_unmerged):
        raise _cut(section)


def _check_last(section: Section) -> None:
    """At the end of the text a header alone is all that was left of a file."""
    _check(section)
    old, new = section.blobs
    has_content = not (set(old + new) == {"0"} or new.startswith(_EMPTY_BLOBS) or old.startswith(_EMPTY_BLOBS))
    if old != new and has_content and not (section.hunks or section.is_binary):
        raise _cut(section)


def _cut(section: Section) -> DiffTruncated:
    path = section.paths[1] or section.paths[0]
    return DiffTruncated(
        f"{path} is said to change, but the diff does not show how",
        suggestion="Send the diff whole.",
        details={"line": section.line, "path": path},
    )


def _lines(text: str) -> list[str]:
    """The lines of a diff. Where its headers end in a carriage return, somebody converted the whole of it."""
    if _CONVERTED.search(text):
        text = text.replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n")


_CONVERTED = re.compile(r"^(?:diff --git |--- |\+\+\+ )[^\n]*\r$", re.MULTILINE)
