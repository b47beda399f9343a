"""Kotlin: packages and imports, companions, extensions, receivers of lambdas, smart casts, Java files next to it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, find_whole_words
from context_engine.references.languages import kotlin_syntax as syntax
from context_engine.references.languages.kotlin_calls import KotlinCalls
from context_engine.references.module_styles import places_of
from context_engine.references.nodes import NO_NODE, around, beyond, children, covers, get, has, up
from context_engine.references.package_style import (
    DOTTED_MAX,
    TYPE,
    VALUE,
    PackageStyle,
)
from context_engine.references.values import EXTERNAL, UNKNOWN, HiddenUse, Meaning, NamePlace, NameUsage, Value, Values

CALL = NameUsage("call")
LABELED = ("this_expression", "super_expression", "return_expression", "labeled_expression")


if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver


class KotlinStyle(PackageStyle):
    """The rules of Kotlin."""

    depth_first = False
    libraries_give_own_types = False
    joins_members = True
    unnamed_classes = ("companion_object", "object_literal")
    package_pattern = re.compile(rb"^[ \t]*package[ \t]+([\w.`]+)", re.MULTILINE)

    def package_of_binding(self, file: SyntaxFile, binding: NameBinding) -> str | None:
        """Return the package of a definition at the top of it; in a part with a syntax error nothing is known."""
        outer = beyond(up(binding.statement), "property_declaration")
        return self.package_of(file) if outer.type == "source_file" else None

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(resolver)
        self._calls = KotlinCalls(self)

    # -- kinds of use --

    def usage_at(self, file: SyntaxFile, offset: int) -> NameUsage | None:
        """Return how the name at an offset is used: as a type, a call with so many arguments, or a value."""
        node = file.node_at(offset, offset + 1) or NO_NODE
        outer = up(node)
        if not outer:
            return None
        if outer.type == "user_type":
            return TYPE
        if outer.type == "infix_expression":
            return NameUsage("call", 1) if outer.named_children[1] == node else VALUE
        is_last = outer.type == "navigation_expression" and get(outer, "$") == node
        if outer.type == "callable_reference" or (is_last and has(outer, "::")):
            return CALL
        node = outer if is_last else node
        if get(node, "<unary_expression") and syntax.call_of(up(node)):
            node = up(node)  # the grammar reads `!f()` as a call of `!f`
        call = syntax.call_of(node)
        return NameUsage("call", call.arity) if call is not None else VALUE

    def accepts(self, file: SyntaxFile, binding: NameBinding, usage: NameUsage) -> bool:
        """Whether a use of a kind can mean a definition; a property may contain something that is called."""
        is_type_parameter = binding.statement.type == "type_parameter"
        if binding.role == "import":
            return False
        if usage.kind == "type":
            return binding.role in ("class", "alias") or is_type_parameter
        if binding.role == "function":
            fewest, most = self.parameter_counts(file, binding)
            return usage.kind == "call" and (usage.arity < 0 or fewest <= usage.arity <= most)
        if binding.role in ("class", "alias"):
            return usage.kind == "value"
        if usage.kind == "call":
            others = file.bindings_in(binding.name, binding.scope)
            return not any(one.role == "function" and self.accepts(file, one, usage) for one in others)
        return not is_type_parameter

    def is_member(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a definition is in a class, or extends one."""
        return super().is_member(file, binding) or bool(_receiver_of(binding))

    def says_override(self, binding: NameBinding) -> bool | None:
        """Whether a member has the word for it."""
        declared = beyond(binding.statement, "variable_declaration")
        return any(b"override" in (one.text or b"").split() for one in children(declared, "modifiers"))

    # -- names --

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the uses of a name in the templates of strings that the grammar reads as text: `"$name"`."""
        found: list[HiddenUse] = []
        for start, stop in find_whole_words(file.data, name, marked=True):
            before = file.data[max(0, start - 2) : start]
            is_template = (file.node_at(start, stop) or NO_NODE).type == "string_content" and before[-1:] == b"$"
            if is_template and before != b"\\$":
                places, is_open = self._lookup(file, name, start, VALUE)
                meaning = Meaning(tuple(dict.fromkeys(places)), is_known=bool(places) or not is_open)
                found.append(HiddenUse(start, stop, "read", meaning))
        return found

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a plain name means."""
        outer = up(node)
        if not outer or outer.type == "labeled_expression" or "package_header" in (outer.type, up(outer).type):
            return Meaning(is_known=True)
        if file.data[node.start_byte - 1 : node.start_byte] == b"@" and outer.type in LABELED:
            return self._label(file, node, outer)
        if outer.type == "value_argument" and get(outer, ".") == node and has(outer, "="):
            return self._calls.named_argument(file, outer, node)
        is_infix = outer.type == "infix_expression" and outer.named_children[1] == node
        is_reference = outer.type == "callable_reference" and outer.named_child_count > 1 and get(outer, "$") == node
        if is_infix or is_reference:
            values = self.resolver.values(file, get(outer, "."))
            places = self.members_or_extensions(file, values, node)
            return Meaning(tuple(dict.fromkeys(places)), bool(values), is_member=True)
        found = self._find(file, node)
        return Meaning(tuple(dict.fromkeys(found)), is_known=True) if found is not None else UNKNOWN

    def _label(self, file: SyntaxFile, node: SyntaxNode, outer: SyntaxNode) -> Meaning:
        """Return the class that `this@Name` means; other labels may be those of functions and lambdas."""
        if outer.type != "this_expression":
            return UNKNOWN
        bound = [self.project.binding_at(value.place) for value in self.self_values(file, outer.start_byte)]
        places = [at for one in bound if one and one[1].name == file.text(node) for at in places_of(one[0], one[1:])]
        return Meaning(tuple(places), is_known=bool(places))

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a name may be: by a test of its type, or by its definition."""
        node = file.node_at(offset, offset + len(name.encode())) or NO_NODE
        if node.type != "identifier":
            return ()
        tested = syntax.find_smart_cast(file, name, node)
        if tested:
            return self.resolver.type_values(file, tested)
        for number in file.around(offset) if name == "it" else ():
            function = file.scopes[number].node
            if function.type == "lambda_literal" and not get(function, "@lambda_parameters"):
                return self._calls.lambda_parameter(file, function, 0)
        found = self._find(file, node)
        if not found:
            return (Value("external", name=name),) if found is not None else ()
        return self.resolver.place_values(found)

    def _find(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace] | None:
        """Return the definitions of a plain name; none: defined elsewhere. None: not known."""
        parts = children(get(node, "<user_type"), "identifier")
        if node in parts[1:]:
            return self._dotted_type(file, [file.text(one) for one in parts[: parts.index(node) + 1]], node.start_byte)
        usage = self.usage_at(file, node.start_byte) or VALUE
        found, is_open = self._lookup(file, file.text(node), node.start_byte, usage)
        if not found and usage.arity >= 0:
            found, is_open = self._lookup(file, file.text(node), node.start_byte, CALL)
        return None if not found and is_open else found

    def _dotted_type(self, file: SyntaxFile, parts: list[str], offset: int) -> list[NamePlace]:
        found, _ = self._lookup(file, parts[0], offset, TYPE)
        for part in parts[1:DOTTED_MAX]:
            values = self.resolver.place_values(found)
            found = [at for one in values for at in self.resolver.members.find(one, part, TYPE)[0]]
        return found or self.places_of_dotted(parts, TYPE)

    def _lookup(self, file: SyntaxFile, name: str, offset: int, usage: NameUsage) -> tuple[list[NamePlace], bool]:
        """Return the definitions of a name, and whether a receiver that is not known may have it."""
        is_open = file.root.has_error
        for number in file.around(offset):
            if number == 0:
                break
            found = self._locals(file, name, number, offset, usage)
            if found:
                return found, False
            if usage.kind != "type" or file.scopes[number].role == "class":
                values, known = self._receiver(file, number)
                is_open = is_open or not known
                found = next(filter(None, (self._members(value, name, usage) for value in values)), [])
                if found:
                    return found, False
        found = self._top_level(file, name, usage)
        return self.select(found, lambda _, one: not _receiver_of(one)) or found, is_open

    def _members(self, value: Value, name: str, usage: NameUsage) -> list[NamePlace]:
        kinds = (usage, TYPE, CALL) if usage.kind == "call" else (usage,)
        if value.kind not in ("class", "instance"):
            return []
        return next(filter(None, (self.resolver.members.find(value, name, kind)[0] for kind in kinds)), [])

    def _locals(self, file: SyntaxFile, name: str, number: int, offset: int, usage: NameUsage) -> list[NamePlace]:
        scope = file.scopes[number]
        bound = [one for one in file.bindings_in(name, number) if one.role != "import"]
        kept = [one for one in bound if self.accepts(file, one, usage)]
        if not kept and usage.kind == "call":
            kept = [one for one in bound if one.role == "class"]
        if scope.role == "class":
            return places_of(file, kept) if scope.node.type == "class_declaration" else []
        held: list[tuple[int, int, NameBinding]] = []
        for one in kept:
            block = around(one.statement, "block", scope.node.type) or scope.node
            is_before = one.role == "function" or one.node.start_byte <= offset
            if is_before and covers(block, offset) and not _is_inside(one, offset):
                held.append((block.start_byte, one.node.start_byte, one))
        if not held:
            return []
        inner, _, last = max(held, key=lambda item: item[:2])
        same = [one for block, _, one in held if block == inner and one.role == "function"]
        return places_of(file, same if last.role == "function" else [last])

    def _receiver(self, file: SyntaxFile, number: int) -> tuple[Values, bool]:
        """Return the object that a scope adds to the names inside of it, and whether it is known."""
        scope = file.scopes[number]
        if scope.role == "class":
            return self.class_of_scope(file, number, "class"), True
        node = beyond(scope.node, "getter", "setter")
        if node.type == "lambda_literal":
            return self._calls.lambda_receiver(file, node)
        extended = node.type in ("function_declaration", "property_declaration")
        return self.resolver.type_values(file, syntax.receiver_type(node)) if extended else (), True

    def _top_level(self, file: SyntaxFile, name: str, usage: NameUsage) -> list[NamePlace]:
        imports = _imports(file)
        named = [parts for own, parts in imports if own == name]
        found = [place for parts in named for place in self._dotted_places(parts, usage)]
        if named:
            return found
        found = self._in_package(self.package_of(file), name, usage)
        for own, parts in imports if not found else ():
            if own == "*":
                found += self._in_package(".".join(parts), name, usage)
                for value in self.resolver.place_values(self._dotted_places(parts, TYPE)) if len(parts) > 1 else ():
                    found += self._members(value, name, usage)
        return found

    def _in_package(self, package: str, name: str, usage: NameUsage) -> list[NamePlace]:
        found = self.places_in_package(package, name, usage)
        return found or (self.places_in_package(package, name, TYPE) if usage != TYPE else [])

    def _dotted_places(self, parts: list[str], usage: NameUsage) -> list[NamePlace]:
        parts = [part for part in parts[:-1] if part != "Companion"] + parts[-1:]
        return self.places_of_dotted(parts, usage) or (self.places_of_dotted(parts, TYPE) if usage != TYPE else [])

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that a name in an import means."""
        parts = list(get(binding.statement, ".").named_children)
        count = parts.index(binding.node) + 1 if binding.node in parts else len(parts)
        names = [file.text(part) for part in parts[:count]]
        if has(binding.statement, "*") or count < len(parts):
            return self.places_of_dotted(names, TYPE) if len(names) > 1 else []
        found = self.places_of_dotted([name for name in names[:-1] if name != "Companion"] + names[-1:], None)
        return self.select(found, lambda _, one: one.role != "parameter" or one.statement.type == "class_parameter")

    def fitting_members(
        self, file: SyntaxFile, node: SyntaxNode, values: Values, places: list[NamePlace]
    ) -> list[NamePlace]:
        """Return the members that a place can mean: a nested class or an extension where no member has the name."""
        return places or self.members_or_extensions(file, values, node)

    def members_or_extensions(self, file: SyntaxFile, values: Values, node: SyntaxNode) -> list[NamePlace]:
        """Return the members of values that a name means, or else the visible extensions of them."""
        usage = self.usage_at(file, node.start_byte) or VALUE
        found = [at for value in values for at in self._members(value, file.text(node), usage)]
        return found or self._extensions(file, values, node, usage)

    def _extensions(self, file: SyntaxFile, values: Values, node: SyntaxNode, usage: NameUsage) -> list[NamePlace]:
        """Return the visible extensions of some values."""
        if not values:
            return []
        found = self._top_level(file, file.text(node), usage)
        for number in self.class_scopes(file, node.start_byte):
            for value in self.class_of_scope(file, number, "class"):
                found += self.resolver.members.find(value, file.text(node), usage)[0]
        return self.select(dict.fromkeys(found), lambda other, one: self._is_extension_of(other, one, values))

    def _is_extension_of(self, file: SyntaxFile, binding: NameBinding, values: Values) -> bool:
        written = _receiver_of(binding)
        wanted = self.resolver.type_values(file, written)
        places = {one.place for one in wanted if one.place.path}
        if places or not written:
            owners = [value.place for value in values if value.place.path]
            return any(place in places for place in self.resolver.members.with_bases(owners))
        named = {one.name.partition("<")[0].rstrip("?") for one in wanted}  # of a library, or a type parameter
        return any(
            value.kind != "external" or not value.name.isidentifier() or value.name in named or not wanted
            for value in values
        )

    # -- classes --

    def self_values(self, file: SyntaxFile, offset: int) -> Values:
        """Return the innermost receiver, or the one that a label names."""
        node = around(file.node_at(offset, offset + 1) or NO_NODE, "this_expression")
        label = file.text(get(node, ".")) if node.start_byte == offset else ""
        for number in file.around(offset):
            values, known = self._receiver(file, number)
            if not known and not label:
                return ()
            if file.scopes[number].role == "class":
                values = self.resolver.instances(values)
            if values and (not label or label == self._label_of(file, file.scopes[number].node)):
                return values
        return ()

    def _label_of(self, file: SyntaxFile, node: SyntaxNode) -> str:
        given = syntax.call_of_lambda(node) if node.type == "lambda_literal" else None
        return file.text(get(node, "name")) if given is None else file.text(given[0].callee).rpartition(".")[2]

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the properties in the primary constructor, and the members of the companion."""
        bound = file.bindings_in(name, scope)
        properties = [
            one for one in bound if one.statement.type == "class_parameter" and has(one.statement, "val", "var")
        ]
        if properties or any(one.role != "parameter" for one in bound):
            return places_of(file, properties)
        inner = [number for number, one in enumerate(file.scopes) if one.parent == scope]
        companions = [number for number in inner if file.scopes[number].node.type == "companion_object"]
        values = [value for number in companions for value in self.class_of_scope(file, number, "class")]
        return [place for value in values for place in self.resolver.members.find(value, name)[0]]

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what constants of enums, and variables and parameters without a written type, are."""
        statement, outer = binding.statement, up(binding.statement)
        if statement.type == "enum_entry":
            return self.class_of_scope(file, file.scopes[binding.scope].parent, "instance") or None
        if statement.type != "variable_declaration":
            return None
        written = get(statement, syntax.TYPE)
        if written:
            return self.resolver.type_values(file, written)
        if outer.type == "multi_variable_declaration":
            return ()  # what takes values apart is not followed
        return self._initial_values(file, outer, statement)

    def _initial_values(self, file: SyntaxFile, outer: SyntaxNode, declared: SyntaxNode) -> Values:
        if outer.type == "lambda_parameters":
            return self._calls.lambda_parameter(file, up(outer), outer.named_children.index(declared))
        given = declared.next_named_sibling or NO_NODE
        if outer.type == "for_statement":
            return self.resolver.elements(self.resolver.values(file, given))
        if given.type == "getter":
            return self._body_values(file, given)
        if given.type != "property_delegate":
            return self.resolver.values(file, given)
        read = syntax.read_call(get(given, "@call_expression"))
        return (
            self.resolver.values(file, syntax.last_expression(read.trailing))
            if file.text(read.callee) == "lazy"
            else ()
        )

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what calls, and objects that are written there, are."""
        if node.type == "call_expression":
            return self._calls.results(file, syntax.read_call(node))
        return (Value("instance", NamePlace(file.path, node.start_byte)),) if node.type == "object_literal" else None

    def result_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what calling a function gives: its written type, or its expression."""
        written = syntax.result_type(binding.statement)
        return self.resolver.type_values(file, written) if written else self._body_values(file, binding.statement)

    def _body_values(self, file: SyntaxFile, function: SyntaxNode) -> Values:
        given = get(function, "@function_body", "$")
        return self.resolver.values(file, given) if given and given.type != "block" else (EXTERNAL,)


@lru_cache(maxsize=1024)
def _imports(file: SyntaxFile) -> tuple[tuple[str, list[str]], ...]:
    """Return what a file imports: the name that it has there, `*` for all, and the parts of its full name."""
    found: list[tuple[str, list[str]]] = []
    for statement in children(file.root, "import"):
        name = "*" if has(statement, "*") else file.text(get(statement, "$")).rpartition(".")[2]
        found.append((name, [file.text(part) for part in get(statement, ".").named_children]))
    return tuple(found)


def _receiver_of(binding: NameBinding) -> SyntaxNode:
    statement = beyond(binding.statement, "variable_declaration")
    is_member = statement.type in ("function_declaration", "property_declaration")
    return syntax.receiver_type(statement) if is_member else NO_NODE


def _is_inside(binding: NameBinding, offset: int) -> bool:
    """Whether an offset is in the declaration of a variable itself: `val cat = cat.next`."""
    holder = get(binding.statement, "<property_declaration")
    is_variable = binding.statement.type == "variable_declaration"
    return is_variable and covers(holder, offset) and offset != binding.node.start_byte
