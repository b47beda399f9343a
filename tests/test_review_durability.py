"""Killed in the middle of a review: what was done is kept, what was not is done once, and the result is the same."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.review.request import Request
from context_engine.tools.review_options import options_of
from tests.engines import cache_for, open_engine
from tests.pull_requests import FILES, NO_ANALYZERS, killed_in_the_middle, pull_request

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")


def outcome(engine: Engine, session: str) -> dict[str, Any]:
    told = dict(engine.reviews.sessions.status(session).outcome)
    told.pop("figures")
    return told


@pytest.mark.slow
def test_a_review_killed_in_the_middle_goes_on_where_it_stopped(tmp_path: Path) -> None:
    root = pull_request(tmp_path / "work")
    session = killed_in_the_middle(root)
    with open_engine(root) as engine:
        sessions = engine.reviews.sessions
        seen = sessions.status(session)
        assert (seen.status, seen.progress.units_done) == ("failed", 2)
        assert "resume_review" in seen.problem
        sessions.resume(session)
        seen = sessions.wait(session, 55)
        assert (seen.status, seen.progress.files_done) == ("completed", FILES)
        ended = Counter((event.unit, event.event) for event in sessions.log(session))
        assert {ended[unit.number, "done"] for unit in seen.units} == {1}, "each unit exactly once"
        assert [unit for unit, event in ended if event == "lost"] == [3]
        assert sum(count for (_, event), count in ended.items() if event == "taken") == len(seen.units) + 1
        resumed = outcome(engine, session)
    whole = pull_request(tmp_path / "other")
    with open_engine(whole) as engine:
        sessions = engine.reviews.sessions
        at_once = sessions.start(Request("topic", "main", options=options_of(NO_ANALYZERS)), workers=1).seen.session.id
        assert sessions.wait(at_once, 55).status == "completed"
        assert outcome(engine, at_once) == resumed
    assert cache_for(root).exists()
