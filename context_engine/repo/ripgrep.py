"""Searches listed files through ripgrep; without it `re2_search.py` finds the same.

The caller names the files; ripgrep walks nothing. No shell is involved, no pattern or path can become an option. Only
numbers come back - counts, lines, columns, bytes - however long the lines are.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from context_engine.errors import AccessFailed, Cancelled, InvalidArgument, SearchTimeout, TooLarge
from context_engine.repo.executables import find_programs, supervise

if TYPE_CHECKING:
    import subprocess

SEARCH_S_MAX = 20.0
"""Clients give up on a call after 30 to 60 s; a repository that fits one machine's memory is searched in a few."""
OUTPUT_BYTES_MAX = 64_000_000
"""Counts of a million files, or a million places in a few of them."""
VERSION_MIN = (13, 0)
"""The oldest in a distribution that is still in use (Debian 12, Ubuntu 22.04)."""
ARGV_SHARE = 0.9
"""Of the room that the system gives to arguments and environment, so that a small miscount does no harm."""
ARGV_CHARS_WINDOWS = 30_000
"""Windows takes 32,767 characters for a whole command line."""
REASON_CHARS_MAX = 300
_BRACKETS = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*+(?:\]|\Z)|[()]", re.DOTALL)
READ_BYTES = 1 << 16
"""What a pipe holds."""
READ_PAUSE_S = 0.001
"""ripgrep writes after each file, and a reader that wakes for each of 9,000 writes takes 25 ms for that alone."""
SEPARATORS = "\x01\x02\x03"
"""One of them replaces the slash in printed paths. ripgrep 14 and 15 resolve each path that they print, link by link,
which takes as long as to search a small file; such a path is not there, so that ends at once.
"""

OPTIONS = (
    "--no-config",  # what the user set for the terminal must not change an answer
    "--no-ignore",
    "--hidden",
    "--no-messages",  # of files that vanished meanwhile; see the exit code
    "--text",  # which files are text has been judged before
    "--crlf",
    "--null",
    "--with-filename",
    "--no-heading",
    "--no-context-separator",
    "--color=never",
)


class GrepRequest(NamedTuple):
    """What to find: lines that match any of the patterns, in the syntax of Rust's `regex`."""

    patterns: tuple[str, ...]
    ignore_case: bool


class MatchedLine(NamedTuple):
    """A line of a file: its number from 1, where it starts in the text as UTF-8, and the column of the first match.

    `column` counts bytes from 1 and is 0 for a line of context.
    """

    path: str
    line: int
    column: int
    offset: int


class SearchDeadline(NamedTuple):
    """How long a search may take, and the event that cancels it."""

    until: float  # time.monotonic()
    cancel: threading.Event

    @classmethod
    def of(cls, cancel: threading.Event | None, seconds: float | None = None) -> SearchDeadline:
        """Return a deadline from now on; after SEARCH_S_MAX by default."""
        return cls(time.monotonic() + (SEARCH_S_MAX if seconds is None else seconds), cancel or threading.Event())

    def check(self) -> None:
        """Raise Cancelled or SearchTimeout when the search has to end."""
        if self.cancel.is_set():
            raise Cancelled("the search was cancelled")
        if time.monotonic() > self.until:
            raise SearchTimeout(
                "the search took too long and was stopped",
                suggestion="Search in a folder (path) or in some files (includes), or use a simpler pattern.",
            )


