"""The open projects: those named at the start, else those the client works in, else the one around this process.

    projects = Projects(initial_folders(options.roots, os.environ), here=os.getcwd(), log=log)
    projects.start()                          # opens the known folders during the first replies
    projects.settle(roots=[...])              # the folders that the client reported
    projects.engine("web").search.find(...)

The order is that of the client guide (docs/guides/clients.md). Each project is opened once, in a thread, so that no
client waits; the result is kept for all calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from context_engine.errors import BugError, CallError, ContextEngineError, InvalidArgument, UnsuitableRoot
from context_engine.repo import check_workspace_root, project_of_process, resolve_path
from context_engine.server.serve_options import CLIENT_VARIABLE

if TYPE_CHECKING:
    from context_engine.daemon import EngineLease
    from context_engine.engine import Engine
    from context_engine.search import ServedChunks
    from context_engine.server.server_log import Log
    from context_engine.settings import Settings

NO_NAMES: Mapping[str, str] = MappingProxyType({})
READ_AFTER_S = 5.0
"""Loading a model takes a second of work, which the first replies do not need."""
Lease = Callable[[str], "EngineLease"]
"""Returns the use of a workspace whose Engine is shared with other servers."""
OpenProject: TypeAlias = "EngineLease | OwnEngine"
Opened = TypeVar("Opened", bound="EngineLease | OwnEngine | ServedChunks")


def initial_folders(roots: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders that are known before the first message: by option or `CTX_ROOT`, else by its variable.

    >>> initial_folders([], {"CLAUDE_PROJECT_DIR": "/work/web"}), initial_folders(["/a", "/b", "/a"], {})
    (('/work/web',), ('/a', '/b'))
    """
    named = list(roots) or [env.get(CLIENT_VARIABLE, "")]
    return tuple(dict.fromkeys(resolve_path(path) for path in named if path.strip()))


def workspace_folders(workspace: str) -> dict[str, str]:
    """Return path -> name of the existing repositories of a workspace.

    Raises: InvalidArgument (no such workspace), FileNotFound (none of its repositories exists), AccessFailed.
    """
    from context_engine.repo import RepositoryRegistry  # only with --workspace
    from context_engine.storage import user_cache_folder, user_config_folder

    members = RepositoryRegistry(user_config_folder(), user_cache_folder()).roots(workspace)
    return {resolve_path(path): name for name, path in members.items()}


def name_folders(paths: Sequence[str], given_names: Mapping[str, str] = NO_NAMES) -> dict[str, str]:
    """Return a short unique name for each folder, with as much of its path as needed: name -> path, in order.

    `given_names` are names by path.

    >>> name_folders(["/src/web", "/src/api"])
    {'web': '/src/web', 'api': '/src/api'}
    >>> name_folders(["/a/web", "/b/web", "/web"])
    {'a/web': '/a/web', 'b/web': '/b/web', '/web': '/web'}
    """
    parts = {path: path.replace("\\", "/").rstrip("/").split("/") for path in paths}
    named: dict[str, str] = {}
    for path in paths:
        others = [parts[other] for other in paths if other != path]
        depth = 1
        while depth < len(parts[path]) and any(other[-depth:] == parts[path][-depth:] for other in others):
            depth += 1
        named[given_names.get(path) or "/".join(parts[path][-depth:]) or path] = path
    return named


