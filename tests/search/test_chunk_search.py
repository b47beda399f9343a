"""Chunks are found by words and meaning among exactly those that pass the filter, best first, each score a sum of addends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.embedder import normalize_rows
from context_engine.embedding.vector_rows import quantize
from context_engine.errors import InvalidVectors
from context_engine.model import CHUNK_KINDS, Filter, Query
from context_engine.search.chunk_files import FILES, ChunkRow, ChunkSet
from context_engine.search.chunk_search import ChunkSearcher

WORDS = ("pool", "session", "hash", "token", "retry", "queue", "the")
TAGS = ("go", "python", "code", "docs")


def chunks_of(rows: list[ChunkRow], vectors: list[list[float]] | None = None) -> ChunkSet:
    size = len(vectors[0]) if vectors else 0
    raw = np.array(vectors or [], np.float32).reshape(len(rows), size)
    return ChunkSet((FILES["data"],), tuple(rows), quantize(normalize_rows(raw)), "m")


def row(number: int, text: str, title: str = "", *tags: str, kind: str = "data", path: str = "") -> ChunkRow:
    return ChunkRow(f"c{number}", kind, title, text, tuple(sorted(tags)), {"file_path": path} if path else {})  # ty: ignore[invalid-argument-type]


def ids(searcher: ChunkSearcher, query: Query, vector: np.ndarray | None = None) -> list[str]:
    return [hit.row.id for hit in searcher.rank(query, vector).hits]


ROW = st.builds(
    lambda words, title, tags, kind: ChunkRow("", kind, title, " ".join(words), tuple(sorted(tags))),
    st.lists(st.sampled_from(WORDS), max_size=6),
    st.sampled_from(("", *WORDS)),
    st.sets(st.sampled_from(TAGS)),
    st.sampled_from(CHUNK_KINDS),
)
ROWS = st.lists(ROW, max_size=9).map(
    lambda rows: [ChunkRow(f"c{n}", r.kind, r.title, r.text, r.tags) for n, r in enumerate(rows)]
)
FILTER = st.builds(
    Filter,
    kinds=st.sets(st.sampled_from(CHUNK_KINDS), max_size=2).map(tuple),
    tags=st.sets(st.sampled_from(TAGS), max_size=2).map(tuple),
)
ASKED = st.lists(st.sampled_from(WORDS[:-1]), min_size=1, max_size=3).map(" ".join)
NUMBERS = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=2)


@given(ROWS, ASKED, FILTER, st.integers(1, 5))
def test_by_words_exactly_those_that_pass_the_filter_and_hold_a_word_are_found_up_to_the_limit(
    rows: list[ChunkRow], asked: str, wanted: Filter, limit: int
) -> None:
    def answers(each: ChunkRow) -> bool:
        passes = (not wanted.kinds or each.kind in wanted.kinds) and {*wanted.tags} <= {*each.tags}
        return passes and bool({*asked.split()} & {*each.text.split(), each.title})

    right = {each.id for each in rows if answers(each)}
    ranking = ChunkSearcher(chunks_of(rows)).rank(Query(asked, limit, wanted))
    found = [hit.row.id for hit in ranking.hits]
    assert {*found} <= right
    assert len(found) == len({*found}) == min(limit, len(right))
    assert ranking.matching == len(right)


@given(ROWS, ASKED, FILTER, st.integers(1, 9), st.data())
def test_with_a_vector_every_chunk_that_passes_and_has_one_answers(
    rows: list[ChunkRow], asked: str, wanted: Filter, limit: int, drawn: st.DataObject
) -> None:
    vectors = drawn.draw(st.lists(NUMBERS, min_size=len(rows), max_size=len(rows)))
    chunks = chunks_of(rows, vectors)
    searcher = ChunkSearcher(chunks)
    vector = np.array([0.6, 0.8], np.float32) if chunks.dimensions else None
    alone = {hit.row.id for hit in searcher.rank(Query(asked, 9, wanted)).hits}
    passing = [
        n
        for n, each in enumerate(rows)
        if (not wanted.kinds or each.kind in wanted.kinds) and {*wanted.tags} <= {*each.tags}
    ]
    right = alone | {rows[n].id for n in passing if vector is not None and any(vectors[n])}
    ranking = searcher.rank(Query(asked, limit, wanted), vector)
    assert {hit.row.id for hit in ranking.hits} <= right
    assert len(ranking.hits) == min(limit, len(right))
    assert ranking.passing == len(passing)


@given(ROWS, ASKED, st.booleans(), st.data())
def test_hits_come_best_first_and_a_score_is_the_sum_of_its_addends(
    rows: list[ChunkRow], asked: str, meaning: bool, drawn: st.DataObject
) -> None:
    vectors = drawn.draw(st.lists(NUMBERS, min_size=len(rows), max_size=len(rows)))
    chunks = chunks_of(rows, vectors)
    vector = np.array([1, 0], np.float32) if meaning and chunks.dimensions else None
    ranking = ChunkSearcher(chunks).rank(Query(asked, 9), vector)
    order = [(-hit.score, int(hit.row.id[1:])) for hit in ranking.hits]
    assert order == sorted(order), "equal scores stand in the order of the files"
    for hit in ranking.hits:
        assert math.isclose(hit.score, sum(hit.why.values()), abs_tol=1e-5)
        assert {*hit.why} <= {"text", "title", "meaning"}
        assert min(hit.why.values(), default=1) > 0
    assert ranking == ChunkSearcher(chunks).rank(Query(asked, 9), vector), "the same question has the same answer"


def test_title_and_path_are_found_as_parts_of_names_and_weigh_more_than_a_mention() -> None:
    rows = [
        row(0, "something about nothing", "AuthHandler.renewToken", path="internal/auth/handler.go"),
        row(1, "a long text of many words that once says renew and then goes on about this and that"),
        row(2, "more words", "unrelated", path="internal/auth/login.go"),
    ]
    searcher = ChunkSearcher(chunks_of(rows))
    assert ids(searcher, Query("renew")) == ["c0", "c1"]
    assert ids(searcher, Query("handlers")) == ["c0"]
    assert {*ids(searcher, Query("auth"))} == {"c0", "c2"}


def test_meaning_is_the_cosine_and_finds_what_shares_no_word() -> None:
    rows = [row(0, "alpha"), row(1, "beta"), row(2, "gamma")]
    searcher = ChunkSearcher(chunks_of(rows, [[1, 0], [3, 4], [0, 2]]))
    hits = searcher.rank(Query("delta", 3), np.array([0, 1], np.float32)).hits
    assert [hit.row.id for hit in hits] == ["c2", "c1", "c0"]
    assert hits[1].score / hits[0].score == pytest.approx(0.8, abs=0.01)
    with pytest.raises(InvalidVectors):
        searcher.rank(Query("delta"), np.array([1, 0, 0], np.float32))
