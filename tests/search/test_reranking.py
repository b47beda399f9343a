"""The places of an answer to a long question are ranked again by what their texts say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.engine import Engine
from context_engine.model import Chunk, Hit, Query, RelPath
from context_engine.search.reranking import PLACES_MAX, rerank
from context_engine.text import LineSpan
from tests.support.engines import indexed
from tests.support.trees import tree

CODE = "def drain(pool):\n    if pool.is_open:\n        pool.close()\n    return pool\n"
COMMENT = "# The pool is drained\n# when it closes, or when\n# a test closes it.\n# See drain.\n"
TASK = "Drain the pool\n\nThe pool stays open after `pool.close()` because nobody calls drain_all when it ends."


def place(
    path: str = "pool.py",
    text: str = CODE,
    *,
    first: int = 1,
    title: str = "drain",
    score: float = 4.0,
    chance: float = 0.2,
    is_named: bool = False,
) -> Hit:
    """A hit with a text."""
    span = LineSpan(first, first + text.count("\n"))
    chunk = Chunk(f"{path}:{first}", RelPath(path), span, "definitions", "python", title, text)
    return Hit(chunk, score, {"chunk": score}, chance=chance, is_named=is_named)


words = st.sampled_from(
    ["pool", "drain", "close", "drain_all", "if", "return", "# ", "\n", "`pool.close()`", "Ünï", ""]
)
texts = st.lists(words, max_size=12).map(" ".join)
hits_of_any_answer = st.lists(
    st.builds(
        place,
        st.sampled_from(["pool.py", "src/drain.py", "c.rs"]),
        texts,
        first=st.integers(1, 500),
        title=st.sampled_from(["", "drain", "Pool.drain_all"]),
        score=st.just(0.0) | st.floats(1e-6, 9),
        chance=st.floats(0, 1),
        is_named=st.booleans(),
    ),
    max_size=PLACES_MAX + 9,
    unique_by=lambda hit: hit.chunk.id,
)


@given(texts, hits_of_any_answer)
def test_every_place_stays_once_and_scores_fall(question: str, hits: list[Hit]) -> None:
    ranked = rerank(f"{question}\n\n{question}", hits)
    assert sorted(hit.chunk.id for hit in ranked) == sorted(hit.chunk.id for hit in hits)
    scores = [hit.score for hit in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= hit.chance <= 1 for hit in ranked)
    with_parts = {hit.chunk.id for hit in hits if hit.score}
    assert all(sum(hit.why.values()) == pytest.approx(hit.score) for hit in ranked if hit.chunk.id in with_parts)


@given(texts, hits_of_any_answer)
def test_a_place_that_the_question_names_comes_before_the_others_of_its_file(question: str, hits: list[Hit]) -> None:
    ranked = [hit for hit in rerank(question, hits) if hit.score]
    for _, own in groupby(sorted(ranked, key=lambda hit: hit.chunk.path), key=lambda hit: hit.chunk.path):
        in_order = sorted(own, key=lambda hit: -hit.score)
        scores = {hit.score for hit in in_order}
        named = [hit.is_named for hit in in_order]
        assert len(scores) < len(named) or named == sorted(named, reverse=True)


def test_code_comes_before_a_comment_with_the_same_words() -> None:
    comment, code = place(text=COMMENT, first=1, score=5.0), place(first=9, score=4.0)
    assert [hit.chunk.text for hit in rerank(TASK, [comment, code])] == [CODE, COMMENT]


def test_a_file_with_a_name_that_the_question_writes_comes_first() -> None:
    written = place("b.py", "def drain_all(pools):\n    return [pool.close() for pool in pools]\n", title="drain_all")
    other = place("a.py", "def drains(pools):\n    return [pool.shut() for pool in pools]\n", title="drains", score=5.0)
    ranked = rerank(TASK, [other, written])
    assert [(hit.chunk.path, hit.score) for hit in ranked] == [("b.py", 5.0), ("a.py", 4.0)]


def test_no_file_overtakes_the_frame_of_a_stack_trace() -> None:
    frame = place("frame.py", "value = table[key]\n", title="", score=5.0, chance=0.02, is_named=True)
    behind, before = place("behind.py", score=4.0), place("before.py", COMMENT, score=6.0)
    ranked = rerank(TASK, [before, frame, behind])
    assert [hit.chunk.path for hit in ranked] == ["before.py", "frame.py", "behind.py"]
    assert ranked[1].chance == 0.02 < ranked[2].chance


NOTES = "# When a pool closes, it is drained: drain it once.\n# Later, nothing is left.\n"
STOP = "def close(pool):\n    if pool.drained:\n        raise ValueError('nothing left in it')  # fails\n    pool.drain()\n"
TREE = {"src/a.py": f"{NOTES}\n\nPOOL = 1\n", "src/b.py": STOP, "src/c.py": "def other():\n    return 1\n"}
LONG = "Drain a pool when it closes\n\nA pool that is drained again fails with `nothing left in it`, so look first."


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root: Path = tree(tmp_path_factory.mktemp("pools"), TREE)
    with indexed(root) as engine:
        yield engine


@pytest.mark.parametrize(
    ("question", "first"),
    [
        (LONG, "src/b.py"),
        (LONG.replace("Drain", "Fix the comment: drain"), "src/a.py"),
        (LONG.partition("\n")[0], "src/a.py"),
    ],
    ids=["long", "about a comment", "short"],
)
def test_the_texts_order_the_answer_to_a_long_question(pools: Engine, question: str, first: str) -> None:
    assert pools.search.find(Query(question)).hits[0].chunk.path == first


def test_words_that_follow_each_other_count_more_than_the_same_words_apart() -> None:
    apart = place(text="def a():\n    drain = pool\n", first=1, chance=0.2)
    together = place(text="def b():\n    pool = drain\n", first=9, chance=0.2)
    other = place("c.rs", text="fn c() {}\n", chance=0.1)
    for question, first in (("drain pool", 1), ("pool drain", 9)):
        assert rerank(question, [together, apart, other])[0].chunk.span.first == first
