"""PURE. Compares two memories by their words: the same, nearly the same, or opposite. Vectors are compared elsewhere.

Do two memories say the same, nearly the same, or the opposite? Judged by their words; who has vectors adds a cosine.

>>> compare_words(parse_statement("Use tabs for indentation."), parse_statement("use TABS for indentation"))
1.0
>>> one = parse_statement("The server listens on port 3000")
>>> find_conflict(one, parse_statement("The server listens on port 4000"))
'port is 3000 in one and 4000 in the other'
>>> find_conflict(parse_statement("Always use tabs in Makefiles"), parse_statement("Never use tabs in Makefiles"))
'one says to, the other says not to'
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from context_engine.text import STOP_WORDS, expand_words, split_words, unique

SAME_WORDS_MIN = 0.80
SAME_MEANING_MIN = 0.90
SAME_SUBJECT_MIN = 0.55
"""Thresholds of the design."""

_NEGATIVE = frozenset(
    "not no never don't dont doesn't doesnt avoid without stop forbid forbidden cannot can't cant".split()
)
_POSITIVE = frozenset("always use prefer must should do does require required allow allowed".split())
_NO_SUBJECT = _NEGATIVE | _POSITIVE | STOP_WORDS
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?|\d+(?:\.\d+)*")
_VALUE = re.compile(
    r"\b([^\W\d_][\w-]{0,60})['\"`]?\s{0,8}(?:=|:|\bis\b|\bto\b|\bof\b|\bare\b)?\s{0,8}['\"`]?(\d+(?:\.\d+)*)\b"
)


def hash_content(content: str) -> str:
    """Return a hash that equal contents share; case, spacing and punctuation around words are ignored."""
    folded = unicodedata.normalize("NFKC", content).casefold()
    plain = " ".join(re.findall(r"[^\s.,;:!?*`'\"]+", folded))
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Statement:
    """The parts of a content that are compared: terms, terms of the subject, whether it is negative, values."""

    terms: frozenset[str]
    subject: frozenset[str]
    is_negative: bool
    values: Mapping[str, frozenset[str]]


def parse_statement(content: str) -> Statement:
    """Split a content into its parts."""
    plain = [word.replace("’", "'") for word in _WORD.findall(content.casefold())]
    telling = [word for word in unique(plain) if word not in _NO_SUBJECT and not word[0].isdigit()]
    return Statement(
        terms=frozenset(term for group in expand_words(unique(split_words(content))) for term in group),
        subject=frozenset(group[-1] for group in expand_words(telling) if group),
        is_negative=sum(word in _NEGATIVE for word in plain) % 2 == 1,  # two negations are none
        values=_values(content),
    )


def compare_words(one: Statement, other: Statement) -> float:
    """Return the share of common terms (Jaccard), 0 to 1."""
    return _jaccard(one.terms, other.terms)


def find_conflict(one: Statement, other: Statement) -> str:
    """Return what two contents about one subject disagree on; empty if nothing is found."""
    if _jaccard(one.subject, other.subject) < SAME_SUBJECT_MIN:
        return ""
    if one.is_negative != other.is_negative:
        return "one says to, the other says not to"
    for key in sorted(one.values.keys() & other.values.keys()):
        left, right = one.values[key], other.values[key]
        if not left & right:
            return f"{key} is {_join_sorted(left)} in one and {_join_sorted(right)} in the other"
    return ""


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    together = len(one | other)
    if together:
        return len(one & other) / together
    return 0.0


def _values(text: str) -> dict[str, frozenset[str]]:
    """Return the numbers of each word, as in `port 3000`, `port: 3000` or `port is 3000`."""
    found: dict[str, frozenset[str]] = {}
    for key, value in _VALUE.findall(text.casefold()):
        found[key] = found.get(key, frozenset()) | {value}
    return found


def _join_sorted(values: frozenset[str]) -> str:
    return ", ".join(sorted(values))
