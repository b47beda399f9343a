"""The shell's questions, asked as a shell asks them: variables in the environment, an answer on stdout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from context_engine.cli import shell_completion
from context_engine.cli.app import ServeCommand, app
from context_engine.cli.clients import client_table
from context_engine.server.profiles import PROFILES
from context_engine.server.serve_options import OPTIONS
from tests.support import preloaded

HERE = Path(__file__).resolve().parents[2]


def offered(line: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    words = line.split(" ")
    asked = {"_CTX_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = preloaded.run(
        [sys.executable, "-c", "import sys; sys.argv = ['ctx']; from context_engine.cli import main; main()"],
        env=os.environ | {"PYTHONPATH": str(HERE)} | asked, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_are_offered() -> None:
    assert {"setup", "search", "serve", "status"} <= set(offered("ctx s"))
    assert offered("ctx doc") == ["doctor"]


def test_options_are_offered_those_of_serve_too() -> None:
    assert "--lang" in offered("ctx search --la")
    assert set(offered("ctx serve --")) >= {f"--{option.name}" for option in OPTIONS}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ctx setup claude-", ["claude-desktop"]),
        ("ctx doctor ge", ["gemini"]),
        ("ctx call search_t", ["search_text"]),
        ("ctx setup --profile pl", ["plan"]),
        ("ctx serve --profile core,re", ["core,review"]),
        ("ctx search x --kind def", ["definitions"]),
        ("ctx trace x -d impo", ["imports", "importers"]),
    ],
)
def test_values_are_offered(line: str, words: list[str]) -> None:
    assert offered(line) == words


def test_what_is_offered_is_what_there_is() -> None:
    assert [word for word, _ in shell_completion.complete_clients("")] == [client.name for client in client_table.ALL]
    assert [word for word, _ in shell_completion.complete_profiles("")] == list(PROFILES)
    assert all(meaning for _, meaning in shell_completion.complete_tools(""))


def test_completing_loads_no_engine() -> None:
    code = (
        "import sys; sys.argv = ['ctx']\n"
        "from context_engine.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('numpy', 'mcp', 'apsw', 'tree_sitter', 'rich') if name in sys.modules], file=sys.stderr)"
    )
    asked = {
        "_CTX_COMPLETE": "complete_bash",
        "COMP_WORDS": "ctx call search_t",
        "COMP_CWORD": "2",
        "PYTHONPATH": str(HERE),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=True, timeout=60
    )
    assert "search_text" in done.stdout
    assert done.stderr == "[]\n"


def test_serve_runs_with_no_option_of_its_own() -> None:
    command = next(each for each in app.registered_commands if each.cls is ServeCommand)
    assert getattr(command.callback, "__name__", "") == "serve"
