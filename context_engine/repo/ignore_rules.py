"""What an ignore file says: its patterns compiled as git reads them, and the order in which such files overrule.

Written for speed: most patterns end in a table that one look-up by name answers, and patterns about whole paths are
only tried in folders where they could match. No file is opened here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LEVELS = ("global", "exclude", "gitignore", "ignore", "built-in", "context")
"""The kinds of ignore files, weakest first. Within a kind the deeper folder wins, within a file the later line."""

IGNORE_FILES = {
    ".gitignore": "gitignore",
    ".ignore": "ignore",
    ".contextignore": "context",
    ".augmentignore": "context",
}
"""File name -> level. The two of the same level count as one file, `.augmentignore` after `.contextignore`."""

NO_RULE = 0
"""No pattern matches. Every other verdict is a number: the greater one wins, an odd one ignores (see
`IgnorePattern.value`)."""

_STARS = re.compile(r"(?<!\\)\*{3,}")
_LINES_BITS = 24  # an ignore file of more lines would be over any size limit


def is_ignored(value: int) -> bool:
    """Return whether a verdict excludes something."""
    return bool(value & 1)


class IgnorePattern(NamedTuple):
    """One line of an ignore file. `value` = 2 * line number (from 1) + 1 if it ignores, + 0 if it keeps."""

    glob: str
    value: int
    folders_only: bool
    whole_path: bool


def patterns(text: str) -> Iterator[IgnorePattern]:
    r"""Yield the patterns of an ignore file, read as git reads them.

    >>> [(p.glob, p.value, p.folders_only, p.whole_path) for p in patterns("# x\n/a/b\n!c/\n")]
    [('a/b', 5, False, True), ('c', 6, True, False)]
    """
    for number, raw in enumerate(text.split("\n"), start=1):
        line = _without_trailing_spaces(raw.removesuffix("\r"))
        if not line or line.startswith("#"):
            continue
        ignored = not line.startswith("!")
        glob = line if ignored else line[1:]
        folders_only = glob.endswith("/")
        glob = _STARS.sub("**", glob.removesuffix("/"))  # git knows no more than two
        whole_path = "/" in glob
        glob = glob.removeprefix("/")
        if whole_path and glob.startswith("**/") and "/" not in glob[3:]:
            glob, whole_path = glob[3:], False  # `**/name` is `name`, and a look-up by name is faster
        if glob:
            yield IgnorePattern(glob, 2 * number + ignored, folders_only, whole_path)


def _bytewise(text: str) -> str:
    """Return the text with one character for each of its bytes: to git, `?` is one byte, and `é` is two.

    >>> _bytewise("a"), len(_bytewise("é"))
    ('a', 2)
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _without_trailing_spaces(line: str) -> str:
    """Remove trailing spaces, which do not count unless they are escaped by a backslash."""
    stripped = line.rstrip(" ")
    if len(stripped) < len(line) and (len(stripped) - len(stripped.rstrip("\\"))) % 2:
        return stripped + " "
    return stripped


# -- one glob as a regular expression -----------------------------------------------------------------------------

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "xdigit": "0-9A-Fa-f",
    "lower": "a-z",
    "upper": "A-Z",
    "graph": "!-~",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "blank": r" \t",
    "space": r" \t\n\r\f\v",
    "cntrl": r"\x00-\x1f\x7f",
}
_NAMED_CLASS = re.compile(r"\[:([^\]]*):\]")
_NEVER = r"(?!)"
_STAR = "[^/]*"
_TOKEN = re.compile(r"\*\*+|\*|\?|\[|\\.|\\\Z|[^*?\[\\]+", re.DOTALL)


def expression(glob: str, *, whole_path: bool) -> str:
    r"""Return a regular expression for `fullmatch`: git's wildmatch, where `*` and `?` never match a slash.

    A text between two wildcards is matched where it first occurs and never tried again (`(?>`). Nothing is lost by
    that, since the second wildcard takes up the rest, and no pattern can run for ever.

    >>> expression("a/**/b?.py", whole_path=True), expression("*a*b", whole_path=False)
    ('a/(?:.*/)?b[^/]\\.py', '(?>[^/]*?a)[^/]*b')
    """
    parts: list[list[str]] = [[]]  # one list between each two `**/`
    at = 0
    while at < len(glob):
        token = _TOKEN.match(glob, at)
        assert token, glob  # the alternatives of _TOKEN cover every character
        text, at = token.group(), token.end()
        if text == "[":
            atom, at = _bracket(glob, at)
        elif (
            text.startswith("**")
            and whole_path
            and glob[: token.start()][-1:] in {"", "/"}
            and glob[at : at + 1] == "/"
        ):
            at += 1
            parts.append([])
            continue
        elif text.startswith("**") and whole_path and glob[: token.start()].endswith("/") and at == len(glob):
            atom = ".*"
        else:
            atom = _plain(text)
        if atom == _NEVER:
            return _NEVER
        parts[-1].append(atom)
    first, *others = map(_with_stars, parts)
    if not others:
        return first
    middle = [f"(?>(?:[^/]*/)*?{part})" for part in others[:-1] if part]
    return f"{first}{''.join(middle)}(?:.*/)?{others[-1]}"


