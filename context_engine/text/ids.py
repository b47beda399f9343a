"""PURE. Ids, and names that people can read and type. Time and random bytes are passed in."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

CHANCE_BYTES = 10
"""Random bytes that `uuid7` needs: 74 bits."""
SLUG_CHARS_MAX = 48
"""With the id it stays under the 64 characters that a file listing shows without wrapping."""
ENDING_CHARS_MIN = 4
"""Of an id, before its end is taken for it."""


def uuid7(ms: int, chance: bytes) -> str:
    """Return a UUID of version 7 (RFC 9562, 5.7): 48 bits of milliseconds since 1970, then random bits.

    >>> uuid7(0x017F22E279B0, bytes.fromhex("0cc3" + "18c4dc0c0c07398f"))
    '017f22e2-79b0-7cc3-98c4-dc0c0c07398f'
    """
    first, rest = int.from_bytes(chance[:2], "big"), int.from_bytes(chance[2:CHANCE_BYTES], "big")
    bits = (ms & 0xFFFF_FFFF_FFFF) << 80 | 7 << 76 | (first & 0xFFF) << 64 | 2 << 62 | rest & 0x3FFF_FFFF_FFFF_FFFF
    return _format_uuid(bits)


def uuid8(*facts: str) -> str:
    """Return a UUID of version 8 (RFC 9562, 5.8) that follows from facts: the same on every machine, at any time.

    >>> uuid8("rule", "AGENTS.md") == uuid8("rule", "AGENTS.md") != uuid8("rule", "CLAUDE.md")
    True
    """
    digest = hashlib.blake2b("\0".join(facts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    bits = int.from_bytes(digest, "big") & ~(0xF << 76 | 0x3 << 62)
    return _format_uuid(bits | 8 << 76 | 2 << 62)


def short_id(name: str) -> str:
    """Return the last eight digits of an id, which are random: the first ones are the same for a minute.

    >>> short_id("mem_017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
    '0c07398f'
    """
    return name[-8:]


def ids_ending_with(typed: str, ids: Iterable[str]) -> list[str]:
    """Return the ids with this ending, if it is long enough to mean one."""
    if len(typed) >= ENDING_CHARS_MIN:
        return [candidate for candidate in ids if candidate.endswith(typed)]
    return []


def make_slug(title: str, otherwise: str = "memory") -> str:
    """Return a title as a part of a file name: lower-case letters, digits and dashes; `otherwise` if it has none.

    >>> make_slug("../../x"), make_slug("Use UTF-8, always!"), make_slug("Größe: 10 µm"), make_slug("?")
    ('x', 'use-utf-8-always', 'grosse-10-m', 'memory')
    """
    plain = unicodedata.normalize("NFKD", title.replace("ß", "ss")).encode("ascii", "ignore").decode("ascii").lower()
    name = ""
    for part in re.findall(r"[a-z0-9]+", plain):
        if name:
            longer = f"{name}-{part}"
        else:
            longer = part[:SLUG_CHARS_MAX]
        if len(longer) > SLUG_CHARS_MAX:
            break
        name = longer
    return name or otherwise


def _format_uuid(bits: int) -> str:
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
