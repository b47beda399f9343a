"""The rules of a language file about the meaning of names: the nodes that bind them, and the values of expressions.

`nodes` is a table. Each row has the type of a node, its role, and the fields of the role in order; `.` is the
node's first named child, `$` the last, `-` for none, and `^field` is a field of the parent. `@type|type` is
the first named child of one of these types, and `$type` the last one of a type.

| role | fields | meaning |
| --- | --- | --- |
| `function`, `class` | name, return type or bases | a definition, which is a scope |
| `namespace` | name | as a class, but its names need no object inside of it |
| `alias` | name, type | another name of a type, or a type of the members that are written there |
| `object` | | a type that lists its members |
| `outside` | | a method that is not inside of its type |
| `extends` | type | a block that adds members to a type |
| `scope` | | another node in which a name may have its own meaning |
| `block` | | a list of statements: an assignment in it replaces earlier ones |
| `variable`, `parameter` | name, type, value | a binding |
| `loop`, `context` | name, value | binds an element of the value, or what entering it returns |
| `pattern` | | takes a value apart |
| `import` | | a statement that binds names of other files |
| `member` | object, name | a name that is looked up in an object |
| `call`, `new` | function or type, arguments | |
| `index` | object | |
| `through`, `cast` | field | the value of a part, or an instance of the type that is a part |
| `either` | | the value of one of the parts |
| `return` | | |
| `generic` | name, arguments | a type with arguments |
| `array` | element | |
| `tuple`, `callable` | result | several types, and a type of functions |
| `literal`, `record` | | a value of a built-in type, and an object that is written there |
| `self`, `super` | | |
| `label` | | names a part of something |
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

Roles = Mapping[str, Mapping[str, tuple[str, ...]]]


class ResolutionRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of one language; without a `style` its names are matched by name only.

    `style` names how its files see one another. `identifiers` are the types of leaf nodes that name something. A
    `transparent` generic type has the value of its argument. `common` are members of built-in types and `builtins`
    names that need no binding. `selves` are the names of the object a method belongs to; `first_is_self` means that it
    is the first parameter. With `capitals_match` a capital name in a pattern is compared, not bound. In `lexical`
    classes members are found without an object. With `declarators` names are bound as in C. Calls of `symbol_definers`
    define the symbols that they get. With `block_scopes` a variable holds in the block around it; with
    `assigned_members` `thing.name = value` makes a member. With `dollar_marks` the dollar sign of `$name` is not part
    of the name. With `renames` a definition without `[names]` is renamed where these rules say what each place means.
    """

    style: str = ""
    nodes: str = ""
    identifiers: tuple[str, ...] = ()
    transparent: tuple[str, ...] = ()
    common: tuple[str, ...] = ()
    builtins: tuple[str, ...] = ()
    selves: tuple[str, ...] = ()
    first_is_self: bool = False
    lexical: bool = False
    block_scopes: bool = False
    assigned_members: bool = False
    capitals_match: bool = False
    declarators: bool = False
    symbol_definers: tuple[str, ...] = ()
    dollar_marks: bool = False
    renames: bool = False


@lru_cache(maxsize=128)
def read_roles(nodes: str) -> Roles:
    """Return the roles of each type of node, in the order of the table.

    >>> read_roles("attribute member object attribute")
    {'attribute': {'member': ('object', 'attribute')}}
    """
    roles: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in nodes.strip().splitlines():
        kind, role, *fields = line.split()
        roles.setdefault(kind, {})[role] = tuple(fields)
    return roles


SCOPE_ROLES = ("class", "namespace", "extends", "alias", "function", "scope")


@lru_cache(maxsize=128)
def scope_kinds(nodes: str) -> frozenset[str]:
    """Return the types of nodes that are scopes."""
    return frozenset(kind for kind, roles in read_roles(nodes).items() if not roles.keys().isdisjoint(SCOPE_ROLES))
