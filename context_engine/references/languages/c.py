"""C and C++: includes, static names, structs and their fields, classes, namespaces, headers with their sources."""

from __future__ import annotations

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, follow, parent_of
from context_engine.references.languages.c_entities import (
    CLASSES,
    SOURCES,
    Entity,
    EntityKind,
    ScopePath,
    class_place,
    entities,
    entity_key,
    entity_kind,
    entity_of,
    find_included,
    find_scope,
    is_qualified,
    mentions,
    path_of_scope,
    qualifiers,
    specifier_name,
    types_named,
    used_namespaces,
)
from context_engine.references.module_styles import ModuleStyle
from context_engine.references.values import (
    ELSEWHERE,
    EXTERNAL,
    UNKNOWN,
    HiddenUse,
    Meaning,
    NamePlace,
    NameUsage,
    Value,
    Values,
)

ANCESTORS_MAX = 40
LIBRARIES = frozenset({"std", "boost", "absl", "testing", "detail_std"})
"""Namespaces that are never the project's own, unless it defines them."""
POINTER_MAKERS = frozenset(
    {"make_unique", "make_shared", "static_cast", "dynamic_cast", "reinterpret_cast", "const_cast"}
)
HANDING_ON = frozenset({"move", "forward", "ref", "cref", "as_const", "exchange"})


