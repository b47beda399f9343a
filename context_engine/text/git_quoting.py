r"""PURE.

The names of files as git writes them: quoted as in C where they hold a quote, a backslash or a control character.

>>> unquote_path(r'"t\303\244b\there"'), unquote_path("plain name")
('täb\there', 'plain name')
>>> quote_path("täb\there"), quote_path("plain name")
('"täb\\there"', 'plain name')
"""

from __future__ import annotations

import re

LETTERS = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_WRITTEN = {character: letter for letter, character in LETTERS.items()}
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')


def unquote_path(name: str) -> str:
    """The name itself. Octal escapes are bytes of UTF-8; a byte that is none becomes U+FFFD."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    return _ESCAPE.sub(_character, name[1:-1].encode()).decode("utf-8", "replace")


def quote_path(name: str) -> str:
    """The name as git writes it in the header of a diff, other letters as they are."""
    special = _SPECIAL.sub(lambda found: _escaped(found.group()), name)
    return name if special == name else f'"{special}"'


def _character(found: re.Match[bytes]) -> bytes:
    said = found[1].decode("latin-1")
    return bytes([int(said, 8)]) if len(said) == 3 else LETTERS.get(said, said).encode()


def _escaped(character: str) -> str:
    letter = _WRITTEN.get(character)
    return f"\\{letter}" if letter else f"\\{ord(character):03o}"
