"""The commit and day in which a line was written, read from git once for each file.

>>> from pathlib import Path
>>> Blame(Git(Path("/")))("etc/passwd", 1) is None
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from context_engine.errors import AccessFailed, TooLarge, UnsupportedHost
from context_engine.repo import Git

TIMEOUT_S = 10.0
"""Time limit of one file; a large one with a long history takes a second."""
_HEAD = re.compile(rb"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")

LineOrigin = tuple[str, str]
"""A commit's hash, and when it was written, ISO-8601."""


class Blame:
    """The origin of lines as git reports them; lines that are not committed have none.

    The last file is cached: ask line by line, file by file. Not thread-safe.
    """

    def __init__(self, git: Git) -> None:
        """Start no process until a line is asked for."""
        self._git = git
        self._path = ""
        self._parse_porcelain: Mapping[int, LineOrigin] = {}

    def __call__(self, path: str, line: int) -> LineOrigin | None:
        """Return the commit and time in which a line was written; None without git, or for an unknown line."""
        if path != self._path:
            self._path, self._parse_porcelain = path, self._run_blame(path)
        return self._parse_porcelain.get(line)

    def _run_blame(self, path: str) -> Mapping[int, LineOrigin]:
        try:
            output = self._git.run("blame", "-w", "--porcelain", "--", path, timeout_s=TIMEOUT_S)
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
            times[commit] = datetime.fromtimestamp(int(line[12:]), UTC).isoformat().replace("+00:00", "Z")
    written = parse_origins(output)
    return {number: (by, times[by]) for number, by in written.items() if by in times and by.strip("0")}
