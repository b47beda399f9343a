"""Embedding: the static table, the providers that a user can choose in addition, and the vectors that these made.

Text in, vectors out. The static table makes the vectors of an index while files are parsed. `ctx index --embed`, or a
thread of low priority in `ctx serve`, gives each chunk a vector of the provider that the user chose; these are stored
once per machine, by the hash of their text. An answer never waits for them: it uses them when nearly all are there,
and else says that they are not. Vectors of two models are never compared.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.embedding.embedder import (
        Embedder,
        EmbedderConfig,
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
    from context_engine.embedding.static_embedder import StaticEmbedder
    from context_engine.embedding.table_file import SHIPPED, compute_fingerprint, read_fingerprint
    from context_engine.embedding.vector_rows import KEY_BYTES, Keys, RaggedArray, VectorRows, hash_texts, quantize
    from context_engine.embedding.vector_store import VectorStore

__getattr__ = lazy_exports(__name__)
