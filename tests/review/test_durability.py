"""Killed in the middle of a review: what was done is kept, what was not is done once, and the result is the same."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.review.finding import ReviewRequest
from context_engine.tools.review_tools import parse_review_options
from tests.support import preloaded
from tests.support.engines import cache_for, open_engine
from tests.support.pull_requests import FILES, NO_ANALYZERS, killed_in_the_middle, pull_request

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")


KILLS = int(os.environ.get("CTX_TEST_REVIEW_KILLS", "4"))
STARTS = """
    import sys, threading
    from pathlib import Path
    from context_engine.review.finding import ReviewRequest
    from context_engine.tools.review_tools import parse_review_options
    from tests.support.engines import open_engine
    from tests.support.pull_requests import NO_ANALYZERS
    sessions = open_engine(Path(sys.argv[1]), flush=sys.argv[2] == "flush").reviews.sessions
    print("ready", flush=True)
    print(sessions.start(ReviewRequest("topic", "main", options=parse_review_options(NO_ANALYZERS)), workers=1).session.id, flush=True)
    threading.Event().wait()
"""


def outcome(engine: Engine, session: str) -> dict[str, Any]:
    return dict(engine.reviews.sessions.outcome(session))


@pytest.mark.slow
def test_a_review_killed_in_the_middle_goes_on_where_it_stopped(tmp_path: Path) -> None:
    root = pull_request(tmp_path / "work")
    session = killed_in_the_middle(root)
    with open_engine(root) as engine:
        sessions = engine.reviews.sessions
        seen = sessions.status(session)
        assert (seen.status, seen.progress.units_done) == ("failed", 2)
        assert "resume_review" in seen.error
        sessions.resume(session)
        seen = sessions.wait(session, 55)
        assert (seen.status, seen.progress.files_done) == ("completed", FILES)
        assert [unit.tries for unit in seen.units] == [1, 1, 2, *(1 for _ in seen.units[3:])]
        resumed = outcome(engine, session)
    whole = pull_request(tmp_path / "other")
    with open_engine(whole) as engine:
        sessions = engine.reviews.sessions
        at_once = _started(engine)
        assert sessions.wait(at_once, 55).status == "completed"
        assert outcome(engine, at_once) == resumed
    assert cache_for(root).exists()


@pytest.mark.slow
def test_a_review_killed_at_any_moment_is_gone_on_with_or_was_never_started(tmp_path: Path) -> None:
    chance = random.Random(20_261_122)
    root = pull_request(tmp_path / "work")
    right, whole_s = _undisturbed(root)
    unfinished = 0
    for trial in range(KILLS):
        _forget(root)
        after_s = chance.uniform(0, whole_s / 2)
        session = _killed(root, after_s, "flush" if trial % 2 else "quick", is_named=trial % 4 > 0)
        with open_engine(root) as engine:
            sessions = engine.reviews.sessions
            if not session:  # nobody was told of one
                session = _started(engine)
            elif _ended(engine, session) != "completed":
                unfinished += 1
                sessions.resume(session)
            assert sessions.wait(session, 55).status == "completed", f"trial {trial}"
            assert outcome(engine, session) == right, f"trial {trial}"
    shutil.rmtree(root)
    assert unfinished >= KILLS // 4, "most were killed too late to prove anything"


def _started(engine: Engine) -> str:
    """Start a review of the branch; its session."""
    request = ReviewRequest("topic", "main", options=parse_review_options(NO_ANALYZERS))
    return engine.reviews.sessions.start(request, workers=1).session.id


def _undisturbed(root: Path) -> tuple[dict[str, Any], float]:
    """The outcome of a review that nothing stops, and the seconds that it takes on this machine."""
    _forget(root)
    with open_engine(root) as engine:
        started = time.monotonic()
        session = _started(engine)
        assert engine.reviews.sessions.wait(session, 55).status == "completed"
        return outcome(engine, session), time.monotonic() - started


def _forget(root: Path) -> None:
    """Remove what earlier reviews left, so that the next looks at everything again."""
    for left in (root / ".context-engine").glob("state.db*"):
        left.unlink()


def _ended(engine: Engine, session: str) -> str:
    """How a session stands once its process is noticed to be gone: a program that it was starting may hold its lock for a moment."""
    for _ in range(100):
        status = engine.reviews.sessions.status(session).status
        if status != "running":
            break
        time.sleep(0.1)
    return status


def _killed(root: Path, after_s: float, how: str, *, is_named: bool) -> str:
    """Start a review in another process and kill it, once it has named its session or before; the session, if it was named."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(STARTS), str(root), how]
    with preloaded.Popen(
        command, cwd=Path(__file__).resolve().parents[2], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        session = process.stdout.readline() if is_named else ""
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        return (session or process.stdout.read()).strip()
