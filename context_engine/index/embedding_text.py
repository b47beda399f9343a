"""PURE. What is embedded: the capsule of a chunk and the card of a file, as texts.

A body alone hardly says where it belongs, so its capsule begins with a head: path, enclosing chain and signature. Vectors
of capsules alone rank at .845 where those of bodies rank at .713 (NDCG@10, static table, dev set). Imports never stand
in a head: they say what a file uses, not what it is about.

Identifiers of a body are left as they are: each embedder splits them in its own tokenizer, and what masks secrets before a
text leaves this machine has to see real ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from context_engine.index.stored_outline import StoredOutline, StoredSymbol
from context_engine.text.words import split_identifier, unique, words

RECIPE = 1
"""Raise it when the same file gives other texts: it joins the embedder's fingerprint, so old vectors are left behind whole.

1 head `path | chain | signature`, card of 300 characters and 40 names
"""
WINDOW_CHARS = 350
"""MiniLM stops reading after 126 word pieces; Go, Python and PHP have 3.5 characters a piece, and a head takes some 90."""
SIGNATURE_CHARS_MAX = 160
"""A longer one is a list of parameters, which the body says as well."""
SUMMARY_DOC_CHARS = 300
SUMMARY_NAMES_MAX = 40
"""The size at which one card a file brought most of what vectors bring (.904 to .917 NDCG@10 on the dev set, MiniLM)."""


class ChunkLocation(NamedTuple):
    """A chunk in its file: bytes `start`:`stop`, and the number of the symbol it is about (-1: none)."""

    start: int
    stop: int
    symbol: int


class ChunkEmbeddingText(NamedTuple):
    """The head and the body of one chunk."""

    head: str
    body: str

    def text(self, heads: int = 1) -> str:
        r"""What is embedded. A bag of words weighs the head by how often it stands there: `heads` 2 for static vectors.

        >>> ChunkEmbeddingText("a.py | run", "def run(): ...").text(heads=2)
        'a.py | run\na.py | run\ndef run(): ...'
        """
        return "\n".join([*[self.head] * heads, self.body])


def build_chunk_texts(
    path: str, data: bytes, outline: StoredOutline, chunks: Iterable[ChunkLocation]
) -> list[ChunkEmbeddingText]:
    """The capsules of a file's chunks in their order. `data` is the file's text in UTF-8, as it was when it was cut."""
    lines = data.split(b"\n")
    return [_build_text(path, data, lines, outline.symbols, chunk) for chunk in chunks]


def split_windows(capsule: ChunkEmbeddingText, *, heads: int = 1, chars_max: int = WINDOW_CHARS) -> list[str]:
    r"""The capsule as texts that a model of short reach reads to the end: its body cut at lines, each part with the head.

    >>> split_windows(ChunkEmbeddingText("a.py", "one()\ntwo()\nthree()"), chars_max=12)
    ['a.py\none()\ntwo()\n', 'a.py\nthree()']
    """
    return [ChunkEmbeddingText(capsule.head, part).text(heads) for part in _parts(capsule.body, chars_max)]


def build_file_summary(path: str, doc: str, names: Iterable[str]) -> str:
    """One text for a whole file: the words of its name and folders, what introduces it, the words of what it defines.

    >>> build_file_summary("src/http/session_pool.py", "Keeps connections.", ["SessionPool", "acquire"])
    'session pool | src http | Keeps connections. | session pool acquire'
    """
    folders, _, name = path.rpartition("/")
    stem = name.split(".", 1)[0] or name
    defined = unique(names)[:SUMMARY_NAMES_MAX]
    parts = [
        _split_names(stem),
        _split_names(folders),
        doc[:SUMMARY_DOC_CHARS].strip(),
        " ".join(unique(_split_names(*defined).split())),
    ]
    return " | ".join(part for part in parts if part)


def summary_names(outline: StoredOutline) -> list[str]:
    """The names a file's card gives, outer definitions before inner ones: a long file is about what stands outside."""
    symbols = outline.symbols
    outer = [symbol.name for symbol in symbols if symbol.parent < 0]
    return outer + [symbol.name for symbol in symbols if symbol.parent >= 0]


def symbol_chain(symbols: Sequence[StoredSymbol], number: int) -> str:
    """The names around a symbol and its own: `Session.send`, or the headings above one."""
    is_section = symbols[number].kind == "section"
    names: list[str] = []
    while number >= 0:
        symbol = symbols[number]
        names.append(symbol.name)
        if symbol.owner and symbol.parent < 0:
            names.append(symbol.owner)
        number = symbol.parent
    return (" > " if is_section else ".").join(reversed(names))


def _build_text(
    path: str, data: bytes, lines: Sequence[bytes], symbols: Sequence[StoredSymbol], chunk: ChunkLocation
) -> ChunkEmbeddingText:
    around, signature = "", ""
    if 0 <= chunk.symbol < len(symbols):
        around = symbol_chain(symbols, chunk.symbol)
        signature = _signature(lines, symbols[chunk.symbol])
    head = " | ".join(part for part in (path, around, signature) if part)
    return ChunkEmbeddingText(head, _decode(data[chunk.start : chunk.stop]).strip("\r\n"))


def _signature(lines: Sequence[bytes], symbol: StoredSymbol) -> str:
    """The line that names a symbol; nothing for a heading, which the chain has said."""
    if symbol.kind == "section" or not 1 <= symbol.line <= len(lines):
        return ""
    return " ".join(_decode(lines[symbol.line - 1]).split())[:SIGNATURE_CHARS_MAX]


def _parts(body: str, chars_max: int) -> list[str]:
    """The body cut after lines into parts of at most `chars_max` characters; only a longer line is cut inside."""
    if len(body) <= chars_max:
        return [body]
    ends = [0]
    for line in body.split("\n"):
        start, stop = ends[-1], min(ends[-1] + len(line) + 1, len(body))
        ends += [*range(start + chars_max, stop, chars_max), stop]
    cuts = [0]
    for before, end in pairwise(ends):
        if end - cuts[-1] > chars_max:
            cuts.append(before)
    return [body[start:stop] for start, stop in pairwise([*cuts, len(body)])]


def _split_names(*names: str) -> str:
    """Names as the words they are made of; one beyond ASCII stays whole, because there capitals mark no words."""
    parts = ((split_identifier(word) if word.isascii() else [word.lower()]) for name in names for word in words(name))
    return " ".join(part for group in parts for part in group)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
