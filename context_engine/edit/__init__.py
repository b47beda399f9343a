"""Edit files of a workspace: find the place, plan the change, write all or none, undo it."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.edit.align import by_lines
    from context_engine.edit.apply import EditedFile, EditResult, PastEdit
    from context_engine.edit.edit_request import Want
    from context_engine.edit.edit_service import EditService
    from context_engine.edit.file_content import BYTES_MAX, content_of
    from context_engine.edit.file_edit import FileEdit
    from context_engine.edit.model import Edit, Fuzzy, Patch, Placement
    from context_engine.edit.past_versions import PastVersions
    from context_engine.edit.patch import EditPlan
    from context_engine.edit.placeholder import placeholders
    from context_engine.edit.rename import NameOccurrence, Renaming
    from context_engine.edit.symbol_edits import LineEdit, Place, SymbolEdit
    from context_engine.edit.unified_diff import diff_versions, format_diff

__all__ = [
    "BYTES_MAX",
    "Edit",
    "EditPlan",
    "EditResult",
    "EditService",
    "EditedFile",
    "FileEdit",
    "Fuzzy",
    "LineEdit",
    "NameOccurrence",
    "PastEdit",
    "PastVersions",
    "Patch",
    "Place",
    "Placement",
    "Renaming",
    "SymbolEdit",
    "Want",
    "by_lines",
    "content_of",
    "diff_versions",
    "format_diff",
    "placeholders",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "BYTES_MAX": "file_content",
        "Edit": "model",
        "EditPlan": "patch",
        "EditResult": "apply",
        "EditService": "edit_service",
        "EditedFile": "apply",
        "FileEdit": "file_edit",
        "Fuzzy": "model",
        "LineEdit": "symbol_edits",
        "NameOccurrence": "rename",
        "PastEdit": "apply",
        "Patch": "model",
        "Place": "symbol_edits",
        "Placement": "model",
        "Renaming": "rename",
        "SymbolEdit": "symbol_edits",
        "Want": "edit_request",
        "by_lines": "align",
        "content_of": "file_content",
        "diff_versions": "unified_diff",
        "PastVersions": "past_versions",
        "format_diff": "unified_diff",
        "placeholders": "placeholder",
    },
)
