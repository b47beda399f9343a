"""Query in, ranked hits out; and text search, which lists files by the walk and searches exactly these.

`question` takes a query apart, `rankers` value files, `fuse` adds the values, `searcher` chooses chunks, `hit_reading`
reads them as they are now, `reranking` orders long answers by their texts. `search_service` is the door.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.search.chunk_export import export_chunks
    from context_engine.search.chunk_files import FILES, read_folder
    from context_engine.search.embedding_service import WITH_NEXT_RUN, EmbeddingService
    from context_engine.search.file_usage import AccessKind, FileUsage
    from context_engine.search.fuse import SCORE_DIGITS, SIGNALS
    from context_engine.search.gram_index import GramIndex
    from context_engine.search.named_places import Mention, MentionKind
    from context_engine.search.question import Question, TaskText
    from context_engine.search.rankers import K1, B
    from context_engine.search.search_service import SearchService
    from context_engine.search.searcher import Searcher
    from context_engine.search.served_chunks import ServedChunks
    from context_engine.search.text_scanner import TextScanner
    from context_engine.search.text_search import (
        GlobSet,
        expand_braces,
        hash_search,
        rank_files,
        select_page,
        sort_by_keywords,
    )

__getattr__ = lazy_exports(__name__)
