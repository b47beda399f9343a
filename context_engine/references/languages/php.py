"""PHP: namespaces and `use`, `$this`, `static`, `self` and `parent`, typed properties and parameters, traits."""

from __future__ import annotations

import re
from functools import lru_cache

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, child_of, follow, of_type, parent_of
from context_engine.references.module_styles import ModuleStyle
from context_engine.references.values import UNKNOWN, HiddenUse, Meaning, NamePlace, Value, Values

_NAMESPACE = re.compile(rb"^[ \t]*(?:<\?php[ \t]+)?namespace[ \t]+([\w\\]{1,200})[ \t]*[;{]", re.MULTILINE)
_DOC_TYPE = re.compile(r"@(var|param|return)[ \t]+([\w\\|?\[\]$]{1,200})(?:[ \t]+\$(\w{1,80}))?")
_TESTED = re.compile(r"(?<![\w$])(\$\w{1,80}) {1,9}instanceof {1,9}(\\?[A-Za-z_][\w\\]{0,200})")
CONDITION_CHARS_MAX = 2_000
RELATIVE = frozenset({"self", "static"})
CALLS = ("member_call_expression", "nullsafe_member_call_expression", "scoped_call_expression")
QUALIFIED = ("qualified_name", "relative_name")
ANCESTORS_MAX = 24
BUILT_IN_TYPES = frozenset(
    "array string int float bool mixed callable iterable void null object never true false".split()
)


