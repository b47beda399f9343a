"""The postings of a segment are what counting words file by file would give."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from context_engine.index import segment as segments
from context_engine.index.chunking import ChunkSpan
from context_engine.index.embedding_text import ChunkEmbeddingText
from context_engine.index.postings import LESSER_WEIGHT, IndexedFile, SegmentBuilder
from context_engine.index.segment import CHUNK_FIELDS, FILE_FIELDS, LENGTH_FIELDS, Segment, term_hashes
from context_engine.index.snapshot import Snapshot
from context_engine.text.words import compound_term, expand_words, split_identifier, split_words

WORDS = ["pool", "getUser", "get_user", "users", "x1", "Zoo"]
texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)


@st.composite
def indexed_files(draw: st.DrawFn) -> list[IndexedFile]:
    paths = draw(st.lists(st.sampled_from(["a.py", "src/getUser.py", "src/zoo/pool.x.ts", ".env"]), unique=True))
    return [draw(a_file(path)) for path in paths]


@st.composite
def a_file(draw: st.DrawFn, path: str) -> IndexedFile:
    bodies = draw(st.lists(texts, min_size=1, max_size=3))
    text = "\n".join(bodies)
    pieces, start = [], 0
    for line, body in enumerate(bodies, 1):
        pieces.append(ChunkSpan(line, line, start, start + len(body), "definitions", -1))
        start += len(body) + 1
    lines = st.integers(1, len(bodies))
    return IndexedFile(
        path=path,
        language=draw(st.sampled_from(["python", "text"])),
        role=draw(st.integers(0, 2)),
        size=len(text),
        mtime_ns=7,
        sha256=path.encode(),
        outline=b"",
        text=text,
        chunks=pieces,
        spans=[(piece.start, piece.stop) for piece in pieces],
        names=sorted(draw(st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from([2, 6, 10]), lines), max_size=3))),
        headings=draw(st.lists(st.sampled_from(WORDS), max_size=2)),
        doc=draw(texts),
        tags=draw(st.lists(st.sampled_from(["auth", "web api"]), unique=True)),
        chunk_tags=draw(st.dictionaries(st.integers(0, len(bodies) - 1), st.just(["inline"]), max_size=2)),
        chunk_texts=[ChunkEmbeddingText(path, body) for body in bodies],
        summary=draw(texts),
    )


def built(files: list[IndexedFile]) -> Segment:
    builder = SegmentBuilder()
    for file in files:
        builder.add(file)
    return builder.build()


Counts = dict[str, dict[int, int]]


def by_hand(files: list[IndexedFile]) -> tuple[dict[str, Counts], dict[str, list[int]]]:
    """Field -> term -> document -> count, and field -> length of each document, with dictionaries only."""
    counts: dict[str, Counts] = {name: defaultdict(dict) for name in (*CHUNK_FIELDS, *FILE_FIELDS)}
    lengths: dict[str, list[int]] = {name: [] for name in ("body", *LENGTH_FIELDS)}

    def document(field: str, number: int, held: list[str]) -> None:
        found = Counter(term for terms in expand_words(held) for term in terms)
        for term, count in found.items():
            counts[field][term][number] = count
        lengths[field].append(found.total())

    chunk = 0
    for number, file in enumerate(files):
        document("path", number, split_words(file.path))
        strong = [name for name, weight, _ in file.names if weight > LESSER_WEIGHT]
        document("def", number, [*strong, *file.headings])
        document("doc", number, split_words(file.doc))
        stem = file.path.rpartition("/")[2]
        stem = stem.partition(".")[0] or stem
        parts = {part for word in split_words(stem) for part in split_identifier(word)}
        for part in parts:
            counts["stem"][part][number] = 1
        lengths["stem"].append(len(parts))
        for index, piece in enumerate(file.chunks):
            document("body", chunk, split_words(file.text[piece.start : piece.stop]))
            for tag in (*file.tags, *file.chunk_tags.get(index, ())):
                counts["tag"][tag][chunk] = 1
            for name, weight, line in file.names:
                if line == piece.first:
                    held = counts["symbol"][compound_term(name)]
                    held[chunk] = max(weight, held.get(chunk, 0))
            chunk += 1
    return counts, lengths


def read_back(segment: Segment, field: str, known: list[str]) -> Counts:
    """A field's postings by term, spelled with the words that are known."""
    spelled = dict(zip(term_hashes(known).tolist(), known, strict=True))
    postings = segment.fields[field]
    assert postings.hashes.tolist() == sorted(set(postings.hashes.tolist()))
    bounds = postings.indptr.tolist()
    return {
        spelled[key]: dict(zip(postings.ids[a:b].tolist(), postings.counts[a:b].tolist(), strict=True))
        for key, a, b in zip(postings.hashes.tolist(), bounds, bounds[1:], strict=False)
    }


def all_terms() -> list[str]:
    spelled = [*WORDS, "a", "py", "src", "ts", "x", "env", "zoo", "auth", "web api", "inline", ".env"]
    return sorted(
        {
            term
            for word in spelled
            for term in (word, *expand_words([word])[0], *split_identifier(word), compound_term(word))
        }
    )


