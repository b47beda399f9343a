"""Resources over the protocol, on a real engine, in both eras: the state of the index, the metrics, and files by the rules."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from context_engine.engine import Engine
from context_engine.errors import InvalidArgument
from context_engine.server import mcp_server, resources
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.profiles import ToolSelection
from tests.support.engines import indexed
from tests.support.serving import connected
from tests.support.trees import tree

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
FILES: dict[str, str | bytes] = {
    "src/app.py": "def run():\n    return 1\n",
    "docs/a b#1?.md": "# Odd name\n",
    "config.py": 'TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"\n',
    "logo.png": b"\x89PNG\r\n\x1a\n\0\0\0",
    ".env": "SECRET=1\n",
    "big.txt": "x" * 1_000_001,
    "notes.rst": "Notes\n=====\n",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("resources") / "till", FILES)) as engine:
        yield engine


async def text_of(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert content.uri == uri
    return content.text


@ERAS
async def test_a_client_sees_the_resources_and_the_address_of_files(engine: Engine, era: str) -> None:
    async with connected(engine, era) as client:
        listed = [each.uri for each in (await client.list_resources()).resources]
        assert listed == ["ctx://status", "ctx://rules", "ctx://metrics"]
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "ctx://file/{+path}"


@ERAS
async def test_the_status_is_what_index_status_says(engine: Engine, era: str) -> None:
    async with connected(engine, era) as client:
        told = json.loads(await text_of(client, "ctx://status"))
        block = (await client.call_tool("index_status", {})).content[0]
        assert isinstance(block, types.TextContent)
        assert block.text.startswith(f"{told['root']} · state ready · ")


@ERAS
@pytest.mark.parametrize("name", ["a%20b%231%3F.md", "a b#1?.md"])
async def test_a_file_is_found_by_its_path_however_a_client_spells_the_address(
    engine: Engine, era: str, name: str
) -> None:
    async with connected(engine, era) as client:
        read = await client.read_resource(f"ctx://file/docs/{name}")
        assert isinstance(read.contents[0], types.TextResourceContents)
        assert (read.contents[0].text, read.contents[0].mime_type) == ("# Odd name\n", "text/markdown")


@ERAS
async def test_secrets_in_a_file_are_masked(engine: Engine, era: str) -> None:
    async with connected(engine, era) as client:
        text = await text_of(client, "ctx://file/config.py")
        assert "TOKEN" in text
        assert "ghp_0123456789" not in text


@ERAS
@pytest.mark.parametrize(
    "uri", ["ctx://file/src/ap.py", "ctx://nothing", "ctx://file", "ctx://metrics/x", "file:///etc"]
)
async def test_what_is_not_there_is_the_protocols_own_error_with_the_next_step(
    engine: Engine, era: str, uri: str
) -> None:
    async with connected(engine, era) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        assert caught.value.code == (-32002 if era == "legacy" else -32602)
        assert caught.value.data["uri"] == uri
        assert "src/app.py" in caught.value.message or "ctx://file/path" in caught.value.message


@ERAS
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("..%2Fsecret", "INVALID_PATH"),
        ("/etc/passwd", "INVALID_PATH"),
        ("a%00b", "INVALID_PATH"),
        ("src%5C..%5C..%5Cx", "INVALID_PATH"),
        (".env", "ACCESS_DENIED"),
        ("logo.png", "BINARY_FILE"),
        ("big.txt", "TOO_LARGE"),
    ],
)
async def test_files_are_read_under_the_rules_and_limits_of_the_tools(
    engine: Engine, era: str, path: str, code: str
) -> None:
    async with connected(engine, era) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"ctx://file/{path}")
        assert caught.value.code == -32602
        assert caught.value.data["code"] == code


async def test_who_switched_read_file_off_has_closed_this_way_too(engine: Engine) -> None:
    async with connected(engine, "legacy", selection=ToolSelection(exclude=("read_file",))) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("ctx://file/src/app.py")
        assert caught.value.data["code"] == "ACCESS_DENIED"
        assert json.loads(await text_of(client, "ctx://status"))["files"]


async def test_with_several_projects_the_address_says_which(engine: Engine) -> None:
    asked: list[str] = []

    def named(project: str) -> Engine:
        asked.append(project)
        if project not in ("web", "a/b"):
            raise InvalidArgument(f"no project is called {project!r}", suggestion="There are web, a/b.")
        return engine

    gate = ToolDispatcher(named, project_names=lambda: ("web", "a/b"))
    async with Client(mcp_server.build_server(gate), mode="legacy") as client:
        listed = [each.uri for each in (await client.list_resources()).resources]
        assert listed == [
            *("ctx://status?project=web", "ctx://status?project=a%2Fb"),
            *("ctx://rules?project=web", "ctx://rules?project=a%2Fb", "ctx://metrics"),
        ]
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "ctx://file/{+path}{?project}"
        assert "def run" in await text_of(client, "ctx://file/src/app.py?project=a%2Fb")
        assert json.loads(await text_of(client, "ctx://status?project=web"))["state"] == "ready"
        with pytest.raises(MCPError, match="There are web"):
            await client.read_resource("ctx://file/src/app.py")
    assert asked == ["a/b", "web", ""]


def test_every_language_has_a_media_type_that_is_one() -> None:
    root = Path(__file__).resolve().parents[2] / "context_engine" / "languages"
    for language in (file.stem for file in root.glob("*.toml")):
        kind, _, rest = resources.mime_type(language).partition("/")
        assert kind in ("text", "application")
        assert rest.replace("-", "").replace(".", "").isalnum()
