"""The vector store keeps what a dictionary would keep, for several processes at once, and survives damage of its file."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding import VectorStore, hash_texts, quantize
from context_engine.errors import Cancelled, InvalidVectors

DIMENSIONS = 12
Numbers = list[int]


def vectors(numbers: Numbers, dimensions: int = DIMENSIONS) -> np.ndarray:
    """For each number a vector of its own that nothing but the number decides."""
    rows = [np.random.default_rng(number).standard_normal(dimensions) for number in numbers]
    return np.array(rows, np.float32).reshape(len(rows), dimensions)


def keys_of(numbers: Numbers) -> np.ndarray:
    return hash_texts([f"text {number}" for number in numbers])


def put(store: VectorStore, numbers: Numbers) -> None:
    store.put(keys_of(numbers), vectors(numbers))


def find(store: VectorStore, numbers: Numbers) -> Numbers:
    """Return which of these are found; each that is found must be the vector that was put."""
    rows, found = store.get(keys_of(numbers))
    assert (store.missing(keys_of(numbers)) == ~found).all()
    there = [number for number, is_there in zip(numbers, found.tolist(), strict=True) if is_there]
    assert np.array_equal(rows.values, quantize(vectors(there)).values[:, : rows.values.shape[1]])
    return there


def open_store(folder: Path, space: str = "feed", bytes_max: int = 10_000_000) -> VectorStore:
    return VectorStore(folder / "vectors.db", space, bytes_max=bytes_max)


@given(st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=6))
def test_two_openers_of_a_file_find_what_either_of_them_stored(
    tmp_path_factory: pytest.TempPathFactory, puts: list[Numbers]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    stores = [open_store(folder), open_store(folder)]
    known: set[int] = set()
    for turn, numbers in enumerate(puts):
        put(stores[turn % 2], numbers)
        known |= set(numbers)
        assert [find(store, list(range(31))) for store in stores] == [sorted(known)] * 2
    for store in stores:
        store.close()


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, wrong: float) -> None:
    store = open_store(tmp_path)
    with pytest.raises(InvalidVectors):
        store.put(keys_of([1, 2]), np.full((2, DIMENSIONS), wrong))
    assert find(store, [1, 2]) == []


def test_vectors_of_two_spaces_are_never_mixed(tmp_path: Path) -> None:
    one, other = open_store(tmp_path), open_store(tmp_path, "f00d")
    put(one, [1, 2])
    assert find(other, [1, 2]) == []
    other.put(keys_of([1]), vectors([7]))
    assert find(one, [1, 2]) == [1, 2]


def test_a_model_that_changed_its_size_has_the_vectors_of_the_new_size_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, [1, 2])
    store.put(keys_of([2, 3]), vectors([2, 3], 5))
    rows, found = store.get(keys_of([1, 2, 3]))
    assert (rows.values.shape, found.tolist()) == ((2, 5), [False, True, True])


@pytest.mark.parametrize("damage", [b"", b"nonsense " * 1_000])
def test_a_damaged_file_is_replaced_and_everything_can_be_made_again(tmp_path: Path, damage: bytes) -> None:
    store = open_store(tmp_path)
    put(store, [1, 2])
    store.close()
    (tmp_path / "vectors.db").write_bytes(damage)
    assert find(store, [1, 2]) == []
    put(store, [1, 2])
    assert find(open_store(tmp_path), [1, 2]) == [1, 2]


def test_the_vectors_that_were_made_first_go_first_when_there_are_too_many(tmp_path: Path) -> None:
    store = open_store(tmp_path, bytes_max=200_000)
    for start in range(0, 5_000, 100):
        put(store, list(range(start, start + 100)))
    left = find(store, list(range(5_000)))
    assert left[-100:] == list(range(4_900, 5_000))
    assert left == list(range(left[0], 5_000))
    assert 500 < len(left) < 4_000
    assert (tmp_path / "vectors.db").stat().st_size < 400_000


def test_one_process_at_a_time_makes_vectors(tmp_path: Path) -> None:
    cancel = threading.Event()
    with open_store(tmp_path).sole_filler(cancel):
        cancel.set()
        with pytest.raises(Cancelled), open_store(tmp_path).sole_filler(cancel):
            pytest.fail("two have the right")
    with open_store(tmp_path).sole_filler(cancel):
        pass
