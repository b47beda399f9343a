"""Added lines are indented as the lines the target shares with the file show, or it is said what is not certain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.indent import Doubt, find_doubt, map_indents, unit_of

NEARBY = ["a", "    b", "        c", "    d"]
TABS = ["a", "\tb", "\t\tc", "\td"]


@pytest.mark.parametrize(
    ("evidence", "added", "nearby", "indents"),
    [
        ([("    ", "    ")], ["      "], NEARBY, ["      "]),  # as in the file: what is sent is meant
        ([("", "    "), ("    ", "        ")], ["        "], NEARBY, ["            "]),  # moved to the right
        ([("    ", ""), ("        ", "    ")], ["            "], NEARBY, ["        "]),  # moved to the left
        ([("", "    ")], ["", "    "], NEARBY, ["    ", "        "]),  # one level, and some lines stand on it
        ([("    ", "\t")], ["        "], TABS, ["\t\t"]),  # blanks to tabs
        ([("\t", "    ")], ["\t\t"], NEARBY, ["        "]),  # tabs to blanks, by the file's own unit
        ([("", "\t"), ("  ", "\t\t")], ["    "], TABS, ["\t\t\t"]),  # to tabs, and moved by a level
        ([("\t", ""), ("\t\t", "  ")], ["\t\t\t"], NEARBY, ["    "]),  # to blanks, and moved by a level
        ([("", "    "), ("", "    ")], [""], [], ["    "]),
    ],
)
def test_one_rule_for_all_shared_lines_holds_for_added_ones(
    evidence: list[tuple[str, str]], added: list[str], nearby: list[str], indents: list[str]
) -> None:
    assert map_indents(evidence, added, nearby=nearby) == indents


@pytest.mark.parametrize(
    ("evidence", "added", "nearby"),
    [
        ([("", "  "), ("", "    ")], [""], NEARBY),  # one indent became two
        ([("  ", "    "), ("    ", "    ")], ["  "], NEARBY),  # no line through both
        ([("", "    ")], ["    "], NEARBY),  # relative, or as in the file already
        ([("        ", "    ")], ["    "], NEARBY),  # the same, to the left
        ([("", "    ")], ["  "], NEARBY),  # half a level
        ([("", "\t")], ["    "], TABS),  # blanks behind a tab
        ([("", "")], ["    "], TABS),  # nothing shared is indented, and the file has tabs
        ([("    ", "\t\t")], ["        "], TABS),  # two blanks a tab, or four and a level more
        ([("        ", "   ")], ["            "], NEARBY),  # moved by no level, to no level
        ([("   ", "\t"), ("      ", "\t\t")], ["    "], TABS),  # between two levels
    ],
)
def test_what_is_not_certain_is_not_guessed(
    evidence: list[tuple[str, str]], added: list[str], nearby: list[str]
) -> None:
    with pytest.raises(Doubt):
        map_indents(evidence, added, nearby=nearby)


def test_a_first_line_that_lost_its_indent_is_no_evidence() -> None:
    pairs = [("", "    "), ("        ", "        ")]
    assert map_indents(pairs, ["        "], nearby=NEARBY, may_lack=True) == ["        "]
    led = map_indents(pairs, ["", "        "], nearby=NEARBY, may_lack=True, leads=True)
    assert led == ["    ", "        "]
    with pytest.raises(Doubt):
        map_indents(pairs, ["        "], nearby=NEARBY)
    with pytest.raises(Doubt):
        map_indents(pairs, ["  ", "        "], nearby=NEARBY, may_lack=True, leads=True)
    with pytest.raises(Doubt):  # it is the only one, and may be the first
        map_indents(pairs[:1], [""], nearby=NEARBY, may_lack=True)


levels = st.lists(st.integers(0, 3), min_size=2, max_size=4)


@given(levels, levels, st.sampled_from([2, 4, 8]), st.integers(0, 2))
def test_blanks_become_as_many_tabs_as_the_shared_lines_say(
    shared: list[int], added: list[int], unit: int, shift: int
) -> None:
    pairs = [(" " * (unit * level), "\t" * (level + shift)) for level in shared]
    try:
        found = map_indents(pairs, [" " * (unit * level) for level in added], nearby=TABS)
    except Doubt:
        assert len(set(shared)) == 1 or not any(shared), "two levels leave no choice"
    else:
        assert found == ["\t" * (level + shift) for level in added]


@given(st.lists(st.sampled_from([0, 4, 8]), min_size=1, max_size=6))
def test_a_unit_is_found_wherever_there_are_levels(depths: list[int]) -> None:
    text = [line for depth in depths for line in (" " * depth + "a", " " * (depth + 4) + "b")]
    assert unit_of(text) == "    "


@pytest.mark.parametrize(
    ("new", "certain"),
    [
        ("foo()\n    bar()", True),
        ("foo()\n        bar()", False),
        ("foo()\nbar()", False),
        ("foo()\n    .bar()", False),
        ("foo(\n        a)", False),
        ("if a:\n        foo()", True),
        ("if a:\n    foo()", False),
        ("a = b and\n        c", False),
        ("See the manual.\n    It says more.", False),
        ("- one\n        - two", False),
        ("x = f(1)\n    // then\n    y = 2", True),
        ("foo()\n", True),
    ],
)
def test_one_line_without_its_indentation_becomes_several_only_where_there_is_one_reading(
    new: str, certain: bool
) -> None:
    assert bool(find_doubt("    ", new, unit="    ")) != certain
