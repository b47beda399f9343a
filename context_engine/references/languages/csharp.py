"""C#: namespaces, usings, partial classes, extension methods, overloads by arity, object initializers."""

from __future__ import annotations

import re

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode
from context_engine.references.module_styles import places_of
from context_engine.references.nodes import NO_NODE, ancestors, beyond, children, get, up
from context_engine.references.package_style import TYPE, VALUE, PackageStyle, count_arguments
from context_engine.references.values import Meaning, NamePlace, NameUsage, Values

_USING = re.compile(rb"^[ \t]{0,40}(?:global[ \t]+)?using[ \t]+(static[ \t]+)?([\w.]+)[ \t]*;", re.MULTILINE)
TYPE_PARENTS = frozenset(
    "base_list type_argument_list nullable_type array_type pointer_type type_parameter_constraint attribute"
    " primary_constructor_base_type explicit_interface_specifier typeof_expression ref_type qualified_name".split()
)
"""Nodes whose names are types."""
MEMBERS = ("member_access_expression", "member_binding_expression")


class CSharpStyle(PackageStyle):
    """The rules of C#."""

    package_pattern = re.compile(rb"^[ \t]{0,40}namespace[ \t]+([\w.]+)[ \t]*;", re.MULTILINE)

    # -- names --

    def package_of_binding(self, file: SyntaxFile, binding: NameBinding) -> str | None:
        """Return the namespace of a type; None for what is inside of one."""
        is_top = binding.role == "class" and file.scopes[binding.scope].role != "class"
        return self._namespace_at(file, binding.statement) if is_top else None

    def _namespace_at(self, file: SyntaxFile, node: SyntaxNode) -> str:
        """Return the namespace around a node."""
        names = [file.text(get(one, "name")) for one in ancestors(node) if one.type == "namespace_declaration"]
        return ".".join(filter(None, (self.package_of(file), *reversed(names))))

    def packages_around(self, file: SyntaxFile, offset: int) -> list[str]:
        """Return the namespace around an offset and those around it."""
        parts = self._namespace_at(file, file.node_at(offset, offset + 1) or NO_NODE).split(".")
        return list(dict.fromkeys((*(".".join(parts[:stop]) for stop in range(len(parts), 0, -1)), "")))

    def star_imports(self, file: SyntaxFile) -> list[tuple[str, bool]]:
        """Return the namespaces that a file uses, and the types whose members it uses."""
        return [(match[2].decode("utf-8", "replace"), match[1] is not None) for match in _USING.finditer(file.data)]

    def read_import(self, file: SyntaxFile, binding: NameBinding) -> tuple[list[str], bool]:
        """Return what `using Name = Other;` names."""
        statement = binding.statement
        if get(statement, "name") != binding.node or statement.named_child_count < 2:
            return [], False
        return file.text(get(statement, "$")).partition("<")[0].split("."), False

    def count_parameters(self, file: SyntaxFile, function: SyntaxNode) -> tuple[int, int]:
        """Return how many arguments a method takes; the object of an extension method is not one of them."""
        fewest, most = super().count_parameters(file, function)
        return fewest - _is_this(file, get(function, "parameters", "@parameter")), most

    def usage_at(self, file: SyntaxFile, offset: int) -> NameUsage | None:
        """Return how the name at an offset is used: as a type, a method or a value."""
        node = file.node_at(offset, offset + 1) or NO_NODE
        if up(node).type == "generic_name":
            node = up(node)
        outer = up(node)
        if not outer:
            return None
        is_member = outer.type in MEMBERS and get(outer, "name") == node
        call = _call_around(outer if is_member else node)
        if call or is_member:
            return NameUsage("call", count_arguments(call)) if call else VALUE
        is_type = outer.type in TYPE_PARENTS or node in (get(outer, "type"), get(outer, "returns"))
        return TYPE if is_type or node.type == "generic_name" else VALUE

    def accepts(self, file: SyntaxFile, binding: NameBinding, usage: NameUsage) -> bool:
        """Whether a use of a kind can mean a definition; a field may contain something that is called."""
        if binding.statement.type in ("constructor_declaration", "destructor_declaration"):
            return False
        if binding.role == "import":
            return get(binding.statement, "name") == binding.node
        if usage.kind == "call" and binding.role in ("variable", "parameter"):
            return binding.statement.type != "type_parameter"
        is_method_group = usage.kind == "value" and binding.role == "function"
        return is_method_group or super().accepts(file, binding, usage)

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what names in initializers, arguments and after `?.` mean."""
        outer = up(node)
        is_label = outer.type == "argument" and get(outer, "name") == node
        following = node.next_sibling or NO_NODE
        if is_label or (outer.type == "anonymous_object_creation_expression" and following.type == "="):
            return Meaning(is_known=True)
        if outer.type == "member_binding_expression":
            return self._member_of(file, node, self.resolver.values(file, _condition_of(outer)))
        block = get(node, "<assignment_expression", "<initializer_expression")
        if block:
            written = get(block, "<", "type")
            if get(outer, "left") != node:
                return None
            values = self.resolver.type_values(file, written)
            return self._member_of(file, node, values) if written else Meaning(is_member=True)
        at = beyond(outer, "qualified_name")
        is_name = at.type in ("using_directive", "namespace_declaration", "file_scoped_namespace_declaration")
        return Meaning(is_known=True) if is_name else None

    def _member_of(self, file: SyntaxFile, node: SyntaxNode, values: Values) -> Meaning:
        found = self.member_meaning(values, file.text(node), self.usage_at(file, node.start_byte))
        return found._replace(places=tuple(self.fitting_members(file, node, values, list(found.places))))

    def fitting_members(
        self, file: SyntaxFile, node: SyntaxNode, values: Values, places: list[NamePlace]
    ) -> list[NamePlace]:
        """Return the members, or else the extension methods."""
        return places or self._find_extensions(values, file.text(node), self.usage_at(file, node.start_byte))

    def _find_extensions(self, values: Values, name: str, usage: NameUsage | None) -> list[NamePlace]:
        """Return the extension methods of values: static ones whose first parameter is marked with `this`."""
        classes = {*self.resolver.members.with_bases(value.place for value in values if value.kind == "instance")}
        if usage is None or usage.kind != "call" or not classes:
            return []

        def is_meant(file: SyntaxFile, binding: NameBinding) -> bool:
            first = get(binding.statement, "parameters", "@parameter") if binding.role == "function" else NO_NODE
            if not _is_this(file, first) or not self.accepts(file, binding, usage):
                return False
            return any(one.place in classes for one in self.resolver.type_values(file, get(first, "type")))

        return self.find_defined(name, is_meant)

    # -- classes --

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the parameter of a record, or the member of another part of a partial class."""
        node = file.scopes[scope].node
        own = [one for one in file.bindings_in(name, scope) if one.statement.type == "parameter"]
        if node.type == "record_declaration" and own:
            return places_of(file, own)
        named = file.text(get(node, "name"))

        def is_meant(other: SyntaxFile, binding: NameBinding) -> bool:
            part = other.scopes[binding.scope].node
            is_part = part.type == node.type and other.text(get(part, "name")) == named and b"partial" in other.data
            return is_part and self._namespace_at(other, part) == self._namespace_at(file, node)

        return self.find_defined(name, is_meant) if b"partial" in file.data and named else []

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what members of enums, bound types, variables without a written type and lambda parameters are."""
        statement = binding.statement
        if statement.type == "enum_member_declaration":
            return self.class_of_scope(file, binding.scope, "instance")
        if statement.type == "type_parameter":
            clauses = children(up(up(statement)), "type_parameter_constraints_clause")
            own = [one for one in clauses if file.text(get(one, ".")) == binding.name]
            bounds = [get(bound, "type") for one in own for bound in children(one, "type_parameter_constraint")]
            return tuple(value for bound in bounds for value in self.resolver.type_values(file, bound))
        if statement.type == "variable_declarator":
            is_untyped = get(statement, "^type").type == "implicit_type"
            return self.resolver.values(file, get(statement, "$")) if is_untyped else None
        if binding.node.type == "implicit_parameter" or (statement.type == "parameter" and binding.field(1) is None):
            function = beyond(statement, "parameter", "parameter_list", "implicit_parameter")
            is_passed = function.type == "lambda_expression"
            called = get(function, "<argument", "<", "<", "function") if is_passed else NO_NODE
            name = file.text(get(called, "name")).partition("<")[0]
            return self.element_of_call(file, get(called, "expression"), name)
        return super().bound_values(file, binding)

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what calling a method gives, and what a generic member and one after `?.` are."""
        if node.type == "invocation_expression":
            return self._results_of_call(file, node, get(node, "function"))
        name, holder = get(node, "name"), get(node, "expression")
        if node.type == "member_binding_expression":
            holder = _condition_of(node)
        elif node.type not in MEMBERS or name.type != "generic_name":
            return None
        text = file.text(name).partition("<")[0]
        values = self.resolver.values(file, holder)
        return tuple(one for value in values for one in self.resolver.member_values(value, text)) or None

    def _results_of_call(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what calling a method of an object gives, or of the object before a `?.`."""
        holder = get(function, "expression")
        if function.type == "conditional_access_expression":
            holder, function = get(function, "condition"), get(function, "$")
        if not holder or not get(function, "name"):
            return None
        name = file.text(get(function, "name")).partition("<")[0]
        count = count_arguments(call)
        if found := self.called_values(file, holder, name, count):
            return found
        added = self._find_extensions(self.resolver.values(file, holder), name, NameUsage("call", count))
        return self.resolver.results(self.resolver.place_values(added))


def _call_around(node: SyntaxNode) -> SyntaxNode:
    """Return the call whose function a node is, also behind `?.`."""
    while node.type != "identifier" and up(node).type == "conditional_access_expression":
        node = up(node)
    call = get(node, "<invocation_expression")
    return call if get(call, "function") == node else NO_NODE


def _condition_of(node: SyntaxNode) -> SyntaxNode:
    return get(beyond(up(node), "member_access_expression", "invocation_expression"), "condition")


def _is_this(file: SyntaxFile, parameter: SyntaxNode) -> bool:
    return any(file.text(child) == "this" for child in children(parameter, "modifier"))
