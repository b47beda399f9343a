"""Go: packages as folders, methods outside of their types, embedding, several results, type switches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from posixpath import dirname
from typing import NamedTuple

from context_engine.languages import (
    NameBinding,
    SyntaxFile,
    SyntaxNode,
    child_of,
    follow,
    of_type,
    parent_of,
    resolve_import,
)
from context_engine.references.module_styles import ModuleStyle
from context_engine.references.values import EXTERNAL, Meaning, NamePlace, Value, Values

_PACKAGE = re.compile(rb"^package\s+(\w+)", re.MULTILINE)
_MODULE = re.compile(rb"^module\s+\"?([^\s\"]+)", re.MULTILINE)
_TYPE_NAME = re.compile(r"[*(]{0,2}(?:\w{1,80}\.)?(\w{1,80})")
_VERSION = re.compile(r"v\d+$")
TYPE_NAMES_MAX = 8
"""Types that are each defined as the next; longer chains are not written."""
_DOTTED_VERSION = re.compile(r"\.v\d+$")


class GoStyle(ModuleStyle):
    """The rules of Go."""

    implements_by_methods = True

    # -- packages --

    def gives_own_types(self, name: str) -> bool:
        """Return that it is so: a library returns types of its own, or those that are written."""
        return name != ""

    def unbound(self, file: SyntaxFile, name: str, offset: int) -> list[NamePlace] | None:
        """Return the definitions of a name in the other files of the package."""
        found = self._in_package(dirname(file.path), name, package_of(file))
        if found:
            return found
        return [] if name in _imports(file) else None

    def unbound_values(self, file: SyntaxFile, name: str) -> Values:
        """Return the package that an import names."""
        target = _imports(file).get(name)
        return self._package(file, target) if target is not None else self._renamed_package(file, name)

    def _package(self, file: SyntaxFile, target: str) -> Values:
        modules = self._modules()
        for module, folder in modules.items():
            if target == module or target.startswith(module + "/"):
                inside = "/".join(filter(None, (folder, target[len(module) + 1 :])))
                return (Value("folder", NamePlace(f"{inside}/" if inside else "")),)
        found = [] if modules else resolve_import(file.language, file.path, target, self.resolver.project.paths)
        if found:
            return (Value("folder", NamePlace(dirname(found[0]) + "/")),)
        return (Value("external", name=target),)

    def _renamed_package(self, file: SyntaxFile, name: str) -> Values:
        """Return the package of this project whose files call it by another name than its folder."""
        for target in _imports(file).values():
            for value in self._package(file, target):
                sample = self.resolver.sample_file(value) if value.kind == "folder" else None
                if sample is not None and package_of(sample) == name.encode():
                    return (value,)
        return ()

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the package that an import gives another name."""
        spec = binding.node.parent
        path = follow(spec, "path")
        return self._package(file, file.text(path).strip('"`')) if path is not None else (EXTERNAL,)

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of a name in a package."""
        return self._in_package(dirname(module.place.path), name, b"")

    # -- types and functions --

    def owner(self, file: SyntaxFile, binding: NameBinding) -> str:
        """Return the type of the receiver of a method."""
        return receiver_type(file, binding.statement)

    def class_of_member(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the type of the receiver of a method, or the type around a field."""
        owner = receiver_type(file, binding.statement)
        if owner:
            return self.resolver.place_values(self._in_package(dirname(file.path), owner, package_of(file)))
        return super().class_of_member(file, binding)

    def special_member(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return the embedded type that a selector names: `self.Door` in a type that embeds `cage.Door`."""
        holder, named = node.child_by_field_name("operand"), node.child_by_field_name("field")
        if holder is None or named is None:
            return ()
        name = file.text(named)
        owners = [value for value in self.resolver.values(file, holder) if value.kind == "instance"]
        bases = [base for owner in owners for base in self.resolver.members.bases(owner.place)[0]]
        return self.resolver.instances(tuple(base for base in bases if base.name.rpartition(".")[2] == name))

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the methods of a type in the files of its package."""
        named = file.scopes[scope].node.child_by_field_name("name")
        owner = file.text(named) if named is not None else ""
        found: list[NamePlace] = []
        for path in self.resolver.project.defining(name):
            other = self.resolver.project.read(path) if dirname(path) == dirname(file.path) else None
            bound = other.bindings(name) if other is not None else ()
            own = [one for one in bound if other is not None and receiver_type(other, one.statement) == owner]
            found += [NamePlace(path, one.node.start_byte) for one in own]
        return found

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return the field that a key of a struct literal means; one without a name is called as its type."""
        element = node.parent
        pair = parent_of(of_type(element, "literal_element"))
        if pair is None or pair.type != "keyed_element" or pair.child_by_field_name("key") != element:
            return None
        found = self._literal_type(file, pair.parent)
        if found is not None and "array" in found.file.roles.get(found.node.type, {}):
            return None  # an index, or a key of a map
        names = _fields_named(found, file.text(node)) if found is not None else ()
        places = [NamePlace(found.file.path, one.start_byte) for one in names if found is not None and _is_field(one)]
        return Meaning(tuple(places), is_known=True, is_member=True)

    def namesakes(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace] | None:
        """Return the type that the field is called as which a key or a selector means: it embeds the type."""
        outer, name = node.parent, file.text(node)
        if outer is not None and outer.type == "selector_expression":
            holder = outer.child_by_field_name("operand")
            values = self.resolver.values(file, holder) if holder is not None else ()
            return self._embedded_types([value.place for value in values if value.kind == "instance"], name)
        pair = parent_of(of_type(outer, "literal_element"))
        if pair is None or pair.type != "keyed_element" or pair.child_by_field_name("key") != outer:
            return []
        found = self._literal_type(file, pair.parent)
        names = [one for one in _fields_named(found, name) if not _is_field(one)] if found is not None else []
        return [place for one in names if found is not None for place in self.resolver.meaning(found.file, one).places]

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the types that a struct or an interface embeds."""
        written = node.child_by_field_name("type")
        parts = written.named_children if written is not None else []
        if written is not None and written.type == "struct_type":
            parts = [field for part in parts for field in part.named_children]
        bases: list[SyntaxNode] = []
        for part in parts:
            if part.type == "field_declaration" and part.child_by_field_name("name") is None:
                bases += [one for one in (part.child_by_field_name("type"),) if one is not None]
            elif part.type == "type_elem":
                bases += part.named_children[:1]
        return bases

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what `new`, `make` and `append` give."""
        arguments = call.child_by_field_name("arguments")
        given = arguments.named_children if arguments is not None else []
        name = file.text(function)
        if name in ("new", "make") and given:
            return self.resolver.type_values(file, given[0])
        return self.resolver.values(file, given[0]) if name == "append" and given else None

    def elements_of(self, value: Value) -> Values | None:
        """Return the elements of a type that is a list or a map: `type nodes []*node`."""
        found = self.resolver.project.binding_at(value.place)
        written = found[1].statement.child_by_field_name("type") if found is not None else None
        if found is None or written is None or written.type not in ("slice_type", "array_type", "map_type"):
            return None
        return self.resolver.elements(self.resolver.type_values(found[0], written))

    def loop_values(self, file: SyntaxFile, binding: NameBinding, given: SyntaxNode) -> Values:
        """Return the elements for the second name of a `range`."""
        return self.resolver.elements(self.resolver.values(file, given)) if binding.positions == (1,) else ()

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return the type of a case for the name of a type switch."""
        if b".(type)" not in file.data:
            return ()
        node = file.node_at(offset, offset + 1)
        while node is not None and node.type not in ("function_declaration", "method_declaration"):
            outer = node.parent
            if node.type == "type_case" and outer is not None and outer.type == "type_switch_statement":
                alias = outer.child_by_field_name("alias")
                types = node.children_by_field_name("type")
                if alias is not None and file.text(alias) == name and len(types) == 1:
                    return self.resolver.type_values(file, types[0])
            node = outer
        return ()

    def _literal_type(self, file: SyntaxFile, literal: SyntaxNode | None) -> _WrittenType | None:
        """Return the type of the braces of a literal, which may leave out that of its elements."""
        outer = literal.parent if literal is not None else None
        if outer is None or outer.type == "composite_literal":
            written = follow(outer, "type")
            return self._underlying_type(_WrittenType(file, written)) if written is not None else None
        pair = of_type(outer.parent, "keyed_element")
        around = self._literal_type(file, parent_of(pair or outer))
        if around is None:
            return None
        is_key = pair is not None and pair.child_by_field_name("key") == outer
        field = ("key" if is_key else "value") if around.node.type == "map_type" else "element"
        written = around.node.child_by_field_name(field)
        if written is not None and written.type == "pointer_type" and written.named_children:
            written = written.named_children[0]
        return self._underlying_type(_WrittenType(around.file, written)) if written is not None else None

    def _underlying_type(self, written: _WrittenType) -> _WrittenType | None:
        """Return the type that a name of one gives a name; None if its definition is not in the project."""
        for _ in range(TYPE_NAMES_MAX):
            if written.node.type not in ("type_identifier", "qualified_type", "generic_type"):
                return written
            values = self.resolver.type_values(written.file, written.node)
            found = self.resolver.project.binding_at(values[0].place) if len(values) == 1 else None
            node = found[1].statement.child_by_field_name("type") if found is not None else None
            if found is None or node is None:
                return None
            written = _WrittenType(found[0], node)
        return None

    def _embedded_types(self, waiting: list[NamePlace], name: str) -> list[NamePlace]:
        """Return the types of a name that some types embed, directly or through others."""
        found: list[NamePlace] = []
        for place in waiting:  # it grows
            bases = [base for base in self.resolver.members.bases(place)[0] if base.kind == "class"]
            found += [base.place for base in bases if base.name.rpartition(".")[2] == name]
            waiting += [base.place for base in bases if base.place not in waiting]
        return found

    def _modules(self) -> dict[str, str]:
        """Return the folders of the modules of the project, the longest names first."""
        known = self.resolver.kept.get("go modules")
        if isinstance(known, dict):
            return known
        found: dict[str, str] = {}
        for path in self.resolver.project.paths.by_suffix("go.mod"):
            named = _MODULE.search(self.resolver.project.load(path))
            if named:
                found[named[1].decode("utf-8", "replace")] = dirname(path)
        self.resolver.kept["go modules"] = found = dict(sorted(found.items(), key=lambda item: -len(item[0])))
        return found

    def _in_package(self, folder: str, name: str, package: bytes) -> list[NamePlace]:
        """Return the definitions of a name at the top of the files of a folder; those of one package if it is given."""
        found: list[NamePlace] = []
        for path in self.resolver.project.defining(name):
            file = self.resolver.project.read(path) if dirname(path) == folder else None
            if file is None or (package and package_of(file) != package):
                continue
            found += [NamePlace(path, one.node.start_byte) for one in file.bindings_in(name, 0) if one.role != "import"]
        return found


class _WrittenType(NamedTuple):
    """A type as a file has it."""

    file: SyntaxFile
    node: SyntaxNode


def _fields_named(written: _WrittenType, name: str) -> Iterator[SyntaxNode]:
    """Yield the names of the fields of a struct type with a name, or the name of the type that it embeds."""
    fields = [one for part in written.node.named_children for one in part.named_children]
    for field in fields if written.node.type == "struct_type" else ():
        names = field.children_by_field_name("name")
        embedded = field.child_by_field_name("type") if not names else None
        if embedded is not None and embedded.type == "generic_type":
            embedded = embedded.child_by_field_name("type")
        if embedded is not None and embedded.type == "qualified_type":
            embedded = embedded.child_by_field_name("name")
        yield from (one for one in (*names, embedded) if one is not None and written.file.text(one) == name)


def _is_field(node: SyntaxNode) -> bool:
    return node.type == "field_identifier"


def package_of(file: SyntaxFile) -> bytes:
    """Return the name of the package that a file is in."""
    found = _PACKAGE.search(file.data)
    return found[1] if found else b""


def receiver_type(file: SyntaxFile, node: SyntaxNode) -> str:
    """Return the name of the type that a method is declared for; empty for other nodes."""
    receiver = follow(of_type(node, "method_declaration"), "receiver")
    declared = follow(receiver, ".")
    written = follow(declared, "type")
    found = _TYPE_NAME.match(file.text(written).strip()) if written is not None else None
    return found[1] if found else ""


@lru_cache(maxsize=512)
def _imports(file: SyntaxFile) -> dict[str, str]:
    """Return the imported paths of a file by the likely names of their packages."""
    found: dict[str, str] = {}
    for statement in file.root.named_children:
        if statement.type != "import_declaration":
            continue
        for spec in _specs(statement):
            written = child_of(spec, "path")
            if written is not None and spec.child_by_field_name("name") is None:
                target = file.text(written).strip('"`')
                found[_package_name(target)] = target
    return found


def _specs(statement: SyntaxNode) -> list[SyntaxNode]:
    inner = statement.named_children
    if inner and inner[0].type == "import_spec_list":
        inner = inner[0].named_children
    return [spec for spec in inner if spec.type == "import_spec"]


def _package_name(target: str) -> str:
    parts = target.split("/")
    last = parts[-2] if len(parts) > 1 and _VERSION.match(parts[-1]) else parts[-1]
    return _DOTTED_VERSION.sub("", last).removeprefix("go-")
