"""What git knows of a work tree: branch and commit are read from its files, the rest comes from a hardened `git`.

`Git.start` is the only place that starts git. No repository decides what it does: the program is found outside of the
workspace; the repository is named as `git_files` found it; options and environment switch off what starts programs,
opens connections or asks questions; every filter in any settings is off where files are read (a process of the same
user that defines another one in between still can). Without a repository the answers are None.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from context_engine.errors import AccessFailed, InvalidArgument, TimedOut, TooLarge, UnsupportedHost
from context_engine.repo.executables import find_program, is_within, kill_process, safe_path, supervise
from context_engine.repo.git_files import (
    CONFIG_BYTES_MAX,
    HASH,
    POINTER_BYTES_MAX,
    REFS_BYTES_MAX,
    GitHead,
    Repository,
    find_costly_pattern,
    problem_of,
    read_head,
    read_text,
    repository_of,
    work_trees_of,
)
from context_engine.repo.program_output import describe_exit

if TYPE_CHECKING:
    import subprocess

TIMEOUT_S = 30.0
"""A cold `git log` over a large history takes some ten seconds on a slow disk."""
SUSPICIOUS_S = 1.5
"""Nearly every command has ended by then; of one that has not we ask whether a pattern of the repository holds it."""
OUTPUT_BYTES_MAX = 32_000_000
"""The path list of a million files fits; a longer diff is of no use."""

OPTIONS = (
    "--no-optional-locks",  # `status` must not take the index lock away from the user
    "--no-pager",
    "--literal-pathspecs",  # a path is a path, even when it begins with `:(exclude)`
    *("-c", "safe.bareRepository=explicit"),  # a clone may contain a folder that looks like a repository
    *("-c", "core.quotepath=off"),
    *("-c", "core.fsmonitor=false"),  # may name a program
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.alternateRefsCommand="),
    *("-c", "diff.external="),
    *("-c", "diff.autoRefreshIndex=false"),  # would lock and rewrite the index of the user
    *("-c", "diff.ignoreSubmodules=dirty"),
    *("-c", "log.showSignature=false"),  # would start gpg
    *("-c", "submodule.recurse=false"),
    *("-c", "fetch.bundleURI="),  # of an old git that fetches missing objects: another address
    *("-c", "color.ui=false"),
    # files that settings may name anywhere: a pipe would hold git, and its complaints quote what it cannot read
    *("-c", "core.attributesFile=/dev/null"),
    *("-c", "diff.orderFile=/dev/null"),
    *("-c", "mailmap.file="),
    *("-c", "mailmap.blob="),
)
"""The options of every call."""

_DIFFERENCES = (
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=dirty",  # to look into one, git would start itself there, under that repository's settings
)
SAFEGUARDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("diff", "diff-files", "diff-index", "diff-tree", "log", "show"), _DIFFERENCES),
        "blame": ("--no-textconv", "--no-ignore-revs-file"),
        "status": ("--ignore-submodules=dirty",),
    }
)
"""Added to commands for which settings name programs that prepare their output, or files to read before."""
READS_NO_FILES = frozenset(
    {"branch", "cat-file", "config", "for-each-ref", "ls-files", "ls-tree", "merge-base", "rev-list", "rev-parse"}
)
"""Commands that never read files of the work tree. For all others filters are off; `git log -p` reads files too."""

KEPT_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"})
"""Where git and the user's settings are stored. All other `GIT_*` are dropped: a hook that starts us sets GIT_DIR."""

_NEXT_STEPS = {
    "repository extension": "This git is too old for the format of the repository; install a newer git.",
    "git repo version": "This git is too old for the format of the repository; install a newer git.",
    "lazy fetching": "The clone is partial and lacks this content; run git fetch --refetch --no-filter.",
    "": "run the same command in a terminal",
}
"""The next step after a failure of git, by the words that name it."""
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"
SETTING_WAIT_S = 5.0
WORK_TREES_MAX = 64
"""A repository with more work trees has leftovers of some program; the first ones are enough."""

_SCP = re.compile(r"(?:[^@/:]+@)?([^/:]+):(?!/)(.+)")
_ADDRESS = re.compile(r"\w+://(?:[^@/]*@)?([^/:]*)(?::\d+)?/+(.+)")


