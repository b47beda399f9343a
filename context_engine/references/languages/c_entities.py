"""What C and C++ files declare together: a name in a scope, with its declarations, its definition and its overloads."""

from __future__ import annotations

import re
from functools import cache, lru_cache, partial
from typing import Literal, NamedTuple

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, resolve_import
from context_engine.references.module_styles import ModuleStyle, places_of
from context_engine.references.nodes import children, get, has, up
from context_engine.references.values import NamePlace

EntityKind = Literal["value", "macro", "class", "type", "namespace"]
ScopePath = tuple[str, ...]
"""The names of the namespaces and classes around a name, from the outside."""
EntityKey = tuple[EntityKind, ScopePath, str]

KINDS: dict[str, EntityKind] = {"class": "class", "alias": "type", "namespace": "namespace"}
CLASSES = ("struct_specifier", "union_specifier", "class_specifier", "enum_specifier")
SOURCES = (".c", ".cc", ".cpp", ".cxx", ".c++")
HEADERS = (".h", ".hpp", ".hh", ".def")
INCLUDED_MAX = 1_000
"""Files looked at for what a file includes, directly or not."""
QUALIFIERS_MAX = 12
WRITTEN_AROUND = ("template_function", "template_type", "dependent_name", "destructor_name")
_INCLUDE = re.compile(rb"^[ \t]{0,40}#[ \t]{0,20}(?:include|import)[ \t]{0,20}[\"<]([^\">\n]{1,200})", re.MULTILINE)
_USING = re.compile(rb"\busing[ \t]{1,9}(namespace[ \t]{1,9})?([A-Za-z_:][\w:]{0,120})[ \t]{0,9};")


class Entity(NamedTuple):
    """One thing with all places that declare it. `local` is its only file, if others cannot mean it."""

    kind: EntityKind
    path: ScopePath
    local: str
    is_member: bool
    places: tuple[NamePlace, ...]


