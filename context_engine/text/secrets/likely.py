"""PURE. Second looks: a value is drawn by chance, chosen by a person, or only shows where one goes."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

DISTINCT_MIN = 8
"""A key of 20 characters has 12 or more different ones; `xxxxxxxx` and `0000` are placeholders."""
PLACEHOLDERS = ("example", "placeholder", "changeme", "your", "dummy", "redacted", "****", "1234567890")
CROSSES = ("xxxx", "XXXX")
"""In one case: chance writes `XxXx` once in a long key of some ten thousand."""
STAND_IN = re.compile(
    r"(?:my|your|the|some|api|app|application|acs|user|auth|access|account|db|client|resource|secret|pass|word|wd|phrase|pwd|pw|key|token"
    r"|sid|login|domain|id|name|root|admin|test|guest|postgres|mysql|foo|bar|baz|xx|dsn|abc|qwerty|hash|value|string|new|old|null|none|true|false)+"
)
"""Passwords made of nothing but these show where one goes (`apiKey`, `APP_TOKEN`, `pass2`)."""
LABEL = re.compile(r"\[(?:masked [a-z0-9 ]+|REDACTED(?::[a-z0-9-]+)?(?::[0-9a-f]{6,12})?)\]")
"""What stands where a secret was."""
TEMPLATE = re.compile(
    r"\$\{|\$\(|^\$[A-Za-z_][\w.]*$|^@[A-Z0-9_]+@?$|%\(|^%[sd]|\{\{|\{[A-Za-z_]*\}|<[^>]*>|#\{|^%[A-Za-z_]+%$|^[*.\-_xX]+$"
)
"""A value that is put in later."""
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
ENTROPY_BITS_MIN = 3.5
"""Of each character: random letters and digits have 3.9 and more at length 16, words joined by `_` about 3."""
DIGITS_MIN = 2


def is_placeholder(value: str) -> bool:
    """Whether a value stands where somebody shall put a key.

    >>> is_placeholder("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), is_placeholder("AKIAIOSFODNN7EXAMPLE")
    (True, True)
    """
    lowered = value.lower()
    if len(set(lowered)) < DISTINCT_MIN or any(crosses in value for crosses in CROSSES):
        return True
    return any(word in lowered for word in PLACEHOLDERS)


def is_random(value: str) -> bool:
    """Whether nobody would choose such a value: digits among letters, hardly a character twice.

    >>> is_random("q8Zt2Lw0Xv5Rb7Nc"), is_random("user_token_header_v2"), is_random("0b1e9c7e-3d5f-4a53-9f6e-2f4e4c1f9a11")
    (True, False, False)
    """
    if sum(character.isdigit() for character in value) < DIGITS_MIN or value.isdigit():
        return False
    if is_placeholder(value) or UUID.fullmatch(value):
        return False
    return entropy(value) >= ENTROPY_BITS_MIN


DRAWN_CHARS_MIN = 10
DRAWN_BITS_MIN = 2.8
"""Ten random hex digits have 2.8 and more nine times of ten."""
TURNS_MIN = 0.2
"""Of neighbours, how many change between small letters, capitals and digits: random ones .4 and more, words with a number .1."""
TURNS_WITHOUT_DIGITS_MIN = 0.42
"""camelCase turns at a third of its places, random letters at half of them."""
LETTERS_CHARS_MIN = 20
LONG_CHARS, TURNS_OF_LONG_MIN, TURNS_OF_LONG_WITHOUT_DIGITS_MIN = 28, 0.14, 0.36
"""Chance has room to come near its mean in a long value."""


def is_drawn(value: str) -> bool:
    """Whether a value looks drawn by chance, by weaker signs than `is_random`: for places that speak of secrets.

    >>> [is_drawn(each) for each in ("9f86d081884c7d65", "my-service-token-2", "getTokenFromRequest", "kJhQwErTyUiOpAsDfGhJ")]
    [True, False, False, True]
    """
    if len(value) < DRAWN_CHARS_MIN or is_placeholder(value) or is_template(value) or entropy(value) < DRAWN_BITS_MIN:
        return False
    digits = sum(character.isdigit() for character in value)
    if digits < DIGITS_MIN:
        turns_min = TURNS_WITHOUT_DIGITS_MIN if len(value) < LONG_CHARS else TURNS_OF_LONG_WITHOUT_DIGITS_MIN
        return len(value) >= LETTERS_CHARS_MIN - 4 * digits and turns(value) >= turns_min
    turns_min = TURNS_MIN if len(value) < LONG_CHARS else TURNS_OF_LONG_MIN
    return sum(map(str.isalpha, value)) >= DIGITS_MIN and turns(value) >= turns_min


def turns(value: str) -> float:
    """How many neighbours, of all, change between small letters, capitals and digits.

    >>> turns("aB3d"), turns("word")
    (1.0, 0.0)
    """
    kinds = [_kind(character) for character in value]
    changes = sum(before != after for before, after in pairwise(kinds) if before and after)
    return changes / max(1, len(value) - 1)


def _kind(character: str) -> str:
    if character.isdigit():
        return "9"
    return "" if not character.isalpha() else "A" if character.isupper() else "a"


CHOSEN_CHARS = range(6, 129)
"""Shorter ones are no passwords worth hiding, longer ones no passwords."""
SIGNS = frozenset("!@#$%^&*?~+=")
STRUCTURE = frozenset("[](){}<>\\|")
"""Stands in patterns, calls and markup."""


def is_chosen(value: str) -> bool:
    """Whether a value given to a password may be one: no word, no name, no template; a digit or a sign among letters.

    >>> [is_chosen(each) for each in ("hunter2", "$&Tr0ub4dor", "Password", "password1", "${DB_PASSWORD}", "old_password")]
    [True, True, False, False, False, False]
    """
    if len(value) not in CHOSEN_CHARS or any(character.isspace() or character in STRUCTURE for character in value):
        return False
    if (
        is_template(value)
        or "://" in value
        or any(word in value.lower() for word in (*PLACEHOLDERS, *CROSSES))
        or LABEL.search(value)
    ):
        return False
    letters = "".join(character for character in value.lower() if character.isalpha())
    if not letters or len(set(value)) < 4 or STAND_IN.fullmatch(letters):
        return False
    return (
        any(character.isdigit() or character in SIGNS for character in value)
        or turns(value) >= TURNS_WITHOUT_DIGITS_MIN
    )


def is_template(value: str) -> bool:
    """Whether something else is put in the place of a value, or of a part of it, before it is used."""
    return TEMPLATE.search(value) is not None


def entropy(value: str) -> float:
    """Bits a character, by how often each occurs.

    >>> entropy("aaaa"), entropy("abcd")
    (-0.0, 2.0)
    """
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares)
