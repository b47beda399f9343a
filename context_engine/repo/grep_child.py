r"""A search by Python's `re` in its own process, for machines without ripgrep: it can be killed and holds no lock.

It is started as a script in the root, with nothing but the standard library and `confined_folder`. It reads one line of
JSON and then paths with a NUL between them from stdin. It writes what ripgrep would write when `ripgrep.py` calls it:

    {"patterns": ["..."], "mode": "count"}                              path \0 lines \n
    {"patterns": ["..."], "mode": "places", "context": 2, "most": 50}   path \0 line : column : byte : \n

A line of context has `line - byte -`. It exits with 2 when a file could not be read, by itself after `seconds`, and
never follows a link or waits for a pipe.
"""

from __future__ import annotations

import codecs
import faulthandler
import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

BLOCK_BYTES = 4_000_000
"""Read at a time, to the end of a line: a large file is never held whole."""
FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

Finder = Callable[[str], int]
"""The column of the first match in a line, in characters from 0; -1 when there is none."""


def main() -> int:
    """Search the files that stdin names."""
    asked = json.loads(sys.stdin.buffer.readline())
    names = [name for name in sys.stdin.buffer.read().split(b"\0") if name]
    faulthandler.dump_traceback_later(asked["seconds"], exit=True, file=open(os.devnull, "w"))  # noqa: SIM115 - to the end
    finder = finder_of(asked["patterns"])
    code = 0
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from context_engine.storage import ConfinedFolder  # the rest of the package is not there

    top = ConfinedFolder(os.curdir).open_folder()
    for name in names:
        try:
            descriptor = top.open(os.fsdecode(name), FLAGS)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError
            with os.fdopen(descriptor, "rb") as file:
                if asked["mode"] == "count":
                    rows = count_lines(file, finder)
                else:
                    rows = places(file, finder, asked)
                for row in rows:
                    sys.stdout.buffer.write(name + b"\0" + row + b"\n")
        except OSError:  # gone or closed by now: the others are searched all the same
            code = 2
    sys.stdout.buffer.flush()
    return code


def finder_of(patterns: list[str]) -> Finder:
    """Return a function that searches for any of the patterns."""
    searches = [re.compile(pattern).search for pattern in patterns]

    def find(line: str) -> int:
        found = [match.start() for search in searches if (match := search(line))]
        return min(found, default=-1)

    return find


def count_lines(file: BinaryIO, finder: Finder) -> Iterator[bytes]:
    """Yield how many lines match; nothing when none does."""
    count = sum(finder(line) >= 0 for block in blocks(file) for line in lines_of(block))
    if count:
        yield str(count).encode()


def places(file: BinaryIO, finder: Finder, asked: dict[str, Any]) -> Iterator[bytes]:
    """Yield the matching lines with the lines around them, at most as many matches as wanted."""
    context, left = asked["context"], asked["most"]
    before: deque[bytes] = deque(maxlen=context)
    number, offset, after = 0, 0, 0
    for block in blocks(file):
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            text = decode_line(line)
            column = finder(text)
            if column >= 0:
                yield from before
                before.clear()
                bytes_before = len(text[:column].encode("utf-8", "surrogateescape"))
                yield f"{number}:{bytes_before + 1}:{offset}:".encode()
                left, after = (left - 1, context) if left else (0, after - 1)  # a surplus line keeps its kind
            elif after:
                yield f"{number}-{offset}-".encode()
                after -= 1
            elif context:
                before.append(f"{number}-{offset}-".encode())
            offset += len(line) + 1
            if not left and not after:
                return


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file's text as UTF-8 without its mark, in pieces that end with a line."""
    head = file.read(3)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield (head + file.read()).decode("utf-16", "replace").encode()
        return
    rest = b"" if head == codecs.BOM_UTF8 else head
    while piece := file.read(BLOCK_BYTES):
        ended = piece.rfind(b"\n") + 1
        if not ended:
            rest += piece
            continue
        yield rest + piece[:ended]
        rest = piece[ended:]
    if rest:
        yield rest


def lines_of(block: bytes) -> Iterator[str]:
    """Yield the lines of a block without their ends."""
    for line in block.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n"):
        yield line.removesuffix("\r")


def decode_line(line: bytes) -> str:
    """Return one line without its end."""
    return line.decode("utf-8", "surrogateescape").removesuffix("\r")


if __name__ == "__main__":
    sys.exit(main())
