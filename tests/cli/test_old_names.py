"""Old names of commands and options still work, without being listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from context_engine.cli.app import app
from context_engine.cli.common_options import OLD_COMMANDS
from tests.support.trees import tree


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "cache"))
    return tree(tmp_path / "project", {"a.py": "def pay():\n    return 1\n"})


def ctx(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="ctx")


@pytest.mark.parametrize("old", OLD_COMMANDS)
def test_an_old_group_name_runs_the_present_group_and_is_not_listed(old: str) -> None:
    help_text = ctx(old, "--help").stdout
    assert f"Usage: ctx {OLD_COMMANDS[old]}" in help_text
    assert f"  {old} " not in ctx("--help").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("memories", "list", "--number", "3"),
        ("memory", "list", "--number=3"),
        ("undo", "--list", "--steps", "2"),
        ("symbol", "pay", "--number", "1"),
    ],
)
def test_an_old_option_is_understood(words: tuple[str, ...], root: Path) -> None:
    assert ctx(*words, "--root", root).exit_code in (0, 1)  # 2 is wrong usage


def test_old_options_of_memories_mean_the_present_ones(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTX_CONFIG_FOLDER", str(root.parent / "config"))
    added = ctx("memories", "add", "facts", "Prices are net.", "--root", root)
    identifier = added.stdout.split()[1]
    assert "changed" in ctx("memories", "edit", identifier, "--still-true", "--root", root).stdout


def test_the_variable_names_the_workspace_for_every_command(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTX_ROOT", str(root))
    monkeypatch.chdir("/")
    assert str(root) in ctx("status").stdout


def test_an_unknown_option_stays_wrong_usage(root: Path) -> None:
    assert ctx("status", "--number", "3", "--root", root).exit_code == 2
