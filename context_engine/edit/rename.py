"""Plan a new name for a definition: the places that certainly mean it, and separately those that may.

`SymbolService` says what each place means. Nothing is written here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from posixpath import basename, dirname, splitext

from context_engine.edit.edit_errors import SHOWN_MAX, ambiguous_error
from context_engine.edit.file_content import content_of
from context_engine.edit.file_edit import FileEdit, rename_file, replan
from context_engine.edit.model import Patch
from context_engine.edit.patch import EditPlan, plan_patches
from context_engine.edit.rename_uses import (
    CALLED,
    HOLDERS,
    PARAMETER,
    NameOccurrence,
    RenameFiles,
    RenameSource,
    Target,
    UseCertainties,
    UseClassifier,
    refuse_taken,
)
from context_engine.edit.symbol_edits import is_name_of
from context_engine.edit.syntax_check import find_new_errors
from context_engine.errors import InvalidArgument, NextStep, SymbolNotFound
from context_engine.languages import PROSE, Occurrence, Symbol
from context_engine.references import SymbolService
from context_engine.repo import is_under
from context_engine.text import dotted_name

EXAMPLES_MAX = 2_000
"""More examples of one definition have other names that begin alike."""

_NAME = re.compile(r"[^\W\d][\w$]*")
_LOOKED_UP = re.compile(rb"(?:(?<!\.)\.|->|::|\$)\s*$")
"""What is before the name of a member."""


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

    def __init__(self, files: RenameFiles, symbols: SymbolService) -> None:
        self._files = files
        self._symbols = symbols

    def plan_renaming(
        self, name: str, new_name: str, holding: Collection[str], *, under: str = "", accept: Sequence[str] = ()
    ) -> Renaming:
        """Plan what a new name for the definition `name`, perhaps `Class.method`, changes in the files `holding` it.

        `under` is the file or folder of the definition. `accept` are uncertain places to change as well: `path:line`,
        or `all` of those in code. Raises: SymbolNotFound, MultipleMatches, InvalidArgument, NotIndexed.
        """
        last = bare_name(name)
        if not _NAME.fullmatch(new_name) or new_name == last:
            raise InvalidArgument(
                f"{new_name!r} is not a new name",
                suggestion="Give one name, without its owner.",
                details={"name": new_name},
            )
        sources = [source for path in sorted(holding) if (source := self._files.read(path, last)) is not None]
        target, uses = self._parameter_target(sources, name, under) or self._target(sources, name, under)
        self._check_free(target, new_name)
        classifier = UseClassifier(target, sources, accept, uses)
        new_path = _new_path(target, new_name)
        certain: list[NameOccurrence] = []
        changes: list[FileEdit] = []
        rows = [(classifier.sources[path], found) for path, found in classifier.sure.items()]
        refuse_taken(new_name, [taken for row in rows for taken in self._find_captures(target, *row, new_name)])
        for source, found in rows:
            planned = self._plan(target, source, found, new_name)
            certain += map(source.place, found)
            if source is target.source and new_path != source.path:
                changes += rename_file(source.path, new_path, source.raw, new=planned.data)
            else:
                changes.append(replan(source.path, source.raw, planned))
        waiting = [*classifier.find_doubts(), *self._find_accessors(target, holding), *self._find_examples(target)]
        return Renaming(
            name=last,
            new_name=new_name,
            path=target.source.path,
            symbol=target.qualified,
            kind=target.symbol.kind,
            line=target.symbol.line,
            certain=tuple(certain),
            uncertain=(*classifier.uncertain, *waiting),
            others=classifier.others,
            notes=tuple(_notes(target, new_path)),
            changes=tuple(changes),
        )

    # -- which definition --

    def _target(self, sources: Sequence[RenameSource], name: str, under: str) -> tuple[Target, UseCertainties]:
        """Return the one definition that is meant, and its uses.

        Raises: SymbolNotFound, MultipleMatches, InvalidArgument where its uses cannot be found.
        """
        source, number = _find_definition(sources, name, under)
        symbol = source.outline.symbols[number]
        named = _named_at(source, symbol)
        if not named or source.unparsed:
            raise InvalidArgument(
                f"{source.path} cannot be understood well enough: "
                f"{source.unparsed or 'the name is written in another way'}",
                next_steps=(NextStep("search_text", "to find its places"), NextStep("edit_file", "to rename each")),
                details={"path": source.path},
            )
        paths = [one.path for one in sources]
        with self._symbols.renames() as renames:
            uses = renames.find_definition_uses(source.path, symbol.name, symbol.line, paths)
        if uses is None:
            raise InvalidArgument(
                f"the uses of {source.qualified_names[number]} cannot be resolved", details={"path": source.path}
            )
        own = [at for at in named if uses.get((source.path, at.line, at.column)) in ("definition", "outside")]
        makers = [one for one in source.outline.symbols if (one.parent, one.kind) == (number, "constructor")]
        makers_named = [at for one in makers if one.name == symbol.name for at in _named_at(source, one)[:1]]
        return Target(source, symbol, source.qualified_names[number], (own or named)[0], tuple(makers_named)), uses

    def _parameter_target(
        self, sources: Sequence[RenameSource], name: str, under: str
    ) -> tuple[Target, UseCertainties] | None:
        """Return the parameter that `function.parameter` names, with its uses; None if it names something else."""
        wanted = dotted_name(name)
        owner, _, own = wanted.rpartition(".")
        if not owner or any(is_name_of(wanted, full) for source in sources for full in source.qualified_names):
            return None
        paths = [source.path for source in sources]
        found: list[tuple[Target, UseCertainties]] = []
        for source in sources:
            for number, symbol in enumerate(source.outline.symbols):
                is_owner = symbol.kind in CALLED and is_name_of(owner, source.qualified_names[number])
                if is_owner and is_under(source.path, under):
                    with self._symbols.renames() as renames:
                        uses = renames.find_parameter_uses(source.path, symbol.name, symbol.line, own, paths) or {}
                    inside = [at for at in source.found if symbol.start <= at.start < symbol.stop]
                    at = next((at for at in inside if (source.path, at.line, at.column) in uses), None)
                    if at is not None:
                        parameter = symbol._replace(name=own, kind=PARAMETER, parent=number, line=at.line, owner="")
                        found.append((Target(source, parameter, f"{source.qualified_names[number]}.{own}", at), uses))
        if len(found) > 1:
            raise ambiguous_error(
                f"{len(found)} functions named {owner!r} have a parameter {own!r}",
                "Name the function with its class, or give path, the file it is in.",
                [f"{target.source.path}:{target.symbol.line} {target.qualified}" for target, _ in found],
            )
        return found[0] if found else None

    # -- what waits for a person --

    def _find_accessors(self, target: Target, holding: Collection[str]) -> Iterator[NameOccurrence]:
        """Yield where another language may use a property or a getter under its other name, as Java and Kotlin do."""
        symbol, rules = target.symbol, target.source.rules
        is_accessor = (symbol.kind in CALLED) == (rules.accessor == "function") and symbol.kind not in HOLDERS
        words = other_names(symbol.name) if rules.accessor and is_accessor and not target.is_private else ()
        for path in sorted(holding):
            for word in words:
                other = self._files.read(path, word)
                if other is not None and other.family in rules.accessors:
                    found = [at for at in other.found if at.role not in PROSE and _is_looked_up(other, at)]
                    why = f"may use {symbol.name} under this name, and is to be changed by hand"
                    yield from (other.place(at, why, is_open=True) for at in found)

    def _find_examples(self, target: Target) -> Iterator[NameOccurrence]:
        """Yield the examples of Go whose name has that of the target: go vet refuses one of an unknown name."""
        name, owner, prefix = target.symbol.name, target.symbol.owner, target.source.rules.examples
        if not prefix or not name[:1].isupper():
            return
        shown = f"{prefix}{owner}_{name}" if owner else f"{prefix}{name}"
        folder = dirname(target.source.path)
        for found in self._symbols.find(f"{shown}*", path=folder or None, limit=EXAMPLES_MAX).definitions:
            is_example = re.fullmatch(rf"{re.escape(shown)}(?:_\w+)?", found.name) is not None
            if is_example and found.path.endswith("_test.go") and dirname(found.path) == folder:
                why = f"go vet looks for {name} by this name, which is to be changed by hand"
                yield NameOccurrence(str(found.path), found.span.first, 1, found.signature, why, is_open=True)

    # -- whether the new name is free --

    def _check_free(self, target: Target, new_name: str) -> None:
        """Refuse a name that is defined already where the definition is, or in its package. Raises: InvalidArgument.

        So is one that a member has in a base of its class, or in a class that extends it.
        """
        own, symbol = target.source, target.symbol
        next_to = (symbol.parent, symbol.owner)
        taken = [
            (own.path, one.line)
            for one in own.outline.symbols
            if one.name == new_name and (one.parent, one.owner) == next_to
        ]
        is_packaged = own.rules.packaged and not target.is_member
        for path in self._files.paths.in_folder(dirname(own.path)) if is_packaged else ():
            other = self._files.read(path, new_name) if path != own.path else None
            outer = [one for one in other.outline.symbols if one.parent < 0 and not one.owner] if other else []
            taken += [(path, one.line) for one in outer if one.name == new_name]
        with self._symbols.renames() as renames:
            if symbol.kind == PARAMETER:
                found = renames.find_captures(own.path, new_name, [(target.at.line, target.at.column)])
                taken += [(own.path, line) for line in found if symbol.first <= line <= symbol.last]
            elif target.is_member:
                taken += renames.find_members_in_the_way(own.path, symbol.name, symbol.line, new_name)
        refuse_taken(new_name, taken)

    def _find_captures(
        self, target: Target, source: RenameSource, sure: Sequence[Occurrence], new_name: str
    ) -> Iterator[tuple[str, int]]:
        """Yield where the new name has a meaning already at a place, or would get the meaning of the place."""
        if source.rules.strict:
            if any(not _is_looked_up(source, at) for at in sure):
                for other in self._files.places(source.language, source.data, new_name):
                    if other.role not in PROSE and not _is_looked_up(source, other):
                        yield source.path, other.line
        elif not target.is_member:
            plain = [(at.line, at.column) for at in sure if not _is_looked_up(source, at)]
            with self._symbols.renames() as renames:
                lines = renames.find_captures(source.path, new_name, plain)
            yield from ((source.path, line) for line in lines)

    # -- as a plan --

    def _plan(self, target: Target, source: RenameSource, sure: Sequence[Occurrence], new_name: str) -> EditPlan:
        """Return what a file becomes with the new name at the certain places.

        Raises: InvalidArgument for a name that the language does not take for one: with it the file must be what it
        was; WrongEncoding for a character that the file's encoding lacks.
        """
        is_label = target.is_member and (target.owner is None or target.owner.kind not in ("namespace", "module"))
        content, old = source.content, target.symbol.name
        patches = []
        for at in sorted(sure, key=lambda at: at.start):
            start = content.starts[at.line - 1] + at.column - 1
            written = new_name
            if at.role == "shorthand":  # it keeps the one of its names that is not renamed
                written = f"{new_name}: {old}" if is_label else f"{old}: {new_name}"
            patches.append(Patch(content.offset(start), content.offset(start + len(old)), written))
        planned = plan_patches(content, patches)
        kinds = [_kind_after(source, at, is_label=is_label) for at in sure]
        self._check_result(source, planned.data, kinds, new_name)
        return planned

    def _check_result(self, source: RenameSource, after: bytes, kinds: list[str], new_name: str) -> None:
        """Refuse a new name that is not parsed as the kinds of nodes that it replaces. Raises: InvalidArgument."""
        if source.language is None:
            return
        text = content_of(after).norm.encode("utf-8", "surrogateescape")
        now = self._files.places(source.language, text, new_name)
        expected = sorted([*kinds, *(at.kind for at in self._files.places(source.language, source.data, new_name))])
        is_same = sorted(at.kind for at in now) == expected
        report = find_new_errors(source.raw, after, source.path, self._files.languages, self._files.grammars)
        if not is_same or not report.is_sound:
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


def _is_looked_up(source: RenameSource, at: Occurrence) -> bool:
    """Return whether a name is that of a member, or a variable with a dollar sign: others of the file do not hide it.

    Where members are found through an object alone, so are their declarations, and names with their namespace.
    """
    before = source.data[max(0, at.start - 200) : at.start]
    line = source.content.lines[at.line - 1].lstrip()
    needs_owner = source.rules.strict and source.language is not None and not source.language.resolution.lexical
    is_declared = any(symbol.line == at.line and symbol.parent >= 0 for symbol in source.outline.symbols)
    is_qualified = before.endswith(b"\\") and not line.startswith("use ")
    return (needs_owner and (is_declared or is_qualified)) or _LOOKED_UP.search(before) is not None


def _find_definition(sources: Sequence[RenameSource], name: str, under: str) -> tuple[RenameSource, int]:
    """Return the file and the number of the one definition of a name. Raises: SymbolNotFound, MultipleMatches."""
    wanted = dotted_name(name)
    last = wanted.rpartition(".")[2]
    fitting: list[tuple[RenameSource, int]] = []
    near: list[str] = []
    for source in sources:
        for number, symbol in enumerate(source.outline.symbols):
            qualified = source.qualified_names[number]
            if symbol.name == last and symbol.kind not in ("constructor", "section", "key"):
                near.append(f"{source.path}: {qualified}")
                if is_under(source.path, under) and is_name_of(wanted, qualified):
                    fitting.append((source, number))
    if not fitting:
        raise SymbolNotFound(
            f"nothing named {name!r} is defined{f' in {under}' if under else ''}",
            suggestion="symbols finds names that come close.",
            details={"near": near[:SHOWN_MAX]},
        )
    if len(fitting) > 1:
        raise ambiguous_error(
            f"{len(fitting)} definitions are named {name!r}",
            "Name the one you mean with its owner (Class.method), or give path, the file it is in.",
            [f"{one.path}:{one.outline.symbols[at].line} {one.qualified_names[at]}" for one, at in fitting],
        )
    return fitting[0]


def _named_at(source: RenameSource, symbol: Symbol) -> list[Occurrence]:
    """Return where a definition may have its name."""
    return [at for at in source.found if symbol.start <= at.start and at.line == symbol.line and at.role not in PROSE]


def _kind_after(source: RenameSource, at: Occurrence, *, is_label: bool) -> str:
    """Return the kind of node that the new name has: one of the two that a shorthand becomes."""
    if at.role != "shorthand":
        return at.kind
    return source.rules.label if is_label else "identifier"


def _new_path(target: Target, new_name: str) -> str:
    """Return where the file of the target is afterwards: in some languages a file is called as its class."""
    path, symbol = target.source.path, target.symbol
    stem, suffix = splitext(basename(path))
    is_outer = symbol.parent < 0 or (target.owner is not None and target.owner.kind == "namespace")
    if not target.source.rules.named_files or stem != symbol.name or symbol.kind not in HOLDERS or not is_outer:
        return path
    return f"{path.removesuffix(f'{stem}{suffix}')}{new_name}{suffix}"


def _notes(target: Target, new_path: str) -> Iterator[str]:
    """Yield what the caller has to know of the rename."""
    yield "uses outside of this workspace, through strings or generated code cannot be seen"
    if target.symbol.kind == PARAMETER:
        yield "parameters of its name in methods that override it, or that it overrides, are renamed with it"
    elif target.is_member and target.symbol.kind in CALLED:
        yield "methods that override it, or that it overrides, are renamed with it"
    if new_path != target.source.path:
        yield f"{target.source.path} becomes {new_path}, so that it is still called as its class"
