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

__all__ = [
    "KEY_BYTES",
    "LEVELS",
    "SHIPPED",
    "DeadlineEmbedder",
    "Embedder",
    "EmbedderConfig",
    "Endpoint",
    "EndpointSpec",
    "Keys",
    "RetryPolicy",
    "StaticEmbedder",
    "VectorRows",
    "VectorSpace",
    "build_url",
    "compute_fingerprint",
    "extract_json_message",
    "find_embedder_problem",
    "hash_texts",
    "normalize_rows",
    "open_embedder",
    "quantize",
    "read_fingerprint",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "DeadlineEmbedder": "deadline_embedder",
        "Embedder": "embedder",
        "EmbedderConfig": "embedder",
        "Endpoint": "http_endpoint",
        "EndpointSpec": "http_retry",
        "KEY_BYTES": "vector_rows",
        "Keys": "vector_rows",
        "LEVELS": "vector_rows",
        "RetryPolicy": "http_retry",
        "SHIPPED": "static_embedder",
        "StaticEmbedder": "static_embedder",
        "VectorRows": "vector_rows",
        "VectorSpace": "vector_rows",
        "build_url": "http_endpoint",
        "compute_fingerprint": "embedder",
        "extract_json_message": "http_retry",
        "hash_texts": "vector_rows",
        "normalize_rows": "embedder",
        "find_embedder_problem": "embedder_registry",
        "open_embedder": "embedder_registry",
        "quantize": "vector_rows",
        "read_fingerprint": "static_embedder",
    },
)
