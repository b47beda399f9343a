"""The index: what changed in the workspace, how files are parsed, chunked and stored, and how stores are read, copied and repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from context_engine.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from context_engine.index.encoder import StaticEncoder as StaticEncoder
    from context_engine.index.index_repair import RepairReport as RepairReport
    from context_engine.index.index_service import IndexOptions as IndexOptions
    from context_engine.index.index_service import IndexService as IndexService
    from context_engine.index.live_index import LiveIndex as LiveIndex
    from context_engine.index.snapshot import Snapshot as Snapshot
    from context_engine.index.symbol_service import SymbolService as SymbolService
    from context_engine.index.union_snapshot import UnionSnapshot as UnionSnapshot

__getattr__ = lazy_exports(
    __name__,
    {
        "IndexOptions": "index_service",
        "IndexService": "index_service",
        "LiveIndex": "live_index",
        "RepairReport": "index_repair",
        "Snapshot": "snapshot",
        "StaticEncoder": "encoder",
        "SymbolService": "symbol_service",
        "UnionSnapshot": "union_snapshot",
    },
)
