"""Plan a new name for a definition: the places that certainly mean it, and separately those that may.

A place is certain when scopes and imports lead from it to the definition, with nothing in between that might give the
name another meaning; anything that is not understood counts as such. A member is certain by the types that `find_uses`
resolves (`UseClassifier`). Nothing is written here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from posixpath import dirname

from context_engine.edit.file_content import content_of
from context_engine.edit.file_edit import FileEdit, edit_file, rename_file
from context_engine.edit.model import Edit, Fuzzy
from context_engine.edit.patch import plan
from context_engine.edit.rename_sources import (
    BINDING,
    CALLED,
    HOLDERS,
    PARAMETER,
    NameOccurrence,
    RenameFiles,
    RenameSource,
    Target,
    UseCertainties,
)
from context_engine.edit.rename_uses import PROSE, UseClassifier
from context_engine.edit.syntax_check import find_new_errors
from context_engine.errors import InvalidArgument, MultipleMatches, NextStep, SymbolNotFound
from context_engine.languages import Occurrence, Symbol, find_occurrences
from context_engine.references import SymbolService
from context_engine.repo import is_under
from context_engine.text import LineSpan, dotted_name

SHOWN_MAX = 10
CANDIDATES_MAX = 2_000
"""Comparing a line with so many that look like it takes some ten milliseconds."""
PACKAGED = frozenset({"go", "java", "kotlin", "php"})
"""Here the files of a folder see one another without an import."""
RESOLVED = frozenset({"go", "rust"})
"""Here some places of every definition are judged by types: keys of literals in Go, arguments of macros in Rust."""
PLAIN = BINDING | {"read", "shorthand"}
"""What a name by itself can be."""

_NAME = re.compile(r"[^\W\d][\w$]*")


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


class Renamer:
    """Plans renames in the files of one workspace."""

    def __init__(self, files: RenameFiles, symbols: SymbolService | None = None) -> None:
        self._files = files
        self._symbols = symbols

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
        self._files.forget_places()
        sources = [source for path in sorted(holding) if (source := self._files.read(path, last)) is not None]
        target, uses = self._parameter_target(sources, name, under)
        if target is None:
            target = _target(sources, name, under)
            uses = self._uses_of(target, sources)
        self._check_free(target, new_name, uses)
        classifier = UseClassifier(self._files, target, sources, accept, uses)
        sure = classifier.sure()
        self._check_scopes(classifier, sure, new_name)
        is_member = target.is_member and (target.owner is None or target.owner.kind not in ("namespace", "module"))
        edits = {
            path: _edits(classifier.sources[path], found, new_name, is_member=is_member) for path, found in sure.items()
        }
        for path, rows in edits.items():
            self._check_result(classifier.sources[path], rows, sure[path], new_name, is_member=is_member)
        new_path = _new_path(target, new_name)
        return Renaming(
            name=last,
            new_name=new_name,
            path=target.source.path,
            symbol=target.qualified,
            kind=target.symbol.kind,
            line=target.symbol.line,
            certain=tuple(classifier.sources[path].place(at) for path, found in sure.items() for at in found),
            uncertain=(
                *classifier.find_uncertain(),
                *classifier.find_doubts(),
                *self._find_accessors(target, holding),
                *self._find_examples(target),
            ),
            others=classifier.count_others(),
            notes=tuple(_notes(target, new_path, are_resolved=uses is not None)),
            changes=tuple(
                change
                for path, rows in edits.items()
                for change in _changes(classifier.sources[path], rows, new_path if path == target.source.path else path)
            ),
        )

    def _find_accessors(self, target: Target, holding: Collection[str]) -> Iterator[NameOccurrence]:
        """Yield where the other language of Java and Kotlin may use a property or a getter under its other name."""
        source, symbol = target.source, target.symbol
        words = other_names(symbol.name) if source.family in ("java", "kotlin") else ()
        is_getter = symbol.kind in CALLED
        if is_getter != (source.family == "java") or symbol.kind in HOLDERS or target.is_private:
            return
        for path in sorted(holding) if words else ():
            for word in words:
                other = self._files.read(path, word)
                if other is not None and {other.family, source.family} == {"java", "kotlin"}:
                    found = [at for at in other.found if at.role not in PROSE and _is_looked_up(other, at)]
                    why = f"may use {symbol.name} under this name, and is to be changed by hand"
                    yield from (replace(other.place(at, why), is_open=True) for at in found)

    def _find_examples(self, target: Target) -> Iterator[NameOccurrence]:
        """Yield the examples of Go whose name has that of the target: go vet refuses one of an unknown name."""
        name, owner = target.symbol.name, target.symbol.owner
        if target.source.family != "go" or not name[:1].isupper() or self._symbols is None:
            return
        shown = f"{owner}_{name}" if owner else name
        folder = dirname(target.source.path)
        for found in self._symbols.find(f"Example{shown}*", path=folder or None, limit=CANDIDATES_MAX).definitions:
            is_example = re.fullmatch(rf"Example{re.escape(shown)}(?:_\w+)?", found.name) is not None
            if is_example and found.path.endswith("_test.go") and dirname(found.path) == folder:
                why = f"go vet looks for {name} by this name, which is to be changed by hand"
                yield NameOccurrence(str(found.path), found.span.first, 1, found.signature, why, is_open=True)

    def _uses_of(self, target: Target, sources: Sequence[RenameSource]) -> UseCertainties | None:
        """Return the uses of a member by what the text shows of types; None for targets that scopes and imports judge.

        Raises: InvalidArgument where nothing else could judge them.
        """
        source, symbol, uses = target.source, target.symbol, None
        if self._symbols is not None and (target.is_member or source.is_by_types or source.family in RESOLVED):
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
        wanted = dotted_name(name)
        owner, _, own = wanted.rpartition(".")
        is_symbol = any(_is_called(full, wanted) for source in sources for full in source.qualified_names)
        if self._symbols is None or not owner or is_symbol:
            return None, None
        paths = [source.path for source in sources]
        found: list[tuple[Target, UseCertainties]] = []
        for source in sources:
            for number, symbol in enumerate(source.outline.symbols):
                is_owner = symbol.kind in CALLED and _is_called(source.qualified_names[number], owner)
                if is_owner and is_under(source.path, under):
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
        package = []
        if own.family in PACKAGED and not target.is_member:
            package = self._files.paths.in_folder(dirname(own.path))
        for path in package:
            other = None
            if path != own.path:
                other = self._files.read(path, new_name)
            taken += [
                (path, other_symbol.line)
                for other_symbol in (other.outline.symbols if other else ())
                if other_symbol.name == new_name and other_symbol.parent < 0 and not other_symbol.owner
            ]
        if uses is not None and target.is_member and self._symbols is not None and target.symbol.kind != PARAMETER:
            symbol = target.symbol
            taken += self._symbols.find_members_in_the_way(own.path, symbol.name, symbol.line, new_name)
        if target.symbol.kind == PARAMETER:
            inside = [
                at for at in self._files.places(own, new_name) if target.symbol.start <= at.start < target.symbol.stop
            ]
            taken += [(own.path, at.line) for at in inside if at.role in PLAIN]
        _refuse_taken(new_name, taken)

    def _check_scopes(self, classifier: UseClassifier, sure: Mapping[str, Sequence[Occurrence]], new_name: str) -> None:
        """Refuse a name that already has a meaning at a place of it, or would get the meaning of the place."""
        taken: list[tuple[str, int]] = []
        for path, found in sure.items():
            if classifier.target.source.is_by_types:
                taken += self._find_hiding(classifier.sources[path], found, new_name)
                continue
            plain = [at for at in found if at.role in PLAIN]
            if not plain or classifier.target.is_member:
                continue
            others = [at for at in self._files.places(classifier.sources[path], new_name) if at.role in PLAIN]
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
            for other in self._files.places(source, new_name):
                if other.role not in PROSE and not _is_looked_up(source, other):
                    yield source.path, other.line

    def _check_result(
        self, source: RenameSource, edits: Sequence[Edit], sure: Sequence[Occurrence], new_name: str, *, is_member: bool
    ) -> None:
        """Refuse a name that the language does not take for one: with it the file must be what it was.

        Raises: InvalidArgument.
        """
        after = plan(source.raw, edits).data
        if source.language is None:
            return
        kinds = [_kind_after(source, at, is_member=is_member) for at in sure]
        kinds = sorted([*kinds, *(at.kind for at in self._files.places(source, new_name))])
        now = find_occurrences(source.language, _fold_case(after), new_name, self._files.grammars)
        report = find_new_errors(source.raw, after, source.path, self._files.languages, self._files.grammars)
        same = not isinstance(now, str) and sorted(at.kind for at in now) == kinds
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
    return dotted_name(name).rpartition(".")[2]


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
    wanted = dotted_name(name)
    defined = [
        (source, number)
        for source in sources
        for number, symbol in enumerate(source.outline.symbols)
        if symbol.name == wanted.rpartition(".")[2] and symbol.kind not in ("constructor", "section", "key")
    ]
    fitting = [
        (source, number)
        for source, number in defined
        if is_under(source.path, under) and _is_called(source.qualified_names[number], wanted)
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


# -- as edits --------------------------------------------------------------------------------------------------------


def _edits(source: RenameSource, sure: Iterable[Occurrence], new_name: str, *, is_member: bool) -> list[Edit]:
    """Return an edit for every line with certain places: the line is the target, so that nothing else can be meant.

    Where very many lines are alike, one edit from the first to the last of them is found sooner.
    """
    by_line: dict[int, list[Occurrence]] = {}
    for at in sure:
        by_line.setdefault(at.line, []).append(at)
    edits = [_edit(source, line, found, new_name, is_member=is_member) for line, found in by_line.items()]
    alike = Counter(source.content.lines)
    if sum(alike[edit.target] for edit in edits) <= CANDIDATES_MAX:
        return edits
    first, last = min(by_line), max(by_line)
    now = dict(zip(by_line, (edit.replacement for edit in edits), strict=True))
    lines = source.content.lines[first - 1 : last]
    new = [now.get(number, line) for number, line in enumerate(lines, first)]
    return [Edit("\n".join(lines), "\n".join(new), line_range=LineSpan(first, last), fuzzy=Fuzzy(enabled=False))]


SHORTHANDS = frozenset(
    {"shorthand_property_identifier", "shorthand_property_identifier_pattern", "shorthand_field_identifier"}
)
"""Names that are a property and a variable in one: `{ name }`."""


def _is_shorthand(at: Occurrence) -> bool:
    return at.role == "shorthand" or at.kind in SHORTHANDS


def _kind_after(source: RenameSource, at: Occurrence, *, is_member: bool) -> str:
    """Return the kind of node that the new name has: one of the two that a shorthand becomes."""
    if not _is_shorthand(at):
        return at.kind
    if not is_member:
        return "identifier"
    return "property_identifier" if source.family == "javascript" else "field_identifier"


def _edit(source: RenameSource, line: int, found: Sequence[Occurrence], new_name: str, *, is_member: bool) -> Edit:
    text = source.content.lines[line - 1]
    new = text
    for at in sorted(found, key=lambda at: -at.column):
        length = len(source.data[at.start : at.stop].decode("utf-8", "replace"))
        start = at.column - 1
        written = new_name
        if _is_shorthand(at):
            old = text[start : start + length]
            written = f"{new_name}: {old}" if is_member else f"{old}: {new_name}"
        new = f"{new[:start]}{written}{new[start + length :]}"
    return Edit(text, new, line_range=LineSpan(line, line), fuzzy=Fuzzy(enabled=False))


def _changes(source: RenameSource, edits: Sequence[Edit], new_path: str) -> tuple[FileEdit, ...]:
    """Return the changes of a file as it was when its places were found; perhaps it gets another name."""
    if new_path != source.path:
        return rename_file(source.path, new_path, source.raw, new=plan(source.raw, edits).data)
    return (edit_file(source.path, partial(plan, edits=edits), expected_hash=sha256(source.raw).hexdigest()),)


def _new_path(target: Target, new_name: str) -> str:
    """Return where the file of the target is afterwards: Java, and loaders of PHP, call a file as its class."""
    path, symbol, family = target.source.path, target.symbol, target.source.family
    ending = f"{symbol.name}.{family}"
    is_outer = symbol.parent < 0 or (target.owner is not None and target.owner.kind == "namespace")
    is_file = is_outer and symbol.kind in HOLDERS and path.endswith(ending)
    if family not in ("java", "php") or target.module != symbol.name or not is_file:
        return path
    return f"{path.removesuffix(ending)}{new_name}.{family}"


def _notes(target: Target, new_path: str, *, are_resolved: bool) -> Iterator[str]:
    """Yield what the caller has to know of the rename; `are_resolved`: uses of members are known by types."""
    yield "uses outside of this workspace, through strings or generated code cannot be seen"
    if target.symbol.kind == PARAMETER:
        yield "parameters of its name in methods that override it, or that it overrides, are renamed with it"
    elif target.is_member and not are_resolved:
        yield "members are sure only where they are looked up in the thing itself: without types the others are not"
    elif target.is_member and target.source.family == "go":
        yield "the interface and all types that implement it are renamed with it; no interface of a library is seen"
    elif target.is_member and target.symbol.kind in CALLED:
        yield "methods that override it, or that it overrides, are renamed with it"
    if new_path != target.source.path:
        yield f"{target.source.path} becomes {new_path}, so that it is still called as its class"
