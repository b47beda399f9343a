"""PHP: namespaces and `use`, `$this`, `static`, `self` and `parent`, typed properties and parameters, traits."""

from __future__ import annotations

import re
from functools import lru_cache

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode
from context_engine.references.module_styles import ModuleStyle, as_classes, declared_package, places_of
from context_engine.references.nodes import NO_NODE, ancestors, beyond, children, get, up
from context_engine.references.values import UNKNOWN, HiddenUse, Meaning, NamePlace, Value, Values

_NAMESPACE = re.compile(rb"^[ \t]*(?:<\?php[ \t]+)?namespace[ \t]+([\w\\]{1,200})[ \t]*[;{]", re.MULTILINE)
_DOC_TYPE = re.compile(r"@(var|param|return)[ \t]+([\w\\|?\[\]$]{1,200})(?:[ \t]+\$(\w{1,80}))?")
_TESTED = re.compile(r"(?<![\w$])(\$\w{1,80}) {1,9}instanceof {1,9}(\\?[A-Za-z_][\w\\]{0,200})")
CONDITION_CHARS_MAX = 2_000
CALLS = ("member_call_expression", "nullsafe_member_call_expression", "scoped_call_expression")
RELATIVE = frozenset({"self", "static"})
QUALIFIED = ("qualified_name", "relative_name")
BUILT_IN_TYPES = frozenset(
    "array string int float bool mixed callable iterable void null object never true false".split()
)
COLLECTIONS = frozenset({"array", "iterable"})


class PhpStyle(ModuleStyle):
    """The rules of PHP."""

    joins_members = True

    # -- names --

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return how a definition may be written: a property has a dollar sign."""
        return (name, f"${name}")

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the uses of a property with its dollar sign: `self::$name`, and a parameter that declares it."""
        nodes = file.find(f"${name}") if not name.startswith("$") else ()
        return [HiddenUse(one.start_byte + 1, one.end_byte, "read", self.resolver.meaning(file, one)) for one in nodes]

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a name means by its place: a class or a function."""
        if node.type != "name":
            return None
        if up(node).type == "namespace_name":
            return Meaning(is_known=True)
        after = file.data[node.end_byte : node.end_byte + 2]
        if get(node, "<argument", ".") == node and after.lstrip().startswith(b":") and after != b"::":
            return UNKNOWN
        return Meaning(tuple(self._named_places(file, node)), is_known=True)

    def _named_places(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace]:
        """Return the definitions of a class or a function that is named at a place."""
        written = get(node, "<" + "|".join(QUALIFIED)) or node
        if get(written, "<function_call_expression", "function") != written:
            return self._find_classes(file, file.text(written))
        name = file.text(written)
        found = self._find_in_namespace(_full_name(file, name), "function")
        return found or (self._find_in_namespace(name, "function") if "\\" not in name else [])

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that a `use` names."""
        if up(binding.node).type == "namespace_name":
            return []
        full = dict(reversed(_uses(file))).get(binding.name, "")
        return self._find_in_namespace(full, "class") or self._find_in_namespace(full, "function")

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a variable, a class name, `self`, `static`, `parent` or `$this` is."""
        node = file.node_at(offset, offset + len(name.encode())) or NO_NODE
        if "relative_scope" in (node.type, up(node).type) or (node.type != "variable_name" and name in RELATIVE):
            if name == "parent":
                return as_classes(self.resolver.super_values(file, offset))
            own = self.resolver.self_values(file, offset, "class")
            return tuple(one._replace(name="Self") for one in own) if name == "static" else own
        if node.type == "variable_name":
            tested = _tested_class(file, name, node)
            classes = self._find_classes(file, tested) if tested else []
            return self.resolver.instances(self.resolver.place_values(classes))
        found = self.resolver.place_values(self._named_places(file, node)) if node else ()
        return found or ((Value("external", name=name),) if node else ())

    # -- classes --

    def says_override(self, binding: NameBinding) -> bool | None:
        """PHP itself calls `__toString` and its like."""
        return True if binding.name.startswith("__") else None

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the properties of a class: their declarations have a dollar sign, and may be parameters."""
        bound = () if name.startswith("$") else file.bindings(f"${name}")
        promoted = [one for one in bound if one.statement.type == "property_promotion_parameter"]
        own = [one for one in bound if one.scope == scope]
        return places_of(file, own + [one for one in promoted if file.scopes[one.scope].parent == scope])

    def fitting_members(
        self, file: SyntaxFile, node: SyntaxNode, values: Values, places: list[NamePlace]
    ) -> list[NamePlace]:
        """Return the methods where a member is called, and the others where it is read."""
        is_call = up(node).type in CALLS
        return [place for place in places if self.is_function(place) == is_call]

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return the type of a case of an enum, and types that only a comment says."""
        if binding.statement.type == "enum_case":
            return self.class_of_scope(file, binding.scope, "instance")
        is_typed = binding.role != "loop" and len(binding.fields) < 2
        if binding.role not in ("variable", "parameter", "loop") or is_typed:
            return None
        declared = binding.field(1) if binding.role != "loop" else None
        return self._written_values(file, _documented_type(file, binding, declared)) or None

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what a call of a method gives."""
        if node.type not in CALLS:
            return None
        found: list[Value] = []
        holder, name = get(node, "object") or get(node, "scope"), file.text(get(node, "name"))
        for value in self.resolver.values(file, holder):
            if value.kind == "external":
                found += self.resolver.results(self.resolver.member_values(value, name))
            methods = [one for one in self.member_places((value,), name) if self.is_function(one)]
            for method in self.resolver.place_values(methods, value):
                found += self._results(method)
        return tuple(found)

    def _results(self, method: Value) -> Values:
        at = self.project.binding_at(method.place)
        if at is None:
            return ()
        written = _documented_type(*at, get(at[1].statement, "return_type"))
        if written in ("static", "$this", "self") and method.receiver is not None:
            return (Value("instance", method.receiver),)
        return self._written_values(at[0], written) if written else self.resolver.results((method,))

    def _written_values(self, file: SyntaxFile, written: str) -> Values:
        """Return the values of a type in a comment: `Cat|Dog[][]|null`."""
        found: list[Value] = []
        for part in written.replace("?", "").split("|"):
            if inner := self._written_values(file, part[:-2]) if part.endswith("[]") else ():
                found.append(Value("external", name="array", arguments=(inner,)))
            elif part and part not in BUILT_IN_TYPES and "[" not in part:
                classes = self.resolver.place_values(self._find_classes(file, part))
                found += self.resolver.instances(classes) or (Value("external", name=part),)
        return tuple(found)

    # -- namespaces --

    def _find_classes(self, file: SyntaxFile, written: str) -> list[NamePlace]:
        """Return the definitions of a class as it is written in a file."""
        return self._find_in_namespace(_full_name(file, written), "class")

    def _find_in_namespace(self, full: str, role: str) -> list[NamePlace]:
        namespace, _, name = full.rpartition("\\")

        def is_meant(file: SyntaxFile, one: NameBinding) -> bool:
            is_top = one.scope == 0 or file.scopes[one.scope].role == "namespace"
            return one.role == role and is_top and declared_package(file, _NAMESPACE).lower() == namespace.lower()

        return self.find_defined(name, is_meant) if name else []


