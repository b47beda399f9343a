"""From text to search terms: identifiers split at case and underscores, stemmed, and kept whole as well.

A *word* is a run of letters, digits and underscores as it stands in the text; a *term* is what is indexed.
This module holds no state and no vocabulary.

>>> word_terms("getHTTPResponse_v2")
['get', 'http', 'respons', 'v', '2', 'gethttpresponsev2']
>>> query_terms("How are the connections pooled?")
['connect', 'pool']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import Stemmer

from context_engine.text.word_runs import words

_PART = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+"
_parts = re.compile(_PART).findall
_parts_or_break = re.compile(_PART + r"|\n").findall

__all__ = [
    "STOP_WORDS",
    "WORD_CHARS_MAX",
    "compound_term",
    "expand_words",
    "query_terms",
    "split_identifier",
    "stem_all",
    "unique",
    "word_terms",
    "words",
]

WORD_CHARS_MAX = 100
"""Longer words are data (hashes, base64), not language; their parts are not indexed."""

STOP_WORDS = frozenset(
    "a an the is are was were be been do does did how what where when which who why this that these those of to in on "
    "for and or with by from as at it its into can i we you me my our there here".split()
)
"""Dropped from queries only; the index holds every word."""


def stem_all(parts: Sequence[str]) -> list[str]:
    """Snowball English stems of lower-case words."""
    # A Stemmer object is not thread-safe, and making one takes a microsecond.
    return Stemmer.Stemmer("english", 0).stemWords(parts)


def split_identifier(word: str) -> list[str]:
    """The parts of an identifier, lower case, unstemmed.

    >>> split_identifier("XMLHttpRequest"), split_identifier("snake_case_2")
    (['xml', 'http', 'request'], ['snake', 'case', '2'])
    """
    return [part.lower() for part in _parts(word)]


def compound_term(word: str) -> str:
    """The identifier as one term: case and underscores do not count (`getFile` = `get_file`).

    >>> compound_term("get_file"), compound_term("getFile"), compound_term("__init__")
    ('getfile', 'getfile', 'init')
    """
    return word.replace("_", "").lower()


def word_terms(word: str) -> list[str]:
    """Return the index terms of a word: its stemmed parts, and the whole when it has several."""
    return expand_words([word])[0]


def expand_words(unique_words: Sequence[str]) -> list[list[str]]:
    """`terms` of many words at once: one regex pass and one stemming pass for all of them."""
    short = [word if len(word) <= WORD_CHARS_MAX else "" for word in unique_words]
    joined = "\n".join(short)
    if joined.count("\n") >= len(short):  # a name may hold a line break (a selector, a quoted identifier)
        joined = "\n".join(word.replace("\n", " ") for word in short)
    pieces = _parts_or_break(joined)
    stems = stem_all([piece.lower() for piece in pieces])
    grouped: list[list[str]] = []
    group: list[str] = []
    for piece, stem in zip(pieces, stems, strict=True):
        if piece == "\n":
            grouped.append(group)
            group = []
        else:
            group.append(stem)
    grouped.append(group)
    for word, group in zip(unique_words, grouped, strict=False):
        if len(group) > 1:
            group.append(compound_term(word))
    return grouped[: len(unique_words)]


def query_terms(text: str) -> list[str]:
    """The terms of a query, each once, in order; stop words dropped unless nothing else is left."""
    asked = words(text)
    telling = [word for word in asked if word.lower() not in STOP_WORDS] or asked
    return unique(term for group in expand_words(telling) for term in group)


def unique(items: Iterable[str]) -> list[str]:
    """Each item once, in order of first appearance."""
    return list(dict.fromkeys(items))
