"""PURE. Words to word pieces as uncased BERT cuts them, with identifiers split first: `getHTTPFile` is `get http file`.

>>> pieces = WordPieces("get http file ##s".split())
>>> pieces.of("getHTTPFiles(unknown)").tolist()
[0, 1, 2, 3]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from context_engine.text import split_words

TOKENS_MAX = 8_192
"""Pieces of one text. A bag of words has no window; what is longer than some twenty chunks is about nothing."""
WORD_CHARS_MAX = 100
"""A longer part of a word is unknown, as in BERT, and a word has at most so many pieces: this bounds its cost."""
WORDS_KEPT_MAX = 65_536
"""Words whose pieces are cached, some 200 bytes each; then the cache is cleared."""
CHARS_KEPT_MAX = 16_384
"""Characters whose normal form is cached: all of one script, nearly all of CJK."""
UNKNOWN = -1

_ascii_parts = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+").findall
_BOUNDARY = re.compile(r"_+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
"""Between the parts of an identifier: on ASCII those of `_ascii_parts`; other letters stay with their neighbors."""


class WordPieces(dict[str, tuple[int, ...]]):
    """The known pieces of each word by their numbers in a vocabulary, cut when the word first occurs.

    Threads may share it.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        super().__init__()
        numbered = list(enumerate(vocabulary))
        self._first = {piece: number for number, piece in numbered}
        self._next = {piece[2:]: number for number, piece in numbered if piece.startswith("##")}
        self._longest = max(map(len, vocabulary))
        self._normal = _NormalForms()
        self._cut_part = lru_cache(WORDS_KEPT_MAX)(self._longest_pieces)  # different words share their parts

    def of(self, text: str) -> npt.NDArray[np.int32]:
        """Return the numbers of a text's pieces, in order, at most `TOKENS_MAX`."""
        words = split_words(text[: TOKENS_MAX * WORD_CHARS_MAX])
        numbers = chain.from_iterable(map(self.__getitem__, words))
        return np.array(list(islice(numbers, TOKENS_MAX)), dtype=np.int32)

    def __missing__(self, word: str) -> tuple[int, ...]:
        found: list[int] = []
        for part in self._split(word):
            found += self._cut_part(part)
        pieces = tuple(found[:WORD_CHARS_MAX])
        if UNKNOWN in pieces:
            pieces = tuple(number for number in pieces if number != UNKNOWN)
        if len(word) <= WORD_CHARS_MAX:
            if len(self) >= WORDS_KEPT_MAX:
                self.clear()
            self[word] = pieces
        return pieces

    def _split(self, word: str) -> Iterable[str]:
        """Return the parts of an identifier."""
        if word.isascii():
            return _ascii_parts(word)
        parts = chain.from_iterable(map(_BOUNDARY.split, word.translate(self._normal).split()))
        return filter(None, parts)

    def _longest_pieces(self, word: str) -> tuple[int, ...]:
        """Return the longest pieces of the vocabulary; a word that is not completely covered is unknown."""
        if len(word) > WORD_CHARS_MAX:
            return (UNKNOWN,)
        word, known = lower_letters(word), self._first
        pieces: list[int] = []
        while word:
            stop = min(len(word), self._longest)
            while (piece := known.get(word[:stop])) is None:
                if not (stop := stop - 1):
                    return (UNKNOWN,)
            pieces.append(piece)
            word, known = word[stop:], self._next
        return tuple(pieces)


def lower_letters(word: str) -> str:
    """Return a word in lower case letter by letter: as in BERT, a final sigma is an ordinary sigma.

    >>> lower_letters("ΟΔΟΣ"), "ΟΔΟΣ".lower()
    ('οδοσ', 'οδος')
    """
    return word.replace("Σ", "σ").lower()


class _NormalForms(dict[int, str]):
    """Replacement of a character for `str.translate`, made when it first occurs.

    Character by character, because normalizing a whole text takes quadratic time if marks are piled up.
    """

    def __missing__(self, code: int) -> str:
        form = normalize_character(chr(code))
        if len(self) < CHARS_KEPT_MAX:
            self[code] = form
        return form


def normalize_character(char: str) -> str:
    r"""Return a character without accents; controls vanish; CJK and punctuation beyond ASCII become separate words.

    >>> tuple(map(normalize_character, ("é", "Å", "中", "\x07", "\n", "…")))
    ('e', 'A', ' 中 ', '', ' ', ' … ')
    """
    category = unicodedata.category(char)
    if char in "\t\n\r" or (char.isspace() and category[0] == "Z"):
        return " "
    if category in ("Cc", "Cf", "Co", "Cs") or char == "\ufffd":
        return ""
    bare = "".join(part for part in unicodedata.normalize("NFD", char) if unicodedata.category(part) != "Mn")
    is_separate = is_cjk(ord(char)) or (ord(char) > 127 and category[0] == "P")
    return f" {bare} " if is_separate else bare


def is_cjk(code: int) -> bool:
    """Return whether BERT treats a code point as a word of its own; kana and hangul are not."""
    return any(first <= code <= last for first, last in _CJK)


_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),  # BERT's own list begins this block 256 code points late
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""Blocks of ideographs as BERT lists them."""
