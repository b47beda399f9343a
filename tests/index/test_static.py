"""Static vectors lie beside what they stand for: the same however they came there, of one kind throughout, or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.embedder import normalize_rows
from context_engine.embedding.static_embedder import StaticEmbedder
from context_engine.embedding.vector_rows import VectorRows
from context_engine.errors import StorageCorrupt
from context_engine.index import segment as segments
from context_engine.index.build import IndexBuilder
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.embedding_text import ChunkLocation, build_chunk_texts, build_file_summary, summary_names
from context_engine.index.encoder import CHUNK_HEADS, WIDTH, StaticEncoder
from context_engine.index.segment import Segment, StaticVectors, decode_outline
from context_engine.index.snapshot import Snapshot
from context_engine.index.worker import WorkerPool
from context_engine.languages import read_file_header
from tests.support.engines import GRAMMARS, LANGUAGES, grammars_folder, indexed, segment_of, snapshot_of
from tests.support.trees import tree
from training.pack import pack_table

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "get", "file", "py", "def", "a", "b", "c", "d", "return", "retry", "zoo"]
DIMENSIONS = 8
FILES = {
    "src/pool.py": '"""Keeps connections."""\n\n\nclass Pool:\n    def acquire(self, url):\n        return url\n',
    "src/größe.js": "// mißt\nexport function messe(länge) { return länge + 1 }\n",
    "docs/guide.md": "---\ntags: [help]\n---\n# Guide\n\nHow to begin.\n\n## Next\n\nMore of it.\n",
    "empty.py": "",
    "data.json": '{"name": "x"}\n',
}


def table(path: Path, seed: int, dimensions: int = DIMENSIONS) -> Path:
    """A table of a few words; other seeds give other vectors."""
    rows = np.random.default_rng(seed).normal(size=(len(PIECES), dimensions))
    path.write_bytes(pack_table(PIECES, rows, {"seed": seed}))
    return path


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> StaticEncoder:
    return StaticEncoder(table(tmp_path_factory.mktemp("table") / "toy.table", 1))


sources = st.lists(
    st.tuples(
        st.sampled_from(["a.py", "src/b.py", "c/d.txt", "zoo.md"]),
        st.lists(st.sampled_from(["def get(a):\n    return a\n", "# retry the file\n", "zoo\n"]), max_size=3).map(
            "".join
        ),
    ),
    unique_by=lambda file: file[0],
    max_size=4,
)


def built(files: list[tuple[str, str]], encoder: StaticEncoder | None) -> Segment:
    return segment_of(dict(files), encoder)


def held(vectors: StaticVectors | None) -> object:
    """Everything in them, as values that can be compared."""
    if vectors is None:
        return None
    return vectors.identity, *(
        (rows.values.shape, rows.values.tobytes(), rows.scales.tobytes()) for rows in (vectors.chunk, vectors.summary)
    )


def keys(segment: Segment) -> bytes:
    return segment.chunk["key"].tobytes()


# -- in a segment -------------------------------------------------------------------------------------------------


@given(sources, st.data())
def test_merged_segments_hold_keys_and_vectors_of_the_living_in_their_order(
    toy: StaticEncoder, files: list[tuple[str, str]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(files)))
    lives = data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files)))
    parts = [built(files[:at], toy), built(files[at:], toy)]
    merged = segments.merge(parts, [np.array(lives[:at], bool), np.array(lives[at:], bool)])
    again = built([file for file, alive in zip(files, lives, strict=True) if alive], toy)
    assert keys(merged) == keys(again)
    if files:
        assert held(merged.static) == held(again.static)


kinds = st.lists(st.sampled_from(["", "one", "other", "no files"]), min_size=1, max_size=4)


def of_kind(kind: str) -> Segment:
    """A segment of one file with vectors of a kind, or of no file at all."""
    whole = built([] if kind == "no files" else [("a.py", "def get(): ...\n")], None)
    if kind in ("", "no files"):
        return whole
    rows = VectorRows(np.ones((1, 4), np.int8), np.ones(1, np.float32))
    return segments.replace(whole, static=StaticVectors(kind, rows, rows))


@given(kinds)
def test_vectors_of_two_kinds_or_of_a_part_only_are_as_good_as_none(kinds: list[str]) -> None:
    told = {kind for kind in kinds if kind != "no files"}
    parts = [of_kind(kind) for kind in kinds]
    merged = segments.merge(parts, [np.ones(part.files, bool) for part in parts])
    seen = Snapshot(
        parts, [[]] * len(parts), [np.zeros(part.files) for part in parts], generation="g", epoch=1
    ).static()
    kind = told.pop() if len(told) == 1 else ""
    assert (merged.static.identity if merged.static else "") == kind
    assert (seen.identity if seen else "") == kind


@given(sources, st.booleans())
def test_a_segment_comes_back_from_the_disk_with_its_keys_and_vectors(
    tmp_path_factory: pytest.TempPathFactory, toy: StaticEncoder, files: list[tuple[str, str]], with_vectors: bool
) -> None:
    made = built(files, toy if with_vectors else None)
    if made.chunks:
        made.chunk["key"] = np.frombuffer(b"\0" * 15 + b"x" + b"y" + b"\0" * 15, "S16")[np.arange(made.chunks) % 2]
    path = tmp_path_factory.mktemp("segments") / "1.seg"
    segments.write(made, path)
    loaded = segments.load(path)
    assert keys(loaded) == keys(made)
    assert held(loaded.static) == held(made.static)
    assert (loaded.static is not None) == with_vectors


@given(sources, st.data())
def test_a_snapshot_shows_the_rows_of_all_segments_where_they_lie(
    toy: StaticEncoder, files: list[tuple[str, str]], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(files)), max_size=3)))
    parts = [built(files[a:b], toy) for a, b in pairwise([0, *cuts, len(files)])]
    whole = built(files, toy).static
    shown = Snapshot(parts, [], [], generation="g", epoch=1).static()
    assert (shown is not None) == bool(files)
    if shown is None or whole is None:
        return
    for name, chosen in (("chunk", shown.chunk), ("summary", shown.summary)):
        rows = getattr(whole, name)
        assert [base for _, base in chosen] == np.cumsum([0, *(len(part) for part, _ in chosen)])[:-1].tolist()
        assert b"".join(part.values.tobytes() for part, _ in chosen) == rows.values.tobytes()
        assert any(
            part.values is getattr(each.static, name).values for part, _ in chosen for each in parts if each.static
        )
    assert shown.width == DIMENSIONS


# -- the encoder --------------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from(["get", "file", "retry", "zoo"]), max_size=4).map(" ".join), st.sampled_from([2, 6, 8, 12])
)
def test_a_narrower_vector_is_the_beginning_of_the_whole_one_made_long_again(
    tmp_path_factory: pytest.TempPathFactory, toy: StaticEncoder, text: str, width: int
) -> None:
    narrow = StaticEncoder(table(tmp_path_factory.mktemp("narrow") / "t", 1), width=width)
    whole, cut = toy.query(text), narrow.query(text)
    assert whole is not None and cut is not None
    assert np.allclose(cut, normalize_rows(whole[None, :width])[0], atol=1e-6)
    row = narrow.rows([text])
    assert np.allclose(row.floats()[0], cut, atol=1 / 127)
    assert row.values.shape == (1, min(width, DIMENSIONS))


@pytest.mark.parametrize("damage", ["a bit of a row", "the header", "its end", "all of it"])
def test_a_table_that_cannot_be_used_is_named_and_nobody_fails(tmp_path: Path, damage: str) -> None:
    path = table(tmp_path / "broken.table", 1)
    data = bytearray(path.read_bytes())
    data[{"a bit of a row": -3, "the header": 14}.get(damage, 0)] ^= 1
    path.write_bytes(data[:-4] if damage == "its end" else data)
    if damage == "all of it":
        path.unlink()
    encoder = StaticEncoder(path)
    assert not encoder.open()
    assert (encoder.identity, encoder.query("get")) == ("", None)
    assert "broken.table" in encoder.problem
    with pytest.raises(StorageCorrupt, match=r"broken\.table"):
        encoder.rows(["get"])


# -- in an index --------------------------------------------------------------------------------------------------


def texts_of(root: Path, snapshot: Snapshot, heads: int) -> tuple[list[str], list[str]]:
    """What is embedded of all chunks and of all files, from the files as they are."""
    chunks, cards = [], []
    columns = [snapshot.chunk_column(name).tolist() for name in ("start", "stop", "symbol")]
    for number, path in enumerate(snapshot.paths):
        data = (root / path).read_bytes()
        outline = decode_outline(snapshot.heap("outline", number))
        language = LANGUAGES.detect(path, data)
        assert language is not None
        first, after = snapshot.chunk_starts[number : number + 2].tolist()
        placed = [ChunkLocation(*(column[chunk] for column in columns)) for chunk in range(first, after)]
        chunks += [capsule.text(heads) for capsule in build_chunk_texts(path, data, outline, placed)]
        cards.append(build_file_summary(path, read_file_header(language, data), summary_names(outline)))
    return chunks, cards


def hashed(texts: list[str]) -> bytes:
    return b"".join(hashlib.sha256(text.encode()).digest()[:16] for text in texts)


@pytest.mark.parametrize("embedder", ["static", "none"])
def test_each_chunk_has_the_key_of_what_is_embedded_of_it(tmp_path: Path, embedder: str) -> None:
    root = tree(tmp_path / "w", FILES)
    with indexed(root, embedder=embedder) as engine:
        snapshot = snapshot_of(engine)
        chunks, _ = texts_of(root, snapshot, heads=1)
        assert snapshot.chunk_column("key").tobytes() == hashed(chunks)
        assert any("größe" in text for text in chunks)
        assert (snapshot.static() is None) == (embedder == "none")


def test_each_chunk_and_each_file_has_the_vector_of_its_text(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", FILES)
    with indexed(root, embedder="static") as engine:
        snapshot = snapshot_of(engine)
        parts = snapshot.static()
        assert parts is not None
        chunks, cards = texts_of(root, snapshot, CHUNK_HEADS)
        for texts, found in ((chunks, parts.chunk), (cards, parts.summary)):
            wanted = normalize_rows(StaticEmbedder().embed(texts, "passage")[:, :WIDTH])
            rows = np.concatenate([rows.floats() for rows, _ in found])
            assert np.abs(rows - wanted).max() <= np.abs(wanted).max() / 127


# -- of one kind throughout ---------------------------------------------------------------------------------------


class Kept:
    """A store and a builder on a workspace; `turn` hands it another encoder, as a new version of this package does."""

    def __init__(self, folder: Path, root: Path, encoder: StaticEncoder | None) -> None:
        self.root, self.store = root, EmbeddedStore(folder / "store")
        self._pool = WorkerPool(0, grammars_folder=str(grammars_folder()), root="")
        self.turn(encoder)

    def turn(self, encoder: StaticEncoder | None) -> None:
        self.builder = IndexBuilder(
            self.root, self.store, LANGUAGES, GRAMMARS, self._pool, bytes_max=1_000_000, encoder=encoder
        )

    def snapshot(self) -> Snapshot:
        snapshot = self.store.snapshot()
        assert snapshot is not None
        return snapshot

    def identity(self) -> str:
        parts = self.snapshot().static()
        return parts.identity if parts else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()


@pytest.fixture
def kept(tmp_path: Path, toy: StaticEncoder) -> Iterator[Kept]:
    """An index with the vectors of `toy`."""
    with Kept(tmp_path, tree(tmp_path / "w", {"a.py": "def get(): ...\n", "b/c.py": "zoo = 1\n"}), toy) as kept:
        kept.builder.index_workspace()
        yield kept


def test_other_vectors_are_made_beside_while_the_old_ones_serve(kept: Kept, toy: StaticEncoder, tmp_path: Path) -> None:
    other = StaticEncoder(table(tmp_path / "other", 2))
    kept.turn(other)
    seen = []
    report = kept.builder.index_workspace(progress=lambda step: seen.append((step.stage, kept.identity())))
    assert {identity for stage, identity in seen if stage in ("indexing", "finishing")} == {toy.identity}
    assert kept.identity() == other.identity
    assert kept.snapshot().generation == "g-000002"
    assert (report.files, kept.store.check()) == (2, [])


@pytest.mark.parametrize("way", ["update_paths", "under"])
def test_an_edit_taken_in_by_another_version_has_no_vectors_until_all_are_made_anew(
    kept: Kept, tmp_path: Path, way: str
) -> None:
    other = StaticEncoder(table(tmp_path / "other", 2))
    kept.turn(other)
    (kept.root / "b/c.py").write_text("def retry(): ...\n", encoding="utf-8")
    if way == "under":
        kept.builder.index_workspace(under="b")
    else:
        kept.builder.index_paths(["b/c.py"])
    assert kept.snapshot().generation == "g-000001"
    assert kept.identity() == ""
    assert sorted(kept.snapshot().by_path) == ["a.py", "b/c.py"]
    kept.builder.index_workspace()
    assert kept.identity() == other.identity


def test_an_index_without_vectors_gains_them_and_never_is_built_anew_to_lose_them(
    tmp_path: Path, toy: StaticEncoder
) -> None:
    with Kept(tmp_path, tree(tmp_path / "w", {"a.py": "def get(): ...\n"}), None) as kept:
        kept.builder.index_workspace()
        assert kept.identity() == ""
        kept.turn(toy)
        kept.builder.index_workspace()
        assert (kept.identity(), kept.snapshot().generation) == (toy.identity, "g-000002")
        kept.turn(None)
        kept.builder.index_workspace()
        assert (kept.identity(), kept.snapshot().generation) == (toy.identity, "g-000002")
        (kept.root / "b.py").write_text("zoo = 1\n", encoding="utf-8")
        kept.builder.index_workspace()
        assert (kept.identity(), kept.snapshot().generation) == ("", "g-000002")
