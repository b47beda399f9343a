"""The vector store keeps what a dictionary would keep, for many processes at once, whatever happens to them or its files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from context_engine.embedding.vector_rows import VectorRows, VectorSpace, hash_texts, quantize
from context_engine.errors import InvalidVectors
from context_engine.semantic.vector_store import HEADER_BYTES, VectorStore
from tests.support import preloaded

SPACE = VectorSpace("feed", 12)
RECORD_BYTES = 40
"""Of a vector of 12 numbers: checksum 8, key 16, scale 4, numbers 12."""
COUNT_AT = 40
"""In the header, behind what says whose file it is."""
LOSS = 1 / 254
"""Half a step of a number, as a share of the greatest number of its row."""


def vectors(numbers: range | list[int], dimensions: int = 12) -> np.ndarray:
    """For each number a vector of its own that nothing but the number decides."""
    rows = [np.random.default_rng(number).standard_normal(dimensions) for number in numbers]
    return np.array(rows, np.float32).reshape(len(rows), dimensions)


def texts(numbers: range | list[int]) -> list[str]:
    return [f"text {number}" for number in numbers]


def put(store: VectorStore, numbers: range | list[int]) -> int:
    return store.put(hash_texts(texts(numbers)), vectors(numbers))


def held(store: VectorStore, numbers: range | list[int]) -> list[int]:
    """Which of these are found; each that is found must be the vector that was put."""
    rows, found = store.get(hash_texts(texts(numbers)))
    assert not (store.missing(hash_texts(texts(numbers))) & found).any()
    wanted = vectors(numbers)
    off = np.abs(rows.floats() - wanted)[found]
    assert (off <= np.abs(wanted).max(axis=1, keepdims=True)[found] * LOSS * 1.01).all()
    assert not rows.values[~found].any()
    return [number for number, there in zip(numbers, found.tolist(), strict=True) if there]


def files(store: VectorStore) -> list[Path]:
    return sorted(store.folder.glob("*.vec"))


class Model(RuleBasedStateMachine):
    """Two stores on one folder, a dictionary beside them; files hold five vectors, so that there are many."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.stores = [self.opened(), self.opened()]
        self.known: set[int] = set()

    def opened(self) -> VectorStore:
        return VectorStore(Path(self.folder.name), SPACE, segment_bytes_max=5 * RECORD_BYTES)

    @rule(which=st.integers(0, 1), numbers=st.lists(st.integers(0, 30), max_size=8))
    def add(self, which: int, numbers: list[int]) -> None:
        assert put(self.stores[which], numbers) == len(set(numbers) - self.known)
        self.known |= set(numbers)

    @rule(which=st.integers(0, 1))
    def compact(self, which: int) -> None:
        self.stores[which].compact()

    @rule(which=st.integers(0, 1))
    def open_anew(self, which: int) -> None:
        self.stores[which].close()
        self.stores[which] = self.opened()

    @invariant()
    def both_hold_what_the_dictionary_holds(self) -> None:
        for store in getattr(self, "stores", ()):
            assert held(store, list(range(31))) == sorted(self.known)
            assert len(store) == len(self.known)

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            assert [store.check() for store in self.stores] == [[], []]
            self.folder.cleanup()


TestLikeADictionary = Model.TestCase
TestLikeADictionary.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)


# -- rows ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), max_size=8))
def test_a_stored_number_is_off_by_half_a_step_at_most(rows: list[list[float]]) -> None:
    given_rows = np.array(rows, np.float32).reshape(len(rows), 3)
    stored = quantize(given_rows)
    step = np.abs(given_rows).max(axis=1, initial=0.0, keepdims=True) / 127
    assert (np.abs(stored.floats() - given_rows) <= step * 0.501 + 1e-30).all()


def test_a_text_without_any_known_word_keeps_its_row_of_zeros(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, SPACE)
    assert store.put(hash_texts([""]), np.zeros((1, 12))) == 1
    rows, found = store.get(hash_texts([""]))
    assert found.all()
    assert not rows.floats().any()


def test_keys_tell_texts_apart_whatever_they_hold() -> None:
    odd = ["", "a", "a\0", "A", "é", "e\u0301", "\ud800", "a" * 1_000_000]
    assert len(set(hash_texts(odd).tolist())) == len(odd)
    assert hash_texts(["same"]) == hash_texts(["same"])
    assert len(hash_texts([])) == 0


# -- the door -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((2, 11)),
        np.zeros((3, 12)),
        np.zeros(24),
        np.full((2, 12), np.nan),
        np.full((2, 12), np.inf),
        np.full((2, 12), 1e300),
    ],
    ids=["wrong size", "too many", "flat", "nan", "infinite", "too great for float32"],
)
def test_what_is_no_vector_of_the_space_is_refused_and_nothing_is_kept(tmp_path: Path, rows: np.ndarray) -> None:
    store = VectorStore(tmp_path, SPACE)
    with pytest.raises(InvalidVectors) as refused:
        store.put(hash_texts(["a", "b"]), rows)
    assert refused.value.suggestion
    assert len(store) == 0


