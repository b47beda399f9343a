"""Servers of ours in this process: over real HTTP in a thread, and with a client of the library."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import httpx2
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client

from context_engine.server import connections, http_server, mcp_server
from context_engine.server.authentication import AllowedHosts, RequestGuard
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.profiles import ToolSelection
from tests.support.tools_stand_in import StandIn


@contextmanager
def in_thread(hosted: Any) -> Generator[str]:
    """Serve on a free port until the block ends, by when the thread must have ended; the base address."""
    listening = connections.bind_socket("127.0.0.1", 0)
    thread = threading.Thread(target=hosted.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield http_server.endpoint_url(listening).removesuffix("/mcp")
    finally:
        hosted.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


class Open:
    """Projects of which one is open already."""

    def states(self) -> dict[str, str]:
        return {"till": "open", "web": "opening"}


@contextmanager
def serving(
    engine: Any = None, *, token: str = "", host: str = "127.0.0.1", wrap: Callable[[Any], Any] = lambda app: app
) -> Generator[str]:
    """Serve every tool over an engine; the base address. `host` is what the server believes to be bound to."""
    found: Any = engine or StandIn()
    gate = ToolDispatcher(lambda _: found, selection=ToolSelection(profiles=("all", "seeds")))
    server = mcp_server.build_server(gate)
    guard = RequestGuard(AllowedHosts(host), token)
    application = http_server.create_application(server, gate, cast("Any", Open()), guard)
    with in_thread(http_server.HttpServer(wrap(application), server)) as base:
        yield base


@contextmanager
def logged_errors() -> Generator[list[str]]:
    """What libraries and we log as an error: an exception that nobody expected."""
    seen: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: seen.append(f"{record.name}: {record.getMessage()} {record.exc_info}")
    logging.getLogger().addHandler(handler)
    yield seen
    logging.getLogger().removeHandler(handler)


@asynccontextmanager
async def connected(engine: Any, era: str = "auto", **options: Any) -> AsyncGenerator[Client]:
    """A client of a protocol server over an engine; `options` are those of the dispatcher."""
    gate = ToolDispatcher(lambda _: engine, **options)
    async with Client(mcp_server.build_server(gate), mode=era) as client:
        yield client


@asynccontextmanager
async def connected_to(
    url: str, era: str = "auto", token: str = "", *, person: ElicitationFnT | None = None
) -> AsyncGenerator[Client]:
    """A client of a server over HTTP; `person` answers for whoever sits before it."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as sender:
        over_http = streamable_http_client(f"{url.removesuffix('/mcp')}/mcp", http_client=sender)
        async with Client(over_http, mode=era, elicitation_callback=person) as client:
            yield client
