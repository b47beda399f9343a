"""Where the words of a text are: the hottest call of indexing, for what is counted and for what is embedded."""

from __future__ import annotations

import re

_any_words = re.compile(r"\w+").findall
_BETWEEN_WORDS = {code: " " for code in range(128) if not _any_words(chr(code))}


def words(text: str) -> list[str]:
    """All words of a text, in order. Most code is ASCII, where blanking the rest is twice as fast as looking for them.

    >>> words("x = get_file(a.b)  # größer")
    ['x', 'get_file', 'a', 'b', 'größer']
    """
    return text.translate(_BETWEEN_WORDS).split() if text.isascii() else _any_words(text)
