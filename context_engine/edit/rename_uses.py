"""Which places of a name mean the definition that is to be renamed, which may, and which mean something else.

A place is certain when scopes and imports lead from it to the definition, with nothing in between that might give the
name another meaning; anything that is not understood counts as such. A member is certain by the types that `find_uses`
resolves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from posixpath import dirname

from context_engine.edit.rename_sources import (
    BINDING,
    CALLED,
    HOLDERS,
    PARAMETER,
    NameOccurrence,
    RenameFiles,
    RenameSource,
    Target,
    UseCertainties,
    last_part,
)
from context_engine.languages import Occurrence, Symbol

EVERYTHING = "all"
"""The word for accepting all places that may be meant in code."""
TOGETHER = (frozenset({"java", "kotlin", "scala", "groovy"}),)
"""Languages whose files use one another's definitions by name."""
WORTH_A_LOOK = "it may be meant all the same"
_BARE_IMPORT = re.compile(r"\s*(?:import\s+)?[\"`]")
ELSE = "-"
"""The place means something else for certain."""
PROSE = {"string": "in a string", "comment": "in a comment", "text": "in text", "macro": "handed to a macro"}


BY_TYPES = {
    "definition": "",
    "exact": "",
    "other": ELSE,
    "outside": "",
    "likely": "nothing else has the name, but the type of its owner is not known",
    "shared": "its owner may be of another class that has the name as well",
    "possible": "the type of its owner is not known",
    "": "what it means is not known",
}
"""Why a place is not certain, by what is resolved, in languages whose names are judged by types alone."""


VALUES = frozenset({"constant", "variable"})
OUTSIDE = {"go": "an interface that is not in the workspace may require it"}
"""A member that overrides nothing in the workspace may still do so for something outside of it."""


