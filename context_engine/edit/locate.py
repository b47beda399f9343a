"""PURE. Find where an edit lands: all places that its target may mean are counted, and only a single one is taken.

A match has one of six grades. A target that is in the file exactly is searched nowhere else. Otherwise whole lines
are compared whatever their whitespace. A place is as good as its worst line, but a better place does not win over a
worse one: two places are two places. Places that differ in a few characters are found only on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise

from rapidfuzz.distance import Levenshtein

from context_engine.edit.edit_errors import (
    anchor_error,
    fewer_matches_error,
    line_range_error,
    multiple_matches_error,
    no_match_error,
)
from context_engine.edit.file_content import BLANKS, FileContent, indent_of, keys_of
from context_engine.edit.model import BLANK_LINES, DISTANCE, EXACT, INDENTATION, INNER, TRAILING, Edit, TextMatch
from context_engine.text import LineSpan

COUNTED_MAX = 20_000
"""An anchor may single out one of very many places: the closing brackets of a large file."""
FUZZY_CHARS_MIN = 20
"""Shorter targets are like too many other places."""
FUZZY_SHARE = 10
"""At most one character in ten may differ."""


def locate(content: FileContent, edit: Edit) -> list[TextMatch]:
    """Return the places that an edit changes: one, or as many as it expects.

    `edit` has its line ends folded. Raises: NoMatch, MultipleMatches, AnchorFailed, FuzzyUnsafe, InvalidLineRange.
    """
    lines = edit.line_range
    if lines is not None and not 1 <= lines.first <= min(lines.last, len(content.lines)):
        raise line_range_error(content, lines)
    if edit.occurrence:
        edit = _restrict_to_occurrence(content, edit)
    spots = list(islice(_candidates(content, edit), COUNTED_MAX + 1))
    if not spots:
        raise no_match_error(content, edit, _why_nothing(edit))
    if len(spots) > COUNTED_MAX:
        raise multiple_matches_error(content, spots, is_all=False, asked=edit.expected_matches)
    kept = spots
    if edit.is_anchored:
        kept = filter_by_anchor(content, spots, edit)
    if len(kept) > edit.expected_matches or any(one.stop > other.start for one, other in pairwise(kept)):
        raise multiple_matches_error(content, kept, asked=edit.expected_matches)
    if len(kept) < edit.expected_matches:
        raise fewer_matches_error(content, kept, edit.expected_matches)
    return kept


def _restrict_to_occurrence(content: FileContent, edit: Edit) -> Edit:
    """Restrict an edit to the lines of one occurrence; a target without any is reported as every other."""
    spots = list(exact(content, edit.target))
    if 0 < len(spots) < edit.occurrence:
        raise fewer_matches_error(content, spots, edit.occurrence)
    return replace(edit, line_range=span_of(content, spots[edit.occurrence - 1])) if spots else edit


def _why_nothing(edit: Edit) -> str:
    if not edit.fuzzy.enabled or edit.expected_matches > 1:
        return "the target is not in the file exactly"
    return "the target is not in the file"


def _candidates(content: FileContent, edit: Edit) -> Iterator[TextMatch]:
    """Yield all places of the first search that has any: exact, whatever the whitespace, by distance."""
    searches: list[Iterable[TextMatch]] = [exact(content, edit.target)]
    if edit.fuzzy.enabled and edit.expected_matches == 1:
        searches.append(by_whitespace(content, edit.target))
        if not edit.fuzzy.whitespace_only:
            searches.append(by_distance(content, edit.target, edit.fuzzy.distance_max))
    for search in searches:
        found = False
        for spot in search:
            found = True
            yield spot
        if found:
            return


def exact(content: FileContent, target: str) -> Iterator[TextMatch]:
    """Yield where the target is found as it is, also overlapping places."""
    at = content.norm.find(target)
    while at >= 0:
        yield TextMatch(at, at + len(target), EXACT)
        at = content.norm.find(target, at + 1)


# -- whatever the whitespace --------------------------------------------------------------------------------------


def by_whitespace(content: FileContent, target: str) -> Iterator[TextMatch]:
    """Yield where the lines of the target are found when whitespace does not count."""
    lines = target.removesuffix("\n").split("\n")
    solid = [(number, key) for number, key in enumerate(keys_of("\n".join(lines))) if key]
    for at in content.runs([key for _, key in solid]):
        twins = tuple(content.solid[at : at + len(solid)])
        yield _spot(content, twins, max(TRAILING, _grade(content, lines, [number for number, _ in solid], twins)))


def _spot(content: FileContent, twins: tuple[int, ...], grade: int, distance: int = 0) -> TextMatch:
    start, last = content.starts[twins[0]], twins[-1]
    return TextMatch(start, content.starts[last] + len(content.lines[last]), grade, distance, twins)


def _grade(content: FileContent, lines: list[str], solid: list[int], twins: tuple[int, ...]) -> int:
    """Return how a place differs from the target at worst."""
    gaps = zip(pairwise(solid), pairwise(twins), strict=True)
    if any(below - above != lower - upper for (above, below), (upper, lower) in gaps):
        return BLANK_LINES
    return max(_difference(lines[number], content.lines[line]) for number, line in zip(solid, twins, strict=True))


def _difference(one: str, other: str) -> int:
    if one == other:
        return EXACT
    if one.rstrip(BLANKS) == other.rstrip(BLANKS):
        return TRAILING
    if one.strip(BLANKS) == other.strip(BLANKS):
        return INDENTATION
    return INNER


# -- a few characters off -------------------------------------------------------------------------------------------


def by_distance(content: FileContent, target: str, distance_max: int) -> Iterator[TextMatch]:
    """Yield where as many lines differ from the target in a few characters, whitespace not counted."""
    keys = [key for key in keys_of(target) if key]
    wanted = "\n".join(keys)
    cutoff = min(distance_max, len(wanted) // FUZZY_SHARE)
    if len(wanted) < FUZZY_CHARS_MIN or cutoff < 1:
        return
    for at in _windows(content, keys, cutoff):
        there = "\n".join(content.keys_at(at, len(keys)))
        distance = Levenshtein.distance(wanted, there, score_cutoff=cutoff)
        if distance <= cutoff:
            yield _spot(content, tuple(content.solid[at : at + len(keys)]), DISTANCE, distance)


def _windows(content: FileContent, keys: list[str], cutoff: int) -> list[int]:
    """Return the places among the solid lines that can be near enough, in order.

    Of any `cutoff` + 1 lines one must be there as it is, or each of them differs by a character at least.
    """
    last = len(content.solid) - len(keys)
    if len(keys) > cutoff:
        often = sorted(
            (content.line_codes.count(content.codes[key]) if key in content.codes else 0, at)
            for at, key in enumerate(keys)
        )
        rarest = [at for _, at in often[: cutoff + 1]]
        found = {place - at for at in rarest for place in content.runs([keys[at]])}
        return sorted(at for at in found if 0 <= at <= last)
    chars = sum(map(len, keys))
    ends = [0, *content.key_ends]
    return [at for at in range(last + 1) if abs(ends[at + len(keys)] - ends[at] - chars) <= cutoff]


# -- anchors -----------------------------------------------------------------------------------------------------------

# A range of lines must contain the whole place. Text before or after it is searched more and more loosely: right next
# to it, the same whatever the whitespace, within a window, as the head of the enclosing block. The first way that fits
# any place decides, and it must fit one place only.


WINDOW_CHARS = 100
"""Context is searched within its own length and so many characters more, as the tool's description says."""

