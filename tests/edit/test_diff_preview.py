"""A preview is a unified diff: whoever applies it to the old lines gets the new ones."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.model import Edit
from context_engine.edit.patch import plan
from context_engine.edit.unified_diff import format_redacted_diff
from context_engine.errors import CallError

texts = st.text(st.sampled_from("ab\n"), max_size=40)
HUNK = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@")


def patched(old: str, diff: str) -> str:
    """The diff applied, line by line; its numbers must be right."""
    lines, made, at = old.splitlines(keepends=True), [], 0
    rows = diff.splitlines()[2:]
    for number, row in enumerate(rows):
        if hunk := HUNK.fullmatch(row):
            first, size, new_first, new_size = map(int, hunk.groups())
            made += lines[at : first - (size > 0)]
            at = first - (size > 0)
            assert len(made) == new_first - (new_size > 0)
        elif not row.startswith("\\"):
            ends = "" if rows[number + 1 : number + 2] == ["\\ No newline at end of file"] else "\n"
            if row[0] != "+":
                assert lines[at] == row[1:] + ends
                at += 1
            if row[0] != "-":
                made.append(row[1:] + ends)
    return "".join(made + lines[at:])


@given(texts, st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8), texts), min_size=1, max_size=3))
def test_a_preview_leads_from_the_old_text_to_the_new_one(old: str, wanted: list[tuple[int, int, str]]) -> None:
    edits = [Edit(old[start : start + length], new) for start, length, new in wanted]
    try:
        planned = plan(old.encode(), edits)
    except CallError:
        return
    diff = format_redacted_diff("a.txt", old.encode(), planned.data, lines_max=1_000)
    assert patched(old, diff) == planned.data.decode()


def test_a_long_preview_is_cut_and_says_how_much_is_missing() -> None:
    old = "".join(f"line {number}\n" for number in range(500))
    planned = plan(old.encode(), [Edit(old, old.replace("line", "row"))])
    diff = format_redacted_diff("a.txt", old.encode(), planned.data, lines_max=50).splitlines()
    assert len(diff) == 51
    assert diff[-1] == "... 953 more lines"


def test_carriage_returns_are_not_shown_as_changes() -> None:
    diff = format_redacted_diff("a.txt", b"a\r\nb\r\nc\r\n", b"a\r\nx\r\nc\r\n")
    assert diff.splitlines()[3:] == [" a", "-b", "+x", " c"]


def test_a_very_long_line_is_cut() -> None:
    diff = format_redacted_diff("a.txt", b"x" * 5_000 + b"needle\n", b"x" * 5_000 + b"pin\n")
    assert max(map(len, diff.splitlines())) < 1_100
