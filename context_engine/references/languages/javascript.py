"""JavaScript and TypeScript: modules, re-exports, `require`, parameter properties, elements in callbacks."""

from __future__ import annotations

from collections.abc import Iterator

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, child_of, follow, of_type, parent_of
from context_engine.references.languages.javascript_objects import (
    expected_values,
    find_assigned_members,
    find_prototype_bases,
    find_record_members,
    find_self,
    function_of,
    record_at,
    record_value,
)
from context_engine.references.languages.javascript_packages import find_module, is_workspace_package
from context_engine.references.module_styles import ModuleStyle
from context_engine.references.values import EXTERNAL, Meaning, NamePlace, Value, Values

WHOLE = "*"
"""The name of an import that takes the whole module."""
DEFAULT = "default"
ASSIGNED = "="
"""The name of an import that takes what `export =` or `module.exports =` gives."""
OVER_ELEMENTS = frozenset("forEach map filter find findIndex findLast some every flatMap sort".split())
"""Methods of arrays, sets and maps that call a function with an element."""


class JavaScriptStyle(ModuleStyle):
    """The rules of JavaScript and TypeScript."""

    has_one_kind_of_member = True

    # -- imports --

    def is_import(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a variable is what `require` gives, or a part of it."""
        if binding.role != "variable" or len(binding.positions) > 1 or b"require" not in file.data:
            return False
        given = binding.field(len(binding.fields) - 1)
        if given is None or (given.type == "member_expression" and binding.positions):
            return False
        return required_module(file, given) != ""

    def is_module_member(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a name is assigned to `exports`."""
        member = binding.node.parent if binding.role == "attribute" else None
        holder = follow(member, "object")
        return holder is not None and file.text(holder) in ("exports", "module.exports")

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that an imported name means."""
        source, name = _read_import(file, binding)
        module = self._module(file, source)
        if module is None:
            return []
        found = self.resolver.module_member(module, ASSIGNED if name == WHOLE and binding.role == "variable" else name)
        return found or []

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what an imported name may be."""
        source, name = _read_import(file, binding)
        module = self._module(file, source)
        if module is None:
            is_foreign = self.is_foreign(file, binding)
            return (Value("external", name=f"{source}.{name}"),) if is_foreign else ()
        places = self.resolver.module_member(module, ASSIGNED if name == WHOLE else name)
        found = self.resolver.place_values(places or ())
        if not found and name in (DEFAULT, ASSIGNED, WHOLE):
            found = self._default_values(module)
        is_whole = name in (WHOLE, ASSIGNED) or (name == DEFAULT and not found and self._is_common(module))
        return (*found, module) if is_whole else found

    def is_foreign(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether an import leads out of the project; a package of this workspace may be built elsewhere."""
        source = _read_import(file, binding)[0]
        if is_workspace_package(self.resolver, source):
            return False
        parts = source.split("/")
        name = parts[1] if parts[0].startswith("@") and len(parts) > 1 else parts[0]
        return not name.startswith(".") and not self.resolver.project.paths.folders_by_suffix(f"packages/{name}/src")

    def _module(self, file: SyntaxFile, source: str) -> Value | None:
        found = find_module(self.resolver, file, source)
        return Value("module", NamePlace(self._declaration_file(found))) if found else None

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of an exported name; None if they cannot be known."""
        file = self.resolver.project.read(module.place.path)
        if file is None or file.path in seen:
            return []
        seen.add(file.path)
        if name in (DEFAULT, ASSIGNED):
            return self._default(file, seen, name)
        found = self._find_specified(file, name, seen)
        for binding in [] if found else file.bindings_in(name, 0):
            if binding.role == "import" or self.is_import(file, binding):
                continue
            found.append(NamePlace(file.path, binding.node.start_byte))
        if found:
            return list(dict.fromkeys(found))
        for source in _star_sources(file):
            inner = self._module(file, source)
            found = self.resolver.style(file).module_member(inner, name, seen) or [] if inner else []
            if found:
                return found
        found = self._assigned_export(file, name) or self._in_default(file, name)
        return found or (None if b"exports" in file.data else [])

    def _in_default(self, file: SyntaxFile, name: str) -> list[NamePlace]:
        """Return the member of what `export = Thing` gives, where the module is a class or a namespace."""
        if b"export =" not in file.data:
            return []
        values = self.resolver.place_values(self._default(file, set(), ASSIGNED))
        return [place for value in values for place in self.resolver.member_places(value, name)[0]]

    def _find_specified(
        self, file: SyntaxFile, name: str, seen: set[str], block: SyntaxNode | None = None
    ) -> list[NamePlace]:
        """Return the definitions of a name that an `export { ... }` lists in a file or a namespace."""
        found: list[NamePlace] = []
        holder = block or file.root
        for node in file.find(name):
            specifier = node.parent
            statement = None
            if specifier is not None and specifier.parent is not None:
                statement = specifier.parent.parent
            if specifier is None or specifier.type != "export_specifier" or statement is None:
                continue
            if statement.parent != holder:
                continue
            alias = specifier.child_by_field_name("alias")
            if (alias or specifier.child_by_field_name("name")) == node:
                found += self._of_specifier(file, specifier, seen)
        return found

    def _of_specifier(self, file: SyntaxFile, specifier: SyntaxNode, seen: set[str]) -> list[NamePlace]:
        named = specifier.child_by_field_name("name")
        source = follow(parent_of(specifier.parent), "source")
        if named is None:
            return []
        if source is not None:
            inner = self._module(file, _unquote(file, source))
            return self.module_member(inner, file.text(named), seen) or [] if inner is not None else []
        found: list[NamePlace] = []
        for binding in self.resolver.visible_bindings(file, file.text(named), specifier.start_byte):
            is_import = binding.role == "import" or self.is_import(file, binding)
            own = [NamePlace(file.path, binding.node.start_byte)]
            found += self.imported_places(file, binding) if is_import else own
        return found

    def _default(self, file: SyntaxFile, seen: set[str], name: str) -> list[NamePlace]:
        found = self._find_specified(file, DEFAULT, seen)
        for node in _default_nodes(file):
            places = self._named_by(file, node)
            if name == DEFAULT and b"export =" in file.data:  # a namespace may have another default
                values = self.resolver.place_values(places)
                inner = [place for value in values for place in self.resolver.member_places(value, DEFAULT)[0]]
                places = inner or places
            found += places
        return list(dict.fromkeys(found)) or self._assigned_export(file, "")

    def _default_values(self, module: Value) -> Values:
        """Return what a module exports without giving it a name: an object or a class that is written there."""
        file = self.resolver.project.read(module.place.path)
        if file is None:
            return ()
        nodes = [*_default_nodes(file), *_assigned_nodes(file)]
        return tuple(value for node in nodes for value in self.resolver.values(file, node))

    def _named_by(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace]:
        """Return the definition that an exported declaration or expression is."""
        if file.is_identifier(node):
            return list(self.resolver.meaning(file, node).places)
        name = node.child_by_field_name("name")
        return [NamePlace(file.path, name.start_byte)] if name is not None else []

    def _assigned_export(self, file: SyntaxFile, name: str) -> list[NamePlace]:
        """Return what `module.exports = ...` or `exports.name = ...` gives."""
        found: list[NamePlace] = []
        for word in file.find("exports") if b"exports" in file.data else ():
            target = word
            if word.parent is not None and word.parent.type == "member_expression":
                target = word.parent
            if target is not word and target.child_by_field_name("object") == word:
                member = target.child_by_field_name("property")
                if name and member is not None and file.text(member) == name:
                    found += self._find_assigned(file, target) or [NamePlace(file.path, member.start_byte)]
                continue
            outer = target.parent
            if outer is not None and outer.type == "member_expression" and name:
                member = outer.child_by_field_name("property")
                if member is not None and file.text(member) == name:
                    found += self._find_assigned(file, outer) or [NamePlace(file.path, member.start_byte)]
            elif outer is not None and outer.type == "assignment_expression":
                found += self._find_exported_value(file, _last_right(outer), name)
        return list(dict.fromkeys(found))

    def _find_assigned(self, file: SyntaxFile, target: SyntaxNode) -> list[NamePlace]:
        outer = target.parent
        is_assigned = outer is not None and outer.type == "assignment_expression"
        given = _last_right(outer) if outer is not None and is_assigned else None
        is_name = given is not None and file.is_identifier(given)
        return self._named_by(file, given) if given is not None and is_name else []

    def _find_exported_value(self, file: SyntaxFile, given: SyntaxNode | None, name: str) -> list[NamePlace]:
        if given is None or (not name and given.type != "object"):
            return self._named_by(file, given) if given is not None else []
        found: list[NamePlace] = []
        for part in given.named_children if given.type == "object" else ():
            key = part.child_by_field_name("key") or part.child_by_field_name("name") or part
            if file.text(key) != name:
                continue
            value = part.child_by_field_name("value")
            if part.type == "shorthand_property_identifier":
                found += self.resolver.meaning(file, part).places
            elif value is not None and file.is_identifier(value):
                found += self.resolver.meaning(file, value).places
            else:
                found.append(NamePlace(file.path, key.start_byte))
        return found

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a name in an import or export list means that binds nothing in its file."""
        outer = node.parent
        if outer is not None and node.type == "shorthand_property_identifier":
            return self._with_expected(file, node, self.resolver.visible_meaning(file, node))
        if outer is not None and outer.type == "pair_pattern" and outer.child_by_field_name("key") == node:
            return self._find_taken(file, node)
        if outer is None or outer.type not in ("export_specifier", "import_specifier"):
            return None
        if outer.type == "export_specifier":
            return Meaning(tuple(self._of_specifier(file, outer, set())), is_known=True)
        bound = file.binding_of(outer.child_by_field_name("alias") or node)
        return self.resolver.import_meaning(file, bound) if bound is not None else Meaning(is_known=True)

    # -- classes and functions --

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return the module that `require` or `import` gives."""
        source = required_module(file, call) if call.type == "call_expression" else ""
        if not source:
            return None
        module = self._module(file, source)
        if module is None:
            return () if source.startswith(".") else (EXTERNAL,)
        found = self.resolver.place_values(self.resolver.module_member(module, ASSIGNED) or ())
        return (*(found or self._default_values(module)), module)

    def unbound_values(self, file: SyntaxFile, name: str) -> Values:
        """Return the module itself for `exports`."""
        return (Value("module", NamePlace(file.path)),) if name == "exports" else ()

    def special_member(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return what `module.exports` and `Thing.prototype` are."""
        named, holder = node.child_by_field_name("property"), node.child_by_field_name("object")
        if named is None or holder is None:
            return ()
        name = file.text(named)
        if name == "exports" and file.text(holder) == "module":
            module = Value("module", NamePlace(file.path))
            return (*self.resolver.place_values(self._assigned_export(file, "")), module)
        if name != "prototype":
            return ()
        values = self.resolver.values(file, holder)
        return tuple(Value("instance", one.place, one.name) for one in values if one.kind in ("class", "function"))

    def record_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return an object literal; one without members may get them anywhere."""
        return record_value(file, node) if node.named_child_count else None

    def class_expression(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return a class that is written as a value."""
        name = node.child_by_field_name("name")
        at = name if name is not None else node
        return (Value("class", NamePlace(file.path, at.start_byte), file.text(name) if name is not None else ""),)

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return the object of a function outside of a class."""
        return find_self(self.resolver, file, offset)

    def own_members(self, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace] | None:
        """Return the members of an object literal, or those that are assigned to a function."""
        record = record_at(file, place)
        if record is not None and record.type == "object":
            return find_record_members(file, record, name)
        if record is not None:
            number = file.scope_of(record)
            return [NamePlace(file.path, one.node.start_byte) for one in file.bindings_in(name, number)]
        found = self.resolver.project.binding_at(place)
        if found is None or found[1].role not in ("function", "variable", "attribute"):
            return None
        return find_assigned_members(self.resolver, file, place, name)

    def own_bases(self, file: SyntaxFile, place: NamePlace) -> tuple[list[Value], bool] | None:
        """Return what a function inherits from; an object literal has what it spreads."""
        record = record_at(file, place)
        if record is not None and record.type == "object":
            return [], not any(child.type == "spread_element" for child in record.named_children)
        found = None if record is not None else self.resolver.project.binding_at(place)
        if found is None or found[1].role not in ("function", "variable", "attribute"):
            return None
        return list(find_prototype_bases(self.resolver, file, place)), True

    def label_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return the member that a key of an object literal, or an attribute of an element, gives a value."""
        part = node.parent
        outer = parent_of(part)
        own = Meaning((NamePlace(file.path, node.start_byte),), is_known=True, is_member=True)
        if part is not None and part.type == "jsx_attribute":
            return self._attribute_meaning(file, node, outer)
        if outer is not None and outer.type == "object":
            found = self._expected_member(file, outer, file.text(node))
            return Meaning(tuple(found), is_known=True, is_member=True) if found else own
        return own

    def _expected_member(self, file: SyntaxFile, record: SyntaxNode, name: str) -> list[NamePlace]:
        values = expected_values(self.resolver, file, record)
        return [place for value in values for place in self.resolver.member_places(value, name)[0]]

    def _attribute_meaning(self, file: SyntaxFile, node: SyntaxNode, element: SyntaxNode | None) -> Meaning:
        """Return the member of the first parameter of a component."""
        named = follow(element, "name")
        if named is None or file.text(named)[:1].islower():
            return Meaning(is_known=True, is_member=True)
        places: list[NamePlace] = []
        for value in self.resolver.values(file, named):
            found = self.resolver.project.binding_at(value.place) if value.kind == "function" else None
            function = function_of(found[1]) if found is not None else None
            parameters = follow(function, "parameters")
            first = follow(parameters, ".")
            written = follow(first, "type")
            for props in (
                self.resolver.type_values(found[0], written) if found is not None and written is not None else ()
            ):
                places += self.resolver.member_places(props, file.text(node))[0]
        return Meaning(tuple(places), is_known=bool(places), is_member=True)

    def binding_meaning(self, file: SyntaxFile, binding: NameBinding) -> Meaning | None:
        """Return the member that `{ name } = thing` takes."""
        if binding.node.type != "shorthand_property_identifier_pattern":
            return None
        taken = self._find_taken(file, binding.node)
        own = NamePlace(file.path, binding.node.start_byte)
        return Meaning((*taken.places, own), is_known=True) if taken is not None else None

    def _find_taken(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return the member that a name of an object pattern takes, where the object is the whole value."""
        pattern = node.parent
        while pattern is not None and pattern.type in ("pair_pattern", "object_assignment_pattern"):
            pattern = pattern.parent
        outer = parent_of(of_type(pattern, "object_pattern"))
        if outer is None:
            return None
        given = outer.child_by_field_name("value")
        written = outer.child_by_field_name("type")
        values: Values = ()
        if written is not None:
            values = self.resolver.type_values(file, written)
        elif given is not None and outer.type == "variable_declarator":
            values = self.resolver.values(file, given)
        places = [place for value in values for place in self.resolver.member_places(value, file.text(node))[0]]
        return Meaning(tuple(dict.fromkeys(places)), is_known=bool(places), is_member=True)

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return what a class extends or implements, and what an interface extends."""
        bases: list[SyntaxNode] = []
        for child in node.named_children:
            if child.type not in ("class_heritage", "extends_type_clause"):
                continue
            for part in child.named_children:
                inner = part.named_children if part.type in ("extends_clause", "implements_clause") else [part]
                bases += [one for one in inner if one.type != "type_arguments"]
        return bases

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the parameter of a constructor that is a field as well: `constructor(private name: Type)`."""
        node = file.scopes[scope].node
        block = node.child_by_field_name("body")
        if node.type == "internal_module":
            return self._find_specified(file, name, set(), block)
        found = []
        for binding in file.bindings(name):
            is_field = binding.role == "parameter" and any(
                child.type in ("accessibility_modifier", "readonly") for child in binding.statement.children
            )
            if is_field and file.scopes[binding.scope].parent == scope:
                found.append(NamePlace(file.path, binding.node.start_byte))
        named = node.child_by_field_name("name")
        place = NamePlace(file.path, named.start_byte) if named is not None else None
        if found or place is None or node.type not in ("class_declaration", "class"):
            return found
        return find_assigned_members(self.resolver, file, place, name)

    def is_property(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a method is a getter or a setter."""
        return any(child.type in ("get", "set") for child in binding.statement.children)

    def self_parameter(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the element, where the first parameter belongs to a function that is called with elements."""
        function = file.scopes[binding.scope].node
        arguments = function.parent
        call = parent_of(of_type(arguments, "arguments"))
        if call is None or arguments is None or arguments.named_children[0] != function:
            return ()
        called = child_of(call, "function")
        if called is None or called.type != "member_expression":
            return ()
        holder, method = child_of(called, "object"), child_of(called, "property")
        if holder is None or method is None or file.text(method) not in OVER_ELEMENTS:
            return ()
        return self.resolver.take_apart(self.resolver.elements(self.resolver.values(file, holder)), binding.positions)

    def _declaration_file(self, path: str) -> str:
        """Return the file with the types of a module, where there is one next to it."""
        stem, _, suffix = path.rpartition(".")
        declared = f"{stem}.d.{suffix.replace('js', 'ts')}"
        return declared if suffix in ("js", "mjs", "cjs") and declared in self.resolver.project.paths else path

    def _is_common(self, module: Value) -> bool:
        """Whether a module has no `export`, so that a default import takes the whole module."""
        file = self.resolver.project.read(module.place.path)
        return file is not None and b"exports." in file.data and not _default_nodes(file)

    def _with_expected(self, file: SyntaxFile, node: SyntaxNode, meaning: Meaning) -> Meaning:
        """Return what a name means that is the value of a member of the same name as well."""
        values = expected_values(self.resolver, file, node.parent) if node.parent is not None else ()
        places = [place for value in values for place in self.resolver.member_places(value, file.text(node))[0]]
        return Meaning(tuple(dict.fromkeys((*meaning.places, *places))), meaning.is_known or bool(places))


def required_module(file: SyntaxFile, node: SyntaxNode) -> str:
    """Return the module of `require('x')` or `import('x')`; empty for other nodes."""
    if node.type == "await_expression" and node.named_child_count:
        node = node.named_children[0]
    if node.type == "member_expression":  # `require('x').name`
        node = node.named_children[0]
    function = follow(of_type(node, "call_expression"), "function")
    arguments = node.child_by_field_name("arguments") if function is not None else None
    if function is None or arguments is None or file.text(function) not in ("require", "import"):
        return ""
    given = arguments.named_children
    return _unquote(file, given[0]) if given and given[0].type == "string" else ""


def _read_import(file: SyntaxFile, binding: NameBinding) -> tuple[str, str]:
    """Return the module that an imported name comes from, and its name there."""
    if binding.role != "import":
        given = binding.field(len(binding.fields) - 1)
        source = required_module(file, given) if given is not None else ""
        named = follow(given, "property")
        if named is not None:
            return source, file.text(named)
        return source, str(binding.positions[0]) if binding.positions else WHOLE
    parent = binding.node.parent
    is_assigned = parent is not None and parent.type == "import_require_clause"
    source = (parent if parent is not None and is_assigned else binding.statement).child_by_field_name("source")
    target = _unquote(file, source) if source is not None else ""
    if is_assigned:
        return target, ASSIGNED
    if parent is not None and parent.type == "import_specifier":
        name = parent.child_by_field_name("name")
        return target, file.text(name) if name is not None else binding.name
    return target, DEFAULT if parent is not None and parent.type == "import_clause" else WHOLE


def _star_sources(file: SyntaxFile) -> Iterator[str]:
    """Yield the modules whose names a file exports again, all of them."""
    if b"export" not in file.data:
        return
    for statement in file.root.named_children:
        source = follow(of_type(statement, "export_statement"), "source")
        if source is not None and not any(child.type == "export_clause" for child in statement.named_children):
            yield _unquote(file, source)


def _default_nodes(file: SyntaxFile) -> list[SyntaxNode]:
    """Return what `export default` and `export =` give, as written."""
    found: list[SyntaxNode] = []
    for statement in file.root.named_children if b"export" in file.data else ():
        if statement.type != "export_statement" or not statement.named_child_count:
            continue
        kinds = {child.type for child in statement.children}
        meant = statement.child_by_field_name("declaration") or statement.child_by_field_name("value")
        if "=" in kinds:
            found.append(statement.named_children[-1])
        elif DEFAULT in kinds and meant is not None:
            found.append(meant)
    return found


def _assigned_nodes(file: SyntaxFile) -> list[SyntaxNode]:
    """Return what is assigned to `module.exports`, as written."""
    found: list[SyntaxNode] = []
    for word in file.find("exports") if b"module.exports" in file.data else ():
        outer = None
        if word.parent is not None and word.parent.type == "member_expression":
            outer = word.parent.parent
        right = _last_right(outer) if outer is not None and outer.type == "assignment_expression" else None
        found += [right] if right is not None else []
    return found


def _last_right(node: SyntaxNode) -> SyntaxNode | None:
    """Return what an assignment gives, behind further assignments: `a = b = value`."""
    right = node.child_by_field_name("right")
    while right is not None and right.type == "assignment_expression":
        right = right.child_by_field_name("right")
    return right


def _unquote(file: SyntaxFile, node: SyntaxNode) -> str:
    return file.text(node).strip("\"'`")
