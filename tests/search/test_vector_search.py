"""Signals from meaning: every vector is compared, files get their best and their three best, and equal things tie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from context_engine.embedding.vector_rows import quantize
from context_engine.errors import InvalidVectors
from context_engine.search.semantic_scores import BLOCK_NUMBERS, compute_cosines, find_greatest, fold_by_file

SIZE = 6
ROWS = arrays.arrays(np.float32, st.tuples(st.integers(0, 40), st.just(SIZE)), elements=st.floats(-1, 1, width=32))
VALUES = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75]), max_size=30)


def unit(row: np.ndarray) -> np.ndarray:
    length = float(np.linalg.norm(row))
    return (row / length if length else row).astype(np.float32)


@given(ROWS, st.integers(0, 1_000))
def test_a_cosine_is_the_product_of_the_two_vectors(rows: np.ndarray, seed: int) -> None:
    query = unit(np.random.default_rng(seed).standard_normal(SIZE))
    rows = np.array([unit(row) for row in rows], np.float32).reshape(len(rows), SIZE)
    plain = [sum(float(a) * float(b) for a, b in zip(row, query, strict=True)) for row in rows]
    assert compute_cosines(quantize(rows), query) == pytest.approx(plain, abs=0.02)


def test_where_a_vector_stands_does_not_change_its_cosine() -> None:
    rng = np.random.default_rng(4)
    size, count = 384, 2 * BLOCK_NUMBERS // 384 + 5
    row, query = unit(rng.standard_normal(size)), unit(rng.standard_normal(size))
    assert len(set(compute_cosines(quantize(np.tile(row, (count, 1))), query).tolist())) == 1


def test_a_query_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidVectors) as refused:
        compute_cosines(quantize(np.ones((2, SIZE))), np.ones(SIZE + 1, np.float32))
    assert "model" in refused.value.suggestion


def test_no_vectors_are_no_trouble() -> None:
    assert compute_cosines(quantize(np.zeros((0, SIZE))), np.ones(SIZE, np.float32)).shape == (0,)
    best, top3 = fold_by_file(np.zeros(0, np.float32), np.zeros(0, bool), np.zeros(0, np.intp), 3)
    assert not best.any() and not top3.any()


@given(st.data())
def test_a_file_has_its_best_chunk_and_the_sum_of_its_three_best_that_pass(data: st.DataObject) -> None:
    values = data.draw(VALUES)
    flags = st.lists(st.booleans(), min_size=len(values), max_size=len(values))
    owners = sorted(data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values))))
    counts = data.draw(flags)
    best, top3 = fold_by_file(np.array(values, np.float32), np.array(counts, bool), np.array(owners, np.intp), 6)
    for file in range(6):
        rows = zip(values, owners, counts, strict=True)
        positive = sorted(
            (value for value, owner, passes in rows if owner == file and passes and value > 0), reverse=True
        )
        assert best[file] == max(positive, default=0)
        assert top3[file] == sum(positive[:3])


@given(VALUES, st.integers(0, 12), st.data())
def test_the_greatest_come_first_and_of_equal_ones_the_first(
    values: list[float], limit: int, data: st.DataObject
) -> None:
    allowed = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    passing = [number for number, passes in enumerate(allowed) if passes]
    wanted = sorted(passing, key=lambda number: (-values[number], number))[:limit]
    assert find_greatest(np.array(values, np.float32), limit, np.array(allowed, bool)).tolist() == wanted
