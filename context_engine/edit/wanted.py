"""From what a caller wants of a file to its plan: symbols looked up, occurrences counted, and one thing he must not want.

A reply shows a mask where a secret was masked. Whoever sends the mask back would write it over the secret: that is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from context_engine.edit import refusals
from context_engine.edit.change import Change, Outcome
from context_engine.edit.content import Content, content_of
from context_engine.edit.locate import exact
from context_engine.edit.model import Edit
from context_engine.edit.patch import Planned, plan
from context_engine.edit.symbols import SymbolEdit, resolved
from context_engine.errors import CallError
from context_engine.languages import Grammars, Languages
from context_engine.text.secrets import masks
from context_engine.text.spans import LineSpan

AROUND_SECRETS = "Leave the line with the secret out: edit the lines around it, and let the user change the secret."


@dataclass(frozen=True, slots=True)
class Want:
    """An edit, and which of the places that fit exactly is meant, counted from 1; 0 where there must be only one."""

    edit: Edit | SymbolEdit
    occurrence: int = 0


def planned(data: bytes, path: str, wants: Sequence[Want], languages: Languages, grammars: Grammars) -> Planned:
    """What a file of these bytes becomes.

    Raises: as `edit.patch.plan` and `edit.symbols.resolved`; InvalidEdit for the mask of a masked secret.
    """
    edits = resolved(data, path, [want.edit for want in wants], languages, grammars)
    return plan(data, settled(data, edits, [want.occurrence for want in wants]))


def settled(data: bytes, edits: Sequence[Edit], occurrences: Sequence[int]) -> Sequence[Edit]:
    """The edits, each held to the occurrence that it means on this file; 0 means the only one.

    Raises: InvalidEdit for the mask of a masked secret, NoMatch for an occurrence that is not there, and as `content_of`.
    """
    if not any(occurrences) and not any(_masks(edit) for edit in edits):
        return edits
    content = content_of(data)
    held: list[Edit] = []
    failed: list[tuple[int, CallError]] = []
    for number, (edit, occurrence) in enumerate(zip(edits, occurrences, strict=True)):
        try:
            _check(content.text, edit)
            held.append(_at_occurrence(content, edit, occurrence) if occurrence else edit)
        except CallError as error:
            failed.append((number, error))
    if failed:
        raise failed[0][1] if len(edits) == 1 else refusals.together(failed, len(edits))
    return held


def check_masks(old: str, new: str) -> None:
    """Refuse a text with more masks than the one that it takes the place of. Raises: InvalidEdit."""
    _refuse(list((masks(new) - masks(old)).elements()))


def whole(change: Change, text: str) -> Change:
    """The change that gives a file this text, unless it would put a mask where there was none."""

    def plan(data: bytes | None) -> Outcome:
        if masks(text):
            check_masks(content_of(data or b"").text, text)
        return change.plan(data)

    return replace(change, plan=plan)


def _check(text: str, edit: Edit) -> None:
    """Refuse a mask that is quoted and does not stand in the file's text, and one that would be added to it."""
    _refuse([mask for mask in masks(edit.target + edit.before + edit.after) if mask not in text])
    check_masks(edit.target, edit.replacement)


def _refuse(strange: Sequence[str]) -> None:
    if strange:
        raise refusals.invalid(f"{strange[0]} stands in replies for a secret, and would overwrite it", AROUND_SECRETS)


def _masks(edit: Edit) -> Counter[str]:
    return masks(edit.target + edit.before + edit.after + edit.replacement)


def _at_occurrence(content: Content, edit: Edit, occurrence: int) -> Edit:
    """The edit, held to the lines of the occurrence it means. What stands nowhere exactly is left to the plan."""
    spots = list(exact(content, edit.target.replace("\r\n", "\n"))) if edit.target else []
    if not spots:
        return edit
    if occurrence > len(spots):
        raise refusals.fewer(content, spots, occurrence)
    spot = spots[occurrence - 1]
    first, last = content.line_of(spot.start), content.line_of(spot.stop - 1)
    return replace(edit, line_range=LineSpan(first + 1, last + 1))
