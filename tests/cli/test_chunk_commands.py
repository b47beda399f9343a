"""`ctx chunk` at the terminal: the index is written whole, one line says what, and a failure names the next step."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from context_engine.errors import Cancelled, DiskFull
from context_engine.index.embedding_text import ChunkEmbeddingText
from context_engine.model import CHUNK_KINDS, Chunk, RelPath
from context_engine.search import chunk_files
from context_engine.search.chunk_export import write_chunk_files
from context_engine.search.chunk_files import FILES, read_folder
from context_engine.text.lines import LineSpan
from tests.support.terminal import Run, runner, sit_down
from tests.support.trees import tree

SOURCES = {
    "pyproject.toml": '[project]\nname = "pool"\n',
    "pool.py": 'LIMIT = 10\n\n\nclass Pool:\n    """Of sessions."""\n\n    def acquire(self):\n        return 1\n',
    "README.md": "# Pool\n\nKeeps #sessions open.\n",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a cache of its own."""
    return sit_down(tree(tmp_path / "w", SOURCES), monkeypatch)


@pytest.fixture
def chunk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys, "chunk")


def test_an_index_is_built_and_written_with_vectors_that_name_their_model(
    root: Path, tmp_path: Path, chunk: Run
) -> None:
    folder = tmp_path / "out" / "chunks"
    code, out, err = chunk("export", folder, "--root", root)
    assert code == 0
    chunks = read_folder(folder)
    assert {row.kind for row in chunks.rows} == {*CHUNK_KINDS}
    assert (chunks.files, chunks.dimensions, chunks.model) == (tuple(FILES.values()), 384, "static")
    assert chunks.embedded.all()
    assert len(chunks.fingerprint) == 32
    assert out.startswith(f"wrote {len(chunks.rows)} chunks (")
    assert "vectors of 384 numbers by static" in out
    assert out.endswith(f": {folder}\n")
    assert "is inside the workspace" not in err


def test_without_room_the_old_files_stay_as_they_were(
    root: Path, tmp_path: Path, chunk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise DiskFull(f"no room to write {path.name}", suggestion=f"Free {len(data)} bytes.")

    assert chunk("export", tmp_path / "out", "--root", root)[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    monkeypatch.setattr(chunk_files, "write_atomic", full)
    code, _, err = chunk("export", tmp_path / "out", "--root", root, "--no-vectors")
    assert code == 2
    assert "error: no room to write doc-chunks.json\nhint: Free" in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_provider_that_cannot_be_used_is_refused_and_nothing_is_written(
    root: Path, tmp_path: Path, chunk: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTX_EMBEDDER", "model2vec")
    code, _, err = chunk("export", tmp_path / "out", "--root", root, "--provider")
    assert code == 2
    assert "model2vec: there is no folder" in err
    assert not (tmp_path / "out").exists()


def test_a_folder_is_checked_file_by_file(root: Path, tmp_path: Path, chunk: Run) -> None:
    folder = tmp_path / "out"
    assert chunk("export", folder, "--root", root)[0] == 0
    code, out, _ = chunk("check", folder)
    assert code == 0
    assert [line.split() for line in out.splitlines()[:4]] == [[name, "ok"] for name in FILES.values()]
    assert "of 384 numbers" in out
    (folder / "code-data.json").write_text("[")
    (folder / "doc-chunks.json").unlink()
    code, out, _ = chunk("check", folder)
    assert code == 1
    assert "doc-chunks.json        not there" in out
    assert "code-data.json         it is not JSON of chunks" in out
    code, _, err = chunk("check", tmp_path / "none")
    assert code == 2
    assert "ctx chunk export" in err


# -- the export itself --------------------------------------------------------------------------------------------


class Counting:
    """An embedder that is asked to stop at its second batch."""

    name, fingerprint, dimensions, tokens_max, is_local = "counting", "0c", 1, 9, True

    def __init__(self, cancel: threading.Event | None = None) -> None:
        self._cancel = cancel
        self.batches: list[int] = []

    def embed(self, texts: Sequence[str], mode: str, *, cancel: threading.Event | None = None) -> np.ndarray:
        if cancel is not None and cancel.is_set():
            raise Cancelled("embedding was cancelled")
        self.batches.append(len(texts))
        if self._cancel:
            self._cancel.set()
        assert mode == "passage"
        return np.ones((len(texts), 1), np.float32)

    def close(self) -> None:
        """Nothing to let go of."""


def many(count: int) -> Any:
    chunk = Chunk("c", RelPath("a.py"), LineSpan(1, 1), "data", "python", "t", "x = 1")
    return {
        kind: [(chunk, ChunkEmbeddingText("a.py", "x = 1"))] * (count if kind == "data" else 1) for kind in CHUNK_KINDS
    }


def test_an_export_that_is_cancelled_writes_nothing(tmp_path: Path) -> None:
    cancel = threading.Event()
    with pytest.raises(Cancelled):
        write_chunk_files(many(3), tmp_path / "out", stamp="", embedder=Counting(cancel), cancel=cancel)
    assert not (tmp_path / "out").exists()