class Ripgrep:
    """The search by `rg`. `command` is its full path."""

    name = "ripgrep"

    def __init__(self, root: str | os.PathLike[str], command: str) -> None:
        self._root = os.fspath(root)
        self._command = command

    def counts(self, files: Sequence[str], asked: GrepRequest, patience: SearchDeadline) -> tuple[dict[str, int], bool]:
        """Return matching lines by file, and whether every file could be read.

        Raises: InvalidArgument (the pattern), SearchTimeout, Cancelled, TooLarge.
        """
        rows, separator, is_complete = self._run(["--count"], _COUNT, files, asked, patience)
        return {_decode_path(path, separator): int(count) for path, count in rows}, is_complete

    def places(
        self, files: Sequence[str], asked: GrepRequest, patience: SearchDeadline, *, context: int = 0, most: int
    ) -> list[MatchedLine]:
        """Return the first `most` matching lines of each file with lines around them. Raises: as `counts`.

        Text is left out of ripgrep's output: only its place is needed.
        """
        options = ["-n", "-b", "--column", "--max-columns=1", f"--context={context}", f"--max-count={most}"]
        rows, separator, _ = self._run(options, _PLACE, files, asked, patience)
        decode = cache(lambda path: _decode_path(path, separator))  # the same names come again and again
        return [
            MatchedLine(decode(path), int(line), int(column or 0), int(offset)) for path, line, column, offset in rows
        ]

    def _run(
        self,
        options: list[str],
        form: re.Pattern[bytes],
        files: Sequence[str],
        asked: GrepRequest,
        patience: SearchDeadline,
    ) -> tuple[list[tuple[bytes, ...]], str, bool]:
        """Run one process after the other: each uses every core. Return rows, separator, and whether all were read."""
        for pattern in asked.patterns:
            if closes_too_early(pattern):
                raise invalid_pattern(asked, "unopened group")
        text = "/".join(files) if os.sep == "/" else SEPARATORS
        separator = next((char for char in SEPARATORS if char not in text), "/")
        if separator != "/":
            options = [*options, f"--path-separator={separator}"]
        case = "--ignore-case" if asked.ignore_case else "--case-sensitive"
        patterns = [word for pattern in asked.patterns for word in ("-e", pattern)]
        fixed = [self._command, *OPTIONS, *options, case, *patterns, "--"]
        rows: list[tuple[bytes, ...]] = []
        is_complete = True
        for batch in batches(files, argv_room() - sum(map(_argv_cost, fixed))):
            out, code, complaint = _run_process([*fixed, *batch], self._root, patience)
            if code == 2 and complaint:
                raise invalid_pattern(asked, reason(complaint))
            rows += form.findall(out)
            is_complete = is_complete and code != 2
        return rows, separator, is_complete


_COUNT = re.compile(rb"([^\0]+)\0(\d+)\r?\n")
_PLACE = re.compile(rb"([^\0]+)\0(\d+)[:-](?:(\d+):)?(\d+)[:-][^\r\n]*\r?\n")
"""Rows of output; a path may contain anything but a NUL."""


def _decode_path(path: bytes, separator: str) -> str:
    return os.fsdecode(path).replace(separator, "/")


def find_ripgrep(path: str | None, *, outside: str | os.PathLike[str] = "") -> str | None:
    """Return a ripgrep that is new enough: next to our Python, or on a PATH that a repository cannot change."""
    beside = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for command in find_programs("rg", beside=beside, path=path, outside=outside):
        if _version(command) >= VERSION_MIN:
            return command
    return None


def _version(command: str) -> tuple[int, ...]:
    try:
        out, _, _ = _run_process([command, "--version"], os.path.dirname(command), SearchDeadline.of(None, 5.0))
    except (AccessFailed, SearchTimeout):  # not for this machine, or no ripgrep at all
        return ()
    found = re.match(rb"ripgrep (\d+)\.(\d+)", out)
    return (int(found[1]), int(found[2])) if found else ()


def closes_too_early(pattern: str) -> bool:
    r"""Return whether a bracket closes a group that was never opened: ripgrep would take it for the end of its own.

    >>> closes_too_early("a)(b"), closes_too_early(r"\)[)](a)")
    (True, False)
    """
    depth = 0
    for found in _BRACKETS.findall(pattern):
        depth += (found == "(") - (found == ")")
        if depth < 0:
            return True
    return False


# -- saying no ------------------------------------------------------------------------------------------------------


def invalid_pattern(asked: GrepRequest, why: str) -> InvalidArgument:
    """Return the error about a pattern, the same from both engines."""
    pattern = " | ".join(asked.patterns)
    return InvalidArgument(
        f"{pattern!r} is not a pattern that can be searched for: {why}",
        suggestion=next(step for signs, step in _NEXT_STEPS if any(sign in why for sign in signs)),
        details={"pattern": pattern, "reason": why},
    )