@pytest.mark.parametrize("dimensions", [0, -1, 1_000_000])
def test_a_space_without_a_size_is_refused(tmp_path: Path, dimensions: int) -> None:
    with pytest.raises(InvalidVectors):
        VectorStore(tmp_path, VectorSpace("feed", dimensions))


def test_keys_that_are_no_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidVectors, match="keys_of"):
        VectorStore(tmp_path, SPACE).put(np.array([b"short"]), vectors([1]))


# -- spaces -------------------------------------------------------------------------------------------------------


def test_spaces_do_not_see_each_other(tmp_path: Path) -> None:
    spaces = [VectorSpace("feed", 12), VectorSpace("beef", 12), VectorSpace("feed", 13)]
    stores = [VectorStore(tmp_path, space) for space in spaces]
    for number, (store, space) in enumerate(zip(stores, spaces, strict=True)):
        assert store.put(hash_texts(["text 1"]), vectors([number], space.dimensions)) == 1
    assert len({store.folder for store in stores}) == 3
    assert [len(store) for store in stores] == [1, 1, 1]


@pytest.mark.parametrize(
    "other", [VectorSpace("beef", 12), VectorSpace("feed", 13)], ids=["another model", "another size"]
)
def test_a_file_that_strayed_in_from_another_space_is_never_served(tmp_path: Path, other: VectorSpace) -> None:
    stray = VectorStore(tmp_path / "other", other)
    stray.put(hash_texts(["text 1"]), vectors([1], other.dimensions))
    store = VectorStore(tmp_path, SPACE)
    put(store, [2])
    (store.folder / "000002.vec").write_bytes(files(stray)[0].read_bytes())
    assert held(store, [1, 2]) == [2]
    assert ["another space" in trouble for trouble in store.check()] == [True]
    put(store, [3])
    assert held(store, [1, 2, 3]) == [2, 3]
    store.compact()
    assert store.check() == []
    assert held(store, [1, 2, 3]) == [2, 3]


