"""Find every place where a file has a name as a whole word, and its role there. Never raises.

The tree shows whether a place is an identifier, or part of a string or a comment. The `[names]` of the language give
the role of an identifier. Without an entry the role is `unknown`: the place may give the name a new meaning, so that
callers never rely on a case that the language file does not cover.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from typing import Literal, NamedTuple

from tree_sitter import Node

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language, NameRules
from context_engine.languages.syntax_trees import node_position, read_tree

Role = Literal[
    "read", "shorthand", "binding", "unknown", "member", "label", "import", "macro", "string", "comment", "text"
]
"""`unknown` may bind the name, or not; a `shorthand` reads a name and is a label of that name as well: `{ name }` for
`{ name: name }`."""

ITSELF = frozenset({"self", "this", "cls"})
"""The name of the object that a method belongs to, by the rules or the conventions of a language."""
ROLES: tuple[Role, ...] = ("member", "label", "read", "binding")
"""The roles that a language file lists places for, in the order in which they are tried."""
INSIDE_IMPORTS = frozenset({"import_specifier", "import_clause", "import_spec", "import_spec_list", "import_prefix"})
IMPORTED_NAMES = frozenset({"dotted_name", "aliased_import", "import_specifier", "use_as_clause", "export_specifier"})
"""The nodes of one name in a statement that imports or exports, with its path and its other name."""
OBJECTS = ("object", "operand", "value", "path", "package", "module", "scope")
"""The fields with the object in which a member is looked up."""
_WORD = re.compile(r"[^\W\d][\w$]*")


class NameScope(NamedTuple):
    """A part of a file, in bytes, in which a name may have its own meaning."""

    start: int
    stop: int


class Occurrence(NamedTuple):
    """A name at `start` to `stop` in bytes; line and column count from 1, columns in characters.

    `scopes` are those around it, the innermost first. For a member, `owner` is the single name in which it is looked
    up, and `of_itself` whether that is the object of the method around it. For an import, `lines` are those of its
    statement, and `is_renamed` means that the statement gives it another name.
    """

    start: int
    stop: int
    line: int
    column: int
    role: Role
    kind: str = ""
    scopes: tuple[NameScope, ...] = ()
    owner: str = ""
    of_itself: bool = False
    lines: tuple[int, int] = (0, 0)
    is_renamed: bool = False


def find_occurrences(language: Language, data: bytes, name: str, grammars: Grammars) -> tuple[Occurrence, ...] | str:
    """Return the places of a name in file order; a sentence if the file cannot be parsed."""
    seen, tree = read_tree(language, data, grammars)
    if isinstance(tree, str):
        return tree
    kinds = _set(language.resolution.identifiers)
    return tuple(
        _occurrence(language.names, seen, tree.root_node, start, stop, kinds)
        for start, stop in find_whole_words(data, name, marked=language.resolution.dollar_marks)
    )


def find_whole_words(data: bytes, name: str, *, marked: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the places of a name as a whole word, in bytes; if `marked`, a dollar sign before it is not part of it.

    >>> list(find_whole_words("cat concat cat's käse_cat".encode(), "cat"))
    [(0, 3), (11, 14)]
    >>> list(find_whole_words(b"$cat $a$cat", "cat", marked=True))
    [(1, 4), (8, 11)]
    """
    word = name.encode("utf-8", "replace")
    for found in re.finditer(re.escape(word), data):
        start, stop = found.span()
        is_marked = marked and data[start - 1 : start] == b"$"
        if (is_marked or not _goes_on(data[max(0, start - 4) : start], -1)) and not _goes_on(data[stop : stop + 4], 0):
            yield start, stop


def _goes_on(neighbors: bytes, index: int) -> bool:
    """Whether the character next to a word makes it a longer one."""
    text = neighbors.decode("utf-8", "ignore")
    return bool(text) and (text[index] in "_$" or text[index].isalnum())


def _occurrence(names: NameRules, data: bytes, root: Node, start: int, stop: int, kinds: frozenset[str]) -> Occurrence:
    node = root.descendant_for_byte_range(start, stop)
    if node is None or (node.start_byte, node.end_byte) != (start, stop) or not _is_identifier(node, kinds):
        line = data.count(b"\n", 0, start) + 1
        column = len(data[data.rfind(b"\n", 0, start) + 1 : start].decode("utf-8", "replace")) + 1
        return Occurrence(start, stop, line, column, _prose(node))
    role, at = _role(names, node)
    if role == "unknown" and node.parent is not None and node.parent.type.startswith("type_parameter"):
        at = root if names.types else at  # it is visible in the head and in the body of its definition
    scopes = tuple(_scopes(names, at, role))
    found = Occurrence(start, stop, *node_position(data, node), role, node.type, scopes)
    if role == "member":
        owner = _looked_up_in(node)
        return found._replace(owner=owner, of_itself=bool(owner) and owner in (ITSELF | {_receiver(node)}))
    statement = _import(node) if role in ("import", "binding", "unknown") else None
    if statement is None:
        return found
    lines = (statement.start_point[0] + 1, statement.end_point[0] + 1)
    return found._replace(lines=lines, is_renamed=role == "import" and _is_renamed(node))


def _is_identifier(node: Node, kinds: frozenset[str]) -> bool:
    is_name = node.type in kinds or node.type.endswith(("identifier", "identifier_pattern"))
    return node.is_named and node.child_count == 0 and is_name


def _prose(node: Node | None) -> Role:
    """Return the role of a word that is not an identifier: part of a string, of a comment, or of something else."""
    for outer in (node, *_ancestors(node)) if node is not None else ():
        if "comment" in outer.type:
            return "comment"
        if any(word in outer.type for word in ("string", "char", "template", "heredoc", "regex")):
            return "string"
    return "text"


