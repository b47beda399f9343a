"""What a name means: definitions, callers, callees, uses, by scopes and types, or by a SCIP index.

A resolver follows a name through scopes, imports and types that the text shows; each language is one class behind a
small interface, and the syntax facts are in its TOML. Callers, callees, impact, unused definitions and renames ask
the same resolver. A SCIP index is one more source; it says nothing about a file that changed since, and cannot
mislead the reader of it.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.references.broken_uses import BrokenUse, ChangedSource, UseComparison
    from context_engine.references.graph_traversal import Neighbor
    from context_engine.references.project_files import ProjectFiles
    from context_engine.references.scip.scip_edges import ExternalEdges
    from context_engine.references.symbol_service import SymbolService

__getattr__ = lazy_exports(__name__)
