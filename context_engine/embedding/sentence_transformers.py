"""Any model folder that sentence-transformers can run (the extra of that name; it brings torch, more than a gigabyte)."""

from __future__ import annotations

import numpy as np

from context_engine.embedding.embedder import Choice, Mode
from context_engine.embedding.folder import FolderEmbedder, model_folder
from context_engine.errors import EmbedderUnusable


def open_embedder(choice: Choice) -> FolderEmbedder:
    """The model in the configured folder; no code that lies in it is run.

    Raises: ImportError without the extra, EmbedderUnusable without a model.
    """
    from sentence_transformers import SentenceTransformer

    folder = model_folder(choice)
    try:
        model = SentenceTransformer(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # each file of the folder fails in its own library's way
        raise EmbedderUnusable(
            f"sentence-transformers: {folder.name} cannot be read: {error}",
            suggestion="Fetch the model again, or configure another folder.",
            details={"embedder": choice.provider, "model": choice.model},
        ) from error

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