@lru_cache(maxsize=1024)
def _uses(file: SyntaxFile) -> tuple[tuple[str, str], ...]:
    """Return the short and the full names of the `use` statements of a file."""
    found: list[tuple[str, str]] = []
    blocks = [get(one, "body") for one in children(file.root, "namespace_definition")]
    for statement in (use for block in (file.root, *blocks) for use in children(block, "namespace_use_declaration")):
        group = get(statement, "body")
        lead = f"{file.text(get(statement, '@namespace_name'))}\\" if group else ""
        for clause in children(group or statement, "namespace_use_clause"):
            full = (lead + file.text(get(clause, ".")).strip("\\")).strip("\\")
            found.append((file.text(get(clause, "alias")) or full.rpartition("\\")[2], full))
    return tuple(found)


def _full_name(file: SyntaxFile, written: str) -> str:
    """Return the full name of a class or a function as it is written in a file."""
    if written.startswith("\\"):
        return written[1:]
    first, mark, rest = written.partition("\\")
    own = declared_package(file, _NAMESPACE)
    if first.lower() == "namespace":
        return f"{own}\\{rest}".strip("\\")
    full = next((full for alias, full in _uses(file) if alias.lower() == first.lower()), None)
    return f"{own}\\{written}".strip("\\") if full is None else f"{full}{mark}{rest}"


def _tested_class(file: SyntaxFile, name: str, node: SyntaxNode) -> str:
    """Return the class that an `if` around a node says a variable has."""
    if b"instanceof" not in file.data:
        return ""
    at = node
    for outer in ancestors(node):
        if outer.type in ("method_declaration", "function_definition"):
            break
        if outer.type == "if_statement" and get(outer, "body") == at:
            condition = file.text(get(outer, "condition"))
            found = [
                written for variable, written in _TESTED.findall(condition[:CONDITION_CHARS_MAX]) if variable == name
            ]
            if len(found) == 1 and "!" not in condition:
                return found[0]
        at = outer
    return ""


def _documented_type(file: SyntaxFile, binding: NameBinding, declared: SyntaxNode | None) -> str:
    """Return the type that the comment before a property, a loop, a parameter's function or a function says.

    That of a thing that is declared as a collection says of what.
    """
    if declared and file.text(declared).strip("?") not in COLLECTIONS:
        return ""
    wanted = {"function": "return", "parameter": "param"}.get(binding.role, "var")
    is_named = binding.role in ("parameter", "loop")
    statement = beyond(
        binding.statement, "property_element", "simple_parameter", "formal_parameters", "variadic_parameter"
    )
    if statement.type == "assignment_expression":
        statement = up(statement)
    comment = statement.prev_named_sibling or NO_NODE
    for kind, written, name in _DOC_TYPE.findall(file.text(comment)[:5000]) if comment.type == "comment" else ():
        if kind == wanted and (f"${name}" == binding.name or not (is_named or (name and kind == "var"))):
            return written
    return ""
