"""Errors at the terminal: a line with the problem, and a line with a next step in the words of the terminal."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from context_engine import tools
from context_engine.cli.app import app
from context_engine.cli.command_runner import report_failure
from context_engine.cli.screens import RecordedScreen
from tests.support.trees import repository, tree

PROVOKED = [
    ("serch", "there is no command 'serch'", "`ctx search`"),
    ("setup claud", "claud is not a known client", "Did you mean claude"),
    ("plan shw", "there is no command 'shw'", "`ctx plan show`"),
    ("search x --lmit 3", "ctx search has no option --lmit", "`ctx search --limit`"),
    ("search x --files", "ctx search has no option --files", "`ctx search -l`"),
    ("search x --limit", "--limit needs a value", "`ctx search --help`"),
    ("search x -n 500", "--limit must be a number from 1 to 50", "`ctx search --help`"),
    ("search x --format lnes", "--format is 'lnes'; it must be one of text, lines, vimgrep", "--help"),
    ("search x --kind banana", "--kind is 'banana'", "It must be one of documentation, symbols"),
    ("search", "QUERY is missing", "`ctx search where are passwords hashed`"),
    ("status now", "ctx status takes no further argument", "`ctx status --help`"),
    ("read READM.md", "there is no 'READM.md'", "README.md"),
    ("read ../../etc/passwd", "is not a path of this workspace", "relative to the workspace root"),
    ("read .git/config", "git's own folder", "`git log`"),
    ("read image.png", "image.png is not text", "a program for its format"),
    ("plan show nope", "there is no plan 'nope'", "`ctx plan list`"),
    ("plan approve nope", "there is no plan 'nope'", "`ctx plan list`"),
    ("memory show nope", "no memory has the id 'nope'", "`ctx memory list`"),
    ("memory add facts hello --expires soon", "--expires is 'soon', not a date", "2027-01-31"),
    ("review --base nosuch", "'nosuch' is not a branch, tag or commit", "`git branch --all`"),
    ("undo", "there is nothing to undo", "No edit has been made with ctx"),
    ("setup claude --profile banana", "no profile is called banana", "`ctx serve --help`"),
    ("workspace remove nope", "no repository here is called 'nope'", "`ctx workspace add PATH`"),
    ("search x -w nope", "no workspace is called 'nope'", "`ctx workspace add PATH --workspace NAME`"),
    ("store list", "no database is named", "--store postgresql://"),
    ("grep pay", "there is no command 'grep'", "`ctx search`"),
    ("cat a.py", "there is no command 'cat'", "`ctx read`"),
    ("daemon restart", "there is no command 'restart'", "`ctx daemon stop`"),
    ("memory remove x", "there is no command 'remove'", "`ctx memory delete`"),
    ("search x --max-results 5", "ctx search has no option --max-results", "`ctx search --limit`"),
    ("search x -t py", "ctx search has no option -t", "`ctx search --lang`"),
    ("read nope.zig", "there is no 'nope.zig'", "`ctx read .`"),
    ("read 1 10", "there is no '1'", "`path:1-10`"),
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CTX_CACHE_FOLDER", "CTX_DATA_FOLDER", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    folder = repository(tmp_path / "project", {"README.md": "hello\nworld\n", "a.py": "def pay():\n    return 1\n"})
    (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    monkeypatch.chdir(folder)
    return folder


def ctx(*words: str) -> tuple[Result, str, int]:
    """Run a command; return its result, what is shown of its error, and the exit code."""
    result = CliRunner().invoke(app, list(words), prog_name="ctx", standalone_mode=False)
    if not isinstance(result.exception, Exception):
        return result, result.stderr, result.return_value if isinstance(result.return_value, int) else result.exit_code
    recorded = RecordedScreen({}, {})
    code = report_failure(result.exception, recorded)
    return result, result.stderr + "".join(text for _, text in recorded.texts), code


@pytest.mark.parametrize(("line", "problem", "step"), PROVOKED, ids=[row[0] for row in PROVOKED])
def test_an_error_names_the_problem_and_a_step_that_exists(root: Path, line: str, problem: str, step: str) -> None:
    _, shown, code = ctx(*line.split())
    assert code == 2
    error, hint = shown.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert problem in error
    assert step in hint
    assert not {*re.findall(r"\w+_\w+", shown)} & {*tools.list_names()}, "the name of a tool"
    for command in re.findall(r"`ctx ([^`]*)`", hint):
        assert is_command(command.split())


def is_command(words: list[str]) -> bool:
    """Whether the words begin with a command of this release."""
    command: Any = typer.main.get_command(app)
    for word in words:
        names = command.list_commands(None) if hasattr(command, "list_commands") else ()
        children = {name: command.get_command(None, name) for name in names}
        if not children or word.startswith("-"):
            return True
        if word not in children:
            return False
        command = children[word]
    return True


def test_a_folder_at_the_end_of_a_question_gets_a_note_and_stays_a_word(root: Path, tmp_path: Path) -> None:
    tree(root, {"src/b.py": "def pay_back(): ...\n"})
    assert "src/ is a word of the question; --include src/ searches only there" in ctx("search", "pay", "src/")[1]
    assert f"`ctx -C {tmp_path} search ...` searches only there" in ctx("search", "pay", str(tmp_path))[1]
    assert "is a word of the question" not in ctx("search", "pay", "and/or")[1]


def test_a_call_without_json_shows_the_arguments_of_its_tool(root: Path) -> None:
    result, _, code = ctx("call", "read_file", "a.py")
    assert code == 2
    assert result.stdout.startswith("INVALID_ARGUMENT: ")
    assert """next: Quote them for the shell: `ctx call read_file '{"path": "..."}'`""" in result.stdout


def test_a_command_in_a_deleted_folder_says_so(root: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        _, shown, code = ctx("status")
    finally:
        os.chdir(root)
    assert code == 2
    assert "the current folder was deleted" in shown
    assert "`ctx -C DIR ...`" in shown


def test_with_json_an_error_keeps_its_code_and_speaks_of_commands(root: Path) -> None:
    recorded = RecordedScreen({}, {})
    result = CliRunner().invoke(app, ["plan", "show", "nope"], prog_name="ctx", standalone_mode=False)
    assert isinstance(result.exception, Exception)
    assert report_failure(result.exception, recorded, as_json=True) == 2
    error = json.loads(recorded.texts[0][1])["error"]
    assert error["code"] == "PLAN_NOT_FOUND"
    assert error["suggestion"] == "Run `ctx plan list` to see all plans."


def test_a_symbol_that_does_not_exist_is_nothing_found_and_names_similar_ones(root: Path) -> None:
    result, _, code = ctx("symbol", "pai")
    assert (code, "near: pay" in result.stdout) == (1, True)
    _, shown, code = ctx("trace", "pai")
    assert code == 1
    assert "Did you mean pay?" in shown


def test_a_provider_that_cannot_be_used_is_named_by_a_search_and_stops_none(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTX_EMBEDDER", "model2vec")
    result, shown, code = ctx("search", "pay", "-l")
    assert (code, result.stdout) == (0, "a.py\n")
    assert "model2vec took no part: model2vec: there is no folder" in shown
