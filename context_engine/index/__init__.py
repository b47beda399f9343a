"""The index: changed files are found, parsed, chunked and stored in segments; snapshots are read from the stores."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.index.describe import PLAIN
    from context_engine.index.embedded_store import SCHEMA_VERSION, translate_disk_errors
    from context_engine.index.embedding_text import (
        ChunkEmbeddingText,
        ChunkLocation,
        build_chunk_texts,
        build_file_summary,
        summary_names,
        symbol_chain,
    )
    from context_engine.index.encoder import StaticEncoder
    from context_engine.index.file_roles import ROLES, Role, role_of
    from context_engine.index.index_repair import RepairReport
    from context_engine.index.index_service import IndexOptions, IndexService
    from context_engine.index.index_store import Vectors
    from context_engine.index.live_index import WITHOUT_STORE, LiveIndex
    from context_engine.index.neighbors import Neighbor
    from context_engine.index.parsed_files import ParsedFileCache, qualified_names
    from context_engine.index.path_explanation import PathExplanation
    from context_engine.index.postings import FieldBuilder, Lexicon
    from context_engine.index.search_publisher import unpack_texts
    from context_engine.index.search_rows import COUNTED_FIELDS, IMPACT_UNIT, LENGTH_TOTALS, join_files
    from context_engine.index.segment import Postings, term_hashes
    from context_engine.index.snapshot import REPOSITORY_SEPARATOR, Matches, Snapshot, UnionSnapshot
    from context_engine.index.store_factory import AnyStore, Tenant, list_tenants, open_store, remove_tenant
    from context_engine.index.stored_outline import StoredOutline, StoredSymbol
    from context_engine.index.symbol_service import SymbolService, no_index, open_symbols
    from context_engine.index.syntax_cache import SyntaxCache
    from context_engine.index.tree_store import TreeStore
    from context_engine.index.worker import load_languages

__all__ = [
    "COUNTED_FIELDS",
    "IMPACT_UNIT",
    "LENGTH_TOTALS",
    "PLAIN",
    "REPOSITORY_SEPARATOR",
    "ROLES",
    "SCHEMA_VERSION",
    "WITHOUT_STORE",
    "AnyStore",
    "ChunkEmbeddingText",
    "ChunkLocation",
    "FieldBuilder",
    "IndexOptions",
    "IndexService",
    "Lexicon",
    "LiveIndex",
    "Matches",
    "Neighbor",
    "ParsedFileCache",
    "PathExplanation",
    "Postings",
    "RepairReport",
    "Role",
    "Snapshot",
    "StaticEncoder",
    "StoredOutline",
    "StoredSymbol",
    "SymbolService",
    "SyntaxCache",
    "Tenant",
    "TreeStore",
    "UnionSnapshot",
    "Vectors",
    "build_chunk_texts",
    "build_file_summary",
    "join_files",
    "list_tenants",
    "load_languages",
    "no_index",
    "open_store",
    "open_symbols",
    "qualified_names",
    "remove_tenant",
    "role_of",
    "summary_names",
    "symbol_chain",
    "term_hashes",
    "translate_disk_errors",
    "unpack_texts",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "AnyStore": "store_factory",
        "COUNTED_FIELDS": "search_rows",
        "ChunkEmbeddingText": "embedding_text",
        "ChunkLocation": "embedding_text",
        "FieldBuilder": "postings",
        "IMPACT_UNIT": "search_rows",
        "IndexOptions": "index_service",
        "IndexService": "index_service",
        "LENGTH_TOTALS": "search_rows",
        "Lexicon": "postings",
        "LiveIndex": "live_index",
        "Matches": "snapshot",
        "Neighbor": "neighbors",
        "PLAIN": "describe",
        "ParsedFileCache": "parsed_files",
        "PathExplanation": "path_explanation",
        "Postings": "segment",
        "REPOSITORY_SEPARATOR": "snapshot",
        "ROLES": "file_roles",
        "RepairReport": "index_repair",
        "Role": "file_roles",
        "SCHEMA_VERSION": "embedded_store",
        "Snapshot": "snapshot",
        "StaticEncoder": "encoder",
        "StoredOutline": "stored_outline",
        "StoredSymbol": "stored_outline",
        "SymbolService": "symbol_service",
        "SyntaxCache": "syntax_cache",
        "TreeStore": "tree_store",
        "Tenant": "store_factory",
        "UnionSnapshot": "snapshot",
        "Vectors": "index_store",
        "WITHOUT_STORE": "live_index",
        "build_chunk_texts": "embedding_text",
        "build_file_summary": "embedding_text",
        "join_files": "search_rows",
        "list_tenants": "store_factory",
        "load_languages": "worker",
        "no_index": "symbol_service",
        "open_store": "store_factory",
        "open_symbols": "symbol_service",
        "qualified_names": "parsed_files",
        "remove_tenant": "store_factory",
        "role_of": "file_roles",
        "summary_names": "embedding_text",
        "symbol_chain": "embedding_text",
        "term_hashes": "segment",
        "translate_disk_errors": "embedded_store",
        "unpack_texts": "search_publisher",
    },
)