Stage = Callable[[FileContent, TextMatch, str], bool]


def filter_by_anchor(content: FileContent, spots: Sequence[TextMatch], edit: Edit) -> list[TextMatch]:
    """Return the places that the anchor of an edit fits.

    Raises: AnchorFailed when it fits none.
    """
    kept = list(spots)
    if edit.line_range is not None:
        kept = [spot for spot in kept if edit.line_range.contains(span_of(content, spot))]
        if not kept:
            raise anchor_error(content, spots, f"the anchor's lines {edit.line_range} do not hold the target")
    inside = list(kept)
    for name, context, stages in (("before", edit.before, BEFORE), ("after", edit.after, AFTER)):
        if not context:
            continue
        fitting = _fitting(content, inside, context.replace("\r\n", "\n"), stages)
        if not fitting:
            raise anchor_error(content, inside, f"the anchor's text is not {name} the target")
        kept = [spot for spot in kept if spot in fitting]
    if not kept:
        raise anchor_error(content, inside, "no place has both texts of the anchor around it")
    return kept


def span_of(content: FileContent, spot: TextMatch) -> LineSpan:
    """Return the lines of a place, counted from 1; a line break at its end does not begin another line."""
    last = max(spot.start, spot.stop - 1) if content.norm[spot.stop - 1 : spot.stop] == "\n" else spot.stop
    return LineSpan(content.line_of(spot.start) + 1, content.line_of(last) + 1)


