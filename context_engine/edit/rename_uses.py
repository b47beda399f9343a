"""The places of a name that is to be changed: which mean its definition, which may, and which mean something else.

`references` says what every place in code means. What is left here are words in strings, comments and other languages.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from context_engine.edit.edit_errors import SHOWN_MAX
from context_engine.edit.file_content import FileContent, content_of
from context_engine.errors import CallError, InvalidArgument
from context_engine.index import qualified_names
from context_engine.languages import (
    PROSE,
    Grammars,
    Language,
    Languages,
    Occurrence,
    Outline,
    PathIndex,
    RenameRules,
    Symbol,
    compile_pattern,
    find_occurrences,
    find_whole_words,
    occurrence_at,
    outline_file,
    read_syntax_errors,
)

HOLDERS = frozenset({"class", "interface", "struct", "enum", "trait", "type", "namespace", "module"})
"""What is defined directly inside of these is looked up in them."""
CALLED = frozenset({"function", "method", "constructor"})
PARAMETER = "parameter"
MEMBERS = frozenset({PARAMETER, "field", "property", "method"})
"""These are looked up in something wherever they are defined, as in a class without a name inside of a function."""
EVERYTHING = "all"
"""The word for accepting all places that may be meant in code."""
ELSE = "-"
"""The place means something else for certain."""
IN_PROSE = {"string": "in a string", "comment": "in a comment", "text": "in text", "macro": "handed to a macro"}
BY_TYPES = {
    "definition": "",
    "exact": "",
    "other": ELSE,
    "outside": "",
    "likely": "nothing else has the name, but the type of its owner is not known",
    "shared": "its owner may be of another class that has the name as well",
    "possible": "the type of its owner is not known",
    "unknown": "what it means is not known",
}
"""Why a place is not certain, by what is resolved."""

UseCertainties = Mapping[tuple[str, int, int], str]
"""Certainties of the uses of a definition, by path, line and column: see `RenameUses.find_definition_uses`."""


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

    def is_accepted(self, accept: Iterable[str]) -> bool:
        """Whether a caller wants this place to be changed: `path:line`, with a column, or `all` of those in code."""
        named = {f"{self.path}:{self.line}", f"{self.path}:{self.line}:{self.column}"}
        return not named.isdisjoint(accept) or (self.is_open and EVERYTHING in accept)


@dataclass(frozen=True)
class RenameSource:
    """A file that contains the name: what it defines, and every place of the name."""

    path: str
    raw: bytes
    content: FileContent
    data: bytes
    language: Language | None
    outline: Outline
    found: tuple[Occurrence, ...]
    unparsed: str = ""
    """Why its names are not followed; empty if they are."""
    has_errors: bool = False
    """Whether the parser did not understand parts of it, which may then be taken for strings."""

    @property
    def rules(self) -> RenameRules:
        """How its language is treated."""
        return self.language.renames if self.language is not None else RenameRules()

    @property
    def family(self) -> str:
        """The language, or the one that it shares names with."""
        return (self.language.resolution.style or self.language.name) if self.language is not None else ""

    @cached_property
    def qualified_names(self) -> list[str]:
        """The names of its symbols with their owners."""
        return qualified_names(self.outline.symbols)

    def place(self, at: Occurrence, why: str = "", *, is_open: bool = False) -> NameOccurrence:
        """Return a place of the name, as it is shown."""
        return NameOccurrence(self.path, at.line, at.column, self.content.shown_lines[at.line - 1], why, is_open)

    def around(self, at: Occurrence) -> tuple[str, str]:
        """Return what is on the line of a place before and after it."""
        line = self.content.lines[at.line - 1]
        length = len(self.data[at.start : at.stop].decode("utf-8", "replace"))
        return line[: at.column - 1], line[at.column - 1 + length :]


class Target(NamedTuple):
    """The definition that gets a new name."""

    source: RenameSource
    symbol: Symbol
    qualified: str
    at: Occurrence
    """Where it is named."""
    makers: tuple[Occurrence, ...] = ()
    """Where the constructors of a class have its name."""

    @property
    def owner(self) -> Symbol | None:
        """The definition directly around it."""
        return self.source.outline.symbols[self.symbol.parent] if self.symbol.parent >= 0 else None

    @property
    def modifiers(self) -> list[str]:
        """The words before its name: `private val`, `operator fun`."""
        return re.findall(r"\w+", re.split(r"[(,;{]", self.source.around(self.at)[0])[-1])

    @property
    def is_private(self) -> bool:
        """Whether only its own file, or its class, can use it."""
        return "private" in self.modifiers

    @property
    def why_reserved(self) -> str:
        """Why its name has a meaning of its own, which no use of it shows; empty for most."""
        rules, symbol, lines = self.source.rules, self.symbol, self.source.content.lines
        for word, reason in rules.modifiers:
            if word in self.modifiers:
                return reason
        is_magic = symbol.name.startswith("__") and symbol.name.endswith("__")
        if is_magic or (symbol.kind in CALLED and symbol.name in rules.reserved):
            return "the language calls it by this name"
        if rules.examples and symbol.name.startswith(rules.examples) and "_test." in self.source.path:
            return "go vet reads in it which definition it shows"
        is_in_object = symbol.kind in MEMBERS and (self.owner is None or self.owner.kind not in HOLDERS)
        if rules.object_members and is_in_object and symbol.kind != PARAMETER:
            return "it is in an object, and what reads that is not known"
        decorators = itertools.takewhile(_is_above, reversed(lines[: symbol.line - 1]))
        if rules.decorator and any(compile_pattern(rules.decorator).search(line) for line in decorators):
            return "tests ask for it by its name"
        return ""

    @property
    def is_member(self) -> bool:
        """Whether it is looked up in something: a method, a field; or in a function, as a parameter."""
        is_inside = self.owner is not None and self.owner.kind in HOLDERS
        return self.symbol.kind in MEMBERS or bool(self.symbol.owner) or is_inside


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

    def read(self, path: str, name: str) -> RenameSource | None:
        """Return a file with the places of a name; None if it does not have it. Files without a tree are text."""
        raw = self._read_bytes(path)
        has_bytes = raw is not None and name.encode() in raw
        if raw is None or (not has_bytes and raw.isascii() and b"\0" not in raw):
            return None
        try:
            content = content_of(raw)
        except CallError as error:
            if not has_bytes:
                return None
            return RenameSource(path, raw, FileContent(""), b"", None, Outline(), (), error.message)
        if name not in content.norm:
            return None
        data = content.norm.encode("utf-8", "surrogateescape")
        language = self.languages.detect(path, data)
        outline = outline_file(language, data, self.grammars) if language is not None else Outline()
        found = find_occurrences(language, data, name, self.grammars) if language is not None else "no code"
        if isinstance(found, str) or language is None:
            rows = tuple(occurrence_at(data, start, stop, "text") for start, stop in find_whole_words(data, name))
            return RenameSource(path, raw, content, data, language, outline, rows, str(found))
        unparsed = "" if language.renames.follows else f"names of {language.name} are not followed"
        has_errors = language.renames.strict and read_syntax_errors(language, data, self.grammars) != ()
        return RenameSource(path, raw, content, data, language, outline, found, unparsed, has_errors)

    def open(self, path: str) -> tuple[bytes, Language | None]:
        """Return a file as it is now, empty if it is gone, with its language."""
        data = self._read_bytes(path) or b""
        return data, self.languages.detect(path, data)

    def places(self, language: Language | None, data: bytes, name: str) -> tuple[Occurrence, ...]:
        """Return the places of a name in the code of a file; none where it has no tree."""
        found = find_occurrences(language, data, name, self.grammars) if language and data else ""
        return () if isinstance(found, str) else found


def refuse_taken(new_name: str, taken: Iterable[tuple[str, int]]) -> None:
    """Refuse a name that is in use already at some paths and lines. Raises: InvalidArgument."""
    places = [f"{path}:{line}" for path, line in taken]
    if places:
        raise InvalidArgument(
            f"{new_name!r} has a meaning already at {places[0]}; nothing was written",
            suggestion="Choose another name, or rename that one first.",
            details={"name": new_name, "places": places[:SHOWN_MAX]},
        )


class UseClassifier:
    """Decides for every place of a name whether it means the target of a rename."""

    def __init__(
        self, target: Target, sources: Iterable[RenameSource], accept: Sequence[str], uses: UseCertainties
    ) -> None:
        self.target = target
        self._uses = uses
        self.sources = {source.path: source for source in sources if source.found}
        self.sure: dict[str, list[Occurrence]] = {}
        """The places that certainly mean the target, or are accepted, by file."""
        self.uncertain: list[NameOccurrence] = []
        self.others = 0
        """How many places certainly mean something else."""
        for source in self.sources.values():
            for at in source.found:
                why = self._why_not(source, at)
                is_unsure = why not in ("", ELSE)
                place = source.place(at, why, is_open=is_unsure and self._is_open(source, at))
                if why == ELSE:
                    self.others += 1
                elif is_unsure and not place.is_accepted(accept):
                    self.uncertain.append(place)
                else:
                    self.sure.setdefault(source.path, []).append(at)

    def find_doubts(self) -> Iterator[NameOccurrence]:
        """Yield the definitions that something may call which is not in the files, as places that wait."""
        for path, found in self.sure.items():
            for at in found if not self.target.is_private else ():
                if self._certainty(self.sources[path], at) == "outside":
                    yield self.sources[path].place(at, self.sources[path].rules.outside, is_open=True)
        source, symbol = self.target.source, self.target.symbol
        doubts = [self.target.why_reserved]
        if source.has_errors and symbol.parent < 0 and symbol.kind not in HOLDERS:
            doubts.insert(0, "the parser does not understand all of its file: it may be a member")
        yield from (source.place(self.target.at, doubt, is_open=True) for doubt in doubts if doubt)

    def _certainty(self, source: RenameSource, at: Occurrence) -> str:
        return self._uses.get((source.path, at.line, at.column), "")

    def _why_not(self, source: RenameSource, at: Occurrence) -> str:
        """Return why a place is not certain; empty when it is, `ELSE` when it certainly means something else."""
        target, rules = self.target, source.rules
        if source is target.source and at in target.makers:
            return ""
        if source.unparsed or source.family != target.source.family:
            other = source.unparsed or f"in {source.language.name if source.language else 'another language'}"
            return IN_PROSE[at.role] if at.role in PROSE else other
        if not rules.strict and not target.is_member and target.owner is not None:
            owner = target.owner
            if source is not target.source or not owner.start <= at.start < owner.stop:
                return ELSE  # what is local is seen inside of what is around it
        if certainty := self._certainty(source, at):
            is_parameter = target.symbol.kind == PARAMETER
            return "a caller may name it" if is_parameter and certainty == "possible" else BY_TYPES[certainty]
        if at.role == "comment" and self._is_documented_type(source, at):
            return self._judge_documented_type(source)
        if at.role in PROSE:
            return IN_PROSE[at.role]
        return BY_TYPES["unknown"] if rules.strict else ELSE

    def _is_open(self, source: RenameSource, at: Occurrence) -> bool:
        """Whether code may use the target at a place that is not certain."""
        own, rules = self.target.source, source.rules
        if source.family != own.family:
            is_reached = source.family in own.rules.together and not self.target.is_private
            return is_reached and at.role not in PROSE
        if source.unparsed and not rules.strict:
            return False
        if at.role not in ("string", "comment"):
            return rules.strict or at.role != "text"
        before, after = source.around(at)
        is_called = self.target.symbol.kind in CALLED
        if at.role == "comment":
            pattern = rules.called_comments
            is_named = is_called and bool(pattern) and compile_pattern(pattern).search(before) is not None
            return is_named or self._is_documented_type(source, at)
        quoted = rules.called_strings if is_called else ()
        quoted += rules.member_strings if self.target.is_member else ()
        fits = any(compile_pattern(a).search(before) and compile_pattern(b).match(after) for a, b in quoted)
        return fits or source.has_errors

    def _is_documented_type(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a comment names a class as a type: `@param Cat[] $cats`."""
        pattern = source.rules.type_comments if self.target.symbol.kind in HOLDERS else ""
        return pattern != "" and compile_pattern(pattern).search(source.around(at)[0]) is not None

    def _judge_documented_type(self, source: RenameSource) -> str:
        """Judge a type in a comment, which means what the code of its file means by the name."""
        known = {self._certainty(source, at) for at in source.found} & {"definition", "exact", "other"}
        if known == {"other"}:
            return ELSE
        return "" if known and "other" not in known else "a comment gives it as a type"
