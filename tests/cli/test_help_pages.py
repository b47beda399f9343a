"""The help pages: every command has one, in plain text of 80 columns, and docs/help.txt has them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from context_engine.cli.app import app
from context_engine.cli.help_pages import HIDDEN
from context_engine.server.serve_options import OPTIONS, ServeOption
from scripts.command_pages import build_pages, format_text

ROOT = Path(__file__).resolve().parents[2]
PAGES = build_pages()
WITHOUT_JSON = {"daemon run", "hook", "serve", "ui"}
"""They print the text of a tool, serve, or only say what they did."""


def shown(*words: str, **env: str) -> str:
    return CliRunner().invoke(app, [*words], prog_name="ctx", env=env).stdout


def test_the_text_of_all_pages_is_current() -> None:
    assert (ROOT / "docs" / "help.txt").read_text(encoding="utf-8") == format_text(PAGES), "run `make docs`"


@pytest.mark.parametrize("path", ["", "search", "memory", "memory add", "daemon status", "setup"])
def test_a_page_in_a_pipe_has_no_styles(path: str) -> None:
    assert shown(*path.split(), "--help") == PAGES[path]


def test_styles_are_shown_where_they_are_forced() -> None:
    assert "\x1b[1m" in shown("--help", FORCE_COLOR="1")


def test_the_first_page_fits_a_screen_and_names_every_command_but_the_hidden_ones() -> None:
    page = PAGES[""]
    assert len(page.splitlines()) <= 38
    assert max(map(len, page.splitlines())) <= 80
    names = {path.split()[0] for path in PAGES if path}
    assert {name for name in names if not re.search(rf"^  {name} | {name}(,|$)", page, re.MULTILINE)} == {*HIDDEN}


@pytest.mark.parametrize("path", [path for path in PAGES if path])
def test_every_page_says_in_one_line_what_the_command_does(path: str) -> None:
    described = PAGES[path].partition("\nExamples")[0]
    assert "`" not in described
    assert f"Usage: ctx {path}" in described
    assert max(map(len, described.splitlines())) <= 80


@pytest.mark.parametrize("option", OPTIONS, ids=[option.name for option in OPTIONS])
def test_the_page_of_the_server_has_each_of_its_options(option: ServeOption) -> None:
    assert f"--{option.name}" in PAGES["serve"]
    assert f"[env: {option.variable}]" in " ".join(PAGES["serve"].split())


def test_every_command_that_prints_data_prints_json() -> None:
    groups = {path.rpartition(" ")[0] for path in PAGES}
    assert {path for path, page in PAGES.items() if path not in groups and "--json" not in page} == WITHOUT_JSON
