"""The members of classes: their own, those of their bases, and those that other files add."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from context_engine.languages import SyntaxFile, SyntaxNode, child_of
from context_engine.references.values import NamePlace, NameUsage, Value, remember

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver

BASES_MAX = 40
"""Classes looked at for one member."""
EMPTY_BASES = frozenset({"object", "abc.ABC", "typing.Generic", "typing.Protocol"})
"""Bases outside of the project that give a class no members of their own."""


class ClassMembers:
    """Looks members up in classes, with what it knows kept."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self.bases = remember(self._find_bases, ([], False))  # of a class that is its own base
        """The bases of a class as written, and whether all of them are understood."""
        self._scope_of = cache(self._find_scope)

    def find(self, value: Value, name: str, usage: NameUsage | None = None) -> tuple[list[NamePlace], bool]:
        """Return the definitions of a member in a class or the nearest of its bases that has it.

        The second value is whether all bases are in this project, so that nothing found means that nothing is there.
        """
        is_known = True
        seen: set[NamePlace] = set()
        waiting = [value.place]
        while waiting and len(seen) < BASES_MAX:
            place = waiting.pop(0)
            if place in seen:
                continue
            seen.add(place)
            own = self.own(place, name, usage)
            if own:
                return own, True
            bases, known = self.bases(place)
            is_open = any(base.kind == "external" and base.name not in EMPTY_BASES for base in bases)
            is_known = is_known and known and not is_open
            above = [base.place for base in bases if base.kind == "class"]
            waiting = [*above, *waiting] if self._is_depth_first(place) else [*waiting, *above]
        return [], is_known

    def _is_depth_first(self, place: NamePlace) -> bool:
        file = self._resolver.project.read(place.path)
        return file is not None and self._resolver.style(file).depth_first

    def own(self, place: NamePlace, name: str, usage: NameUsage | None = None) -> list[NamePlace]:
        """Return the definitions of a member in the class itself, those that a use of a kind can mean."""
        found = self._own(place, name)
        return [one for one in found if self._is_apt(one, usage)] if usage is not None else found

    def _is_apt(self, place: NamePlace, usage: NameUsage) -> bool:
        found = self._resolver.project.binding_at(place)
        return found is not None and self._resolver.style(found[0]).accepts(*found, usage)

    def _own(self, place: NamePlace, name: str) -> list[NamePlace]:
        written = self.own_of_style(place, name)
        if written is not None:
            return written
        found = self._scope_of(place)
        if found is None:
            return []
        file, number = found
        inside = [one for one in file.bindings_in(name, number) if one.role != "parameter"]
        declared = [one for one in inside if one.role != "attribute"]
        places = [NamePlace(file.path, one.node.start_byte) for one in declared or inside]
        style = self._resolver.style(file)
        if places and not style.joins_members:
            return places
        return [*places, *style.added_members(file, number, name)]

    def own_of_style(self, place: NamePlace, name: str) -> list[NamePlace] | None:
        """Return the definitions of a member of a thing without a written class, as a function; None for classes."""
        file = self._resolver.project.read(place.path)
        return self._resolver.style(file).own_members(file, place, name) if file is not None else None

    def with_bases(self, places: Iterable[NamePlace]) -> Iterator[NamePlace]:
        """Yield some classes and all classes above them, the nearest first."""
        waiting = list(dict.fromkeys(places))
        for place in waiting:  # it grows
            yield place
            above = [base.place for base in self.bases(place)[0] if base.kind == "class"]
            waiting += [one for one in dict.fromkeys(above) if one not in waiting]

    def _find_bases(self, place: NamePlace) -> tuple[list[Value], bool]:
        holder = self._resolver.project.read(place.path)
        special = self._resolver.style(holder).own_bases(holder, place) if holder is not None else None
        if special is not None:
            return special
        found = self._scope_of(place)
        if found is None:
            return [], False
        file, number = found
        bases: list[Value] = []
        is_known = True
        for node in self._resolver.style(file).base_nodes(file, file.scopes[number].node):
            values = [value for value in self._base_values(file, node) if value.kind in ("class", "external")]
            is_known = is_known and bool(values)
            bases += values
        return bases, is_known

    def _base_values(self, file: SyntaxFile, node: SyntaxNode) -> tuple[Value, ...]:
        fields = file.role_fields(node, "generic")
        if fields is not None:
            node = child_of(node, fields[0]) or node
        return self._resolver.values(file, node)

    def _find_scope(self, place: NamePlace) -> tuple[SyntaxFile, int] | None:
        file = self._resolver.project.read(place.path)
        if file is None:
            return None
        found = self._resolver.project.binding_at(place)
        node = found[1].statement if found is not None else self._resolver.style(file).unnamed_class(file, place)
        return next(((file, number) for number in file.around(place.start) if file.scopes[number].node == node), None)
