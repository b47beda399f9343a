"""Merges keep segments few, and never need memory for the whole index at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.index.embedded_writer import (
    MERGED_CHUNKS_MAX,
    MERGED_PARTS,
    PATIENT_SEGMENTS_MAX,
    SEGMENTS_MAX,
    choose_merge,
)

Rows = list[tuple[int, int, int]]


def merged(rows: Rows, chosen: list[int]) -> Rows:
    """The rows after these became one with the next number."""
    left = [row for row in rows if row[0] not in chosen]
    files, chunks = (sum(row[column] for row in rows if row[0] in chosen) for column in (1, 2))
    return [*left, (rows[-1][0] + 1, files, chunks)]


@given(st.lists(st.sampled_from([500, 7_000, 14_000, 60_000]), min_size=30, max_size=80))
def test_a_first_index_of_any_size_merges_within_bounds(rounds: list[int]) -> None:
    rows: Rows = []
    for chunks in rounds:
        rows.append((rows[-1][0] + 1 if rows else 1, max(1, chunks // 10), chunks))
        if len(chosen := choose_merge(rows, {}, PATIENT_SEGMENTS_MAX)) > 1:
            rows = merged(rows, chosen)
        total = sum(row[2] for row in rows)
        assert all(row[2] <= max(MERGED_CHUNKS_MAX, total // MERGED_PARTS) or row[2] in rounds for row in rows)
        assert len(rows) <= PATIENT_SEGMENTS_MAX + 2 * MERGED_PARTS + 2 * total // MERGED_CHUNKS_MAX
    assert sum(row[2] for row in rows) == sum(rounds)


def test_the_small_segments_of_edits_are_merged_and_the_large_ones_are_left() -> None:
    rows = [(1, 20_000, 90_000), (2, 20_000, 80_000), *((number, 1, 8) for number in range(3, 12))]
    assert choose_merge(rows, {}, SEGMENTS_MAX) == list(range(3, 12))
    assert choose_merge(rows[:-1], {}, SEGMENTS_MAX) == []


def test_segments_that_are_mostly_dead_are_merged_one_after_the_other_if_they_are_large() -> None:
    rows = [(1, 20_000, 90_000), (2, 20_000, 60_000), (3, 10, 80)]
    assert choose_merge(rows, {1: 9_000, 2: 9_000}, SEGMENTS_MAX) == [1]
    assert choose_merge(rows, {2: 9_000, 3: 5}, SEGMENTS_MAX) == [2, 3]
