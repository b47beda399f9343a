"""From text to search terms and tokens: identifiers split at case and underscores, stemmed, and kept whole as well.

A *word* is a run of letters, digits and underscores; a *term* is what is indexed; a *token* is what a model counts.

>>> expand_words(["getHTTPResponse_v2"]), query_terms("How are the connections pooled?")
([['get', 'http', 'respons', 'v', '2', 'gethttpresponsev2']], ['connect', 'pool'])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_PART = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+"
_parts = re.compile(_PART).findall
_parts_or_break = re.compile(_PART + r"|\n").findall
_any_words = re.compile(r"\w+").findall
_OWNER_HASH = re.compile(r"(?<=\w)#")
_BETWEEN_WORDS = {code: " " for code in range(128) if not _any_words(chr(code))}

WORD_CHARS_MAX = 100
"""Longer words are data (hashes, base64), not language; their parts are not indexed."""

STOP_WORDS = frozenset(
    "a an the is are was were be been do does did how what where when which who why this that these those of to in on "
    "for and or with by from as at it its into can i we you me my our there here".split()
)
"""Dropped from queries only; the index contains every word."""

_tokens = re.compile(
    r"[^\r\nA-Za-z0-9\x80-\U0010ffff]?(?:[A-Z]?[a-z]{1,8}|[A-Z]{1,4})"  # a part of a word, with the character before
    r"|\d{1,2}| ?[!-/:-@\[-`{-~]{1,2}\n?|[^\x00-\x7f]|[^\S\n]+|\n"
).findall
"""Cuts a text as the tokenizers of today's models do. The lengths are those with which the count is right without their
vocabularies: o200k has .98 of it in the middle of 1,206 extracts of 21 repositories, .85 to 1.08 in nine of ten."""
CHARS_PER_TOKEN = 4
"""English and code come to 3.5-4.5 characters a token: where a text is cut before its tokens are counted."""


def split_words(text: str) -> list[str]:
    """Return all words of a text, in order: the call that indexing makes most.

    Most code is ASCII, where blanking the rest is twice as fast as looking for the words.

    >>> split_words("x = get_file(a.b)  # größer")
    ['x', 'get_file', 'a', 'b', 'größer']
    """
    return text.translate(_BETWEEN_WORDS).split() if text.isascii() else _any_words(text)


def stem_all(parts: Sequence[str]) -> list[str]:
    """Return the Snowball English stems of lower-case words."""
    import Stemmer  # a compiled library, which many users of this module do not need

    # A Stemmer object is not thread-safe, and making one takes a microsecond.
    return Stemmer.Stemmer("english", 0).stemWords(parts)


def split_identifier(word: str) -> list[str]:
    """Return the parts of an identifier, lower case, unstemmed.

    >>> split_identifier("XMLHttpRequest"), split_identifier("snake_case_2")
    (['xml', 'http', 'request'], ['snake', 'case', '2'])
    """
    return [part.lower() for part in _parts(word)]


def compound_term(word: str) -> str:
    """Return the identifier as one term: case and underscores do not count (`getFile` = `get_file`).

    >>> compound_term("get_file"), compound_term("getFile"), compound_term("__init__")
    ('getfile', 'getfile', 'init')
    """
    return word.replace("_", "").lower()


def dotted_name(name: str) -> str:
    """Return a symbol's name with dots between owner and member; the `#` of a private member in JavaScript stays.

    >>> dotted_name("Set#add()"), dotted_name("std::sort"), dotted_name("Ky.#retry")
    ('Set.add', 'std.sort', 'Ky.#retry')
    """
    return _OWNER_HASH.sub(".", name.strip().replace("::", ".")).removesuffix("()")


def cut_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    r"""Return the parts of many words in lower case, with a line break between two words; and each word as one term.

    >>> cut_words(["getFile", "pool"])
    (['get', 'file', '\n', 'pool'], ['getfile', 'pool'])
    """
    short = [word.replace("\n", " ") if len(word) <= WORD_CHARS_MAX else "" for word in words]
    joined = "\n".join(short)  # a name may contain a line break (a selector, a quoted identifier)
    return list(map(str.lower, _parts_or_break(joined))), compound_term(joined).split("\n")


def expand_words(unique_words: Sequence[str]) -> list[list[str]]:
    """Return the index terms of each word: its stemmed parts, and the whole if it has several.

    One regex pass and one stemming pass are made for all of them.
    """
    parts, compounds = cut_words(unique_words)
    stems = stem_all(parts)
    grouped: list[list[str]] = [[]]
    for part, stem in zip(parts, stems, strict=True):
        if part == "\n":
            grouped.append([])
        else:
            grouped[-1].append(stem)
    for compound, group in zip(compounds, grouped, strict=False):
        if len(group) > 1:
            group.append(compound)
    return grouped[: len(unique_words)]


def query_terms(text: str) -> list[str]:
    """Return the unique terms of a query, in order; stop words are dropped unless nothing else is left."""
    all_words = split_words(text)
    content_words = [word for word in all_words if word.lower() not in STOP_WORDS] or all_words
    return unique(term for group in expand_words(content_words) for term in group)


def unique(items: Iterable[str]) -> list[str]:
    """Return each item once, in order of first appearance."""
    return list(dict.fromkeys(items))


def estimate_tokens(text: str) -> int:
    r"""Estimate the model tokens of a text, near enough to keep a budget; no tokenizer is loaded.

    Those of its lines, each with its line break, add up to those of the text.

    >>> estimate_tokens("def login(user): ..."), estimate_tokens("}\n"), estimate_tokens("代码")
    (6, 1, 2)
    """
    return len(_tokens(text))


def score_lines(text: str, stems: Iterable[str]) -> list[float]:
    r"""Return how much each line has of the stems, in lower case; a stem that many lines contain counts little.

    >>> score_lines("# License\ndef drain(pool):\n    Pool.close(pool)", ["drain", "pool"])
    [0.0, 1.5, 0.5]
    """
    lowered = text.lower()
    lines = lowered.split("\n")
    scores = [0.0] * len(lines)
    for stem in stems:
        if stem in lowered:
            matching = [number for number, line in enumerate(lines) if stem in line]
            for number in matching:
                scores[number] += 1 / len(matching)
    return scores
