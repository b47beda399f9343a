"""Query in, ranked hits out: candidates, fusion with every addend named, and the choice of chunks."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.search.chunk_export import ExportReport
    from context_engine.search.chunk_files import FILES
    from context_engine.search.chunk_folder import read_folder
    from context_engine.search.file_usage import AccessKind, FileUsage
    from context_engine.search.fuse import WEIGHTS
    from context_engine.search.gram_index import GramIndex
    from context_engine.search.named_places import find_paths, list_tails
    from context_engine.search.question import Question, find_telling_words
    from context_engine.search.rankers import K1, B, RankingView
    from context_engine.search.remote_search import RemoteSearch, list_searchable
    from context_engine.search.search_service import HURRY_WAIT_S, SearchService, SearchState, answer_query
    from context_engine.search.searcher import SCORE_DIGITS, Ranking, Searcher
    from context_engine.search.semantic_scores import AnswerModel, CandidateScores, SemanticSignals
    from context_engine.search.served_chunks import ChunkAnswer, ChunkStatus, ServedChunks
    from context_engine.search.text_scanner import TextScanner
    from context_engine.search.text_search import (
        expand_braces,
        format_cursor,
        hash_search,
        parse_cursor,
        rank_files,
        select_page,
        sort_by_keywords,
    )
    from context_engine.search.vector_search import FileCosines, compute_cosines, find_greatest, fold_by_file

__all__ = [
    "FILES",
    "HURRY_WAIT_S",
    "K1",
    "SCORE_DIGITS",
    "WEIGHTS",
    "AccessKind",
    "AnswerModel",
    "B",
    "CandidateScores",
    "ChunkAnswer",
    "ChunkStatus",
    "ExportReport",
    "FileCosines",
    "FileUsage",
    "GramIndex",
    "Question",
    "Ranking",
    "RankingView",
    "RemoteSearch",
    "SearchService",
    "SearchState",
    "Searcher",
    "SemanticSignals",
    "ServedChunks",
    "TextScanner",
    "answer_query",
    "compute_cosines",
    "expand_braces",
    "find_greatest",
    "find_paths",
    "find_telling_words",
    "fold_by_file",
    "format_cursor",
    "hash_search",
    "list_searchable",
    "list_tails",
    "parse_cursor",
    "rank_files",
    "read_folder",
    "select_page",
    "sort_by_keywords",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "AccessKind": "file_usage",
        "AnswerModel": "semantic_scores",
        "B": "rankers",
        "CandidateScores": "semantic_scores",
        "ChunkAnswer": "served_chunks",
        "ChunkStatus": "served_chunks",
        "ExportReport": "chunk_export",
        "FILES": "chunk_files",
        "FileCosines": "vector_search",
        "FileUsage": "file_usage",
        "GramIndex": "gram_index",
        "HURRY_WAIT_S": "search_service",
        "K1": "rankers",
        "Question": "question",
        "Ranking": "searcher",
        "RankingView": "rankers",
        "RemoteSearch": "remote_search",
        "SCORE_DIGITS": "searcher",
        "SearchService": "search_service",
        "SearchState": "search_service",
        "Searcher": "searcher",
        "SemanticSignals": "semantic_scores",
        "ServedChunks": "served_chunks",
        "TextScanner": "text_scanner",
        "WEIGHTS": "fuse",
        "answer_query": "search_service",
        "compute_cosines": "vector_search",
        "expand_braces": "text_search",
        "find_greatest": "vector_search",
        "find_paths": "named_places",
        "find_telling_words": "question",
        "fold_by_file": "vector_search",
        "format_cursor": "text_search",
        "hash_search": "text_search",
        "list_searchable": "remote_search",
        "list_tails": "named_places",
        "parse_cursor": "text_search",
        "rank_files": "text_search",
        "read_folder": "chunk_folder",
        "select_page": "text_search",
        "sort_by_keywords": "text_search",
    },
)
