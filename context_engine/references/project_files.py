"""The files of a project as the resolver sees them: parsed when they are needed, and found by the names they define."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.languages import NameBinding, PathIndex, SyntaxFile
from context_engine.references.values import NamePlace

if TYPE_CHECKING:
    from context_engine.references.scip.scip_edges import ExternalEdges


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """`read` returns a parsed file, or None; `defining` the files whose outline defines a name; `paths` are all.

    `load` returns the bytes of any file; none if it cannot be read. `holding` returns the files whose text has a name.
    `edges` are what other tools say of names.
    """

    read: Callable[[str], SyntaxFile | None]
    defining: Callable[[str], Sequence[str]]
    paths: PathIndex
    load: Callable[[str], bytes]
    holding: Callable[[str], Sequence[str]]
    edges: ExternalEdges | None = None

    def binding_at(self, place: NamePlace) -> tuple[SyntaxFile, NameBinding] | None:
        """Return the binding that is at a place."""
        file = self.read(place.path)
        if file is None:
            return None
        node = file.root.descendant_for_byte_range(place.start, place.start + 1)
        if node is not None and not node.is_named and node.parent is not None:  # the `$` of a variable of PHP
            node = node.parent
        if node is None or node.start_byte != place.start:
            return None
        found = next((one for one in file.bindings(file.text(node)) if one.node.start_byte == place.start), None)
        return (file, found) if found is not None else None
