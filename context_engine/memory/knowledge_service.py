"""What one Engine knows of its team: memories, discoveries, the history, and which files are used.

Memories are written and read at once. The rest is derived from files and commits in the background (`memory.learning`). An
answer waits a moment for what it lacks, then does without it and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.context.budget import bound
from context_engine.context.project_knowledge import Ranked, Team
from context_engine.context.tokenizer import tokenizer
from context_engine.history.change_prediction import localised
from context_engine.history.file_history import History
from context_engine.index.encoder import StaticEncoder
from context_engine.memory.background_refresh import Learning, Sources
from context_engine.memory.knowledge import Knowledge
from context_engine.memory.linked_files import LinkedFiles
from context_engine.memory.memories import Memories
from context_engine.memory.memory_checks import Scrub
from context_engine.memory.memory_folder import Shelf
from context_engine.memory.memory_index import Recall
from context_engine.memory.memory_similarity import Embed
from context_engine.model import Query
from context_engine.repo.git import Git
from context_engine.repo.paths import Root
from context_engine.search.file_usage import Access
from context_engine.search.searcher import Searcher
from context_engine.secrets import redact
from context_engine.sharing.records import Records
from context_engine.storage.state_folder import FOLDER
from context_engine.storage.timestamps import Now

if TYPE_CHECKING:  # for those who have a team
    from context_engine.sharing.shared_records import Commons

USED_KEPT_S = 60.0
"""How often is looked what is used: a ranking does not change under the hands of who asks twice."""
MEMORIES = "memories"
COUNTED_BY_RANKING = frozenset({"read", "fragment", "edit", "plan", "review"})
"""What somebody chose to look at. What was merely shown is counted, too, but would lift itself by being shown."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What it needs of the Engine.

    `files` are the indexed files with what changes when their content does; `searcher` is that of the newest snapshot, None
    while there is none. `user_folder` holds the memories of this person; `tokenizer_file` None counts by an upper bound.
    `scrub` takes secrets out of what is kept; `commons` is where a team has its memories in common, this person's excepted.
    """

    root: Root
    git: Git
    cache: Path
    workspace_cache: Path
    user_folder: Path
    files: Callable[[], Mapping[str, bytes]]
    read: Callable[[str], bytes | None]
    searcher: Callable[[], Searcher | None]
    encoder: StaticEncoder | None
    now: Now
    counts_access: bool = True
    tokenizer_file: Path | None = None
    scrub: Scrub = redact
    commons: Commons | None = None


class Remembering:
    """What the team of one Engine knows. Thread-safe; nothing is opened before it is needed."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        recall = Recall(world.workspace_cache / "recall.db")
        records = Records(world.root.path / FOLDER, MEMORIES, commons=world.commons)
        shelves = {
            "project": Shelf("project", records, recall, shown=f"{FOLDER}/{MEMORIES}"),
            "user": Shelf(
                "user", Records(world.user_folder, MEMORIES), recall, shown=str(world.user_folder / MEMORIES)
            ),
        }
        self.access = Access(world.workspace_cache / "access.db", clock=world.now, enabled=world.counts_access)
        self.memories = Memories(
            shelves, LinkedFiles(world.root), recall, now=world.now, embed=_embed(world.encoder), scrub=world.scrub
        )
        self.knowledge = Knowledge(self.memories, now=world.now, access=lambda path: self.used().get(path, 0.0))
        self._learning = Learning(
            Sources(
                world.git,
                world.cache / "histories",
                world.files,
                world.read,
                lambda: world.searcher() is not None,
            ),
            self.knowledge,
            self.access,
        )
        self._count = bound
        self._counts = False
        self._used: tuple[float, Mapping[str, float]] = (-USED_KEPT_S, {})

    # -- what is known --

    def team(self) -> Team:
        """What is known at this moment, and how tokens are counted, for bundles and prompts.

        Raises: UnsupportedHost, InvalidArgument (a tokenizer that the settings name and nobody can read).
        """
        if self._world.tokenizer_file is not None and not self._counts:
            self._count, self._counts = tokenizer(self._world.tokenizer_file), True
        history = self._learning.history()
        return Team(self._count, history, self.knowledge.remembered, self._localise(history) if history else None)

    def history(self) -> History | None:
        """The commits of the head as numbers about files; None while they are being read, and without any."""
        return self._learning.history()

    def informed(self) -> Knowledge:
        """What is known, after a moment's wait for what was never derived here."""
        self._learning.fresh()
        return self.knowledge

    def _localise(self, history: History) -> Callable[[Query], Ranked]:
        def ranked(query: Query) -> Ranked:
            searcher = self._world.searcher()
            return [(each.path, each.score) for each in localised(searcher, query, history)] if searcher else []

        return ranked

    # -- what is used --

    def used(self) -> Mapping[str, float]:
        """How much each file is used, 0 to 1; looked at once a minute."""
        at, scores = self._used
        if time.monotonic() - at >= USED_KEPT_S:
            scores = self.access.scores(kinds=COUNTED_BY_RANKING)
            self._used = time.monotonic(), scores
        return scores

    # -- its life --

    def start(self, after_s: float = 0.0) -> None:
        """Derive what can be derived, in the background, `after_s` from now."""
        self._learning.start(after_s)

    def wake(self) -> None:
        """Something was indexed: derive what follows from it, if anybody has asked yet."""
        self._learning.wake()

    def settle(self) -> None:
        """Derive all there is to derive, and wait for it. Raises: StorageBusy and what else went wrong."""
        self._learning.settle()

    def clear(self) -> None:
        """Forget what is used. Memories stay."""
        self.access.clear()
        self._used = (-USED_KEPT_S, {})

    def close(self) -> None:
        """Stop, and let go of files."""
        self._learning.close()
        self.access.close()
        self.memories.recall.close()


def _embed(encoder: StaticEncoder | None) -> Embed | None:
    """Static vectors, made where they are needed; None where the user wants none or the table cannot be used."""
    if encoder is None or not encoder.identity:
        return None
    return Embed(encoder.identity, lambda texts: encoder.rows(texts).floats())
