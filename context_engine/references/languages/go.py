"""Go: packages as folders, methods outside of their types, embedding, several results, type switches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from posixpath import dirname, join
from typing import NamedTuple

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, resolve_import
from context_engine.references.module_styles import ModuleStyle, declared_package, places_of
from context_engine.references.nodes import NO_NODE, around, children, get, up
from context_engine.references.values import Meaning, NamePlace, Value, Values

_PACKAGE = re.compile(rb"^package\s+(\w+)", re.MULTILINE)
_MODULE = re.compile(rb"^module\s+\"?([^\s\"]+)", re.MULTILINE)
_TYPE_NAME = re.compile(r"[*(]{0,2}(?:\w{1,80}\.)?(\w{1,80})")
_VERSION = re.compile(r"v\d+$")
_DOTTED_VERSION = re.compile(r"\.v\d+$")
TYPE_NAMES_MAX = 8
"""Types that are each defined as the next; longer chains are not written."""


class WrittenType(NamedTuple):
    """A type as a file has it."""

    file: SyntaxFile
    node: SyntaxNode


class GoStyle(ModuleStyle):
    """The rules of Go."""

    implements_by_methods = True
    libraries_give_own_types = True

    # -- packages --

    def unbound(self, file: SyntaxFile, name: str, offset: int) -> list[NamePlace] | None:
        """Return the definitions of a name in the other files of the package."""
        found = self._in_package(dirname(file.path), name, declared_package(file, _PACKAGE))
        return found or ([] if name in _imports(file) else None)

    def unbound_values(self, file: SyntaxFile, name: str) -> Values:
        """Return the package that an import names, by its path or by the `package` of its files."""
        imports = _imports(file)
        if name in imports:
            return self._package(file, imports[name])
        for value in (value for target in imports.values() for value in self._package(file, target)):
            sample = self.resolver.sample_file(value) if value.kind == "folder" else None
            if sample is not None and declared_package(sample, _PACKAGE) == name:
                return (value,)
        return ()

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the package that an import gives another name."""
        return self._package(file, file.text(get(binding.node, "^path")).strip('"`'))

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of a name in a package."""
        return self._in_package(dirname(module.place.path), name)

    def _package(self, file: SyntaxFile, target: str) -> Values:
        for module, folder in self._modules.items():
            if target == module or target.startswith(module + "/"):
                inside = join(folder, target[len(module) + 1 :]).rstrip("/")
                return (Value("folder", NamePlace(f"{inside}/" if inside else "")),)
        found = [] if self._modules else resolve_import(file.language, file.path, target, self.project.paths)
        return (Value("folder", NamePlace(dirname(found[0]) + "/")) if found else Value("external", name=target),)

    @cached_property
    def _modules(self) -> dict[str, str]:
        """The folders of the modules of the project, the longest names first."""
        found: dict[str, str] = {}
        for path in self.project.paths.by_suffix("go.mod"):
            named = _MODULE.search(self.project.load(path))
            if named:
                found[named[1].decode("utf-8", "replace")] = dirname(path)
        return dict(sorted(found.items(), key=lambda item: -len(item[0])))

    def _in_package(self, folder: str, name: str, package: str = "") -> list[NamePlace]:
        """Return the definitions of a name at the top of the files of a folder; those of one package if it is given."""
        found: list[NamePlace] = []
        for file in self._read_in(folder, name):
            if not package or declared_package(file, _PACKAGE) == package:
                found += places_of(file, (one for one in file.bindings_in(name, 0) if one.role != "import"))
        return found

    def _read_in(self, folder: str, name: str) -> Iterator[SyntaxFile]:
        paths = [path for path in self.project.defining(name) if dirname(path) == folder]
        return filter(None, map(self.project.read, paths))

    # -- types and functions --

    def is_member(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a definition is looked up in a type, that of its receiver for a method."""
        return super().is_member(file, binding) or receiver_type(file, binding.statement) != ""

    def class_of_member(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the type of the receiver of a method, or the type around a field."""
        owner = receiver_type(file, binding.statement)
        if owner:
            return self.resolver.place_values(
                self._in_package(dirname(file.path), owner, declared_package(file, _PACKAGE))
            )
        return super().class_of_member(file, binding)

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the methods of a type in the files of its package."""
        owner = file.text(get(file.scopes[scope].node, "name"))
        found: list[NamePlace] = []
        for other in self._read_in(dirname(file.path), name):
            found += places_of(
                other, (one for one in other.bindings(name) if receiver_type(other, one.statement) == owner)
            )
        return found

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return the field that a key of a struct literal means; one without a name is called as its type."""
        pair = _pair_of_key(node)
        found = self._literal_type(file, up(pair)) if pair else None
        if not pair or (found is not None and "array" in found.file.roles.get(found.node.type, {})):
            return None  # no key, an index, or a key of a map
        names = _fields_named(found, file.text(node)) if found is not None else []
        places = [NamePlace(found.file.path, one.start_byte) for one in names if found is not None and _is_field(one)]
        return Meaning(tuple(places), is_known=True, is_member=True)

    def namesakes(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace] | None:
        """Return the type that the field is called as which a key or a selector means: it embeds the type."""
        name, selector, pair = file.text(node), get(node, "<selector_expression"), _pair_of_key(node)
        if selector:
            values = self.resolver.values(file, get(selector, "operand"))
            return self._embedded_types([value.place for value in values if value.kind == "instance"], name)
        found = self._literal_type(file, up(pair)) if pair else None
        names = [one for one in _fields_named(found, name) if not _is_field(one)] if found is not None else []
        return [place for one in names if found is not None for place in self.resolver.meaning(found.file, one).places]

    def _embedded_types(self, owners: list[NamePlace], name: str) -> list[NamePlace]:
        """Return the types of a name that some types embed, directly or through others."""
        members = self.resolver.members
        bases = [base for place in members.with_bases(owners) for base in members.bases(place)[0]]
        return [base.place for base in bases if base.kind == "class" and base.name.rpartition(".")[2] == name]

    def _literal_type(self, file: SyntaxFile, literal: SyntaxNode) -> WrittenType | None:
        """Return the type of the braces of a literal, which may leave out that of its elements."""
        outer = up(literal)
        if not outer or outer.type == "composite_literal":
            return self._underlying_type(WrittenType(file, get(outer, "type")))
        pair = get(outer, "<keyed_element")
        whole = self._literal_type(file, up(pair or outer))
        if whole is None:
            return None
        field = ("key" if get(pair, "key") == outer else "value") if whole.node.type == "map_type" else "element"
        written = get(whole.node, field)
        written = get(written, ".") or written if written.type == "pointer_type" else written
        return self._underlying_type(WrittenType(whole.file, written))

    def _underlying_type(self, written: WrittenType) -> WrittenType | None:
        """Return the type that a name of one gives a name; None if its definition is not in the project."""
        for _ in range(TYPE_NAMES_MAX):
            if written.node.type not in ("type_identifier", "qualified_type", "generic_type"):
                return written if written.node else None
            values = self.resolver.type_values(*written)
            found = self.project.binding_at(values[0].place) if len(values) == 1 else None
            if found is None:
                return None
            written = WrittenType(found[0], get(found[1].statement, "type"))
        return None

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the types that a struct or an interface embeds."""
        written = get(node, "type")
        if written.type != "struct_type":
            return [get(one, ".") for one in children(written, "type_elem")]
        fields = [field for part in written.named_children for field in children(part, "field_declaration")]
        return [get(field, "type") for field in fields if not get(field, "name")]

    # -- values --

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what `new`, `make` and `append` give, and the embedded type that a selector names."""
        if node.type == "selector_expression":
            return self._embedded_values(file, get(node, "operand"), file.text(get(node, "field"))) or None
        given = get(node, "arguments", ".") if node.type == "call_expression" else NO_NODE
        name = file.text(get(node, "function")) if given else ""
        if name in ("new", "make"):
            return self.resolver.type_values(file, given)
        return self.resolver.values(file, given) if name == "append" else None

    def _embedded_values(self, file: SyntaxFile, holder: SyntaxNode, name: str) -> Values:
        """Return the embedded type that a selector names: `self.Door` in a type that embeds `cage.Door`."""
        owners = [value.place for value in self.resolver.values(file, holder) if value.kind == "instance"]
        bases = [base for owner in owners for base in self.resolver.members.bases(owner)[0]]
        return self.resolver.instances(tuple(base for base in bases if base.name.rpartition(".")[2] == name))

    def elements_of(self, value: Value) -> Values | None:
        """Return the elements of a type that is a list or a map: `type nodes []*node`."""
        found = self.project.binding_at(value.place)
        written = get(found[1].statement, "type") if found is not None else NO_NODE
        if found is None or written.type not in ("slice_type", "array_type", "map_type"):
            return None
        return self.resolver.elements(self.resolver.type_values(found[0], written))

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return the elements for the second name of a `range`."""
        if binding.role != "loop":
            return None
        given = get(binding.statement, "right")
        return self.resolver.elements(self.resolver.values(file, given)) if binding.positions == (1,) else ()

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return the type of a case for the name of a type switch."""
        at = file.node_at(offset, offset + 1) or NO_NODE if b".(type)" in file.data else NO_NODE
        while at := around(at, "type_case", "function_declaration", "method_declaration"):
            types = at.children_by_field_name("type")
            if at.type != "type_case":
                break
            if file.text(get(at, "<type_switch_statement", "alias")) == name and len(types) == 1:
                return self.resolver.type_values(file, types[0])
        return ()


def _pair_of_key(node: SyntaxNode) -> SyntaxNode:
    """Return the `key: value` of a literal whose key a name is."""
    element = get(node, "<literal_element")
    pair = get(element, "<keyed_element")
    return pair if get(pair, "key") == element else NO_NODE


def _fields_named(written: WrittenType, name: str) -> list[SyntaxNode]:
    """Return the names of the fields of a struct type with a name, or the name of the type that it embeds."""
    found: list[SyntaxNode] = []
    parts = written.node.named_children if written.node.type == "struct_type" else ()
    for field in (field for part in parts for field in part.named_children):
        embedded = get(field, "type")
        embedded = get(embedded, "type") if embedded.type == "generic_type" else embedded
        embedded = get(embedded, "name") if embedded.type == "qualified_type" else embedded
        names = field.children_by_field_name("name") or [embedded]
        found += [one for one in names if one and written.file.text(one) == name]
    return found


def _is_field(node: SyntaxNode) -> bool:
    return node.type == "field_identifier"


def receiver_type(file: SyntaxFile, node: SyntaxNode) -> str:
    """Return the name of the type that a method is declared for; empty for other nodes."""
    written = get(node, "receiver", ".", "type") if node.type == "method_declaration" else NO_NODE
    found = _TYPE_NAME.match(file.text(written).strip())
    return found[1] if found else ""


@lru_cache(maxsize=512)
def _imports(file: SyntaxFile) -> dict[str, str]:
    """Return the imported paths of a file by the likely names of their packages."""
    found: dict[str, str] = {}
    for statement in children(file.root, "import_declaration"):
        for spec in children(get(statement, "@import_spec_list") or statement, "import_spec"):
            target = file.text(get(spec, "path")).strip('"`')
            if target and not get(spec, "name"):
                *above, last = target.split("/")
                last = above[-1] if above and _VERSION.match(last) else last
                found[_DOTTED_VERSION.sub("", last).removeprefix("go-")] = target
    return found
