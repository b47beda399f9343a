"""`ctx setup CLIENT --hooks`: our hooks in the client's own file, those of other tools untouched, and the way back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.cli.clients.client_table import ALL
from context_engine.cli.clients.hook_config import add_hooks, remove_hooks
from context_engine.cli.hook_command import is_trusted, record_trust
from context_engine.hooks import CLIENTS
from tests.support.terminal import setup

pytestmark = pytest.mark.usefixtures("home")

FILES = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/hooks.json",
    "opencode": ".config/opencode/plugins/ctx-hooks.js",
}
TRUSTED = ".config/context-engine/trusted-projects"
FORMATS = {client.name: client.hooks for client in ALL if client.hooks and client.hooks.events}
OTHERS = {"hooks": {"PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt.sh --hook"}]}]}}


def files_below(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file() and ".ctx-backup-" not in path.name)
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def commands_of(text: str) -> list[str]:
    def walk(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["command"]] if isinstance(value.get("command"), str) else []
            return own + [found for inner in value.values() for found in walk(inner)]
        return [found for inner in value for found in walk(inner)] if isinstance(value, list) else []

    return walk(json.loads(text).get("hooks", {}))


@pytest.mark.parametrize("client", [name for name in FILES if name != "opencode"])
def test_each_event_that_ctx_answers_runs_ctx_hook_once(client: str, home: Path) -> None:
    for _ in range(2):
        shown = setup(client, "--hooks").output
    assert "nothing to do, hooks are in" in shown.replace("\n", " ")
    commands = commands_of((home / FILES[client]).read_text())
    assert sorted(command.split(" hook ")[1] for command in commands) == sorted(
        f"{event} --client {client}" for event in CLIENTS[client]
    )


@pytest.mark.parametrize("client", [*FILES])
def test_remove_takes_back_hooks_and_entry_to_the_last_byte(client: str, home: Path) -> None:
    before = {}
    if client != "opencode":
        file = home / FILES[client]
        file.parent.mkdir(parents=True)
        file.write_text('{\n\t"theme": "dark", // mine\n' + json.dumps(OTHERS)[1:])
        before = files_below(home)
    setup(client, "--hooks")
    assert files_below(home) != before
    setup(client, "--remove")
    left = files_below(home)
    assert left.pop(TRUSTED) == f"{json.dumps(str(Path.cwd()))}\n"
    assert left == before


@pytest.mark.parametrize("names", [(), ("claude",)])
def test_trust_of_a_project_is_taken_back_alone_or_with_a_client_and_that_of_others_stays(
    names: Sequence[str], home: Path
) -> None:
    record_trust(home / "other", is_trusted=True)
    setup("claude", "--hooks")
    setup(*names, "--trust", "--remove", "--print")
    assert is_trusted(Path.cwd()), "--print writes nothing"
    assert "ctx setup --trust --remove" in " ".join(setup("claude", "--remove").output.split()), "it is still trusted"
    assert "may not quote" in setup(*names, "--trust", "--remove").output
    assert not is_trusted(Path.cwd())
    assert (home / TRUSTED).read_text() == f"{json.dumps(str(home / 'other'))}\n"
    assert "--trust" not in setup("claude", "--remove").output


def test_a_hook_that_starts_another_ctx_is_replaced(home: Path) -> None:
    old = {"hooks": [{"type": "command", "command": "/old/ctx hook SessionStart --client claude"}]}
    file = home / FILES["claude"]
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"hooks": {"SessionStart": [old]}}))
    setup("claude", "--hooks")
    assert "/old/ctx" not in file.read_text()
    assert len(json.loads(file.read_text())["hooks"]["SessionStart"]) == 1


def test_a_plugin_of_another_author_is_not_overwritten(home: Path) -> None:
    file = home / FILES["opencode"]
    file.parent.mkdir(parents=True)
    file.write_text("export const Other = async () => ({})\n")
    for option in ("--hooks", "--remove"):
        setup("opencode", option, code=2)
        assert file.read_text() == "export const Other = async () => ({})\n"


names = st.sampled_from(["UserPromptSubmit", "PostToolUse", "SessionStart", "Stop"])
foreign = st.builds(
    lambda command, flat: {"command": command} if flat else {"hooks": [{"type": "command", "command": command}]},
    st.sampled_from(["fmt.sh", "python hook.py", "echo ctx", "a 'hook", ""]),
    st.booleans(),
)
settings_texts = st.builds(
    lambda hooks, more, indent: json.dumps({**more, "hooks": hooks}, indent=indent),
    st.dictionaries(names, st.lists(foreign, min_size=1, max_size=3), min_size=1),
    st.dictionaries(st.sampled_from(["theme", "model"]), st.text(max_size=5)),
    st.sampled_from([None, 2, "\t"]),
)


@given(settings_texts, st.sampled_from([name for name in FORMATS if name != "cursor"]))
def test_adding_and_removing_changes_no_byte_of_a_file_with_hooks(text: str, client: str) -> None:
    added = add_hooks(FORMATS[client], text, lambda event: f"/bin/ctx hook {event} --client {client}")
    assert added == add_hooks(FORMATS[client], added, lambda event: f"/bin/ctx hook {event} --client {client}")
    assert remove_hooks(FORMATS[client], added) == text
