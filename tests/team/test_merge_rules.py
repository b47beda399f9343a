"""What becomes of a record that differs: nothing new is lost, nothing old comes back, and what is made once stays as it was made."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.team.synced_folder import MergeInput, decide

SHA = st.sampled_from(["", "a", "b", "c"])
NATURE = st.sampled_from(["edited", "grows", "fixed", "derived"])


@st.composite
def sides(draw: st.DrawFn) -> MergeInput:
    """One record as it can be: what was there and is gone was there, and what both had stood there once."""
    ours, theirs, seen = draw(SHA), draw(SHA), draw(SHA)
    is_known = bool(ours) and (ours in (theirs, seen) or draw(st.booleans()))
    is_deleted = bool(theirs) and draw(st.booleans())
    extends = bool(ours and theirs) and not is_deleted and draw(st.booleans())
    return MergeInput(ours, theirs, is_deleted, seen, is_known, extends)


@given(NATURE, sides())
def test_what_nobody_else_has_seen_is_never_replaced(nature, record: MergeInput) -> None:
    is_new = record.ours and not record.is_known and nature != "derived"
    if is_new:
        assert decide(nature, record) in ("push", "conflict")


@given(NATURE, sides())
def test_what_is_missing_here_or_older_never_becomes_the_teams(nature, record: MergeInput) -> None:
    if record.theirs and (not record.ours or record.is_known):
        assert decide(nature, record) in ("same", "pull")


@given(NATURE, sides())
def test_where_both_have_the_same_there_is_nothing_to_do(nature, record: MergeInput) -> None:
    is_same = not record.ours if record.is_deleted or not record.theirs else record.ours == record.theirs
    assert (decide(nature, record) == "same") == is_same


@given(sides())
def test_a_version_that_stands_there_is_never_written_over_and_a_log_only_by_one_that_extends(
    record: MergeInput,
) -> None:
    if record.theirs and not record.is_deleted:
        assert decide("fixed", record) != "push"
        assert decide("grows", record) != "push" or record.extends


@given(sides())
def test_an_edit_becomes_the_teams_only_on_what_its_writer_had_seen(record: MergeInput) -> None:
    if record.theirs and not record.is_deleted and decide("edited", record) == "push":
        assert record.theirs == record.agreed
