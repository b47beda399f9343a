"""Laws over every row of the table of clients: nothing but the entry changes, and removing it gives the bytes back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.client_config import ClientConfigFile
from context_engine.cli.clients.client_table import Client, Machine
from context_engine.cli.clients.launch_command import LaunchCommand
from context_engine.errors import InvalidArgument

LAUNCH = LaunchCommand("/home/me/my bin/ctx", ("serve", "--root", "/home/me/ü"))
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "clients.md"
CLIENTS = pytest.mark.parametrize("client", client_table.ALL, ids=lambda client: client.name)
EDITED = pytest.mark.parametrize("client", [one for one in client_table.ALL if one.editor], ids=lambda one: one.name)
"""The clients whose settings ctx writes; of the others it prints the lines."""

JSON_TEXTS = (
    "",
    "{}",
    '{\n  // mine\n  "a": [1, 2], /* b */\n}\n',
    '{"SECTION": {}}',
    '{\r\n\t"SECTION": {\r\n\t\t"other": {"command": "x"}, // last\r\n\t},\r\n\t"z": null\r\n}',
)
TOML_TEXTS = ("", "# mine\nmodel = 'x'\n", '[SECTION.other]\ncommand = "x" # y\n\n[z]\nb = 1\n', "a = 1")


def texts_for(client: Client) -> tuple[str, ...]:
    texts = JSON_TEXTS if client.format == "jsonc" else TOML_TEXTS
    return tuple(text.replace("SECTION", client.section) for text in texts)


def files(folder: Path, client: Client) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if client_config.BACKUP not in path.name}


def add(client: Client, path: Path, launch: LaunchCommand = LAUNCH) -> Mapping[str, Any]:
    """Add the entry as `ctx setup` does; return it."""
    now = client_config.read_config(path)
    entry = client.build_entry(launch)
    client_config.write_config(now, client.editor.set_entry(now.text, client.path, entry), "20260101-000000")
    return entry


def remove(client: Client, path: Path) -> None:
    now = client_config.read_config(path)
    client_config.write_config(now, client_config.remove_entry(client, now), "20260101-000001")


@EDITED
def test_removing_the_entry_gives_every_byte_back(client: Client, tmp_path: Path) -> None:
    for number, text in enumerate(texts_for(client)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "settings"
        path.write_bytes(text.encode())
        before = files(folder, client)
        add(client, path)
        assert files(folder, client) != before
        add(client, path, LaunchCommand("/elsewhere/ctx", ("serve", "--read-only")))
        remove(client, path)
        assert files(folder, client) == before


@EDITED
def test_a_file_that_only_we_wrote_goes_with_the_entry(client: Client, tmp_path: Path) -> None:
    add(client, tmp_path / "settings")
    remove(client, tmp_path / "settings")
    assert files(tmp_path, client) == {}


@EDITED
def test_twice_is_once_and_the_entry_is_found_again(client: Client) -> None:
    entry = client.build_entry(LAUNCH)
    for text in texts_for(client):
        once = client.editor.set_entry(text, client.path, entry)
        assert client.editor.set_entry(once, client.path, entry) == once
        assert client.editor.get_value(once, client.path) == entry
        assert client_config.command_line_of(client.editor.get_value(once, client.path)) == LAUNCH.command_line


@EDITED
def test_what_was_changed_after_the_entry_was_added_is_kept(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "settings"
    add(client, path)
    now = client_config.read_config(path)
    path.write_text(client.editor.set_entry(now.text, (client.section, "later"), {"command": "y"}))
    remove(client, path)
    after = client_config.read_config(path).text
    assert client.editor.get_value(after, (client.section, "later")) == {"command": "y"}
    assert client.editor.get_value(after, client.path) is None


@EDITED
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.one_of(
        st.text(max_size=60), st.sampled_from(["{", "[", "a: [", "[[", "\x00", "{'a': 1}", '"x"', "- x", "0:\t"])
    )
)
def test_a_broken_file_is_refused_or_changed_within_its_format(client: Client, text: str) -> None:
    entry = client.build_entry(LAUNCH)
    try:
        after = client.editor.set_entry(text, client.path, entry)
    except InvalidArgument as error:
        problem = error
    else:
        assert client.editor.get_value(after, client.path) == entry
        return
    assert "\n" not in problem.message
    assert problem.suggestion


@CLIENTS
def test_a_row_is_complete(client: Client) -> None:
    assert client.source.startswith("https://")
    assert client.check
    for system, home in (("linux", "/home/me"), ("darwin", "/Users/me"), ("win32", r"C:\Users\me")):
        paths = client.user_paths(Machine(system, {}, home))
        assert paths
        assert all(str(path).startswith(home) for path in paths)
    assert json.dumps(client.build_entry(LAUNCH)).count("$") == 0


def test_the_comparison_has_the_number_of_clients() -> None:
    text = GUIDE.parents[1].joinpath("comparison.md").read_text(encoding="utf-8")
    assert f"`ctx setup`: {len(client_table.ALL)} clients |" in text


@EDITED
def test_the_guide_lists_the_client_with_its_documentation(client: Client) -> None:
    assert f"[{client.title}]({client.source}) | `{client.name}` |" in GUIDE.read_text(encoding="utf-8")


def test_no_two_clients_write_the_same_file_of_the_user() -> None:
    machine = Machine("linux", {}, "/home/me")
    found = [path for client in client_table.ALL for path in client.user_paths(machine)]
    assert len(found) == len(set(found))
    assert len(client_table.ALL) >= 18


def test_a_link_is_not_deleted_with_the_entry(tmp_path: Path) -> None:
    client = client_table.find_client("gemini")
    real = tmp_path / "dotfiles.json"
    real.write_text("")
    (tmp_path / "settings").symlink_to(real)
    (tmp_path / "settings").write_text(client.editor.set_entry("", client.path, client.build_entry(LAUNCH)))
    now = client_config.read_config(tmp_path / "settings")
    assert isinstance(now, ClientConfigFile)
    assert client_config.remove_entry(client, now) == '{\n  "mcpServers": {}\n}\n'


def test_the_lines_to_paste_are_found_again() -> None:
    client = client_table.find_client("goose")
    entry = client.build_entry(LAUNCH)
    assert client.get_entry(f"GOOSE_MODE: auto\n{client.format_entry(entry)}") == entry
    assert client.get_entry("GOOSE_MODE: auto\n") is None
    for broken in ("a: [", "- x", "extensions: 1"):
        with pytest.raises(InvalidArgument):
            client.get_entry(broken)
