"""A text is a bag of rows: order, neighbors and process do not matter, what is unknown is nothing, and a damaged table is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding import read_fingerprint, static_embedder
from context_engine.embedding.static_embedder import SHIPPED, BadTableError, StaticEmbedder, unpack_table
from context_engine.errors import StorageCorrupt
from training.pack import pack_table

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "get", "http", "file", "##s", "retry", "中"]
ROWS = np.random.default_rng(4).normal(size=(len(PIECES), 8)).astype(np.float32)
TOY = pack_table(PIECES, ROWS, {"seed": 4})

known = st.sampled_from(["get", "http", "file", "files", "retry", "中"])
any_words = known | st.sampled_from(["zebra", "x", "{", "Ünïcode", "\ud800"])


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> StaticEmbedder:
    path = tmp_path_factory.mktemp("table") / "toy.table"
    path.write_bytes(TOY)
    return StaticEmbedder(path)


@pytest.fixture(scope="module")
def shipped() -> StaticEmbedder:
    return StaticEmbedder()


# -- the bag ------------------------------------------------------------------------------------------------------


@given(st.lists(any_words, max_size=9))
def test_a_vector_is_the_sum_of_the_rows_of_its_known_pieces_made_one_long(
    toy: StaticEmbedder, words: list[str]
) -> None:
    rows = unpack_table(TOY).rows(np.arange(len(PIECES)))
    by_word = {"get": [4], "http": [5], "file": [6], "files": [6, 7], "retry": [8], "中": [9]}
    total = sum((rows[number] for word in words for number in by_word.get(word, [])), np.zeros(8))
    length = np.linalg.norm(total)
    wanted = total / length if length else total
    assert np.allclose(toy.embed([" ".join(words)], "query")[0], wanted, atol=1e-5)


def test_a_long_list_is_summed_in_blocks_with_the_same_vectors(
    toy: StaticEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["get http file", "", "retry retry", "zebra", "files"] * 7
    whole = toy.embed(texts, "passage")
    monkeypatch.setattr(static_embedder, "BLOCK_TEXTS", 4)
    assert np.allclose(toy.embed(texts, "passage"), whole, atol=1e-6)


# -- the table ----------------------------------------------------------------------------------------------------


@given(st.integers(0, len(TOY) - 1))
def test_a_table_cut_short_anywhere_is_refused(length: int) -> None:
    with pytest.raises(BadTableError):
        unpack_table(TOY[:length])


@given(st.integers(0, len(TOY) - 1), st.integers(1, 255))
def test_a_change_of_any_byte_is_refused_or_was_only_a_remark(at: int, flip: int) -> None:
    changed = bytearray(TOY)
    changed[at] ^= flip
    try:
        table = unpack_table(bytes(changed))
    except BadTableError:
        return
    whole = unpack_table(TOY)
    assert table.pieces == whole.pieces and np.array_equal(table.nibbles, whole.nibbles)
    assert table.sha256 != whole.sha256, "what was changed in the header must be another space"


@pytest.mark.parametrize("data", [TOY[:-1], b"", b"<html>404</html>", TOY[:-1] + b"\0"])
def test_a_refused_file_is_named_with_what_to_do(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "broken.table"
    path.write_bytes(data)
    with pytest.raises(StorageCorrupt, match=r"broken\.table") as refused:
        StaticEmbedder(path)
    assert "pip install" in refused.value.suggestion


def test_the_fingerprint_of_a_table_is_known_from_its_first_bytes(tmp_path: Path, toy: StaticEmbedder) -> None:
    path = tmp_path / "cut.table"
    path.write_bytes(TOY[:-1])
    assert read_fingerprint(path) == toy.fingerprint
    path.write_bytes(TOY[:20])
    with pytest.raises(StorageCorrupt, match=r"cut\.table"):
        read_fingerprint(path)


# -- what ships ---------------------------------------------------------------------------------------------------


def test_the_shipped_table_is_small_enough_and_384_wide(shipped: StaticEmbedder) -> None:
    assert SHIPPED.stat().st_size <= 7_000_000
    assert shipped.dimensions == 384


def test_a_question_is_nearer_to_its_code_than_to_other_code(shipped: StaticEmbedder) -> None:
    codes = [
        "def login(user, password):\n    return session.authenticate(user, password)",
        "def mean(values):\n    return sum(values) / len(values)",
        "func (c *Cache) evict() { delete(c.entries, c.oldest()) }",
    ]
    questions = ["check the credentials of a user", "average of some numbers", "remove the least recently used entry"]
    scores = shipped.embed(questions, "query") @ shipped.embed(codes, "passage").T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2]


def test_embedding_opens_no_socket_and_loads_no_library_but_numpy() -> None:
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"  # what a virtual environment loads at its start
        "def guard(event, args):\n"
        "    assert not event.startswith('socket.'), event\n"
        "sys.addaudithook(guard)\n"
        "from context_engine.embedding.static_embedder import StaticEmbedder\n"
        "StaticEmbedder().embed(['open the file'], 'query')\n"
        "roots = {m.__name__.partition('.')[0] for n, m in list(sys.modules.items()) if n not in before}\n"
        "print(*sorted(roots - set(sys.stdlib_module_names)))"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", _on_path(program)], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) == {"context_engine", "numpy"}


def _on_path(program: str) -> str:
    """The program with this repository in front of everything installed."""
    root = str(Path(static_embedder.__file__).parents[2])
    return f"import sys; sys.path.insert(0, {root!r})\n{program}"
