"""What git knows of a work tree: branch and commit read from its files, everything else asked of a hardened `git`.

Nothing here needs a repository: without one the answers are None. The command line is run without a shell, with fixed
options that keep a repository's own configuration from starting programs, opening connections or asking questions.

>>> Git(Path("/")).head() is None
True
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, NamedTuple

from context_engine.errors import AccessFailed, InvalidArgument, TooLarge, UnsupportedHost
from context_engine.workspace import processes

if TYPE_CHECKING:
    import subprocess

TIMEOUT_S = 30.0
"""A cold `git log` over a large history takes some ten seconds on a slow disk."""
OUTPUT_BYTES_MAX = 32_000_000
"""The path list of a million files fits; a diff beyond it is nothing to hand on."""
POINTER_BYTES_MAX = 65_536
"""HEAD, a loose ref, `commondir` and a `.git` file hold one line each; a path in it may be long."""

OPTIONS = (
    "--no-optional-locks",  # `status` must not take the index lock away from the user
    "--no-pager",
    "--literal-pathspecs",  # a path is a path, even when it begins with `:(exclude)`
    *("-c", "core.quotepath=off"),
    *("-c", "core.fsmonitor=false"),  # may name a program
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "diff.external="),
    *("-c", "log.showSignature=false"),  # would start gpg
    *("-c", "submodule.recurse=false"),
    *("-c", "color.ui=false"),
)
"""What every call begins with."""

NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
"""Added to the commands that show differences: a repository may name programs that draw them."""
SHOWS_DIFFERENCES = frozenset({"diff", "diff-files", "diff-index", "diff-tree", "log", "show"})

KEPT_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"})
"""Where git and the user's own settings lie. All other `GIT_*` are dropped: a hook that starts us sets GIT_DIR."""

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LINKS_MAX = 5  # symbolic refs that name one another, as git allows


class Head(NamedTuple):
    """What is checked out. `branch` is None when HEAD is detached, `commit` is None before the first commit."""

    branch: str | None
    commit: str | None


