"""PURE. Heuristics for values: random, chosen by a person, or only a placeholder."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise

DISTINCT_MIN = 8
"""A key of 20 characters has 12 or more different ones; `xxxxxxxx` and `0000` are placeholders."""
PLACEHOLDERS = tuple(
    (
        "example placeholder changeme changethis change-me change_me replaceme your dummy redacted **** "
        "1234567890 goes-here goes_here insert- foobar"
    ).split()
)
CROSSES = ("xxxx", "XXXX")
"""In one case, because one of ten thousand long random keys contains `XxXx`."""
STAND_IN = re.compile(
    r"(?:my|your|the|some|api|app|application|acs|user|auth|access|account|db|client|resource|secret|pass|word|wd|phrase|pwd|pw|key|token"
    r"|sid|login|domain|id|name|root|admin|test|guest|postgres|mysql|foo|bar|baz|xx|dsn|abc|qwerty|hash|value|string|new|old|null|none|true|false)+"
)
"""Passwords made of nothing but these show where one goes (`apiKey`, `APP_TOKEN`, `pass2`)."""
LABEL = re.compile(r"\[(?:masked [a-z0-9 ]+|REDACTED(?::[a-z0-9-]+)?(?::[0-9a-f]{6,12})?)\]")
"""A label in the place of a secret."""
TEMPLATE = re.compile(
    r"^(?:urn|arn|vault|ssm|env|file|ref|secret|secretref|sops|k8s|gcpsm|awssm|op|keyring|kms|azurekv|doppler):"
    r"|\$\{|\$\(|^\$[A-Za-z_][\w.]*$|^@[A-Z0-9_]+@?$|%\(|^%[sd]|\{\{|\{[A-Za-z_]*\}|<[^>]*>|#\{|^%[A-Za-z_]+%$|^[*.\-_xX]+$"
)
"""A value that is inserted later."""
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
DIGEST = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})(?![0-9A-Za-z])")
"""A checksum, which is often the key of a mapping or of a cache."""
DIGITS_MIN = 2


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder for a key.

    >>> is_placeholder("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), is_placeholder("AKIAIOSFODNN7EXAMPLE")
    (True, True)
    """
    lowered = value.lower()
    if len(set(lowered)) < DISTINCT_MIN or any(crosses in value for crosses in CROSSES):
        return True
    return any(word in lowered for word in PLACEHOLDERS)


DRAWN_CHARS_MIN = 10
DRAWN_BITS_MIN = 2.8
"""Ten random hex digits have 2.8 and more nine times of ten."""
TURNS_MIN = 0.2
"""The share of neighbors that change between small letters, capitals and digits: 0.4 and more in random values, 0.1 in
words with a number."""
TURNS_WITHOUT_DIGITS_MIN = 0.42
"""camelCase turns at a third of its places, random letters at half of them."""
LETTERS_CHARS_MIN = 20
LONG_DIGITS_MIN = 5
"""A value with this many digits is not a word."""
LONG_CHARS, TURNS_OF_LONG_MIN, TURNS_OF_LONG_WITHOUT_DIGITS_MIN = 28, 0.14, 0.36
"""A long random value is closer to the mean."""


PAIRS_MIN = 6
"""With fewer pairs of letters their frequency has no meaning."""
FAMILIAR_MAX, UNFAMILIAR_MAX = 0.62, 0.34
"""The share of familiar pairs of letters: 0.86 in words, 0.24 in random letters. At 8 pairs one of a hundred random
values exceeds the first limit."""
FAMILIAR_PAIRS_MIN = 8


