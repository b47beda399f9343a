"""Edit files of a workspace: find the place, plan the change, write all or none, undo it.

`locate` finds a place or refuses, `patch` plans what a file becomes as a pure function of its bytes, `apply` writes
the files of a call all or none with a journal entry first, and `journal` undoes, redoes and repairs after a kill.
Symbol edits, patches and renames end in the same plan.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.edit.apply import EditedFile, EditResult
    from context_engine.edit.edit_errors import placeholders
    from context_engine.edit.edit_service import EditService
    from context_engine.edit.file_content import BYTES_MAX, content_of
    from context_engine.edit.file_edit import FileEdit
    from context_engine.edit.journal import JournalEntry
    from context_engine.edit.model import AnyEdit, Edit, Fuzzy, LineEdit, Patch, Placement, SymbolEdit, SymbolPlace
    from context_engine.edit.patch import EditPlan
    from context_engine.edit.rename import Renaming
    from context_engine.edit.rename_uses import NameOccurrence
    from context_engine.edit.unified_diff import diff_versions, format_redacted_diff

__getattr__ = lazy_exports(__name__)
