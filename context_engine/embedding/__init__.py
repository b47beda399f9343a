"""Embedders: the interface, the providers, and those that come with this package; vectors as they are stored."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.embedding.deadline_embedder import DeadlineEmbedder
    from context_engine.embedding.embedder import Embedder, EmbedderConfig, compute_fingerprint, normalize_rows
    from context_engine.embedding.embedder_registry import find_embedder_problem, open_embedder
    from context_engine.embedding.http_endpoint import Endpoint, build_url
    from context_engine.embedding.http_retry import EndpointSpec, RetryPolicy, extract_json_message
    from context_engine.embedding.ragged_array import RaggedArray
    from context_engine.embedding.static_embedder import SHIPPED, StaticEmbedder, read_fingerprint
    from context_engine.embedding.vector_rows import (
        KEY_BYTES,
        LEVELS,
        Keys,
        VectorRows,
        VectorSpace,
        hash_texts,
        quantize,
    )

__getattr__ = lazy_exports(
    __name__,
    """
    deadline_embedder: DeadlineEmbedder
    embedder: Embedder EmbedderConfig compute_fingerprint normalize_rows
    embedder_registry: find_embedder_problem open_embedder
    http_endpoint: Endpoint build_url
    http_retry: EndpointSpec RetryPolicy extract_json_message
    ragged_array: RaggedArray
    static_embedder: SHIPPED StaticEmbedder read_fingerprint
    vector_rows: KEY_BYTES LEVELS Keys VectorRows VectorSpace hash_texts quantize
    """,
)
