"""PURE. Find the lines of private keys, after a BEGIN or without their first line, in any kind of text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from context_engine.secrets.assignments import skip_escape
from context_engine.secrets.heuristics import turns

LINE_END = re.compile(rb"(?:\\r)?\\n|\r?\n")
"""Also as JSON writes it."""
AROUND_LINES = b" \t\"'`+,;()\\"
"""The characters around a line of a key in source code."""
KEY_LINE = re.compile(rb"[A-Za-z0-9+/=]+|[A-Za-z0-9+/=]{32,}(?: [A-Za-z0-9+/=]+)*")
"""Some tools write all lines into one, with blanks between them."""
KEY_HEADER = re.compile(rb"[A-Za-z-]+: .*")
KEY_LINE_CHARS_MIN = 32
"""The longest line of a key has 64 or more; code that only mentions keys has no such line."""

Parts = tuple[tuple[int, int], ...]


def key_lines(data: bytes, start: int) -> Parts:
    """Return the lines of a key after its BEGIN; its END may be missing."""
    end = data.find(b"-----", start)
    parts: list[tuple[int, int]] = []
    longest = 0
    for first, last in _lines(data, start, len(data) if end < 0 else end):
        line = data[first:last].strip(AROUND_LINES)
        if KEY_LINE.fullmatch(line):
            begin = data.index(line, first)
            parts.append((skip_escape(data, begin), begin + len(line)))
            longest = max(longest, len(line))
        elif line and not KEY_HEADER.fullmatch(line):
            break
    if longest >= KEY_LINE_CHARS_MIN:
        return tuple(parts)
    return ()


def _lines(data: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    lines, first = [], start
    for end in LINE_END.finditer(data, start, stop):
        lines.append((first, end.start()))
        first = end.end()
    return [*lines, (first, stop)]


# -- a key without its first line -------------------------------------------------------------------------------------

BODY = re.compile(rb"[A-Za-z0-9+/]{64,}={0,2}")
BODY_WIDTHS = frozenset((64, 70, 76))
"""The line widths of PEM, OpenSSH and older encodings (MIME, PGP)."""
BODY_TURNS_MIN = 0.3
"""Of neighbors that change between small letters, capitals and digits: base64 changes at half of its places, paths at a
tenth."""
LINE_START = rb"""(?:(?:[^\s:]{1,200}[:-])?[0-9]{1,7}[-:|\t ])?[ \t]{0,80}(?:[-+>#*|][ \t]{0,8})?["'`(]{0,3}"""
"""The possible start of a line of a body: a file and a number, indentation, a diff or comment sign, a quote."""
LINE_START_BYTES = 300
LINE_STOP = rb"""(?:(?:\\r)?\\n|[ \t"'`,;+)\\]{0,8}(?:\r?\n|\Z)|["'`])"""
BEFORE_BODY = re.compile(rb"(?:(?<![^\n])" + LINE_START + rb"|\\n[ \t]{0,80})\Z")
BEFORE_ESCAPED = re.compile(BEFORE_BODY.pattern + rb"|[\"'`=:] ?\Z")
"""The same where the line ends in an escape, as in a string of JSON."""
AFTER_BODY = re.compile(LINE_STOP)
LAST_LINE = re.compile(LINE_START + rb"([A-Za-z0-9+/]{4,75}={0,2})" + LINE_STOP)
LAST_LINE_CHARS_MIN = 8
"""A shorter line without `=` may be a word."""
BETWEEN_BYTES_MAX, BETWEEN_LINES_MAX = 400, 3
"""The distance between two lines of the same body; one line between them may have another shape."""
MARKER = re.compile(rb"-----? ?(BEGIN|END) ([A-Z0-9 ]{1,40}?) ?-----?")
MARKER_BYTES = 600
"""The distance in which the BEGIN and END of a body are searched; headers are between."""
CERTIFICATE = re.compile(rb"Certificate>\s{0,100}\Z")


def body_lines(data: bytes, runs: Iterable[tuple[int, int]]) -> Iterator[Parts]:
    """Yield the lines of each key whose first line is not in the text, together where they follow each other.

    `runs` are the spans of base64 letters. A line counts if it is only base64 and as wide as tools write it. A body
    that a BEGIN or an END marks as public is left out.
    """
    run: list[tuple[int, int]] = []
    for match in (match for start, stop in runs for match in BODY.finditer(data, start, stop)):
        span = _body_line(data, *match.span())
        if span is None:
            continue
        if run and not _follows(data, run[-1][1], span[0]):
            yield from _secret_run(data, run)
            run = []
        run.append(span)
    yield from _secret_run(data, run)


def _body_line(data: bytes, start: int, stop: int) -> tuple[int, int] | None:
    """Return the span of one line of a body, or None for anything else that long."""
    start = skip_escape(data, start)
    if data[start - 1 : start] == b"\\" and data[start : start + 1] in (b"n", b"r"):  # escaped twice
        start += 1
    if data[start : start + 1] == b"+" and stop - start - 1 in BODY_WIDTHS:  # the sign of a diff
        start += 1
    line = data[start:stop]
    if len(line) not in BODY_WIDTHS or not _is_mixed(line) or turns(line.decode()) < BODY_TURNS_MIN:
        return None
    after = AFTER_BODY.match(data, stop)
    if after is None:
        return None
    if b"\\" in after.group():
        before = BEFORE_ESCAPED
    else:
        before = BEFORE_BODY
    if before.search(data[max(0, start - LINE_START_BYTES) : start]):
        return (start, stop)
    return None


def _is_mixed(line: bytes) -> bool:
    """Return whether a line has small letters, capitals and digits: checksums have not all three."""
    return all(len(line.translate(None, letters)) < len(line) for letters in _LETTERS)


_LETTERS = (b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0123456789")


def _follows(data: bytes, stop: int, start: int) -> bool:
    """Return whether two lines belong to the same body."""
    if start - stop <= BETWEEN_BYTES_MAX:
        between = data[stop:start]
    else:
        between = b"-----"
    return b"-----" not in between and len(LINE_END.findall(between)) <= BETWEEN_LINES_MAX


def _secret_run(data: bytes, run: list[tuple[int, int]]) -> Iterator[Parts]:
    """Yield a run with the short line that ends it, unless what is around it says that it is public."""
    if not run or _is_public(data, run[0][0], run[-1][1]):
        return
    end = LINE_END.search(data, run[-1][1], run[-1][1] + LAST_LINE_CHARS_MIN)
    last = LAST_LINE.match(data, end.end()) if end else None
    if last and (b"=" in last[1] or (len(last[1]) >= LAST_LINE_CHARS_MIN and _is_mixed(last[1]))):
        run = [*run, last.span(1)]
    yield tuple(run)


def _is_public(data: bytes, start: int, stop: int) -> bool:
    """Return whether a BEGIN before a body or an END after it names something else than a private key."""
    before = data[max(0, start - MARKER_BYTES) : start]
    if CERTIFICATE.search(before):
        return True
    first = MARKER.findall(before)
    if first and first[-1][0] == b"BEGIN":
        return b"PRIVATE" not in first[-1][1]
    last = MARKER.search(data, stop, stop + MARKER_BYTES)
    return last is not None and last[1] == b"END" and b"PRIVATE" not in last[2]
