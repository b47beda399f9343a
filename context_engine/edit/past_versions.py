"""The bytes of files before and after a past edit, by going back from the files as they are now.

The journal has how each edit changed a file, not the whole file. So a version is known only while a chain of edits
leads from the present file to it; a change by another program breaks the chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from context_engine.edit.delta import apply_delta, reverse_delta
from context_engine.edit.file_edit import hash_of
from context_engine.edit.journal import JournalEntry


class PastVersions(NamedTuple):
    """A file before and after a past edit, None where there was no file; both None if they are not known any more."""

    path: str
    before: bytes | None
    after: bytes | None
    is_known: bool


def find_versions(
    entry: JournalEntry, others: Sequence[JournalEntry], present: Mapping[str, bytes | None]
) -> tuple[PastVersions, ...]:
    """Return the versions of the files of an edit, from the present files and the other edits of them."""
    known = {(path, hash_of(data)): data for path, data in present.items()}
    steps = [op for one in (*others, entry) for op in one.ops]
    is_growing = True
    while is_growing:
        is_growing = False
        for op in steps:
            if (op.path, op.after) in known and (op.path, op.before) not in known:
                after = known[op.path, op.after] or b""
                known[op.path, op.before] = apply_delta(reverse_delta(op.delta), after) if op.before else None
                is_growing = True
    found: list[PastVersions] = []
    for op in entry.ops:
        sides = (op.after, op.before) if entry.state == "undone" else (op.before, op.after)
        is_known = all((op.path, side) in known for side in sides)
        before, after = (known.get((op.path, side)) for side in sides)
        found.append(PastVersions(op.path, before, after, is_known))
    return tuple(found)
