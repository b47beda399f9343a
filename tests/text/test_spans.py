"""Spans of lines grow, meet and are cut like the sets of lines they stand for."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from context_engine.text.lines import LineSpan, group_spans, merge_spans

spans = st.tuples(st.integers(1, 9), st.integers(0, 4)).map(lambda pair: LineSpan(pair[0], sum(pair)))


def lines(*many: LineSpan) -> set[int]:
    return {line for span in many for line in range(span.first, span.last + 1)}


@given(st.lists(spans, max_size=5), st.integers(0, 3))
def test_merged_spans_cover_the_widened_lines_and_no_other(many: list[LineSpan], context: int) -> None:
    wide = {line + step for line in lines(*many) for step in range(-context, context + 1)}
    joined = [group.span for group in group_spans(many, context=context)]
    assert lines(*joined) == {line for line in wide if line >= 1}
    assert all(one.last + 1 < other.first for one, other in pairwise(joined))


@given(st.lists(spans, max_size=5))
def test_merging_twice_changes_nothing_and_order_does_not_count(many: list[LineSpan]) -> None:
    assert merge_spans(merge_spans(many)) == merge_spans(many) == merge_spans(reversed(many))


@given(spans, st.integers(0, 12))
def test_clipping_keeps_the_lines_that_exist(span: LineSpan, last_line: int) -> None:
    clipped = span.clip(last_line)
    assert (lines(clipped) if clipped else set()) == {line for line in lines(span) if line <= last_line}


@given(spans, spans)
def test_touching_and_holding_are_told_by_the_lines(one: LineSpan, other: LineSpan) -> None:
    together = lines(one, other)
    assert one.touches(other) == (len(together) == max(together) - min(together) + 1)
    assert one.contains(other) == (lines(other) <= lines(one))


@given(spans, st.integers(0, 12))
def test_a_span_counts_its_lines_and_never_grows_above_the_first(span: LineSpan, by: int) -> None:
    assert span.lines == len(lines(span))
    assert span.expand(by) == LineSpan(max(1, span.first - by), span.last + by)


@given(st.lists(spans, max_size=5), st.integers(0, 3), st.integers(0, 12))
def test_each_span_of_the_file_is_a_member_of_the_one_group_that_holds_it(
    many: list[LineSpan], context: int, last_line: int
) -> None:
    groups = group_spans(many, context=context, last_line=last_line)
    members = [number for each in groups for number in each.members]
    assert sorted(members) == [number for number, span in enumerate(many) if span.first <= last_line]
    for each in groups:
        assert [many[number] for number in each.members] == sorted(many[number] for number in each.members)
        assert all(
            each.span.contains(LineSpan(one.first, min(one.last, last_line)))
            for one in map(many.__getitem__, each.members)
        )
        assert each.span.last <= last_line
