r"""PURE. Make control characters visible: a stranger's text or name must not control a terminal or forge a line.

Each one becomes the escape that JSON has for it: in a JSON text it is the same value as before, elsewhere it can be
read.

>>> escape_controls("a\x1b[31m b\tc\r\n"), escape_controls("x \u202e y"), escape_line("a\nb\tc")
('a\\u001b[31m b\tc\n', 'x \\u202e y', 'a\\u000ab\tc')
"""

from __future__ import annotations

import re

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
    """Return the text with every control, format and surrogate character as its escape; line breaks and tabs stay."""
    if text.isprintable() or _ASCII.fullmatch(text) or text.replace("\n", " ").replace("\t", " ").isprintable():
        return text  # each look takes microseconds a page, the pattern below a hundred times that
    return _UNSAFE.sub(lambda found: escape_characters(found.group()), text.replace("\r\n", "\n"))


def escape_line(name: str) -> str:
    """Return a name with line breaks escaped too: it can neither end its line nor begin another one."""
    if not name.isprintable():
        return _UNSAFE_NAME.sub(lambda found: escape_characters(found.group()), name)
    return name


def escape_characters(text: str) -> str:
    r"""Return each character as JSON escapes it, those beyond 16 bits as two.

    >>> escape_characters("\x9b\U000e0041")
    '\\u009b\\udb40\\udc41'
    """
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
