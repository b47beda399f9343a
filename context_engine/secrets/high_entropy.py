"""PURE.

Values that are random beyond doubt, whatever they are given to: the last net, for providers that nobody has told us of.
"""

from __future__ import annotations

import re

from context_engine.secrets.heuristics import DIGITS_MIN, entropy, is_placeholder, turns

NO_NAME = re.compile(
    rb"cache|sort|hash|sha|md5|sum|digest|crc|etag|id\Z|uuid|guid|rev|commit|ref\Z|version|integrity|cid|node|blob|tree|signature|nonce|name|path"
    rb"|file|url|uri|href|src|class|type|color|expected|result|data|bytes|public|cert|finger|resolved|import|package|module|test|version",
    re.IGNORECASE,
)
"""Names of what may look random and is no secret."""
NAME_BEFORE = re.compile(rb"""([A-Za-z][A-Za-z0-9_.\-]{1,40})["'`\]]{0,2}[ \t]{0,3}(?:=|:|=>|:=)[ \t]{0,3}[\"'`]?\Z""")
NAME_BYTES = 52
ALONE_TURNS_MIN, ALONE_MIXED_TURNS_MIN = 0.3, 0.38
ALONE_BITS_MIN, ALONE_HEX_BITS_MIN = 3.7, 3.3
HEX_CHARS = (24, 32, 48)
"""Lengths of hexadecimal keys that are not those of a checksum in a lock file."""
PIECES_MAX = 3
"""Words are joined by more `_` and `-` than chance puts between letters."""
NO_HEX = re.compile(r"[g-zG-Z]")


def is_random_alone(data: bytes, start: int, stop: int) -> bool:
    """Whether a value is random beyond doubt, and its name does not say what else it is: for names that say nothing of secrets."""
    value = data[start:stop].decode()
    is_hex = not NO_HEX.search(value)
    is_mixed = sum(map(str.isupper, value)) >= DIGITS_MIN and sum(map(str.islower, value)) >= DIGITS_MIN
    if (is_hex and (len(value) not in HEX_CHARS or is_mixed)) or max(value.count("_"), value.count("-")) >= PIECES_MAX:
        return False
    if not is_hex and not is_mixed and len(NO_HEX.findall(value)) < PIECES_MAX:
        return False
    if turns(value) < (ALONE_MIXED_TURNS_MIN if is_mixed else ALONE_TURNS_MIN) or is_placeholder(value):
        return False
    if entropy(value) < (ALONE_HEX_BITS_MIN if is_hex else ALONE_BITS_MIN):
        return False
    name = NAME_BEFORE.search(data[max(0, start - NAME_BYTES) : start])
    return name is not None and not NO_NAME.search(name[1])
