"""Python: modules and packages, `self`, properties, context managers, `isinstance`, quoted types."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from posixpath import dirname

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, child_of, follow, resolve_import
from context_engine.references.module_styles import ModuleStyle
from context_engine.references.values import EXTERNAL, Meaning, NamePlace, Value, Values

STDLIB = frozenset(sys.stdlib_module_names)
_STAR = re.compile(rb"^from\s+([.\w]+)\s+import\s+\*", re.MULTILINE)
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
PROPERTIES = ("property", "cached_property", "getter", "setter", "deleter")
PACKAGE_FILES = ("__init__.py", "__init__.pyi")
PASSING = ("copy", "copy.copy", "deepcopy", "copy.deepcopy", "replace", "dataclasses.replace", "iter", "list", "sorted")
"""Functions that give something of the type that they take."""
CONTEXT_MANAGERS = ("contextmanager", "asynccontextmanager")

CLOSED_MODULES = frozenset(
    "re os sys json time datetime pathlib io subprocess socket hashlib hmac base64 tempfile shutil math struct string"
    " urllib http sqlite3 logging uuid decimal fractions zipfile tarfile gzip zlib platform locale textwrap glob"
    " fnmatch getpass secrets signal select ssl statistics calendar configparser html ipaddress mimetypes".split()
)


class PythonStyle(ModuleStyle):
    """The rules of Python."""

    has_one_kind_of_member = True

    # -- imports --

    def says_override(self, binding: NameBinding) -> bool | None:
        """Names with an underscore belong to the class that has them."""
        return False if binding.name.startswith("_") and not binding.name.endswith("__") else None

    def gives_own_types(self, name: str) -> bool:
        """Whether a module of the standard library gives only what it defines itself."""
        return name.partition(".")[0] in CLOSED_MODULES

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that an imported name means."""
        module, name = read_python_import(file, binding)
        if not name:
            return []
        found = self._module(file, module)
        return self.resolver.module_member(found, name) or [] if found is not None else []

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

    def _module(self, file: SyntaxFile, target: str) -> Value | None:
        """Return the module of an import; None if it is not in this project."""
        paths = self.resolver.project.paths
        dots = len(target) - len(target.lstrip("."))
        first = target.lstrip(".").partition(".")[0]
        if not dots and first in STDLIB and not paths.folders_by_suffix(first) and f"{first}.py" not in paths:
            return None
        if target.strip(".") == "":
            folder = dirname(file.path)
            for _ in range(dots - 1):
                folder = dirname(folder)
            return self._module_of_folder(folder)
        found = resolve_import(file.language, file.path, target, paths)
        if found:
            return Value("module", NamePlace(found[0]))
        folders = paths.folders_by_dotted(target) if not dots and "." in target else []
        return Value("folder", NamePlace(folders[0] + "/")) if len(folders) == 1 else None

    def submodule(self, module: Value, name: str) -> Values:
        """Return the module of that name inside of a package."""
        path = module.place.path
        if module.kind == "module" and not path.endswith(PACKAGE_FILES):
            return ()
        folder = dirname(path)
        base = f"{folder}/{name}" if folder else name
        for candidate in (f"{base}.py", f"{base}.pyi", *(f"{base}/{own}" for own in PACKAGE_FILES)):
            if candidate in self.resolver.project.paths:
                return (Value("module", NamePlace(candidate)),)
        return (Value("folder", NamePlace(base + "/")),) if self.resolver.project.paths.in_folder(base) else ()

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of a name in a module; None if they cannot be known."""
        file = self.resolver.project.read(module.place.path) if module.kind == "module" else None
        if file is None or file.path in seen:
            return [] if module.kind == "module" else None
        seen.add(file.path)
        places: list[NamePlace] = []
        for binding in _at_top(file, name):
            if binding.role != "import":
                places.append(NamePlace(file.path, binding.node.start_byte))
                continue
            target, original = read_python_import(file, binding)
            inner = self._module(file, target)
            if inner is not None and original:
                places += self.module_member(inner, original, seen) or ()
        if places or _at_top(file, name):
            return list(dict.fromkeys(places))
        return self._from_stars(file, name, seen)

    def _from_stars(self, file: SyntaxFile, name: str, seen: set[str]) -> list[NamePlace] | None:
        is_known = b"__getattr__" not in file.data
        for match in _STAR.finditer(file.data):
            inner = self._module(file, match[1].decode())
            if inner is None:
                is_known = False
                continue
            found = self.module_member(inner, name, seen)
            if found:
                return found
        return [] if is_known else None

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what the parts of a dotted import mean: modules, which are no definitions."""
        outer, aliased = node.parent, None
        while outer is not None and outer.type in ("dotted_name", "aliased_import", "relative_import"):
            if outer.type == "aliased_import":
                aliased = outer
            outer = outer.parent
        if outer is None or "import" not in file.roles.get(outer.type, {}):
            return None
        alias = follow(aliased, "alias")
        bound = file.binding_of(alias) if alias is not None else None
        places = self.imported_places(file, bound) if bound is not None else []
        return Meaning(tuple(places), is_known=True)

    def unbound(self, file: SyntaxFile, name: str, offset: int) -> list[NamePlace] | None:
        """Return the definitions that a star import brings."""
        return self._from_stars(file, name, {file.path}) or None

    # -- functions --

    def self_parameter(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the object or the class, for the first parameter of a method."""
        scope = file.scopes[binding.scope]
        holder = file.scopes[scope.parent] if scope.parent >= 0 else None
        if holder is None or holder.role != "class" or scope.role != "function":
            return ()
        parameters = scope.node.child_by_field_name("parameters")
        first = follow(parameters, ".")
        if first is None or not first.start_byte <= binding.node.start_byte < first.end_byte:
            return ()
        marks = _decorators(file, scope.node)
        if "staticmethod" in marks:
            return ()
        name = scope.node.child_by_field_name("name")
        named = file.text(name) if name is not None else ""
        is_class = "classmethod" in marks or named in ("__new__", "__init_subclass__", "__class_getitem__")
        return self.resolver.self_values(file, scope.start, "class" if is_class else "instance")

    def is_property(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a method is decorated as a property."""
        return any(mark in PROPERTIES or mark.endswith("property") for mark in _decorators(file, binding.statement))

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what `super()`, `cast` and `type` give."""
        name = file.text(function)
        if name == "super":
            return self.resolver.super_values(file, call.start_byte)
        arguments = child_of(call, "arguments")
        given = arguments.named_children if arguments is not None else []
        if name in ("cast", "typing.cast", "t.cast") and len(given) == 2:
            return self.resolver.type_values(file, given[0])
        if name == "type" and len(given) == 1:
            return tuple(
                value._replace(kind="class") for value in self.resolver.values(file, given[0]) if value.place.path
            )
        if name == "next" and given:
            return self.resolver.elements(self.resolver.values(file, given[0])) or None
        return self.resolver.values(file, given[0]) or None if name in PASSING and given else None

    def finish_results(self, file: SyntaxFile, binding: NameBinding, results: Values) -> Values:
        """Return the yielded thing for a context manager that a generator makes."""
        if any(mark in CONTEXT_MANAGERS for mark in _decorators(file, binding.statement)):
            return self.resolver.elements(results)
        return results

    def context_values(self, file: SyntaxFile, binding: NameBinding, given: SyntaxNode) -> Values:
        """Return what `with value as name` or `except value as name` binds."""
        values = self.resolver.values(file, given)
        outer = binding.statement.parent
        if outer is not None and outer.type == "except_clause":
            if given.type == "tuple":
                values = tuple(value for part in given.named_children for value in self.resolver.values(file, part))
            return self.resolver.instances(values)
        found: list[Value] = []
        for value in values:
            entered = ()
            if value.kind == "instance":
                for method in ("__enter__", "__aenter__"):
                    entered = entered or self.resolver.results(self.resolver.member_values(value, method))
                if all(one.kind == "external" for one in entered):
                    entered = (value,)
            found += entered or (value,)
        return self.resolver.take_apart(tuple(found), binding.positions)

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return the type that an `isinstance` around an offset gives to a name."""
        if b"isinstance" not in file.data:
            return ()
        for test, kind in _instance_tests(file, name):
            outer = test.parent
            while outer is not None and outer.type in ("boolean_operator", "parenthesized_expression"):
                outer = outer.parent
            body = follow(outer, "consequence")
            if outer is None or outer.type not in ("if_statement", "elif_clause") or body is None:
                continue
            if body.start_byte <= offset < body.end_byte:
                parts = kind.named_children if kind.type == "tuple" else [kind]
                return self.resolver.instances(tuple(v for part in parts for v in self.resolver.values(file, part)))
        return ()

    def quoted_type(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return the type that a string names, where it names a single one."""
        found: list[Value] = []
        for written in _DOTTED.findall(file.text(node)):
            first, *rest = written.split(".")
            values = self.resolver.name_values(file, first, node.start_byte)
            for part in rest:
                values = tuple(one for value in values for one in self.resolver.member_values(value, part))
            found += self.resolver.instances(values, written)
        own = tuple(value for value in found if value.kind == "instance")
        return own or tuple(found) or (EXTERNAL,)

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the bases of a class, without `metaclass=`."""
        bases: list[SyntaxNode] = []
        for base in super().base_nodes(file, node):
            if base.type == "subscript" and base.named_child_count:
                base = base.named_children[0]
            if base.type not in ("keyword_argument", "comment") and file.text(base) != "object":
                bases.append(base)
        return bases

    def _module_of_folder(self, folder: str) -> Value:
        for name in PACKAGE_FILES:
            path = f"{folder}/{name}" if folder else name
            if path in self.resolver.project.paths:
                return Value("module", NamePlace(path))
        return Value("folder", NamePlace(folder + "/"))


def read_python_import(file: SyntaxFile, binding: NameBinding) -> tuple[str, str]:
    """Return the module that an imported name comes from, and its name there; without a name it is the module."""
    statement, node = binding.statement, binding.node
    parent = node.parent
    aliased = parent if parent is not None and parent.type == "aliased_import" else None
    if statement.type == "import_statement":
        if aliased is not None:
            name = aliased.child_by_field_name("name")
            return (file.text(name) if name is not None else ""), ""
        return binding.name, ""
    module = statement.child_by_field_name("module_name")
    target = "".join(file.text(module).split()) if module is not None else "__future__"
    if aliased is not None:
        name = aliased.child_by_field_name("name")
        return target, file.text(name) if name is not None else ""
    return target, binding.name


def _at_top(file: SyntaxFile, name: str) -> list[NameBinding]:
    return [one for one in file.bindings_in(name, 0) if one.role not in ("attribute", "loop", "context")] or [
        one for one in file.bindings_in(name, 0) if one.role != "attribute"
    ]


def _decorators(file: SyntaxFile, function: SyntaxNode) -> list[str]:
    """Return the last names of the decorators of a function."""
    outer = function.parent
    if outer is None or outer.type != "decorated_definition":
        return []
    marks = [child for child in outer.named_children if child.type == "decorator"]
    return [_last_name(file.text(mark)) for mark in marks]


@lru_cache(maxsize=4096)
def _last_name(decorator: str) -> str:
    return decorator.lstrip("@ ").partition("(")[0].strip().rpartition(".")[2]


def _instance_tests(file: SyntaxFile, name: str) -> list[tuple[SyntaxNode, SyntaxNode]]:
    """Return the calls `isinstance(name, kind)` of a file with their kinds."""
    found = []
    for word in file.find("isinstance"):
        call = word.parent
        arguments = follow(call, "arguments")
        given = arguments.named_children if arguments is not None else []
        if call is not None and len(given) == 2 and file.text(given[0]) == name:
            found.append((call, given[1]))
    return found
