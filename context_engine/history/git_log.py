"""The history of a repository as git reports it: which commits a head has, and what each of them touched.

What is not there is no trouble here: without git, a repository or a commit the listing is empty and says why. Merges
are left out, since what they bring stands in the commits they merge.

>>> from pathlib import Path
>>> list_commits(Git(Path("/"))).reason
'this folder is in no git repository'
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from context_engine.errors import AccessFailed, Cancelled, TooLarge, UnsupportedHost
from context_engine.model import Commit, CommitFileChange
from context_engine.repo import Git

COMMITS_MAX = 20_000
"""More than ten years of most projects; `git log` reads as many in about three seconds."""
READ_S = 10.0
"""Time limit for new commits. The rest is read the next time."""
BATCH = 500
"""Hashes that fit into a command line of any system; a process for each batch costs 0.5 s for 20,000 commits."""
RENAMED_FILES_MAX = 100
"""A commit that adds and deletes more files is searched for exact renames only."""

_MARK = "\x01"
_LOG = (
    *("log", "--no-walk=unsorted", "--root", "-z", "--encoding=UTF-8", "--no-relative", "--ignore-submodules=all"),
    f"--format=tformat:{_MARK}%H%x00%ct%x00%aN%x00%s",
)
_MESSAGE = "--format=tformat:%H%x00%ct%x00%aN%x00%s%x00%b"
_MESSAGE_FIELDS = 5
_RENAMES = ("--name-status", "-M", f"-l{RENAMED_FILES_MAX}")
_EXACT_RENAMES = ("--name-status", "-M100%")  # compares hashes alone: all that a clone without file contents can do
_NO_FILES = ("--no-patch",)


@dataclass(frozen=True, slots=True)
class CommitListing:
    """The commits of a head, newest first, and what is missing from them.

    `is_shallow`: the clone was cut, and older commits are on another machine. `reason` says why there are none.
    """

    head: str = ""
    hashes: tuple[str, ...] = ()
    is_shallow: bool = False
    reason: str = ""


def list_commits(git: Git, *, most: int = COMMITS_MAX) -> CommitListing:
    """Return the commits of what is checked out."""
    head = git.head()
    if head is None:
        return CommitListing(reason="this folder is in no git repository")
    if head.commit is None:
        return CommitListing(reason="there is no commit yet")
    try:
        output = git.run("rev-list", "--no-merges", f"--max-count={most}", head.commit, "--")
    except (AccessFailed, UnsupportedHost) as error:
        return CommitListing(head.commit, reason=error.message)
    hashes = output.decode("ascii").split()
    cut = git.shallow_commits()
    whole = tuple(name for name in hashes if name not in cut)
    if whole:
        reason = ""
    else:
        reason = "the clone is shallow and holds no whole commit" if cut else "there are only merges"
    return CommitListing(head.commit, whole, bool(cut), reason)


def read_commits(
    git: Git,
    hashes: Sequence[str],
    *,
    seconds: float = READ_S,
    cancel: threading.Event | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[Commit]]:
    """Read these commits, some hundred at a time, in their order, until the time is over.

    Raises: Cancelled (between two batches), AccessFailed (git refuses, as for a damaged repository), UnsupportedHost.
    """
    ends = clock() + seconds
    for start in range(0, len(hashes), BATCH):
        if cancel is not None and cancel.is_set():
            raise Cancelled("reading the history was cancelled", suggestion="call again; what was read is kept")
        left = ends - clock()
        if left <= 0:
            return
        try:
            yield _read(git, hashes[start : start + BATCH], left)
        except AccessFailed as error:
            if "exit" in error.details:
                raise
            return  # it took longer than what was left


def search_messages(git: Git, pattern: str, *, most: int) -> list[Commit]:
    """Return the newest commits with a pattern in their message (POSIX extended, any case); no merges.

    Raises: AccessFailed (git refuses, or takes too long), TooLarge, UnsupportedHost.
    """
    head = git.head()
    if head is None or head.commit is None:
        return []
    options = ("--no-merges", "--extended-regexp", "--regexp-ignore-case", f"--grep={pattern}", f"--max-count={most}")
    return read_messages(git, *options, head.commit, "--", timeout_s=READ_S)


def read_messages(git: Git, *args: str, timeout_s: float) -> list[Commit]:
    """Return the messages of the commits that `git log` lists with these arguments.

    Raises: AccessFailed (git refuses, or takes too long), TooLarge, UnsupportedHost.
    """
    output = git.run("log", "--no-patch", "-z", "--encoding=UTF-8", _MESSAGE, *args, timeout_s=timeout_s)
    words = [_printable(word) for word in output.decode("utf-8", "surrogateescape").split("\0")]
    rows = zip(*(words[at::_MESSAGE_FIELDS] for at in range(_MESSAGE_FIELDS)), strict=False)
    return [Commit(name, int(at), author, subject, body=body.strip()) for name, at, author, subject, body in rows]


def parse_log(output: bytes) -> list[Commit]:
    r"""Parse `git log` in the format requested here.

    >>> parse_log(b"\x01c0ffee\x0012\x00Ann\x00Move it\x00\nR090\x00a.py\x00b.py\x00D\x00c.py\x00")[0].files
    (CommitFileChange(path='b.py', was='a.py', is_gone=False), CommitFileChange(path='c.py', was='', is_gone=True))
    """
    words = iter(output.decode("utf-8", "surrogateescape").split("\0"))
    found: list[Commit] = []
    word = next(words, "")
    while word:
        at, author, subject = (_printable(next(words)) for _ in range(3))
        touched = []
        name = word.removeprefix(_MARK)
        word = next(words, "").removeprefix("\n")
        while word and not word.startswith(_MARK):
            was = next(words) if word[0] in "RC" else ""
            touched.append(CommitFileChange(next(words), was, word[0] == "D"))
            word = next(words, "")
        found.append(Commit(name, int(at), author, subject, tuple(touched)))
    return found


def _read(git: Git, hashes: Sequence[str], seconds: float) -> list[Commit]:
    """Read one batch; if the answer is too large, in halves, and a single large commit without its files."""
    try:
        return parse_log(_log(git, _RENAMES, hashes, seconds))
    except TooLarge:
        if len(hashes) == 1:
            return parse_log(_log(git, _NO_FILES, hashes, seconds))
        half = len(hashes) // 2
        return _read(git, hashes[:half], seconds) + _read(git, hashes[half:], seconds)


def _log(git: Git, files: Sequence[str], hashes: Sequence[str], seconds: float) -> bytes:
    try:
        return git.run(*_LOG, *files, *hashes, "--", timeout_s=seconds)
    except AccessFailed as error:
        if "exit" not in error.details or files != _RENAMES:
            raise
        return git.run(*_LOG, *_EXACT_RENAMES, *hashes, "--", timeout_s=seconds)


def _printable(text: str) -> str:
    """Return the text without bytes that are not UTF-8, its lines as Unix ends them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\r")
