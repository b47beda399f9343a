"""The vectors of one Engine: static vectors in its index, and those of a model, stored for the whole machine.

The user's choice (`chosen`) decides: static vectors always, unless words alone are wanted; in addition one model.
Answers use the model within their time, and the background embeds what it has not seen. When the user chooses another
model, the old one answers until everything here has a vector of the new one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from context_engine.embedding import DeadlineEmbedder, EmbedderConfig, open_embedder
from context_engine.errors import Cancelled, EmbedderUnusable
from context_engine.index import LiveIndex, Snapshot, StaticEncoder, no_index
from context_engine.languages import Languages
from context_engine.model import EmbeddingStatus, Progress
from context_engine.repo import WorkspaceFiles
from context_engine.search import AnswerModel, CandidateScores, RankingView, SemanticSignals
from context_engine.semantic.embedding_backfill import (
    EmbeddingBackfill,
    EmbeddingProgress,
    EmbeddingTexts,
    vector_space,
)
from context_engine.semantic.missing_vectors import CHUNKS, Mask
from context_engine.semantic.reranker import Reranker
from context_engine.semantic.vector_store import VectorStore
from context_engine.storage import open_private

NO_MODEL = frozenset({"none", "static"})
OPEN_WAIT_S = 30.0
"""A model is opened and loaded within a second; an endpoint that has to load one first takes longer."""
WITH_NEXT_RUN = "there with the next full index run"
STATUS_WAIT_S = 1.0
"""Checking for a model takes milliseconds; the first import of a library longer."""
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """The user's choice: no vectors, static ones, or a model in addition; and the disk space for vectors."""

    provider: str = "auto"
    model: str = ""
    address: str = ""
    key_variable: str = ""
    dimensions: int = 0
    query_prefix: str = ""
    passage_prefix: str = ""
    bytes_max: int = 1_000_000_000

    def choice(self, env: Mapping[str, str], models_folder: Path) -> EmbedderConfig:
        """Return the configuration for a provider; the key is read from the environment at this moment."""
        return EmbedderConfig(
            "minilm" if self.provider == "auto" else self.provider,
            self.model,
            self.address,
            env.get(self.key_variable, "") if self.key_variable else "",
            self.dimensions,
            query_prefix=self.query_prefix,
            passage_prefix=self.passage_prefix,
            models_folder=models_folder,
        )


@dataclass(frozen=True, slots=True)
class EmbeddingDependencies:
    """Dependencies of a model: folders, the environment, the index, and the files as they are now.

    `cache` is that of the user, `workspace_cache` that of this workspace.
    """

    cache: Path
    workspace_cache: Path
    env: Mapping[str, str]
    live: LiveIndex
    files: WorkspaceFiles
    languages: Languages


