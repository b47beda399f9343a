"""The meaning of names: the definitions of a name at a place, and the uses of a definition."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.resolution.parameters import ParameterFinder
    from context_engine.resolution.project_files import ProjectFiles
    from context_engine.resolution.references import Reference, ReferenceFinder
    from context_engine.resolution.values import Certainty, EdgeSource, ExternalEdge, Meaning, NamePlace

__getattr__ = lazy_exports(__name__)
