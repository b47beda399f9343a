"""PURE. Files in groups that are changed together: those of one folder, and those that import each other in a circle.

>>> found = group_files(["web/app.py", "core/db.py", "core/sql.py"], {"web/app.py": {"core/db.py"}})
>>> [(each.paths, each.needs) for each in found]
[(('core/db.py', 'core/sql.py'), ()), (('web/app.py',), (0,))]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

Imports = Mapping[str, Collection[str]]
"""The files that a file imports; what lies outside of the files asked about is passed over."""


class FileGroup(NamedTuple):
    """Files that are changed in one step. `needs` are the places, in the list, of the groups they import."""

    paths: tuple[str, ...]
    needs: tuple[int, ...]


def group_files(paths: Sequence[str], imports: Imports) -> list[FileGroup]:
    """The groups, what is imported before what imports it, else in the order of the paths."""
    folders = list(dict.fromkeys(folder_of(path) for path in paths))
    needs = {folder: _imported_folders(folder, paths, imports) for folder in folders}
    circles = _find_cycles(folders, needs)
    order = _sort_cycles(circles, needs)
    place = {folder: at for at, circle in enumerate(order) for folder in circle}
    return [
        FileGroup(
            tuple(path for path in paths if folder_of(path) in circle),
            tuple(sorted({place[other] for folder in circle for other in needs[folder]} - {at})),
        )
        for at, circle in enumerate(order)
    ]


def folder_of(path: str) -> str:
    """The folder of a path; empty at the top.

    >>> folder_of("a/b/c.py"), folder_of("c.py")
    ('a/b', '')
    """
    return path.rpartition("/")[0]


def _imported_folders(folder: str, paths: Sequence[str], imports: Imports) -> set[str]:
    """The other folders that the files of a folder import from."""
    here = set(paths)
    targets = (target for path in paths if folder_of(path) == folder for target in imports.get(path, ()))
    return {folder_of(target) for target in targets if target in here} - {folder}


def _find_cycles(folders: Sequence[str], needs: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Folders that lead back to each other, together; all others alone. A plan has few enough that all pairs are tried."""
    reached = {folder: _reachable_folders(folder, needs) for folder in folders}
    circles: dict[str, tuple[str, ...]] = {}
    for folder in folders:
        if not any(folder in circle for circle in circles.values()):
            same = (
                other for other in folders if other == folder or (other in reached[folder] and folder in reached[other])
            )
            circles[folder] = tuple(same)
    return list(circles.values())


def _reachable_folders(start: str, needs: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    wave = {start}
    while wave:
        wave = {other for folder in wave for other in needs[folder]} - found
        found |= wave
    return found


def _sort_cycles(circles: Sequence[tuple[str, ...]], needs: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Each circle behind those that it needs; of those that could come next the one that was named first."""
    of = {folder: at for at, circle in enumerate(circles) for folder in circle}
    sorter = TopologicalSorter({at: _needed_cycles(circle, of, needs) - {at} for at, circle in enumerate(circles)})
    sorter.prepare()
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        order.append(ready.pop(0))
        sorter.done(order[-1])
    return [circles[at] for at in order]


def _needed_cycles(circle: Iterable[str], of: Mapping[str, int], needs: Mapping[str, set[str]]) -> set[int]:
    return {of[other] for folder in circle for other in needs[folder]}
