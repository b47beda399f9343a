"""Values that an Engine makes of its settings for services that do not read settings."""

from __future__ import annotations

import os
from pathlib import Path

from context_engine.context import SecondPassRunner, open_runner
from context_engine.repo import Git
from context_engine.semantic import EmbedderSettings
from context_engine.settings import Settings
from context_engine.sharing import TeamStore


def find_team_store(root: Path, settings: Settings) -> TeamStore:
    """Return where a team shares the index of a workspace."""
    name = settings.store_repository
    if not name and settings.store_url:
        name = Git(root).shared_name()
    return TeamStore(settings.store_url, name, settings.store_shares)


def read_embedder_settings(settings: Settings) -> EmbedderSettings:
    """Return what the settings say about vectors."""
    return EmbedderSettings(
        provider=settings.embedder,
        model=settings.embedding_model,
        address=settings.embedding_address,
        key_variable=settings.embedding_key_variable,
        dimensions=settings.embedding_dimensions,
        query_prefix=settings.embedding_query_prefix,
        passage_prefix=settings.embedding_passage_prefix,
        bytes_max=settings.vectors_bytes_max,
    )


def open_second_pass(settings: Settings) -> SecondPassRunner:
    """Return the runner of second passes that the user configured."""
    if settings.assist_key_variable:
        key = os.environ.get(settings.assist_key_variable, "")
    else:
        key = ""
    return open_runner(settings.assist_address, settings.assist_model, key, wait_s=settings.assist_wait_s)
