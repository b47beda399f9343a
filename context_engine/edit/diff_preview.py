"""PURE. A difference as people and programs read it: a unified diff, made of the known changes and cut to some lines.

Line ends are shown as line feeds whatever they are: an edit never changes those of lines it keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from context_engine.edit.align import by_lines, turns
from context_engine.edit.file_content import FileContent
from context_engine.edit.model import Patch
from context_engine.text import shorten_line

CONTEXT_LINES = 3
LINE_CHARS_MAX = 1_000
"""Of a line that no person reads the beginning is enough."""
NO_NEWLINE = "\\ No newline at end of file"


class Block(NamedTuple):
    """Old lines `first` to `stop` (from 0, half-open) become these; each line with its line feed, if it has one."""

    first: int
    stop: int
    new: list[str]


def format_diff(path: str, content: FileContent, patches: Sequence[Patch], lines_max: int) -> str:
    """A unified diff of some changes, which do not overlap and stand in their order."""
    old = by_lines(content.norm)
    blocks = [part for block in _blocks(content, patches) for part in _parts(old, block)]
    shown = [f"--- a/{path}", f"+++ b/{path}"]
    moved = 0
    for hunk in _hunks(blocks):
        shown += _hunk(old, hunk, moved)
        moved += sum(len(block.new) - (block.stop - block.first) for block in hunk)
    if len(shown) > lines_max:
        shown = [*shown[:lines_max], f"... {len(shown) - lines_max} more lines"]
    return "\n".join(shown) + "\n"


def _blocks(content: FileContent, patches: Sequence[Patch]) -> Iterator[Block]:
    """The changes as whole lines; those that touch one line together are one block."""
    text = content.text
    group: list[Patch] = []
    for patch in patches:
        if group and not _is_apart(text, group[-1], patch):
            group.append(patch)
            continue
        if group:
            yield _block(content, group)
        group = [patch]
    if group:
        yield _block(content, group)


def _is_apart(text: str, one: Patch, other: Patch) -> bool:
    """Whether a whole line break stands between two changes."""
    return _line_stop(text, one) <= text.rfind("\n", 0, other.start) + 1


def _line_stop(text: str, patch: Patch) -> int:
    """Where the last line that a change touches ends."""
    start, stop, new = patch
    begins = stop == 0 or text[stop - 1] == "\n"
    whole = new.endswith("\n") or (not new and (start == 0 or text[start - 1] == "\n"))
    if begins and whole:
        return stop
    return (text.find("\n", stop) + 1) or len(text)


def _block(content: FileContent, group: Sequence[Patch]) -> Block:
    text = content.text
    start, stop = text.rfind("\n", 0, group[0].start) + 1, max(_line_stop(text, patch) for patch in group)
    parts, at = [], start
    for patch in group:
        parts += [text[at : patch.start], patch.text]
        at = patch.stop
    new = "".join([*parts, text[at:stop]]).replace("\r\n", "\n")
    first = text.count("\n", 0, start)
    return Block(first, first + len(by_lines(text[start:stop])), by_lines(new))


def _parts(old: Sequence[str], block: Block) -> Iterator[Block]:
    """A block without the lines in it that stay."""
    for turn in turns(old[block.first : block.stop], block.new):
        yield Block(block.first + turn.start, block.first + turn.stop, block.new[turn.new_start : turn.new_stop])


def _hunks(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Blocks whose contexts meet are shown together."""
    hunk = list(blocks[:1])
    for one, other in pairwise(blocks):
        if other.first - one.stop > 2 * CONTEXT_LINES:
            yield hunk
            hunk = []
        hunk.append(other)
    if hunk:
        yield hunk


def _hunk(old: Sequence[str], blocks: Sequence[Block], moved: int) -> Iterator[str]:
    first, stop = max(0, blocks[0].first - CONTEXT_LINES), min(len(old), blocks[-1].stop + CONTEXT_LINES)
    size = stop - first
    grown = size + sum(len(block.new) - (block.stop - block.first) for block in blocks)
    yield f"@@ -{_range(first, size)} +{_range(first + moved, grown)} @@"
    at = first
    for block in blocks:
        yield from _sign_lines(" ", old[at : block.first])
        yield from _sign_lines("-", old[block.first : block.stop])
        yield from _sign_lines("+", block.new)
        at = block.stop
    yield from _sign_lines(" ", old[at:stop])


def _range(first: int, size: int) -> str:
    """Where lines stand, as a unified diff counts: from 1, and no lines after the one before them."""
    return f"{first + 1 if size else first},{size}"


def _sign_lines(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield sign + shorten_line(line.removesuffix("\n"), 0, LINE_CHARS_MAX)
        if not line.endswith("\n"):
            yield NO_NEWLINE
