"""Find out what a name at a place means, from what the text says: scopes, imports, annotations, constructor calls.

One resolver for all languages: what differs is in the `[resolution]` section of the language files and in the styles
of `module_styles.py`. Everything is asked for lazily, so a question parses only the files that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, child_of
from context_engine.references.class_members import ClassMembers
from context_engine.references.languages import STYLES
from context_engine.references.module_styles import ModuleStyle, as_classes
from context_engine.references.nodes import ancestors, get, up
from context_engine.references.project_files import ProjectFiles
from context_engine.references.values import ELSEWHERE, EXTERNAL, UNKNOWN, Meaning, NamePlace, NameUsage, Value, Values

DEPTH_MAX = 24
"""Steps from one expression to the next. Longer chains exist in generated code only."""
RETURNS_MAX = 8
"""Return statements looked at in a function without an annotation."""
KEEP_MAX = 200_000
"""Values kept; then all are computed again."""


class Resolver:
    """Answers for one state of a project. Not thread-safe: callers hold a lock."""

    def __init__(self, project: ProjectFiles) -> None:
        self.project = project
        self.members = ClassMembers(self)
        self._styles: dict[str, ModuleStyle] = {}
        self._values: dict[tuple[str, int, str], Values] = {}
        self._running: set[tuple[str, int, str]] = set()
        self._depth = 0

    def style(self, file: SyntaxFile) -> ModuleStyle:
        """Return how the files of a language see one another."""
        return self._style_named(file.rules.style)

    def _style_named(self, name: str) -> ModuleStyle:
        if name not in self._styles:
            self._styles[name] = STYLES.get(name, ModuleStyle)(self)
        return self._styles[name]

    # -- what a name means --

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning:
        """Return the definitions that an identifier means."""
        parent = node.parent
        if parent is None:
            return UNKNOWN
        fields = file.role_fields(parent, "member")
        holder = child_of(parent, fields[0]) if fields and child_of(parent, fields[1]) == node else None
        if holder is not None and holder != node:
            return self._member_meaning(file, holder, node)
        style = self.style(file)
        fields = file.role_fields(parent, "label")
        is_label = bool(fields) and child_of(parent, fields[0]) == node
        binding = file.binding_of(node) if not is_label else None
        if binding is not None:
            if style.is_import(file, binding):
                return self.import_meaning(file, binding)
            taken = style.binding_meaning(file, binding)
            return taken or Meaning((NamePlace(file.path, node.start_byte),), is_known=True)
        special = style.meaning(file, node)
        if special is not None:
            return special
        return self._label_meaning(file, parent, file.text(node)) if is_label else self.visible_meaning(file, node)

    def visible_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning:
        """Return the definitions that a plain name means."""
        return self.name_meaning(file, file.text(node), node.start_byte)

    def _member_meaning(self, file: SyntaxFile, holder: SyntaxNode, node: SyntaxNode) -> Meaning:
        values, style = self.values(file, holder), self.style(file)
        found = style.member_meaning(values, file.text(node), style.usage_at(file, node.start_byte))
        places = style.fitting_members(file, node, values, list(found.places))
        return found._replace(places=tuple(dict.fromkeys(places)))

    def _label_meaning(self, file: SyntaxFile, label: SyntaxNode, name: str) -> Meaning:
        """`Cat(name=...)` names a field of the class, where it has one."""
        outer = up(up(label))
        fields = file.role_fields(outer, "call") or file.role_fields(outer, "through") or ("-",)
        for value in self.values(file, get(outer, fields[0])):
            if value.kind == "class":
                made, _ = self.members.find(value, "__init__")
                found, _ = ([], True) if made else self.members.find(value, name)  # it names a parameter of that
                return Meaning(tuple(found), is_known=True, is_member=True)
        return Meaning(is_known=True, is_member=True)

    def name_meaning(self, file: SyntaxFile, name: str, offset: int) -> Meaning:
        """Return the definitions that a name without an owner means at an offset."""
        places: list[NamePlace] = []
        is_known = True
        bindings = self.visible_bindings(file, name, offset)
        for binding in bindings:
            if self.style(file).is_import(file, binding):
                imported = self.import_meaning(file, binding)
                places += imported.places
                is_known = is_known and imported.is_known
            else:
                places.append(NamePlace(file.path, binding.node.start_byte))
        if bindings:
            return Meaning(tuple(dict.fromkeys(places)), is_known)
        found = self.style(file).unbound(file, name, offset)
        if found is None:
            return ELSEWHERE if name in file.rules.builtins else UNKNOWN
        return Meaning(tuple(dict.fromkeys(found)), is_known=True)

    def import_meaning(self, file: SyntaxFile, binding: NameBinding) -> Meaning:
        """Return the definitions that an imported name means."""
        places = self.style(file).imported_places(file, binding)
        return UNKNOWN if places is None else Meaning(tuple(dict.fromkeys(places)), is_known=True)

    def visible_bindings(self, file: SyntaxFile, name: str, offset: int) -> list[NameBinding]:
        """Return the bindings of a plain name that apply at an offset: those of the innermost scope that has any."""
        bindings: Sequence[NameBinding] = file.bindings(name)
        style = self.style(file)
        usage = style.usage_at(file, offset)
        if usage is not None:
            bindings = [one for one in bindings if style.accepts(file, one, usage)]
        if not bindings:
            return []
        is_direct = True
        elsewhere: list[NameBinding] = []
        for number in file.around(offset):
            scope = file.scopes[number]
            is_class = scope.role in ("class", "extends")
            if not is_class or file.rules.lexical or (is_direct and file.rules.first_is_self):
                found = [one for one in bindings if one.scope == number and one.role != "attribute"]
                found = [one for one in found if not _is_inside(file, one, offset)]
                if found and is_in_open_head(file, number, offset):
                    found = [one for one in found if not _is_other_parameter(scope.node, one, offset)]
            else:  # the parameters of a generic class
                found = [one for one in bindings if one.scope == number and one.role == "parameter"]
            if held := _in_effect(file, found, number, offset):
                return held
            elsewhere = elsewhere or found
            is_direct = is_direct and scope.role == "scope"
        return elsewhere

    # -- values --

    def values(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return what an expression may be; nothing for no node."""
        return self._keep(file, node, "value", self._evaluate)

    def type_values(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return what a thing of a written type may be: instances."""
        return self._keep(file, node, "type", self._evaluate_type)

    def _keep(
        self, file: SyntaxFile, node: SyntaxNode, mode: str, compute: Callable[[SyntaxFile, SyntaxNode], Values]
    ) -> Values:
        if not node:
            return ()
        key = (file.path, node.id, mode)
        known = self._values.get(key)
        if known is not None:
            return known
        if key in self._running or self._depth > DEPTH_MAX:
            return ()
        self._running.add(key)
        self._depth += 1
        try:
            found = tuple(dict.fromkeys(compute(file, node)))
        finally:
            self._depth -= 1
            self._running.discard(key)
        # A value found inside of a circle, or at the end of a long chain, may be more from elsewhere.
        if found or not self._running:
            if len(self._values) > KEEP_MAX:
                self._values.clear()
            self._values[key] = found
        return found

    def _evaluate(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        roles = file.roles.get(node.type, {})
        if "self" in roles or (file.is_identifier(node) and file.is_self(node) and not file.rules.first_is_self):
            return self.self_values(file, node.start_byte)
        if "super" in roles:
            return self.super_values(file, node.start_byte)
        if file.is_identifier(node):
            return self.name_values(file, file.text(node), node.start_byte)
        special = self.style(file).expression_values(file, node)
        if special is not None:
            return special
        for role in EXPRESSIONS:
            if role in roles:
                return EXPRESSIONS[role](self, file, node, roles[role])
        return (EXTERNAL,) if "function" in roles or roles.get("scope") is not None else ()

    def _literal(self, file: SyntaxFile, node: SyntaxNode, fields: tuple[str, ...]) -> Values:
        kept = self._elements_of_literal(file, node) if node.type in SEQUENCES else ()
        return (Value("external", name=fields[0] if fields else node.type, arguments=(kept,) if kept else ()),)

    def _elements_of_literal(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return what the elements of a list, a set or a comprehension may be."""
        body = node.child_by_field_name("body")
        parts = [body] if body is not None else node.named_children[:LITERAL_ELEMENTS_MAX]
        return tuple(value for part in parts for value in self.values(file, part))

    def _through(self, file: SyntaxFile, node: SyntaxNode, fields: tuple[str, ...]) -> Values:
        return self.values(file, get(node, fields[0]))

    def _either(self, file: SyntaxFile, node: SyntaxNode, fields: tuple[str, ...]) -> Values:
        parts = node.named_children[:4]
        found = [value for part in parts for value in self.values(file, part)]
        return tuple(value for value in found if value.kind != "external") or tuple(found[:1])

    def _member(self, file: SyntaxFile, node: SyntaxNode, fields: tuple[str, ...]) -> Values:
        holder, name = child_of(node, fields[0]), child_of(node, fields[1])
        if name is None:
            return ()
        if holder is None:  # a call without an object: `run()` in Java
            return self.name_values(file, file.text(name), name.start_byte)
        found: list[Value] = []
        usage = self.style(file).usage_at(file, name.start_byte)
        for value in self.values(file, holder):
            found += self.member_values(value, file.text(name), usage)
        return tuple(found)

    def _call(self, file: SyntaxFile, node: SyntaxNode, fields: tuple[str, ...]) -> Values:
        return self.results(self.values(file, get(node, fields[0])))

    def _cast(self, file: SyntaxFile, node: SyntaxNode, fields: tuple[str, ...]) -> Values:
        return self.type_values(file, get(node, fields[0]))

    def _new(self, file: SyntaxFile, node: SyntaxNode, fields: tuple[str, ...]) -> Values:
        created = get(node, fields[0])
        if found := self.type_values(file, created):
            return found
        makers = [value for value in self.values(file, created) if value.kind == "function"]
        return tuple(Value("instance", value.place, value.name) for value in makers)

    def _index(self, file: SyntaxFile, node: SyntaxNode, fields: tuple[str, ...]) -> Values:
        indexed = self.values(file, get(node, fields[0]))
        return tuple(one for one in indexed if one.kind == "class") or self.elements(indexed)

    # -- names --

    def name_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a plain name may be at an offset."""
        narrowed = self.style(file).narrowed_values(file, name, offset)
        if narrowed or self.style(file).joins_declarations:
            return narrowed
        bindings = self.visible_bindings(file, name, offset)
        if bindings:
            return tuple(value for binding in bindings for value in self.binding_values(file, binding))
        other = self.style(file).unbound_values(file, name)
        if other:
            return other
        found = self.style(file).unbound(file, name, offset)
        if found is None:
            return (Value("external", name=name),) if name in file.rules.builtins else ()
        return self.place_values(found) if found else (Value("external", name=name),)

    def place_values(self, places: Iterable[NamePlace], receiver: Value | None = None) -> Values:
        """Return what the things at some places are."""
        values: list[Value] = []
        for place in places:
            found = self.project.binding_at(place)
            values += self.binding_values(*found, receiver) if found else ()
        return tuple(values)

    def binding_values(self, file: SyntaxFile, binding: NameBinding, receiver: Value | None = None) -> Values:
        """Return what a binding gives its name."""
        special = self.style(file).bound_values(file, binding)
        if special is not None:
            return special
        place = NamePlace(file.path, binding.node.start_byte)
        if binding.role in ("class", "namespace"):
            return (Value("class", place, binding.name),)
        if binding.role == "function":
            return self._function_values(file, binding, place, receiver)
        if self.style(file).is_import(file, binding):
            return self.style(file).imported_values(file, binding)
        if binding.role == "alias":
            return self._alias_values(file, binding, place)
        if binding.role in ("variable", "attribute") and function_node(file, binding) is not None:
            return (Value("function", place, binding.name, receiver=receiver.place if receiver else None),)
        declared = binding.field(1) if len(binding.fields) > 2 or binding.role == "parameter" else None
        if declared is not None:
            return self.take_apart(self.type_values(file, declared), binding.positions)
        return self._assigned_values(file, binding)

    def _alias_values(self, file: SyntaxFile, binding: NameBinding, place: NamePlace) -> Values:
        meant = binding.field(1)
        if meant is None or "object" in file.roles.get(meant.type, {}):
            return (Value("class", place, binding.name),)
        return as_classes(self.type_values(file, meant))

    def _assigned_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        given = binding.field(len(binding.fields) - 1) if len(binding.fields) > 1 else None
        if given is None:
            return ()
        if binding.role == "parameter":  # a default shows one type of several
            return tuple(value for value in self.values(file, given) if value.kind != "external")
        if binding.role == "loop":
            return self.take_apart(self.elements(self.values(file, given)), binding.positions)
        return self.take_apart_expression(file, given, binding.positions)

    def _function_values(
        self, file: SyntaxFile, binding: NameBinding, place: NamePlace, receiver: Value | None
    ) -> Values:
        value = Value("function", place, binding.name, receiver=receiver.place if receiver else None)
        if receiver is not None and self.style(file).is_property(file, binding):
            return self.results((value,))
        return (value,)

    def take_apart_expression(self, file: SyntaxFile, node: SyntaxNode, positions: tuple[int | str, ...]) -> Values:
        """Return what a pattern takes out of an expression."""
        first = positions[0] if positions else None
        if isinstance(first, int) and node.type in ("tuple", "expression_list", "list", "array", "pattern_list"):
            parts = node.named_children
            single = self.values(file, parts[0]) if len(parts) == 1 else ()
            if any(value.name == "tuple" for value in single):
                return self.take_apart(single, positions)
            return self.take_apart_expression(file, parts[first], positions[1:]) if first < len(parts) else ()
        return self.take_apart(self.values(file, node), positions)

    def take_apart(self, values: Values, positions: tuple[int | str, ...]) -> Values:
        """Return what a pattern takes out of values."""
        for position in positions:
            taken: list[Value] = []
            for value in values:
                arguments = value.arguments
                if isinstance(position, str):
                    taken += self.member_values(value, position)
                elif value.name.lower().endswith("tuple") and position < len(arguments):
                    taken += arguments[position]
                elif value.kind == "external":
                    taken.append(EXTERNAL) if not arguments else taken.extend(arguments[-1])
            values = tuple(taken)
        return values

    def elements(self, values: Values) -> Values:
        """Return what iterating or indexing gives."""
        found: list[Value] = []
        for value in values:
            if value.kind == "external" and value.arguments:
                found += value.arguments[-1]
            elif value.kind == "external" and value.name not in SEQUENCES:
                found.append(EXTERNAL)
            elif value.kind == "instance":
                own = self._style_of_module(value).elements_of(value)
                found += self._iterated_values(value) if own is None else own
        return tuple(found)

    def _iterated_values(self, value: Value) -> Values:
        for method in ("__iter__", "__getitem__", "__next__"):
            results = self.results(self.member_values(value, method))
            if results:
                return self.elements(results) if method == "__iter__" else results
        return ()

    # -- members --

    def member_places(self, value: Value, name: str, usage: NameUsage | None = None) -> tuple[list[NamePlace], bool]:
        """Return where a member of a value is defined, and whether all that may define it is known."""
        if value.kind == "external":
            return [], True
        if value.kind in ("class", "instance"):
            found, is_known = self.members.find(value, name, usage)
            if not found and usage is not None and usage.arity >= 0:
                return self.members.find(value, name, usage._replace(arity=-1))
            return found, is_known
        if value.kind in ("module", "folder"):
            found = self.module_member(value, name)
            return (found or []), found is not None
        if value.kind == "function":
            return (self.members.own_of_style(value.place, name) or [], True)
        return ([], False)

    def member_values(self, value: Value, name: str, usage: NameUsage | None = None) -> Values:
        """Return what a member of a value may be."""
        if value.kind == "external":
            return (Value("external", name=f"{value.name}.{name}", arguments=value.arguments),)
        places, is_known = self.member_places(value, name, usage)
        is_module = value.kind in ("module", "folder")
        found = self.place_values(places, None if is_module else value)
        if not found and is_module:
            found = self._style_of_module(value).submodule(value, name)
        is_open = bool(places) and value.kind in ("class", "instance")
        return found or ((EXTERNAL,) if is_known and not is_open else ())

    def module_member(self, value: Value, name: str) -> list[NamePlace] | None:
        """Return the definitions of a name in a module; None if they cannot be known."""
        return self._style_of_module(value).module_member(value, name, set())

    def sample_file(self, module: Value) -> SyntaxFile | None:
        """Return the file of a module, or one of the files of a folder."""
        if module.kind != "folder":
            return self.project.read(module.place.path)
        for path in self.project.paths.in_folder(module.place.path.rstrip("/")):
            file = self.project.read(path)
            if file is not None:
                return file
        return None

    def _style_of_module(self, module: Value) -> ModuleStyle:
        file = self.sample_file(module)
        return self._style_named(file.rules.style if file is not None else "python")

    # -- calls --

    def results(self, functions: Values) -> Values:
        """Return what calling values gives."""
        found: list[Value] = []
        for value in functions:
            if value.kind == "class":
                found.append(Value("instance", value.place, value.name, value.arguments))
            elif value.kind == "function":
                found += self._function_results(value)
            elif value.kind == "instance":
                found += self.results(self.member_values(value, "__call__"))
            elif value.kind == "external" and value.name.endswith("Callable") and value.arguments:
                found += value.arguments[-1]
            elif value.kind == "external":
                found.append(Value("external", name=f"{value.name}()", arguments=value.arguments))
        return tuple(found)

    def _function_results(self, value: Value) -> Values:
        found = self.project.binding_at(value.place)
        if found is None:
            return ()
        file, binding = found
        function = function_node(file, binding)
        if function is None:
            return ()
        special = self.style(file).result_values(file, binding)
        if special is not None:
            return special
        if declared := get(function, file.roles[function.type]["function"][1]):
            results = self.type_values(file, declared)
            own = tuple(one for one in results if one.name == SELF_TYPE)
            if own and value.receiver is not None:
                return (Value("instance", value.receiver),)
            return results
        return self._keep(file, function, "returns", self.returned_values)

    def returned_values(self, file: SyntaxFile, function: SyntaxNode) -> Values:
        """Return what the return statements of a function give."""
        return tuple(value for node in self.find_returns(file, function) for value in self.values(file, node))

    def find_returns(self, file: SyntaxFile, function: SyntaxNode) -> Iterator[SyntaxNode]:
        """Yield the first expressions that a function returns, not those of functions inside of it."""
        body = function.child_by_field_name("body")
        if body is not None and "block" not in file.roles.get(body.type, {}):
            yield body  # `x => x.name`
            return
        count = 0
        waiting = [function]
        while waiting and count < RETURNS_MAX:
            node = waiting.pop()
            for child in node.named_children:
                roles = file.roles.get(child.type, {})
                if "return" in roles:
                    if inner := get(child, roles["return"][0]):
                        count += 1
                        yield inner
                elif "function" not in roles and "class" not in roles and child.named_child_count:
                    waiting.append(child)

    def self_values(self, file: SyntaxFile, offset: int, kind: str = "instance") -> Values:
        """Return the object of the class around an offset."""
        own = self.style(file).self_values(file, offset)
        if own is not None:
            return own
        for number in file.around(offset):
            if file.scopes[number].role in ("class", "extends"):
                return self.style(file).class_of_scope(file, number, kind)
        return ()

    def super_values(self, file: SyntaxFile, offset: int) -> Values:
        """Return the bases of the class around an offset, as instances."""
        found: list[Value] = []
        for own in self.self_values(file, offset):
            bases, is_known = self.members.bases(own.place)
            if self.style(file).depth_first:
                bases = bases[:1]
            found += [Value("instance", base.place, base.name) for base in bases if base.kind == "class"]
            if not is_known or any(base.kind == "external" for base in bases) or not bases:
                found.append(EXTERNAL)
        return tuple(found)

    # -- written types --

    def _evaluate_type(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        special = self.style(file).written_values(file, node)
        if special is not None:
            return special
        roles = file.roles.get(node.type, {})
        if "generic" in roles:
            return self._generic_type(file, node, roles["generic"])
        if "array" in roles:
            inner = self.type_values(file, get(node, roles["array"][0]))
            return (Value("external", name="array", arguments=(inner,)),)
        if "tuple" in roles:
            parts = [part.child_by_field_name("type") or part for part in node.named_children]
            results = tuple(self.type_values(file, part) for part in parts)
            return (Value("external", name="tuple", arguments=results),)
        if "callable" in roles:
            results = self.type_values(file, get(node, roles["callable"][0]))
            return (Value("external", name="Callable", arguments=(results,)),)
        if "either" in roles:
            return tuple(value for part in node.named_children for value in self.type_values(file, part))
        if "through" in roles:
            return self.type_values(file, get(node, roles["through"][0]))
        if "literal" in roles:
            return (EXTERNAL,)
        return self.instances(self.values(file, node), file.text(node))

    def instances(self, values: Values, written: str = "") -> Values:
        """Return instances of classes; anything else stays as it is."""
        found: list[Value] = []
        for value in values:
            if value.kind == "class":
                found.append(Value("instance", value.place, value.name, value.arguments))
            elif value.kind == "external":
                found.append(Value("external", name=written or value.name, arguments=value.arguments))
            elif value.kind == "instance":  # a type variable, or an alias that was evaluated as a type
                found.append(value)
        return tuple(found)

    def _generic_type(self, file: SyntaxFile, node: SyntaxNode, fields: tuple[str, ...]) -> Values:
        head = get(node, fields[0])
        if not head:
            return ()
        name = file.text(head).rpartition(".")[2]
        parts = [part for part in node.named_children if part != head]
        if len(parts) == 1 and parts[0].type in ARGUMENT_LISTS:
            parts = parts[0].named_children
        arguments = tuple(self.type_values(file, part) for part in parts[:6])
        if name in file.rules.transparent:
            return tuple(value for argument in arguments for value in argument)
        if name in ("type", "Type"):
            return as_classes(tuple(value for argument in arguments for value in argument))
        return tuple(value._replace(arguments=arguments) for value in self.type_values(file, head))


ARGUMENT_LISTS = ("type_parameter", "type_arguments", "tuple", "type_argument_list", "template_argument_list")
SELF_TYPE = "Self"
SEQUENCES = frozenset("array list set list_comprehension set_comprehension generator_expression".split())
"""Literals whose elements have a type, as far as their first ones show it."""
LITERAL_ELEMENTS_MAX = 3

LATE = ("let_declaration", "short_var_declaration")
"""Statements whose names hold after them only."""

EXPRESSIONS: dict[str, Callable[[Resolver, SyntaxFile, SyntaxNode, tuple[str, ...]], Values]] = {
    "new": Resolver._new,
    "call": Resolver._call,
    "member": Resolver._member,
    "index": Resolver._index,
    "through": Resolver._through,
    "cast": Resolver._cast,
    "either": Resolver._either,
    "literal": Resolver._literal,
    "record": Resolver._literal,
}


def function_node(file: SyntaxFile, binding: NameBinding) -> SyntaxNode | None:
    """Return the function that a name is bound to by its definition, or by an assignment."""
    if binding.role == "function":
        return binding.statement
    given = binding.field(len(binding.fields) - 1) if binding.role in ("variable", "attribute") else None
    is_function = given is not None and "function" in file.roles.get(given.type, {})
    return given if is_function else None


def _in_effect(file: SyntaxFile, bindings: list[NameBinding], scope: int, offset: int) -> list[NameBinding]:
    """Return the bindings of a scope that apply at an offset.

    In the function of the use, an assignment in a block around the use replaces what was before it.
    """
    if file.rules.block_scopes:
        return _in_block(file, bindings, offset)
    if len(bindings) < 2 or file.scope_at(offset) != scope or file.scopes[scope].role == "file":
        return bindings
    before = [one for one in bindings if one.statement.end_byte <= offset or one.node.start_byte == offset]
    if not before:
        return bindings
    for place in range(len(before) - 1, 0, -1):
        block = _block_around(file, before[place].statement)
        if block is not None and block.start_byte <= offset < block.end_byte:
            return before[place:]
    return before


def _is_inside(file: SyntaxFile, binding: NameBinding, offset: int) -> bool:
    """Whether a name does not hold yet at an offset, as in its own declaration: `var state *state`."""
    if binding.statement.type in LATE and binding.node.start_byte != offset < binding.statement.end_byte:
        return True
    if (
        not file.rules.block_scopes
        or binding.role not in ("variable", "parameter")
        or binding.node.start_byte == offset
    ):
        return False
    declared = binding.field(1) if len(binding.fields) > 1 else None
    return declared is not None and declared.start_byte <= offset < declared.end_byte


def is_in_open_head(file: SyntaxFile, scope: int, offset: int) -> bool:
    """Whether an offset is in the head of a function that does not see its parameters."""
    if not file.rules.open_heads or file.scopes[scope].role != "function":
        return False
    body = file.scopes[scope].node.child_by_field_name("body")
    return body is not None and offset < body.start_byte


def _is_other_parameter(function: SyntaxNode, binding: NameBinding, offset: int) -> bool:
    listed, start = function.child_by_field_name("parameters"), binding.node.start_byte
    return listed is not None and listed.start_byte <= start < listed.end_byte and start != offset


def _in_block(file: SyntaxFile, bindings: list[NameBinding], offset: int) -> list[NameBinding]:
    """Return the bindings of the innermost block around an offset that has any."""
    held: list[tuple[int, NameBinding]] = []
    for one in bindings:
        block = one.statement if one.role == "loop" else _block_around(file, one.statement)
        if one.role not in ("variable", "loop") or block is None or _is_hoisted(one):
            held.append((file.scopes[one.scope].start, one))
        elif block.start_byte <= offset < block.end_byte:
            held.append((block.start_byte, one))
    inner = max((start for start, _ in held), default=0)
    return [one for start, one in held if start == inner]


def _is_hoisted(binding: NameBinding) -> bool:
    """Whether a variable holds in all of its function, as those of `var` in JavaScript do."""
    outer = binding.statement.parent
    return outer is not None and outer.type == "variable_declaration" and outer.children[0].type == "var"


def _block_around(file: SyntaxFile, node: SyntaxNode) -> SyntaxNode | None:
    return next((outer for outer in ancestors(node) if "block" in file.roles.get(outer.type, {})), None)
