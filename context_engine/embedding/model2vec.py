"""The provider `model2vec`: any Model2Vec folder, run by the library of that name."""

from __future__ import annotations

import numpy as np

from context_engine.embedding.embedder import EmbedderConfig, Mode
from context_engine.embedding.model_folder import FolderEmbedder, model_in_folder


def open_embedder(choice: EmbedderConfig) -> FolderEmbedder:
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
