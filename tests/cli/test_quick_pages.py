"""The generated help pages and completions are those of the full program, and are shown without importing it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from context_engine.cli.help_pages import HIDDEN
from context_engine.cli.quick_pages import PAGES_FILE, find_offers, find_page, read_pages
from scripts.command_pages import format_text
from tests.support import preloaded
from tests.support.trees import tree

ROOT = Path(__file__).resolve().parents[2]


def full(words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    """The output of the program that imports everything."""
    code = (
        f"import sys; sys.argv = ['ctx', *{words!r}]; from context_engine.cli.app import run; raise SystemExit(run())"
    )
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")}
    return preloaded.run(
        [sys.executable, "-c", code], env=clean | {"PYTHONPATH": str(ROOT)} | env, capture_output=True, text=True
    )


def test_the_generated_pages_are_those_of_this_release() -> None:
    code = "import sys; sys.argv = ['x']; from scripts.command_pages import *; sys.stdout.write(format_pages(build_pages()))"
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == Path(PAGES_FILE).read_text(encoding="utf-8"), "python -m scripts.command_pages --write"


def test_the_text_of_all_pages_is_current() -> None:
    assert (ROOT / "docs" / "help.txt").read_text(encoding="utf-8") == format_text(read_pages()["help"]), (
        "make help-text"
    )


@pytest.mark.parametrize("path", ["", "search", "memory", "memory add", "daemon status", "setup"])
def test_a_page_in_a_pipe_is_that_of_the_full_program(path: str) -> None:
    words = [*path.split(), "--help"]
    assert shown(words) == full(words).stdout


def shown(words: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "context_engine", *words], capture_output=True, text=True, check=True, cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")},
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    "line",
    [
        *("ctx ", "ctx s", "ctx memory ", "ctx plan sh", "ctx search --", "ctx memory add --t", "ctx serve --"),
        *(
            "ctx call ",
            "ctx call search_",
            "ctx trace main --direction i",
            "ctx call nope",
            "ctx serve --tools s",
            "ctx setup c",
        ),
    ],
)
def test_the_offers_of_a_shell_are_those_of_the_full_program(shell: str, line: str) -> None:
    env = completion_environment(shell, line)
    offered = find_offers(env)
    assert offered is not None
    assert offered.split() == full([], **env).stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_names_of_plans_are_offered_without_the_full_program(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(
        tmp_path,
        {
            ".context-engine/plans/index.json": json.dumps(
                {"plans": [{"row": {"id": "plan_1-a", "name": "It's: a\nplan"}}]}
            )
        },
    )
    monkeypatch.chdir(tmp_path)
    env = completion_environment(shell, "ctx plan show it")
    offered = find_offers(env)
    assert offered
    assert "it-s-a-plan" in offered
    assert offered.split() == full([], **env).stdout.split()


def completion_environment(shell: str, line: str) -> dict[str, str]:
    words = line.split()
    number = len(words) if line.endswith(" ") else len(words) - 1
    bash = {"COMP_WORDS": line, "COMP_CWORD": str(number)}
    others = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return {"_CTX_COMPLETE": f"complete_{shell}"} | (bash if shell == "bash" else others)


@pytest.mark.parametrize(
    "line",
    [
        "ctx search a",
        "ctx memories ",
        "ctx call a b",
        "ctx setup --profile core,",
        "ctx 'a ",
        "ctx search --limit ",
        "ctx nope ",
    ],
)
def test_what_is_not_generated_is_left_to_the_full_program(line: str) -> None:
    assert find_offers(completion_environment("bash", line)) is None


def test_what_is_not_a_page_is_left_to_the_full_program() -> None:
    assert find_page(["nope", "--help"], {}) is None
    assert find_page(["search"], {}) is None


def test_styles_are_shown_where_they_are_forced_and_nowhere_in_a_pipe() -> None:
    styled, plain = find_page(["--help"], {"FORCE_COLOR": "1"}), find_page(["--help"], {})
    assert styled
    assert plain
    assert "\x1b[1m" in styled
    assert "\x1b" not in plain


def test_the_first_page_fits_a_screen_and_names_every_command_but_the_hidden_ones() -> None:
    page = find_page([], {})
    assert page
    assert len(page.splitlines()) <= 38
    assert max(map(len, page.splitlines())) <= 80
    names = {path.split()[0] for path in read_pages()["offers"] if path}
    assert {name for name in names if not re.search(rf"^  {name} | {name}(,|$)", page, re.MULTILINE)} == {*HIDDEN}


@pytest.mark.parametrize("path", [path for path in read_pages()["help"] if path])
def test_every_page_says_in_one_line_what_the_command_does(path: str) -> None:
    page = find_page([*path.split(), "-h"], {})
    assert page
    assert "`" not in page.partition("\nExamples")[0]
    assert f"Usage: ctx {path}" in page
    described = page.partition("\nExamples")[0].splitlines()
    assert max(map(len, described)) <= 80


def test_a_page_imports_neither_typer_nor_rich() -> None:
    code = "import sys; sys.argv = ['ctx', '--help']; from context_engine.cli import main\ntry: main()\nexcept SystemExit: pass\nimport json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "80"},
    )
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    assert not imported & {"typer", "rich", "context_engine.cli.app"}
    assert "Usage: ctx" in done.stdout


def test_completing_the_name_of_a_plan_imports_neither_typer_nor_rich(tmp_path: Path) -> None:
    code = "import sys; from context_engine.cli.quick_pages import find_offers; import os; find_offers(os.environ); print('typer' in sys.modules, 'rich' in sys.modules)"
    env = os.environ | completion_environment("bash", "ctx plan show ") | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=env
    )
    assert done.stdout.split() == ["False", "False"]


WITHOUT_JSON = {"call", "completion", "daemon run", "hook", "serve", "ui"}
"""They print the text of a tool or a script, serve, or only say what they did."""


def test_every_command_that_prints_data_prints_json() -> None:
    offers = read_pages()["offers"]
    groups = {path.rpartition(" ")[0] for path in offers}
    without = {path for path, rows in offers.items() if path not in groups and "--json" not in dict(rows)}
    assert without == WITHOUT_JSON