def _fitting(
    content: FileContent, spots: Sequence[TextMatch], context: str, stages: Sequence[Stage]
) -> list[TextMatch]:
    if len(spots) == 1:
        return [spot for spot in spots if stages[-1](content, spot, context)]
    for stage in stages[:-1]:
        if fitting := [spot for spot in spots if stage(content, spot, context)]:
            return fitting
    return []


def _solid_keys(text: str) -> list[str]:
    return [key for key in keys_of(text) if key]


# -- right next to it, whatever the whitespace, somewhere near --------------------------------------------------------


def _is_beside(content: FileContent, spot: TextMatch, wanted: list[str], *, after: bool = False) -> bool:
    """Return whether the lines right above are just these, or those right below."""
    last, first = span_of(content, spot).last, content.line_of(spot.start)
    there = content.lines[last : last + len(wanted)] if after else content.lines[max(0, first - len(wanted)) : first]
    return there == wanted


def _has_keys(content: FileContent, spot: TextMatch, context: str, *, after: bool = False) -> bool:
    """Return whether the lines above are these, or those below, blank ones and whitespace not counted."""
    wanted = _solid_keys(context)
    line = span_of(content, spot).last if after else content.line_of(spot.start)
    at = content.solid_before(line) - (0 if after else len(wanted))
    return at >= 0 and content.keys_at(at, len(wanted)) == wanted


def _is_near(content: FileContent, spot: TextMatch, context: str, *, after: bool = False) -> bool:
    """Return whether the text is in the lines before, or after, within its own length and some more."""
    reach, text = len(context) + WINDOW_CHARS, content.norm
    if after:
        stop = text.find("\n", min(len(text), spot.stop + reach))
        return _holds(text[spot.stop : stop if stop >= 0 else len(text)], context)
    return _holds(text[text.rfind("\n", 0, max(0, spot.start - reach)) + 1 : spot.start], context)


def _holds(text: str, context: str) -> bool:
    """Return whether a text contains another, whatever the whitespace."""
    return "\n".join(_solid_keys(context)) in "\n".join(_solid_keys(text))


def _scope(content: FileContent, spot: TextMatch, context: str) -> bool:
    """Return whether the text is the head of the block: a unique line after which all lines are deeper."""
    wanted = _solid_keys(context)
    heads = list(content.runs(wanted)) if len(wanted) == 1 else []
    if len(heads) != 1:
        return False
    head, first = content.solid[heads[0]], content.line_of(spot.start)
    depth = len(indent_of(content.lines[head]))
    between = content.solid[heads[0] + 1 : content.solid_before(first + 1)]
    return head < first and all(len(indent_of(content.lines[line])) > depth for line in between)


BEFORE: tuple[Stage, ...] = (
    lambda content, spot, text: _is_beside(content, spot, text.split("\n")),  # a last line break is a blank line
    lambda content, spot, text: _is_beside(content, spot, text.removesuffix("\n").split("\n")),
    lambda content, spot, text: content.norm.endswith(text, 0, spot.start),
    _has_keys,
    _is_near,
    _scope,
    lambda content, spot, text: _holds(content.norm[: spot.start], text),
)
AFTER: tuple[Stage, ...] = (
    lambda content, spot, text: _is_beside(content, spot, text.split("\n"), after=True),
    lambda content, spot, text: _is_beside(
        content, spot, text.removeprefix("\n").removesuffix("\n").split("\n"), after=True
    ),
    lambda content, spot, text: content.norm.startswith(text, spot.stop),
    partial(_has_keys, after=True),
    partial(_is_near, after=True),
    lambda content, spot, text: _holds(content.norm[spot.stop :], text),
)
"""From the strictest to the loosest; the last is enough for a place that is the only one."""


def is_blank(context: str) -> bool:
    """Return whether a context is only whitespace."""
    return bool(context) and not context.strip(f"{BLANKS}\r\n")
