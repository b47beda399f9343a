"""The symbol graph of a snapshot: where names are defined, where they are used, which file imports which.

Only names and imports are stored. The postings narrow a use down to a few files, and those are parsed at the query, so
an answer shows the current code. A file that cannot be read is not an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain, starmap
from weakref import WeakMethod

import numpy as np

from context_engine.index import (
    ParsedFileCache,
    Snapshot,
    StoredOutline,
    StoredSymbol,
    decode_outline,
    qualified_names,
    term_hashes,
)
from context_engine.languages import Import, Outline, PathIndex, Symbol, SyntaxFile, find_whole_words, resolve_import
from context_engine.references.project_files import ProjectFiles
from context_engine.references.reference_finder import ReferenceFinder, SymbolUse, offset_of
from context_engine.references.scip.scip_edges import EdgeProject, ExternalEdges
from context_engine.references.values import SCIP, Certainty, NamePlace
from context_engine.repo import is_sensitive, is_under
from context_engine.text import LineSpan, compound_term, dotted_name, expand_words, find_near_words, split_words

FILES_PARSED_MAX = 300
"""Files parsed for one step of a trace; a name that occurs in more is too common to follow."""

SUBCLASSES_DEPTH = 5
"""Levels of classes below a class that are looked at."""
TEMPLATES = tuple(
    ".vue .svelte .astro .html .htm .erb .haml .slim .ejs .hbs .mustache .pug .liquid .twig .jinja .jinja2 .j2 .tmpl"
    " .gohtml .tpl .jsp .phtml .blade.php .cshtml .razor .xaml .xib .storyboard".split()
)
"""The ends of the names of files that mix text with names of code."""
STRING = rb"""(["'`])(?:[\w$.:\\-]{0,60}[.:\\])?%s(?:\([^"'`\n]{0,60}\))?;?\1"""
"""A string that is a name, perhaps with its owner, or a call of it; at most 70 bytes beyond the name."""
LOWERED_TO_ASCII = ("\u212a".encode(), "\u0130".encode())
"""The only other letters that are ASCII in small letters: the sign of Kelvin, and the Turkish capital i with a dot."""
CALLABLE = frozenset({"function", "method", "constructor", "macro"})
CLASS_LIKE = frozenset({"class", "interface", "struct", "enum", "trait", "type"})


@dataclass(frozen=True, slots=True)
class SymbolDefinition:
    """A definition in a file's outline."""

    path: str
    language: str
    name: str
    qualified: str
    kind: str
    span: LineSpan
    line: int


class SymbolGraph:
    """Queries about one snapshot; the current content of a file comes from its parse, in `parses`."""

    def __init__(self, snapshot: Snapshot, parses: ParsedFileCache, edges: ExternalEdges | None = None) -> None:
        self.snapshot = snapshot
        self.parses = parses
        self._edges = edges
        self._imported: dict[str, frozenset[str]] = {}

    # -- definitions --

    def definitions(self, pattern: str, *, kind: str | None = None, under: str = "") -> list[SymbolDefinition]:
        """Return the definitions of a name: exact, qualified (`Class.method`, `mod::f`), or a glob (`get_*`).

        Ordered: exact case first, then shallower, then by path and line.
        """
        owner, _, name = dotted_name(pattern).strip(".").rpartition(".")
        fits = _name_test(name)
        owners = [part.lower().encode() for part in owner.split(".")[-1:] if part.isascii()]
        found: list[SymbolDefinition] = []
        for file in self._files_defining(name):
            if is_under(self.snapshot.paths[file], under) and self._may_define(file, owners):
                inside = self._definitions_in(file, fits)
                found += [defined for defined in inside if not owner or _owner_fits(defined.qualified, owner)]
        if kind:
            found = [defined for defined in found if defined.kind == kind]
        found.sort(key=lambda d: (d.name != name, d.qualified.count("."), d.path, d.span))
        return found

    def near_names(self, name: str, count: int = 5) -> list[str]:
        """Return defined names similar to this one."""
        wanted = compound_term(name.rpartition(".")[2])
        known = self._all_names
        spelled = []
        for one in find_near_words(
            wanted, known if len(known) < 50_000 else [one for one in known if wanted in one], count
        ):
            for file in self._files_defining(one)[:1]:
                spelled += [d.name for d in self._definitions_in(file) if compound_term(d.name) == one][:1]
        return spelled

    def _files_defining(self, name: str) -> list[int]:
        folded = compound_term(name)
        if any(mark in name for mark in "*?["):
            pattern = name.replace("_", "").lower()
            names = [one for one in self._all_names if fnmatchcase(one, pattern)]
        else:
            names = [folded]
        chunks = self.snapshot.matches("symbol", term_hashes(names)).docs
        return np.unique(self.snapshot.chunk_file[chunks]).tolist()

    @cached_property
    def _all_names(self) -> list[str]:
        return self.snapshot.names("symbol")

    def stored_outline(self, file: int) -> StoredOutline:
        """Return a file's outline as it was indexed."""
        return decode_outline(self.snapshot.heap("outline", file))

    def outline(self, path: str, sha256: bytes) -> tuple[Outline, list[str]]:
        """Return a file's outline without details, and the qualified names: as indexed, if its bytes are the same."""
        file = self.snapshot.by_path.get(path)
        is_same = file is not None and self.snapshot.heap("sha256", file) == sha256
        if not is_same or not (stored := self.stored_outline(file)).symbols:
            return self.parses.outline(path)
        fields = ((s.name, s.kind, s.first, s.last, 0, 0, s.parent, s.line, s.owner) for s in stored.symbols)
        outline = Outline(tuple(starmap(Symbol, fields)), tuple(starmap(Import, stored.imports)))
        return outline, qualified_names(stored.symbols)

    def _may_define(self, file: int, owners: Sequence[bytes]) -> bool:
        """Whether the stored outline of a file has all these words, in small letters. It is not decoded for that."""
        if not owners:
            return True
        stored = self.snapshot.heap("outline", file).lower()
        return all(owner in stored or any(mark in stored for mark in LOWERED_TO_ASCII) for owner in owners)

    def _definitions_in(self, file: int, fits: Callable[[str], bool] = bool) -> Iterator[SymbolDefinition]:
        symbols = self.stored_outline(file).symbols
        if not any(fits(symbol.name) for symbol in symbols):
            return
        path = self.snapshot.paths[file]
        language = self.snapshot.languages[int(self.snapshot.file_column("language")[file])]
        qualified = qualified_names(symbols)
        for symbol, full in zip(symbols, qualified, strict=True):
            if symbol.kind != "section" and fits(symbol.name):
                yield _as_definition(path, language, symbol, full)

    # -- uses --

    def uses(
        self, defined: Sequence[SymbolDefinition], files_max: int = FILES_PARSED_MAX
    ) -> tuple[list[SymbolUse], bool]:
        """Return the uses of definitions, and whether too many files contain a name, so that only some were parsed.

        Each name is searched once, the rarest first. A use of one of several definitions of a name counts if it may
        mean one of those that are given.
        """
        found: list[SymbolUse] = []
        files_using = {name: self._files_using(name) for name in {definition.name for definition in defined}}
        truncated = False
        for name, files in sorted(files_using.items(), key=lambda item: (len(item[1]), item[0])):
            truncated = truncated or len(files) > files_max
            own = [definition for definition in defined if definition.name == name]
            paths = [self.snapshot.paths[file] for file in files[:files_max]]
            found += self.uses_in_files(own, paths)
            found += self._uses_through_interfaces(own, paths)
            if own[0].kind in CLASS_LIKE | CALLABLE:
                found += self._uses_through_aliases([use for use in found if use.target == name])
            files_max = max(0, files_max - len(files))
        return sorted(found, key=lambda use: (use.path, use.line, use.column)), truncated

    def _uses_through_interfaces(self, defined: Sequence[SymbolDefinition], paths: Sequence[str]) -> list[SymbolUse]:
        """Return the calls of methods of interfaces that methods implement, by the methods that their types have."""
        name = defined[0].name
        above: dict[NamePlace, None] = {}
        if not self.is_common(name):
            for place in filter(self.finder.implements_by_methods, self.places_of(defined)):
                above.update(dict.fromkeys(self.finder.interfaces.find_interface_methods(name, place)))
        found: list[SymbolUse] = []
        for method in filter(None, map(self.definition_at, above)):
            if method not in defined:
                uses = self.uses_in_files([method], paths)
                sure = [use for use in uses if use.kind != "definition" and use.certainty != "possible"]
                found += [use._replace(via=method.qualified) for use in sure]
        return found

    def _uses_through_aliases(self, uses: Sequence[SymbolUse]) -> list[SymbolUse]:
        """Return the uses of names that are bound to what some uses mean, and of those that are bound to these."""
        waiting = [use for use in uses if use.certainty == "exact" and use.kind in ("read", "type")]
        found: list[SymbolUse] = []
        seen: set[NamePlace] = set()
        for use in waiting:  # it grows
            name, place = self.finder.alias_at(use.path, use.start) or ("", None)
            if place is None or place in seen:
                continue
            seen.add(place)
            paths = self.files_alike(use.path, self.paths_with_word(name)[:FILES_PARSED_MAX], name)
            known = self.finder.find(name, [place], paths)
            further = [one._replace(via=name) for one in known if one.certainty == "exact" and one.kind != "definition"]
            found += [self._as_use_of(use.target, one) for one in further]
            waiting += further
        return found

    def uses_in_files(self, defined: Sequence[SymbolDefinition], paths: Sequence[str]) -> list[SymbolUse]:
        """Return the uses of definitions of one name in some files, those that may mean something else included."""
        found = self._resolved_uses(defined, paths)
        if found is None:
            word = defined[0].name.encode("utf-8", "replace")
            holding = [path for path in paths if word in self.parses.load(path)]
            return [use for path in holding for use in self._uses_by_name(path, defined)]
        return found

    def _resolved_uses(
        self, defined: Sequence[SymbolDefinition], paths: Sequence[str], *, only_bases: bool = False
    ) -> list[SymbolUse] | None:
        """Return the uses of definitions of one name; None if the names of their language are not resolved."""
        places, name = self.places_of(defined), defined[0].name
        if not places:
            return None
        holding = self.files_alike(defined[0].path, paths, name)
        return [self._as_use_of(name, use) for use in self.finder.find(name, places, holding, only_bases=only_bases)]

    def files_alike(self, path: str, paths: Sequence[str], name: str) -> list[str]:
        """Return the files with a name, of the language of a file or one that shares its names."""
        word, style = name.encode("utf-8", "replace"), self.parses.resolution_style(path)
        return [one for one in paths if word in self.parses.load(one) and self.parses.resolution_style(one) == style]

    def places_of(self, defined: Sequence[SymbolDefinition]) -> list[NamePlace]:
        """Return where definitions are, of those that can be resolved."""
        places = (self.finder.place_of(one.path, one.name, one.line) for one in defined)
        return [place for place in places if place is not None]

    def _uses_by_name(self, path: str, defined: Sequence[SymbolDefinition]) -> Iterator[SymbolUse]:
        """Yield the uses of a name in a language whose names cannot be resolved, unless another tool knows them."""
        places = {place for one in defined if (place := self._place_in_text(one)) is not None}
        near = {path, *(file for _, _, files in self.imports(path) for file in files)}
        others = [one for one in self.definitions(defined[0].name) if one.name == defined[0].name]
        is_sure = len(others) <= len(defined) or any(one.path in near for one in defined)
        named = [use for use in self.uses_in(path) if use.target == defined[0].name]
        for use in (self._as_use_of(use.target, use) for use in named):
            edge = self._edges.edge_at(path, self.parses.load(path), use.start) if self._edges is not None else None
            if edge is None or not edge.targets:
                yield use._replace(certainty="likely" if is_sure else "possible")
            elif not places.isdisjoint(edge.targets):
                yield use._replace(certainty="exact", origin=SCIP)

    def _place_in_text(self, defined: SymbolDefinition) -> NamePlace | None:
        """Return where a definition has its name, by its line alone."""
        data = self.parses.load(defined.path)
        start = offset_of(data, defined.line, 1)
        at = data.find(defined.name.encode("utf-8", "replace"), start)
        return NamePlace(defined.path, at) if at >= 0 and data.count(b"\n", start, at) == 0 else None

    def _as_use_of(self, name: str, use: SymbolUse) -> SymbolUse:
        """Return a use with what it uses, and the innermost definition around it."""
        outline, qualified = self.parses.outline(use.path)
        around = [number for number, one in enumerate(outline.symbols) if one.start <= use.start < one.stop]
        return use._replace(source=qualified[around[-1]] if around else "", target=name)

    def callees(self, defined: SymbolDefinition) -> list[tuple[SymbolUse, SymbolDefinition]]:
        """Return the uses of project definitions inside a definition, each with what it means, in file order."""
        found: list[tuple[SymbolUse, SymbolDefinition]] = []
        file = self.parses.syntax(defined.path)
        inside = [use for use in self.uses_in(defined.path) if defined.span.first <= use.line <= defined.span.last]
        for use in inside:
            meant = self._resolve(file, use) if file is not None else None
            target, certainty, origin = meant or (self._by_name(use), "likely", "")
            if target is not None:
                found.append((use._replace(certainty=certainty, origin=origin), target))
        return found

    def meaning_of(self, use: SymbolUse) -> SymbolDefinition | None:
        """Return the definition that a use means, if its file shows which one."""
        file = self.parses.syntax(use.path)
        meant = self._resolve(file, use) if file is not None else None
        return meant[0] if meant else None

    def _resolve(self, file: SyntaxFile, use: SymbolUse) -> tuple[SymbolDefinition | None, Certainty, str] | None:
        """Return what a use means, and which tool says so; None if nothing shows it."""
        node = next((one for one in file.find(use.target) if one.start_byte == use.start), None)
        if node is None:
            return None
        meaning = self.finder.meaning(file, node)
        for place in meaning.places:
            definition = self.definition_at(place)
            if definition is not None:
                return definition, "exact", meaning.origin
        if meaning.is_known or not meaning.is_member:
            return (None, "exact", meaning.origin) if meaning.is_known else None
        members = self.finder.members_named(use.target) if use.target not in file.rules.common else ()
        return (self.definition_at(*members) if len(members) == 1 else None), "likely", ""

    def definition_at(self, place: NamePlace) -> SymbolDefinition | None:
        """Return the definition whose name is at a place."""
        file = self.parses.syntax(place.path)
        if file is None:
            return None
        outline, qualified = self.parses.outline(place.path)
        line = file.data.count(b"\n", 0, place.start) + 1
        start = place.start + file.data.startswith(b"$", place.start)
        for symbol, full in zip(outline.symbols, qualified, strict=True):
            if symbol.line == line and file.data.startswith(symbol.name.encode("utf-8", "replace"), start):
                return _as_definition(place.path, file.language.name, symbol, full)
        return None

    def _by_name(self, use: SymbolUse) -> SymbolDefinition | None:
        """Return the most likely definition of a use: in the same file, in an imported one, or the only one."""
        known = [definition for definition in self.definitions(use.target) if definition.name == use.target]
        here = [definition for definition in known if definition.path == use.path]
        if here or len(known) < 2:
            return next(iter(here or known), None)
        imported = {file for _, _, files in self.imports(use.path) for file in files}
        return next((definition for definition in known if definition.path in imported), None)

    def implementations(self, defined: SymbolDefinition, depth: int) -> list[tuple[SymbolDefinition, str]]:
        """Return the classes below a class, or the methods that override a method, each with the name of its base."""
        start = next(iter(self.places_of([defined])), None)
        by_methods = sorted(self._implementing(defined, start)) if start is not None else ()
        by_edges = self._edges.find_implementing(start) if start is not None and self._edges is not None else ()
        rows = [
            *((self.definition_at(place), defined.qualified) for place in by_methods),
            *self._inheriting(defined, depth),
            *((self.definition_at(place), defined.qualified) for place in by_edges),
        ]
        found: dict[tuple[str, str], tuple[SymbolDefinition, str]] = {}
        for one, base in rows:
            if one is not None:
                found.setdefault((one.path, one.qualified), (one, base))
        return list(found.values())

    def _implementing(self, defined: SymbolDefinition, start: NamePlace) -> list[NamePlace]:
        """Return the types or methods that implement those of an interface by the methods that a type has."""
        if not self.finder.implements_by_methods(start):
            return []
        if defined.kind in CLASS_LIKE:
            return self.finder.interfaces.find_implementing_types(start)
        return self.finder.interfaces.find_implementing_methods(defined.name, start)

    def _inheriting(self, defined: SymbolDefinition, depth: int) -> list[tuple[SymbolDefinition, str]]:
        """Return the classes that name a class as their base, or a base of theirs, or what these override."""
        owner, _, name = defined.qualified.rpartition(".")
        is_class = defined.kind in CLASS_LIKE
        if is_class:
            wave = [defined]
        else:
            wave = [one for one in self.definitions_of(defined.path) if one.qualified == owner]
        found: list[tuple[SymbolDefinition, str]] = []
        seen = {(one.path, one.qualified) for one in wave}
        for _ in range(max(depth, SUBCLASSES_DEPTH)):
            below = [(child, base.qualified) for base in wave for child in self.subclasses(base)]
            below = [(child, base) for child, base in below if (child.path, child.qualified) not in seen]
            seen |= {(child.path, child.qualified) for child, _ in below}
            wave = [child for child, _ in below]
            if is_class:
                found += below
            else:
                found += [(one, defined.qualified) for child in wave for one in self._members_named(child, name)]
        return found

    def supertypes(self, defined: SymbolDefinition) -> list[tuple[SymbolDefinition, str]]:
        """Return the classes above a class, or the members that a member overrides, each with the name below it."""
        start = next(iter(self.places_of([defined])), None)
        if start is None:
            return []
        if defined.kind not in CLASS_LIKE:
            above = [self.definition_at(place) for place in self.finder.find_overridden(defined.name, start)]
            return [(one, defined.qualified) for one in above if one is not None]
        found: list[tuple[SymbolDefinition, str]] = []
        for below, place in self.finder.find_bases(start):
            lower, upper = self.definition_at(below), self.definition_at(place)
            found += [(upper, lower.qualified)] if upper is not None and lower is not None else []
        return found

    def implements_by_methods(self, defined: SymbolDefinition) -> bool:
        """Whether the language of a definition has types that implement each interface whose methods they have."""
        return any(map(self.finder.implements_by_methods, self.places_of([defined])))

    def is_common(self, name: str) -> bool:
        """Whether so many files define a name that they are not all parsed for one question."""
        return len(self._files_defining(name)) > FILES_PARSED_MAX

    def _members_named(self, owner: SymbolDefinition, name: str) -> list[SymbolDefinition]:
        wanted = f"{owner.qualified}.{name}"
        return [one for one in self.definitions_of(owner.path) if one.qualified == wanted]

    def subclasses(self, base: SymbolDefinition) -> list[SymbolDefinition]:
        """Return the classes that name a class as their base."""
        paths = [self.snapshot.paths[file] for file in self._files_using(base.name)[:FILES_PARSED_MAX]]
        found = []
        for use in self._resolved_uses([base], paths, only_bases=True) or ():
            file = self.parses.syntax(use.path)
            if file is None or use.certainty == "possible":
                continue
            place = self.finder.subclass_at(file, use.start)
            if place is not None and (child := self.definition_at(place)) is not None:
                found.append(child)
        return found

    @cached_property
    def finder(self) -> ReferenceFinder:
        """The finder of references in this snapshot."""
        defining, holding = _hold_weakly(self._paths_defining), _hold_weakly(self.paths_with_word)
        files = ProjectFiles(self.parses.syntax, defining, self.paths, self.parses.load, holding, self._edges)
        return ReferenceFinder(files)

    def as_edge_project(self, mtime_ns: Callable[[str], int | None]) -> EdgeProject:
        """Return what the edges of other tools ask about the files."""
        return EdgeProject(self.parses.load, mtime_ns, self._paths_defining, self.locate)

    def locate(self, path: str, qualified: str) -> list[NamePlace]:
        """Return where a definition of a file has its name, by its qualified name."""
        outline, names = self.parses.outline(path)
        found = [symbol for symbol, name in zip(outline.symbols, names, strict=True) if name == qualified]
        return self.places_of([_as_definition(path, "", symbol, qualified) for symbol in found])

    def _paths_defining(self, name: str) -> list[str]:
        return [self.snapshot.paths[file] for file in self._files_defining(name)]

    def use_at(self, path: str, start: int, target: str) -> SymbolUse:
        """Return a call at an offset that certainly means a target, whatever is written there."""
        file = self.parses.syntax(path)
        line, column = file.position_of(start) if file is not None else (1, 1)
        return self._as_use_of(target, SymbolUse(path, start, start, line, column, "call", "exact"))

    def definition_around(self, use: SymbolUse) -> SymbolDefinition | None:
        """Return the definition whose body contains a use."""
        outline, qualified = self.parses.outline(use.path)
        for symbol, full in zip(outline.symbols, qualified, strict=True):
            if full == use.source and symbol.first <= use.line <= symbol.last:
                return _as_definition(use.path, "", symbol, full)
        return None

    def uses_in(self, path: str) -> list[SymbolUse]:
        """Return every call and type use in a file."""
        return [
            SymbolUse(path, start, start, line, column, kind, target=name)
            for start, name, line, column, kind in self.parses.references(path)
        ]

    def find_unresolved_lines(self, name: str) -> list[tuple[str, int]]:
        """Return the lines that have a name where names are not resolved: in a template, or in a string."""
        found: set[tuple[str, int]] = set()
        string = STRING % re.escape(name.encode("utf-8", "replace"))
        for path in (self.snapshot.paths[file] for file in self._files_using(name)[:FILES_PARSED_MAX]):
            data, is_template = self.parses.load(path), path.endswith(TEMPLATES)
            places = list(find_whole_words(data, name))
            if not is_template:
                around = ((place, data[max(0, place[0] - 70) : place[1] + 70]) for place in places)
                places = [place for place, text in around if re.search(string, text)]
            file = self.parses.syntax(path) if places else None
            if is_sensitive(path) or not (is_template or file is not None):
                continue
            for start, stop in places:
                node = file.node_at(start, stop) if file is not None else None
                if file is None or node is None or not (file.is_identifier(node) or "comment" in node.type):
                    found.add((path, data.count(b"\n", 0, start) + 1))
        return sorted(found)

    # -- files --

    def paths_under(self, under: str) -> list[str]:
        """Return the indexed files in a folder, or the one file, sorted."""
        return sorted(path for path in self.snapshot.paths if is_under(path, under))

    def definitions_of(self, path: str) -> list[SymbolDefinition]:
        """Return the definitions of an indexed file."""
        return list(self._definitions_in(self.snapshot.by_path[path])) if path in self.snapshot.by_path else []

    def paths_with_word(self, name: str) -> list[str]:
        """Return the files whose text has a name."""
        word = name.encode("utf-8", "replace")
        paths = (self.snapshot.paths[file] for file in self._files_using(name))
        return [path for path in paths if word in self.parses.load(path)]

    def _files_using(self, name: str) -> list[int]:
        """Return files whose words can spell the name, from the postings."""
        terms = expand_words([name.lstrip("#")])[0][-1:] or [compound_term(name)]
        chunks = self.snapshot.matches("body", term_hashes(terms)).docs
        return np.unique(self.snapshot.chunk_file[chunks]).tolist()

    # -- imports --

    def imports(self, path: str) -> list[tuple[str, int, list[str]]]:
        """Return the imports as `ParsedFileCache.imports`, for a file of the snapshot."""
        return self.parses.imports(path, self.paths) if path in self.snapshot.by_path else []

    def importers(self, path: str) -> list[tuple[str, str, int]]:
        """Return (file, target as written, line) of each import of this file."""
        others = (one for one in self._may_import(path) if one != path)
        return [
            (other, target, line) for other in others for target, line, files in self.imports(other) if path in files
        ]

    def importers_as_indexed(self, path: str) -> list[str]:
        """Return the files whose stored imports mean this file.

        Nothing is parsed, so this takes milliseconds where `importers` takes seconds, but it does not resolve
        `from package import`.
        """
        return [other for other in self._may_import(path) if other != path and path in self.imported_files(other)]

    def imported_files(self, path: str) -> frozenset[str]:
        """Return the files that a file's stored imports mean; they are kept, as a snapshot never changes."""
        known = self._imported.get(path)
        if known is None:
            known = self._imported[path] = self._resolve_stored_imports(path)
        return known

    def _resolve_stored_imports(self, path: str) -> frozenset[str]:
        file = self.snapshot.by_path[path]
        name = self.snapshot.languages[int(self.snapshot.file_column("language")[file])]
        language = self.parses.languages.get(name)
        if language is None:
            return frozenset()
        targets = {target for target, _ in self.stored_outline(file).imports}
        meant = (resolve_import(language, path, target, self.paths) for target in targets)
        return frozenset(chain.from_iterable(meant))

    def _may_import(self, path: str) -> Iterable[str]:
        """Return files that contain the file's name, or its folder's for a package's main file."""
        parts = path.split("/")
        stem = parts[-1].partition(".")[0]
        names = {stem}
        if stem in ("__init__", "index", "mod", "lib", "main", "init") and len(parts) > 1:
            names = {parts[-2]}
        if path.endswith(".go") and len(parts) > 1:
            names.add(parts[-2])
        terms = [term for word in split_words(" ".join(names)) for term in expand_words([word])[0][-1:]]
        chunks = self.snapshot.matches("body", term_hashes(terms)).docs
        return [self.snapshot.paths[file] for file in np.unique(self.snapshot.chunk_file[chunks]).tolist()]

    @cached_property
    def paths(self) -> PathIndex:
        """All living files, for resolving imports."""
        return PathIndex(self.snapshot.by_path)


def _hold_weakly(method: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Return a function that calls a method of the graph and does not keep the graph alive.

    The finder belongs to the graph. If it kept the graph, the files of a deleted index would stay open until the next
    collection of cycles.
    """
    reference = WeakMethod(method)

    def call(name: str) -> list[str]:
        alive = reference()
        return alive(name) if alive is not None else []

    return call


def _as_definition(path: str, language: str, symbol: Symbol | StoredSymbol, qualified: str) -> SymbolDefinition:
    span = LineSpan(symbol.first, symbol.last)
    return SymbolDefinition(path, language, symbol.name, qualified, symbol.kind, span, symbol.line)


def _name_test(pattern: str) -> Callable[[str], bool]:
    """Return a test whether a name is the one of a pattern, whatever its case and underscores; or fits a glob."""
    if any(mark in pattern for mark in "*?["):
        return lambda name: fnmatchcase(name, pattern) or fnmatchcase(name.lower(), pattern.lower())
    folded = compound_term(pattern)
    return lambda name: name == pattern or compound_term(name) == folded


def _owner_fits(qualified: str, owner: str) -> bool:
    """Whether a definition is in an owner; outside of its class it may name less of the path: `Type::method`."""
    above, asked = f".{qualified.rpartition('.')[0]}".lower(), f".{owner}".lower()
    return above.endswith(asked) or (above != "." and asked.endswith(above))
