"""Rust: modules as files, `use`, impl blocks, traits, patterns, and what the usual methods of the library pass on."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from posixpath import dirname

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, follow, of_type, parent_of
from context_engine.references.module_styles import ModuleStyle
from context_engine.references.values import Meaning, NamePlace, Value, Values

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
CONTAINERS = ("impl_item", "trait_item")
HEADS = ("scoped_identifier", "scoped_type_identifier", "scoped_use_list", "use_wildcard")
PATH_ROOTS = ("crate", "self", "super")
SEGMENTS_MAX = 12
GLOBS_MAX = 30
CHAIN_MAX = 40
"""Questions about paths inside of each other."""
_TYPE_ROLES = ("class", "namespace", "alias", "import")


class RustStyle(ModuleStyle):
    """The rules of Rust."""

    joins_members = True

    # -- modules --

    def gives_own_types(self, name: str) -> bool:
        """Return that it is so: a library returns types of its own, or those that are written."""
        return name != ""

    def imported_places(self, file: SyntaxFile, binding: NameBinding) -> list[NamePlace]:
        """Return the definitions that a `use` names."""
        *path, name = use_path(file, binding.node)
        found: list[NamePlace] = []
        with self._running((file.path, binding.node.start_byte, "places")) as is_first:
            for value in self._path_values(file, path, binding.node.start_byte) if path and is_first else ():
                found += self.resolver.member_places(value, name)[0]
        return found

    def imported_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return what a `use` names."""
        *path, name = use_path(file, binding.node)
        found: list[Value] = []
        with self._running((file.path, binding.node.start_byte, "values")) as is_first:
            for value in self._path_values(file, path, binding.node.start_byte) if path and is_first else ():
                found += self.resolver.member_values(value, name)
        return tuple(found) if path else self._crate(file, name)

    def is_foreign(self, file: SyntaxFile, binding: NameBinding) -> bool:
        """Whether a `use` leads out of the project."""
        path = use_path(file, binding.node)
        with self._running((file.path, binding.node.start_byte, "foreign")) as is_first:
            start = binding.node.start_byte
            values = self._path_values(file, path[:-1] or path, start) if is_first else ()
        return any(value.kind == "external" for value in values)

    def _path_values(self, file: SyntaxFile, path: list[str], offset: int) -> Values:
        """Return what a path means whose first name is looked up at an offset."""
        values = self._first_values(file, path[0], offset)
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
            elif binding.node.start_byte != offset and use_path(file, binding.node)[:1] != [name]:
                found += self.imported_values(file, binding)
        return tuple(found) or self._crate(file, name)

    def _root_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return the module that `crate`, `self` or `super` is at an offset."""
        if name == "crate":
            roots = self._crate_roots(file.path)
            return tuple(Value("module", NamePlace(path)) for path in roots)
        inline = [number for number in file.around(offset) if file.scopes[number].node.type == "mod_item"]
        if name == "super" and not inline:
            return self._parent_module(file.path)
        if name == "self" and inline:
            number = inline[0]
        else:
            number = next(iter(inline[1:]), None) if inline else None
        if number is not None:
            return self.class_of_scope(file, number, "class")
        return (Value("module", NamePlace(file.path)),)

    def _crate(self, file: SyntaxFile, name: str) -> Values:
        root = self._crates().get(name)
        return (Value("module", NamePlace(root)),) if root else (Value("external", name=name),)

    def submodule(self, module: Value, name: str) -> Values:
        """Return the module above a module for `super`."""
        return self._parent_module(module.place.path) if name == "super" else ()

    def module_member(self, module: Value, name: str, seen: set[str]) -> list[NamePlace] | None:
        """Return the definitions of a name at the top of a module, those that it passes on included."""
        path = module.place.path
        file = self.resolver.project.read(path)
        if file is None or path in seen:
            return None
        seen.add(path)
        return self._members_of_scope(file, 0, name, seen)

    def _members_of_scope(self, file: SyntaxFile, scope: int, name: str, seen: set[str]) -> list[NamePlace]:
        found: list[NamePlace] = []
        for binding in file.bindings_in(name, scope):
            if binding.role == "import":
                found += self.resolver.import_meaning(file, binding).places
            elif binding.role != "variable" or binding.statement.type in ("const_item", "static_item"):
                found.append(NamePlace(file.path, binding.node.start_byte))
        return found or self._from_globs(file, name, scope, seen)

    def _from_globs(self, file: SyntaxFile, name: str, scope: int, seen: set[str]) -> list[NamePlace]:
        """Return what `use path::*` in a scope brings for a name."""
        found: list[NamePlace] = []
        for at, path in _globs(file):
            if file.scope_at(at) != scope or found:
                continue
            with self._running((file.path, at, name)) as is_first:
                for value in self._path_values(file, list(path), at) if is_first else ():
                    if value.kind == "module":
                        found += self.module_member(value, name, seen) or ()
                    else:
                        found += self.resolver.member_places(value, name)[0]
        return found

    def unbound(self, file: SyntaxFile, name: str, offset: int) -> list[NamePlace] | None:
        """Return the definitions of a name that a glob or a macro export brings."""
        node = file.node_at(offset, offset + 1)
        if node is not None and node.parent is not None and node.parent.type == "macro_invocation":
            return self._macros(name)
        for number in file.around(offset):
            found = self._from_globs(file, name, number, set())
            if found:
                return found
        if node is not None and _is_path_head(node):
            root = self._crates().get(name)
            return None if root is not None else []
        return None if _globs(file) else []

    # -- names with a meaning of their own --

    def narrowed_values(self, file: SyntaxFile, name: str, offset: int) -> Values:
        """Return what `self`, `Self`, the first name of a path, or a name that is bound several times means."""
        node = file.node_at(offset, offset + 1)
        if node is None:
            return ()
        if name == "Self":
            return tuple(one._replace(name=name) for one in self.resolver.self_values(file, offset, "class"))
        is_head = _is_path_head(node)
        if name in PATH_ROOTS and (is_head or name != "self"):
            return self._root_values(file, name, offset)
        if name == "self":
            return self.resolver.self_values(file, offset)
        if is_head:
            above = _prefix(file, node)
            if above:
                return self._path_values(file, [*above, name], offset)
            bound = [one for one in _visible(file, name, offset) if one.role in _TYPE_ROLES]
            found = tuple(value for one in bound for value in self.resolver.binding_values(file, one))
            found = found or tuple(self.resolver.place_values(self.unbound(file, name, offset) or ()))
            return found or (() if bound or name in file.rules.builtins else self._crate(file, name))
        parameters = _type_parameters(file, name, offset)
        if parameters:
            return self._bounds(file, parameters[0])
        bound = self.resolver.visible_bindings(file, name, offset)
        if len(bound) < 2 or any(one.role not in ("variable", "parameter", "loop") for one in bound):
            return ()
        before = [one for one in bound if _holds_at(one, offset)]
        return self.resolver.binding_values(file, before[-1]) if before else ()

    def statement_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        """Return the meaning of a name inside of a macro call, and of the field that an initializer names."""
        outer = node.parent
        if outer is not None and outer.type == "token_tree":
            return self._meaning_in_macro(file, node)
        if outer is None or outer.type not in ("field_initializer", "field_pattern") or node.type != "field_identifier":
            return None
        if outer.parent is not None and outer.type == "field_initializer":
            holder = outer.parent.parent
        else:
            holder = outer.parent
        written = holder.child_by_field_name("name") or holder.child_by_field_name("type") if holder else None
        places: list[NamePlace] = []
        for value in self.resolver.type_values(file, written) if written is not None else ():
            places += self.resolver.member_places(value, file.text(node))[0]
        fields = tuple(place for place in places if not self._is_function(place))
        return Meaning(fields, is_known=bool(fields), is_member=True)

    def is_required_outside(self, file: SyntaxFile, binding: NameBinding) -> bool | None:
        """Return whether a method is in an `impl` of a trait that is not in the project."""
        block = parent_of(of_type(binding.statement.parent, "declaration_list"))
        required = block.child_by_field_name("trait") if block is not None and block.type == "impl_item" else None
        if required is None:
            return False
        return not any(value.place.path for value in self.resolver.type_values(file, required))

    def namesakes(self, file: SyntaxFile, node: SyntaxNode) -> list[NamePlace] | None:
        """Return the field that a shorthand means next to its variable: `Cat { name }`, in a value or in a pattern."""
        outer = node.parent
        is_shorthand = outer is not None and outer.type == "shorthand_field_initializer"
        if outer is None or not (is_shorthand or node.type == "shorthand_field_identifier"):
            return []
        holder = parent_of(outer.parent) if is_shorthand else outer.parent
        written = holder.child_by_field_name("name" if is_shorthand else "type") if holder is not None else None
        values = self.resolver.type_values(file, written) if written is not None else ()
        if not values:
            return None
        return [place for value in values for place in self.resolver.member_places(value, file.text(node))[0]]

    def _meaning_in_macro(self, file: SyntaxFile, node: SyntaxNode) -> Meaning | None:
        before = node.prev_sibling
        mark = file.text(before) if before is not None else ""
        after = file.text(node.next_sibling) if node.next_sibling is not None else ""
        if after == ":" and mark in ("{", ",", "", "("):  # perhaps the field of a struct
            return Meaning(is_member=True)
        if mark not in (".", "::"):
            return None
        holder = before.prev_sibling if before is not None else None
        further = holder.prev_sibling if holder is not None else None
        is_plain = further is None or file.text(further) not in (".", "::")
        if holder is None or not is_plain or not (file.is_identifier(holder) or holder.type == "self"):
            return Meaning(is_member=True)
        name, at = file.text(holder), holder.start_byte
        if mark == ".":
            values = self.resolver.name_values(file, name, at)
        else:
            values = self._first_in_macro(file, name, at)
        places = [place for value in values for place in self.resolver.member_places(value, file.text(node))[0]]
        is_known = bool(places) or (bool(values) and all(value.kind == "external" for value in values))
        return Meaning(tuple(dict.fromkeys(places)), is_known, is_member=True)

    def _first_in_macro(self, file: SyntaxFile, name: str, offset: int) -> Values:
        if name == "Self":
            return self.resolver.self_values(file, offset, "class")
        found = self._first_values(file, name, offset)
        if any(value.kind != "external" for value in found):
            return found
        return self.resolver.place_values(self.unbound(file, name, offset) or ()) or found

    # -- types --

    def class_of_scope(self, file: SyntaxFile, scope: int, kind: str) -> Values:
        """Return the type that an impl block is for, or the type of the scope."""
        node = file.scopes[scope].node
        if node.type != "impl_item":
            return super().class_of_scope(file, scope, kind)
        written = node.child_by_field_name("type")
        found = self.resolver.type_values(file, written) if written is not None else ()
        return tuple(Value(kind, one.place, one.name) for one in found if one.kind == "instance")  # ty: ignore[invalid-argument-type]

    def base_nodes(self, file: SyntaxFile, node: SyntaxNode) -> list[SyntaxNode]:
        """Return the traits above a trait, or those that a type of this file implements in it."""
        if node.type == "trait_item":
            bounds = node.child_by_field_name("bounds")
            return list(bounds.named_children) if bounds is not None else []
        if node.type == "impl_item":
            return [one for one in (node.child_by_field_name("trait"),) if one is not None]
        named = node.child_by_field_name("name")
        if named is None or node.type not in ("struct_item", "enum_item", "union_item"):
            return []
        return [trait for owner, trait in _trait_impls(file) if owner == file.text(named)]

    def added_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        """Return the members of the impl blocks of a type, and the names in the file of a module."""
        node = file.scopes[scope].node
        named = node.child_by_field_name("name")
        if named is None:
            return []
        if node.type == "mod_item":
            return self._module_members(file, scope, name)
        if node.type == "trait_item":
            return []
        own = NamePlace(file.path, named.start_byte)
        found: list[NamePlace] = []
        for other, binding in self._impl_bindings(name):
            head = _head_name(other, other.scopes[binding.scope].node.child_by_field_name("type"))
            if head == file.text(named) or _is_alias(other, head):
                found += self._impl_member(other, binding, own)
        return found

    def _module_members(self, file: SyntaxFile, scope: int, name: str) -> list[NamePlace]:
        node = file.scopes[scope].node
        if node.child_by_field_name("body") is not None:
            return self._members_of_scope(file, scope, name, {f"{file.path}:{scope}:{name}"})
        named = node.child_by_field_name("name")
        path = self._module_file(file, node, file.text(named)) if named is not None else ""
        return self.resolver.module_member(Value("module", NamePlace(path)), name) or [] if path else []

    def _impl_member(self, file: SyntaxFile, binding: NameBinding, owner: NamePlace) -> list[NamePlace]:
        """Return a member of an impl block of a type, and what it implements of a trait."""
        scope = file.scopes[binding.scope]
        if not any(value.place == owner for value in self.class_of_scope(file, binding.scope, "class")):
            return []
        found = [NamePlace(file.path, binding.node.start_byte)]
        trait = scope.node.child_by_field_name("trait")
        for value in self.resolver.type_values(file, trait) if trait is not None else ():
            found += self.resolver.members.own(value.place, binding.name) if value.kind == "instance" else ()
        return found

    def fitting_members(self, file: SyntaxFile, node: SyntaxNode, places: list[NamePlace]) -> list[NamePlace]:
        """Return the functions where a member is called, and the fields where it is read."""
        outer = node.parent
        if outer is None or outer.type != "field_expression":
            return places
        call = outer.parent
        if call is not None and call.type == "generic_function":
            call = call.parent
        is_call = call is not None and call.type == "call_expression" and not _is_argument(call, outer)
        return [place for place in places if self._is_function(place) == is_call]

    def _is_function(self, place: NamePlace) -> bool:
        found = self.resolver.project.binding_at(place)
        return found is not None and found[1].role == "function"

    def bound_values(self, file: SyntaxFile, binding: NameBinding) -> Values | None:
        """Return what variants, type parameters and names in patterns are."""
        kind = binding.statement.type
        if kind == "enum_variant":
            return self.class_of_scope(file, binding.scope, "class")
        if kind == "type_parameter":
            return self._bounds(file, binding)
        if binding.role not in ("variable", "parameter", "loop"):
            return None
        if kind == "closure_parameters":
            return self._closure_values(file, binding)
        path = list(_pattern_path(binding))
        return None if kind != "match_pattern" and not path else self._matched_values(file, binding, path)

    def _bounds(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the traits that a type parameter must have, in its list or in a `where`."""
        written = binding.statement.child_by_field_name("bounds")
        nodes = list(written.named_children) if written is not None else []
        owner = parent_of(binding.statement.parent)
        for clause in owner.named_children if owner is not None else ():
            for predicate in clause.named_children if clause.type == "where_clause" else ():
                left, bounds = predicate.child_by_field_name("left"), predicate.child_by_field_name("bounds")
                if left is not None and bounds is not None and file.text(left) == binding.name:
                    nodes += bounds.named_children
        found = [value for node in nodes for value in self.resolver.type_values(file, node)]
        return tuple(one._replace(kind="class") if one.kind == "instance" else one for one in found)

    def _closure_values(self, file: SyntaxFile, binding: NameBinding) -> Values:
        """Return the elements that a method passes to a closure: `xs.iter().map(|x| x.run())`."""
        closure = binding.statement.parent
        arguments = parent_of(closure)
        function = follow(parent_of(of_type(arguments, "arguments")), "function")
        holder = follow(function, "value")
        if holder is None or binding.positions or len(binding.statement.named_children) != 1:
            return ()
        values = self.resolver.values(file, holder)
        return tuple(v for v in self.resolver.elements(values) or values if v.kind == "instance")

    def _matched_values(
        self, file: SyntaxFile, binding: NameBinding, path: list[tuple[SyntaxNode, int]]
    ) -> Values | None:
        """Return what a pattern takes out of the value that is matched."""
        subject = _subject(binding)
        values: Values = ()
        if subject is not None and binding.role == "parameter":
            values = self.resolver.type_values(file, subject)
        elif subject is not None:
            values = self.resolver.values(file, subject)
            if binding.role == "loop":
                values = self.resolver.elements(values) or values
        for pattern, number in path:
            values = self._take_part(file, pattern, number, values)
        return values

    def _take_part(self, file: SyntaxFile, pattern: SyntaxNode, number: int, values: Values) -> Values:
        if pattern.type == "tuple_pattern":
            return self.resolver.take_apart(values, (number,))
        written = pattern.child_by_field_name("type")
        if written is None:
            return values
        if file.text(written) in ("Some", "Ok"):
            return values
        if pattern.type != "tuple_struct_pattern":
            return ()
        parts = self._variant_types(file, written)
        return self.resolver.type_values(parts[0], parts[1][number]) if parts and number < len(parts[1]) else ()

    # -- calls --

    def call_values(self, file: SyntaxFile, call: SyntaxNode, function: SyntaxNode) -> Values | None:
        """Return what the usual methods of the library pass on, and what `Some(x)` or `Box::new(x)` has in it."""
        if function.type == "generic_function":
            function = function.child_by_field_name("function") or function
        given = call.child_by_field_name("arguments")
        if file.text(function) in WRAPPERS and given is not None and given.named_children:
            return self.resolver.values(file, given.named_children[0])
        holder, named = function.child_by_field_name("value"), function.child_by_field_name("field")
        if function.type != "field_expression" or holder is None or named is None:
            return None
        values, name = self.resolver.values(file, holder), file.text(named)
        if any(self.resolver.member_places(value, name)[0] for value in values if value.kind != "external"):
            return None
        if name in PASSING:
            return values
        if name in ELEMENTS:
            return self.resolver.elements(values) or values
        return None if values and all(one.kind == "external" and not one.arguments for one in values) else ()

    def generic_values(self, file: SyntaxFile, name: str, arguments: tuple[Values, ...]) -> Values | None:
        """Return the result of a `Result`; `?`, `unwrap` and patterns take it out."""
        return arguments[0] if name == "Result" and arguments else None

    def _crates(self) -> dict[str, str]:
        """Return the root files of the library crates of the project by their names in code."""
        known = self.resolver.kept.get("rust crates")
        if isinstance(known, dict):
            return known
        found: dict[str, str] = {}
        for path in self.resolver.project.paths.by_suffix("Cargo.toml"):
            data = self.resolver.project.load(path)
            named, library = _PACKAGE.search(data), _LIBRARY.search(data)
            folder = f"{dirname(path)}/" if dirname(path) else ""
            root = folder + (library[1].decode() if library else "src/lib.rs")
            if named and root in self.resolver.project.paths:
                found.setdefault(named[1].decode().replace("-", "_"), root)
        self.resolver.kept["rust crates"] = found
        return found

    def _crate_roots(self, path: str) -> list[str]:
        """Return the root files of the crate that a file is in; a package may have a library and a program."""
        folder, paths = dirname(path), self.resolver.project.paths
        while True:
            roots = [root for name in ROOTS if (root := f"{folder}/{name}" if folder else name) in paths]
            if roots or not folder:
                return [path] if path in roots else roots or [path]
            folder = dirname(folder)

    def _parent_module(self, path: str) -> Values:
        folder, _, name = path.rpartition("/")
        if name in ROOTS:
            return ()
        above = dirname(folder) if name == "mod.rs" else folder
        candidates = [f"{above}/{root}" if above else root for root in ("mod.rs", *ROOTS)]
        if above:
            candidates.append(f"{above}.rs")
        found = [one for one in candidates if one in self.resolver.project.paths and one != path]
        return tuple(Value("module", NamePlace(one)) for one in found)

    def _module_file(self, file: SyntaxFile, node: SyntaxNode, name: str) -> str:
        """Return the file of `mod name;`."""
        folder, _, own = file.path.rpartition("/")
        if own in (*ROOTS, "mod.rs"):
            inside = folder
        else:
            inside = f"{folder}/{own.removesuffix('.rs')}".lstrip("/")
        outer = node.parent
        while outer is not None:
            named = follow(of_type(outer, "mod_item"), "name")
            if named is not None:
                inside = f"{inside}/{file.text(named)}"
            outer = outer.parent
        for folder in dict.fromkeys((inside, dirname(file.path))):
            base = f"{folder}/{name}" if folder else name
            for path in (f"{base}.rs", f"{base}/mod.rs"):
                if path in self.resolver.project.paths:
                    return path
        return ""

    def _impl_bindings(self, name: str) -> list[tuple[SyntaxFile, NameBinding]]:
        """Return everything of a name that is in an impl block, which is read once for each name."""
        known = self.resolver.kept.setdefault("rust impls", {})
        assert isinstance(known, dict)
        if name not in known:
            paths = [path for path in self.resolver.project.defining(name) if path.endswith(".rs")]
            known[name] = [
                (file, one)
                for file in filter(None, map(self.resolver.project.read, paths))
                for one in file.bindings(name)
                if one.scope >= 0 and file.scopes[one.scope].node.type == "impl_item"
            ]
        return known[name]

    def _macros(self, name: str) -> list[NamePlace] | None:
        found: list[NamePlace] = []
        for path in self.resolver.project.defining(name):
            file = self.resolver.project.read(path)
            bound = file.bindings(name) if file is not None else ()
            found += [NamePlace(path, one.node.start_byte) for one in bound if one.statement.type == "macro_definition"]
        return found

    @contextmanager
    def _running(self, key: tuple[str, int, str]) -> Generator[bool]:
        """Say whether a path may be asked about: not while it is being answered, nor in a very long chain."""
        running = self.resolver.kept.setdefault("rust running", set())
        assert isinstance(running, set)
        is_first = key not in running and len(running) < CHAIN_MAX
        if not is_first:
            yield False
            return
        running.add(key)
        try:
            yield True
        finally:
            running.discard(key)

    def _variant_types(self, file: SyntaxFile, written: SyntaxNode) -> tuple[SyntaxFile, list[SyntaxNode]] | None:
        """Return the types that a variant, or a struct without names for its fields, has in it, and their file."""
        last = written.child_by_field_name("name") or written
        for place in self.resolver.meaning(file, last).places:
            found = self.resolver.project.binding_at(place)
            body = found[1].statement.child_by_field_name("body") if found is not None else None
            if found is not None and body is not None and body.type == "ordered_field_declaration_list":
                return found[0], list(body.children_by_field_name("type"))
        return None


