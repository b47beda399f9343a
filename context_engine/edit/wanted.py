"""PURE. From what a caller wants to edits that can be planned, now that the file is known; and what he must not want.

A reply shows a mark where a secret was masked. Whoever sends the mark back would write it over the secret: that is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from context_engine.edit import refusals
from context_engine.edit.content import Content, content_of
from context_engine.edit.locate import exact
from context_engine.edit.model import Edit
from context_engine.errors import CallError
from context_engine.text.lines import folded
from context_engine.text.secrets import marks
from context_engine.text.spans import LineSpan

AROUND_SECRETS = "Leave the line with the secret out: edit the lines around it, and let the user change the secret."


@dataclass(frozen=True, slots=True)
class Want:
    """An edit, and which of the places that fit exactly is meant, counted from 1; 0 where there must be only one."""

    edit: Edit
    occurrence: int = 0


def settled(data: bytes, wants: Sequence[Want]) -> list[Edit]:
    """The edits of these wants on this file.

    Raises: InvalidEdit for the mark of a masked secret, NoMatch for an occurrence that is not there, and as `content_of`.
    """
    if not any(want.occurrence or _marks(want.edit) for want in wants):
        return [want.edit for want in wants]
    content = content_of(data)
    edits: list[Edit] = []
    failed: list[tuple[int, CallError]] = []
    for number, want in enumerate(wants):
        try:
            check_marks(want.edit.target, want.edit.replacement, known=content.text)
            edits.append(_at_occurrence(content, want) if want.occurrence else want.edit)
        except CallError as error:
            failed.append((number, error))
    if failed:
        raise failed[0][1] if len(wants) == 1 else refusals.together(failed, len(wants))
    return edits


def check_marks(target: str, replacement: str, *, known: str) -> None:
    """Refuse a target with a mark that is not in the `known` text of the file, and a replacement with one more of them.

    Raises: InvalidEdit.
    """
    quoted = marks(target)
    strange = [mark for mark in quoted if mark not in known]
    strange += [] if strange else (marks(replacement) - quoted).elements()
    if strange:
        raise refusals.invalid(f"{strange[0]} stands in replies for a secret, which it would overwrite", AROUND_SECRETS)


def _marks(edit: Edit) -> Counter[str]:
    return marks(edit.target) + marks(edit.replacement)


def _at_occurrence(content: Content, want: Want) -> Edit:
    """The edit, held to the lines of the occurrence it means. What stands nowhere exactly is left to the plan."""
    spots = list(exact(content, folded(want.edit.target))) if want.edit.target else []
    if not spots:
        return want.edit
    if want.occurrence > len(spots):
        raise refusals.fewer(content, spots, want.occurrence)
    spot = spots[want.occurrence - 1]
    first, last = content.line_of(spot.start), content.line_of(spot.stop - 1)
    return replace(want.edit, line_range=LineSpan(first + 1, last + 1))
