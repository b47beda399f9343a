"""Read changes from git: a diff and the files on both sides, of the stage, the work tree, a branch or a commit.

A revision is one of these sides as a whole: its paths, bytes, and which files contain a word. Nothing is checked out.

No program that a repository names is started. No name of a caller reaches a command line: git has turned each into the
hash of a commit before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from context_engine.errors import (
    AccessFailed,
    CallError,
    ContextEngineError,
    GitUnavailable,
    InvalidArgument,
    PreconditionFailed,
    RefNotFound,
    TooLarge,
    UnsupportedHost,
)
from context_engine.model import Skipped
from context_engine.repo.file_reader import read_bytes, why_binary
from context_engine.repo.git import TIMEOUT_S, Git
from context_engine.repo.paths import Root, is_sensitive, path_of_listing
from context_engine.storage import STATE_FOLDER
from context_engine.text import GIT_DIFF_BYTES_MAX, FileDiff, check_diff_size, find_near_words, parse_diff

VERSION_BYTES_MAX = 2_000_000
"""A larger file is rarely written by hand, and no checker finishes it in time."""
RENAMED_FILES_MAX = 1_000
"""In a change with more added and deleted files only exact renames are found, which is git's default too."""
UNTRACKED_MAX = 1_000
"""More new files are a folder that should have been ignored."""
STAGED = ("--cached",)