# -- the role of an identifier ----------------------------------------------------------------------------------------


def _role(names: NameRules, node: Node) -> tuple[Role, Node]:
    """Return the role of an identifier, and the node that represents it in its scope."""
    parent, at = node.parent, node
    while parent is not None and parent.type in names.through:
        parent, at = parent.parent, parent
    if parent is None:
        return "unknown", node
    if parent.type == "token_tree":
        return _in_macro(names, node), node
    field = _field(parent, at)
    if node.type == "shorthand_property_identifier" or parent.type == "shorthand_field_initializer":
        return "shorthand", node
    is_in_import = _import(node) is not None
    if is_in_import and _is_taken(names, node, parent, field):
        return "import", node
    names_scope = field == f"{parent.type}.name" and parent.type in names.scopes  # which is bound around that
    listed = (names.members, names.labels, names.reads, names.binds)
    for role, places in zip(ROLES, listed, strict=True):
        if any(_fits(parent, field, place) for place in places):
            if role == "binding":
                return role, parent if names_scope else at
            return "label" if is_in_import else role, at
    if not names_scope:
        return "unknown", at
    outer = next((outer.type for outer in _ancestors(parent) if outer.type in names.scopes), "")
    return "label" if outer in names.holders else "unknown", parent


def _is_taken(names: NameRules, node: Node, parent: Node, field: str) -> bool:
    """Whether an import takes this name: it takes the last one of a path `a.b.c`."""
    path = parent
    while path.parent is not None and path.parent.type.startswith("scoped_"):
        path = path.parent
    is_last = not path.type.startswith("scoped_identifier") or path.end_byte == node.end_byte
    return is_last and (field in names.imports or parent.type in names.imports)


def _fits(parent: Node, field: str, place: str) -> bool:
    place, _, needed = place.partition("?")
    return place == field and (not needed or parent.child_by_field_name(needed) is not None)


def _field(parent: Node, node: Node) -> str:
    """Return the place of a node in its parent: `parent.field`, or `parent` alone where the grammar has no field."""
    for index, child in enumerate(parent.children):
        if child.start_byte == node.start_byte and child.end_byte == node.end_byte:
            field = parent.field_name_for_child(index)
            return f"{parent.type}.{field}" if field else parent.type
    return parent.type


def _in_macro(names: NameRules, node: Node) -> Role:
    """Return the role of a name that is passed to a macro: a read if the macro is known to take expressions."""
    before, after = node.prev_sibling, node.next_sibling
    if before is not None and before.type in (".", "::"):
        return "macro"
    if after is not None and after.type in ("::", ":", "=>", "="):
        return "macro"
    call = next((outer for outer in _ancestors(node) if outer.type != "token_tree"), None)
    return "read" if call is not None and _text(call.child_by_field_name("macro")) in names.macros else "macro"


def _scopes(names: NameRules, node: Node, role: Role) -> Iterator[NameScope]:
    """Yield the scopes whose meaning of a name applies at a node, the innermost first."""
    inner, left_body = node, False
    for outer in _ancestors(node):
        if outer.type in names.scopes:
            body = outer.child_by_field_name("body")
            in_body = body is not None and body.start_byte <= inner.start_byte < body.end_byte
            is_head = outer.type in names.headed and not in_body and role not in ("binding", "unknown")
            if not is_head and not (left_body and outer.type in names.types):
                yield NameScope(outer.start_byte, outer.end_byte)
            left_body = left_body or in_body
        inner = outer


@lru_cache(maxsize=256)
def _set(listed: tuple[str, ...]) -> frozenset[str]:
    return frozenset(listed)


# -- members and imports ---------------------------------------------------------------------------------------------


def _looked_up_in(node: Node) -> str:
    """Return the single name in which a member is looked up, or the last one of a path; empty for anything else."""
    holder = next(filter(None, map(node.parent.child_by_field_name, OBJECTS)), None) if node.parent else None
    if holder is None or holder.start_byte == node.start_byte:
        return ""
    text = _text(holder)
    return text if _WORD.fullmatch(text) else ""


def _receiver(node: Node) -> str:
    """Return the name of the receiver of the Go method around a node."""
    method = next((outer for outer in _ancestors(node) if outer.type == "method_declaration"), None)
    receiver = method.child_by_field_name("receiver") if method is not None else None
    first = receiver.named_children[:1] if receiver is not None else []
    return _text(first[0].child_by_field_name("name")) if first else ""


def _import(node: Node) -> Node | None:
    """Return the statement around a node that imports names from another file or exports them again."""
    for outer in _ancestors(node):
        if outer.type.startswith(("import_", "use_declaration", "future_import")) and outer.type not in INSIDE_IMPORTS:
            return outer
        if outer.type == "export_statement" and outer.child_by_field_name("source") is not None:
            return outer
    return None


def _is_renamed(node: Node) -> bool:
    """Whether an imported name gets another one: `import a as b`, not for the `b`."""
    for outer in takewhile(lambda one: one.type in IMPORTED_NAMES, _ancestors(node)):
        alias = outer.child_by_field_name("alias")
        if alias is not None and alias.start_byte != node.start_byte:
            return True
    return False


# -- nodes -------------------------------------------------------------------------------------------------------------


def _ancestors(node: Node) -> Iterator[Node]:
    """Yield the nodes around a node, the innermost first."""
    outer = node.parent
    while outer is not None:
        yield outer
        outer = outer.parent


def _text(node: Node | None) -> str:
    """Return the text of a node; empty for none."""
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""
