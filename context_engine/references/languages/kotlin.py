"""Kotlin: packages and imports, companions, extensions, receivers of lambdas, smart casts, Java files next to it."""

from __future__ import annotations

from collections.abc import Iterator

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, find_whole_words, parent_of
from context_engine.references.languages import kotlin_syntax as syntax
from context_engine.references.package_style import (
    DOTTED_MAX,
    ELEMENT_METHODS,
    OVER_ELEMENTS,
    TYPE,
    VALUE,
    PackageStyle,
)
from context_engine.references.values import EXTERNAL, UNKNOWN, HiddenUse, Meaning, NamePlace, NameUsage, Value, Values

LABELED = ("this_expression", "super_expression", "return_expression", "labeled_expression")
UNNAMED = ("companion_object", "object_literal")
WITH_RECEIVER = frozenset({"apply", "run", "with"})
PASSED_ON = frozenset({"apply", "also", "takeIf", "takeUnless"})
WITH_VALUE = frozenset({"let", "also", "takeIf", "takeUnless"})
CHECKED = frozenset({"requireNotNull", "checkNotNull"})
COLLECTIONS = frozenset(
    "listOf mutableListOf arrayListOf setOf mutableSetOf sequenceOf arrayOf listOfNotNull emptyList emptySet".split()
)
ELEMENTS = ELEMENT_METHODS | frozenset(
    "firstOrNull lastOrNull single singleOrNull find findLast filterNot filterNotNull sortedBy sortedByDescending"
    " getOrNull elementAt toSet toMutableList toMutableSet asSequence asReversed reversed drop dropLast plus minus"
    " onEach distinctBy maxByOrNull minByOrNull takeWhile dropWhile removeAt asIterable random getOrElse".split()
)
EACH = OVER_ELEMENTS | frozenset(
    "onEach firstOrNull first last lastOrNull find findLast filterNot any all none count sumOf map mapNotNull"
    " mapTo flatMap associateBy associateWith associate groupBy sortedBy sortedByDescending maxByOrNull minByOrNull"
    " partition joinToString single singleOrNull takeWhile dropWhile distinctBy indexOfFirst removeAll forEach".split()
)


