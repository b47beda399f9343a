"""Every command of the tutorials that is marked `console` is run, and prints the lines that the tutorial shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.engines import grammars_folder

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = "…"


def commands_of(tutorial: Path) -> list[tuple[str, list[str]]]:
    """The commands of a page, each with the lines that it shows."""
    found = []
    for block in _BLOCK.findall(tutorial.read_text("utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            found.append((command, shown))
    return found


def is_shown(output: str, shown: list[str]) -> bool:
    """Whether the output is these lines; `…` matches any text, also none."""
    pattern = "\n".join(shown)
    parts = (re.escape(part) for part in pattern.split(LEFT_OUT))
    return re.fullmatch(".*".join(parts), output, re.DOTALL) is not None


@pytest.mark.skipif(os.name == "nt", reason="the tutorials use a POSIX shell")
@pytest.mark.parametrize("tutorial", [page for page in TUTORIALS if commands_of(page)], ids=lambda page: page.stem)
def test_a_tutorial_shows_what_its_commands_print(tutorial: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "examples", clone / "examples")
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "grammars").symlink_to(grammars_folder())
    ident = {f"GIT_{role}_{part}": "ann@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | ident | {"PATH": programs, "CTX_CACHE_FOLDER": str(cache), "CTX_DAEMON": "0"}
    folder = clone
    for written, shown in commands_of(tutorial):
        command = written.replace("/tmp/shop", str(tmp_path / "shop"))
        place = tmp_path / "place"
        words = ("bash", "-c", f"cd {folder} && {command} 2>&1; pwd > {place}")
        ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
        folder = Path(place.read_text("utf-8").strip())
        output = ran.stdout.rstrip("\n").replace(str(tmp_path / "shop"), "/tmp/shop")
        assert is_shown(output, shown), f"$ {written}\n{output}"


def test_lines_that_are_not_printed_are_noticed() -> None:
    assert is_shown("a\nb\nc", ["a", "…", "c"])
    assert is_shown("a 12 s\nc", ["a … s", "c"])
    assert not is_shown("a\nb\nc", ["a", "c"])
    assert not is_shown("", ["a"])
