"""Java: packages, single and star imports, static imports, overloads by arity, anonymous classes, records, enums."""

from __future__ import annotations

import re

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode
from context_engine.references.module_styles import places_of
from context_engine.references.nodes import NO_NODE, around, covers, get, has, up
from context_engine.references.package_style import TYPE, VALUE, PackageStyle, count_arguments
from context_engine.references.values import Meaning, NamePlace, NameUsage, Value, Values

_STAR = re.compile(rb"^import\s+(static\s+)?([\w.]+)\.\*", re.MULTILINE)
LABELED = ("labeled_statement", "break_statement", "continue_statement")
CREATION = "object_creation_expression"
"""`new Cat()`, which has a body where it makes an anonymous class."""


class JavaStyle(PackageStyle):
    """The rules of Java."""

    unnamed_classes = (CREATION,)

    def says_override(self, binding: NameBinding) -> bool | None:
        """Whether a method has the annotation for it, which it may lack."""
        return True if b"@Override" in (get(binding.statement, "@modifiers").text or b"") else None

    # -- names --

    def star_imports(self, file: SyntaxFile) -> list[tuple[str, bool]]:
        """Return what a file imports with all its names; a star may follow a type as well as a package."""
        found = [(match[2].decode("utf-8", "replace"), match[1] is not None) for match in _STAR.finditer(file.data)]
        return found + [(target, True) for target, is_type in found if not is_type]

    def read_import(self, file: SyntaxFile, binding: NameBinding) -> tuple[list[str], bool]:
        """Return the parts of the name that an import brings, and whether it is a static one."""
        if has(binding.statement, "asterisk"):
            return [], False
        return file.text(get(binding.statement, ".")).split("."), has(binding.statement, "static")

    def usage_at(self, file: SyntaxFile, offset: int) -> NameUsage | None:
        """Return how the name at an offset is used: as a type, a method or a value."""
        node = file.node_at(offset, offset + 1) or NO_NODE
        outer = up(node)
        if not outer:
            return None
        if node.type == "type_identifier" or outer.type in ("marker_annotation", "annotation"):
            return TYPE
        if outer.type == "method_invocation" and get(outer, "name") == node:
            return NameUsage("call", count_arguments(outer))
        if outer.type == "method_reference" and get(outer, "$") == node != get(outer, "."):
            return NameUsage("call")
        return VALUE

    def accepts(self, file: SyntaxFile, binding: NameBinding, usage: NameUsage) -> bool:
        """Whether a use of a kind can mean a definition; a component of a record is a method as well."""
        if binding.statement.type in ("constructor_declaration", "compact_constructor_declaration"):
            return False
        if usage.kind == "call" and binding.role == "parameter":
            return file.scopes[binding.scope].node.type == "record_declaration" and usage.arity < 1
        if binding.role == "import":
            is_static = has(binding.statement, "static")
            return is_static if usage.kind == "call" else usage.kind == "value" or not is_static
        return super().accepts(file, binding, usage)

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what the parts of an import, a label of a loop and a case of a switch mean."""
        written, outer = node, up(node)
        if outer.type == "switch_label":
            tested = get(around(outer, "switch_expression", "switch_statement"), "condition")
            constants = self.member_places(self.resolver.values(file, tested), file.text(node), VALUE)
            return Meaning(tuple(constants), is_known=True, is_member=True) if constants else None
        while outer.type == "scoped_identifier":
            written, outer = outer if get(outer, "name") == written else written, up(outer)
        if outer.type == "import_declaration":
            return Meaning(tuple(self.places_of_dotted(file.text(written).split("."), TYPE)), is_known=True)
        return Meaning(is_known=True) if outer.type in ("package_declaration", *LABELED) else None

    # -- classes --

    def class_of_scope(self, file: SyntaxFile, scope: int, kind: str) -> Values:
        """Return the class whose scope this is; a `new` is one where it has a body."""
        node = file.scopes[scope].node
        is_plain_new = node.type == CREATION and not get(node, "@class_body")
        return () if is_plain_new else super().class_of_scope(file, scope, kind)

    def class_scopes(self, file: SyntaxFile, offset: int) -> list[int]:
        """Return the numbers of the classes around an offset; the arguments of a `new` are not in its class."""
        numbers = super().class_scopes(file, offset)
        nodes = [(number, file.scopes[number].node) for number in numbers]
        return [n for n, node in nodes if node.type != CREATION or covers(get(node, "@class_body"), offset)]

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return the object of the class around an offset."""
        scopes = self.class_scopes(file, offset)
        return self.class_of_scope(file, scopes[0], "instance") if scopes else ()

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the component of a record."""
        bound = file.bindings_in(name, scope) if file.scopes[scope].node.type == "record_declaration" else []
        return places_of(file, (one for one in bound if one.statement.type == "formal_parameter"))

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what constants of enums, variables without a written type and parameters of lambdas are."""
        statement, outer = binding.statement, up(binding.statement)
        if statement.type == "enum_constant":
            return self.class_of_scope(file, binding.scope, "instance")
        if statement.type == "variable_declarator" and outer.type == "spread_parameter":
            written = [one for one in outer.named_children if one.type not in ("modifiers", "variable_declarator")]
            inner = self.resolver.type_values(file, written[0]) if written else ()
            return (Value("external", name="array", arguments=(inner,)),)
        if statement.type == "variable_declarator":
            given = get(statement, "value")
            return self.resolver.values(file, given) if given and file.text(get(outer, "type")) == "var" else None
        if statement.type in ("inferred_parameters", "lambda_expression"):
            function = outer if statement.type == "inferred_parameters" else statement
            call = get(function, "<argument_list", "<")
            return self.element_of_call(file, get(call, "object"), file.text(get(call, "name")))
        return super().bound_values(file, binding)

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what calling a method gives, and what `Cat.this` and a type with its package are."""
        if node.type == "method_invocation":
            holder, name = get(node, "object"), file.text(get(node, "name"))
            return self.called_values(file, holder, name, count_arguments(node)) if holder else None
        if node.type == "field_access" and get(node, "$").type == "this":
            return self.resolver.instances(self.resolver.values(file, get(node, ".")))
        return (self.dotted_values(file, node) or None) if "member" in file.roles.get(node.type, {}) else None
