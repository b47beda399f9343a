"""The meaning of names: the definitions of a name at a place, and the uses of a definition."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.resolution.parameters import ParameterFinder
    from context_engine.resolution.project_files import ProjectFiles
    from context_engine.resolution.references import Reference, ReferenceFinder
    from context_engine.resolution.values import Certainty, Meaning, NamePlace

__all__ = ["Certainty", "Meaning", "NamePlace", "ParameterFinder", "ProjectFiles", "Reference", "ReferenceFinder"]
__getattr__ = lazy_exports(
    __name__,
    {
        "Certainty": "values",
        "Meaning": "values",
        "NamePlace": "values",
        "ParameterFinder": "parameters",
        "ProjectFiles": "project_files",
        "Reference": "references",
        "ReferenceFinder": "references",
    },
)
