"""A plain baseline for a bench of places: BM25 over windows of 40 lines of every source file, behind the same protocol.

No index is kept, nothing is parsed, no path or file is worth more than another. `python evals/places/windows.py`
answers the requests that adapter.py documents.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.places.adapter import Reply, answer_requests, fill
from evals.places.shown import Place

LINES = 40
K1, B = 1.5, 0.75
SOURCE = re.compile(
    r"\.(py|pyi|js|jsx|ts|tsx|mjs|go|rs|java|kt|scala|c|h|cc|cpp|hpp|cs|rb|php|swift|ex|exs|hs|lua|sh|bash|zig|vue|svelte)$"
)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


class Document(NamedTuple):
    """Lines of a file and their words."""

    place: Place
    text: str
    words: Counter[str]
    length: int


def split_words(text: str) -> list[str]:
    """Return the words of a text, those inside identifiers too.

    >>> split_words("parseHTTPHeader(max_age=60)")
    ['parse', 'http', 'header', 'max', 'age', '60']
    """
    return [word.lower() for word in _WORD.findall(text)]


def document(place: Place, text: str) -> Document:
    """Return lines with the words of their path and text."""
    words = _count_words(place.path, text)
    return Document(place, text, words, words.total())


@lru_cache(50_000)
def _count_words(path: str, text: str) -> Counter[str]:
    """Count words once for what many trees of a repository have in common. The result must not be changed."""
    return Counter(split_words(f"{path}\n{text}"))


def source_files(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield path and lines of every source file under version control."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True).stdout
    for path in filter(SOURCE.search, listed.decode(errors="replace").split("\0")):
        file = root / path
        if file.is_file() and not file.is_symlink():
            yield path, file.read_text(encoding="utf-8", errors="replace").split("\n")


@lru_cache(1)
def windows(root: Path) -> list[Document]:
    """Return the windows of every source file."""
    found = []
    for path, lines in source_files(root):
        for first in range(0, len(lines), LINES):
            part = lines[first : first + LINES]
            found.append(document(Place(path, first + 1, first + len(part)), "\n".join(part)))
    return found


def rank(documents: list[Document], query: str) -> list[Document]:
    """Return documents by BM25, the best first."""
    having = Counter(word for one in documents for word in one.words)
    usual = sum(one.length for one in documents) / max(len(documents), 1)
    asked = {
        word: math.log(1 + (len(documents) - having[word] + 0.5) / (having[word] + 0.5)) for word in split_words(query)
    }

    def score(one: Document) -> float:
        norm = K1 * (1 - B + B * one.length / usual)
        return sum(rarity * one.words[word] * (K1 + 1) / (one.words[word] + norm) for word, rarity in asked.items())

    return sorted(documents, key=score, reverse=True)


@lru_cache(1)
def _ranked(root: Path, query: str) -> list[Document]:
    return rank(windows(root), query)


def ask_windows(root: Path, query: str, tokens: int) -> Reply:
    """Show the best windows, one below the other, until the budget is filled."""
    began = time.perf_counter()
    shown, text = fill(((one.place, one.text) for one in _ranked(root, query)), tokens)
    return Reply(shown, text, (time.perf_counter() - began) * 1e3)


if __name__ == "__main__":
    answer_requests(ask_windows)
