"""Which two versions a review compares: what a caller names -> the commits, and the words for git.

Names never reach a command line as they are: git has turned each into the hash of a commit before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from context_engine.errors import AccessFailed, InvalidArgument, PreconditionFailed, RefNotFound
from context_engine.repo.git import Git
from context_engine.repo.paths import near_names

DEFAULT_BRANCHES = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master", "refs/remotes/origin/main")
NAMES_MAX = 10_000
"""Refs that are looked through for near names."""


@dataclass(frozen=True, slots=True)
class DiffRange:
    """Two versions.

    `commit` is empty where the new one is the stage or the work tree; `nothing` says why there is no change.
    """

    args: tuple[str, ...]
    nothing: str
    base: str = ""
    base_commit: str = ""
    commit: str = ""
    merge_base: str = ""

    @property
    def is_staged(self) -> bool:
        """Whether the new version is what the next commit would hold."""
        return "--cached" in self.args


def scope_of(git: Git, target: str, base: str = "") -> DiffRange:
    """What a target means.

    Raises: RefNotFound, InvalidArgument, PreconditionFailed (no branch to compare with, a shallow clone), AccessFailed.
    """
    match target:
        case "staged":
            return _uncommitted_range(git, base, ("--cached",), "nothing is staged")
        case "head":
            return _uncommitted_range(git, base, (), "nothing differs from the last commit")
        case "unstaged" if base:
            return _uncommitted_range(git, base, (), f"nothing differs from {base}")
        case "unstaged":
            return DiffRange(("--ours",), "nothing is changed that is not staged", base="index")
    if "..." in target:
        old, _, new = target.partition("...")
        return _branch_range(git, old or "HEAD", new or "HEAD")
    if ".." in target:
        old, _, new = target.partition("..")
        return _between(git, old or "HEAD", new or "HEAD")
    if base:
        return _branch_range(git, base, target)
    return _branch_range(git, _default_branch(git), target) if _is_branch(git, target) else _one_commit(git, target)


def commit_of(git: Git, name: str) -> str:
    """The commit that a name stands for. Raises: RefNotFound, with the nearest names; InvalidArgument, AccessFailed."""
    if name.startswith("-"):
        raise InvalidArgument(
            f"{name!r} begins with a dash, as no branch, tag or commit does",
            suggestion="Name a branch, a tag or a commit hash.",
            details={"ref": name},
        )
    try:
        return git.commit(name)
    except InvalidArgument:
        _not_found(git, name)


def _uncommitted_range(git: Git, base: str, args: tuple[str, ...], nothing: str) -> DiffRange:
    """A commit beside the stage or the work tree; before the first commit, nothing beside them."""
    head = git.head()
    if base or (head and head.commit):
        commit = commit_of(git, base or "HEAD")
        return DiffRange((*args, commit), nothing, base or "HEAD", commit)
    empty = _empty_tree(git)
    return DiffRange((*args, empty), nothing, "the empty tree", empty)


def _between(git: Git, old: str, new: str) -> DiffRange:
    before, after = commit_of(git, old), commit_of(git, new)
    return DiffRange((before, after), f"{old} and {new} hold the same files", old, before, after)


def _branch_range(git: Git, base: str, target: str) -> DiffRange:
    """What a branch brings: from where it left the base."""
    before, after = commit_of(git, base), commit_of(git, target)
    try:
        meets = git.run("merge-base", before, after).decode("ascii").split()[0]
    except AccessFailed as error:
        if error.details.get("exit") != 1:
            raise
        raise PreconditionFailed(
            f"{base} and {target} have no common history",
            suggestion=f"Compare them as they are: {base}..{target}.",
            details={"base": base, "target": target},
        ) from error
    nothing = f"{target} brings nothing that {base} has not"
    return DiffRange((meets, after), nothing, base, before, after, meets)


def _one_commit(git: Git, name: str) -> DiffRange:
    """A commit against its first parent; the first one against nothing."""
    commit = commit_of(git, name)
    if commit in git.cut():
        raise PreconditionFailed(
            f"the clone is shallow and ends at {commit[:12]}: what that commit changed is not here",
            suggestion="Run git fetch --deepen 1 in a terminal, or review a newer commit.",
            details={"commit": commit},
        )
    nothing = f"the commit {commit[:12]} changes no file of this workspace"
    try:
        parent = git.commit(f"{commit}^1")
    except InvalidArgument:
        empty = _empty_tree(git)
        return DiffRange((empty, commit), nothing, "the empty tree", empty, commit)
    return DiffRange((parent, commit), nothing, f"{commit[:12]}^1", parent, commit)


def _empty_tree(git: Git) -> str:
    """The tree without files, which every repository knows by its kind of hash: what a first commit is compared with."""
    return git.run("hash-object", "-t", "tree", "--stdin").decode("ascii").strip()


# -- names ------------------------------------------------------------------------------------------------------------


def _is_branch(git: Git, name: str) -> bool:
    """Whether it is the name of a branch, here or of a remote; anything else is a commit."""
    wanted = (f"refs/heads/{name}", f"refs/remotes/{name}")
    if name.startswith("-") or "\0" in name:
        return False
    said = git.run("for-each-ref", "--format=%(refname)", "--", *wanted).decode("utf-8", "surrogateescape")
    return any(each in wanted for each in said.split("\n"))


def _default_branch(git: Git) -> str:
    """The branch that others start from. Raises: PreconditionFailed."""
    for name in DEFAULT_BRANCHES:
        try:
            git.commit(name)
        except InvalidArgument:
            continue
        return name
    raise PreconditionFailed(
        "there is no origin/HEAD, main or master to compare with",
        suggestion="Name the base, or the commits: base, or target a...b.",
    )


def _not_found(git: Git, name: str) -> NoReturn:
    said = git.run("for-each-ref", f"--count={NAMES_MAX}", "--format=%(refname:short)").decode("utf-8", "replace")
    nearest = near_names(name, said.split())
    did = f"Did you mean {', '.join(nearest)}?" if nearest else "git branch --all and git tag list what there is."
    raise RefNotFound(
        f"{name!r} names no branch, tag or commit", suggestion=did, details={"ref": name, "nearest": nearest}
    )
