"""PURE. The ends of a path that someone wrote, under which a file here may be known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_INSTALLED = frozenset(("site-packages", "dist-packages", "node_modules", "registry", "mod", "gems", "deps", "usr"))
"""Folders of installed packages: what is below them is rarely a file of this workspace."""
_NEAR, _INSTALLED_TRUST, _ROOT_TRUST = 0.9, 0.5, 0.6


class PathEnd(NamedTuple):
    """The end of a path, which may name a file here.

    `trust` is how sure that is. `is_whole`: only the file of exactly this path is meant.
    """

    path: str
    trust: float
    is_whole: bool

    PACKAGE_SUFFIXES = frozenset(("java", "kt", "kts", "scala", "groovy", "clj"))
    """Of files that are named by their package, whose folders need not exist."""

    @staticmethod
    def list_of(path: str) -> Iterator[PathEnd]:
        """Yield a path, and its ends that may name a file here, the longest first.

        A path of another machine begins with folders of that machine, a relative path at most with the folder of the
        workspace, a package with folders that need not exist. The bare name is only a file at the top of the workspace.

        >>> [end.path for end in PathEnd.list_of("/home/me/zoo/src/a.py")]
        ['home/me/zoo/src/a.py', 'me/zoo/src/a.py', 'zoo/src/a.py', 'src/a.py', 'a.py']
        >>> [end.path for end in PathEnd.list_of("zoo/src/a.py")], [end.path for end in PathEnd.list_of("src/a.py")]
        (['zoo/src/a.py', 'src/a.py'], ['src/a.py'])
        """
        parts = [part for part in path.split("/") if part not in ("", ".", "..")]
        is_package = path.rpartition(".")[2] in PathEnd.PACKAGE_SUFFIXES
        is_installed = not _INSTALLED.isdisjoint(parts)
        dropped_max = 1
        if path.startswith("/") or path[1:2] == ":" or is_package:
            dropped_max = len(parts) - 1
        for dropped in range(min(dropped_max, len(parts) - 1) + 1):
            tail, is_bare = "/".join(parts[dropped:]), dropped == len(parts) - 1
            if not dropped:
                yield PathEnd(tail, 1.0, is_whole=False)
            elif not is_bare:
                yield PathEnd(tail, _INSTALLED_TRUST if is_installed else _NEAR, is_whole=False)
            elif dropped_max > 1 and not is_installed:
                yield PathEnd(tail, _ROOT_TRUST, is_whole=not is_package)
