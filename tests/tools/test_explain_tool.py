"""`explain`, which `ctx why` shows: the rule, limit or format that keeps a file out, and why a name is not found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from context_engine import tools
from context_engine.cli.app import app
from context_engine.engine import Engine
from context_engine.errors import SymbolNotFound
from tests.support.engines import cache_for, open_engine
from tests.support.trees import repository

FILES = {
    ".gitignore": "# built\n\ndist/\n*.log\n",
    ".contextignore": "*.tmp\n",
    ".augmentignore": "\n/old.py\n",
    "app/.gitignore": "/local.py\n",
    "app/local.py": "def keep_secretly(): ...\n",
    "app/main.py": "def open_door(): ...\n\nopen_window()\n",
    "app/vendor/lib.py": "def borrowed(): ...\n",
    "dist/app.js": "function built() {}\n",
    "build.log": "open_window\n",
    "old.py": "x = 1\n",
    "note.xyz": "plain words about gate_keeper\n",
    "big.py": "x = 1\n" * 200_000,
    "bundle.js": "a=b+c;" * 5_000,
    "picture.png": "no picture",
    "key.pem": "nothing",
    "blob.txt": "a\0b",
    "venv/pyvenv.cfg": "",
    "venv/lib.py": "x = 1\n",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = repository(tmp_path_factory.mktemp("why") / "repo", FILES)
    (root / "link.py").symlink_to(root / "app" / "main.py")
    with open_engine(root) as opened:
        opened.index.update()
        yield opened


def explained(engine: Engine, target: str) -> dict[str, Any]:
    return json.loads(tools.call(engine, "explain", {"target": target, "format": "json"}).text)


@pytest.mark.parametrize(
    ("path", "reason", "detail", "cause"),
    [
        ("dist/app.js", "ignored", ".gitignore:3: dist/", "dist"),
        ("build.log", "ignored", ".gitignore:4: *.log", ""),
        ("app/local.py", "ignored", "app/.gitignore:1: /local.py", ""),
        ("old.py", "ignored", ".augmentignore:2: /old.py", ""),
        ("big.py", "too_large", "1,200,000 bytes; the limit is 1,000,000", ""),
        ("picture.png", "binary", "a .png file", ""),
        ("venv/lib.py", "ignored", "a Python virtual environment", "venv"),
    ],
)
def test_a_file_outside_of_the_index_names_its_rule_or_limit(
    engine: Engine, path: str, reason: str, detail: str, cause: str
) -> None:
    row = explained(engine, path)
    assert (row["in_index"], row["reason"], row["detail"], row.get("because_of", "")) == (False, reason, detail, cause)


@pytest.mark.parametrize(
    ("path", "reason"), [("bundle.js", "minified"), ("blob.txt", "binary"), ("key.pem", "sensitive")]
)
def test_content_and_secrets_keep_a_file_out(engine: Engine, path: str, reason: str) -> None:
    assert (explained(engine, path)["state"], explained(engine, path)["reason"]) == ("excluded", reason)


def test_an_indexed_file_says_what_the_index_has_of_it(engine: Engine) -> None:
    row = explained(engine, "app/main.py")
    assert (row["state"], row["in_index"], row["notes"][0]) == ("indexed", True, "python, 1 chunk")
    assert "its role is vendored code: ranking may place it lower" in explained(engine, "app/vendor/lib.py")["notes"]
    assert explained(engine, "link.py")["path"] == "app/main.py"


def test_a_new_file_waits_and_a_path_outside_is_outside(engine: Engine) -> None:
    new = engine.root / "new.py"
    new.write_text("x = 1\n")
    assert explained(engine, "new.py")["state"] == "waiting"
    new.unlink()
    assert explained(engine, "new.py")["state"] == "missing"
    assert explained(engine, "../elsewhere.py")["state"] == "outside"


def test_a_folder_counts_what_is_left_out(engine: Engine) -> None:
    row = explained(engine, "app")
    assert (row["state"], row["detail"]) == ("folder", "3 of 3 files are indexed")
    assert "left out: 1 ignored" in row["notes"]


def test_a_name_that_is_not_defined_shows_similar_names_and_where_it_is_text(engine: Engine) -> None:
    assert explained(engine, "open_doors")["near"] == ["open_door"]
    row = explained(engine, "open_window")
    assert (row["state"], row.get("near", [])) == ("undefined", [])
    assert "1 line of 1 file have it only as text" in row["notes"]
    assert any("build.log (ignored .gitignore:4: *.log)" in note for note in row["notes"])
    assert explained(engine, "open_door")["definitions"] == ["app/main.py:1 function open_door"]
    assert explained(engine, "nothing_of_it")["notes"] == ["no line of this workspace has nothing_of_it"]


def test_a_name_in_a_language_without_a_grammar_says_so(engine: Engine) -> None:
    assert any("a language without a grammar" in note for note in explained(engine, "gate_keeper")["notes"])


def test_the_command_exits_with_1_for_what_is_not_in_the_index(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(cache_for(engine.root)))
    monkeypatch.setenv("CTX_EMBEDDER", "none")
    found = CliRunner().invoke(app, ["why", "app/main.py", "--root", str(engine.root)])
    assert (found.exit_code, found.output.splitlines()[0]) == (0, "app/main.py: in the index")
    left_out = CliRunner().invoke(app, ["why", "dist/app.js", "--root", str(engine.root)])
    assert left_out.exit_code == 1
    assert ".gitignore:3: dist/" in left_out.output


def test_a_file_in_an_ignored_folder_is_never_searched_for_a_name(engine: Engine) -> None:
    assert not any("dist/app.js" in note for note in explained(engine, "built")["notes"])


def test_while_the_index_is_built_no_name_is_called_undefined_without_saying_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.index.live, "refresh", lambda: "index building 40 %")
    for tool, arguments in (
        ("symbols", {"name": "not_yet_there"}),
        ("symbols", {"name": "not_yet_there", "relation": "callers"}),
        ("find_symbol", {"name": "not_yet_there"}),
    ):
        try:
            text = tools.call(engine, tool, arguments).text
        except SymbolNotFound as error:
            text = error.message
        assert "defined" in text
        assert "in what is indexed so far: index building 40 %" in text
