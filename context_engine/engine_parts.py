"""Values that an Engine makes of its settings for services that do not read settings, and the status of a workspace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine import __version__, context, embedding
from context_engine.index import SCHEMA_VERSION, ChangeFinder, EmbeddedStore, StaticEncoder
from context_engine.model import IndexReport, Status
from context_engine.repo import Git, check_workspace_root
from context_engine.settings import Settings

if TYPE_CHECKING:
    from context_engine.context import SecondPassRunner
    from context_engine.embedding import EmbedderConfig
    from context_engine.index import IndexService
    from context_engine.search import EmbeddingService, SearchService

LOCAL_STORES = ("", "embedded")
SKIPPED_EXAMPLES_MAX = 20


def report_unchanged(root: Path, settings: Settings) -> IndexReport | None:
    """Return the report of a run over a workspace that has nothing to do; None for any other, which needs an Engine.

    Raises: as `Engine.open`.
    """
    chosen = check_workspace_root(root)
    settings.check_folders(chosen)
    if settings.store_url not in LOCAL_STORES:
        return None
    with closing(EmbeddedStore(settings.workspace_cache(chosen))) as store:
        finder = ChangeFinder(chosen, store, bytes_max=settings.index_bytes_max)
        return finder.report_unchanged(open_encoder(settings))


def open_encoder(settings: Settings) -> StaticEncoder | None:
    """Return what makes static vectors; None if the user wants none."""
    return None if settings.embedder == "none" else StaticEncoder()


def read_embedder_config(settings: Settings, env: Mapping[str, str]) -> EmbedderConfig:
    """Return what the settings say about the provider of vectors; the key is read from the environment."""
    return embedding.EmbedderConfig(
        settings.embedder,
        settings.embedding_model,
        settings.embedding_address,
        env.get(settings.embedding_key_variable, ""),
        settings.embedding_dimensions,
        settings.embedding_query_prefix,
        settings.embedding_passage_prefix,
    )


def open_second_pass(settings: Settings) -> SecondPassRunner:
    """Return the runner of second passes that the user configured."""
    key = os.environ.get(settings.assist_key_variable, "") if settings.assist_key_variable else ""
    return context.open_runner(settings.assist_address, settings.assist_model, key, wait_s=settings.assist_wait_s)


def read_status(
    index: IndexService,
    search: SearchService,
    embeddings: EmbeddingService,
    git: Git,
    *,
    root: Path,
    cache_folder: Path,
    watcher: str,
    records_problem: str,
) -> Status:
    """Read the status of a workspace; without a watcher, after a scan for edits.

    `watcher` is the state of the watcher, `records_problem` why records of the team may be missing here.
    """
    live = index.live
    progress = live.progress
    snapshot = live.snapshot()
    if snapshot is not None and progress is None and not live.is_watching:
        live.scan()
    found = "ready" if snapshot else "absent"
    head = git.head()
    skipped, examples = index.store.count_skipped(SKIPPED_EXAMPLES_MAX)
    return Status(
        root=str(root),
        state="building" if progress else found,
        building_share=progress.done / progress.total if progress and progress.total else 0.0,
        files=snapshot.living_files if snapshot else 0,
        chunks=snapshot.living_chunks if snapshot else 0,
        symbols=snapshot.symbols if snapshot else 0,
        languages=search.language_counts(),
        branch=head.branch if head else None,
        commit=head.commit if head else None,
        stale=tuple(sorted(live.stale_files())) if snapshot else (),
        skipped=skipped,
        skipped_examples=examples,
        engine="hybrid" if snapshot and snapshot.static() else "lexical",
        embeddings=embeddings.status(snapshot),
        generation=f"{snapshot.generation}.{snapshot.epoch}" if snapshot else "",
        disk_bytes=index.store.disk_bytes(),
        cache_folder=str(cache_folder),
        indexed_at=index.indexed_at() or None,
        watcher=watcher,
        last_error=live.last_error or index.store_problem or records_problem or None,
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version  # 8 ms that no search needs

    libraries = {name: version(name) for name in ("numpy", "tree-sitter", "semble-grammars", "apsw")}
    return {"ctx": __version__, "schema": str(SCHEMA_VERSION), "python": platform.python_version(), **libraries}
