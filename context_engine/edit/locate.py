"""PURE.

Where an edit lands: every place that its target may mean is counted, and unless it is the one, the edit is refused.

The ladder has six rungs. A target that stands in the file exactly is looked for nowhere else. Failing that, whole lines
are compared whatever their whitespace; a place is as good as its worst line, but a better place does not win over a
worse one: two places are two places. Only when asked to, places are taken that differ in a few characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise

from rapidfuzz.distance import Levenshtein

from context_engine.edit.anchors import filter_by_anchor
from context_engine.edit.edit_errors import fewer, nothing, past_the_end, several
from context_engine.edit.file_content import FileContent
from context_engine.edit.model import BLANK_LINES, DISTANCE, EXACT, INDENTATION, INNER, TRAILING, Edit, TextMatch
from context_engine.edit.normalized_lines import BLANKS, keys_of

COUNTED_MAX = 64
"""Beyond so many places the exact number helps nobody."""
ANCHORED_MAX = 20_000
"""An anchor may single out one of very many places: the closing brackets of a large file."""
FUZZY_CHARS_MIN = 20
"""Shorter targets are like too many other places."""
FUZZY_SHARE = 10
"""At most one character in ten may differ."""


def locate(content: FileContent, edit: Edit) -> list[TextMatch]:
    """The places that an edit changes: one, or as many as it expects.

    `edit` has its line ends folded. Raises: NoMatch, MultipleMatches, AnchorFailed, FuzzyUnsafe, InvalidLineRange.
    """
    if edit.line_range is not None and not 1 <= edit.line_range.first <= edit.line_range.last:
        raise past_the_end(content, edit)
    if edit.line_range is not None and edit.line_range.first > len(content.lines):
        raise past_the_end(content, edit)
    limit = ANCHORED_MAX if edit.is_anchored else max(COUNTED_MAX, edit.expected_matches)
    spots = list(islice(_candidates(content, edit), limit + 1))
    if not spots:
        raise nothing(content, edit, _why_nothing(edit))
    if len(spots) > limit:
        raise several(content, spots, is_all=False, asked=edit.expected_matches)
    kept = filter_by_anchor(content, spots, edit) if edit.is_anchored else spots
    if len(kept) > edit.expected_matches or any(one.stop > other.start for one, other in pairwise(kept)):
        raise several(content, kept, asked=edit.expected_matches)
    if len(kept) < edit.expected_matches:
        raise fewer(content, kept, edit.expected_matches)
    return kept


def _why_nothing(edit: Edit) -> str:
    if not edit.fuzzy.enabled or edit.expected_matches > 1:
        return "the target is not in the file exactly"
    return "the target is not in the file"


def _candidates(content: FileContent, edit: Edit) -> Iterator[TextMatch]:
    """All places of the first rung that has any."""
    rungs: list[Iterable[TextMatch]] = [exact(content, edit.target)]
    if edit.fuzzy.enabled and edit.expected_matches == 1:
        rungs.append(by_whitespace(content, edit.target))
        if not edit.fuzzy.whitespace_only:
            rungs.append(by_distance(content, edit.target, edit.fuzzy.distance_max))
    for rung in rungs:
        found = False
        for spot in rung:
            found = True
            yield spot
        if found:
            return


def exact(content: FileContent, target: str) -> Iterator[TextMatch]:
    """Where the target stands as it is, overlapping places as well."""
    at = content.norm.find(target)
    while at >= 0:
        yield TextMatch(at, at + len(target), EXACT)
        at = content.norm.find(target, at + 1)


# -- whatever the whitespace --------------------------------------------------------------------------------------


def by_whitespace(content: FileContent, target: str) -> Iterator[TextMatch]:
    """Where the lines of the target stand when only what is on them counts."""
    lines = target.removesuffix("\n").split("\n")
    solid = [(number, key) for number, key in enumerate(keys_of("\n".join(lines))) if key]
    for at in content.runs([key for _, key in solid]):
        twins = tuple(content.solid[at : at + len(solid)])
        yield _spot(content, twins, max(TRAILING, _rung(content, lines, [number for number, _ in solid], twins)))


def _spot(content: FileContent, twins: tuple[int, ...], rung: int, distance: int = 0) -> TextMatch:
    start, last = content.starts[twins[0]], twins[-1]
    return TextMatch(start, content.starts[last] + len(content.lines[last]), rung, distance, twins)


def _rung(content: FileContent, lines: list[str], solid: list[int], twins: tuple[int, ...]) -> int:
    """How a place differs from the target at worst."""
    gaps = zip(pairwise(solid), pairwise(twins), strict=True)
    if any(below - above != lower - upper for (above, below), (upper, lower) in gaps):
        return BLANK_LINES
    return max(_difference(lines[number], content.lines[line]) for number, line in zip(solid, twins, strict=True))


def _difference(one: str, other: str) -> int:
    if one == other:
        return EXACT
    if one.rstrip(BLANKS) == other.rstrip(BLANKS):
        return TRAILING
    return INDENTATION if one.strip(BLANKS) == other.strip(BLANKS) else INNER


# -- a few characters off -------------------------------------------------------------------------------------------


def by_distance(content: FileContent, target: str, distance_max: int) -> Iterator[TextMatch]:
    """Where as many lines differ from the target in a few characters, whitespace not counted."""
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
    """The places among the solid lines that can be near enough, in order.

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
