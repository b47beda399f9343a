"""Lines side by side: what stays is as much as can stay, and turning the rest makes the new lines of the old."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit import delta
from context_engine.edit.delta import align_lines, by_lines, pairings, turns

lines = st.lists(st.sampled_from("abc"), max_size=6)


def longest(old: list[str], new: list[str]) -> int:
    """The length of the longest common subsequence, by trying all."""
    for size in range(min(len(old), len(new)), 0, -1):
        of_new = {tuple(each) for each in combinations(new, size)}
        if any(tuple(each) in of_new for each in combinations(old, size)):
            return size
    return 0


@given(lines, lines)
def test_turning_what_turns_makes_the_new_lines(old: list[str], new: list[str]) -> None:
    made, at = [], 0
    for turn in turns(old, new):
        made += old[at : turn.start] + new[turn.new_start : turn.new_stop]
        at = turn.stop
    assert made + old[at:] == new


@given(lines, lines)
def test_what_stays_is_equal_in_order_and_as_much_as_can_be(old: list[str], new: list[str]) -> None:
    kept = align_lines(old, new)
    pairs = [(one, number) for number, one in enumerate(kept) if one is not None]
    assert all(old[one] == new[number] for one, number in pairs)
    assert pairs == sorted(set(pairs)) and len({one for one, _ in pairs}) == len(pairs)
    assert len(pairs) == longest(old, new)


@given(lines, lines)
def test_a_pairing_is_in_some_longest_common_subsequence(old: list[str], new: list[str]) -> None:
    best = longest(old, new)
    wanted = {
        (one, number)
        for one in range(len(old))
        for number in range(len(new))
        if old[one] == new[number]
        and longest(old[:one], new[:number]) + 1 + longest(old[one + 1 :], new[number + 1 :]) == best
    }
    assert set(pairings(old, new)) == wanted


def test_what_is_too_long_to_compare_keeps_its_equal_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "CELLS_MAX", 3)
    assert align_lines(list("axbyc"), list("aybxc")) == [0, None, None, None, 4]
    assert set(pairings(list("aab"), list("ab"))) == {(0, 0), (1, 0), (2, 1)}


@given(st.text(st.sampled_from("a\r\n\f"), max_size=9))
def test_lines_with_their_line_feeds_are_the_text(text: str) -> None:
    assert "".join(by_lines(text)) == text
    assert all(line.find("\n") in {-1, len(line) - 1} for line in by_lines(text))
