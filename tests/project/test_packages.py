"""The packages for clients and registries: written by scripts/packages.py from one source, and true of this product.

That the clients accept and start them is shown by `make clients ARGS="-k packages"` and `make dist`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

import context_engine
from context_engine import tools
from context_engine.cli.clients.client_table import find_client
from context_engine.cli.clients.launch_command import LaunchCommand
from context_engine.hooks import CLIENTS
from context_engine.server import serve_options
from context_engine.tools.arguments import bind
from scripts import packages

ROOT = Path(__file__).resolve().parents[2]
SKILL = packages.SOURCE / "skill.md"
TEXTS = sorted(
    [SKILL, packages.GUIDANCE, packages.SOURCE / "explorer.md", *(packages.SOURCE / "commands").glob("*.md")]
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
KNOWN = packages.facts()
FILES = packages.committed_files(KNOWN)
DOCUMENTS = {name: json.loads(text) for name, text in FILES.items() if name.endswith(".json")}
LISTED = [tool.name for tool in tools.ALL if serve_options.parse_options([], {}).selection.lists(tool.name)]


def of(client: str, name: str) -> Any:
    return DOCUMENTS[f"{packages.PLUGINS}/{client}/{name}"]


def values(key: str, inside: Any) -> Iterator[Any]:
    """Every value of that key, however deep it is."""
    if isinstance(inside, dict):
        yield from (value for name, value in inside.items() if name == key)
    if isinstance(inside, dict | list):
        for part in inside.values() if isinstance(inside, dict) else inside:
            yield from values(key, part)


# -- one source -------------------------------------------------------------------------------------------------------


def test_every_committed_file_is_what_the_source_gives() -> None:
    assert sorted(packages.find_stale()) == [], "run `make packages`"


@pytest.mark.parametrize("name", [name for name, text in FILES.items() if f'"version": "{KNOWN.version}"' in text])
def test_a_new_release_reaches_every_manifest(name: str) -> None:
    assert set(values("version", DOCUMENTS[name])) == {context_engine.__version__}
    released = json.loads(packages.committed_files(replace(KNOWN, version="9.8.7"))[name])
    assert set(values("version", released)) == {"9.8.7"}


@pytest.mark.parametrize(
    "servers",
    [
        of("claude", ".mcp.json"),
        of("codex", ".mcp.json"),
        of("cursor", "mcp.json"),
        of("gemini", "gemini-extension.json"),
    ],
)
def test_each_package_starts_the_server(servers: Mapping[str, Any]) -> None:
    server = servers["mcpServers"]["ctx"]
    assert server["command"] in PROJECT["scripts"]
    assert server["args"][0] == "serve"
    serve_options.parse_options(server["args"][1:], {})


@pytest.mark.parametrize("client", ["claude", "codex", "cursor", "gemini"])
def test_each_package_has_the_hooks_that_ctx_answers(client: str) -> None:
    events = of(client, "hooks/hooks.json")["hooks"]
    assert set(events) == set(CLIENTS[client])
    for event, items in events.items():
        command_lines = list(values("command", items))
        assert command_lines == [f"ctx hook {event} --client {client} || exit 0"]


def test_the_links_of_the_guide_decode_to_the_entries() -> None:
    launch = LaunchCommand("ctx", ("serve",))
    guide = (ROOT / "docs" / "guides" / "clients.md").read_text(encoding="utf-8")
    cursor, vscode = (urlsplit(link) for link in re.findall(r"\]\(((?:cursor|vscode):[^)]+)\)", guide))
    fields = parse_qs(cursor.query)
    assert fields["name"] == ["ctx"]
    assert json.loads(base64.b64decode(fields["config"][0])) == find_client("cursor").build_entry(launch)
    assert json.loads(unquote(vscode.query)) == {"name": "ctx", **find_client("vscode").build_entry(launch)}


# -- the texts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_a_text_names_only_tools_and_arguments_that_exist(page: Path) -> None:
    known = {name for tool in tools.ALL for name in (tool.name, *tool.aliases)}
    arguments = {name for tool in tools.ALL for name in tool.schema["properties"]}
    named = {
        word for word in re.findall(r"`([a-z_]+)`", page.read_text(encoding="utf-8")) if "_" in word or word in known
    }
    assert sorted(named - known - arguments) == []
    if page != SKILL:
        assert sorted(named & known - set(LISTED)) == [], "only what an agent sees at once"


def test_the_skill_knows_which_tools_an_agent_sees_at_once() -> None:
    listed, _, rest = SKILL.read_text(encoding="utf-8").partition("These are not listed")
    hidden = rest.partition("## ")[0]
    for page, seen in ((listed, True), (hidden, False)):
        named = [tool.name for tool in tools.ALL if f"`{tool.name}` |" in page]
        assert named
        assert [name for name in named if (name in LISTED) is not seen] == []


def examples(page: Path) -> list[tuple[str, dict[str, Any]]]:
    """The calls `tool {json}` in the fences of a page."""
    calls = re.findall(r"^([a-z_]+) +(\{.*\})$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [(name, json.loads(arguments)) for name, arguments in calls]


@pytest.mark.parametrize(("name", "arguments"), [*examples(SKILL), *examples(ROOT / "docs" / "guides" / "agents.md")])
def test_every_example_is_a_call_that_its_tool_accepts(name: str, arguments: Mapping[str, Any]) -> None:
    bind(tools.find(name).parameters, arguments)
    if name == "call_tool":
        bind(tools.find(arguments["name"]).parameters, arguments["arguments"])


# -- what is built for a release --------------------------------------------------------------------------------------


def test_the_bundle_is_the_same_bytes_twice_and_its_hash_is_in_the_registry_entry(tmp_path: Path) -> None:
    packed, entry = packages.build(tmp_path)
    assert packed.read_bytes() == packages.pack_bundle(KNOWN)
    [_, listed] = json.loads(entry.read_text())["packages"]
    assert listed["fileSha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()
    assert listed["identifier"].endswith(f"/v{context_engine.__version__}/{packed.name}")
    assert "mcp" in listed["identifier"], "the registry wants that in the address of a bundle"


def test_the_bundle_contains_the_package_and_starts_it_in_the_chosen_folder() -> None:
    with zipfile.ZipFile(io.BytesIO(packages.pack_bundle(KNOWN))) as archive:
        names = set(archive.namelist())
        manifest = json.loads(archive.read("manifest.json"))
    on_disk = {path.relative_to(ROOT).as_posix() for path in (ROOT / "context_engine").rglob("*.py")}
    assert on_disk <= names
    assert {"pyproject.toml", "uv.lock", "LICENSE", "README.md", manifest["server"]["entry_point"]} <= names
    assert [name for name in names if "__pycache__" in name] == []
    words = manifest["server"]["mcp_config"]["args"]
    serve = words[words.index("ctx") + 1 :]
    assert serve[0] == "serve"
    assert serve_options.parse_options(serve[1:], {}).roots == ("${user_config.project}",)
    assert manifest["user_config"]["project"]["required"] is True
    assert [tool["name"] for tool in manifest["tools"]] == LISTED


def test_the_registry_entry_starts_a_script_that_the_package_has() -> None:
    entry = packages.server_entry(KNOWN, "0" * 64)
    assert len(entry["description"]) <= 100  # what the registry takes
    assert set(values("version", entry)) == {context_engine.__version__}
    from_pypi = entry["packages"][0]
    assert from_pypi["identifier"] in PROJECT["scripts"], "uvx runs the script named like the package"
    first, *named = from_pypi["packageArguments"]
    assert first["value"] == "serve"
    words = [word for one in named for word in (one["name"], "/src")]
    assert serve_options.parse_options(words, {}).roots == ("/src",)


def test_the_readme_proves_to_the_registry_whose_server_it_is() -> None:
    name = KNOWN.source["registry_name"]
    assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+/[a-z0-9._-]+", name), "reverse DNS, a slash, the server"
    assert f"<!-- mcp-name: {name} -->" in (ROOT / "README.md").read_text(encoding="utf-8")
