"""The commits behind a path, some lines or a name: which changed it, which wrote a line, and what a commit changed.

Each answer is a few runs of git, so nothing is kept.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from context_engine.errors import AccessFailed, FileNotFound, PreconditionFailed, TooLarge, UnsupportedHost
from context_engine.history.git_log import read_messages
from context_engine.model import Commit
from context_engine.repo import DiffReader, DiffRequest, Git, Root, is_sensitive
from context_engine.secrets import redact_diff
from context_engine.text import LineSpan, merge_spans
from context_engine.timestamps import format_timestamp

# -- blame -------------------------------------------------------------------------------------------------------------

# The commit and day in which a line was written, read from git once for each file.

BLAME_TIMEOUT_S = 10.0
"""Time limit of one file; a large one with a long history takes a second."""
_HEAD = re.compile(rb"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")

LineOrigin = tuple[str, str]
"""A commit's hash, and when it was written, ISO-8601."""


class Blame:
    """The origin of lines as git reports them; lines that are not committed have none.

    The last file is cached: ask line by line, file by file. Not thread-safe.

    >>> from pathlib import Path
    >>> Blame(Git(Path("/")))("etc/passwd", 1) is None
    True
    """

    def __init__(self, git: Git) -> None:
        """Start no process until a line is asked for."""
        self._git = git
        self._path = ""
        self._origins: Mapping[int, LineOrigin] = {}

    def __call__(self, path: str, line: int) -> LineOrigin | None:
        """Return the commit and time in which a line was written; None without git, or for an unknown line."""
        if path != self._path:
            self._path, self._origins = path, self._run_blame(path)
        return self._origins.get(line)

    def _run_blame(self, path: str) -> Mapping[int, LineOrigin]:
        try:
            output = self._git.run("blame", "-w", "--porcelain", "--", path, timeout_s=BLAME_TIMEOUT_S)
        except (AccessFailed, TooLarge, UnsupportedHost):  # no repository, or a file that it does not have
            return {}
        return _parse_porcelain(output)


def parse_origins(output: bytes) -> dict[int, str]:
    """Parse which commit wrote each line from `git blame --porcelain`; zeros for none."""
    heads = (_HEAD.fullmatch(line) for line in output.split(b"\n") if not line.startswith(b"\t"))
    return {int(head[2]): head[1].decode() for head in heads if head}


def _parse_porcelain(output: bytes) -> dict[int, LineOrigin]:
    """Parse the porcelain format: a head for each line, facts at a commit's first line, the line after a tab."""
    times: dict[str, str] = {}
    commit = ""
    for line in output.split(b"\n"):
        if head := _HEAD.fullmatch(line):
            commit = head[1].decode()
        elif line.startswith(b"author-time "):
            times[commit] = format_timestamp(int(line[12:]))
    written = parse_origins(output)
    return {number: (by, times[by]) for number, by in written.items() if by in times and by.strip("0")}


# -- code history ------------------------------------------------------------------------------------------------------

