"""Laws of an edit: what is outside survives, what is written is what was asked for, and the way back leads back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.apply import still_fits
from context_engine.edit.delta import apply_delta, reverse_delta
from context_engine.edit.file_edit import edit_file
from context_engine.edit.model import Edit, Fuzzy
from context_engine.edit.patch import plan
from context_engine.errors import CallError
from context_engine.text.lines import LineSpan

# A small world: lines that look alike, in all kinds of whitespace and line ends.
indents = st.sampled_from(["", "  ", "    ", "      ", "\t", "\t\t"])
words = st.sampled_from(["a", "b", "a b", "a  b", "c", "}", "if a:"])
lines = st.one_of(
    st.just(""), st.builds(lambda indent, word, tail: indent + word + tail, indents, words, st.sampled_from(["", " "]))
)
breaks = st.sampled_from(["\n", "\r\n"])
files = st.tuples(st.lists(st.tuples(lines, breaks), max_size=8), st.booleans()).map(
    lambda drawn: "".join(line + end for line, end in drawn[0])[: None if drawn[1] else -1]
)
texts = st.lists(lines, min_size=1, max_size=4).map("\n".join)
fuzzies = st.builds(Fuzzy, st.booleans(), st.integers(0, 5), st.booleans())
ranges = st.none() | st.builds(LineSpan, st.integers(0, 6), st.integers(0, 6))
edits = st.builds(
    Edit,
    *(texts, texts),
    before=st.just("") | texts,
    after=st.just("") | texts,
    line_range=ranges,
    expected_matches=st.integers(0, 3),
    fuzzy=fuzzies,
)


@dataclass(frozen=True)
class Task:
    """An edit of some lines of a file, quoted with other whitespace than they have."""

    lines: list[str]
    first: int
    stop: int
    edit: Edit

    @property
    def file(self) -> bytes:
        return "".join(self.lines).encode()


def quoted(line: str, style: str) -> str:
    body, indent = line.strip(" \t\r\n"), line[: len(line) - len(line.lstrip(" \t"))]
    told = {
        "as is": line.rstrip("\r\n"),
        "trimmed": indent + body,
        "trailing": indent + body + "  ",
        "stripped": body,
        "deeper": f"    {indent}{body}",
        "tabs as blanks": indent.replace("\t", "    ") + body,
        "blanks as tabs": indent.replace("  ", "\t") + body,
        "one blank": indent + re.sub(" +", " ", body),
    }
    return told[style] if body else ""


STYLES = ["as is", "trimmed", "trailing", "stripped", "deeper", "tabs as blanks", "blanks as tabs", "one blank"]


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Some lines of a file are dropped, replaced or added to; they are quoted in some style."""
    of_file = [line + end for line, end in draw(st.lists(st.tuples(lines, breaks), min_size=1, max_size=8))]
    if draw(st.booleans()):
        of_file[-1] = of_file[-1].rstrip("\r\n")
    first = draw(st.integers(0, len(of_file) - 1))
    stop = draw(st.integers(first + 1, len(of_file)))
    style = draw(st.sampled_from(STYLES))
    old, new = [quoted(line, style) for line in of_file[first:stop]], []
    for line in old:
        what = draw(st.sampled_from(["stays", "stays", "goes", "else", "more"]))
        new += {"stays": [line], "goes": [], "else": [line + "x"], "more": [line, quoted(draw(lines), style)]}[what]
    return Task(of_file, first, stop, Edit("\n".join(old), "\n".join(new), fuzzy=draw(fuzzies)))


def solid(text: str) -> str:
    """What is not whitespace."""
    return re.sub(r"[ \t\r\n]+", "", text)


def applied(file: bytes, wanted: Sequence[Edit]) -> bytes | None:
    try:
        return plan(file, wanted).data
    except CallError:
        return None


# -- whatever is asked for ----------------------------------------------------------------------------------------


@given(files, st.lists(edits, min_size=1, max_size=3))
def test_whatever_is_asked_for_only_our_refusals_are_raised_and_name_a_next_step(file: str, wanted: list[Edit]) -> None:
    data, error = file.encode(), None
    try:
        data = plan(data, wanted).data
    except CallError as refused:
        error = refused
    assert error.suggestion if error else data != file.encode()


@given(files, st.lists(edits, min_size=1, max_size=3))
def test_the_way_back_leads_back(file: str, wanted: list[Edit]) -> None:
    try:
        planned = plan(file.encode(), wanted)
    except CallError:
        return
    assert apply_delta(reverse_delta(planned.delta), planned.data) == file.encode()


