"""Somebody at a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from context_engine.cli.app import app
from context_engine.cli.app import run as run_command_line
from tests.support.engines import cache_for

Run = Callable[..., tuple[int, str, str]]
"""Runs `ctx` with some words: the exit code, and what it said on stdout and stderr."""


class Keyboard(io.StringIO):
    """The keyboard of a person who types this."""

    def isatty(self) -> bool:
        return True


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str) -> Run:
    """What runs `ctx` in this process."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ctx", *first, *map(str, words)])
        code = run_command_line()
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def sit_down(root: Path, monkeypatch: pytest.MonkeyPatch, **variables: object) -> Path:
    """Go to this folder, with a cache beside it and with these variables of ours; return the folder."""
    chosen = {"CACHE_FOLDER": cache_for(root), "WORKERS": 0, "FLUSH": "false", **variables}
    for name, value in chosen.items():
        monkeypatch.setenv(f"CTX_{name}", str(value))
    monkeypatch.chdir(root)
    return root


def setup(*words: str, code: int = 0) -> Result:
    """Run `ctx setup`, which ends with this exit code."""
    result = CliRunner().invoke(app, ["setup", *words], prog_name="ctx")
    assert result.exit_code == code, result.output
    return result
