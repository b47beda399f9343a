"""The packages in the clients themselves: each is valid, can be installed, and its server is reached."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients.conftest import Tell
from tests.clients.programs import ROOT, Place, client
from tests.clients.test_listings import plain

FOLDER = ROOT / "packaging" / "clients"
INSTALLATIONS: dict[str, tuple[Sequence[str], ...]] = {
    "claude": (
        ("plugin", "validate", "--strict", str(ROOT)),
        ("plugin", "validate", "--profile", "directory", str(FOLDER / "claude")),
        ("plugin", "marketplace", "add", str(ROOT)),
        ("plugin", "install", "ctx@context-engine"),
    ),
    "codex": (
        ("plugin", "marketplace", "add", str(ROOT)),
        ("plugin", "add", "ctx@context-engine"),
    ),
    "gemini": (
        ("extensions", "validate", str(FOLDER / "gemini")),
        ("extensions", "install", str(FOLDER / "gemini"), "--consent"),
    ),
    "opencode": (),
}
"""What is typed to validate and install a package; the plugin of opencode is a file in a folder."""
LISTED = {
    "claude": ("plugin:ctx:ctx", "Connected"),
    "codex": ("ctx", "enabled"),
    "gemini": ("from ctx", "Connected"),
    "opencode": ("ctx", "connected"),
}
"""What `mcp list` shows then. Codex does not start servers for its list."""


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLATIONS)
def test_a_client_installs_the_package_and_lists_its_server(name: str, fresh: Place, tell: Tell) -> None:
    program = client(name)
    if name == "opencode":
        copy_plugin(fresh.home / ".config" / "opencode" / "plugins")
    for words in INSTALLATIONS[name]:
        run = fresh.run(*program, *words)
        assert run.status == 0, run.out + run.err
    run = fresh.run(*program, "mcp", "list")
    lines = [plain(line) for line in (run.out + run.err).splitlines()]
    found = [line for line in lines if all(word in line for word in LISTED[name])]
    tell(f"package {name}", {"lines": found})
    assert found, run.out + run.err


def copy_plugin(folder: Path) -> None:
    folder.mkdir(parents=True)
    for script in (FOLDER / "opencode").glob("*.js"):
        shutil.copy(script, folder)
