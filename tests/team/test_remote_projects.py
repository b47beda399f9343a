"""Repositories of a database as projects of a server: they are found by who may see them, and by no other tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import InvalidArgument
from context_engine.server.dispatcher import CallResult, ToolDispatcher
from context_engine.server.metrics import Metrics
from context_engine.settings import Settings
from context_engine.team.remote_search import RemoteProjects
from context_engine.team.shared_server import GrantDispatcher
from context_engine.team.token_file import Grant
from context_engine.tools import Call
from tests.support.databases import common_database
from tests.support.engines import open_engine
from tests.support.trees import tree

Ask = Callable[..., CallResult]


OWNER = Grant("", "owner", "admin", ("*",), "", "")


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Asks a server that has none of the three repositories in its database; `visible` are patterns of their names."""
    for name in ("web", "api", "hidden"):
        root = tree(tmp_path / name, {f"{name}.py": f"def lion_of_{name}():\n    return 'lion'\n"})
        more = {"store_repository": f"{tmp_path}/{name}", "store_shares": True, "store_search": True}
        with open_engine(root, store_url=common_database(), **more) as engine:
            engine.index.update()

    def ask_one(
        project: str, tool: str = "search_code", grant: Grant = OWNER, visible: str = f"{tmp_path}/web, {tmp_path}/a*"
    ) -> CallResult:
        def open_nothing(_: str) -> Engine:
            raise InvalidArgument("no project is open here")

        remote = RemoteProjects(Settings(store_url=common_database(), store_visible=visible))
        server = ToolDispatcher(open_nothing, remote=remote)
        dispatcher = GrantDispatcher(server, open_nothing, grant, log=lambda _: None, metrics=Metrics())
        return dispatcher.call(tool, {"query": "lion", "project": project}, Call())

    return ask_one


def test_a_server_without_files_searches_the_repositories_of_its_database(ask: Ask, tmp_path: Path) -> None:
    every, one = ask("store").reply.text, ask(f"store:{tmp_path}/api").reply.text
    assert f"{tmp_path}/web:web.py" in every
    assert f"{tmp_path}/api:api.py" in every
    assert "def lion_of_api" in one
    assert "web.py" not in one


def test_a_repository_that_is_not_visible_does_not_exist(ask: Ask, tmp_path: Path) -> None:
    assert "hidden" not in ask("store").reply.text
    hidden, unknown = ask(f"store:{tmp_path}/hidden"), ask(f"store:{tmp_path}/nothing")
    assert hidden.error
    assert hidden.reply.text.replace("hidden", "nothing") == unknown.reply.text


def test_a_token_sees_the_repositories_among_its_projects(ask: Ask, tmp_path: Path) -> None:
    grant = Grant("", "reader", "admin", (f"store:{tmp_path}/web",), "", "")
    assert "web.py" in ask("store", grant=grant).reply.text
    assert "api.py" not in ask("store", grant=grant).reply.text
    other, unknown = (ask(f"store:{tmp_path}/{name}", grant=grant) for name in ("api", "xyz"))
    assert other.reply.text.replace("/api'", "/xyz'") == unknown.reply.text
    nothing = ask("store", grant=Grant("", "reader", "admin", ("web",), "", ""))
    assert isinstance(nothing.error, InvalidArgument)


def test_tools_that_need_files_refuse_it(ask: Ask) -> None:
    assert "needs the files" in ask("store", tool="get_context").reply.text


def test_without_the_setting_there_is_no_such_project(ask: Ask) -> None:
    assert "no project is open here" in ask("store", visible="").reply.text