TIMEOUT_S = 20.0
"""Time limit of one run of git; a file of a large repository with thirty years of commits takes some seconds."""
CHANGED_FILES_MAX = 500
"""Files listed of one commit; a larger commit was made by a program."""
_HEADER = re.compile(r"^diff --git ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CommitLines:
    """A commit that wrote some lines, as they are today."""

    message: Commit
    lines: tuple[LineSpan, ...]


@dataclass(frozen=True, slots=True)
class BlamedLines:
    """The commits that wrote some lines, newest first; `uncommitted` are the lines that no commit has yet."""

    origins: tuple[CommitLines, ...]
    uncommitted: tuple[LineSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file in a commit: lines added and removed, -1 for a binary file; `was` is its name before a rename."""

    path: str
    added: int
    removed: int
    was: str = ""


class CodeHistory:
    """Reads the history of code from git, on demand."""

    def __init__(self, git: Git, root: Root) -> None:
        """Start no process yet."""
        self._git = git
        self._diffs = DiffReader(git, root)

    def list_changes(self, path: str, *, most: int) -> list[Commit]:
        """Return the newest commits that changed a file or folder, "" for all; those of a file under older names too.

        Raises: PreconditionFailed (no commit yet), AccessFailed, TooLarge, UnsupportedHost.
        """
        head = self._head()
        follow = ("--follow",) if path and not self._is_folder(head, path) else ()
        return read_messages(self._git, *follow, f"--max-count={most}", head, "--", path or ".", timeout_s=TIMEOUT_S)

    def find_origins(self, path: str, span: LineSpan, commit: str = "") -> BlamedLines:
        """Return the commits that wrote some lines of a file as it is in the work tree, or in a commit.

        Raises: PreconditionFailed (no commit yet), FileNotFound (git does not know the file), AccessFailed,
        UnsupportedHost.
        """
        head = self._head()
        if not self._git.run("ls-tree", "--name-only", "-z", head, "--", path):
            step = "Check the path, or commit it first."
            raise FileNotFound(f"no commit has {path}", suggestion=step, details={"path": path})
        words = filter(None, ("blame", "-w", "--porcelain", f"-L{span.first},{span.last}", commit, "--", path))
        output = self._git.run(*words, timeout_s=TIMEOUT_S)
        lines_by_commit: dict[str, list[int]] = defaultdict(list)
        for line, commit in parse_origins(output).items():
            lines_by_commit[commit].append(line)
        uncommitted = [line for commit, lines in lines_by_commit.items() if not commit.strip("0") for line in lines]
        messages = self.read_commits([commit for commit in lines_by_commit if commit.strip("0")])
        origins = [CommitLines(message, _join_lines(lines_by_commit[message.hash])) for message in messages]
        origins.sort(key=lambda origin: -origin.message.at)
        return BlamedLines(tuple(origins), _join_lines(uncommitted))

    def read_commits(self, hashes: Sequence[str]) -> list[Commit]:
        """Return the messages of these commits. Raises: AccessFailed, TooLarge, UnsupportedHost."""
        if not hashes:
            return []
        return read_messages(self._git, "--no-walk=unsorted", *hashes, "--", timeout_s=TIMEOUT_S)

    def list_files(self, commit: str) -> list[CommittedFile]:
        """Return the files of this workspace that a commit changed, of a merge against its first parent.

        Raises: AccessFailed, TooLarge, UnsupportedHost.
        """
        shape = ("--format=", "--numstat", "-z", "-M", "--relative", "--first-parent", "-m")
        output = self._git.run("show", *shape, commit, "--", timeout_s=TIMEOUT_S)
        return parse_numstat(output)[:CHANGED_FILES_MAX]

    def read_diff(self, commit: str) -> list[str]:
        """Return the lines of a commit's unified diff; secrets are redacted, and files that hold secrets left out.

        Raises: PreconditionFailed (it changes no file of this workspace), TooLarge, AccessFailed, GitUnavailable.
        """
        change = self._diffs.read_diff(DiffRequest(target=commit))
        contents = self._diffs.versions(change)
        left_out = {skipped.path: skipped.reason for skipped in contents.left_out}
        sections = split_sections(change.text)
        if len(sections) != len(change.files):
            return ["the diff is left out: it has parts that belong to no file"]
        lines = []
        for file, section in zip(change.files, sections, strict=True):
            reason = left_out.get(file.path) or is_sensitive(file.path)
            if reason:
                lines.append(f"{file.path}: its diff is left out ({reason.replace('_', ' ')})")
                continue
            versions = (contents.old.get(file.old_path, b""), contents.new.get(file.new_path, b""))
            texts = [version.decode("utf-8", "replace") for version in versions]
            lines += redact_diff(section, texts, file.path).rstrip("\n").split("\n")
        return lines

    def _head(self) -> str:
        head = self._git.head()
        if head is None or head.commit is None:
            raise PreconditionFailed(
                "this folder has no commits" if head else "this folder is in no git repository",
                suggestion="History needs a git repository with commits.",
            )
        return head.commit

    def _is_folder(self, head: str, path: str) -> bool:
        return self._git.run("ls-tree", "-d", "--name-only", "-z", head, "--", path.rstrip("/")) != b""


def parse_numstat(output: bytes) -> list[CommittedFile]:
    r"""Parse `git show --numstat -z`: counts and a path, or counts, and two paths of a rename.

    >>> parse_numstat(b"3\t1\ta.py\0" + b"0\t0\t\0old.py\0new.py\0" + b"-\t-\tlogo.png\0")[1:]
    [CommittedFile(path='new.py', added=0, removed=0, was='old.py'), CommittedFile(path='logo.png', added=-1, removed=-1, was='')]
    """  # noqa: E501 - a reply as it is
    words = iter(output.decode("utf-8", "replace").lstrip("\n").split("\0"))
    found = []
    for word in words:
        counts = word.split("\t", 2)
        if len(counts) < 3:
            continue
        added, removed = (-1 if count == "-" else int(count) for count in counts[:2])
        if counts[2]:
            found.append(CommittedFile(counts[2], added, removed))
        else:
            was = next(words, "")
            found.append(CommittedFile(next(words, ""), added, removed, was))
    return found


def split_sections(diff: str) -> list[str]:
    """Return the part of each file of a diff that git wrote; a line of content never begins as its header does."""
    starts = [header.start() for header in _HEADER.finditer(diff)]
    return [diff[start:stop] for start, stop in pairwise([*starts, len(diff)])]


def _join_lines(lines: Iterable[int]) -> tuple[LineSpan, ...]:
    """Return line numbers as ranges."""
    return tuple(merge_spans(LineSpan(line, line) for line in lines))
