"""Embedders that run a model folder with another library: the common part of Model2Vec and sentence-transformers.

The folder must exist. Nothing is downloaded from a hub, though both libraries would.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import xxhash

from context_engine.embedding.embedder import (
    TOKENS_MAX,
    EmbedderConfig,
    Mode,
    batches,
    compute_fingerprint,
    cut,
    encodable,
    normalize_rows,
    raise_if_cancelled,
)
from context_engine.errors import EmbedderUnusable

Model = TypeVar("Model")
Encode = Callable[[list[str], Mode], np.ndarray]
"""Texts and mode -> one row for each text, of any length."""


class FolderEmbedder:
    """An `Embedder` around a function that encodes some texts at once."""

    is_local = True

    def __init__(
        self,
        choice: EmbedderConfig,
        encode: Encode,
        *,
        weights: Iterable[bytes],
        dimensions: int,
        tokens_max: int | None,
    ) -> None:
        """`weights` are all bytes that decide a vector, in a fixed order; `tokens_max` is the model's."""
        self._encode: Encode | None = encode
        self._prefixes = {"query": choice.query_prefix, "passage": choice.passage_prefix}
        self.name = f"{choice.provider}:{Path(choice.model).name}"
        self.dimensions = dimensions
        self.tokens_max = min(filter(None, (choice.tokens_max, tokens_max)), default=TOKENS_MAX)
        digest = xxhash.xxh3_128()
        for part in weights:
            digest.update(part)
        self.fingerprint = compute_fingerprint(
            choice.provider, digest.hexdigest(), self.tokens_max, *self._prefixes.values()
        )

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:
        """Return a row for each text, as `Embedder.embed`. A blank text has a row of zeros."""
        raise_if_cancelled(cancel)
        if self._encode is None:
            raise ValueError("the embedder is closed")
        given = [encodable(cut(text, self.tokens_max)) for text in texts]
        unique = list(dict.fromkeys(text for text in given if text.strip()))
        rows: dict[str, np.ndarray] = {}
        for batch in batches(unique):
            raise_if_cancelled(cancel)
            rows |= zip(
                batch, normalize_rows(self._encode([self._prefixes[mode] + text for text in batch], mode)), strict=True
            )
        nothing = np.zeros(self.dimensions, np.float32)
        return np.array([rows.get(text, nothing) for text in given], np.float32).reshape(len(given), self.dimensions)

    def close(self) -> None:
        """Free the model."""
        self._encode = None


def model_in_folder(choice: EmbedderConfig, read: Callable[[Path], Model]) -> Model:
    """Return what a library reads from the configured folder. Raises: EmbedderUnusable, also with the error of `read`.

    Raises: EmbedderUnusable, also with the error of `read`.
    """
    folder = model_folder(choice)
    try:
        return read(folder)
    except Exception as error:  # each file of the folder fails in its own library's way
        raise EmbedderUnusable(
            f"{choice.provider}: {folder.name} cannot be read: {error}",
            suggestion="Fetch the model again, or configure another folder.",
            details={"embedder": choice.provider, "model": choice.model},
        ) from error


def model_folder(choice: EmbedderConfig) -> Path:
    """Return the configured folder. Raises: EmbedderUnusable if it does not exist."""
    folder = Path(choice.model).expanduser()
    if not choice.model or not folder.is_dir():
        raise EmbedderUnusable(
            f"{choice.provider}: there is no folder {choice.model[:200]!r}",
            suggestion="Nothing is downloaded here. Fetch the model once, such as with "
            "`hf download NAME --local-dir FOLDER`, and configure that folder.",
            details={"embedder": choice.provider, "model": choice.model[:200]},
        )
    return folder


# -- sentence transformers --------------------------------------------------------------------------------------------


def open_sentence_transformers(choice: EmbedderConfig) -> FolderEmbedder:
    """Open the model in the configured folder; no code in it is run.

    Raises: ImportError without the extra, EmbedderUnusable without a model.
    """
    from sentence_transformers import SentenceTransformer

    model = model_in_folder(
        choice, lambda folder: SentenceTransformer(str(folder), local_files_only=True, trust_remote_code=False)
    )

    def encode(texts: list[str], mode: Mode) -> np.ndarray:
        asked = model.encode_query if mode == "query" else model.encode_document  # with the model's own prefixes
        return np.asarray(asked(texts, show_progress_bar=False), np.float32)

    weights = (tensor.float().cpu().numpy().tobytes() for _, tensor in sorted(model.state_dict().items()))
    return FolderEmbedder(
        choice,
        encode,
        weights=weights,
        dimensions=model.get_sentence_embedding_dimension() or 0,
        tokens_max=model.get_max_seq_length(),
    )


# -- model2vec --------------------------------------------------------------------------------------------------------


def open_model2vec(choice: EmbedderConfig) -> FolderEmbedder:
    """Open the model in the configured folder. Raises: ImportError without the extra, EmbedderUnusable without a model.

    Raises: ImportError without the extra, EmbedderUnusable without a model.
    """
    from model2vec import StaticModel

    model = model_in_folder(
        choice, lambda folder: StaticModel.from_pretrained(folder, force_download=False, normalize=True)
    )

    def encode(texts: list[str], _: Mode) -> np.ndarray:
        return model.encode(texts, use_multiprocessing=False)

    parts = (model.embedding, model.weights, model.token_mapping)
    arrays = [np.ascontiguousarray(part).tobytes() for part in parts if part is not None]
    return FolderEmbedder(
        choice,
        encode,
        weights=[*arrays, model.tokenizer.to_str().encode()],
        dimensions=model.dim,
        tokens_max=model.max_length,
    )