class Git:
    """The repository that a folder lies in, if any; `root` need not be the top of the work tree."""

    def __init__(self, root: str | Path) -> None:
        self._root = os.path.realpath(root)

    def head(self) -> Head | None:
        """The branch and commit that are checked out; None without a repository. Starts no process."""
        top = enclosing_work_tree(self._root)
        git_dir = _git_dir_at(top) if top else None
        if not git_dir:
            return None
        if os.path.isdir(os.path.join(_common(git_dir), "reftable")):
            return self._head_by_git()
        return _head(git_dir)

    def work_tree(self) -> Path | None:
        """The top folder of the work tree that the root lies in."""
        top = enclosing_work_tree(self._root)
        return Path(top) if top else None

    def below(self) -> str:
        """Where the root lies in its work tree, as `packages/web`; empty at the top and without a repository."""
        top = enclosing_work_tree(self._root)
        path = os.path.relpath(self._root, top).replace(os.sep, "/") if top else "."
        return "" if path == "." else path

    def git_dir(self) -> Path | None:
        """Where HEAD and the index of this work tree are; a linked work tree has its own."""
        top = enclosing_work_tree(self._root)
        found = _git_dir_at(top) if top else None
        return Path(found) if found else None

    def common_dir(self) -> Path | None:
        """Where refs and objects are, shared by all work trees of the repository."""
        found = self.git_dir()
        return Path(_common(str(found))) if found else None

    def excludes_file(self) -> str | None:
        """The user's own ignore file for all repositories (core.excludesFile), if it exists."""
        try:
            said = self.run("config", "--type=path", "--get", "core.excludesFile", timeout_s=5)
        except (AccessFailed, UnsupportedHost):  # exit 1 = not set; without git the usual place still counts
            said = b""
        path = os.fsdecode(said).rstrip("\n")
        if not path:
            home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
            path = os.path.join(home, "git", "ignore")
        path = os.path.join(self._root, path)
        return path if os.path.isfile(path) else None

    def commit(self, ref: str) -> str:
        """The hash of the commit that a branch, tag, hash or expression (`HEAD~2`) names.

        Raises: InvalidArgument when it names none; AccessFailed, UnsupportedHost as `run`.
        """
        wrong = not ref or "\0" in ref
        try:
            said = (
                b"" if wrong else self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
            )
        except AccessFailed as error:
            if error.details.get("exit") != 1:
                raise
            said = b""
        if not _HASH.fullmatch(found := said.decode("ascii", "replace").strip()):
            raise InvalidArgument(
                f"{ref!r} names no commit of this repository",
                suggestion="give a branch, a tag or a commit hash that exists here",
                details={"ref": ref},
            )
        return found

    def cut(self) -> frozenset[str]:
        """The commits at which a shallow clone was cut: they look as if they had added every file."""
        try:
            with open(
                os.path.join(self.common_dir() or os.devnull, "shallow"), encoding="ascii", errors="replace"
            ) as file:
                return frozenset(file.read().split())
        except OSError:  # a whole clone has no such file
            return frozenset()

    def run(
        self,
        *args: str,
        given: bytes = b"",
        settings: Mapping[str, str] = NO_SETTINGS,
        timeout_s: float = TIMEOUT_S,
        bytes_max: int = OUTPUT_BYTES_MAX,
    ) -> bytes:
        """The output of one git command, run in the root. Refs among `args` must have come from `commit`.

        `given` is what it reads; `settings` go before those of the repository, for names that no option could spell.

        Raises: AccessFailed (git refused, `details` has `exit` and `stderr`; or it took too long), TooLarge,
        UnsupportedHost (no git on this machine).
        """
        with _put_aside() as complaints, _put_aside(given) as standard_input:
            process = self._started(args, standard_input, complaints, settings)
            said, in_time = _collected(process, timeout_s, bytes_max)
            complaints.seek(0)
            complaint = complaints.read(POINTER_BYTES_MAX).decode("utf-8", "replace").strip()
        if not in_time:
            raise AccessFailed(
                f"git {args[0]} took longer than {timeout_s:g} s", suggestion="try again", details={"args": list(args)}
            )
        if len(said) > bytes_max:
            raise TooLarge(
                f"git {args[0]} says more than {bytes_max:,} bytes",
                suggestion="ask for fewer files or fewer commits",
                details={"args": list(args), "limit": bytes_max},
            )
        if process.returncode:
            raise AccessFailed(
                f"git {args[0]} failed: {complaint.splitlines()[-1] if complaint else 'it said nothing'}",
                suggestion="run the same command in a terminal",
                details={"args": list(args), "exit": process.returncode, "stderr": complaint},
            )
        return said

    def _started(
        self, args: tuple[str, ...], standard_input: IO[bytes], complaints: IO[bytes], settings: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        import subprocess

        safe = NO_PROGRAMS if args[0] in SHOWS_DIFFERENCES else ()
        try:
            return subprocess.Popen(
                ["git", *OPTIONS, args[0], *safe, *args[1:]],
                cwd=self._root,
                env=_environment() | _set(settings),
                stdin=standard_input,
                stdout=subprocess.PIPE,
                stderr=complaints,
                start_new_session=os.name == "posix",  # so that what git starts ends with it
            )
        except FileNotFoundError as error:
            if not os.path.isdir(self._root):
                raise AccessFailed(f"the folder {self._root} is gone", suggestion="check the root") from error
            raise UnsupportedHost("git is not installed", suggestion="install git, or go on without it") from error
        except OSError as error:
            raise AccessFailed(f"git cannot be started: {error.strerror}", suggestion="try again") from error

    def _head_by_git(self) -> Head | None:
        """HEAD of a repository that keeps its refs in tables, which only git reads."""
        try:
            branch = self.run("branch", "--show-current").decode("utf-8", "surrogateescape").strip()
            commit = self.commit("HEAD")
        except InvalidArgument:  # no commit yet
            return Head(branch or None, None)
        except (AccessFailed, UnsupportedHost):  # a git that cannot read this repository: as if there were none
            return None
        return Head(branch or None, commit)


# -- without a process --------------------------------------------------------------------------------------------


def enclosing_work_tree(folder: str) -> str | None:
    """The nearest folder, at or above this one, that has a repository."""
    while True:
        if _git_dir_at(folder):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def common_dir_of(top: str) -> str | None:
    """The real path of the repository of which `top` is a work tree, the same for all of them; None if it is none."""
    git_dir = _git_dir_at(top)
    return os.path.realpath(_common(git_dir)) if git_dir else None


def _git_dir_at(top: str) -> str | None:
    """`top/.git`, or where a `.git` file points; None unless a repository is there."""
    path = os.path.join(top, ".git")
    if os.path.isfile(path):
        said = _line(path)
        if not said.startswith("gitdir:"):
            return None
        path = os.path.join(top, said.removeprefix("gitdir:").strip())
    is_one = os.path.lexists(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(_common(path), "objects"))
    return os.path.realpath(path) if is_one else None


def _common(git_dir: str) -> str:
    said = _line(os.path.join(git_dir, "commondir"))
    return os.path.realpath(os.path.join(git_dir, said)) if said else git_dir


def _head(git_dir: str) -> Head | None:
    """HEAD followed through symbolic refs to a commit."""
    said = _line(os.path.join(git_dir, "HEAD"))
    name = ""
    for _ in range(_LINKS_MAX):
        if not said.startswith("ref:"):
            break
        name = said.removeprefix("ref:").strip()
        if not name.startswith("refs/") or ".." in name.split("/"):
            return None
        said = _ref(git_dir, name)
    commit = said if _HASH.fullmatch(said) else None
    if not name and not commit:
        return None
    return Head(name.removeprefix("refs/heads/") or None, commit)


def _ref(git_dir: str, name: str) -> str:
    """What a ref says: the loose file of this work tree, the shared one, or its line in the packed list."""
    common = _common(git_dir)
    for place in (git_dir, common):
        if said := _line(os.path.join(place, *name.split("/"))):
            return said
    for line in _lines(os.path.join(common, "packed-refs")):
        value, _, packed = line.partition(" ")
        if packed == name:
            return value
    return ""


def _line(path: str) -> str:
    """The only line of a small file; empty when there is no such file, or nothing that may be read."""
    try:
        with open(path, "rb") as file:
            return file.read(POINTER_BYTES_MAX).decode("utf-8", "surrogateescape").strip("\r\n\t ")
    except OSError:  # not there, a folder, closed: git, too, takes it for absent
        return ""


def _lines(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                yield line.rstrip("\r\n")
    except OSError:  # a repository without packed refs has no such file
        return


# -- the process --------------------------------------------------------------------------------------------------


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in KEPT_VARIABLES}
    return kept | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",  # a partial clone must not fetch what is missing
        "GIT_ALLOW_PROTOCOL": "none",  # nor anything else reach another machine
        "LC_ALL": "C",
    }


