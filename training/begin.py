"""Where the rows begin: the word pieces of MiniLM and the words that code uses, each passed through MiniLM on its own.

A row is what the transformer says of one word, less what it says of all words, turned so that the first numbers tell
the most (PCA), and as long as the word is rare (SIF).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from context_engine.embedding.wordpiece import WordPieces
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
    cutter = WordPieces(list(tokenizer["model"]["vocab"]))
    known = [piece for piece in tokenizer["model"]["vocab"] if not piece.startswith("[unused")]
    return known + code_words(cutter, set(known), pairs)


def code_words(cutter: WordPieces, known: set[str], pairs: Iterable[Pair]) -> list[str]:
    """The words in most packages that are several pieces so far, at most `CODE_WORDS`."""
    packages: dict[str, set[str]] = {}
    uses: Counter[str] = Counter()
    for pair in pairs:
        for word in parts(f"{pair.query} {pair.code}"):
            uses[word] += 1
            packages.setdefault(word, set()).add(pair.package)
    ranked = sorted(uses, key=lambda word: (-len(packages[word]), -uses[word], word))
    found = [word for word in ranked if word not in known and len(packages[word]) >= PACKAGES_MIN]
    return [word for word in found if len(cutter[word]) > 1][:CODE_WORDS]


def parts(text: str) -> list[str]:
    """The words of a text as the table's cutter will see them: identifiers split, lower case, letters only.

    >>> parts("getHTTPFile(x2)")
    ['get', 'http', 'file']
    """
    return [part.lower() for part in _parts(text) if len(part) > 1]


_parts = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+").findall


def passed_rows(folder: Path, pieces: Sequence[str], shares: np.ndarray) -> np.ndarray:
    """The rows of the vocabulary pass; `shares` tells how common each piece is (they sum to 1)."""
    said = _pass(folder, pieces)
    centred = said - said.mean(axis=0)
    _, _, turn = np.linalg.svd(centred.T @ centred)
    turned = centred @ turn.T
    turned /= np.linalg.norm(turned, axis=1, keepdims=True) + 1e-9
    return (turned * (RARITY / (RARITY + shares))[:, None]).astype(np.float32)


def _pass(folder: Path, pieces: Sequence[str], batch: int = 256) -> np.ndarray:
    """What MiniLM says of each piece alone, shape `(len(pieces), 384)`."""
    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    own = read_tokenizer(folder)["model"]["vocab"]
    names, cutter = list(own), WordPieces(list(own))
    ids = [[own[piece]] if piece in own else [own[names[number]] for number in cutter[piece]] for piece in pieces]
    found = np.empty((len(pieces), DIMENSIONS), dtype=np.float32)
    order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
    for at in range(0, len(order), batch):
        numbers = order[at : at + batch]
        width = len(ids[numbers[-1]]) + 2
        framed = [[own["[CLS]"], *ids[number], own["[SEP]"]] for number in numbers]
        padded = torch.tensor([row + [own["[PAD]"]] * (width - len(row)) for row in framed])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in framed])
        with torch.no_grad():
            features = model({"input_ids": padded, "attention_mask": mask})
        found[numbers] = features["sentence_embedding"].numpy()
    return found


def read_tokenizer(folder: Path) -> dict:
    """The tokenizer in MiniLM's folder."""
    return json.loads((folder / "tokenizer.json").read_text("utf-8"))