class CStyle(ModuleStyle):
    """The rules of C and C++."""

    depth_first = True
    joins_declarations = True
    finds_all_names = True

    # -- names --

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the uses of a name in the bodies of macros."""
        found: list[HiddenUse] = []
        for start, stop in file.words(name) if b"define" in file.data else ():
            body = file.node_at(start, stop)
            if body is None or body.type != "preproc_arg" or body.parent is None:
                continue
            before = file.data[body.start_byte : start].rstrip()
            if before.count(b'"') % 2 or before.endswith(b"#") or name in _macro_parameters(file, body.parent):
                continue
            if before.endswith((b".", b"->", b"::")):
                meaning = Meaning(is_member=True)
            else:
                kinds: tuple[EntityKind, ...] = ("value", "macro", "class", "type")
                meaning = self._find_outside(file, body.parent, name, kinds)._replace(is_sure=False)
            is_call = file.data[stop : stop + 2].lstrip().startswith(b"(")
            found.append(HiddenUse(start, stop, "call" if is_call else "read", meaning))
        return found

    def binding_meaning(self, file: SyntaxFile, binding: NameBinding) -> Meaning | None:
        """Return all declarations of a thing where one of them is."""
        entity = entity_of(self.resolver, file, binding)
        if entity is None:
            return None
        seen = find_included(self.resolver, file)
        macros = [
            one for one in entities(self.resolver, binding.name) if one.kind == "macro" and _is_visible(one, seen)
        ]
        own = NamePlace(file.path, binding.node.start_byte)
        places = tuple(dict.fromkeys((own, *entity.places)))
        return Meaning(places, True, entity.is_member, is_sure=entity.kind == "macro" or not macros)

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a name means that is not looked up in an object."""
        outer = node.parent
        if node.type == "field_identifier" and outer is not None:
            return self._field_meaning(file, node, outer)
        found = self._find(file, node)
        if found.is_sure and found.places and _is_in_template(node):
            return found._replace(is_sure=False)
        return found

    def _field_meaning(self, file: SyntaxFile, node: SyntaxNode, outer: SyntaxNode) -> Meaning:
        values: Values = ()
        if outer.type in ("template_method", "dependent_name") and outer.parent is not None:
            holder = outer.parent.child_by_field_name("argument")
            values = self.resolver.values(file, holder) if holder is not None else ()
        elif outer.type == "field_designator":
            values = self._initialized_values(file, outer.parent)
        elif outer.type == "offsetof_expression":
            written = outer.child_by_field_name("type")
            values = self.resolver.type_values(file, written) if written is not None else ()
        elif outer.type == "field_initializer":
            values = self.resolver.self_values(file, node.start_byte)
        places: list[NamePlace] = []
        is_known = bool(values)
        for value in values:
            found, known = self.resolver.member_places(value, file.text(node))
            places += found
            is_known = is_known and (known or bool(found))
        if outer.type == "field_initializer":
            bound = [(place, self.resolver.project.binding_at(place)) for place in places]
            places = [place for place, at in bound if at is not None and at[1].role == "variable"]
        if not places and outer.type == "field_initializer":
            return self._find_plain(file, node, file.text(node), ("class", "type"))
        return Meaning(tuple(dict.fromkeys(places)), is_known, is_member=True)

    def _initialized_values(self, file: SyntaxFile, pair: SyntaxNode | None) -> Values:
        """Return the type whose fields an initializer in braces names."""
        listed = parent_of(pair)
        outer = parent_of(listed)
        if listed is None or outer is None or listed.type != "initializer_list":
            return ()
        if outer.type == "initializer_pair":
            values = self._initialized_values(file, outer)
            for one in outer.children_by_field_name("designator"):
                if one.type == "field_designator":
                    name = file.text(one.named_children[0])
                    values = tuple(inner for value in values for inner in self.resolver.member_values(value, name))
            return values
        if outer.type == "initializer_list":
            return self._initialized_values(file, listed)
        while outer is not None and outer.type == "init_declarator":
            outer = outer.parent
        written = follow(outer, "type")
        return self.resolver.type_values(file, written) if written is not None else ()

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a name may be, by the rules of this style alone."""
        node = file.node_at(offset, offset + len(name.encode()))
        if node is None or not file.is_identifier(node):
            return ()
        meaning = self._find(file, node)
        if meaning.places:
            return self.resolver.place_values(meaning.places)
        return (Value("external", name=name),) if meaning.is_known else ()

    # -- looking names up --

    def _find(self, file: SyntaxFile, node: SyntaxNode) -> Meaning:
        name, kinds = file.text(node), _wanted_kinds(node)
        written = qualifiers(file, node)
        if written is not None:
            return self._find_qualified(file, node, name, written, kinds)
        if node.type == "type_identifier":  # `Cat cat(name)` may be read as a function with a parameter of type `name`
            found = self._find_plain(file, node, name, tuple(kind for kind in kinds if kind != "value"))
            if found.places or "value" not in kinds:
                return found
        return self._find_plain(file, node, name, kinds)

    def _find_plain(self, file: SyntaxFile, node: SyntaxNode, name: str, kinds: tuple[EntityKind, ...]) -> Meaning:
        found = self._find_inside(file, node, name, kinds)
        return found if found is not None else self._find_outside(file, node, name, kinds)

    def _find_inside(
        self, file: SyntaxFile, node: SyntaxNode, name: str, kinds: tuple[EntityKind, ...]
    ) -> Meaning | None:
        """Return what the functions and the classes around a name say of it."""
        offset = node.start_byte
        for number in file.around(offset):
            scope = file.scopes[number]
            is_named_only = scope.node.type in CLASSES and scope.node.child_by_field_name("body") is None
            if number == 0 or scope.role == "namespace" or is_named_only:
                continue
            if scope.node.type in CLASSES:
                values = self.class_of_scope(file, number, "class")
                found = self._members(values, name, kinds)
            else:
                local = self._local(file, node, number, kinds)
                if local is not None:
                    return local
                found = self._members(self._owners(file, scope.node), name, kinds)
            if found is not None:
                return found
        return None

    def _find_outside(self, file: SyntaxFile, node: SyntaxNode, name: str, kinds: tuple[EntityKind, ...]) -> Meaning:
        """Return what a name means in the namespaces around it and in the files that are included."""
        seen = find_included(self.resolver, file)
        near = [one for one in entities(self.resolver, name) if _is_visible(one, seen) and one.path[-1:] != (name,)]
        around = self._path_at(file, node.start_byte)
        prefixes = [around[:count] for count in range(len(around), -1, -1)]
        for path in prefixes:
            found = self._choose([one for one in near if one.path == path and not _is_field(one)], kinds)
            if found is not None:
                return found
        for names, single in used_namespaces(file):
            path = find_scope(self.resolver, around, list(names)) or names
            found = self._choose([one for one in near if one.path == path], kinds) if single in ("", name) else None
            if found is not None:
                return found
        if kinds[0] in ("class", "type"):  # a type of another file, which this one may declare without its members
            listed = [one for one in entities(self.resolver, name) if one.kind == "class" and one.path in prefixes]
            if len(listed) == 1:
                return Meaning(listed[0].places, is_known=True)
        others = [one for one in entities(self.resolver, name) if not one.is_member]
        is_declared = any(_is_declared(one, seen) for one in others) or (others and mentions(self.resolver, seen, name))
        if name in file.rules.builtins and not near:
            return ELSEWHERE
        if not is_declared and not any(one.is_member for one in entities(self.resolver, name)):
            return ELSEWHERE
        free = [one for one in near if not one.is_member and one.kind in kinds[:2]]
        return Meaning(free[0].places, is_known=True, is_sure=False) if len(free) == 1 else UNKNOWN

    def _find_qualified(
        self, file: SyntaxFile, node: SyntaxNode, name: str, written: list[str], kinds: tuple[EntityKind, ...]
    ) -> Meaning:
        if not written:
            seen = find_included(self.resolver, file)
            top = [one for one in entities(self.resolver, name) if not one.path and _is_visible(one, seen)]
            return self._choose(top, kinds) or UNKNOWN
        path = self._resolve_path(file, node, written)
        if path is None:
            return self._find_in_hidden(file, name, written, kinds)
        found = self._choose([one for one in entities(self.resolver, name) if one.path == path], kinds)
        if found is not None:
            return found
        classes = self._classes_at(path)
        inherited = self._members(classes, name, kinds)
        if inherited is not None:
            return inherited
        above = [one for one in entities(self.resolver, name) if one.path == path[:-1] and not one.is_member]
        if above and classes:
            return self._choose(above, kinds) or UNKNOWN
        return UNKNOWN if classes else self._find_in_hidden(file, name, written, kinds)

    def _find_in_hidden(
        self, file: SyntaxFile, name: str, written: list[str], kinds: tuple[EntityKind, ...]
    ) -> Meaning:
        """Return what a name may mean in a namespace that no file opens: a macro may do it."""
        if written[0] in LIBRARIES and not types_named(self.resolver, written[0]):
            return ELSEWHERE
        seen = find_included(self.resolver, file)
        near = [
            one for one in entities(self.resolver, name) if one.path == tuple(written[1:]) and _is_visible(one, seen)
        ]
        found = self._choose(near, kinds)
        return found._replace(is_sure=False) if found is not None else UNKNOWN

    def _resolve_path(self, file: SyntaxFile, node: SyntaxNode, written: list[str]) -> ScopePath | None:
        """Return the full path of the scope that is written before a name."""
        around = self._path_at(file, node.start_byte)
        path: ScopePath | None = None
        for base in (around, *(names for names, single in used_namespaces(file) if single in ("", written[0]))):
            path = path or find_scope(self.resolver, base, written)
        if path is None:
            return None
        for one in types_named(self.resolver, path[-1]):
            if one.kind == "type" and one.path == path[:-1]:
                return self._aliased_path(one) or path
        return path

    def _aliased_path(self, alias: Entity) -> ScopePath | None:
        for value in self.resolver.place_values(alias.places):
            found = self.resolver.project.binding_at(value.place) if value.kind == "class" else None
            key = entity_key(self.resolver, *found) if found is not None else None
            if key is not None and found is not None:
                return (*key[1], found[1].name)
        return None

    def _classes_at(self, path: ScopePath) -> Values:
        places = [
            place
            for one in types_named(self.resolver, path[-1])
            if one.kind == "class" and one.path == path[:-1]
            for place in one.places
        ]
        return tuple(Value("class", place, path[-1]) for place in places)

    def _path_at(self, file: SyntaxFile, offset: int) -> ScopePath:
        """Return the names of the scopes around an offset; those of a method outside of its class included."""
        for number in file.around(offset):
            path, _ = path_of_scope(file, number)
            if path is not None:
                return path
            written = _declared_scope(file, file.scopes[number].node)
            if written:
                outer = next(
                    (found for at in file.around(offset) if (found := path_of_scope(file, at)[0]) is not None), ()
                )
                return find_scope(self.resolver, outer, written) or outer
        return ()

    def _owners(self, file: SyntaxFile, function: SyntaxNode) -> Values:
        """Return the classes of a method that is defined outside of its class."""
        written = _declared_scope(file, function)
        if not written:
            return ()
        number = file.scope_at(max(0, function.start_byte - 1))
        while number > 0 and path_of_scope(file, number)[0] is None:
            number = file.scopes[number].parent
        around, _ = path_of_scope(file, number)
        path = find_scope(self.resolver, around or (), written)
        if path is None:
            for names, single in used_namespaces(file):
                path = path or (find_scope(self.resolver, names, written) if not single else None)
        return self._classes_at(path) if path else ()

    # -- classes --

    def class_expression(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return the struct, the class or the enum that is written or named."""
        if node.child_by_field_name("body") is not None:
            return (Value("class", class_place(file, node)),)
        named = specifier_name(node)
        return self.resolver.place_values(self._find(file, named).places) if named is not None else ()

    def class_of_scope(self, file: SyntaxFile, scope: int, kind: str) -> Values:
        """Return the class of a scope, or an instance of it."""
        node = file.scopes[scope].node
        if node.type not in CLASSES:
            return ()
        return (Value("class" if kind == "class" else "instance", class_place(file, node)),)

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return `this` in a method that is defined outside of its class."""
        for number in file.around(offset):
            if file.scopes[number].node.type in CLASSES:
                return None
            owners = self._owners(file, file.scopes[number].node)
            if owners:
                return self.resolver.instances(owners)
        return ()

    def own_members(self, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace] | None:
        """Return the members of a class, with their definitions outside of it; None for other things."""
        node = _class_at(file, place)
        if node is None:
            return None
        number = next((one for one in file.around(place.start) if file.scopes[one].node == node), None)
        found: list[NamePlace] = []
        for binding in file.bindings_in(name, number) if number is not None else ():
            entity = entity_of(self.resolver, file, binding) if binding.role != "parameter" else None
            found += entity.places if entity is not None else ()
        return list(dict.fromkeys(found))

    def own_bases(self, file: SyntaxFile, place: NamePlace) -> tuple[list[Value], bool] | None:
        """Return the bases of a class, and whether they are known."""
        node = _class_at(file, place)
        if node is None:
            return [], True
        bases: list[Value] = []
        is_known = True
        for written in self.base_nodes(file, node):
            values = self.resolver.type_values(file, written)
            is_known = is_known and bool(values)
            bases += [Value("class", one.place, one.name) if one.kind == "instance" else one for one in values]
        return bases, is_known

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the bases of a class as written."""
        clause = next((child for child in node.named_children if child.type == "base_class_clause"), None)
        return [one for one in clause.named_children if one.type in BASE_TYPES] if clause is not None else []

    def owner(self, file: SyntaxFile, binding: NameBinding) -> str:
        """Return the scope that a definition outside of it is written with."""
        if binding.role == "function" and is_qualified(binding):
            return "::".join(qualifiers(file, binding.node) or ())
        return ""

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what a declared name is."""
        place = NamePlace(file.path, binding.node.start_byte)
        kind = entity_kind(binding)
        if kind == "macro" or binding.statement.type in ("type_parameter_declaration", "preproc_params"):
            return ()
        if kind in ("class", "namespace"):
            return (Value("class", place, binding.name),)
        if binding.role == "function":
            return (Value("function", place, binding.name),)
        return (EXTERNAL,) if binding.statement.type == "enumerator" else self._declared_values(file, binding)

    def _declared_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        statement = binding.statement
        if _is_callable(binding.node, statement):
            return ()
        written = statement.child_by_field_name("type")
        if binding.role == "alias":
            found = self.resolver.type_values(file, written) if written is not None else ()
            return tuple(one._replace(kind="class") if one.kind == "instance" else one for one in found)
        if written is None:
            return ()
        if written.type == "placeholder_type_specifier":
            return self._deduced_values(file, binding)
        return self.resolver.type_values(file, written)

    def _deduced_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what a variable is that is declared with `auto`."""
        right = binding.statement.child_by_field_name("right")
        if right is not None:
            return self.resolver.elements(self.resolver.values(file, right))
        at = binding.node
        while at.parent is not None and at.parent != binding.statement and at.type != "init_declarator":
            if at.type == "structured_binding_declarator":
                return ()
            at = at.parent
        value = at.child_by_field_name("value") or binding.statement.child_by_field_name("value")
        return self.resolver.values(file, value) if value is not None else ()

    def result_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what a call of a function gives."""
        statement = binding.statement
        written = statement.child_by_field_name("type")
        if written is None or statement.type.startswith("preproc_"):
            return ()
        if written.type != "placeholder_type_specifier":
            return self.resolver.type_values(file, written)
        trailing = _trailing_type(statement)
        if trailing is not None:
            return self.resolver.type_values(file, trailing)
        return self.resolver.returned_values(file, statement)

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what casts, makers of pointers and functions that hand a value on give."""
        at = function
        while at.type == "qualified_identifier" and (inner := at.child_by_field_name("name")) is not None:
            at = inner
        named = at.child_by_field_name("name")
        name = file.text(named if named is not None else at)
        arguments = at.child_by_field_name("arguments")
        if at.type == "template_function" and name in POINTER_MAKERS and arguments is not None:
            return self.resolver.type_values(file, arguments.named_children[0]) if arguments.named_child_count else ()
        given = call.child_by_field_name("arguments")
        if name in HANDING_ON and function.type == "qualified_identifier" and given is not None:
            return self.resolver.values(file, given.named_children[0]) if given.named_child_count else ()
        return None

    def elements_of(self, value: Value) -> Values | None:
        """Return the object itself: it is an element of an array, or a pointer to it."""
        return (value,)

    def extension_places(self, values: Values, name: str, usage: NameUsage | None) -> list[NamePlace]:
        """Return the members of the elements of a container: `cats.back()->purr()`."""
        found: list[NamePlace] = []
        for value in values:
            if value.kind == "external" and value.name.endswith("()") and value.arguments:
                for element in value.arguments[-1]:
                    found += self.resolver.member_places(element, name)[0]
        return found

    def _choose(self, near: list[Entity], kinds: tuple[EntityKind, ...]) -> Meaning | None:
        """Return the things of the first kind that there is any of."""
        for kind in kinds:
            chosen = [one for one in near if one.kind == kind]
            if not chosen:
                continue
            rivals = [one for one in near if "macro" in (one.kind, kind) and one.kind != kind]
            if kind != "macro" and any(self._replaces(one, chosen) for one in rivals):
                chosen, rivals = rivals, []  # a name that is replaced before the compiler sees it
            places = tuple(dict.fromkeys(place for one in (*chosen, *rivals) for place in one.places))
            is_member = all(one.is_member for one in chosen)
            return Meaning(places, is_known=True, is_member=is_member, is_sure=not rivals and len(chosen) == 1)
        return None

    def _replaces(self, macro: Entity, values: list[Entity]) -> bool:
        """Whether a macro gives functions another name; not where a condition chooses between the two."""
        is_near = any(place.path == macro.local for one in values for place in one.places)
        if not is_near:
            return True
        branches = [self._branches(place) for place in macro.places]
        others = [self._branches(place) for one in values for place in one.places if place.path == macro.local]
        is_chosen = any(
            key in right and left[key] != right[key] for left in branches for right in others for key in left
        )
        return macro.is_replaced and not is_chosen

    def _branches(self, place: NamePlace) -> dict[int, int]:
        """Return the conditions around a place, by their start, each with the start of the branch that it is in."""
        found = self.resolver.project.binding_at(place)
        at = found[1].node if found is not None else None
        branches: dict[int, int] = {}
        branch = 0
        while at is not None:
            if at.type in ("preproc_else", "preproc_elif", "preproc_elifdef"):
                branch = branch or at.start_byte
            elif at.type in ("preproc_if", "preproc_ifdef"):
                branches[at.start_byte] = branch
                branch = 0
            at = at.parent
        return branches

    def _members(self, classes: Values, name: str, kinds: tuple[EntityKind, ...]) -> Meaning | None:
        """Return the members of classes that have some kinds; None if they have none of the name."""
        for value in classes:
            found, _ = self.resolver.members.find(value, name)
            own = self.resolver.project.binding_at(value.place)
            if own is not None and own[1].name == name:
                return None  # the class itself, not its constructors
            bound = [(place, self.resolver.project.binding_at(place)) for place in found]
            apt = [
                place
                for place, at in bound
                if at is not None and entity_kind(at[1]) in kinds and not _is_constructor(*at)
            ]
            if apt:
                return Meaning(tuple(dict.fromkeys(apt)), is_known=True, is_member=True)
        return None

    def _local(self, file: SyntaxFile, node: SyntaxNode, number: int, kinds: tuple[EntityKind, ...]) -> Meaning | None:
        """Return what a name means that is declared in a function before it."""
        offset = node.start_byte
        bound = [
            one
            for one in file.bindings_in(file.text(node), number)
            if (one.role == "parameter" or one.node.start_byte <= offset) and _local_kind(one) in kinds
        ]
        bound = [one for one in bound if not one.statement.type.startswith("preproc_")]
        if not bound:
            return None
        last = bound[-1]
        entity = entity_of(self.resolver, file, last)
        if entity is not None:
            return Meaning(entity.places, is_known=True)
        return Meaning((NamePlace(file.path, last.node.start_byte),), is_known=True)


