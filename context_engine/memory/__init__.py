"""Memories that people and agents write down, and discoveries that the repository itself contains."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.memory.knowledge import KnowledgeEntry, KnowledgeResult, KnowledgeResults
    from context_engine.memory.knowledge_service import KnowledgeDependencies, KnowledgeService
    from context_engine.memory.memories import AddResult, SimilarMemory
    from context_engine.memory.memory_folder import MemoryEntry
    from context_engine.memory.memory_listing import MemoryRow
    from context_engine.memory.memory_requests import (
        CONTENT_CHARS_MAX,
        ON_SIMILAR,
        PRIORITIES,
        QUERY_CHARS,
        RESULTS_MAX,
        SCOPES,
        SORTS,
        STATUSES,
        SUBTYPES,
        TAGS_MAX,
        TITLE_CHARS_MAX,
        TYPES,
        KnowledgeQuery,
        MemoryDraft,
        MemoryQuery,
        MemoryRevision,
    )

__all__ = [
    "CONTENT_CHARS_MAX",
    "ON_SIMILAR",
    "PRIORITIES",
    "QUERY_CHARS",
    "RESULTS_MAX",
    "SCOPES",
    "SORTS",
    "STATUSES",
    "SUBTYPES",
    "TAGS_MAX",
    "TITLE_CHARS_MAX",
    "TYPES",
    "AddResult",
    "KnowledgeDependencies",
    "KnowledgeEntry",
    "KnowledgeQuery",
    "KnowledgeResult",
    "KnowledgeResults",
    "KnowledgeService",
    "MemoryDraft",
    "MemoryEntry",
    "MemoryQuery",
    "MemoryRevision",
    "MemoryRow",
    "SimilarMemory",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "AddResult": "memories",
        "CONTENT_CHARS_MAX": "memory_requests",
        "KnowledgeDependencies": "knowledge_service",
        "KnowledgeEntry": "knowledge",
        "KnowledgeQuery": "memory_requests",
        "KnowledgeResult": "knowledge",
        "KnowledgeResults": "knowledge",
        "KnowledgeService": "knowledge_service",
        "MemoryDraft": "memory_requests",
        "MemoryEntry": "memory_folder",
        "MemoryQuery": "memory_requests",
        "MemoryRevision": "memory_requests",
        "MemoryRow": "memory_listing",
        "ON_SIMILAR": "memory_requests",
        "PRIORITIES": "memory_requests",
        "QUERY_CHARS": "memory_requests",
        "RESULTS_MAX": "memory_requests",
        "SCOPES": "memory_requests",
        "SORTS": "memory_requests",
        "STATUSES": "memory_requests",
        "SUBTYPES": "memory_requests",
        "SimilarMemory": "memories",
        "TAGS_MAX": "memory_requests",
        "TITLE_CHARS_MAX": "memory_requests",
        "TYPES": "memory_requests",
    },
)
