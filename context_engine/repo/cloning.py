"""Repositories of other machines: an address checked, cloned, brought up to date, by a `git` that asks nobody and runs nothing.

Only https, ssh and file addresses. No hooks, no templates, no submodules, no filters of large files; a server that
wants a password that no helper of the user's knows is a failure, never a question. Where the clone lies is the caller's
affair.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from context_engine.errors import AccessFailed, Cancelled, InvalidArgument
from context_engine.model import Progress
from context_engine.repo.git import Git

SCHEMES = ("https", "ssh", "file")
QUIET_S_MAX = 120.0
"""A server that says nothing for so long is not coming back."""
COMPLAINT_LINES = 20
DEPTH_MAX = 1_000_000

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_OF_SSH = re.compile(r"[\w.-]+@[\w.-]+:(?!/?/)[^\s:].*")
_BRANCH = re.compile(r"(?!-)[^\s~^:?*\[\\\x00-\x1f]{1,255}")
_SHARE = re.compile(r"([A-Z][\w ]{1,60}):\s{1,20}\d+% \((\d+)/(\d+)\)")

UNTOUCHED = (
    *("-c", "core.askPass="),
    *("-c", "credential.interactive=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "core.protectNTFS=true"),
    *("-c", "core.protectHFS=true"),
)
"""Added to the options of every git command: nothing that asks, nothing that fetches more than the repository."""
REACHING = {
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
    "GIT_LFS_SKIP_SMUDGE": "1",
}
"""In place of the environment's own: which ways to other machines are open, and that nobody is asked."""


def is_address(text: str) -> bool:
    """Whether somebody means a repository elsewhere rather than a folder here.

    >>> is_address("git@example.org:team/web.git"), is_address("https://x.org/a"), is_address("ext::sh"), is_address("C:/x")
    (True, True, True, False)
    """
    return bool(_SCHEME.match(text) or _OF_SSH.fullmatch(text) or re.match(r"\w{2,}::", text))


def check_address(address: str) -> str:
    """An address that may be fetched from. Raises: InvalidArgument for another scheme, or a password in it."""
    parts = urlsplit(address) if _SCHEME.match(address) else None
    if address.startswith("-") or any(ord(char) < 32 or char == " " for char in address):
        raise _refusal(address, "it is no address")
    if parts is None and not _OF_SSH.fullmatch(address):
        raise _refusal(address, "it is no address")
    if parts and parts.scheme.lower() not in SCHEMES:
        raise _refusal(address, f"{parts.scheme} is not one of {', '.join(SCHEMES)}")
    if parts and (parts.password or (parts.username and parts.scheme.lower() == "https")):
        raise InvalidArgument(
            "the address holds a name or password, which would be written down",
            suggestion="leave it out and let git's own credential helper know it, or use ssh",
        )
    if parts and (parts.hostname or "").startswith("-"):
        raise _refusal(address, "its host begins with a dash")
    return address


