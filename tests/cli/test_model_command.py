"""`ctx model` at the terminal: what there is, getting it, checking it, and one line with the next step when it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from context_engine.cli import app, model_commands
from context_engine.embedding.model_files import MINILM
from context_engine.storage.index_folders import user_cache_folder
from tests.support import weights


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a current folder of its own."""
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def ctx(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ctx", *words])
    return app.run()


def test_without_a_word_it_lists(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ctx(monkeypatch, "model") == 0
    assert capsys.readouterr().out.startswith("minilm  all-MiniLM-L6-v2, 384 dimensions, 22.8 MB, Apache-2.0; absent: ")
    assert not cache.exists()


def test_what_was_pulled_is_listed_and_verified(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = cache / "models" / MINILM.folder
    assert ctx(monkeypatch, "model", "pull", "minilm", "--from", str(weights.package())) == 0
    assert ctx(monkeypatch, "model", "verify") == 0
    assert ctx(monkeypatch, "model", "list") == 0
    ready = f"minilm is ready: {place}\n"
    told = capsys.readouterr()
    assert told.out.startswith(ready + ready + "minilm ")
    assert told.out.endswith(f"ready: {place}\n")
    assert told.err.splitlines() == ["making the model", "checking what was written"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("verify",), "the model minilm is not on this machine. `ctx model pull minilm` makes it ready."),
        (("pull", "minilmm"), "no model is called minilmm. Did you mean minilm?"),
        (("pull", "minilm", "--from", "none.whl"), f"there is no file none.whl. Name the file {MINILM.wheel}."),
    ],
)
def test_a_failure_says_the_next_step(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    complaint: str,
) -> None:
    assert ctx(monkeypatch, "model", *words) == 2
    assert capsys.readouterr().err.replace("\nhint: ", ". ") == f"error: {complaint}\n"


def test_another_word_is_wrong_usage(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ctx(monkeypatch, "model", "delete") == 2


def test_models_lie_in_the_cache_that_the_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CTX_CACHE_FOLDER", raising=False)
    assert model_commands.models_folder(tmp_path) == user_cache_folder() / "models"
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "mine"))
    monkeypatch.setattr(model_commands, "find_project", lambda here: here)
    assert model_commands.models_folder(tmp_path) == tmp_path / "mine" / "model"


def test_the_command_line_starts_without_the_makers_of_models() -> None:
    code = "import sys, context_engine.cli.app; sys.exit('context_engine.embedding' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL).returncode == 0
