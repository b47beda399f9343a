"""The other work trees of a repository: their folders, read from what git keeps of them, without starting it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from context_engine.repo.git import Git
from context_engine.repo.git_files import common_dir_of, enclosing_work_tree, read_line

TREES_MAX = 64
"""More are leftovers of some program; the first ones will do."""


def siblings(root: str, *, unless: str = "") -> tuple[str, ...]:
    """The same folder in each other work tree of the repository that a root lies in, where it is there.

    None of those that have something called `unless` in it, and none at all when the root has. Real paths, in order.
    """
    top = enclosing_work_tree(os.path.realpath(root))
    common = common_dir_of(top) if top else None
    if not top or not common or (unless and os.path.lexists(os.path.join(root, unless))):
        return ()
    below = Git(root).below()
    found = sorted({os.path.realpath(os.path.join(each, below)) for each in _trees(common)} - {os.path.realpath(root)})
    alike = [
        each for each in found if os.path.isdir(each) and not (unless and os.path.lexists(os.path.join(each, unless)))
    ]
    return tuple(alike[:TREES_MAX])


def _trees(common: str) -> Iterator[str]:
    """The tops of the work trees: the one that holds the repository, and those that git lists in it."""
    if os.path.basename(common) == ".git":
        yield os.path.dirname(common)
    folder = os.path.join(common, "worktrees")
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # a repository with one work tree has no such folder
        return
    for name in names:
        pointer = read_line(folder, f"{name}/gitdir")
        if pointer and common_dir_of(os.path.dirname(pointer)) == common:
            yield os.path.dirname(pointer)
