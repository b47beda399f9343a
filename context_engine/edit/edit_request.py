"""From what a caller wants of a file to its plan: symbols looked up, occurrences counted, and one thing he must not want.

A reply shows a mask where a secret was masked. Whoever sends the mask back would write it over the secret: that is
refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from context_engine.edit import edit_errors
from context_engine.edit.file_content import FileContent, content_of
from context_engine.edit.file_edit import FileEdit, PlannedFile
from context_engine.edit.locate import exact
from context_engine.edit.model import Edit
from context_engine.edit.patch import EditPlan, plan
from context_engine.edit.symbol_edits import SymbolEdit, resolve_symbols
from context_engine.errors import CallError
from context_engine.languages import Grammars, Languages
from context_engine.secrets import count_labels, redact_file
from context_engine.text import LineSpan

AROUND_SECRETS = (
    "Leave the line with the secret out: edit the lines around it, and let the user change the secret. Where the label is meant"
    " as text, of a document or a test, repeat the call with labels_are_text: true."
)


@dataclass(frozen=True, slots=True)
class Want:
    """An edit, and which of the places that fit exactly is meant, counted from 1; 0 where there must be only one."""

    edit: Edit | SymbolEdit
    occurrence: int = 0


def plan_file(
    data: bytes,
    path: str,
    wants: Sequence[Want],
    languages: Languages,
    grammars: Grammars,
    *,
    labels_are_text: bool = False,
) -> EditPlan:
    """What a file of these bytes becomes. `labels_are_text`: labels of masked secrets are meant as they are written.

    Raises: as `edit.patch.plan` and `symbol_edits.resolve_symbols`; InvalidEdit for the mask of a masked secret.
    """
    edits = resolve_symbols(data, path, [want.edit for want in wants], languages, grammars)
    occurrences = [want.occurrence for want in wants]
    return plan(data, choose_occurrences(data, edits, occurrences, labels_are_text=labels_are_text))


def choose_occurrences(
    data: bytes, edits: Sequence[Edit], occurrences: Sequence[int], *, labels_are_text: bool = False
) -> Sequence[Edit]:
    """The edits, each held to the occurrence that it means on this file; 0 means the only one.

    Raises: InvalidEdit for the mask of a masked secret, NoMatch for an occurrence that is not there, and as
    `content_of`.
    """
    if not any(occurrences) and not any(_masks(edit) for edit in edits):
        return edits
    content = content_of(data)
    held: list[Edit] = []
    failed: list[tuple[int, CallError]] = []
    for number, (edit, occurrence) in enumerate(zip(edits, occurrences, strict=True)):
        try:
            _check(content, edit, labels_are_text=labels_are_text)
            held.append(_at_occurrence(content, edit, occurrence) if occurrence else edit)
        except CallError as error:
            failed.append((number, error))
    if failed:
        raise failed[0][1] if len(edits) == 1 else edit_errors.together(failed, len(edits))
    return held


def check_labels(old: str, new: str, file: str, *, are_text: bool = False) -> None:
    """Refuse a text with labels of masked secrets that the one it replaces does not have. Raises: InvalidEdit.

    A label that the file holds as text may be written again, and any where the caller says that they `are_text`; but
    never one that replies show for a secret of this file.
    """
    if added := count_labels(new) - count_labels(old):
        shown = count_labels(redact_file(file)) - count_labels(file)
        _refuse([label for label in added if label in shown or not (are_text or label in file)])


def whole(change: FileEdit, text: str, *, labels_are_text: bool = False) -> FileEdit:
    """The change that gives a file this text, unless it would put a label where there was none."""

    def plan(data: bytes | None) -> PlannedFile:
        if count_labels(text):
            old = content_of(data or b"").text
            check_labels(old, text, old, are_text=labels_are_text)
        return change.plan(data)

    return replace(change, plan=plan)


def _check(content: FileContent, edit: Edit, *, labels_are_text: bool) -> None:
    """Refuse a label that is quoted and not in the file's text, and one that would be added to it."""
    file = content.text
    _refuse([label for label in count_labels(edit.target + edit.before + edit.after) if label not in file])
    check_labels(edit.target, edit.replacement, file, are_text=labels_are_text)


def _refuse(strange: Sequence[str]) -> None:
    if strange:
        raise edit_errors.invalid(
            f"{strange[0]} is shown in replies for a secret, and would overwrite it", AROUND_SECRETS
        )


def _masks(edit: Edit) -> Counter[str]:
    return count_labels(edit.target + edit.before + edit.after + edit.replacement)


def _at_occurrence(content: FileContent, edit: Edit, occurrence: int) -> Edit:
    """The edit, held to the lines of the occurrence it means. What stands nowhere exactly is left to the plan."""
    spots = list(exact(content, edit.target.replace("\r\n", "\n"))) if edit.target else []
    if not spots:
        return edit
    if occurrence > len(spots):
        raise edit_errors.fewer(content, spots, occurrence)
    spot = spots[occurrence - 1]
    first, last = content.line_of(spot.start), content.line_of(spot.stop - 1)
    return replace(edit, line_range=LineSpan(first + 1, last + 1))