@given(indexed_files())
def test_postings_equal_counting_by_hand(files: list[IndexedFile]) -> None:
    segment = built(files)
    counts, lengths = by_hand(files)
    for field in (*CHUNK_FIELDS, *FILE_FIELDS):
        assert read_back(segment, field, all_terms()) == counts[field], field
    assert segment.chunk["length"].tolist() == lengths["body"]
    for field in LENGTH_FIELDS:
        assert segment.lengths[field].tolist() == lengths[field], field


@given(indexed_files(), st.data())
def test_merged_segments_equal_one_built_of_the_living(files: list[IndexedFile], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(files)))
    lives = data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files)))
    parts = [built(files[:at]), built(files[at:])]
    merged = segments.merge(parts, [np.array(lives[:at], bool), np.array(lives[at:], bool)])
    living = [file for file, alive in zip(files, lives, strict=True) if alive]
    again = built(living)
    for field in (*CHUNK_FIELDS, *FILE_FIELDS):
        assert read_back(merged, field, all_terms()) == read_back(again, field, all_terms()), field
        assert sorted(merged.fields[field].names.texts()) == sorted(again.fields[field].names.texts())
    assert merged.heaps["path"].texts() == again.heaps["path"].texts()
    for name, column in again.chunk.items():
        assert merged.chunk[name].tolist() == column.tolist(), name
    for name in ("size", "mtime_ns", "role"):
        assert merged.file[name].tolist() == again.file[name].tolist()
    spoken = [[s.languages[code] for code in s.file["language"].tolist()] for s in (merged, again)]
    assert spoken[0] == spoken[1]


@given(indexed_files(), st.data())
def test_a_snapshot_of_several_segments_answers_like_one(files: list[IndexedFile], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(files)))
    dead = data.draw(st.sets(st.integers(0, max(0, len(files) - 1)), max_size=len(files)))
    zeros = [np.zeros(at, np.float32), np.zeros(len(files) - at, np.float32)]
    gone = [[n for n in dead if n < at], [n - at for n in dead if at <= n < len(files)]]
    several = Snapshot([built(files[:at]), built(files[at:])], gone, zeros, generation="g", epoch=1)
    living = [file for number, file in enumerate(files) if number not in dead]
    one = Snapshot([built(living)], [[]], [np.zeros(len(living), np.float32)], generation="g", epoch=1)
    hashes = term_hashes(all_terms())
    for field in (*CHUNK_FIELDS, *FILE_FIELDS):
        assert told(several, field, hashes) == told(one, field, hashes), field
    assert (several.living_files, several.living_chunks, several.symbols) == (
        one.living_files,
        one.living_chunks,
        one.symbols,
    )
    assert set(several.by_path) == set(one.by_path) == {file.path for file in living}


def test_a_document_behind_a_large_segment_keeps_its_number() -> None:
    """Its own segment counts it in a byte, in which the number of the first document there has no room."""
    parts = [built([named(f"d{number}/zoo.py") for number in numbers]) for numbers in (range(300), range(300, 310))]
    zeros = [np.zeros(part.files, np.float32) for part in parts]
    snapshot = Snapshot(parts, [[], []], zeros, generation="g", epoch=1)
    assert snapshot.matches("path", term_hashes(["zoo"])).docs.tolist() == list(range(310))
    merged = segments.merge(parts, [np.ones(part.files, bool) for part in parts])
    assert merged.fields["path"].ids.max() == 309


def named(path: str) -> IndexedFile:
    """A file without content."""
    return IndexedFile(path, "python", 0, 1, 1, b"x" * 32, b"", "", (), (), (), [], "", (), {}, (), "")


def told(snapshot: Snapshot, field: str, hashes: np.ndarray) -> object:
    """Postings with documents named by path and place, and the frequency of each term."""
    found = snapshot.matches(field, hashes)
    rows = []
    for doc, count, term in zip(found.docs.tolist(), found.counts.tolist(), found.terms.tolist(), strict=True):
        file = int(snapshot.chunk_file[doc]) if field in CHUNK_FIELDS else doc
        place = doc - int(snapshot.chunk_starts[file]) if field in CHUNK_FIELDS else 0
        rows.append((term, snapshot.paths[file], place, count))
    return sorted(rows), found.frequency.tolist()


def test_an_empty_segment_can_be_searched(tmp_path: Path) -> None:
    segments.write(built([]), tmp_path / "1.seg")
    empty = segments.load(tmp_path / "1.seg")
    assert (empty.files, empty.chunks) == (0, 0)
    assert empty.fields["body"].find(term_hashes(["x"])).tolist() == [-1]


def test_every_byte_of_a_large_segment_is_compared_on_request(tmp_path: Path) -> None:
    """When one is opened only its header is: a flip in the middle would rank wrongly for ever."""
    path = tmp_path / "1.seg"
    file = IndexedFile("a.py", "python", 0, 1, 1, b"x" * 32, b"", "", (), (), (), ["zoo"] * 9, "", (), {}, (), "")
    segments.write(built([file]), path)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"x" * 32)] ^= 1
    path.write_bytes(content)
    assert segments.load(path, bytes_checked_max=0).files == 1
    assert "damaged" in segments.find_damage(path)
