"""The edges that other tools know of one workspace: those of its SCIP index, and of the user's language servers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from context_engine.external_edges.edge_project import EdgeProject
from context_engine.external_edges.language_server import ServerOptions
from context_engine.external_edges.protobuf_reader import ProtobufError
from context_engine.external_edges.scip_edges import ScipEdges
from context_engine.external_edges.scip_index import ScipIndex
from context_engine.external_edges.server_edges import ServerEdges
from context_engine.external_edges.server_problems import EditedText, ServerProblem
from context_engine.repo import Root
from context_engine.resolution import ExternalEdge, NamePlace
from context_engine.storage import ConfinedFolder
from context_engine.text import format_count

SCIP_FILE = "index.scip"
"""The name that indexers give it, at the top of what they index."""
OFF, AUTO = "off", "auto"
SHOWN_MAX = 3
CHECK_WAIT_S = 5.0
"""An edit is written already, and its reply waits so long for the errors: basedpyright and tsc take 0.1 to 2 s."""


class ExternalTools(NamedTuple):
    """Which tools are used, and how much they may take.

    `scip_index`: `auto` for `index.scip` in the workspace, `off`, or the absolute path of one. `servers`: language
    servers are asked `always`, only when a question asks for them (`ask`), or `never`.
    """

    scip_index: str = AUTO
    servers: str = "never"
    server_bytes_max: int = 2_000_000_000
    server_idle_s: float = 600.0
    server_wait_s: float = 20.0


class ExternalEdges:
    """All edges that other tools know. Thread-safe."""

    def __init__(self, root: Root, tools: ExternalTools) -> None:
        """Open and start nothing yet."""
        self._root = root
        self._lock = threading.RLock()
        self._where = tools.scip_index
        self._asks = tools.servers
        limits = ServerOptions(tools.server_bytes_max, tools.server_idle_s)
        self._servers = ServerEdges(root.path, limits, tools.server_wait_s)
        self._scip: ScipEdges | None = None
        self._index: ScipIndex | None = None
        self._stamp: tuple[int, ...] = ()
        self._problem = ""

    def begin(self, project: EdgeProject, *, asks_servers: bool = False) -> None:
        """Begin a question about the files as they are now; `asks_servers` if it asks for language servers."""
        with self._lock:
            is_asked = self._asks == "always" or (self._asks == "ask" and asks_servers)
            self._servers.begin(project, is_asked=is_asked)
            if asks_servers and not is_asked:
                self._servers.notes["language servers are turned off: CTX_LANGUAGE_SERVERS=ask allows them"] = None
            self._open_scip(project)
            if self._scip is not None:
                self._scip.begin(project)

    def edge_at(self, path: str, data: bytes, start: int) -> ExternalEdge | None:
        """Return what a name at an offset in bytes means; None if nothing is known of it."""
        if self._scip is None and not self._servers.is_asked:
            return None
        with self._lock:
            found = self._servers.edge_at(path, data, start)
            if found is None and self._scip is not None:
                found = self._scip.edge_at(path, data, start)
            return found

    def edges_to(self, path: str, data: bytes, targets: frozenset[NamePlace]) -> Sequence[ExternalEdge]:
        """Return the names in a file that mean one of some definitions."""
        if self._scip is None and not self._servers.is_asked:
            return ()
        with self._lock:
            found = list(self._servers.edges_to(path, data, targets))
            return found + (self._scip.edges_to(path, data, targets) if self._scip is not None else [])

    def find_implementing(self, place: NamePlace) -> Sequence[NamePlace]:
        """Return the definitions that implement or override the one at a place."""
        with self._lock:
            found = self._servers.find_implementing(place)
            return found + (self._scip.find_implementing(place) if self._scip is not None else [])

    def ask_uses(self, places: Iterable[NamePlace]) -> None:
        """Ask the language servers where definitions are used, if this question asks for them."""
        with self._lock:
            self._servers.ask_uses(places)

    def ask_definitions(self, path: str, starts: Sequence[int]) -> None:
        """Ask the language servers what names of a file mean, if this question asks for them."""
        with self._lock:
            self._servers.ask_definitions(path, starts)

    @property
    def checks_edits(self) -> bool:
        """Whether the user wants language servers to be asked without a word in the question."""
        return self._asks == "always"

    def find_new_problems(self, changes: Sequence[EditedText]) -> list[ServerProblem]:
        """Return the errors that running language servers have after an edit and had not before it."""
        with self._lock:
            return self._servers.find_new_problems(changes, CHECK_WAIT_S)

    @property
    def asks_servers(self) -> bool:
        """Whether the present question asks language servers."""
        return self._servers.is_asked

    @property
    def memory_bytes_peak(self) -> int:
        """The most memory that the language servers were seen to take."""
        return self._servers.memory_bytes_peak

    def notes(self) -> list[str]:
        """Return what the answer to the last question should say of its sources."""
        return [*self._servers.notes, *self._scip_notes()]

    def _scip_notes(self) -> list[str]:
        if self._problem:
            return [f"{self._name()} is not used: {self._problem}"]
        if self._scip is None or not self._scip.changed:
            return []
        changed = sorted(self._scip.changed)
        shown = ", ".join(changed[:SHOWN_MAX]) + ", ..." * (len(changed) > SHOWN_MAX)
        count = format_count(len(changed), "file")
        made = f"changed since {self._name()} was made and did without it"
        return [f"{count} {made} ({shown}): run the indexer again"]

    def close(self) -> None:
        """Close the index and end the servers."""
        with self._lock:
            self._servers.close()
            self._close_scip()

    def _close_scip(self) -> None:
        if self._index is not None:
            self._index.close()
        self._index = self._scip = None
        self._stamp = ()

    # -- SCIP --

    def _name(self) -> str:
        return SCIP_FILE if self._where == AUTO else self._where

    def _open_scip(self, project: EdgeProject) -> None:
        """Open the index if there is one, and again if it is another one."""
        if self._where == OFF:
            return
        folder, name = (self._root.confined, SCIP_FILE)
        if self._where != AUTO:
            place = Path(self._where)
            folder, name = ConfinedFolder(place.parent, follow_links=True), place.name
        try:
            status = folder.stat(name)
        except OSError as error:
            self._close_scip()
            self._problem = "" if self._where == AUTO else f"{error.strerror or error}"
            return
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return
        self._close_scip()
        self._stamp, self._problem = stamp, ""
        try:
            file = os.fdopen(folder.open(name), "rb")
        except OSError as error:
            self._problem = f"{error.strerror or error}"
            return
        try:
            index = ScipIndex(file)
        except (OSError, ProtobufError) as error:
            file.close()
            self._problem = str(error)
            return
        self._index, self._scip = index, ScipEdges(index, project, self._find_prefix(index.project_root))

    def _find_prefix(self, project_root: str) -> str:
        """Return the folder of the workspace that was indexed, with a slash; empty for the workspace itself.

        An index that was made elsewhere, as on a server, is one of the workspace.
        """
        inside = os.path.relpath(project_root, self._root.path) if project_root else "."
        if inside == "." or inside.startswith("..") or not self._root.confined.exists(inside):
            return ""
        return f"{inside.replace(os.sep, '/')}/"
