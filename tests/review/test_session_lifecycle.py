"""The states of a session: what may follow what, and what they mean to others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import PreconditionFailed
from context_engine.review.session_lifecycle import (
    AT_REST,
    OWNED,
    TRANSITIONS,
    UNFINISHED,
    count_progress,
    final_event,
    next_status,
    visible_status,
)

STATUSES = sorted({status for status, _ in TRANSITIONS} | set(TRANSITIONS.values()))
HAPPENINGS = sorted({happening for _, happening in TRANSITIONS})
unit_states = st.sampled_from(["queued", "running", "done", "failed"])


@given(st.sampled_from(STATUSES), st.sampled_from(HAPPENINGS))
def test_what_may_not_happen_is_refused_with_the_next_step(status: str, happening: str) -> None:
    if (status, happening) in TRANSITIONS:
        assert next_status(status, happening) == TRANSITIONS[status, happening]  # ty: ignore[invalid-argument-type] - drawn
        return
    with pytest.raises(PreconditionFailed) as refused:
        next_status(status, happening)  # ty: ignore[invalid-argument-type] - drawn
    assert refused.value.suggestion
    assert refused.value.details == {"status": status}


@given(st.lists(st.sampled_from(HAPPENINGS), max_size=12))
def test_a_completed_session_stays_completed_and_a_paused_one_paused_until_it_is_run(happenings: list[str]) -> None:
    for start, ways_out in (("completed", set()), ("paused", {"run"})):
        status = start
        for happening in happenings:
            if (status, happening) in TRANSITIONS:
                if status == start and happening not in ways_out:
                    assert TRANSITIONS[status, happening] == start
                status = TRANSITIONS[status, happening]
        assert status == start or set(happenings) & ways_out


def test_every_status_has_its_place() -> None:
    assert set(STATUSES) - UNFINISHED == {"completed", "partial", "failed"}
    assert OWNED | AT_REST | {"queued"} == set(STATUSES)


@given(st.lists(st.tuples(unit_states, st.integers(1, 10)), min_size=1))
def test_the_percentage_is_100_exactly_when_every_unit_has_ended(units: list[tuple[str, int]]) -> None:
    far = count_progress(units)
    assert (far.percentage == 100) == all(state in ("done", "failed") for state, _ in units)
    assert 0 <= far.files_done <= far.files_total
    assert far.units_done + far.units_failed + far.units_running <= far.units_total == len(units)


@given(st.lists(st.sampled_from(["done", "failed"]), min_size=1))
def test_completed_means_that_every_unit_was_reviewed(states: list[str]) -> None:
    assert (final_event(states) == "complete") == (set(states) == {"done"})
    assert (final_event(states) == "fail") == (set(states) == {"failed"})


@given(st.sampled_from(STATUSES), st.booleans())
def test_nothing_that_is_dead_is_seen_running(status: str, alive: bool) -> None:
    seen, _ = visible_status(status, is_alive=alive)
    assert seen in STATUSES
    assert alive or seen not in OWNED
    assert status in OWNED or seen == status
