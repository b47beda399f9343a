"""Several processes of one shared server, here as servers of one process: sessions, sealed questions, roles, chunk files."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from context_engine import tools
from context_engine.errors import ContextEngineError, HostError, InvalidArgument
from context_engine.server import http_server, mcp_server
from context_engine.server.authentication import AllowedHosts, RequestGuard, is_shared
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.metrics import Metrics
from context_engine.server.serve_options import parse_options
from context_engine.team.shared_server import GrantDispatcher, SharedServer, create_shared_server
from context_engine.team.token_file import Grant, Role, TokenFile
from context_engine.tools import Call, Reply
from context_engine.tools.tool import UserQuestion, tool
from tests.support.serving import in_thread
from tests.support.sharing import request
from tests.support.tools_stand_in import StandIn

OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
FIRST, SECOND = UserQuestion("Approve?", ("yes", "no")), UserQuestion("Sure?", ("yes", "no"))


class Projects:
    """Two projects that are open."""

    paths_by_name: Mapping[str, str] = {"till": "/src/till", "web": "/src/web"}

    def states(self) -> dict[str, str]:
        return dict.fromkeys(self.paths_by_name, "open")

    def engine(self, project: str) -> Any:
        return StandIn()


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json", now=lambda: 1_800_000_000.0)


def created(tokens: TokenFile, name: str, role: Role = "write", *projects: str) -> str:
    return tokens.create(name, role, projects or ("till",))[1]


def team(tokens: TokenFile) -> SharedServer:
    projects = cast("Any", Projects())
    gate = ToolDispatcher(projects.engine)
    return create_shared_server(parse_options(["--http", "0", "--tokens", str(tokens.path)], {}), gate, projects)


@contextmanager
def serving(tokens: TokenFile, *, stateless: bool = False) -> Generator[str]:
    """A server of a team; its base address."""
    projects = cast("Any", Projects())
    gate, shared = ToolDispatcher(projects.engine), team(tokens)
    server = mcp_server.build_server(gate, shared=shared)
    guarded = http_server.create_application(
        server, gate, projects, RequestGuard(AllowedHosts("127.0.0.1")), shared=shared, stateless=stateless
    )
    with in_thread(http_server.HttpServer(guarded, server)) as base:
        yield base


def posted(base: str, token: str, method: str, params: Mapping[str, Any], session: str = "") -> httpx2.Response:
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    headers |= {"mcp-session-id": session} if session else {}
    return httpx2.post(f"{base}/mcp", json=request(method, params), headers=headers)


def test_a_session_belongs_to_the_token_that_began_it(tokens: TokenFile) -> None:
    ann, bob = created(tokens, "ann"), created(tokens, "bob")
    with serving(tokens) as base:
        session = posted(base, ann, "initialize", OPENING).headers["mcp-session-id"]
        assert posted(base, ann, "tools/list", {}, session).status_code == 200
        stolen, gone = (posted(base, bob, "tools/list", {}, each) for each in (session, "0" * 32))
        assert (stolen.status_code, stolen.text) == (gone.status_code, gone.text) == (404, gone.text)
        tokens.revoke("ann")
        assert posted(base, ann, "tools/list", {}, session).status_code == 401


class Alternating(httpx2.AsyncHTTPTransport):
    """A proxy that sends each request to the next server."""

    def __init__(self, *bases: str) -> None:
        super().__init__()
        self._urls = cycle(httpx2.URL(base) for base in bases)
        self.sent: list[int | None] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = next(self._urls)
        self.sent.append(url.port)
        request.url = request.url.copy_with(host=url.host, port=url.port)
        request.headers["host"] = f"{url.host}:{url.port}"
        return await super().handle_async_request(request)


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that asks a person twice."""

    @tool(touches="nothing")
    def decide(engine: Any, call: Call) -> Reply:
        """Decide."""
        heard = [call.ask(question) for question in (FIRST, SECOND)]
        return Reply(json.dumps([each and each.choice for each in heard]))

    monkeypatch.setattr(tools, "ALL", (*tools.ALL, decide))


async def yes(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"choice": "yes"})


def test_an_answer_may_come_to_another_process_than_the_question_left(tokens: TokenFile, asking: None) -> None:
    token = created(tokens, "ann")

    async def body(one: str, two: str) -> None:
        proxy = Alternating(one, two)
        headers = {"authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(transport=proxy, headers=headers, timeout=60) as sender,
            Client(
                streamable_http_client(f"{one}/mcp", http_client=sender), mode="2026-07-28", elicitation_callback=yes
            ) as client,
        ):
            (block,) = (await client.call_tool("decide", {})).content
            assert isinstance(block, types.TextContent)
            assert json.loads(block.text) == ["yes", "yes"], block.text
        assert len(set(proxy.sent)) == 2

    with serving(tokens, stateless=True) as one, serving(tokens, stateless=True) as two:
        anyio.run(body, one, two)


