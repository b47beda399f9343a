"""Chunk files come in from any indexer and go out to any: whole or not at all, and while they change the old ones serve."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.engine import Engine
from context_engine.errors import FileNotFound, InvalidVectors
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.model import CHUNK_KINDS, ChunkKind, Skipped
from context_engine.repo.workspace_files import WorkspaceFile
from context_engine.search.chunk_export import collect_chunks, write_chunk_files
from context_engine.search.chunk_files import (
    FILES,
    ChunkRow,
    ChunkSet,
    format_chunk_file,
    parse_chunk_file,
    read_folder,
)
from context_engine.search.rankers import RankingView
from context_engine.search.semantic_scores import compute_cosines
from context_engine.search.served_chunks import ServedChunks
from tests.support.engines import indexed
from tests.support.trees import tree
from tests.support.waiting import until

QUIET_MS = 60
HALF_STEP = 0.5 / 127 + 1e-6
"""What a number of at most 1 may lose as one byte."""
SEED_CHUNK: dict[str, Any] = {
    "id": "code-symbols-internal-auth-handler-go",
    "chunk_type": "symbols",
    "title": "internal/auth/handler.go symbols",
    "text": "Package: auth\n\nTypes:\n  - AuthHandler (struct) (lines 10-15)\n",
    "tags": ["code", "Go", "symbols"],
    "metadata": {"source": "code", "file_path": "internal/auth/handler.go", "imports_count": 5},
    "created_at": "2025-10-16T12:35:00Z",
    "updated_at": "2025-10-16T12:35:00Z",
}
"""The example of seed 004, with a capital in a tag."""


def taken(kind: ChunkKind, content: Any) -> ChunkSet:
    file = parse_chunk_file(kind, content if isinstance(content, bytes) else json.dumps(content).encode())
    assert isinstance(file, ChunkSet), file
    return file


def refused(content: Any) -> Skipped:
    file = parse_chunk_file("data", content if isinstance(content, bytes) else json.dumps(content).encode())
    assert isinstance(file, Skipped)
    assert (file.path, file.reason) == ("code-data.json", "malformed")
    return file


def chunk(number: int, *embedding: float, **more: Any) -> dict[str, Any]:
    return {"id": f"c{number}", "text": f"text {number}", **({"embedding": embedding} if embedding else {}), **more}


def write(folder: Path, name: str, content: Any) -> None:
    (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def ids(chunks: ChunkSet) -> list[str]:
    return [row.id for row in chunks.rows]


# -- one file -----------------------------------------------------------------------------------------------------


def test_the_example_of_the_seed_is_read_as_it_stands() -> None:
    (row,) = taken("symbols", [SEED_CHUNK | {"embedding": [3.0, 4.0]}]).rows
    assert (row.id, row.kind, row.title, row.text) == tuple(
        SEED_CHUNK[k] for k in ("id", "chunk_type", "title", "text")
    )
    assert row.tags == ("code", "go", "symbols")
    assert row.metadata == SEED_CHUNK["metadata"]
    assert row.created_at == row.updated_at == "2025-10-16T12:35:00Z"


def test_a_list_and_an_object_with_a_head_are_both_read() -> None:
    bare = taken("data", [chunk(1, 1.0, 0.0)])
    headed = taken("data", {"_metadata": {"model": "m", "dimensions": 2, "new": []}, "chunks": [chunk(1, 1.0, 0.0)]})
    assert bare.rows == headed.rows
    assert (bare.model, headed.model) == ("", "m")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[",
        b"<html>",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"chunks": 3}',
        b"{}",
        b"null",
        [{"text": "no id"}],
        [{"id": "no text"}],
        [chunk(1, chunk_type="poem")],
        [chunk(1, tags="auth")],
        [chunk(1) | {"embedding": "abc"}],
        [chunk(1) | {"embedding": [0.1, "x"]}],
        [chunk(1) | {"embedding": [0.1, None]}],
        b'[{"id": "a", "text": "b", "embedding": [NaN]}]',
        b'[{"id": "a", "text": "b", "embedding": [1e999]}]',
        [chunk(1, 1e200, 1.0)],
    ],
)
def test_a_malformed_file_is_skipped_with_a_reason(content: Any) -> None:
    assert refused(content).detail


@given(st.binary(max_size=60) | st.text(max_size=40).map(lambda text: f"[{text}]".encode("utf-8", "replace")))
def test_whatever_bytes_a_file_holds_they_are_taken_or_skipped(data: bytes) -> None:
    assert isinstance(parse_chunk_file("data", data), ChunkSet | Skipped)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ROW = st.builds(
    ChunkRow,
    id=TEXT,
    kind=st.sampled_from(CHUNK_KINDS),
    title=TEXT,
    text=TEXT,
    tags=st.sets(TEXT.map(str.lower), max_size=3).map(lambda tags: tuple(sorted(tags))),
    metadata=st.dictionaries(TEXT, TEXT | st.integers(-9, 9) | st.none() | st.lists(TEXT, max_size=2), max_size=3),
    created_at=TEXT,
    updated_at=TEXT,
)


@given(st.sampled_from(CHUNK_KINDS), st.lists(ROW, max_size=4), st.integers(1, 5), st.data())
def test_what_is_written_is_read_back(kind: ChunkKind, rows: list[ChunkRow], size: int, drawn: st.DataObject) -> None:
    rows = [row if {tag.lower() for tag in row.tags} == {*row.tags} else ChunkRow(row.id, kind, "", "") for row in rows]
    raw = drawn.draw(
        st.lists(st.lists(st.integers(-3, 3), min_size=size, max_size=size), min_size=len(rows), max_size=len(rows))
    )
    lengths = np.linalg.norm(np.array(raw, float).reshape(len(rows), size), axis=1, keepdims=True)
    vectors = (np.array(raw, float).reshape(len(rows), size) / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    data = format_chunk_file(kind, rows, vectors, model="m", fingerprint="0f", generated="2026-01-01T00:00:00Z")
    stated = [chunk.get("embedding", [0.0] * size) for chunk in json.loads(data)["chunks"]]
    assert np.abs(np.array(stated).reshape(vectors.shape) - vectors).max(initial=0) < 1e-6
    file = taken(kind, data)
    assert list(file.rows) == rows
    assert (file.model, file.fingerprint) == ("m", "0f")
    if vectors.any():
        assert np.abs(file.vectors.floats() - vectors).max() < HALF_STEP
    else:
        assert file.dimensions == 0
    assert list(taken(kind, format_chunk_file(kind, rows)).rows) == rows


# -- a folder -----------------------------------------------------------------------------------------------------


def folder_of(root: Path, *, size: int = 2, model: str = "m") -> Path:
    root.mkdir(exist_ok=True)
    for number, (kind, name) in enumerate(FILES.items()):
        vector = [0.0] * size
        vector[number % size] = 1.0
        write(root, name, {"_metadata": {"model": model}, "chunks": [chunk(number, *vector, chunk_type=kind)]})
    return root


def test_four_files_become_one_set_that_can_be_searched(tmp_path: Path) -> None:
    chunks = read_folder(folder_of(tmp_path))
    assert chunks.files == ("doc-chunks.json", "code-symbols.json", "code-definitions.json", "code-data.json")
    assert [row.kind for row in chunks.rows] == list(FILES)
    assert chunks.embedded.all()
    assert compute_cosines(chunks.vectors, np.array([0, 1], np.float32)).tolist() == [0, 1, 0, 1]
    assert chunks.skipped == ()


def test_a_missing_folder_is_an_error_and_a_missing_file_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFound, match="no folder"):
        read_folder(tmp_path / "nowhere")
    write(tmp_path, "code-data.json", [chunk(1)])
    with pytest.raises(FileNotFound):
        read_folder(tmp_path / "code-data.json")
    chunks = read_folder(tmp_path)
    assert (chunks.files, chunks.skipped, chunks.dimensions) == (("code-data.json",), (), 0)


def test_a_file_that_is_too_large_or_leads_elsewhere_is_left_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps([chunk(9)]))
    folder = folder_of(tmp_path / "chunks")
    (folder / "doc-chunks.json").unlink()
    (folder / "doc-chunks.json").symlink_to(outside)
    write(folder, "code-data.json", [chunk(1, text="x" * 3_000)])
    chunks = read_folder(folder, bytes_max=2_000)
    assert ids(chunks) == ["c1", "c2"]
    assert [each.path for each in chunks.skipped] == ["doc-chunks.json", "code-data.json"]


def test_a_file_with_vectors_of_two_sizes_is_refused_not_skipped(tmp_path: Path) -> None:
    write(folder_of(tmp_path), "code-data.json", [chunk(1, 1, 0), chunk(2, 1, 0, 0)])
    with pytest.raises(InvalidVectors, match=r"code-data\.json has vectors of 2 and, in chunk 2, of 3"):
        read_folder(tmp_path)


def test_files_without_vectors_stand_beside_files_with_them(tmp_path: Path) -> None:
    write(folder_of(tmp_path), "code-symbols.json", [chunk(1)])
    chunks = read_folder(tmp_path)
    assert chunks.embedded.tolist() == [True, False, True, True]


# -- while it changes ---------------------------------------------------------------------------------------------


PATIENT_MS = 60_000
"""The test reloads itself."""


def serving(folder: Path, told: list[str] | None = None, *, quiet_ms: int = PATIENT_MS) -> ServedChunks:
    """Serve a folder; `told` gets the sentences after the start."""
    heard: list[str] = [] if told is None else told
    served = ServedChunks(folder, lambda _: None, quiet_ms=quiet_ms, on_change=lambda _, text: heard.append(text))
    heard.clear()
    return served


def test_files_that_are_written_one_after_the_other_are_loaded_once(tmp_path: Path) -> None:
    told: list[str] = []
    with serving(folder_of(tmp_path), told, quiet_ms=250) as served:
        seen = [len(told)]
        for name in FILES.values():
            write(tmp_path, name, b'{"chunks": [')
            write(tmp_path, name, [chunk(5)])
        until(lambda: len(told) > seen[0])
        assert ids(served.chunks) == ["c5"] * 4
        assert len(told) == seen[0] + 1


def test_nothing_is_loaded_before_the_writer_has_been_quiet_for_as_long_as_asked(tmp_path: Path) -> None:
    folder_of(tmp_path)
    with serving(tmp_path) as patient, serving(tmp_path, quiet_ms=QUIET_MS) as quick:
        for number in (7, 8, 9):
            write(tmp_path, "code-data.json", [chunk(number, 0.0, 1.0)])
            until(lambda number=number: f"c{number}" in ids(quick.chunks))
        assert ids(patient.chunks) == ["c0", "c1", "c2", "c3"]


def test_files_that_did_not_change_are_neither_loaded_again_nor_told_of(tmp_path: Path) -> None:
    told: list[str] = []
    served = serving(folder_of(tmp_path), told)
    old = served.chunks
    assert served.reload()
    assert served.chunks is old
    write(tmp_path, "code-data.json", [chunk(9, 0.0, 1.0)])
    assert served.reload()
    assert told == ["chunks are loaded again: 4 in 4 files"]


def test_files_of_two_models_or_of_two_versions_of_one_are_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, model="m")
    for head, words in (({"model": "n"}, "different models: m, n"), ({"model": "m", "fingerprint": "2"}, "versions")):
        for name, stated in (("doc-chunks.json", {"model": "m", "fingerprint": "1"}), ("code-data.json", head)):
            write(tmp_path, name, {"_metadata": stated, "chunks": [chunk(1, 1.0, 0.0)]})
        with pytest.raises(InvalidVectors, match=words):
            read_folder(tmp_path)


def test_a_file_or_folder_that_goes_away_keeps_serving(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "chunks")
    served = serving(folder)
    (folder / "code-data.json").unlink()
    assert not served.reload()
    assert served.problem == "code-data.json: it is gone"
    for name in FILES.values():
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()
    assert not served.reload()
    assert "no folder" in served.problem
    assert len(served.chunks.rows) == 4


def test_chunks_in_an_ignored_folder_of_a_repository_are_followed(tmp_path: Path) -> None:
    tree(tmp_path, {".gitignore": ".cortex/\n", ".git/HEAD": "ref: refs/heads/main\n", ".cortex/": ""})
    with serving(folder_of(tmp_path / ".cortex" / "chunks"), quiet_ms=QUIET_MS) as served:
        write(tmp_path / ".cortex" / "chunks", "code-data.json", [chunk(6, 1.0, 0.0)])
        until(lambda: "c6" in ids(served.chunks))


# -- an index as chunk files --------------------------------------------------------------------------------------

SOURCES = {
    "src/pool.py": 'LIMIT = 10\nSIZE = 3\n\n\nclass Pool:\n    """Of sessions."""\n\n    def acquire(self):\n        return 1\n',
    "README.md": "# Pool\n\nKeeps #sessions open.\n",
    "config.yml": "limit: 10\nname: pool\n",
}


def source(root: Path) -> Callable[[str], WorkspaceFile | None]:
    def read(path: str) -> WorkspaceFile | None:
        place = root / path
        return (
            WorkspaceFile(place.read_bytes(), place.stat().st_size, place.stat().st_mtime_ns)
            if place.exists()
            else None
        )

    return read


def view_of(engine: Engine) -> RankingView:
    snapshot = EmbeddedStore(engine.cache_folder).snapshot()
    assert snapshot is not None
    return RankingView(snapshot)


class Lengths:
    """A stand-in embedder that can be checked by hand: the number of capitals and of other characters."""

    name, fingerprint, dimensions = "lengths", "", 2

    def embed(self, texts: Sequence[str], mode: str, *, cancel: threading.Event | None = None) -> np.ndarray:
        rows = np.array([[sum(map(str.isupper, text)), sum(not c.isupper() for c in text)] for text in texts], float)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32).reshape(len(texts), 2)

    def close(self) -> None:
        """Release nothing."""


def test_an_index_is_exported_whole_and_read_back(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", SOURCES)
    with indexed(root) as engine:
        view = view_of(engine)
        chunks = collect_chunks(view, source(root))
        stamp = engine.index.indexed_at()
    assert {str(each.path) for kind in ("definitions", "symbols") for each, _ in chunks[kind]} >= {"src/pool.py"}
    assert [capsule.head for _, capsule in chunks["definitions"]] == ["src/pool.py | Pool | class Pool:"]
    write_chunk_files(chunks, tmp_path / "out" / "chunks", stamp=stamp, embedder=Lengths())
    back = read_folder(tmp_path / "out" / "chunks")
    whole = [each for kind in FILES for each, _ in chunks[kind]]
    assert [(row.id, row.kind, row.title, row.text, row.tags) for row in back.rows] == [
        (each.id, each.kind, each.title, each.text, each.tags) for each in whole
    ]
    assert [row.metadata["file_path"] for row in back.rows] == [str(each.path) for each in whole]
    texts = [capsule.text() for kind in FILES for _, capsule in chunks[kind]]
    assert np.abs(back.vectors.floats() - Lengths().embed(texts, "passage")).max() < 0.01
    assert (back.model, back.embedded.all(), back.skipped) == ("lengths", True, ())


def test_what_changed_since_it_was_indexed_is_left_out_and_vectors_may_be(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", SOURCES)
    with indexed(root) as engine:
        view = view_of(engine)
        (root / "config.yml").unlink()
        (root / "src/pool.py").write_text("x = 1\n")
        chunks = collect_chunks(view, source(root))
    assert {str(each.path) for kind in CHUNK_KINDS for each, _ in chunks[kind]} == {"README.md"}
    write_chunk_files(chunks, tmp_path / "out", stamp="")
    assert read_folder(tmp_path / "out").dimensions == 0
