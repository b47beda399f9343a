"""Go: which methods implement which interfaces, by the names and signatures of all methods of a type."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import dirname
from typing import NamedTuple

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.languages.go_signatures import are_compatible, read_signature
from context_engine.references.resolver import Resolver
from context_engine.references.values import Certainty, NamePlace, Value

EMBEDDING_DEPTH = 4
"""Levels of types that embed a type."""
EMBEDDERS_MAX = 200
"""Types that embed one type, directly or through others."""
FAMILY_MAX = 2_000
"""Methods of one name that are linked."""
REQUIRED_OUTSIDE = frozenset(
    (
        "Error/0/1 String/0/1 GoString/0/1 Format/2/0 Unwrap/0/1 Is/1/1 As/1/1 Timeout/0/1 Temporary/0/1 "
        "Len/0/1 Less/2/1 Swap/2/0 Push/1/0 Pop/0/1 Lock/0/0 Unlock/0/0 "
        "Read/1/2 Write/1/2 Close/0/1 Seek/2/2 ReadAt/2/2 WriteAt/2/2 ReadFrom/1/2 WriteTo/1/2 ReadByte/0/2 "
        "UnreadByte/0/1 WriteByte/1/1 ReadRune/0/3 UnreadRune/0/1 WriteString/1/2 "
        "MarshalJSON/0/2 UnmarshalJSON/1/1 MarshalText/0/2 UnmarshalText/1/1 MarshalBinary/0/2 UnmarshalBinary/1/1 "
        "MarshalXML/2/1 UnmarshalXML/2/1 MarshalYAML/0/2 UnmarshalYAML/1/1 GobEncode/0/2 GobDecode/1/1 "
        "Scan/1/1 Scan/2/1 Value/0/2 Value/1/1 Deadline/0/2 Done/0/1 Err/0/1 "
        "ServeHTTP/2/0 RoundTrip/1/2 Header/0/1 WriteHeader/1/0 Flush/0/0 Hijack/0/3 "
        "Set/1/1 Type/0/1 Get/0/1 Name/0/1 Size/0/1 Mode/0/1 ModTime/0/1 IsDir/0/1 Sys/0/1 Info/0/2 "
        "Open/1/2 Stat/0/2 Stat/1/2 ReadDir/1/2 ReadFile/1/2 Accept/0/2 Addr/0/1 Network/0/1 LocalAddr/0/1 "
        "RemoteAddr/0/1 SetDeadline/1/1 SetReadDeadline/1/1 SetWriteDeadline/1/1 "
        "Enabled/2/1 Handle/2/1 WithAttrs/1/1 WithGroup/1/1 LogValue/0/1 Int63/0/1 Seed/1/0 Uint64/0/1"
    ).split()
)
"""Methods that interfaces of the standard library, YAML and command line flags require: name/parameters/results."""
WITHOUT_INTERFACE = ("sync.",)
"""Packages whose types are embedded for their own methods only."""


class _Method(NamedTuple):
    """A method of a type, or one that an interface requires; `owner` is that type."""

    name: str
    place: NamePlace
    owner: NamePlace
    file: SyntaxFile
    node: SyntaxNode

    @property
    def is_required(self) -> bool:
        """Whether an interface declares it."""
        return self.node.type == "method_elem"


class InterfaceMatcher:
    """Links the methods of interfaces with those of the types that have all methods of the interface."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._named: dict[str, list[_Method]] = {}
        self._required: dict[NamePlace, list[_Method]] = {}
        self._embedders: dict[NamePlace, list[NamePlace]] = {}
        self._fits: dict[tuple[NamePlace, NamePlace], Certainty | None] = {}
        self._folders: dict[str, frozenset[str]] = {}
        self._pairs: dict[tuple[NamePlace, NamePlace], Certainty | None] = {}

    def find_interface_methods(self, name: str, place: NamePlace) -> list[NamePlace]:
        """Return the methods of interfaces that a method implements."""
        return [other.place for other, certainty in self._links(name, place, is_above=True) if certainty == "exact"]

    def find_implementing_methods(self, name: str, place: NamePlace) -> list[NamePlace]:
        """Return the methods of types that implement a method of an interface."""
        links = self._links(name, place, is_above=False)
        return [other.place for other, certainty in links if certainty == "exact" and not other.is_required]

    def find_implementing_types(self, interface: NamePlace) -> list[NamePlace]:
        """Return the types that have all methods of an interface, without other interfaces."""
        required = self._required_by(interface)
        if not required:
            return []
        rarest = min(required, key=lambda one: len(self._resolver.project.defining(one.name)))
        owners = [one.owner for one in self._methods_named(rarest.name) if one.owner != interface]
        holders = [holder for owner in dict.fromkeys(owners) for holder in (owner, *self._all_embedders(owner))]
        found = dict.fromkeys(holder for holder in holders if self._fit(holder, interface) == "exact")
        return [place for place in found if not self._required_by(place)]

    def find_family(self, name: str, start: NamePlace) -> list[NamePlace]:
        """Return a method with all methods that must keep its name for the same types to satisfy the same interfaces.

        Other declarations of the method, for other systems, are among them.
        """
        family, waiting = {start}, [start]
        while waiting and len(family) < FAMILY_MAX:
            place = waiting.pop()
            linked = {other.place for other, certainty in self._all_links(name, place) if certainty == "exact"}
            own = self._method_at(name, place)
            if own is not None:
                twins = (one for one in self._methods_named(name) if one.owner == own.owner)
                linked |= {one.place for one in twins}
            waiting += linked - family
            family |= linked
        return sorted(family)

    def find_open_links(self, name: str, place: NamePlace) -> list[NamePlace]:
        """Return the methods that may be linked with one, by what types of libraries have that are embedded."""
        return [other.place for other, certainty in self._all_links(name, place) if certainty == "possible"]

    def may_be_required_outside(self, name: str, place: NamePlace) -> bool:
        """Whether a well-known interface requires a method, or its type embeds something of a library that may."""
        own = self._method_at(name, place)
        if own is None or own.is_required:
            return False
        given, results = read_signature(own.node)
        if f"{name}/{len(given)}/{len(results)}" in REQUIRED_OUTSIDE:
            return True
        bases, _ = self._resolver.members.bases(own.owner)
        outside = [base.name for base in bases if base.kind == "external"]
        return name[:1].isupper() and any(not one.startswith(WITHOUT_INTERFACE) for one in outside)

    # -- links --

    def _all_links(self, name: str, place: NamePlace) -> Iterator[tuple[_Method, Certainty]]:
        yield from self._links(name, place, is_above=True)
        yield from self._links(name, place, is_above=False)

    def _links(self, name: str, place: NamePlace, *, is_above: bool) -> Iterator[tuple[_Method, Certainty]]:
        own = self._method_at(name, place)
        if own is None:
            return
        for other in self._methods_named(name):
            if own.owner != other.owner:
                certainty = self._judge_pair(other, own) if is_above else self._judge_pair(own, other)
                if certainty is not None:
                    yield other, certainty

    def _judge_pair(self, required: _Method, method: _Method) -> Certainty | None:
        """Return whether a method implements one of an interface, for its own type or one that embeds it."""
        is_seen = required.name[:1].isupper() or dirname(required.place.path) == dirname(method.place.path)
        if not required.is_required or not is_seen:
            return None
        key = (required.place, method.place)
        if key not in self._pairs:
            self._pairs[key] = self._find_pair(required, method)
        return self._pairs[key]

    def _find_pair(self, required: _Method, method: _Method) -> Certainty | None:
        if not self._is_compatible(required, method):
            return None
        best = self._fit(method.owner, required.owner)
        if best == "exact":
            return best
        for holder in self._all_embedders(method.owner):
            fit = self._fit(holder, required.owner)
            if fit is not None and method.place in self._find_member(holder, method.name)[0]:
                best = fit
                if fit == "exact":
                    return fit
        return best

    def _fit(self, holder: NamePlace, interface: NamePlace) -> Certainty | None:
        """Return whether a type has all methods of an interface; possible, where a type of a library may have some."""
        key = (holder, interface)
        if key not in self._fits:
            self._fits[key] = None if holder == interface else self._find_fit(holder, interface)
        return self._fits[key]

    def _find_fit(self, holder: NamePlace, interface: NamePlace) -> Certainty | None:
        is_sure = True
        bases, is_known = self._resolver.members.bases(holder)
        required = self._required_by(interface)
        if is_known and not bases:
            folder = dirname(holder.path)
            if any(folder not in self._folders_defining(one.name) for one in required):
                return None
        for one in required:
            places, is_known = self._find_member(holder, one.name)
            methods = [method for place in places if (method := self._method_at(one.name, place)) is not None]
            if not any(self._is_compatible(one, method) for method in methods):
                if places or is_known:
                    return None
                is_sure = False
        return "exact" if is_sure else "possible"

    def _is_compatible(self, one: _Method, other: _Method) -> bool:
        if one.place == other.place:
            return True
        return are_compatible(self._resolver, (one.file, one.node), (other.file, other.node))

    # -- what types have --

    def _methods_named(self, name: str) -> list[_Method]:
        """Return all methods of a name in the project."""
        known = self._named.get(name)
        if known is None:
            known = self._named[name] = []
            for file in filter(None, map(self._resolver.project.read, self._resolver.project.defining(name))):
                if self._resolver.style(file).implements_by_methods:
                    known += self._methods_in(file, name)
        return known

    def _methods_in(self, file: SyntaxFile, name: str) -> Iterator[_Method]:
        for binding in file.bindings(name):
            node = binding.statement
            if node.type in ("method_declaration", "method_elem"):
                place = NamePlace(file.path, binding.node.start_byte)
                for owner in self._resolver.style(file).class_of_member(file, binding):
                    yield _Method(name, place, owner.place, file, node)

    def _method_at(self, name: str, place: NamePlace) -> _Method | None:
        return next((one for one in self._methods_named(name) if one.place == place), None)

    def _find_member(self, holder: NamePlace, name: str) -> tuple[list[NamePlace], bool]:
        return self._resolver.members.find(Value("class", holder), name)

    def _folders_defining(self, name: str) -> frozenset[str]:
        if name not in self._folders:
            self._folders[name] = frozenset(map(dirname, self._resolver.project.defining(name)))
        return self._folders[name]

    def _required_by(self, interface: NamePlace) -> list[_Method]:
        """Return the methods that an interface requires, by itself and by those that it embeds."""
        known = self._required.get(interface)
        if known is None:
            self._required[interface] = []  # an interface that embeds itself
            known = self._required[interface] = self._find_required(interface)
        return known

    def _find_required(self, interface: NamePlace) -> list[_Method]:
        bound = self._resolver.project.binding_at(interface)
        written = bound[1].statement.child_by_field_name("type") if bound is not None else None
        if bound is None or written is None or written.type != "interface_type":
            return []
        found: list[_Method] = []
        for node in written.named_children:
            named = node.child_by_field_name("name") if node.type == "method_elem" else None
            if named is not None:
                place = NamePlace(interface.path, named.start_byte)
                found.append(_Method(bound[0].text(named), place, interface, bound[0], node))
        for base in self._resolver.members.bases(interface)[0]:
            if base.kind == "class":
                found += self._required_by(base.place)
        return found

    # -- embedding --

    def _all_embedders(self, start: NamePlace) -> list[NamePlace]:
        """Return the types that embed a type, directly or through others, the nearest first."""
        found: dict[NamePlace, None] = {}
        wave = [start]
        for _ in range(EMBEDDING_DEPTH):
            wave = [child for place in wave for child in self._embedders_of(place) if child not in found]
            found.update(dict.fromkeys(wave))
            if not wave or len(found) > EMBEDDERS_MAX:
                break
        return [place for place in found if place != start]

    def _embedders_of(self, place: NamePlace) -> list[NamePlace]:
        known = self._embedders.get(place)
        if known is None:
            known = self._embedders[place] = list(dict.fromkeys(self._find_embedders(place)))
        return known

    def _find_embedders(self, place: NamePlace) -> Iterator[NamePlace]:
        project = self._resolver.project
        bound = project.binding_at(place)
        word = bound[1].name if bound is not None else ""
        for path in project.holding(word) if word else ():
            if _names_alone(project.load(path), word.encode()):
                file = project.read(path)
                if file is not None and self._resolver.style(file).implements_by_methods:
                    yield from self._embedding_in(file, word, place)

    def _embedding_in(self, file: SyntaxFile, word: str, place: NamePlace) -> Iterator[NamePlace]:
        style = self._resolver.style(file)
        for number, scope in enumerate(file.scopes):
            if scope.role != "class" or not any(word in file.text(node) for node in style.base_nodes(file, scope.node)):
                continue
            for value in style.class_of_scope(file, number, "class"):
                bases, _ = self._resolver.members.bases(value.place)
                if any(base.place == place for base in bases if base.kind == "class"):
                    yield value.place


def _names_alone(data: bytes, word: bytes) -> bool:
    """Return whether a line may embed a type: its name, perhaps with a package, arguments, a tag or a comment.

    >>> [_names_alone(line, b"Door") for line in (b" *cage.Door `json`", b" Door[int] // x", b" Door Door", b"Doors")]
    [True, True, False, False]
    """
    for line in data.splitlines() if word in data else ():
        if word in line:
            first = line.partition(b"//")[0].partition(b"`")[0].strip().lstrip(b"*").partition(b"[")[0]
            if first.rpartition(b".")[2] == word or b"{" in first:
                return True
    return False
