r"""PURE. What a file becomes: all edits of a call against the text as it is, assembled once, or a refusal.

>>> planned = plan(b"one\r\ntwo\r\n", [Edit("two", "2\n3")])
>>> planned.data, planned.placements[0].now
(b'one\r\n2\r\n3\r\n', LineSpan(first=2, last=3))
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import NamedTuple

from context_engine.edit import edit_errors
from context_engine.edit.delta import (
    Delta,
    align_lines,
    by_lines,
    common_ends,
    delta_of_spans,
    pairings,
)
from context_engine.edit.edit_errors import placeholders, unsafe_error
from context_engine.edit.file_content import BLANKS, BYTES_MAX, FileContent, content_of, indent_of, key_of, too_large
from context_engine.edit.indent import Doubt, find_doubt, is_partial, map_indents, unit_of
from context_engine.edit.locate import is_blank, locate
from context_engine.edit.model import EXACT, Edit, Patch, Placement, TextMatch
from context_engine.errors import Conflict, InvalidEdit
from context_engine.text import LineSpan

# -- splice ------------------------------------------------------------------------------------------------------------

# What a place becomes: the whole replacement where the target is found exactly, otherwise only its changes.
#
# Where the target differs in whitespace, only what the edit changes is written. A line that it keeps stays the file's
# own, character by character; a line that it adds is indented as the file is there. Blank lines of the file that the
# target lacks stay next to a line that is kept; those that the file lacks are not invented.

WHOLE_INDENTATION = "Quote the target with its full indentation, and write that of every new line."
SAME_ENDING = "End target and replacement alike: both with a line break, or neither."
WHOLE_TARGET = "Copy the target from fileText, blank lines and all, and send the edit again."


# -- exactly there -------------------------------------------------------------------------------------------------


def verbatim(content: FileContent, spot: TextMatch, old: str, new: str) -> Patch:
    """Return the replacement as it is written, with the line ends of the file.

    Raises: FuzzyUnsafe where a single line is quoted without the indentation that its new lines would need.
    """
    before = content.norm[spot.start - content.column(spot.start) + 1 : spot.start]
    if "\n" in new and is_partial(old, before):
        why = find_doubt(before + indent_of(old), new, unit=unit_of(content.nearby(spot.start)))
        if why:
            line = content.line_of(spot.start)
            raise unsafe_error(
                content, line, line, f"the target lacks its indentation, and {why}", suggestion=WHOLE_INDENTATION
            )
    start, stop = content.offset(spot.start), content.offset(spot.stop)
    return Patch(start, stop, _break_lines(content.text[start:stop], old, new, content.newline(start, stop)))


def _break_lines(text: str, old: str, new: str, newline: str) -> str:
    """Return `new` with the line ends of the text it replaces; where they are mixed, kept lines keep their own."""
    pairs = text.count("\r\n")
    if pairs in (0, text.count("\n")):
        return new.replace("\n", newline)
    own = ["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[:-1]]
    olds, news = old.split("\n"), new.split("\n")
    kept = align_lines(olds, news)[:-1]
    ends = [newline if line is None or line == len(own) else own[line] for line in kept]
    return "".join([line + end for line, end in zip(news, [*ends, ""], strict=True)])


# -- nearly there --------------------------------------------------------------------------------------------------


class ResultLine(NamedTuple):
    """A line of the result and how it ends; None: as new lines do."""

    text: str
    ending: str | None = None


def splice(content: FileContent, spot: TextMatch, old: str, new: str) -> Patch:
    """Return what the edit changes, put into the lines that the file has instead of the target's.

    Raises: FuzzyUnsafe where that is not certain.
    """
    trimmed = _trim_edges(content, spot, old, new)
    first, last = trimmed.first, trimmed.last
    start, stop = content.offset(content.starts[first]), content.offset(content.starts[last] + len(content.lines[last]))
    if not trimmed.new:
        return Patch(start, stop + len(content.break_of(last)), "")
    rows, newline = trimmed.rows(), content.newline(start, stop)
    broken = [row.text + (row.ending or newline) for row in rows[:-1]]
    return Patch(start, stop, "".join([*broken, *(row.text for row in rows[-1:])]))


def _trim_edges(content: FileContent, spot: TextMatch, old: str, new: str) -> _Splice:
    """Split target and replacement into lines, without the blank ones at their edges that the file lacks."""
    olds, news = _cut(content, spot, old, new)
    above, below = _leading(olds), _leading(olds[::-1])
    head = max(0, above - content.blank_beside(spot.twins[0], -1))
    tail = max(0, below - content.blank_beside(spot.twins[-1], 1))
    if news and ((head and _leading(news) != above) or (tail and _leading(news[::-1]) != below)):
        why = "blank lines around the target differ from the file's"
        raise unsafe_error(content, spot.twins[0], spot.twins[-1], why, suggestion=WHOLE_TARGET)
    return _Splice(
        content,
        spot,
        old=olds[head : len(olds) - tail],
        new=news[head : len(news) - tail] if news else [],
        first=spot.twins[0] - (above - head),
        last=spot.twins[-1] + (below - tail),
        may_lack_indent=above == 0,
    )


def _cut(content: FileContent, spot: TextMatch, old: str, new: str) -> tuple[list[str], list[str]]:
    """Split both into lines; a last line break must be in both or in neither."""
    if not old.endswith("\n"):
        return old.split("\n"), new.split("\n")
    if new and not new.endswith("\n"):
        why = "the target ends with a line break and the replacement does not"
        raise unsafe_error(content, spot.twins[0], spot.twins[-1], why, suggestion=SAME_ENDING)
    return old[:-1].split("\n"), new[:-1].split("\n") if new else []


def _leading(lines: Sequence[str]) -> int:
    return next((number for number, line in enumerate(lines) if line.strip(BLANKS)), len(lines))


@dataclass(frozen=True)
class _Splice:
    """A target and its replacement compared with lines `first` to `last` of the file, counted from 0."""

    content: FileContent
    spot: TextMatch
    old: list[str]
    new: list[str]
    first: int
    last: int
    may_lack_indent: bool
    """Whether nothing stands before the first line of the target: its indent may not have been copied."""

    @cached_property
    def solid(self) -> list[int]:
        """The lines of the target that are not blank."""
        return [number for number, line in enumerate(self.old) if line.strip(BLANKS)]

    @cached_property
    def twins(self) -> dict[int, int]:
        """The line of the file for each line of the target; none for blank lines where the two do not have as many."""
        twins = dict(zip(self.solid, self.spot.twins, strict=True))
        edges = [(-1, self.first - 1), *twins.items(), (len(self.old), self.last + 1)]
        for (above, line), (below, other) in pairwise(edges):
            if below - above == other - line:
                twins |= {above + step: line + step for step in range(1, below - above)}
        return twins

    def rows(self) -> list[ResultLine]:
        """Return the lines of the result. Raises: FuzzyUnsafe."""
        kept = align_lines(self.old, self.new)
        places = {old: number for number, old in enumerate(kept) if old is not None}
        self._check_differences(places)
        self._check_lookalikes()
        above, below = self._loose_blanks(places)
        indents = self._indents(kept)
        rows: list[ResultLine] = []
        for number, old in enumerate(kept):
            if old is None:
                rows.append(ResultLine(indents[number] + self.new[number].lstrip(BLANKS)))
            elif old in self.twins:
                lines = [*above[old], self.twins[old], *below[old]]
                rows += [ResultLine(self.content.lines[line], self.content.break_of(line)) for line in lines]
        return rows

    def _refusal(self, why: str) -> Exception:
        return unsafe_error(self.content, self.first, self.last, why)

    def _check_differences(self, places: dict[int, int]) -> None:
        """Refuse to replace a line that is different in the file; it may only stay."""
        if not self.spot.distance:
            return
        for old, line in zip(self.solid, self.spot.twins, strict=True):
            if old not in places and key_of(self.old[old]) != self.content.keys[line]:
                mine, its = self.old[old].strip(BLANKS), self.content.lines[line].strip(BLANKS)
                raise self._refusal(f"the edit replaces {mine!r}, but line {line + 1} is {its!r}")

    def _check_lookalikes(self) -> None:
        """Refuse lines that are equal in the target and differ in the file, unless it is certain which stay."""
        written: defaultdict[str, set[str]] = defaultdict(set)
        for old, line in self.twins.items():
            written[self.old[old]].add(self.content.lines[line])
        if all(len(lines) == 1 for lines in written.values()):
            return
        stays: defaultdict[int, set[str]] = defaultdict(set)
        for old, number in pairings(self.old, self.new):
            if old in self.twins:
                stays[number].add(self.content.lines[self.twins[old]])
        for number, lines in stays.items():
            if len(lines) > 1:
                text = self.new[number].strip(BLANKS)
                raise self._refusal(f"it is not certain which of the lines {text!r} stays")

    # -- blank lines that the file has and the target has not, or the other way round

    def _loose_blanks(self, places: dict[int, int]) -> tuple[defaultdict[int, range], defaultdict[int, range]]:
        """Return blank lines of the file to write above and below lines that stay. Raises: FuzzyUnsafe."""
        above: defaultdict[int, range] = defaultdict(lambda: range(0))
        below: defaultdict[int, range] = defaultdict(lambda: range(0))
        for (upper, line), (lower, other) in pairwise(zip(self.solid, self.spot.twins, strict=True)):
            if lower - upper == other - line:
                continue
            between = range(line + 1, other)
            if upper in places and lower in places and not _is_untouched(places, upper, lower):
                raise self._refusal("the edit adds or removes lines where the file's blank lines differ")
            if upper in places:
                below[upper] = between
            elif lower in places:
                above[lower] = between
            elif any(blank in places for blank in range(upper + 1, lower)):
                raise self._refusal("the edit replaces lines between which the file's blank lines differ")
        return above, below

    # -- added lines

    def _indents(self, kept: list[int | None]) -> dict[int, str]:
        """Return the indents of added lines; blank ones stay as sent where nothing moves. Raises: FuzzyUnsafe."""
        added = [number for number, old in enumerate(kept) if old is None]
        solid = [number for number in added if self.new[number].strip(BLANKS)]
        twins = zip(self.solid, self.spot.twins, strict=True)
        evidence = [(indent_of(self.old[old]), indent_of(self.content.lines[line])) for old, line in twins]
        moved = any(old != placed for old, placed in evidence)
        indents = {number: "" if moved else indent_of(self.new[number]) for number in added}
        if not solid:
            return indents
        try:
            found = map_indents(
                evidence,
                [indent_of(self.new[number]) for number in solid],
                nearby=self.content.nearby(self.content.starts[self.first]),
                may_lack=self.may_lack_indent,
                leads=solid[0] == _leading(self.new),
            )
        except Doubt as doubt:
            raise self._refusal(f"it is not certain how the new lines are indented: {doubt}") from doubt
        return indents | dict(zip(solid, found, strict=True))


def _is_untouched(places: dict[int, int], upper: int, lower: int) -> bool:
    """Return whether the replacement has between two lines just what the target has."""
    return places[lower] - places[upper] == lower - upper and all(blank in places for blank in range(upper + 1, lower))


# -- patch -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EditPlan:
    """What becomes of a file: its new bytes, where each edit lands, and the difference from the old bytes.

    `is_whole`: all of it is replaced, whatever it contains, so that there are neither places nor a difference yet.
    """

    data: bytes
    placements: tuple[Placement, ...] = ()
    delta: Delta = ()
    warnings: tuple[str, ...] = ()
    content: FileContent = field(repr=False, default_factory=lambda: FileContent(""))
    patches: tuple[Patch, ...] = field(repr=False, default=())
    is_whole: bool = False
    is_deletion: bool = False

    @property
    def new_data(self) -> bytes | None:
        """The bytes of the file afterwards; None when it is deleted."""
        return None if self.is_deletion else self.data

    @property
    def is_exact(self) -> bool:
        """Whether every target was in the file as it was written."""
        return all(placement.grade == EXACT for placement in self.placements)


def plan(data: bytes, edits: Sequence[Edit]) -> EditPlan:
    """Plan what a file of these bytes becomes.

    Raises: InvalidEdit, NoChange, NoMatch, MultipleMatches, AnchorFailed, FuzzyUnsafe, Conflict, InvalidLineRange,
    WrongEncoding, BinaryFile, TooLarge. Of several edits all failures are in the details; nothing is changed by any.
    """
    content = content_of(data)
    if not edits:
        raise InvalidEdit("there are no edits", suggestion="Say what to replace, and with what.")
    drafts = edit_errors.for_each_edit(edits, partial(_draft_patches, content))
    ordered = _in_order(list(chain.from_iterable(drafts)), len(edits))
    planned = plan_patches(content, [draft.patch for draft in ordered])
    placements = tuple(sorted(_placements(content, ordered)))
    return replace(planned, placements=placements, warnings=tuple(_warnings(content, ordered)))


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
        raise InvalidEdit(
            "the target is empty or blank", suggestion="Quote the lines to replace, or one to insert beside."
        )
    if edit.target == edit.replacement:
        raise edit_errors.no_change_error("target and replacement are the same")
    if is_blank(edit.before) or is_blank(edit.after):
        raise InvalidEdit(
            "the anchor's text is blank", suggestion="Quote a line with something on it, or leave it out."
        )
    if edit.expected_matches < 1:
        raise InvalidEdit("no matches are expected", suggestion="Expect one, or as many as there are.")
    if "\0" in edit.replacement or any("\ud800" <= char <= "\udfff" for char in _wide(edit.target + edit.replacement)):
        raise InvalidEdit("the edit holds NUL or half a character", suggestion="Send it in whole Unicode characters.")
    invented = [line for line in placeholders(edit.replacement) if line not in edit.target and line not in content.norm]
    if invented:
        raise InvalidEdit(
            f"{invented[0]!r} is a placeholder: the code that it replaces would be lost",
            suggestion="Write the replacement out in full, or edit only the lines that change.",
        )


def _wide(text: str) -> str:
    """Return a text if it has more than ASCII in it, otherwise nothing."""
    return "" if text.isascii() else text


def _reduce(content: FileContent, patch: Patch) -> Patch:
    """Return the patch without whole lines at its beginning and its end that stay as they are."""
    ending = content.break_at(patch.stop)  # with it, a last line that stays is seen to stay
    old, new = content.text[patch.start : patch.stop] + ending, patch.text + ending
    olds, news = by_lines(old), by_lines(new)
    head, tail = common_ends(olds, news)
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


def plan_patches(content: FileContent, patches: Sequence[Patch]) -> EditPlan:
    """Plan changes that are in order and do not overlap. Raises: TooLarge."""
    parts, spans, size, at = [content.bom], [], len(content.bom), 0
    for start, stop, text in patches:
        kept, new, original = (
            content.encode(part) for part in (content.text[at:start], text, content.text[start:stop])
        )
        parts += [kept, new]
        spans.append((size + len(kept), size + len(kept) + len(new), original))
        size, at = size + len(kept) + len(new), stop
    data = b"".join([*parts, content.encode(content.text[at:])])
    if len(data) > BYTES_MAX:
        raise too_large(len(data))
    return EditPlan(data, delta=delta_of_spans(data, spans), content=content, patches=tuple(patches))


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
