"""PURE. A query as words, terms and the symbols that it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from context_engine.index import term_hashes
from context_engine.text import STOP_WORDS, compound_term, query_terms, split_identifier, split_words, unique

_SYMBOL = re.compile(r"[\w$]+(?:(?:::|\.|#|->|/)[\w$]+)*(?:\(\))?[?!]?").fullmatch
_NOT_CODE = (
    (r"\btest(s|ed|ing)?\b|\bspecs?\b|\bfixtures?\b", "test"),
    (r"\bdoc(s|umentation)?\b|\breadme\b|\bguide\b|\btutorial\b|\bchangelog\b", "docs"),
    (r"\bexamples?\b|\bsamples?\b|\bdemo\b", "example"),
    (r"\bbench(mark)?s?\b", "bench"),
)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query.

    `symbol`: the compound name when the whole query is one symbol, `spelled` the same as written; `mentioned`:
    (compound name, weight 0-1) of words that look like symbols inside a longer query; `lifted`: roles (`test`,
    `docs`...) the query asks for by name.
    """

    words: tuple[str, ...]
    hashes: npt.NDArray[np.uint64]
    symbol: str
    spelled: str
    mentioned: tuple[tuple[str, float], ...]
    lifted: frozenset[str]

    @classmethod
    def of(cls, text: str) -> ParsedQuery:
        """Parse the text of a query."""
        asked = split_words(text)
        telling = [word for word in asked if word.lower() not in STOP_WORDS] or asked
        stripped = text.strip()
        symbol = compound_term(asked[-1]) if asked and _SYMBOL(stripped) else ""
        lowered = text.lower()
        return cls(
            tuple(unique(part for word in telling for part in split_identifier(word))),
            term_hashes(query_terms(text)),
            symbol,
            asked[-1] if symbol else "",
            () if symbol else tuple(_find_mentioned(telling)),
            frozenset(role for pattern, role in _NOT_CODE if re.search(pattern, lowered)),
        )


def _find_mentioned(telling: list[str]) -> list[tuple[str, float]]:
    """Return words that look like names of code: `CamelCase` and `snake_case` surely, `Capitalized` perhaps."""
    found: dict[str, float] = {}
    for word in telling:
        if "_" in word.strip("_") or re.search(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]", word):
            found[compound_term(word)] = 1.0
        elif word[:1].isupper() and len(word) > 2:
            found.setdefault(compound_term(word), 0.5)
    return list(found.items())