@lru_cache(maxsize=64)  # several rules ask about one value
def is_drawn(value: str) -> bool:
    """Return whether a value looks random, for places that mention secrets.

    >>> is_drawn("9f86d081884c7d65"), is_drawn("kJhQwErTyUiOpAsDfGhJ")
    (True, True)
    >>> is_drawn("my-service-token-2"), is_drawn("getTokenFromRequest")
    (False, False)
    """
    if len(value) < DRAWN_CHARS_MIN or is_placeholder(value) or is_template(value) or entropy(value) < DRAWN_BITS_MIN:
        return False
    pairs, familiar = familiar_pairs(value)
    digits = sum(map(str.isdigit, value))
    if digits < LONG_DIGITS_MIN and pairs >= FAMILIAR_PAIRS_MIN and familiar > FAMILIAR_MAX * pairs:
        return False
    is_unfamiliar = pairs >= PAIRS_MIN and familiar <= UNFAMILIAR_MAX * pairs
    if digits < DIGITS_MIN:
        if is_unfamiliar and turns(value) >= TURNS_MIN:
            return True
        turns_min = TURNS_WITHOUT_DIGITS_MIN if len(value) < LONG_CHARS else TURNS_OF_LONG_WITHOUT_DIGITS_MIN
        return len(value) >= LETTERS_CHARS_MIN - 4 * digits and turns(value) >= turns_min
    turns_min = TURNS_MIN if len(value) < LONG_CHARS else TURNS_OF_LONG_MIN
    return sum(map(str.isalpha, value)) >= DIGITS_MIN and (is_unfamiliar or turns(value) >= turns_min)


FAMILIAR = frozenset(
    """
    ab ac ad ag ai al am an ap ar as at au ba be bl bu ca ce ch ck cl co cr ct cu da de di do ea ec ed ef el em
    en ep eq er es et ev ew ex fa fi fo fu ge gi ha he hi ho ht ic id ie if ig il im in io ir is it iv ke la ld
    le li ll lo ls lt lu ly ma me mi mo mp na nc nd ne nf ng ni no ns nt oc od ol om on oo op or os ot ou ov ow
    pa pe pl po pp pr pt qu ra re ri rn ro rr rs rt ru rv ry se sh si so sp ss st su ta tc te th ti to tr ts tt
    tu ty ub ue ul um un up ur us ut va ve vi wa wi
    """.split()
)
"""The pairs of letters that make up 0.86 of the words in eight repositories (evals/secrets, the tuning set)."""


def familiar_pairs(value: str) -> tuple[int, int]:
    """Return how many pairs of neighboring letters there are, and how many of these are frequent in words.

    >>> familiar_pairs("connection"), familiar_pairs("xQzKvJwq")
    ((9, 8), (7, 0))
    """
    lowered = value.lower()
    pairs = [one + other for one, other in pairwise(lowered) if one.isalpha() and other.isalpha()]
    return len(pairs), sum(pair in FAMILIAR for pair in pairs)


TURN = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")


def turns(value: str) -> float:
    """Return the share of neighbors that change between small letters, capitals and digits.

    >>> turns("aB3d"), turns("word")
    (1.0, 0.0)
    """
    return len(TURN.findall(value)) / max(1, len(value) - 1)


CHOSEN_CHARS = range(6, 129)
"""Shorter values are not worth redacting, and longer ones are not passwords."""
SIGNS = frozenset("!@#$%^&*?~+=")
STRUCTURE = frozenset("[](){}<>\\|")
"""Signs of patterns, calls and markup."""


