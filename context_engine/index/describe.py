"""Turn the bytes of one file into everything the index stores of it: outline, chunks, names, tags, texts to embed.

PURE but for the parser. Never fails on content: a file that cannot be parsed is chunked by lines and still found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from context_engine.index import segment as segments
from context_engine.index.chunking import ChunkSpan, compute_depths, split_chunks
from context_engine.index.embedding_text import ChunkLocation, build_chunk_texts, build_file_summary, summary_names
from context_engine.index.encoder import StaticEncoder
from context_engine.index.file_roles import Role, front_matter_tags, inline_tag_places, role_code, role_of
from context_engine.index.postings import IndexedFile, SegmentBuilder
from context_engine.index.segment import StoredOutline, StoredSymbol, encode_outline
from context_engine.languages import Grammars, Language, Languages, Symbol, outline_file, read_file_header
from context_engine.model import Skipped
from context_engine.repo import LoadedFile, load_for_index
from context_engine.storage import ConfinedFolder
from context_engine.text import split_words

PLAIN = Language(name="text", content="code")
"""The language of a file that no language claims: lines of text."""

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
    found = outline_file(language if len(data) <= language.parsed_bytes_max else PLAIN, data, grammars)
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
    for symbol, depth in zip(symbols, compute_depths(symbols), strict=True):
        weight = _WEIGHTS.get(symbol.kind, 10)
        if depth >= 2:
            weight = max(1, round(weight * _NESTED_FACTOR))
        if symbol.kind != "section":
            names.append((symbol.name, weight, symbol.line))
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


# -- index job ---------------------------------------------------------------------------------------------------------

# One job: read, parse and chunk some files, and write their segment. The same in this process and in another.


@dataclass(slots=True)
class JobResult:
    """The result for some files: how many are in the written segment, which were skipped, which were only touched."""

    written: int = 0
    skipped: list[tuple[str, str, str, int, int]] = field(default_factory=list)
    touched: list[tuple[str, int, int]] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class IndexJob:
    """Some files to be indexed into one segment file.

    `facts` maps each path to the (size, mtime_ns) of the walk; `known` maps suspect paths to the hash they were indexed
    with. `static` is the identity of the static vectors to make; empty: none.
    """

    root: str
    paths: Sequence[str]
    facts: Mapping[str, tuple[int, int]]
    known: Mapping[str, bytes]
    bytes_max: int
    segment_path: str
    static: str = ""


def run_job(
    job: IndexJob,
    languages: Languages,
    grammars: Grammars,
    encoder: StaticEncoder | None = None,
    *,
    on_file: Callable[[], None] = lambda: None,
) -> JobResult:
    """Index every file of a job and write its segment, in whatever process.

    `encoder` makes the static vectors, if the job wants any; `on_file` is called before each file.
    """
    outcome = JobResult()
    builder = SegmentBuilder(encoder if job.static else None)
    root = ConfinedFolder(job.root)
    for path in job.paths:
        on_file()
        loaded = load_for_index(root, path, bytes_max=job.bytes_max)
        if not isinstance(loaded, LoadedFile):
            _record_skipped(outcome, path, loaded, job.facts.get(path, (0, 0)))
        elif loaded.sha256 == job.known.get(path):
            outcome.touched.append((path, loaded.size, loaded.mtime_ns))
        else:
            builder.add(
                describe_file(
                    path,
                    loaded.data,
                    loaded.text,
                    languages,
                    grammars,
                    size=loaded.size,
                    mtime_ns=loaded.mtime_ns,
                    sha256=loaded.sha256,
                )
            )
    outcome.written = builder.files
    if builder.files:
        segments.write(builder.build(), Path(job.segment_path))
    return outcome


def _record_skipped(outcome: JobResult, path: str, skipped: Skipped, facts: tuple[int, int]) -> None:
    if skipped.reason == "vanished":
        outcome.vanished.append(path)
    else:
        outcome.skipped.append((path, skipped.reason, skipped.detail, *facts))
