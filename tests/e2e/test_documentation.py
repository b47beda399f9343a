"""Every `ctx` command in the documentation exists with its options; those marked `console` run and print what is shown."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from context_engine import Engine
from context_engine.cli.app import app
from context_engine.cli.global_options import PASSED_ON, split_global_options
from tests.support import preloaded
from tests.support.engines import grammars_folder
from tests.support.trees import git

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "packaging/README.md")),
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "clients-report.md"),
    *TUTORIALS,
    *GUIDES,
]
NOT_RUN = {
    "assist.md": "it needs a model; tests/context/test_llm_endpoint.py imitates one",
    "adding-a-language.md": "its examples are run by tests/languages/test_examples.py",
    "daemon.md": "it would use the process of the user; tests/daemon has its own",
    "exact-references.md": "it needs an indexer; tests/references has an index that one made",
    "http.md": "the server runs until it is stopped; tests/e2e/test_shared_server.py stops it",
    "python-api.md": "its blocks are Python, and run below",
    "ui.md": "the page is served until it is stopped; tests/ui opens it",
    "sharing.md": "it needs a database; `make postgres` and `make qdrant` start them",
}
"""Guides without a `console` block, and what runs their contents instead."""
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`\n]+)`")
_COMMAND = re.compile(r"(?:^|[\s(/|;])ctx ((?:-|[a-z]).*)")
_SHELL = {"|", ">", ">>", "<", "&&", "||", "&"}
MISSING = "MissingParameter"
LEFT_OUT = "…"
SHOP = "/tmp/shop"


# -- commands that exist ----------------------------------------------------------------------------------------------


def written_commands(text: str) -> Iterator[tuple[str, bool]]:
    """The `ctx` commands of a page, without `ctx`, and whether each is whole: in a block, not in a sentence."""
    places = [(line, True) for kind, block in _FENCED.findall(text) if kind != "json" for line in block.splitlines()]
    places += [(quoted, False) for quoted in _QUOTED.findall(_FENCED.sub("", text))]
    for line, is_whole in places:
        command = _COMMAND.search(line)
        if command and not line.startswith(("#", "ctx: ")):
            yield command[1], is_whole


def split_command(command: str) -> list[str]:
    """The words of a command, up to what the shell does with its output."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:  # cut off, as in a table
        words = command.split()
    words = [word.rstrip(";)'") for word in words[: 1 + next((n for n, w in enumerate(words) if w.endswith(";")), 99)]]
    return words[: next((number for number, word in enumerate(words) if word in _SHELL or word[:1] in "<>"), 99)]


@cache
def command_tree() -> Any:
    """The commands of `ctx` as the parser has them."""
    return typer.main.get_command(app)


def check_command(words: list[str], *, is_whole: bool) -> None:
    """Parse a command without running it. Raises: what the parser raises for wrong words, AssertionError."""
    command = command_tree()
    rest = split_global_options(words)[2]
    name = "ctx"
    while getattr(command, "commands", None) and rest and not rest[0].startswith("-"):
        name, *rest = rest
        assert name in command.list_commands(None), f"there is no command {name}"
        command = command.get_command(None, name)
    if name in PASSED_ON or getattr(command, "commands", None) or not rest:
        return
    try:
        command.make_context(name, rest)
    except Exception as error:
        if is_whole or type(error).__name__ != MISSING:
            raise


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_the_documentation_exists_with_its_options(page: Path) -> None:
    wrong = []
    for command, is_whole in written_commands(page.read_text("utf-8")):
        try:
            check_command(split_command(command), is_whole=is_whole)
        except Exception as error:  # noqa: BLE001 - of typer's own copy of click, or of click itself
            wrong.append(f"ctx {command}: {getattr(error, 'message', error)}")
    assert wrong == []


def test_commands_that_do_not_exist_are_noticed() -> None:
    for wrong in ("serch x", "search x --lmit 3", "plan shw x", "search x -n lots"):
        with pytest.raises(Exception, match=r"no command|No such option|valid"):
            check_command(split_command(wrong), is_whole=True)
    with pytest.raises(Exception, check=lambda error: type(error).__name__ == MISSING):  # noqa: B017 - see above
        check_command(["search", "-l"], is_whole=True)
    check_command(["search", "-l"], is_whole=False)


