"""PURE. The texts that are embedded: of each chunk, and a summary of each file.

A body alone hardly shows where it belongs, so its text starts with a head: path, enclosing symbols and signature.
Vectors of bodies with a head rank at 0.845, those of bare bodies at 0.713 (NDCG@10, static table, dev set). Imports are
never part of a head: they show what a file uses, not what it is about.

Identifiers of a body are left as they are: each embedder splits them in its own tokenizer, and the redaction of secrets
before a text leaves this machine has to see the real ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from context_engine.text import split_identifier, split_words, unique

if TYPE_CHECKING:
    from context_engine.index.segment import StoredOutline, StoredSymbol

TEXT_RECIPE = 1
"""Raise it when the same file gives other texts: it is part of the embedder's fingerprint, so old vectors are not used
again.

1 head `path | chain | signature`, summary of 300 characters and 40 names
"""
SIGNATURE_CHARS_MAX = 160
"""A longer one is a list of parameters, which the body says as well."""
SUMMARY_DOC_CHARS = 300
SUMMARY_NAMES_MAX = 40
"""The size at which one summary a file brought most of what vectors bring (0.904 to 0.917 NDCG@10 on the dev set,
MiniLM)."""


class ChunkLocation(NamedTuple):
    """A chunk in its file: bytes `start`:`stop`, and the number of its symbol (-1: none)."""

    start: int
    stop: int
    symbol: int


class ChunkEmbeddingText(NamedTuple):
    """The head and the body of one chunk."""

    head: str
    body: str

    def text(self, heads: int = 1) -> str:
        r"""Return the text to embed.

        A bag of words weighs the head by its repetitions: `heads` is 2 for static vectors.

        >>> ChunkEmbeddingText("a.py | run", "def run(): ...").text(heads=2)
        'a.py | run\na.py | run\ndef run(): ...'
        """
        return "\n".join([*[self.head] * heads, self.body])


def build_chunk_texts(
    path: str, data: bytes, outline: StoredOutline, chunks: Iterable[ChunkLocation]
) -> list[ChunkEmbeddingText]:
    """Return the texts of a file's chunks in order. `data` is the file in UTF-8, as it was when it was chunked."""
    lines = data.split(b"\n")
    return [_build_text(path, data, lines, outline.symbols, chunk) for chunk in chunks]


def build_file_summary(path: str, doc: str, names: Iterable[str]) -> str:
    """Return one text for a file: the words of its name and folders, its introduction, the words of its definitions.

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
    """Return the names for a file's summary, outer definitions first: a long file is about its outer ones."""
    symbols = outline.symbols
    outer = [symbol.name for symbol in symbols if symbol.parent < 0]
    return outer + [symbol.name for symbol in symbols if symbol.parent >= 0]


def symbol_chain(symbols: Sequence[StoredSymbol], number: int) -> str:
    """Return the names around a symbol and its own: `Session.send`, or the headings above one."""
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
    """Return the line that names a symbol; nothing for a heading, which the chain already contains."""
    if symbol.kind == "section" or not 1 <= symbol.line <= len(lines):
        return ""
    return " ".join(_decode(lines[symbol.line - 1]).split())[:SIGNATURE_CHARS_MAX]


def _split_names(*names: str) -> str:
    """Split names into words; a name beyond ASCII stays whole, because there capitals separate no words."""
    text = " ".join(names)
    words = [text] if text.isascii() else split_words(text)
    return " ".join(part for word in words for part in (split_identifier(word) if word.isascii() else [word.lower()]))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
