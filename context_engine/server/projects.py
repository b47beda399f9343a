"""Which projects are open: those named at the start, else those the client works in, else the one around this process.

    projects = Projects(named_at_start(options.roots, os.environ), here=os.getcwd(), log=log)
    projects.start()                          # opens the known folders during the first replies
    projects.settle(roots=[...])             # the folders that the client reported
    projects.engine("web").search(...)

The order is that of the client guide (docs/guides/clients.md). Standard library only: the fast start imports this.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from context_engine.errors import CallError, InvalidArgument, UnsuitableRoot
from context_engine.repo import workspace_roots
from context_engine.server.project_loader import ProjectLoader

if TYPE_CHECKING:
    from context_engine.engine import Engine

NO_NAMES: Mapping[str, str] = MappingProxyType({})
CLIENT_VARIABLE = "CLAUDE_PROJECT_DIR"
"""Set by one client for the servers that it starts; the others say it over the protocol."""


def initial_folders(asked: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The folders that are certain before a client says a word: options (or their twin `CTX_ROOT`), then its variable.

    >>> initial_folders([], {"CLAUDE_PROJECT_DIR": "/work/web"}), initial_folders(["/a", "/b", "/a"], {})
    (('/work/web',), ('/a', '/b'))
    """
    named = list(asked) or [env.get(CLIENT_VARIABLE, "")]
    return tuple(dict.fromkeys(workspace_roots.real(each) for each in named if each.strip()))


def workspace_folders(workspace: str) -> dict[str, str]:
    """Path -> name of the repositories that the user has put into a workspace and that are there.

    Raises: InvalidArgument (no such workspace), FileNotFound (none of its repositories is there), AccessFailed.
    """
    from context_engine.repo.repositories import Repositories  # for those who name one
    from context_engine.storage.index_folders import user_cache_folder, user_config_folder

    members = Repositories(user_config_folder(), user_cache_folder()).roots(workspace)
    return {workspace_roots.real(path): name for name, path in members.items()}


def name_folders(paths: Sequence[str], given_names: Mapping[str, str] = NO_NAMES) -> dict[str, str]:
    """Return a short unique name for each folder, with as much of its path as needed: name -> path, in order.

    `called` are names, by path, that somebody has given.

    >>> name_folders(["/src/web", "/src/api"])
    {'web': '/src/web', 'api': '/src/api'}
    >>> name_folders(["/a/web", "/b/web", "/web"])
    {'a/web': '/a/web', 'b/web': '/b/web', '/web': '/web'}
    """
    parts = {path: path.replace("\\", "/").rstrip("/").split("/") for path in paths}
    named: dict[str, str] = {}
    for path in paths:
        if path in given_names:
            named[given_names[path]] = path
            continue
        depth = 1
        while depth < len(parts[path]) and any(
            other != path and parts[other][-depth:] == parts[path][-depth:] for other in paths
        ):
            depth += 1
        named["/".join(parts[path][-depth:]) or path] = path
    return named


