"""Units: every file in exactly one, few enough in each, what belongs together side by side."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from context_engine.review.review_units import FILES_MAX, LINES_MAX, FileTie, UnitFile, cut_into_units

names = st.sampled_from([f"{folder}/{name}.py" for folder in "abc" for name in "123456789"])
parts = st.dictionaries(names, st.integers(0, 2_000), max_size=27).map(
    lambda found: [UnitFile(*each) for each in found.items()]
)
ties = st.lists(st.builds(FileTie, names, names, st.sampled_from([0.25, 0.5, 1.0])), max_size=30)


@given(parts, ties)
def test_every_file_is_in_exactly_one_unit_and_no_unit_is_too_large(found: list[UnitFile], tied: list[FileTie]) -> None:
    cut = cut_into_units(found, tied)
    assert sorted(part for unit in cut for part in unit) == sorted(found)
    for unit in cut:
        assert 1 <= len(unit) <= FILES_MAX
        assert len(unit) == 1 or sum(part.lines for part in unit) <= LINES_MAX


@given(parts, ties, st.integers(0, 99))
def test_the_same_change_is_cut_the_same_in_whatever_order_it_comes(
    found: list[UnitFile], tied: list[FileTie], seed: int
) -> None:
    chance = random.Random(seed)
    mixed, mixed_ties = found[:], tied[:]
    chance.shuffle(mixed)
    chance.shuffle(mixed_ties)
    assert cut_into_units(mixed, mixed_ties) == cut_into_units(found, tied)


@given(parts)
def test_two_neighbours_that_would_fit_into_one_unit_are_in_one(found: list[UnitFile]) -> None:
    cut = cut_into_units(found)
    for one, other in itertools.pairwise(cut):
        both = one + other
        assert len(both) > FILES_MAX or sum(part.lines for part in both) > LINES_MAX


def test_what_is_tied_goes_together_the_strongest_first() -> None:
    found = [UnitFile(path, 700) for path in ("a/0.py", "a/1.py", "b/4.py", "c/1.py")]
    tied = [FileTie("a/0.py", "a/1.py", 0.5), FileTie("a/0.py", "b/4.py", 1.0), FileTie("gone.py", "c/1.py", 2.0)]
    cut = [[part.path for part in unit] for unit in cut_into_units(found, tied)]
    assert cut == [["a/0.py", "b/4.py"], ["a/1.py", "c/1.py"]]


def test_a_file_with_more_lines_than_a_unit_may_have_is_alone() -> None:
    found = [UnitFile("a/1.py", 5), UnitFile("a/2.py", 9_000), UnitFile("a/3.py", 5)]
    assert [[part.path for part in unit] for unit in cut_into_units(found, [FileTie("a/1.py", "a/2.py", 1.0)])] == [
        ["a/1.py"],
        ["a/2.py"],
        ["a/3.py"],
    ]
