"""Who wrote a line last, and when: the commit and its day, asked of git once a file.

>>> from pathlib import Path
>>> Blame(Git(Path("/")))("etc/passwd", 1) is None
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from context_engine.errors import AccessFailed, TooLarge, UnsupportedHost
from context_engine.repo.git import Git

TIMEOUT_S = 10.0
"""Of one file: a large one with a long history takes a second."""
_HEAD = re.compile(rb"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")

LineOrigin = tuple[str, str]
"""A commit's hash, and when its author wrote it, ISO-8601."""


class Blame:
    """What git says of the lines of files as they lie there; lines that are in no commit yet were written by nobody.

    It remembers the file that was asked for last: ask line by line, file by file. Not for several threads.
    """

    def __init__(self, git: Git) -> None:
        """No process is started until a line is asked for."""
        self._git = git
        self._path = ""
        self._lines: Mapping[int, LineOrigin] = {}

    def __call__(self, path: str, line: int) -> LineOrigin | None:
        """The commit and the moment a line was written in; None without git, or for a line that git does not know."""
        if path != self._path:
            self._path, self._lines = path, self._asked(path)
        return self._lines.get(line)

    def _asked(self, path: str) -> Mapping[int, LineOrigin]:
        try:
            said = self._git.run("blame", "-w", "--porcelain", "--", path, timeout_s=TIMEOUT_S)
        except (AccessFailed, TooLarge, UnsupportedHost):  # no repository, or a file that it does not have
            return {}
        return _lines(said)


def _lines(said: bytes) -> dict[int, LineOrigin]:
    """The porcelain format: a head for each line, what is known of a commit at its first, then the line behind a tab."""
    found: dict[int, bytes] = {}
    times: dict[bytes, str] = {}
    commit = b""
    for line in said.split(b"\n"):
        if line.startswith(b"\t"):
            continue
        if head := _HEAD.fullmatch(line):
            commit = head[1]
            found[int(head[2])] = commit
        elif line.startswith(b"author-time "):
            times[commit] = datetime.fromtimestamp(int(line[12:]), UTC).isoformat().replace("+00:00", "Z")
    return {number: (by.decode(), times[by]) for number, by in found.items() if by in times and by.strip(b"0")}