class Projects:
    """The open workspaces of one server. Thread-safe.

    `named` is final when there is any. Without it the project around `here` is opened on suspicion, and kept unless
    the client, once asked, names other folders. `called` are names, by path, that somebody has given to some of them.
    Projects that are `apart` share nothing of the user's, not even the memories that follow him from one to the next.
    """

    def __init__(
        self,
        named: Sequence[str],
        *,
        here: str = "",
        log: Callable[[dict[str, Any]], None],
        follow: bool = True,
        isolated: bool = False,
        given_names: Mapping[str, str] = NO_NAMES,
    ) -> None:
        self._named = tuple(named)
        self._here = here
        self._log = log
        self._follow = follow
        self._apart = isolated
        self._lock = threading.Lock()
        self._loaders: dict[str, ProjectLoader] = {}
        self._served: set[str] = set()
        self._paths_by_name = name_folders(self._named, given_names)
        self._settled = bool(self._named)
        self._closed = False

    @property
    def names(self) -> tuple[str, ...]:
        """The valid values of the `project` argument, the default first."""
        return tuple(self._paths_by_name)

    @property
    def paths_by_name(self) -> dict[str, str]:
        """Name -> path of the projects, the default first."""
        return dict(self._paths_by_name)

    @property
    def is_settled(self) -> bool:
        """Whether the folders are final; while they are not, the client should be asked."""
        return self._settled

    def start(self) -> None:
        """Open what is certain, and what is likely, without waiting."""
        with self._lock:
            for path in self._paths_by_name.values() or self._around_here():
                self._loader(path).start()

    def settle(self, *, roots: Iterable[str] = (), workspaces: Iterable[str] = ()) -> None:
        """Choose the folders: the roots of the client, else the workspaces it mentioned, else the project around here.

        Folders that cannot be a workspace (`/`, the home folder, what does not exist) are passed over.
        """
        with self._lock:
            if self._settled:
                return
            found = _usable_folders(roots) or _usable_folders(workspaces) or self._around_here()
            self._paths_by_name = name_folders(found)
            self._settled = True
            for path in [path for path in self._loaders if path not in found and path not in self._served]:
                threading.Thread(target=self._loaders.pop(path).close, name="closing", daemon=True).start()
            for path in found:
                self._loader(path).start()
        self._log({"event": "roots", "ok": bool(found), "roots": list(found)})

    def unsettle(self) -> None:
        """Ask the client for its folders again. Folders named at the start stay."""
        self._settled = bool(self._named)

    def engine(self, project: str = "") -> Engine:
        """The Engine of a project, by its name or path; the only one when no project is given. Waits until it is open.

        Raises: UnsuitableRoot when there is no project, InvalidArgument when it is not clear which, and why one did
        not open.
        """
        self.settle()
        with self._lock:
            path = self._path_of(project)
            opening = self._loader(path)
            self._served.add(path)
        return opening.engine()

    def states(self) -> dict[str, str]:
        """Project -> `opening`, `open` or `failed`."""
        with self._lock:
            return {name: self._loader(path).state for name, path in self._paths_by_name.items()}

    def open_engines(self) -> list[Engine]:
        """The Engines that are open by now; waits for none."""
        with self._lock:
            engines = [self._loader(path).open_engine for path in self._paths_by_name.values()]
        return [engine for engine in engines if engine is not None]

    def close(self) -> None:
        """Close every Engine; a later `engine` raises."""
        with self._lock:
            self._closed = True
            openings = list(self._loaders.values())
        for each in openings:
            each.close()

    def _loader(self, path: str) -> ProjectLoader:
        """The opening of a folder, made when it is new. The lock is held."""
        if self._closed:
            raise CallError("the server is ending", suggestion="Start it again.")
        if path not in self._loaders:
            self._loaders[path] = ProjectLoader(path, log=self._log, follow=self._follow, isolated=self._apart)
        return self._loaders[path]

    def _path_of(self, project: str) -> str:
        """The folder that is meant."""
        if not self._paths_by_name:
            raise UnsuitableRoot(
                f"no project is open: the client named no folder, and {self._here or 'this process'} is in no project",
                suggestion="Give the server --root PATH in the client's settings, or set CTX_ROOT.",
            )
        return find_project_path(self._paths_by_name, project)

    def _around_here(self) -> list[str]:
        """The project that this process was started in, if it was."""
        found = workspace_roots.project_of_process(self._here) if self._here else None
        return [str(found)] if found else []


def find_project_path(paths_by_name: Mapping[str, str], project: str) -> str:
    """The folder of a project, by its name or path, among those that are there; the only one when none is named.

    Raises: InvalidArgument, which names those that are there.
    """
    listed = ", ".join(paths_by_name)
    if not project:
        if len(paths_by_name) == 1:
            return next(iter(paths_by_name.values()))
        raise InvalidArgument(
            f"{len(paths_by_name)} projects are open and the call does not say which",
            suggestion=f"Give project: one of {listed}.",
            details={"argument": "project", "projects": tuple(paths_by_name)},
        )
    path = paths_by_name.get(project) or _real_path(project)
    if path not in paths_by_name.values():
        raise InvalidArgument(
            f"no open project is called {project!r}",
            suggestion=f"There {'is' if len(paths_by_name) == 1 else 'are'} {listed}.",
            details={"argument": "project", "projects": tuple(paths_by_name)},
        )
    return path


def _real_path(path: str) -> str:
    """The real path; nothing for a text that no path can be."""
    try:
        return workspace_roots.real(path)
    except ValueError:
        return ""


def _usable_folders(folders: Iterable[str]) -> list[str]:
    """The real paths of those that can be a workspace."""
    found: dict[str, None] = {}
    for folder in folders:
        try:
            found[str(workspace_roots.choose(folder))] = None
        except CallError:
            continue  # a root such as `/` says no more than that the client has none
    return list(found)