class CEntities:
    """Everything that the C and C++ files of a project declare outside of functions."""

    def __init__(self, style: ModuleStyle) -> None:
        self._project = style.project
        self._read_own = style.read_own
        self._named: dict[str, list[Entity]] = {}
        self.types_named = cache(partial(self._collect, only_types=True))
        self.included_by = cache(self._find_included)
        self._included_directly = cache(self._find_directly_included)
        self._text = cache(self._project.load)

    def find(self, name: str) -> list[Entity]:
        """Return everything of a name in the project that is not inside of a function."""
        if name not in self._named:
            self._named[name] = self.types_named(name)  # the types only, where it is asked for inside of itself
            self._named[name] = self._collect(name, only_types=False)
        return self._named[name]

    def _collect(self, name: str, *, only_types: bool) -> list[Entity]:
        found: dict[EntityKey, Entity] = {}
        bound = [(file, one) for file in self._read_own(name) for one in file.bindings(name)]
        for file, binding in bound:
            is_wanted = binding.role != "parameter" and not (only_types and entity_kind(binding) not in KINDS.values())
            key = self.key_of(file, binding) if is_wanted else None
            if key is None:
                continue
            is_member = file.scopes[binding.scope].node.type in CLASSES or is_qualified(binding)
            before = found.get(key, Entity(*key, is_member, ()))
            places = (*before.places, *places_of(file, [binding]))
            found[key] = before._replace(places=places, is_member=before.is_member and is_member)
        listed = [one for entity in found.values() for one in self._split(entity)]
        return [_with_alias(one, listed) for one in listed]

    def _split(self, entity: Entity) -> list[Entity]:
        """Return a thing for each source file that defines it, if several do and no header declares it: programs."""
        files = {place.path for place in entity.places}
        if len(files) < 2 or entity.local or not all(path.endswith(SOURCES) for path in files):
            return [entity]
        bound = [found for found in map(self._project.binding_at, entity.places) if found is not None]
        bodies = {file.path for file, one in bound if one.role == "alias" or get(one.statement, "body")}
        if len(bodies) < 2:
            return [entity]
        own = {path: tuple(place for place in entity.places if place.path == path) for path in sorted(files)}
        return [entity._replace(local=path, places=places) for path, places in own.items()]

    def of_binding(self, file: SyntaxFile, binding: NameBinding) -> Entity | None:
        """Return the entity that a binding declares; None for a thing of a function."""
        if self.key_of(file, binding) is None:
            return None
        place = NamePlace(file.path, binding.node.start_byte)
        return next((one for one in self.find(binding.name) if place in one.places), None)

    def key_of(self, file: SyntaxFile, binding: NameBinding) -> EntityKey | None:
        """Return what the declarations of one thing share; None for a thing of a function."""
        kind = entity_kind(binding)
        if kind == "macro":
            return kind, (), file.path
        if binding.scope < 0:
            return None
        path, is_local = path_of_scope(file, binding.scope)
        if path is None:  # a declaration inside of a function may be one of a global thing
            is_extern = binding.role == "function" and binding.statement.type == "declaration"
            return (kind, (), "") if is_extern else None
        written = tuple(qualifiers(file, binding.node) or ())
        if binding.statement.type == "namespace_definition":
            path = (*path, *written)
        elif is_qualified(binding):
            scope = get(binding.node, "^scope")
            if scope.type == "template_type" and up(binding.statement).type != "template_declaration":
                return kind, (*path, "".join(file.text(scope).split())), ""  # `void Cage<Cat>::open() {}`
            path = self.find_scope(path, written) or (*path, *written)
        is_local = is_local or (not path and kind == "value" and _is_static(file, binding))
        return kind, path, file.path if is_local else ""

    def find_scope(self, around: ScopePath, names: ScopePath) -> ScopePath | None:
        """Return the full path of a class or a namespace that is written with some names inside of a scope."""
        if not names:
            return ()
        types, before = self.types_named(names[-1]), names[:-1]
        for count in range(len(around), -1, -1):
            if any(one.path == (*around[:count], *before) for one in types):
                return (*around[:count], *names)
        ending = [one for one in types if one.path[len(one.path) - len(before) :] == before]
        paths = {one.path for one in ending if len(names) > 1 or one.kind == "class"}
        return (*next(iter(paths)), names[-1]) if len(paths) == 1 else None

    # -- includes --

    def _find_included(self, file: SyntaxFile) -> frozenset[str]:
        """Return a file with all project files that it includes, directly or not."""
        seen, waiting = {file.path}, [file.path]
        while waiting and len(seen) < INCLUDED_MAX:
            new = set(self._included_directly(file, waiting.pop())) - seen
            seen |= new
            waiting += new
        return frozenset(seen)

    def _find_directly_included(self, file: SyntaxFile, path: str) -> list[str]:
        targets = [found[1].decode("utf-8", "replace") for found in _INCLUDE.finditer(self._text(path))]
        found = [resolve_import(file.language, path, target, self._project.paths) for target in targets]
        return [paths[0] for paths in found if paths]

    def is_in_headers(self, paths: frozenset[str], name: str) -> bool:
        """Whether one of the headers among some files has a name in its text."""
        return any(name.encode() in self._text(path) for path in paths if path.endswith(HEADERS))


def _with_alias(entity: Entity, listed: list[Entity]) -> Entity:
    """Return `typedef struct cat cat` and `struct cat` as one thing with two kinds."""
    if entity.kind not in ("class", "type"):
        return entity
    same = [one for one in listed if one.kind in ("class", "type") and one[1:3] == entity[1:3]]
    return entity._replace(places=tuple(dict.fromkeys(place for one in same for place in one.places)))


def entity_kind(binding: NameBinding) -> EntityKind:
    """Return the kind of what a binding declares."""
    return "macro" if binding.statement.type.startswith("preproc_") else KINDS.get(binding.role, "value")


def is_qualified(binding: NameBinding) -> bool:
    """Whether a definition is written with its scope: `void Cat::purr() {}`."""
    outer = up(binding.node)
    outer = up(outer) if outer.type in ("destructor_name", "template_function") else outer
    return outer.type == "qualified_identifier"


