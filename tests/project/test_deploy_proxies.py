"""The proxies of deploy/ as real programs, with TLS, before two servers on one PostgreSQL: a client notices neither.

nginx and Caddy are taken from the PATH; a machine that lacks one skips its part and says so (`make proxies`). What
differs from deploy/ is where things lie: names of servers, ports, certificates.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.databases import new_database
from tests.support.sharing import OLDER, PATIENCE_S, Place, Worker, message, place, request, worker
from tests.support.waiting import until

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAME = "ctx.example.com"
SERVERS = ("ctx-1", "ctx-2")
LONG = "".join(f"def number_{number:04}():\n    return {number}\n" for number in range(900))
"""A file whose text is not far below what a reply may hold."""
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


class Pair:
    """Two servers on one database, each with a cache and a port of its own; either can be replaced."""

    def __init__(self, place: Place, stack: ExitStack) -> None:
        self.place = place
        self.ports = {name: free_port() for name in SERVERS}
        self._stack = stack
        self._database = new_database()
        self.workers = {name: self._started(name) for name in SERVERS}

    def replace(self, name: str) -> None:
        """End one as a new version would, and start it again where it was."""
        self.workers[name].process.send_signal(signal.SIGTERM)
        assert self.workers[name].process.wait(PATIENCE_S) == 0
        self.workers[name] = self._started(name)

    def _started(self, name: str) -> Worker:
        options = (
            "--http",
            f"127.0.0.1:{self.ports[name]}",
            "--http-host",
            NAME,
            "--shutdown-delay",
            "5",
            "--shutdown-timeout",
            "20",
        )
        shares = {"CTX_STORE_SHARES": "1"} if name == SERVERS[0] else {}
        cache = str(self.place.folder / name)
        started = worker(self.place, *options, CTX_STORE_URL=self._database, CTX_CACHE_FOLDER=cache, **shares)
        process = self._stack.enter_context(started)
        process.wait_until_indexed()
        return process


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that runs, and how a client reaches it: under its public name, at a port of this machine."""

    port: int
    trust: ssl.SSLContext
    pair: Pair

    def ask(self, method: str, path: str, *, token: str = "", host: str = NAME, **rest: object) -> httpx2.Response:
        """One request as it comes from outside."""
        shown = {"authorization": f"Bearer {self.pair.place.tokens[token]}"} if token else {}
        known = {"host": host, "accept": "application/json, text/event-stream", "mcp-protocol-version": OLDER}
        with httpx2.Client(verify=self.trust, timeout=PATIENCE_S) as sender:
            return sender.request(
                method,
                f"https://127.0.0.1:{self.port}{path}",
                headers={**known, **shown, **rest.pop("headers", {})},  # ty: ignore[invalid-argument-type] - a mapping
                extensions={"sni_hostname": NAME},
                **rest,  # ty: ignore[invalid-argument-type]
            )

    def call(self, token: str, tool: str, **arguments: object) -> str:
        """The text of a call."""
        asked = request("tools/call", {"name": tool, "arguments": arguments})
        (block,) = message(self.ask("POST", "/mcp", token=token, json=asked))["result"]["content"]
        return block["text"]

    @asynccontextmanager
    async def client(self, token: str, era: str) -> AsyncGenerator[Client]:
        """A client that knows the public name alone."""
        headers = {"authorization": f"Bearer {self.pair.place.tokens[token]}"}
        way = _Way(self.port, self.trust)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S, transport=way) as sender,
            Client(streamable_http_client(f"https://{NAME}/mcp", http_client=sender), mode=era) as client,
        ):
            yield client


class _Way(httpx2.AsyncHTTPTransport):
    """What a name server would do: the public name leads to a port of this machine."""

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        super().__init__(verify=trust)
        self._port = port

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(host="127.0.0.1", port=self._port)
        request.extensions["sni_hostname"] = NAME
        return await super().handle_async_request(request)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


