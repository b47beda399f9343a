"""PURE. Where any of a thousand words stands in a text, in one pass: only there is anything looked at more closely."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Find = Callable[[bytes], Iterable[tuple[int, int, int]]]
"""Number of a word, where it starts, where it stops."""


class WordIndex(Generic[T]):
    """Words and what each stands for: `exact` ones as they are written, `loose` ones whatever their case."""

    def __init__(self, exact: Iterable[tuple[str, T]], loose: Iterable[tuple[str, T]]) -> None:
        meant: dict[bytes, dict[bytes, list[T]]] = defaultdict(lambda: defaultdict(list))
        for word, one in exact:
            meant[word.encode().lower()][word.encode()].append(one)
        for word, one in loose:
            meant[word.encode().lower()][b""].append(one)
        self._meant = [[(written, tuple(ones)) for written, ones in each.items()] for each in meant.values()]
        self._find = create_finder(list(meant))

    def find_places(self, data: bytes) -> Iterator[tuple[int, int, Sequence[T]]]:
        """Where words stand, and what each stands for; overlapping ones too."""
        meant = self._meant
        for number, start, stop in self._find(data.lower()):
            for written, ones in meant[number]:
                if not written or data.startswith(written, start):
                    yield start, stop, ones


def create_finder(words: Sequence[bytes]) -> Find:
    """How to look for all of these words at once: Aho-Corasick, or one word after the other where that is not installed."""
    engine = aho_corasick()
    if engine is None or not words:
        return lambda data: _one_by_one(words, data)
    kind, fastest = engine.MatchKind.Standard, engine.Implementation.DFA
    automaton = engine.BytesAhoCorasick(words, matchkind=kind, implementation=fastest)
    return lambda data: automaton.find_matches_as_indexes(data, overlapping=True)


def _one_by_one(words: Sequence[bytes], data: bytes) -> Iterator[tuple[int, int, int]]:
    for number, word in enumerate(words):
        start = data.find(word)
        while start >= 0:
            yield number, start, start + len(word)
            start = data.find(word, start + 1)


def aho_corasick() -> Any:
    """The module, or None where it is not installed."""
    try:
        import ahocorasick_rs
    except ImportError:
        return None
    return ahocorasick_rs
