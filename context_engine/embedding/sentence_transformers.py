"""The provider `sentence-transformers`: any model folder of that library, an extra that needs torch, more than 1 GB."""

from __future__ import annotations

import numpy as np

from context_engine.embedding.embedder import EmbedderConfig, Mode
from context_engine.embedding.model_folder import FolderEmbedder, model_in_folder


def open_embedder(choice: EmbedderConfig) -> FolderEmbedder:
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