def compile_path_glob(glob: str) -> re.Pattern[str]:
    """Return the pattern of a glob that names whole paths; unlike in an ignore file, a folder is not all that is in it.

    >>> glob = compile_path_glob("src/*.py")
    >>> [bool(glob.fullmatch(path)) for path in ("src/a.py", "src/b/a.py", "lib/src/a.py")]
    [True, False, False]
    """
    return re.compile(expression(glob, whole_path=True))


def _with_stars(atoms: list[str]) -> str:
    """Join the atoms between two `**/`, their single stars included."""
    pieces = [""]
    for atom in atoms:
        if atom == _STAR:
            pieces.append("")
        else:
            pieces[-1] += atom
    first, *others = pieces
    if not others:
        return first
    return f"{first}{''.join(f'(?>{_STAR}?{part})' for part in others[:-1] if part)}{_STAR}{others[-1]}"


def _plain(text: str) -> str:
    if text[0] == "*":
        return _STAR
    if text == "?":
        return "[^/]"
    if text[0] == "\\":
        return re.escape(text[1]) if len(text) == 2 else _NEVER  # git: a trailing backslash never matches
    return re.escape(text)


def _bracket(glob: str, at: int) -> tuple[str, int]:
    """Return the character class that begins before `at`, and its end; one that never ends matches nothing."""
    negated = glob[at : at + 1] in {"!", "^"}
    first = at = at + negated
    members: list[str] = []
    before = ""  # the character that a `-` would make a range of
    while glob[at : at + 1] not in {"", "]"} or at == first:
        if named := _NAMED_CLASS.match(glob, at):
            part, at, before = _CLASSES.get(named[1], ""), named.end(), ""
        elif glob[at : at + 1] == "-" and before and glob[at + 1 : at + 2] not in {"", "]"}:
            last, at = _class_char(glob, at + 1)
            # A range the wrong way round adds nothing; its first character stands already.
            part, before = f"{re.escape(before)}-{re.escape(max(before, last))}" if last else "", ""
        else:
            before, at = _class_char(glob, at)
            part = re.escape(before)
        if not part:
            return _NEVER, len(glob)
        members.append(part)
    if at >= len(glob):
        return _NEVER, at
    inside = "".join(members)
    return (f"[^/{inside}]" if negated else f"(?!/)[{inside}]"), at + 1


def _class_char(glob: str, at: int) -> tuple[str, int]:
    """Return one character of a class, without a backslash, and where the next begins; empty when the glob ends."""
    if glob[at : at + 1] == "\\":
        return glob[at + 1 : at + 2], at + 2
    return glob[at : at + 1], at + 1


# -- one file of patterns -----------------------------------------------------------------------------------------

_WILD = re.compile(r"[*?\[\\]")


class NameTable(dict[str, int]):
    """Verdicts by name, computed on first use: `table[name]` is the strongest pattern that matches, or NO_RULE.

    The patterns are sorted by what answers them: a dictionary, an ending, a beginning, or a regex.
    """

    __slots__ = ("_beginnings", "_begins", "_endings", "_ends", "_globs", "_names")

    def __init__(self, found: Iterable[tuple[int, _NamePattern]]) -> None:
        """Take each pattern with the strength of its rules, in rising order; of equal patterns the last one counts."""
        super().__init__()
        self._names: dict[str, int] = {}
        self._endings: dict[str, int] = {}
        self._beginnings: dict[str, int] = {}
        self._globs: list[tuple[int, re.Pattern[str]]] = []
        tables = {"name": self._names, "ending": self._endings, "beginning": self._beginnings}
        for strength, pattern in found:
            if pattern.regex is None:
                tables[pattern.kind][pattern.words] = strength + pattern.value
            else:
                self._globs.append((strength + pattern.value, pattern.regex))
        self._ends, self._begins = tuple(self._endings), tuple(self._beginnings)

    def __missing__(self, plain: str) -> int:
        name = plain if plain.isascii() else _bytewise(plain)
        value = self._names.get(name, NO_RULE)
        if self._ends and name.endswith(self._ends):
            value = max(value, *[strength for ending, strength in self._endings.items() if name.endswith(ending)])
        if self._begins and name.startswith(self._begins):
            value = max(value, *[strength for begin, strength in self._beginnings.items() if name.startswith(begin)])
        for strength, regex in self._globs:
            if strength > value and regex.fullmatch(name):
                value = strength
        self[plain] = value
        return value