def test_a_server_without_a_grant_answers_nothing(tokens: TokenFile) -> None:
    """Should a request ever come past the doorman, nobody's view is not everybody's."""
    server = mcp_server.build_server(ToolDispatcher(lambda _: StandIn()), shared=team(tokens))  # ty: ignore[invalid-argument-type] - a stand-in

    async def body() -> None:
        async with Client(server, mode="legacy") as client:
            await client.list_tools()

    with pytest.raises(BaseException) as caught:  # noqa: PT011 - what it is called depends on how the library wraps it
        anyio.run(body)
    assert "codebase_retrieval" not in str(caught.value)


def test_chunk_files_belong_to_no_project_so_only_who_sees_all_is_answered_from_them() -> None:
    gate = ToolDispatcher(lambda _: StandIn(), chunks=lambda: cast("Any", "chunks"))  # ty: ignore[invalid-argument-type]

    def beside(*projects: str) -> ToolDispatcher:
        grant = Grant("1", "ann", "admin", projects, "", "")
        return GrantDispatcher(gate, gate.engine, grant, log=lambda _: None, metrics=Metrics())

    assert beside("*").chunks is not None
    assert beside("till", "web").chunks is None


def test_sessions_of_two_tokens_are_two(tokens: TokenFile) -> None:
    visitors = team(tokens)
    ann, bob = (Grant(name, name, "read", ("till",), "", "") for name in ("ann", "bob"))
    assert visitors.dispatcher(ann) is visitors.dispatcher(ann)
    assert visitors.dispatcher(ann) is not visitors.dispatcher(bob)
    visitors.dispatcher(ann).call("index_status", {}, Call())
    assert visitors.dispatcher(bob).metrics.rows() == {}
    assert visitors.metrics_of(bob) == {"read": {}}
    everybody = visitors.metrics_of(Grant("ops", "ops", "admin", ("*",), "", ""))
    assert everybody["read"]["index_status"]["calls"] == 1
    assert visitors.metrics_of(Grant("lead", "lead", "admin", ("till",), "", "")) == {"admin": {}}, (
        "an admin of some sees no other's"
    )


# -- the options ------------------------------------------------------------------------------------------------------


def test_a_file_of_tokens_and_a_single_token_exclude_each_other(tmp_path: Path) -> None:
    given = ["--http", "0", "--tokens", str(tmp_path / "t")]
    assert is_shared(parse_options(given, {}))
    for env in ({"CTX_HTTP_TOKEN": "x" * 20}, {"CTX_HTTP_TOKEN_FILE": "/t"}):
        with pytest.raises(InvalidArgument, match="exclude each other"):
            is_shared(parse_options(given, env))
    with pytest.raises(InvalidArgument, match="--audit-log"):
        is_shared(parse_options(["--http", "0", "--audit-log", "-"], {}))


def test_the_tokens_that_were_made_without_naming_a_file_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not is_shared(parse_options(["--http", "0"], {}))
    from context_engine.server.authentication import default_token_file

    created(TokenFile(default_token_file(), now=lambda: 0.0), "ann")
    assert is_shared(parse_options(["--http", "0"], {}))
    assert not is_shared(parse_options(["--http", "0"], {"CTX_HTTP_TOKEN": "x" * 20}))
    assert not is_shared(parse_options([], {})), "over stdio nobody else can come"


def test_an_audit_log_that_cannot_be_written_keeps_the_server_from_starting(tokens: TokenFile, tmp_path: Path) -> None:
    created(tokens, "ann")
    options = parse_options(
        ["--http", "0", "--tokens", str(tokens.path), "--audit-log", str(tmp_path / "no" / "log")], {}
    )
    projects = cast("Any", Projects())
    with pytest.raises(HostError, match="audit log cannot be written"):
        create_shared_server(options, ToolDispatcher(projects.engine), projects)


def test_tokens_that_cannot_be_read_keep_the_server_from_starting(tokens: TokenFile) -> None:
    created(tokens, "ann")
    tokens.path.write_text("{")
    with pytest.raises(ContextEngineError, match="cannot be taken"):
        team(tokens)
