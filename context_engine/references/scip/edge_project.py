"""The files of the project, as the edges of other tools ask about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from context_engine.references.values import NamePlace


class EdgeProject(NamedTuple):
    """The files of the project at one question.

    `read` returns the bytes of a file; `mtime_ns` when it was modified; `defining` the files that define a name;
    `locate` the places of a definition by its file and qualified name.
    """

    read: Callable[[str], bytes]
    mtime_ns: Callable[[str], int | None]
    defining: Callable[[str], Sequence[str]]
    locate: Callable[[str, str], Sequence[NamePlace]]
