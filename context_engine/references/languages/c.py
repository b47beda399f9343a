"""C and C++: includes, static names, structs and their fields, classes, namespaces, headers with their sources."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode
from context_engine.references.languages.c_entities import (
    CLASSES,
    SOURCES,
    CEntities,
    Entity,
    EntityKind,
    ScopePath,
    class_place,
    declared_scope,
    entity_kind,
    is_qualified,
    path_of_scope,
    qualifiers,
    specifier_name,
    used_namespaces,
)
from context_engine.references.module_styles import ModuleStyle, as_classes, places_of
from context_engine.references.nodes import NO_NODE, around, get, up
from context_engine.references.values import (
    ELSEWHERE,
    EXTERNAL,
    UNKNOWN,
    HiddenUse,
    Meaning,
    NamePlace,
    Value,
    Values,
)

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver

Kinds = tuple[EntityKind, ...]
LIBRARIES = frozenset({"std", "boost", "absl", "testing", "detail_std"})
"""Namespaces that are never the project's own, unless it defines them."""
POINTER_MAKERS = frozenset(
    {"make_unique", "make_shared", "static_cast", "dynamic_cast", "reinterpret_cast", "const_cast"}
)
VALUES_FIRST: Kinds = ("value", "macro", "class", "type", "namespace")
TYPES_FIRST: Kinds = ("type", "class", "macro", "value", "namespace")
SCOPES_FIRST: Kinds = ("namespace", "class", "type", "macro", "value")


