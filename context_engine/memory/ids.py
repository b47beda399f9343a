"""PURE. Names of memories and discoveries: ids that sort by time, ids that follow from content, and file names people can read."""

from __future__ import annotations

import hashlib
import re
import unicodedata

SLUG_CHARS_MAX = 48
"""With the id it stays under the 64 characters that a file listing shows without wrapping."""
CHANCE_BYTES = 10
"""What `uuid7` needs: 74 bits, in whole bytes."""


def uuid7(ms: int, chance: bytes) -> str:
    """A UUID of version 7 (RFC 9562, 5.7): 48 bits of milliseconds since 1970, then chance.

    >>> uuid7(0x017F22E279B0, bytes.fromhex("0cc3" + "18c4dc0c0c07398f"))
    '017f22e2-79b0-7cc3-98c4-dc0c0c07398f'
    """
    first, rest = int.from_bytes(chance[:2], "big"), int.from_bytes(chance[2:CHANCE_BYTES], "big")
    bits = (ms & 0xFFFF_FFFF_FFFF) << 80 | 7 << 76 | (first & 0xFFF) << 64 | 2 << 62 | rest & 0x3FFF_FFFF_FFFF_FFFF
    return _dashed(bits)


def uuid8(*facts: str) -> str:
    """A UUID of version 8 (RFC 9562, 5.8) that follows from facts: the same today, tomorrow and on every machine.

    >>> uuid8("rule", "AGENTS.md") == uuid8("rule", "AGENTS.md") != uuid8("rule", "CLAUDE.md")
    True
    """
    digest = hashlib.blake2b("\0".join(facts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    bits = int.from_bytes(digest, "big") & ~(0xF << 76 | 0x3 << 62)
    return _dashed(bits | 8 << 76 | 2 << 62)


def _dashed(bits: int) -> str:
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


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
