"""PURE. Numbers, sizes, JSON and suggestions as users and agents read them."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from context_engine.errors import InvalidArgument

# -- visible text ------------------------------------------------------------------------------------------------------

# Make control characters visible: a stranger's text or name must not control a terminal or forge a line.
#
# Each one becomes the escape that JSON has for it: in a JSON text it is the same value as before, elsewhere it can be
# read.

_JOINERS = "\u200c\u200d"
"""Some scripts join or part letters by them, and so do emoji of several."""
_CONTROLS = "\x00-\x1f\x7f-\x9f"
_FORMATS = (
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
"""Unicode's categories Cf, Zl and Zp: marks of direction, of no width, separators, tags."""
_SURROGATES = "\ud800-\udfff"
_LETTER = rf"[^\x00-\x7f{_JOINERS}]"
_JOINS = rf"(?<={_LETTER})[{_JOINERS}](?={_LETTER})"
_ALL = rf"[{_CONTROLS}{_FORMATS}{_SURROGATES}]"
_UNSAFE = re.compile(rf"(?!{_JOINS}|[\t\n]){_ALL}")
_ASCII = re.compile(r"[\n\t\x20-\x7e]*")
_UNSAFE_NAME = re.compile(rf"(?!{_JOINS}|\t){_ALL}")


def escape_controls(text: str) -> str:
    r"""Return the text with every control, format and surrogate character as its escape; line breaks and tabs stay.

    >>> escape_controls("a\x1b[31m b\tc\r\n"), escape_controls("x \u202e y"), escape_line("a\nb\tc")
    ('a\\u001b[31m b\tc\n', 'x \\u202e y', 'a\\u000ab\tc')
    """
    if text.isprintable() or _ASCII.fullmatch(text) or text.replace("\n", " ").replace("\t", " ").isprintable():
        return text  # each look takes microseconds a page, the pattern below a hundred times that
    return _UNSAFE.sub(lambda found: escape_characters(found.group()), text.replace("\r\n", "\n"))


def escape_line(name: str) -> str:
    """Return a name with line breaks escaped too: it can neither end its line nor begin another one."""
    if not name.isprintable():
        return _UNSAFE_NAME.sub(lambda found: escape_characters(found.group()), name)
    return name


def fence_for(text: str) -> str:
    """Return a Markdown code fence that the text cannot close.

    >>> fence_for("x = 1"), fence_for("a ```` b")
    ('```', '`````')
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)


def join_first(items: Sequence[str], most: int) -> str:
    """Join the first items in one line and count the others.

    >>> join_first(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    rest = f" and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest


def locate_lines(places: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yield `path:line` for places one below the other; where one has the path of the place before it, only `:line`.

    >>> list(locate_lines([("a.py", 3), ("a.py", 9), ("b.py", 1)]))
    ['a.py:3', ':9', 'b.py:1']
    """
    before = ""
    for path, line in places:
        yield f":{line}" if path == before else f"{escape_line(path)}:{line}"
        before = path


def escape_characters(text: str) -> str:
    r"""Return each character as JSON escapes it, those beyond 16 bits as two.

    >>> escape_characters("\x9b\U000e0041")
    '\\u009b\\udb40\\udc41'
    """
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


# -- formatting --------------------------------------------------------------------------------------------------------

NAME_CHARS_MAX = 100
"""Longest name for which a similar name is suggested."""
NEARNESS_MIN = 0.75
"""`coer` suggests `core`; at 0.6, the default of difflib, `worker` would suggest `looker`."""
SHORT_NEARNESS_MIN = 0.66
"""Of three letters one may differ, but not the first: `pai` suggests `pay`, and `foo` does not suggest `roo`."""
PART_CHARS_MIN = 4
"""A shorter word is in too many others by chance."""


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun, in the singular for 1.

    >>> format_count(1, "file"), format_count(1200, "match", "matches")
    ('1 file', '1,200 matches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_size(size_bytes: int) -> str:
    """Format a size for people.

    >>> format_size(512), format_size(2048), format_size(3_400_000)
    ('512 B', '2.0 kB', '3.2 MB')
    """
    size, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size /= 1024
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def compact_json(value: Any) -> str:
    """Format JSON without spaces, with plain Unicode, since an escape costs six tokens; direction marks are escaped.

    >>> compact_json({"path": "src/ä.py", "lines": "1-2"})
    '{"path":"src/ä.py","lines":"1-2"}'
    """
    return escape_controls(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def drop_empty(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row without its empty fields; zero and False stay.

    >>> drop_empty({"path": "a.py", "note": "", "tags": [], "count": 0})
    {'path': 'a.py', 'count': 0}
    """
    return {
        key: value
        for key, value in row.items()
        if value is not None and value != "" and value != () and value != [] and value != {}
    }


def find_near_words(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the known words that are similar to one, best first, then those that contain it; case does not count.

    >>> find_near_words("Serch", ["search", "trace", "serch_code"]), find_near_words("worker", ["looker"])
    (['search', 'serch_code'], [])
    """
    wanted, folded = word.casefold(), {one.casefold(): one for one in known}
    if len(word) > NAME_CHARS_MAX:
        return []
    is_short = len(wanted) <= 3
    alike = [one for one in folded if not is_short or one[:1] == wanted[:1]]
    near = difflib.get_close_matches(wanted, alike, count, SHORT_NEARNESS_MIN if is_short else NEARNESS_MIN)
    near += [one for one in folded if len(wanted) >= PART_CHARS_MIN and wanted in one and one not in near]
    return [folded[one] for one in near[:count]]


def suggest_nearest(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean ...?" for a similar known word, else an empty text.

    >>> suggest_nearest("serch", ["search", "trace"])
    ' Did you mean search?'
    """
    return "".join(f" Did you mean {near}?" for near in find_near_words(word, known, 1))


# -- pages -------------------------------------------------------------------------------------------------------------

STAMP_CHARS = 8
"""Of the hash in a cursor: an old cursor fits by chance once in four thousand million cases."""


def hash_page(question: object, rows: Iterable[str]) -> str:
    """Return what a cursor stores of a list: a hash of the question and of all rows that answer it, in their order."""
    lines = "\n".join([repr(question), *rows])
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()[:STAMP_CHARS]


def format_cursor(start: int, stamped: str, total: int) -> str:
    """Return where to continue, for the caller to send back; empty at the end.

    >>> format_cursor(50, "0123abcd", 60), parse_cursor("0123abcd-50", "0123abcd"), format_cursor(60, "0123abcd", 60)
    ('0123abcd-50', 50, '')
    """
    return f"{stamped}-{start}" if start < total else ""


def parse_cursor(sent: str, stamped: str) -> int:
    """Return where a cursor continues; 0 without one. Raises: InvalidArgument when it is of another search or state."""
    if not sent:
        return 0
    made = re.fullmatch(r"([0-9a-f]{8})-(\d{1,12})", sent.strip())
    if not made:
        raise InvalidArgument("cursor is not one of this server", suggestion="Omit it to start from the beginning.")
    if made[1] != stamped:
        raise InvalidArgument(
            "cursor belongs to another search, or the files have changed since",
            suggestion="Repeat the search without it; keep all other arguments the same from page to page.",
        )
    return int(made[2])
