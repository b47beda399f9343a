"""The repositories of a database that clients may search, without a checkout or an index on this machine.

A call names them as its project: `store` is all of them, `store:github.com/team/app` is one. The
setting `store_visible` says which there are, and a token sees those that are among its projects by that name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from context_engine.errors import InvalidArgument
from context_engine.server import STORE_TOOLS

if TYPE_CHECKING:
    from context_engine.index import StaticEncoder
    from context_engine.settings import Settings
    from context_engine.team.candidate_store import CandidateStore
    from context_engine.team.remote_search import RemoteRepositories

STORE_PROJECT = "store"
STORE_PREFIX = "store:"
MESSAGE_CHARS_MAX = 200


class RemoteProjects:
    """Opens repositories of the database in the settings, for callers that see some of them. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        """Connect to nothing yet."""
        self.settings = settings
        self._patterns = [part for part in settings.store_visible.replace(",", " ").split() if part]
        self._lock = threading.Lock()
        self._opened: tuple[CandidateStore, StaticEncoder | None] | None = None

    def is_named_by(self, project: str) -> bool:
        """Return whether a project is one of a database, visible or not."""
        return bool(self._patterns) and (project == STORE_PROJECT or project.startswith(STORE_PREFIX))

    def open(self, project: str, tool: str, sees: Callable[[str, str], bool]) -> RemoteRepositories:
        """Return the repositories that a project names, as far as the caller sees them.

        Raises: InvalidArgument for another tool, or when there is none, StoreUnavailable, StoreUnusable.
        """
        from context_engine.team.remote_search import RemoteRepositories

        if tool not in STORE_TOOLS:
            raise InvalidArgument(
                f"{tool} needs the files of a project, and those of {project[:MESSAGE_CHARS_MAX]!r} are not here",
                suggestion=f"Use {' or '.join(sorted(STORE_TOOLS))}, or name a project that is open.",
                details={"argument": "project"},
            )
        store, encoder = self._open_store()
        names = [name for name in self._list_visible(store) if sees(f"{STORE_PREFIX}{name}", "")]
        if project != STORE_PROJECT:
            names = [name for name in names if f"{STORE_PREFIX}{name}" == project]
        if not names:
            raise InvalidArgument(
                f"no repository that can be searched is called {project[:MESSAGE_CHARS_MAX]!r}",
                suggestion="Leave project out, or name a project that is open.",
                details={"argument": "project"},
            )
        return RemoteRepositories(store, names, self.settings, encoder)

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened[0].close()

    def _open_store(self) -> tuple[CandidateStore, StaticEncoder | None]:
        from context_engine.index import StaticEncoder
        from context_engine.team.candidate_store import open_candidate_store

        with self._lock:
            if self._opened is None:
                encoder = None if self.settings.embedder == "none" else StaticEncoder()
                self._opened = open_candidate_store(self.settings.store_url), encoder
            return self._opened

    def _list_visible(self, store: CandidateStore) -> list[str]:
        from context_engine.team.remote_search import list_searchable

        names = list_searchable(store)
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in self._patterns)]