@given(files, st.lists(edits, min_size=2, max_size=3), st.randoms(use_true_random=False))
def test_the_order_of_edits_does_not_count(file: str, wanted: list[Edit], chance: Random) -> None:
    shuffled = chance.sample(wanted, len(wanted))
    assert applied(file.encode(), wanted) == applied(file.encode(), shuffled)


# -- edits of lines that are there ----------------------------------------------------------------------------------


@given(tasks())
def test_what_is_written_is_what_was_asked_for_whitespace_apart(task: Task) -> None:
    data = applied(task.file, [task.edit])
    if data is None:
        return
    old, new, before = solid(task.edit.target), solid(task.edit.replacement), solid(task.file.decode())
    ways = {before[:at] + new + before[at + len(old) :] for at in range(len(before) + 1) if before.startswith(old, at)}
    assert solid(data.decode()) in ways


@given(tasks())
def test_lines_outside_of_the_place_keep_every_byte(task: Task) -> None:
    try:
        planned = plan(task.file, [task.edit])
    except CallError:
        return
    span = planned.placements[0].span
    above, below = task.lines[: span.first - 1], task.lines[span.last :]
    while above and not above[-1].strip():  # a blank line beside the place may belong to it
        above.pop()
    while below and not below[0].strip():
        below.pop(0)
    assert planned.data.startswith("".join(above).encode())
    assert planned.data.endswith("".join(below).encode())


@given(tasks())
def test_what_stands_twice_whatever_the_whitespace_is_never_replaced(task: Task) -> None:
    """The file is doubled, so that each of its places is there again; only an exact target can be the only one."""
    twice = [*(line.rstrip("\r\n") + "\n" for line in task.lines)] * 2
    data = "".join(twice).encode()
    try:
        planned = plan(data, [task.edit])
    except CallError:
        return
    target = task.edit.target.replace("\r", "")
    assert planned.is_exact
    assert (
        1 in map(data.decode().count, (target, target.rstrip())) or task.edit.target.count("\n") >= len(task.lines) - 1
    )


@given(tasks())
def test_placements_say_which_lines_are_new(task: Task) -> None:
    try:
        planned = plan(task.file, [task.edit])
    except CallError:
        return
    now = planned.placements[0].now
    old, new = task.file.replace(b"\r", b"").split(b"\n"), planned.data.replace(b"\r", b"").split(b"\n")
    assert new[: now.first - 1] == old[: now.first - 1]
    behind = len(new) - now.last - 1
    assert behind <= 0 or new[-behind:] == old[-behind:]


@given(tasks())
def test_still_fits_is_what_a_plan_says_of_exact_targets(task: Task) -> None:
    try:
        exact = plan(task.file, [task.edit]).is_exact
    except CallError:
        exact = False
    change = edit_file("a.py", partial(plan, edits=[task.edit]))
    assert still_fits(change, task.file) == exact


@given(files, st.integers(0, 40), st.integers(1, 20), texts)
def test_an_exact_edit_replaces_the_only_place_there_is(file: str, start: int, length: int, new: str) -> None:
    norm = file.replace("\r\n", "\n")
    old = norm[start : start + length]
    data = applied(file.encode(), [Edit(old, new)])
    if data is not None:
        assert norm.count(old) == 1
        assert data.decode().replace("\r\n", "\n") == norm.replace(old, new)


# -- one by one -----------------------------------------------------------------------------------------------------


def test_two_lines_that_are_joined_are_told_of() -> None:
    planned = plan(b"a\nb\n", [Edit("a\n", "x")])
    assert planned.data == b"xb\n"
    assert "two lines were joined" in planned.warnings[0]


@pytest.mark.parametrize(
    ("file", "target"),
    [
        ("}\n" * 20_000, "}\n" * 50),
        ("}\n" * 20_000, "  }\n" * 50),
        ("}\n" * 20_000, "}\n" * 49 + "zz\n"),
        ("a b " * 250_000, "a  b " * 200),
        (" " * 1_000_000, "x"),
        ("".join(f"line {n} of many\n" for n in range(20_000)), "".join(f"line {n} of none\n" for n in range(5_000))),
    ],
)
def test_nothing_takes_long_however_it_is_repeated(file: str, target: str) -> None:
    """A quadratic search would take minutes here, and the run would be stopped."""
    with pytest.raises(CallError):
        plan(file.encode(), [Edit(target, "x", fuzzy=Fuzzy(whitespace_only=False))])
