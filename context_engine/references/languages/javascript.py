"""JavaScript and TypeScript: modules, re-exports, `require`, parameter properties, elements in callbacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode
from context_engine.references.languages.javascript_objects import (
    expected_values,
    find_assigned_members,
    find_record_members,
    find_self,
    parameter_values,
    record_at,
    record_value,
)
from context_engine.references.languages.javascript_packages import WorkspaceModules
from context_engine.references.module_styles import ModuleStyle, places_of
from context_engine.references.nodes import NO_NODE, beyond, children, get, has, up
from context_engine.references.values import EXTERNAL, Meaning, NamePlace, Value, Values
from context_engine.text import unique

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver
    from context_engine.references.symbol_graph import SymbolDefinition

WHOLE = "*"
"""The name of an import that takes the whole module."""
DEFAULT = "default"
ASSIGNED = "="
"""The name of an import that takes what `export =` or `module.exports =` gives."""
EXPORTS = ("exports", "module.exports")
FIELDS = ("public_field_definition", "field_definition")
MAIN_NAMES = ("index", "main", "src", "lib", "dist")
"""Names of files and folders that an import leaves out."""
OVER_ELEMENTS = frozenset("forEach map filter find findIndex findLast some every flatMap sort".split())
"""Methods of arrays, sets and maps that call a function with an element."""


MODULE = re.compile(rb"^[ \t]{0,40}(?:import|export)\b|\brequire[ \t]{0,9}\(", re.MULTILINE)
"""What a file has that is a module, whose names others see only if it exports them."""


class JavaScriptStyle(ModuleStyle):
    """The rules of JavaScript and TypeScript."""

    has_one_kind_of_member = True

    def is_private(self, file: SyntaxFile, definition: SymbolDefinition, head: str) -> bool:
        """Whether only the project can use a definition: a private member, or what a module does not export."""
        is_top = "." not in definition.qualified
        is_kept = definition.kind != "method" and MODULE.search(file.data) is not None
        return (is_kept or not is_top) and super().is_private(file, definition, head)

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(resolver)
        self._modules = WorkspaceModules(self.project)

    # -- imports --

    def is_import(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a binding is an import, or a variable is what `require` gives, or a part of it."""
        if binding.role == "import":
            return True
        if binding.role != "variable" or len(binding.positions) > 1 or b"require" not in file.data:
            return False
        given = _value_of(binding)
        return not (given.type == "member_expression" and binding.positions) and required_module(file, given) != ""

    def is_member(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a definition is looked up in a class; what is assigned to `exports` is one of a module."""
        holder = get(binding.node, "^object") if binding.role == "attribute" else NO_NODE
        return super().is_member(file, binding) and file.text(holder) not in EXPORTS

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace] | None:
        """Return the definitions that an imported name means."""
        source, name = _read_import(file, binding)
        name = ASSIGNED if name == WHOLE and binding.role == "variable" else name
        return self._find_exported(file, source, name) or ([] if self._is_foreign(source) else None)

    def _find_exported(self, file: SyntaxFile, source: str, name: str, seen: set[str] | None = None) -> list[NamePlace]:
        """Return the definitions of a name of the module that a file calls `source`."""
        module = self._module(file, source)
        return self.module_member(module, name, seen or set()) or [] if module is not None else []

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what an imported name may be."""
        source, name = _read_import(file, binding)
        module = self._module(file, source)
        if module is None:
            return (Value("external", name=f"{source}.{name}"),) if self._is_foreign(source) else ()
        found = self.resolver.place_values(self._find_exported(file, source, ASSIGNED if name == WHOLE else name))
        if not found and name in (DEFAULT, ASSIGNED, WHOLE):
            found = self._default_values(module)
        found = found or self.submodule(module, name)
        is_whole = name in (WHOLE, ASSIGNED) or (name == DEFAULT and not found and self._is_common(module))
        return (*found, module) if is_whole else found

    def _is_foreign(self, source: str) -> bool:
        """Whether an import leads out of the project; a package of this workspace may be built elsewhere."""
        name = source.split("/")[source.startswith("@") and "/" in source]
        is_near = name.startswith(".") or self._modules.is_package(source)
        return not is_near and not self.project.paths.folders_by_suffix(f"packages/{name}/src")

    def _module(self, file: SyntaxFile, source: str) -> Value | None:
        """Return a module: the file with its types, where there is one next to it."""
        path = self._modules.find(file, source)
        stem, _, suffix = path.rpartition(".")
        declared = f"{stem}.d.{suffix.replace('js', 'ts')}"
        is_declared = suffix in ("js", "mjs", "cjs") and declared in self.project.paths
        return Value("module", NamePlace(declared if is_declared else path)) if path else None

    def _is_common(self, module: Value) -> bool:
        """Whether a module has no `export`, so that a default import takes the whole module."""
        file = self.project.read(module.place.path)
        return file is not None and b"exports." in file.data and not _default_nodes(file)

    def passed_names(self, file: SyntaxFile, node: SyntaxNode) -> list[str]:
        """Return the other names under which a module exports something, `default` for all that it exports."""
        outer = up(node)
        if outer.type == "export_specifier":
            return [file.text(get(outer, "alias") or get(outer, "name"))]
        found: list[str] = []
        while outer.type == "assignment_expression":
            target = get(outer, "left")
            if file.text(get(target, "object")) in EXPORTS:
                found.append(file.text(get(target, "property")))
            outer = up(outer)
        named = up(node) if get(node, "<", "name") == node else node
        return found + [DEFAULT] * (named in (*_default_nodes(file), *_assigned_nodes(file)))

    def local_names(self, file: SyntaxFile, name: str) -> list[str]:
        """Return a name, and the others that a file gives to it; for `default` those of whole modules."""
        found = super().local_names(file, name)
        if name == DEFAULT:
            clauses = [get(one, "@import_clause", ".") for one in children(file.root, "import_statement")]
            calls = [get(word, "<call_expression") for word in file.find("require")]
            given = [get(up(call) if up(call).type == "await_expression" else call, "<", "name") for call in calls]
            found += [file.text(one) for one in (*clauses, *given) if file.is_identifier(one)]
        return unique(found)

    def find_takers(self, file: SyntaxFile, name: str) -> Sequence[str]:
        """Return the files that may take something from a module under a name, or all that may import it."""
        if name != DEFAULT:
            return super().find_takers(file, name)
        parts = [part.partition(".")[0] for part in file.path.split("/")]
        while len(parts) > 1 and parts[-1] in MAIN_NAMES:
            parts.pop()
        return super().find_takers(file, parts[-1])

    # -- exports --

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of an exported name; None if they cannot be known."""
        file = self.project.read(module.place.path)
        if file is None or file.path in seen:
            return []
        seen.add(file.path)
        if name in (DEFAULT, ASSIGNED):
            return self._default(file, seen, name)
        found = self._find_specified(file, name, seen, file.root)
        if not found:
            bound = [one for one in file.bindings_in(name, 0) if one.statement.type != "function_expression"]
            found = places_of(file, (one for one in bound if not self.is_import(file, one)))
        for source in _star_sources(file) if not found else ():
            found = found or self._find_exported(file, source, name, seen)
        if not found:
            found = self._assigned_export(file, name)
        if not found and b"export =" in file.data:  # the module is a class or a namespace
            found = self.member_places(self.resolver.place_values(self._default(file, set(), ASSIGNED)), name)
        return list(dict.fromkeys(found)) or (None if b"exports" in file.data else [])

    def submodule(self, module: Value, name: str) -> Values:
        """Return the module that another exports whole under a name."""
        file = self.project.read(module.place.path)
        if file is None:
            return ()
        found: list[Value] = []
        for node in file.find(name):
            whole, specifier = get(node, "<namespace_export"), get(node, "<export_specifier")
            source = _unquote(file, get(whole or get(specifier, "<"), "<", "source"))
            other = self._module(file, source) if source else None
            if other is not None:
                found += [other] if whole else self.submodule(other, file.text(get(specifier, "name")))
            elif specifier and (get(specifier, "alias") or node) == node:
                found += self.resolver.name_values(file, file.text(get(specifier, "name")), node.start_byte)
        return tuple(one for one in found if one.kind == "module")

    def _find_specified(self, file: SyntaxFile, name: str, seen: set[str], holder: SyntaxNode) -> list[NamePlace]:
        """Return the definitions of a name that an `export { ... }` lists in a file or a namespace."""
        found: list[NamePlace] = []
        for node in file.find(name):
            specifier = get(node, "<export_specifier")
            is_named = (get(specifier, "alias") or get(specifier, "name")) == node
            if is_named and get(specifier, "<", "<", "<") == holder:
                found += self._of_specifier(file, specifier, seen)
        return found

    def _of_specifier(self, file: SyntaxFile, specifier: SyntaxNode, seen: set[str]) -> list[NamePlace]:
        name, source = file.text(get(specifier, "name")), get(specifier, "<", "^source")
        if source:
            return self._find_exported(file, _unquote(file, source), name, seen)
        found: list[NamePlace] = []
        for binding in self.resolver.visible_bindings(file, name, specifier.start_byte):
            is_import = self.is_import(file, binding)
            found += (self.imported_places(file, binding) or ()) if is_import else places_of(file, [binding])
        return found

    def _default(self, file: SyntaxFile, seen: set[str], name: str) -> list[NamePlace]:
        found = self._find_specified(file, DEFAULT, seen, file.root)
        for node in _default_nodes(file):
            places = self._named_by(file, node)
            if name == DEFAULT and b"export =" in file.data:  # a namespace may have another default
                places = self.member_places(self.resolver.place_values(places), DEFAULT) or places
            found += places
        return list(dict.fromkeys(found)) or self._assigned_export(file, "")

    def _default_values(self, module: Value) -> Values:
        """Return what a module exports without giving it a name: an object or a class that is written there."""
        file = self.project.read(module.place.path)
        nodes = [*_default_nodes(file), *_assigned_nodes(file)] if file is not None else []
        return tuple(value for node in nodes if file is not None for value in self.resolver.values(file, node))

    def _named_by(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace]:
        """Return the definition that an exported declaration or expression is."""
        if file.is_identifier(node):
            return list(self.resolver.meaning(file, node).places)
        name = get(node, "name")
        return [NamePlace(file.path, name.start_byte)] if name else []

    def _assigned_export(self, file: SyntaxFile, name: str) -> list[NamePlace]:
        """Return what `module.exports = ...` or `exports.name = ...` gives."""
        found: list[NamePlace] = []
        for word in file.find("exports") if b"exports" in file.data else ():
            is_own = get(word, "<member_expression", "object") == word
            target = word if is_own else get(word, "<member_expression") or word
            outer = get(target, "<member_expression")
            member = get(outer, "property")
            if name and outer and file.text(member) == name:
                given = _last_right(get(outer, "<assignment_expression"))
                named = self._named_by(file, given) if file.is_identifier(given) else []
                found += named or [NamePlace(file.path, member.start_byte)]
            elif not outer:
                given = _last_right(get(target, "<assignment_expression"))
                is_object = given.type == "object"
                found += self._find_key(file, given, name) if is_object or name else self._named_by(file, given)
        return list(dict.fromkeys(found))

    def _find_key(self, file: SyntaxFile, record: SyntaxNode, name: str) -> list[NamePlace]:
        """Return what an exported object has under a name."""
        found: list[NamePlace] = []
        for part in record.named_children if record.type == "object" else ():
            key, value = get(part, "key") or get(part, "name") or part, get(part, "value")
            if file.text(key) != name:
                continue
            meant = part if part.type == "shorthand_property_identifier" else value
            is_name = meant == part or file.is_identifier(meant)
            own = [NamePlace(file.path, key.start_byte)]
            found += self.resolver.meaning(file, meant).places if is_name else own
        return found

    # -- names --

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a name in an import or export list means that binds nothing in its file, and what a key does."""
        outer = up(node)
        label = file.role_fields(outer, "label")
        if label and get(outer, label[0]) == node:
            return self._label_meaning(file, node, outer)
        if outer and node.type == "shorthand_property_identifier":
            # It is the value of a member of the same name as well.
            meaning = self.resolver.visible_meaning(file, node)
            places = self.member_places(expected_values(self.resolver, file, outer), file.text(node))
            return Meaning(tuple(dict.fromkeys((*meaning.places, *places))), meaning.is_known or bool(places))
        if outer.type == "pair_pattern" and get(outer, "key") == node:
            return self._find_taken(file, node)
        if outer.type == "call_expression" and get(outer, "function") == node:
            # A call of a variable calls the function that it has.
            meaning = self.resolver.visible_meaning(file, node)
            called = [value.place for value in self.resolver.values(file, node) if value.kind == "function"]
            return meaning._replace(places=tuple(dict.fromkeys((*meaning.places, *called))))
        if outer.type == "export_specifier":
            return Meaning(tuple(self._of_specifier(file, outer, set())), is_known=True)
        if outer.type != "import_specifier":
            return None
        bound = file.binding_of(get(outer, "alias") or node)
        return self.resolver.import_meaning(file, bound) if bound is not None else Meaning(is_known=True)

    def _label_meaning(self, file: SyntaxFile, node: SyntaxNode, part: SyntaxNode) -> Meaning:
        """Return the member that a key of an object literal, or an attribute of an element, gives a value."""
        if part.type == "jsx_attribute":
            return self._attribute_meaning(file, node, up(part))
        expected = expected_values(self.resolver, file, up(part)) if up(part).type == "object" else ()
        found = self.member_places(expected, file.text(node)) or [NamePlace(file.path, node.start_byte)]
        return Meaning(tuple(found), is_known=True, is_member=True)

    def _attribute_meaning(self, file: SyntaxFile, node: SyntaxNode, element: SyntaxNode) -> Meaning:
        """Return the member of the first parameter of a component."""
        named = get(element, "name")
        if not named or file.text(named)[:1].islower():
            return Meaning(is_known=True, is_member=True)
        components = self.resolver.values(file, named)
        properties = tuple(one for value in components for one in parameter_values(self.resolver, value, 0))
        places = self.member_places(properties, file.text(node))
        return Meaning(tuple(places), is_known=bool(places), is_member=True)

    def binding_meaning(self, file: SyntaxFile, binding: NameBinding) -> Meaning | None:
        """Return the member that `{ name } = thing` takes."""
        if binding.node.type != "shorthand_property_identifier_pattern":
            return None
        taken = self._find_taken(file, binding.node)
        return Meaning((*taken.places, *places_of(file, [binding])), is_known=True) if taken is not None else None

    def _find_taken(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return the member that a name of an object pattern takes, where the object is the whole value."""
        pattern = beyond(up(node), "pair_pattern", "object_assignment_pattern")
        outer = up(pattern)
        if pattern.type != "object_pattern":
            return None
        values: Values = ()
        if get(outer, "type"):
            values = self.resolver.type_values(file, get(outer, "type"))
        elif outer.type == "variable_declarator":
            values = self.resolver.values(file, get(outer, "value"))
        places = dict.fromkeys(self.member_places(values, file.text(node)))
        return Meaning(tuple(places), is_known=bool(places), is_member=True)

    # -- classes and objects --

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the parameter of a constructor that is a field as well: `constructor(private name: Type)`."""
        node = file.scopes[scope].node
        if node.type == "internal_module":
            return self._find_specified(file, name, set(), get(node, "body"))
        bound = [one for one in file.bindings(name) if one.role == "parameter"]
        bound = [one for one in bound if has(one.statement, "accessibility_modifier", "readonly")]
        found = places_of(file, (one for one in bound if file.scopes[one.scope].parent == scope))
        named = get(node, "name")
        if found or not named or node.type not in ("class_declaration", "class"):
            return found
        return find_assigned_members(self.resolver, file, NamePlace(file.path, named.start_byte), name)

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return the object of a function outside of a class."""
        return find_self(self.resolver, file, offset)

    def own_members(self, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace] | None:
        """Return the members of an object literal, or those that are assigned to a function."""
        record = record_at(file, place)
        if record.type == "object":
            return find_record_members(file, record, name)
        if record:
            return places_of(file, file.bindings_in(name, file.scope_of(record)))
        return find_assigned_members(self.resolver, file, place, name) if self._is_plain(place) else None

    def own_bases(self, file: SyntaxFile, place: NamePlace) -> tuple[list[Value], bool] | None:
        """Return what an object literal inherits: what it spreads, which is not known; a function inherits nothing."""
        record = record_at(file, place)
        if record.type == "object":
            return [], not children(record, "spread_element")
        return ([], True) if not record and self._is_plain(place) else None

    def _is_plain(self, place: NamePlace) -> bool:
        """Whether a function or a variable is at a place, which may get members by assignments."""
        found = self.project.binding_at(place)
        return found is not None and found[1].role in ("function", "variable", "attribute")

    def is_property(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a method is a getter or a setter."""
        return has(binding.statement, "get", "set")

    # -- values --

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what `require`, `module.exports`, `Thing.prototype`, and objects and classes that are written give."""
        if node.type == "object":  # one without members may get them anywhere
            return record_value(file, node) if node.named_child_count else None
        if node.type == "class":
            name = get(node, "name")
            return (Value("class", NamePlace(file.path, (name or node).start_byte), file.text(name)),)
        if node.type == "member_expression":
            return self._exports_or_prototype(file, node) or None
        source = required_module(file, node) if node.type == "call_expression" else ""
        if not source:
            return None
        module = self._module(file, source)
        if module is None:
            return () if source.startswith(".") else (EXTERNAL,)
        found = self.resolver.place_values(self._find_exported(file, source, ASSIGNED))
        return (*(found or self._default_values(module)), module)

    def unbound_values(self, file: SyntaxFile, name: str) -> Values:
        """Return the module itself for `exports`."""
        return (Value("module", NamePlace(file.path)),) if name == "exports" else ()

    def _exports_or_prototype(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        name, holder = file.text(get(node, "property")), get(node, "object")
        if name == "exports" and file.text(holder) == "module":
            module = Value("module", NamePlace(file.path))
            return (*self.resolver.place_values(self._assigned_export(file, "")), module)
        values = self.resolver.values(file, holder) if name == "prototype" else ()
        return tuple(Value("instance", one.place, one.name) for one in values if one.kind in ("class", "function"))

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what the class assigns to a field without a type, or the element that a callback is called with."""
        if binding.statement.type in FIELDS and not get(binding.statement, "value") and binding.field(1) is None:
            assigned = [one for one in file.bindings_in(binding.name, binding.scope) if one.role == "attribute"]
            return tuple(value for one in assigned for value in self.resolver.binding_values(file, one))
        if binding.role != "parameter" or binding.field(1) is not None:
            return None
        function = file.scopes[binding.scope].node
        arguments = get(function, "<arguments")
        called = get(arguments, "^function")
        is_first = get(arguments, ".") == function and called.type == "member_expression"
        if not is_first or file.text(get(called, "property")) not in OVER_ELEMENTS:
            return None
        elements = self.resolver.elements(self.resolver.values(file, get(called, "object")))
        return self.resolver.take_apart(elements, binding.positions) or None


def required_module(file: SyntaxFile, node: SyntaxNode) -> str:
    """Return the module of `require('x')` or `import('x')`; empty for other nodes."""
    if node.type == "await_expression":
        node = get(node, ".")
    if node.type == "member_expression":  # `require('x').name`
        node = get(node, ".")
    if node.type != "call_expression" or file.text(get(node, "function")) not in ("require", "import"):
        return ""
    given = get(node, "arguments", ".")
    return _unquote(file, given) if given.type == "string" else ""


def _value_of(binding: NameBinding) -> SyntaxNode:
    """Return the node of the last field of a binding: its value."""
    return binding.field(len(binding.fields) - 1) or NO_NODE


def _read_import(file: SyntaxFile, binding: NameBinding) -> tuple[str, str]:
    """Return the module that an imported name comes from, and its name there."""
    if binding.role != "import":
        named = file.text(get(_value_of(binding), "property"))
        name = named or (str(binding.positions[0]) if binding.positions else WHOLE)
        return required_module(file, _value_of(binding)), name
    clause = up(binding.node)
    if clause.type == "import_require_clause":
        return _unquote(file, get(clause, "source")), ASSIGNED
    target = _unquote(file, get(binding.statement, "source"))
    if clause.type == "import_specifier":
        return target, file.text(get(clause, "name")) or binding.name
    return target, DEFAULT if clause.type == "import_clause" else WHOLE


def _star_sources(file: SyntaxFile) -> Iterator[str]:
    """Yield the modules whose names a file exports again, all of them."""
    for statement in children(file.root, "export_statement") if b"export" in file.data else ():
        source = get(statement, "source")
        if source and not children(statement, "export_clause"):
            yield _unquote(file, source)


def _default_nodes(file: SyntaxFile) -> list[SyntaxNode]:
    """Return what `export default` and `export =` give, as written."""
    found: list[SyntaxNode] = []
    for statement in children(file.root, "export_statement") if b"export" in file.data else ():
        if has(statement, "="):
            found.append(get(statement, "$"))
        elif has(statement, DEFAULT):
            found.append(get(statement, "declaration") or get(statement, "value"))
    return [node for node in found if node]


def _assigned_nodes(file: SyntaxFile) -> list[SyntaxNode]:
    """Return what is assigned to `module.exports`, as written."""
    words = file.find("exports") if b"module.exports" in file.data else ()
    found = [_last_right(get(word, "<member_expression", "<assignment_expression")) for word in words]
    return [node for node in found if node]


def _last_right(node: SyntaxNode) -> SyntaxNode:
    """Return what an assignment gives, behind further assignments: `a = b = value`."""
    right = get(node, "right")
    while right.type == "assignment_expression":
        right = get(right, "right")
    return right


def _unquote(file: SyntaxFile, node: SyntaxNode) -> str:
    return file.text(node).strip("\"'`")