class Git:
    """The repository that contains a folder, if any; `root` need not be the top of the work tree. Thread-safe."""

    def __init__(self, root: str | Path) -> None:
        self._root = os.path.realpath(root)
        self._program = ""
        self._path = ("", "")
        self._accepted: Repository | None = None
        self._overrides: tuple[object, Mapping[str, str]] | None = None
        self._excludes: tuple[object, str | None] | None = None

    @property
    def repository(self) -> Repository | None:
        """Where the work tree that contains the root and its repository are now; None without one."""
        return repository_of(self._root)

    def head(self) -> GitHead | None:
        """Return the branch and commit that are checked out; None without a repository. Starts no process."""
        found = self.repository
        if found is None:
            return None
        if os.path.isdir(os.path.join(found.common_dir, "reftable")):
            return self._head_by_git()
        return read_head(found)

    def below(self) -> str:
        """Return the root relative to its work tree, as `packages/web`; empty at the top and without a repository."""
        found = self.repository
        path = os.path.relpath(self._root, found.top) if found else "."
        return "" if path == "." else path.replace(os.sep, "/")

    def shared_name(self) -> str:
        """Return the name of the root that is the same on all machines: host and path of its origin, and its subfolder.

        Without an origin it is the name of the folder.
        """
        address = b""
        with suppress(AccessFailed, UnsupportedHost):  # no repository, or one without an origin
            address = self.run("config", "--get", "remote.origin.url", timeout_s=SETTING_WAIT_S)
        origin = origin_name(os.fsdecode(address).strip())
        below = self.below()
        return (f"{origin}/{below}" if below else origin) or os.path.basename(self._root)

    def other_work_trees(self, *, unless: str = "") -> tuple[str, ...]:
        """Return the same folder in each other work tree of the repository, where it exists: real paths, in order.

        Work trees that contain something called `unless` are left out; if the root contains it, all are.
        """

        def is_excluded(folder: str) -> bool:
            return bool(unless) and os.path.lexists(os.path.join(folder, unless))

        found = repository_of(self._root)
        if found is None or is_excluded(self._root):
            return ()
        below = os.path.relpath(self._root, found.top)
        folders = {os.path.realpath(os.path.join(top, below)) for top in work_trees_of(found.common_dir)}
        others = sorted(folders - {self._root})
        return tuple([path for path in others if os.path.isdir(path) and not is_excluded(path)][:WORK_TREES_MAX])

    def inner_repository(self, path: str) -> str:
        """Return the folder below the root that is another repository and has this path; empty if none is."""
        place = os.path.join(self._root, path)
        found = repository_of(place if os.path.isdir(place) else os.path.dirname(place))
        is_inner = found is not None and found.top != self._root and is_within(found.top, self._root)
        return os.path.relpath(found.top, self._root).replace(os.sep, "/") if found and is_inner else ""

    def how_to_link(self) -> str:
        """Return what to do about a `.git` file whose repository does not name this work tree; empty without one."""
        place = os.path.join(self._root, ".git")
        if repository_of(self._root) or not (os.path.isfile(place) or os.path.islink(place)):
            return ""
        return (
            f"Its .git leads to a repository that does not name this folder. If it is yours, run there:"
            f" git worktree repair {self._root}, or here: git config core.worktree {self._root}"
        )

    def excludes_file(self) -> str | None:
        """Return the user's own ignore file for all repositories (core.excludesFile), if it exists.

        A repository cannot set it. Git is asked again when the user's settings have changed.
        """
        key = _settings_key(None)
        if self._excludes is None or self._excludes[0] != key:
            said, words = b"", ("config", "--type=path", "--get", "core.excludesFile")
            with suppress(AccessFailed, UnsupportedHost):  # not set; without git the usual place still counts
                said = self._output(words, self._place(None, words), timeout_s=SETTING_WAIT_S)
            path = os.path.join(self._root, os.fsdecode(said).rstrip("\n") or _usual_excludes())
            self._excludes = (key, path if os.path.isfile(path) else None)
        return self._excludes[1]

    def untracked_paths(self) -> list[str]:
        """Return the paths below the root that git neither tracks nor ignores. Raises: as `run` and `walk`.

        Our own walker lists them: the ignore rules of a repository can keep git's matcher busy for ever.
        """
        from context_engine.repo.walker import walk_untracked

        tracked = frozenset(os.fsdecode(self.run("ls-files", "--cached", "-z")).split("\0"))  # a submodule is one path
        return walk_untracked(self._root, tracked, self.excludes_file())

    def read_blobs(self, names: Iterable[str], *, bytes_max: int) -> dict[str, bytes]:
        """Return the blobs of these names (a hash, `HEAD:a.py`) that exist and are small enough, by name.

        Raises: as `run`.
        """
        wanted = [name for name in dict.fromkeys(names) if "\n" not in name]  # git reads one a line
        if not wanted:
            return {}
        rows = self.run("cat-file", "--batch-check", given=_as_lines(wanted)).split(b"\n")
        found = {name: row.decode().split() for name, row in zip(wanted, rows, strict=False) if _BLOB.fullmatch(row)}
        sizes = {words[0]: int(words[2]) for words in found.values() if int(words[2]) <= bytes_max}
        room = sum(sizes.values()) + len(sizes) * BLOB_HEAD_BYTES
        blobs = parse_batch(self.run("cat-file", "--batch", given=_as_lines(sizes), bytes_max=room))
        return {name: blobs[words[0]] for name, words in found.items() if words[0] in blobs}

    def commit(self, ref: str) -> str:
        """Return the hash of the commit that a branch, tag, hash or expression (`HEAD~2`) names.

        Raises: InvalidArgument when it names none; AccessFailed, UnsupportedHost as `run`.
        """
        said = b""
        if ref and "\0" not in ref:
            words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
            said = self.run(*words, may_be_empty=True)
        if not HASH.fullmatch(found := said.decode("ascii", "replace").strip()):
            raise InvalidArgument(
                f"{ref!r} names no commit of this repository",
                suggestion="give a branch, a tag or a commit hash that exists here",
                details={"ref": ref},
            )
        return found

    def shallow_commits(self) -> frozenset[str]:
        """Return the commits at which a shallow clone ends: they look as if they had added every file."""
        found = self.repository  # a whole clone has no such file
        return frozenset(read_text(found.common_dir, "shallow", REFS_BYTES_MAX).split() if found else ())

    def run(
        self,
        *args: str,
        given: bytes = b"",
        timeout_s: float = TIMEOUT_S,
        bytes_max: int = OUTPUT_BYTES_MAX,
        may_be_empty: bool = False,
    ) -> bytes:
        """Run one git command in the root and return its output. Refs among `args` must have come from `commit`.

        `given` is its input. `may_be_empty`: exit code 1 means that there is nothing to print.

        Raises: AccessFailed (git refused, `details` has `exit` and `stderr`; or it took too long; or the repository
        belongs to another user, or is a trap), TooLarge, UnsupportedHost (git is not installed).
        """
        repository = self.repository
        if repository:
            self._check(repository)
        place = self._place(repository, args)
        return self._output(args, place, given, timeout_s, bytes_max, may_be_empty=may_be_empty)

    def start(
        self,
        args: Sequence[str],
        environment: Mapping[str, str],
        *,
        options: Sequence[str] = (),
        stdin: int | IO[bytes],
        stdout: int,
        stderr: int | IO[bytes],
    ) -> subprocess.Popen[bytes]:
        """Start git in the root: the only place that does. `options` belong to git itself, before the command.

        Raises: AccessFailed, UnsupportedHost.
        """
        import subprocess

        words = [*OPTIONS, *options, args[0], *SAFEGUARDS.get(args[0], ()), *args[1:]]
        try:
            return subprocess.Popen(
                [self._find_program(), *words],
                cwd=self._root,
                env={**_environment(self._safe_path()), **environment},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                umask=0o077,  # a clone in the cache is for its user alone
                start_new_session=os.name == "posix",  # so that what git starts ends with it, and nobody can be asked
            )
        except FileNotFoundError as error:
            if not os.path.isdir(self._root):
                raise AccessFailed(f"the folder {self._root} is gone", suggestion="check the root") from error
            raise UnsupportedHost("git is not installed", suggestion="install git, or go on without it") from error
        except OSError as error:
            raise AccessFailed(f"git cannot be started: {error.strerror}", suggestion="try again") from error

    def environment_of_clone(self, args: Sequence[str]) -> dict[str, str]:
        """Return the environment in which git makes a clone, or works on the repository whose top is the root.

        Raises: AccessFailed, UnsupportedHost.
        """
        if args[0] == "clone":
            return self._place(None, args)
        repository = self.repository
        if repository is None or repository.top != self._root:
            raise AccessFailed(f"{self._root} is not the top of a repository", suggestion="delete it and clone again")
        self._check(repository)
        return self._place(repository, args)

    # -- the repository --

    def _check(self, repository: Repository) -> None:
        """Refuse a repository that could block git, that shows another one, or that belongs to another user.

        Raises: AccessFailed.
        """
        if problem := problem_of(repository):
            raise AccessFailed(
                f"git is not run on this repository: {problem}",
                suggestion="Restore or delete it; a fresh clone has none like it.",
            )
        if self._accepted != repository:
            if not _is_own(repository):
                self._ask_whether_it_is_trusted(repository)
            self._accepted = repository

    def _ask_whether_it_is_trusted(self, repository: Repository) -> None:
        """Ask git whether the user trusts a repository of another user (`safe.directory`). Raises: AccessFailed."""
        alone = Git(repository.top)
        ceiling = {"GIT_CEILING_DIRECTORIES": os.path.dirname(repository.top)}
        try:
            said = alone._output(("rev-parse", "--absolute-git-dir"), ceiling)
        except AccessFailed as error:
            raise AccessFailed(
                f"git does not trust {repository.top}: {error.message.partition(': ')[2]}",
                suggestion=f"If you do, run: git config --global --add safe.directory {repository.top}",
                details=error.details,
            ) from error
        if os.path.realpath(os.fsdecode(said).rstrip("\n")) != repository.git_dir:
            raise AccessFailed(
                f"git takes another repository than ours for that of {repository.top}",
                suggestion="Look at its .git file.",
            )

    def _place(self, repository: Repository | None, args: Sequence[str]) -> dict[str, str]:
        """Return the variables that say where git works, and the settings that override all others."""
        found: dict[str, str] = {}
        if repository:
            found = {"GIT_DIR": repository.git_dir, "GIT_WORK_TREE": repository.top}
        elif args[0] != "clone":  # which makes one; for all others there is none, wherever the root lies
            found["GIT_DIR"] = os.devnull
        if args[0] in READS_NO_FILES:
            return found
        settings = self._overriding(repository)  # in the environment, where a name may contain any character
        found["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (name, value) in enumerate(settings.items()):
            found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return found

    def _overriding(self, repository: Repository | None) -> Mapping[str, str]:
        """Return settings that switch every filter and ignore rule off, listed again whenever settings have changed."""
        key, kept = _settings_key(repository), self._overrides
        if kept and key and kept[0] == key:
            return kept[1]
        words = ("config", "-z", "--name-only", "--get-regexp", _FILTERS)
        said = self._output(words, self._place(repository, words), may_be_empty=True)
        names = filter(None, said.decode("utf-8", "surrogateescape").split("\0"))
        found = {name: "false" if name.endswith(".required") else "" for name in names}
        found["core.excludesFile"] = os.devnull  # `diff` opens it: a pipe would hold it
        self._overrides = (key, found)
        return found

    # -- the process --

    def _find_program(self) -> str:
        if not self._program:
            repository = repository_of(self._root)
            self._program = find_program("git", outside=repository.top if repository else self._root)
        if not self._program:
            raise UnsupportedHost("git is not installed", suggestion="install git, or go on without it")
        return self._program

    def _safe_path(self) -> str:
        """Return the PATH of this process without what a repository could use, computed once."""
        path = os.environ.get("PATH", os.defpath)
        if self._path[0] != path:
            self._path = (path, safe_path(path, outside=self._root))
        return self._path[1]

    def _output(
        self,
        args: Sequence[str],
        environment: Mapping[str, str],
        given: bytes = b"",
        timeout_s: float = TIMEOUT_S,
        bytes_max: int = OUTPUT_BYTES_MAX,
        *,
        may_be_empty: bool = False,
    ) -> bytes:
        import subprocess

        with _temporary_file() as complaints, _temporary_file(given) as standard_input:
            process = self.start(args, environment, stdin=standard_input, stdout=subprocess.PIPE, stderr=complaints)
            assert process.stdout  # it was opened as a pipe
            cause = functools.cache(lambda: find_costly_pattern(self._root))
            with supervise(process, timeout_s, lambda spent_s: cause() if spent_s > SUSPICIOUS_S else "") as problems:
                with process.stdout as pipe:
                    said = pipe.read(bytes_max + 1)
                if len(said) > bytes_max:
                    kill_process(process)
            complaints.seek(0)
            complaint = complaints.read(POINTER_BYTES_MAX).decode("utf-8", "replace")
        if problems:
            raise TimedOut(
                f"git {args[0]} was ended: {problems[0]}",
                suggestion="Remove what it names, or do without this repository's history and changes.",
                details={"args": list(args)},
            )
        if len(said) > bytes_max:
            raise TooLarge(
                f"git {args[0]} says more than {bytes_max:,} bytes",
                suggestion="ask for fewer files or fewer commits",
                details={"args": list(args), "limit": bytes_max},
            )
        if process.returncode == 1 and may_be_empty:
            return b""
        if process.returncode:
            said_why = describe_exit(process.returncode, complaint)
            raise AccessFailed(
                f"git {args[0]} failed with {said_why}",
                suggestion=next((step for sign, step in _NEXT_STEPS.items() if sign in said_why), _NEXT_STEPS[""]),
                details={"args": list(args), "exit": process.returncode},
            )
        return said

    def _head_by_git(self) -> GitHead | None:
        """Return HEAD of a repository that keeps its refs in tables, which only git reads."""
        try:
            branch = self.run("branch", "--show-current").decode("utf-8", "surrogateescape").strip()
            commit = self.commit("HEAD")
        except InvalidArgument:  # no commit yet
            return GitHead(branch or None, None)
        except (AccessFailed, UnsupportedHost):  # a git that cannot read this repository: as if there were none
            return None
        return GitHead(branch or None, commit)


# -- objects -----------------------------------------------------------------------------------------------------------

_BLOB = re.compile(rb"[0-9a-f]+ blob \d+")
BLOB_HEAD_BYTES = 100
"""Room for the line before each object."""


def _as_lines(names: Iterable[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode("utf-8", "surrogatepass")


def parse_batch(said: bytes) -> dict[str, bytes]:
    r"""Return the objects in the output of `git cat-file --batch`, by hash.

    >>> parse_batch(b"c0ffee blob 3\nabc\nbad missing\n")
    {'c0ffee': b'abc'}
    """
    found: dict[str, bytes] = {}
    at = 0
    while at < len(said):
        end = said.index(b"\n", at)
        words = said[at:end].split()
        at = end + 1
        if len(words) == 3:
            size = int(words[2])
            found[words[0].decode()] = said[at : at + size]
            at += size + 1
    return found


# -- options of git ----------------------------------------------------------------------------------------------


def _usual_excludes() -> str:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "git", "ignore")


def _settings_key(repository: Repository | None) -> object:
    """Return a key that changes when settings change; None where files include others, so that it is unknown."""
    home = os.path.expanduser("~")
    users = (os.environ.get("GIT_CONFIG_GLOBAL"), f"{home}/.gitconfig", f"{os.path.dirname(_usual_excludes())}/config")
    texts = []
    places = ((repository.common_dir, "config"), (repository.git_dir, "config.worktree")) if repository else ()
    for folder, name in places:
        text = read_text(folder, name, CONFIG_BYTES_MAX)
        if "include" in text.lower() or (not text and os.path.lexists(os.path.join(folder, name))):
            return None
        texts.append(text)
    return (repository, *texts, *(_stamp(path) for path in users if path))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:  # most users have one of them
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _is_own(repository: Repository) -> bool:
    """Return whether a repository belongs to the user of this process. On Windows only git itself knows."""
    if os.name != "posix":
        return False
    own = {os.geteuid()}
    if own == {0}:  # `sudo` on one's own files
        own |= {int(text) for text in [os.environ.get("SUDO_UID", "")] if text.isdecimal()}
    try:
        places = (repository.top, os.path.join(repository.top, ".git"), repository.git_dir)
        return {os.lstat(place).st_uid for place in places} <= own
    except OSError:  # it went in this moment
        return False


def _environment(path: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in KEPT_VARIABLES}
    return kept | {
        "PATH": path,
        "NoDefaultCurrentDirectoryInExePath": "1",  # Windows
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",  # a partial clone must not fetch what is missing
        "GIT_ALLOW_PROTOCOL": "none",  # nor anything else reach another machine
        "LC_ALL": "C",
    }


# -- the process --------------------------------------------------------------------------------------------------


def _temporary_file(content: bytes = b"") -> IO[bytes]:
    """Open a temporary file for git's input or its complaints. Without room the exit code replaces the complaints.

    Raises: AccessFailed when there is no room for input.
    """
    import tempfile  # with `subprocess` 10 ms, which reading HEAD can do without

    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        file.write(content)
        file.seek(0)
    except OSError as error:
        if content:
            raise AccessFailed("no room for a temporary file", suggestion="free some disk space") from error
        return open(os.devnull, "w+b")
    return file


def origin_name(address: str) -> str:
    """Return host and path of a repository's address in any notation, without user, password and port.

    >>> origin_name("git@github.com:team/app.git"), origin_name("https://me:<password>@GitHub.com/team/app/")
    ('github.com/team/app', 'github.com/team/app')
    >>> origin_name("file:///srv/git/app.git"), origin_name("/srv/git/app.git"), origin_name("")
    ('srv/git/app', 'srv/git/app', '')
    """
    found = _ADDRESS.fullmatch(address) or _SCP.fullmatch(address)
    host, path = found.groups() if found else ("", address)
    parts = [host.lower(), *path.replace("\\", "/").strip("/").removesuffix(".git").split("/")]
    return "/".join(part for part in parts if part)
