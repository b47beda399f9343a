r"""Choose the folder of a workspace: the one that was named, if it is suitable, or the project around a place.

>>> uri_to_path("file:///home/me/a%20b"), uri_to_path("file:///c%3A/work/x", windows=True)
('/home/me/a b', 'c:\\work\\x')
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from context_engine.errors import AccessFailed, FileNotFound, InvalidArgument, InvalidPath, UnsuitableRoot

MARKERS = (
    *(".git", ".hg", ".jj", ".svn", ".context-engine"),
    *("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"),
    *("package.json", "deno.json", "tsconfig.json"),
    *("go.mod", "go.work", "Cargo.toml", "CMakeLists.txt", "meson.build", "Makefile", "configure.ac", "BUILD.bazel"),
    *("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "build.sbt", "deps.edn"),
    *("composer.json", "Gemfile", "mix.exs", "rebar.config", "Package.swift", "pubspec.yaml", "project.clj"),
    *("stack.yaml", "cabal.project", "dune-project", "Project.toml", "flake.nix", "build.zig", "DESCRIPTION"),
)
"""Files at the top of a project. One of them is enough."""

TOOL_FOLDERS = frozenset(
    "node_modules site-packages .npm _npx npm-cache .cache caches .vscode-server .cursor-server".split()
)
"""Parts of a path, in lower case, below which tools keep themselves and their caches."""

CLONES_FOLDER = "clones"
"""The folder of the user's cache that contains clones of remote repositories."""

_DRIVE = re.compile(r"/?([A-Za-z])[:|](?=/|$)")


def check_workspace_root(root: str | Path, *, allow_any: bool = False) -> Path:
    """Return the real path of the folder named as the workspace. `allow_any`: the user insists on it.

    Raises: FileNotFound, InvalidPath (no folder), AccessFailed, UnsuitableRoot (everything, or the whole home).
    """
    text = os.fspath(root)
    if not text.strip() or "\0" in text:
        raise InvalidPath(f"{text!r} cannot name a folder", suggestion="give the path of a project's folder")
    path = os.path.realpath(os.path.expanduser(text))
    try:
        os.scandir(path).close()
        os.stat(os.path.join(path, os.curdir))  # what is listed but cannot be entered is of no use either
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_folder(text, path) from error
    except OSError as error:
        raise AccessFailed(
            f"the folder {text} is closed: {error.strerror}",
            suggestion="Give this user permission to list and enter it.",
            details={"path": text},
        ) from error
    if not allow_any and (why := _unsuitable(path)):
        raise UnsuitableRoot(
            f"{path} is {why}, too much to take for one project",
            suggestion="Name the folder of a project: --root PATH, or the variable CTX_ROOT.",
            details={"path": path},
        )
    return Path(path)


def is_clone(root: Path, cache: Path) -> bool:
    """Return whether a workspace is a clone in the cache, where nothing may be written.

    >>> is_clone(Path("/c/clones/web-1"), Path("/c")), is_clone(Path("/src/web"), Path("/c"))
    (True, False)
    """
    return root.is_relative_to(cache / CLONES_FOLDER)


def resolve_path(path: str | Path) -> str:
    """Return the absolute path with `~` and links resolved; it need not exist."""
    return os.path.realpath(os.path.expanduser(path))


def nearest_project(start: str | Path) -> Path | None:
    """Return the nearest folder at or above `start` with a marker; a repository's top wins over a package inside it.

    None when there is none below the home folder or the root of the disk: a stray file there does not make a project.
    """
    path = os.path.realpath(start)
    found: str | None = None
    while not _unsuitable(path):
        if os.path.lexists(os.path.join(path, ".git")):
            return Path(path)
        if found is None and any(os.path.lexists(os.path.join(path, marker)) for marker in MARKERS):
            found = path
        path = os.path.dirname(path)
    return Path(found) if found else None


def project_of_process(start: str | Path) -> Path | None:
    """Return the project that a server was started in; None when it was started elsewhere, or in a tool's folder.

    Clients without a folder of their own start their servers in `/`, the home folder, a package cache or next to their
    program: none of these is a project of the user.
    """
    parts = {part.lower() for part in Path(os.path.realpath(start)).parts}
    return None if parts & TOOL_FOLDERS else nearest_project(start)


def uri_to_path(uri: str, *, windows: bool = False) -> str:
    r"""Return the path that a `file:` URI names, in the notation of the system that it comes from.

    >>> uri_to_path("file://server/share/x", windows=True)
    '\\\\server\\share\\x'

    Raises: InvalidArgument for another scheme, a foreign host where there are none, or a path that is not absolute.
    """
    from urllib.parse import unquote, urlsplit  # the fast start imports this module and sees no URI

    try:
        parts = urlsplit(uri)
    except ValueError as error:  # a bracket without its pair: "Invalid IPv6 URL"
        raise _no_path(uri, "it is not a well-formed URI") from error
    path = unquote(parts.path, errors="surrogateescape")
    host = "" if parts.netloc.lower() in {"", "localhost", "127.0.0.1"} else unquote(parts.netloc)
    if parts.scheme.lower() != "file":
        raise _no_path(uri, "its scheme is not file:")
    if "\0" in path:
        raise _no_path(uri, "it holds a NUL character")
    if not windows:
        if host:
            raise _no_path(uri, f"it names another machine, {host}")
        if not path.startswith("/"):
            raise _no_path(uri, "its path is not absolute")
        return path
    if _DRIVE.fullmatch(host):  # `file://c:/x`, wrong and common
        path, host = f"/{host}{path}", ""
    if host:
        return "\\\\" + host + path.replace("/", "\\")
    if not (drive := _DRIVE.match(path)):
        raise _no_path(uri, "it names no drive")
    return f"{drive[1]}:" + (path[drive.end() :].replace("/", "\\") or "\\")


def _unsuitable(path: str) -> str:
    """Return why a real path must not be taken for a project; empty when it may."""
    if path == os.path.dirname(path):
        return "the root of the disk"
    home = os.path.realpath(os.path.expanduser("~"))
    if os.path.normcase(path) == os.path.normcase(home):
        return "the home folder"
    if os.path.normcase(home).startswith(os.path.normcase(path) + os.sep):
        return "the folder of all home folders"
    return ""


def _no_folder(text: str, path: str) -> InvalidPath | FileNotFound:
    if os.path.lexists(path):
        return InvalidPath(f"{text} is a file, not a folder", suggestion=f"give {os.path.dirname(path)}")
    return FileNotFound(f"there is no folder {text}", suggestion="check the spelling", details={"path": text})


def _no_path(uri: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{uri!r} names no folder here: {why}",
        suggestion="give a file: URI with an absolute path",
        details={"uri": uri},
    )
