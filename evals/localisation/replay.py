"""A repository as it stood before a commit, indexed, with the history it had then: what its subject is asked of.

Each question gets the tree and the commits of the commit's own parent, so nothing of the future is there to be found.
The trees are taken oldest first and the index follows them as it follows edits, which costs little.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from context_engine.engine import Engine
from context_engine.history import FileHistory, HistoryFile, HistoryMiner
from context_engine.index import ROLES
from context_engine.model import Commit
from context_engine.repo import Git
from context_engine.search import Searcher
from context_engine.settings import Settings

SAMPLED = 1_200
"""The newest commits that questions are taken from: some years of a lively project."""
FILES_MAX = 10
WORDS_MIN = 4
_NO_TASK = re.compile(
    r"^(merge|revert|release|bump|upgrade|update|prepare|version|deps?\b|build\(deps|chore\(deps|v?\d+\.\d)"
    r"|\b(changelog|dependabot|typos?|pre-commit|lint(er)?)\b",
    re.IGNORECASE,
)
NOT_SOURCE = {"test", "docs", "example", "bench", "generated", "data", "vendor"}


@dataclass(frozen=True, slots=True)
class Question:
    """A commit's subject, what it touched that was there before it, and all that could be known of it then."""

    commit: Commit
    files: frozenset[str]
    source: frozenset[str]  # those that are neither tests nor documents nor data
    searcher: Searcher
    history: FileHistory
    engine: Engine


def is_task(commit: Commit) -> bool:
    """Whether the subject says what is to be done, and few enough files are changed to be one thing.

    >>> from context_engine.model import CommitFileChange
    >>> is_task(Commit("", 0, "", "Keep the order of headers", (CommitFileChange("a.py"),)))
    True
    >>> is_task(Commit("", 0, "", "Bump attrs from 23.1 to 23.2", (CommitFileChange("a.py"),)))
    False
    """
    telling = len(commit.subject.split()) >= WORDS_MIN and not _NO_TASK.search(commit.subject)
    return telling and 1 <= len(commit.files) <= FILES_MAX


def sampled(commits: Sequence[Commit], count: int) -> list[Commit]:
    """Tasks spread evenly over the newest commits, oldest first."""
    tasks = [commit for commit in commits[:SAMPLED] if is_task(commit)]
    step = max(len(tasks) / count, 1.0)
    chosen = [tasks[int(place * step)] for place in range(min(count, len(tasks)))]
    return chosen[::-1]


def questions(mirror: Path, scratch: Path, count: int) -> Iterator[Question]:
    """The questions of one repository, each valid until the next is asked for. `scratch` is an empty folder."""
    tree = scratch / "tree"
    _git(scratch, "clone", "--quiet", "--shared", "--no-checkout", str(mirror), str(tree))
    _git(tree, "checkout", "--quiet", "--detach", "--force")
    miner = HistoryMiner(Git(tree), HistoryFile(scratch / "history"), seconds=600)
    now = miner.mine()
    chosen = sampled(now.facts.commits(now.facts.heads[now.head].rows), count)
    settings = Settings(cache_folder=scratch / "cache", workers=0, watch=False)
    with closing(Engine.open(tree, settings=settings)) as engine:
        for commit in chosen:
            _git(tree, "checkout", "--quiet", "--detach", "--force", f"{commit.hash}^")
            engine.index.update()
            found = _question(engine, commit, miner)
            if found.files:
                yield found


def _question(engine: Engine, commit: Commit, miner: HistoryMiner) -> Question:
    searcher = engine.search.searcher()
    assert searcher is not None
    snapshot = searcher.snapshot
    alive = {snapshot.paths[file]: file for file in range(snapshot.files) if snapshot.file_alive[file]}
    files = frozenset(touch.was or touch.path for touch in commit.files if (touch.was or touch.path) in alive)
    source = frozenset(path for path in files if ROLES[searcher.view.roles[alive[path]]] not in NOT_SOURCE)
    mined = miner.mine()
    assert commit.hash not in {mined.facts.hashes[row] for row in mined.facts.heads[mined.head].rows}
    return Question(commit, files, source, searcher, FileHistory(mined.facts, mined.head), engine)


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
