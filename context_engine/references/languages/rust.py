"""Rust: modules as files, `use`, impl blocks, traits, patterns, and what the usual methods of the library pass on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, cached_property, lru_cache
from posixpath import dirname, join
from typing import TYPE_CHECKING, TypeVar

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode
from context_engine.references.module_styles import ModuleStyle, as_classes, places_of
from context_engine.references.nodes import NO_NODE, ancestors, around, get, has, up
from context_engine.references.values import Meaning, NamePlace, Value, Values

if TYPE_CHECKING:
    from context_engine.references.project_files import ProjectFiles
    from context_engine.references.resolver import Resolver

T = TypeVar("T")
_PACKAGE = re.compile(rb"^\[package\][^\[]*?^name\s*=\s*\"([\w-]{1,100})\"", re.MULTILINE)
_LIBRARY = re.compile(rb"^\[lib\][^\[]*?^path\s*=\s*\"([\w./-]{1,200})\"", re.MULTILINE)
ROOTS = ("lib.rs", "main.rs")
PASSING = frozenset(
    "unwrap expect unwrap_or unwrap_or_else unwrap_or_default as_ref as_mut as_deref as_deref_mut borrow borrow_mut "
    "lock read write clone cloned copied to_owned by_ref take ok ok_or ok_or_else or_else into_inner get_mut iter "
    "iter_mut into_iter rev skip filter peekable chain drain enumerate_values as_slice as_mut_slice inspect map_err "
    "context with_context".split()
)
"""Methods of the library that give what they are called on, or what is in it."""
ELEMENTS = frozenset(
    "next first last get pop peek nth first_mut last_mut pop_front pop_back front back min max".split()
)
"""Methods of the library that give an element."""
WRAPPERS = ("Some", "Ok", "Box::new", "Rc::new", "Arc::new", "RefCell::new", "Mutex::new", "Cow::Borrowed", "Box::pin")
"""Functions whose result is treated like their argument."""
HEADS = ("scoped_identifier", "scoped_type_identifier", "scoped_use_list", "use_wildcard")
PATTERNS = ("tuple_struct_pattern", "tuple_pattern", "struct_pattern", "slice_pattern")
PATH_ROOTS = ("crate", "self", "super")
TYPE_ROLES = ("class", "namespace", "alias", "import")
SEGMENTS_MAX = 12
GLOBS_MAX = 30
CHAIN_MAX = 40
"""Questions about paths inside of each other."""


class RustModules:
    """The crates and modules of a project, by the places of their files."""

    def __init__(self, project: ProjectFiles) -> None:
        self._project = project
        self._paths = project.paths

    @cached_property
    def crates(self) -> dict[str, str]:
        """The root files of the library crates of the project by their names in code."""
        found: dict[str, str] = {}
        for path in self._paths.by_suffix("Cargo.toml"):
            data = self._project.load(path)
            named, library = _PACKAGE.search(data), _LIBRARY.search(data)
            root = join(dirname(path), library[1].decode() if library else "src/lib.rs")
            if named and root in self._paths:
                found.setdefault(named[1].decode().replace("-", "_"), root)
        return found

    def crate_roots(self, path: str) -> list[str]:
        """Return the root files of the crate that a file is in; a package may have a library and a program."""
        folder, roots = path, list[str]()
        while folder and not roots:
            folder = dirname(folder)
            roots = [root for root in (join(folder, name) for name in ROOTS) if root in self._paths]
        return [path] if path in roots or not roots else roots

    def parent(self, path: str) -> Values:
        """Return the module above the one of a file."""
        folder, _, name = path.rpartition("/")
        if name in ROOTS:
            return ()
        above = dirname(folder) if name == "mod.rs" else folder
        candidates = [join(above, root) for root in ("mod.rs", *ROOTS)] + ([f"{above}.rs"] if above else [])
        found = [one for one in candidates if one in self._paths and one != path]
        return tuple(Value("module", NamePlace(one)) for one in found)

    def file_of(self, file: SyntaxFile, node: SyntaxNode, name: str) -> str:
        """Return the file of `mod name;`."""
        folder, _, own = file.path.rpartition("/")
        above = [file.text(get(outer, "name")) for outer in ancestors(node) if outer.type == "mod_item"]
        stem = "" if own in (*ROOTS, "mod.rs") else own.removesuffix(".rs")
        bases = (join(folder, stem, *reversed(above), name), join(folder, name))  # a test is the root of a crate, too
        paths = (base + end for base in bases for end in (".rs", "/mod.rs"))
        return next((path for path in paths if path in self._paths), "")


class RustStyle(ModuleStyle):
    """The rules of Rust."""

    joins_members = True
    libraries_give_own_types = True

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(resolver)
        self._modules = RustModules(self.project)
        self._running: set[tuple[str, int, str]] = set()
        self._impl_bindings = cache(self._find_impl_bindings)

    # -- imports --

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace] | None:
        """Return the definitions that a `use` names."""
        *path, name = use_path(file, binding.node)
        start = binding.node.start_byte
        found = self._ask(file, path, start, "places", lambda at: self.member_places((at,), name))
        holders = self._ask(file, path or [name], start, "foreign", lambda at: (at,)) if not found else ()
        return found or ([] if any(value.kind == "external" for value in holders) else None)

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what a `use` names."""
        *path, name = use_path(file, binding.node)
        if not path:
            return self._crate(file, name)
        start = binding.node.start_byte
        return tuple(self._ask(file, path, start, "values", lambda at: self.resolver.member_values(at, name)))

    def _ask(
        self, file: SyntaxFile, path: Iterable[str], offset: int, question: str, answer: Callable[[Value], Iterable[T]]
    ) -> list[T]:
        """Return the answers of what a path means, unless the same is being asked, or very much already."""
        key = (file.path, offset, question)
        if key in self._running or len(self._running) >= CHAIN_MAX:
            return []
        self._running.add(key)
        try:
            return [one for value in self._path_values(file, list(path), offset) for one in answer(value)]
        finally:
            self._running.discard(key)

    def _path_values(self, file: SyntaxFile, path: list[str], offset: int) -> Values:
        """Return what a path means whose first name is looked up at an offset."""
        values = self._first_values(file, path[0], offset) if path else ()
        for name in path[1:SEGMENTS_MAX]:
            values = tuple(inner for value in values for inner in self.resolver.member_values(value, name))
        return values

    def _first_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        if name in PATH_ROOTS:
            return self._root_values(file, name, offset)
        found: list[Value] = []
        for binding in _visible(file, name, offset):
            if binding.role != "import":
                found += self.resolver.binding_values(file, binding)
            elif use_path(file, binding.node)[:1] != [name]:
                found += self.imported_values(file, binding)
        return tuple(found) or self._crate(file, name)

    def _root_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return the module that `crate`, `self` or `super` is at an offset."""
        if name == "crate":
            return tuple(Value("module", NamePlace(path)) for path in self._modules.crate_roots(file.path))
        inline = [number for number in file.around(offset) if file.scopes[number].node.type == "mod_item"]
        if name == "super" and not inline:
            return self._modules.parent(file.path)
        inline = inline if name == "self" else inline[1:]
        return self.class_of_scope(file, inline[0], "class") if inline else (Value("module", NamePlace(file.path)),)

    def _crate(self, file: SyntaxFile, name: str) -> Values:
        root = self._modules.crates.get(name)
        return (Value("module", NamePlace(root)),) if root else (Value("external", name=name),)

    def passed_names(self, file: SyntaxFile, node: SyntaxNode) -> list[str]:
        """Return the name behind `as` in a `pub use`."""
        alias = get(around(node, "use_as_clause"), "alias")
        is_public = bool(alias) and has(around(node, "use_declaration"), "visibility_modifier")
        return [file.text(alias)] if is_public else []

    # -- modules --

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of a name at the top of a module, those that it passes on included."""
        file = self.project.read(module.place.path)
        if file is None or file.path in seen:
            return None
        seen.add(file.path)
        return self._members_of_scope(file, 0, name, seen)

    def _members_of_scope(self, file: SyntaxFile, scope: int, name: str, seen: set[str]) -> list[NamePlace]:
        found: list[NamePlace] = []
        for binding in file.bindings_in(name, scope):
            if binding.role == "import":
                found += self.resolver.import_meaning(file, binding).places
            elif binding.role != "variable" or binding.statement.type in ("const_item", "static_item"):
                found += places_of(file, [binding])
        return found or self._from_globs(file, name, scope, seen)

    def _from_globs(self, file: SyntaxFile, name: str, scope: int, seen: set[str]) -> list[NamePlace]:
        """Return what the first `use path::*` in a scope brings that has a name."""

        def find(value: Value) -> list[NamePlace]:
            if value.kind == "module":
                return self.module_member(value, name, seen) or []
            return self.member_places((value,), name)

        inside = ((at, path) for at, path in _globs(file) if file.scope_at(at) == scope)
        return next(filter(None, (self._ask(file, path, at, name, find) for at, path in inside)), [])

    def unbound(self, file: SyntaxFile, name: str, offset: int) -> list[NamePlace] | None:
        """Return the definitions of a name that a glob or a macro export brings."""
        node = file.node_at(offset, offset + 1) or NO_NODE
        if up(node).type == "macro_invocation":
            return self.find_defined(name, lambda _, one: one.statement.type == "macro_definition")
        brought = (self._from_globs(file, name, number, set()) for number in file.around(offset))
        if found := next(filter(None, brought), []):
            return found
        is_open = name in self._modules.crates if _is_path_head(node) else bool(_globs(file))
        return None if is_open else []

    # -- names with a meaning of their own --

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what `self`, `Self`, the first name of a path, or a name that is bound several times means."""
        node = file.node_at(offset, offset + 1) or NO_NODE
        if name == "Self":
            return tuple(one._replace(name=name) for one in self.resolver.self_values(file, offset, "class"))
        is_head = _is_path_head(node)
        if name in PATH_ROOTS and (is_head or name != "self"):
            return self._root_values(file, name, offset)
        if name == "self":
            return self.resolver.self_values(file, offset)
        if is_head:
            return self._head_values(file, node, name, offset)
        parameters = [one for one in file.bindings(name) if one.statement.type == "type_parameter"]
        held = set(file.around(offset)) if parameters else set()
        parameters = [one for one in parameters if one.scope in held]
        if parameters:
            return self._bounds(file, max(parameters, key=lambda one: one.scope))
        bound = self.resolver.visible_bindings(file, name, offset)
        if len(bound) < 2 or any(one.role not in ("variable", "parameter", "loop") for one in bound):
            return ()
        before = [one for one in bound if _holds_from(one) <= offset]
        return self.resolver.binding_values(file, before[-1]) if before else ()

    def _head_values(self, file: SyntaxFile, node: SyntaxNode, name: str, offset: int) -> Values:
        above = _prefix(file, node)
        if above:
            return self._path_values(file, [*above, name], offset)
        bound = _visible(file, name, offset)
        found = tuple(value for one in bound for value in self.resolver.binding_values(file, one))
        found = found or self.resolver.place_values(self.unbound(file, name, offset) or ())
        return found or (() if bound or name in file.rules.builtins else self._crate(file, name))

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return the meaning of a name inside of a macro call, and of the field that an initializer names."""
        outer = up(node)
        if outer.type == "token_tree":
            return self._meaning_in_macro(file, node)
        if outer.type not in ("field_initializer", "field_pattern") or node.type != "field_identifier":
            return None
        places = self.member_places(self._struct_values(file, outer), file.text(node))
        fields = tuple(place for place in places if not self.is_function(place))
        return Meaning(fields, is_known=bool(fields), is_member=True)

    def _struct_values(self, file: SyntaxFile, field: SyntaxNode) -> Values:
        """Return the struct whose field is given a value, or is taken by a pattern."""
        holder = around(field, "struct_expression", "struct_pattern")
        return self.resolver.type_values(file, get(holder, "name") or get(holder, "type"))

    def namesakes(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace] | None:
        """Return the field that a shorthand means next to its variable: `Cat { name }`, in a value or in a pattern."""
        if up(node).type != "shorthand_field_initializer" and node.type != "shorthand_field_identifier":
            return []
        values = self._struct_values(file, node)
        return self.member_places(values, file.text(node)) if values else None

    def _meaning_in_macro(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        before, after = node.prev_sibling or NO_NODE, node.next_sibling or NO_NODE
        mark = file.text(before)
        if file.text(after) == ":" and mark in ("{", ",", "", "("):  # perhaps the field of a struct
            return Meaning(is_member=True)
        if mark not in (".", "::"):
            return None
        holder = before.prev_sibling or NO_NODE
        is_plain = file.text(holder.prev_sibling or NO_NODE) not in (".", "::")
        if not is_plain or not (file.is_identifier(holder) or holder.type == "self"):
            return Meaning(is_member=True)
        name, at = file.text(holder), holder.start_byte
        if mark == ".":
            values = self.resolver.name_values(file, name, at)
        elif name == "Self":
            values = self.resolver.self_values(file, at, "class")
        else:
            values = self._first_values(file, name, at)
            if all(value.kind == "external" for value in values):
                values = self.resolver.place_values(self.unbound(file, name, at) or ()) or values
        places = dict.fromkeys(self.member_places(values, file.text(node)))
        is_known = bool(places) or (bool(values) and all(value.kind == "external" for value in values))
        return Meaning(tuple(places), is_known, is_member=True)

    def is_required_outside(self, file: SyntaxFile, binding: NameBinding) -> bool | None:
        """Return whether a method is in an `impl` of a trait that is not in the project."""
        required = get(binding.statement, "<declaration_list", "<impl_item", "trait")
        return bool(required) and not any(value.place.path for value in self.resolver.type_values(file, required))

    # -- types --

    def class_of_scope(self, file: SyntaxFile, scope: int, kind: str) -> Values:
        """Return the type that an impl block is for, or the type of the scope."""
        node = file.scopes[scope].node
        if node.type != "impl_item":
            return super().class_of_scope(file, scope, kind)
        found = self.resolver.type_values(file, get(node, "type"))
        own = tuple(Value("instance", one.place, one.name) for one in found if one.kind == "instance")
        return as_classes(own) if kind == "class" else own

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the traits above a trait, or those that a type of this file implements in it."""
        if node.type not in ("struct_item", "enum_item", "union_item"):
            return super().base_nodes(file, node)
        return [trait for owner, trait in _trait_impls(file) if owner == file.text(get(node, "name"))]

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the members of the impl blocks of a type, and the names in the file of a module."""
        node = file.scopes[scope].node
        named = get(node, "name")
        if not named or node.type == "trait_item":
            return []
        if node.type == "mod_item" and get(node, "body"):
            return self._members_of_scope(file, scope, name, {f"{file.path}:{scope}:{name}"})
        if node.type == "mod_item":
            path = self._modules.file_of(file, node, file.text(named))
            return self.resolver.module_member(Value("module", NamePlace(path)), name) or [] if path else []
        own = NamePlace(file.path, named.start_byte)
        found: list[NamePlace] = []
        for other, binding in self._impl_bindings(name):
            head = _head_name(other, get(other.scopes[binding.scope].node, "type"))
            is_alias = any(one.role in ("alias", "import") for one in other.bindings(head)) if head else False
            if head == file.text(named) or is_alias:
                found += self._impl_member(other, binding, own)
        return found

    def _find_impl_bindings(self, name: str) -> list[tuple[SyntaxFile, NameBinding]]:
        """Return everything of a name that is in an impl block."""
        bound = [(file, one) for file in self.read_own(name) for one in file.bindings(name) if one.scope >= 0]
        return [(file, one) for file, one in bound if file.scopes[one.scope].node.type == "impl_item"]

    def _impl_member(self, file: SyntaxFile, binding: NameBinding, owner: NamePlace) -> list[NamePlace]:
        """Return a member of an impl block of a type, and what it implements of a trait."""
        if not any(value.place == owner for value in self.class_of_scope(file, binding.scope, "class")):
            return []
        traits = self.resolver.type_values(file, get(file.scopes[binding.scope].node, "trait"))
        required = [one.place for one in traits if one.kind == "instance"]
        inherited = [place for one in required for place in self.resolver.members.own(one, binding.name)]
        return places_of(file, [binding]) + inherited

    def fitting_members(
        self, file: SyntaxFile, node: SyntaxNode, values: Values, places: list[NamePlace]
    ) -> list[NamePlace]:
        """Return the functions where a member is called, and the fields where it is read."""
        outer = get(node, "<field_expression")
        if not outer:
            return places
        called = get(outer, "<generic_function") or outer
        is_call = get(called, "<call_expression", "function") == called
        return [place for place in places if self.is_function(place) == is_call]

    # -- values --

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what variants, type parameters and names in patterns are."""
        kind = binding.statement.type
        if kind == "enum_variant":
            return self.class_of_scope(file, binding.scope, "class")
        if kind == "type_parameter":
            return self._bounds(file, binding)
        if binding.role not in ("variable", "parameter", "loop"):
            return None
        path = _pattern_path(binding)
        return self._matched_values(file, binding, path) if path or kind == "match_pattern" else None

    def _bounds(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the traits that a type parameter must have."""
        nodes = get(binding.statement, "bounds").named_children
        return as_classes(tuple(value for node in nodes for value in self.resolver.type_values(file, node)))

    def _matched_values(self, file: SyntaxFile, binding: NameBinding, path: list[tuple[SyntaxNode, int]]) -> Values:
        """Return what a pattern takes out of the value that is matched."""
        statement = binding.statement
        if binding.role == "parameter":
            values = self.resolver.type_values(
                file, get(statement, "type" if statement.type == "parameter" else "value")
            )
        elif statement.type == "match_pattern":
            values = self.resolver.values(file, get(around(statement, "match_expression"), "value"))
        else:
            values = self.resolver.values(file, get(statement, "value"))
        if binding.role == "loop":
            values = self.resolver.elements(values) or values
        for pattern, number in path:
            values = self._take_part(file, pattern, number, values)
        return values

    def _take_part(self, file: SyntaxFile, pattern: SyntaxNode, number: int, values: Values) -> Values:
        if pattern.type == "tuple_pattern":
            return self.resolver.take_apart(values, (number,))
        written = get(pattern, "type")
        if not written or file.text(written) in ("Some", "Ok"):
            return values
        # The types that a variant, or a struct without names for its fields, has in it.
        places = self.resolver.meaning(file, get(written, "name") or written).places
        for found in map(self.project.binding_at, places if pattern.type == "tuple_struct_pattern" else ()):
            body = get(found[1].statement, "body") if found is not None else NO_NODE
            if found is not None and body.type == "ordered_field_declaration_list":
                types = body.children_by_field_name("type")[number:]
                return self.resolver.type_values(found[0], types[0]) if types else ()
        return ()

    def expression_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return what the usual methods of the library pass on, and what `Some(x)` or `Box::new(x)` has in it."""
        if node.type != "call_expression":
            return None
        function = get(node, "function")
        if function.type == "generic_function":
            function = get(function, "function")
        given = get(node, "arguments", ".")
        if file.text(function) in WRAPPERS and given:
            return self.resolver.values(file, given)
        if function.type != "field_expression":
            return None
        values, name = self.resolver.values(file, get(function, "value")), file.text(get(function, "field"))
        if self.member_places(tuple(value for value in values if value.kind != "external"), name):
            return None
        if name in PASSING:
            return values
        if name in ELEMENTS:
            return self.resolver.elements(values) or values
        return None if values and all(one.kind == "external" and not one.arguments for one in values) else ()

    def written_values(self, file: SyntaxFile, node: SyntaxNode) -> Values | None:
        """Return the result of a `Result`; `?`, `unwrap` and patterns take it out."""
        is_result = node.type == "generic_type" and file.text(get(node, "type")).rpartition(":")[2] == "Result"
        given = get(node, "type_arguments", ".") if is_result else NO_NODE
        return self.resolver.type_values(file, given) if given else None


# -- paths ------------------------------------------------------------------------------------------------------------


def use_path(file: SyntaxFile, node: SyntaxNode) -> list[str]:
    """Return the whole path of a name in a `use`, the name that it has there last."""
    at = get(node, "<use_as_clause|scoped_identifier") or node
    parts = _names(file, get(at, "path") if at.type == "use_as_clause" else at)
    if get(at, "<scoped_use_list", "path") == at:  # `use a::b::{self}`
        at = up(at)
    parts = [*_prefix(file, at), *parts]
    return parts[:-1] if len(parts) > 1 and parts[-1] == "self" else parts


def _prefix(file: SyntaxFile, node: SyntaxNode) -> list[str]:
    """Return the paths of the lists of a `use` around a name."""
    parts: list[str] = []
    at = node
    for outer in ancestors(node):
        if outer.type not in HEADS and not outer.type.startswith("use_"):
            break
        if outer.type == "scoped_use_list" and get(outer, "list") == at:
            parts = [*_names(file, get(outer, "path")), *parts]
        at = outer
    return parts


def _names(file: SyntaxFile, node: SyntaxNode) -> list[str]:
    return [part for part in file.text(node).replace(" ", "").split("::") if part][:SEGMENTS_MAX]


@lru_cache(maxsize=1024)
def _globs(file: SyntaxFile) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the offset and the path of each `use path::*`."""
    found: list[tuple[int, tuple[str, ...]]] = []
    start = file.data.find(b"::*")
    while start >= 0 and len(found) < GLOBS_MAX:
        node = file.node_at(start, start + 3) or NO_NODE
        node = node if node.type == "use_wildcard" else around(node, "use_wildcard", "use_declaration", "source_file")
        if node.type == "use_wildcard" and node.named_children:
            parts = _names(file, get(node, "<use_list", "<", "path")) + _names(file, get(node, "."))
            found.append((node.start_byte, tuple(parts)))
        start = file.data.find(b"::*", start + 3)
    return tuple(found)


def _is_path_head(node: SyntaxNode) -> bool:
    return up(node).type in HEADS and get(node, "^path") == node


def _visible(file: SyntaxFile, name: str, offset: int) -> list[NameBinding]:
    """Return the bindings of a name that is the first of a path: variables and functions are no part of one."""
    found = [one for one in file.bindings(name) if one.role in TYPE_ROLES and one.node.start_byte != offset]
    scopes = [number for number in file.around(offset) if file.scopes[number].role not in ("class", "extends")]
    return next(filter(None, ([one for one in found if one.scope == number] for number in scopes)), [])


# -- nodes ------------------------------------------------------------------------------------------------------------


def _holds_from(binding: NameBinding) -> int:
    return (binding.statement if binding.statement.type == "let_declaration" else binding.node).end_byte


def _head_name(file: SyntaxFile, node: SyntaxNode) -> str:
    """Return the last name of a written type, without references and arguments."""
    for _ in range(6):
        inner = get(node, "type") if node.type in ("generic_type", "reference_type") else NO_NODE
        inner = inner or (get(node, "name") if node.type == "scoped_type_identifier" else NO_NODE)
        if not inner:
            return file.text(node)
        node = inner
    return ""


@lru_cache(maxsize=1024)
def _trait_impls(file: SyntaxFile) -> tuple[tuple[str, SyntaxNode], ...]:
    """Return the type and the trait of each `impl Trait for Type` of a file."""
    blocks = [scope.node for scope in file.scopes if scope.node.type == "impl_item"]
    return tuple((_head_name(file, get(one, "type")), get(one, "trait")) for one in blocks if get(one, "trait"))


def _pattern_path(binding: NameBinding) -> list[tuple[SyntaxNode, int]]:
    """Return the patterns around a name from the outside in, each with the position of what leads to the name."""
    steps: list[tuple[SyntaxNode, int]] = []
    at = binding.node
    for outer in ancestors(at):
        if outer == binding.statement:
            break
        if outer.type in PATTERNS:
            parts = [one for one in outer.named_children if one != get(outer, "type")]
            steps.insert(0, (outer, parts.index(at) if at in parts else 0))
        at = outer
    return steps
