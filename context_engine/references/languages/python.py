"""Python: modules and packages, `self`, properties, context managers, `isinstance`, quoted types."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from posixpath import dirname, join

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, resolve_import
from context_engine.references.module_styles import ModuleStyle, places_of
from context_engine.references.nodes import NO_NODE, ancestors, around, beyond, children, covers, get, up
from context_engine.references.values import EXTERNAL, HiddenUse, Meaning, NamePlace, Value, Values

STDLIB = frozenset(sys.stdlib_module_names)
_STAR = re.compile(rb"^[ \t]*from\s+([.\w]+)\s+import\s+\*", re.MULTILINE)
_OWNER = re.compile(rb"([\w.]{1,100})\.$")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
PROPERTIES = ("property", "cached_property", "getter", "setter", "deleter")
PACKAGE_FILES = ("__init__.py", "__init__.pyi")
PASSING = ("copy", "copy.copy", "deepcopy", "copy.deepcopy", "replace", "dataclasses.replace", "iter", "list", "sorted")
"""Functions that give something of the type that they take."""
CONTEXT_MANAGERS = ("contextmanager", "asynccontextmanager")
OF_CLASS = ("__new__", "__init_subclass__", "__class_getitem__")
"""Methods whose first parameter is the class."""
CLOSED_MODULES = frozenset(
    "re os sys json time datetime pathlib io subprocess socket hashlib hmac base64 tempfile shutil math struct string"
    " urllib http sqlite3 logging uuid decimal fractions zipfile tarfile gzip zlib platform locale textwrap glob"
    " fnmatch getpass secrets signal select ssl statistics calendar configparser html ipaddress mimetypes".split()
)


class PythonStyle(ModuleStyle):
    """The rules of Python."""

    has_one_kind_of_member = True

    passes_by_name = True

    def says_override(self, binding: NameBinding) -> bool | None:
        """Names with an underscore belong to the class that has them."""
        return False if binding.name.startswith("_") and not binding.name.endswith("__") else None

    def gives_own_types(self, name: str) -> bool:
        """Whether a module of the standard library gives only what it defines itself."""
        return name.partition(".")[0] in CLOSED_MODULES

    # -- modules --

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that an imported name means."""
        target, name = read_python_import(file, binding)
        module = self._module(file, target) if name else None
        return self.resolver.module_member(module, name) or [] if module is not None else []

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what an imported name may be."""
        target, name = read_python_import(file, binding)
        module = self._module(file, target)
        if module is None:
            return (Value("external", name=f"{target}.{name}" if name else target),)
        if not name:
            return (module,)
        places = self.resolver.module_member(module, name)
        if places:
            return self.resolver.place_values(places)
        return self.submodule(module, name) or ((EXTERNAL,) if places is not None else ())

    def passed_names(self, file: SyntaxFile, node: SyntaxNode) -> list[str]:
        """Return the name behind `as` in an import, which other modules can import as well."""
        alias = get(node, "<", "<aliased_import", "alias")
        return [file.text(alias)] if alias else []

    def _module(self, file: SyntaxFile, target: str) -> Value | None:
        """Return the module of an import; None if it is not in this project."""
        paths = self.project.paths
        dots = len(target) - len(target.lstrip("."))
        first = target.lstrip(".").partition(".")[0]
        if not dots and first in STDLIB and not paths.folders_by_suffix(first) and f"{first}.py" not in paths:
            return None
        if not first:
            folder = dirname(file.path)
            for _ in range(dots - 1):
                folder = dirname(folder)
            own = self._first_module(join(folder, name) for name in PACKAGE_FILES)
            return own or Value("folder", NamePlace(folder + "/"))
        found = resolve_import(file.language, file.path, target, paths)
        if found:
            return Value("module", NamePlace(found[0]))
        if not dots and "." in target:
            folders = paths.folders_by_dotted(target)
        else:
            folders = [target] if any(path.endswith(".py") for path in paths.in_folder(target)) else []
        return Value("folder", NamePlace(folders[0] + "/")) if len(folders) == 1 else None

    def _first_module(self, candidates: Iterable[str]) -> Value | None:
        return next((Value("module", NamePlace(path)) for path in candidates if path in self.project.paths), None)

    def submodule(self, module: Value, name: str) -> Values:
        """Return the module of that name inside of a package."""
        path = module.place.path
        if module.kind == "module" and not path.endswith(PACKAGE_FILES):
            return ()
        base = join(dirname(path), name)
        found = self._first_module((f"{base}.py", f"{base}.pyi", *(f"{base}/{own}" for own in PACKAGE_FILES)))
        if found is None and self.project.paths.in_folder(base):
            found = Value("folder", NamePlace(base + "/"))
        return (found,) if found is not None else ()

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of a name in a module; None if they cannot be known."""
        file = self.project.read(module.place.path) if module.kind == "module" else None
        if file is None or file.path in seen:
            return [] if module.kind == "module" else None
        seen.add(file.path)
        bound = [one for one in file.bindings_in(name, 0) if one.role != "attribute"]
        bound = [one for one in bound if one.role not in ("loop", "context")] or bound
        places: list[NamePlace] = []
        for binding in bound:
            target, original = read_python_import(file, binding) if binding.role == "import" else ("", "")
            inner = self._module(file, target) if original else None
            if binding.role != "import":
                places += places_of(file, [binding])
            elif inner is not None:
                places += self.module_member(inner, original, seen) or ()
        return list(dict.fromkeys(places)) if bound else self._from_stars(file, name, seen)

    def _from_stars(self, file: SyntaxFile, name: str, seen: set[str]) -> list[NamePlace] | None:
        modules = [self._module(file, match[1].decode()) for match in _STAR.finditer(file.data)]
        found = (self.module_member(module, name, seen) for module in modules if module is not None)
        is_known = None not in modules and b"__getattr__" not in file.data
        return next(filter(None, found), [] if is_known else None)

    def unbound(self, file: SyntaxFile, name: str, offset: int) -> list[NamePlace] | None:
        """Return the definitions that a star import brings."""
        return self._from_stars(file, name, {file.path}) or None

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what the parts of a dotted import mean: modules, which are no definitions."""
        statement = beyond(up(node), "dotted_name", "aliased_import", "relative_import")
        if "import" not in file.roles.get(statement.type, {}):
            return None
        inside = [one for one in ancestors(node) if one.type == "aliased_import"]
        bound = file.binding_of(get(inside[-1], "alias")) if inside else None
        return Meaning(tuple(self.imported_places(file, bound) if bound is not None else ()), is_known=True)

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the uses of a name in the types that strings write."""
        found: list[HiddenUse] = []
        for start, stop in file.words(name):
            string = file.node_at(start, stop) or NO_NODE
            written = around(string, "type", "call", "lambda")
            holders = [get(one, ".") for one in ancestors(string) if one.type in ("generic_type", "subscript")]
            is_literal = any(file.text(holder).endswith("Literal") for holder in holders)
            if string.type != "string_content" or written.type != "type" or is_literal:
                continue
            before = _OWNER.search(file.data, string.start_byte, start)
            meaning = self.resolver.name_meaning(file, name, start)
            if before is not None:
                meaning = self.member_meaning(self._written_values(file, before[1].decode(), start), name)
            found.append(HiddenUse(start, stop, "type", meaning))
        return found

    # -- classes and functions --

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the bases of a class without the one of all."""
        return [base for base in super().base_nodes(file, node) if file.text(base) != "object"]

    def is_property(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a method is decorated as a property."""
        return any(mark in PROPERTIES or mark.endswith("property") for mark in _decorators(file, binding.statement))

    def result_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return the yielded thing for a context manager that a generator makes."""
        if not any(mark in CONTEXT_MANAGERS for mark in _decorators(file, binding.statement)):
            return None
        written = get(binding.statement, "return_type")
        return self.resolver.elements(self.resolver.type_values(file, written)) if written else None

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what the first parameter of a method, and the name of a context or an exception, is."""
        if binding.role == "parameter":
            return self._own_object(file, binding) if binding.field(1) is None else None
        if binding.role != "context":
            return None
        given = get(binding.statement, ".")
        if get(binding.statement, "<except_clause"):
            parts = given.named_children if given.type == "tuple" else (given,)
            return self.resolver.instances(tuple(one for part in parts for one in self.resolver.values(file, part)))
        found: list[Value] = []
        for value in self.resolver.values(file, given):
            methods = ("__enter__", "__aenter__") if value.kind == "instance" else ()
            results = (self.resolver.results(self.resolver.member_values(value, method)) for method in methods)
            entered = next(filter(None, results), ())
            found += entered if any(one.kind != "external" for one in entered) else (value,)
        return self.resolver.take_apart(tuple(found), binding.positions)

    def _own_object(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return the object or the class, for the first parameter of a method."""
        scope = file.scopes[binding.scope]
        is_method = scope.role == "function" and scope.parent >= 0 and file.scopes[scope.parent].role == "class"
        if not is_method or not covers(get(scope.node, "parameters", "."), binding.node.start_byte):
            return None
        marks = _decorators(file, scope.node)
        if "staticmethod" in marks:
            return None
        is_class = "classmethod" in marks or file.text(get(scope.node, "name")) in OF_CLASS
        return self.resolver.self_values(file, scope.start, "class" if is_class else "instance") or None

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what calls of `super()`, `cast` and other functions of the language give."""
        if node.type != "call":
            return None
        name, given = file.text(get(node, "function")), get(node, "arguments").named_children
        if name == "super":
            return self.resolver.super_values(file, node.start_byte)
        if name in ("cast", "typing.cast", "t.cast") and len(given) == 2:
            return self.resolver.type_values(file, given[0])
        if name == "type" and len(given) == 1:
            values = self.resolver.values(file, given[0])
            return tuple(value._replace(kind="class") for value in values if value.place.path)
        if name == "next" and given:
            return self.resolver.elements(self.resolver.values(file, given[0])) or None
        return self.resolver.values(file, given[0]) or None if name in PASSING and given else None

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return the type that an `isinstance` around an offset gives to a name."""
        for word in file.find("isinstance") if b"isinstance" in file.data else ():
            given = get(word, "^arguments").named_children
            outer = beyond(up(up(word)), "boolean_operator", "parenthesized_expression")
            is_test = len(given) == 2 and file.text(given[0]) == name and outer.type in ("if_statement", "elif_clause")
            if is_test and covers(get(outer, "consequence"), offset):
                parts = given[1].named_children if given[1].type == "tuple" else (given[1],)
                return self.resolver.instances(tuple(v for part in parts for v in self.resolver.values(file, part)))
        return ()

    def written_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return the type that a string names, where it names a single one."""
        if "literal" not in file.roles.get(node.type, {}):
            return None
        found: list[Value] = []
        for written in _DOTTED.findall(file.text(node)):
            found += self.resolver.instances(self._written_values(file, written, node.start_byte), written)
        return tuple(value for value in found if value.kind == "instance") or tuple(found) or (EXTERNAL,)

    def _written_values(self, file: SyntaxFile, written: str, offset: int) -> Values:
        """Return what a dotted name in a string may be at an offset."""
        first, *rest = written.split(".")
        values = self.resolver.name_values(file, first, offset)
        for part in rest:
            values = tuple(one for value in values for one in self.resolver.member_values(value, part))
        return values


def read_python_import(file: SyntaxFile, binding: NameBinding) -> tuple[str, str]:
    """Return the module that an imported name comes from, and its name there; without a name it is the module."""
    aliased = get(binding.node, "<aliased_import")
    name = file.text(get(aliased, "name")) if aliased else binding.name
    if binding.statement.type == "import_statement":
        return name, ""
    return "".join(file.text(get(binding.statement, "module_name")).split()) or "__future__", name


def _decorators(file: SyntaxFile, function: SyntaxNode) -> list[str]:
    """Return the last names of the decorators of a function."""
    marks = children(get(function, "<decorated_definition"), "decorator")
    return [file.text(mark).lstrip("@ ").partition("(")[0].strip().rpartition(".")[2] for mark in marks]
