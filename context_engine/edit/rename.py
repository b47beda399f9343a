"""Plan a new name for a definition: the places that certainly mean it, and separately those that may.

A place is certain when scopes and imports lead from it to the definition, with nothing in between that might give the
name another meaning; anything that is not understood counts as such. A member is certain by the types that `find_uses`
resolves. Nothing is written here.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from posixpath import dirname

from context_engine.edit.file_content import FileContent, content_of
from context_engine.edit.file_edit import FileEdit, edit_file, rename_file
from context_engine.edit.model import Edit, Fuzzy
from context_engine.edit.patch import plan
from context_engine.edit.syntax_check import find_new_errors
from context_engine.errors import CallError, InvalidArgument, MultipleMatches, NextStep, SymbolNotFound
from context_engine.index import SymbolService, qualified_names
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
from context_engine.text import LineSpan, dotted_name

SHOWN_MAX = 10
EVERYTHING, NOTHING = "all", "none"
"""Words for places to accept: all that may be meant in code, or none of them."""
CANDIDATES_MAX = 2_000
"""Comparing a line with so many that look like it takes some ten milliseconds."""
FAMILIES = {"typescript": "javascript", "tsx": "javascript", "vue": "javascript", "svelte": "javascript"}
"""Languages whose files import one another."""
HOLDERS = frozenset({"class", "interface", "struct", "enum", "trait", "type", "namespace", "module"})
"""What is defined directly inside of these is looked up in them."""
CALLED = frozenset({"function", "method", "constructor"})
PARAMETER = "parameter"
MEMBERS = frozenset({PARAMETER, "field", "property", "method"})
"""These are looked up in something wherever they are defined, as in a class without a name inside of a function."""
PACKAGED = frozenset({"go", "java", "kotlin", "php"})
"""Here the files of a folder see one another without an import."""
TOGETHER = (frozenset({"java", "kotlin", "scala", "groovy"}),)
"""Languages whose files use one another's definitions by name."""
WORTH_A_LOOK = "it may be meant all the same"
RESERVED = frozenset(
    {("go", "init"), ("go", "main"), ("javascript", "constructor")}
    | {(family, "main") for family in ("java", "kotlin", "rust")}
)
"""Functions that the language itself calls."""
BINDING = frozenset({"binding", "unknown", "import"})
PLAIN = BINDING | {"read", "shorthand"}
"""What a name by itself can be."""

_NAME = re.compile(r"[^\W\d][\w$]*")
_PACKAGE = re.compile(r"^package\s+([\w.]+)", re.MULTILINE)
_BARE_IMPORT = re.compile(r"\s*(?:import\s+)?[\"`]")


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


