"""A diff and one version of a file give the other version, or nothing when the diff was not made for it."""

from __future__ import annotations

import difflib

from hypothesis import assume, given
from hypothesis import strategies as st

from context_engine.text.diff_reader import parse_diff
from tests.support.changes import diff_text

TEXTS = st.builds(
    lambda lines, ends: "".join(f"{line}\n" for line in lines) if ends or not lines else "\n".join(lines),
    st.lists(st.sampled_from(["a", "b", "", "c\r"]), max_size=8),
    st.booleans(),
).filter(lambda text: text != "")


@given(TEXTS, TEXTS)
def test_a_diff_leads_from_the_old_version_to_the_new_and_back(old: str, new: str) -> None:
    assume(old != new)
    file = parse_diff(diff_text("x", old, new)).files[0]
    assert file.apply(old) == new
    assert file.revert(new) == old


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n"]), min_size=1, max_size=8)


@given(LINES, LINES)
def test_a_diff_without_context_leads_there_as_well(old: list[str], new: list[str]) -> None:
    assume(old != new)
    file = parse_diff("".join(difflib.unified_diff(old, new, "a/x", "b/x", n=0))).files[0]
    assert file.apply("".join(old)) == "".join(new)
    assert file.revert("".join(new)) == "".join(old)


@given(TEXTS, TEXTS, TEXTS)
def test_a_diff_that_was_made_for_another_file_gives_nothing_or_keeps_what_is_beside_it(
    old: str, new: str, other: str
) -> None:
    assume(old != new)
    file = parse_diff(diff_text("x", old, new)).files[0]
    made = file.apply(other)
    gone = [line.text for line in file.removed_lines]
    assert made is None or all(line in other.split("\n") for line in gone)


def test_hunks_alone_keep_their_lines_in_their_places() -> None:
    old = "".join(f"{number}\n" for number in range(1, 21))
    file = parse_diff(diff_text("x", old, old.replace("15\n", "fifteen\n"))).files[0]
    assert file.text_of_hunks().split("\n")[14] == "fifteen"
    assert file.text_of_hunks().split("\n")[:11] == [""] * 11
