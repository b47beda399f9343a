"""HTTP as clients and attackers meet it: a real server on a free port of this machine, a real client, both eras."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from context_engine import __version__
from context_engine.errors import HostError, InvalidArgument
from context_engine.server import authentication, connections, http_server
from context_engine.server.authentication import AllowedHosts
from tests.support import preloaded
from tests.support.serving import connected_to, serving
from tests.support.tools_stand_in import StandIn
from tests.support.trees import tree

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28", "auto"])
TOKEN = "an-unguessable-token"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
POSTED = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def base() -> Generator[str]:
    """One open server for whoever does not need one of their own."""
    with serving() as base:
        yield base


def get(url: str, **headers: str) -> httpx2.Response:
    return httpx2.get(url, headers={name.encode(): value.encode("latin-1") for name, value in headers.items()})


# -- the protocol -------------------------------------------------------------------------------------------------


@ERAS
async def test_a_client_lists_calls_and_reads_as_over_stdio(base: str, era: str) -> None:
    async with connected_to(base, era) as client:
        assert "search_code" in [each.name for each in (await client.list_tools()).tools]
        assert not (await client.call_tool("search_code", {"query": "log in"})).is_error
        assert (await client.call_tool("read_file", {"path": "missing.py"})).is_error
        assert (await client.read_resource("ctx://file/src/auth.py")).contents
        assert (await client.get_prompt("find", {"what": "login"})).messages


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_a_client_that_hangs_up_stops_the_work(era: str) -> None:
    hold = threading.Event()
    engine = StandIn(hold=hold)

    async def body(base: str) -> None:
        async with connected_to(base, era) as client:
            with anyio.move_on_after(0.5):
                await client.call_tool("index_workspace", {})
            assert await anyio.to_thread.run_sync(engine.cancelled.wait, 5)

    try:
        with serving(engine) as base:
            anyio.run(body, base)
    finally:
        hold.set()  # whatever was not stopped ends now


def test_a_session_that_is_over_is_not_found(base: str) -> None:
    reply = httpx2.post(f"{base}/mcp", json=PING, headers={**POSTED, "mcp-session-id": "gone"})
    assert reply.status_code == 404


@pytest.mark.parametrize("version", [{}, {"mcp-protocol-version": "2026-07-28"}])
def test_a_body_over_the_limit_is_refused_before_it_is_read_as_json(base: str, version: dict[str, str]) -> None:
    reply = httpx2.post(f"{base}/mcp", content=b" " * (http_server.BODY_BYTES_MAX + 1), headers={**POSTED, **version})
    assert reply.status_code == 413


# -- who may ask --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/health", "/metrics"])
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "evil.example:80", "[::2]"]
)
def test_a_name_that_somebody_else_points_here_is_refused_everywhere(base: str, path: str, host: str) -> None:
    assert get(base + path, host=host).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:80", "[0:0:0:0:0:0:0:1]"])
def test_the_names_of_this_machine_are_served(base: str, host: str) -> None:
    assert get(f"{base}/health", host=host).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        *("https://evil.example", "null", "http://localhost.evil.example", "file://", "http://"),
        *("http://localhost:6274", "http://127.0.0.1", "http://[::1]:1"),  # other servers of this machine
    ],
)
def test_a_page_of_another_origin_is_refused(base: str, origin: str) -> None:
    for path in ("/mcp", "/health"):
        assert get(base + path, origin=origin).status_code == 403
    assert get(f"{base}/health", origin=base).status_code == 200


@pytest.fixture(scope="module")
def closed() -> Generator[str]:
    """A server that asks for a token."""
    with serving(token=TOKEN) as base:
        yield base


@ERAS
async def test_with_a_token_a_client_is_served(closed: str, era: str) -> None:
    async with connected_to(closed, era, TOKEN) as client:
        assert not (await client.call_tool("index_status", {})).is_error
    assert get(f"{closed}/metrics", authorization=f"bearer {TOKEN}").status_code == 200


@pytest.mark.parametrize("path", ["/mcp", "/metrics", "/nothing"])
def test_without_the_token_nobody_is_served(closed: str, path: str) -> None:
    refused = get(closed + path)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == 'Bearer realm="ctx"'
    for wrong in (f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer \xe9"):
        refused = get(closed + path, authorization=wrong)
        assert refused.status_code == 401
        assert "invalid_token" in refused.headers["www-authenticate"]


def test_health_needs_no_token_and_tells_no_name_and_no_path(closed: str) -> None:
    assert get(f"{closed}/health").json() == {
        "status": "ok",
        "version": __version__,
        "projects": {"open": 1, "opening": 1},
    }


def test_bound_to_every_address_it_is_called_by_figures_or_by_its_own_names() -> None:
    everywhere = AllowedHosts("0.0.0.0", others=("ctx.internal",))
    assert all(everywhere.allows(host) for host in ("192.168.1.7:8000", "[fe80::1]", "localhost", "CTX.internal:443"))
    assert not any(everywhere.allows(host) for host in ("evil.example", "", "192.168.1.7.evil.example", "1.2.3.4 x"))
    assert not AllowedHosts("127.0.0.1").allows("192.168.1.7")
    assert [
        AllowedHosts(host).is_loopback for host in ("127.0.0.1", "::1", "127.9.9.9", "0.0.0.0", "::", "10.0.0.1", "box")
    ] == [
        *(True, True, True),
        *(False, False, False, False),
    ]


# -- metrics ------------------------------------------------------------------------------------------------------


def test_metrics_are_what_prometheus_reads() -> None:
    async def body(base: str) -> None:
        async with connected_to(base, "legacy") as client:
            await client.call_tool("find_symbol", {"name": "login"})
            await client.call_tool("read_file", {"path": "missing.py"})

    with serving() as base:
        anyio.run(body, base)
        reply = get(f"{base}/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    samples = {
        (
            sample.name,
            sample.labels.get("tool"),
            sample.labels.get("code") or sample.labels.get("quantile"),
        ): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert samples["ctx_tool_calls_total", "symbols", None] == 1
    assert samples["ctx_tool_errors_total", "read_file", "FILE_NOT_FOUND"] == 1
    assert samples["ctx_tool_rate_limited_total", "read_file", None] == 0
    assert samples["ctx_tool_slow_total", "read_file", None] == 0
    assert families["ctx_tool_duration_seconds"].type == "summary"
    assert samples["ctx_tool_duration_seconds_count", "symbols", None] == 1
    assert 0 < samples["ctx_tool_duration_seconds", "symbols", "0.5"] < 10
    assert families["ctx_build_info"].samples[0].labels == {"version": __version__}


# -- the token ----------------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config folder of nobody."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_token_is_made_once_and_is_its_users_alone(config: Path) -> None:
    first = authentication.choose_token(given=None, file=None)
    again = authentication.choose_token(given=None, file=None)
    assert (first.is_new, again.is_new, again.value) == (True, False, first.value)
    assert len(first.value) >= 43
    assert first.value not in first.location
    assert str(authentication.default_bearer_file()) in first.location
    assert authentication.default_bearer_file().stat().st_mode & 0o777 == 0o600
    assert authentication.default_bearer_file().is_relative_to(config)


def test_only_who_says_so_gets_a_server_without_a_token(config: Path) -> None:
    assert authentication.choose_token(given=None, file=None, is_open=True).value == ""
    assert authentication.choose_token(given=TOKEN, file=None).value == TOKEN
    assert not authentication.default_bearer_file().exists()


def test_a_file_that_was_named_is_read_and_what_is_no_token_is_refused(config: Path) -> None:
    file = config / "secret"
    file.write_text(TOKEN + "\n")
    assert authentication.choose_token(given=None, file=str(file)).value == TOKEN
    for text in ("", "short", "two words in the file", "é" * 20):
        file.write_text(text)
        with pytest.raises(InvalidArgument):
            authentication.choose_token(given=None, file=str(file))
    with pytest.raises(InvalidArgument, match="no token file"):
        authentication.choose_token(given=None, file=str(config / "nothing"))


def test_our_own_token_that_others_can_read_is_not_used(config: Path) -> None:
    authentication.choose_token(given=None, file=None)
    authentication.default_bearer_file().chmod(0o644)
    with pytest.raises(HostError, match="other users can read") as caught:
        authentication.choose_token(given=None, file=None)
    assert "Delete the file" in caught.value.suggestion


# -- where it listens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "x", "70000", "localhost:", "a:b:1", "[::1", "::1", "1.2.3.4:-1", "http://x:1"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        http_server.parse_address(text)
    assert "127.0.0.1:8000" in caught.value.suggestion


def test_it_listens_on_the_newer_internet_protocol_too() -> None:
    try:
        listening = connections.bind_socket("::1", 0)
    except HostError:
        pytest.skip("this machine has no IPv6")
    with listening:
        assert listening.family == socket.AF_INET6
        assert http_server.endpoint_url(listening).startswith("http://[::1]:")


# -- the whole of it ----------------------------------------------------------------------------------------------


@contextmanager
def started(place: Path, *options: str) -> Generator[subprocess.Popen[str]]:
    """`ctx serve` with these options on two small projects, in a place of its own."""
    roots = [tree(place / name, {"a.py": "x = 1\n"}) for name in ("till", "web")]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CTX_", "CLAUDE_", "XDG_"))}
    env |= {"HOME": str(place), "CTX_CACHE_FOLDER": str(place / "cache"), "CTX_WORKERS": "0", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "context_engine", "serve", *options]
    command += [option for root in roots for option in ("--root", str(root))]
    with preloaded.Popen(command, env=env, text=True, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_tells_where_it_listens_and_ends_well_with_streams_open(tmp_path: Path, ending: signal.Signals) -> None:
    async def body(base: str, process: subprocess.Popen[str]) -> None:
        async with connected_to(base, "legacy") as older, connected_to(base, "2026-07-28") as newer:
            tool = (await older.list_tools()).tools[0]
            assert tool.input_schema["properties"]["project"]["enum"] == ["till", "web", "*"]
            assert not (await older.call_tool("list_directory", {"project": "web"})).is_error
            async with newer.listen(tools_list_changed=True) as listening:
                process.send_signal(ending)
                assert [event async for event in listening] == []  # ended by the server, not broken off
            assert await anyio.to_thread.run_sync(process.wait, 60) == 0

    with started(tmp_path, "--http", ":0", "--no-token") as process:
        assert process.stderr
        assert process.stdout
        line = process.stderr.readline()
        assert line.startswith("ctx: serving http://127.0.0.1:")
        base = line.split()[2].removesuffix("/mcp")
        assert get(f"{base}/health").json()["status"] == "ok"
        anyio.run(body, base, process)
        assert process.stdout.read() == ""
        assert "Traceback" not in process.stderr.read()


def test_on_this_machine_too_it_asks_for_the_token_that_its_first_start_printed(tmp_path: Path) -> None:
    async def use_token(url: str, token: str) -> None:
        async with connected_to(url, "legacy", token) as client:
            assert not (await client.call_tool("list_directory", {"project": "till"})).is_error

    token = ""
    for _ in range(2):
        with started(tmp_path, "--http", ":0") as process:
            assert process.stderr
            line = process.stderr.readline()
            assert "http-token" in line
            url = line.split()[2]
            assert httpx2.post(url, json=PING, headers=POSTED).status_code == 401
            token = token or process.stderr.readline().split("the new token is ")[1].split(";")[0]
            anyio.run(use_token, url, token)
            process.terminate()
            assert token not in process.stderr.read()


def test_without_a_token_it_says_who_else_can_write_and_serves_this_machine_only(tmp_path: Path) -> None:
    with started(tmp_path, "--http", ":0", "--no-token") as process:
        assert process.stderr
        assert "every user of this machine can read and write" in process.stderr.readline()
    with started(tmp_path, "--http", "0.0.0.0:0", "--no-token") as process:
        assert process.stderr
        assert "--no-token is for this machine alone" in process.stderr.read()
        assert process.wait(60) == 1


def test_a_port_that_is_taken_ends_it_with_one_line(tmp_path: Path) -> None:
    with connections.bind_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with started(tmp_path, "--http", str(port)) as process:
            _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert told.count("\n") == 1
    assert f"port {port} of 127.0.0.1 is taken" in told
