"""What must stand around a place: right beside it first, then farther off, and always on the proper side."""

from __future__ import annotations

import pytest

from context_engine.edit.locate import WINDOW_CHARS
from context_engine.edit.model import Edit
from context_engine.edit.patch import plan
from context_engine.errors import AnchorFailed, CallError, MultipleMatches
from context_engine.text.lines import LineSpan

TARGET = "x = 1"


def line_of(file: str, *, before: str = "", after: str = "") -> int | str:
    """The line that an edit lands on, or why it does not."""
    try:
        return plan(file.encode(), [Edit(TARGET, "x = 2", before=before, after=after)]).placements[0].span.first
    except CallError as error:
        return error.code


def test_context_is_looked_for_within_its_own_length_and_a_hundred_characters() -> None:
    """Its lines count whole, so one that begins within is found."""
    near, far = "-" * (WINDOW_CHARS - 20), "-" * (WINDOW_CHARS + 20)
    assert line_of(f"x = 1\nthe head\n{near}\nx = 1\n", before="the head") == 4
    assert line_of(f"x = 1\nthe head\n{far}\n{far}\nx = 1\n", before="the head") == "ANCHOR_FAILED"
    assert line_of(f"x = 1\n{near}\nthe foot\nx = 1\n", after="the foot") == 1
    assert line_of(f"x = 1\n{far}\n{far}\nthe foot\nx = 1\n", after="the foot") == "ANCHOR_FAILED"


@pytest.mark.parametrize("before", ["b", "b\n", "a\nb", "a\r\nb\r\n", " b ", "a\n\n\tb"])
def test_context_right_above_is_known_whatever_its_whitespace(before: str) -> None:
    assert line_of("x = 1\na\nb\nx = 1\nb\nc\nx = 1\n", before=before) == 4


@pytest.mark.parametrize("after", ["b", "\nb", "b\nc", "b\r\nc\r\n", "  b", "b\n\n\tc"])
def test_context_right_below_is_known_whatever_its_whitespace(after: str) -> None:
    assert line_of("x = 1\na\nx = 1\nb\nc\nx = 1\nd\n", after=after) == 3


def test_a_line_break_at_the_end_is_a_blank_line_where_that_decides() -> None:
    assert line_of("x = 1\nb\nc\nx = 1\nb\n\n", after="b\n") == 4
    assert line_of("b\nx = 1\nb\n\nx = 1\n", before="b\n") == 5


def test_what_stands_closer_decides() -> None:
    assert line_of("b\nx = 1\nb\nc\nx = 1\n", before="b") == 2


def test_both_sides_must_fit_one_place() -> None:
    file = "a\nx = 1\nb\na\nx = 1\nc\n"
    assert line_of(file, before="a", after="c") == 5
    assert line_of("a\nx = 1\nb\nd\nx = 1\nc\n", before="a", after="c") == "ANCHOR_FAILED"


def test_context_on_the_wrong_side_is_none() -> None:
    assert line_of("x = 1\nb\n", before="b") == "ANCHOR_FAILED"
    assert line_of("b\nx = 1\n", after="b") == "ANCHOR_FAILED"


def test_the_only_place_is_believed_with_context_far_off() -> None:
    far = "-\n" * 200
    assert line_of(f"the head\n{far}x = 1\n", before="the head") == 202
    assert line_of(f"x = 1\n{far}the foot\n", after="the foot") == 1


def test_a_head_is_one_of_its_kind_and_all_below_it_is_deeper() -> None:
    body = "".join(f"    # {number} {'-' * 60}\n" for number in range(4))
    file = f"def a():\n{body}    x = 1\ndef b():\n{body}    x = 1\n"
    assert line_of(file, before="def a():") == 6
    assert line_of(file.replace("def b()", "def a()"), before="def a():") == "ANCHOR_FAILED"
    assert line_of(file.replace("    # 0", "# 0"), before="def a():") == "ANCHOR_FAILED"


def test_a_range_must_hold_the_whole_place() -> None:
    file, edit = b"a\nb\na\nb\n", Edit("a\nb", "c", line_range=LineSpan(3, 4))
    assert plan(file, [edit]).data == b"a\nb\nc\n"
    for lines in (LineSpan(3, 3), LineSpan(2, 3)):
        with pytest.raises(AnchorFailed):
            plan(file, [Edit("a\nb", "c", line_range=lines)])
    with pytest.raises(MultipleMatches):
        plan(file, [Edit("a\nb", "c", line_range=LineSpan(1, 9))])
