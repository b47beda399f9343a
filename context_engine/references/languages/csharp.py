"""C#: namespaces, usings, partial classes, extension methods, overloads by arity, object initializers."""

from __future__ import annotations

import re
from functools import lru_cache

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, follow, of_type, parent_of
from context_engine.references.package_style import TYPE, PackageStyle
from context_engine.references.values import Meaning, NamePlace, NameUsage, Values

_USING = re.compile(rb"^[ \t]{0,40}(?:global[ \t]+)?using[ \t]+(static[ \t]+)?([\w.]+)[ \t]*;", re.MULTILINE)
_FILE_NAMESPACE = re.compile(rb"^[ \t]{0,40}namespace[ \t]+([\w.]+)[ \t]*;", re.MULTILINE)
TYPE_PARENTS = frozenset(
    "base_list type_argument_list nullable_type array_type pointer_type type_parameter_constraint attribute"
    " primary_constructor_base_type explicit_interface_specifier typeof_expression ref_type".split()
)
"""Nodes whose names are types."""
MEMBERS = ("member_access_expression", "member_binding_expression")


class CSharpStyle(PackageStyle):
    """The rules of C#."""

    def gives_own_types(self, name: str) -> bool:
        """Return that it is so: a library returns types of its own, or those that are written."""
        return name != ""

    def package_of(self, file: SyntaxFile) -> str:
        """Return the namespace that a whole file is in."""
        return _file_namespace(file)

    def package_of_binding(self, file: SyntaxFile, binding: NameBinding) -> str | None:
        """Return the namespace of a type; None for what is inside of one."""
        if binding.role != "class" or file.scopes[binding.scope].role == "class":
            return None
        return _namespace_at(file, binding.statement.parent)

    def packages_around(self, file: SyntaxFile, offset: int) -> list[str]:
        """Return the namespace around an offset and those around it."""
        name = _namespace_at(file, file.node_at(offset, offset + 1))
        found = [name]
        while "." in name:
            name = name.rpartition(".")[0]
            found.append(name)
        return list(dict.fromkeys((*found, "")))

    def star_imports(self, file: SyntaxFile) -> list[tuple[str, bool]]:
        """Return the namespaces that a file uses, and the types whose members it uses."""
        matches = _USING.finditer(file.data)
        return [(match[2].decode("utf-8", "replace"), match[1] is not None) for match in matches]

    def read_import(self, file: SyntaxFile, binding: NameBinding) -> tuple[list[str], bool]:
        """Return what `using Name = Other;` names."""
        parts = binding.statement.named_children
        if binding.statement.child_by_field_name("name") != binding.node or len(parts) < 2:
            return [], False
        return file.text(parts[-1]).partition("<")[0].split("."), False

    def parameter_counts(self, file: SyntaxFile, binding: NameBinding) -> tuple[int, int]:
        """Return how many arguments a method takes; the object of an extension method is not one of them."""
        holder = binding.statement.child_by_field_name("parameters")
        written = []
        if holder is not None:
            written = [one for one in holder.named_children if one.type == "parameter"]
        optional = sum(any(child.type == "=" for child in one.children) for one in written)
        has_rest = holder is not None and any(one.type == "array_type" for one in holder.named_children)
        is_extension = bool(written) and _is_this(file, written[0])
        return len(written) - optional - is_extension, 1000 if has_rest else len(written)

    def usage_at(self, file: SyntaxFile, offset: int) -> NameUsage | None:
        """Return how the name at an offset is used: as a type, a method or a value."""
        node = file.node_at(offset, offset + 1)
        parent = parent_of(node)
        if node is None or parent is None:
            return None
        if parent.type == "generic_name" and parent.parent is not None:
            node, parent = parent, parent.parent
        is_member = parent.type in MEMBERS and parent.child_by_field_name("name") == node
        call = _call_around(parent) if is_member else _call_around(node)
        if call is not None or is_member:
            return NameUsage("call", _count_arguments(call)) if call is not None else NameUsage("value")
        if parent.type in TYPE_PARENTS or parent.type == "qualified_name":
            return TYPE
        if node in (parent.child_by_field_name("type"), parent.child_by_field_name("returns")):
            return TYPE
        return TYPE if node.type == "generic_name" else NameUsage("value")

    def accepts(self, file: SyntaxFile, binding: NameBinding, usage: NameUsage) -> bool:
        """Whether a use of a kind can mean a definition; a field may contain something that is called."""
        if binding.statement.type in ("constructor_declaration", "destructor_declaration"):
            return False
        if binding.role == "import":
            return binding.statement.child_by_field_name("name") == binding.node
        if usage.kind == "call" and binding.role in ("variable", "parameter"):
            return binding.statement.type != "type_parameter"
        if usage.kind == "value" and binding.role == "function":
            return True  # a method group
        return super().accepts(file, binding, usage)

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what names in initializers, arguments and after `?.` mean."""
        outer = node.parent
        if outer is None:
            return None
        if outer.type == "argument" and outer.child_by_field_name("name") == node:
            return Meaning(is_known=True)
        following = node.next_sibling
        if outer.type == "anonymous_object_creation_expression" and following is not None and following.type == "=":
            return Meaning(is_known=True)
        if outer.type == "member_binding_expression":
            return self._meaning_in(file, node, _condition_of(outer))
        block = outer.parent
        if outer.type == "assignment_expression" and block is not None and block.type == "initializer_expression":
            created = block.parent
            written = follow(created, "type")
            if outer.child_by_field_name("left") == node and written is not None:
                return self._member_of(file, node, self.resolver.type_values(file, written))
            return None if outer.child_by_field_name("left") != node else Meaning(is_member=True)
        while outer is not None and outer.type == "qualified_name":
            outer = outer.parent
        is_name = outer is not None and outer.type in ("using_directive", "namespace_declaration")
        return Meaning(is_known=True) if is_name or _is_file_namespace(outer) else None

    def _meaning_in(self, file: SyntaxFile, node: SyntaxNode, holder: SyntaxNode | None) -> Meaning:
        values = self.resolver.values(file, holder) if holder is not None else ()
        return self._member_of(file, node, values)

    def _member_of(self, file: SyntaxFile, node: SyntaxNode, values: Values) -> Meaning:
        usage = self.usage_at(file, node.start_byte)
        places: list[NamePlace] = []
        is_known = bool(values)
        for value in values:
            found, known = self.resolver.member_places(value, file.text(node), usage)
            places += found
            is_known = is_known and known
        places = places or self.extension_places(values, file.text(node), usage)
        return Meaning(tuple(places), is_known, is_member=True)

    def extension_places(self, values: Values, name: str, usage: NameUsage | None) -> list[NamePlace]:
        """Return the extension methods of values: static ones whose first parameter is marked with `this`."""
        if usage is None or usage.kind != "call":
            return []
        classes = {value.place for value in values if value.kind == "instance"}
        for value in list(values):
            bases = self.resolver.members.bases(value.place)[0] if value.kind == "instance" else []
            classes |= {base.place for base in bases if base.place.path}
        found: list[NamePlace] = []
        for path in self.resolver.project.defining(name) if classes else ():
            file = self.resolver.project.read(path)
            for binding in file.bindings(name) if file is not None and b"this " in file.data else ():
                first = _first_parameter(binding)
                written = follow(first, "type")
                if file is None or first is None or written is None or not _is_this(file, first):
                    continue
                is_meant = any(one.place in classes for one in self.resolver.type_values(file, written))
                if is_meant and self.accepts(file, binding, usage):
                    found.append(NamePlace(path, binding.node.start_byte))
        return found

    # -- classes --

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the bases of a type as written."""
        listed = [child for child in node.named_children if child.type == "base_list"]
        return [part for child in listed for part in child.named_children if part.type != "argument_list"]

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the parameter of a record, or the member of another part of a partial class."""
        node = file.scopes[scope].node
        own = [one for one in file.bindings_in(name, scope) if one.statement.type == "parameter"]
        if node.type == "record_declaration" and own:
            return [NamePlace(file.path, one.node.start_byte) for one in own]
        named = node.child_by_field_name("name")
        if b"partial" not in file.data or named is None:
            return []
        found: list[NamePlace] = []
        for path in self.resolver.project.defining(name):
            other = self.resolver.project.read(path)
            for binding in other.bindings(name) if other is not None and b"partial" in other.data else ():
                holder = other.scopes[binding.scope].node if other is not None else None
                part = None
                if holder is not None and holder.type == node.type:
                    part = holder.child_by_field_name("name")
                if other is None or part is None or other.text(part) != file.text(named):
                    continue
                if _namespace_at(other, holder) == _namespace_at(file, node):
                    found.append(NamePlace(path, binding.node.start_byte))
        return found

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what members of enums, variables without a written type and parameters of lambdas are."""
        statement = binding.statement
        outer = statement.parent
        if statement.type == "enum_member_declaration":
            return self.class_of_scope(file, binding.scope, "instance")
        if statement.type == "variable_declarator" and outer is not None:
            written = outer.child_by_field_name("type")
            is_untyped = written is not None and written.type == "implicit_type"
            return self.resolver.values(file, statement.named_children[-1]) if is_untyped else None
        if binding.node.type == "implicit_parameter" or (statement.type == "parameter" and binding.field(1) is None):
            return self._lambda_parameter(file, binding)
        return None

    def _lambda_parameter(self, file: SyntaxFile, binding: NameBinding) -> Values:
        node: SyntaxNode | None = binding.statement
        while node is not None and node.type in ("parameter", "parameter_list", "implicit_parameter"):
            node = node.parent
        argument = parent_of(of_type(node, "lambda_expression"))
        called = follow(parent_of(parent_of(of_type(argument, "argument"))), "function")
        name = follow(called, "name")
        holder = follow(called, "expression")
        if name is None or holder is None:
            return ()
        return self.element_of_call(file, holder, file.text(name).partition("<")[0])

    def loop_values(self, file: SyntaxFile, binding: NameBinding, given: SyntaxNode) -> Values:
        """Return the written type of the variable of a loop, or the elements."""
        written = binding.statement.child_by_field_name("type")
        if written is not None and written.type != "implicit_type":
            return self.resolver.type_values(file, written)
        return super().loop_values(file, binding, given)

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what calling a method of an object gives, or of the object before a `?.`."""
        holder = function.child_by_field_name("expression")
        if function.type == "conditional_access_expression":
            holder = function.child_by_field_name("condition")
            function = function.named_children[-1]
        name = function.child_by_field_name("name")
        if holder is None or name is None:
            return None
        text = file.text(name).partition("<")[0]
        found = self.called_values(file, holder, text, _count_arguments(call))
        if found:
            return found
        values = self.resolver.values(file, holder)
        added = self.extension_places(values, text, NameUsage("call", _count_arguments(call)))
        return self.resolver.results(self.resolver.place_values(added))

    def special_member(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return what a generic member and one after `?.` are."""
        name = node.child_by_field_name("name")
        holder = node.child_by_field_name("expression")
        if node.type == "member_binding_expression":
            holder = _condition_of(node)
        elif name is None or name.type != "generic_name":
            return ()
        if name is None or holder is None:
            return ()
        text = file.text(name).partition("<")[0]
        return tuple(
            one for value in self.resolver.values(file, holder) for one in self.resolver.member_values(value, text)
        )


