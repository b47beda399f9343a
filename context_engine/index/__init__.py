"""The index: changed files are found, parsed, chunked and stored in segments; snapshots are read from the stores.

`live_index` notices edits and decides when to index, `build` runs the pipeline, `describe` turns a file into what is
stored, `postings` and `segment` write it, `embedded_store` commits it, and a `snapshot` is what every reader uses
from the start to the end of a call. An index that is taken from another work tree is trusted for content only, by
hash.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.index.change_finder import ChangeFinder
    from context_engine.index.embedded_store import SCHEMA_VERSION, EmbeddedStore, translate_disk_errors
    from context_engine.index.embedded_writer import EmbeddedWriter
    from context_engine.index.embedding_text import (
        TEXT_RECIPE,
        ChunkEmbeddingText,
        ChunkLocation,
        build_chunk_texts,
        symbol_chain,
    )
    from context_engine.index.encoder import StaticEncoder
    from context_engine.index.file_roles import ROLES, Role, role_of
    from context_engine.index.index_seeding import copy_index
    from context_engine.index.index_service import IndexService
    from context_engine.index.live_index import LiveIndex, no_index
    from context_engine.index.parsed_files import ParsedFileCache, qualified_names
    from context_engine.index.path_ends import PathEnd
    from context_engine.index.postings import FieldBuilder, Lexicon, WordNumbers, WordParts
    from context_engine.index.segment import StoredOutline, StoredSymbol, decode_outline, term_hashes
    from context_engine.index.snapshot import Matches, Snapshot, UnionSnapshot
    from context_engine.index.worker import load_languages, lower_priority

__getattr__ = lazy_exports(__name__)
