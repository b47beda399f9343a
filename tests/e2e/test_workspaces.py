"""A person with several repositories: put together, brought up to date, searched together, served under one name, moved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from context_engine.cli.app import app
from tests.e2e.test_terminal import ctx
from tests.e2e.wire import Wire
from tests.support.trees import commit, repository, tree

LIB = {"retry.py": 'def retry_with_backoff(call):\n    """Try again, later each time."""\n    return call()\n'}


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "cache"))


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    return repository(tmp_path / "lib", LIB)


def done(*words: str, root: Path | None = None) -> str:
    """What a command prints that succeeds, run in this process: a journey takes a dozen of them."""
    said = CliRunner().invoke(app, [*words, *(("--root", str(root)) if root else ())], prog_name="ctx")
    assert said.exit_code == 0, (said.output, said.exception)
    return said.stdout


def test_several_repositories_become_one_to_search(repository: Path, lib: Path, tmp_path: Path) -> None:
    done("workspace", "add", str(repository), "--name", "till")
    assert str(tmp_path / "cache" / "clones") in done("workspace", "add", lib.as_uri())
    assert "none yet" in done("workspace", "list")
    updated = done("workspace", "update")
    assert [line.split()[0] for line in updated.splitlines()] == ["till", "lib"]
    listed = json.loads(done("workspace", "list", "--json"))["default"]
    assert [(row["name"], row["index"].partition(",")[0]) for row in listed] == [("till", "fresh"), ("lib", "fresh")]
    assert done("search", "retry with backoff", "-w", "default").startswith("@@ lib:retry.py:")
    rows = json.loads(done("search", "hash password", "-w", "default", "--json"))["results"]
    assert (rows[0]["project"], rows[0]["path"]) == ("till", "till/auth.py")
    assert "lib:retry.py:1-3" in done("call", "find_symbol", '{"name": "retry_with_backoff"}', "-w", "default")

    tree(lib, {"news.py": "def quite_new():\n    return 1\n"})
    commit(lib, "news")
    assert done("call", "find_symbol", '{"name": "quite_new"}', "-w", "default").startswith("0 definitions")
    assert "lib" in done("workspace", "update", "lib")
    assert "lib:news.py" in done("call", "find_symbol", '{"name": "quite_new"}', "-w", "default")

    assert "its clone is deleted" in done("workspace", "remove", "lib")
    assert "lib" not in done("workspace", "list")


def test_refusals_say_what_to_do(repository: Path, lib: Path) -> None:
    for words, expected in (
        (("workspace", "add", "ext::sh -c true"), "https://"),
        (("workspace", "add", (lib / "gone").as_uri()), "does not appear to be a git repository"),
        (("search", "x", "-w", "nothing"), "no workspace is called"),
        (("serve", "--workspace", "nothing"), "no workspace is called"),
    ):
        said = ctx(*words)
        assert said.returncode == (1 if words[0] == "serve" else 2), words
        assert expected.lower() in said.stderr.lower(), words
        assert "Traceback" not in said.stderr


def test_a_server_of_a_workspace_answers_for_all_of_it(repository: Path, lib: Path) -> None:
    done("workspace", "add", str(repository), "--name", "till", "-w", "team")
    done("workspace", "add", lib.as_uri(), "-w", "team")
    with Wire(repository, {"CTX_ROOT": ""}, ("--workspace", "team", "--profile", "all")) as wire:
        wire.shake_hands()
        for project in ("till", "lib"):
            wire.call("index_workspace", project=project)
        rows = json.loads(wire.text("codebase_retrieval", query="retry with backoff"))["results"]
        assert (rows[0]["project"], rows[0]["path"]) == ("lib", "retry.py")
        assert "def hash_password" in wire.text("read_file", path="till:till/auth.py")
        refused = wire.call("write_file", project="lib", path="x.py", contents="1")
        assert refused["isError"]
        assert "ACCESS_DENIED" in refused["content"][0]["text"]


def test_a_damaged_index_is_found_and_built_again(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "other"))
    monkeypatch.setenv("CTX_DAEMON", "0")
    monkeypatch.chdir(repository)
    done("index")
    victim = next((tmp_path / "other" / "workspaces").glob("*/g-*/*.seg"))
    victim.write_bytes(victim.read_bytes()[:200])
    findings = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)["findings"]
    (index,) = [row for row in findings if row["part"] == "index"]
    assert (index["verdict"], "000001.seg cannot be used" in str(index)) == ("problem", True)
    assert "ctx index --force" in index["step"]
    done("index", "--force")
    assert done("search", "where are passwords hashed", root=repository).startswith("@@ till/auth.py:")
