"""A unified diff of one file is edits of it: each hunk stands where it says or just once, or nothing is written."""

from __future__ import annotations

from contextlib import suppress
from difflib import unified_diff

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit import unified_diff as diff_module
from context_engine.edit.patch import plan
from context_engine.errors import CallError, InvalidEdit, NoMatch

LINES = [f"line {number}\n" for number in range(1, 21)]
OLD = "".join(LINES)


def patched(old: str, diff: str) -> str:
    return plan(old.encode(), diff_module.edits_of_diff(old.encode(), diff)).data.decode()


def diff_of(old: str, new: str) -> str:
    return "".join(unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), "a/x", "b/x"))


WORLD = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "x = 1\n", "  y\n"]), min_size=1, max_size=12).map("".join)


@given(WORLD, WORLD)
def test_what_the_library_of_python_says_differs_leads_from_one_text_to_the_other_or_is_refused(
    old: str, new: str
) -> None:
    diff = diff_of(old, new)
    if not diff:
        return
    with suppress(CallError):  # a place that is not certain
        assert patched(old, diff) == new


def test_several_hunks_are_applied_together() -> None:
    new = OLD.replace("line 3\n", "three\n").replace("line 17\n", "line 17\nmore\n")
    assert patched(OLD, diff_of(OLD, new)) == new


@pytest.mark.parametrize("head", ["@@ -99,9 +99,9 @@", "@@ -0,0 +0,0 @@ def f():", "@@", "@@ ... @@"])
def test_numbers_that_are_wrong_do_no_harm_where_the_lines_stand_just_once(head: str) -> None:
    diff = f"--- a/x\n+++ b/x\n{head}\n line 4\n-line 5\n+five\n line 6\n"
    assert patched(OLD, diff) == OLD.replace("line 5\n", "five\n")


def test_of_several_places_the_numbers_decide() -> None:
    old = "a\nb\nc\na\nb\nc\n"
    assert patched(old, "@@ -4,2 +4,2 @@\n a\n-b\n+B\n") == "a\nb\nc\na\nB\nc\n"


def test_of_several_places_none_is_taken_that_the_numbers_do_not_name() -> None:
    with pytest.raises(InvalidEdit, match="stand at 1, 4, and not where it says"):
        patched("a\nb\nc\na\nb\nc\n", "@@ -3,2 +3,2 @@\n a\n-b\n+B\n")


def test_numbers_that_the_file_has_shifted_since_are_counted_on() -> None:
    old = "new\nlines\nhead\nmore\nz\na\nb\nc\na\nb\n"
    diff = "@@ -1,2 +1,2 @@\n head\n-more\n+MORE\n@@ -4,2 +4,2 @@\n a\n-b\n+B\n"
    assert patched(old, diff) == "new\nlines\nhead\nMORE\nz\na\nB\nc\na\nb\n"


def test_a_part_of_a_line_is_no_line() -> None:
    with pytest.raises(NoMatch):
        patched("xline 5\n", "@@ -1 +1 @@\n-line 5\n+five\n")


def test_a_blank_line_that_lost_its_blank_is_a_blank_line() -> None:
    assert patched("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n") == "a\n\nB\n"


def test_a_last_line_without_a_break_keeps_or_gets_one_as_the_diff_says() -> None:
    without = "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n"
    assert patched("a\nb", without) == "a\nB\n"
    assert patched("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n\\ No newline at end of file\n") == "a\nB"


def test_line_ends_of_the_file_stay() -> None:
    assert patched("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n") == "a\r\nB\r\n"


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        ("", "no hunk"),
        ("just words\n", "no hunk"),
        ("@@ -1 +1 @@\n-line 1\n+one\ndiff --git a/y b/y\n", "more than one file"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-line 1\n+one\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-q\n+w\n", "more than one file"),
        ("@@ -1 +1 @@\n*line 1\n", r"begins with '\*'"),
        ("@@ -5,0 +6,1 @@\n+new\n", "quotes no line"),
    ],
)
def test_what_is_no_diff_of_one_file_is_refused(diff: str, why: str) -> None:
    with pytest.raises(InvalidEdit, match=why):
        patched(OLD, diff)


def test_every_hunk_that_does_not_fit_is_told_of() -> None:
    diff = "@@ -1 +1 @@\n-nowhere\n+x\n@@ -3,1 +3,1 @@\n-line 3\n+three\n@@ -9 +9 @@\n-neither\n+y\n"
    with pytest.raises(NoMatch) as refused:
        patched(OLD, diff)
    assert [row["edit"] for row in refused.value.details["failed"]] == [1, 3]
