"""Uses that no longer fit: two states of a project, and the meaning of a name in each.

Only what is sure is reported. A name that is gone must have meant the definition for certain before the change, on a
line that the change left alone, and mean nothing after it. A call must have one definition that it can mean. A new name
is only reported if it is spelled nearly as one that is there, and occurs nowhere else.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from context_engine.languages import SyntaxFile, SyntaxNode, find_whole_words
from context_engine.references.call_signatures import CallSignature, read_arguments, read_signature
from context_engine.references.nodes import NO_NODE, get, up
from context_engine.references.project_files import ProjectFiles
from context_engine.references.reference_finder import ReferenceFinder, call_of, find_kind, offset_of
from context_engine.references.resolver import function_node
from context_engine.references.values import NamePlace, Values

ALIKE = 0.75
"""The share of letters that a misspelt name has in common with the one that was meant."""
NEAR_MAX = 8
WORD = re.compile(rb"#?[^\W\d]\w{2,}")
NAME_CHARS_MIN = 3
"""Shorter names are too common to be followed."""
FILES_MAX = 200
"""A name in more files is too common to be followed."""
HANDS_ON = re.compile(rb"import \*|__getattr__|export \*|module\.exports|globals\(\)")
"""A module with one of these may export names that it does not contain."""
DYNAMIC = re.compile(
    rb"\b(?:setattr\(\w+,|vars\(|new Proxy\b|definePropert|Object\.assign)|__getattr|__dict__(?:\.up|\S{0,40} = )"
)
"""A file with one of these may give objects members that it does not show."""


class ChangedSource(NamedTuple):
    """A file of a change: its path before, the lines before of unchanged lines, the added lines.

    `old_names` and `new_names` are the lines of its definitions by qualified name.
    """

    old_path: str
    unchanged: Mapping[int, int]
    added: frozenset[int]
    old_names: Mapping[str, int]
    new_names: Mapping[str, int]


class BrokenUse(NamedTuple):
    """A use at path:line that does not fit, with the reason.

    `changed_path` is the file of the change that breaks it, and empty where the use itself is new; `changed_line` is
    that of the definition there, and 0 where it is gone.
    """

    path: str
    line: int
    name: str
    reason: str
    changed_path: str = ""
    changed_line: int = 0


class _Definition(NamedTuple):
    """A definition that a change removed, or whose arguments it changed; `name` is what its uses are called."""

    name: str
    place: NamePlace
    changed_path: str
    new_line: int = 0

    @property
    def is_gone(self) -> bool:
        """Whether nothing has its qualified name any more."""
        return not self.new_line


class UseComparison:
    """Compares what names mean before and after a change. `changed` are its files by their new paths."""

    def __init__(self, before: ProjectFiles, after: ProjectFiles, changed: Mapping[str, ChangedSource]) -> None:
        self._files, self._old_files = after, before
        self._new, self._old = ReferenceFinder(after), ReferenceFinder(before)
        self._changed = changed

    def find(self) -> Iterator[BrokenUse]:
        """Yield the uses that the change breaks, and those that it adds and that cannot work."""
        for definition in self._changed_definitions():
            paths = self._files.holding(definition.name)
            if len(paths) <= FILES_MAX:
                for path in paths:
                    yield from self._find_broken(path, definition)
        for path, source in self._changed.items():
            file = self._files.read(path)
            if file is not None and source.added:
                yield from self._find_wrong(file, source.added)

    # -- definitions --

    def _changed_definitions(self) -> Iterator[_Definition]:
        for path, source in self._changed.items():
            old_file = self._old_files.read(source.old_path)
            constructors = old_file.rules.constructors[:1] if old_file is not None else ()
            kept = frozenset(source.unchanged.values()) if path == source.old_path else ()
            for qualified, line in source.old_names.items():
                owner, _, name = qualified.rpartition(".")
                place = self._old.place_of(source.old_path, name, line) if len(name) >= NAME_CHARS_MIN else None
                new_line = source.new_names.get(qualified, 0) if path == source.old_path else 0
                if place is None:
                    continue
                if new_line:
                    new_place = self._new.place_of(path, name, new_line)
                    if new_place and self._signature_at(self._old, place) != self._signature_at(self._new, new_place):
                        if name in constructors and owner in source.old_names:  # it is called by the name of its class
                            name = owner.rpartition(".")[2]
                            place = self._old.place_of(path, name, source.old_names[owner]) or place
                        yield _Definition(name, place, path, new_line)
                elif line not in kept and not self._is_written_again(name):  # on a kept line it is only not understood
                    yield _Definition(name, place, path)

    def _is_written_again(self, name: str) -> bool:
        """Whether an added line has a name: it may define it in a way that is not understood."""
        return any(
            any(find_whole_words(line, name))
            for path, source in self._changed.items()
            for line in _lines_of(self._files.load(path), source.added)
        )

    def _signature_at(self, finder: ReferenceFinder, place: NamePlace) -> CallSignature | None:
        """Return what a call of the definition at a place has to pass: of a class, what its constructor takes."""
        files = self._old_files if finder is self._old else self._files
        found = files.binding_at(place)
        if found is not None and found[1].role == "class" and (names := found[0].rules.constructors):
            made, *others = (finder.resolver.members.own(place, one) for one in names)
            is_marked = bool(get(found[1].statement, "<decorated_definition"))
            found = files.binding_at(made[0]) if len(made) == 1 and not any(others) and not is_marked else None
        function = function_node(*found) if found is not None else None
        if found is None or not function:
            return None
        own = NamePlace(found[0].path, found[1].node.start_byte)
        is_bound = found[0].rules.first_is_self and finder.is_member(own)
        return read_signature(found[0], function, is_bound=is_bound)

    # -- uses of what changed --

    def _find_broken(self, path: str, definition: _Definition) -> Iterator[BrokenUse]:
        file = self._files.read(path)
        source = self._changed.get(path)
        old_file = self._old_files.read(source.old_path if source is not None else path)
        style = self._new.resolver.style
        if file is None or old_file is None or style(file) is not style(old_file):
            return
        for node in file.find(definition.name):
            line, column = file.position(node)
            old_line = source.unchanged.get(line, 0) if source is not None else line
            if not old_line or find_kind(file, node) == "definition":
                continue
            start = offset_of(old_file.data, old_line, column)
            old_node = next((one for one in old_file.find(definition.name) if one.start_byte == start), None)
            meaning = self._old.meaning(old_file, old_node) if old_node is not None else None
            if old_node is None or meaning is None or meaning.places != (definition.place,) or not meaning.is_sure:
                continue
            if _has_type_arguments(old_node) and not self._is_generic(definition):
                continue
            if definition.is_gone:
                reason = f"{definition.name} is gone" if self._means_nothing(file, node, definition) else ""
            else:
                reason = self._refusal(self._new, file, node)
                reason = reason if not self._refusal(self._old, old_file, old_node) else ""
            if reason:
                cause = definition.changed_path, definition.new_line
                yield BrokenUse(path, line, definition.name, reason, *cause)

    def _is_generic(self, definition: _Definition) -> bool:
        """Whether a definition has type parameters: C# may have another one of its name, which has some."""
        path, start = definition.place
        return self._old_files.load(path)[start + len(definition.name.encode()) :].lstrip()[:1] in (b"<", b"[")

    def _means_nothing(self, file: SyntaxFile, node: SyntaxNode, definition: _Definition) -> bool:
        """Whether a name that meant something of the project means nothing any more."""
        meaning, resolver = self._new.meaning(file, node), self._new.resolver
        if meaning.places:
            return False
        holder = _holder_of(file, node)
        if holder:
            return meaning.is_known and _is_inside(resolver.values(file, holder))
        source = self._changed.get(file.path)
        bound = resolver.visible_bindings(file, file.text(node), node.start_byte)
        if bound and HANDS_ON.search(self._files.load(definition.changed_path)):
            return False
        lines = [file.position(one.node)[0] for one in bound if one.role == "import"]
        return len(lines) == len(bound) and all(source is None or line in source.unchanged for line in lines)

    def _refusal(self, finder: ReferenceFinder, file: SyntaxFile, node: SyntaxNode) -> str:
        """Return why none of the definitions that a call may mean takes its arguments; empty if one may take them."""
        call = call_of(file, node, "call")
        arguments = read_arguments(file, call) if call else None
        meaning = finder.meaning(file, node) if arguments is not None else None
        if arguments is None or meaning is None or not meaning.places or not meaning.is_sure:
            return ""
        holder = _holder_of(file, node)
        if holder and meaning.is_member and file.rules.methods_of_types:
            values = finder.resolver.values(file, holder)
            if not all(value.kind == "instance" for value in values):
                return ""
        overloads = file.rules.overloads  # a base that is not known may have one that fits
        if any(map(finder.has_unknown_base, meaning.places)) if overloads else len(meaning.places) > 1:
            return ""
        signatures = [self._signature_at(finder, place) for place in meaning.places]
        reasons = [one.refuses(arguments) if one is not None else "" for one in signatures]
        return reasons[0] if all(reasons) else ""

    # -- uses that are new --

    def _find_wrong(self, file: SyntaxFile, added: frozenset[int]) -> Iterator[BrokenUse]:
        nodes = [node for node in _identifiers_on(file, added) if find_kind(file, node) not in ("definition", "import")]
        for node in nodes:
            line, name = file.position(node)[0], file.text(node)
            if reason := self._refusal(self._new, file, node):
                yield BrokenUse(file.path, line, name, reason)
            elif len(name) > NAME_CHARS_MIN and (meant := self._misspells(file, node, added)):
                yield BrokenUse(file.path, line, name, f"nothing has this name; {meant} does")

    def _misspells(self, file: SyntaxFile, node: SyntaxNode, added: frozenset[int]) -> str:
        """Return the name that a new name without a definition was meant to be; empty if it may have a definition."""
        name, resolver = file.text(node), self._new.resolver
        if any(file.position_of(start)[0] not in added for start, _ in file.words(name)):
            return ""
        holder = _holder_of(file, node)
        values = resolver.values(file, holder) if holder else ()
        meaning = self._new.meaning(file, node)
        if holder:
            is_unknown = meaning.is_known and _is_inside(values)
        else:
            is_unknown = "names" in file.rules.checked and node.type == "identifier"
            is_unknown = is_unknown and name not in file.rules.builtins
            is_unknown = is_unknown and not resolver.visible_bindings(file, name, node.start_byte)
        if not is_unknown or meaning.places or any(path != file.path for path in self._files.holding(name)):
            return ""
        texts = [self._files.load(path) for path in {file.path, *(value.place.path for value in values)}]
        words = {word.decode("utf-8", "replace") for text in texts for word in WORD.findall(text)}
        for near in difflib.get_close_matches(name, sorted(words - {name}), NEAR_MAX, ALIKE):
            meant = resolver.name_meaning(file, near, node.start_byte)
            is_there = all(resolver.member_places(value, near)[0] for value in values)
            if is_there if holder else (meant.is_known or meant.places):
                return "" if holder and any(map(DYNAMIC.search, texts)) else near
        return ""


def _lines_of(data: bytes, numbers: frozenset[int]) -> Iterator[bytes]:
    lines = data.split(b"\n")
    return (lines[number - 1] for number in numbers if number <= len(lines))


def _has_type_arguments(node: SyntaxNode) -> bool:
    return (node.next_sibling or NO_NODE).type.startswith("type_arg")


def _holder_of(file: SyntaxFile, node: SyntaxNode) -> SyntaxNode:
    """Return what a member is looked up in."""
    fields = file.role_fields(up(node), "member")
    return get(up(node), fields[0]) if fields and get(up(node), fields[1]) == node else NO_NODE


def _is_inside(values: Values) -> bool:
    """Whether all that an expression may be is of the project."""
    return bool(values) and all(value.kind in ("class", "instance", "module", "folder") for value in values)


def _identifiers_on(file: SyntaxFile, lines: frozenset[int]) -> Iterator[SyntaxNode]:
    waiting = [file.root]
    while waiting:
        node = waiting.pop()
        if not any(line in lines for line in range(node.start_point[0] + 1, node.end_point[0] + 2)):
            continue
        if file.is_identifier(node):
            yield node
        waiting += reversed(node.named_children)
