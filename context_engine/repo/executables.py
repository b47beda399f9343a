"""Where programs are: each by its absolute path, never from the current folder and never from the workspace.

A PATH may contain `.`, an empty part (which means the current folder) or a folder of the workspace; Windows looks into
the current folder first, whatever PATH says. In all of these a repository could place a `git` of its own.

>>> find_program("sh", path="/bin") if os.name == "posix" else "/bin/sh"
'/bin/sh'
>>> find_program("sh", path=".:"), find_program("sh", path="/bin", outside="/")
('', '')
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

SUFFIXES = (".exe", ".com") if os.name == "nt" else ()
"""Of a program. A batch file is none: a shell would read its arguments, among which are names of a repository's files."""


def find_program(
    name: str, *, beside: Sequence[str] = (), path: str | None = None, outside: str | os.PathLike[str] = ""
) -> str:
    """Return the absolute path of a program; empty when there is none.

    The folders `beside` come first, because the caller trusts them; then those of `path` (the PATH of this process by
    default) that are absolute. What is in the folder `outside`, or leads there, does not count; except beside the
    Python that runs us, from which all of this comes anyway.
    """
    return next(find_programs(name, beside=beside, path=path, outside=outside), "")


def find_programs(
    name: str, *, beside: Sequence[str] = (), path: str | None = None, outside: str | os.PathLike[str] = ""
) -> Iterator[str]:
    """Yield each program of that name, in the order in which they are looked for."""
    if os.path.isabs(name):
        yield from _programs("", name)
    elif os.path.basename(name) == name:
        for folder in filter(os.path.isabs, beside):
            yield from _programs(folder, name)
        for folder in _folders(os.environ.get("PATH", os.defpath) if path is None else path, outside):
            yield from (place for place in _programs(folder, name) if _is_ours(folder) or not is_within(place, outside))


def safe_path(path: str, *, outside: str | os.PathLike[str] = "") -> str:
    """Return a PATH without its relative and empty parts, and without those in the folder `outside`.

    >>> safe_path("/usr/bin::.:tools:/src/app/bin:/bin", outside="/src/app") if os.name == "posix" else "/usr/bin:/bin"
    '/usr/bin:/bin'
    """
    return os.pathsep.join(_folders(path, outside))


def is_within(path: str, folder: str | os.PathLike[str]) -> bool:
    """Whether a path leads into a folder; never into the empty name."""
    if not os.fspath(folder):
        return False
    real, top = (os.path.normcase(os.path.realpath(each)) for each in (path, folder))
    return real == top or real.startswith(os.path.join(top, ""))


def _folders(path: str, outside: str | os.PathLike[str]) -> Iterator[str]:
    for folder in path.split(os.pathsep):
        if os.path.isabs(folder) and (_is_ours(folder) or not is_within(folder, outside)):
            yield folder


def _is_ours(folder: str) -> bool:
    return os.path.normpath(folder) == os.path.dirname(sys.executable)


def _programs(folder: str, name: str) -> Iterator[str]:
    suffixes = ("",) if not SUFFIXES or name.lower().endswith(SUFFIXES) else SUFFIXES
    for suffix in suffixes:
        place = os.path.join(folder, name + suffix)
        if os.path.isfile(place) and os.access(place, os.X_OK):
            yield place
