"""A parsed file that answers where a name is, what binds it there, and in which scope. Nothing is computed in advance.

A name is searched in the text, which is fast, and only its places are looked at in the tree.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple, cast

from tree_sitter import Tree

from context_engine.languages.declarators import find_declared
from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language
from context_engine.languages.name_occurrences import find_whole_words
from context_engine.languages.syntax_trees import SyntaxNode, child_of, node_position, read_tree

PATTERNS_MAX = 8
"""Patterns inside of each other: more are not written by hand."""


Roles = Mapping[str, Mapping[str, tuple[str, ...]]]
"""The fields of each role of each type of node, in the order of the table of `ResolutionRules`."""


@lru_cache(maxsize=128)
def read_roles(nodes: str) -> Roles:
    """Return the roles of each type of node, in the order of the table.

    >>> read_roles("true|false member object name")
    {'true': {'member': ('object', 'name')}, 'false': {'member': ('object', 'name')}}
    """
    roles: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in nodes.strip().splitlines():
        kinds, role, *fields = line.split()
        for kind in kinds.split("|"):
            roles.setdefault(kind, {})[role] = tuple(fields)
    return roles


SCOPE_ROLES = ("class", "namespace", "extends", "alias", "function", "scope")


@lru_cache(maxsize=128)
def scope_kinds(nodes: str) -> frozenset[str]:
    """Return the types of nodes that are scopes."""
    return frozenset(kind for kind, roles in read_roles(nodes).items() if not roles.keys().isdisjoint(SCOPE_ROLES))


class Scope(NamedTuple):
    """A part of a file, in bytes, in which names are bound; `parent` is the number of the scope around it."""

    start: int
    stop: int
    parent: int
    role: str
    node: SyntaxNode


class NameBinding(NamedTuple):
    """A place that gives a name a meaning.

    `statement` is the node around it that does so, `scope` the number of the scope in which it holds, and `positions`
    lead to the name inside of a pattern.
    """

    name: str
    role: str
    node: SyntaxNode
    statement: SyntaxNode
    scope: int
    fields: tuple[str, ...] = ()
    positions: tuple[int | str, ...] = ()

    def field(self, index: int) -> SyntaxNode | None:
        """Return the node of a field of its rule."""
        return child_of(self.statement, self.fields[index]) if 0 <= index < len(self.fields) else None


class SyntaxFile:
    """One file of a language that has resolution rules."""

    def __init__(self, path: str, language: Language, tree: Tree, data: bytes) -> None:
        self.path = path
        self.language = language
        self.rules = language.resolution
        self.roles: Roles = read_roles(language.resolution.nodes)
        self.data = data
        self.root = cast("SyntaxNode", tree.root_node)
        self._bindings: dict[str, tuple[NameBinding, ...]] = {}
        self._words: dict[str, tuple[SyntaxNode, ...]] = {}

    def text(self, node: SyntaxNode) -> str:
        """Return the text of a node."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def position(self, node: SyntaxNode) -> tuple[int, int]:
        """Return line and column of a node, both from 1."""
        return node_position(self.data, node)

    def position_of(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset in bytes, both from 1; columns count characters."""
        line_start = self.data.rfind(b"\n", 0, offset) + 1
        column = len(self.data[line_start:offset].decode("utf-8", "replace")) + 1
        return self.data.count(b"\n", 0, offset) + 1, column

    def words(self, name: str) -> Iterator[tuple[int, int]]:
        """Yield the places of a name in the text, in bytes; in strings and comments as well."""
        return find_whole_words(self.data, name)

    def role_fields(self, node: SyntaxNode, role: str) -> tuple[str, ...] | None:
        """Return the fields of a role, or None if the node does not have it."""
        return self.roles.get(node.type, {}).get(role)

    # -- names --

    def find(self, name: str) -> tuple[SyntaxNode, ...]:
        """Return the nodes whose whole text is this name."""
        known = self._words.get(name)
        if known is None:
            known = self._words[name] = tuple(self._find(name))
        return known

    def _find(self, name: str) -> Iterator[SyntaxNode]:
        for start, stop in find_whole_words(self.data, name, marked=self.rules.dollar_marks):
            node = self.root.descendant_for_byte_range(start, stop)
            if node is None or (node.start_byte, node.end_byte) != (start, stop) or not self.is_identifier(node):
                continue
            if node.parent is None or not self.is_identifier(node.parent):  # the name of `$name` is not one itself
                yield node

    def is_identifier(self, node: SyntaxNode) -> bool:
        """Whether a node is a leaf that names something."""
        return node.type in self.rules.identifiers

    def node_at(self, start: int, stop: int) -> SyntaxNode | None:
        """Return the smallest node around some bytes."""
        return self.root.descendant_for_byte_range(start, stop)

    # -- scopes --

    @cached_property
    def scopes(self) -> list[Scope]:
        """The scopes of the file, the outer before the inner; the first is the file."""
        return _nest_scopes(self.language, self.root)

    @cached_property
    def _starts(self) -> list[int]:
        return [scope.start for scope in self.scopes]

    def scope_at(self, offset: int) -> int:
        """Return the number of the innermost scope around an offset; 0 is the file."""
        number = bisect_right(self._starts, offset) - 1
        while number > 0 and self.scopes[number].stop <= offset:
            number = self.scopes[number].parent
        return max(0, number)

    def scope_of(self, node: SyntaxNode) -> int:
        """Return the number of the scope that a node opens, or of the one around it."""
        number = self.scope_at(node.start_byte)
        while number > 0 and self.scopes[number].stop < node.end_byte:
            number = self.scopes[number].parent
        while (scope := self.scopes[number]).parent >= 0 and scope.start == node.start_byte and scope.node != node:
            number = scope.parent
        return number

    def around(self, offset: int) -> Iterator[int]:
        """Yield the numbers of the scopes around an offset, the innermost first."""
        number = self.scope_at(offset)
        while number >= 0:
            yield number
            number = self.scopes[number].parent

    # -- bindings --

    def bindings(self, name: str) -> tuple[NameBinding, ...]:
        """Return every place that binds a name, in file order."""
        known = self._bindings.get(name)
        if known is None:
            found = (self.binding_of(node) for node in self.find(name))
            known = self._bindings[name] = tuple(binding for binding in found if binding is not None)
        return known

    def bindings_in(self, name: str, scope: int) -> list[NameBinding]:
        """Return the places that bind a name in a scope."""
        return [binding for binding in self.bindings(name) if binding.scope == scope]

    def binding_of(self, node: SyntaxNode) -> NameBinding | None:
        """Return what an identifier binds there; None if it only uses the name."""
        if self.rules.declarators:
            return self._declared_binding(node)
        if node.type == "simple_symbol":  # the method that a call such as `attr_reader :name` defines
            call = node.parent and node.parent.parent
            method = call and child_of(call, "method")
            if not call or not method or self.text(method) not in self.rules.symbol_definers:
                return None
            return NameBinding(self.text(node), "function", node, call, self.scope_at(call.start_byte))
        at, parent, positions = self._leave_patterns(node)
        if parent is None:
            return None
        fields = self.role_fields(parent, "member")
        if fields and not positions:
            is_path = parent.type.startswith("scoped_")  # `use path::name`
            return self._attribute(node, parent, fields) or (self._import_binding(node) if is_path else None)
        name = self.text(node)
        for role, fields in self.roles.get(parent.type, {}).items():
            if role in BINDING_ROLES and fields and _is_child(parent, fields[0], at):
                if self.rules.capitals_match and role in PATTERN_ROLES and fields[0] != "name" and name[:1].isupper():
                    return None  # `Some` in a pattern is compared, not bound
                scope = self._binding_scope(role, parent, at)
                return NameBinding(name, role, node, parent, scope, fields, positions)
        return self._import_binding(node)

    def _import_binding(self, node: SyntaxNode) -> NameBinding | None:
        statement = self.import_around(node)
        if statement is None or not self._is_imported(node, statement):
            return None
        return NameBinding(self.text(node), "import", node, statement, self.scope_at(statement.start_byte))

    def _declared_binding(self, node: SyntaxNode) -> NameBinding | None:
        """Return what a declarator of C or C++ binds: enumerators hold around their enum."""
        found = find_declared(node)
        if found is None:
            return None
        statement, role = found.statement, found.role
        if role == "parameter":
            number = self.scope_at(node.start_byte)
            number = number if number > 0 and self.scopes[number].role in ("function", "scope") else NOWHERE
        else:
            number = 0 if statement.type.startswith("preproc_") else self.scope_at(statement.start_byte)
        while number > 0 and role != "parameter":
            scope = self.scopes[number]
            is_around = scope.stop >= statement.end_byte and (scope.node != statement or role == "loop")
            if is_around and not _hands_on(scope.node, role):
                break
            number = scope.parent
        return NameBinding(self.text(node), role, node, statement, number)

    def _leave_patterns(self, node: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode | None, tuple[int | str, ...]]:
        at, parent = node, node.parent
        positions: tuple[int | str, ...] = ()
        if node.type == "shorthand_property_identifier_pattern":
            positions = (self.text(node),)
        for _ in range(PATTERNS_MAX):
            if parent is None or "pattern" not in self.roles.get(parent.type, {}):
                break
            key = parent.child_by_field_name("key")
            if at in (key, parent.child_by_field_name("type")):  # `Some` of `Some(value)`
                break
            if key is not None:
                positions = (self.text(key), *positions)
            elif parent.type in LISTS:
                positions = (parent.named_children.index(at), *positions)
            at, parent = parent, parent.parent
        return at, parent, positions

    def _attribute(self, node: SyntaxNode, member: SyntaxNode, fields: tuple[str, ...]) -> NameBinding | None:
        """Return the binding of `self.name = value`, and in some languages of `thing.name = value`."""
        holder = child_of(member, fields[0])
        if child_of(member, fields[1]) != node or holder is None:
            return None
        is_self, is_open = self.is_self(holder), self.rules.assigned_members
        at, parent, positions = self._leave_patterns(member) if is_self or is_open else (member, None, ())
        rule = self.role_fields(parent, "variable") if parent is not None else None
        if parent is None or rule is None or not _is_child(parent, rule[0], at):
            return None
        classes = (n for n in self.around(node.start_byte) if self.scopes[n].role in ("class", "extends"))
        owner = next(classes, None) if is_self or not is_open else None
        if owner is None and not is_open:
            return None
        scope = owner if owner is not None else NOWHERE
        return NameBinding(self.text(node), "attribute", node, parent, scope, rule, positions)

    def is_self(self, node: SyntaxNode) -> bool:
        """Whether a node is the object, or the class, of the method around it."""
        return "self" in self.roles.get(node.type, {}) or self.text(node) in self.rules.selves

    def _binding_scope(self, role: str, statement: SyntaxNode, at: SyntaxNode) -> int:
        around = self.roles.get(statement.parent.type, {}) if statement.parent is not None else {}
        if (role == "function" and "record" in around) or "outside" in self.roles.get(statement.type, {}):
            return NOWHERE  # a method of an object that is written there
        if role not in ("function", "class", "namespace", "alias"):
            return self.scope_at(at.start_byte)
        number = self.scope_at(statement.start_byte)
        while number > 0 and self.scopes[number].node == statement:
            number = self.scopes[number].parent
        return number

    def _is_imported(self, node: SyntaxNode, statement: SyntaxNode) -> bool:
        """Whether an identifier inside of an import is the name that it binds."""
        rules = self.role_fields(statement, "import") or ()
        at = node
        while at != statement and at.parent is not None:
            outer = at.parent
            alias = outer.child_by_field_name("alias")
            qualifier = outer.child_by_field_name("scope") or outer.child_by_field_name("qualifier")
            if (alias is not None and alias != at) or qualifier == at:
                return False
            if outer.type == "use_wildcard" or (outer.child_by_field_name("path") == at and not _takes_itself(outer)):
                return False
            if outer == statement:
                return not any(child_of(outer, field) == at for field in rules)
            if outer.type == "dotted_name" and outer.named_children[0] != at:
                return False
            at = outer
        return True

    def import_around(self, node: SyntaxNode) -> SyntaxNode | None:
        """Return the import statement around a node."""
        outer = node.parent
        for _ in range(PATTERNS_MAX):
            if outer is None or outer.type in ("block", "module", "program", "source_file"):
                return None
            if "import" in self.roles.get(outer.type, {}):
                return outer
            outer = outer.parent
        return None


def _hands_on(scope: SyntaxNode, role: str) -> bool:
    """Whether what is declared in a node is visible around it: a plain enum, a struct without a name, a template."""
    if scope.type == "template_declaration":
        return role != "parameter"
    if scope.type == "enum_specifier":
        return not any(child.type in ("class", "struct") for child in scope.children)
    is_unnamed = scope.type in ("struct_specifier", "union_specifier") and scope.child_by_field_name("name") is None
    holder = scope.parent
    is_field = holder is not None and holder.type == "field_declaration"
    return is_unnamed and is_field and holder.child_by_field_name("declarator") is None


def _takes_itself(node: SyntaxNode) -> bool:
    """Whether a list of imported names has the path of the list itself: `use a::b::{self, c}`."""
    listed = node.child_by_field_name("list")
    return listed is not None and any(child.type == "self" for child in listed.named_children)


NOWHERE = -1
"""The scope of a name that is only looked up in an object."""
LISTS = frozenset(
    "pattern_list tuple_pattern list_pattern array_pattern expression_list tuple left_assignment_list".split()
)
"""Patterns that take a value apart by position."""
PATTERN_ROLES = ("variable", "parameter", "loop")
"""Roles whose names may be in patterns."""
BINDING_ROLES = frozenset({"function", "class", "namespace", "alias", "variable", "parameter", "loop", "context"})


def _is_child(parent: SyntaxNode, field: str, node: SyntaxNode) -> bool:
    if field == "." or child_of(parent, field) == node:
        return True
    return field[0] not in ("@", "$") and node in parent.children_by_field_name(field)


def read_syntax(path: str, language: Language, data: bytes, grammars: Grammars) -> SyntaxFile | None:
    """Parse a file; None if its language has no resolution rules, or the file cannot be parsed."""
    if not language.resolution.style:
        return None
    data, tree = read_tree(language, data, grammars)
    return None if isinstance(tree, str) else SyntaxFile(path, language, tree, data)


def nodes_of(top: SyntaxNode, kinds: frozenset[str]) -> Iterator[SyntaxNode]:
    """Yield the named nodes of some types, in file order."""
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if node.type in kinds:
            yield node
        waiting += reversed(node.named_children)


def _nest_scopes(language: Language, root: SyntaxNode) -> list[Scope]:
    roles = read_roles(language.resolution.nodes)
    scopes = [Scope(0, max(1, root.end_byte) + 1, -1, "file", root)]
    for node in nodes_of(root, scope_kinds(language.resolution.nodes)):
        parent = len(scopes) - 1
        while parent > 0 and scopes[parent].stop < node.end_byte:
            parent = scopes[parent].parent
        while parent > 0 and scopes[parent].stop <= node.start_byte:
            parent = scopes[parent].parent
        role = next(role for role in SCOPE_ROLES if role in roles[node.type])
        role = "class" if role == "alias" else role
        scopes.append(Scope(node.start_byte, node.end_byte, parent, role, node))
    return scopes