class Projects:
    """The open workspaces of one server. Thread-safe.

    `named` folders are final. Without them the project around `here` is opened in advance, and kept unless the client
    names other folders. `given_names` are names by path. Projects that are `isolated` share no data of the user, not
    even the memories that apply to all projects. With `lease` the Engines are those of a daemon. `chunks` is a served
    folder of chunk files, which is opened and closed with them.
    """

    def __init__(
        self,
        named: Sequence[str],
        *,
        here: str = "",
        log: Log,
        follow: bool = True,
        isolated: bool = False,
        given_names: Mapping[str, str] = NO_NAMES,
        lease: Lease | None = None,
        chunks: Loader[ServedChunks] | None = None,
    ) -> None:
        self.chunks = chunks
        self._here = here
        self._log = log
        self._follow = follow
        self._isolated = isolated
        self._lease = lease
        self._lock = threading.Lock()
        self._loaders: dict[str, Loader[OpenProject]] = {}
        self._served: set[str] = set()
        self._paths_by_name = name_folders(named, given_names)
        self._is_named = bool(named)
        self._settled = self._is_named
        self._closed = False

    @property
    def names(self) -> tuple[str, ...]:
        """The values of the `project` argument, the default first."""
        return tuple(self._paths_by_name)

    @property
    def paths_by_name(self) -> dict[str, str]:
        """The projects as name -> path, the default first."""
        return dict(self._paths_by_name)

    @property
    def is_settled(self) -> bool:
        """Whether the folders are final; until then the client should be asked."""
        return self._settled

    def start(self) -> None:
        """Start to open the known folders, or the likely one."""
        with self._lock:
            for path in self._paths_by_name.values() or self._around_here():
                self._loader(path).start()
        if self.chunks:
            self.chunks.start()

    def settle(self, *, roots: Iterable[str] = (), workspaces: Iterable[str] = ()) -> None:
        """Choose the folders: the roots of the client, else the workspaces it mentioned, else the project around here.

        Folders that cannot be a workspace (`/`, the home folder, missing folders) are skipped.
        """
        with self._lock:
            if self._settled:
                return
            found = _usable_folders(roots) or _usable_folders(workspaces) or self._around_here()
            self._paths_by_name = name_folders(found)
            self._settled = True
            unused = [path for path in self._loaders if path not in found and path not in self._served]
            for path in unused:
                threading.Thread(target=self._loaders.pop(path).close, name="closing", daemon=True).start()
            for path in found:
                self._loader(path).start()
        self._log({"event": "roots", "ok": bool(found), "roots": list(found)})

    def unsettle(self) -> None:
        """Ask the client for its folders again. Folders named at the start stay."""
        self._settled = self._is_named

    def engine(self, project: str = "") -> Engine:
        """Return the Engine of a project by name or path, or the only one. Waits until it is open.

        Raises: UnsuitableRoot without a project, InvalidArgument when it is unclear which, and why one did not open.
        """
        self.settle()
        with self._lock:
            if not self._paths_by_name:
                process = self._here or "this process"
                raise UnsuitableRoot(
                    f"no project is open: the client named no folder, and {process} is in no project",
                    suggestion="Give the server --root PATH in the client's settings, or set CTX_ROOT.",
                )
            path = find_project_path(self._paths_by_name, project)
            loader = self._loader(path)
            self._served.add(path)
        return loader.wait().engine()

    def states(self) -> dict[str, str]:
        """Return project -> `opening`, `open` or `failed`."""
        with self._lock:
            return {name: self._loader(path).state for name, path in self._paths_by_name.items()}

    def open_engines(self) -> list[Engine]:
        """Return the Engines that are open by now."""
        with self._lock:
            loaders = [self._loader(path) for path in self._paths_by_name.values()]
        return [loader.wait().engine() for loader in loaders if loader.state == "open"]

    def close(self) -> None:
        """Close every Engine; a later `engine` raises."""
        with self._lock:
            self._closed = True
            loaders = [*self._loaders.values(), *([self.chunks] if self.chunks else [])]
        for loader in loaders:
            loader.close()

    def _loader(self, path: str) -> Loader[OpenProject]:
        """Return the loader of a folder; create it for a new one. The lock is held."""
        if self._closed:
            raise CallError("the server is ending", suggestion="Start it again.")
        if path not in self._loaders:

            def log_failure(error: ContextEngineError) -> None:
                self._log({"event": "open", "root": path, "ok": False, "error": error.as_dict()})

            opener = partial(self._open, path)
            self._loaders[path] = Loader("the workspace", opener, failed=log_failure)
        return self._loaders[path]

    def _open(self, path: str) -> OpenProject:
        """Open an Engine, or lease it, and build an index that is not there yet, before any call sees the Engine.

        A call then answers "being built". Where there is an index, the first answer finds what has changed since, and
        the watcher finds later changes.
        """
        if self._lease:
            project: OpenProject = self._lease(path)
        else:
            from context_engine.engine import Engine

            project = OwnEngine(Engine.open(path, settings=_isolated_settings(path) if self._isolated else None))
        engine = project.engine()
        if self._follow and not engine.index.is_available():
            engine.index.update_in_background()
        optional = {"mended": list(engine.mended), "ignored_settings": list(engine.settings.ignored)}
        notes = {key: value for key, value in optional.items() if value}
        self._log({"event": "open", "root": path, "ok": True} | notes)
        if self._follow and self._lease is None:
            threading.Thread(target=follow_edits, args=(engine,), name="following", daemon=True).start()
        return project

    def _around_here(self) -> list[str]:
        """Return the project that this process was started in, if there is one."""
        found = project_of_process(self._here) if self._here else None
        return [str(found)] if found else []