class _NamePattern:
    """A pattern about a name, sorted by what answers it.

    `kind` "name": `words` is the name. "ending", "beginning": the words behind or before a `*`. All others have a
    `regex`.
    """

    def __init__(self, glob: str, value: int, folders_only: bool) -> None:
        self.value = value
        self.folders_only = folders_only
        self.kind, self.words = _kind(glob)
        self.regex = None if self.kind else re.compile(expression(glob, whole_path=False), re.DOTALL)


def _kind(glob: str) -> tuple[str, str]:
    if not _WILD.search(glob):
        return "name", glob
    if glob[0] == "*" and not _WILD.search(glob, 1):
        return "ending", glob[1:]
    if glob[-1] == "*" and not _WILD.search(glob[:-1]):
        return "beginning", glob[:-1]
    return "", glob


class NameTables(NamedTuple):
    """Two tables, since a pattern that ends in a slash is about folders only."""

    files: NameTable
    folders: NameTable

    @classmethod
    def of(cls, found: Iterable[tuple[int, _NamePattern]]) -> NameTables:
        """Return the tables of some patterns, each with the strength of its rules, in rising order."""
        every = list(found)
        return cls(NameTable([row for row in every if not row[1].folders_only]), NameTable(every))


class _PathGlob(NamedTuple):
    """A pattern about whole paths, split: in which folders it speaks, and of which names there.

    `prefix` is the folder it certainly lies in; `in_folder` is matched against the folder with a slash behind it.
    """

    prefix: str
    in_folder: re.Pattern[str]
    about: _NamePattern


class IgnoreRules:
    """One compiled ignore file. Its verdicts are about a folder, relative to its own, and a name in that folder."""

    def __init__(self, level: str, text: str, *, name: str = "", parts: Sequence[tuple[int, str]] = ()) -> None:
        """Compile a text; `parts` are the first line and the name of each file that it was joined from."""
        self.level = LEVELS.index(level)
        self.about_names: list[_NamePattern] = []
        self._parts = parts or ((1, name or f".{level}"),)
        self._lines = text.removeprefix("\ufeff").split("\n")
        self._in_folders: dict[str, list[_NamePattern]] = {}  # patterns whose folder has no wildcard
        self._globs: list[_PathGlob] = []
        self._tables: dict[tuple[int, ...], NameTables] = {}
        for pattern in patterns(_bytewise(text.removeprefix("\ufeff"))):
            self._add(pattern)

    def _add(self, pattern: IgnorePattern) -> None:
        folder, name = _split(pattern.glob) if pattern.whole_path else ("", pattern.glob)
        about = _NamePattern(name, pattern.value, pattern.folders_only)
        if not pattern.whole_path:
            self.about_names.append(about)
        elif wild := _WILD.search(folder):
            prefix = folder[: wild.start()].rpartition("/")[0]
            in_folder = re.compile(expression(f"{folder}/", whole_path=True), re.DOTALL)
            self._globs.append(_PathGlob(prefix, in_folder, about))
        else:
            self._in_folders.setdefault(folder, []).append(about)

    @property
    def about_paths(self) -> bool:
        """Whether any pattern is about more than a name."""
        return bool(self._in_folders or self._globs)

    def inside(self, folder: str) -> NameTables | None:
        """Return the patterns about whole paths that can match something directly in `folder`; None without any."""
        folder = _bytewise(folder)
        here = self._in_folders.get(folder, [])
        if self._globs:
            slashed = f"{folder}/" if folder else ""
            globs = [glob for glob in self._globs if slashed.startswith(glob.prefix)]
            here = here + [glob.about for glob in globs if glob.in_folder.fullmatch(slashed)]
        return self._table(here) if here else None

    def _table(self, here: list[_NamePattern]) -> NameTables:
        """Return the table of some patterns, which is made once because they apply in many folders."""
        key = tuple([about.value for about in here])
        if key not in self._tables:
            self._tables[key] = NameTables.of((0, about) for about in sorted(here, key=lambda pattern: pattern.value))
        return self._tables[key]

    def words(self, value: int) -> str:
        """Return the pattern behind a verdict: its file, its line there, and its text."""
        line = value >> 1
        first, name = max(part for part in self._parts if part[0] <= line)
        place = name if self.level == LEVELS.index("built-in") else f"{name}:{line - first + 1}"
        return f"{place}: {self._lines[line - 1].strip()}"


