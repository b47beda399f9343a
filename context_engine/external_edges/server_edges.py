"""The edges that language servers of the user know, asked one definition or one file at a time.

A server is started at the first question of its language and kept until it is not used. A question gives all servers
together a bounded time; what is not answered by then is left to the other sources, and the notes say so.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from context_engine.errors import InvalidArgument
from context_engine.external_edges.edge_project import EdgeProject
from context_engine.external_edges.language_server import (
    LanguageServer,
    LanguageServerError,
    LanguageServerTimeoutError,
    ServerLocation,
    ServerOptions,
)
from context_engine.external_edges.line_offsets import UTF8, UTF16, LineOffsets
from context_engine.external_edges.server_problems import EditedText, ServerProblem, find_new
from context_engine.external_edges.server_specs import find_server, name_servers
from context_engine.repo import uri_to_path
from context_engine.resolution import ExternalEdge, NamePlace

ORIGIN = "lsp"
DEFINITIONS_ASKED_MAX = 300
"""Names of one function whose definitions are asked for."""
USES_CHECKED_MAX = 300
"""Uses of one definition whose meaning is asked for."""
HEADERS = (".h", ".hh", ".hpp", ".hxx")
CREATED, CHANGED, DELETED = 1, 2, 3


class ServerEdges:
    """The servers of one workspace and what they said about the present question. Not thread-safe."""

    def __init__(self, root: Path, options: ServerOptions, wait_s: float) -> None:
        """Start nothing yet. `wait_s` is the time that all servers together get in one question."""
        self._root = root
        self._options = options
        self._wait_s = wait_s
        self._servers: dict[str, LanguageServer] = {}
        self._refused: dict[str, str] = {}
        self._stamps: dict[str, object] = {}
        self._edges: dict[str, tuple[bytes, dict[int, ExternalEdge]]] = {}
        self._project: EdgeProject | None = None
        self._until = 0.0
        self.notes: dict[str, None] = {}
        self.is_asked = False

    @property
    def memory_bytes_peak(self) -> int:
        """The most memory that its servers were seen to take."""
        return sum(server.memory_bytes_peak for server in self._servers.values())

    def begin(self, project: EdgeProject, *, is_asked: bool) -> None:
        """Begin a question, in which the servers are asked or not."""
        self._project = project
        self._edges.clear()
        self.notes.clear()
        self._refused.clear()
        self.is_asked = is_asked
        self._until = time.monotonic() + self._wait_s
        if is_asked and self._servers:
            self._tell_changes(project)

    def edge_at(self, path: str, data: bytes, start: int) -> ExternalEdge | None:
        """Return what a server said that a name means."""
        known = self._edges.get(path)
        return known[1].get(start) if known is not None and known[0] == data else None

    def edges_to(self, path: str, data: bytes, targets: frozenset[NamePlace]) -> Sequence[ExternalEdge]:
        """Return the names in a file that servers said to mean one of some definitions."""
        known = self._edges.get(path)
        if known is None or known[0] != data:
            return ()
        return [edge for edge in known[1].values() if not targets.isdisjoint(edge.targets)]

    def ask_uses(self, places: Iterable[NamePlace]) -> None:
        """Ask where definitions are used."""
        for place in places if self.is_asked else ():
            found = self._ask("textDocument/references", place)
            server = self._servers.get(self._project.language_of(place.path)) if self._project is not None else None
            if server is not None and server.joins_overrides:
                found = self._only_uses_of(place, found)
            for one in found:
                self._keep(one._replace(targets=(place,)))

    def _only_uses_of(self, place: NamePlace, found: Sequence[ExternalEdge]) -> list[ExternalEdge]:
        """Return the uses that mean a definition itself, and not a member of a base that it implements."""
        same = {(place.path, place.start)}
        if place.path.endswith(HEADERS):  # a name in a header is declared there and defined elsewhere
            same |= {(one.path, one.start) for one in self._ask("textDocument/definition", place)}
        kept: list[ExternalEdge] = []
        for one in found[:USES_CHECKED_MAX]:
            meant = self._ask("textDocument/definition", NamePlace(one.path, one.start))
            kept += [one] if any((other.path, other.start) in same for other in meant) else []
        if len(found) > USES_CHECKED_MAX:
            self.notes[
                f"only the first {USES_CHECKED_MAX} of {len(found):,} uses that a server found were looked at"
            ] = None
        return kept

    def ask_definitions(self, path: str, starts: Sequence[int]) -> None:
        """Ask what names of a file mean."""
        for start in starts[:DEFINITIONS_ASKED_MAX] if self.is_asked else ():
            found = self._ask("textDocument/definition", NamePlace(path, start))
            places = tuple(NamePlace(place.path, place.start) for place in found)
            if places and NamePlace(path, start) not in places:
                self._keep(ExternalEdge(path, start, start, places, ORIGIN))

    def find_implementing(self, place: NamePlace) -> list[NamePlace]:
        """Return the definitions that implement the one at a place."""
        found = self._ask("textDocument/implementation", place) if self.is_asked else []
        return [NamePlace(one.path, one.start) for one in found if (one.path, one.start) != place]

    def find_new_problems(self, changes: Sequence[EditedText], limit_s: float) -> list[ServerProblem]:
        """Return the errors that running servers have after an edit and had not before it. None is started."""
        until = time.monotonic() + limit_s
        files: dict[str, list[EditedText]] = {}
        for change in changes if self._project is not None and self.is_asked else ():
            language = self._project.language_of(change.path) if self._project is not None else ""
            if change.after is not None and language in self._servers and self._servers[language].is_running:
                files.setdefault(language, []).append(change)
        return [problem for language, listed in files.items() for problem in self._check(language, listed, until)]

    def _check(self, language: str, changes: Sequence[EditedText], until: float) -> list[ServerProblem]:
        server = self._servers[language]
        old = {one.path: (language, one.before) for one in changes if one.before is not None}
        new = {one.path: (language, one.after) for one in changes if one.after is not None}
        try:
            server.wait_until_ready(until - time.monotonic())
            before = server.check(old, until - time.monotonic())
            after = server.check(new, until - time.monotonic())
        except LanguageServerTimeoutError as error:
            self.notes[f"{server.name} {error}"] = None
            return []
        except LanguageServerError as error:
            self._servers.pop(language, None)
            self.notes[f"{server.name} was not used: it {error}"] = None
            return []
        found = [(self._path_of(uri), line, message) for uri, line, message in find_new(before, after)]
        return sorted(ServerProblem(*one, server.name) for one in found if one[0])

    def close(self) -> None:
        """End the servers."""
        for server in self._servers.values():
            server.stop()
        self._servers.clear()

    # -- servers --

    def _ask(self, method: str, place: NamePlace) -> list[ExternalEdge]:
        """Return the places that a server has for a request about a place, without targets; none if it fails."""
        if self._project is None:
            return []
        language = self._project.language_of(place.path)
        server = self._server_of(language)
        left = self._until - time.monotonic()
        if server is None or left <= 0:
            return []
        data = self._project.read(place.path)
        encoding = UTF8 if server.is_utf8 else UTF16
        position = LineOffsets(data, encoding).position_of(place.start)
        try:
            uri = server.show(place.path, language, data)
            server.wait_until_ready(left)
            found = server.find(method, uri, position, max(0.1, self._until - time.monotonic()))
            return self._locate(found, encoding)
        except LanguageServerTimeoutError as error:
            self._until = 0.0
            self.notes[f"{server.name} {error} ({self._wait_s:.0f} s are over) and goes on: ask again"] = None
        except LanguageServerError as error:
            self._servers.pop(language, None)
            self._refused[language] = ""
            self.notes[f"{server.name} was not used: it {error}"] = None
        return []

    def _server_of(self, language: str) -> LanguageServer | None:
        """Return the server of a language, started if need be; None if there is none or it failed in this question."""
        server = self._servers.get(language)
        if server is not None and server.is_running:
            return server
        self._servers.pop(language, None)
        if language in self._refused:
            return None
        found = find_server(language, str(self._root))
        if found is None or found.problem:
            self._refused[language] = ""
            if found is not None:
                self.notes[f"{found.spec.name} was not started: it {found.problem}"] = None
            elif names := name_servers(language):
                self.notes[f"no language server for {language} is on the PATH: install {' or '.join(names)}"] = None
            return None
        shared = next((one for one in self._servers.values() if one.name == found.spec.name and one.is_running), None)
        try:
            server = shared or LanguageServer(found, self._root, self._options)
        except LanguageServerError as error:
            self._refused[language] = ""
            self.notes[f"{found.spec.name} was not used: it {error}"] = None
            return None
        self._servers[language] = server
        self._stamps = self._stamps or dict(self._project.stamps() if self._project is not None else {})
        return server

    def _tell_changes(self, project: EdgeProject) -> None:
        """Let the servers know which files changed since the last question."""
        stamps = dict(project.stamps())
        before, self._stamps = self._stamps, stamps
        changes = {path: DELETED for path in before if path not in stamps}
        if before:
            changes |= {path: CREATED for path in stamps if path not in before}
            changes |= {path: CHANGED for path in stamps if path in before and before[path] != stamps[path]}
        for server in set(self._servers.values()):
            if server.is_running:
                server.note_changes(changes)

    # -- edges --

    def _keep(self, edge: ExternalEdge) -> None:
        data = self._read(edge.path)
        kept, edges = self._edges.get(edge.path, (data, {}))
        if kept != data:
            edges = {}
        before = edges.get(edge.start)
        if before is not None:
            edge = edge._replace(targets=tuple(dict.fromkeys((*before.targets, *edge.targets))))
        edges[edge.start] = edge
        self._edges[edge.path] = (data, edges)

    def _locate(self, locations: Sequence[ServerLocation], encoding: int) -> list[ExternalEdge]:
        """Return locations as places of the project, without those that are not in its files."""
        lines: dict[str, LineOffsets] = {}
        places: list[ExternalEdge] = []
        for one in locations:
            path = self._path_of(one.uri)
            if path and path not in lines:
                lines[path] = LineOffsets(self._read(path), encoding)
            found = lines[path].locate(one.line, one.start, one.stop) if path else None
            if found is not None:
                places.append(ExternalEdge(path, *found, (), ORIGIN))
        return places

    def _path_of(self, uri: str) -> str:
        """Return the path of a file of the project; empty for any other."""
        try:
            inside = Path(uri_to_path(uri)).relative_to(self._root)
        except (InvalidArgument, ValueError):
            return ""
        return inside.as_posix() if ".." not in inside.parts and self._read(inside.as_posix()) else ""

    def _read(self, path: str) -> bytes:
        return self._project.read(path) if self._project is not None else b""