def find_project_path(paths_by_name: Mapping[str, str], project: str) -> str:
    """Return the folder of a project by name or path, or the only one.

    Raises: InvalidArgument, with the open projects.
    """
    names = tuple(paths_by_name)
    if not project and len(names) == 1:
        return paths_by_name[names[0]]
    details = {"argument": "project", "projects": names}
    if not project:
        raise InvalidArgument(
            f"{len(names)} projects are open and the call does not say which",
            suggestion=f"Give project: one of {', '.join(names)}.",
            details=details,
        )
    path = paths_by_name.get(project, "")
    with suppress(ValueError):  # a text that cannot be a path
        path = path or resolve_path(project)
    if path in paths_by_name.values():
        return path
    verb = "is" if len(names) == 1 else "are"
    raise InvalidArgument(
        f"no open project is called {project!r}", suggestion=f"There {verb} {', '.join(names)}.", details=details
    )


def _usable_folders(folders: Iterable[str]) -> list[str]:
    """Return the real paths of the folders that can be a workspace."""
    found: dict[str, None] = {}
    for folder in folders:
        with suppress(CallError):  # a root such as `/` means that the client has none
            found[str(check_workspace_root(folder))] = None
    return list(found)


# -- what is opened in a thread ----------------------------------------------------------------------------------------


class Loader(Generic[Opened]):
    """Something that is, or will be, open. `start` returns at once; `wait` waits for the outcome.

    `what` is its name in a message.
    """

    def __init__(
        self, what: str, opener: Callable[[], Opened], *, failed: Callable[[ContextEngineError], None]
    ) -> None:
        self._what = what
        self._opener = opener
        self._failed = failed
        self._turn = threading.Lock()
        self._outcome: Future[Opened] = Future()

    def start(self) -> None:
        """Start to open it."""
        if self._turn.acquire(blocking=False):  # the first caller alone
            threading.Thread(target=self._open, name="opening", daemon=True).start()

    def wait(self) -> Opened:
        """Return what is open. Raises: ContextEngineError, why it did not open, at every call."""
        self.start()
        return self._outcome.result()

    @property
    def state(self) -> str:
        """`open`, `failed`, or `opening` while neither is known."""
        if not self._outcome.done():
            return "opening"
        return "failed" if self._outcome.exception() else "open"

    def close(self) -> None:
        """Close it if it is open."""
        if self.state == "open":
            self._outcome.result().close()

    def _open(self) -> None:
        try:
            opened = self._opener()
        except Exception as error:  # noqa: BLE001 - a thread has no caller; each call reports it
            bug = BugError(f"{self._what} did not open: {type(error).__name__}: {error}")
            known = error if isinstance(error, ContextEngineError) else bug
            self._failed(known)
            self._outcome.set_exception(known)
            return
        self._outcome.set_result(opened)


class OwnEngine:
    """An Engine of this process alone, which is used as one that a daemon leases."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.close = engine.close

    def engine(self) -> Engine:
        """Return the Engine."""
        return self._engine


def follow_edits(engine: Engine) -> None:
    """Keep an Engine up to date for as long as it is open."""
    engine.index.pool.takes_all = True
    engine.start_background_work(READ_AFTER_S)
    if engine.settings.watch:
        engine.watch()


def _isolated_settings(root: str | Path) -> Settings:
    """Return the settings of a workspace, with a data folder that no other workspace reads.

    Raises: UnsuitableRoot, FileNotFound, InvalidArgument.
    """
    from dataclasses import replace

    from context_engine.settings import Settings
    from context_engine.storage import user_data_folder, workspace_id

    folder = check_workspace_root(root)
    settings = Settings.load(folder)
    data_folder = settings.data_folder or user_data_folder()
    return replace(settings, data_folder=data_folder / "shared" / workspace_id(folder))
