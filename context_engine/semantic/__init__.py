"""Semantic search: vectors of chunks, kept up to date in the background, and reranking of an answer with them."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.semantic.embedding_backfill import lower_thread_priority
    from context_engine.semantic.embedding_service import (
        WITH_NEXT_RUN,
        EmbedderSettings,
        EmbeddingDependencies,
        EmbeddingService,
    )

__getattr__ = lazy_exports(
    __name__,
    """
    embedding_backfill: lower_thread_priority
    embedding_service: WITH_NEXT_RUN EmbedderSettings EmbeddingDependencies EmbeddingService
    """,
)
