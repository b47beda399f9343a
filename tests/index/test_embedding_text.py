"""What is embedded says where it belongs: path, enclosing names and signature stand before every body."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.index.embedding_text import (
    SUMMARY_DOC_CHARS,
    SUMMARY_NAMES_MAX,
    ChunkEmbeddingText,
    ChunkLocation,
    build_chunk_texts,
    build_file_summary,
    summary_names,
)
from context_engine.index.segment import StoredOutline, decode_outline
from tests.support.engines import described

PYTHON = '''"""Keeps connections."""

import socket
from http import client


class Pool:
    """Of sessions."""

    def acquire(
        self, timeout_s: float = 1.0
    ) -> "Session":
        return self._free.pop()


def größe(pool):
    return len(pool._free)
'''


def outlined(path: str, text: str) -> tuple[StoredOutline, list[ChunkLocation]]:
    file = described(path, text)
    return decode_outline(file.outline), [
        ChunkLocation(start, stop, piece.symbol) for (start, stop), piece in zip(file.spans, file.chunks, strict=True)
    ]


def made(path: str, text: str) -> list[ChunkEmbeddingText]:
    return build_chunk_texts(path, text.encode(), *outlined(path, text))


def test_a_capsule_begins_with_path_chain_and_signature() -> None:
    outline, _ = outlined("src/pool.py", PYTHON)
    numbers = {symbol.name: number for number, symbol in enumerate(outline.symbols)}
    data = PYTHON.encode()
    start, stop = data.index(b"    def acquire"), data.index(b"\n\ndef")
    chunks = [ChunkLocation(start, stop, numbers["acquire"]), ChunkLocation(stop + 2, len(data), numbers["größe"])]
    acquire, size = build_chunk_texts("src/pool.py", data, outline, chunks)
    assert acquire.head == "src/pool.py | Pool.acquire | def acquire("
    assert size == ("src/pool.py | größe | def größe(pool):", "def größe(pool):\n    return len(pool._free)")


def test_a_section_is_headed_by_its_breadcrumb() -> None:
    heads = [capsule.head for capsule in made("doc.md", "# Install\n\n" + "a " * 60 + "\n\n## Linux\n\n" + "b " * 60)]
    assert heads == ["doc.md | Install", "doc.md | Install > Linux"]


def test_a_card_names_a_file_its_folders_its_purpose_and_what_it_defines() -> None:
    outline, _ = outlined("src/net/connPool.py", PYTHON)
    text = build_file_summary("src/net/connPool.py", "Keeps connections.", summary_names(outline))
    assert text == "conn pool | src net | Keeps connections. | pool größe acquire"


@given(st.text(max_size=50), st.text(max_size=2 * SUMMARY_DOC_CHARS), st.lists(st.text(max_size=20), max_size=60))
def test_a_card_can_be_made_of_anything_and_stays_small(path: str, doc: str, names: list[str]) -> None:
    longest = sum(2 * len(name) + 1 for name in sorted(names, key=len)[-SUMMARY_NAMES_MAX:])
    assert len(build_file_summary(path, doc, names)) <= 4 * len(path) + SUMMARY_DOC_CHARS + 2 * longest + 20


def test_outer_definitions_come_before_inner_ones_on_a_card() -> None:
    many = "".join(f"class Outer{n}:\n    def inner{n}(self): ...\n\n" for n in range(SUMMARY_NAMES_MAX))
    outline, _ = outlined("many.py", many)
    text = build_file_summary("many.py", "", summary_names(outline))
    assert f"{SUMMARY_NAMES_MAX - 1}" in text
    assert "inner" not in text