def _is_static(file: SyntaxFile, binding: NameBinding) -> bool:
    """Whether another declaration of a name in its file, or this one, is for this file only."""
    at_top = [one for one in file.bindings_in(binding.name, 0) if one.role in ("function", "variable")]
    marks = [mark for one in (binding, *at_top) for mark in children(one.statement, "storage_class_specifier")]
    return binding.name == "main" or any(file.text(mark) == "static" for mark in marks)


def specifier_name(node: SyntaxNode) -> SyntaxNode:
    """Return the node that names a class or an enum, without the arguments of a template."""
    name = get(node, "name")
    while name.type in ("template_type", "qualified_identifier"):
        name = get(name, "name")
    return name


def class_place(file: SyntaxFile, node: SyntaxNode) -> NamePlace:
    """Return the place of a class: that of its name, or that of its first word if it has none."""
    return NamePlace(file.path, (specifier_name(node) or node).start_byte)


def path_of_scope(file: SyntaxFile, number: int) -> tuple[ScopePath | None, bool]:
    """Return the names around a scope, and whether it is in a namespace without a name; None inside of a function."""
    names: list[str] = []
    is_local = False
    while number > 0:
        scope = file.scopes[number]
        if scope.role == "namespace":
            named = get(scope.node, "name")
            is_local = is_local or not named
            if named and not has(scope.node, "inline"):
                names[:0] = file.text(named).replace(" ", "").split("::")
        elif scope.node.type in CLASSES and get(scope.node, "body"):
            written = specifier_name(scope.node)
            case = get(written, "<template_type")  # a special case of a template has its arguments in its name
            own = "".join(file.text(case or written).split()) or f"<{file.path}:{scope.node.start_byte}>"
            names[:0] = [*(qualifiers(file, written) or ()), own]
        elif scope.node.type not in ("template_declaration", *CLASSES):
            return None, True
        number = scope.parent
    return tuple(names), is_local


def qualifiers(file: SyntaxFile, node: SyntaxNode) -> list[str] | None:
    """Return the names before an identifier in `a::b::name`; None for a plain name, empty for `::name`."""
    at, names, is_written = node, list[str](), False
    for _ in range(QUALIFIERS_MAX):
        outer = up(at)
        if outer.type == "qualified_identifier":
            scope = get(outer, "scope")
            if scope != at:
                is_written = True
                names[:0] = [file.text(get(scope, "name") or scope)] if scope else []
        elif outer.type == "nested_namespace_specifier":
            before = [file.text(one) for one in outer.named_children if one.start_byte < at.start_byte]
            names[:0] = before
            is_written = is_written or bool(before)
        elif outer.type not in WRITTEN_AROUND or get(outer, "arguments") == at:
            break
        at = outer
    return names if is_written else None


def declared_scope(file: SyntaxFile, function: SyntaxNode) -> ScopePath:
    """Return the scope that a function is written with: `a::Cat` of `void a::Cat::purr() {}`."""
    at = get(function, "declarator") if function.type == "function_definition" else None
    names: list[str] = []
    while at and at.type != "qualified_identifier":
        inner = [one for one in at.named_children if one.type.endswith("declarator")]
        at = get(at, "declarator") or next(iter(inner), None)
    while at and at.type == "qualified_identifier":
        scope = get(at, "scope")
        names += [file.text(get(scope, "name") or scope)] if scope else []
        at = get(at, "name")
    return tuple(names)


@lru_cache(maxsize=512)
def used_namespaces(file: SyntaxFile) -> tuple[tuple[ScopePath, str], ...]:
    """Return what `using` brings into a file: the names of a scope, and one name of it; empty for all of them."""
    found: list[tuple[ScopePath, str]] = []
    for match in _USING.finditer(file.data):
        names = tuple(match[2].decode().replace(" ", "").strip(":").split("::"))
        if match[1]:
            found.append((names, ""))
        elif len(names) > 1:
            found.append((names[:-1], names[-1]))
    return tuple(found)
