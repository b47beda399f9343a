"""PURE.

Ids: ones that sort by the time they were made, and ones that follow from facts. Time and chance are handed in.
"""

from __future__ import annotations

import hashlib

CHANCE_BYTES = 10
"""What `uuid7` needs: 74 bits, in whole bytes."""


def uuid7(ms: int, chance: bytes) -> str:
    """A UUID of version 7 (RFC 9562, 5.7): 48 bits of milliseconds since 1970, then chance.

    >>> uuid7(0x017F22E279B0, bytes.fromhex("0cc3" + "18c4dc0c0c07398f"))
    '017f22e2-79b0-7cc3-98c4-dc0c0c07398f'
    """
    first, rest = int.from_bytes(chance[:2], "big"), int.from_bytes(chance[2:CHANCE_BYTES], "big")
    bits = (ms & 0xFFFF_FFFF_FFFF) << 80 | 7 << 76 | (first & 0xFFF) << 64 | 2 << 62 | rest & 0x3FFF_FFFF_FFFF_FFFF
    return _format_uuid(bits)


def uuid8(*facts: str) -> str:
    """A UUID of version 8 (RFC 9562, 5.8) that follows from facts: the same today, tomorrow and on every machine.

    >>> uuid8("rule", "AGENTS.md") == uuid8("rule", "AGENTS.md") != uuid8("rule", "CLAUDE.md")
    True
    """
    digest = hashlib.blake2b("\0".join(facts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    bits = int.from_bytes(digest, "big") & ~(0xF << 76 | 0x3 << 62)
    return _format_uuid(bits | 8 << 76 | 2 << 62)


def _format_uuid(bits: int) -> str:
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
