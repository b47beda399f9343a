"""PURE.

A walk's paths as a tree to be shown: folders first, cut to a depth and a number of lines, with what was cut counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from context_engine.model import TreeEntry
from context_engine.repo.walk import Walk

UNSEEN = frozenset({"ignored", "vanished"})
"""Skipped paths that a listing does not show either; the others are there, they are only not indexed."""


@dataclass(slots=True)
class _TreeFolder:
    folders: dict[str, _TreeFolder] = field(default_factory=dict)
    files: dict[str, tuple[int, str]] = field(default_factory=dict)  # size and note

    def at(self, parts: list[str]) -> _TreeFolder:
        """The folder below this one, made when it is not there yet."""
        folder = self
        for part in parts:
            folder = folder.folders.setdefault(part, _TreeFolder())
        return folder


def entries(seen: Walk, base: str, *, depth: int, max_items: int, include_hidden: bool) -> tuple[TreeEntry, ...]:
    """The tree below `base` ("." for the root), `depth` levels deep, at most `max_items` lines.

    Items are given out level by level, so that a large folder does not hide its neighbours; what was cut is an entry
    with `hidden_items`.
    """
    top = _grow(seen, base, include_hidden)
    shown = _shares(top, depth, max_items)
    rows: list[TreeEntry] = []
    _render(top, 0, shown, rows)
    return tuple(rows)


def _grow(seen: Walk, base: str, include_hidden: bool) -> _TreeFolder:
    top = _TreeFolder()
    start = 0 if base == "." else len(base) + 1
    for path in seen.folders:
        if len(path) > start and path.startswith("" if base == "." else base + "/"):
            _place(top, path[start:], None, include_hidden)
    for entry in seen.entries:
        _place(top, entry.path[start:], (entry.size, ""), include_hidden)
    for skipped in seen.skipped:
        if skipped.reason not in UNSEEN and len(skipped.path) > start:
            _place(top, skipped.path[start:], (0, skipped.reason), include_hidden)
    return top


def _place(top: _TreeFolder, path: str, file: tuple[int, str] | None, include_hidden: bool) -> None:
    parts = path.split("/")
    if not include_hidden and any(part.startswith(".") for part in parts):
        return
    if file is None:
        top.at(parts)
    else:
        top.at(parts[:-1]).files[parts[-1]] = file


def _shares(top: _TreeFolder, depth: int, max_items: int) -> dict[int, int]:
    """How many items each folder (by identity) may show: breadth first, until the lines are used up."""
    shares: dict[int, int] = {}
    left, level = max_items, [top]
    for _ in range(depth):
        following = []
        for number, folder in enumerate(level):
            count = len(folder.folders) + len(folder.files)
            fair = max(1, left // (len(level) - number)) if left > 0 else 0
            shares[id(folder)] = min(count, fair)
            left -= shares[id(folder)]
            following += [inner for _, inner in sorted(folder.folders.items())][: shares[id(folder)]]
        level = following
    return shares


def _render(folder: _TreeFolder, depth: int, shares: dict[int, int], rows: list[TreeEntry]) -> None:
    # As deep as the caller asked for, which the tool limits: no danger to the stack.
    share = shares.get(id(folder), 0)
    if id(folder) not in shares:
        return
    items: list[tuple[str, _TreeFolder | None, int, str]] = []
    items += [(name, inner, 0, "") for name, inner in sorted(folder.folders.items())]
    items += [(name, None, size, note) for name, (size, note) in sorted(folder.files.items())]
    for name, inner, size, note in items[:share]:
        rows.append(TreeEntry(name, depth, inner is not None, size, 0, note))
        if inner is not None:
            _render(inner, depth + 1, shares, rows)
    if len(items) > share:
        rows.append(TreeEntry("", depth, False, 0, len(items) - share))
