"""The parts of a team, by name: a module of `context_engine.team` is imported only where a team is configured.

Nothing outside of that package imports it in another way, so the core knows one machine, and no database but SQLite.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any

TEAM_PARTS = {
    "index_store": "shared_index:open_index_store",  # an index that machines share, or that a database searches
    "records": "synced_folder:open_team_records",  # plans, memories and reviews that machines share
    "reviews": "synced_reviews:SyncedReviews",  # review sessions in these records
    "projects": "remote_search:RemoteProjects",  # repositories that only the database has
    "server": "shared_server:create_shared_server",  # a server with the tokens of a team
    "token": "token_commands:app",  # the commands of `ctx`
    "store": "store_commands:app",
    "job": "job_commands:app",
}


def load_team_part(name: str) -> Any:
    """Return the object of a part, after importing its module."""
    module, _, attribute = TEAM_PARTS[name].partition(":")
    return getattr(importlib.import_module(f"context_engine.team.{module}"), attribute)
