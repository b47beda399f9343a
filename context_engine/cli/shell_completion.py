"""What the shell offers after Tab: names of tools, clients, profiles and kinds. Nothing here opens an index.

The shell starts `ctx` for each Tab, so every list is read where it costs least: the generated catalogue, short tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

SHELLS = ("bash", "zsh", "fish", "powershell")
CHUNK_KINDS = ("documentation", "symbols", "definitions", "data")
MEMORY_CATEGORIES = ("preferences", "decisions", "facts")
DIRECTIONS = ("callers", "callees", "imports", "importers", "impact")

Offers = list[tuple[str, str]]
"""(word, what it means), as the shell shows them."""


def build_script(shell: str) -> str:
    """What a shell has to read once to complete `ctx`. Raises: InvalidArgument for another shell."""
    import difflib

    from typer.completion import get_completion_script

    from context_engine.errors import InvalidArgument

    if shell not in SHELLS:
        near = difflib.get_close_matches(shell, SHELLS, 1, 0.5)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(SHELLS)}."
        raise InvalidArgument(f"no completion is made for the shell {shell}", suggestion=hint)
    return get_completion_script(prog_name="ctx", complete_var="_CTX_COMPLETE", shell=shell)


def complete_tools(incomplete: str) -> Offers:
    """Names of tools, with what they do."""
    from context_engine.server.protocol_catalogue import read_catalogue

    listed = (row["tool"] for row in read_catalogue()["tools"])
    return _starting(incomplete, ((tool["name"], tool["description"].partition(". ")[0]) for tool in listed))


def complete_clients(incomplete: str) -> Offers:
    """What `ctx setup` and `ctx doctor` can be told."""
    from context_engine.cli.clients import client_table

    return _starting(incomplete, ((client.name, client.title) for client in client_table.ALL))


def complete_profiles(incomplete: str) -> Offers:
    """Profiles; behind a comma the next one."""
    from context_engine.server.profiles import PROFILES

    before, comma, last = incomplete.rpartition(",")
    offers = _starting(last, ((name, f"{len(names)} tools") for name, names in PROFILES.items()))
    return [(f"{before}{comma}{name}", meaning) for name, meaning in offers]


def complete_chunk_kinds(incomplete: str) -> Offers:
    """Kinds of chunks."""
    return _starting(incomplete, ((kind, "") for kind in CHUNK_KINDS))


def complete_directions(incomplete: str) -> Offers:
    """Ways along the code graph."""
    return _starting(incomplete, ((direction, "") for direction in DIRECTIONS))


def complete_memory_categories(incomplete: str) -> Offers:
    """Categories of memories."""
    return _starting(incomplete, ((category, "") for category in MEMORY_CATEGORIES))


def complete_plan_statuses(incomplete: str) -> Offers:
    """How a plan may stand."""
    from context_engine.plans.plan_listing import STATUSES

    return _starting(incomplete, ((status, "") for status in STATUSES))


def complete_plans(incomplete: str) -> Offers:
    """Short names of the plans around here, as they were when the plans were last looked at."""
    from pathlib import Path

    from context_engine.cli.workspace_root import find_project
    from context_engine.plans.plan_listing import make_slugs
    from context_engine.sharing.versioned_records import VersionedRecords
    from context_engine.storage.state_folder import FOLDER

    names = _plan_names(VersionedRecords(find_project(Path.cwd()) / FOLDER, "plans").read_index() or b"{}")
    return _starting(incomplete, ((handle, names[plan_id]) for plan_id, handle in make_slugs(names.items()).items()))


def _plan_names(index: bytes) -> dict[str, str]:
    """Ids and names of plans, out of the list that is kept beside them; none when it cannot be read."""
    from context_engine.text.untrusted_data import read_json

    try:
        rows = [each["row"] for each in read_json(index, bytes_max=len(index)).get("plans", ())]
        return {str(row["id"]): str(row["name"]) for row in rows}
    except (ValueError, TypeError, LookupError, AttributeError):
        return {}


def complete_shells(incomplete: str) -> Offers:
    """Shells that can complete."""
    return _starting(incomplete, ((shell, "") for shell in SHELLS))


class ServeCommand(TyperCommand):
    """`ctx serve`, whose options are read elsewhere: here the shell gets to know them, and nothing else changes."""

    def get_params(self, ctx: Any) -> Any:
        """The options too, while the shell asks (nothing is run then)."""
        params = super().get_params(ctx)
        return [*params, *_serve_options()] if ctx.resilient_parsing else params


def _serve_options() -> list[Any]:
    """The options of `ctx serve`, made from their table by way of a function that has them as parameters."""
    from inspect import Parameter, Signature

    from context_engine.server.serve_options import OPTIONS

    offered = {"profile": complete_profiles, "tools": complete_tools, "exclude-tools": complete_tools}
    parameters = {}
    for option in OPTIONS:
        kind: Any = bool if option.kind == "flag" else list[str]
        asked = typer.Option(f"--{option.name}", help=option.meaning, autocompletion=offered.get(option.name))
        default = False if option.kind == "flag" else []
        parameters[option.name.replace("-", "_")] = (Annotated[kind, asked], default)

    def stand_in(**_: Any) -> None:
        """Is never run."""

    stand_in.__annotations__ = {name: annotation for name, (annotation, _) in parameters.items()}
    stand_in.__signature__ = Signature(  # ty: ignore[missing-attribute] - where `inspect` looks for it
        [Parameter(n, Parameter.KEYWORD_ONLY, default=d, annotation=a) for n, (a, d) in parameters.items()]
    )
    app = typer.Typer(add_completion=False)
    app.command(add_help_option=False)(stand_in)
    return list(typer.main.get_command(app).params)


def _starting(incomplete: str, offers: Iterable[tuple[str, str]]) -> Offers:
    return [(word, meaning) for word, meaning in offers if word.startswith(incomplete)]
