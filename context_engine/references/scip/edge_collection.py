"""The edges that the SCIP index of one workspace knows. It is opened again when it is another one."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from context_engine.references.scip.scip_document import ProtobufError
from context_engine.references.scip.scip_edges import EdgeProject, ScipEdges
from context_engine.references.scip.scip_index import ScipIndex
from context_engine.references.values import ExternalEdge, NamePlace
from context_engine.repo import Root
from context_engine.storage import ConfinedFolder
from context_engine.text import format_count

SCIP_FILE = "index.scip"
"""The name that indexers give it, at the top of what they index."""
OFF, AUTO = "off", "auto"
SHOWN_MAX = 3


class ExternalEdges:
    """The edges of the SCIP index, if there is one. Thread-safe."""

    def __init__(self, root: Root, scip_index: str = AUTO) -> None:
        """Open nothing yet. The index is `auto` for `index.scip` in the workspace, `off`, or an absolute path."""
        self._root = root
        self._lock = threading.RLock()
        self._where = scip_index
        self._scip: ScipEdges | None = None
        self._index: ScipIndex | None = None
        self._stamp: tuple[int, ...] = ()
        self._problem = ""

    def begin(self, project: EdgeProject) -> None:
        """Begin a question about the files as they are now."""
        with self._lock:
            self._open_scip(project)
            if self._scip is not None:
                self._scip.begin(project)

    def edge_at(self, path: str, data: bytes, start: int) -> ExternalEdge | None:
        """Return what a name at an offset in bytes means; None if nothing is known of it."""
        with self._lock:
            return self._scip.edge_at(path, data, start) if self._scip is not None else None

    def edges_to(self, path: str, data: bytes, targets: frozenset[NamePlace]) -> Sequence[ExternalEdge]:
        """Return the names in a file that mean one of some definitions."""
        with self._lock:
            return self._scip.edges_to(path, data, targets) if self._scip is not None else ()

    def find_implementing(self, place: NamePlace) -> Sequence[NamePlace]:
        """Return the definitions that implement or override the one at a place."""
        with self._lock:
            return self._scip.find_implementing(place) if self._scip is not None else ()

    def notes(self) -> list[str]:
        """Return what the answer to the last question should say of the index."""
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
        """Close the index."""
        with self._lock:
            if self._index is not None:
                self._index.close()
            self._index = self._scip = None
            self._stamp = ()

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
            self.close()
            self._problem = "" if self._where == AUTO else f"{error.strerror or error}"
            return
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return
        self.close()
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
