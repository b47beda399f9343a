"""The input of every check: a version of a file, a file before and after a change, and the tree that it leads to.

Nothing here reads a file: the bytes are passed in. Lines, tree and outline are computed when a check first needs them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from context_engine.index import qualified_names
from context_engine.languages import (
    CaptureMatch,
    Captures,
    Grammars,
    Language,
    Languages,
    Outline,
    PathIndex,
    SyntaxFile,
    outline_file,
    read_leaf_tokens,
    read_syntax,
)
from context_engine.review.content_parsers import find_syntax_errors, load_values
from context_engine.review.finding import mark_new

if TYPE_CHECKING:
    from context_engine.languages import LeafToken, Symbol
    from context_engine.model import Finding
    from context_engine.secrets import DetectedSecret
    from context_engine.text import FileDiff

PARSED_BYTES_MAX = 1_000_000
"""Parsing a megabyte takes a tenth of a second; larger files are hardly written by hand."""
BINARY_BYTES = 8_000
"""Git's own rule: a NUL among so many first bytes makes a file binary."""
TESTS = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testing|testdata|e2e|cypress)(?:/|$)|(?:^|/)(?:test_|conftest)[^/]*$"
    r"|[._-](?:test|spec|tests|cy)\.[\w.]+$|_test(?:_\w+)?\.\w+$|Tests?\.\w+$"
)
"""The folders and names of tests. The roles of the index need evidence for `TypeSpec.kt`, and tell generated files of
tests from tests, which no comparison of a change should look at."""
MINIFIED_CHARS = 5_000
"""A line of this length was written by a program."""

ReadText = Callable[[str], str | None]
"""Returns the text of a path, or None when there is none."""
TreeReader = Callable[[], Mapping[str, bytes]]
"""Returns all files of a version."""


def is_test(path: str) -> bool:
    """Return whether a file contains tests or is made for them, judged by its path alone."""
    return TESTS.search(path) is not None


@dataclass(frozen=True, slots=True)
class Parsers:
    """The parsers of files, and `secrets(text, path)`, which finds secrets."""

    languages: Languages
    grammars: Grammars
    secrets: Callable[[str, str], Sequence[DetectedSecret]] = lambda _text, _path: ()


class FileVersion:
    """One version of a file. Compared by identity; everything costly is computed once."""

    def __init__(self, path: str, data: bytes, parsers: Parsers, language: Language | None = None) -> None:
        self.path = path
        self.data = data
        self._parsers = parsers
        self._known_language = language

    @cached_property
    def is_binary(self) -> bool:
        """Whether git would show no lines of it."""
        return b"\0" in self.data[:BINARY_BYTES]

    @cached_property
    def text(self) -> str:
        """The text; bytes that are not UTF-8 are replaced."""
        return self.data.decode("utf-8", "replace").replace("\r\n", "\n")

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines without their ends; line 1 is `lines[0]`."""
        return self.text.split("\n")

    def line(self, number: int) -> str:
        """Return a line by its number; an empty text outside the file."""
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    @cached_property
    def language(self) -> Language | None:
        """The language of the file; None when it is unknown."""
        return self._known_language or self._parsers.languages.detect(self.path, self.data)

    @property
    def family(self) -> str:
        """The languages that a query for this file is written for; empty when its language is unknown."""
        return self.language.family or self.language.name if self.language else ""

    @property
    def is_code(self) -> bool:
        """Whether the file is a program, not prose or data."""
        return self.language is not None and self.language.content == "code"

    @cached_property
    def unparsed_reason(self) -> str:
        """Why there is no tree for checks to look at; empty when there is one."""
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
        assert self.language  # `unparsed_reason` has checked it
        return Captures(self.language, self.data, self._parsers.grammars)

    @property
    def _parsed_language(self) -> Language | None:
        return None if self.unparsed_reason else self.language

    def matches(self, query: str) -> list[CaptureMatch]:
        """Return what a tree-sitter query finds; nothing where there is no tree."""
        return self._captures.find(query) if self._parsed_language else []

    @cached_property
    def outline(self) -> Outline:
        """The definitions and imports of the file; empty where there is no tree."""
        language = self._parsed_language
        return outline_file(language, self.data, self._parsers.grammars) if language else Outline()

    def leaf_tokens(self, lines: Collection[int]) -> dict[int, list[LeafToken]]:
        """Return the tokens of these lines; none where there is no tree."""
        language = self._parsed_language
        return read_leaf_tokens(language, self.data, self._parsers.grammars, lines) if language else {}

    @cached_property
    def syntax(self) -> SyntaxFile | None:
        """The tree for resolving names; None where there is none."""
        language = self._parsed_language
        return read_syntax(self.path, language, self.data, self._parsers.grammars) if language else None

    @cached_property
    def definitions(self) -> Mapping[str, int]:
        """The lines of the definitions by qualified name."""
        symbols = self.outline.symbols
        return {name: symbol.line for name, symbol in zip(qualified_names(symbols), symbols, strict=True)}

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word of the text, as names are words."""
        return frozenset(re.findall(r"\w+", self.text))

    @cached_property
    def python(self) -> ast.Module | None:
        """The syntax tree of Python itself; None for other languages, and when this Python cannot parse the file."""
        return next((one for one in load_values(self.text, self.language) if isinstance(one, ast.Module)), None)

    @cached_property
    def errors(self) -> Sequence[Finding]:
        """The syntax errors that the parser of the language reports; none where there is none, or nothing to parse."""
        language = self.language
        if language is None or self.is_binary or not self.text.strip():
            return ()
        if not language.parser and (self.unparsed_reason or not self._captures.is_broken):
            return ()
        errors = find_syntax_errors(self.text, self.path, language, self._parsers)
        return () if isinstance(errors, str) else errors

    @cached_property
    def secrets(self) -> Sequence[DetectedSecret]:
        """The secrets in the file that no comment allows."""
        secrets = () if self.is_binary else self._parsers.secrets(self.text, self.path)
        return [secret for secret in secrets if not secret.is_allowed]

    def enclosing(self, line: int) -> Symbol | None:
        """Return the innermost function or class around a line."""
        symbols = self.outline.symbols
        around = [symbol for symbol in symbols if symbol.first <= line <= symbol.last and symbol.last > symbol.first]
        return min(around, key=lambda symbol: symbol.last - symbol.first, default=None)


