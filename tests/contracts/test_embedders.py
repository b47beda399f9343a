"""What every embedder keeps, whatever it is made of: a vector for each text, always the same, and no call unasked for."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.embedder import PROVIDERS, Embedder, EmbedderConfig, Mode, open_embedder
from context_engine.errors import Cancelled, EmbedderUnusable, UnsupportedHost
from context_engine.settings import list_settings
from tests.support.endpoints import embedding_server, only_connecting_to

SAME = 1e-5  # how far two vectors of one text may lie apart
CODE = "def parse_config(path):\n    return yaml.safe_load(path.read_text())"
PLAIN = ["how is a configuration file read", CODE, "retry with backoff", "x"]
ODD = [
    "",
    " \n\t",
    "中文字符和代码",
    "🎉🎉 launch 🚀",
    "half \ud800 a pair",
    "nul \0 and \x1b",
    "[CLS] [SEP] [MASK]",
    "!?.,;",
    "ß" * 3_000,
]


@dataclass(frozen=True)
class Stage:
    """Where a provider is tried: a folder of its own, and the address of a server on this machine."""

    folder: Path
    address: str


def static(_: Stage) -> EmbedderConfig:
    return EmbedderConfig("static")


def openai_compatible(stage: Stage) -> EmbedderConfig:
    return EmbedderConfig("openai-compatible", model="words", address=stage.address)


def ollama(stage: Stage) -> EmbedderConfig:
    return EmbedderConfig("ollama", model="words-small", address=stage.address, query_prefix="ask: ")


def model2vec(stage: Stage) -> EmbedderConfig:
    """A model with a vector for each of a few words, made here; nothing is downloaded."""
    library = pytest.importorskip("model2vec")
    folder = stage.folder / "tiny-model2vec"
    if not folder.exists():
        tokenizer = words_tokenizer()
        rows = np.random.default_rng(4).normal(size=(tokenizer.get_vocab_size(), 16)).astype(np.float32)
        library.StaticModel(rows, tokenizer).save_pretrained(folder)
    return EmbedderConfig("model2vec", model=str(folder))


def sentence_transformers(stage: Stage) -> EmbedderConfig:
    """The same kind of model in the form of the other library."""
    library = pytest.importorskip("sentence_transformers", reason="an extra of more than a gigabyte")
    modules = pytest.importorskip("sentence_transformers.models")
    folder = stage.folder / "tiny-sentence-transformers"
    if not folder.exists():
        library.SentenceTransformer(
            modules=[modules.StaticEmbedding(words_tokenizer(), embedding_dim=16), modules.Normalize()]
        ).save_pretrained(str(folder))
    return EmbedderConfig("sentence-transformers", model=str(folder))


def words_tokenizer() -> Any:
    """A `tokenizers.Tokenizer` that knows a few whole words."""
    tokenizers = pytest.importorskip("tokenizers")
    words = "[UNK] [PAD] how is a configuration file read def parse return retry with backoff x launch and".split()
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


PROVIDED: dict[str, Callable[[Stage], EmbedderConfig]] = {
    "static": static,
    "openai-compatible": openai_compatible,
    "ollama": ollama,
    "model2vec": model2vec,
    "sentence-transformers": sentence_transformers,
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with embedding_server() as server:
        yield Stage(tmp_path_factory.mktemp("embedders"), server.address)


@pytest.fixture(scope="module", params=list(PROVIDED))
def opened(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Callable[[], Embedder]]:
    """Opens one provider again and again, under guard: a local one connects to nothing, the others to their address."""
    choice = PROVIDED[request.param](stage)
    embedders: list[Embedder] = []

    def open_one() -> Embedder:
        embedder = open_embedder(choice)
        embedders.append(embedder)
        return embedder

    with only_connecting_to(*([urlsplit(choice.address).port or 0] if choice.address else [])):
        try:
            open_one().embed(["first"], "query")
        except UnsupportedHost as missing:
            pytest.skip(f"{missing.message}; {missing.suggestion}")
        yield open_one
        for embedder in embedders:
            embedder.close()


@pytest.fixture(scope="module")
def embedder(opened: Callable[[], Embedder]) -> Embedder:
    return opened()


def lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors.astype(np.float64), axis=1)


def is_sound(vectors: np.ndarray) -> bool:
    """Whether every row is finite, and of length 1 or nothing but zeros."""
    return bool(np.isfinite(vectors).all()) and all(
        abs(length - 1) < 1e-4 or length == 0 for length in lengths(vectors)
    )


# -- what comes back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["query", "passage"])
def test_each_text_has_one_row_of_length_one(embedder: Embedder, mode: Mode) -> None:
    vectors = embedder.embed(PLAIN, mode)
    assert (vectors.shape, vectors.dtype) == ((len(PLAIN), embedder.dimensions), np.float32)
    assert is_sound(vectors)
    assert lengths(vectors)[0] > 0


def test_no_texts_give_no_rows_of_the_right_width(embedder: Embedder) -> None:
    vectors = embedder.embed([], "passage")
    assert (vectors.shape, vectors.dtype) == ((0, embedder.dimensions), np.float32)


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_any_text_has_a_sound_vector(embedder: Embedder, text: str) -> None:
    assert is_sound(embedder.embed([text, "file"], "passage"))


@pytest.mark.parametrize("unit", ["a", "retry with backoff\n", "{", "中"], ids=ascii)
def test_a_megabyte_of_text_has_a_sound_vector(embedder: Embedder, unit: str) -> None:
    assert is_sound(embedder.embed([unit * (1_000_000 // len(unit))], "passage"))


def test_rows_come_in_the_order_of_the_texts_and_equal_texts_have_equal_rows(embedder: Embedder) -> None:
    texts = [PLAIN[2], PLAIN[0], PLAIN[2], "", PLAIN[0]]
    vectors = embedder.embed(texts, "passage")
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(vectors[1], vectors[4])
    assert not np.allclose(vectors[0], vectors[1])
    assert np.allclose(embedder.embed(texts[::-1], "passage"), vectors[::-1], atol=SAME)


@given(st.lists(st.text("ab c_A(中é", max_size=12) | st.sampled_from([*PLAIN, *ODD[:-1]]), max_size=6), st.data())
def test_a_vector_does_not_depend_on_its_neighbours(embedder: Embedder, texts: list[str], data: st.DataObject) -> None:
    many = embedder.embed([*texts, CODE], "passage")
    one = data.draw(st.integers(0, len(texts)))
    alone = embedder.embed([[*texts, CODE][one]], "passage")
    assert np.abs(many[one] - alone[0]).max() <= SAME


def test_more_texts_than_any_batch_holds_are_all_there(embedder: Embedder) -> None:
    texts = [f"file {number} read" for number in range(150)]
    vectors = embedder.embed(texts, "passage")
    assert np.allclose(vectors[[0, 77, 149]], embedder.embed([texts[0], texts[77], texts[149]], "passage"), atol=SAME)


# -- what an embedder says of itself ------------------------------------------------------------------------------


def test_an_embedder_says_who_it_is_and_what_it_takes(opened: Callable[[], Embedder]) -> None:
    embedder = opened()
    assert embedder.name.partition(":")[0] in PROVIDED
    assert embedder.dimensions > 0
    assert re.fullmatch("[0-9a-f]{16,64}", embedder.fingerprint)


def test_the_same_choice_gives_the_same_fingerprint_and_the_same_vectors(opened: Callable[[], Embedder]) -> None:
    first, second = opened(), opened()
    assert first.fingerprint == second.fingerprint
    assert np.array_equal(first.embed(PLAIN, "passage"), second.embed(PLAIN, "passage"))
    assert np.array_equal(first.embed(PLAIN, "query"), second.embed(PLAIN, "query"))


# -- stopping, sharing, closing -----------------------------------------------------------------------------------


def test_what_is_cancelled_stops(embedder: Embedder) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        embedder.embed(PLAIN, "passage", cancel=cancel)
    assert is_sound(embedder.embed(PLAIN, "passage", cancel=threading.Event()))


def test_threads_may_share_an_embedder(embedder: Embedder) -> None:
    alone = [embedder.embed([text], "passage")[0] for text in PLAIN]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda text: embedder.embed([text], "passage")[0], PLAIN * 5))
    assert np.allclose(together, alone * 5, atol=SAME)


def test_a_closed_embedder_says_so(opened: Callable[[], Embedder]) -> None:
    embedder = opened()
    embedder.embed(PLAIN, "passage")
    embedder.close()
    embedder.close()
    for texts in (PLAIN, []):
        with pytest.raises(ValueError, match="closed"):
            embedder.embed(texts, "passage")


# -- all of them --------------------------------------------------------------------------------------------------


def test_every_provider_of_the_list_is_held_to_this() -> None:
    assert set(PROVIDERS) == set(PROVIDED)
    assert set(PROVIDERS) | {"none"} == set(list_settings()["embedder"][1].choices)


def test_a_slip_in_the_name_of_a_provider_is_named() -> None:
    with pytest.raises(EmbedderUnusable) as refused:
        open_embedder(EmbedderConfig("olama"))
    assert refused.value.suggestion == "Did you mean ollama?"


def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "model2vec", None)
    with pytest.raises(UnsupportedHost) as missing:
        open_embedder(EmbedderConfig("model2vec", model=str(tmp_path))).embed(["a"], "query")
    assert missing.value.suggestion == f"Run: {sys.executable} -m pip install model2vec"
    with pytest.raises(EmbedderUnusable, match="there is no folder"):
        open_embedder(EmbedderConfig("model2vec", model=str(tmp_path / "none")))