def _call_around(node: SyntaxNode) -> SyntaxNode | None:
    """Return the call whose function a node is, also behind `?.`."""
    outer = node.parent
    while node.type != "identifier" and outer is not None and outer.type == "conditional_access_expression":
        node, outer = outer, outer.parent
    is_call = outer is not None and outer.type == "invocation_expression"
    return outer if outer is not None and is_call and outer.child_by_field_name("function") == node else None


def _condition_of(node: SyntaxNode) -> SyntaxNode | None:
    outer = node.parent
    while outer is not None and outer.type in ("member_access_expression", "invocation_expression"):
        outer = outer.parent
    return outer.child_by_field_name("condition") if outer is not None else None


@lru_cache(maxsize=2048)
def _file_namespace(file: SyntaxFile) -> str:
    found = _FILE_NAMESPACE.search(file.data)
    return found[1].decode("utf-8", "replace") if found else ""


def _is_file_namespace(node: SyntaxNode | None) -> bool:
    return node is not None and node.type == "file_scoped_namespace_declaration"


def _namespace_at(file: SyntaxFile, node: SyntaxNode | None) -> str:
    """Return the namespace around a node."""
    parts: list[str] = []
    while node is not None:
        name = node.child_by_field_name("name")
        if node.type == "namespace_declaration" and name is not None:
            parts.insert(0, file.text(name))
        node = node.parent
    whole = _file_namespace(file)
    return ".".join([whole, *parts] if whole else parts)


def _first_parameter(binding: NameBinding) -> SyntaxNode | None:
    holder = binding.statement.child_by_field_name("parameters") if binding.role == "function" else None
    if holder is not None:
        return next((one for one in holder.named_children if one.type == "parameter"), None)
    return None


def _is_this(file: SyntaxFile, parameter: SyntaxNode) -> bool:
    return any(child.type == "modifier" and file.text(child) == "this" for child in parameter.children)


def _count_arguments(call: SyntaxNode) -> int:
    arguments = call.child_by_field_name("arguments")
    return sum(one.type == "argument" for one in arguments.named_children) if arguments is not None else 0
