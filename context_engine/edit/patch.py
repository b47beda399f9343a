r"""PURE. What a file becomes: all edits of a call against the text as it is, assembled once, or a refusal.

>>> planned = plan(b"one\r\ntwo\r\n", [Edit("two", "2\n3")])
>>> planned.data, planned.placements[0].now, revert(planned.data, planned.inverse)
(b'one\r\n2\r\n3\r\n', LineSpan(first=2, last=3), b'one\r\ntwo\r\n')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

from context_engine.edit import edit_errors
from context_engine.edit.align import by_lines, common
from context_engine.edit.file_content import BLANKS, BYTES_MAX, FileContent, content_of, too_large
from context_engine.edit.locate import is_blank, locate
from context_engine.edit.model import EXACT, Edit, Inverse, Patch, Placement, TextMatch
from context_engine.edit.placeholder import placeholders
from context_engine.edit.splice import splice, verbatim
from context_engine.edit.unified_diff import format_diff
from context_engine.errors import Conflict
from context_engine.text import LineSpan

PREVIEW_LINES_MAX = 200
"""More of a difference is not read; the placements say where the rest is."""


@dataclass(frozen=True)
class EditPlan:
    """The plan of edits: the new bytes of a file, where each edit lands, and how to get the old bytes back."""

    data: bytes
    placements: tuple[Placement, ...]
    inverse: tuple[Inverse, ...]
    warnings: tuple[str, ...] = ()
    content: FileContent = field(repr=False, default_factory=lambda: FileContent(""))
    patches: tuple[Patch, ...] = field(repr=False, default=())

    @property
    def is_exact(self) -> bool:
        """Whether every target was in the file as it was written."""
        return all(placement.grade == EXACT for placement in self.placements)

    def preview(self, path: str, lines_max: int = PREVIEW_LINES_MAX) -> str:
        """Return the difference as a unified diff, cut to some lines; what was cut is counted."""
        return format_diff(path, self.content, self.patches, lines_max)


def plan(data: bytes, edits: Sequence[Edit]) -> EditPlan:
    """Plan what a file of these bytes becomes.

    Raises: InvalidEdit, NoChange, NoMatch, MultipleMatches, AnchorFailed, FuzzyUnsafe, Conflict, InvalidLineRange,
    WrongEncoding, BinaryFile, TooLarge. Of several edits all failures are in the details; nothing is changed by any.
    """
    content = content_of(data)
    if not edits:
        raise edit_errors.invalid_edit_error("there are no edits", "Say what to replace, and with what.")
    drafts = edit_errors.for_each_edit(edits, partial(_draft_patches, content))
    return _assemble(content, _in_order(list(chain.from_iterable(drafts)), len(edits)))


def revert(data: bytes, inverse: Iterable[Inverse]) -> bytes:
    """Return the bytes before: each span of the new ones is what it was."""
    parts, at = [], 0
    for start, stop, original in sorted(inverse):
        parts += [data[at:start], original]
        at = stop
    return b"".join([*parts, data[at:]])


# -- each edit by itself ---------------------------------------------------------------------------------------------


class DraftPatch(NamedTuple):
    """One change, reduced to the lines that differ; the place it was found at; the text there, `start` to `stop`."""

    patch: Patch
    start: int
    stop: int
    edit: int
    spot: TextMatch


def _draft_patches(content: FileContent, number: int, edit: Edit) -> list[DraftPatch]:
    """Return the changes of one edit, its text in line feeds only until it is written."""
    drafts: list[DraftPatch] = []
    folded = replace(edit, target=edit.target.replace("\r\n", "\n"), replacement=edit.replacement.replace("\r\n", "\n"))
    _check(content, folded)
    spots = locate(content, folded)
    for spot in spots:
        become = verbatim if spot.grade == EXACT else splice
        patch = become(content, spot, folded.target, folded.replacement)
        if content.text[patch.start : patch.stop] == patch.text:
            raise edit_errors.no_change_error("the file already is as the edit would make it")
        drafts.append(DraftPatch(_reduce(content, patch), patch.start, patch.stop, number, spot))
    return drafts


def _check(content: FileContent, edit: Edit) -> None:
    """Refuse an edit that makes no sense, wherever it lands."""
    if not edit.target.strip(f"{BLANKS}\r\n"):
        raise edit_errors.invalid_edit_error(
            "the target is empty or blank", "Quote the lines to replace, or one to insert beside."
        )
    if edit.target == edit.replacement:
        raise edit_errors.no_change_error("target and replacement are the same")
    if is_blank(edit.before) or is_blank(edit.after):
        raise edit_errors.invalid_edit_error(
            "the anchor's text is blank", "Quote a line with something on it, or leave it out."
        )
    if edit.expected_matches < 1:
        raise edit_errors.invalid_edit_error("no matches are expected", "Expect one, or as many as there are.")
    if "\0" in edit.replacement or any("\ud800" <= char <= "\udfff" for char in _wide(edit.target + edit.replacement)):
        raise edit_errors.invalid_edit_error(
            "the edit holds NUL or half a character", "Send it in whole Unicode characters."
        )
    if not content.is_clean and not edit.replacement.isascii():
        raise edit_errors.encoding_error("the file is not UTF-8, and the replacement is not ASCII")
    invented = [line for line in placeholders(edit.replacement) if line not in edit.target and line not in content.norm]
    if invented:
        raise edit_errors.invalid_edit_error(
            f"{invented[0]!r} is a placeholder: the code that it replaces would be lost",
            "Write the replacement out in full, or edit only the lines that change.",
        )


def _wide(text: str) -> str:
    """Return a text if it has more than ASCII in it, otherwise nothing."""
    if text.isascii():
        return ""
    return text


def _reduce(content: FileContent, patch: Patch) -> Patch:
    """Return the patch without whole lines at its beginning and its end that stay as they are."""
    ending = content.break_at(patch.stop)  # with it, a last line that stays is seen to stay
    old, new = content.text[patch.start : patch.stop] + ending, patch.text + ending
    olds, news = by_lines(old), by_lines(new)
    head = common(olds, news)
    tail = min(common(olds[::-1], news[::-1]), len(olds) - head, len(news) - head)
    start = patch.start + len("".join(olds[:head]))
    stop = patch.start + len(old) - len("".join(olds[len(olds) - tail :]))
    return Patch(start, stop, "".join(news[head : len(news) - tail]))


# -- all of them together --------------------------------------------------------------------------------------------


def _in_order(drafts: Sequence[DraftPatch], count: int) -> list[DraftPatch]:
    """Return the changes as they follow one another in the file.

    Raises: Conflict when two change the same lines, or begin at one point and it is not certain which comes first.
    """
    ordered = sorted(drafts, key=lambda draft: (draft.patch.start, draft.patch.stop, draft.start, draft.edit))
    for one, other in pairwise(ordered):
        overlap = other.patch.start < one.patch.stop
        if overlap or (other.patch.start == one.patch.start and other.start < one.stop):
            numbers = sorted({one.edit + 1, other.edit + 1})
            raise Conflict(
                f"edits {numbers[0]} and {numbers[-1]} of {count} change the same lines; nothing was written",
                suggestion="Make one edit of the two: its replacement is what both should leave.",
                details={"edits": numbers},
            )
    return ordered


def _assemble(content: FileContent, drafts: Sequence[DraftPatch]) -> EditPlan:
    """Assemble the new bytes, and where every change is in them."""
    parts, inverse, size, at = [content.bom], [], len(content.bom), 0
    for start, stop, text in (draft.patch for draft in drafts):
        kept, new, original = (
            content.encode(part) for part in (content.text[at:start], text, content.text[start:stop])
        )
        parts += [kept, new]
        inverse.append(Inverse(size + len(kept), size + len(kept) + len(new), original))
        size, at = size + len(kept) + len(new), stop
    data = b"".join([*parts, content.encode(content.text[at:])])
    if len(data) > BYTES_MAX:
        raise too_large(len(data))
    return EditPlan(
        data=data,
        placements=tuple(sorted(_placements(content, drafts))),
        inverse=tuple(inverse),
        warnings=tuple(_warnings(content, drafts)),
        content=content,
        patches=tuple(draft.patch for draft in drafts),
    )


def _placements(content: FileContent, drafts: Sequence[DraftPatch]) -> Iterator[Placement]:
    """Yield where each edit was found, and where its changed lines are now; `drafts` in their order."""
    line, at, moved = 1, 0, 0
    for (start, stop, text), *_, edit, spot in drafts:
        line += content.text.count("\n", at, start)
        at = start
        first, last = line + moved, line + moved + text.count("\n")
        now = LineSpan(first, last - 1 if last > first and text.endswith("\n") else last)
        yield Placement(
            edit, _find_lines(content, spot, line, start), content.column(spot.start), now, spot.grade, spot.distance
        )
        moved += text.count("\n") - content.text.count("\n", start, stop)


def _find_lines(content: FileContent, spot: TextMatch, line: int, offset: int) -> LineSpan:
    """Return the lines of a place, when an offset of the text near it is known to be on a line."""
    start = content.offset(spot.start)
    first = line + (content.text.count("\n", offset, start) or -content.text.count("\n", start, offset))
    return LineSpan(first, first + content.norm.count("\n", spot.start, max(spot.start, spot.stop - 1)))


def _warnings(content: FileContent, drafts: Sequence[DraftPatch]) -> Iterator[str]:
    """Yield what a caller may not have meant."""
    for (_, stop, text), *_, edit, spot in drafts:
        cut = content.norm[spot.stop - 1 : spot.stop] == "\n" and spot.grade == EXACT
        if cut and text and not text.endswith("\n") and stop < len(content.text):
            why = "its target ends with a line break and its replacement does not; two lines were joined"
            yield f"edit {edit + 1}: {why}"
