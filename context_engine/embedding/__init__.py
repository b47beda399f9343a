"""Embedding: the static table, the providers that a user can choose in addition, and the vectors that these made."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.embedding.embedder import (
        Embedder,
        EmbedderConfig,
        compute_fingerprint,
        normalize_rows,
        open_embedder,
        raise_if_cancelled,
    )
    from context_engine.embedding.http_endpoint import (
        Endpoint,
        EndpointSpec,
        RetryPolicy,
        build_url,
        extract_json_message,
    )
    from context_engine.embedding.static_embedder import SHIPPED, StaticEmbedder, read_fingerprint
    from context_engine.embedding.vector_rows import KEY_BYTES, Keys, RaggedArray, VectorRows, hash_texts, quantize
    from context_engine.embedding.vector_store import VectorStore

__getattr__ = lazy_exports(__name__)