class CStyle(ModuleStyle):
    """The rules of C and C++."""

    depth_first = True
    joins_declarations = True
    unnamed_classes = CLASSES

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(resolver)
        self._entities = CEntities(self)

    # -- what a place means --

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the uses of a name in the bodies of macros."""
        found: list[HiddenUse] = []
        for start, stop in file.words(name) if b"define" in file.data else ():
            body = file.node_at(start, stop) or NO_NODE
            macro = up(body)
            before = file.data[body.start_byte : start].rstrip()
            parameters = [file.text(one) for one in get(macro, "parameters").named_children]
            is_text = bool(before.count(b'"') % 2) or before.endswith(b"#") or name in parameters
            if body.type != "preproc_arg" or is_text:
                continue
            if before.endswith((b".", b"->", b"::")):
                meaning = Meaning(is_member=True)
            else:
                meaning = self._find_outside(file, macro, name, VALUES_FIRST[:4])._replace(is_sure=False)
            is_call = file.data[stop : stop + 2].lstrip().startswith(b"(")
            found.append(HiddenUse(start, stop, "call" if is_call else "read", meaning))
        return found

    def binding_meaning(self, file: SyntaxFile, binding: NameBinding) -> Meaning | None:
        """Return all declarations of a thing where one of them is."""
        entity = self._entities.of_binding(file, binding)
        if entity is None:
            return None
        macros = [one for one in self._visible(file, binding.name) if one.kind == "macro"]
        places = tuple(dict.fromkeys((*places_of(file, [binding]), *entity.places)))
        return Meaning(places, True, entity.is_member, is_sure=entity.kind == "macro" or not macros)

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a name means that is not looked up in an object."""
        if node.type == "field_identifier":
            return self._field_meaning(file, node, up(node))
        found = self._find(file, node)
        # In a template, what a name means may depend on the arguments.
        is_open = found.is_sure and bool(found.places) and bool(around(node, "template_declaration"))
        return found._replace(is_sure=False) if is_open else found

    def _field_meaning(self, file: SyntaxFile, node: SyntaxNode, outer: SyntaxNode) -> Meaning:
        values: Values = ()
        if outer.type in ("template_method", "dependent_name"):
            values = self.resolver.values(file, get(outer, "^argument"))
        elif outer.type == "field_designator":
            # What a field of a field is remains unknown: the pair around it has no type.
            kinds = ("initializer_pair", "declaration", "compound_literal_expression", "field_declaration")
            declared = around(up(outer), *kinds)
            values = self.resolver.type_values(file, get(declared, "type"))
        elif outer.type == "field_initializer":
            values = self.resolver.self_values(file, node.start_byte)
        found = self.member_meaning(values, file.text(node))
        if outer.type != "field_initializer":
            return found
        places = tuple(self.select(found.places, lambda _, one: one.role == "variable"))
        if not places:
            return self._find_plain(file, node, file.text(node), ("class", "type"))
        return found._replace(places=places)

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a name may be, by the rules of this style alone."""
        node = file.node_at(offset, offset + len(name.encode())) or NO_NODE
        meaning = self._find(file, node) if file.is_identifier(node) else UNKNOWN
        if meaning.places:
            return self.resolver.place_values(meaning.places)
        return (Value("external", name=name),) if meaning.is_known else ()

    # -- looking names up --

    def _find(self, file: SyntaxFile, node: SyntaxNode) -> Meaning:
        name, kinds = file.text(node), _wanted_kinds(node)
        written = qualifiers(file, node)
        if written is not None:
            return self._find_qualified(file, node, name, tuple(written), kinds)
        return self._find_plain(file, node, name, kinds)

    def _find_plain(self, file: SyntaxFile, node: SyntaxNode, name: str, kinds: Kinds) -> Meaning:
        """Return what the functions, the classes, the namespaces and the includes around a name say of it."""
        for number in file.around(node.start_byte):
            scope = file.scopes[number]
            is_class = scope.node.type in CLASSES
            if number == 0 or scope.role == "namespace" or (is_class and not get(scope.node, "body")):
                continue
            local = self._local(file, node, number, kinds) if not is_class else None
            owners = self.class_of_scope(file, number, "class") if is_class else self._owners(file, scope.node)
            found = local if local is not None else self._members(owners, name, kinds)
            if found is not None:
                return found
        return self._find_outside(file, node, name, kinds)

    def _local(self, file: SyntaxFile, node: SyntaxNode, number: int, kinds: Kinds) -> Meaning | None:
        """Return what a name means that is declared in a function before it."""
        bound = [
            one
            for one in file.bindings_in(file.text(node), number)
            if (one.role == "parameter" or one.node.start_byte <= node.start_byte) and _local_kind(one) in kinds
        ]
        bound = [one for one in bound if not one.statement.type.startswith("preproc_")]
        if not bound:
            return None
        entity = self._entities.of_binding(file, bound[-1])
        return Meaning(entity.places if entity is not None else tuple(places_of(file, bound[-1:])), is_known=True)

    def _visible(self, file: SyntaxFile, name: str) -> list[Entity]:
        """Return everything of a name that a file, or one that it includes, declares."""
        seen = self._entities.included_by(file)
        return [one for one in self._entities.find(name) if any(place.path in seen for place in one.places)]

    def _find_outside(self, file: SyntaxFile, node: SyntaxNode, name: str, kinds: Kinds) -> Meaning:
        """Return what a name means in the namespaces around it and in the files that are included."""
        near = [one for one in self._visible(file, name) if one.path[-1:] != (name,)]
        path = self._path_at(file, node.start_byte)
        prefixes = [path[:count] for count in range(len(path), -1, -1)]
        used = [names for names, single in used_namespaces(file) if single in ("", name)]
        opened = [self._entities.find_scope(path, names) or names for names in used]
        plain = [one for one in near if not (one.is_member and one.path and one.path[-1].startswith("<"))]
        for at, listed in (*((at, plain) for at in prefixes), *((at, near) for at in opened)):
            found = self._choose([one for one in listed if one.path == at], kinds)
            if found is not None:
                return found
        every = self._entities.find(name)
        if kinds[0] in ("class", "type"):  # a type of another file, which this one may declare without its members
            listed = [one for one in every if one.kind == "class" and one.path in prefixes]
            if len(listed) == 1:
                return Meaning(listed[0].places, is_known=True)
        if not self._may_be_own(file, name, every) or (name in file.rules.builtins and not near):
            return ELSEWHERE
        free = [one for one in near if not one.is_member and one.kind in kinds[:2]]
        return Meaning(free[0].places, is_known=True, is_sure=False) if len(free) == 1 else UNKNOWN

    def _may_be_own(self, file: SyntaxFile, name: str, every: list[Entity]) -> bool:
        """Whether a file can know something of a name: it is in a file that it includes, or in some header."""
        seen = self._entities.included_by(file)
        if any(one.is_member for one in every):
            return True
        for one in every:
            is_shared = any(place.path in seen or not place.path.endswith(SOURCES) for place in one.places)
            if one.local in seen if one.local else is_shared:
                return True
        return bool(every) and self._entities.is_in_headers(seen, name)

    def _find_qualified(
        self, file: SyntaxFile, node: SyntaxNode, name: str, written: ScopePath, kinds: Kinds
    ) -> Meaning:
        if not written:
            return self._choose([one for one in self._visible(file, name) if not one.path], kinds) or UNKNOWN
        path = self._resolve_path(file, node, written)
        every = self._entities.find(name)
        found = self._choose([one for one in every if one.path == path], kinds) if path is not None else None
        if found is not None:
            return found
        classes = self._classes_at(path) if path is not None else ()
        if path is not None and classes:
            above = [one for one in every if one.path == path[:-1] and not one.is_member]
            return self._members(classes, name, kinds) or self._choose(above, kinds) or UNKNOWN
        # A namespace that no file opens: a macro may do it.
        if written[0] in LIBRARIES and not self._entities.types_named(written[0]):
            return ELSEWHERE
        near = [one for one in self._visible(file, name) if one.path == written[1:]]
        found = self._choose(near, kinds)
        return found._replace(is_sure=False) if found is not None else UNKNOWN

    def _resolve_path(self, file: SyntaxFile, node: SyntaxNode, written: ScopePath) -> ScopePath | None:
        """Return the full path of the scope that is written before a name."""
        used = [names for names, single in used_namespaces(file) if single in ("", written[0])]
        bases = [self._path_at(file, node.start_byte), *used]
        return next(filter(None, (self._entities.find_scope(base, written) for base in bases)), None)

    def _classes_at(self, path: ScopePath) -> Values:
        types = [one for one in self._entities.types_named(path[-1]) if one.kind == "class" and one.path == path[:-1]]
        return tuple(Value("class", place, path[-1]) for one in types for place in one.places)

    def _path_at(self, file: SyntaxFile, offset: int) -> ScopePath:
        """Return the names of the scopes around an offset; those of a method outside of its class included."""
        numbers = list(file.around(offset))
        paths = (path_of_scope(file, number)[0] for number in numbers)
        outer = next((path for path in paths if path is not None), ())
        inner = takewhile(lambda number: path_of_scope(file, number)[0] is None, numbers)
        written = next(filter(None, (declared_scope(file, file.scopes[number].node) for number in inner)), ())
        return self._entities.find_scope(outer, written) or outer if written else outer

    def _owners(self, file: SyntaxFile, function: SyntaxNode) -> Values:
        """Return the classes of a method that is defined outside of its class."""
        written = declared_scope(file, function)
        if not written:
            return ()
        paths = (path_of_scope(file, number)[0] for number in file.around(max(0, function.start_byte - 1)))
        outer = next((path for path in paths if path is not None), ())
        bases = [outer, *(names for names, single in used_namespaces(file) if not single)]
        found = next(filter(None, (self._entities.find_scope(base, written) for base in bases)), None)
        return self._classes_at(found) if found else ()

    def _choose(self, near: list[Entity], kinds: Kinds) -> Meaning | None:
        """Return the things of the first kind that there is any of."""
        kind = next((kind for kind in kinds if any(one.kind == kind for one in near)), None)
        if kind is None:
            return None
        chosen = [one for one in near if one.kind == kind]
        rivals = [one for one in near if "macro" in (one.kind, kind) and one.kind != kind]
        places = tuple(dict.fromkeys(place for one in (*chosen, *rivals) for place in one.places))
        is_member = all(one.is_member for one in chosen)
        return Meaning(places, is_known=True, is_member=is_member, is_sure=not rivals and len(chosen) == 1)

    def _members(self, classes: Values, name: str, kinds: Kinds) -> Meaning | None:
        """Return the members of classes that have some kinds; None if they have none of the name."""
        for value in classes:
            own = self.project.binding_at(value.place)
            if own is not None and own[1].name == name:
                return None  # the class itself, not its constructors
            found = dict.fromkeys(self.resolver.members.find(value, name)[0])
            apt = self.select(found, lambda at, one: entity_kind(one) in kinds and not _is_constructor(at, one))
            if apt:
                return Meaning(tuple(apt), is_known=True, is_member=True)
        return None

    # -- classes --

    def _class_values(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return the struct, the class or the enum that is written or named."""
        if get(node, "body"):
            return (Value("class", class_place(file, node)),)
        named = specifier_name(node)
        return self.resolver.place_values(self._find(file, named).places) if named else ()

    def class_of_scope(self, file: SyntaxFile, scope: int, kind: str) -> Values:
        """Return the class of a scope, or an instance of it."""
        node = file.scopes[scope].node
        own = Value("class" if kind == "class" else "instance", class_place(file, node))
        return (own,) if node.type in CLASSES else ()

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return `this` in a method that is defined outside of its class."""
        for number in file.around(offset):
            if file.scopes[number].node.type in CLASSES:
                return None
            owners = self._owners(file, file.scopes[number].node)
            if owners:
                return self.resolver.instances(owners)
        return ()

    def is_member(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a definition is in a class, or is written with its scope."""
        is_outside = binding.role == "function" and is_qualified(binding) and bool(qualifiers(file, binding.node))
        return is_outside or super().is_member(file, binding)

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what a declared name is."""
        place, kind, statement = NamePlace(file.path, binding.node.start_byte), entity_kind(binding), binding.statement
        if kind == "macro" or statement.type in ("type_parameter_declaration", "preproc_params"):
            return ()
        if kind in ("class", "namespace"):
            return (Value("class", place, binding.name),)
        if binding.role == "function":
            return (Value("function", place, binding.name),)
        if statement.type == "enumerator":
            return (EXTERNAL,)
        written = get(statement, "type")
        if written.type == "placeholder_type_specifier" and binding.role != "alias":
            return self._deduced_values(file, binding)
        found = self.resolver.type_values(file, written)
        return as_classes(found) if binding.role == "alias" else found

    def _deduced_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what a variable is that is declared with `auto`."""
        statement = binding.statement
        if get(statement, "right"):
            return self.resolver.elements(self.resolver.values(file, get(statement, "right")))
        declarator = around(binding.node, "structured_binding_declarator", "init_declarator", statement.type)
        if declarator.type == "structured_binding_declarator":
            return ()
        return self.resolver.values(file, get(declarator, "value") or get(statement, "value"))

    def result_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what a call of a function gives."""
        statement = binding.statement
        written = get(statement, "type")
        if not written or statement.type.startswith("preproc_"):
            return ()
        if written.type == "placeholder_type_specifier":
            written = get(statement, "declarator", "@trailing_return_type", ".")
        return self.resolver.type_values(file, written) if written else self.resolver.returned_values(file, statement)

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what casts and makers of pointers give, and what a class is that is written or named."""
        if node.type in CLASSES:
            return self._class_values(file, node)
        if node.type != "call_expression":
            return None
        at = get(node, "function")
        while at.type == "qualified_identifier" and get(at, "name"):
            at = get(at, "name")
        name = file.text(get(at, "name") or at)
        if at.type == "template_function" and name in POINTER_MAKERS and get(at, "arguments"):
            return self.resolver.type_values(file, get(at, "arguments", "."))
        return None

    def elements_of(self, value: Value) -> Values | None:
        """Return the object itself: it is an element of an array, or a pointer to it."""
        return (value,)


def _wanted_kinds(node: SyntaxNode) -> Kinds:
    """Return which kinds of things a name can mean at its place, the likeliest first."""
    if up(node).type in CLASSES:
        return ("class", "type")
    if node.type == "namespace_identifier" or get(node, "<qualified_identifier", "scope") == node:
        return SCOPES_FIRST
    return TYPES_FIRST if node.type == "type_identifier" else VALUES_FIRST


def _is_constructor(file: SyntaxFile, binding: NameBinding) -> bool:
    if binding.role != "function" or binding.scope < 0:
        return False
    path = path_of_scope(file, binding.scope)[0] or ()
    return (*path, *(qualifiers(file, binding.node) or ()))[-1:] == (binding.name,)


def _local_kind(binding: NameBinding) -> EntityKind:
    return "type" if binding.statement.type.endswith("type_parameter_declaration") else entity_kind(binding)
