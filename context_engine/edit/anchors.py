"""PURE. Which of several places an anchor means, and whether the only one is where the anchor says.

A range of lines must hold the whole place. Text before or after it is looked for more and more loosely: right beside
it, the same whatever the whitespace, within a window, as the head of the block it stands in. The first way that fits
any place decides, and it must fit one place only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from context_engine.edit.edit_errors import anchor_failed
from context_engine.edit.file_content import FileContent
from context_engine.edit.model import Edit, TextMatch
from context_engine.edit.normalized_lines import BLANKS, indent_of, keys_of
from context_engine.text import LineSpan

WINDOW_CHARS = 100
"""Context is looked for within its own length and so many characters more, as the tool's description has it."""

Stage = Callable[[FileContent, TextMatch, str], bool]


def filter_by_anchor(content: FileContent, spots: Sequence[TextMatch], edit: Edit) -> list[TextMatch]:
    """The places that the anchor of an edit fits.

    Raises: AnchorFailed when it fits none.
    """
    kept = list(spots)
    if edit.line_range is not None:
        kept = [spot for spot in kept if edit.line_range.contains(span_of(content, spot))]
        if not kept:
            raise anchor_failed(content, spots, f"the anchor's lines {edit.line_range} do not hold the target")
    inside = list(kept)
    for name, context, stages in (("before", edit.before, BEFORE), ("after", edit.after, AFTER)):
        if not context:
            continue
        fitting = _fitting(content, inside, _fold_space(context), stages)
        if not fitting:
            raise anchor_failed(content, inside, f"the anchor's text is not {name} the target")
        kept = [spot for spot in kept if spot in fitting]
    if not kept:
        raise anchor_failed(content, inside, "no place has both texts of the anchor around it")
    return kept


def span_of(content: FileContent, spot: TextMatch) -> LineSpan:
    """The lines of a place, counted from 1; a line break at its end does not begin another line."""
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


def _fold_space(context: str) -> str:
    return context.replace("\r\n", "\n")


def _solid_keys(text: str) -> list[str]:
    return [key for key in keys_of(text) if key]


# -- right beside it -----------------------------------------------------------------------------------------------


def _all_above(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The lines right above are just these, a line break at the end being a blank line."""
    return _lines_above(content, spot, f"{context}\n")


def _all_below(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The lines right below are just these, a line break at either end being a blank line."""
    return _lines_below(content, spot, f"\n{context}\n")


def _lines_above(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The lines right above are just these."""
    wanted = context.removesuffix("\n").split("\n")
    first = content.line_of(spot.start)
    return first >= len(wanted) and content.lines[first - len(wanted) : first] == wanted


def _lines_below(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The lines right below are just these."""
    wanted = context.removeprefix("\n").removesuffix("\n").split("\n")
    last = span_of(content, spot).last
    return content.lines[last : last + len(wanted)] == wanted


def _text_before(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The text ends so where the place begins."""
    return content.norm.endswith(context, 0, spot.start)


def _text_after(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The text goes on so where the place ends."""
    return content.norm.startswith(context, spot.stop)


# -- whatever the whitespace --------------------------------------------------------------------------------------


def _keys_above(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The lines above are these, blank ones and whitespace not counted."""
    wanted = _solid_keys(context)
    stop = content.solid_before(content.line_of(spot.start))
    return stop >= len(wanted) and content.keys_at(stop - len(wanted), len(wanted)) == wanted


def _keys_below(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The lines below are these, blank ones and whitespace not counted."""
    wanted = _solid_keys(context)
    return content.keys_at(content.solid_before(span_of(content, spot).last), len(wanted)) == wanted


# -- somewhere near ------------------------------------------------------------------------------------------------


def _window_before(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The text stands in the lines before, not farther off than its own length and some more."""
    start = content.norm.rfind("\n", 0, max(0, spot.start - len(context) - WINDOW_CHARS)) + 1
    return _holds(content.norm[start : spot.start], context)


def _window_after(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The text stands in the lines after, not farther off than its own length and some more."""
    stop = content.norm.find("\n", min(len(content.norm), spot.stop + len(context) + WINDOW_CHARS))
    return _holds(content.norm[spot.stop : stop if stop >= 0 else len(content.norm)], context)


def _holds(text: str, context: str) -> bool:
    """Whether a text holds another, whatever the whitespace."""
    return "\n".join(_solid_keys(context)) in "\n".join(_solid_keys(text))


def _scope(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The text is the head of the block: one line, the only one of its kind, and all lines since are deeper."""
    wanted = _solid_keys(context)
    heads = list(content.runs(wanted)) if len(wanted) == 1 else []
    if len(heads) != 1:
        return False
    head, first = content.solid[heads[0]], content.line_of(spot.start)
    depth = len(indent_of(content.lines[head]))
    between = content.solid[heads[0] + 1 : content.solid_before(first + 1)]
    return head < first and all(len(indent_of(content.lines[line])) > depth for line in between)


def _anywhere_before(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The text stands somewhere before."""
    return _holds(content.norm[: spot.start], context)


def _anywhere_after(content: FileContent, spot: TextMatch, context: str) -> bool:
    """The text stands somewhere after."""
    return _holds(content.norm[spot.stop :], context)


BEFORE: tuple[Stage, ...] = (
    _all_above,
    _lines_above,
    _text_before,
    _keys_above,
    _window_before,
    _scope,
    _anywhere_before,
)
AFTER: tuple[Stage, ...] = (_all_below, _lines_below, _text_after, _keys_below, _window_after, _anywhere_after)
"""From the strictest to the loosest; the last is enough for a place that is the only one."""


def is_blank(context: str) -> bool:
    """Whether a context says nothing."""
    return bool(context) and not context.strip(f"{BLANKS}\r\n")
