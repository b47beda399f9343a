"""PURE. What a place becomes: the whole replacement where the target is found exactly, otherwise only its changes.

Where the target differs in whitespace, only what the edit changes is written. A line that it keeps stays the file's
own, character by character; a line that it adds is indented as the file is there. Blank lines of the file that the
target lacks stay next to a line that is kept; those that the file lacks are not invented.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from context_engine.edit.align import align_lines, pairings
from context_engine.edit.edit_errors import unsafe_error
from context_engine.edit.file_content import BLANKS, FileContent, indent_of, key_of
from context_engine.edit.indent import doubt, is_partial, map_indents, unit_of
from context_engine.edit.model import Patch, TextMatch

WHOLE_INDENTATION = "Quote the target with its full indentation, and write that of every new line."
SAME_ENDING = "End target and replacement alike: both with a line break, or neither."
WHOLE_TARGET = "Copy the target from details.fileText, blank lines and all, and send the edit again."


# -- exactly there -------------------------------------------------------------------------------------------------


def verbatim(content: FileContent, spot: TextMatch, old: str, new: str) -> Patch:
    """Return the replacement as it is written, with the line ends of the file.

    Raises: FuzzyUnsafe where a single line is quoted without the indentation that its new lines would need.
    """
    before = content.norm[spot.start - content.column(spot.start) + 1 : spot.start]
    if "\n" in new and is_partial(old, before):
        why = doubt(before + indent_of(old), new, unit=unit_of(content.nearby(spot.start)))
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
    splice = _trim_edges(content, spot, old, new)
    first, last = splice.first, splice.last
    start, stop = content.offset(content.starts[first]), content.offset(content.starts[last] + len(content.lines[last]))
    if not splice.new:
        return Patch(start, stop + len(content.break_of(last)), "")
    rows, newline = splice.rows(), content.newline(start, stop)
    broken = [row.text + (row.ending or newline) for row in rows[:-1]]
    return Patch(start, stop, "".join([*broken, *(row.text for row in rows[-1:])]))


def _trim_edges(content: FileContent, spot: TextMatch, old: str, new: str) -> _Splice:
    """Split target and replacement into lines, without the blank ones at their edges that the file lacks."""
    olds, news = _cut(content, spot, old, new)
    above, below = _leading(olds), _leading(olds[::-1])
    head = max(0, above - _blank_beside(content, spot.twins[0], -1))
    tail = max(0, below - _blank_beside(content, spot.twins[-1], 1))
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


def _blank_beside(content: FileContent, line: int, step: int) -> int:
    """Return how many blank lines are right above a line of the file (`step` -1), or below it (1)."""
    count = 0
    while 0 <= line + step * (count + 1) < len(content.lines) and not content.keys[line + step * (count + 1)]:
        count += 1
    return count


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
            if upper in places and lower in places:
                if not _is_untouched(places, upper, lower):
                    raise self._refusal("the edit adds or removes lines where the file's blank lines differ")
                below[upper] = between
            elif upper in places:
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
        evidence = list(self._evidence())
        moved = any(old != placed for old, placed in evidence)
        indents = {number: "" if moved else indent_of(self.new[number]) for number in added}
        if not solid:
            return indents
        found = map_indents(
            evidence,
            [indent_of(self.new[number]) for number in solid],
            nearby=self.content.nearby(self.content.starts[self.first]),
            may_lack=self.may_lack_indent,
            leads=solid[0] == _leading(self.new),
        )
        if found.doubt:
            raise self._refusal(f"it is not certain how the new lines are indented: {found.doubt}")
        return indents | dict(zip(solid, found.indents, strict=True))

    def _evidence(self) -> Iterator[tuple[str, str]]:
        for old, line in zip(self.solid, self.spot.twins, strict=True):
            yield indent_of(self.old[old]), indent_of(self.content.lines[line])


def _is_untouched(places: dict[int, int], upper: int, lower: int) -> bool:
    """Return whether the replacement has between two lines just what the target has."""
    return places[lower] - places[upper] == lower - upper and all(blank in places for blank in range(upper + 1, lower))
