"""Shell completion of tools, clients, profiles, categories and plans, without opening an index.

The shell starts `ctx` for each Tab, so the lists come from cheap sources: the generated catalog and short tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from context_engine import server, storage, tools
from context_engine.cli.workspace_choice import find_project
from context_engine.text import make_slugs, read_json

MEMORY_CATEGORIES = ("preferences", "decisions", "facts")
INDEX_BYTES_MAX = 4_000_000
"""Of the stored list of plans: some ten thousand."""

Offers = list[tuple[str, str]]
"""(word, meaning), as the shell shows them."""


def complete_tools(incomplete: str) -> Offers:
    """Complete names of tools, with their descriptions."""
    return _starting(incomplete, ((tool.name, tool.description.partition(". ")[0]) for tool in tools.ALL))


def complete_clients(incomplete: str) -> Offers:
    """Complete clients for `ctx setup` and `ctx doctor`."""
    from context_engine.cli.clients import client_table

    return _starting(incomplete, ((client.name, client.title) for client in client_table.ALL))


def complete_profiles(incomplete: str) -> Offers:
    """Complete profiles; after a comma, the next one."""
    before, comma, last = incomplete.rpartition(",")
    offers = _starting(last, ((name, f"{len(names)} tools") for name, names in server.PROFILES.items()))
    return [(f"{before}{comma}{name}", meaning) for name, meaning in offers]


def complete_memory_categories(incomplete: str) -> Offers:
    """Complete categories of memories."""
    return _starting(incomplete, ((category, "") for category in MEMORY_CATEGORIES))


def complete_plans(incomplete: str) -> Offers:
    """Complete short names of the project's plans, from the stored list of the last look at them."""
    folder = storage.StateFolder(find_project(Path.cwd()) / storage.STATE_FOLDER).folder("plans")
    index = folder.read("index.json", bytes_max=INDEX_BYTES_MAX)
    if not isinstance(index, bytes):
        return []
    try:
        rows = [row for _, row in read_json(index, bytes_max=INDEX_BYTES_MAX).get("plans", ())]
        names = {str(row["id"]): str(row["name"]) for row in rows}
    except (ValueError, TypeError, LookupError, AttributeError):
        return []  # it cannot be read
    return _starting(incomplete, ((slug, names[plan_id]) for plan_id, slug in make_slugs(names.items()).items()))


def _starting(incomplete: str, offers: Iterable[tuple[str, str]]) -> Offers:
    return [(word, meaning) for word, meaning in offers if word.startswith(incomplete)]
