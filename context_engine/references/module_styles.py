"""The rules of a language that a table of nodes cannot say: the interface that the resolver asks.

`ModuleStyle` has the rules of most languages; each language overrides those that it has differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from context_engine.languages import NOWHERE, NameBinding, SyntaxFile, SyntaxNode, compile_pattern
from context_engine.references.nodes import NO_NODE, ancestors, around, children, get
from context_engine.references.values import HiddenUse, Meaning, NamePlace, NameUsage, Value, Values
from context_engine.text import unique

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver
    from context_engine.references.symbol_graph import SymbolDefinition


class ModuleStyle:
    """The rules of most languages.

    With `joins_members` a class has a member in its body and another one of that name elsewhere. With
    `joins_declarations` a thing has several declarations, and only the style knows which names mean it.
    With `depth_first` a member is looked up in the first base with all its bases before the others, and `super` is the
    first base. With `implements_by_methods` a type implements each interface whose methods it has.
    """

    joins_members = False
    has_one_kind_of_member = False
    """Whether a method, a property and an attribute of one name are the same member."""
    joins_declarations = False
    depth_first = False
    implements_by_methods = False
    passes_by_name = False
    """Whether a call may name any parameter, so that one is renamed with its function."""
    libraries_give_own_types = False
    """Whether what a library gives is never something of the project: it is a type of its own, or written."""
    unnamed_classes: tuple[str, ...] = ()
    """The types of nodes that are classes also without a name."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.project = resolver.project

    # -- what the languages share --

    def read_defining(self, name: str) -> Iterator[SyntaxFile]:
        """Yield the files that define a name."""
        yield from filter(None, map(self.project.read, self.project.defining(name)))

    def read_own(self, name: str) -> Iterator[SyntaxFile]:
        """Yield the files with these rules that define a name."""
        return (file for file in self.read_defining(name) if self.resolver.style(file) is self)

    def find_defined(self, name: str, is_meant: Callable[[SyntaxFile, NameBinding], bool]) -> list[NamePlace]:
        """Return the places in the project that bind a name, those that a test accepts."""
        bound = [(file, one) for file in self.read_defining(name) for one in file.bindings(name)]
        return [NamePlace(file.path, one.node.start_byte) for file, one in bound if is_meant(file, one)]

    def member_places(self, values: Values, name: str, usage: NameUsage | None = None) -> list[NamePlace]:
        """Return the definitions of a member of values."""
        return [place for value in values for place in self.resolver.member_places(value, name, usage)[0]]

    def member_meaning(self, values: Values, name: str, usage: NameUsage | None = None) -> Meaning:
        """Return what a member of values means, which is known if it is for each of them."""
        found = [self.resolver.member_places(value, name, usage) for value in values]
        places = tuple(dict.fromkeys(place for own, _ in found for place in own))
        return Meaning(places, bool(found) and all(known or own for own, known in found), is_member=True)

    def select(
        self, places: Iterable[NamePlace], is_meant: Callable[[SyntaxFile, NameBinding], bool]
    ) -> list[NamePlace]:
        """Return the places whose bindings a test accepts."""
        bound = [(place, self.project.binding_at(place)) for place in places]
        return [place for place, found in bound if found is not None and is_meant(*found)]

    def is_function(self, place: NamePlace) -> bool:
        """Whether a function is defined at a place."""
        found = self.project.binding_at(place)
        return found is not None and found[1].role == "function"

    def unnamed_class(self, file: SyntaxFile, place: NamePlace) -> SyntaxNode:
        """Return the class without a name that begins at a place."""
        node = around(file.node_at(place.start, place.start + 1) or NO_NODE, *self.unnamed_classes)
        return node if node.start_byte == place.start and not get(node, "name") else NO_NODE

    # -- what names mean --

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what an identifier means that binds nothing; None if the rules for scopes and labels say it."""
        return None

    def binding_meaning(self, file: SyntaxFile, binding: NameBinding) -> Meaning | None:
        """Return what a name means where it is bound, if that is more than the place itself: `{ name } = thing`."""
        return None

    def unbound(self, file: SyntaxFile, name: str, offset: int) -> list[NamePlace] | None:
        """Return the definitions of a name that its file does not bind; none: elsewhere. None: not known."""
        return None

    def usage_at(self, file: SyntaxFile, offset: int) -> NameUsage | None:
        """Return how the name at an offset is used, where only definitions of some kinds can be meant."""
        return None

    def accepts(self, file: SyntaxFile, binding: NameBinding, usage: NameUsage) -> bool:
        """Whether a use of a kind can mean a definition."""
        return True

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return how the definition of a name may be written."""
        return (name,)

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the uses of a name where the syntax tree has only text."""
        return []

    def namesakes(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace] | None:
        """Return the definitions that a name does not mean, and that it has to be called as all the same.

        None if there is such a definition, and it is not known.
        """
        return []

    # -- imports and modules --

    def is_import(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a binding takes a name of another file."""
        return binding.role == "import"

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace] | None:
        """Return the definitions that an imported name means; None if it means one that is not found."""
        return []

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what an imported name may be."""
        return self.resolver.place_values(self.imported_places(file, binding) or ())

    def submodule(self, module: Value, name: str) -> Values:
        """Return the module of that name inside of another."""
        return ()

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of a name in a module; None if they cannot be known."""
        return None

    def local_names(self, file: SyntaxFile, name: str) -> list[str]:
        """Return a name, and the others that a file gives to what it imports or takes by that name."""
        found = [name]
        for node in file.find(name):
            for outer in islice(ancestors(node), 3):
                if outer.type == "alias":  # the name before, in Ruby
                    break
                alias = get(outer, "alias") or (get(outer, "value") if outer.type == "pair_pattern" else NO_NODE)
                if not alias and "import" in file.roles.get(outer.type, {}):
                    alias = get(outer, "name") or get(outer, "$")
                found += [file.text(alias)] if file.is_identifier(alias) else []
        return unique(found)

    def passed_names(self, file: SyntaxFile, node: SyntaxNode) -> list[str]:
        """Return the other names under which files can take from this one what an identifier means."""
        return []

    def find_takers(self, file: SyntaxFile, name: str) -> Sequence[str]:
        """Return the files that may take something from a file under a name."""
        return self.project.holding(name)

    # -- classes and their members --

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the bases of a class as written, in the nodes of the role `bases`."""
        own = [node] if "bases" in file.roles.get(node.type, {}) else node.named_children
        return [base for one in own if "bases" in file.roles.get(one.type, {}) for base in _bases_in(file, one)]

    def class_of_scope(self, file: SyntaxFile, scope: int, kind: str) -> Values:
        """Return the class whose scope this is, or an instance of it; one without a name is where it begins."""
        node = file.scopes[scope].node
        fields = file.role_fields(node, "class") or file.role_fields(node, "namespace") or ()
        name = get(node, fields[0]) if fields else NO_NODE
        if not name and node.type not in self.unnamed_classes:
            return ()
        place = NamePlace(file.path, (name or node).start_byte)
        return (Value("class" if kind == "class" else "instance", place, file.text(name)),)

    def class_of_member(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the class that has a member."""
        return self.class_of_scope(file, binding.scope, "class")

    def is_member(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a definition is looked up in a class."""
        return binding.scope == NOWHERE or file.scopes[binding.scope].role in ("class", "extends")

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the members that are added to a class outside of its body."""
        return []

    def own_members(self, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace] | None:
        """Return the members of a thing without a written class; None for classes."""
        return None

    def own_bases(self, file: SyntaxFile, place: NamePlace) -> tuple[list[Value], bool] | None:
        """Return the bases of a thing without a written class, and whether they are known; None for classes."""
        return None

    def fitting_members(
        self, file: SyntaxFile, node: SyntaxNode, values: Values, places: list[NamePlace]
    ) -> list[NamePlace]:
        """Return those members of some values that a name can mean, from the ones of that name in their classes."""
        return places

    def is_private(self, file: SyntaxFile, definition: SymbolDefinition, head: str) -> bool:
        """Whether only the project can use a definition; `head` is the text before its name."""
        private, exported, written = file.rules.private, file.rules.exported, head + definition.name
        if private and compile_pattern(private).search(written):
            return True
        is_top = "." not in definition.qualified
        return is_top and exported != "" and not compile_pattern(exported).search(written)

    def is_required_outside(self, file: SyntaxFile, binding: NameBinding) -> bool | None:
        """Return whether something outside of the project requires a member by its name; None if its bases show it."""
        return None

    def says_override(self, binding: NameBinding) -> bool | None:
        """Whether a member overrides another one, by how it is written; None where nothing has to be written."""
        return None

    # -- what names and expressions may be --

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a test around an offset says about a name."""
        return ()

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return the object of the function around an offset; None: that of the class around it."""
        return None

    def unbound_values(self, file: SyntaxFile, name: str) -> Values:
        """Return what a name may be that is bound in another way than by an identifier."""
        return ()

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what a name is that is bound in a way of the language's own; None for other names."""
        return None

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what an expression with a meaning of its own is; None for other ones."""
        return None

    def written_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what a thing of a written type is, for types with a meaning of their own; None for other ones."""
        return None

    def result_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what calling a function gives, in a language with rules of its own; None for others."""
        return None

    def is_property(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a function is read like a field."""
        return False

    def elements_of(self, value: Value) -> Values | None:
        """Return what indexing an instance gives; None if its methods say it."""
        return None

    def gives_own_types(self, name: str) -> bool:
        """Whether what a library gives under a name is never something of the project."""
        return self.libraries_give_own_types and name != ""


def _bases_in(file: SyntaxFile, node: SyntaxNode) -> Iterator[SyntaxNode]:
    fields = file.role_fields(node, "bases")
    if fields is None:
        yield node
        return
    field = fields[0] if fields else ""
    parts = node.children_by_field_name(field) if field else node.named_children
    if field[:1] in (".", "@"):
        parts = children(node, *field[1:].split("|")) if field[0] == "@" else node.named_children[:1]
    for part in parts:
        yield from _bases_in(file, part)


def places_of(file: SyntaxFile, bindings: Iterable[NameBinding]) -> list[NamePlace]:
    """Return the places of bindings of a file."""
    return [NamePlace(file.path, binding.node.start_byte) for binding in bindings]


@lru_cache(maxsize=2048)
def declared_package(file: SyntaxFile, pattern: re.Pattern[bytes]) -> str:
    """Return the package or namespace that a file says it is in; empty for none."""
    found = pattern.search(file.data)
    return found[1].decode("utf-8", "replace").replace("`", "").strip("\\") if found else ""


def as_classes(values: Values) -> Values:
    """Return the classes of instances; anything else stays as it is."""
    return tuple(value._replace(kind="class") if value.kind == "instance" else value for value in values)
