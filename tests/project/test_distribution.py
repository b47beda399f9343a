"""What is given away: wheel and sdist, and the files of packaging/ for registries, desktop clients, agents and containers.

These tests need no network and no other program. That all of it installs and runs on a bare machine, and that each
format's own tool accepts it, is shown by `make dist` (scripts/dist.py).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
import typer.main

import context_engine
from context_engine.cli.app import app
from context_engine.server import serve_options

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs" / "guides").glob("*.md"), *PACKAGING.rglob("*.md")])

NOT_GIVEN = {".editorconfig", ".gitignore"}  # what only a clone needs; hatchling adds the second one by itself


def code(page: str) -> Iterator[str]:
    r"""The code of a Markdown page: the lines of its fences, then what stands between ticks.

    >>> list(code("Say `ctx index`:\n```sh\nctx search x\n```\n"))
    ['ctx search x', 'ctx index']
    """
    fences = re.findall(r"^```\w*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for fence in fences:
        yield from fence.splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL))


def commands(page: str) -> set[str]:
    """The commands of `ctx` that a page tells people to type.

    >>> sorted(commands("`ctx index`, `.venv/bin/ctx search x`, `docker run -t ctx .`, a ctx tool"))
    ['index', 'search']
    """
    return {word for line in code(page) for word in re.findall(r"(?:^|[\s/])ctx ([a-z][a-z-]+)", line)}


# -- said once, written everywhere --------------------------------------------------------------------------------


# -- the pages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_only_commands_that_exist(page: Path) -> None:
    group: Any = typer.main.get_command(app)
    known = set(group.list_commands(None))
    assert sorted(commands(page.read_text(encoding="utf-8")) - known) == []


INSTALL_BY_NAME = re.compile(
    r"(?:(?<!un)install(?:\(\)\})?|\buvx|\bpipx run|\buv add)\s[^\n`|]*?(?:smart-context-engine|\{PACKAGE\})"
)
"""A command that asks an index of packages for ours. Without `uninstall`, and without the same in another pair of ticks."""


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("pip install -q smart-context-engine", True),
        ("uv tool install 'smart-context-engine[postgres]'", True),
        ("uvx smart-context-engine search x", True),
        ("pipx run --spec smart-context-engine ctx", True),
        ("f\"Run: {pip_install()} 'smart-context-engine[model2vec]'\"", True),
        ('f"uv tool install --force {PACKAGE}"', True),
        ("uv tool uninstall smart-context-engine", False),
        ("pip install '.[postgres]'", False),
        ("`pip install .` installs `smart-context-engine`", False),
    ],
)
def test_a_command_that_asks_an_index_for_the_package_is_recognized(line: str, asks: bool) -> None:
    assert bool(INSTALL_BY_NAME.search(line)) is asks


def test_no_text_installs_the_package_from_an_index_that_does_not_have_it() -> None:
    texts = [*PAGES, *(ROOT / "docs").glob("*.*"), *(ROOT / "docs/tutorials").glob("*.md"), ROOT / "CONTRIBUTING.md"]
    texts += [
        path for path in (ROOT / "context_engine").rglob("*") if path.suffix in {".py", ".md", ".toml", ".js", ".html"}
    ]
    wrong = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in texts
        for line in path.read_text(encoding="utf-8").splitlines()
        if INSTALL_BY_NAME.search(line)
    }
    assert sorted(wrong) == []


# -- the container ------------------------------------------------------------------------------------------------


def instructions(word: str) -> list[str]:
    """What stands behind an instruction of the Dockerfile, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (PACKAGING / "Dockerfile").read_text(encoding="utf-8"))
    return re.findall(rf"^{word} (.+)$", text, re.MULTILINE)


def test_the_image_is_built_from_files_that_reach_the_builder() -> None:
    let_through = (PACKAGING / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [word for line in instructions("COPY") if not line.startswith("--from") for word in line.split()[:-1]]
    assert copied
    assert [word for word in copied if not (ROOT / word).exists()] == []
    assert [word for word in copied if f"!{word.removeprefix('./')}" not in let_through] == []


def test_the_container_serves_the_mounted_folder_and_is_not_root() -> None:
    environment = dict(pair.split("=", 1) for line in instructions("ENV") for pair in line.split())
    [entry] = instructions("ENTRYPOINT")
    assert json.loads(entry) == ["ctx", "serve"]
    assert serve_options.parse_options([], environment).roots == ("/workspace",)
    assert instructions("USER") == ["1000:1000"]


# -- the lock -------------------------------------------------------------------------------------------------------


def test_the_lock_names_public_addresses_only() -> None:
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    hosts = set(re.findall(r"[a-z+]+://[^/\"]+", text))
    assert hosts == {"https://pypi.org", "https://files.pythonhosted.org"}


def test_the_lock_knows_every_dependency() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    [own] = [package for package in packages if package["name"] == PROJECT["name"]]
    assert {one["name"] for one in own["dependencies"]} == {plain(one) for one in PROJECT["dependencies"]}, "make lock"


def plain(requirement: str) -> str:
    """The name in a requirement, as indexes spell it.

    >>> plain("PyStemmer>=3.0")
    'pystemmer'
    """
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


# -- wheel and sdist ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and an sdist of this tree, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


def names_in(built: Path, suffix: str) -> list[str]:
    """The files in the archive, as paths below the root of what it holds."""
    [archive] = built.glob(f"*{suffix}")
    if suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as tar:
        return [name.partition("/")[2] for name in tar.getnames()]


def metadata(built: Path, name: str) -> str:
    """A file of the wheel's `.dist-info`."""
    [archive] = built.glob("*.whl")
    with zipfile.ZipFile(archive) as wheel:
        [path] = [one for one in wheel.namelist() if one.endswith(f".dist-info/{name}")]
        return wheel.read(path).decode()


@pytest.mark.slow
def test_the_wheel_holds_the_whole_package_and_nothing_else(built: Path) -> None:
    package = ROOT / "context_engine"
    on_disk = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {name for name in names_in(built, ".whl") if ".dist-info/" not in name}
    assert inside == on_disk
    assert {"context_engine/py.typed", "context_engine/languages/python.toml"} <= inside


@pytest.mark.slow
def test_the_wheel_says_what_an_installer_must_know(built: Path) -> None:
    told: Message = Parser().parsestr(metadata(built, "METADATA"))
    assert (told["Name"], told["Version"]) == (PROJECT["name"], context_engine.__version__)
    assert told["Requires-Python"] == PROJECT["requires-python"]
    assert told["License-Expression"] == PROJECT["license"]
    needs: Sequence[str] = told.get_all("Requires-Dist") or []
    assert {plain(one) for one in needs if "extra ==" not in one} == {plain(one) for one in PROJECT["dependencies"]}
    assert [one for one in needs if "@" in one] == [], "an index refuses requirements with an address"
    assert metadata(built, "licenses/LICENSE") == (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(
    not (ROOT / ".git").exists() or not shutil.which("git"), reason="what belongs to the tree is known in a clone only"
)
def test_the_sdist_holds_all_that_a_clone_does(built: Path) -> None:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tracked = {name for name in listing.split("\0") if name and (ROOT / name).is_file()} - NOT_GIVEN
    inside = set(names_in(built, ".tar.gz"))
    assert tracked
    assert sorted(tracked - inside) == []
    assert sorted({name.partition("/")[0] for name in inside} & {"build", "dist", ".venv", ".git"}) == []