# -- damage -------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@example(at=COUNT_AT, flipped=2)  # a count of 10 that says 8
@given(at=st.integers(0, HEADER_BYTES + 10 * RECORD_BYTES - 1), flipped=st.integers(1, 255))
def test_a_flipped_byte_anywhere_never_gives_a_wrong_vector_and_costs_at_most_its_file(at: int, flipped: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = VectorStore(Path(folder), SPACE)
        put(store, range(10))
        store.close()
        path = files(store)[0]
        raw = bytearray(path.read_bytes())
        raw[at] ^= flipped
        path.write_bytes(raw)
        left = held(store, range(10))
        if at >= HEADER_BYTES:
            assert len(left) == 9
        elif at >= COUNT_AT:
            assert len(left) == 10, "without a count, the checksums say what there is"
        put(store, range(12))
        assert held(store, range(12)) == list(range(12)), "what was lost can be put again"
        store.compact()
        assert store.check() == []
        assert held(VectorStore(Path(folder), SPACE), range(12)) == list(range(12))


@settings(max_examples=40, deadline=None)
@given(size=st.integers(0, HEADER_BYTES + 10 * RECORD_BYTES))
def test_a_file_cut_short_keeps_what_is_whole_in_it(size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = VectorStore(Path(folder), SPACE)
        put(store, range(10))
        store.close()
        os.truncate(files(store)[0], size)
        whole = max(0, size - HEADER_BYTES) // RECORD_BYTES
        assert len(held(store, range(10))) == whole
        put(store, range(12))
        assert held(VectorStore(Path(folder), SPACE), range(12)) == list(range(12))


@settings(max_examples=30, deadline=None)
@given(size=st.integers(0, 5 * RECORD_BYTES))
def test_what_a_killed_append_left_behind_the_count_is_not_there_and_is_written_over(size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = VectorStore(Path(folder), SPACE)
        put(store, range(5))
        path = files(store)[0]
        before = path.read_bytes()
        put(store, range(5, 10))
        store.close()
        path.write_bytes(before + path.read_bytes()[len(before) :][:size])
        assert held(store, range(12)) == [0, 1, 2, 3, 4]
        put(store, [10, 11])
        assert held(VectorStore(Path(folder), SPACE), range(12)) == [0, 1, 2, 3, 4, 10, 11]
        assert store.check() == []


def test_a_reader_notices_that_its_files_were_deleted_and_begun_anew(tmp_path: Path) -> None:
    reader, other = VectorStore(tmp_path, SPACE), VectorStore(tmp_path, SPACE)
    put(other, range(5))
    assert held(reader, range(10)) == [0, 1, 2, 3, 4]
    files(other)[0].unlink()
    other.close()
    put(other, range(5, 10))
    assert held(reader, range(10)) == [5, 6, 7, 8, 9]


def test_a_reader_notices_that_a_file_it_has_mapped_was_cut(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, SPACE)
    put(store, range(10))
    assert held(store, range(10)) == list(range(10))
    os.truncate(files(store)[0], HEADER_BYTES + 5 * RECORD_BYTES)
    assert held(store, range(10)) == list(range(5))


# -- size ---------------------------------------------------------------------------------------------------------


def test_what_was_used_least_recently_is_dropped_beyond_the_bound(tmp_path: Path) -> None:
    def opened(space: VectorSpace) -> VectorStore:
        return VectorStore(tmp_path, space, bytes_max=2_200, segment_bytes_max=10 * RECORD_BYTES)

    old_space, store = opened(VectorSpace("beef", 12)), opened(SPACE)
    put(old_space, range(10))
    for start in range(0, 30, 10):
        put(store, range(start, start + 10))
    for age, path in enumerate([*files(old_space), *files(store)]):
        os.utime(path, ns=(age, age))
    opened(SPACE).get(hash_texts(texts([3])))
    for start in range(30, 60, 10):
        put(store, range(start, start + 10))
    total = sum(path.stat().st_size for path in tmp_path.glob("*/*.vec"))
    assert total <= 2_200 + HEADER_BYTES + 10 * RECORD_BYTES
    assert held(store, range(60)) == [*range(10), *range(20, 60)], "the first was used again, the second was not"
    assert len(old_space) == 0
    assert put(store, [15]) == 1


def test_compacting_gives_back_what_small_files_and_damage_take(tmp_path: Path) -> None:
    for number in range(6):
        VectorStore(tmp_path, SPACE, segment_bytes_max=1).put(hash_texts(texts([number])), vectors([number]))
    store = VectorStore(tmp_path, SPACE)
    assert len(files(store)) == 6
    raw = bytearray(files(store)[2].read_bytes())
    raw[-1] ^= 1
    files(store)[2].write_bytes(raw)
    assert store.compact() > 0
    assert len(files(store)) == 1
    assert held(store, range(6)) == [0, 1, 3, 4, 5]
    assert store.compact() == 0


# -- other processes ----------------------------------------------------------------------------------------------

WRITER = """
    import sys
    from pathlib import Path
    from context_engine.semantic.vector_store import VectorStore
    from tests.semantic.test_vector_store import SPACE, put

    store = VectorStore(Path(sys.argv[1]), SPACE, segment_bytes_max=4_000)
    print("ready", flush=True)
    number, stop = int(sys.argv[2]), int(sys.argv[3])
    while number < stop:
        put(store, range(number, number + 7))
        number += 7
        if number % 5 == 0:
            store.compact()
"""


def writer(folder: Path, start: int, stop: int) -> subprocess.Popen[str]:
    return preloaded.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(WRITER), str(folder), str(start), str(stop)],
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_many_processes_write_and_read_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    reader = VectorStore(tmp_path, SPACE)
    children = [writer(tmp_path, start, start + 700) for start in (0, 350)]
    seen = 0
    while any(child.poll() is None for child in children):
        found = held(reader, range(1_050))
        assert len(found) >= seen, "what was there once stays there"
        seen = len(found)
    for child in children:
        out, err = child.communicate()
        assert (child.returncode, err) == (0, ""), out
    assert held(reader, range(1_050)) == list(range(1_050))
    assert reader.check() == []


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_writer_killed_at_any_moment_leaves_whole_puts_behind(tmp_path: Path) -> None:
    start = 0
    for kill in range(3):
        child = writer(tmp_path, start, start + 100_000)
        assert child.stdout is not None
        child.stdout.readline()
        reader = VectorStore(tmp_path, SPACE)
        while len(reader) < (kill + 1) * 40 + kill * 7:
            assert child.poll() is None
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        found = held(VectorStore(tmp_path, SPACE), range(start, start + 100 * 7 * 20))
        assert len(found) % 7 == 0, "a put is there as a whole or not at all"
        assert found == list(range(start, start + len(found)))
        assert VectorStore(tmp_path, SPACE).check() == []
        start += 100_000
    assert put(VectorStore(tmp_path, SPACE), [1]) in (0, 1)


def test_rows_of_another_store_are_kept_as_they_are(tmp_path: Path) -> None:
    """Made anew out of their floats they could differ by a step, and two machines would rank differently."""
    rows = VectorRows(np.arange(-50, 46, dtype=np.int8).reshape(8, 12), np.linspace(0, 3, 8, dtype=np.float32))
    assert (quantize(rows.floats()).values != rows.values).any()
    store, keys = VectorStore(tmp_path, SPACE), hash_texts(texts(range(8)))
    assert (store.put_rows(keys, rows), store.put_rows(keys, rows)) == (8, 0)
    kept, found = store.get(keys)
    assert found.all()
    assert (kept.values.tobytes(), kept.scales.tobytes()) == (rows.values.tobytes(), rows.scales.tobytes())


def test_rows_of_another_store_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, SPACE)
    for values, scale in ((np.zeros((1, 11), np.int8), 1.0), (np.zeros((1, 12), np.int8), np.inf)):
        with pytest.raises(InvalidVectors):
            store.put_rows(hash_texts(["one"]), VectorRows(values, np.array([scale], np.float32)))
    assert len(store) == 0
