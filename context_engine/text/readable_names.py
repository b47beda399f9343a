"""PURE. Names that people can read and type: titles as words with dashes, ids by their end."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

SLUG_CHARS_MAX = 48
"""With the id it stays under the 64 characters that a file listing shows without wrapping."""
ENDING_CHARS_MIN = 4
"""Of an id, before its end is taken for it."""


def short_id(name: str) -> str:
    """The last eight digits of an id, which are chance: the first ones are the same for a minute.

    >>> short_id("mem_017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
    '0c07398f'
    """
    return name[-8:]


def ids_ending_with(typed: str, ids: Iterable[str]) -> list[str]:
    """The ids that end like this, if it is long enough to mean one."""
    return [each for each in ids if each.endswith(typed)] if len(typed) >= ENDING_CHARS_MIN else []


def make_slug(title: str, otherwise: str = "memory") -> str:
    """A title as a part of a file name: lower-case letters, digits and dashes; `otherwise` where it has none.

    >>> make_slug("../../x"), make_slug("Use UTF-8, always!"), make_slug("Größe: 10 µm"), make_slug("?"), make_slug("日本語", "")
    ('x', 'use-utf-8-always', 'grosse-10-m', 'memory', '')
    """
    plain = unicodedata.normalize("NFKD", title.replace("ß", "ss")).encode("ascii", "ignore").decode("ascii").lower()
    parts = re.findall(r"[a-z0-9]+", plain)
    name = ""
    for part in parts:
        longer = f"{name}-{part}" if name else part[:SLUG_CHARS_MAX]
        if len(longer) > SLUG_CHARS_MAX:
            break
        name = longer
    return name or otherwise