# -- the programs -----------------------------------------------------------------------------------------------------


def adapted(name: str, changes: Mapping[str, str]) -> str:
    """A file of deploy/ with other places in it; each of them must be there."""
    text = (DEPLOY / name).read_text()
    for said, here in changes.items():
        assert said in text, (name, said)
        text = text.replace(said, here)
    return text


def nginx(program: str, folder: Path, port: int, servers: Mapping[str, str]) -> tuple[list[str], Path]:
    """Its command, and the certificate to trust."""
    certificate, key = folder / "fullchain.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"]
    made += ["-addext", f"subjectAltName=DNS:{NAME}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    places = {"listen 443": f"listen 127.0.0.1:{port}", "/etc/nginx/tls": str(folder)}
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    inside = f"access_log off; {temporary}\n{adapted('nginx.conf', {**servers, **places})}"
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; events {{}}\nhttp {{ {inside} }}"
    )
    return [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"], certificate


def caddy(program: str, folder: Path, port: int, servers: Mapping[str, str]) -> tuple[list[str], Path]:
    """Its command, and the root of the certificates that it makes itself."""
    own = f"{{\n\tadmin off\n\tlocal_certs\n\tskip_install_trust\n\thttp_port {free_port()}\n\thttps_port {port}\n\tdefault_bind 127.0.0.1\n}}\n"
    (folder / "Caddyfile").write_text(own + adapted("Caddyfile", servers))
    root = folder / "data" / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    return [program, "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"], root


PROGRAMS: dict[str, Callable[[str, Path, int, Mapping[str, str]], tuple[list[str], Path]]] = {
    each.__name__: each for each in (nginx, caddy)
}


def installed(name: str) -> str:
    """Where a program is. Skips the test where it is not."""
    program = shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
    if program is None:
        pytest.skip(f"no {name}: apt-get install {name}")
    return program


@contextmanager
def running(program: str, folder: Path, pair: Pair) -> Generator[Proxy]:
    """A proxy with its configuration of deploy/, until the end."""
    port = free_port()
    servers = {f"{each}:8765": f"127.0.0.1:{pair.ports[each]}" for each in SERVERS}
    command, certificate = PROGRAMS[Path(program).name](program, folder, port, servers)
    own = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder)}
    env = os.environ | own | {"NAME": NAME}
    log = folder / "log"
    with log.open("w") as out, subprocess.Popen(command, env=env, stdin=-3, stdout=out, stderr=out) as process:
        try:
            yield Proxy(port, trusted(certificate, port, process, log), pair)
        finally:
            process.kill()


def trusted(certificate: Path, port: int, process: subprocess.Popen[bytes], log: Path) -> ssl.SSLContext:
    """What a client trusts, once the proxy answers under its name."""

    def answered() -> ssl.SSLContext | None:
        assert process.poll() is None, log.read_text()
        with suppress(OSError):  # no certificate, nobody there, or no certificate for the name yet
            trust = ssl.create_default_context(cafile=certificate)
            with socket.create_connection(("127.0.0.1", port)) as plain, trust.wrap_socket(plain, server_hostname=NAME):
                return trust
        return None

    return until(answered)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pair]:
    here = place(tmp_path_factory.mktemp("team"))
    (here.folder / "till" / "long.py").write_text(LONG)
    with ExitStack() as stack:
        yield Pair(here, stack)


@pytest.fixture(scope="module", params=list(PROGRAMS))
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Proxy]:
    program = installed(request.param)
    with running(program, tmp_path_factory.mktemp(request.param), request.getfixturevalue("pair")) as proxy:
        yield proxy


# -- what a client sees -----------------------------------------------------------------------------------------------


