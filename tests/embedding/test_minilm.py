"""MiniLM as we make it: the same vectors as a BERT written down in numpy, alone or in company, on any day; never a socket."""

from __future__ import annotations

import ast
import json
import math
import random
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding import minilm, minilm_graph, model_files
from context_engine.embedding.embedder import EmbedderConfig
from context_engine.embedding.minilm import PADDED_TOKENS_MAX, MiniLM, batch_by_length, open_embedder, pad_rows
from context_engine.embedding.model_files import MINILM
from context_engine.embedding.wordpiece import WordPiece
from context_engine.errors import Cancelled, StorageCorrupt, UnsupportedHost
from tests.support import weights

PACKAGE = Path(__file__).resolve().parents[2] / "context_engine"
ODD = (
    "",
    " ",
    "日本語のテキスト",
    "🙂🙂",
    "\ud800",
    "[CLS] [PAD]",
    "x" * 5_000,
    "getHTTPResponseCode(url) -> int",
    "a " * 300,
)
TEXTS = 160

Rows = list[list[int]]


@pytest.fixture(scope="module")
def folder() -> Path:
    return weights.minilm()


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Iterator[MiniLM]:
    embedder = MiniLM(folder)
    yield embedder
    embedder.close()


@pytest.fixture(scope="module")
def trained() -> dict[str, np.ndarray]:
    """The weights, read by five lines of this test and not by the reader under test."""
    with zipfile.ZipFile(weights.package()) as archive:
        content = archive.read(f"{MINILM.inside}/model.safetensors")
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    offsets = {name: each["data_offsets"][0] for name, each in header.items() if name.startswith(("emb", "enc"))}
    return {
        name: np.frombuffer(content, "<f4", math.prod(header[name]["shape"]), start + at).reshape(header[name]["shape"])
        for name, at in offsets.items()
        if header[name]["dtype"] == "F32"
    }


@pytest.fixture(scope="module")
def rows(folder: Path) -> Rows:
    cutter = WordPiece.from_tokenizer(json.loads((folder / "tokenizer.json").read_bytes()))
    return [cutter.ids(text) for text in texts()]


@cache
def texts() -> tuple[str, ...]:
    """Names of this package's functions with the beginning of what they say, and what nobody would write."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    told = [f"{node.name}: {said[:30]}" for node in functions if (said := ast.get_docstring(node))]
    return (*random.Random(4).sample(told, TEXTS - len(ODD)), *ODD)


def by_numpy(trained: dict[str, np.ndarray], rows: Rows) -> np.ndarray:
    """BERT as its paper has it, each text by itself, no padding anywhere."""

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ trained[f"{name}.weight"].T + trained[f"{name}.bias"]

    def normal(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(1, keepdims=True)
        x = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-12)
        return x * trained[f"{name}.weight"] + trained[f"{name}.bias"]

    def attended(qkv: Sequence[np.ndarray]) -> np.ndarray:
        query, key, value = (part.reshape(-1, 12, 32).swapaxes(0, 1) for part in qkv)
        shares = np.exp(query @ key.swapaxes(1, 2) / math.sqrt(32))
        return (shares / shares.sum(2, keepdims=True) @ value).swapaxes(0, 1).reshape(-1, 384)

    first = np.cumsum([0, *map(len, rows)])[1:-1]
    places = np.concatenate([np.arange(len(row)) for row in rows])
    x = trained["embeddings.word_embeddings.weight"][np.concatenate(rows)]
    x = x + trained["embeddings.position_embeddings.weight"][places]
    x = normal(x + trained["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for number in range(6):
        at = f"encoder.layer.{number}"
        parts = [np.split(linear(x, f"{at}.attention.self.{part}"), first) for part in ("query", "key", "value")]
        seen = np.concatenate([attended(qkv) for qkv in zip(*parts, strict=True)])
        x = normal(x + linear(seen, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        wide = linear(x, f"{at}.intermediate.dense")
        x = normal(
            x + linear(wide / 2 * (1 + erf(wide / math.sqrt(2))), f"{at}.output.dense"), f"{at}.output.LayerNorm"
        )
    means = np.stack([part.mean(0) for part in np.split(x, first)])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, to 1.5e-7: Abramowitz and Stegun, 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    sum_of_powers = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - sum_of_powers * np.exp(-x * x))


def run(model: bytes, rows: Rows) -> np.ndarray:
    """What onnxruntime makes of a model, in batches as the provider has them."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    vectors = np.zeros((len(rows), 384), np.float32)
    for batch in batch_by_length([len(row) for row in rows]):
        vectors[batch] = session.run(None, {"ids": pad_rows([rows[number] for number in batch])})[0]
    return vectors


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


# -- the vectors are right ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_exact_graph_is_bert_and_the_small_one_is_close(
    folder: Path, trained: dict[str, np.ndarray], rows: Rows, embedder: MiniLM
) -> None:
    assert len(rows) == TEXTS
    exact = run(minilm_graph.build_graph(trained, minilm_graph.Float32Weights()), rows)
    assert cosines(exact, by_numpy(trained, rows)).min() >= 0.9999

    small = embedder.embed(texts(), "passage")
    assert cosines(exact, small)[: -len(ODD)].mean() >= 0.995
    assert cosines(exact, small).min() >= 0.98


def test_a_model_is_made_of_the_same_bytes_each_time(trained: dict[str, np.ndarray], folder: Path) -> None:
    again = minilm_graph.build_graph(trained, minilm_graph.Int8Weights())
    assert model_files.GRAPH.problem(again) == ""
    assert again == (folder / "model.onnx").read_bytes()


