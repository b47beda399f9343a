"""Ruby: constants by their nesting, reopened classes, mixins, methods of classes, what `new` and `self` give."""

from __future__ import annotations

from typing import Literal, NamedTuple

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode
from context_engine.references.module_styles import ModuleStyle
from context_engine.references.values import ELSEWHERE, EXTERNAL, UNKNOWN, HiddenUse, Meaning, NamePlace, Value, Values

ANCESTORS_MAX = 40
SegmentPath = tuple[str, ...]
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
RECEIVER_RESULTS = frozenset("tap dup clone freeze itself then each each_with_index to_a sort_by".split())


class RubyEntity(NamedTuple):
    """A class, a module, another constant or a method with all places that define it. `path` is what it is in."""

    kind: Literal["constant", "method"]
    path: SegmentPath
    is_singleton: bool
    places: tuple[NamePlace, ...]


class SelfContext(NamedTuple):
    """What `self` is at a place: a class or an instance of it; the path is empty at the top of a file."""

    path: SegmentPath
    is_singleton: bool


class MethodLookup(NamedTuple):
    """The definitions of a method, and whether all classes and modules that may have it are known."""

    places: list[NamePlace]
    is_known: bool


class RubyStyle(ModuleStyle):
    """The rules of Ruby."""

    joins_declarations = True
    finds_all_names = True

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return how a definition may be written: `attr_reader :name` has a symbol."""
        return (name, f":{name}")

    # -- names --

    def binding_meaning(self, file: SyntaxFile, binding: NameBinding) -> Meaning | None:
        """Return all definitions of a class that is reopened; a use of a constant in the name of another."""
        if _is_prefix(binding.node):
            return self._constant_meaning(file, binding.node)
        if binding.role not in ("class", "function"):
            return None
        name = binding.name.removeprefix(":")
        place = NamePlace(file.path, binding.node.start_byte)
        entity = next((one for one in self.entities(name) if place in one.places), None)
        if entity is None:
            return None
        is_member = entity.kind == "method" and bool(entity.path)
        return Meaning(tuple(dict.fromkeys((place, *entity.places))), is_known=True, is_member=is_member)

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return what a constant, a variable or the name of a method means."""
        if node.type == "constant" and not _is_method_of_call(node):
            return self._constant_meaning(file, node)
        if node.type == "instance_variable":
            return Meaning(is_known=True)
        outer = node.parent
        if outer is not None and outer.type == "call" and outer.child_by_field_name("method") == node:
            receiver = outer.child_by_field_name("receiver")
            if receiver is not None:
                return self._method_meaning(self.resolver.values(file, receiver), file.text(node))
            return self._own_meaning(file, node.start_byte, file.text(node))
        if outer is not None and outer.type in ("pair", "keyword_parameter", "alias", "undef", "setter"):
            if outer.type == "alias":
                return self._own_meaning(file, node.start_byte, file.text(node))
            return Meaning(is_known=True) if outer.child_by_field_name("value") != node else None
        local = _local_bindings(file, file.text(node), node.start_byte)
        if local:
            return Meaning((NamePlace(file.path, local[-1].node.start_byte),), is_known=True)
        return self._own_meaning(file, node.start_byte, file.text(node))

    def _constant_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning:
        found = self._constant(file, node)
        if found is not None:
            return Meaning(found.places, is_known=True)
        listed = [one for one in self.entities(file.text(node)) if one.kind == "constant"]
        return UNKNOWN if listed else ELSEWHERE

    def _constant(self, file: SyntaxFile, node: SyntaxNode) -> RubyEntity | None:
        """Return the constant that a name means: by the modules around it, then by the ancestors of the class."""
        names = _written_path(file, node)
        is_top = names[:1] == ("",)
        context = () if is_top else _nesting(file, node.start_byte)
        return self.find_constant(context, names[1:] if is_top else names)

    def _method_meaning(self, values: Values, name: str) -> Meaning:
        places: list[NamePlace] = []
        is_known = bool(values)
        for value in values:
            found = self._methods_of(value, name)
            places += found.places
            is_known = is_known and (found.is_known or bool(found.places))
        return Meaning(tuple(dict.fromkeys(places)), is_known, is_member=True)

    def _methods_of(self, value: Value, name: str) -> MethodLookup:
        if value.kind not in ("class", "instance"):
            return MethodLookup([], is_known=value.kind == "external")
        return self.find_method(tuple(value.name.split("::")), name, is_singleton=value.kind == "class")

    def _own_meaning(self, file: SyntaxFile, offset: int, name: str) -> Meaning:
        """Return what a method means that is called without a receiver."""
        receiver = _evaluated_in(file, offset)
        if receiver is not None:
            evaluated = self._method_meaning(self.resolver.values(file, receiver), name)
            if evaluated.places:
                return evaluated
        context = _self_context(file, offset)
        for block in _blocks_around(file, offset):
            path = (*context.path, block)
            local = [one for one in self.entities(name) if one.kind == "method" and one.path == path]
            if local:
                return Meaning(local[0].places, is_known=True, is_member=True)
        if context.path:
            found = self.find_method(context.path, name, is_singleton=context.is_singleton)
            if found.places:
                return Meaning(tuple(dict.fromkeys(found.places)), is_known=True, is_member=True)
            if context.is_singleton and _is_in_block(file, offset):  # `it do` of a test runs in an instance
                found = self.find_method(context.path, name, is_singleton=False)
                if found.places:
                    return Meaning(tuple(found.places), is_known=True, is_member=True, is_sure=False)
            is_known = found.is_known and not self._is_module(context.path)
        else:
            is_known = True
        top = [one for one in self.entities(name) if one.kind == "method" and not one.path]
        if top:
            here = [place for one in top for place in one.places if place.path == file.path]
            places = here or [place for one in top for place in one.places]
            return Meaning(tuple(places), is_known=True, is_sure=bool(here))
        return ELSEWHERE if is_known and not _is_in_block(file, offset) else Meaning(is_member=True)

    def hidden_uses(self, file: SyntaxFile, name: str) -> list[HiddenUse]:
        """Return the symbols that name a method: `send(:name)`, `map(&:name)`, `private :name`."""
        found: list[HiddenUse] = []
        for start, stop in file.words(name):
            node = file.node_at(start, stop)
            outer = node.parent if node is not None and node.type == "simple_symbol" else None
            if node is None or outer is None or node.end_byte != stop or node.start_byte != start - 1:
                continue
            binding = file.binding_of(node)
            if binding is not None:
                meaning = self.binding_meaning(file, binding)
                found += [HiddenUse(node.start_byte, stop, "definition", meaning)] if meaning is not None else []
            elif outer.type == "block_argument":
                found.append(HiddenUse(start, stop, "call", Meaning(is_member=True)))
            elif outer.type == "argument_list" and outer.parent is not None:
                found += self._named_in_call(file, outer.parent, HiddenUse(start, stop, "read", UNKNOWN))
        return found

    def _named_in_call(self, file: SyntaxFile, call: SyntaxNode, use: HiddenUse) -> list[HiddenUse]:
        method = call.child_by_field_name("method")
        receiver = call.child_by_field_name("receiver")
        called = file.text(method) if method is not None else ""
        name = file.data[use.start : use.stop].decode("utf-8", "replace")
        if called in OF_SELF and (receiver is None or receiver.type == "self"):
            path = _nesting(file, use.start)
            found = self.find_method(path, name, is_singleton=called.endswith("class_method")) if path else None
            return [use._replace(meaning=Meaning(tuple(found.places), is_known=True, is_member=True))] if found else []
        return [use._replace(meaning=Meaning(is_member=True))] if called in BY_NAME else []

    def owner(self, file: SyntaxFile, binding: NameBinding) -> str:
        """Return the class or the module that a method is in."""
        return "::".join(_nesting(file, binding.node.start_byte)) if binding.role == "function" else ""

    # -- values --

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what a name may be, by the rules of this style alone."""
        node = file.node_at(offset, offset + len(name.encode()))
        if node is None:
            return ()
        if node.type == "constant":
            return self._constant_values(file, node)
        if node.type == "instance_variable":
            return self._field_values(file, name, offset)
        local = _local_bindings(file, name, offset)
        if local:
            return _join_values([self._assigned_values(file, one) for one in local])
        meaning = self._own_meaning(file, offset, name)
        return self._results(list(meaning.places)) if meaning.is_sure else ()

    def _constant_values(self, file: SyntaxFile, node: SyntaxNode) -> Values:
        entity = self._constant(file, node)
        if entity is None:
            listed = [one for one in self.entities(file.text(node)) if one.kind == "constant"]
            return () if listed else (Value("external", name=file.text(node)),)
        found = self.resolver.project.binding_at(entity.places[0])
        if found is None or found[1].role == "class":
            return (Value("class", entity.places[0], "::".join((*entity.path, file.text(node)))),)
        return self._assigned_values(*found)

    def _field_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what the methods of a class give an instance variable."""
        context, blocks = _self_context(file, offset), _blocks_around(file, offset)
        found: list[Values] = []
        for binding in file.bindings(name):
            at = binding.node.start_byte
            is_seen = bool(context.path) or _blocks_around(file, at)[-1:] == blocks[-1:]
            if binding.role == "variable" and at != offset and is_seen and _self_context(file, at).path == context.path:
                found.append(self._assigned_values(file, binding))
        return _join_values(found)

    def self_values(self, file: SyntaxFile, offset: int) -> Values | None:
        """Return the class around a place, or an instance of it in a method."""
        context = _self_context(file, offset)
        if not context.path or _is_in_block(file, offset, is_of_class=True):
            return ()
        kind: Literal["class", "instance"] = "class" if context.is_singleton else "instance"
        return (Value(kind, NamePlace(file.path, 0), "::".join(context.path)),)

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what a call of a method gives."""
        name = file.text(function)
        receiver = call.child_by_field_name("receiver")
        if receiver is None:
            if name == "new":
                return self.resolver.instances(self.self_values(file, call.start_byte) or ())
            meaning = self._own_meaning(file, call.start_byte, name)
            return self._results(list(meaning.places)) if meaning.is_sure else ()
        values = self.resolver.values(file, receiver)
        if name == "new":
            return self.resolver.instances(values)
        if name in RECEIVER_RESULTS:
            return values
        found: list[Value] = []
        for value in values:
            places = self._methods_of(value, name).places
            found += self._results(places, value) if places else ()
            found += (EXTERNAL,) if value.kind == "external" else ()
        return tuple(found)

    def _results(self, places: list[NamePlace], receiver: Value | None = None) -> Values:
        """Return what methods return: their last expressions."""
        found: list[Value] = []
        for place in places:
            bound = self.resolver.project.binding_at(place)
            body = bound[1].statement.child_by_field_name("body") if bound is not None else None
            if bound is None or body is None or bound[1].role != "function":
                continue
            last = body.named_children[-1] if body.type == "body_statement" and body.named_child_count else body
            for node in (last, *self.resolver.find_returns(bound[0], bound[1].statement)):
                given = self.resolver.values(bound[0], node) if node.type != "return" else ()
                is_self = node.type == "self" and receiver is not None
                found += (receiver,) if is_self and receiver is not None else given
        return tuple(found)

    def entities(self, name: str) -> list[RubyEntity]:
        """Return the constants and the methods of a name in the project."""
        key = f"ruby {name}"
        known = self.resolver.kept.get(key)
        if not isinstance(known, list):
            known = self.resolver.kept[key] = self._collect(name)
        return known

    def _collect(self, name: str) -> list[RubyEntity]:
        found: dict[tuple[Literal["constant", "method"], SegmentPath, bool], list[NamePlace]] = {}
        for path in self.resolver.project.defining(name):
            file = self.resolver.project.read(path)
            if file is None or file.rules.style != "ruby":
                continue
            for binding in (*file.bindings(name), *file.bindings(f":{name}")):
                if _is_prefix(binding.node) or binding.role not in ("class", "function", "variable"):
                    continue
                is_constant = binding.node.type == "constant" and binding.role != "function"
                if binding.role == "variable" and not is_constant:
                    continue
                around = _nesting(file, binding.statement.start_byte)
                if not is_constant:
                    around = (*around, *_narrower_scope(file, binding))
                if is_constant:
                    around = (*around, *_written_path(file, binding.node)[:-1])
                is_singleton = not is_constant and _is_of_class(file, binding)
                kind: Literal["constant", "method"] = "constant" if is_constant else "method"
                place = NamePlace(path, binding.node.start_byte)
                found.setdefault((kind, around, is_singleton), []).append(place)
                if kind == "method" and not is_singleton and _is_module_function(file, binding):
                    found.setdefault((kind, around, True), []).append(place)
        return [RubyEntity(*key, tuple(places)) for key, places in found.items()]

    def find_constant(self, context: SegmentPath, names: SegmentPath) -> RubyEntity | None:
        """Return the constant that is written with some names inside of modules."""
        if not names:
            return None
        head: SegmentPath | None = None
        for count in range(len(context), -1, -1):
            if self._constants_at(context[:count], names[0]):
                head = context[:count]
                break
        if head is None and context:
            head = next(
                (path for path, _ in self.ancestors(context).listed if self._constants_at(path, names[0])), None
            )
        if head is None:
            return None
        for name in names[1:]:
            head, names = (*head, names[0]), names[1:]
            if not self._constants_at(head, name):
                return None
        return self._constants_at(head, names[0])[0]

    def _constants_at(self, path: SegmentPath, name: str) -> list[RubyEntity]:
        return [one for one in self.entities(name) if one.kind == "constant" and one.path == path]

    def ancestors(self, path: SegmentPath) -> Ancestors:
        """Return what a class directly inherits from and includes, in all places that reopen it."""
        key = f"ruby above {'::'.join(path)}"
        known = self.resolver.kept.get(key)
        if isinstance(known, Ancestors):
            return known
        self.resolver.kept[key] = Ancestors([], is_known=False)  # a class that is its own base
        listed: list[tuple[SegmentPath, bool]] = []
        is_known = True
        places = [place for entity in self._constants_at(path[:-1], path[-1]) for place in entity.places]
        for found in filter(None, map(self.resolver.project.binding_at, places)):
            for node, is_extended in _written_ancestors(*found):
                if node.type == "self":  # `extend self`
                    listed.append((path, is_extended))
                    continue
                constant = self._resolve_written(found[0], node)
                is_known = is_known and constant is not None
                if constant is not None:
                    listed.append(((*constant.path, _written_path(found[0], node)[-1]), is_extended))
        known = self.resolver.kept[key] = Ancestors(list(dict.fromkeys(listed)), is_known)
        return known

    def _resolve_written(self, file: SyntaxFile, node: SyntaxNode) -> RubyEntity | None:
        names = _written_path(file, node)
        is_top = names[:1] == ("",)
        return self.find_constant(() if is_top else _nesting(file, node.start_byte), names[is_top:])

    def find_method(self, path: SegmentPath, name: str, *, is_singleton: bool) -> MethodLookup:
        """Return the definitions of a method in a class or the nearest ancestor that has it."""
        waiting: list[tuple[SegmentPath, bool]] = [(path, is_singleton)]
        seen: set[tuple[SegmentPath, bool]] = set()
        is_known = bool(self._constants_at(path[:-1], path[-1]))
        while waiting and len(seen) < ANCESTORS_MAX:
            at, of_class = waiting.pop(0)
            if (at, of_class) in seen:
                continue
            seen.add((at, of_class))
            own = [one for one in self.entities(name) if one.kind == "method" and one.path == at]
            places = [place for one in own if one.is_singleton == of_class for place in one.places]
            if places:
                return MethodLookup(places, is_known=True)
            above = self.ancestors(at)
            is_known = is_known and above.is_known
            for base, is_extended in above.listed:
                if is_extended and of_class:
                    waiting.append((base, False))
                elif not is_extended:
                    waiting.append((base, of_class))
        return MethodLookup([], is_known)

    def _is_module(self, path: SegmentPath) -> bool:
        """Whether a path is that of a module: a class that includes it may have what it calls."""
        for entity in self._constants_at(path[:-1], path[-1]):
            found = self.resolver.project.binding_at(entity.places[0])
            return found is not None and found[1].statement.type == "module"
        return True

    def _assigned_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        if binding.role != "variable" or binding.positions:
            return ()
        right = binding.statement.child_by_field_name("right")
        return self.resolver.values(file, right) if right is not None else ()


# -- entities ---------------------------------------------------------------------------------------------------------


def _narrower_scope(file: SyntaxFile, binding: NameBinding) -> list[str]:
    """Return a name for the block, or the single object, that a method is defined for: `def @app.stop`."""
    holder = binding.statement.child_by_field_name("object")
    if holder is not None and holder.type not in ("self", "constant"):
        return [f"<{file.path}:{binding.statement.start_byte}>"]
    return _blocks_around(file, binding.statement.start_byte)[:1]


def _is_of_class(file: SyntaxFile, binding: NameBinding) -> bool:
    """Whether a method is one of the class and not of its instances."""
    if binding.statement.type == "singleton_method":
        return True
    scope = file.scopes[binding.scope] if binding.scope >= 0 else None
    return scope is not None and scope.node.type == "singleton_class"


def _is_module_function(file: SyntaxFile, binding: NameBinding) -> bool:
    """Whether `module_function` makes a method one of the module itself: before it, or with its name."""
    statement, body = binding.statement, binding.statement.parent
    while body is not None and (body.parent is None or body.parent.type != "module"):
        if body.type in ("class", "singleton_class"):
            return False
        statement, body = body, body.parent
    is_after = False
    for child in body.named_children if body is not None else ():
        if child.type == "identifier" and file.text(child) in VISIBILITIES:
            is_after = file.text(child) == MODULE_FUNCTION
        elif (child == statement and is_after) or (
            child.type == "call" and _names_module_function(file, child, binding)
        ):
            return True
    return False


def _names_module_function(file: SyntaxFile, call: SyntaxNode, binding: NameBinding) -> bool:
    """Whether a statement is `module_function` with a method, by its name or by its definition."""
    method, arguments = call.child_by_field_name("method"), call.child_by_field_name("arguments")
    if call.type != "call" or method is None or arguments is None or file.text(method) != MODULE_FUNCTION:
        return False
    return any(one == binding.statement or file.text(one) == f":{binding.name}" for one in arguments.named_children)


class Ancestors(NamedTuple):
    """The classes and modules that a class has methods of, each with whether they become methods of the class."""

    listed: list[tuple[SegmentPath, bool]]
    is_known: bool


def _written_ancestors(file: SyntaxFile, binding: NameBinding) -> list[tuple[SyntaxNode, bool]]:
    found: list[tuple[SyntaxNode, bool]] = []
    superclass = binding.statement.child_by_field_name("superclass")
    if superclass is not None and superclass.named_child_count:
        found.append((_last_constant(superclass.named_children[0]), False))
    body = binding.statement.child_by_field_name("body")
    for child in body.named_children if body is not None else ():
        method = child.child_by_field_name("method") if child.type == "call" else None
        called = file.text(method) if method is not None else ""
        arguments = child.child_by_field_name("arguments")
        if called in MIXINS and child.child_by_field_name("receiver") is None and arguments is not None:
            found += [(_last_constant(one), MIXINS[called]) for one in arguments.named_children]
    return found


def _last_constant(node: SyntaxNode) -> SyntaxNode:
    return (node.child_by_field_name("name") or node) if node.type == "scope_resolution" else node


# -- places -----------------------------------------------------------------------------------------------------------


def _nesting(file: SyntaxFile, offset: int) -> SegmentPath:
    """Return the names of the classes and modules around an offset."""
    names: list[str] = []
    for number in file.around(offset):
        node = file.scopes[number].node
        named = node.child_by_field_name("name") if node.type in ("class", "module") else None
        if named is not None and not named.start_byte <= offset < named.end_byte and node.start_byte != offset:
            names[:0] = [one for one in file.text(named).replace(" ", "").split("::") if one]
    return tuple(names)


def _self_context(file: SyntaxFile, offset: int) -> SelfContext:
    is_singleton = True
    for number in file.around(offset):
        node = file.scopes[number].node
        if node.start_byte == offset:
            continue
        if node.type == "method":
            is_singleton = False
        elif node.type in ("class", "module", "singleton_method"):
            break
        elif node.type == "singleton_class":
            is_singleton = True
            break
    return SelfContext(_nesting(file, offset), is_singleton)


def _blocks_around(file: SyntaxFile, offset: int) -> list[str]:
    """Return a name for each block around a place in its class, the innermost first: `describe do def helper`."""
    found: list[str] = []
    for number in file.around(offset):
        node = file.scopes[number].node
        if node.type in ("class", "module", "singleton_class"):
            break
        if node.type in ("block", "do_block") and node.start_byte != offset:
            found.append(f"<{file.path}:{node.start_byte}>")
    return found


def _evaluated_in(file: SyntaxFile, offset: int) -> SyntaxNode | None:
    """Return the object that is `self` in the nearest block around a place: `cart.instance_eval do`."""
    for number in file.around(offset):
        node = file.scopes[number].node
        if node.type not in ("block", "do_block"):
            return None
        call = node.parent if node.start_byte != offset else None
        method = call.child_by_field_name("method") if call is not None else None
        if call is not None and method is not None and file.text(method) in EVALUATING:
            return call.child_by_field_name("receiver")
    return None


def _is_in_block(file: SyntaxFile, offset: int, *, is_of_class: bool = False) -> bool:
    """Whether a place is in a block, which may run with another `self`; in a block of a class body on request."""
    is_inside = False
    for number in file.around(offset):
        kind = file.scopes[number].node.type
        is_inside = is_inside or kind in ("block", "do_block")
        if kind in ("method", "singleton_method"):
            return is_inside and not is_of_class
        if kind in ("class", "module"):
            break
    return is_inside


def _written_path(file: SyntaxFile, node: SyntaxNode) -> SegmentPath:
    """Return the names of `A::B` up to a constant in it; the first is empty for `::A`."""
    outer = node.parent
    if outer is None or outer.type != "scope_resolution" or outer.child_by_field_name("name") != node:
        return (file.text(node),)
    scope = outer.child_by_field_name("scope")
    if scope is None:
        return ("", file.text(node))
    inner = scope.child_by_field_name("name") or scope
    return (*_written_path(file, inner), file.text(node))


def _is_prefix(node: SyntaxNode) -> bool:
    """Whether a constant is before `::`."""
    at = node
    if at.parent is not None and at.parent.type == "scope_resolution" and at.parent.child_by_field_name("name") == at:
        at = at.parent
    outer = at.parent
    return outer is not None and outer.type == "scope_resolution" and outer.child_by_field_name("scope") == at


def _is_method_of_call(node: SyntaxNode) -> bool:
    outer = node.parent
    return outer is not None and outer.type == "call" and outer.child_by_field_name("method") == node


def _local_bindings(file: SyntaxFile, name: str, offset: int) -> list[NameBinding]:
    """Return the parameters and assignments of a local variable before an offset, in the function around it."""
    for number in file.around(offset):
        scope = file.scopes[number]
        found = [
            one
            for one in file.bindings_in(name, number)
            if one.role in ("variable", "parameter", "loop") and one.node.start_byte <= offset
        ]
        if found:
            return found
        if scope.node.type in ("method", "singleton_method", "class", "module"):
            return []
    return []


def _join_values(found: list[Values]) -> Values:
    """Return what a variable may be that is assigned several times; nothing if one of them is not known."""
    return tuple(value for values in found for value in values) if all(found) else ()
