"""Memories that people and agents write down, and discoveries that the repository itself contains.

Memories are Markdown files that people own: edits by hand survive, no process loses another's. Each answer compares
their stamps with an index in the user's cache and reads what changed. Discoveries come from indexed files and from
commits, never mix with memories, and are the same whenever they are derived; one thread derives them at the first
question, and again when the head moves or a file is indexed. One ranking finds both.

`knowledge_service` is the door, `knowledge` the ranking, `memory_index` its words and vectors. `memories` changes and
judges memories, `memory_checks` says what may be written, `memory_folder` and `memory_file` read and write the files.
`importers` derive discoveries.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.memory.knowledge import KnowledgeResults
    from context_engine.memory.knowledge_service import KnowledgeService
    from context_engine.memory.memory_folder import MemoryEntry
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
    )

__getattr__ = lazy_exports(__name__)
