"""A pull request reviewed as a session: cold, again out of the cache, and once more with a kill in the middle.

    python bench/review_sessions.py REPOSITORY BASE HEAD [--kills 5]

The repository is cloned into a folder of its own; nothing is written to it. Prints a table, and fails when the second
review finds anything else than the first, or when a unit is done twice.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from context_engine.engine import Engine
from context_engine.review import ReviewRequest
from context_engine.settings import Settings
from context_engine.storage import STATE_FOLDER
from context_engine.tools import parse_review_options

OPTIONS = {"max_findings": 100, "confidence_threshold": 0}
WAIT_S = 600
KEY_FILE = "secrets.key"
VICTIM = "import sys; from bench.review_sessions import begin; begin(sys.argv[1], sys.argv[2], sys.argv[3])"


def main() -> None:
    """Clone, review, kill, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("--kills", type=int, default=5)
    asked = parser.parse_args()
    print("| review | s | files | units | findings | cache hits |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        work = cloned(asked.repository, Path(folder) / "work")
        with opened(work) as engine:
            engine.memory.run_to_end()
            first = reviewed("cold", engine, asked.base, asked.head)
            second = reviewed("again", engine, asked.base, asked.head)
        assert json.dumps(first["findings"]) == json.dumps(second["findings"]), "the second review finds something else"
        for number in range(asked.kills):
            other = cloned(asked.repository, Path(folder) / f"kill{number}")
            (other / STATE_FOLDER).mkdir()
            shutil.copy(
                work / STATE_FOLDER / KEY_FILE, other / STATE_FOLDER
            )  # labels of secrets in quotes are keyed by workspace
            with opened(other) as engine:
                engine.memory.run_to_end()
            killed(other, asked.base, asked.head, after_done=number)
            with opened(other) as engine:
                again = resumed(f"killed after {number} units", engine)
            assert json.dumps(again["findings"]) == json.dumps(first["findings"]), "a kill changed what is found"


def cloned(repository: Path, place: Path) -> Path:
    """A work tree of its own."""
    subprocess.run(["git", "clone", "--quiet", "--local", str(repository), str(place)], check=True)
    return place


def opened(work: Path) -> Engine:
    """An engine that shares nothing with the user's."""
    return Engine.open(work, settings=Settings(cache_folder=work.parent / f"{work.name}-cache"))


def begin(work: str, base: str, head: str) -> None:
    """Start a review in this process and wait to be killed."""
    with opened(Path(work)) as engine:
        engine.reviews.sessions.start(ReviewRequest(head, base, options=parse_review_options(OPTIONS)), workers=1)
        time.sleep(WAIT_S)


def killed(work: Path, base: str, head: str, *, after_done: int) -> None:
    """Begin a review elsewhere and kill that process as soon as so many units are done and the next is under way."""
    root = str(Path(__file__).resolve().parent.parent)
    with opened(work) as engine:
        process = subprocess.Popen([sys.executable, "-c", VICTIM, str(work), base, head], cwd=root)
        while True:
            session = next(iter(engine.reviews.store.sessions()), None)
            states = Counter(unit.state for unit in session.units) if session else Counter()
            if states["done"] >= after_done and (states["running"] or (not states["queued"] and states["done"])):
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()


def reviewed(name: str, engine: Engine, base: str, head: str) -> dict[str, Any]:
    """One whole review; its outcome."""
    began = time.perf_counter()
    started = engine.reviews.sessions.start(ReviewRequest(head, base, options=parse_review_options(OPTIONS)), workers=4)
    return shown(name, engine, started.view.session.id, began)


def resumed(name: str, engine: Engine) -> dict[str, Any]:
    """What is left of a review, done."""
    began = time.perf_counter()
    sessions = engine.reviews.sessions
    session = engine.reviews.store.sessions()[0].id
    if sessions.status(session).status != "completed":
        sessions.resume(session)
    return shown(name, engine, session, began)


def shown(name: str, engine: Engine, session: str, began: float) -> dict[str, Any]:
    """Wait for the end of a session and print its row; its outcome."""
    sessions = engine.reviews.sessions
    seen = sessions.wait(session, WAIT_S)
    assert seen.status == "completed", (seen.status, seen.problem)
    assert sum(unit.tries for unit in seen.session.units) <= 1 + len(seen.session.units), (
        "more than one unit was repeated"
    )
    took = time.perf_counter() - began
    rate = sessions.telemetry(session)["cache"]["rate"]
    found = len(seen.outcome["findings"])
    files = seen.outcome["coverage"]["files"]
    print(f"| {name} | {took:.1f} | {files} | {len(seen.session.units)} | {found} | {rate:.0%} |")
    return dict(seen.outcome)


if __name__ == "__main__":
    main()
