"""What a text costs is never told too low, and of what could be shown the best is taken, no token over the room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.budget import (
    SNIPPET_TOKENS,
    FilePrice,
    SelectedLines,
    SnippetOption,
    SnippetPacker,
    order_by_value,
)
from context_engine.text.lines import LineSpan

spans = st.tuples(st.integers(1, 9), st.integers(0, 4)).map(lambda pair: LineSpan(pair[0], sum(pair)))
worths = st.sampled_from([0.2, 0.5, 1.0])
options = st.builds(SnippetOption, st.integers(0, 2), spans, worths, st.booleans(), is_addition=st.just(False))
additions = st.builds(SnippetOption, st.integers(0, 2), spans, worths, st.just(False), is_addition=st.just(True))
prices = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=3, max_size=3).map(
    lambda rows: [FilePrice(head, lambda _, line=line: line) for head, line in rows]
)
rooms = st.integers(0, 200)


def packed(wanted: list[SnippetOption], costs: list[FilePrice], room: float) -> list[SelectedLines]:
    packing = SnippetPacker(costs, room)
    packing.select_first(wanted)
    packing.select_best(order_by_value(wanted, costs))
    return packing.selected


def lines(taken: list[SelectedLines]) -> set[tuple[int, int]]:
    return {(each.file, line) for each in taken for line in range(each.span.first, each.span.last + 1)}


def paid(taken: list[SelectedLines], costs: list[FilePrice]) -> float:
    """What lines, files and runs of lines cost, counted afresh."""
    shown = lines(taken)
    runs = sum((file, line - 1) not in shown for file, line in shown)
    heads = sum(costs[file].head for file in {file for file, _ in shown})
    return heads + runs * SNIPPET_TOKENS + sum(costs[file].line(line) for file, line in shown)


# -- what a text costs --


# -- what is taken --


@given(st.lists(options, max_size=8), prices, rooms)
def test_what_is_taken_fits_the_room_and_costs_what_it_says(
    wanted: list[SnippetOption], costs: list[FilePrice], room: int
) -> None:
    taken = packed(wanted, costs, room)
    assert sum(each.price for each in taken) <= room
    assert sum(each.price for each in taken) >= paid(taken, costs)  # runs that met later cost one frame less


@given(st.lists(options, max_size=8), prices, rooms)
def test_only_lines_that_were_offered_are_taken(wanted: list[SnippetOption], costs: list[FilePrice], room: int) -> None:
    offered = {(each.file, line) for each in wanted for line in range(each.span.first, each.span.last + 1)}
    assert lines(packed(wanted, costs, room)) <= offered


@given(st.lists(options, max_size=8), prices)
def test_with_room_for_all_everything_that_is_offered_is_shown(
    wanted: list[SnippetOption], costs: list[FilePrice]
) -> None:
    offered = {(each.file, line) for each in wanted for line in range(each.span.first, each.span.last + 1)}
    assert lines(packed(wanted, costs, 10_000)) == offered


@given(st.lists(options, max_size=4), st.lists(additions, max_size=4), prices, rooms)
def test_an_addition_comes_only_after_other_lines_of_its_file(
    wanted: list[SnippetOption], added: list[SnippetOption], costs: list[FilePrice], room: int
) -> None:
    first_lines = {each.file: each.span.first for each in reversed(packed(wanted + added, costs, room))}
    assert first_lines.items() <= {(each.file, each.span.first) for each in wanted}


@given(st.lists(options, max_size=8), prices, rooms)
def test_the_same_is_taken_in_whatever_order_it_was_offered(
    wanted: list[SnippetOption], costs: list[FilePrice], room: int
) -> None:
    firsts = {each.file for each in wanted if each.is_first}
    one_first = [each for each in wanted if not each.is_first]
    one_first += [next(each for each in wanted if each.is_first and each.file == file) for file in firsts]
    assert packed(one_first, costs, room) == packed(one_first[::-1], costs, room)


def test_what_must_be_cut_begins_at_its_most_telling_line() -> None:
    wanted = [SnippetOption(0, LineSpan(1, 30), 1.0, True, best_line=20)]
    costs = [FilePrice(0, lambda _: 10)]
    assert [each.span for each in packed(wanted, costs, SNIPPET_TOKENS + 50)] == [LineSpan(20, 24)]
    assert [each.span for each in packed(wanted, costs, SNIPPET_TOKENS + 300)] == [LineSpan(1, 30)]


def test_the_first_place_is_cut_where_the_room_ends_and_the_others_are_not() -> None:
    costs = [FilePrice(0, lambda _: 10)]
    wanted = [SnippetOption(0, LineSpan(1, 9), 1.0, True), SnippetOption(0, LineSpan(20, 29), 1.0)]
    taken = packed(wanted, costs, SNIPPET_TOKENS + 45)
    assert [each.span for each in taken] == [LineSpan(1, 4)]
