"""PURE. What a diff says of one file: the lines of its header, and the names in them however they are written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from context_engine.text.git_quoting import unquote_path

PREFIXES = frozenset({"a/ b/", "c/ i/", "i/ w/", "c/ w/", "o/ w/", "1/ 2/", "i/ c/", "w/ i/", "w/ c/", "b/ a/"})
"""What stands before old and new name: git's own, those of diff.mnemonicPrefix, of --no-index, and of a reversed diff."""
NOWHERE = "/dev/null"

_QUOTED_PAIR = re.compile(r'("(?:[^"\\]|\\.)*"|[^"]\S*) ("(?:[^"\\]|\\.)*"|[^"].*)')
_INDEX = re.compile(r"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: (\d{6}))?")


@dataclass(slots=True)
class Section:
    """What a diff says of one file; `hunks` are its lines with their newlines, header line first."""

    line: int
    named: tuple[str, str] = ("", "")
    marked: tuple[str, str] | None = None
    old_name: str = ""
    new_name: str = ""
    copied: bool = False
    old_mode: str = ""
    new_mode: str = ""
    is_added: bool = False
    is_deleted: bool = False
    is_binary: bool = False
    is_unmerged: bool = False
    similarity: int | None = None
    blobs: tuple[str, str] = ("", "")
    hunks: list[list[str]] = field(default_factory=list)

    @property
    def says_nothing(self) -> bool:
        """A header without a change: git shows it for a file that was touched and is as before."""
        said = self.hunks, self.old_name, self.is_added, self.is_deleted, self.is_binary, self.is_unmerged
        return not any(said) and self.old_mode == self.new_mode

    @property
    def paths(self) -> tuple[str, str]:
        """The old and the new name, without prefixes; empty where there is none."""
        old, new = (self.old_name, self.new_name) if self.old_name else stripped(*(self.marked or self.named))
        old = "" if self.is_added or old == NOWHERE else old
        new = "" if self.is_deleted or new == NOWHERE else new
        if not old and not new and self.named != ("", ""):  # an empty file that came or went
            old, new = stripped(*self.named)
            old, new = ("", new) if self.is_added else (old, "")
        return old, new


def header_line(section: Section, line: str) -> bool:
    """Take in one line between `diff --git` and the first hunk; False when it is none."""
    if index := _INDEX.fullmatch(line):
        section.blobs = index[1], index[2]
        if index[3]:
            section.old_mode = section.new_mode = index[3]
        return True
    for start, take in _HEADER:
        if line.startswith(start):
            take(section, line.removeprefix(start))
            return True
    return False


def _added(section: Section, mode: str) -> None:
    section.is_added, section.new_mode = True, mode


def _deleted(section: Section, mode: str) -> None:
    section.is_deleted, section.old_mode = True, mode


def _old_mode(section: Section, mode: str) -> None:
    section.old_mode = mode


def _new_mode(section: Section, mode: str) -> None:
    section.new_mode = mode


def _from(section: Section, name: str) -> None:
    section.old_name = unquote_path(name)


def _to(section: Section, name: str) -> None:
    section.new_name = unquote_path(name)


def _copied_from(section: Section, name: str) -> None:
    section.copied = True
    _from(section, name)


def _similar(section: Section, share: str) -> None:
    section.similarity = int(share.rstrip("%")) if share.rstrip("%").isdecimal() else None


def _dissimilar(section: Section, share: str) -> None:
    section.similarity = 100 - int(share.rstrip("%")) if share.rstrip("%").isdecimal() else None


_HEADER: tuple[tuple[str, Callable[[Section, str], None]], ...] = (
    ("new file mode ", _added),
    ("deleted file mode ", _deleted),
    ("old mode ", _old_mode),
    ("new mode ", _new_mode),
    ("rename from ", _from),
    ("rename to ", _to),
    ("copy from ", _copied_from),
    ("copy to ", _to),
    ("similarity index ", _similar),
    ("dissimilarity index ", _dissimilar),
)


def halves(said: str) -> tuple[str, str]:
    r"""The two names behind `diff --git`. Blanks in them make it a riddle, which their being equal solves.

    >>> halves("a/x y b/x y"), halves(r'"a/t\tb" b/x')
    (('a/x y', 'b/x y'), ('a/t\tb', 'b/x'))
    """
    if '"' in said and (pair := _QUOTED_PAIR.fullmatch(said)):
        return unquote_path(pair[1]), unquote_path(pair[2])
    for at in (at for at, character in enumerate(said) if character == " "):
        old, new = said[:at], said[at + 1 :]
        if old == new or (f"{old[:2]} {new[:2]}" in PREFIXES and old[2:] == new[2:]):
            return old, new
    old, _, new = said.partition(" ")
    return old, new


def name_of(said: str) -> str:
    """What `---` or `+++` says: the name, up to the tab before a time."""
    return unquote_path(said.partition("\t")[0].rstrip("\r"))


def stripped(old: str, new: str) -> tuple[str, str]:
    """Both names without what a program put before them.

    >>> stripped("a/x.py", "b/x.py"), stripped("x.py", "x.py"), stripped("/dev/null", "b/x.py")
    (('x.py', 'x.py'), ('x.py', 'x.py'), ('/dev/null', 'x.py'))
    >>> stripped("before/src/x.c", "after/src/x.c")
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
