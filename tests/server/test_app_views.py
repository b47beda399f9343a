"""The views for clients that show MCP Apps: linked and readable for them alone, whole, and without addresses of others."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError

from context_engine.server import resources
from context_engine.server.mcp_server import APPS
from context_engine.server.resources import APP_TYPE
from tests.support.stdio_clients import StdioServerParameters
from tests.support.trees import tree

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
SHOWS_APPS: dict[str, Any] = {"mimeTypes": [APP_TYPE]}
URIS = {"create_plan": "ui://ctx/plan", "load_plan": "ui://ctx/plan", "review_git_diff": "ui://ctx/review"}


@asynccontextmanager
async def connected(root: Path, era: str, declared: dict[str, Any] | None) -> AsyncGenerator[Client]:
    command = ["-m", "context_engine", "serve", "--root", str(root), "--profile", "core,plan,review"]
    # the client library passes on few variables of its own accord, and CTX_DAEMON=0 is not one of them
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    extensions = [] if declared is None else [advertise(APPS, declared)]
    async with Client(server, mode=era, extensions=extensions) as client:
        yield client


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tree(tmp_path_factory.mktemp("apps") / "w", {"a.py": "x = 1\n"})


@ERAS
async def test_a_client_that_shows_views_gets_their_addresses_and_documents(root: Path, era: str) -> None:
    async with connected(root, era, SHOWS_APPS) as client:
        listed = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
        assert {name: listed[name]["ui"]["resourceUri"] for name in URIS} == URIS
        assert "ui" not in listed["search_code"]
        views = {one.uri: one.mime_type for one in (await client.list_resources()).resources if "ui:" in one.uri}
        assert views == dict.fromkeys(URIS.values(), APP_TYPE)
        for uri in views:
            (content,) = (await client.read_resource(uri)).contents
            assert isinstance(content, types.TextResourceContents)
            assert (content.mime_type, content.text[:15]) == (APP_TYPE, "<!doctype html>")
        (reply,) = (await client.call_tool("create_plan", {"task": "Set x of a.py to 2"})).content
        assert isinstance(reply, types.TextContent)
        assert json.loads(reply.text)["plan_id"]  # the document reads JSON, an agent text


@ERAS
@pytest.mark.parametrize("declared", [None, {}, {"mimeTypes": ["text/plain"]}, {"mimeTypes": APP_TYPE}])
async def test_every_other_client_gets_what_it_got_before(
    root: Path, era: str, declared: dict[str, Any] | None
) -> None:
    async with connected(root, era, declared) as client:
        assert not any("ui" in (tool.meta or {}) for tool in (await client.list_tools()).tools)
        assert not any(one.uri.startswith("ui:") for one in (await client.list_resources()).resources)
        with pytest.raises(MCPError, match="there is no resource ui://ctx/plan"):
            await client.read_resource("ui://ctx/plan")


@pytest.mark.parametrize("uri", resources.APP_VIEWS)
def test_a_view_is_one_document_that_loads_nothing(uri: str) -> None:
    page = resources.render_view(uri).text
    assert page.count("</script") == page.count("</style") == 1
    assert not re.search(r"^(?:import|export) ", page, re.MULTILINE)
    assert not re.search(r"(?:src|href)=", page.replace("<img src", ""))
    assert re.findall(r"https?://[^\"\s]+", page) in ([], ["http://www.w3.org/2000/svg"])
    names = re.findall(r"^(?:async )?(?:function|const|let|class) ([a-zA-Z]+)", page, re.MULTILINE)
    assert len(names) == len(set(names)), "two scripts of one module declare one name"