def clone(
    address: str,
    target: Path,
    *,
    branch: str = "",
    depth: int = 0,
    tell: Callable[[Progress], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> None:
    """Clone one branch (empty: the remote's own) into a folder that does not exist, beside others; `depth` 0: all commits.

    Raises: InvalidArgument (address, branch), AccessFailed (what git said), UnsupportedHost (no git), Cancelled.
    """
    wanted = ["--branch", _branch(branch)] if branch else []
    kept = ["--depth", str(_depth(depth))] if depth else []
    fixed = ("--progress", "--single-branch", "--no-tags", "--no-recurse-submodules", "--template=")
    _run(["clone", *fixed, *wanted, *kept, "--", check_address(address), str(target)], target.parent, tell, cancel)


def update(
    folder: Path,
    address: str,
    *,
    branch: str = "",
    depth: int = 0,
    tell: Callable[[Progress], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> tuple[str, str]:
    """Make a clone what its remote is now, whatever lay there; the commits before and after. Raises: as `clone`."""
    before = commit_of(folder)
    kept = ["--depth", str(_depth(depth))] if depth else []
    fixed = ("--progress", "--force", "--no-tags", "--no-recurse-submodules")
    wanted = f"refs/heads/{_branch(branch)}" if branch else "HEAD"
    _run(["fetch", *fixed, *kept, "--", check_address(address), wanted], folder, tell, cancel)
    _run(["reset", "--hard", "--quiet", "FETCH_HEAD"], folder, tell, cancel)
    return before, commit_of(folder)


def commit_of(folder: Path) -> str:
    """The commit that a clone holds; empty when there is none."""
    head = Git(folder).head()
    return (head.commit if head else "") or ""


def _run(args: Sequence[str], folder: Path, tell: Callable[[Progress], None], cancel: threading.Event | None) -> None:
    """One git command that may reach another machine; what it says of its progress is told."""
    process = _start(args, folder)
    heard = _GitOutput(process, tell, cancel or threading.Event())
    listening = threading.Thread(target=heard.listen, name="git-progress", daemon=True)
    listening.start()
    try:
        heard.wait()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        listening.join()
    heard.check(args[0])


def _start(args: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    git = Git(folder)
    where = git.apart(args) if args[0] == "clone" else git.here(args)
    return git.start(
        args,
        where | REACHING,
        options=UNTOUCHED,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


class _GitOutput:
    """What a git command says while it runs: how far it is, and at its end what went wrong."""

    def __init__(
        self, process: subprocess.Popen[bytes], tell: Callable[[Progress], None], cancel: threading.Event
    ) -> None:
        self._process = process
        self._tell = tell
        self._cancel = cancel
        self._lines: list[str] = []
        self._heard = threading.Event()
        self._is_late = False

    def listen(self) -> None:
        """Read until git closes its mouth; lines of progress end with a carriage return."""
        assert self._process.stderr  # it was opened as a pipe
        with self._process.stderr as pipe:
            rest = b""
            while said := os.read(pipe.fileno(), 65_536):
                *lines, rest = re.split(rb"[\r\n]", rest + said)
                for line in lines:
                    self._take(line.decode("utf-8", "replace").strip())
                self._heard.set()

    def _take(self, line: str) -> None:
        if shares := _SHARE.search(line):
            self._tell(Progress(shares[1].lower().strip(), int(shares[2]), int(shares[3])))
        elif line:
            self._lines = [*self._lines, line][-COMPLAINT_LINES:]

    def wait(self) -> None:
        """Until it ends, is cancelled, or has said nothing for too long."""
        quiet_s = 0.0
        while self._process.poll() is None and not self._cancel.is_set() and not self._is_late:
            quiet_s = 0.0 if self._heard.is_set() else quiet_s + 0.1
            self._heard.clear()
            self._is_late = quiet_s > QUIET_S_MAX
            try:
                self._process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue

    def check(self, command: str) -> None:
        """Raises: Cancelled, AccessFailed."""
        if self._cancel.is_set():
            raise Cancelled(f"git {command} was cancelled", suggestion="nothing of it was kept; call it again")
        if self._is_late:
            raise AccessFailed(f"git {command} heard nothing for {QUIET_S_MAX:g} s", suggestion="try again later")
        if self._process.returncode:
            told = next((line for line in self._lines if line.startswith(("fatal:", "error:"))), "")
            raise AccessFailed(
                f"git {command} failed: {told or (self._lines[-1] if self._lines else 'it said nothing')}",
                suggestion="check the address and the branch; a private repository needs ssh keys or a credential helper",
                details={"exit": self._process.returncode, "stderr": "\n".join(self._lines)},
            )


def _branch(branch: str) -> str:
    if not _BRANCH.fullmatch(branch) or ".." in branch or branch.endswith(("/", ".lock")):
        raise InvalidArgument(f"{branch[:100]!r} cannot name a branch", suggestion="give the name of a branch")
    return branch


def _depth(depth: int) -> int:
    if not 0 < depth <= DEPTH_MAX:
        raise InvalidArgument(
            f"depth {depth} is not from 1 to {DEPTH_MAX:,}", suggestion="leave it out for all commits"
        )
    return depth


def _refusal(address: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{address[:200]!r} cannot be fetched: {why}",
        suggestion="give https://..., ssh://..., user@host:path or file:///path",
        details={"argument": "address"},
    )
