"""Turn the bytes of one file into everything the index stores of it: outline, chunks, names, tags, texts to embed.

PURE but for the parser. Never fails on content: a file that cannot be parsed is chunked by lines and still found.
"""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.index.chunking import ChunkSpan, split_chunks
from context_engine.index.embedding_text import ChunkLocation, build_chunk_texts, build_file_summary, summary_names
from context_engine.index.file_roles import Role, role_code, role_of
from context_engine.index.postings import IndexedFile
from context_engine.index.stored_outline import StoredOutline, StoredSymbol, encode_outline
from context_engine.index.tags import front_matter_tags, inline_tag_places
from context_engine.languages import Grammars, Language, Languages, Symbol, outline_file, read_file_header
from context_engine.text import split_words

PLAIN = Language(name="text", content="code")
"""The language of a file that no language claims: lines of text."""

PARSE_BYTES_MAX = 600_000
"""Larger files are chunked by lines: a parser needs about 30 times the file's size in memory."""

PAGE_BYTES_MAX = 40_000
"""Longer HTML pages are generated, and their trees cost more than all code next to them."""

_WEIGHTS = {"variable": 3, "field": 3, "property": 3, "key": 2, "section": 1}
_NESTED_FACTOR = 0.6


def describe_file(
    path: str,
    data: bytes,
    text: str,
    languages: Languages,
    grammars: Grammars,
    *,
    size: int,
    mtime_ns: int,
    sha256: bytes,
) -> IndexedFile:
    """Return everything the index stores of one file. `data` is `text` in UTF-8, without a byte order mark."""
    language = languages.detect(path, data) or PLAIN
    if language.name == "html":
        parsed_max = PAGE_BYTES_MAX
    else:
        parsed_max = PARSE_BYTES_MAX
    found = outline_file(language if len(data) <= parsed_max else PLAIN, data, grammars)
    symbols = found.symbols
    pieces = split_chunks(text, symbols, language.content)
    stored = StoredOutline(
        [StoredSymbol(s.name, s.kind, s.first, s.last, s.line, s.parent, s.owner) for s in symbols],
        [(item.target, item.line) for item in found.imports],
        text.count("\n") + (not text.endswith("\n")),
        found.problems[0].title if found.problems else "",
    )
    is_prose = language.content == "documentation"
    spans, doc = _byte_spans(text, data, pieces), read_file_header(language, data)
    placed = [ChunkLocation(start, stop, piece.symbol) for (start, stop), piece in zip(spans, pieces, strict=True)]
    return IndexedFile(
        path=path,
        language=language.name,
        role=role_code(_role(path, language, text, symbols)),
        size=size,
        mtime_ns=mtime_ns,
        sha256=sha256,
        outline=encode_outline(stored),
        text=text,
        chunks=pieces,
        spans=spans,
        names=_weigh_names(symbols),
        headings=[word for s in symbols if s.kind == "section" for word in split_words(s.name)] if is_prose else (),
        doc=doc,
        tags=front_matter_tags(text) if is_prose else (),
        chunk_tags=_tags_by_chunk(text, pieces) if is_prose and "#" in text else {},
        chunk_texts=build_chunk_texts(path, data, stored, placed),
        summary=build_file_summary(path, doc, summary_names(stored)),
    )


def _role(path: str, language: Language, text: str, symbols: Sequence[Symbol]) -> Role:
    """Return the role of a file; a package's main file with definitions of its own is source like any other."""
    role = role_of(path, language.content, text)
    if role == "init" and any(symbol.kind in ("function", "class", "method") for symbol in symbols):
        return "source"
    return role


def _byte_spans(text: str, data: bytes, pieces: Sequence[ChunkSpan]) -> list[tuple[int, int]]:
    """Convert character offsets to byte offsets of the UTF-8 text."""
    if len(data) == len(text):
        return [(piece.start, piece.stop) for piece in pieces]
    spans, at, at_bytes = [], 0, 0
    for piece in pieces:
        start = at_bytes + len(text[at : piece.start].encode("utf-8", "surrogatepass"))
        stop = start + len(text[piece.start : piece.stop].encode("utf-8", "surrogatepass"))
        spans.append((start, stop))
        at, at_bytes = piece.stop, stop
    return spans


def _weigh_names(symbols: Sequence) -> list[tuple[str, int, int]]:
    """Return (name, weight in tenths, line) of each definition with a searchable name."""
    names = []
    depths: list[int] = []
    for symbol in symbols:
        if symbol.parent >= 0:
            depth = depths[symbol.parent] + 1
        else:
            depth = 0
        depths.append(depth)
        if symbol.kind == "section":
            continue
        weight = _WEIGHTS.get(symbol.kind, 10)
        names.append((symbol.name, max(1, round(weight * _NESTED_FACTOR)) if depth >= 2 else weight, symbol.line))
    return names


def _tags_by_chunk(text: str, pieces: Sequence[ChunkSpan]) -> dict[int, Sequence[str]]:
    """Map chunks to their inline tags. The whole text is searched: a code fence may be longer than a chunk."""
    found: dict[int, set[str]] = {}
    number = 0
    for offset, tag in inline_tag_places(text):
        while number < len(pieces) and pieces[number].stop <= offset:
            number += 1
        if number < len(pieces):
            found.setdefault(number, set()).add(tag)
    return {number: sorted(tags) for number, tags in found.items()}