UseCertainties = Mapping[tuple[str, int, int], str]
"""Certainties of the uses of a definition, by path, line and column: see `SymbolService.find_definition_uses`."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """The places of a name that mean the definition, those that may, and how many mean something else for certain."""

    name: str
    new_name: str
    path: str
    symbol: str
    kind: str
    line: int
    certain: tuple[NameOccurrence, ...]
    uncertain: tuple[NameOccurrence, ...]
    others: int
    notes: tuple[str, ...]
    changes: tuple[FileEdit, ...] = field(repr=False, default=())


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
        if found:
            return found[1]
        return ""

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


class Renamer:
    """Finds the places of names in the files of one workspace.

    `paths` are all of its files; `read` gives the bytes of one as they are now, or None.
    """

    def __init__(
        self,
        languages: Languages,
        grammars: Grammars,
        paths: PathIndex,
        read: Callable[[str], bytes | None],
        symbols: SymbolService | None = None,
    ) -> None:
        self._languages = languages
        self._grammars = grammars
        self._paths = paths
        self._read = read
        self._symbols = symbols
        self._places: dict[tuple[str, str], tuple[Occurrence, ...]] = {}

    def plan_renaming(
        self, name: str, new_name: str, holding: Collection[str], *, under: str = "", accept: Sequence[str] = ()
    ) -> Renaming:
        """Plan what a new name for the definition `name`, perhaps `Class.method`, changes in the files `holding` it.

        `under` is the file or folder of the definition. `accept` are uncertain places to change as well: `path:line`,
        or `all` of those in code. Raises: SymbolNotFound, MultipleMatches, InvalidArgument.
        """
        last = bare_name(name)
        if not _NAME.fullmatch(new_name) or new_name == last:
            raise InvalidArgument(
                f"{new_name!r} is not a new name",
                suggestion="Give one name, without its owner.",
                details={"name": new_name},
            )
        self._places.clear()
        sources = [source for path in sorted(holding) if (source := self._source(path, last)) is not None]
        target, uses = self._parameter_target(sources, name, under)
        if target is None:
            target = _target(sources, name, under)
            uses = self._uses_of(target, sources)
        self._check_free(target, new_name, uses)
        sorter = _PlaceJudge(self, target, sources, accept, uses)
        sure = sorter.sure()
        self._check_scopes(sorter, sure, new_name)
        edits = {path: _edits(sorter.sources[path], found, new_name) for path, found in sure.items()}
        for path, rows in edits.items():
            self._check_result(sorter.sources[path], rows, sure[path], new_name)
        doubts = [*sorter.find_doubts(), *self._find_accessors(target, holding)]
        return sorter.build_result(last, new_name, sure, edits, doubts)

    def _find_accessors(self, target: Target, holding: Collection[str]) -> Iterator[NameOccurrence]:
        """Yield where the other language of Java and Kotlin may use a property or a getter under its other name."""
        source, symbol = target.source, target.symbol
        words = other_names(symbol.name) if source.family in ("java", "kotlin") else ()
        is_getter = symbol.kind in CALLED
        if is_getter != (source.family == "java") or symbol.kind in HOLDERS or target.is_private:
            return
        for path in sorted(holding) if words else ():
            for word in words:
                other = self._source(path, word)
                if other is not None and {other.family, source.family} == {"java", "kotlin"}:
                    found = [at for at in other.found if at.role not in PROSE and _is_looked_up(other, at)]
                    why = f"may use {symbol.name} under this name, and is to be changed by hand"
                    yield from (replace(other.place(at, why), is_open=True) for at in found)

    def _uses_of(self, target: Target, sources: Sequence[RenameSource]) -> UseCertainties | None:
        """Return the uses of a member by what the text shows of types; None for targets that scopes and imports judge.

        Raises: InvalidArgument where nothing else could judge them.
        """
        source, symbol, uses = target.source, target.symbol, None
        if self._symbols is not None and (target.is_member or source.is_by_types):
            paths = [one.path for one in sources]
            uses = self._symbols.find_definition_uses(source.path, symbol.name, symbol.line, paths)
        if uses is None and source.is_by_types:
            raise InvalidArgument(
                f"the uses of {target.qualified} cannot be resolved"
                + ("" if self._symbols is not None else " without an index"),
                next_steps=(NextStep("index", "to build it"),) if self._symbols is None else (),
                details={"path": source.path},
            )
        return uses

    def _parameter_target(
        self, sources: Sequence[RenameSource], name: str, under: str
    ) -> tuple[Target | None, UseCertainties | None]:
        """Return the parameter that `function.parameter` names, with its uses; nothing if it names something else."""
        wanted = _dotted_name(name)
        owner, _, own = wanted.rpartition(".")
        is_symbol = any(_is_called(full, wanted) for source in sources for full in source.qualified_names)
        if self._symbols is None or not owner or is_symbol:
            return None, None
        paths = [source.path for source in sources]
        found: list[tuple[Target, UseCertainties]] = []
        for source in sources:
            for number, symbol in enumerate(source.outline.symbols):
                is_owner = symbol.kind in CALLED and _is_called(source.qualified_names[number], owner)
                if is_owner and _is_under(source.path, under):
                    uses = self._symbols.find_parameter_uses(source.path, symbol.name, symbol.line, own, paths)
                    target = _as_parameter(source, number, own, uses or {})
                    found += [(target, uses)] if target is not None and uses is not None else []
        if len(found) > 1:
            places = [f"{target.source.path}:{target.symbol.line} {target.qualified}" for target, _ in found]
            raise MultipleMatches(
                f"{len(found)} functions named {owner!r} have a parameter {own!r}",
                suggestion="Name the function with its class, or give path, the file it is in.",
                details={"total": len(found), "matches": places[:SHOWN_MAX]},
            )
        return found[0] if found else (None, None)

    def _source(self, path: str, name: str) -> RenameSource | None:
        """Return a file as it is searched; None when it does not exist.

        A file that cannot be parsed is searched as text.
        """
        raw = self._read(path)
        if raw is None or name.encode() not in raw:
            return None
        try:
            content = content_of(raw)
        except CallError as error:
            return RenameSource(path, raw, FileContent(""), b"", None, Outline(), (), error.message)
        data = content.norm.encode("utf-8", "surrogateescape")
        language = self._languages.detect(path, data)
        if language:
            found = find_occurrences(language, data, name, self._grammars)
        else:
            found = "no code"
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
                path, raw, content, data, language, _outline(language, data, self._grammars), tuple(rows), why
            )
        has_errors = language.resolution.renames and read_syntax_errors(language, data, self._grammars) != ()
        outline = _outline(language, data, self._grammars)
        return RenameSource(path, raw, content, data, language, outline, found, has_errors=has_errors)

    def places(self, source: RenameSource, name: str) -> tuple[Occurrence, ...]:
        """Return the places of another name in a file."""
        known = self._places.get((source.path, name))
        if known is None:
            if source.language:
                found = find_occurrences(source.language, source.data, name, self._grammars)
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
                or (not imported.names and (_last(imported.target) == name or source.family == "javascript"))
            )
            if source.language is not None and lines[0] <= imported.line <= lines[1] and takes:
                files += resolve_import(source.language, source.path, imported.target, self._paths, imported.names)[:1]
        return files

    def packages(self, source: RenameSource, folder: str) -> Iterator[tuple[str, int]]:
        """Yield the imports (target, line) of a file that mean a folder."""
        for imported in source.outline.imports:
            if source.language is not None:
                files = resolve_import(source.language, source.path, imported.target, self._paths, imported.names)
                if any(dirname(path) == folder for path in files):
                    yield imported.target, imported.line

    # -- whether the new name is free --

    def _check_free(self, target: Target, new_name: str, uses: UseCertainties | None) -> None:
        """Refuse a name that is defined already where the definition is, or in its package. Raises: InvalidArgument.

        So is one that a member has in a base of its class, or in a class that extends it.
        """
        own, beside = target.source, (target.symbol.parent, target.symbol.owner)
        taken = [
            (own.path, own_symbol.line)
            for own_symbol in own.outline.symbols
            if own_symbol.name == new_name and (own_symbol.parent, own_symbol.owner) == beside
        ]
        if own.family in PACKAGED and not target.is_member:
            package = self._paths.in_folder(dirname(own.path))
        else:
            package = []
        for path in package:
            if path != own.path:
                other = self._source(path, new_name)
            else:
                other = None
            taken += [
                (path, other_symbol.line)
                for other_symbol in (other.outline.symbols if other else ())
                if other_symbol.name == new_name and other_symbol.parent < 0 and not other_symbol.owner
            ]
        if uses is not None and target.is_member and self._symbols is not None and target.symbol.kind != PARAMETER:
            symbol = target.symbol
            taken += self._symbols.find_members_in_the_way(own.path, symbol.name, symbol.line, new_name)
        if target.symbol.kind == PARAMETER:
            inside = [at for at in self.places(own, new_name) if target.symbol.start <= at.start < target.symbol.stop]
            taken += [(own.path, at.line) for at in inside if at.role in PLAIN]
        _refuse_taken(new_name, taken)

    def _check_scopes(self, sorter: _PlaceJudge, sure: Mapping[str, Sequence[Occurrence]], new_name: str) -> None:
        """Refuse a name that already has a meaning at a place of it, or would get the meaning of the place."""
        taken: list[tuple[str, int]] = []
        for path, found in sure.items():
            if sorter.target.source.is_by_types:
                taken += self._find_hiding(sorter.sources[path], found, new_name)
                continue
            plain = [at for at in found if at.role in PLAIN]
            if not plain or sorter.target.is_member:
                continue
            others = [at for at in self.places(sorter.sources[path], new_name) if at.role in PLAIN]
            bound = {at.scopes[0] for at in others if at.role in ("binding", "import") and at.scopes}
            for other in others:
                scope = next((candidate for candidate in other.scopes if candidate in bound), None)
                if scope is None or any(scope in at.scopes for at in plain):
                    taken.append((path, other.line))
        _refuse_taken(new_name, taken)

    def _find_hiding(
        self, source: RenameSource, sure: Sequence[Occurrence], new_name: str
    ) -> Iterator[tuple[str, int]]:
        """Yield where a file has the new name by itself, if the old one is used by itself in it."""
        if any(not _is_looked_up(source, at) for at in sure):
            for other in self.places(source, new_name):
                if other.role not in PROSE and not _is_looked_up(source, other):
                    yield source.path, other.line

    def _check_result(
        self, source: RenameSource, edits: Sequence[Edit], sure: Sequence[Occurrence], new_name: str
    ) -> None:
        """Refuse a name that the language does not take for one: with it the file must be what it was.

        Raises: InvalidArgument.
        """
        after = plan(source.raw, edits).data
        if source.language is None:
            return
        kinds = sorted(at.kind for at in (*sure, *self.places(source, new_name)))
        now = find_occurrences(source.language, _fold_case(after), new_name, self._grammars)
        report = find_new_errors(source.raw, after, source.path, self._languages, self._grammars)
        labels = {"shorthand_property_identifier": "identifier"}
        same = not isinstance(now, str) and sorted(at.kind for at in now) == sorted(
            labels.get(kind, kind) for kind in kinds
        )
        if not same or not report.is_sound:
            raise InvalidArgument(
                f"{new_name!r} is not a valid name for {source.language.name} in {source.path}",
                suggestion="Choose another name: no keyword, and not one that a literal has.",
                details={"name": new_name, "path": source.path},
            )


def bare_name(name: str) -> str:
    """Return the name of a definition without its owner.

    >>> bare_name("zoo::Cat::purr()"), bare_name(".main")
    ('purr', 'main')
    """
    return _dotted_name(name).rpartition(".")[2]


def _is_above(line: str) -> bool:
    """Return whether a line can be part of the decorators above a definition."""
    return line.lstrip().startswith(("@", ")", "#")) or line.startswith((" ", "\t"))


def other_names(name: str) -> tuple[str, ...]:
    """Return what Java calls the accessors of a property of Kotlin, or Kotlin the property of an accessor of Java.

    >>> other_names("age"), other_names("getAge"), other_names("isOld")
    (('getAge', 'setAge', 'isAge'), ('age',), ('isOld', 'setOld', 'old'))
    """
    found = re.fullmatch(r"(get|set|is)([A-Z][\w]*)", name)
    if found is None:
        return tuple(f"{verb}{name[:1].upper()}{name[1:]}" for verb in ("get", "set", "is"))
    own = f"{found[2][:1].lower()}{found[2][1:]}"
    return (own,) if found[1] != "is" else (name, f"set{found[2]}", own)


def _dotted_name(name: str) -> str:
    return dotted_name(name)


def _fold_case(raw: bytes) -> bytes:
    return content_of(raw).norm.encode("utf-8", "surrogateescape")


_LOOKED_UP = re.compile(rb"(?:\.|->|::|\$)\s*$|(?:->|::)\$$")


def _is_looked_up(source: RenameSource, at: Occurrence) -> bool:
    """Return whether a name is that of a member or a variable of PHP, so that others of the file do not hide it."""
    before = source.data[max(0, at.start - 200) : at.start]
    line = source.content.lines[at.line - 1].lstrip()
    is_declared = source.family == "php" and any(
        symbol.line == at.line and symbol.parent >= 0 for symbol in source.outline.symbols
    )
    is_qualified = source.family == "php" and before.endswith(b"\\") and not line.startswith("use ")
    return is_declared or is_qualified or (bool(_LOOKED_UP.search(before)) and at.role not in PROSE)


def _outline(language: Language | None, data: bytes, grammars: Grammars) -> Outline:
    if language is not None:
        return outline_file(language, data, grammars)
    return Outline()


def _as_text(data: bytes, start: int, stop: int) -> Occurrence:
    begin = data.rfind(b"\n", 0, start) + 1
    return Occurrence(
        start, stop, data.count(b"\n", 0, start) + 1, len(data[begin:start].decode("utf-8", "replace")) + 1, "text"
    )


def _last(target: str) -> str:
    """Return the last part of a path that is imported.

    >>> _last("crate::zoo::Cat"), _last("org.zoo.Cat")
    ('Cat', 'Cat')
    """
    return re.split(r"::|[./]", target)[-1]


def _refuse_taken(new_name: str, taken: Sequence[tuple[str, int]]) -> None:
    if taken:
        path, line = taken[0]
        raise InvalidArgument(
            f"{new_name!r} has a meaning already at {path}:{line}; nothing was written",
            suggestion="Choose another name, or rename that one first.",
            details={"name": new_name, "places": [f"{path}:{line}" for path, line in taken[:SHOWN_MAX]]},
        )


# -- which definition ------------------------------------------------------------------------------------------------


def _target(sources: Sequence[RenameSource], name: str, under: str) -> Target:
    """Return the one definition that is meant. Raises: SymbolNotFound, MultipleMatches."""
    wanted = _dotted_name(name)
    defined = [
        (source, number)
        for source in sources
        for number, symbol in enumerate(source.outline.symbols)
        if symbol.name == wanted.rpartition(".")[2] and symbol.kind not in ("constructor", "section", "key")
    ]
    fitting = [
        (source, number)
        for source, number in defined
        if _is_under(source.path, under) and _is_called(source.qualified_names[number], wanted)
    ]
    if not fitting:
        raise SymbolNotFound(
            f"nothing named {name!r} is defined{f' in {under}' if under else ''}",
            suggestion="symbols finds names that come close.",
            details={
                "near": [f"{source.path}: {source.qualified_names[number]}" for source, number in defined[:SHOWN_MAX]]
            },
        )
    if len(fitting) > 1:
        rows = [
            (source.path, source.qualified_names[number], source.outline.symbols[number].line)
            for source, number in fitting
        ]
        raise MultipleMatches(
            f"{len(fitting)} definitions are named {name!r}",
            suggestion="Name the one you mean with its owner (Class.method), or give path, the file it is in.",
            details={
                "total": len(rows),
                "matches": [f"{path}:{line} {reason}" for path, reason, line in rows[:SHOWN_MAX]],
            },
        )
    source, number = fitting[0]
    symbol = source.outline.symbols[number]
    at = _named_at(source, symbol)
    if at is None or source.unparsed:
        raise InvalidArgument(
            f"{source.path} cannot be understood well enough: "
            f"{source.unparsed or 'the name is written in another way'}",
            next_steps=(NextStep("search_text", "to find its places"), NextStep("edit_file", "to rename each")),
            details={"path": source.path},
        )
    makers = [child for child in source.outline.symbols if (child.parent, child.kind) == (number, "constructor")]
    named = [_named_at(source, maker) for maker in makers if maker.name == symbol.name]
    return Target(source, symbol, source.qualified_names[number], (at, *filter(None, named)), len(defined) == 1)


def _as_parameter(source: RenameSource, number: int, name: str, uses: UseCertainties) -> Target | None:
    """Return a parameter of a function as a target; None if the function has no such parameter."""
    around = source.outline.symbols[number]
    inside = [at for at in source.found if around.start <= at.start < around.stop]
    first = next((at for at in inside if (source.path, at.line, at.column) in uses), None)
    if first is None:
        return None
    is_sure = uses[source.path, first.line, first.column] == "definition"
    symbol = around._replace(name=name, kind=PARAMETER, parent=number, line=first.line, owner="")
    qualified = f"{source.qualified_names[number]}.{name}"
    return Target(source, symbol, qualified, (first,) if is_sure else (), is_only=False)


def _named_at(source: RenameSource, symbol: Symbol) -> Occurrence | None:
    """Return where a definition has its name."""
    there = [at for at in source.found if symbol.start <= at.start and at.line == symbol.line]
    return next((at for at in there if at.role in ("binding", "unknown", "label")), None)


def _is_called(qualified: str, wanted: str) -> bool:
    """Return whether a name means a definition; a name with a dot before it is complete."""
    return f".{qualified}" == wanted or f".{qualified}".endswith(f".{wanted}")


def _is_under(path: str, folder: str) -> bool:
    return folder in ("", ".", path) or path.startswith(f"{folder.rstrip('/')}/")


# -- which places mean it --------------------------------------------------------------------------------------------

ELSE = "-"
"""The place means something else for certain."""
PROSE = {"string": "in a string", "comment": "in a comment", "text": "in text", "macro": "handed to a macro"}


BY_TYPES = {
    "definition": "",
    "exact": "",
    "other": ELSE,
    "outside": "",
    "likely": "nothing else has the name, but the type of its owner is not known",
    "possible": "the type of its owner is not known",
    "": "what it means is not known",
}
"""Why a place is not certain, by what is resolved, in languages whose names are judged by types alone."""


OUTSIDE = {"go": "an interface that is not in the workspace may require it"}
"""A member that overrides nothing in the workspace may still do so for something outside of it."""


class _PlaceJudge:
    """Decides for every place whether it means the target."""

    def __init__(
        self,
        renamer: Renamer,
        target: Target,
        sources: Iterable[RenameSource],
        accept: Sequence[str] = (),
        uses: UseCertainties | None = None,
    ) -> None:
        self.target = target
        self._accept = frozenset(accept)
        self._uses = uses
        self.sources = {source.path: source for source in sources if source.found}
        self._renamer = renamer
        self._linked = {target.source.path}
        self._link()

    @cached_property
    def judgements(self) -> list[tuple[RenameSource, Occurrence, str]]:
        """Every place, and why it is not certain."""
        rows = [(source, at, self.why_not(source, at)) for source in self.sources.values() for at in source.found]
        return [(source, at, "" if self._is_accepted(source, at, why) else why) for source, at, why in rows]

    def _is_accepted(self, source: RenameSource, at: Occurrence, why: str) -> bool:
        """Return whether the caller wants an uncertain place to be changed as well."""
        if why in ("", ELSE):
            return False
        is_named = {f"{source.path}:{at.line}", f"{source.path}:{at.line}:{at.column}"} & self._accept
        return bool(is_named) or (EVERYTHING in self._accept and self._is_open(source, at))

    def _is_open(self, source: RenameSource, at: Occurrence) -> bool:
        own = self.target.source
        if source.unparsed and not source.is_by_types:
            return False
        if source.family != own.family:
            is_reached = any({source.family, own.family} <= group for group in TOGETHER) and not self.target.is_private
            return is_reached and at.role not in PROSE
        if own.is_by_types:
            is_code = at.role not in ("string", "comment") or (source.has_errors and at.role == "string")
            return is_code or self._is_callable_text(source, at)
        return at.role not in PROSE

    def _is_callable_text(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a string of PHP names a function that is handed over, or a comment one that a test uses."""
        line = source.content.lines[at.line - 1]
        before, after = line[: at.column - 1], line[at.column - 1 + len(self._name) :]
        if source.family != "php" or self.target.symbol.kind not in CALLED:
            return source.family == "php" and at.role == "comment" and self._is_documented_type(source, at)
        if at.role == "comment":
            return re.search(r"@(?:dataProvider|depends)\s+(?:[\w\\]{0,200}::)?$", before) is not None
        is_handed_over = re.search(r"(?:[,(]\s*|::)['\"]?$", before) is not None
        return is_handed_over and re.match(r"['\"]\s*[\],)]", after) is not None

    def sure(self) -> dict[str, list[Occurrence]]:
        """Return the places that certainly mean the target, by file; files without any are left out."""
        found: dict[str, list[Occurrence]] = {}
        for source, at, why in self.judgements:
            if not why:
                found.setdefault(source.path, []).append(at)
        return found

    def find_doubts(self) -> Iterator[NameOccurrence]:
        """Yield the definitions that something may call which is not in the files, as places that wait."""
        for source, at, why in self.judgements if self._uses else ():
            certainty = (self._uses or {}).get((source.path, at.line, at.column), "")
            if why == "" and certainty == "outside" and not self.target.is_private:
                doubt = OUTSIDE.get(source.family, "it may override a member of a base that is not in the workspace")
                yield replace(source.place(at, doubt), is_open=True)
        if doubt := self.target.why_reserved:
            yield replace(self.target.source.place(self.target.names[0], doubt), is_open=True)

    def build_result(
        self,
        name: str,
        new_name: str,
        sure: Mapping[str, Sequence[Occurrence]],
        edits: Mapping[str, Sequence[Edit]],
        doubts: Sequence[NameOccurrence] = (),
    ) -> Renaming:
        """Return the places as an answer."""
        target, symbol, own = self.target, self.target.symbol, self.target.source.path
        return Renaming(
            name=name,
            new_name=new_name,
            path=target.source.path,
            symbol=target.qualified,
            kind=symbol.kind,
            line=symbol.line,
            certain=tuple(self.sources[path].place(at) for path, found in sure.items() for at in found),
            uncertain=(
                *(
                    replace(source.place(at, why), is_open=self._is_open(source, at))
                    for source, at, why in self.judgements
                    if why not in ("", ELSE)
                ),
                *doubts,
            ),
            others=sum(why == ELSE for _, _, why in self.judgements),
            notes=tuple(self._notes(new_name)),
            changes=tuple(
                change
                for path, rows in edits.items()
                for change in _changes(self.sources[path], rows, self._new_path(new_name) if path == own else path)
            ),
        )

    def _new_path(self, new_name: str) -> str:
        """Return where the file of the target is afterwards: Java, and loaders of PHP, call a file as its class."""
        path, symbol, family = self.target.source.path, self.target.symbol, self.target.source.family
        ending = f"{symbol.name}.{family}"
        is_outer = symbol.parent < 0 or (self.target.owner is not None and self.target.owner.kind == "namespace")
        is_file = is_outer and symbol.kind in HOLDERS and path.endswith(ending)
        if family not in ("java", "php") or self.target.module != symbol.name or not is_file:
            return path
        return f"{path.removesuffix(ending)}{new_name}.{family}"

    def _notes(self, new_name: str) -> Iterator[str]:
        yield "uses outside of this workspace, through strings or generated code cannot be seen"
        if self.target.symbol.kind == PARAMETER:
            yield "parameters of its name in methods that override it, or that it overrides, are renamed with it"
        elif self.target.is_member and self._uses is not None and self.target.source.family == "go":
            yield "the interface and all types that implement it are renamed with it; no interface of a library is seen"
        elif self.target.is_member and self._uses is not None and self.target.symbol.kind in CALLED:
            yield "methods that override it, or that it overrides, are renamed with it"
        elif self.target.is_member and self._uses is None:
            yield "members are sure only where they are looked up in the thing itself: without types the others are not"
        if (moved := self._new_path(new_name)) != self.target.source.path:
            yield f"{self.target.source.path} becomes {moved}, so that it is still called as its class"

    def why_not(self, source: RenameSource, at: Occurrence) -> str:
        """Return why a place is not certain; empty when it is, `ELSE` when it certainly means something else."""
        target = self.target
        if at in target.names and source is target.source and not target.source.is_by_types:
            return ""
        is_local = not target.is_member and target.owner is not None and not target.source.is_by_types
        if is_local and target.owner is not None and not self._is_beside(source, at, target.owner):
            return ELSE
        if target.source.is_by_types and source.family == target.source.family:
            return self._by_types(source, at)
        if at.role in PROSE:
            return PROSE[at.role]
        if source.unparsed or source.family != target.source.family:
            return source.unparsed or f"in {source.language.name if source.language else 'another language'}"
        if target.is_member:
            return self._member_of_target(source, at)
        if at.role == "label":
            return ELSE
        if at.role == "member":
            return self._member(source, at)
        return self._plain(source, at)

    def _is_beside(self, source: RenameSource, at: Occurrence, owner: Symbol) -> bool:
        """Return whether a place is inside of what a local definition is inside of."""
        return source is self.target.source and owner.start <= at.start < owner.stop

    def _by_types(self, source: RenameSource, at: Occurrence) -> str:
        """Judge a place by what is resolved alone: a place about which nothing is known waits."""
        certainty = (self._uses or {}).get((source.path, at.line, at.column), "")
        if certainty == "" and at.role == "comment" and source.family == "php" and self._is_documented_type(source, at):
            return self._judge_documented_type(source)
        if certainty == "" and at.role in PROSE:
            return PROSE[at.role]
        return BY_TYPES[certainty]

    def _is_documented_type(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a comment of PHP names a class as a type: `@param Cat[] $cats`."""
        before = source.content.lines[at.line - 1][: at.column - 1]
        is_type = self.target.symbol.kind in HOLDERS and re.search(r"@[\w-]+\s[^$]*$", before) is not None
        return is_type and not before.endswith(("\\", "$", "::"))

    def _judge_documented_type(self, source: RenameSource) -> str:
        """Judge a type in a comment, which means what the code of its file means by the name."""
        found = {(self._uses or {}).get((source.path, at.line, at.column), "") for at in source.found}
        known = found & {"definition", "exact", "other"}
        if known == {"other"}:
            return ELSE
        return "" if known and "other" not in known else "a comment gives it as a type"

    # -- names by themselves --

    def _plain(self, source: RenameSource, at: Occurrence) -> str:
        """Judge a plain name, which means what the innermost scope that binds it means by it."""
        if at.role == "import" and at.is_renamed:
            if self._is_linked(source, at):
                return ""
            return ELSE if self._is_known(source, at) else "imported from elsewhere"
        bound = source.bindings
        scope = next((candidate for candidate in at.scopes if candidate in bound), None)
        scope = scope or (None if None in bound else False)  # None is the file itself
        if scope is False:
            return self._unbound(source)
        strange = [other for other in bound[scope] if not self._is_linked(source, other)]
        if not strange:
            return ""
        if all(self._is_known(source, other) for other in bound[scope]):
            return ELSE
        return f"line {strange[0].line} may give the name another meaning"

    def _is_known(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a place certainly gives the name another meaning than the target's, in all of its scope."""
        if self._is_linked(source, at):
            return False
        if at.role == "import":
            files = self._renamer.find_import_targets(source, at.lines, self._name)
            return bool(files) and all(self._defines(path) for path in files)
        return at.role == "binding" or (not at.scopes and at.line in self._defined_lines(source))

    def _defines(self, path: str) -> bool:
        """Return whether a file defines the name itself, and only so."""
        source = self.sources.get(path)
        if source is not None and source is not self.target.source:
            outer = source.bindings.get(None, [])
        else:
            outer = []
        return source is not None and bool(outer) and all(at.line in self._defined_lines(source) for at in outer)

    def _defined_lines(self, source: RenameSource) -> set[int]:
        """Return the lines on which a file defines the name for all of itself."""
        return {defined.line for defined in source.outline.symbols if defined.name == self._name and defined.parent < 0}

    def _unbound(self, source: RenameSource) -> str:
        """Judge a name that its file does not bind: it comes from the package, or from an unknown place."""
        own = self.target.source
        together = dirname(source.path) == dirname(own.path) and source.package == own.package
        if source.family == "go":
            if together:
                return ""
            return ELSE
        same = source.family == "java" and source.package == own.package != "" and self.target.is_only
        if same:
            return ""
        return "not imported by name"

    # -- imports --

    def _is_linked(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a place that binds the name is the target, or imports it."""
        if source is self.target.source and at in self.target.names:
            return True
        if at.role != "import" or self.target.owner is not None or self._takes_module(source, at):
            return False
        files = self._renamer.find_import_targets(source, at.lines, self._name)
        return bool(files) and all(path in self._linked or self._passes_on(path) for path in files)

    def _takes_module(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether an import may take the file of the target, where that has the same name."""
        if self.target.module != self._name or source.family not in ("python", "rust"):
            return False
        targets = [
            imported.target for imported in source.outline.imports if at.lines[0] <= imported.line <= at.lines[1]
        ]
        return source.family != "python" or not all(_last(target) == self._name for target in targets)

    @property
    def _name(self) -> str:
        return self.target.symbol.name

    def _passes_on(self, path: str) -> bool:
        """Return whether a file that does not contain the name can only re-export another file."""
        if path in self.sources:
            found = self.sources[path].found
        else:
            found = ()
        return self.target.is_only and all(at.role in PROSE for at in found)

    def _link(self) -> None:
        """Find the files that have the name from the target, directly or through others."""
        grew = True
        while grew:
            grew = False
            for path, source in self.sources.items():
                outer = source.bindings.get(None, ())
                if path not in self._linked and outer and all(self._is_linked(source, at) for at in outer):
                    self._linked.add(path)
                    grew = True

    # -- members --

    def _member(self, source: RenameSource, at: Occurrence) -> str:
        """Judge a name that is looked up in something, which may be the module of the target."""
        if at.of_itself or self.target.owner is not None:
            return ELSE
        if at.kind == "field_identifier" and source.family == "rust":
            return ELSE  # a field or a method; what a module holds is looked up in another way
        if source.family == "go":
            if at.owner:
                return self._in_package(source, at)
            return ELSE
        if not at.owner:
            return "looked up in something that is not known"
        if source.family == "rust":
            if at.owner == self.target.module and self.target.is_only:
                return ""
            return f"looked up in {at.owner}"
        bindings = [place for place in self._renamer.places(source, at.owner) if place.role in BINDING]
        around = [binding for binding in bindings if not binding.scopes or binding.scopes[0] in at.scopes]
        files = [path for binding in around for path in self._renamer.find_import_targets(source, binding.lines)]
        if len(around) == 1 and files == [self.target.source.path] and self._is_module(source, around[0]):
            return ""
        return f"looked up in {at.owner}"

    def _is_module(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a binding in an import of the target's file is that file itself, not something out of it."""
        line = source.content.lines[at.line - 1]
        if source.family == "javascript":
            return bool(re.search(r"\*\s*as\s+$", line[: at.column - 1]))
        return source.family == "python" and self.target.module == source.data[at.start : at.stop].decode(
            "utf-8", "replace"
        )

    def _in_package(self, source: RenameSource, at: Occurrence) -> str:
        """Judge a member of a Go package."""
        places = self._renamer.places(source, at.owner)
        if any(
            place.role in ("binding", "unknown") and (not place.scopes or place.scopes[0] in at.scopes)
            for place in places
        ):
            if not self._imports_package(source, at.owner, places):
                return ELSE
            return f"{at.owner} may mean something else here"
        if self._imports_package(source, at.owner, places):
            return ""
        return ELSE

    def _imports_package(self, source: RenameSource, owner: str, places: Iterable[Occurrence]) -> bool:
        """Return whether a file imports the package of the target under this name."""
        own = self.target.source
        for target, line in self._renamer.packages(source, dirname(own.path)):
            if any(place.role == "import" and place.line == line for place in places):
                return True
            is_bare = _BARE_IMPORT.match(source.content.lines[line - 1])
            if is_bare and owner == own.package and target:
                return True
        return False

    # -- a target that is itself a member --

    def _member_of_target(self, source: RenameSource, at: Occurrence) -> str:
        if self._uses is not None:
            return self._judge_resolved(source, at, self._uses.get((source.path, at.line, at.column), ""))
        symbol, owner = self.target.symbol, self.target.owner
        same_file = source is self.target.source
        if at.role == "member" and at.of_itself and self._in_same_type(source, at):
            if self.target.is_only or source.family == "go":
                return ""
            return "others are named so, and may take its place"
        if at.role == "member":
            own = symbol.owner or (owner.name if owner else "")
            if at.owner == own and same_file and self.target.is_only:
                return ""
            if at.owner:
                return f"looked up in {at.owner}"
            return "looked up in something that is not known"
        if at.role == "label":
            return "names a part of something"
        if source.family == "java" and at.role == "read":
            inside = owner is not None and same_file and owner.start <= at.start < owner.stop
            bound = [place for places in source.bindings.values() for place in places if place not in self.target.names]
            if inside and self.target.is_only and not bound:
                return ""
            return WORTH_A_LOOK
        if at.role == "import":
            return WORTH_A_LOOK
        return ELSE

    def _judge_resolved(self, source: RenameSource, at: Occurrence, certainty: str) -> str:
        """Judge a place by what is resolved, in a language with rules for scopes."""
        is_parameter = self.target.symbol.kind == PARAMETER
        is_looked_up = at.role == "member" or (at.role == "label" and source.family == "go")
        if certainty == "" and (is_parameter or not is_looked_up):
            return ELSE
        if certainty == "possible" and is_parameter:
            return "a caller may name it"
        return BY_TYPES[certainty]

    def _in_same_type(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a place is inside the type of the target, and not in one inside of it."""
        symbols = source.outline.symbols
        around = [number for number, candidate in enumerate(symbols) if candidate.start <= at.start < candidate.stop]
        if self.target.symbol.owner:
            same = [symbols[number] for number in around if symbols[number].owner == self.target.symbol.owner]
            return bool(same) and dirname(source.path) == dirname(self.target.source.path)
        types = [number for number in around if symbols[number].kind in HOLDERS]
        return source is self.target.source and bool(types) and types[-1] == self.target.symbol.parent


# -- as edits --------------------------------------------------------------------------------------------------------


def _edits(source: RenameSource, sure: Iterable[Occurrence], new_name: str) -> list[Edit]:
    """Return an edit for every line with certain places: the line is the target, so that nothing else can be meant.

    Where very many lines are alike, one edit from the first to the last of them is found sooner.
    """
    by_line: dict[int, list[Occurrence]] = {}
    for at in sure:
        by_line.setdefault(at.line, []).append(at)
    edits = [_edit(source, line, found, new_name) for line, found in by_line.items()]
    alike = Counter(source.content.lines)
    if sum(alike[edit.target] for edit in edits) <= CANDIDATES_MAX:
        return edits
    first, last = min(by_line), max(by_line)
    now = dict(zip(by_line, (edit.replacement for edit in edits), strict=True))
    lines = source.content.lines[first - 1 : last]
    new = [now.get(number, line) for number, line in enumerate(lines, first)]
    return [Edit("\n".join(lines), "\n".join(new), line_range=LineSpan(first, last), fuzzy=Fuzzy(enabled=False))]


def _edit(source: RenameSource, line: int, found: Sequence[Occurrence], new_name: str) -> Edit:
    text = source.content.lines[line - 1]
    new = text
    for at in sorted(found, key=lambda at: -at.column):
        length = len(source.data[at.start : at.stop].decode("utf-8", "replace"))
        start = at.column - 1
        if at.role == "shorthand":
            label = f"{text[start : start + length]}: "
        else:
            label = ""
        new = f"{new[:start]}{label}{new_name}{new[start + length :]}"
    return Edit(text, new, line_range=LineSpan(line, line), fuzzy=Fuzzy(enabled=False))


def _changes(source: RenameSource, edits: Sequence[Edit], new_path: str) -> tuple[FileEdit, ...]:
    """Return the changes of a file as it was when its places were found; perhaps it gets another name."""
    if new_path != source.path:
        return rename_file(source.path, new_path, source.raw, new=plan(source.raw, edits).data)
    return (edit_file(source.path, partial(plan, edits=edits), expected_hash=sha256(source.raw).hexdigest()),)