SHAPE = (
    *("-p", "--full-index", "--no-color", "--relative", "--submodule=short"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers", "--indent-heuristic", "--inter-hunk-context=0"),
    *("-M", f"-l{RENAMED_FILES_MAX}", "-O/dev/null"),
)
"""The form of differences, whatever the user's own settings are."""


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """Which change: `staged`, `unstaged`, `head` (all that is not committed), a branch, a commit, `a..b` or `a...b`."""

    target: str = "staged"
    base: str = ""
    context_lines: int = 3
    include_untracked: bool = False


@dataclass(frozen=True, slots=True)
class GitDiff:
    """Two versions, which are the `args` of `git diff`, and how they differ.

    `commit` is empty where the new version is the stage or the work tree; `nothing` says why there is no change.
    """

    args: tuple[str, ...]
    nothing: str
    base: str = ""
    base_commit: str = ""
    commit: str = ""
    merge_base: str = ""
    target: str = ""
    text: str = ""
    files: tuple[FileDiff, ...] = ()
    left_out: tuple[Skipped, ...] = ()

    @property
    def command(self) -> str:
        """The git command that shows it."""
        return f"git diff {' '.join(self.args)}".strip()

    @property
    def is_of_work_tree(self) -> bool:
        """Whether the new version are the files on the disk."""
        return not self.commit and STAGED[0] not in self.args


@dataclass(frozen=True, slots=True)
class ChangeContents:
    """The bytes of files before and after a change, by path; `left_out` says which are not here, and why."""

    old: Mapping[str, bytes]
    new: Mapping[str, bytes]
    left_out: tuple[Skipped, ...] = ()


class DiffReader:
    """The changes of the repository that a workspace lies in.

    Paths are relative to the workspace; other files do not count.
    """

    def __init__(self, git: Git, root: Root) -> None:
        """No process is started until a change is asked for."""
        self._git = git
        self._root = root

    def read_diff(self, asked: DiffRequest) -> GitDiff:
        """Return the requested diff.

        Raises: GitUnavailable, RefNotFound (`details` has the nearest), PreconditionFailed (there is no change),
        InvalidArgument, TooLarge, AccessFailed (git refuses, or takes too long).
        """
        if self._git.repository is None:
            raise GitUnavailable(
                f"{self._root.path} is not in a git repository",
                suggestion=self._git.how_to_link() or "Name a folder in one, or pass a unified diff to review_changes.",
            )
        try:
            return self._take(asked)
        except UnsupportedHost as error:
            raise GitUnavailable(error.message, suggestion=error.suggestion, details=error.details) from error

    def versions(self, diff: GitDiff) -> ChangeContents:
        """Return both sides of its files in memory: ask for some hundred at a time. Raises: AccessFailed."""
        left_out: dict[str, Skipped] = {}
        files = [file for file in diff.files if not _is_left_out(file, left_out)]
        before = _tree_prefix(self._git, diff.merge_base or diff.base_commit)
        after = _tree_prefix(self._git, diff.commit)
        old_names, new_names = {}, {}
        for file in files:  # git names no blobs of a file that was only renamed
            if file.old_path:
                old_names[file.path] = file.old_blob or f"{before}{file.old_path}"
            if file.new_path and not diff.is_of_work_tree:
                new_names[file.path] = file.new_blob or f"{after}{file.new_path}"
        blobs = self._git.read_blobs([*old_names.values(), *new_names.values()], bytes_max=VERSION_BYTES_MAX)
        old: dict[str, bytes] = {}
        new: dict[str, bytes] = {}
        for file in files:
            old_data = blobs.get(old_names.get(file.path, ""))
            new_data: bytes | Skipped | None = blobs.get(new_names.get(file.path, ""))
            if file.new_path and diff.is_of_work_tree:
                new_data = self._in_work_tree(file.new_path)
            if old_data is not None:
                old[file.old_path] = old_data
            elif file.old_path:
                left_out[file.path] = Skipped(file.path, "too_large", "the old version")
            if isinstance(new_data, bytes):
                new[file.new_path] = new_data
            elif file.new_path:
                left_out.setdefault(file.path, new_data or Skipped(file.path, "too_large", "the new version"))
        return ChangeContents(old, new, tuple(left_out.values()))

    # -- the diff --

    def _take(self, asked: DiffRequest) -> GitDiff:
        scope = scope_of(self._git, asked.target, asked.base)
        said = self._git.run("diff", *SHAPE, f"-U{asked.context_lines}", *scope.args, "--")
        text = said.decode("utf-8", "replace")
        left_out: list[Skipped] = []
        is_more_asked = asked.include_untracked and scope.is_of_work_tree
        more = self._untracked_files(left_out, len(said)) if is_more_asked else ()
        parsed = parse_diff(text, bytes_max=GIT_DIFF_BYTES_MAX, may_be_empty=True, more=more)
        files = tuple(file for file in parsed if not file.path.startswith(f"{STATE_FOLDER}/"))
        if not files:
            raise self._empty(scope, asked)
        return replace(scope, target=asked.target, text=text, files=files, left_out=tuple(left_out))

    def _empty(self, scope: GitDiff, asked: DiffRequest) -> PreconditionFailed:
        """Return the error that there is no change, with the other target that has one."""
        suggestion = "Compare others: staged, unstaged, head, a branch, a commit, a..b or a...b, or another base."
        for other, args, place in (("staged", STAGED, "staged"), ("unstaged", (), "not staged")):
            if asked.target in ("staged", "unstaged") and asked.target != other:
                count = self._git.run("diff", "--name-only", "-z", *args, "--").count(b"\0")
                if count:
                    are = "1 file is" if count == 1 else f"{count:,} files are"
                    suggestion = f"{are} changed and {place}: target {other!r}."
        repository = self._git.repository
        if repository and os.path.lexists(os.path.join(repository.top, ".gitmodules")):
            suggestion += " Changes inside a submodule are shown in a workspace there."
        return PreconditionFailed(
            f"there is no change: {scope.nothing}",
            suggestion=suggestion,
            details={"target": asked.target, "base": scope.base, "reason": scope.nothing},
        )

    # -- files that git does not know yet --

    def _untracked_files(self, left_out: list[Skipped], size: int) -> Iterator[FileDiff]:
        """Yield each untracked file that is not ignored; `size` is that of the diff before. Raises: TooLarge."""
        names = self._git.untracked_paths()
        if len(names) > UNTRACKED_MAX:
            rest = f"{len(names) - UNTRACKED_MAX:,} more untracked files"
            left_out.append(Skipped(_printable(names[UNTRACKED_MAX]), "too_many", rest))
        for path in names[:UNTRACKED_MAX]:
            content = self._in_work_tree(path)
            if isinstance(content, bytes):
                size += len(content)
                check_diff_size(size, GIT_DIFF_BYTES_MAX)
                new = None if why_binary(content) else content.decode("utf-8", "replace")
                yield FileDiff.of_new_file(_printable(path), new)
            else:
                left_out.append(replace(content, path=_printable(path)))

    def _in_work_tree(self, path: str) -> bytes | Skipped:
        if reason := is_sensitive(path):
            return Skipped(path, "sensitive", reason)
        try:
            place = self._root.absolute(path)
            if os.path.islink(place):
                return os.fsencode(os.readlink(place))
            return read_bytes(self._root, path_of_listing(path), bytes_max=VERSION_BYTES_MAX)[0]
        except (CallError, AccessFailed) as error:
            return Skipped(path, error.code.lower(), error.message)
        except (OSError, ValueError) as error:  # a link that vanished, a name that this system cannot have
            return Skipped(path, "access_failed", str(error))


def _tree_prefix(git: Git, commit: str) -> str:
    """Return what is before the path of a file in git's name for it in a commit, or in the stage ("")."""
    below = git.below()
    return f"{commit}:{below}/" if below else f"{commit}:"


def _is_left_out(file: FileDiff, left_out: dict[str, Skipped]) -> bool:
    """Return whether a file has no contents to compare, and say why."""
    if file.is_submodule:
        left_out[file.path] = Skipped(file.path, "submodule", "another repository")
    elif file.kind == "unmerged":
        left_out[file.path] = Skipped(file.path, "unmerged", "in the middle of a merge")
    return file.path in left_out


def _printable(path: str) -> str:
    """Return a path without the bytes that are not UTF-8, as a diff shows it."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# -- which two versions are compared -----------------------------------------------------------------------------------

# The names that a caller gives become commits, and the arguments of git.

DEFAULT_BRANCHES = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master", "refs/remotes/origin/main")
NAMES_MAX = 10_000
"""Refs among which near names are searched."""


def scope_of(git: Git, target: str, base: str = "") -> GitDiff:
    """Return the two versions that a target means, not compared yet.

    Raises: RefNotFound, InvalidArgument, PreconditionFailed (no branch to compare with, a shallow clone), AccessFailed.
    """
    match target:
        case "staged":
            return _uncommitted_range(git, base, STAGED, "nothing is staged")
        case "head":
            return _uncommitted_range(git, base, (), "nothing differs from the last commit")
        case "unstaged" if base:
            return _uncommitted_range(git, base, (), f"nothing differs from {base}")
        case "unstaged":
            return GitDiff(("--ours",), "nothing is changed that is not staged", base="index")
    if "..." in target:
        old, _, new = target.partition("...")
        return _branch_range(git, old or "HEAD", new or "HEAD")
    if ".." in target:
        old, _, new = target.partition("..")
        old, new = old or "HEAD", new or "HEAD"
        before, after = commit_of(git, old), commit_of(git, new)
        return GitDiff((before, after), f"{old} and {new} hold the same files", old, before, after)
    if base:
        return _branch_range(git, base, target)
    if _is_branch(git, target):
        return _branch_range(git, _default_branch(git), target)
    return _one_commit(git, target)


def commit_of(git: Git, name: str) -> str:
    """Return the commit that a name stands for.

    Raises: RefNotFound, with the nearest names; InvalidArgument, AccessFailed.
    """
    if name.startswith("-"):
        raise InvalidArgument(
            f"{name!r} begins with a dash, as no branch, tag or commit does",
            suggestion="Name a branch, a tag or a commit hash.",
            details={"ref": name},
        )
    try:
        return git.commit(name)
    except InvalidArgument as error:
        said = git.run("for-each-ref", f"--count={NAMES_MAX}", "--format=%(refname:short)").decode("utf-8", "replace")
        nearest = find_near_words(name, said.split())
        did = "`git branch --all` and `git tag` list the names that exist."
        if nearest:
            did = f"Did you mean {', '.join(nearest)}?"
        details = {"ref": name, "nearest": nearest}
        message = f"{name!r} is not a branch, tag or commit"
        raise RefNotFound(message, suggestion=did, details=details) from error


def _uncommitted_range(git: Git, base: str, args: tuple[str, ...], nothing: str) -> GitDiff:
    """Return a commit against the stage or the work tree; before the first commit, the empty tree."""
    head = git.head()
    if base or (head and head.commit):
        commit = commit_of(git, base or "HEAD")
        return GitDiff((*args, commit), nothing, base or "HEAD", commit)
    empty = _empty_tree(git)
    return GitDiff((*args, empty), nothing, "the empty tree", empty)


def _branch_range(git: Git, base: str, target: str) -> GitDiff:
    """Return the changes of a branch since it left its base."""
    before, after = commit_of(git, base), commit_of(git, target)
    meets = git.run("merge-base", before, after, may_be_empty=True).decode("ascii").split()
    if not meets:
        raise PreconditionFailed(
            f"{base} and {target} have no common history",
            suggestion=f"Compare them as they are: {base}..{target}.",
            details={"base": base, "target": target},
        )
    nothing = f"{target} brings nothing that {base} has not"
    return GitDiff((meets[0], after), nothing, base, before, after, meets[0])


def _one_commit(git: Git, name: str) -> GitDiff:
    """Return a commit against its first parent; the first commit against the empty tree."""
    commit = commit_of(git, name)
    if commit in git.shallow_commits():
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
        return GitDiff((empty, commit), nothing, "the empty tree", empty, commit)
    return GitDiff((parent, commit), nothing, f"{commit[:12]}^1", parent, commit)


def _empty_tree(git: Git) -> str:
    """Return the tree without files, which a first commit is compared with."""
    return git.run("hash-object", "-t", "tree", "--stdin").decode("ascii").strip()


# -- names ------------------------------------------------------------------------------------------------------------


def _is_branch(git: Git, name: str) -> bool:
    """Return whether a name is a branch, here or of a remote; anything else is a commit."""
    wanted = (f"refs/heads/{name}", f"refs/remotes/{name}")
    if name.startswith("-") or "\0" in name:
        return False
    said = git.run("for-each-ref", "--format=%(refname)", "--", *wanted).decode("utf-8", "surrogateescape")
    return any(word in wanted for word in said.split("\n"))


def _default_branch(git: Git) -> str:
    """Return the branch that others start from. Raises: PreconditionFailed."""
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


# -- files of one revision ---------------------------------------------------------------------------------------------

WORDS_MAX = 200
"""A question about a change has fewer words; git compares each line with all of them."""
GREP_S_MAX = 5.0
"""Searching a large repository takes about a second; what takes longer is not worth a reviewer's time."""
_WORD = re.compile(r"\w+")
_NO_ANSWER = (AccessFailed, UnsupportedHost, TooLarge)


@dataclass(frozen=True, slots=True)
class GitRevision:
    """The files of a commit (its hash), of the `STAGE`, or of the `WORK_TREE`, which `on_disk` reads."""

    WORK_TREE: ClassVar[str] = ""
    STAGE: ClassVar[str] = ":"

    git: Git
    commit: str
    on_disk: Callable[[str], bytes | None] = lambda _path: None

    def paths(self) -> Sequence[str]:
        """Return every path, sorted; none where git fails."""
        if self.commit == self.WORK_TREE:
            return sorted({*self._stored_paths(self.STAGE), *self._untracked_paths()})
        return self._stored_paths(self.commit)

    def _stored_paths(self, commit: str) -> Sequence[str]:
        if commit == self.STAGE:
            output = self._git_output("ls-files", "-z", "--cached")
        else:
            output = self._git_output("ls-tree", "-r", "-z", "--name-only", commit)
        return sorted(set(filter(None, output.decode("utf-8", "replace").split("\0"))))

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        """Return the bytes of these files; files that do not exist, are too large or contain secrets are left out."""
        wanted = [path for path in dict.fromkeys(paths) if path and not is_sensitive(path)]
        if self.commit == self.WORK_TREE:
            return {path: data for path in wanted if (data := self.on_disk(path)) is not None}
        prefix = _tree_prefix(self.git, "" if self.commit == self.STAGE else self.commit)
        try:
            blobs = self.git.read_blobs([f"{prefix}{path}" for path in wanted], bytes_max=VERSION_BYTES_MAX)
        except _NO_ANSWER:
            return {}
        return {name.removeprefix(prefix): data for name, data in blobs.items()}

    def files_with_words(self, words: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the files that contain each of these as a whole word; none where git fails or takes too long."""
        wanted = [word for word in dict.fromkeys(words) if word and "\n" not in word][:WORDS_MAX]
        if not wanted:
            return {}
        patterns = [part for word in wanted for part in ("-e", word)]
        options = ("-I", "-F", "-w", "-o", "-z", "--no-color", "--no-recurse-submodules")
        before = ("--cached",) if self.commit == self.STAGE else ()
        after = (self.commit,) if self.commit not in (self.STAGE, self.WORK_TREE) else ()
        output = self._git_output("grep", *options, *before, *patterns, *after, timeout_s=GREP_S_MAX)
        found: dict[str, set[str]] = {word: set() for word in wanted}
        for row in output.decode("utf-8", "replace").split("\n"):
            place, _, word = row.partition("\0")
            path = place.partition(":")[2] if after else place
            if word in found and path and not is_sensitive(path):
                found[word].add(path)
        if self.commit == self.WORK_TREE:
            self._search_untracked(found)
        return {word: sorted(paths) for word, paths in found.items()}

    def _untracked_paths(self) -> list[str]:
        try:
            paths = self.git.untracked_paths()
        except ContextEngineError:
            return []
        return [os.fsencode(path).decode("utf-8", "replace") for path in paths]

    def _search_untracked(self, found: Mapping[str, set[str]]) -> None:
        """Add the files that git does not track, which `git grep` would find by rules of the repository."""
        for path, data in self.read(self._untracked_paths()[:UNTRACKED_MAX]).items():
            text = data.decode("utf-8", "replace")
            whole = set(_WORD.findall(text))
            for word in filter(text.__contains__, found):
                if whole.issuperset(_WORD.findall(word)):
                    found[word].add(path)

    def _git_output(self, *args: str, timeout_s: float = TIMEOUT_S) -> bytes:
        """Return what git prints; nothing when it refuses, is not installed, or finds nothing (`grep` exits with 1)."""
        try:
            return self.git.run(*args, timeout_s=timeout_s)
        except _NO_ANSWER:
            return b""