WRAPPERS = ("Some", "Ok", "Box::new", "Rc::new", "Arc::new", "RefCell::new", "Mutex::new", "Cow::Borrowed", "Box::pin")
"""Functions whose result is treated like their argument."""


# -- paths and files --------------------------------------------------------------------------------------------------


def use_path(file: SyntaxFile, node: SyntaxNode) -> list[str]:
    """Return the whole path of a name in a `use`, the name that it has there last."""
    at, outer = node, node.parent
    if outer is not None and outer.type == "use_as_clause":
        path = outer.child_by_field_name("path")
        parts = _names(file, path) if path is not None else []
        at, outer = outer, outer.parent
    elif outer is not None and outer.type == "scoped_identifier":
        parts = _names(file, outer)
        at, outer = outer, outer.parent
    else:
        parts = [file.text(node)]
    if outer is not None and outer.type == "scoped_use_list" and outer.child_by_field_name("path") == at:
        at, outer = outer, outer.parent  # `use a::b::{self}`
    while outer is not None and outer.type != "use_declaration":
        if outer.type == "scoped_use_list" and outer.child_by_field_name("list") == at:
            path = outer.child_by_field_name("path")
            parts = [*(_names(file, path) if path is not None else ()), *parts]
        at, outer = outer, outer.parent
    return parts[:-1] if len(parts) > 1 and parts[-1] == "self" else parts


