"""One version of one file, and a file as it was and as it becomes: what every check looks at.

Nothing here reads a file: the bytes are handed in. Lines, tree and outline are made when a check first asks.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from context_engine.index.symbol_graph import qualified_names
from context_engine.languages import Grammars, Language, Languages, Outline, outline, syntax_errors
from context_engine.languages.captures import Captures, Match
from context_engine.text import LineSpan

if TYPE_CHECKING:
    from context_engine.languages import Symbol
    from context_engine.model import Finding
    from context_engine.text import FileDiff

PARSED_BYTES_MAX = 1_000_000
"""Parsing a megabyte takes a tenth of a second; larger files are hardly written by hand."""
BINARY_BYTES = 8_000
"""git's own rule: a NUL among so many first bytes makes a file binary."""
HEAD_BYTES = 200
CALLABLE = frozenset({"function", "method", "constructor"})
MINIFIED_CHARS = 5_000
"""A line so long was written by a program."""


class Secret(Protocol):
    """A secret in a text, as whoever looks for them tells of it."""

    @property
    def rule(self) -> str:
        """The rule that found it."""
        ...

    @property
    def title(self) -> str:
        """What it is, in words."""
        ...

    @property
    def tier(self) -> str:
        """`strict`: next to never wrong; `broad`: it looks like one."""
        ...

    @property
    def confidence(self) -> float:
        """How often such a one is right."""
        ...

    @property
    def line(self) -> int:
        """Where it begins."""
        ...

    @property
    def is_allowed(self) -> bool:
        """Whether somebody said that it may stand there."""
        ...


def no_secrets(_text: str, _path: str) -> Sequence[Secret]:
    """Where nobody looks for secrets."""
    return ()


@dataclass(frozen=True, slots=True)
class Parsers:
    """What turns bytes into trees, and who knows secrets: `secrets(text, path)`."""

    languages: Languages
    grammars: Grammars
    secrets: Callable[[str, str], Sequence[Secret]] = no_secrets


