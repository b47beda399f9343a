"""`ctx setup`: one entry in a client's own settings, everything else untouched, and the way back."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from context_engine.cli.app import app, run
from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.launch_command import find_own_launch_command
from tests.support.terminal import setup

pytestmark = pytest.mark.usefixtures("home")

CTX = find_own_launch_command().command


def path_of(name: str) -> Path:
    return client_config.find_config_path(client_table.find_client(name), client_config.this_machine(), None)


def entry_in(path: Path, section: str) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    whole = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return whole[section]["ctx"]


# -- what is written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "section", "entry"),
    [
        ("claude", "mcpServers", {"type": "stdio", "command": CTX, "args": ["serve"], "alwaysLoad": True}),
        ("codex", "mcp_servers", {"command": CTX, "args": ["serve"], "startup_timeout_sec": 20, "tool_timeout_sec": 300}),
        ("gemini", "mcpServers", {"command": CTX, "args": ["serve"]}),
        ("opencode", "mcp", {"type": "local", "command": [CTX, "serve"]}),
        ("cursor", "mcpServers", {"type": "stdio", "command": CTX, "args": ["serve"]}),
        ("vscode", "servers", {"type": "stdio", "command": CTX, "args": ["serve"]}),
    ],
)  # fmt: skip
def test_each_client_gets_an_entry_in_its_own_words(client: str, section: str, entry: dict[str, Any]) -> None:
    setup(client)
    assert entry_in(path_of(client), section) == entry


def test_a_client_without_an_open_folder_is_told_the_project_around_here(home: Path) -> None:
    setup("claude-desktop")
    assert entry_in(path_of("claude-desktop"), "mcpServers") == {
        "command": CTX,
        "args": ["serve", "--root", str(home / "work")],
    }


def test_options_of_the_server_go_into_the_entry(home: Path) -> None:
    (home / "other").mkdir()
    setup("gemini", "--root", "../work", "--root", "../other", "--root", ".", "--profile", "core,plan", "--read-only")
    roots = ["--root", str(home / "work"), "--root", str(home / "other")]
    assert entry_in(path_of("gemini"), "mcpServers")["args"] == [
        "serve",
        *roots,
        "--profile",
        "core,plan",
        "--read-only",
    ]


@pytest.mark.parametrize(("words", "hint"), [(["--profile", "coer"], "core"), (["--root", "/no/such"], "/no/such")])
def test_options_are_checked_before_anything_is_written(
    words: list[str], hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ctx", "setup", "gemini", *words])
    assert run() == 2
    assert hint in capsys.readouterr().err
    assert not path_of("gemini").exists()


# -- the settings of a project --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "name", "section"),
    [
        ("claude", ".mcp.json", "mcpServers"),
        ("codex", ".codex/config.toml", "mcp_servers"),
        ("gemini", ".gemini/settings.json", "mcpServers"),
        ("opencode", "opencode.json", "mcp"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".vscode/mcp.json", "servers"),
    ],
)
def test_a_project_has_settings_of_its_own(client: str, name: str, section: str, home: Path) -> None:
    setup(client, "--project")
    assert entry_in(home / "work" / name, section)
    assert not path_of(client).exists()


def test_in_a_project_editors_fill_in_the_open_folder(home: Path) -> None:
    setup("vscode", "cursor", "--project")
    for name, section in ((".vscode/mcp.json", "servers"), (".cursor/mcp.json", "mcpServers")):
        assert entry_in(home / "work" / name, section)["args"] == ["serve", "--root", "${workspaceFolder}"]


def test_a_file_that_others_share_names_no_path_of_this_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "shared" in setup("claude", "--project").output
    monkeypatch.setenv("PATH", str(Path(CTX).parent))
    assert "shared" not in setup("claude", "--project").output
    assert entry_in(home / "work" / ".mcp.json", "mcpServers")["command"] == "ctx"


# -- which file --------------------------------------------------------------------------------------------------------


def test_the_file_that_exists_is_preferred(home: Path) -> None:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text('{\n  // mine\n  "theme": "x"\n}')
    setup("opencode")
    assert not (folder / "opencode.jsonc").exists()
    assert "// mine" in (folder / "opencode.json").read_text()


# -- nothing is lost --------------------------------------------------------------------------------------------------

MINE = '{\n    // mine\n    "theme": "GitHub", /* day */\n    "mcpServers": {\n        "other": {"command": "x"}\n    }\n}\n'


def written(name: str, text: str) -> Path:
    path = path_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def backups(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.ctx-backup-*"))


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_the_file_before_is_kept_beside_it_as_closed_as_the_file(mode: int) -> None:
    path = written("gemini", MINE)
    path.chmod(mode)
    output = setup("gemini").output
    (kept,) = backups(path)
    assert re.search(r"-\d{8}-\d{6}$", kept.name)
    assert str(kept) in output
    assert kept.read_text() == MINE
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, kept)] == [mode, mode]
    path.write_text(path.read_text().replace("{", "{ ", 1))
    setup("gemini", "--remove")
    assert len(backups(path)) == 2  # within the same second, too


def test_backups_go_when_the_file_is_again_as_it_was() -> None:
    path = written("gemini", MINE)
    setup("gemini")
    assert "\n  backup" not in setup("gemini", "--remove").output
    assert (path.read_text(), backups(path)) == (MINE, [])


def test_a_link_to_the_settings_stays_a_link(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text(MINE)
    path = path_of("gemini")
    path.parent.mkdir()
    path.symlink_to(real)
    setup("gemini")
    assert path.is_symlink()
    assert '"ctx"' in real.read_text()


def test_a_byte_order_mark_and_line_ends_of_windows_stay() -> None:
    path = written("vscode", "\ufeff" + MINE.replace("\n", "\r\n"))
    setup("vscode")
    raw = path.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf{\r\n")
    assert raw.count(b"\n") == raw.count(b"\r\n")


# -- looking first -----------------------------------------------------------------------------------------------------


def test_printing_shows_the_change_and_writes_nothing() -> None:
    path = written("gemini", MINE)
    shown = setup("gemini", "--print").stdout
    assert '+        "ctx": {' in shown
    assert '-        "other": {"command": "x"}' in shown
    assert path.read_text() == MINE
    assert backups(path) == []
    assert "/dev/null" in setup("codex", "--print").stdout
    assert not path_of("codex").exists()


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "text", "place", "by_hand"),
    [
        ("gemini", '{\n  "theme": \n}\n', "line 3, column 1", '"ctx": {'),
        ("codex", "model = 'x'\nbroken\n", "line 2", "[mcp_servers.ctx]"),
        ("claude", "[]", "line 1, column 1", '"alwaysLoad": true'),
    ],
)
def test_settings_that_cannot_be_read_stay_as_they_are(client: str, text: str, place: str, by_hand: str) -> None:
    path = written(client, text)
    output = setup(client, code=2).output
    assert str(path) in output.replace("\n", "")
    assert place in output
    assert by_hand in output
    assert path.read_text() == text
    assert backups(path) == []


def test_another_server_of_our_name_is_left_alone() -> None:
    text = '{"mcpServers": {"ctx": {"command": "npx", "args": ["-y", "contextual"]}}}'
    path = written("claude", text)
    for words in (["claude"], ["claude", "--remove"]):
        assert "npx -y contextual" in setup(*words, code=2).output
    assert path.read_text() == text


@pytest.mark.parametrize("options", [(), ("--remove",)])
def test_settings_that_are_read_only_stay_as_they_are(options: tuple[str, ...]) -> None:
    setup("gemini")
    path = path_of("gemini")
    path.write_text(before := path.read_text() if options else MINE)
    path.chmod(0o444)
    said = " ".join(setup("gemini", *options, code=2).output.split())
    assert "it is read-only" in said and "Make it and its folder writable" in said
    assert (path.read_text(), backups(path)) == (before, [])


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nobody is refused here")
def test_a_folder_that_may_not_be_written_is_named() -> None:
    path = written("gemini", MINE)
    path.parent.chmod(0o500)
    assert "cannot be kept" in setup("gemini", code=2).output
    path.parent.chmod(0o700)
    assert path.read_text() == MINE


# -- all clients -------------------------------------------------------------------------------------------------------


def test_all_sets_up_what_is_installed_and_nothing_else(home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".config" / "goose").mkdir(parents=True)
    shown = setup("--all", "--yes").output
    assert f"+++ {path_of('cursor')}" in shown, "the change is shown first"
    assert entry_in(path_of("cursor"), "mcpServers")
    assert "paste these lines" in shown
    assert not path_of("gemini").exists()
    assert "nothing to do" in setup("--all", "--yes").output
    setup("--all", "--remove", "--yes")
    assert list((home / ".cursor").iterdir()) == []
    assert not path_of("goose").exists()


def test_all_asks_before_it_changes_anything(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".cursor").mkdir()
    assert "not a terminal" in str(setup("--all", code=1).exception)
    monkeypatch.setattr("context_engine.cli.setup_command._is_interactive", lambda: True)
    for answer, is_written in (("n\n", False), ("y\n", True)):
        result = CliRunner().invoke(app, ["setup", "--all"], prog_name="ctx", input=answer)
        assert "Change 1 file?" in result.output
        assert path_of("cursor").exists() is is_written


def test_of_a_client_with_yaml_the_lines_to_paste_are_printed(home: Path) -> None:
    path = written("goose", "GOOSE_MODE: auto\n")
    shown = setup("goose").stdout
    assert f"paste these lines into {path}\n\nextensions:\n  ctx:\n    type: stdio\n" in shown
    assert path.read_text() == "GOOSE_MODE: auto\n"
    (row,) = json.loads(setup("goose", "--json").stdout)
    path.write_text(path.read_text() + row["pasted"])
    assert row["state"] == "by_hand"
    assert "nothing to do" in setup("goose").stdout
    assert "remove the entry ctx from" in setup("goose", "--remove").stdout


# -- the list ----------------------------------------------------------------------------------------------------------


def test_alone_it_lists_the_clients_and_how_they_stand(home: Path) -> None:
    setup("claude")
    setup("vscode", "--project")
    (home / ".cursor").mkdir()
    written("gemini", "{")
    lines = {line.split()[0]: line for line in setup().stdout.splitlines() if line.strip()}
    names = {*lines, *lines["not"].removeprefix("not found").replace(",", " ").split()}
    assert names >= {client.name for client in client_table.ALL}
    assert f"set up for you in {path_of('claude')}" in lines["claude"]
    assert "set up for this project" in lines["vscode"]
    assert "ctx setup cursor" in lines["cursor"]
    assert "cannot be read" in lines["gemini"]
    assert "codex" in lines["not"]


def test_json_reports_each_file_with_its_change_and_how_it_ended(home: Path) -> None:
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text("[", encoding="utf-8")
    planned = json.loads(setup("claude", "--hooks", "--print", "--json").stdout)
    assert [(row["client"], row["part"], row["state"]) for row in planned] == [
        ("claude", "hooks", "planned"),
        ("claude", "server", "planned"),
    ]
    assert not path_of("claude").exists()
    written, failed = sorted(
        json.loads(setup("claude", "gemini", "--json", code=2).stdout), key=lambda row: "error" in row
    )
    assert (written["state"], written["path"], written["command"][-1]) == ("written", str(path_of("claude")), "serve")
    assert '+    "ctx": {' in written["diff"].splitlines()
    assert (failed["client"], failed["state"]) == ("gemini", "failed")
    assert "Nothing was changed." in failed["error"]["suggestion"]
    assert [row["state"] for row in json.loads(setup("claude", "--json").stdout)] == ["unchanged"]
    assert [row["state"] for row in json.loads(setup("claude", "--remove", "--json").stdout)] == ["removed"]
