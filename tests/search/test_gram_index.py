"""The index of trigrams leaves out only files that cannot match: answers are those of a search through every file."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from context_engine.model import Scan, TextQuery
from context_engine.repo import FileLister, Root, TextEngine
from context_engine.repo.re2_search import Re2Search
from context_engine.repo.ripgrep import Ripgrep, find_ripgrep
from context_engine.search import gram_index
from context_engine.search.gram_index import GramIndex, map_listing
from context_engine.search.gram_parts import (
    Factor,
    GramPart,
    GramRow,
    factors_of,
    factors_of_text,
    file_grams,
    pack_part,
)
from context_engine.search.text_scanner import TextScanner
from tests.support.trees import tree

ENGINES: dict[str, Callable[[Path], TextEngine]] = {
    "ripgrep": lambda root: Ripgrep(root, find_ripgrep("") or "no ripgrep next to this Python"),
    "re2": Re2Search,
}
LONG_AGO_S = 100.0


class IndexedTree:
    """A small work tree, searched with an index and without."""

    def __init__(self, root: Path, engine: str = "ripgrep") -> None:
        self.root = root
        self.lister = FileLister(root, stale_s=0.0)
        self.grams = GramIndex(self.lister, root.with_name(f"{root.name}-grams"), listed_min=0)
        parts = (Root(root), self.lister, lambda: ENGINES[engine](root))
        self.narrowed, self.whole = TextScanner(*parts, grams=self.grams), TextScanner(*parts)

    def write(self, **files: str | bytes) -> None:
        for name, content in files.items():
            file = self.root / f"{name}.txt"
            file.write_bytes(content.encode() if isinstance(content, str) else content)
            self.settle(file)

    def settle(self, file: Path) -> None:
        """Let a file be old enough for its time to show every change."""
        at = time.time() - LONG_AGO_S
        os.utime(file, (at, at))

    def index(self) -> None:
        self.grams.build(self.lister.listing())

    def candidates(self, *choices: list[str]) -> list[str]:
        listing, factor = self.lister.listing(), frozenset(map(frozenset, choices))
        return [file.path for file in self.grams.narrow(listing, listing.entries, factor)]

    def answers(self, query: TextQuery) -> tuple[Scan, Scan]:
        return self.narrowed.scan(query), self.whole.scan(query)


@pytest.fixture
def indexed(tmp_path: Path) -> IndexedTree:
    root = tmp_path / "work"
    root.mkdir()
    return IndexedTree(root)


# -- the texts that a pattern needs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        (r"def \w+_timeout\(", [["_timeout(", "def "]]),
        ("TODO|FIXME", [["fixme"], ["todo"]]),
        ("(?i)Retry", [["retry"]]),
        ("colou?r", [["color"], ["colour"]]),
        ("sha(1|256)sum", [["sha1sum"], ["sha256sum"]]),
        ("x(abc|def)+yza{2}b", [["xabc", "yza"], ["xdef", "yza"]]),
        ("x(?:abc)?yz(zab)*", [["xabcyz"], ["xyz"]]),
        ("[Tt]hread[Ll]ocal", [["threadlocal"]]),
        ("[a-f]cde", [["cde"]]),
        ("[abcde]fgh", [["fgh"]]),
        ("(a|b)(c|d)(e|f)(g|h)(i|j)klm", [["".join(four), "klm"] for four in product("ab", "cd", "ef", "gh")]),
        (r"ab(c|\w)d", None),
        ("[ab]cde", [["acde"], ["bcde"]]),
        ("abc+d", [["abc"]]),
        (r"[\w.]+_pool", [["_pool"]]),
        (r"a\.bc|\(xyz\)", [["(xyz)"], ["a.bc"]]),
        ("abc**", None),
        ("*abc", None),
        (r"\<abc", None),
        ("a{9999}bcd", None),
        ("ab", None),
        ("abc|d", None),
        ("[a-z]{3}", None),
        ("(?x) a b c", None),
        ("[[:alpha:]]abc", None),
        ("[a&&b]cde", None),
        ("a{2,1}bcd", None),
        ("(abc", None),
    ],
)
def test_a_pattern_shows_the_texts_that_it_needs(pattern: str, needs: list[list[str]] | None) -> None:
    factor = factors_of(pattern)
    assert factor == (frozenset(map(frozenset, needs)) if needs else None)


def has(text: str, factor: Factor | None) -> bool:
    """Whether a line has what a factor says."""
    return factor is None or any(all(part in text for part in parts) for parts in factor)


LITERALS = some.sampled_from(["a", "b", "c", "ab", "abc", "K", "s", "ab c", r"\.", r"\(", "é"])
PATTERNS = some.recursive(
    LITERALS | some.sampled_from([".", r"\w", r"\b", "[ab]", "[^a]", "[a-c]", "^", "$", r"\s"]),
    lambda inner: (
        some.lists(inner, min_size=1, max_size=4).map("".join)
        | some.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})")
        | some.builds(
            lambda part, mark: f"(?:{part}){mark}",
            inner,
            some.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "+?"]),
        )
    ),
    max_leaves=8,
)
LINES = some.text(alphabet="abcABCkKsS .(éſKx", max_size=24)


@settings(max_examples=600, deadline=None)
@given(PATTERNS, LINES)
def test_a_line_that_matches_has_all_that_its_pattern_needs(pattern: str, line: str) -> None:
    if re.search(pattern, line):
        assert has(line.lower().replace("ſ", "s").replace("K", "k"), factors_of(pattern))


@given(LINES, LINES, LINES)
def test_a_line_with_a_text_has_all_that_the_text_needs(before: str, text: str, after: str) -> None:
    assert has((before + text + after).lower(), factors_of_text(text))


# -- parts -------------------------------------------------------------------------------------------------------------


@given(some.lists(some.text(alphabet="abcdA\n ", max_size=40), max_size=300), some.text(alphabet="abcd", min_size=3))
@settings(deadline=None)
def test_a_part_finds_at_least_the_files_with_a_text_and_only_files_with_its_trigrams(
    texts: list[str], wanted: str
) -> None:
    rows = [GramRow(f"{number}", 1, 2, False) for number in range(len(texts))]
    part = GramPart.unpack(pack_part(rows, [file_grams(text.encode()) for text in texts]))
    assert part.rows == tuple(rows)
    found = set(part.find(frozenset([frozenset([wanted])])).tolist())
    assert {number for number, text in enumerate(texts) if wanted in text.lower()} <= found
    grams = {wanted[at : at + 3] for at in range(len(wanted) - 2)}
    if len(grams) <= 6:
        assert found == {number for number, text in enumerate(texts) if all(gram in text.lower() for gram in grams)}


def test_a_damaged_part_is_as_no_part(indexed: IndexedTree) -> None:
    indexed.write(a="retry the call", b="nothing")
    indexed.index()
    (file,) = (indexed.root.with_name("work-grams")).glob("*.grams")
    file.write_bytes(file.read_bytes()[:-3])
    fresh = IndexedTree(indexed.root)
    assert fresh.candidates(["retry"]) == ["a.txt", "b.txt"]


# -- the index ---------------------------------------------------------------------------------------------------------


def test_only_files_that_may_match_are_read(indexed: IndexedTree) -> None:
    indexed.write(a="retry the call", b="nothing", c="RETRY")
    assert indexed.candidates(["retry"]) == ["a.txt", "b.txt", "c.txt"]
    indexed.index()
    assert indexed.candidates(["retry"]) == ["a.txt", "c.txt"]
    assert indexed.candidates(["retry", "call"]) == ["a.txt"]
    assert indexed.candidates(["call"], ["nothing"]) == ["a.txt", "b.txt"]


def test_a_file_that_could_change_and_look_the_same_is_not_indexed(indexed: IndexedTree) -> None:
    (indexed.root / "new.txt").write_text("nothing")
    indexed.write(old="nothing", other="retry")
    indexed.index()
    assert indexed.candidates(["retry"]) == ["new.txt", "other.txt"]


def test_files_that_trigrams_do_not_describe_are_always_read(
    indexed: IndexedTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gram_index, "BYTES_MAX", 20)
    indexed.write(a="nothing", long="nothing " * 9)
    indexed.index()
    assert indexed.candidates(["retry"]) == ["long.txt"]


def test_a_file_in_another_encoding_is_read_where_its_text_may_match(indexed: IndexedTree) -> None:
    indexed.write(a="nothing", wide="retry, größer".encode("utf-16"), chinese="设置路径 timeout".encode("gbk"))
    indexed.index()
    assert indexed.candidates(["retry"]) == ["wide.txt"]
    assert indexed.candidates(["nothing"]) == ["a.txt"]
    assert indexed.candidates(["timeout"]) == ["chinese.txt"]
    narrowed, whole = indexed.answers(TextQuery(("retry",)))
    assert narrowed == whole
    assert [file.path for file in narrowed.files] == ["wide.txt"]


def test_many_small_parts_become_one(indexed: IndexedTree) -> None:
    for number in range(12):
        indexed.write(**{f"file{number}": f"text {number}"})
        indexed.index()
    listing = indexed.lister.listing()
    assert len([*indexed.root.with_name("work-grams").glob("*.grams")]) < 12
    assert not map_listing(listing, tuple(indexed.grams._load().values())).unknown
    assert indexed.candidates(["text 7"[:4]]) == sorted(f"file{number}.txt" for number in range(12))


def test_a_wrong_pattern_is_refused_even_where_no_file_may_match(indexed: IndexedTree) -> None:
    indexed.write(a="nothing at all")
    indexed.index()
    assert indexed.candidates(["absent"]) == ["a.txt"]


CONTENTS = some.text(alphabet="abcABCkKsS .(éſK\n", max_size=60).map(str.encode) | some.binary(max_size=30).map(
    lambda data: data.replace(b"\0", b"a")
)


@pytest.mark.parametrize("engine", ENGINES)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    contents=some.lists(CONTENTS, min_size=1, max_size=6),
    changed=some.dictionaries(some.integers(0, 5), CONTENTS, max_size=2),
    patterns=some.lists(PATTERNS, min_size=1, max_size=2),
    regex=some.booleans(),
    case_sensitive=some.booleans(),
)
def test_answers_with_the_index_are_those_without_it(
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    contents: list[bytes],
    changed: dict[int, bytes],
    patterns: list[str],
    regex: bool,
    case_sensitive: bool,
) -> None:
    root = tree(tmp_path_factory.mktemp("grams") / "work", {"first.txt": "ab c"})
    indexed = IndexedTree(root, engine)
    indexed.write(**{f"f{number}": content for number, content in enumerate(contents)})
    indexed.index()
    query = TextQuery(tuple(patterns), regex=regex, case_sensitive=case_sensitive)
    indexed.answers(query)  # from here on there is an answer and a mapping that the changes make untrue
    indexed.write(**{f"f{number}": content for number, content in changed.items()})
    narrowed, whole = indexed.answers(query)
    assert narrowed == whole