class KotlinStyle(PackageStyle):
    """The rules of Kotlin."""

    depth_first = False
    joins_members = True

    def package_of(self, file: SyntaxFile) -> str:
        """Return the package that a file is in."""
        return syntax.package_of(file)

    def package_of_binding(self, file: SyntaxFile, binding: NameBinding) -> str | None:
        """Return the package of a definition at the top of it; in a part with a syntax error nothing is known."""
        outer = binding.statement.parent
        if outer is not None and outer.type == "property_declaration":
            outer = outer.parent
        return self.package_of(file) if outer is not None and outer.type == "source_file" else None

    # -- kinds of use --

    def usage_at(self, file: SyntaxFile, offset: int) -> NameUsage | None:
        """Return how the name at an offset is used: as a type, a call with so many arguments, or a value."""
        node = file.node_at(offset, offset + 1)
        outer = parent_of(node)
        if node is None or outer is None:
            return None
        if outer.type == "user_type":
            return TYPE
        if outer.type == "infix_expression":
            return NameUsage("call", 1) if outer.named_children[1] == node else VALUE
        if outer.type == "callable_reference" or _is_reference(outer, node):
            return NameUsage("call")
        if outer.type == "navigation_expression" and outer.named_children[-1] == node:
            node = outer
        if node.parent is not None and node.parent.type == "unary_expression" and syntax.call_of(node.parent):
            node = node.parent  # the grammar reads `!f()` as a call of `!f`
        call = syntax.call_of(node)
        return NameUsage("call", call.arity) if call is not None else VALUE

    def accepts(self, file: SyntaxFile, binding: NameBinding, usage: NameUsage) -> bool:
        """Whether a use of a kind can mean a definition; a property may contain something that is called."""
        if binding.role == "import":
            return False
        if usage.kind == "type":
            return binding.role in ("class", "alias") or binding.statement.type == "type_parameter"
        if binding.role == "function":
            fewest, most = syntax.parameter_counts(binding.statement)
            return usage.kind == "call" and (usage.arity < 0 or fewest <= usage.arity <= most)
        if binding.role in ("class", "alias"):
            return usage.kind == "value"
        if usage.kind == "call":
            others = file.bindings_in(binding.name, binding.scope)
            return not any(one.role == "function" and self.accepts(file, one, usage) for one in others)
        return binding.statement.type != "type_parameter"

    def owner(self, file: SyntaxFile, binding: NameBinding) -> str:
        """Return the type that an extension belongs to."""
        receiver = _receiver_of(binding)
        return file.text(receiver) if receiver is not None else ""

    def says_override(self, binding: NameBinding) -> bool | None:
        """Whether a member has the word for it."""
        return syntax.is_override(binding.statement)

    # -- names --

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the uses of a name in the templates of strings that the grammar reads as text: `"$name"`."""
        found: list[HiddenUse] = []
        for start, stop in find_whole_words(file.data, name, marked=True):
            node = file.node_at(start, stop)
            before = file.data[max(0, start - 2) : start]
            if node is None or node.type != "string_content" or before[-1:] != b"$" or before == b"\\$":
                continue
            places, is_open = self._lookup(file, name, start, VALUE)
            meaning = Meaning(tuple(dict.fromkeys(places)), is_known=bool(places) or not is_open)
            found.append(HiddenUse(start, stop, "read", meaning))
        return found

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a plain name means."""
        outer = node.parent
        if outer is None or outer.type in ("labeled_expression", "package_header"):
            return Meaning(is_known=True)
        if outer.parent is not None and outer.parent.type == "package_header":
            return Meaning(is_known=True)
        if file.data[node.start_byte - 1 : node.start_byte] == b"@" and outer.type in LABELED:
            return self._label(file, node, outer)
        if outer.type == "value_argument" and _names_argument(outer, node):
            return self._named_argument(file, outer, node)
        if outer.type == "infix_expression" and outer.named_children[1] == node:
            values = self.resolver.values(file, outer.named_children[0])
            return self._member_meaning(file, values, node)
        if outer.type == "callable_reference" and outer.named_child_count > 1 and outer.named_children[-1] == node:
            holders = self.resolver.values(file, outer.named_children[0])
            return self._member_meaning(file, holders, node)
        found = self._find(file, node)
        return Meaning(tuple(dict.fromkeys(found)), is_known=True) if found is not None else UNKNOWN

    def _label(self, file: SyntaxFile, node: SyntaxNode, outer: SyntaxNode) -> Meaning:
        """Return the class that `this@Name` means; other labels may be those of functions and lambdas."""
        if outer.type == "this_expression":
            values = self.self_values(file, outer.start_byte) or ()
            places = [value.place for value in values if self._is_called(value.place, file.text(node))]
            return Meaning(tuple(places), is_known=bool(places))
        return UNKNOWN

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a name may be: by a test of its type, or by its definition."""
        node = file.node_at(offset, offset + len(name.encode()))
        if node is None or node.type != "identifier":
            return ()
        tested = syntax.find_smart_cast(file, name, node)
        if tested is not None:
            return self.resolver.type_values(file, tested)
        if name == "it" or name == "field":
            special = self._implicit(file, name, offset)
            if special is not None:
                return special
        found = self._find(file, node)
        if found is None:
            return ()
        return self.resolver.place_values(found) or (() if found else (Value("external", name=name),))

    def _implicit(self, file: SyntaxFile, name: str, offset: int) -> Values | None:
        for number in file.around(offset):
            node = file.scopes[number].node
            if name == "it" and node.type == "lambda_literal" and syntax.lambda_parameters(node) is None:
                return self._lambda_parameter(file, node, 0)
        return None

    def _find(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace] | None:
        """Return the definitions of a plain name; none: defined elsewhere. None: not known."""
        outer = node.parent
        if outer is not None and outer.type == "user_type":
            parts = [one for one in outer.named_children if one.type == "identifier"]
            if parts[0] != node:
                written = [file.text(one) for one in parts[: parts.index(node) + 1]]
                return self._dotted_type(file, written, node.start_byte)
        usage = self.usage_at(file, node.start_byte) or VALUE
        found, is_open = self._lookup(file, file.text(node), node.start_byte, usage)
        if not found and usage.kind == "call" and usage.arity >= 0:
            found, is_open = self._lookup(file, file.text(node), node.start_byte, NameUsage("call"))
        return None if not found and is_open else found

    def _lookup(self, file: SyntaxFile, name: str, offset: int, usage: NameUsage) -> tuple[list[NamePlace], bool]:
        """Return the definitions of a name, and whether a receiver that is not known may have it."""
        is_open = file.root.has_error
        for number in file.around(offset):
            scope = file.scopes[number]
            if scope.role == "file":
                break
            found = self._locals(file, name, number, offset, usage)
            if found:
                return found, False
            if usage.kind == "type" and scope.role != "class":
                continue
            values, known = self._receiver(file, number)
            is_open = is_open or not known
            for value in values:
                found = self._members(value, name, usage)
                if found:
                    return found, False
        found = self._top_level(file, name, usage)
        plain = [one for one in found if not self._is_extension(one)]
        return plain or found, is_open

    def _members(self, value: Value, name: str, usage: NameUsage) -> list[NamePlace]:
        for wanted in (usage, TYPE) if usage.kind == "call" else (usage,):
            if value.kind in ("class", "instance"):
                found, _ = self.resolver.members.find(value, name, wanted)
                if found:
                    return found
        return []

    def _locals(self, file: SyntaxFile, name: str, number: int, offset: int, usage: NameUsage) -> list[NamePlace]:
        scope = file.scopes[number]
        bound = [one for one in file.bindings_in(name, number) if one.role != "import"]
        kept = [one for one in bound if self.accepts(file, one, usage)]
        if not kept and usage.kind == "call":
            kept = [one for one in bound if one.role == "class"]
        if scope.role == "class":
            is_inner = scope.node.type == "class_declaration"
            return [NamePlace(file.path, one.node.start_byte) for one in kept] if is_inner else []
        held: list[tuple[int, int, NameBinding]] = []
        for one in kept:
            block = _block_of(one, scope.node)
            is_before = one.role == "function" or one.node.start_byte <= offset
            if is_before and block.start_byte <= offset < block.end_byte and not _is_inside(one, offset):
                held.append((block.start_byte, one.node.start_byte, one))
        if not held:
            return []
        inner = max(held, key=lambda item: item[:2])
        same = [one for block, _, one in held if block == inner[0] and one.role == "function"]
        chosen = same if inner[2].role == "function" else [inner[2]]
        return [NamePlace(file.path, one.node.start_byte) for one in chosen]

    def _receiver(self, file: SyntaxFile, number: int) -> tuple[Values, bool]:
        """Return the object that a scope adds to the names inside of it, and whether it is known."""
        scope = file.scopes[number]
        node = scope.node
        if scope.role == "class":
            return self.class_of_scope(file, number, "class"), True
        if node.type in ("getter", "setter") and node.parent is not None:
            node = node.parent
        if node.type in ("function_declaration", "property_declaration"):
            written = syntax.receiver_type(node)
            if written is not None:
                return self.resolver.type_values(file, written), True
        return self._lambda_receiver(file, node) if node.type == "lambda_literal" else ((), True)

    def _top_level(self, file: SyntaxFile, name: str, usage: NameUsage) -> list[NamePlace]:
        imports = syntax.imports_of(file)
        found: list[NamePlace] = []
        for one in imports:
            if one.name == name:
                found += self._dotted_places(list(one.parts), usage)
        if found or any(one.name == name for one in imports):
            return found
        packages = [self.package_of(file)]
        found = self._in_package(packages[0], name, usage)
        for one in imports if not found else ():
            if one.name == "*":
                parts = list(one.parts)
                found += self._in_package(".".join(parts), name, usage)
                for value in self.resolver.place_values(self._dotted_places(parts, TYPE)) if len(parts) > 1 else ():
                    found += self._members(value, name, usage)
        return found

    def _in_package(self, package: str, name: str, usage: NameUsage) -> list[NamePlace]:
        found = self.places_in_package(package, name, usage)
        if not found and usage.kind != "type":
            found = self.places_in_package(package, name, TYPE)
        return found

    def _dotted_places(self, parts: list[str], usage: NameUsage) -> list[NamePlace]:
        parts = [part for part in parts[:-1] if part != "Companion"] + parts[-1:]
        wanted = (usage,) if usage.kind == "type" else (usage, TYPE)
        for kind in wanted:
            found = self.places_of_dotted(parts, kind)
            if found:
                return found
        return []

    def _dotted_type(self, file: SyntaxFile, parts: list[str], offset: int) -> list[NamePlace]:
        found, _ = self._lookup(file, parts[0], offset, TYPE)
        for part in parts[1:DOTTED_MAX] if found else ():
            values = self.resolver.place_values(found)
            found = [at for one in values for at in self.resolver.members.find(one, part, TYPE)[0]]
        return found or self.places_of_dotted(parts, TYPE)

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that a name in an import means."""
        written = binding.statement.named_children[0]
        parts = list(written.named_children)
        if binding.node in parts:
            parts = parts[: parts.index(binding.node) + 1]
        is_star = any(child.type == "*" for child in binding.statement.children)
        names = [file.text(part) for part in parts]
        if is_star or len(parts) < written.named_child_count:
            return self.places_of_dotted(names, TYPE) if len(names) > 1 else []
        found = self.places_of_dotted([name for name in names[:-1] if name != "Companion"] + names[-1:], None)
        return [one for one in found if not self._is_inner_parameter(one)]

    def _named_argument(self, file: SyntaxFile, argument: SyntaxNode, node: SyntaxNode) -> Meaning:
        holder = argument.parent.parent if argument.parent is not None else None
        if holder is None:
            return Meaning(is_known=True)
        places: list[NamePlace] = []
        if holder.type == "constructor_invocation":
            functions = self.resolver.values(file, holder.named_children[0])
        elif holder.type == "call_expression":
            functions = self._called_values(file, syntax.read_call(holder))
        else:
            functions = ()
        for value in functions:
            at = self.resolver.project.binding_at(value.place) if value.kind in ("class", "function") else None
            for parameter in syntax.parameters_of(at[1].statement) if at is not None else ():
                name = next((one for one in parameter.named_children if one.type == "identifier"), None)
                if at is not None and name is not None and at[0].text(name) == file.text(node):
                    places.append(NamePlace(at[0].path, name.start_byte))
        return Meaning(tuple(places), is_known=True)

    def _member_meaning(self, file: SyntaxFile, values: Values, node: SyntaxNode) -> Meaning:
        usage = self.usage_at(file, node.start_byte) or VALUE
        places = [at for value in values for at in self._members(value, file.text(node), usage)]
        places = places or self._extensions(file, values, node, usage)
        return Meaning(tuple(dict.fromkeys(places)), bool(values), is_member=True)

    def fitting_members(self, file: SyntaxFile, node: SyntaxNode, places: list[NamePlace]) -> list[NamePlace]:
        """Return the members that a place can mean: a nested class or an extension where no member has the name."""
        outer = node.parent
        if places or outer is None:
            return places
        usage = self.usage_at(file, node.start_byte) or VALUE
        values = self.resolver.values(file, outer.named_children[0])
        for value in values:
            places = places or self._members(value, file.text(node), usage)
        if not places and outer.type == "navigation_expression":
            places = self._path_places(file, outer, usage)
        return places or self._extensions(file, values, node, usage)

    def _path_places(self, file: SyntaxFile, node: SyntaxNode, usage: NameUsage) -> list[NamePlace]:
        """Return what a name with its package means: `org.zoo.Cat`."""
        parts = file.text(node).split(".") if node.end_byte - node.start_byte < 300 else []
        if len(parts) < 2 or not all(part.isidentifier() for part in parts) or not parts[0][:1].islower():
            return []
        return self._dotted_places(parts, usage)

    # -- extensions --

    def _is_extension(self, place: NamePlace) -> bool:
        found = self.resolver.project.binding_at(place)
        return found is not None and _receiver_of(found[1]) is not None

    def _extensions(self, file: SyntaxFile, values: Values, node: SyntaxNode, usage: NameUsage) -> list[NamePlace]:
        """Return the visible extensions of some values."""
        if not values:
            return []
        name = file.text(node)
        found = list(self._top_level(file, name, usage))
        for number in self.class_scopes(file, node.start_byte):
            for value in self.class_of_scope(file, number, "class"):
                found += self.resolver.members.find(value, name, usage)[0]
        bound = [(one, self.resolver.project.binding_at(one)) for one in dict.fromkeys(found)]
        return [place for place, at in bound if at is not None and self._fits(at, values)]

    def _fits(self, at: tuple[SyntaxFile, NameBinding], values: Values) -> bool:
        """Whether a definition is an extension of one of some values."""
        written = _receiver_of(at[1])
        if written is None:
            return False
        wanted = self.resolver.type_values(at[0], written)
        places = {one.place for one in wanted if one.place.path}
        if not places:  # a type of a library, or a type parameter
            named = {one.name.partition("<")[0].rstrip("?") for one in wanted}
            return any(
                value.kind != "external" or not value.name.isidentifier() or value.name in named or not wanted
                for value in values
            )
        return any(place in places for value in values for place in self._with_bases(value))

    # -- classes --

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return what a class extends and implements."""
        bases: list[SyntaxNode] = []
        listed = [child for child in node.named_children if child.type == "delegation_specifiers"]
        for specifier in (part for child in listed for part in child.named_children):
            inner = specifier.named_children[0] if specifier.named_child_count else specifier
            if inner.type in ("constructor_invocation", "explicit_delegation"):
                inner = inner.named_children[0]
            bases.append(inner)
        return bases

    def class_of_scope(self, file: SyntaxFile, scope: int, kind: str) -> Values:
        """Return the class whose scope this is; one without a name has the place where it starts."""
        node = file.scopes[scope].node
        if node.child_by_field_name("name") is not None or node.type not in UNNAMED:
            return super().class_of_scope(file, scope, kind)
        return (Value("class" if kind == "class" else "instance", NamePlace(file.path, node.start_byte)),)

    def class_expression(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return an object that is written as a value."""
        return (Value("instance", NamePlace(file.path, node.start_byte)),)

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return the innermost receiver, or the one that a label names."""
        node = file.node_at(offset, offset + 1)
        while node is not None and node.type != "this_expression" and node.start_byte == offset and node.parent:
            node = node.parent
        label = file.text(node.named_children[0]) if node is not None and _has_label(node) else ""
        for number in file.around(offset):
            scope = file.scopes[number]
            values, known = self._receiver(file, number)
            if not known and not label:
                return ()
            if scope.role == "class":
                values = self.resolver.instances(values)
            if values and (not label or label == self._label_of(file, number)):
                return values
        return ()

    def _label_of(self, file: SyntaxFile, number: int) -> str:
        node = file.scopes[number].node
        if node.type == "lambda_literal":
            given = syntax.call_of_lambda(node)
            return file.text(given[0].callee).rpartition(".")[2] if given is not None else ""
        name = node.child_by_field_name("name")
        return file.text(name) if name is not None else ""

    def own_members(self, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace] | None:
        """Return the members of a class without a name."""
        node = _unnamed_at(file, place)
        if node is None:
            return None
        number = next(n for n in range(len(file.scopes)) if file.scopes[n].node == node)
        return [NamePlace(file.path, one.node.start_byte) for one in file.bindings_in(name, number)]

    def own_bases(self, file: SyntaxFile, place: NamePlace) -> tuple[list[Value], bool] | None:
        """Return the bases of a class without a name."""
        node = _unnamed_at(file, place)
        if node is None:
            return None
        values = [value for base in self.base_nodes(file, node) for value in self.resolver.values(file, base)]
        return [one for one in values if one.kind in ("class", "external")], True

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the properties in the primary constructor, and the members of the companion."""
        bound = file.bindings_in(name, scope)
        own = [one for one in bound if one.statement.type == "class_parameter" and _is_property(one.statement)]
        found = [NamePlace(file.path, one.node.start_byte) for one in own]
        if found or any(one.role != "parameter" for one in bound):
            return found
        for number in range(scope + 1, len(file.scopes)):
            inner = file.scopes[number]
            if inner.start >= file.scopes[scope].stop:
                break
            if inner.node.type == "companion_object" and inner.parent == scope:
                for value in self.class_of_scope(file, number, "class"):
                    found += self.resolver.members.find(value, name)[0]
        return found

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what constants of enums, and variables and parameters without a written type, are."""
        statement, outer = binding.statement, binding.statement.parent
        if statement.type == "enum_entry":
            return self.class_of_scope(file, file.scopes[binding.scope].parent, "instance") or None
        if statement.type != "variable_declaration" or outer is None:
            return None
        written = syntax.written_type(statement)
        if written is not None:
            return self.resolver.type_values(file, written)
        if outer.type == "multi_variable_declaration":
            return self._component(file, outer, statement)
        return self._initial_values(file, outer, statement)

    def _initial_values(self, file: SyntaxFile, outer: SyntaxNode, declared: SyntaxNode) -> Values:
        if outer.type == "lambda_parameters" and outer.parent is not None:
            return self._lambda_parameter(file, outer.parent, outer.named_children.index(declared))
        following = declared.next_named_sibling
        while following is not None and (following.type == "type_constraints" or "comment" in following.type):
            following = following.next_named_sibling
        if following is None:
            return ()
        if outer.type == "for_statement":
            return self.resolver.elements(self.resolver.values(file, following))
        if following.type == "getter":
            body = next((one for one in following.named_children if one.type == "function_body"), None)
            return self._body_values(file, body)
        if following.type != "property_delegate":
            return self.resolver.values(file, following)
        given = following.named_children[-1]
        function = given.named_children[0] if given.type == "call_expression" else given
        if file.text(function) == "lazy":
            return self._last_values(file, syntax.read_call(given).trailing)
        return ()

    def _component(self, file: SyntaxFile, pattern: SyntaxNode, declared: SyntaxNode) -> Values:
        if pattern.parent is None:
            return ()
        position = pattern.named_children.index(declared)
        found: list[Value] = []
        for value in self._initial_values(file, pattern.parent, pattern):
            at = self.resolver.project.binding_at(value.place) if value.kind == "instance" else None
            parameters = syntax.parameters_of(at[1].statement) if at is not None else []
            written = syntax.written_type(parameters[position]) if position < len(parameters) else None
            if at is not None and written is not None:
                found += self.resolver.type_values(at[0], written)
        return tuple(found)

    def record_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what the branches of an `if`, a `when` and a `try` give."""
        condition = node.child_by_field_name("condition")
        branches = [one for one in node.named_children if one != condition]
        found: list[Value] = []
        for branch in branches[:8]:
            if branch.type in ("when_entry", "catch_block") and branch.named_child_count:
                branch = branch.named_children[-1]
            found += self._last_values(file, branch) if branch.type != "finally_block" else ()
        own = tuple(one for one in found if one.kind != "external")
        return own or tuple(found)

    def _last_values(self, file: SyntaxFile, node: SyntaxNode | None) -> Values:
        while node is not None and node.type in ("block", "lambda_literal"):
            written = [one for one in node.named_children if "comment" not in one.type]
            inner = [one for one in written if one.type != "lambda_parameters"]
            node = inner[-1] if inner else None
        return self.resolver.values(file, node) if node is not None else ()

    def result_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what calling a function gives: its written type, or its expression."""
        written = syntax.result_type(binding.statement)
        if written is not None:
            return self.resolver.type_values(file, written)
        body = next((one for one in binding.statement.named_children if one.type == "function_body"), None)
        return self._body_values(file, body)

    def _body_values(self, file: SyntaxFile, body: SyntaxNode | None) -> Values:
        if body is None or not body.named_child_count or body.named_children[-1].type == "block":
            return (EXTERNAL,)
        return self.resolver.values(file, body.named_children[-1])

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what a call gives."""
        read = syntax.read_call(call)
        name = file.text(_last_name(read.callee))
        if read.callee.type == "navigation_expression":
            holders = self.resolver.values(file, read.callee.named_children[0])
            special = self._standard_member(file, read, name, holders)
        else:
            special = self._standard_call(file, read, name)
        return special if special is not None else self._results(self._called_values(file, read))

    def _standard_member(self, file: SyntaxFile, call: syntax.KotlinCall, name: str, holders: Values) -> Values | None:
        if name in PASSED_ON:
            return holders
        if name in ("let", "run"):
            return self._last_values(file, call.trailing)
        if not holders or any(value.kind != "external" for value in holders):
            return None
        if self._called_values(file, call):
            return None
        if name in ("map", "mapNotNull") and call.trailing is not None:
            return (Value("external", name="List", arguments=(self._last_values(file, call.trailing),)),)
        if name in ELEMENTS and any(value.arguments for value in holders):
            inner = tuple(one for value in holders if value.arguments for one in value.arguments[-1])
            return (*inner, *holders)
        if call.trailing is not None or any(value.arguments for value in holders):
            return ()
        return (Value("external", name="()"),)

    def _standard_call(self, file: SyntaxFile, call: syntax.KotlinCall, name: str) -> Values | None:
        values = [one.named_children[-1] for one in call.arguments if one.named_child_count]
        if name in CHECKED and values:
            return self.resolver.values(file, values[0])
        if name in ("with", "run") and call.trailing is not None:
            return self._last_values(file, call.trailing)
        if name in COLLECTIONS:
            written = syntax.type_arguments(call.node) or syntax.type_arguments(call.callee.parent or call.node)
            if written:
                inner = self.resolver.type_values(file, written[0])
            else:
                inner = tuple(one for value in values[:3] for one in self.resolver.values(file, value))
            return (Value("external", name="List", arguments=(inner,)),)
        return None

    def _called_values(self, file: SyntaxFile, call: syntax.KotlinCall) -> Values:
        """Return the functions and classes that a call may mean."""
        callee = call.callee
        if callee.type == "navigation_expression":
            holders = self.resolver.values(file, callee.named_children[0])
            name = callee.named_children[-1]
            usage = NameUsage("call", call.arity)
            found: list[Value] = []
            for value in holders:
                for wanted in (usage, NameUsage("call")):
                    places = self._members(value, file.text(name), wanted)
                    if places:
                        found += self.resolver.place_values(places, value)
                        break
            places = [] if found else self._extensions(file, holders, name, usage)
            if not found and not places:
                places = self._path_places(file, callee, usage)
            return tuple(found) or self.resolver.place_values(places)
        return self.resolver.values(file, callee)

    def _results(self, functions: Values) -> Values:
        found: list[Value] = []
        for value in functions:
            if value.kind == "instance":
                found += self.resolver.results(self.resolver.member_values(value, "invoke", NameUsage("call")))
            else:
                found += self.resolver.results((value,))
        return tuple(found)

    def special_member(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return what `Cat.Companion`, `x::class`, a tested member, an extension and a name with its package are."""
        if node.type != "navigation_expression" or node.named_child_count < 2:
            return ()
        name = node.named_children[-1]
        tested = syntax.find_smart_cast(file, file.text(node), node) if node.end_byte - node.start_byte < 100 else None
        if tested is not None:
            return self.resolver.type_values(file, tested)
        holders = self.resolver.values(file, node.named_children[0])
        if file.text(name) == "Companion":
            return holders
        if file.text(name) == "class" or any(child.type == "::" for child in node.children):
            return (EXTERNAL,)
        usage = self.usage_at(file, name.start_byte) or VALUE
        places = [at for value in holders for at in self._members(value, file.text(name), usage)]
        if not places:
            places = self._extensions(file, holders, name, usage)
        if not places:
            places = self._path_places(file, node, usage)
        return self.resolver.place_values(places)

    # -- lambdas --

    def _lambda_receiver(self, file: SyntaxFile, node: SyntaxNode) -> tuple[Values, bool]:
        given = syntax.call_of_lambda(node)
        if given is None:
            return (), True
        call = given[0]
        name = file.text(_last_name(call.callee))
        wanted = self._lambda_type(file, given)
        if wanted is not None:
            written = syntax.function_receiver(wanted[1])
            if written is None:
                return (), True
            values = self.resolver.type_values(wanted[0], written)
            return values, bool(values)
        if name in WITH_RECEIVER:
            holder = None
            if call.callee.type == "navigation_expression":
                holder = call.callee.named_children[0]
            elif name == "with" and call.arguments:
                holder = call.arguments[0].named_children[-1]
            values = self.resolver.values(file, holder) if holder is not None else ()
            return values, bool(values) or holder is None
        return (), name in EACH or name in WITH_VALUE

    def _lambda_type(
        self, file: SyntaxFile, given: tuple[syntax.KotlinCall, int, str]
    ) -> tuple[SyntaxFile, SyntaxNode] | None:
        """Return the type of functions that a parameter has which gets a lambda."""
        call, position, name = given
        for value in self._called_values(file, call):
            at = self.resolver.project.binding_at(value.place) if value.kind in ("class", "function") else None
            parameters = syntax.parameters_of(at[1].statement) if at is not None else []
            if at is None or not parameters or position >= len(parameters):
                continue
            parameter = parameters[position]
            for one in parameters if name else ():
                if any(at[0].text(child) == name for child in one.named_children if child.type == "identifier"):
                    parameter = one
            written = syntax.plain_function_type(syntax.written_type(parameter))
            if written is not None:
                return at[0], written
        return None

    def _lambda_parameter(self, file: SyntaxFile, node: SyntaxNode, position: int) -> Values:
        given = syntax.call_of_lambda(node)
        if given is None:
            return ()
        wanted = self._lambda_type(file, given)
        if wanted is not None:
            parameters = syntax.function_parameters(wanted[1])
            if position < len(parameters):
                return self.resolver.type_values(wanted[0], parameters[position])
            return ()
        callee = given[0].callee
        if callee.type != "navigation_expression" or position > 0:
            return ()
        name = file.text(callee.named_children[-1])
        values = self.resolver.values(file, callee.named_children[0])
        if name in WITH_VALUE:
            return values
        return self.resolver.elements(values) if name in EACH else ()

    def _is_called(self, place: NamePlace, name: str) -> bool:
        found = self.resolver.project.binding_at(place)
        return found is not None and found[1].name == name

    def _is_inner_parameter(self, place: NamePlace) -> bool:
        found = self.resolver.project.binding_at(place)
        return found is not None and found[1].role == "parameter" and found[1].statement.type != "class_parameter"

    def _with_bases(self, value: Value) -> Iterator[NamePlace]:
        waiting, seen = [value.place], set[NamePlace]()
        while waiting:
            place = waiting.pop()
            if place not in seen and place.path:
                seen.add(place)
                yield place
                waiting += [base.place for base in self.resolver.members.bases(place)[0] if base.kind == "class"]


# -- nodes ------------------------------------------------------------------------------------------------------------


def _has_label(node: SyntaxNode) -> bool:
    return node.type == "this_expression" and node.named_child_count > 0


def _names_argument(argument: SyntaxNode, node: SyntaxNode) -> bool:
    return argument.named_children[0] == node and any(child.type == "=" for child in argument.children)


def _is_reference(outer: SyntaxNode, node: SyntaxNode) -> bool:
    is_last = outer.type == "navigation_expression" and outer.named_children[-1] == node
    return is_last and any(child.type == "::" for child in outer.children)


def _last_name(callee: SyntaxNode) -> SyntaxNode:
    return callee.named_children[-1] if callee.type == "navigation_expression" else callee


def _receiver_of(binding: NameBinding) -> SyntaxNode | None:
    statement: SyntaxNode | None = binding.statement
    if statement is not None and statement.type == "variable_declaration":
        statement = statement.parent
    if statement is None or statement.type not in ("function_declaration", "property_declaration"):
        return None
    return syntax.receiver_type(statement)


def _is_property(parameter: SyntaxNode) -> bool:
    return any(child.type in ("val", "var") for child in parameter.children)


def _is_inside(binding: NameBinding, offset: int) -> bool:
    """Whether an offset is in the declaration of a variable itself: `val cat = cat.next`."""
    holder = binding.statement.parent
    if binding.statement.type != "variable_declaration" or holder is None or holder.type != "property_declaration":
        return False
    return holder.start_byte <= offset < holder.end_byte and offset != binding.node.start_byte


def _block_of(binding: NameBinding, scope: SyntaxNode) -> SyntaxNode:
    node = binding.statement.parent
    while node is not None and node != scope and node.type != "block":
        node = node.parent
    return node or scope


def _unnamed_at(file: SyntaxFile, place: NamePlace) -> SyntaxNode | None:
    node = file.node_at(place.start, place.start + 1)
    while node is not None and node.start_byte == place.start:
        if node.type in UNNAMED and node.child_by_field_name("name") is None:
            return node
        node = node.parent
    return None
