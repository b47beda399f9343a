"""What C and C++ files declare together: a name in a scope, with its declarations, its definition and its overloads."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, resolve_import
from context_engine.references.values import NamePlace

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver

EntityKind = Literal["value", "macro", "class", "type", "namespace"]
ScopePath = tuple[str, ...]
"""The names of the namespaces and classes around a name, from the outside."""

KINDS: dict[str, EntityKind] = {"class": "class", "alias": "type", "namespace": "namespace"}
TYPE_KINDS: tuple[EntityKind, ...] = ("namespace", "class", "type")
CLASSES = ("struct_specifier", "union_specifier", "class_specifier", "enum_specifier")
SOURCES = (".c", ".cc", ".cpp", ".cxx", ".c++")
INCLUDED_MAX = 1_000
"""Files looked at for what a file includes, directly or not."""
QUALIFIERS_MAX = 12
WRITTEN_AROUND = ("template_function", "template_type", "dependent_name", "destructor_name")
_INCLUDE = re.compile(rb"^[ \t]{0,40}#[ \t]{0,20}(?:include|import)[ \t]{0,20}[\"<]([^\">\n]{1,200})", re.MULTILINE)


class Entity(NamedTuple):
    """One thing with all places that declare it. `local` is its only file, if others cannot mean it.

    A name `is_replaced` if a macro without parameters gives another name for it.
    """

    kind: EntityKind
    path: ScopePath
    local: str
    is_member: bool
    places: tuple[NamePlace, ...]
    is_replaced: bool = False


# -- scopes -----------------------------------------------------------------------------------------------------------


def specifier_name(node: SyntaxNode) -> SyntaxNode | None:
    """Return the node that names a class or an enum, without the arguments of a template; None if it has no name."""
    name = node.child_by_field_name("name")
    while name is not None and name.type in ("template_type", "qualified_identifier"):
        name = name.child_by_field_name("name")
    return name


def class_place(file: SyntaxFile, node: SyntaxNode) -> NamePlace:
    """Return the place of a class: that of its name, or that of its first word if it has none."""
    named = specifier_name(node)
    return NamePlace(file.path, (named if named is not None else node).start_byte)


def path_of_scope(file: SyntaxFile, number: int) -> tuple[ScopePath | None, bool]:
    """Return the names around a scope, and whether it is in a namespace without a name; None inside of a function."""
    names: list[str] = []
    is_local = False
    while number > 0:
        scope = file.scopes[number]
        if scope.role == "namespace":
            named = scope.node.child_by_field_name("name")
            is_inline = any(child.type == "inline" for child in scope.node.children)
            is_local = is_local or named is None
            if named is not None and not is_inline:
                names[:0] = file.text(named).replace(" ", "").split("::")
        elif scope.node.type in CLASSES and scope.node.child_by_field_name("body") is not None:
            written = specifier_name(scope.node)
            own = [_class_name(file, written)] if written is not None else [_typedef_name(file, scope.node)]
            names[:0] = [*(qualifiers(file, written) or ()), *own] if written is not None else own
        elif scope.node.type != "template_declaration" and scope.node.type not in CLASSES:
            return None, True
        number = scope.parent
    return tuple(names), is_local


def _class_name(file: SyntaxFile, written: SyntaxNode) -> str:
    """Return the name of a class; that of a special case of a template has its arguments."""
    if written.parent is not None and written.parent.type == "template_type":
        return "".join(file.text(written.parent).split())
    return file.text(written)


def _typedef_name(file: SyntaxFile, node: SyntaxNode) -> str:
    """Return a name for a struct without one; no other can be written like it."""
    return f"<{file.path}:{node.start_byte}>"


def qualifiers(file: SyntaxFile, node: SyntaxNode) -> list[str] | None:
    """Return the names before an identifier in `a::b::name`; None for a plain name, empty for `::name`."""
    at, names, is_qualified = node, [], False
    for _ in range(QUALIFIERS_MAX):
        outer = at.parent
        if outer is None:
            break
        if outer.type == "qualified_identifier":
            scope = outer.child_by_field_name("scope")
            if scope != at:
                is_qualified = True
                if scope is not None:
                    inner = scope.child_by_field_name("name") or scope
                    names.insert(0, file.text(inner))
        elif outer.type == "nested_namespace_specifier":
            before = [file.text(one) for one in outer.named_children if one.start_byte < at.start_byte]
            names[:0] = before
            is_qualified = is_qualified or bool(before)
        elif outer.type not in WRITTEN_AROUND or outer.child_by_field_name("arguments") == at:
            break
        at = outer
    return names if is_qualified else None


# -- entities ---------------------------------------------------------------------------------------------------------


def entities(resolver: Resolver, name: str) -> list[Entity]:
    """Return everything of a name in the project that is not inside of a function."""
    key = f"c entities {name}"
    known = resolver.kept.get(key)
    if not isinstance(known, list):
        resolver.kept[key] = types_named(resolver, name)  # the types only, where a name is asked for inside of itself
        known = resolver.kept[key] = _collect(resolver, name, is_type=None)
    return known


def types_named(resolver: Resolver, name: str) -> list[Entity]:
    """Return the namespaces, classes and other types of a name."""
    key = f"c types {name}"
    known = resolver.kept.get(key)
    if not isinstance(known, list):
        known = resolver.kept[key] = _collect(resolver, name, is_type=True)
    return known


def _collect(resolver: Resolver, name: str, *, is_type: bool | None) -> list[Entity]:
    found: dict[tuple[EntityKind, ScopePath, str], Entity] = {}
    for path in resolver.project.defining(name):
        file = resolver.project.read(path)
        if file is None or file.rules.style != "c":
            continue
        for binding in file.bindings(name):
            kind = entity_kind(binding)
            if (is_type and kind not in TYPE_KINDS) or binding.role == "parameter":
                continue
            key = entity_key(resolver, file, binding)
            if key is None:
                continue
            place = NamePlace(path, binding.node.start_byte)
            before = found.get(key)
            is_member = file.scopes[binding.scope].node.type in CLASSES or is_qualified(binding)
            if before is None:
                found[key] = Entity(*key, is_member, (place,), _is_replaced(binding))
            else:
                found[key] = before._replace(places=(*before.places, place), is_member=before.is_member and is_member)
    listed = [one for entity in found.values() for one in _split(resolver, entity)]
    return [_with_alias(one, listed) for one in listed]


def _with_alias(entity: Entity, listed: list[Entity]) -> Entity:
    """Return `typedef struct cat cat` and `struct cat` as one thing with two kinds."""
    if entity.kind not in ("class", "type"):
        return entity
    same = [one for one in listed if one.kind in ("class", "type") and one[1:3] == entity[1:3]]
    return entity._replace(places=tuple(dict.fromkeys(place for one in same for place in one.places)))


def _split(resolver: Resolver, entity: Entity) -> list[Entity]:
    """Return a thing for each source file that defines it, if several do and no header declares it: two programs."""
    files = {place.path for place in entity.places}
    if len(files) < 2 or entity.local or not all(path.endswith(SOURCES) for path in files):
        return [entity]
    bound = [(place, resolver.project.binding_at(place)) for place in entity.places]
    bodies = {place.path for place, at in bound if at is not None and _has_body(at[1])}
    if len(bodies) < 2:
        return [entity]
    return [
        entity._replace(local=path, places=tuple(place for place in entity.places if place.path == path))
        for path in sorted(files)
    ]


def _has_body(binding: NameBinding) -> bool:
    is_type = binding.role == "alias"
    return is_type or binding.statement.child_by_field_name("body") is not None


def entity_kind(binding: NameBinding) -> EntityKind:
    """Return the kind of what a binding declares."""
    return "macro" if binding.statement.type.startswith("preproc_") else KINDS.get(binding.role, "value")


def entity_key(resolver: Resolver, file: SyntaxFile, binding: NameBinding) -> tuple[EntityKind, ScopePath, str] | None:
    """Return what the declarations of one thing share; None for a thing of a function."""
    kind = entity_kind(binding)
    if kind == "macro":
        return kind, (), file.path
    if binding.scope < 0:
        return None
    around, is_local = path_of_scope(file, binding.scope)
    if around is None:
        return None if not _is_extern(binding) else (kind, (), "")
    if binding.statement.type == "namespace_definition":
        around = (*around, *(qualifiers(file, binding.node) or ()))
    elif is_qualified(binding):
        written = qualifiers(file, binding.node) or []
        case = _special_case(file, binding)
        if case:
            return kind, (*around, case), ""
        around = find_scope(resolver, around, written) or (*around, *written)
    is_local = is_local or (not around and kind == "value" and _is_static(file, binding))
    return kind, around, file.path if is_local else ""


def _special_case(file: SyntaxFile, binding: NameBinding) -> str:
    """Return the class of a member of a special case of a template: `Cage<Cat>` of `void Cage<Cat>::open() {}`."""
    outer = binding.node.parent
    scope = outer.child_by_field_name("scope") if outer is not None and outer.type == "qualified_identifier" else None
    at = binding.statement.parent
    if scope is None or scope.type != "template_type" or (at is not None and at.type == "template_declaration"):
        return ""
    return "".join(file.text(scope).split())


def is_qualified(binding: NameBinding) -> bool:
    """Whether a definition is written with its scope: `void Cat::purr() {}`."""
    outer = binding.node.parent
    if outer is not None and outer.type in ("destructor_name", "template_function"):
        outer = outer.parent
    return outer is not None and outer.type == "qualified_identifier"


def _is_extern(binding: NameBinding) -> bool:
    """Whether a declaration inside of a function is one of a global thing."""
    return binding.role == "function" and binding.statement.type == "declaration"


def _is_static(file: SyntaxFile, binding: NameBinding) -> bool:
    """Whether another declaration of a name in its file, or this one, is for this file only."""
    at_top = [one for one in file.bindings_in(binding.name, 0) if one.role in ("function", "variable")]
    return binding.name == "main" or any(
        child.type == "storage_class_specifier" and file.text(child) == "static"
        for one in (binding, *at_top)
        for child in one.statement.children
    )


def _is_replaced(binding: NameBinding) -> bool:
    return binding.statement.type == "preproc_def" and binding.statement.child_by_field_name("value") is not None


def find_scope(resolver: Resolver, around: ScopePath, names: list[str]) -> ScopePath | None:
    """Return the full path of a class or a namespace that is written with some names inside of a scope."""
    if not names:
        return ()
    for count in range(len(around), -1, -1):
        wanted = (*around[:count], *names[:-1])
        if any(one.path == wanted for one in types_named(resolver, names[-1])):
            return (*wanted, names[-1])
    before = tuple(names[:-1])
    ending = [one for one in types_named(resolver, names[-1]) if one.path[len(one.path) - len(before) :] == before]
    paths = {one.path for one in ending if len(names) > 1 or one.kind == "class"}
    return (*next(iter(paths)), names[-1]) if len(paths) == 1 else None


def entity_of(resolver: Resolver, file: SyntaxFile, binding: NameBinding) -> Entity | None:
    """Return the entity that a binding declares; None for a thing of a function."""
    if entity_key(resolver, file, binding) is None:
        return None
    place = NamePlace(file.path, binding.node.start_byte)
    return next((one for one in entities(resolver, binding.name) if place in one.places), None)


# -- includes ---------------------------------------------------------------------------------------------------------


def find_included(resolver: Resolver, file: SyntaxFile) -> frozenset[str]:
    """Return a file with all project files that it includes, directly or not."""
    key = f"c included {file.path}"
    known = resolver.kept.get(key)
    if isinstance(known, frozenset):
        return known
    seen, waiting = {file.path}, [file.path]
    while waiting and len(seen) < INCLUDED_MAX:
        for path in _includes(resolver, file, waiting.pop()):
            if path not in seen:
                seen.add(path)
                waiting.append(path)
    resolver.kept[key] = found = frozenset(seen)
    return found


def _includes(resolver: Resolver, file: SyntaxFile, path: str) -> list[str]:
    key = f"c includes {path}"
    known = resolver.kept.get(key)
    if not isinstance(known, list):
        data = file.data if path == file.path else resolver.project.load(path)
        targets = [found[1].decode("utf-8", "replace") for found in _INCLUDE.finditer(data)]
        listed = [resolve_import(file.language, path, target, resolver.project.paths)[:1] for target in targets]
        known = resolver.kept[key] = [one for paths in listed for one in paths]
    return known


def mentions(resolver: Resolver, paths: frozenset[str], name: str) -> bool:
    """Whether one of the headers among some files has a name in its text."""
    word = name.encode()
    return any(word in _header_text(resolver, path) for path in paths if path.endswith((".h", ".hpp", ".hh", ".def")))


def _header_text(resolver: Resolver, path: str) -> bytes:
    key = f"c text {path}"
    known = resolver.kept.get(key)
    if not isinstance(known, bytes):
        known = resolver.kept[key] = resolver.project.load(path)
    return known


@lru_cache(maxsize=512)
def used_namespaces(file: SyntaxFile) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return what `using` brings into a file: the names of a scope, and one name of it; empty for all of them."""
    found: list[tuple[tuple[str, ...], str]] = []
    for match in _USING.finditer(file.data):
        names = match[2].decode().replace(" ", "").strip(":").split("::")
        if match[1]:
            found.append((tuple(names), ""))
        elif len(names) > 1:
            found.append((tuple(names[:-1]), names[-1]))
    return tuple(found)


_USING = re.compile(rb"\busing[ \t]{1,9}(namespace[ \t]{1,9})?([A-Za-z_:][\w:]{0,120})[ \t]{0,9};")