def test_texts_of_one_meaning_are_nearer_than_others(embedder: MiniLM) -> None:
    asked = embedder.embed(["how do I retry a failed request"], "query")
    told = embedder.embed(
        ["def backoff(): call again after an HTTP error", "class Rectangle: width and height"], "passage"
    )
    near, far = (told @ asked[0]).tolist()
    assert near > far + 0.1


def test_a_vector_does_not_depend_on_its_neighbours(embedder: MiniLM) -> None:
    some = texts()[-30:]
    together = embedder.embed(some, "passage")
    alone = np.concatenate([embedder.embed([text], "query") for text in some])
    assert np.abs(together - alone).max() <= 1e-5


def test_the_order_of_texts_is_the_order_of_vectors(embedder: MiniLM) -> None:
    some = texts()[-30:]
    backwards = embedder.embed(some[::-1], "passage")[::-1]
    np.testing.assert_allclose(embedder.embed(some, "passage"), backwards, atol=1e-5)


def test_any_text_has_a_vector_of_length_one(embedder: MiniLM) -> None:
    vectors = embedder.embed(ODD, "passage")
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_vectors(embedder: MiniLM) -> None:
    assert embedder.embed([], "passage").shape == (0, 384)


# -- batches ------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 2_000), max_size=60))
def test_each_text_is_in_one_batch_and_no_batch_is_too_large(lengths: list[int]) -> None:
    found = list(batch_by_length(lengths))
    assert sorted(number for batch in found for number in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[number] for number in batch) <= PADDED_TOKENS_MAX


@given(st.lists(st.integers(1, 128), max_size=60))
def test_a_later_batch_holds_no_shorter_text(lengths: list[int]) -> None:
    sizes = [[lengths[number] for number in batch] for batch in batch_by_length(lengths)]
    assert all(max(before) <= min(after) for before, after in pairwise(sizes))


class After(threading.Event):
    """An event that is set once it was asked so often."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("times", [0, 7, 40, 41], ids=["at once", "while cutting", "first batch", "second batch"])
def test_cancelling_stops_before_the_next_batch(embedder: MiniLM, times: int) -> None:
    some = ["word " * 100] * 40  # 8 of them are a batch
    cancel = After(times)
    with pytest.raises(Cancelled):
        embedder.embed(some, "passage", cancel=cancel)
    assert cancel.left == -1


# -- what is loaded, and when -------------------------------------------------------------------------------------


def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / folder.name))


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_tampered_file_is_named_and_never_run(folder: Path, tmp_path: Path, name: str) -> None:
    file = copied(folder, tmp_path) / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    embedder = open_embedder(EmbedderConfig("minilm", models_folder=tmp_path))
    with pytest.raises(StorageCorrupt, match=rf"{name} has the sha256 \w+ instead of") as caught:
        embedder.embed(["x"], "query")
    assert "ctx model pull minilm" in caught.value.suggestion


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_file_that_is_cut_off_or_gone_is_named_at_once(folder: Path, tmp_path: Path, name: str) -> None:
    file = copied(folder, tmp_path) / name
    file.write_bytes(file.read_bytes()[:1_000])
    with pytest.raises(StorageCorrupt, match=f"{name} holds 1,000 bytes instead of"):
        open_embedder(EmbedderConfig("minilm", models_folder=tmp_path))
    file.unlink()
    with pytest.raises(StorageCorrupt, match=f"{name} cannot be read"):
        open_embedder(EmbedderConfig("minilm", models_folder=tmp_path))


def test_without_the_model_the_command_that_brings_it_is_named(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra minilm is not installed")
    with pytest.raises(UnsupportedHost) as caught:
        open_embedder(EmbedderConfig("minilm", models_folder=tmp_path))
    assert "ctx model pull minilm" in caught.value.suggestion


def test_without_onnxruntime_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedHost, match="onnxruntime") as caught:
        open_embedder(EmbedderConfig("minilm", models_folder=tmp_path))
    assert "smart-context-engine[minilm]" in caught.value.suggestion


def test_a_broken_onnxruntime_is_told_when_it_is_needed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UnsupportedHost, match="onnxruntime cannot be loaded"):
        MiniLM(folder).embed(["x"], "query")


def test_a_closed_one_refuses_and_closing_twice_is_once(folder: Path) -> None:
    embedder = MiniLM(folder)
    embedder.embed(["x"], "query")
    embedder.close()
    embedder.close()
    with pytest.raises(ValueError, match="closed"):
        embedder.embed(["x"], "query")


def test_threads_share_one_model(folder: Path) -> None:
    embedder = MiniLM(folder)
    found: list[Any] = [None] * 4

    def embed(number: int) -> None:
        found[number] = embedder.embed(["one text", "another"], "passage")

    threads = [threading.Thread(target=embed, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    embedder.close()
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


ALONE = """
import sys
opened = []
sys.addaudithook(lambda event, _: opened.append(event) if event.startswith("socket.") else None)
from pathlib import Path
from context_engine.embedding.embedder import EmbedderConfig
from context_engine.embedding.minilm import open_embedder
embedder = open_embedder(EmbedderConfig("minilm", models_folder=Path(sys.argv[1])))
assert "onnxruntime" not in sys.modules, "loaded too early"
assert embedder.embed(["where are passwords hashed"], "query").shape == (1, 384)
assert opened == [], opened
heavy = {"torch", "transformers", "tokenizers", "huggingface_hub", "onnx", "subprocess", "context_engine.embedding.model_install"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
descriptors = Path("/proc/self/fd")
if descriptors.is_dir():
    assert not [each for each in descriptors.iterdir() if each.is_symlink() and "socket:" in str(each.readlink())]
"""


def test_no_socket_is_opened_and_nothing_heavy_imported(folder: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", ALONE, str(folder.parent)],
        cwd=PACKAGE.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