class EmbeddingService(AnswerModel):
    """The vectors of one Engine. Thread-safe; nothing is opened, and no model used, before it is needed."""

    def __init__(self, chosen: EmbedderSettings, encoder: StaticEncoder | None, parts: EmbeddingDependencies) -> None:
        """Open nothing yet. `encoder` makes the static vectors of the index; None if the user wants words alone."""
        self._chosen = chosen
        self._parts = parts
        self._lock = threading.Lock()
        self._old: _ModelRuntime | None = None
        self._new: _ModelRuntime | None = None
        self._takes_part = False
        self._begin: threading.Timer | None = None
        self._fills = False
        self.encoder = encoder

    # -- a model takes part --

    def start(self, after_s: float = 0.0) -> None:
        """Prepare the first answer, and let a model take part and fill in the background what it has not seen."""
        if self.encoder is not None:
            threading.Thread(target=self.encoder.open, name="ctx-static", daemon=True).start()
        with self._lock:
            if self._takes_part or self._chosen.provider in NO_MODEL:
                return
            self._takes_part = True
            self._new = self._new or _ModelRuntime(self._chosen, self._parts)
            before = self._served_before()
            if before is not None:
                self._old = _ModelRuntime(before, self._parts)
            self._begin = threading.Timer(after_s, self._begin_backfill)
            self._begin.daemon = True
            self._begin.start()

    def _begin_backfill(self) -> None:
        self._fills = True
        self.wake()

    def near(
        self, view: RankingView, text: str, ranked: CandidateScores, allowed: Mask | None
    ) -> SemanticSignals | None:
        """Return the similarities by the model that serves; see `search.semantic_scores.AnswerModel`."""
        serving = self._serving(view.snapshot)
        if serving:
            return serving.refiner.near(view, text, ranked, allowed)
        return None

    def answering(self) -> AbstractContextManager[object]:
        """Mark that an answer is computed: the background waits meanwhile."""
        if self._new:
            return self._new.embedder.answering()
        return nullcontext()

    def wake(self, paths: Iterable[str] = ()) -> None:
        """Look for missing vectors after an index run or an answer, these files first."""
        if self._fills and self._new is not None:
            self._new.backfill.wake(paths)

    def fill(
        self, progress: Callable[[Progress], None] | None, cancel: threading.Event | None
    ) -> EmbeddingProgress | None:
        """Start, and wait until everything has a vector of the model; return None if there is no model.

        Raises: EmbedderUnusable when it cannot be used, with the next step; Cancelled.
        """
        self.start()
        thinker, snapshot = self._new, self._parts.live.snapshot()
        if thinker is None or snapshot is None:
            return None
        if not thinker.embedder.ensure_loaded(time.monotonic() + OPEN_WAIT_S):
            raise EmbedderUnusable(
                f"the embedder {self._chosen.provider} is {thinker.embedder.state}",
                suggestion=thinker.embedder.suggestion or "ctx doctor looks at every part",
            )
        thinker.backfill.wake()
        while True:
            snapshot = self._parts.live.snapshot() or snapshot
            filled = thinker.backfill.count_progress(snapshot)
            if filled is not None and progress is not None:
                done = filled.cards + filled.chunks
                progress(Progress("embedding", done, filled.cards_total + filled.chunks_total))
            if filled is not None and thinker.backfill.is_finished(snapshot, filled):
                return filled
            if thinker.backfill.problem and thinker.embedder.state.startswith(("absent", "failing")):
                raise EmbedderUnusable(thinker.backfill.problem, suggestion=thinker.embedder.suggestion)
            if (cancel or threading.Event()).wait(LOOK_S):
                raise Cancelled(
                    "embedding was cancelled", suggestion="what was embedded is kept; run it again to go on"
                )

    def embed_all(
        self, *, progress: Callable[[Progress], None] | None = None, cancel: threading.Event | None = None
    ) -> tuple[int, int]:
        """Embed everything that the chosen model has not seen; return how many files and chunks have their vectors.

        Raises: NotIndexed, EmbedderUnusable (no model is chosen, or it cannot be used), Cancelled (what was made is
        kept).
        """
        if self._parts.live.snapshot() is None:
            raise no_index()
        filled = self.fill(progress, cancel)
        if filled is None:
            raise EmbedderUnusable(
                f"the embedder {self._chosen.provider} has no model to run",
                suggestion="set CTX_EMBEDDER to auto, or to one of `ctx models list`",
            )
        return filled.cards, filled.chunks

    # -- the rest --

    def status(self, snapshot: Snapshot | None) -> EmbeddingStatus:
        """Return what exists and what is missing, for a status."""
        if self.encoder is None:
            return EmbeddingStatus("off", "", "", "", (0, 0), (0, 0))
        static = self.encoder.problem or ("ready" if snapshot and snapshot.static() else WITH_NEXT_RUN)
        if self._chosen.provider in NO_MODEL:
            return EmbeddingStatus(static, "", "", "", (0, 0), (0, 0))
        thinker = self._open_chosen()
        filled = None
        if snapshot:
            filled = thinker.backfill.count_progress(snapshot)
        if filled:
            counts = ((filled.cards, filled.cards_total), (filled.chunks, filled.chunks_total))
        else:
            counts = ((0, 0),) * 2
        identity = thinker.embedder.identity
        if identity:
            name = identity.name
        else:
            name = "minilm" if self._chosen.provider == "auto" else self._chosen.provider
        return EmbeddingStatus(static, name, thinker.state, thinker.embedder.suggestion, *counts)

    def _open_chosen(self) -> _ModelRuntime:
        """Return the chosen model, opened if that is quick."""
        with self._lock:
            self._new = thinker = self._new or _ModelRuntime(self._chosen, self._parts)
        if thinker.embedder.identity is None and not thinker.embedder.suggestion:
            thinker.embedder.ensure_open(time.monotonic() + STATUS_WAIT_S)
        return thinker

    def close(self) -> None:
        """Stop, and free memory and files."""
        with self._lock:
            if self._begin is not None:
                self._begin.cancel()
            for thinker in (self._old, self._new):
                if thinker is not None:
                    thinker.close()
            self._old = self._new = None
        if self._begin is not None:
            self._begin.join()  # canceled above, or already at an end

    def _serving(self, snapshot: Snapshot) -> _ModelRuntime | None:
        """Return the model that answers: the old one until the new one has seen everything."""
        new, old = self._new, self._old
        if new is None or not self._takes_part:
            return None
        if new.backfill.is_covered(snapshot):
            self._serve_new()
            return new
        return old or new

    def _serve_new(self) -> None:
        with self._lock:
            old, self._old = self._old, None
            if self._new is not None and not self._new.is_noted:
                self._new.is_noted = True
                write_served_model(self._parts.workspace_cache, asdict(self._chosen))
        if old is not None:
            threading.Thread(target=old.close, name="ctx-old-model", daemon=True).start()

    def _served_before(self) -> EmbedderSettings | None:
        """Return the model that was complete here before, if it is another one; its key is read again."""
        stated = read_served_model(self._parts.workspace_cache)
        try:
            before = replace(EmbedderSettings(**stated), bytes_max=self._chosen.bytes_max)
        except TypeError:  # written by another version
            return None
        if stated and before != self._chosen:
            return before
        return None


