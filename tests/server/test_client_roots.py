"""Asking a client for its folders, through the library's own client in both eras."""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from context_engine.server import mcp_server
from context_engine.server.client_requests import workspaces_in_meta
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.projects import Projects

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three projects, each with a file that says which it is."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "kept"))
    for name in ("web", "api", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(f"# {name}\n")
        (tmp_path / name / "Makefile").write_text("all:\n")
    return tmp_path


class Asked:
    """A client that has folders open, and counts how often it is asked for them."""

    def __init__(self, folders: Sequence[Path | str]) -> None:
        self.folders = list(folders)
        self.times = 0

    async def __call__(self, context: Any) -> types.ListRootsResult:
        self.times += 1
        uris = [each.as_uri() if isinstance(each, Path) else each for each in self.folders]
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": uri}) for uri in uris])


@asynccontextmanager
async def connected(projects: Projects, era: str, folders: Asked | None = None) -> AsyncGenerator[Client]:
    gate = ToolDispatcher(projects.engine)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # the callback is deprecated with the newer era; clients of the older have it
            client = Client(mcp_server.build_server(gate, projects=projects), mode=era, list_roots_callback=folders)
        async with client:
            yield client
    finally:
        await anyio.to_thread.run_sync(projects.close)


def started(*named: Path, here: Path | str = "") -> Projects:
    return Projects([str(each) for each in named], here=str(here), log=lambda line: None, follow=False)


async def title(client: Client, **arguments: Any) -> str:
    """Which project answers."""
    result = await client.call_tool("read_file", {"path": "README.md", **arguments})
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text if result.is_error else block.text.splitlines()[1]


@ERAS
async def test_the_folder_that_the_client_has_open_is_the_project(work: Path, era: str) -> None:
    folders = Asked([work / "web"])
    async with connected(started(here=work / "old"), era, folders) as client:
        assert await title(client) == "# web"
        assert await title(client) == "# web"
    assert folders.times == 1


@ERAS
async def test_a_named_project_asks_nobody(work: Path, era: str) -> None:
    folders = Asked([work / "web"])
    async with connected(started(work / "api"), era, folders) as client:
        assert await title(client) == "# api"
    assert folders.times == 0


@ERAS
async def test_a_client_without_folders_works_where_the_server_was_started(work: Path, era: str) -> None:
    for folders in (None, Asked([]), Asked(["file:///", "file:///nowhere/at/all"])):
        async with connected(started(here=work / "old"), era, folders) as client:
            assert await title(client) == "# old"


@ERAS
async def test_no_folder_anywhere_is_an_error_that_says_what_to_set(work: Path, era: str) -> None:
    async with connected(started(here="/"), era) as client:
        text = await title(client)
    assert text.startswith("UNSUITABLE_ROOT: ")
    assert "CTX_ROOT" in text


@ERAS
async def test_several_folders_are_told_apart_by_project(work: Path, era: str) -> None:
    async with connected(started(), era, Asked([work / "web", work / "api"])) as client:
        assert "project: one of web, api" in await title(client)
        assert await title(client, project="api") == "# api"
        assert await title(client, project="web") == "# web"


async def test_many_first_calls_at_once_agree(work: Path) -> None:
    found: list[str] = []

    async def one(client: Client) -> None:
        found.append(await title(client))

    projects = started(here=work / "old")
    async with connected(projects, "legacy", Asked([work / "web"])) as client, anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one, client)
    assert found == ["# web"] * 20


async def test_a_client_that_opens_another_folder_is_asked_again(work: Path) -> None:
    folders = Asked([work / "web"])
    async with connected(started(), "legacy", folders) as client:
        assert await title(client) == "# web"
        folders.folders = [work / "api"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await client.send_roots_list_changed()  # ty: ignore[deprecated] - clients of the older era send it
        with anyio.fail_after(120):
            while await title(client) != "# api":  # the notification is behind the call that it overtakes
                pass


async def test_folders_in_the_meta_of_a_call_count_where_there_are_no_roots(work: Path) -> None:
    meta: Any = {"x-codex-turn-metadata": {"workspaces": {os.fspath(work / "api"): {}}}}
    async with connected(started(here=work / "old"), "legacy") as client:
        result = await client.call_tool("read_file", {"path": "README.md"}, meta=meta)
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    assert "# api" in block.text


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {},
        {"x-codex-turn-metadata": 7},
        {"x-codex-turn-metadata": "{"},
        {"x-codex-turn-metadata": {"workspaces": 3}},
    ],
)
def test_meta_that_says_something_else_names_no_folder(meta: Any) -> None:
    assert workspaces_in_meta(meta) == []