@dataclass(frozen=True, slots=True)
class ReviewedFile:
    """One file of a change. `old` or `new` is None where there was, or will be, no file.

    `added` are lines of the new version, `removed` those of the old one. Where `is_whole` is False only the hunks are
    known: `new` then contains their lines at their places, and blank lines between them.
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
    def of(cls, diff: FileDiff, old: bytes | None, new: bytes | None, parsers: Parsers) -> ReviewedFile:
        """Return a file from its diff and its two versions.

        When a version is missing that must exist, only the hunks are known.
        """
        is_text = bool(diff.hunks) and not diff.is_submodule
        is_missing = (diff.old_path and old is None) or (diff.new_path and new is None)
        is_whole = not (is_text and is_missing and diff.new_path)
        if not is_whole:
            old, new = None, diff.text_of_hunks().encode()
        before = None if old is None else FileVersion(diff.old_path or diff.path, old, parsers)
        after = None if new is None else FileVersion(diff.path, new, parsers)
        removed = frozenset(line.old for line in diff.removed_lines)
        return cls(diff.path, diff.old_path, diff.kind, before, after, diff.added_numbers, removed, diff, is_whole)

    @property
    def versions(self) -> tuple[FileVersion, FileVersion] | None:
        """The old and the new version, if both exist and are known as a whole."""
        return (self.old, self.new) if self.is_whole and self.old and self.new else None

    @property
    def is_test(self) -> bool:
        """Whether its path is that of a test."""
        return is_test(self.path)

    @property
    def is_code(self) -> bool:
        """Whether it is a program, as far as one version is known."""
        source = self.new or self.old
        return source is not None and source.is_code

    @property
    def first_added(self) -> int:
        """The first added line; 1 without any."""
        return min(self.added, default=1)

    def anchor(self, finding: Finding, *, is_new: bool = True, is_caused: bool = True) -> Finding:
        """Return a finding with its line; the change causes every finding of a comparison, on any line."""
        is_on_changed_line = is_caused or any(finding.span.first <= line <= finding.span.last for line in self.added)
        quote = self.new.line(finding.line).strip() if self.new else ""
        path = finding.path or self.path
        return replace(finding, path=path, quote=quote, is_new=is_new, is_on_changed_line=is_on_changed_line)

    def compare(self, found: Sequence[Finding], before: Iterable[Finding]) -> Iterator[Finding]:
        """Yield findings on the new version; new are those of which the old one has fewer, on lines of the same words.

        One line may be wrong in two ways, so the rule and its text count as well.
        """
        keys = (
            [f"{one.rule} {one.body} {version.line(one.line) if version else ''}" for one in side]
            for version, side in ((self.new, found), (self.old, before))
        )
        for finding, is_new in zip(found, mark_new(*keys), strict=True):
            yield self.anchor(finding, is_new=is_new, is_caused=False)


def iterate_versions(files: Iterable[ReviewedFile]) -> Iterator[tuple[str, str]]:
    """Yield path and text of both versions of files; where a version is unknown, what the diff shows of it."""
    for file in files:
        for side, version in (("old", file.old), ("new", file.new)):
            if version is not None:
                yield version.path, version.text
            else:
                lines = (line for hunk in file.diff.hunks for line in hunk.lines if getattr(line, side))
                yield file.path, "\n".join(line.text for line in lines)


def find_versions(
    diff: FileDiff, contexts: Mapping[str, str], in_work_tree: ReadText, in_base: ReadText, parsers: Parsers
) -> ReviewedFile:
    """Return a file of a diff that a caller sent, with both its versions.

    The new version is what came with the diff, or the file of the work tree when the diff was made for it. Else the old
    version is that of the base, or the file of the work tree while the diff is not applied yet. Else only the hunks are
    known.
    """
    old = new = None
    if not diff.hunks or diff.is_submodule:
        pass
    elif not diff.old_path:
        new = diff.apply("")
    elif not diff.new_path:
        old = diff.revert("")
    else:
        new = contexts.get(diff.new_path)
        new = in_work_tree(diff.new_path) if new is None else new
        old = diff.revert(new) if new is not None else None
        for read in (in_base, in_work_tree):
            if old is None:
                old = read(diff.old_path)
                new = diff.apply(old) if old is not None else None
                old = old if new is not None else None
    before, after = (None if text is None else text.encode("utf-8", "replace") for text in (old, new))
    return ReviewedFile.of(diff, before, after, parsers)


@dataclass(frozen=True)
class ReviewContext:
    """The tree that a change leads to: its paths, texts and history.

    Nothing is opened here: the readers are passed in. Without a tree they return nothing, so the checks that need one
    report nothing. `is_known` is False where there is no such tree.

    `files_with_words` returns for each word the files that contain it, `hot_paths` the tenth of all files that changes
    most.
    """

    parsers: Parsers
    is_known: bool = False
    list_paths: Callable[[], Sequence[str]] = tuple
    read: Callable[[Sequence[str]], Mapping[str, bytes]] = lambda _paths: {}
    files_with_words: Callable[[Sequence[str]], Mapping[str, Sequence[str]]] = lambda _words: {}
    hot_paths: Callable[[], frozenset[str]] = frozenset
    _paths_with_words: dict[str, Sequence[str]] = field(default_factory=dict, init=False, compare=False)
    _sources: dict[str, FileVersion | None] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def paths(self) -> PathIndex:
        """The files of the new tree, for resolving imports."""
        return PathIndex(self.list_paths())

    def search_words(self, words: Iterable[str]) -> None:
        """Search words in the new tree that were not searched before, with one call to git for all of them."""
        missing = sorted(set(words) - self._paths_with_words.keys())
        if missing:
            self._paths_with_words.update(dict.fromkeys(missing, ()) | {**self.files_with_words(missing)})

    def paths_with_word(self, word: str) -> Sequence[str]:
        """Return the files of the new tree that contain a word."""
        self.search_words((word,))
        return self._paths_with_words[word]

    def source(self, path: str) -> FileVersion | None:
        """Return a file of the new tree; None when it is absent or unknown."""
        self.fetch((path,))
        return self._sources[path]

    def fetch(self, paths: Sequence[str]) -> None:
        """Read files that were not read before, with one call to git for all of them."""
        missing = [path for path in paths if path not in self._sources]
        contents = self.read(missing) if missing else {}
        for path in missing:
            self._sources[path] = FileVersion(path, contents[path], self.parsers) if path in contents else None


@dataclass(frozen=True, slots=True)
class ReviewedChange:
    """A change under review: its files, the tree they lead to, and the whole tree they come from, for compilers.

    `left_out` are files whose text is unavailable, with the reasons; `began` is a moment of `time.monotonic`.
    """

    files: tuple[ReviewedFile, ...]
    context: ReviewContext
    before: TreeReader = dict
    left_out: Mapping[str, str] = field(default_factory=dict)
    began: float = 0.0
