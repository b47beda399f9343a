"""A home of its own for tests of `ctx setup` and `ctx doctor`: nothing of this machine's owner is in reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"),
    *("XDG_CONFIG_HOME", "APPDATA", "VSCODE_PORTABLE", "CTX_ROOT", "CLAUDE_PROJECT_DIR"),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a project in it, which is the current folder."""
    home = tmp_path / "home"
    (home / "work" / ".git").mkdir(parents=True)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(home / "work")
    return home