class _ModelRuntime:
    """One model: its embedder, its vectors, its backfill and its reranker."""

    def __init__(self, chosen: EmbedderSettings, parts: EmbeddingDependencies) -> None:
        models_folder = parts.cache / "models"
        self._folder = parts.cache / "vectors"
        self._bytes_max = chosen.bytes_max
        self._lock = threading.Lock()
        self._store: VectorStore | None = None
        self.is_noted = False
        self.embedder = DeadlineEmbedder(lambda: open_embedder(chosen.choice(parts.env, models_folder)))
        self.backfill = EmbeddingBackfill(
            self.embedder,
            vectors=self.vectors,
            snapshot=parts.live.snapshot,
            read=parts.files.read_once,
            languages=parts.languages,
            hold=lambda: parts.live.is_building,
        )
        texts = EmbeddingTexts(parts.files.read_kept, parts.languages)
        self.refiner = Reranker(
            self.embedder,
            self.vectors,
            self.backfill.count_progress,
            lambda snapshot, numbers: texts.make_texts(CHUNKS, snapshot, numbers),
        )

    @property
    def state(self) -> str:
        """The state of the embedder, or why filling does not proceed."""
        state = self.embedder.state
        if self.backfill.problem and ":" not in state:
            return f"{state}; {self.backfill.problem}"
        return state

    def vectors(self) -> VectorStore | None:
        """Return the store of the model's space; None until that is known."""
        with self._lock:
            if self._store is None and (space := vector_space(self.embedder)) is not None:
                self._store = VectorStore(self._folder, space, bytes_max=self._bytes_max)
            return self._store

    def close(self) -> None:
        self.backfill.close()
        self.embedder.close()
        with self._lock:
            if self._store is not None:
                self._store.close()


# -- served model ------------------------------------------------------------------------------------------------------

# Notes which embedding model has a vector for everything in a workspace, in a file next to its index.

SERVED_FILE = "served-model.json"


def read_served_model(folder: Path) -> Mapping[str, Any]:
    """Return the last note; empty when there is none, or it cannot be read."""
    try:
        stated = json.loads((folder / SERVED_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if isinstance(stated, dict):
        return stated
    return {}


def write_served_model(folder: Path, stated: Mapping[str, Any]) -> None:
    """Write the note.

    A folder that cannot be written keeps the old note: the next change of models then has no older model to use.
    """
    with suppress(OSError), open(folder / SERVED_FILE, "w", encoding="utf-8", opener=open_private) as out:
        out.write(json.dumps(dict(stated)))
