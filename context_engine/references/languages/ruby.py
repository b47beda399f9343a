"""Ruby: constants by their nesting, reopened classes, mixins, methods of classes, what `new` and `self` give."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode
from context_engine.references.module_styles import ModuleStyle, places_of
from context_engine.references.nodes import NO_NODE, ancestors, children, get, up
from context_engine.references.values import (
    ELSEWHERE,
    EXTERNAL,
    UNKNOWN,
    HiddenUse,
    Meaning,
    NamePlace,
    Value,
    Values,
    remember,
)

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver

ANCESTORS_MAX = 40
SegmentPath = tuple[str, ...]
EntityKind = Literal["constant", "method"]
MIXINS = {"include": False, "prepend": False, "extend": True}
"""Calls that add the methods of a module, and whether these are methods of the class itself."""
OF_SELF = frozenset(
    "private public protected private_class_method public_class_method module_function alias_method method"
    " instance_method private_constant".split()
)
MODULE_FUNCTION = "module_function"
VISIBILITIES = frozenset({MODULE_FUNCTION, "public", "private", "protected"})
EVALUATING = frozenset({"instance_eval", "instance_exec"})
BY_NAME = frozenset("send public_send __send__ respond_to? try method_defined? instance_method".split())
BLOCKS = ("block", "do_block")
CLASSES = ("class", "module")
METHODS = ("method", "singleton_method")


class RubyEntity(NamedTuple):
    """A class, a module, another constant or a method with all places that define it. `path` is what it is in."""

    kind: EntityKind
    path: SegmentPath
    is_singleton: bool
    places: tuple[NamePlace, ...]


class SelfContext(NamedTuple):
    """What `self` is at a place: a class or an instance of it; the path is empty at the top of a file."""

    path: SegmentPath
    is_singleton: bool


class RubyStyle(ModuleStyle):
    """The rules of Ruby."""

    joins_declarations = True

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(resolver)
        self.entities = cache(self._collect)
        self.ancestors = remember(self._find_ancestors, ([], False))  # of a class that is its own base

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return how a definition may be written: `attr_reader :name` has a symbol."""
        return (name, f":{name}")

    def is_member(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a definition is in a class or a module."""
        is_method = binding.role == "function" and bool(_nesting(file, binding.node.start_byte))
        return is_method or super().is_member(file, binding)

    # -- names --

    def binding_meaning(self, file: SyntaxFile, binding: NameBinding) -> Meaning | None:
        """Return all definitions of a class that is reopened; a use of a constant in the name of another."""
        if _is_prefix(binding.node):
            return self._constant_meaning(file, binding.node)
        place = places_of(file, [binding])[0]
        listed = self.entities(binding.name.removeprefix(":")) if binding.role in ("class", "function") else []
        entity = next((one for one in listed if place in one.places), None)
        if entity is None:
            return None
        is_member = entity.kind == "method" and bool(entity.path)
        return Meaning(tuple(dict.fromkeys((place, *entity.places))), is_known=True, is_member=is_member)

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a constant, a variable or the name of a method means."""
        name, outer, start = file.text(node), up(node), node.start_byte
        call = outer if outer.type == "call" and get(outer, "method") == node else NO_NODE
        if node.type == "constant" and not call:
            return self._constant_meaning(file, node)
        if node.type == "instance_variable":
            return Meaning(is_known=True)
        if get(call, "receiver"):
            return self._method_meaning(self.resolver.values(file, get(call, "receiver")), name)
        if outer.type in ("pair", "keyword_parameter", "undef", "setter"):
            return Meaning(is_known=True) if get(outer, "value") != node else None
        local = _local_bindings(file, name, start) if not call and outer.type != "alias" else []
        if local:
            return Meaning(tuple(places_of(file, local[-1:])), is_known=True)
        return self._own_meaning(file, start, name)

    def _constant_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning:
        found = self._constant(file, node)
        if found is not None:
            return Meaning(found.places, is_known=True)
        return UNKNOWN if self._constants(file.text(node)) else ELSEWHERE

    def _method_meaning(self, values: Values, name: str) -> Meaning:
        found = [self._methods_of(value, name) for value in values]
        places = tuple(dict.fromkeys(place for own, _ in found for place in own))
        return Meaning(places, bool(found) and all(known or own for own, known in found), is_member=True)

    def _methods_of(self, value: Value, name: str) -> tuple[list[NamePlace], bool]:
        if value.kind not in ("class", "instance"):
            return [], value.kind == "external"
        return self.find_method(tuple(value.name.split("::")), name, is_singleton=value.kind == "class")

    def _own_meaning(self, file: SyntaxFile, offset: int, name: str) -> Meaning:
        """Return what a method means that is called without a receiver."""
        evaluated = self._method_meaning(self.resolver.values(file, _evaluated_in(file, offset)), name)
        if evaluated.places:
            return evaluated
        context, is_in_block = _self_context(file, offset), _is_in_block(file, offset)
        for block in _blocks_around(file, offset):
            local = self._methods_at((*context.path, block), name)
            if local:
                return Meaning(local[0].places, is_known=True, is_member=True)
        is_known = True
        if context.path:
            places, is_known = self.find_method(context.path, name, is_singleton=context.is_singleton)
            if places:
                return Meaning(tuple(dict.fromkeys(places)), is_known=True, is_member=True)
            is_known = is_known and not self._is_module(context.path)
        top = [place for one in self._methods_at((), name) for place in one.places]
        here = [place for place in top if place.path == file.path]
        if top:
            return Meaning(tuple(here or top), is_known=True, is_sure=bool(here))
        return ELSEWHERE if is_known and not is_in_block else Meaning(is_member=True)

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the symbols that name a method: `send(:name)`, `map(&:name)`, `private :name`."""
        found: list[HiddenUse] = []
        for start, stop in file.words(name):
            node = file.node_at(start, stop) or NO_NODE
            if node.type != "simple_symbol" or (node.start_byte, node.end_byte) != (start - 1, stop):
                continue
            binding = file.binding_of(node)
            if binding is not None:
                meaning = self.binding_meaning(file, binding)
                found += [HiddenUse(node.start_byte, stop, "definition", meaning)] if meaning is not None else []
            elif up(node).type == "block_argument":
                found.append(HiddenUse(start, stop, "call", Meaning(is_member=True)))
            else:
                meaning = self._meaning_in_call(file, get(node, "<argument_list", "<"), name, start)
                found += [HiddenUse(start, stop, "read", meaning)] if meaning is not None else []
        return found

    def _meaning_in_call(self, file: SyntaxFile, call: SyntaxNode, name: str, offset: int) -> Meaning | None:
        called, receiver = file.text(get(call, "method")), get(call, "receiver")
        if called in OF_SELF and receiver.type in ("", "self"):
            path = _nesting(file, offset)
            if not path:
                return None
            places, _ = self.find_method(path, name, is_singleton=called.endswith("class_method"))
            return Meaning(tuple(places), is_known=True, is_member=True)
        return Meaning(is_member=True) if called in BY_NAME else None

    # -- values --

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a name may be, by the rules of this style alone."""
        node = file.node_at(offset, offset + len(name.encode())) or NO_NODE
        if node.type == "constant":
            return self._constant_values(file, node)
        if node.type == "instance_variable":
            return self._field_values(file, name, offset)
        local = _local_bindings(file, name, offset)
        if local:
            return _join_values([self._assigned_values(file, one) for one in local])
        return self._own_results(file, name, offset) if node else ()

    def _constant_values(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        name, entity = file.text(node), self._constant(file, node)
        if entity is None:
            return () if self._constants(name) else (Value("external", name=name),)
        found = self.project.binding_at(entity.places[0])
        if found is None or found[1].role == "class":
            return (Value("class", entity.places[0], "::".join((*entity.path, name))),)
        return self._assigned_values(*found)

    def _field_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what the methods of a class give an instance variable."""
        path, block = _self_context(file, offset).path, _blocks_around(file, offset)[-1:]
        others = [one for one in file.bindings(name) if one.role == "variable" and one.node.start_byte != offset]
        found: list[Values] = []
        for binding in others:
            at = binding.node.start_byte
            is_seen = bool(path) or _blocks_around(file, at)[-1:] == block
            if is_seen and _self_context(file, at).path == path:
                found.append(self._assigned_values(file, binding))
        return _join_values(found)

    def self_values(self, file: SyntaxFile, offset: int) -> Values:
        """Return the class around a place, or an instance of it in a method; nothing in a block of a class body."""
        context = _self_context(file, offset)
        if not context.path or _is_in_block(file, offset, is_of_class=True):
            return ()
        kind: Literal["class", "instance"] = "class" if context.is_singleton else "instance"
        return (Value(kind, NamePlace(file.path, 0), "::".join(context.path)),)

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what a call of a method gives."""
        if node.type != "call" or not get(node, "method"):
            return None
        name, receiver, call = file.text(get(node, "method")), get(node, "receiver"), node
        if not receiver and name != "new":
            return self._own_results(file, name, call.start_byte)
        values = self.resolver.values(file, receiver) if receiver else self.self_values(file, call.start_byte)
        if name == "new":
            return self.resolver.instances(values)
        found: list[Value] = []
        for value in values:
            found += self._results(self._methods_of(value, name)[0], value)
            found += (EXTERNAL,) if value.kind == "external" else ()
        return tuple(found)

    def _own_results(self, file: SyntaxFile, name: str, offset: int) -> Values:
        meaning = self._own_meaning(file, offset, name)
        return self._results(list(meaning.places)) if meaning.is_sure else ()

    def _results(self, places: list[NamePlace], receiver: Value | None = None) -> Values:
        """Return what methods return: their last expressions."""
        found: list[Value] = []
        for file, binding in filter(None, map(self.project.binding_at, places)):
            body = get(binding.statement, "body")
            if not body or binding.role != "function":
                continue
            last = get(body, "$") or body if body.type == "body_statement" else body
            for node in (last, *self.resolver.find_returns(file, binding.statement)):
                given = self.resolver.values(file, node) if node.type != "return" else ()
                found += (receiver,) if node.type == "self" and receiver is not None else given
        return tuple(found)

    def _assigned_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        is_plain = binding.role == "variable" and not binding.positions
        return self.resolver.values(file, get(binding.statement, "right")) if is_plain else ()

    # -- constants and methods of the project --

    def _collect(self, name: str) -> list[RubyEntity]:
        """Return the constants and the methods of a name in the project."""
        found: dict[tuple[EntityKind, SegmentPath, bool], list[NamePlace]] = {}
        for file in self.read_own(name):
            for binding in (*file.bindings(name), *file.bindings(f":{name}")):
                is_constant = binding.node.type == "constant" and binding.role in ("class", "variable")
                if _is_prefix(binding.node) or not (is_constant or binding.role in ("class", "function")):
                    continue
                path = _nesting(file, binding.statement.start_byte)
                place = places_of(file, [binding])[0]
                if is_constant:
                    path = (*path, *_written_path(file, binding.node)[:-1])
                    found.setdefault(("constant", path, False), []).append(place)
                    continue
                path, is_singleton = (*path, *_narrower_scope(file, binding)), _is_of_class(file, binding)
                found.setdefault(("method", path, is_singleton), []).append(place)
                if not is_singleton and _is_module_function(file, binding):
                    found.setdefault(("method", path, True), []).append(place)
        return [RubyEntity(*key, tuple(places)) for key, places in found.items()]

    def _constants(self, name: str) -> list[RubyEntity]:
        return [one for one in self.entities(name) if one.kind == "constant"]

    def _constants_at(self, path: SegmentPath) -> list[RubyEntity]:
        return [one for one in self._constants(path[-1]) if one.path == path[:-1]]

    def _methods_at(self, path: SegmentPath, name: str) -> list[RubyEntity]:
        return [one for one in self.entities(name) if one.kind == "method" and one.path == path]

    def _constant(self, file: SyntaxFile, node: SyntaxNode) -> RubyEntity | None:
        """Return the constant that a name means: by the modules around it, then by the ancestors of the class."""
        first, *rest = _written_path(file, node)
        if not first:
            return self.find_constant((), tuple(rest))
        return self.find_constant(_nesting(file, node.start_byte), (first, *rest))

    def find_constant(self, context: SegmentPath, names: SegmentPath) -> RubyEntity | None:
        """Return the constant that is written with some names inside of modules."""
        heads = [context[:count] for count in range(len(context), -1, -1)]
        head = next((path for path in heads if self._constants_at((*path, names[0]))), None) if names else None
        if head is None and names and context:
            above = (path for path, _ in self.ancestors(context)[0])
            head = next((path for path in above if self._constants_at((*path, names[0]))), None)
        if head is None:
            return None
        paths = [(*head, *names[:count]) for count in range(1, len(names) + 1)]
        found = [self._constants_at(path) for path in paths]
        return found[-1][0] if all(found) else None

    def _find_ancestors(self, path: SegmentPath) -> tuple[list[tuple[SegmentPath, bool]], bool]:
        """Return what a class directly inherits from and includes, in all places that reopen it.

        Each has whether its methods become methods of the class itself; the last value is whether all are known.
        """
        listed: list[tuple[SegmentPath, bool]] = []
        is_known = True
        places = [place for entity in self._constants_at(path) for place in entity.places]
        for found in filter(None, map(self.project.binding_at, places)):
            for node, is_extended in _written_ancestors(*found):
                if node.type == "self":  # `extend self`
                    listed.append((path, is_extended))
                    continue
                constant = self._constant(found[0], node)
                is_known = is_known and constant is not None
                if constant is not None:
                    listed.append(((*constant.path, found[0].text(node)), is_extended))
        return list(dict.fromkeys(listed)), is_known

    def find_method(self, path: SegmentPath, name: str, *, is_singleton: bool) -> tuple[list[NamePlace], bool]:
        """Return the definitions of a method in a class or the nearest ancestor that has it.

        The second value is whether all classes and modules that may have it are known.
        """
        waiting = [(path, is_singleton)]
        is_known = bool(self._constants_at(path))
        for at, of_class in waiting:  # it grows
            own = [one for one in self._methods_at(at, name) if one.is_singleton == of_class]
            if own:
                return [place for one in own for place in one.places], True
            above, known = self.ancestors(at)
            is_known = is_known and known
            for base, is_extended in above:
                step = (base, of_class and not is_extended)
                if (of_class or not is_extended) and step not in waiting and len(waiting) < ANCESTORS_MAX:
                    waiting.append(step)
        return [], is_known

    def _is_module(self, path: SegmentPath) -> bool:
        """Whether a path is that of a module: a class that includes it may have what it calls."""
        places = [entity.places[0] for entity in self._constants_at(path)]
        found = self.project.binding_at(places[0]) if places else None
        return not places or (found is not None and found[1].statement.type == "module")


# -- definitions ------------------------------------------------------------------------------------------------------


def _narrower_scope(file: SyntaxFile, binding: NameBinding) -> list[str]:
    """Return a name for the block, or the single object, that a method is defined for: `def @app.stop`."""
    if get(binding.statement, "object").type not in ("", "self", "constant"):
        return [f"<{file.path}:{binding.statement.start_byte}>"]
    return _blocks_around(file, binding.statement.start_byte)[:1]


def _is_of_class(file: SyntaxFile, binding: NameBinding) -> bool:
    """Whether a method is one of the class and not of its instances."""
    is_inside = binding.scope >= 0 and file.scopes[binding.scope].node.type == "singleton_class"
    return is_inside or binding.statement.type == "singleton_method"


def _is_module_function(file: SyntaxFile, binding: NameBinding) -> bool:
    """Whether `module_function` makes a method one of the module itself: before it, or with its name."""
    statement = binding.statement
    for body in ancestors(statement):
        if up(body).type == "module" or body.type in ("class", "singleton_class"):
            break
        statement = body
    else:
        return False
    is_after = False
    for child in body.named_children if up(body).type == "module" else ():
        if child.type == "identifier" and file.text(child) in VISIBILITIES:
            is_after = file.text(child) == MODULE_FUNCTION
        given = get(child, "arguments").named_children if child.type == "call" else ()
        is_named = any(one == binding.statement or file.text(one) == f":{binding.name}" for one in given)
        if (child == statement and is_after) or (is_named and file.text(get(child, "method")) == MODULE_FUNCTION):
            return True
    return False


def _written_ancestors(file: SyntaxFile, binding: NameBinding) -> list[tuple[SyntaxNode, bool]]:
    found = [(get(binding.statement, "superclass", "."), False)]
    for call in children(get(binding.statement, "body"), "call"):
        called = file.text(get(call, "method"))
        if called in MIXINS and not get(call, "receiver"):
            found += [(one, MIXINS[called]) for one in get(call, "arguments").named_children]
    last = [(get(one, "name") or one if one.type == "scope_resolution" else one, is_of) for one, is_of in found]
    return [(one, is_of_class) for one, is_of_class in last if one]


# -- places -----------------------------------------------------------------------------------------------------------


def _nesting(file: SyntaxFile, offset: int) -> SegmentPath:
    """Return the names of the classes and modules around an offset."""
    names: list[str] = []
    for number in file.around(offset):
        node = file.scopes[number].node
        named = get(node, "name") if node.type in CLASSES and node.start_byte != offset else NO_NODE
        if named and not named.start_byte <= offset < named.end_byte:
            names[:0] = [one for one in file.text(named).replace(" ", "").split("::") if one]
    return tuple(names)


def _self_context(file: SyntaxFile, offset: int) -> SelfContext:
    is_singleton = True
    for node in (file.scopes[number].node for number in file.around(offset)):
        if node.start_byte != offset and node.type in ("singleton_class", "singleton_method", *CLASSES):
            is_singleton = is_singleton or node.type == "singleton_class"
            break
        is_singleton = is_singleton and (node.type != "method" or node.start_byte == offset)
    return SelfContext(_nesting(file, offset), is_singleton)


def _blocks_around(file: SyntaxFile, offset: int) -> list[str]:
    """Return a name for each block around a place in its class, the innermost first: `describe do def helper`."""
    found: list[str] = []
    for number in file.around(offset):
        node = file.scopes[number].node
        if node.type in (*CLASSES, "singleton_class"):
            break
        if node.type in BLOCKS and node.start_byte != offset:
            found.append(f"<{file.path}:{node.start_byte}>")
    return found


def _evaluated_in(file: SyntaxFile, offset: int) -> SyntaxNode:
    """Return the object that is `self` in the nearest block around a place: `cart.instance_eval do`."""
    for number in file.around(offset):
        node = file.scopes[number].node
        if node.type not in BLOCKS:
            break
        if node.start_byte != offset and file.text(get(node, "^method")) in EVALUATING:
            return get(node, "^receiver")
    return NO_NODE


def _is_in_block(file: SyntaxFile, offset: int, *, is_of_class: bool = False) -> bool:
    """Whether a place is in a block, which may run with another `self`; in a block of a class body on request."""
    is_inside = False
    for number in file.around(offset):
        kind = file.scopes[number].node.type
        is_inside = is_inside or kind in BLOCKS
        if kind in METHODS:
            return is_inside and not is_of_class
        if kind in CLASSES:
            break
    return is_inside


def _written_path(file: SyntaxFile, node: SyntaxNode) -> SegmentPath:
    """Return the names of `A::B` up to a constant in it; the first is empty for `::A`."""
    outer = get(node, "<scope_resolution")
    if get(outer, "name") != node:
        return (file.text(node),)
    scope = get(outer, "scope")
    return (*(_written_path(file, get(scope, "name") or scope) if scope else ("",)), file.text(node))


def _is_prefix(node: SyntaxNode) -> bool:
    """Whether a constant is before `::`."""
    whole = up(node) if get(node, "<scope_resolution", "name") == node else node
    return get(whole, "<scope_resolution", "scope") == whole


def _local_bindings(file: SyntaxFile, name: str, offset: int) -> list[NameBinding]:
    """Return the parameters and assignments of a local variable before an offset, in the function around it."""
    for number in file.around(offset):
        bound = [one for one in file.bindings_in(name, number) if one.role in ("variable", "parameter", "loop")]
        found = [one for one in bound if one.node.start_byte <= offset]
        if found or file.scopes[number].node.type in (*METHODS, *CLASSES):
            return found
    return []


def _join_values(found: list[Values]) -> Values:
    """Return what a variable may be that is assigned several times; nothing if one of them is not known."""
    return tuple(value for values in found for value in values) if all(found) else ()
