r"""PURE. Finds assigned values.

Find the value that is assigned to a name, in any syntax: `x = "v"`, `"x": "v"`, `X=v`, `x := v`, `x => v`, `<x>v</x>`,
`f("x", "v")`.

    password: "hunter2"          --password=hunter2          os.environ["PASSWORD"] = 'hunter2'

Every pattern here is tried at one place and reads a bounded number of characters from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

NAME_CHARS_MAX = 60
VALUE_CHARS_MAX = 8_192
"""Longer values are files or texts, which other rules know."""
LINE_CHARS_MAX = 80
"""The beginning of a line, which distinguishes a setting from code, is searched this far."""

BACKSLASHES_MAX = 19
NAME_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
TAIL = re.compile(rb"[A-Za-z0-9_.\-]{0,%d}" % NAME_CHARS_MAX)
ASSIGNED = re.compile(
    rb"""
    (?: \\{0,3}["'`\]\)>] | &quot; | \s(?=\() ){0,3}                          # what closes the name
    (?: [ ]{0,2}:[ ]{0,2} [&*]?(?:'static[ ])?[A-Za-z.]{3,20}[?]? (?=[ ]{0,2}=)   # a type: `x: str =`
      | [ ]{1,3} [*]?(?:string|String) (?=[ ]{0,2}=) )?
    (?P<space>[ \t]{0,16})
    (?P<op> => | := | -> | <- | (?:\?\?|\|\||[.?+:!=<|])={1,2} | = | : | , | \|\| | \?\?
      | > | -(?=[ ]) | is(?=[ ]) | value= | %3[DA]
      | \((?=[ ]{0,2}["'`]) | \n[ \t]{0,24}["']?value["']?[ ]{0,2}: | (?<=[ \t])(?=["'`A-Za-z0-9]) )
    (?: [ \t]{0,16} [|>][-+]? (?=\r?\n) )?
    (?: [ \t]{0,16}(?:\\n|\r?\n)[ \t]{0,24} | [ \t]{0,24} )
    (?: [\[({] (?=[ ]{0,2}["'`]) [ ]{0,2} )?
    (?P<open> (?:[bBrRuU@] (?=["']))? (?: (?:\\{0,3} ["'`]){1,3} | &quot; )? )
    """,
    re.VERBOSE,
)
NEARBY = re.compile(
    rb"""
    (?= [^A-Za-z0-9/@#] ) [^A-Za-z0-9/@#\\]{0,24}
    (?: \\{1,3} (?: [nrtbf] | u[0-9a-fA-F]{4} | x[0-9a-fA-F]{2} | (?![A-Za-z0-9\\]) ) [^A-Za-z0-9/@#\\]{0,12} ){0,4}
    (?: (?:values?|is|are|was|string|str|to|as|of|key|token|secret|here) [^A-Za-z0-9]{1,8} ){0,2}
    (?P<value> [A-Za-z0-9][A-Za-z0-9+/=_.~-]{14,300} )
    """,
    re.VERBOSE,
)
"""A long value after a name, with only marks and small words between them."""
PLAIN_CHARS_MAX, PLAIN_WITH_EQUALS_MAX = 512, 64
PLAIN = re.compile(
    rb"""[A-Za-z0-9+/_.~-]{%d,%d}={0,2}|[^\s"'`,;<>()\[\]{}\\]{1,%d}"""
    % (PLAIN_CHARS_MAX, VALUE_CHARS_MAX, PLAIN_CHARS_MAX)
)
"""A value without quotes. A long one contains no operator of another assignment, so each value is read once."""
ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbfv0])")
"""An escape in a string of JSON or of a program."""
LAST_QUOTE = re.compile(rb"""&quot;|\\{0,3}["'`]\Z""")
END = re.compile(rb"""\Z|[\s"'`,;<&)}\]\\]""")
"""The characters that may follow a value; a bracket would make it a call."""
SETTING = re.compile(
    rb"""(?:\A|["'`]|\\n)[ \t]*"""
    rb"""(?:[-+*#>$]\s{0,3}|//?\s{0,2}|export\s+|set\s+|env\s+|ENV\s+|ARG\s+|-D|SET\s+|\$env:)?"""
    rb"""[A-Za-z0-9_.\-/:@ ]{0,60}\Z"""
)
"""The start of a line that contains only a setting."""


class Assignment(NamedTuple):
    """A name and its value, with their positions and notation. A loose value merely follows the name."""

    name: bytes
    head: bytes
    tail: bytes
    value: bytes
    start: int
    stop: int
    operator: bytes
    is_quoted: bool
    is_loose: bool = False


def find_values(data: bytes, start: int, stop: int, *, nearby: bool) -> Iterator[Assignment]:
    """Yield the value assigned to the name that contains a word, and with `nearby` a long one close behind it."""
    tail = TAIL.match(data, stop)
    assert tail is not None, "it may be empty"
    head, end = name_head(data, start), tail.end()
    name = head + data[start:end]
    if assigned := ASSIGNED.match(data, end):
        operator, is_quoted = assigned["op"].strip(), bool(assigned["open"])
        span = _quoted_span(data, assigned) if is_quoted else _plain_span(data, start, assigned)
        if span and (operator or is_quoted or head.startswith(b"--")):
            yield Assignment(name, head, tail.group(), data[slice(*span)], *span, operator, is_quoted)
    if nearby and (match := NEARBY.match(data, end)) and END.match(data, match.end()):
        first, last = skip_escape(data, match.start("value")), match.end("value")
        yield Assignment(name, head, tail.group(), data[first:last], first, last, b"", is_quoted=False, is_loose=True)


def name_head(data: bytes, start: int) -> bytes:
    """Return the part of a name before a position in it."""
    before = data[max(0, start - NAME_CHARS_MAX) : start]
    return before[len(before.rstrip(NAME_CHARS)) :]


def is_setting(data: bytes, start: int) -> bool:
    """Return whether the line contains only a name before this position, as in a settings file."""
    line = max(data.rfind(b"\n", max(0, start - LINE_CHARS_MAX), start) + 1, start - LINE_CHARS_MAX, 0)
    return bool(SETTING.search(data[line:start]))


def _quoted_span(data: bytes, assigned: re.Match[bytes]) -> tuple[int, int] | None:
    """Return the span up to the same quote on the same line, or None."""
    last = LAST_QUOTE.search(assigned["open"])
    assert last is not None, "what opens a value is a quote"
    mark = last.group()
    start = assigned.end()
    line = data.find(b"\n", start, start + VALUE_CHARS_MAX)
    limit = line if line >= 0 else min(len(data), start + VALUE_CHARS_MAX)
    stop = data.find(mark, start, limit)
    while (
        stop > start and data[stop - 1 : stop] == b"\\" and not mark.startswith(b"\\") and is_escaping(data, stop - 1)
    ):
        stop = data.find(mark, stop + 1, limit)
    return (start, stop) if stop > start else None


def skip_escape(data: bytes, start: int) -> int:
    r"""Return the end of the escape whose backslash is right before a position; the position itself without one.

    >>> skip_escape(rb"\nkey", 1), skip_escape(rb"\\nkey", 2), skip_escape(rb"\u0041key", 1)
    (2, 2, 6)
    """
    escape = ESCAPE.match(data, start - 1) if start else None
    return escape.end() if escape and is_escaping(data, start - 1) else start


def is_escaping(data: bytes, index: int) -> bool:
    """Return whether a backslash escapes the next character: an even number of backslashes is before it."""
    before = data[max(0, index - BACKSLASHES_MAX) : index]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 0


def _plain_span(data: bytes, start: int, assigned: re.Match[bytes]) -> tuple[int, int] | None:
    """Return the span up to a blank or a mark of the language, or None for an expression."""
    match = PLAIN.match(data, assigned.end())
    if match is None:
        return None
    first, last = match.span()
    if last - first > PLAIN_WITH_EQUALS_MAX and b"=" in data[first : last - 2]:
        return None
    if data[start - 1 : start] in (b"?", b"&") or b"&" in data[max(0, start - 30) : start]:
        last = min(last, (data.find(b"&", first, last) + 1 or last + 1) - 1)
    while last > first and data[last - 1] in b".:":
        last -= 1
    return (first, last) if last > first and END.match(data, last) else None