BASE_TYPES = ("type_identifier", "template_type", "qualified_identifier", "dependent_type")


def _wanted_kinds(node: SyntaxNode) -> tuple[EntityKind, ...]:
    """Return which kinds of things a name can mean at its place, the likeliest first."""
    outer = node.parent
    if outer is not None and outer.type in CLASSES:
        return ("class", "type")
    if node.type == "namespace_identifier":
        return TYPES_FIRST
    if outer is not None and outer.type == "qualified_identifier" and outer.child_by_field_name("scope") == node:
        return TYPES_FIRST
    if node.type == "type_identifier":
        return ("type", "class", "macro", "value", "namespace")
    return ("value", "macro", "class", "type", "namespace")


TYPES_FIRST: tuple[EntityKind, ...] = ("namespace", "class", "type", "macro", "value")


def _is_visible(entity: Entity, seen: frozenset[str]) -> bool:
    return any(place.path in seen for place in entity.places)


def _is_declared(entity: Entity, seen: frozenset[str]) -> bool:
    """Whether other files can know a thing: it is in a file that they include, or in some header."""
    if entity.local:
        return entity.local in seen
    return any(place.path in seen or not place.path.endswith(SOURCES) for place in entity.places)


def _is_field(entity: Entity) -> bool:
    return entity.is_member and bool(entity.path) and entity.path[-1].startswith("<")


