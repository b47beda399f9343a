"""The files that contain a name which is to be changed: what each defines and imports, and every place of the name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from posixpath import dirname

from context_engine.edit.file_content import FileContent, content_of
from context_engine.errors import CallError
from context_engine.index import qualified_names
from context_engine.languages import (
    Grammars,
    Language,
    Languages,
    NameScope,
    Occurrence,
    Outline,
    PathIndex,
    Symbol,
    find_occurrences,
    find_whole_words,
    outline_file,
    read_syntax_errors,
    resolve_import,
)

FAMILIES = {"typescript": "javascript", "tsx": "javascript", "vue": "javascript", "svelte": "javascript"}
"""Languages whose files import one another."""
HOLDERS = frozenset({"class", "interface", "struct", "enum", "trait", "type", "namespace", "module"})
"""What is defined directly inside of these is looked up in them."""
CALLED = frozenset({"function", "method", "constructor"})
PARAMETER = "parameter"
MEMBERS = frozenset({PARAMETER, "field", "property", "method"})
"""These are looked up in something wherever they are defined, as in a class without a name inside of a function."""
RESERVED = frozenset(
    {("go", "init"), ("go", "main"), ("javascript", "constructor")}
    | {(family, "main") for family in ("java", "kotlin", "rust")}
)
"""Functions that the language itself calls."""
BINDING = frozenset({"binding", "unknown", "import"})
_PACKAGE = re.compile(r"^package\s+([\w.]+)", re.MULTILINE)

UseCertainties = Mapping[tuple[str, int, int], str]
"""Certainties of the uses of a definition, by path, line and column: see `SymbolService.find_definition_uses`."""


@dataclass(frozen=True, slots=True)
class NameOccurrence:
    """A place of the name, with the whole line; `why` it is not certain that it means the definition."""

    path: str
    line: int
    column: int
    text: str
    why: str = ""
    is_open: bool = False
    """Whether it is a use in code that may be meant, so that a rename without it may break something."""


@dataclass(frozen=True)
class RenameSource:
    """A file that contains the name: what it defines and imports, and every place of the name."""

    path: str
    raw: bytes
    content: FileContent
    data: bytes
    language: Language | None
    outline: Outline
    found: tuple[Occurrence, ...]
    unparsed: str = ""
    has_errors: bool = False
    """Whether the parser did not understand parts of it, which may then be taken for strings."""

    @property
    def family(self) -> str:
        """The language, or that of the files it shares names with."""
        name = self.language.name if self.language else ""
        return FAMILIES.get(name, name)

    @property
    def is_by_types(self) -> bool:
        """Whether all of its names are judged by what is resolved."""
        return self.language is not None and self.language.resolution.renames

    @property
    def package(self) -> str:
        """The package that a file says it belongs to."""
        found = _PACKAGE.search(self.content.norm)
        return found[1] if found else ""

    @cached_property
    def qualified_names(self) -> list[str]:
        """The names of its symbols with their owners."""
        return qualified_names(self.outline.symbols)

    @cached_property
    def bindings(self) -> dict[NameScope | None, list[Occurrence]]:
        """The places that give the name a meaning, by the scope in which they do; None is the file itself."""
        bound: dict[NameScope | None, list[Occurrence]] = {}
        for at in self.found:
            if at.role in BINDING and not at.is_renamed:
                bound.setdefault(at.scopes[0] if at.scopes else None, []).append(at)
        return bound

    def place(self, at: Occurrence, why: str = "") -> NameOccurrence:
        """Return a place of the name, as it is shown."""
        return NameOccurrence(self.path, at.line, at.column, self.content.shown_lines[at.line - 1], why)


@dataclass(frozen=True, slots=True)
class Target:
    """The definition that gets a new name."""

    source: RenameSource
    symbol: Symbol
    qualified: str
    names: tuple[Occurrence, ...]
    """Where it is named: at its definition, and as a class at its constructors."""
    is_only: bool
    """Whether nothing else in the workspace is defined under its name."""

    @property
    def owner(self) -> Symbol | None:
        """The definition directly around it."""
        if self.symbol.parent >= 0:
            return self.source.outline.symbols[self.symbol.parent]
        return None

    @property
    def modifiers(self) -> list[str]:
        """The words before its name: `private val`, `operator fun`."""
        line = self.source.content.lines[self.symbol.line - 1]
        column = self.names[0].column if self.names else 1
        return re.findall(r"\w+", re.split(r"[(,;{]", line[: column - 1])[-1])

    @property
    def is_private(self) -> bool:
        """Whether only its own file, or its class, can use it."""
        return "private" in self.modifiers

    @property
    def why_reserved(self) -> str:
        """Why its name has a meaning of its own, which no use of it shows; empty for most."""
        family, lines = self.source.family, self.source.content.lines
        if "operator" in self.modifiers and family == "kotlin":
            return "signs call it by this name"
        if not {"expect", "actual"}.isdisjoint(self.modifiers) and family == "kotlin":
            return "other platforms declare it again"
        is_magic = self.symbol.name.startswith("__") and self.symbol.name.endswith("__")
        if is_magic or (self.symbol.kind in CALLED and (family, self.symbol.name) in RESERVED):
            return "the language calls it by this name"
        if family == "go" and self.symbol.name.startswith("Example") and self.source.path.endswith("_test.go"):
            return "go vet reads in it which definition it shows"
        is_in_object = self.symbol.kind in MEMBERS and (self.owner is None or self.owner.kind not in HOLDERS)
        if family == "javascript" and is_in_object and self.symbol.kind != PARAMETER:
            return "it is in an object, and what reads that is not known"
        decorators = itertools.takewhile(_is_above, reversed(lines[: self.symbol.line - 1]))
        if family == "python" and any(re.search(r"@[\w.]*fixture\b", line) for line in decorators):
            return "tests ask for it by its name"
        return ""

    @property
    def is_member(self) -> bool:
        """Whether it is looked up in something: a method, a field; or in a function, as a parameter."""
        return (
            self.symbol.kind in MEMBERS
            or bool(self.symbol.owner)
            or (self.owner is not None and self.owner.kind in HOLDERS)
        )

    @property
    def module(self) -> str:
        """What other files call the file it is in."""
        stem = self.source.path.rpartition("/")[2].partition(".")[0]
        if stem in ("__init__", "index", "mod", "lib"):
            return dirname(self.source.path).rpartition("/")[2]
        return stem


def _is_above(line: str) -> bool:
    """Return whether a line can be part of the decorators above a definition."""
    return line.lstrip().startswith(("@", ")", "#")) or line.startswith((" ", "\t"))


class RenameFiles:
    """Reads the files of one workspace for a rename, and finds the places of names in them.

    `paths` are all of its files; `read` gives the bytes of one as they are now, or None.
    """

    def __init__(
        self, languages: Languages, grammars: Grammars, paths: PathIndex, read: Callable[[str], bytes | None]
    ) -> None:
        self.languages = languages
        self.grammars = grammars
        self.paths = paths
        self._read_bytes = read
        self._places: dict[tuple[str, str], tuple[Occurrence, ...]] = {}

    def forget_places(self) -> None:
        """Forget the places of names, since files may have changed."""
        self._places.clear()

    def read(self, path: str, name: str) -> RenameSource | None:
        """Return a file as it is searched; None when it does not exist.

        A file that cannot be parsed is searched as text.
        """
        raw = self._read_bytes(path)
        if raw is None or name.encode() not in raw:
            return None
        try:
            content = content_of(raw)
        except CallError as error:
            return RenameSource(path, raw, FileContent(""), b"", None, Outline(), (), error.message)
        data = content.norm.encode("utf-8", "surrogateescape")
        language = self.languages.detect(path, data)
        found = find_occurrences(language, data, name, self.grammars) if language else "no code"
        is_known = language is not None and (language.names.reads or language.resolution.renames)
        if isinstance(found, str) or language is None or not is_known:
            if isinstance(found, str):
                why = found
            else:
                why = f"names of {language.name if language else path} are not followed"
            if isinstance(found, str):
                rows = [_as_text(data, *span) for span in find_whole_words(data, name)]
            else:
                rows = found
            return RenameSource(
                path, raw, content, data, language, _outline(language, data, self.grammars), tuple(rows), why
            )
        has_errors = language.resolution.renames and read_syntax_errors(language, data, self.grammars) != ()
        outline = _outline(language, data, self.grammars)
        return RenameSource(path, raw, content, data, language, outline, found, has_errors=has_errors)

    def places(self, source: RenameSource, name: str) -> tuple[Occurrence, ...]:
        """Return the places of another name in a file."""
        known = self._places.get((source.path, name))
        if known is None:
            if source.language:
                found = find_occurrences(source.language, source.data, name, self.grammars)
            else:
                found = ""
            known = self._places[source.path, name] = () if isinstance(found, str) else found
        return known

    def find_import_targets(self, source: RenameSource, lines: tuple[int, int], name: str = "") -> list[str]:
        """Return the files that the imports on some lines mean, the likeliest of each.

        With a name, only imports that take it count.
        """
        files: list[str] = []
        for imported in source.outline.imports:
            takes = (
                not name
                or name in imported.names
                or (not imported.names and (last_part(imported.target) == name or source.family == "javascript"))
            )
            if source.language is not None and lines[0] <= imported.line <= lines[1] and takes:
                files += resolve_import(source.language, source.path, imported.target, self.paths, imported.names)[:1]
        return files

    def packages(self, source: RenameSource, folder: str) -> Iterator[tuple[str, int]]:
        """Yield the imports (target, line) of a file that mean a folder."""
        for imported in source.outline.imports:
            if source.language is not None:
                files = resolve_import(source.language, source.path, imported.target, self.paths, imported.names)
                if any(dirname(path) == folder for path in files):
                    yield imported.target, imported.line


def _outline(language: Language | None, data: bytes, grammars: Grammars) -> Outline:
    return outline_file(language, data, grammars) if language is not None else Outline()


def _as_text(data: bytes, start: int, stop: int) -> Occurrence:
    begin = data.rfind(b"\n", 0, start) + 1
    return Occurrence(
        start, stop, data.count(b"\n", 0, start) + 1, len(data[begin:start].decode("utf-8", "replace")) + 1, "text"
    )


def last_part(target: str) -> str:
    """Return the last part of a path that is imported.

    >>> last_part("crate::zoo::Cat"), last_part("org.zoo.Cat")
    ('Cat', 'Cat')
    """
    return re.split(r"::|[./]", target)[-1]