class UseClassifier:
    """Decides for every place of a name whether it means the target of a rename."""

    def __init__(
        self,
        files: RenameFiles,
        target: Target,
        sources: Iterable[RenameSource],
        accept: Sequence[str] = (),
        uses: UseCertainties | None = None,
    ) -> None:
        self.target = target
        self._accept = frozenset(accept)
        self._uses = uses
        self.sources = {source.path: source for source in sources if source.found}
        self._files = files
        self._linked = {target.source.path}
        self._link()

    @cached_property
    def judgements(self) -> list[tuple[RenameSource, Occurrence, str]]:
        """Every place, and why it is not certain."""
        rows = [(source, at, self.why_not(source, at)) for source in self.sources.values() for at in source.found]
        return [(source, at, "" if self._is_accepted(source, at, why) else why) for source, at, why in rows]

    def _is_accepted(self, source: RenameSource, at: Occurrence, why: str) -> bool:
        """Return whether the caller wants an uncertain place to be changed as well."""
        if why in ("", ELSE):
            return False
        is_named = {f"{source.path}:{at.line}", f"{source.path}:{at.line}:{at.column}"} & self._accept
        return bool(is_named) or (EVERYTHING in self._accept and self._is_open(source, at))

    def _is_open(self, source: RenameSource, at: Occurrence) -> bool:
        own = self.target.source
        if source.unparsed and not source.is_by_types:
            return False
        if source.family != own.family:
            is_reached = any({source.family, own.family} <= group for group in TOGETHER) and not self.target.is_private
            return is_reached and at.role not in PROSE
        if own.is_by_types:
            is_code = at.role not in ("string", "comment") or (source.has_errors and at.role == "string")
            return is_code or self._is_callable_text(source, at)
        if at.role == "string" and own.family == "javascript":
            return self.target.is_member and _is_key(source, at)
        return at.role not in PROSE or (at.role == "macro" and own.family == "rust")

    def _is_callable_text(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a string of PHP names a function that is handed over, or a comment one that a test uses."""
        line = source.content.lines[at.line - 1]
        before, after = line[: at.column - 1], line[at.column - 1 + len(self._name) :]
        if source.family != "php" or self.target.symbol.kind not in CALLED:
            return source.family == "php" and at.role == "comment" and self._is_documented_type(source, at)
        if at.role == "comment":
            return re.search(r"@(?:dataProvider|depends)\s+(?:[\w\\]{0,200}::)?$", before) is not None
        is_handed_over = re.search(r"(?:[,(]\s*|::)['\"]?$", before) is not None
        return is_handed_over and re.match(r"['\"]\s*[\],)]", after) is not None

    def sure(self) -> dict[str, list[Occurrence]]:
        """Return the places that certainly mean the target, by file; files without any are left out."""
        found: dict[str, list[Occurrence]] = {}
        for source, at, why in self.judgements:
            if not why:
                found.setdefault(source.path, []).append(at)
        return found

    def find_uncertain(self) -> Iterator[NameOccurrence]:
        """Yield the places that may mean the target, with the reason for the doubt."""
        for source, at, why in self.judgements:
            if why not in ("", ELSE):
                yield replace(source.place(at, why), is_open=self._is_open(source, at))

    def count_others(self) -> int:
        """Count the places that mean something else for certain."""
        return sum(why == ELSE for _, _, why in self.judgements)

    def find_doubts(self) -> Iterator[NameOccurrence]:
        """Yield the definitions that something may call which is not in the files, as places that wait."""
        for source, at, why in self.judgements if self._uses else ():
            certainty = (self._uses or {}).get((source.path, at.line, at.column), "")
            if why == "" and certainty == "outside" and not self.target.is_private:
                doubt = OUTSIDE.get(source.family, "it may override a member of a base that is not in the workspace")
                yield replace(source.place(at, doubt), is_open=True)
        source, symbol = self.target.source, self.target.symbol
        if source.is_by_types and source.has_errors and symbol.parent < 0 and symbol.kind not in HOLDERS:
            doubt = "the parser does not understand all of its file: it may be a member"
            yield replace(source.place(self.target.names[0], doubt), is_open=True)
        if doubt := self.target.why_reserved:
            yield replace(self.target.source.place(self.target.names[0], doubt), is_open=True)

    def why_not(self, source: RenameSource, at: Occurrence) -> str:
        """Return why a place is not certain; empty when it is, `ELSE` when it certainly means something else."""
        target = self.target
        if at in target.names and source is target.source and not target.source.is_by_types:
            return ""
        is_local = not target.is_member and target.owner is not None and not target.source.is_by_types
        if is_local and target.owner is not None and not self._is_beside(source, at, target.owner):
            return ELSE
        if target.source.is_by_types and source.family == target.source.family:
            return self._by_types(source, at)
        if at.role == "macro" and source.family == "rust":
            certainty = (self._uses or {}).get((source.path, at.line, at.column), "")
            return BY_TYPES[certainty] if certainty else PROSE["macro"]
        if at.role in PROSE:
            return PROSE[at.role]
        if source.unparsed or source.family != target.source.family:
            return source.unparsed or f"in {source.language.name if source.language else 'another language'}"
        if target.is_member:
            return self._member_of_target(source, at)
        if source.family == "go" and at.role in ("label", "member"):
            return self._judge_go(source, at)
        if at.role == "label":
            return ELSE
        if at.role == "member":
            return self._member(source, at)
        return self._plain(source, at)

    def _judge_go(self, source: RenameSource, at: Occurrence) -> str:
        """Judge a key of a literal, and a member: the key of a map, or the field that embeds a type."""
        certainty = (self._uses or {}).get((source.path, at.line, at.column), "")
        if certainty != "":
            return BY_TYPES[certainty]
        if at.role == "member":
            return self._member(source, at)
        may_be_key = self.target.symbol.kind in VALUES and self._may_see(source)
        return "it may be a key of a map" if may_be_key else ELSE

    def _may_see(self, source: RenameSource) -> bool:
        """Return whether a file of Go can have a name of the target's package by itself."""
        own = self.target.source
        return dirname(source.path) == dirname(own.path) and source.package == own.package

    def _is_beside(self, source: RenameSource, at: Occurrence, owner: Symbol) -> bool:
        """Return whether a place is inside of what a local definition is inside of."""
        return source is self.target.source and owner.start <= at.start < owner.stop

    def _by_types(self, source: RenameSource, at: Occurrence) -> str:
        """Judge a place by what is resolved alone: a place about which nothing is known waits."""
        certainty = (self._uses or {}).get((source.path, at.line, at.column), "")
        if certainty == "" and at.role == "comment" and source.family == "php" and self._is_documented_type(source, at):
            return self._judge_documented_type(source)
        if certainty == "" and at.role in PROSE:
            return PROSE[at.role]
        return BY_TYPES[certainty]

    def _is_documented_type(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a comment of PHP names a class as a type: `@param Cat[] $cats`."""
        before = source.content.lines[at.line - 1][: at.column - 1]
        is_type = self.target.symbol.kind in HOLDERS and re.search(r"@[\w-]+\s[^$]*$", before) is not None
        return is_type and not before.endswith(("\\", "$", "::"))

    def _judge_documented_type(self, source: RenameSource) -> str:
        """Judge a type in a comment, which means what the code of its file means by the name."""
        found = {(self._uses or {}).get((source.path, at.line, at.column), "") for at in source.found}
        known = found & {"definition", "exact", "other"}
        if known == {"other"}:
            return ELSE
        return "" if known and "other" not in known else "a comment gives it as a type"

    # -- names by themselves --

    def _plain(self, source: RenameSource, at: Occurrence) -> str:
        """Judge a plain name, which means what the innermost scope that binds it means by it."""
        if at.role == "import" and at.is_renamed:
            if self._is_linked(source, at):
                return ""
            return ELSE if self._is_known(source, at) else "imported from elsewhere"
        bound = source.bindings
        scope = next((candidate for candidate in at.scopes if candidate in bound), None)
        scope = scope or (None if None in bound else False)  # None is the file itself
        if scope is False:
            return self._unbound(source)
        strange = [other for other in bound[scope] if not self._is_linked(source, other)]
        if not strange:
            return ""
        if all(self._is_known(source, other) for other in bound[scope]):
            return ELSE
        return f"line {strange[0].line} may give the name another meaning"

    def _is_known(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a place certainly gives the name another meaning than the target's, in all of its scope."""
        if self._is_linked(source, at):
            return False
        if at.role == "import":
            files = self._files.find_import_targets(source, at.lines, self._name)
            return bool(files) and all(self._defines(path) for path in files)
        return at.role == "binding" or (not at.scopes and at.line in self._defined_lines(source))

    def _defines(self, path: str) -> bool:
        """Return whether a file defines the name itself, and only so."""
        source = self.sources.get(path)
        outer = []
        if source is not None and source is not self.target.source:
            outer = source.bindings.get(None, [])
        return source is not None and bool(outer) and all(at.line in self._defined_lines(source) for at in outer)

    def _defined_lines(self, source: RenameSource) -> set[int]:
        """Return the lines on which a file defines the name for all of itself."""
        return {defined.line for defined in source.outline.symbols if defined.name == self._name and defined.parent < 0}

    def _unbound(self, source: RenameSource) -> str:
        """Judge a name that its file does not bind: it comes from the package, or from an unknown place."""
        own = self.target.source
        together = dirname(source.path) == dirname(own.path) and source.package == own.package
        if source.family == "go":
            return "" if together else ELSE
        same = source.family == "java" and source.package == own.package != "" and self.target.is_only
        return "" if same else "not imported by name"

    # -- imports --

    def _is_linked(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a place that binds the name is the target, or imports it."""
        if source is self.target.source and at in self.target.names:
            return True
        if at.role != "import" or self.target.owner is not None or self._takes_module(source, at):
            return False
        files = self._files.find_import_targets(source, at.lines, self._name)
        return bool(files) and all(path in self._linked or self._passes_on(path) for path in files)

    def _takes_module(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether an import may take the file of the target, where that has the same name."""
        if self.target.module != self._name or source.family not in ("python", "rust"):
            return False
        targets = [
            imported.target for imported in source.outline.imports if at.lines[0] <= imported.line <= at.lines[1]
        ]
        return source.family != "python" or not all(last_part(target) == self._name for target in targets)

    @property
    def _name(self) -> str:
        return self.target.symbol.name

    def _passes_on(self, path: str) -> bool:
        """Return whether a file that does not contain the name can only re-export another file."""
        found = ()
        if path in self.sources:
            found = self.sources[path].found
        return self.target.is_only and all(at.role in PROSE for at in found)

    def _link(self) -> None:
        """Find the files that have the name from the target, directly or through others."""
        grew = True
        while grew:
            grew = False
            for path, source in self.sources.items():
                outer = source.bindings.get(None, ())
                if path not in self._linked and outer and all(self._is_linked(source, at) for at in outer):
                    self._linked.add(path)
                    grew = True

    # -- members --

    def _member(self, source: RenameSource, at: Occurrence) -> str:
        """Judge a name that is looked up in something, which may be the module of the target."""
        if at.of_itself or self.target.owner is not None:
            return ELSE
        if at.kind == "field_identifier" and source.family == "rust":
            return ELSE  # a field or a method; what a module holds is looked up in another way
        if source.family == "go":
            return self._in_package(source, at) if at.owner else ELSE
        if not at.owner:
            return "looked up in something that is not known"
        if source.family == "rust":
            if at.owner == self.target.module and self.target.is_only:
                return ""
            return f"looked up in {at.owner}"
        bindings = [place for place in self._files.places(source, at.owner) if place.role in BINDING]
        around = [binding for binding in bindings if not binding.scopes or binding.scopes[0] in at.scopes]
        files = [path for binding in around for path in self._files.find_import_targets(source, binding.lines)]
        if len(around) == 1 and files == [self.target.source.path] and self._is_module(source, around[0]):
            return ""
        return f"looked up in {at.owner}"

    def _is_module(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a binding in an import of the target's file is that file itself, not something out of it."""
        line = source.content.lines[at.line - 1]
        if source.family == "javascript":
            return bool(re.search(r"\*\s*as\s+$", line[: at.column - 1]))
        return source.family == "python" and self.target.module == source.data[at.start : at.stop].decode(
            "utf-8", "replace"
        )

    def _in_package(self, source: RenameSource, at: Occurrence) -> str:
        """Judge a member of a Go package."""
        places = self._files.places(source, at.owner)
        if any(
            place.role in ("binding", "unknown") and (not place.scopes or place.scopes[0] in at.scopes)
            for place in places
        ):
            if not self._imports_package(source, at.owner, places):
                return ELSE
            return f"{at.owner} may mean something else here"
        if self._imports_package(source, at.owner, places):
            return ""
        return ELSE

    def _imports_package(self, source: RenameSource, owner: str, places: Iterable[Occurrence]) -> bool:
        """Return whether a file imports the package of the target under this name."""
        own = self.target.source
        for target, line in self._files.packages(source, dirname(own.path)):
            if any(place.role == "import" and place.line == line for place in places):
                return True
            is_bare = _BARE_IMPORT.match(source.content.lines[line - 1])
            if is_bare and owner == own.package and target:
                return True
        return False

    # -- a target that is itself a member --

    def _member_of_target(self, source: RenameSource, at: Occurrence) -> str:
        if self._uses is not None:
            return self._judge_resolved(source, at, self._uses.get((source.path, at.line, at.column), ""))
        symbol, owner = self.target.symbol, self.target.owner
        same_file = source is self.target.source
        if at.role == "member" and at.of_itself and self._in_same_type(source, at):
            if self.target.is_only or source.family == "go":
                return ""
            return "others are named so, and may take its place"
        if at.role == "member":
            own = symbol.owner or (owner.name if owner else "")
            if at.owner == own and same_file and self.target.is_only:
                return ""
            if at.owner:
                return f"looked up in {at.owner}"
            return "looked up in something that is not known"
        if at.role == "label":
            return "names a part of something"
        if source.family == "java" and at.role == "read":
            inside = owner is not None and same_file and owner.start <= at.start < owner.stop
            bound = [place for places in source.bindings.values() for place in places if place not in self.target.names]
            return "" if inside and self.target.is_only and not bound else WORTH_A_LOOK
        if at.role == "import":
            return WORTH_A_LOOK
        return ELSE

    def _judge_resolved(self, source: RenameSource, at: Occurrence, certainty: str) -> str:
        """Judge a place by what is resolved, in a language with rules for scopes."""
        is_parameter = self.target.symbol.kind == PARAMETER
        is_looked_up = at.role == "member" or (at.role == "label" and source.family == "go")
        if certainty == "" and (is_parameter or not is_looked_up):
            return ELSE
        if certainty == "possible" and is_parameter:
            return "a caller may name it"
        return BY_TYPES[certainty]

    def _in_same_type(self, source: RenameSource, at: Occurrence) -> bool:
        """Return whether a place is inside the type of the target, and not in one inside of it."""
        symbols = source.outline.symbols
        around = [number for number, candidate in enumerate(symbols) if candidate.start <= at.start < candidate.stop]
        if self.target.symbol.owner:
            same = [symbols[number] for number in around if symbols[number].owner == self.target.symbol.owner]
            return bool(same) and dirname(source.path) == dirname(self.target.source.path)
        types = [number for number in around if symbols[number].kind in HOLDERS]
        return source is self.target.source and bool(types) and types[-1] == self.target.symbol.parent


_BEFORE_KEY = re.compile(r"(?:[\[<|]|<[^<>()]{0,200},)\s*['\"`]$")
_AFTER_KEY = re.compile(r"['\"`]\s*(?:\]|>|\||in\b)")


def _is_key(source: RenameSource, at: Occurrence) -> bool:
    """Return whether a string of JavaScript names a property: `a["name"]`, `Pick<A, "name">`, `"name" in a`."""
    line = source.content.lines[at.line - 1]
    before, after = (
        line[: at.column - 1],
        line[at.column - 1 + len(source.data[at.start : at.stop].decode("utf-8", "replace")) :],
    )
    if before[-1:] not in ("'", '"', "`") or after[:1] != before[-1:]:
        return False
    return bool(_BEFORE_KEY.search(before) or _AFTER_KEY.match(after))
