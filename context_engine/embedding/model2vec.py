"""Any Model2Vec folder, run by the library of that name (the extra `model2vec`)."""

from __future__ import annotations

import numpy as np

from context_engine.embedding.embedder import Choice, Mode
from context_engine.embedding.folder import FolderEmbedder, model_folder
from context_engine.errors import EmbedderUnusable


def open_embedder(choice: Choice) -> FolderEmbedder:
    """The model in the configured folder. Raises: ImportError without the extra, EmbedderUnusable without a model."""
    from model2vec import StaticModel

    folder = model_folder(choice)
    try:
        model = StaticModel.from_pretrained(folder, force_download=False, normalize=True)
    except Exception as error:  # each file of the folder fails in its own library's way
        raise EmbedderUnusable(
            f"model2vec: {folder.name} cannot be read: {error}",
            suggestion="Fetch the model again, or configure another folder.",
            details={"embedder": choice.provider, "model": choice.model},
        ) from error

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