# -- commands that run ------------------------------------------------------------------------------------------------


def commands_of(page: Path) -> list[tuple[str, list[str]]]:
    """The commands of a page that are run, each with the lines that it shows."""
    found = []
    for kind, block in _FENCED.findall(page.read_text("utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:] if kind == "console" else ():
            command, *shown = part.splitlines()
            found.append((command, shown))
    return found


def is_shown(output: str, shown: list[str]) -> bool:
    """Whether the output is these lines; `…` matches any text, also none, and alone on a line any lines."""
    patterns = (
        ".*".join(map(re.escape, f"{line}\n".split(LEFT_OUT))) if line != LEFT_OUT else r"(?:.*\n)?" for line in shown
    )
    printed = "".join(f"{line}\n" for line in output.splitlines())
    return re.fullmatch("".join(patterns), printed, re.DOTALL) is not None


def copy_shop(folder: Path) -> Path:
    """Copy the sample repository, with its first commit, as the first tutorial does."""
    root = folder / "shop"
    shutil.copytree(ROOT / "examples" / "shop", root)
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "Start a shop")):
        git(root, *words)
    return root


@pytest.mark.skipif(os.name == "nt", reason="the pages use a POSIX shell")
@pytest.mark.parametrize(
    "page", [page for page in (*TUTORIALS, *GUIDES) if commands_of(page)], ids=lambda page: page.stem
)
def test_a_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    """A tutorial begins in a clone, a guide in a copy of the sample repository."""
    shutil.copytree(ROOT / "examples", tmp_path / "clone" / "examples")
    folder = tmp_path / "clone" if page in TUTORIALS else copy_shop(tmp_path)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "grammars").symlink_to(grammars_folder())
    environment = os.environ | {
        **{f"GIT_{role}_{part}": "ann@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")},
        **{f"CTX_{name.upper()}_FOLDER": str(tmp_path / name) for name in ("cache", "config", "data")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "CTX_DAEMON": "0",
        "CTX_GAIN": "true",
    }
    for written, shown in commands_of(page):
        command = written.replace("/tmp/", f"{tmp_path}/")
        printed, folder = run_command(command, folder, environment)
        output = printed.rstrip("\n").replace(f"{tmp_path}/", "/tmp/")
        assert is_shown(output, shown), f"$ {written}\n{output}"


def run_command(command: str, folder: Path, environment: dict[str, str]) -> tuple[str, Path]:
    """What a command prints, and the folder in which the shell is then. `ctx` alone needs no shell."""
    words = shlex.split(command)
    if words[0] == "ctx" and not _SHELL & set(words):
        fast = [sys.executable, "-m", "context_engine", *words[1:]]
        ran = preloaded.run(fast, cwd=folder, env=environment, capture_output=True, timeout=120)
        return (ran.stdout + ran.stderr).decode(), folder
    script = ("bash", "-c", f"exec 2>&1; {command}; echo; pwd")
    ran = subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    printed, _, place = ran.stdout.rstrip("\n").rpartition("\n")
    return printed, Path(place)


def test_every_guide_runs_or_says_what_runs_instead() -> None:
    assert {page.name for page in GUIDES if not commands_of(page)} == NOT_RUN.keys()


def test_the_python_of_its_guide_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = copy_shop(tmp_path)
    blocks = [block for kind, block in _FENCED.findall((ROOT / "docs/guides/python-api.md").read_text("utf-8")) if kind]
    with Engine.open(root) as engine:
        for block in blocks:
            exec(compile(block.replace(SHOP, str(root)), "python-api.md", "exec"), {"engine": engine})
    shown = capsys.readouterr().out
    assert "shop/payment.py" in shown
    assert "Order.total" in shown


def test_lines_that_are_not_printed_are_noticed() -> None:
    assert is_shown("a\nb\nc", ["a", "…", "c"])
    assert is_shown("a\nc", ["…", "a", "…", "c", "…"])
    assert is_shown("a 12 s\nc", ["a … s", "c"])
    assert not is_shown("a\nb\nc", ["a", "c"])
    assert not is_shown("", ["a"])