def _set(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as git reads them from its environment, where a name may hold whatever it likes."""
    numbered = {
        f"GIT_CONFIG_{part}_{number}": said
        for number, pair in enumerate(settings.items())
        for part, said in zip(("KEY", "VALUE"), pair, strict=True)
    }
    return numbered | {"GIT_CONFIG_COUNT": str(len(settings))} if settings else {}


def _put_aside(content: bytes = b"") -> IO[bytes]:
    """A file for what git reads or complains of. Where there is no room for one, its exit code must do for complaints.

    Raises: AccessFailed when content finds no room.
    """
    import tempfile  # with `subprocess` 10 ms, which reading HEAD can do without

    try:
        return _holding(tempfile.TemporaryFile(), content)
    except OSError as error:
        if content:
            raise AccessFailed("no room for a temporary file", suggestion="free some disk space") from error
        return open(os.devnull, "w+b")


def _holding(file: IO[bytes], content: bytes) -> IO[bytes]:
    file.write(content)
    file.seek(0)
    return file


def _collected(process: subprocess.Popen[bytes], timeout_s: float, bytes_max: int) -> tuple[bytes, bool]:
    """The output up to one byte over the limit, and whether it came in time. The process has ended afterwards."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        processes.kill(process)

    timer = threading.Timer(timeout_s, stop)
    timer.daemon = True
    timer.start()
    assert process.stdout  # it was opened as a pipe
    try:
        with process.stdout as pipe:
            said = pipe.read(bytes_max + 1)
        if len(said) > bytes_max:
            processes.kill(process)
        process.wait()
    except BaseException:  # an interrupt in between must not leave git behind
        processes.kill(process)
        process.wait()
        raise
    finally:
        timer.cancel()
    return said, not late.is_set()
