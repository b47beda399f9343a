"""Fragments hold what was asked for, in the order of its importance, inside a budget; what is left out is named."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.errors import InvalidArgument
from context_engine.model import Definition, RelPath
from context_engine.text.lines import LineSpan, shorten_line
from context_engine.text.words import estimate_tokens
from context_engine.tools.fragment_selection import (
    IMPORTANCE,
    NAMED,
    NO_LIMIT,
    FragmentBody,
    FragmentPlace,
    FragmentSelection,
    ReplyRoom,
    find_keyword_places,
    match_symbols,
    parse_line_range,
    select_fragments,
    sort_by_importance,
)
from context_engine.tools.reply import reply_size

spans = st.tuples(st.integers(1, 9), st.integers(0, 4)).map(lambda pair: LineSpan(pair[0], sum(pair)))
places = st.builds(FragmentPlace, st.sampled_from(IMPORTANCE), st.sampled_from("ab"), st.integers(0, 1), spans)
many_places = st.lists(places, max_size=6)
written = st.sampled_from(["", "x", "y = 1", "return a + b + c", "返回", "🚀 = 1"])
bodies = st.lists(written, min_size=1, max_size=9).map(lambda lines: FragmentBody(lines, head="a.py · 9 lines"))
two_bodies = st.tuples(bodies, bodies)
contexts = st.integers(0, 2)
tight = st.builds(ReplyRoom, st.integers(0, 90), st.integers(0, 300))
"""From no room at all to all that the small world holds."""


def lines_of(span: LineSpan) -> set[int]:
    return set(range(span.first, span.last + 1))


def shown(found: FragmentSelection, file: int) -> set[int]:
    return {line for each in found.fragments if each.file == file for line in lines_of(each.span)}


def in_file(place: FragmentPlace, body: FragmentBody) -> set[int]:
    return {line for line in lines_of(place.span) if line <= len(body.lines)}


# -- what is shown ----------------------------------------------------------------------------------------------------


@given(many_places, two_bodies, contexts)
def test_without_a_limit_all_that_was_asked_is_shown_with_its_context_and_nothing_else(
    asked: list[FragmentPlace], files: tuple[FragmentBody, FragmentBody], context: int
) -> None:
    found = select_fragments(asked, files, context=context)
    for number, body in enumerate(files):
        own = [in_file(place, body) for place in asked if place.file == number]
        wide = {line + step for one in own for line in one for step in range(-context, context + 1)}
        assert shown(found, number) == {line for line in wide if 1 <= line <= len(body.lines)}
    assert (found.dropped, found.cut) == ([], [])


@given(many_places, two_bodies, contexts, tight)
def test_fragments_come_in_order_lie_in_their_file_and_never_touch(
    asked: list[FragmentPlace], files: tuple[FragmentBody, FragmentBody], context: int, room: ReplyRoom
) -> None:
    fragments = select_fragments(asked, files, context=context, room=room).fragments
    assert fragments == sorted(fragments, key=lambda each: (each.file, each.span))
    assert all(1 <= each.span.first <= each.span.last <= len(files[each.file].lines) for each in fragments)
    for one, other in pairwise(fragments):
        assert one.file != other.file or one.span.last + 1 < other.span.first


@given(many_places, two_bodies, contexts, tight)
def test_every_asked_line_is_shown_or_its_place_is_named_as_dropped_or_cut_before_it(
    asked: list[FragmentPlace], files: tuple[FragmentBody, FragmentBody], context: int, room: ReplyRoom
) -> None:
    found = select_fragments(asked, files, context=context, room=room)
    for place in asked:
        missing = in_file(place, files[place.file]) - shown(found, place.file)
        for cut, next_line in found.cut:
            missing = {line for line in missing if place != cut or line < next_line}
        assert not missing or place in found.dropped


@example(
    asked=[FragmentPlace("lines", "a", 0, LineSpan(1, 1)), FragmentPlace("symbol", "a", 1, LineSpan(5, 7))],
    files=(
        FragmentBody(["y = 1", "y = 1"], "a.py · 9 lines"),
        FragmentBody(["", "", "", "x", *["y = 1"] * 4, "return a + b + c"], "a.py · 9 lines"),
    ),
    context=2,
    room=ReplyRoom(28, 106),
)
@example(
    asked=[FragmentPlace("lines", "a", file, LineSpan(1, 1)) for file in (0, 0, 1)],
    files=(FragmentBody([""], "a.py · 9 lines"), FragmentBody([""], "a.py · 9 lines")),
    context=0,
    room=ReplyRoom(0, 0),
)
@given(many_places, two_bodies, contexts, tight)
def test_the_budget_is_kept_unless_a_single_line_is_already_over_it(
    asked: list[FragmentPlace], files: tuple[FragmentBody, FragmentBody], context: int, room: ReplyRoom
) -> None:
    found = select_fragments(asked, files, context=context, room=room)
    told = list(found.fragments)
    lines = [files[file].head for file in {each.file for each in told}]
    lines += [files[each.file].lines[line - 1] for each in told for line in lines_of(each.span)]
    for each in told:
        labels = " · ".join(f"{one.label} {one.span}" for one in each.places if one.label)
        lines.append(f"@@ {each.span} {labels}".rstrip())
    page = "".join(f"{line}\n" for line in lines)
    is_inside = estimate_tokens(page) <= room.tokens and reply_size(page) <= room.size
    assert is_inside or sum(each.span.lines for each in told) == 1


@given(many_places, two_bodies, contexts, tight)
def test_nothing_that_was_searched_for_is_shown_where_something_named_is_dropped(
    asked: list[FragmentPlace], files: tuple[FragmentBody, FragmentBody], context: int, room: ReplyRoom
) -> None:
    found = select_fragments(asked, files, context=context, room=room)
    if any(place.kind in NAMED for place in (*found.dropped, *(place for place, _ in found.cut))):
        for file in (0, 1):
            named = [line for one in asked if one.file == file and one.kind in NAMED for line in lines_of(one.span)]
            assert shown(found, file) <= {line + step for line in named for step in range(-context, context + 1)}


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(5, 200))
def test_named_places_share_the_room_whatever_their_order(lengths: list[int], lines_max: int) -> None:
    bodies = [FragmentBody(["a = 1"] * length) for length in lengths]
    asked = [FragmentPlace("whole", "", number, LineSpan(1, length)) for number, length in enumerate(lengths)]
    frame = NO_LIMIT.price("@@ 1-40") + NO_LIMIT.price("")
    room = ReplyRoom(NO_LIMIT.tokens, lines_max * NO_LIMIT.price("a = 1") + frame * len(lengths))
    found = select_fragments(asked, bodies, room=room)
    counts = [len(shown(found, number)) for number in range(len(lengths))]
    cut = [count for count, length in zip(counts, lengths, strict=True) if count < length]
    assert all(count >= max(cut) - 4 for count in cut)  # the last one gets what is too little for the others
    assert sum(counts) >= min(sum(lengths), lines_max - 2 * len(lengths))


# -- what is important ------------------------------------------------------------------------------------------------


@given(st.lists(places, max_size=9))
def test_lines_come_before_symbols_patterns_and_keywords_and_the_rarer_word_first(asked: list[FragmentPlace]) -> None:
    ranked = sort_by_importance(asked)
    assert sorted(ranked) == sorted(asked)
    for one, other in pairwise(ranked):
        assert IMPORTANCE.index(one.kind) <= IMPORTANCE.index(other.kind)
        if one.kind == other.kind in ("pattern", "keyword"):
            same = [[place.word for place in asked if place.kind == one.kind].count(each.word) for each in (one, other)]
            assert same[0] <= same[1]


# -- where things stand -----------------------------------------------------------------------------------------------


@given(st.lists(st.text("aAbß", max_size=4), max_size=6), st.text("aAbß", min_size=1, max_size=2))
def test_a_keyword_is_found_on_each_line_that_holds_it_in_any_case(lines: list[str], word: str) -> None:
    found = find_keyword_places(0, lines, word)
    assert [place.span.first for place in found] == [
        number for number, line in enumerate(lines, 1) if word.casefold() in line.casefold()
    ]


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 20))
def test_a_range_is_read_as_it_is_written(first: int, more: int, last_line: int) -> None:
    assert parse_line_range(f"{first}-{first + more}", last_line) == LineSpan(first, first + more)
    assert parse_line_range(f" {first} - {first + more} ", last_line) == LineSpan(first, first + more)
    assert parse_line_range(f"{first}", last_line) == LineSpan(first, first)
    assert parse_line_range(f"{first}-", last_line) == LineSpan(first, max(first, last_line))
    assert parse_line_range(f"-{first}", last_line) == LineSpan(1, first)


@pytest.mark.parametrize("text", ["", "-", "ten", "1-2-3", "1.5", "0x10", "1 2", "--5", "9" * 5_000])
def test_what_is_no_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_line_range(text, 9)
    assert '"10-20"' in caught.value.suggestion
    assert len(caught.value.message) < 100


def symbol(qualified: str) -> Definition:
    name = qualified.rpartition(".")[2]
    return Definition(name, qualified, "function", RelPath("a.py"), LineSpan(1, 1), "", "", "python")


SYMBOLS = [symbol(name) for name in ("Session", "Session.login", "login", "Login", "Other.Session.close")]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("login", ["Session.login", "login"]),
        ("Session.login", ["Session.login"]),
        ("Session::login()", ["Session.login"]),
        ("Session#close", ["Other.Session.close"]),
        ("LOGIN", ["Session.login", "login", "Login"]),
        ("ogin", []),
        ("()", []),
    ],
)
def test_a_symbol_is_meant_by_its_name_or_the_end_of_its_qualified_name(asked: str, found: list[str]) -> None:
    assert [each.qualified for each in match_symbols(SYMBOLS, asked)] == found


# -- long lines -------------------------------------------------------------------------------------------------------


@given(st.text("abc", max_size=20), st.integers(0, 19), st.integers(1, 9))
def test_a_cut_line_keeps_its_limit_and_the_character_it_is_cut_around(line: str, at: int, chars_max: int) -> None:
    marked = f"{line[:at]}X{line[at:]}"
    cut = shorten_line(marked, marked.index("X"), chars_max)
    assert "X" in cut
    assert cut.strip("…") in marked
    assert len(cut.strip("…")) == min(len(marked), chars_max)
    assert (cut == marked) == (len(marked) <= chars_max)
