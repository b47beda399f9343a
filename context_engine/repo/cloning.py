"""Clones of remote repositories: fetched by a `git` that asks no questions and starts no programs, kept in the cache.

Only https, ssh and file addresses are fetched, without hooks, templates, submodules or filters.
"""

from __future__ import annotations

import functools
import math
import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from context_engine.errors import AccessFailed, Cancelled, InvalidArgument, TimedOut
from context_engine.model import Progress
from context_engine.repo.executables import supervise
from context_engine.repo.git import SUSPICIOUS_S, Git
from context_engine.repo.git_files import find_costly_pattern
from context_engine.repo.program_output import describe_exit

SCHEMES = ("https", "ssh", "file")
QUIET_S_MAX = 120.0
"""A server that sends nothing for so long is not coming back."""
COMPLAINT_LINES = 20
DEPTH_MAX = 1_000_000

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_OF_SSH = re.compile(r"[\w.-]+@[\w.-]+:(?!/?/)[^\s:].*")
_BRANCH = re.compile(r"(?!-)[^\s~^:?*\[\\\x00-\x1f]{1,255}")
_PROGRESS = re.compile(r"([A-Z][\w ]{1,60}):\s{1,20}\d+% \((\d+)/(\d+)\)")

OPTIONS = (
    *("-c", "core.askPass="),
    *("-c", "credential.interactive=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "core.protectNTFS=true"),
    *("-c", "core.protectHFS=true"),
)
"""Added to the options of every git command: git asks nothing and fetches nothing but the repository."""
NETWORK_ENVIRONMENT = {
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
    "GIT_LFS_SKIP_SMUDGE": "1",
}
"""Replaces the environment's own variables: the protocols that may be used, and no questions."""

ReportProgress = Callable[[Progress], None]


# -- addresses ---------------------------------------------------------------------------------------------------------


def is_address(text: str) -> bool:
    """Return whether a text names a remote repository rather than a local folder.

    >>> [is_address(text) for text in ("git@x.org:team/web.git", "https://x.org/a", "ext::sh", "C:/x")]
    [True, True, True, False]
    """
    return bool(_SCHEME.match(text) or _OF_SSH.fullmatch(text) or re.match(r"\w{2,}::", text))


def check_address(address: str) -> str:
    """Return an address that may be fetched. Raises: InvalidArgument for another scheme, or a password in it."""
    parts = None
    if _SCHEME.match(address):
        try:
            parts = urlsplit(address)
        except ValueError as error:  # a bracket without its pair: "Invalid IPv6 URL"
            raise _refused_address(address, "it is not an address") from error
    if address.startswith("-") or any(ord(char) < 32 or char == " " for char in address):
        raise _refused_address(address, "it is not an address")
    if parts is None and not _OF_SSH.fullmatch(address):
        raise _refused_address(address, "it is not an address")
    if parts and parts.scheme.lower() not in SCHEMES:
        raise _refused_address(address, f"{parts.scheme} is not one of {', '.join(SCHEMES)}")
    if parts and (parts.password or (parts.username and parts.scheme.lower() == "https")):
        raise InvalidArgument(
            "the address contains a name or password, which would be written down",
            suggestion="leave it out and let git's own credential helper know it, or use ssh",
        )
    if parts and (parts.hostname or "").startswith("-"):
        raise _refused_address(address, "its host begins with a dash")
    return address


def repository_name(folder_or_address: str) -> str:
    """Return the default name of a repository: the last part of its path, in the letters that a name may have.

    >>> repository_name("https://example.org/team/Web Shop.git"), repository_name("/src/--odd--"), repository_name("/")
    ('Web-Shop', 'odd', 'repository')
    """
    last = folder_or_address.rstrip("/\\").replace("\\", "/").replace(":", "/").rpartition("/")[2].removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", last).strip("-.")[:64] or "repository"


# -- git commands ------------------------------------------------------------------------------------------------------


def clone(
    target: Path,
    address: str,
    branch: str = "",
    depth: int = 0,
    *,
    on_progress: ReportProgress = lambda _: None,
    cancel: threading.Event | None = None,
) -> None:
    """Clone one branch (empty: the remote's own) into a folder that does not exist; `depth` 0 means all commits.

    Raises: InvalidArgument (address, branch), AccessFailed (git's complaint), UnsupportedHost (no git), Cancelled.
    """
    chosen = ["--branch", _check_branch(branch)] if branch else []
    fixed = ("--progress", "--single-branch", "--no-tags", "--no-recurse-submodules", "--template=")
    args = ["clone", *fixed, *chosen, *_depth_option(depth), "--", check_address(address), str(target)]
    _run_git(args, target.parent, on_progress, cancel)


def update(
    folder: Path,
    address: str,
    branch: str = "",
    depth: int = 0,
    *,
    on_progress: ReportProgress = lambda _: None,
    cancel: threading.Event | None = None,
) -> tuple[str, str]:
    """Make a clone equal to its remote, whatever it contained; return the commits before and after.

    Raises: as `clone`.
    """
    before = commit_of(folder)
    fixed = ("--progress", "--force", "--no-tags", "--no-recurse-submodules")
    ref = f"refs/heads/{_check_branch(branch)}" if branch else "HEAD"
    _run_git(["fetch", *fixed, *_depth_option(depth), "--", check_address(address), ref], folder, on_progress, cancel)
    _run_git(["reset", "--hard", "--quiet", "FETCH_HEAD"], folder, on_progress, cancel)
    return before, commit_of(folder)


def commit_of(folder: Path) -> str:
    """Return the commit that a clone has checked out; empty when there is none."""
    head = Git(folder).head()
    return (head.commit if head else "") or ""


def _run_git(args: Sequence[str], folder: Path, on_progress: ReportProgress, cancel: threading.Event | None) -> None:
    """Run a git command that may reach another machine and report its progress. Raises: Cancelled, AccessFailed."""
    git = Git(folder)
    process = git.start(
        args,
        git.environment_of_clone(args) | NETWORK_ENVIRONMENT,
        options=OPTIONS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    top = os.path.realpath(args[-1] if args[0] == "clone" else folder)
    cause = functools.cache(lambda: find_costly_pattern(top))
    heard_at = 0.0
    news = threading.Event()

    def check(spent_s: float) -> str:
        nonlocal heard_at
        if cancel is not None and cancel.is_set():
            return "was cancelled"
        heard_at = spent_s if news.is_set() else heard_at
        news.clear()
        if spent_s - heard_at > QUIET_S_MAX:
            return f"got no answer for {QUIET_S_MAX:g} s"
        return cause() if spent_s - heard_at > SUSPICIOUS_S else ""

    complaints: deque[str] = deque(maxlen=COMPLAINT_LINES)
    with supervise(process, math.inf, check) as problems:
        for line in _read_lines(process, news):
            if progress := _PROGRESS.search(line):
                on_progress(Progress(progress[1].lower().strip(), int(progress[2]), int(progress[3])))
            else:
                complaints.append(line)
    if cancel is not None and cancel.is_set():
        raise Cancelled(f"git {args[0]} was cancelled", suggestion="nothing of it was kept; call it again")
    if problems:
        suggestion = "check the address, or fetch it with git itself"
        raise TimedOut(f"git {args[0]} was ended: {problems[0]}", suggestion=suggestion)
    if process.returncode:
        raise AccessFailed(
            f"git {args[0]} failed with {describe_exit(process.returncode, chr(10).join(complaints))}",
            suggestion="check the address and the branch; a private repository needs ssh keys or a credential helper",
            details={"exit": process.returncode},
        )


def _read_lines(process: subprocess.Popen[bytes], news: threading.Event) -> Iterator[str]:
    """Yield what git prints, and note that it does; lines of progress end with a carriage return."""
    assert process.stderr  # it was opened as a pipe
    with process.stderr as pipe:
        rest = b""
        while block := os.read(pipe.fileno(), 65_536):
            news.set()
            *lines, rest = re.split(rb"[\r\n]", rest + block)
            yield from (line.decode("utf-8", "replace").strip() for line in lines if line.strip())


def _check_branch(branch: str) -> str:
    if not _BRANCH.fullmatch(branch) or ".." in branch or branch.endswith(("/", ".lock")):
        raise InvalidArgument(f"{branch[:100]!r} cannot name a branch", suggestion="give the name of a branch")
    return branch


def _depth_option(depth: int) -> list[str]:
    if not depth:
        return []
    if not 0 < depth <= DEPTH_MAX:
        raise InvalidArgument(
            f"depth {depth} is not from 1 to {DEPTH_MAX:,}", suggestion="leave it out for all commits"
        )
    return ["--depth", str(depth)]


def _refused_address(address: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{address[:200]!r} cannot be fetched: {why}",
        suggestion="give https://..., ssh://..., user@host:path or file:///path",
        details={"argument": "address"},
    )