@ERAS
def test_a_client_works_through_it_as_without_it(proxy: Proxy, era: str) -> None:
    async def body() -> None:
        async with proxy.client("reader", era) as client:
            assert "search_code" in {tool.name for tool in (await client.list_tools()).tools}
            for _ in range(4):  # whichever server answers
                long = await client.call_tool("read_file", {"path": "long.py"})
                assert LONG.split()[-1] in str(long.content[0])
                found = await client.call_tool("codebase_retrieval", {"query": "how is a password hashed"})
                assert "till/auth.py" in str(found.content[0])
            assert (await client.read_resource("ctx://status")).contents

    anyio.run(body)


def test_what_a_stream_brings_comes_at_once_and_it_stays_open_beside_calls(proxy: Proxy) -> None:
    async def body() -> None:
        async with proxy.client("reader", "2026-07-28") as client:
            with anyio.fail_after(PATIENCE_S / 2):
                async with client.listen(tools_list_changed=True):  # until the first event of the stream is there
                    assert not (await client.call_tool("index_status", {})).is_error

    anyio.run(body)


def test_both_servers_answer(proxy: Proxy) -> None:
    before = {name: calls(each) for name, each in proxy.pair.workers.items()}
    for _ in range(8):
        proxy.call("reader", "index_status")
    assert all(calls(each) > before[name] for name, each in proxy.pair.workers.items())


def calls(server: Worker) -> int:
    """How many calls one server has answered."""
    rows = server.get("/metrics", "admin").text.splitlines()
    return sum(int(float(row.split()[-1])) for row in rows if row.startswith("ctx_tool_calls_total{"))


# -- who is let in ----------------------------------------------------------------------------------------------------


def test_the_door_stands_behind_it_as_before_it(proxy: Proxy) -> None:
    listing = request("tools/list")
    refused = proxy.ask("POST", "/mcp", json=listing)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="ctx"')
    page = proxy.ask("POST", "/mcp", token="reader", json=listing, headers={"origin": "https://evil.example"})
    assert page.status_code == 403
    stranger = proxy.ask("POST", "/mcp", token="reader", json=listing, host="evil.example")
    assert (stranger.status_code == 421) or not stranger.text, "one proxy hands it on, the other knows no such name"
    assert proxy.ask("GET", "/metrics").status_code == 401
    assert proxy.ask("GET", "/ready").json()["ready"]
    large = request("tools/call", {"name": "write_file", "arguments": {"content": "x" * 5_000_000}})
    assert proxy.ask("POST", "/mcp", token="writer", json=large).status_code == 413


def test_the_audit_log_has_the_address_of_who_was_refused_and_not_that_of_the_proxy(proxy: Proxy) -> None:
    proxy.ask("POST", "/mcp", json=request("tools/list"), headers={"x-forwarded-for": "203.0.113.9"})
    line = [each for each in proxy.pair.place.audit if each["event"] == "refused"][-1]
    assert line["from"] == "127.0.0.1", "what a client says of itself is not believed"


# -- a new version ----------------------------------------------------------------------------------------------------


def test_one_server_after_the_other_is_replaced_and_nobody_goes_without_an_answer(proxy: Proxy) -> None:
    is_over, answers = threading.Event(), []

    def ask() -> None:
        while not is_over.is_set():
            asked = request("tools/call", {"name": "codebase_retrieval", "arguments": {"query": "orders"}})
            try:
                reply = proxy.ask("POST", "/mcp", token="reader", json=asked)
                answers.append((reply.status_code, "till/orders.py" in reply.text))
            except httpx2.TransportError as error:
                answers.append((0, repr(error)))

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for each in asking:
        each.start()
    for name in SERVERS:
        proxy.pair.replace(name)
        wait_until_asked(proxy.pair.workers[name])
    is_over.set()
    for each in asking:
        each.join(PATIENCE_S)
    assert len(answers) > 4
    assert Counter(answers).keys() == {(200, True)}, Counter(answers)


def wait_until_asked(server: Worker) -> None:
    """Until the proxy has seen that it is back: then the next one may go."""
    before = calls(server)
    until(lambda: calls(server) != before)
