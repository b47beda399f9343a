"""Killed in the middle of a review: what was done is kept, what was not is done once, and the result is the same.

`CTX_TEST_KILLS=40 pytest tests/review/test_durability.py` is the full length (`make kills`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.review.finding import ReviewRequest
from context_engine.tools.review_tools import parse_review_options
from tests.support.engines import cache_for, open_engine
from tests.support.pull_requests import FILES, NO_ANALYZERS, killed_in_the_middle, pull_request

KILLS = int(os.environ.get("CTX_TEST_KILLS", "1"))

pytestmark = [pytest.mark.kills, pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")]


def outcome(engine: Engine, session: str) -> dict[str, Any]:
    return dict(engine.reviews.sessions.outcome(session))


@pytest.mark.slow
def test_a_review_killed_in_the_middle_goes_on_where_it_stopped(tmp_path: Path, tried: Callable[..., None]) -> None:
    with open_engine(pull_request(tmp_path / "whole")) as engine:
        at_once = _started(engine)
        assert engine.reviews.sessions.wait(at_once, 55).status == "completed"
        expected = outcome(engine, at_once)
    for trial in range(KILLS):
        tried()
        root = pull_request(tmp_path / f"work{trial}")
        done = (trial + 2) % 4
        session = killed_in_the_middle(root, done=done)
        with open_engine(root) as engine:
            sessions = engine.reviews.sessions
            seen = sessions.status(session)
            assert (seen.status, seen.progress.units_done) == ("failed", done)
            assert "resume_review" in seen.error
            sessions.resume(session)
            seen = sessions.wait(session, 55)
            assert (seen.status, seen.progress.files_done) == ("completed", FILES)
            assert [unit.tries for unit in seen.units] == [1] * done + [2] + [1] * (len(seen.units) - done - 1)
            assert outcome(engine, session) == expected
        assert cache_for(root).exists()


def _started(engine: Engine) -> str:
    """Start a review of the branch; its session."""
    request = ReviewRequest("topic", "main", options=parse_review_options(NO_ANALYZERS))
    return engine.reviews.sessions.start(request, workers=1).session.id
