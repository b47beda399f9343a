"""PURE. Text to word pieces as uncased BERT cuts it, with identifiers split first: `getHTTPFile` is `get http file`.

What Hugging Face's `tokenizers` does in Rust, for the one kind of model we run; a cache of words makes it faster on
code, where few words are many. A `[CLS]` inside a text is three characters and a name, never a command.

>>> cutter = WordPiece({word: n for n, word in enumerate("[PAD] [UNK] [CLS] [SEP] get http file ##s (".split())})
>>> cutter.ids("getHTTPFiles(")
[2, 4, 5, 6, 7, 8, 3]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

TOKENS_MAX = 128
"""Word pieces of one text with the two special ones: 128 found code better than 256 (design notes, docstrings)."""
WORD_CHARS_MAX = 100
"""A longer word is unknown, as in BERT; this also bounds the cost of one word."""
WORDS_KEPT_MAX = 32_768
"""Words whose pieces are cached, some 250 bytes each: those of a large repository; then the cache is cleared."""
CHARS_KEPT_MAX = 16_384
"""Characters whose normal form is cached: all of one script, nearly all of CJK."""

_WORD = re.compile(r"[^\s!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]")
"""A run of letters, or one ASCII punctuation mark; other punctuation is separate already."""
_IDENTIFIER = re.compile(r"[^\s!-/:-@\[-\^`{-~]+|[!-/:-@\[-\^`{-~]")
"""The same, with `_` as a letter."""
_BOUNDARY = re.compile(r"_+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
"""Between the parts of an identifier. On ASCII these are the parts that the text recipe names:
`[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+`; letters of other alphabets stay with their neighbors."""
_ascii_parts = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+").findall


class WordPiece:
    """The splitter of one vocabulary. Threads may share it; the same text always has the same pieces.

    `split_identifiers=False` is BERT as published, where `_` is a piece of its own and case is ignored.
    """

    def __init__(
        self, vocabulary: Mapping[str, int], *, tokens_max: int = TOKENS_MAX, split_identifiers: bool = True
    ) -> None:
        self.pad, self.unknown = vocabulary["[PAD]"], vocabulary["[UNK]"]
        self.cls, self.sep = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self.tokens_max = tokens_max
        self._vocabulary = dict(vocabulary)
        self._longest = max(map(len, vocabulary))
        self._normal = _NormalForms()
        self._kept: dict[str, tuple[int, ...]] = {}
        self._split_identifiers = split_identifiers
        self._words = (_IDENTIFIER if split_identifiers else _WORD).finditer

    @classmethod
    def from_tokenizer(cls, tokenizer: Mapping[str, Any], **options: Any) -> WordPiece:
        """Return the splitter that a parsed `tokenizer.json` describes.

        Raises: ValueError when it describes anything but uncased BERT.
        """
        model = tokenizer.get("model") or {}
        normalizer = tokenizer.get("normalizer") or {}
        if model.get("type", "WordPiece") != "WordPiece" or not normalizer.get("lowercase"):
            raise ValueError("not an uncased WordPiece tokenizer")
        if model.get("max_input_chars_per_word", WORD_CHARS_MAX) != WORD_CHARS_MAX:
            raise ValueError(f"words of {model['max_input_chars_per_word']} characters; {WORD_CHARS_MAX} are known")
        return cls(model["vocab"], **options)

    def ids(self, text: str) -> list[int]:
        """Return the input of the model: `[CLS]`, the pieces of the text, `[SEP]`; at most `tokens_max` in all."""
        return [self.cls, *self.pieces(text, self.tokens_max - 2), self.sep]

    def pieces(self, text: str, limit: int) -> list[int]:
        """Return the first `limit` pieces of a text, without the special ones."""
        found: list[int] = []
        kept = self._kept
        for match in self._words(text.translate(self._normal)):
            if len(found) >= limit:
                break
            word = match.group()
            pieces = kept.get(word)
            found += self._cut_and_keep(word, limit) if pieces is None else pieces
        return found[:limit]

    def identifier(self, word: str) -> list[int]:
        """Return the pieces of one word of ASCII letters, digits and underscores; its parts are cached, not the word.

        >>> vocabulary = "[PAD] [UNK] [CLS] [SEP] get file".split()
        >>> WordPiece({word: n for n, word in enumerate(vocabulary)}).identifier("getFile")
        [4, 5]
        """
        found: list[int] = []
        kept = self._kept
        for part in _ascii_parts(word):
            pieces = kept.get(part)
            found += self._cut_and_keep(part, WORD_CHARS_MAX) if pieces is None else pieces
        return found

    def _cut_and_keep(self, word: str, limit: int) -> tuple[int, ...]:
        """Return the pieces of a new word; those of a very long one are cut at the limit and not cached."""
        if len(word) > WORD_CHARS_MAX:
            return self._cut(word, limit + 1)
        if len(self._kept) >= WORDS_KEPT_MAX:
            self._kept.clear()
        pieces = self._kept[word] = self._cut(word, WORD_CHARS_MAX)
        return pieces

    def _cut(self, word: str, parts_max: int) -> tuple[int, ...]:
        """Return the pieces of a word, one part after the other."""
        if self._split_identifiers:
            parts = _BOUNDARY.split(word, parts_max)
        else:
            parts = [word]
        return tuple(piece for part in parts if part for piece in self._longest_pieces(lower_letters(part)))

    def _longest_pieces(self, word: str) -> list[int]:
        """Return the longest pieces of the vocabulary; a word that is not completely covered is unknown."""
        if len(word) > WORD_CHARS_MAX:
            return [self.unknown]
        pieces: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for stop in range(min(len(word), start + self._longest), start, -1):
                piece = self._vocabulary.get(mark + word[start:stop])
                if piece is not None:
                    break
            else:
                return [self.unknown]
            pieces.append(piece)
            start = stop
        return pieces


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
    if char in "\t\n\r" or (char.isspace() and unicodedata.category(char)[0] == "Z"):
        return " "
    if unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs") or char == "\ufffd":
        return ""
    bare = "".join(part for part in unicodedata.normalize("NFD", char) if unicodedata.category(part) != "Mn")
    apart = is_cjk(ord(char)) or (ord(char) > 127 and unicodedata.category(char)[0] == "P")
    if apart:
        return f" {bare} "
    return bare


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
