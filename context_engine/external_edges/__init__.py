"""Edges between names that another tool knows: those of a SCIP index. Our own resolution is in `resolution`."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.external_edges.edge_collection import ExternalEdges
    from context_engine.external_edges.edge_project import EdgeProject

__getattr__ = lazy_exports(__name__)
