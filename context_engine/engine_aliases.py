"""The methods of `Engine` that the Python guide of version 0.1 showed. They work for one more release, and warn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from context_engine.index import IndexService
from context_engine.search import SearchService

if TYPE_CHECKING:
    from context_engine.edit import EditResult, EditService, FileEdit, Want
    from context_engine.index import SymbolService
    from context_engine.model import Answer, Found, IndexReport, Query


def _warn(old: str, new: str) -> None:
    message = f"engine.{old} is deprecated and will be removed in the next release: use engine.{new}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


class CallableIndexService(IndexService):
    """The index service, which can be called as `engine.index()` was."""

    def __call__(self, **options: Any) -> IndexReport:
        """Update the index: the old name of `engine.index.update`."""
        _warn("index()", "index.update()")
        return self.update(**options)


class CallableSearchService(SearchService):
    """The search service, which can be called as `engine.search(query)` was."""

    def __call__(self, query: Query) -> Answer:
        """Search: the old name of `engine.search.find`."""
        _warn("search(query)", "search.find(query)")
        return self.find(query)


class DeprecatedMethods:
    """The other methods."""

    index: IndexService
    symbols: SymbolService
    if TYPE_CHECKING:

        @property
        def edits(self) -> EditService:
            """The service that changes files."""
            ...

    def index_in_background(self, *, force: bool = False) -> bool:
        """Update the index in a thread: the old name of `engine.index.update_in_background`."""
        _warn("index_in_background()", "index.update_in_background()")
        return self.index.update_in_background(force=force)

    def find_symbol(self, name: str, **options: Any) -> Found:
        """Find a definition: the old name of `engine.symbols.find`."""
        _warn("find_symbol(name)", "symbols.find(name)")
        return self.symbols.find(name, **options)

    def change(self, path: str, wants: Sequence[Want], **options: Any) -> FileEdit:
        """Prepare edits of a file: the old name of `engine.edits.change_parts`."""
        _warn("change(path, wants)", "edits.change_parts(path, wants)")
        return self.edits.change_parts(path, wants, **options)

    def edit(self, changes: Sequence[FileEdit], **options: Any) -> EditResult:
        """Apply changes: the old name of `engine.edits.apply`."""
        _warn("edit(changes)", "edits.apply(changes)")
        return self.edits.apply(changes, **options)

    def undo(self, undo_id: str = "", **options: Any) -> EditResult:
        """Undo an edit: the old name of `engine.edits.undo`."""
        _warn("undo(undo_id)", "edits.undo(undo_id)")
        return self.edits.undo(undo_id, **options)
