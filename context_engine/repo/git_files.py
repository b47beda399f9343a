"""What a repository's own files say: where it is, which branch and commit are checked out. No process is started.

Only regular files are read, up to a limit, and no link is followed out of their folder. A repository is elsewhere than
in `.git` only when it says so itself: a linked work tree (the file `gitdir` in it), a submodule or a separate folder
(its `core.worktree` leads back). Any other could show the history of a repository that nobody opened: it is none.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

from context_engine.repo.executables import is_within
from context_engine.storage import ConfinedFolder

POINTER_BYTES_MAX = 65_536
"""HEAD, a loose ref, `commondir` and a `.git` file hold one line each; a path in it may be long."""
CONFIG_BYTES_MAX = 1_000_000
"""A settings file of git; that of a clone has some hundred bytes."""
REFS_BYTES_MAX = 100_000_000
"""The packed list of a million refs."""
FILES_OF_GIT = (
    *("HEAD", "index", "config", "config.worktree", "gitdir", "commondir", "packed-refs", "shallow"),
    *("info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout", "objects/info/alternates"),
)
"""Files that git opens without checking their type: a pipe would block it, a device would never end."""
FILES_OF_THE_TREE = (".gitattributes", ".gitignore", ".gitmodules", ".mailmap")
NEVER_ELSEWHERE = ("HEAD", "index", "refs", "packed-refs", "logs")
"""Parts of a repository that must not be links, because a link would show the history of another one."""

STARS_MIN = 4
"""Stars in one pattern that take git more than a second for a long name; nobody writes so many."""
LOOK_S_MAX = 2.0
"""In this time a hundred thousand files are listed."""

HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LINKS_MAX = 5  # symbolic refs that name one another, as git allows
_SECTION = re.compile(r"\s*\[\s*([\w.-]+)\s*(\"(?:[^\"\\]|\\.)*\")?\s*\]")
_WORK_TREE = re.compile(r"\s*worktree\s*=\s*(.*)", re.IGNORECASE)


class GitHead(NamedTuple):
    """What is checked out. `branch` is None when HEAD is detached, `commit` is None before the first commit."""

    branch: str | None
    commit: str | None


class Repository(NamedTuple):
    """A work tree: its top folder, where its HEAD and index are, and where refs and objects are; real paths."""

    top: str
    git_dir: str
    common_dir: str


def repository_of(folder: str) -> Repository | None:
    """Return the repository of the nearest work tree at or above a real path."""
    while True:
        if found := repository_at(folder):
            return found
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def repository_at(top: str) -> Repository | None:
    """Return the repository whose work tree has its top exactly there."""
    path = os.path.join(top, ".git")
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # not there, or not to be seen
        return None
    is_folder = stat.S_ISDIR(mode)
    git_dir = os.path.realpath(path if is_folder or stat.S_ISLNK(mode) else _pointed_at(top))
    common = _common(git_dir)
    if not common or not os.path.lexists(os.path.join(git_dir, "HEAD")):
        return None
    if not os.path.isdir(os.path.join(common, "objects")):
        return None
    found = Repository(os.path.realpath(top), git_dir, common)
    return found if is_folder or _leads_back(found) else None


def common_dir_of(top: str) -> str | None:
    """Return the real path of the repository of a work tree, the same for all its work trees; None without one."""
    found = repository_at(top)
    return found.common_dir if found else None


def read_head(repository: Repository) -> GitHead | None:
    """Return HEAD, followed through symbolic refs to a commit."""
    said = read_line(repository.git_dir, "HEAD")
    name = ""
    for _ in range(_LINKS_MAX):
        if not said.startswith("ref:"):
            break
        name = said.removeprefix("ref:").strip()
        if not name.startswith("refs/") or {"..", "", "."} & {*name.split("/")} or "\0" in name:
            return None
        said = _ref(repository, name)
    commit = said if HASH.fullmatch(said) else None
    if not name and not commit:
        return None
    return GitHead(name.removeprefix("refs/heads/") or None, commit)


def read_line(folder: str, name: str) -> str:
    """Return the only line of a small file; empty for a file that does not exist or must not be read."""
    return read_text(folder, name, POINTER_BYTES_MAX).strip("\r\n\t ")


def read_text(folder: str, name: str, bytes_max: int) -> str:
    """Return a regular file beneath a folder; empty when there is none, or it is larger."""
    try:
        data = ConfinedFolder(folder, follow_links=True).read_bytes(name, bytes_max=bytes_max)
    except (OSError, ValueError):  # not there, a folder, closed, no name: git, too, takes it for absent
        return ""
    return data.decode("utf-8", "surrogateescape")


def problem_of(repository: Repository) -> str:
    """Return why git must not run on a repository; empty when it may.

    A special file would block it, and a link in place of its own files would show another repository.
    """
    folders = tuple(dict.fromkeys((repository.git_dir, repository.common_dir)))
    places = [os.path.join(folder, name) for folder in folders for name in FILES_OF_GIT]
    places += [os.path.join(repository.top, name) for name in FILES_OF_THE_TREE]
    for place in places:
        if not _is_regular_or_absent(place):
            return f"{place} is not a regular file"
    if len(folders) == 1 and os.path.lexists(os.path.join(repository.git_dir, "commondir")):
        return f"{repository.git_dir} names another repository in commondir"
    for place in (os.path.join(folder, name) for folder in folders for name in NEVER_ELSEWHERE):
        if os.path.islink(place) and not any(is_within(place, folder) for folder in folders):
            return f"{place} is a link to another repository"
    return ""


def find_costly_pattern(root: str) -> str:
    """Return the attributes file whose pattern git, before 2.41, may match in every combination; empty without one.

    Git looks the attributes of a file up for its diff: 14 stars and a long name take hours.
    """
    found = repository_of(root)
    if found is None:
        return ""
    places = [os.path.join(found.common_dir, "info", "attributes")]
    until = time.monotonic() + LOOK_S_MAX
    for folder, folders, names in os.walk(found.top):
        folders[:] = [name for name in folders if name != ".git"]
        places += [os.path.join(folder, name) for name in names if name == ".gitattributes"]
        if time.monotonic() > until:
            break
    for place in places:
        lines = read_text(os.path.dirname(place), os.path.basename(place), CONFIG_BYTES_MAX).splitlines()
        for number, line in enumerate(lines, start=1):
            stars = len(re.findall(r"\*+", line.split()[0])) if line.strip() else 0
            if stars >= STARS_MIN:
                shown = os.path.relpath(place, found.top)
                return f"line {number} of {shown} has a pattern of {stars} stars, which git matches in every way"
    return ""


def _is_regular_or_absent(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def _pointed_at(top: str) -> str:
    """Return where a `.git` file points; a path that does not exist when it says nothing."""
    said = read_line(top, ".git")
    named = ""
    if said.startswith("gitdir:"):
        named = said.removeprefix("gitdir:").strip()
    return os.path.join(top, named if named and "\0" not in named else ".git")


def _common(git_dir: str) -> str:
    """Return the folder with refs and objects, which only a linked work tree has elsewhere; empty for a wrong claim."""
    said = read_line(git_dir, "commondir")
    if not said:
        return git_dir
    common = ""
    if "\0" not in said:
        common = os.path.realpath(os.path.join(git_dir, said))
    if common and os.path.dirname(git_dir) == os.path.join(common, "worktrees"):
        return common
    return ""


def _leads_back(repository: Repository) -> bool:
    """Return whether a repository in another place names this work tree as its own."""
    top, git_dir, common = repository
    if git_dir != common:
        pointer = os.path.join(git_dir, read_line(git_dir, "gitdir"))
        return os.path.basename(pointer) == ".git" and os.path.realpath(os.path.dirname(pointer)) == top
    named = core_worktree(read_text(git_dir, "config", CONFIG_BYTES_MAX))
    return bool(named) and os.path.realpath(os.path.join(git_dir, named)) == top


def core_worktree(config: str) -> str:
    r"""Return the work tree that a settings file of git names; empty when it names none. Included files do not count.

    >>> core_worktree('[core]\n\tbare = false\n\tworktree = "../../../a \\"b\\"" ; here\n[core "x"]\nworktree = no\n')
    '../../../a "b"'
    """
    is_core, found = False, ""
    for line in config.splitlines():
        if section := _SECTION.match(line):
            is_core = section[1].lower() == "core" and not section[2]
            line = line[section.end() :]
        if is_core and (said := _WORK_TREE.match(line)):
            quoted = re.match(r'"((?:[^"\\]|\\.)*)"', said[1])
            value = quoted[1] if quoted else re.split(r"[#;]", said[1])[0].strip()
            found = re.sub(r"\\(.)", r"\1", value)
    return "" if "\0" in found else found


def _ref(repository: Repository, name: str) -> str:
    """Return what a ref says: the loose file of this work tree, the shared one, or its line in the packed list."""
    for place in dict.fromkeys((repository.git_dir, repository.common_dir)):
        if said := read_line(place, name):
            return said
    packed = read_text(repository.common_dir, "packed-refs", REFS_BYTES_MAX)
    found = re.search(rf"^(\S+) {re.escape(name)}\r?$", packed, re.MULTILINE) if name in packed else None
    return found[1] if found else ""


def work_trees_of(common: str) -> Iterator[str]:
    """Yield the top folder of each work tree of a repository: the main one, and those that git lists in it."""
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
