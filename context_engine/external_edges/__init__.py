"""Edges between names that other tools know: a SCIP index, language servers. Our own resolution is in `resolution`."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.external_edges.edge_collection import ExternalEdges, ExternalTools
    from context_engine.external_edges.edge_project import EdgeProject
    from context_engine.external_edges.server_problems import EditedText, ServerProblem

__getattr__ = lazy_exports(
    __name__,
    """
    edge_collection: ExternalEdges ExternalTools
    edge_project: EdgeProject
    server_problems: EditedText ServerProblem
    """,
)