def _split(glob: str) -> tuple[str, str]:
    """Split a glob about whole paths into folder and name; `a/**` is about everything in `a/**`.

    No part of a name crosses a slash, so the two can be matched separately; a slash in brackets does not separate.
    """
    if glob == "**" or glob.endswith("/**"):
        return glob, "*"
    at, last = 0, -1
    while token := _TOKEN.match(glob, at):
        at = _bracket(glob, token.end())[1] if token.group() == "[" else token.end()
        if token.group() != "[" and (slash := glob.rfind("/", token.start(), at)) >= 0:
            last = slash
    if last <= 0:  # of `//name` the second slash stays in the name, and no name has one
        return "", glob
    return glob[:last], glob[last + 1 :]


# -- several files, the stronger over the weaker --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRules:
    """Rules and their place: the folder `base` of the walked root, or a folder above it.

    `lead` leads from such a folder to the root. `depth` orders rules of one level; it is negative above the root.
    """

    rules: IgnoreRules
    base: str = ""
    lead: str = ""
    depth: int = 0

    def local(self, folder: str) -> str:
        """Return a folder of the walked root, relative to the folder of these rules."""
        if self.lead:
            return f"{self.lead}/{folder}" if folder else self.lead
        return folder[len(self.base) + 1 :] if self.base else folder


class RuleStack:
    """All rules that apply in some folders. Folders without an ignore file of their own share one.

    The verdicts of the rules are put one above the other, so that the greater number overrules here too.
    """

    def __init__(self, placed: Iterable[PlacedRules] = ()) -> None:
        self._placed = sorted(placed, key=lambda rules: (rules.rules.level, rules.depth))
        strengths = [(number << _LINES_BITS, rules) for number, rules in enumerate(self._placed)]
        self._about_paths = [(strength, rules) for strength, rules in strengths if rules.rules.about_paths]
        self.names = NameTables.of(
            (strength, about) for strength, rules in strengths for about in rules.rules.about_names
        )

    def with_rules(self, *more: PlacedRules) -> RuleStack:
        """Return the stack of a folder that has these ignore files too."""
        return RuleStack((*self._placed, *more))

    def without_git(self) -> RuleStack:
        """Return what still applies inside another repository: everything but the outer one's git rules."""
        git = {LEVELS.index("exclude"), LEVELS.index("gitignore")}
        return RuleStack(placed for placed in self._placed if placed.rules.level not in git)

    def at(self, folder: str) -> FolderVerdicts:
        """Return the verdicts for what is directly in `folder`."""
        found = [(strength, placed.rules.inside(placed.local(folder))) for strength, placed in self._about_paths]
        return FolderVerdicts(self, [(strength, tables) for strength, tables in found if tables])

    def words(self, value: int) -> str:
        """Return the pattern behind a verdict; empty when there is none."""
        if value == NO_RULE:
            return ""
        number, own = divmod(value, 1 << _LINES_BITS)
        return self._placed[number].rules.words(own)


class FolderVerdicts:
    """Verdicts in one folder.

    `simple`: only names matter here, so the tables of `RuleStack.names` can be used directly.
    """

    def __init__(self, stack: RuleStack, tables: list[tuple[int, NameTables]]) -> None:
        self._names = stack.names
        self._about_paths = tables  # how strong the patterns about whole paths are that apply in this folder, and they
        self.simple = not tables

    def value(self, name: str, is_folder: bool) -> int:
        """Return what the rules say about one name in this folder; an odd number ignores it."""
        value = self._names[is_folder][name]
        for strength, tables in self._about_paths:
            if found := tables[is_folder][name]:
                value = max(value, strength + found)
        return value


class GlobMatcher:
    """Globs in gitignore notation, matched against paths from one folder; a later `!glob` takes back."""

    def __init__(self, globs: Iterable[str]) -> None:
        self._stack = RuleStack([PlacedRules(IgnoreRules("context", "\n".join(globs)))])
        self._folders: dict[str, bool] = {"": False}

    def matches(self, path: str) -> bool:
        """Return whether any of the globs names this file or a folder above it."""
        folder, _, name = path.rpartition("/")
        return self._matches_folder(folder) or is_ignored(self._stack.at(folder).value(name, is_folder=False))

    def _matches_folder(self, path: str) -> bool:
        known = self._folders.get(path)
        if known is None:
            above, _, name = path.rpartition("/")
            known = self._matches_folder(above) or is_ignored(self._stack.at(above).value(name, is_folder=True))
            self._folders[path] = known
        return known
