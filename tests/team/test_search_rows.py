"""Rows that a database searches: the rows of all files are the segment again, and each row of a term is true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import StorageCorrupt
from context_engine.index.segment import CHUNK_FIELDS, FILE_FIELDS, Segment, term_hashes
from context_engine.index.snapshot import Snapshot
from context_engine.team.search_rows import COUNTED_FIELDS, join_files, split_files, split_terms
from tests.support.engines import segment_of

WORDS = ("lion", "tiger", "close_session", "Pool", "retry", "test")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(
    lambda words: "".join(
        f"def {word}_{number}():\n    return {word}  # {word}\n\n\n" for number, word in enumerate(words)
    )
)
PATHS = st.sampled_from(["src/{}.py", "src/web/{}.py", "docs/{}.md", "{}.json"])


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    count = draw(st.integers(1, 5))
    return segment_of({draw(PATHS).format(f"file{number}"): draw(TEXTS) for number in range(count)})


def snapshot_of(segment: Segment) -> Snapshot:
    return Snapshot([segment], [()], [np.zeros(segment.files)], generation="g", epoch=0)


@given(segments())
def test_the_rows_of_all_files_are_the_segment_again(segment: Segment) -> None:
    hashes = np.unique(np.concatenate([segment.fields[name].hashes for name in CHUNK_FIELDS + FILE_FIELDS]))
    joined = join_files([row.payload for row in split_files(segment)], hashes)
    before, after = snapshot_of(segment), snapshot_of(joined)
    assert joined.chunk_starts.tolist() == segment.chunk_starts.tolist()
    for part, columns in (("file", segment.file), ("chunk", segment.chunk), ("lengths", segment.lengths)):
        for name in columns:
            assert getattr(joined, part)[name].tobytes() == columns[name].tobytes(), name
    assert [list(heap) for heap in joined.heaps.values()] == [list(segment.heaps[name]) for name in joined.heaps]
    for name in CHUNK_FIELDS + FILE_FIELDS:
        expected, found = before.matches(name, hashes), after.matches(name, hashes)
        for column in ("docs", "counts", "terms", "frequency"):
            assert getattr(found, column).tolist() == getattr(expected, column).tolist(), (name, column)
    for name in ("stem", "tag"):
        assert after.names(name) == before.names(name)


@given(segments(), st.sampled_from(WORDS))
def test_a_row_of_a_term_names_the_files_that_have_it_and_counts_its_documents(segment: Segment, word: str) -> None:
    hashed = term_hashes([word])
    whole, owners = snapshot_of(segment), segment.chunk_files()
    rows = [row for row in split_terms(segment) if row.hash == hashed.view(np.int64)[0]]
    for place, name in enumerate(COUNTED_FIELDS):
        found = whole.matches(name, hashed)
        files = sorted({int(owners[doc]) for doc in found.docs} if name in CHUNK_FIELDS else set(found.docs.tolist()))
        assert [row.frequency[place] for row in rows] in ([found.frequency[0]], []), name
        assert [(row.files, *row.listed)[place] for row in rows] in ([files], []), name
        assert rows or not files
    for row in rows:
        assert row.frequency[-1] == len(row.files) == len(row.impacts)
        assert all(0 < impact < 4_001 for impact in row.impacts)


@given(segments(), st.data())
def test_rows_have_only_the_postings_of_the_terms_that_are_asked_for(segment: Segment, data: st.DataObject) -> None:
    hashes = data.draw(st.sets(st.sampled_from(segment.fields["body"].hashes.tolist())))
    wanted = np.array(sorted(hashes), np.uint64)
    joined = join_files([row.payload for row in split_files(segment)], wanted)
    whole, some = snapshot_of(segment).matches("body", wanted), snapshot_of(joined).matches("body", wanted)
    assert (some.docs.tolist(), some.counts.tolist()) == (whole.docs.tolist(), whole.counts.tolist())
    assert len(joined.fields["body"].ids) == len(some.docs)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x93\x01\x02\x03"])
def test_a_damaged_row_is_an_error_of_the_store(payload: bytes) -> None:
    with pytest.raises(StorageCorrupt):
        join_files([payload], term_hashes(["lion"]))


def test_no_files_are_an_empty_segment() -> None:
    empty = snapshot_of(join_files([], term_hashes(["lion"])))
    assert (empty.files, empty.chunks, empty.matches("body", term_hashes(["lion"])).docs.tolist()) == (0, 0, [])