class PhpStyle(ModuleStyle):
    """The rules of PHP."""

    joins_members = True

    # -- names --

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return how a definition may be written: a property has a dollar sign."""
        return (name, f"${name}")

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the uses of a property with its dollar sign: `self::$name`, and a parameter that declares it."""
        found: list[HiddenUse] = []
        for node in file.find(f"${name}") if not name.startswith("$") else ():
            meaning = self.resolver.meaning(file, node)
            found.append(HiddenUse(node.start_byte + 1, node.end_byte, "read", meaning))
        return found

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a name means by its place: a class or a function."""
        if node.type != "name":
            return None
        if _is_prefix(node):
            return Meaning(is_known=True)
        if node.parent is not None and node.parent.type == "argument" and node.parent.named_children[0] == node:
            is_label = file.data[node.end_byte : node.end_byte + 2].lstrip().startswith(b":")
            is_path = file.data[node.end_byte : node.end_byte + 2] == b"::"
            if is_label and not is_path:
                return UNKNOWN
        places = self._named_places(file, node)
        return Meaning(tuple(places), is_known=True) if places is not None else Meaning(is_known=True)

    def _named_places(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace] | None:
        """Return the definitions of a class or a function that is named at a place."""
        written = node.parent if node.parent is not None and node.parent.type in QUALIFIED else node
        holder = written.parent
        is_call = holder is not None and holder.type == "function_call_expression"
        if is_call and holder is not None and holder.child_by_field_name("function") == written:
            return self._find_functions(file, file.text(written))
        return self._find_classes(_class_name(file, file.text(written)))

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that a `use` names."""
        if _is_prefix(binding.node):
            return []
        alias = next((one for one in _uses(file) if one[0] == binding.name), None)
        full = alias[1] if alias is not None else ""
        return self._find_classes(full) or self._find_in_namespace(full, "function")

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a variable, a class name, `self`, `static`, `parent` or `$this` is."""
        node = file.node_at(offset, offset + len(name.encode()))
        if node is None:
            return ()
        if node.type == "relative_scope" or (node.parent is not None and node.parent.type == "relative_scope"):
            return self._relative(file, name, offset)
        if node.type == "variable_name":
            return self._variable_values(file, name, offset)
        if name in RELATIVE:
            return self._relative(file, name, offset)
        places = self._named_places(file, node)
        found = self.resolver.place_values(places or ())
        return found or (Value("external", name=name),)

    def _variable_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        tested = _tested_class(file, name, offset)
        if tested:
            return self.resolver.instances(self.resolver.place_values(self._find_classes(_class_name(file, tested))))
        return ()

    # -- classes --

    def says_override(self, binding: NameBinding) -> bool | None:
        """PHP itself calls `__toString` and its like."""
        return True if binding.name.startswith("__") else None

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the bases, the interfaces and the traits of a class."""
        bases: list[SyntaxNode] = []
        for child in node.named_children:
            if child.type in ("base_clause", "class_interface_clause"):
                bases += child.named_children
            elif child.type in ("declaration_list", "enum_declaration_list"):
                for part in child.named_children:
                    bases += _trait_names(part) if part.type == "use_declaration" else ()
        return bases

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the properties of a class: their declarations have a dollar sign, and may be parameters."""
        bound = () if name.startswith("$") else file.bindings(f"${name}")
        own = [one for one in bound if one.scope == scope]
        promoted = [one for one in bound if one.statement.type == "property_promotion_parameter"]
        own += [one for one in promoted if file.scopes[one.scope].parent == scope]
        return [NamePlace(file.path, one.node.start_byte) for one in own]

    def fitting_members(self, file: SyntaxFile, node: SyntaxNode, places: list[NamePlace]) -> list[NamePlace]:
        """Return the methods where a member is called, and the others where it is read."""
        outer = node.parent
        is_call = outer is not None and outer.type in CALLS
        return [place for place in places if self._is_function(place) == is_call]

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return the type of a case of an enum, and types that only a comment says."""
        if binding.statement.type == "enum_case":
            return self.class_of_scope(file, binding.scope, "instance")
        if binding.role not in ("variable", "parameter") or len(binding.fields) < 2:
            return None
        if binding.field(1) is not None:
            return None
        written = _documented_type(file, binding)
        found = self._written_values(file, written) if written else ()
        return found or None

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what a call of a method gives."""
        fields = file.role_fields(call, "member")
        holder = child_of(call, fields[0]) if fields else None
        if fields is None or holder is None:
            return None
        found: list[Value] = []
        for value in self.resolver.values(file, holder):
            if value.kind == "external":
                found += self.resolver.results(self.resolver.member_values(value, file.text(function)))
                continue
            places = self.resolver.member_places(value, file.text(function))[0]
            functions = self.resolver.place_values([one for one in places if self._is_function(one)], value)
            found += self._results(functions)
        return tuple(found)

    def _results(self, functions: Values) -> Values:
        found: list[Value] = []
        for function in functions:
            at = self.resolver.project.binding_at(function.place)
            if at is None:
                continue
            declared = at[1].statement.child_by_field_name("return_type")
            written = "" if declared is not None else _documented_type(at[0], at[1])
            if written in ("static", "$this", "self") and function.receiver is not None:
                found.append(Value("instance", function.receiver))
            elif written:
                found += self._written_values(at[0], written)
            else:
                found += self.resolver.results((function,))
        return tuple(found)

    def _written_values(self, file: SyntaxFile, written: str) -> Values:
        """Return the values of a type in a comment: `Cat|Dog[]|null`."""
        found: list[Value] = []
        for part in written.replace("?", "").split("|"):
            name = part.removesuffix("[]")
            if not name or name in BUILT_IN_TYPES or "[" in name:
                continue
            places = self._find_classes(_class_name(file, name))
            inner = self.resolver.instances(self.resolver.place_values(places)) or (Value("external", name=name),)
            found += (Value("external", name="array", arguments=(inner,)),) if part.endswith("[]") else inner
        return tuple(found)

    def _relative(self, file: SyntaxFile, name: str, offset: int) -> Values:
        if name == "parent":
            return tuple(
                one._replace(kind="class") if one.kind == "instance" else one
                for one in self.resolver.super_values(file, offset)
            )
        own = self.resolver.self_values(file, offset, "class")
        return tuple(one._replace(name="Self") for one in own) if name == "static" else own

    def _find_classes(self, full: str) -> list[NamePlace]:
        return self._find_in_namespace(full, "class")

    def _find_functions(self, file: SyntaxFile, written: str) -> list[NamePlace]:
        """Return the functions of a name: in the own namespace, else without one."""
        found = self._find_in_namespace(_class_name(file, written), "function")
        return found or (self._find_in_namespace(written, "function") if "\\" not in written else [])

    def _find_in_namespace(self, full: str, role: str) -> list[NamePlace]:
        namespace, _, name = full.rpartition("\\")
        found: list[NamePlace] = []
        for path in self.resolver.project.defining(name):
            file = self.resolver.project.read(path)
            if file is None or namespace_of(file).lower() != namespace.lower() or not name:
                continue
            for binding in file.bindings(name):
                is_top = binding.scope == 0 or file.scopes[binding.scope].role == "namespace"
                if binding.role == role and is_top:
                    found.append(NamePlace(path, binding.node.start_byte))
        return found

    def _is_function(self, place: NamePlace) -> bool:
        found = self.resolver.project.binding_at(place)
        return found is not None and found[1].role == "function"


# -- names of classes and functions -----------------------------------------------------------------------------------


def namespace_of(file: SyntaxFile) -> str:
    """Return the namespace of a file; empty for none."""
    found = _NAMESPACE.search(file.data)
    return found[1].decode("utf-8", "replace").strip("\\") if found else ""


@lru_cache(maxsize=1024)
def _uses(file: SyntaxFile) -> tuple[tuple[str, str], ...]:
    """Return the short and the full names of the `use` statements of a file."""
    found: list[tuple[str, str]] = []
    waiting = [*file.root.named_children]
    for statement in waiting:
        if statement.type == "namespace_definition" and (body := statement.child_by_field_name("body")) is not None:
            waiting += body.named_children
        if statement.type != "namespace_use_declaration":
            continue
        group = statement.child_by_field_name("body")
        prefix = next((one for one in statement.named_children if one.type == "namespace_name"), None)
        lead = f"{file.text(prefix)}\\" if prefix is not None and group is not None else ""
        for clause in (group or statement).named_children:
            if clause.type != "namespace_use_clause" or not clause.named_children:
                continue
            full = lead + file.text(clause.named_children[0]).strip("\\")
            alias = clause.child_by_field_name("alias")
            found.append((file.text(alias) if alias is not None else full.rpartition("\\")[2], full.strip("\\")))
    return tuple(found)


def _class_name(file: SyntaxFile, written: str) -> str:
    """Return the full name of a class as it is written in a file."""
    if written.startswith("\\"):
        return written[1:]
    first, mark, rest = written.partition("\\")
    own = namespace_of(file)
    if first.lower() == "namespace":
        return f"{own}\\{rest}".strip("\\")
    for alias, full in _uses(file):
        if alias.lower() == first.lower():
            return f"{full}{mark}{rest}"
    return f"{own}\\{written}".strip("\\")


# -- nodes ------------------------------------------------------------------------------------------------------------


def _is_prefix(node: SyntaxNode) -> bool:
    return node.parent is not None and node.parent.type == "namespace_name"


def _trait_names(statement: SyntaxNode) -> list[SyntaxNode]:
    return [one for one in statement.named_children if one.type in ("name", *QUALIFIED)]


def _tested_class(file: SyntaxFile, name: str, offset: int) -> str:
    """Return the class that an `if` around an offset says a variable has."""
    if b"instanceof" not in file.data:
        return ""
    at = file.node_at(offset, offset + 1)
    for _ in range(ANCESTORS_MAX):
        outer = parent_of(at)
        if at is None or outer is None or outer.type in ("method_declaration", "function_definition"):
            return ""
        condition = follow(of_type(outer, "if_statement"), "condition")
        if condition is not None and outer.child_by_field_name("body") == at:
            tests = _TESTED.findall(file.text(condition)[:CONDITION_CHARS_MAX])
            found = [written for variable, written in tests if variable == name]
            if len(found) == 1 and "!" not in file.text(condition):
                return found[0]
        at = outer
    return ""


def _documented_type(file: SyntaxFile, binding: NameBinding) -> str:
    """Return the type that the comment before a property, a parameter's function or a function says."""
    statement = binding.statement
    if binding.role == "function":
        wanted = "return"
    else:
        wanted = "param" if binding.role == "parameter" else "var"
    while statement.type in ("property_element", "simple_parameter", "formal_parameters", "variadic_parameter"):
        if statement.parent is None:
            return ""
        statement = statement.parent
    comment = statement.prev_named_sibling
    if statement.type == "assignment_expression" and statement.parent is not None:
        comment = statement.parent.prev_named_sibling
    if comment is None or comment.type != "comment":
        return ""
    for kind, written, name in _DOC_TYPE.findall(file.text(comment)[:5000]):
        if kind == wanted and (kind != "param" or f"${name}" == binding.name):
            return written
    return ""
