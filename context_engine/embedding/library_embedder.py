"""Embedders that run a model folder with another library: sentence-transformers or Model2Vec.

The folder must exist: nothing is downloaded from a hub, though both libraries would, and no code in it is run. The
library is imported and the model loaded when the first text is embedded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xxhash

from context_engine.embedding.embedder import (
    TOKENS_MAX,
    BatchEmbedder,
    EmbedderConfig,
    Mode,
    normalize_rows,
)
from context_engine.embedding.table_file import compute_fingerprint
from context_engine.errors import EmbedderUnusable, UnsupportedHost
from context_engine.repo import pip_install

Encode = Callable[[list[str], Mode], np.ndarray]


def open_sentence_transformers(config: EmbedderConfig) -> LibraryEmbedder:
    """Open a model of sentence-transformers. Raises: EmbedderUnusable without a folder."""

    def load(folder: Path) -> Encode:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(folder), local_files_only=True, trust_remote_code=False)
        encode = {"query": model.encode_query, "passage": model.encode_document}  # with the model's own prefixes
        return lambda texts, mode: np.asarray(encode[mode](texts, show_progress_bar=False), np.float32)

    return LibraryEmbedder(config, load)


def open_model2vec(config: EmbedderConfig) -> LibraryEmbedder:
    """Open a model of Model2Vec. Raises: EmbedderUnusable without a folder."""

    def load(folder: Path) -> Encode:
        from model2vec import StaticModel

        model = StaticModel.from_pretrained(folder, force_download=False, normalize=True)
        return lambda texts, _: model.encode(texts, use_multiprocessing=False)

    return LibraryEmbedder(config, load)


class LibraryEmbedder(BatchEmbedder):
    """An `Embedder` around a function that encodes some texts at once, which `load` makes from the folder."""

    def __init__(self, config: EmbedderConfig, load: Callable[[Path], Encode]) -> None:
        """Read the files of the folder for the fingerprint. Raises: EmbedderUnusable without a folder."""
        self._folder = Path(config.model).expanduser()
        if not config.model or not self._folder.is_dir():
            raise EmbedderUnusable(
                f"{config.provider}: there is no folder {config.model[:200]!r}",
                suggestion="Fetch the model once, as with `hf download NAME --local-dir FOLDER`, and configure that.",
            )
        self._load = load
        self._lock = threading.Lock()
        self._encode: Encode | None = None
        digest = xxhash.xxh3_128()
        for path in sorted(self._folder.rglob("*")):
            if path.is_file():
                digest.update(path.name.encode("utf-8", "surrogateescape") + path.read_bytes())
        facts = (config.provider, digest.hexdigest(), TOKENS_MAX, config.query_prefix, config.passage_prefix)
        super().__init__(f"{config.provider}:{self._folder.name}", compute_fingerprint(*facts), config)

    def close(self) -> None:
        """Free the model."""
        super().close()
        self._encode = None

    def _embed_batch(self, batch: list[str], mode: Mode, cancel: threading.Event | None) -> np.ndarray:  # noqa: ARG002
        """Return the vectors of some texts. Raises: UnsupportedHost, EmbedderUnusable."""
        with self._lock:  # neither library says that threads may share a model
            self._encode = self._encode or self._open()
            return normalize_rows(self._encode(batch, mode))

    def _open(self) -> Encode:
        """Import the library and load the model. Raises: UnsupportedHost, EmbedderUnusable."""
        try:
            return self._load(self._folder)
        except ImportError as error:
            raise UnsupportedHost(
                f"the embedder {self._config.provider} cannot start: {error}",
                suggestion=f"Run: {pip_install()} {self._config.provider}",
            ) from error
        except Exception as error:  # each file of the folder fails in its own library's way
            raise EmbedderUnusable(
                f"{self._config.provider}: {self._folder.name} cannot be read: {error}",
                suggestion="Fetch the model again, or configure another folder.",
            ) from error
