"""PURE. Names of memory files: titles as file names that people can read, told apart by the end of an id."""

from __future__ import annotations

import re
import unicodedata

SLUG_CHARS_MAX = 48
"""With the id it stays under the 64 characters that a file listing shows without wrapping."""


def short(name: str) -> str:
    """The last eight digits of an id, which are chance: the first ones are the same for a minute.

    >>> short("mem_017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
    '0c07398f'
    """
    return name[-8:]


def slug(title: str) -> str:
    """A title as a part of a file name: lower-case letters, digits and dashes, whatever the title holds.

    >>> slug("../../x"), slug("Use UTF-8, always!"), slug("Größe: 10 µm"), slug("?"), slug("日本語")
    ('x', 'use-utf-8-always', 'grosse-10-m', 'memory', 'memory')
    """
    plain = unicodedata.normalize("NFKD", title.replace("ß", "ss")).encode("ascii", "ignore").decode("ascii").lower()
    parts = re.findall(r"[a-z0-9]+", plain)
    name = ""
    for part in parts:
        longer = f"{name}-{part}" if name else part[:SLUG_CHARS_MAX]
        if len(longer) > SLUG_CHARS_MAX:
            break
        name = longer
    return name or "memory"
