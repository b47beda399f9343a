"""Turn the edits that a caller requests into a plan: look up symbols, count occurrences, protect masked secrets.

Replies show labels in the place of secrets. An edit that contained such a label would overwrite the secret with it, so
it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from context_engine.edit import edit_errors
from context_engine.edit.file_content import FileContent, content_of
from context_engine.edit.file_edit import FileEdit, PlannedFile
from context_engine.edit.locate import exact
from context_engine.edit.model import Edit
from context_engine.edit.patch import EditPlan, plan
from context_engine.edit.symbol_edits import LineEdit, SymbolEdit, resolve_symbols
from context_engine.languages import Grammars, Languages
from context_engine.secrets import count_labels, redact_file
from context_engine.text import LineSpan

AROUND_SECRETS = (
    "Leave the line with the secret out: edit the lines around it, and let the user change the secret."
    " Where the label is meant as text, of a document or a test, repeat the call with labels_are_text: true."
)


@dataclass(frozen=True, slots=True)
class Want:
    """An edit, and which of its exact matches is meant, counted from 1; 0 where there must be only one."""

    edit: Edit | SymbolEdit | LineEdit
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
    """Plan the edits of a file of these bytes. `labels_are_text`: labels of masked secrets are meant as written.

    Raises: as `edit.patch.plan` and `symbol_edits.resolve_symbols`; InvalidEdit for the label of a masked secret.
    """
    edits = resolve_symbols(data, path, [want.edit for want in wants], languages, grammars)
    occurrences = [want.occurrence for want in wants]
    return plan(data, choose_occurrences(data, edits, occurrences, labels_are_text=labels_are_text))


def choose_occurrences(
    data: bytes, edits: Sequence[Edit], occurrences: Sequence[int], *, labels_are_text: bool = False
) -> Sequence[Edit]:
    """Return the edits, each restricted to the lines of its occurrence in this file; 0 means the only one.

    Raises: InvalidEdit for the label of a masked secret, NoMatch for an occurrence that does not exist, and as
    `content_of`.
    """
    texts = "\n".join(edit.target + edit.before + edit.after + edit.replacement for edit in edits)
    if not any(occurrences) and not count_labels(texts):
        return edits
    content = content_of(data)

    def restrict(number: int, edit: Edit) -> Edit:
        quoted = count_labels(edit.target + edit.before + edit.after)
        _refuse_labels([label for label in quoted if label not in content.text])
        check_labels(edit.target, edit.replacement, content.text, are_text=labels_are_text)
        if occurrences[number]:
            return _restrict_to(content, edit, occurrences[number])
        return edit

    return edit_errors.for_each_edit(edits, restrict)


def check_labels(old: str, new: str, file: str, *, are_text: bool = False) -> None:
    """Refuse a text with labels of masked secrets that the one it replaces does not have. Raises: InvalidEdit.

    A label that the file contains as text may be written again, and any label where the caller says that they
    `are_text`; but never one that replies show for a secret of this file.
    """
    if added := count_labels(new) - count_labels(old):
        masks = count_labels(redact_file(file)) - count_labels(file)
        _refuse_labels([label for label in added if label in masks or not (are_text or label in file)])


def change_whole_file(change: FileEdit, text: str, *, labels_are_text: bool = False) -> FileEdit:
    """Return the change that gives a file this text, unless it would add the label of a masked secret."""

    def plan(data: bytes | None) -> PlannedFile:
        if count_labels(text):
            old = content_of(data or b"").text
            check_labels(old, text, old, are_text=labels_are_text)
        return change.plan(data)

    return replace(change, plan=plan)


def _refuse_labels(labels: Sequence[str]) -> None:
    if labels:
        raise edit_errors.invalid_edit_error(
            f"{labels[0]} is shown in replies for a secret, and would overwrite it", AROUND_SECRETS
        )


def _restrict_to(content: FileContent, edit: Edit, occurrence: int) -> Edit:
    """Restrict an edit to the lines of one occurrence. The plan reports a target without an exact match."""
    if edit.target:
        spots = list(exact(content, edit.target.replace("\r\n", "\n")))
    else:
        spots = []
    if not spots:
        return edit
    if occurrence > len(spots):
        raise edit_errors.fewer_matches_error(content, spots, occurrence)
    spot = spots[occurrence - 1]
    first, last = content.line_of(spot.start), content.line_of(spot.stop - 1)
    return replace(edit, line_range=LineSpan(first + 1, last + 1))