def reason(complaint: str) -> str:
    r"""Return what ripgrep objects to in a pattern, in one line.

    >>> reason("rg: regex parse error:\n    (?:(a)\n    ^\nerror: unclosed group\n")
    'unclosed group'
    >>> reason('rg: the literal "\\n" is not allowed in a regex\n\nConsider ...')
    'the literal "\\n" is not allowed in a regex'
    """
    lines = [line for line in complaint.splitlines() if line.strip()]
    reason = next((line for line in lines if line.startswith("error: ")), lines[0] if lines else "it is not accepted")
    return reason.removeprefix("error: ").removeprefix("rg: ")[:REASON_CHARS_MAX]


_NEXT_STEPS = (
    (("look-around", "backreferences"), "Search for a simpler pattern and read the lines it finds."),
    (("line by line", "not allowed in a regex"), "Search for what stands on one line, then read the lines around it."),
    (("without ripgrep",), "Use a simpler pattern, or install ripgrep (pip install ripgrep)."),
    (("",), "Correct the pattern; to find . * + ? ( ) [ ] { } ^ $ | themselves put a backslash before each."),
)


# -- command lines within the system's limits -----------------------------------------------------------------------


def batches(files: Sequence[str], room: int) -> Iterator[Sequence[str]]:
    """Yield the files in groups whose names fit into a command line, at least one in each."""
    start, used = 0, 0
    for number, path in enumerate(files):
        used += _argv_cost(path)
        if used > room and number > start:
            yield files[start:number]
            start, used = number, _argv_cost(path)
    if files:
        yield files[start:]


def argv_room() -> int:
    """Return how many bytes this system leaves to the arguments of a new process."""
    if os.name == "nt":
        return ARGV_CHARS_WINDOWS
    limit = os.sysconf("SC_ARG_MAX")
    environment = sum(_argv_cost(name) + _argv_cost(value) for name, value in os.environ.items())
    return int((limit if limit > 0 else 131_072) * ARGV_SHARE) - environment


def _argv_cost(argument: str) -> int:
    """Return the bytes of an argument with its NUL and its pointer; on Windows quotes and a space need less."""
    return (len(argument) if argument.isascii() else len(os.fsencode(argument))) + 9


# -- one process ----------------------------------------------------------------------------------------------------


def _run_process(command: Sequence[str], folder: str, patience: SearchDeadline) -> tuple[bytes, int, str]:
    """Run a process to its end or its deadline; return its output, exit code and complaint.

    Raises: SearchTimeout, Cancelled, AccessFailed, TooLarge.
    """
    import subprocess  # 10 ms that starting up can do without

    patience.check()
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            start_new_session=os.name == "posix",
        )
    except OSError as error:
        raise AccessFailed(
            f"the search cannot be started: {error.strerror}",
            suggestion=f"Check that {error.filename or command[0]} is there and may be run.",
        ) from error
    with supervise(process, patience.until - time.monotonic(), lambda _: "cancelled" * patience.cancel.is_set()):
        out, complaint = _read_output(process)
    patience.check()
    if len(out) > OUTPUT_BYTES_MAX:
        raise TooLarge(
            f"the search finds places for more than {OUTPUT_BYTES_MAX:,} bytes",
            suggestion="Search for something rarer, in a folder (path) or in some files (includes).",
        )
    if process.returncode not in (0, 1, 2):
        raise AccessFailed("the search was ended from outside", suggestion="Try again, perhaps in a smaller folder.")
    return out, process.returncode, complaint.decode("utf-8", "replace").strip()


def _read_output(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    assert process.stdout  # both are opened as pipes
    assert process.stderr
    with process.stdout as out, process.stderr as complaints:
        parts, size = [], 0
        while size <= OUTPUT_BYTES_MAX and (part := out.read(READ_BYTES)):
            parts.append(part)
            size += len(part)
            if len(part) < READ_BYTES // 2:
                time.sleep(READ_PAUSE_S)
        if size > OUTPUT_BYTES_MAX:
            process.kill()
        return b"".join(parts), complaints.read()
