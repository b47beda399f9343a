"""Go: which methods implement which interfaces, by the names and signatures of all methods of a type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from posixpath import dirname
from typing import TYPE_CHECKING, NamedTuple

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.call_signatures import read_parameter_list
from context_engine.references.module_styles import places_of
from context_engine.references.nodes import children, get
from context_engine.references.values import Certainty, NamePlace, Value, remember

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver

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


COMPOSED = frozenset(("pointer_type", "slice_type", "array_type", "map_type", "channel_type", "function_type"))
"""Types that are written with signs, which no predeclared type and no other of these is."""
SAME_NAMES = {"byte": "uint8", "rune": "int32"}
VARIABLE_NAMES = frozenset(("any", "comparable"))
"""Predeclared names of interfaces, which may also be written out."""


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
        self._project = resolver.project
        self._required_by = remember(self._find_required, [])  # by an interface that embeds itself
        self._methods_named = cache(self._find_methods)
        self._embedders_of = cache(self._find_embedders)
        self._fit = cache(self._find_fit)
        self._pair = cache(self._find_pair)

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
        rarest = min(required, key=lambda one: len(self._project.defining(one.name)))
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
            linked |= {one.place for one in self._methods_named(name) if own is not None and one.owner == own.owner}
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
        given, results = _read_types(own)
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
        for other in self._methods_named(name):
            if own is not None and own.owner != other.owner:
                required, method = (other, own) if is_above else (own, other)
                is_seen = name[:1].isupper() or dirname(required.place.path) == dirname(method.place.path)
                certainty = self._pair(required, method) if required.is_required and is_seen else None
                if certainty is not None:
                    yield other, certainty

    def _find_pair(self, required: _Method, method: _Method) -> Certainty | None:
        """Return whether a method implements one of an interface, for its own type or one that embeds it."""
        if not self._are_compatible(required, method):
            return None
        best = self._fit(method.owner, required.owner)
        for holder in self._all_embedders(method.owner) if best != "exact" else ():
            fit = self._fit(holder, required.owner)
            if fit is not None and method.place in self._find_member(holder, method.name)[0]:
                best = fit
                if fit == "exact":
                    break
        return best

    def _find_fit(self, holder: NamePlace, interface: NamePlace) -> Certainty | None:
        """Return whether a type has all methods of an interface; possible, where a type of a library may have some."""
        if holder == interface:
            return None
        is_sure = True
        bases, is_known = self._resolver.members.bases(holder)
        required = self._required_by(interface)
        if is_known and not bases:
            folder = dirname(holder.path)
            if any(folder not in map(dirname, self._project.defining(one.name)) for one in required):
                return None
        for one in required:
            places, is_known = self._find_member(holder, one.name)
            methods = [method for place in places if (method := self._method_at(one.name, place)) is not None]
            if not any(self._are_compatible(one, method) for method in methods):
                if places or is_known:
                    return None
                is_sure = False
        return "exact" if is_sure else "possible"

    # -- signatures --

    def _are_compatible(self, one: _Method, other: _Method) -> bool:
        """Whether two methods have as many parameters and results, and none that are certainly of other types."""
        if one.place == other.place:
            return True
        for mine, others in zip(_read_types(one), _read_types(other), strict=True):
            pairs = [((one.file, left), (other.file, right)) for left, right in zip(mine, others, strict=False)]
            if len(mine) != len(others) or any(self._differ(left, right) for left, right in pairs):
                return False
        return True

    def _differ(self, one: tuple[SyntaxFile, SyntaxNode], other: tuple[SyntaxFile, SyntaxNode]) -> bool:
        """Return whether two types are certainly different: an alias or a type parameter may be anything."""
        kinds = {one[1].type, other[1].type}
        if "variadic_parameter_declaration" in kinds or (kinds <= COMPOSED and len(kinds) > 1):
            return len(kinds) > 1
        if kinds <= COMPOSED:
            is_plain = kinds <= {"pointer_type", "slice_type"}
            return is_plain and self._differ((one[0], get(one[1], ".")), (other[0], get(other[1], ".")))
        names = {self._identity(*one), self._identity(*other)}
        return names != {None} if kinds & COMPOSED else None not in names and len(names) > 1

    def _identity(self, file: SyntaxFile, node: SyntaxNode) -> str | NamePlace | None:
        """Return which predeclared type, or which type of the project, is written; None if it may be another."""
        if node.type not in ("type_identifier", "qualified_type"):
            return None
        found, text = self._resolver.type_values(file, node), file.text(node)
        if len(found) == 1 and found[0].kind == "instance":
            bound = self._project.binding_at(found[0].place)
            return found[0].place if bound is not None and bound[1].role == "class" else None
        is_predeclared = node.type == "type_identifier" and text in file.rules.builtins and text not in VARIABLE_NAMES
        return SAME_NAMES.get(text, text) if is_predeclared else None

    # -- what types have --

    def _files(self, paths: Iterator[str]) -> Iterator[SyntaxFile]:
        for file in filter(None, map(self._project.read, paths)):
            if self._resolver.style(file).implements_by_methods:
                yield file

    def _find_methods(self, name: str) -> list[_Method]:
        """Return all methods of a name in the project."""
        found: list[_Method] = []
        for file in self._files(iter(self._project.defining(name))):
            for binding in file.bindings(name):
                if binding.statement.type in ("method_declaration", "method_elem"):
                    place = places_of(file, [binding])[0]
                    owners = self._resolver.style(file).class_of_member(file, binding)
                    found += [_Method(name, place, owner.place, file, binding.statement) for owner in owners]
        return found

    def _method_at(self, name: str, place: NamePlace) -> _Method | None:
        return next((one for one in self._methods_named(name) if one.place == place), None)

    def _find_member(self, holder: NamePlace, name: str) -> tuple[list[NamePlace], bool]:
        return self._resolver.members.find(Value("class", holder), name)

    def _find_required(self, interface: NamePlace) -> list[_Method]:
        """Return the methods that an interface requires, by itself and by those that it embeds."""
        bound = self._project.binding_at(interface)
        if bound is None or get(bound[1].statement, "type").type != "interface_type":
            return []
        file, found = bound[0], list[_Method]()
        for node in children(get(bound[1].statement, "type"), "method_elem"):
            named = get(node, "name")
            place = NamePlace(interface.path, named.start_byte)
            found.append(_Method(file.text(named), place, interface, file, node))
        bases = [base.place for base in self._resolver.members.bases(interface)[0] if base.kind == "class"]
        return found + [method for base in bases for method in self._required_by(base)]

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

    def _find_embedders(self, place: NamePlace) -> list[NamePlace]:
        bound = self._project.binding_at(place)
        word = bound[1].name if bound is not None else ""
        paths = (path for path in self._project.holding(word) if _names_alone(self._project.load(path), word.encode()))
        found = [child for file in self._files(paths if word else iter(())) for child in self._embedding_in(file, word)]
        bases = ((child, self._resolver.members.bases(child)[0]) for child in dict.fromkeys(found))
        return [child for child, above in bases if any(one.kind == "class" and one.place == place for one in above)]

    def _embedding_in(self, file: SyntaxFile, word: str) -> Iterator[NamePlace]:
        """Yield the types of a file that embed something of a name."""
        style = self._resolver.style(file)
        for number, scope in enumerate(file.scopes):
            if scope.role == "class" and any(word in file.text(node) for node in style.base_nodes(file, scope.node)):
                yield from (value.place for value in style.class_of_scope(file, number, "class"))


def _read_types(method: _Method) -> tuple[list[SyntaxNode], list[SyntaxNode]]:
    """Return the types of the parameters of a method, and those of its results."""
    result = get(method.node, "result")
    results = _types_in(method.file, result) if result.type == "parameter_list" else [result][: bool(result)]
    return _types_in(method.file, get(method.node, "parameters")), results


def _types_in(file: SyntaxFile, listed: SyntaxNode) -> list[SyntaxNode]:
    """Return the type of each parameter: two for `a, b int`. A variadic one is its whole declaration."""
    parameters = read_parameter_list(file, listed)
    return [one.node if one.rest else one.type for one in parameters for _ in one.names or "-"]


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
