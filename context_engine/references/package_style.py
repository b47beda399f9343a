"""Rules that languages with packages share: types by package and import, members by kind and number of arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode
from context_engine.references.call_signatures import read_parameters
from context_engine.references.module_styles import ModuleStyle, declared_package
from context_engine.references.nodes import NO_NODE, get
from context_engine.references.values import NamePlace, NameUsage, Value, Values

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver

DOTTED_MAX = 12
"""Parts of a dotted name."""
ELEMENT_METHODS = frozenset(
    "get next iterator stream remove removeFirst removeLast getFirst getLast first last poll peek pop element take"
    " orElse orElseThrow orElseGet findFirst findAny filter sorted limit skip distinct collect toList toArray"
    " getValue values subList keySet listIterator spliterator parallelStream First FirstOrDefault Single"
    " SingleOrDefault Last LastOrDefault Where OrderBy ToList ToArray Skip Take".split()
)
"""Methods of collections that give an element, or a collection of the same elements."""
OVER_ELEMENTS = frozenset(
    "forEach map filter flatMap anyMatch allMatch noneMatch mapToInt mapToLong mapToObj peek removeIf ifPresent sorted"
    " Where Select SelectMany Any All First FirstOrDefault Single SingleOrDefault Last Count Sum Max Min OrderBy"
    " GroupBy ForEach Find FindAll RemoveAll Exists".split()
)
"""Methods of collections that call a function with an element."""


class PackageStyle(ModuleStyle):
    """The rules that Java and C# share; their styles say how the nodes are named."""

    depth_first = True
    libraries_give_own_types = True
    package_pattern = re.compile(rb"^package\s+([\w.]+)", re.MULTILINE)

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(resolver)
        self._counts: dict[NamePlace, tuple[int, int]] = {}

    # -- to be answered by each language --

    def package_of(self, file: SyntaxFile) -> str:
        """Return the package that a file is in."""
        return declared_package(file, self.package_pattern)

    def star_imports(self, file: SyntaxFile) -> list[tuple[str, bool]]:
        """Return what a file imports with all its names, and whether these are the members of a type."""
        return []

    def read_import(self, file: SyntaxFile, binding: NameBinding) -> tuple[list[str], bool]:
        """Return the parts of the name that an import brings, and whether it may be a member of a type."""
        return [], False

    def parameter_counts(self, file: SyntaxFile, binding: NameBinding) -> tuple[int, int]:
        """Return how many arguments a function takes at least and at most."""
        place = NamePlace(file.path, binding.node.start_byte)
        if place not in self._counts:
            self._counts[place] = self.count_parameters(file, binding.statement)
        return self._counts[place]

    def count_parameters(self, file: SyntaxFile, function: SyntaxNode) -> tuple[int, int]:
        """Return how many arguments a function that is written there takes at least and at most."""
        parameters = read_parameters(file, function)
        fewest = sum(not (one.is_optional or one.rest) for one in parameters)
        return fewest, 1000 if any(one.rest for one in parameters) else len(parameters)

    def packages_around(self, file: SyntaxFile, offset: int) -> list[str]:
        """Return the packages whose names need no import, the nearest first."""
        return [self.package_of(file)]

    # -- packages --

    def places_in_package(self, package: str, name: str, usage: NameUsage | None) -> list[NamePlace]:
        """Return the definitions of a name at the top of a package."""

        def is_meant(file: SyntaxFile, binding: NameBinding) -> bool:
            style = self.resolver.style(file)
            if binding.role == "import" or not isinstance(style, PackageStyle):
                return False
            is_inside = style.package_of_binding(file, binding) == package
            return is_inside and (usage is None or style.accepts(file, binding, usage))

        return self.find_defined(name, is_meant)

    def package_of_binding(self, file: SyntaxFile, binding: NameBinding) -> str | None:
        """Return the package of a definition at the top of it; None for all others."""
        return self.package_of(file) if binding.scope == 0 else None

    def places_of_dotted(self, parts: list[str], usage: NameUsage | None = None) -> list[NamePlace]:
        """Return the definitions of a name with its package and the types around it."""
        for split in range(len(parts[:DOTTED_MAX]) - 1, -1, -1):
            is_last = split == len(parts) - 1
            package = ".".join(parts[:split])
            found = self.places_in_package(package, parts[split], usage if is_last else TYPE)
            for number in range(split + 1, len(parts)):
                wanted = usage if number == len(parts) - 1 else TYPE
                values = self.resolver.place_values(found)
                found = [at for one in values for at in self.resolver.members.find(one, parts[number], wanted)[0]]
            if found:
                return found
        return []

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that an imported name means."""
        parts, is_member = self.read_import(file, binding)
        if parts:
            return self.places_of_dotted(parts, None if is_member else TYPE)
        return []

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what an imported name may be: something of a library, if the project does not define it."""
        return super().imported_values(file, binding) or (Value("external", name=binding.name),)

    def unbound(self, file: SyntaxFile, name: str, offset: int) -> list[NamePlace] | None:
        """Return the inherited members of a name, or what packages and imports say of it."""
        usage = self.usage_at(file, offset) or VALUE
        found = self._unbound(file, name, offset, usage)
        if not found and usage.arity >= 0:
            found = self._unbound(file, name, offset, usage._replace(arity=-1))
        return found

    def _unbound(self, file: SyntaxFile, name: str, offset: int, usage: NameUsage) -> list[NamePlace]:
        for number in self.class_scopes(file, offset):
            for value in self.class_of_scope(file, number, "class"):
                found, _ = self.resolver.members.find(value, name, usage)
                if found:
                    return found
        for package in self.packages_around(file, offset):
            found = self.places_in_package(package, name, usage)
            if found:
                return found
        found = []
        for target, is_type in self.star_imports(file):
            if is_type:
                values = self.resolver.place_values(self.places_of_dotted(target.split("."), TYPE))
                found += [at for one in values for at in self.resolver.members.find(one, name, usage)[0]]
            else:
                found += self.places_in_package(target, name, usage)
        return found

    def class_scopes(self, file: SyntaxFile, offset: int) -> list[int]:
        """Return the numbers of the classes around an offset, the innermost first."""
        return [number for number in file.around(offset) if file.scopes[number].role in ("class", "extends")]

    # -- kinds of use --

    def accepts(self, file: SyntaxFile, binding: NameBinding, usage: NameUsage) -> bool:
        """Whether a use of a kind can mean a definition."""
        is_type_parameter = binding.statement.type == "type_parameter"
        if binding.role == "import":
            return True
        if usage.kind == "type":
            return binding.role in ("class", "namespace", "alias") or is_type_parameter
        if usage.kind == "value":
            return binding.role != "function" and not is_type_parameter
        if binding.role != "function":
            return False
        fewest, most = self.parameter_counts(file, binding)
        return usage.arity < 0 or fewest <= usage.arity <= most

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return the written type of the variable of a loop."""
        written = get(binding.statement, "type") if binding.role == "loop" else NO_NODE
        return self.resolver.type_values(file, written) if written and file.text(written) != "var" else None

    def called_values(self, file: SyntaxFile, holder: SyntaxNode, name: str, arity: int) -> Values:
        """Return what calling a method of an expression gives."""
        found: list[Value] = []
        for value in self.resolver.values(file, holder):
            if value.kind == "external" and value.arguments and name in ELEMENT_METHODS:
                found += value.arguments[-1]
                found.append(Value("external", name=value.name, arguments=value.arguments))
            else:
                found += self.resolver.results(self.resolver.member_values(value, name, NameUsage("call", arity)))
        return tuple(found)

    def element_of_call(self, file: SyntaxFile, holder: SyntaxNode, name: str) -> Values:
        """Return what a function gets that a method of a collection calls with each element."""
        return () if name not in OVER_ELEMENTS else self.resolver.elements(self.resolver.values(file, holder))

    def dotted_values(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return the type that a name with its package means: `org.zoo.Cat`."""
        parts = file.text(node).split(".") if node.end_byte - node.start_byte < 300 else []
        is_dotted = len(parts) > 1 and all(part.isidentifier() for part in parts) and parts[0][:1].islower()
        if not is_dotted or not parts[-1][:1].isupper() or file.bindings_in(parts[0], 0):
            return ()
        if self.resolver.visible_bindings(file, parts[0], node.start_byte):
            return ()
        return self.resolver.place_values(self.places_of_dotted(parts, TYPE))


def count_arguments(call: SyntaxNode) -> int:
    """Return the number of arguments of a call."""
    return sum("comment" not in one.type for one in get(call, "arguments").named_children)


TYPE = NameUsage("type")
VALUE = NameUsage("value")