class FileVersion:
    """One version of a file. Compared by identity; everything costly is made once."""

    def __init__(self, path: str, data: bytes, parsers: Parsers) -> None:
        self.path = path
        self.data = data
        self._parsers = parsers

    @cached_property
    def is_binary(self) -> bool:
        """Whether git would show no lines of it."""
        return b"\0" in self.data[:BINARY_BYTES]

    @cached_property
    def text(self) -> str:
        """Its text; what is no UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace").replace("\r\n", "\n")

    @cached_property
    def lines(self) -> Sequence[str]:
        """Its lines without their ends; line 1 is `lines[0]`."""
        return self.text.split("\n")

    def line(self, number: int) -> str:
        """A line by its number; empty outside of the file."""
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    @cached_property
    def language(self) -> Language | None:
        """What it is written in; None when we know no such language."""
        return self._parsers.languages.detect(self.path, self.data[:HEAD_BYTES])

    @property
    def language_name(self) -> str:
        """The name of its language; empty when we know none."""
        return self.language.name if self.language else ""

    @cached_property
    def unparsed_reason(self) -> str:
        """Why no check can look at its tree; empty when they can."""
        if self.language is None or self.language.grammar is None:
            return "no parser for this kind of file"
        if self.is_binary:
            return "binary"
        if len(self.data) > PARSED_BYTES_MAX:
            return f"larger than {PARSED_BYTES_MAX:,} bytes"
        if max(map(len, self.lines)) > MINIFIED_CHARS:
            return f"a line of more than {MINIFIED_CHARS:,} characters"
        return self._captures.problem

    @cached_property
    def _captures(self) -> Captures:
        assert self.language  # `unparsed` has looked
        return Captures(self.language, self.data, self._parsers.grammars)

    def matches(self, query: str) -> list[Match]:
        """What a tree-sitter query finds in it; nothing where there is no tree."""
        return [] if self.unparsed_reason else self._captures.of(query)

    @cached_property
    def outline(self) -> Outline:
        """What it defines and imports; empty where there is no tree."""
        if self.unparsed_reason or self.language is None:
            return Outline()
        return outline(self.language, self.data, self._parsers.grammars)

    @cached_property
    def functions(self) -> Mapping[str, Symbol]:
        """Its functions by qualified name; of several with one name the last."""
        symbols = self.outline.symbols
        pairs = zip(qualified_names(symbols), symbols, strict=True)
        return {name: symbol for name, symbol in pairs if symbol.kind in CALLABLE}

    @cached_property
    def words_in(self) -> frozenset[str]:
        """Every word in it, as names are words."""
        return frozenset(re.findall(r"\w+", self.text))

    @cached_property
    def python(self) -> ast.Module | None:
        """What Python itself reads of it; None when it is newer or older than this Python, or no Python at all."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @cached_property
    def errors(self) -> Sequence[Finding]:
        """The syntax errors that its parser sees; none where there is no tree."""
        if self.unparsed_reason or self.language is None or not self._captures.is_broken:
            return ()
        found = syntax_errors(self.language, self.data, self._parsers.grammars)
        return () if isinstance(found, str) else found

    @cached_property
    def secrets(self) -> Sequence[Secret]:
        """The secrets in it that nobody allowed."""
        found = () if self.is_binary else self._parsers.secrets(self.text, self.path)
        return [each for each in found if not each.is_allowed]

    def enclosing(self, line: int) -> Symbol | None:
        """The innermost function or class around a line."""
        around = [each for each in self.outline.symbols if each.first <= line <= each.last and each.last > each.first]
        return min(around, key=lambda each: each.last - each.first, default=None)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file of a change. `old` or `new` is None where there was, or will be, no file.

    `added` are lines of the new version, `removed` those of the old one. Where `is_whole` is False nobody knows the
    files themselves, only the hunks: `new` then holds the hunks' lines in their places and blank ones between them.
    """

    path: str
    old_path: str
    kind: str
    old: FileVersion | None
    new: FileVersion | None
    added: frozenset[int]
    removed: frozenset[int]
    diff: FileDiff
    is_whole: bool = True

    @classmethod
    def of(
        cls, diff: FileDiff, old: bytes | None, new: bytes | None, parsers: Parsers, *, is_whole: bool = True
    ) -> ChangedFile:
        """A file out of its diff and its two versions."""
        before = None if old is None else FileVersion(diff.old_path or diff.path, old, parsers)
        after = None if new is None else FileVersion(diff.path, new, parsers)
        removed = frozenset(line.old for line in diff.removed_lines)
        return cls(diff.path, diff.old_path, diff.kind, before, after, diff.added_numbers, removed, diff, is_whole)

    def touches(self, span: LineSpan) -> bool:
        """Whether a line of the span was added or changed."""
        return any(line in self.added for line in range(span.first, span.last + 1))


def iterate_versions(files: Iterable[ChangedFile]) -> Iterator[tuple[str, str]]:
    """The versions of files, each with its path; of one that is not known what the diff shows of it."""
    for file in files:
        for side, version in (("old", file.old), ("new", file.new)):
            if version is not None:
                yield version.path, version.text
            else:
                lines = (line for hunk in file.diff.hunks for line in hunk.lines if getattr(line, side))
                yield file.path, "\n".join(line.text for line in lines)


def make_changed_file(diff: FileDiff, old: bytes | None, new: bytes | None, parsers: Parsers) -> ChangedFile:
    """A file with its versions. Where one is missing that must be there, only the hunks are known."""
    is_text = bool(diff.hunks) and not diff.is_submodule
    lacks = is_text and ((diff.old_path and old is None) or (diff.new_path and new is None))
    if lacks and diff.new_path:
        return ChangedFile.of(diff, None, diff.text_of_hunks().encode(), parsers, is_whole=False)
    return ChangedFile.of(diff, old, new, parsers)
