"""What becomes of a record that differs: nothing new is lost, nothing old comes back, and what is made once stays as it was made."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.sharing.merge_rules import MergeInput, decide

SHA = st.sampled_from(["", "a", "b", "c"])
NATURE = st.sampled_from(["edited", "grows", "fixed", "derived"])


@st.composite
def sides(draw: st.DrawFn) -> MergeInput:
    """One record as it can be: what was there and is gone was there, and what both had stood there once."""
    ours, theirs, seen = draw(SHA), draw(SHA), draw(SHA)
    was_theirs = bool(ours) and (ours in (theirs, seen) or draw(st.booleans()))
    is_gone = bool(theirs) and draw(st.booleans())
    goes_on = bool(ours and theirs) and not is_gone and draw(st.booleans())
    return MergeInput(ours, theirs, is_gone, seen, was_theirs, goes_on)


@given(NATURE, sides())
def test_what_nobody_else_has_seen_is_never_replaced(nature, record: MergeInput) -> None:
    is_new = record.ours and not record.was_theirs and nature != "derived"
    if is_new:
        assert decide(nature, record) in ("give", "part")


@given(NATURE, sides())
def test_what_is_missing_here_or_older_never_becomes_the_teams(nature, record: MergeInput) -> None:
    if record.theirs and (not record.ours or record.was_theirs):
        assert decide(nature, record) in ("same", "take")


@given(NATURE, sides())
def test_where_both_have_the_same_there_is_nothing_to_do(nature, record: MergeInput) -> None:
    is_same = not record.ours if record.is_gone or not record.theirs else record.ours == record.theirs
    assert (decide(nature, record) == "same") == is_same


@given(sides())
def test_a_version_that_stands_there_is_never_written_over_and_a_log_only_by_one_that_goes_on(
    record: MergeInput,
) -> None:
    if record.theirs and not record.is_gone:
        assert decide("fixed", record) != "give"
        assert decide("grows", record) != "give" or record.goes_on


@given(sides())
def test_an_edit_becomes_the_teams_only_on_what_its_writer_had_seen(record: MergeInput) -> None:
    if record.theirs and not record.is_gone and decide("edited", record) == "give":
        assert record.theirs == record.seen
