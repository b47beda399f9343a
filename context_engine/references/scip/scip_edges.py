"""The edges of a SCIP index for the files as they are now: ranges as offsets, symbols as the places of definitions.

A file that changed since the index was made has no edges; a definition in one is found again by its qualified name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from context_engine.references.scip.scip_document import (
    UTF8,
    UTF32,
    ScipDocument,
    owner_of,
    package_of,
    symbol_names,
)
from context_engine.references.scip.scip_index import ScipIndex
from context_engine.references.values import ExternalEdge, NamePlace

NAMES_KEPT = 300_000
"""Names of decoded documents in memory, at about 300 bytes each."""
SAME_NAMES_MIN = 0.5
"""Share of the names of an unchanged file that are written as their symbol; the others are aliases and modules."""
CONSTRUCTORS = ("<constructor>", "<init>")
"""Names that indexers give a constructor; `new Cart()` means it and its class."""
ORIGIN = "scip"


class EdgeProject(NamedTuple):
    """The files of the project at one question.

    `read` returns the bytes of a file; `mtime_ns` when it was modified; `defining` the files that define a name;
    `locate` the places of a definition by its file and qualified name.
    """

    read: Callable[[str], bytes]
    mtime_ns: Callable[[str], int | None]
    defining: Callable[[str], Sequence[str]]
    locate: Callable[[str, str], Sequence[NamePlace]]


class LocatedName(NamedTuple):
    """A name in bytes, with its symbol."""

    start: int
    stop: int
    symbol: str
    is_definition: bool


class _File(NamedTuple):
    """A file with the document of it. `names` are empty if the file has changed."""

    data: bytes
    document: ScipDocument
    names: dict[int, tuple[LocatedName, ...]]
    definitions: dict[str, list[int]]
    is_current: bool


class ScipEdges:
    """The edges of one index. Not thread-safe: one question at a time."""

    def __init__(self, index: ScipIndex, project: EdgeProject, prefix: str = "") -> None:
        """Take the folder that was indexed, as `prefix` of the paths, with its slash."""
        self._index = index
        self._project = project
        self._prefix = prefix
        self._files: dict[str, _File] = {}
        self._kept = 0
        self._targets: dict[str, tuple[NamePlace, ...]] = {}
        self._packages: set[str] = set()
        self.changed: set[str] = set()

    def begin(self, project: EdgeProject) -> None:
        """Forget which files were asked about, and where definitions are: files may have changed."""
        self._project = project
        self.changed = set()
        self._targets.clear()

    def edge_at(self, path: str, data: bytes, start: int) -> ExternalEdge | None:
        """Return what the name at an offset means; None if the index does not say it. A definition has no edge."""
        file = self._file(path, data)
        names = file.names.get(start, ()) if file is not None else ()
        if not names or any(name.is_definition for name in names):
            return None
        targets = dict.fromkeys(place for name in names for place in self._places_of(name.symbol, path))
        if targets or all(self._is_outside(name.symbol) for name in names):
            return ExternalEdge(path, start, names[0].stop, tuple(targets), ORIGIN)
        return None

    def edges_to(self, path: str, data: bytes, targets: frozenset[NamePlace]) -> list[ExternalEdge]:
        """Return the names in a file that mean one of some definitions."""
        file = self._file(path, data)
        if file is None or not file.names:
            return []
        symbols = {symbol for place in targets for symbol in self._symbols_at(place)}
        found: list[ExternalEdge] = []
        for start, names in file.names.items():
            if not any(name.is_definition for name in names) and any(name.symbol in symbols for name in names):
                found.append(ExternalEdge(path, start, names[0].stop, tuple(sorted(targets)), ORIGIN))
        return found

    def find_implementing(self, place: NamePlace) -> list[NamePlace]:
        """Return the definitions that implement or override the one at a place, or a definition that does so."""
        found: dict[NamePlace, None] = {}
        waiting = list(self._symbols_at(place))
        seen = set(waiting)
        while waiting:
            symbol = waiting.pop()
            for path in self._index.find_describing(symbol):
                document = self._index.read(path)
                for child, base in document.relations if document is not None else ():
                    if base == symbol and child not in seen:
                        seen.add(child)
                        waiting.append(child)
                        found.update(dict.fromkeys(self._places_of(child, self._prefix + path)))
        return list(found)

    # -- symbols --

    def _symbols_at(self, place: NamePlace) -> list[str]:
        """Return the symbols that are defined at a place."""
        file = self._file(place.path, self._project.read(place.path))
        if file is None:
            return []
        if file.is_current:
            return [name.symbol for name in file.names.get(place.start, ()) if name.is_definition]
        found: list[str] = []
        for occurrence in file.document.occurrences:
            names = symbol_names(occurrence.symbol) if occurrence.is_definition else []
            if names and file.data.startswith(names[-1].encode(), place.start):
                found += [occurrence.symbol] if place in self._project.locate(place.path, ".".join(names)) else []
        return found

    def _places_of(self, symbol: str, path: str) -> tuple[NamePlace, ...]:
        """Return where a symbol is defined in the project; a constructor also where its class is.

        A local symbol is one of the file that uses it.
        """
        names = symbol_names(symbol)
        if not names:
            return self._defined_in(symbol, path)
        known = self._targets.get(symbol)
        if known is not None:
            return known
        bare = names[-1].rpartition(">")[2] or names[max(0, len(names) - 2)]  # `<get>size` is `size` in the code
        files = (path, *self._project.defining(bare))
        places = [place for at in files for place in self._defined_in(symbol, at)]
        if not places:
            described = [self._prefix + at for at in self._index.find_describing(symbol)]
            places = [place for at in described for place in self._defined_in(symbol, at)]
        if names[-1] in CONSTRUCTORS:
            places += self._places_of(owner_of(symbol), path)
        found = self._targets[symbol] = tuple(dict.fromkeys(places))
        if found and (package := package_of(symbol)):
            self._packages.add(package)
        return found

    def _defined_in(self, symbol: str, path: str) -> tuple[NamePlace, ...]:
        file = self._file(path, self._project.read(path))
        if file is None:
            return ()
        if file.is_current:
            return tuple(NamePlace(path, start) for start in file.definitions.get(symbol, ()))
        is_there = any(one.is_definition and one.symbol == symbol for one in file.document.occurrences)
        return tuple(self._project.locate(path, ".".join(symbol_names(symbol)))) if is_there else ()

    def _is_outside(self, symbol: str) -> bool:
        """Whether a symbol without a definition is one of another package.

        Some indexers name the own package where they do not know one.
        """
        package = package_of(symbol)
        return package != "" and package not in self._packages and bool(self._packages)

    # -- files --

    def _file(self, path: str, data: bytes) -> _File | None:
        """Return a file with its document; None if the index does not have it."""
        known = self._files.get(path)
        if known is None or (known.data is not data and known.data != data):
            document = self._index.read(path.removeprefix(self._prefix)) if path.startswith(self._prefix) else None
            if document is None:
                return None
            known = self._open(path, data, document)
            self._keep(path, known)
        if not known.is_current:
            self.changed.add(path)
        return known

    def _open(self, path: str, data: bytes, document: ScipDocument) -> _File:
        if document.text is not None:
            is_current = document.text == data
        else:
            modified = self._project.mtime_ns(path)
            is_current = modified is not None and modified <= self._index.mtime_ns
        names = locate_names(data, document) if is_current else None
        if names is None:
            return _File(data, document, {}, {}, is_current=False)
        definitions: dict[str, list[int]] = {}
        for start, found in names.items():
            for name in found:
                if name.is_definition:
                    definitions.setdefault(name.symbol, []).append(start)
        return _File(data, document, names, definitions, is_current=True)

    def _keep(self, path: str, file: _File) -> None:
        self._kept += len(file.document.occurrences)
        while self._kept > NAMES_KEPT and self._files:
            oldest = next(iter(self._files))
            self._kept -= len(self._files.pop(oldest).document.occurrences)
        self._files[path] = file


def locate_names(data: bytes, document: ScipDocument) -> dict[int, tuple[LocatedName, ...]] | None:
    """Return the names of a document by their offsets; None if these are not the places of these names.

    Each definition must have the name of its symbol, and most other names, too.
    """
    lines = LineOffsets(data, document.encoding)
    found: dict[int, list[LocatedName]] = {}
    same = other = 0
    for occurrence in document.occurrences:
        place = lines.locate(occurrence.line, occurrence.start, occurrence.stop)
        if place is None:
            return None
        names = symbol_names(occurrence.symbol)
        if place[0] == place[1]:  # a module, at the start of its file
            continue
        if names and not names[-1].startswith("<") and not occurrence.symbol.endswith(":"):
            is_same = data[place[0] : place[1]].decode("utf-8", "replace").lstrip("$") == names[-1].lstrip("$")
            same, other = same + is_same, other + (not is_same)
            if occurrence.is_definition and not is_same and names[-1] != "constructor":
                return None
        name = LocatedName(*place, occurrence.symbol, occurrence.is_definition)
        found.setdefault(place[0], []).append(name)
    if same + other and same / (same + other) < SAME_NAMES_MIN:
        return None
    return {start: tuple(names) for start, names in found.items()}


class LineOffsets:
    r"""Lines and columns of other tools in one file, both counted from 0, as offsets in bytes.

    >>> LineOffsets("ü = 1\nö.b()\n".encode(), 2).locate(1, 2, 3)
    (10, 11)
    """

    def __init__(self, data: bytes, encoding: int) -> None:
        self._data = data
        self._encoding = encoding
        self._is_plain = encoding == UTF8 or data.isascii()
        self._starts = [0, *(found.end() for found in re.finditer(rb"\n", data)), len(data) + 1]

    def locate(self, line: int, start: int, stop: int) -> tuple[int, int] | None:
        """Return where a range on a line is; None if the line does not reach so far."""
        if not 0 <= line < len(self._starts) - 1 or not 0 <= start <= stop:
            return None
        first, end = self._starts[line], self._starts[line + 1] - 1
        if self._is_plain:
            return (first + start, first + stop) if first + stop <= end else None
        text = self._data[first:end].decode("utf-8", "replace")
        codec, width = ("utf-32-le", 4) if self._encoding == UTF32 else ("utf-16-le", 2)
        units = text.encode(codec)
        if stop * width > len(units):
            return None
        before, inside = units[: start * width], units[start * width : stop * width]
        begin = first + len(before.decode(codec, "replace").encode())
        return begin, begin + len(inside.decode(codec, "replace").encode())
