"""How the files of a language see one another, and the other rules that a table of nodes cannot say.

`ModuleStyle` has the rules of most languages; each language that needs more overrides some of its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, child_of
from context_engine.references.nodes import NO_NODE, around, get
from context_engine.references.values import HiddenUse, Meaning, NamePlace, NameUsage, Value, Values

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver
    from context_engine.references.symbol_graph import SymbolDefinition


class ModuleStyle:
    """The rules of most languages.

    With `joins_members` a class has a member in its body and another one of that name elsewhere. With
    `joins_declarations` a thing has several declarations, and with `finds_all_names` the rules for scopes of the
    resolver are not asked.
    With `depth_first` a member is looked up in the first base with all its bases before the others, and `super` is the
    first base. With `implements_by_methods` a type implements each interface whose methods it has.
    """

    joins_members = False
    has_one_kind_of_member = False
    """Whether a method, a property and an attribute of one name are the same member."""
    joins_declarations = False
    finds_all_names = False
    depth_first = False
    implements_by_methods = False
    unnamed_classes: tuple[str, ...] = ()
    """The types of nodes that are classes also without a name."""
    libraries_give_own_types = False
    """Whether what a library gives is never something of the project: it is a type of its own, or written."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.project = resolver.project

    # -- what the languages share --

    def read_defining(self, name: str) -> Iterator[SyntaxFile]:
        """Yield the files that define a name."""
        yield from filter(None, map(self.project.read, self.project.defining(name)))

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

    # -- names --

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what an identifier of an import means that binds nothing; None for all other identifiers."""
        return None

    def unbound(self, file: SyntaxFile, name: str, offset: int) -> list[NamePlace] | None:
        """Return the definitions of a name that its file does not bind; none: elsewhere. None: not known."""
        return None

    def unbound_values(self, file: SyntaxFile, name: str) -> Values:
        """Return what a name may be that is bound in another way than by an identifier."""
        return ()

    def label_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a label means in another way than as a field of what is called."""
        return None

    def binding_meaning(self, file: SyntaxFile, binding: NameBinding) -> Meaning | None:
        """Return what a name means that is bound and looked up at once: `{ name } = thing`."""
        return None

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a test around an offset says about a name."""
        return ()

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

    def gives_own_types(self, name: str) -> bool:
        """Whether what a library gives under a name is never something of the project."""
        return self.libraries_give_own_types and name != ""

    def is_required_outside(self, file: SyntaxFile, binding: NameBinding) -> bool | None:
        """Return whether something outside of the project requires a member by its name; None if its bases show it."""
        return None

    def is_private(self, file: SyntaxFile, definition: SymbolDefinition, head: str) -> bool:
        """Whether only the project can use a definition; `head` is the text before its name."""
        return False

    def says_override(self, binding: NameBinding) -> bool | None:
        """Whether a member overrides another one, by how it is written; None where nothing has to be written."""
        return None

    # -- imports and modules --

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that an imported name means."""
        return []

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what an imported name may be."""
        return self.resolver.place_values(self.imported_places(file, binding))

    def is_import(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether an assignment takes a name of another file."""
        return False

    def is_foreign(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether an import whose definition is not found leads out of the project."""
        return True

    def submodule(self, module: Value, name: str) -> Values:
        """Return the module of that name inside of another."""
        return ()

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of a name in a module; None if they cannot be known."""
        return None

    # -- classes and functions --

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the bases of a class as written."""
        fields = file.role_fields(node, "class") or ()
        bases: list[SyntaxNode] = []
        for field in fields[1:]:
            holder = child_of(node, field)
            bases += holder.named_children if holder is not None else ()
        return bases

    def owner(self, file: SyntaxFile, binding: NameBinding) -> str:
        """Return the class that a function outside of its body belongs to."""
        return ""

    def class_of_member(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the class that has a member."""
        return self.resolver.members.scope_values(file, binding.scope, "class")

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the members that are added to a class outside of its body."""
        return []

    def is_module_member(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether an assigned member is one of a module, which is not looked up in other objects."""
        return False

    def own_members(self, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace] | None:
        """Return the members of a thing without a written class; None for classes."""
        return None

    def own_bases(self, file: SyntaxFile, place: NamePlace) -> tuple[list[Value], bool] | None:
        """Return the bases of a thing without a written class, and whether they are known; None for classes."""
        return None

    def unnamed_class(self, file: SyntaxFile, place: NamePlace) -> SyntaxNode:
        """Return the class without a name that begins at a place."""
        node = around(file.node_at(place.start, place.start + 1) or NO_NODE, *self.unnamed_classes)
        return node if node.start_byte == place.start and not get(node, "name") else NO_NODE

    def class_expression(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return a class that is written as a value."""
        return ()

    def record_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return an object that is written with its members, in a language where these are looked up."""
        return None

    def special_member(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        """Return what a member is that no definition says."""
        return ()

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return the object of the function around an offset; None: that of the class around it."""
        return None

    def class_of_scope(self, file: SyntaxFile, scope: int, kind: str) -> Values:
        """Return the class whose scope this is, or an instance of it; one without a name is where it begins."""
        node = file.scopes[scope].node
        fields = file.role_fields(node, "class") or file.role_fields(node, "namespace") or ()
        name = get(node, fields[0]) if fields else NO_NODE
        if not name and node.type not in self.unnamed_classes:
            return ()
        place = NamePlace(file.path, (name or node).start_byte)
        return (Value("class" if kind == "class" else "instance", place, file.text(name)),)

    def namesakes(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace] | None:
        """Return the definitions that a name does not mean, and that it has to be called as all the same.

        None if there is such a definition, and it is not known.
        """
        return []

    def extension_places(self, values: Values, name: str, usage: NameUsage | None) -> list[NamePlace]:
        """Return the functions that are called like methods of values, outside of their classes."""
        return []

    def fitting_members(self, file: SyntaxFile, node: SyntaxNode, places: list[NamePlace]) -> list[NamePlace]:
        """Return those members of one name that a place can mean."""
        return places

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what a name is that is bound in a way of the language's own; None for other names."""
        return None

    def generic_values(self, file: SyntaxFile, name: str, arguments: tuple[Values, ...]) -> Values | None:
        """Return what a generic type with a meaning of its own means; None for other types."""
        return None

    def self_parameter(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the object, where a parameter is the one of its method."""
        return ()

    def is_property(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a function is read like a field."""
        return False

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what a call with a meaning of its own gives; None for other calls."""
        return None

    def result_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what calling a function gives, in a language with rules of its own; None for others."""
        return None

    def elements_of(self, value: Value) -> Values | None:
        """Return what indexing an instance gives; None if its methods say it."""
        return None

    def finish_results(self, file: SyntaxFile, binding: NameBinding, results: Values) -> Values:
        """Return what a call gives if the function says that it returns something."""
        return results

    def loop_values(self, file: SyntaxFile, binding: NameBinding, given: SyntaxNode) -> Values:
        """Return what a loop gives its names one after the other."""
        return self.resolver.take_apart(self.resolver.elements(self.resolver.values(file, given)), binding.positions)

    def context_values(self, file: SyntaxFile, binding: NameBinding, given: SyntaxNode) -> Values:
        """Return what entering a context gives."""
        return self.resolver.values(file, given)

    def quoted_type(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return the type that a string names."""
        return None


def places_of(file: SyntaxFile, bindings: Iterable[NameBinding]) -> list[NamePlace]:
    """Return the places of bindings of a file."""
    return [NamePlace(file.path, binding.node.start_byte) for binding in bindings]


def as_classes(values: Values) -> Values:
    """Return the classes of instances; anything else stays as it is."""
    return tuple(value._replace(kind="class") if value.kind == "instance" else value for value in values)
