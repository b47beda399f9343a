"""A pull request of forty files, for tests of whole reviews: real commits, and something wrong in every fourth file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.support import preloaded
from tests.support.trees import commit, git, repository, tree

FILES = 40
FAULTY = FILES // 4
NO_ANALYZERS: dict[str, Any] = {"analyzers": ["none"], "max_findings": 100}
"""What is installed here must not decide what a test sees."""
VICTIM = """
    import json, sys, threading
    from pathlib import Path
    from types import SimpleNamespace
    from context_engine.review.finding import ReviewRequest
    from context_engine.tools.review_tools import parse_review_options
    from tests.support.engines import open_engine
    from tests.support.pull_requests import NO_ANALYZERS
    engine = open_engine(Path(sys.argv[1]), **json.loads(sys.argv[2]))
    analyzers, calls, started = engine.reviews.workspace.analyzers, [], threading.Event()

    def run(*arguments, **named):
        calls.append(1)
        if len(calls) > int(sys.argv[3]):
            started.wait()
            print(session, flush=True)
            threading.Event().wait()
        return analyzers.run(*arguments, **named)

    vars(engine.reviews.workspace)["analyzers"] = SimpleNamespace(run=run, fingerprint=analyzers.fingerprint)
    sessions = engine.reviews.sessions
    session = sessions.start(ReviewRequest("topic", "main", options=parse_review_options(NO_ANALYZERS)), workers=1).session.id
    started.set()
    threading.Event().wait()
"""


def path_of(number: int) -> str:
    return f"shop/part{number // 8}/item{number:02d}.py"


def before(number: int) -> str:
    return f'"""Item {number}."""\n\n\ndef price_{number}(amount):\n    return amount * {number}\n'


def after(number: int) -> str:
    if number % 4:
        return before(number) + f"\n\ndef twice_{number}(amount):\n    return 2 * price_{number}(amount)\n"
    return (
        before(number)
        + f"\n\ndef safe_{number}(amount):\n    try:\n        return price_{number}(amount)\n    except:\n        return None\n"
    )


def pull_request(root: Path) -> Path:
    """A repository on branch `topic`, which changes forty files of `main`."""
    repository(root, {path_of(number): before(number) for number in range(FILES)} | {"README.md": "# Shop\n"})
    git(root, "checkout", "--quiet", "-b", "topic")
    tree(root, {path_of(number): after(number) for number in range(FILES)})
    commit(root, "safer prices")
    return root


def killed_in_the_middle(root: Path, *, done: int = 2, **knobs: Any) -> str:
    """Start a review in another process and kill it when so many of its units are done; the session."""
    with preloaded.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(VICTIM), str(root), json.dumps(knobs), str(done)],
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        session = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    return session
