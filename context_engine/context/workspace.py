"""The services that read a workspace, from which bundles, prompts, plans and reviews are built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from context_engine.references import SymbolService
    from context_engine.repo import WorkspaceFiles
    from context_engine.search import SearchService, TextScanner


class Workspace:
    """One workspace, or several as one, to read and search. Its owner sets the services and closes them."""

    search: SearchService
    text_search: TextScanner
    symbols: SymbolService
    files: WorkspaceFiles
    settings: Any
    """The Settings that limit its replies."""