def _prefix(file: SyntaxFile, node: SyntaxNode) -> list[str]:
    """Return the paths of the lists of a `use` around a name."""
    parts: list[str] = []
    at, outer = node, node.parent
    while outer is not None and (outer.type in HEADS or outer.type.startswith("use_")):
        path = outer.child_by_field_name("path")
        if outer.type == "scoped_use_list" and path is not None and outer.child_by_field_name("list") == at:
            parts = [*_names(file, path), *parts]
        at, outer = outer, outer.parent
    return parts


def _names(file: SyntaxFile, node: SyntaxNode) -> list[str]:
    return [part for part in file.text(node).replace(" ", "").split("::") if part][:SEGMENTS_MAX]


@lru_cache(maxsize=1024)
def _globs(file: SyntaxFile) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the offset and the path of each `use path::*`."""
    found: list[tuple[int, tuple[str, ...]]] = []
    start = file.data.find(b"::*")
    while start >= 0 and len(found) < GLOBS_MAX:
        node = file.node_at(start, start + 3)
        while node is not None and node.type not in ("use_wildcard", "use_declaration", "source_file"):
            node = node.parent
        if node is not None and node.type == "use_wildcard" and node.named_children:
            parts = _names(file, node.named_children[0])
            above = node.parent.parent if node.parent is not None and node.parent.type == "use_list" else None
            path = follow(above, "path")
            parts = [*(_names(file, path) if path is not None else ()), *parts]
            found.append((node.start_byte, tuple(parts)))
        start = file.data.find(b"::*", start + 3)
    return tuple(found)


# -- nodes ------------------------------------------------------------------------------------------------------------


def _visible(file: SyntaxFile, name: str, offset: int) -> list[NameBinding]:
    """Return the bindings of a name that is the first of a path: variables and functions are no part of one."""
    found = [one for one in file.bindings(name) if one.role in _TYPE_ROLES and one.node.start_byte != offset]
    for number in file.around(offset):
        if file.scopes[number].role not in ("class", "extends"):
            inside = [one for one in found if one.scope == number]
            if inside:
                return inside
    return []


def _type_parameters(file: SyntaxFile, name: str, offset: int) -> list[NameBinding]:
    """Return the type parameters of a name that hold at an offset, those of impl blocks included."""
    found = [one for one in file.bindings(name) if one.statement.type == "type_parameter"]
    around = set(file.around(offset)) if found else set()
    return sorted((one for one in found if one.scope in around), key=lambda one: -one.scope)


def _is_path_head(node: SyntaxNode) -> bool:
    outer = node.parent
    return outer is not None and outer.type in HEADS and outer.child_by_field_name("path") == node


def _holds_at(binding: NameBinding, offset: int) -> bool:
    if binding.statement.type == "let_declaration":
        return binding.statement.end_byte <= offset
    return binding.node.end_byte <= offset


def _is_argument(call: SyntaxNode, node: SyntaxNode) -> bool:
    given = call.child_by_field_name("arguments")
    return given is not None and given.start_byte <= node.start_byte < given.end_byte


def _head_name(file: SyntaxFile, node: SyntaxNode | None) -> str:
    """Return the last name of a written type, without references and arguments."""
    for _ in range(6):
        if node is None:
            return ""
        inner = node.child_by_field_name("type") if node.type in ("generic_type", "reference_type") else None
        inner = inner or (node.child_by_field_name("name") if node.type == "scoped_type_identifier" else None)
        if inner is None:
            return file.text(node)
        node = inner
    return ""


def _is_alias(file: SyntaxFile, name: str) -> bool:
    """Whether a type may have another name where it is used."""
    return any(one.role in ("alias", "import") for one in file.bindings(name)) if name else False


@lru_cache(maxsize=1024)
def _trait_impls(file: SyntaxFile) -> tuple[tuple[str, SyntaxNode], ...]:
    """Return the type and the trait of each `impl Trait for Type` of a file."""
    found: list[tuple[str, SyntaxNode]] = []
    for scope in file.scopes:
        if scope.node.type == "impl_item":
            trait = scope.node.child_by_field_name("trait")
            if trait is not None:
                found.append((_head_name(file, scope.node.child_by_field_name("type")), trait))
    return tuple(found)


def _pattern_path(binding: NameBinding) -> Iterator[tuple[SyntaxNode, int]]:
    """Yield the patterns around a name from the outside in, each with the position of what leads to the name."""
    steps: list[tuple[SyntaxNode, int]] = []
    at, outer = binding.node, binding.node.parent
    while outer is not None and outer != binding.statement:
        if outer.type in ("tuple_struct_pattern", "tuple_pattern", "struct_pattern", "slice_pattern"):
            written = outer.child_by_field_name("type")
            parts = [one for one in outer.named_children if one != written]
            steps.append((outer, parts.index(at) if at in parts else 0))
        at, outer = outer, outer.parent
    return reversed(steps)


def _subject(binding: NameBinding) -> SyntaxNode | None:
    """Return the expression, or the written type, that a pattern is matched with."""
    statement = binding.statement
    if statement.type == "match_pattern":
        outer = statement.parent
        while outer is not None and outer.type != "match_expression":
            outer = outer.parent
        return outer.child_by_field_name("value") if outer is not None else None
    return statement.child_by_field_name("type" if statement.type == "parameter" else "value")
