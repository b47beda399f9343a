"""The options of every command, which count before and after its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from context_engine.cli.global_options import GlobalOptionError, apply_global_options
from tests.support import preloaded
from tests.support.trees import tree

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(
        tmp_path / "project",
        {
            "pyproject.toml": "[project]\nname = 'till'\n",
            "till/pay.py": "def pay(prices):\n    return sum(prices)\n",
            "till/refund.py": "def refund(prices):\n    return -sum(prices)\n",
        },
    )


def ctx(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `ctx` from the folder above the project."""
    outside = {"PYTHONPATH": str(HERE), "CTX_CACHE_FOLDER": str(root.parent / "cache"), "CTX_DAEMON": "0"}
    return preloaded.run(
        [sys.executable, "-m", "context_engine", *words],
        cwd=root.parent, env=os.environ | outside | env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", [["-C", "project", "search", "pay"], ["search", "pay", "--directory=project"]])
def test_a_command_runs_in_the_folder_that_c_names(root: Path, words: list[str]) -> None:
    assert ctx(root, *words, "-l").stdout.splitlines()[0] == "till/pay.py"


def test_folders_add_up_and_one_that_does_not_exist_is_an_error_with_a_next_step(root: Path) -> None:
    assert ctx(root, "-C", "project", "-C", "till", "search", "pay", "-l").returncode == 0
    failed = ctx(root, "-C", "nowhere", "search", "pay")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == "error: -C nowhere: No such file or directory\nhint: Name a folder that exists.\n"


def test_a_quiet_index_run_prints_nothing_but_errors(root: Path) -> None:
    assert "indexed" in ctx(root, "-C", "project", "index", "--force").stdout
    quiet = ctx(root, "-q", "-C", "project", "index", "--force")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert json.loads(ctx(root, "-q", "-C", "project", "index", "--json").stdout)["files"] > 0
    assert "error: " in ctx(root, "-q", "-C", "project", "index", "/nowhere/at/all").stderr


def test_color_counts_in_a_pipe_and_never_leaves_no_escape_at_all(root: Path) -> None:
    words = ["-C", "project", "search", "pay", "-l"]
    ctx(root, *words)

    def output(*more: str, **env: str) -> str:
        command = [sys.executable, "-m", "context_engine", *words, *more]  # a new process: Rich looks once
        clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        outside = {"PYTHONPATH": str(HERE), "CTX_CACHE_FOLDER": str(root.parent / "cache"), "CTX_DAEMON": "0"}
        known = {"TERM": "xterm-256color", **outside, **env}
        return subprocess.run(
            command, cwd=root.parent, env=clean | known, capture_output=True, text=True, check=True
        ).stdout

    assert "\x1b[" in output("--color", "always", NO_COLOR="1")
    assert "\x1b" not in output("--color=never", FORCE_COLOR="1")
    assert "\x1b" not in output("--color", "auto")


@pytest.mark.parametrize("words", [["--color", "red"], ["--color"], ["status", "-C"]])
def test_a_value_that_is_missing_or_wrong_names_an_example(words: list[str]) -> None:
    with pytest.raises(GlobalOptionError) as caught:
        apply_global_options(words, {})
    assert "`ctx " in caught.value.hint
