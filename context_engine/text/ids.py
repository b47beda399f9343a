"""PURE. Ids, and names that people can read and type. Time and random bytes are passed in."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

CHANCE_BYTES = 10
"""Random bytes that `uuid7` needs: 74 bits."""
SLUG_CHARS_MAX = 48
"""With the id it stays under the 64 characters that a file listing shows without wrapping."""
SLUG_WORDS_CHARS_MAX = 28
"""Four or five words, for a slug that people type."""
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
        longer = f"{name}-{part}" if name else part[:SLUG_CHARS_MAX]
        if len(longer) > SLUG_CHARS_MAX:
            break
        name = longer
    return name or otherwise


def _format_uuid(bits: int) -> str:
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def make_slugs(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the slug of each named thing by id, from ids and names.

    >>> make_slugs([("plan_1-aaaaaaaa", "Money in cents"), ("plan_1-bbbbbbbb", "???")])
    {'plan_1-aaaaaaaa': 'money-in-cents', 'plan_1-bbbbbbbb': 'bbbbbbbb'}
    """
    rows = [(plan_id, _slug_words(name)) for plan_id, name in named]
    slug_counts = Counter(words for _, words in rows)
    return {key: words if words and slug_counts[words] == 1 else short_id(key) for key, words in rows}


def _slug_words(name: str) -> str:
    """Return the first words of a name, joined by dashes."""
    whole = make_slug(name, "")
    if len(whole) <= SLUG_WORDS_CHARS_MAX:
        return whole
    return whole[: SLUG_WORDS_CHARS_MAX + 1].rpartition("-")[0] or whole[:SLUG_WORDS_CHARS_MAX]


def resolve_slug(typed: str, by_id: Mapping[str, str], *, is_begun: bool = False) -> str:
    """Return the id that a slug or the end of an id refers to; ambiguous and unknown text is returned as it is.

    With `is_begun` the beginning of a slug is enough, for people at a terminal.

    >>> known = {"plan_1-aaaaaaaa": "money-in-cents"}
    >>> resolve_slug("money-in-cents", known), resolve_slug("money", known), resolve_slug("money", known, is_begun=True)
    ('plan_1-aaaaaaaa', 'money', 'plan_1-aaaaaaaa')
    """
    found = [plan_id for plan_id, handle in by_id.items() if typed in (handle, plan_id)]
    if is_begun and typed:
        found = found or [plan_id for plan_id, handle in by_id.items() if handle.startswith(typed)]
    found = found or ids_ending_with(typed, by_id)
    return found[0] if len(found) == 1 else typed
