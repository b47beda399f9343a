"""The edges of a SCIP index for the files as they are now: ranges as offsets, symbols as the places of definitions.

A file that changed since the index was made has no edges; a definition in one is found again by its qualified name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from context_engine.references.scip.scip_document import (
    UTF8,
    UTF32,
    ProtobufError,
    ScipDocument,
    ScipOccurrence,
    owner_of,
    package_of,
    symbol_names,
)
from context_engine.references.scip.scip_index import ScipIndex
from context_engine.references.values import ExternalEdge, NamePlace
from context_engine.repo import Root
from context_engine.storage import ConfinedFolder
from context_engine.text import format_count

SCIP_FILE = "index.scip"
"""The name that indexers give it, at the top of what they index."""
OFF, AUTO = "off", "auto"
SHOWN_MAX = 3
NAMES_KEPT = 300_000
"""Names of decoded documents in memory, at about 300 bytes each."""
SAME_NAMES_MIN = 0.5
"""Share of the names of an unchanged file that are written as their symbol; the others are aliases and modules."""
CONSTRUCTORS = ("<constructor>", "<init>")
"""Names that indexers give a constructor; `new Cart()` means it and its class."""


class EdgeProject(NamedTuple):
    """The files of the project at one question.

    `read` returns the bytes of a file; `mtime_ns` when it was modified; `defining` the files that define a name;
    `locate` the places of a definition by its file and qualified name.
    """

    read: Callable[[str], bytes]
    mtime_ns: Callable[[str], int | None]
    defining: Callable[[str], Sequence[str]]
    locate: Callable[[str, str], Sequence[NamePlace]]


class _File(NamedTuple):
    """A file with the document of it, and its names by their offsets, which are empty if the file has changed.

    A name is an occurrence whose `start` and `stop` are offsets in bytes.
    """

    data: bytes
    document: ScipDocument
    names: dict[int, list[ScipOccurrence]]
    definitions: dict[str, list[int]]
    is_current: bool


class ExternalEdges:
    """The edges of the SCIP index of a workspace, if there is one. It is opened again when it is another one.

    One question at a time; `close` may come in between.
    """

    def __init__(self, root: Root, scip_index: str = AUTO) -> None:
        """Open nothing yet. The index is `auto` for `index.scip` in the workspace, `off`, or an absolute path."""
        self._root = root
        self._where = scip_index
        self._stamp: tuple[int, ...] = ()
        self._use(None)

    def begin(self, project: EdgeProject) -> None:
        """Begin a question: open the index if it is another one, and forget what may have changed in the files."""
        self._project = project
        self._changed.clear()
        self._targets.clear()
        if self._where != OFF:
            self._open_index()

    def notes(self) -> list[str]:
        """Return what the answer to the last question should say of the index."""
        name = SCIP_FILE if self._where == AUTO else self._where
        if self._problem:
            return [f"{name} is not used: {self._problem}"]
        if not self._changed:
            return []
        changed = sorted(self._changed)
        shown = ", ".join(changed[:SHOWN_MAX]) + ", ..." * (len(changed) > SHOWN_MAX)
        count = format_count(len(changed), "file")
        return [f"{count} changed since {name} was made and did without it ({shown}): run the indexer again"]

    def close(self) -> None:
        """Close the index; the next question opens it again."""
        self._stamp = ()
        if self._index is not None:
            self._index.close()

    # -- the index --

    def _use(self, index: ScipIndex | None, problem: str = "") -> None:
        """Take another index, or none, and forget what the one before said."""
        self._index = index
        self._problem = problem
        self._prefix = self._find_prefix(index.project_root) if index is not None else ""
        self._files: dict[str, _File] = {}
        self._kept = 0
        self._targets: dict[str, tuple[NamePlace, ...]] = {}
        self._packages: set[str] = set()
        self._changed: set[str] = set()

    def _open_index(self) -> None:
        """Open the index if there is one, and again if it is another one."""
        folder, name = self._root.confined, SCIP_FILE
        if self._where != AUTO:
            place = Path(self._where)
            folder, name = ConfinedFolder(place.parent, follow_links=True), place.name
        try:
            status = folder.stat(name)
        except OSError as error:
            self.close()
            self._use(None, "" if self._where == AUTO else f"{error.strerror or error}")
            return
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return
        self.close()
        self._stamp = stamp
        try:
            file = os.fdopen(folder.open(name), "rb")
        except OSError as error:
            self._use(None, f"{error.strerror or error}")
            return
        try:
            self._use(ScipIndex(file))
        except (OSError, ProtobufError) as error:
            file.close()
            self._use(None, str(error))

    def _find_prefix(self, project_root: str) -> str:
        """Return the folder of the workspace that was indexed, with a slash; empty for the workspace itself.

        An index that was made elsewhere, as on a server, is one of the workspace.
        """
        inside = os.path.relpath(project_root, self._root.path) if project_root else "."
        if inside == "." or inside.startswith("..") or not self._root.confined.exists(inside):
            return ""
        return f"{inside.replace(os.sep, '/')}/"

    # -- edges --

    def edge_at(self, path: str, data: bytes, start: int) -> ExternalEdge | None:
        """Return what the name at an offset in bytes means; None if the index does not say it, as of a definition."""
        file = self._file(path, data)
        names = file.names.get(start, ()) if file is not None else ()
        if not names or any(name.is_definition for name in names):
            return None
        targets = dict.fromkeys(place for name in names for place in self._places_of(name.symbol, path))
        if targets or all(self._is_outside(name.symbol) for name in names):
            return ExternalEdge(start, names[0].stop, tuple(targets))
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
                found.append(ExternalEdge(start, names[0].stop, tuple(sorted(targets))))
        return found

    def find_implementing(self, place: NamePlace) -> list[NamePlace]:
        """Return the definitions that implement or override the one at a place, or a definition that does so."""
        found: dict[NamePlace, None] = {}
        waiting = list(self._symbols_at(place))
        seen = set(waiting)
        while waiting and self._index is not None:
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
        if not places and self._index is not None:
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
        if self._index is None or not path.startswith(self._prefix):
            return None
        known = self._files.get(path)
        if known is None or (known.data is not data and known.data != data):
            document = self._index.read(path.removeprefix(self._prefix))
            if document is None:
                return None
            known = self._open(path, data, document, self._index.mtime_ns)
            self._keep(path, known)
        if not known.is_current:
            self._changed.add(path)
        return known

    def _open(self, path: str, data: bytes, document: ScipDocument, indexed_ns: int) -> _File:
        if document.text is not None:
            is_current = document.text == data
        else:
            modified = self._project.mtime_ns(path)
            is_current = modified is not None and modified <= indexed_ns
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


def locate_names(data: bytes, document: ScipDocument) -> dict[int, list[ScipOccurrence]] | None:
    """Return the names of a document by their offsets; None if these are not the places of these names.

    Each definition must have the name of its symbol, and most other names, too.
    """
    lines = LineOffsets(data, document.encoding)
    found: dict[int, list[ScipOccurrence]] = {}
    same = other = 0
    for symbol, is_definition, line, *columns in document.occurrences:
        place = lines.locate(line, *columns)
        if place is None:
            return None
        start, stop = place
        names = symbol_names(symbol)
        if start == stop:  # a module, at the start of its file
            continue
        if names and not names[-1].startswith("<") and not symbol.endswith(":"):
            is_same = data[start:stop].decode("utf-8", "replace").lstrip("$") == names[-1].lstrip("$")
            same, other = same + is_same, other + (not is_same)
            if is_definition and not is_same and names[-1] != "constructor":
                return None
        found.setdefault(start, []).append(ScipOccurrence(symbol, is_definition, line, start, stop))
    if same + other and same / (same + other) < SAME_NAMES_MIN:
        return None
    return found


class LineOffsets:
    r"""Lines and columns of other tools in one file, both counted from 0, as offsets in bytes.

    >>> LineOffsets("ü = 1\nö.b()\n".encode(), 2).locate(1, 2, 3)
    (10, 11)
    """

    def __init__(self, data: bytes, encoding: int) -> None:
        self._data = data
        self._is_plain = encoding == UTF8 or data.isascii()
        self._is_wide = encoding == UTF32
        self._starts = [0, *(found.end() for found in re.finditer(rb"\n", data)), len(data) + 1]
        self._units_of = lru_cache(maxsize=1)(self._find_units)  # the names of a line follow each other

    def locate(self, line: int, start: int, stop: int) -> tuple[int, int] | None:
        """Return where a range on a line is; None if the line does not reach so far."""
        if not 0 <= line < len(self._starts) - 1 or not 0 <= start <= stop:
            return None
        first, end = self._starts[line], self._starts[line + 1] - 1
        if self._is_plain:
            return (first + start, first + stop) if first + stop <= end else None
        units = self._units_of(first, end)
        return (units[start], units[stop]) if stop < len(units) else None

    def _find_units(self, first: int, end: int) -> list[int]:
        """Return where each unit of a line begins, and where the last one ends."""
        places = [first]
        for char in self._data[first:end].decode("utf-8", "replace"):
            halves = 1 if self._is_wide or char <= "\uffff" else 2
            places += [places[-1]] * (halves - 1) + [places[-1] + len(char.encode())]
        return places
