"""Java: packages, single and star imports, static imports, overloads by arity, anonymous classes, records, enums."""

from __future__ import annotations

import re
from functools import lru_cache

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, follow, of_type, parent_of
from context_engine.references.package_style import TYPE, PackageStyle
from context_engine.references.values import Meaning, NamePlace, NameUsage, Value, Values

_PACKAGE = re.compile(rb"^package\s+([\w.]+)", re.MULTILINE)
_STAR = re.compile(rb"^import\s+(static\s+)?([\w.]+)\.\*", re.MULTILINE)
BASES = ("superclass", "super_interfaces", "extends_interfaces")


class JavaStyle(PackageStyle):
    """The rules of Java."""

    def says_override(self, binding: NameBinding) -> bool | None:
        """Whether a method has the annotation for it, which it may lack."""
        modifiers = next((one for one in binding.statement.named_children if one.type == "modifiers"), None)
        return True if modifiers is not None and b"@Override" in (modifiers.text or b"") else None

    def gives_own_types(self, name: str) -> bool:
        """Return that it is so: a library returns types of its own, or those that are written."""
        return name != ""

    def package_of(self, file: SyntaxFile) -> str:
        """Return the package that a file is in."""
        return _package_of(file)

    def star_imports(self, file: SyntaxFile) -> list[tuple[str, bool]]:
        """Return what a file imports with all its names; a star may follow a type as well as a package."""
        found = [(match[2].decode("utf-8", "replace"), match[1] is not None) for match in _STAR.finditer(file.data)]
        return found + [(target, True) for target, is_type in found if not is_type]

    def read_import(self, file: SyntaxFile, binding: NameBinding) -> tuple[list[str], bool]:
        """Return the parts of the name that an import brings, and whether it is a static one."""
        if any(child.type == "asterisk" for child in binding.statement.children):
            return [], False
        written = binding.statement.named_children[0]
        is_static = any(child.type == "static" for child in binding.statement.children)
        return file.text(written).split("."), is_static

    def parameter_counts(self, file: SyntaxFile, binding: NameBinding) -> tuple[int, int]:
        """Return how many arguments a method takes at least and at most."""
        parameters = binding.statement.child_by_field_name("parameters")
        written = [one.type for one in parameters.named_children] if parameters is not None else []
        count = written.count("formal_parameter")
        return (count, 1000) if "spread_parameter" in written else (count, count)

    def usage_at(self, file: SyntaxFile, offset: int) -> NameUsage | None:
        """Return how the name at an offset is used: as a type, a method or a value."""
        node = file.node_at(offset, offset + 1)
        parent = parent_of(node)
        if node is None or parent is None:
            return None
        if node.type == "type_identifier" or parent.type in ("marker_annotation", "annotation"):
            return TYPE
        if parent.type == "method_invocation" and parent.child_by_field_name("name") == node:
            return NameUsage("call", _count_arguments(parent))
        if parent.type == "method_reference" and parent.named_children[-1] == node != parent.named_children[0]:
            return NameUsage("call")
        return NameUsage("value")

    def accepts(self, file: SyntaxFile, binding: NameBinding, usage: NameUsage) -> bool:
        """Whether a use of a kind can mean a definition; a component of a record is a method as well."""
        if binding.statement.type in ("constructor_declaration", "compact_constructor_declaration"):
            return False
        if usage.kind == "call" and binding.role == "parameter":
            return file.scopes[binding.scope].node.type == "record_declaration" and usage.arity < 1
        if binding.role == "import":
            is_static = any(child.type == "static" for child in binding.statement.children)
            return is_static if usage.kind == "call" else usage.kind == "value" or not is_static
        return super().accepts(file, binding, usage)

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what the parts of an import, a label of a loop and a case of a switch mean."""
        outer = node.parent
        if outer is not None and outer.type in ("labeled_statement", "break_statement", "continue_statement"):
            return Meaning(is_known=True)
        if outer is not None and outer.type == "switch_label":
            return self._case_meaning(file, node, outer)
        written = node
        while outer is not None and outer.type == "scoped_identifier":
            written, outer = outer if outer.child_by_field_name("name") == written else written, outer.parent
        if outer is None or outer.type not in ("import_declaration", "package_declaration"):
            return None
        if outer.type == "package_declaration":
            return Meaning(is_known=True)
        return Meaning(tuple(self.places_of_dotted(file.text(written).split("."), TYPE)), is_known=True)

    def _case_meaning(self, file: SyntaxFile, node: SyntaxNode, label: SyntaxNode) -> Meaning | None:
        outer = label.parent
        while outer is not None and outer.type not in ("switch_expression", "switch_statement"):
            outer = outer.parent
        tested = follow(outer, "condition")
        values = self.resolver.values(file, tested) if tested is not None else ()
        return self.enum_meaning(values, file.text(node))

    # -- classes --

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return what a class extends and implements; an anonymous class has the type that it is made of."""
        if node.type == "object_creation_expression":
            created = node.child_by_field_name("type")
            return [created] if created is not None else []
        bases: list[SyntaxNode] = []
        for child in node.named_children:
            for part in child.named_children if child.type in BASES else ():
                bases += part.named_children if part.type == "type_list" else [part]
        return bases

    def class_of_scope(self, file: SyntaxFile, scope: int, kind: str) -> Values:
        """Return the class whose scope this is; an anonymous one has the place of its `new`."""
        node = file.scopes[scope].node
        if node.type != "object_creation_expression":
            return super().class_of_scope(file, scope, kind)
        place = NamePlace(file.path, node.start_byte)
        if _body_of(node) is not None:
            return (Value("class" if kind == "class" else "instance", place),)
        return ()

    def class_scopes(self, file: SyntaxFile, offset: int) -> list[int]:
        """Return the numbers of the classes around an offset; the arguments of a `new` are not in its class."""
        found = []
        for number in super().class_scopes(file, offset):
            node = file.scopes[number].node
            body = _body_of(node) if node.type == "object_creation_expression" else node
            if body is not None and body.start_byte <= offset < body.end_byte:
                found.append(number)
        return found

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return the object of the class around an offset."""
        inner = next(iter(self.class_scopes(file, offset)), None)
        return self.class_of_scope(file, inner, "instance") if inner is not None else ()

    def own_members(self, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace] | None:
        """Return the members of an anonymous class."""
        node = _anonymous_at(file, place)
        if node is None:
            return None
        bound = file.bindings_in(name, file.scope_of(node))
        return [NamePlace(file.path, one.node.start_byte) for one in bound]

    def own_bases(self, file: SyntaxFile, place: NamePlace) -> tuple[list[Value], bool] | None:
        """Return the type that an anonymous class is made of."""
        node = _anonymous_at(file, place)
        created = follow(node, "type")
        if created is None:
            return None
        values = [
            one._replace(kind="class") if one.place.path else one for one in self.resolver.type_values(file, created)
        ]
        return values, bool(values)

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the component of a record."""
        if file.scopes[scope].node.type != "record_declaration":
            return []
        bound = file.bindings_in(name, scope)
        return [NamePlace(file.path, one.node.start_byte) for one in bound if one.statement.type == "formal_parameter"]

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what constants of enums, variables without a written type and parameters of lambdas are."""
        statement = binding.statement
        outer = statement.parent
        if statement.type == "enum_constant":
            return self.class_of_scope(file, binding.scope, "instance")
        if statement.type == "variable_declarator" and outer is not None:
            if outer.type == "spread_parameter":
                written = [one for one in outer.named_children if one.type not in ("modifiers", "variable_declarator")]
                inner = self.resolver.type_values(file, written[0]) if written else ()
                return (Value("external", name="array", arguments=(inner,)),)
            return self._if_untyped(file, outer.child_by_field_name("type"), binding)
        if statement.type in ("inferred_parameters", "lambda_expression"):
            function = outer if statement.type == "inferred_parameters" else statement
            return self._lambda_parameter(file, function)
        return None

    def _if_untyped(self, file: SyntaxFile, written: SyntaxNode | None, binding: NameBinding) -> Values | None:
        value = binding.statement.child_by_field_name("value")
        is_untyped = written is not None and file.text(written) == "var"
        return self.resolver.values(file, value) if is_untyped and value is not None else None

    def _lambda_parameter(self, file: SyntaxFile, function: SyntaxNode | None) -> Values:
        call = parent_of(of_type(parent_of(function), "argument_list"))
        holder = follow(call, "object")
        name = follow(call, "name")
        return () if holder is None or name is None else self.element_of_call(file, holder, file.text(name))

    def loop_values(self, file: SyntaxFile, binding: NameBinding, given: SyntaxNode) -> Values:
        """Return the written type of the variable of a loop, or the elements."""
        written = binding.statement.child_by_field_name("type")
        if written is not None and file.text(written) != "var":
            return self.resolver.type_values(file, written)
        return super().loop_values(file, binding, given)

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what calling a method gives."""
        holder = call.child_by_field_name("object")
        if call.type != "method_invocation" or holder is None:
            return None
        return self.called_values(file, holder, file.text(function), _count_arguments(call))

    def special_member(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return what `Cat.this` and a type with its package are."""
        if node.type == "field_access" and node.named_children[-1].type == "this":
            return self.resolver.instances(self.resolver.values(file, node.named_children[0]))
        return self.dotted_values(file, node)


@lru_cache(maxsize=2048)
def _package_of(file: SyntaxFile) -> str:
    found = _PACKAGE.search(file.data)
    return found[1].decode("utf-8", "replace") if found else ""


def _count_arguments(call: SyntaxNode) -> int:
    arguments = call.child_by_field_name("arguments")
    given = arguments.named_children if arguments is not None else []
    return sum("comment" not in one.type for one in given)


def _body_of(node: SyntaxNode) -> SyntaxNode | None:
    last = node.named_children[-1] if node.named_child_count else None
    return last if last is not None and last.type == "class_body" else None


def _anonymous_at(file: SyntaxFile, place: NamePlace) -> SyntaxNode | None:
    node = file.node_at(place.start, place.start + 1)
    outer = parent_of(node)
    is_new = outer is not None and outer.type == "object_creation_expression" and outer.start_byte == place.start
    return outer if is_new else None