def is_chosen(value: str) -> bool:
    """Return whether a value may be a password: not a word, name or template, with a digit or a sign among letters.

    >>> is_chosen("hunter2"), is_chosen("$&Tr0ub4dor")
    (True, True)
    >>> [is_chosen(value) for value in ("Password", "password1", "${DB_PASSWORD}", "old_password")]
    [False, False, False, False]
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


VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")


def is_password_of(user: str, password: str) -> bool:
    """Return whether a value next to a user name is a password, and not a word in the place of one.

    >>> is_password_of("app", "Tr0ub4dor"), is_password_of("app", "12345")
    (True, True)
    >>> [is_password_of("app", value) for value in ("password", "app", "$PASSWORD", "MY_TOKEN", "%s")]
    [False, False, False, False, False]
    """
    letters = re.sub(r"%[0-9A-Fa-f]{2}|[^a-z]", "", password.lower())
    is_word = STAND_IN.fullmatch(letters) or VARIABLE.fullmatch(password) or "example" in letters
    return not (password == user or is_word or len(set(password)) < 3 or is_template(password))


LETTERS_OF_PASSWORD_MIN = 8
KEYWORDS = re.compile(
    r"(?:string|text|boolean|integer|number|object|array|required|optional|hidden|masked|encrypted|disabled|enabled|default|unset|empty|prompt"
    r"|change|reset|forgot|update|confirm|input|field|label|type|ask|env|vault|file|plain|basic|digest|none|undefined|external|inherit|missing"
    r"|invalid|wrong|correct|incorrect|please|enter|here|replace|insert|value|sample|demo|fake|mock|tests?|testing|foobar|hello|world|ref|secretref)+"
)
"""Words that settings files assign to a password and that are not passwords."""


def is_password_of_letters(value: str) -> bool:
    """Return whether a value may be a password of letters alone, in a settings file.

    >>> words = ("correcthorse", "changeme", "your_password", "string", "app.db.password")
    >>> [is_password_of_letters(word) for word in words]
    [True, False, False, False, False]
    """
    if len(value) not in CHOSEN_CHARS or len(value) < LETTERS_OF_PASSWORD_MIN or not re.fullmatch(r"[A-Za-z-]+", value):
        return False
    letters = value.lower().replace("-", "")
    if len(set(letters)) < 5 or any(word in letters for word in PLACEHOLDERS):
        return False
    return not STAND_IN.fullmatch(letters) and not KEYWORDS.fullmatch(letters) and "password" not in letters


def is_template(value: str) -> bool:
    """Return whether a value, or a part of it, is replaced before it is used."""
    return TEMPLATE.search(value) is not None


def entropy(value: str) -> float:
    """Return the entropy of a value in bits per character.

    >>> entropy("aaaa"), entropy("abcd")
    (-0.0, 2.0)
    """
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares)


NO_NAME = re.compile(
    rb"cache|sort|hash|sha|md5|sum|digest|crc|etag|id\Z|uuid|guid|rev|commit|ref\Z|version|integrity|cid|node|blob|tree|signature|nonce|name|path"
    rb"|file|url|uri|href|src|class|type|color|expected|result|data|bytes|public|cert|finger|resolved|import|package|module|test|version",
    re.IGNORECASE,
)
"""Names of values that look random and are not secrets."""
NAME_BEFORE = re.compile(rb"""([A-Za-z][A-Za-z0-9_.\-]{1,40})["'`\]]{0,2}[ \t]{0,3}(?:=|:|=>|:=)[ \t]{0,3}[\"'`]?\Z""")
NAME_BYTES = 52
ALONE_TURNS_MIN, ALONE_MIXED_TURNS_MIN = 0.3, 0.38
ALONE_BITS_MIN, ALONE_HEX_BITS_MIN = 3.7, 3.3
HEX_CHARS = (24, 32, 48)
"""Lengths of hexadecimal keys that are not those of a checksum in a lock file."""
PIECES_MAX = 3
"""Words are joined by more `_` and `-` than chance puts between letters."""
NO_HEX = frozenset("ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ")


def is_random_alone(data: bytes, start: int, stop: int) -> bool:
    """Return whether a value is certainly random, and its name does not name a checksum or an id.

    This finds keys of unknown providers under names that do not mention secrets.
    """
    value = data[start:stop].decode()
    others = sum(letter in NO_HEX for letter in value)
    is_hex = not others
    is_mixed = sum(map(str.isupper, value)) >= DIGITS_MIN and sum(map(str.islower, value)) >= DIGITS_MIN
    if (is_hex and (len(value) not in HEX_CHARS or is_mixed)) or max(value.count("_"), value.count("-")) >= PIECES_MAX:
        return False
    if not is_hex and not is_mixed and others < PIECES_MAX:
        return False
    if turns(value) < (ALONE_MIXED_TURNS_MIN if is_mixed else ALONE_TURNS_MIN) or is_placeholder(value):
        return False
    if entropy(value) < (ALONE_HEX_BITS_MIN if is_hex else ALONE_BITS_MIN):
        return False
    name = NAME_BEFORE.search(data[max(0, start - NAME_BYTES) : start])
    return name is not None and not NO_NAME.search(name[1])