def _is_constructor(file: SyntaxFile, binding: NameBinding) -> bool:
    if binding.role != "function" or binding.scope < 0:
        return False
    around = path_of_scope(file, binding.scope)[0] or ()
    return (*around, *(qualifiers(file, binding.node) or ()))[-1:] == (binding.name,)


def _local_kind(binding: NameBinding) -> EntityKind:
    return "type" if binding.statement.type.endswith("type_parameter_declaration") else entity_kind(binding)


def _declared_scope(file: SyntaxFile, function: SyntaxNode) -> list[str]:
    """Return the scope that a function is written with: `a::Cat` of `void a::Cat::purr() {}`."""
    at = function.child_by_field_name("declarator") if function.type == "function_definition" else None
    for _ in range(ANCESTORS_MAX):
        if at is None or at.type == "qualified_identifier":
            break
        at = at.child_by_field_name("declarator") or next(
            (one for one in at.named_children if one.type.endswith("declarator")), None
        )
    names: list[str] = []
    while at is not None and at.type == "qualified_identifier":
        scope = at.child_by_field_name("scope")
        if scope is not None:
            names.append(file.text(scope.child_by_field_name("name") or scope))
        at = at.child_by_field_name("name")
    return names


def _class_at(file: SyntaxFile, place: NamePlace) -> SyntaxNode | None:
    """Return the node of the class at a place."""
    node = file.node_at(place.start, place.start + 1)
    for _ in range(4):
        if node is None:
            return None
        if node.type in CLASSES:
            is_own = node.child_by_field_name("body") is not None and class_place(file, node) == place
            return node if is_own else None
        node = node.parent
    return None


def _macro_parameters(file: SyntaxFile, macro: SyntaxNode) -> list[str]:
    parameters = macro.child_by_field_name("parameters")
    return [file.text(one) for one in parameters.named_children] if parameters is not None else []


def _is_in_template(node: SyntaxNode) -> bool:
    """Whether a name is in a template, where what it means may depend on the arguments."""
    at = node.parent
    while at is not None:
        if at.type == "template_declaration":
            return True
        at = at.parent
    return False


def _is_callable(node: SyntaxNode, statement: SyntaxNode) -> bool:
    """Whether a variable or a type is a pointer to a function: what it is called with is not followed."""
    at = node.parent
    while at is not None and at != statement:
        if at.type == "function_declarator":
            return True
        at = at.parent
    return False


def _trailing_type(function: SyntaxNode) -> SyntaxNode | None:
    """Return the type after the arrow of `auto f() -> Cat`."""
    declarator = function.child_by_field_name("declarator")
    for child in declarator.named_children if declarator is not None else ():
        if child.type == "trailing_return_type" and child.named_child_count:
            return child.named_children[0]
    return None
