"""How a server process lives and ends: nothing but JSON-RPC on its stdout, and gone when its client is, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from context_engine import __version__, tools
from context_engine.server.profiles import ToolSelection, list_tools
from context_engine.server.shutdown import read_process
from context_engine.server.stdio_session import LINE_BYTES_MAX
from tests.e2e.conftest import planted
from tests.e2e.wire import DOCUMENTS, HERE, MODERN, Wire, told
from tests.support import preloaded
from tests.support.children import HANGS
from tests.support.waiting import until

ENDED_S = 60.0
"""Two seconds are what we promise and bench/start.py measures; a machine that runs other tests beside gets more."""
LISTED = [tool.name for tool in list_tools(tools.ALL, ToolSelection())]
SERVE = [sys.executable, "-m", "context_engine", "serve"]


def start(
    root: Path, *, stderr: int = subprocess.DEVNULL, popen: type[subprocess.Popen[Any]] = preloaded.Popen
) -> subprocess.Popen[bytes]:
    """A server whose pipes the test holds itself."""
    env = os.environ | {"PYTHONPATH": str(HERE)}
    command = [*SERVE, "--root", str(root)]
    return popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=env)


def line(method: str, ident: int | str, **params: Any) -> bytes:
    """A message of the older era as bytes."""
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}).encode() + b"\n"


INITIALIZE = line(
    "initialize", 0, protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "0"}
)


@pytest.fixture
def process(repository: Path, is_loaded: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A server that has said its first word; unless `is_loaded`, it imports the rest only now."""
    with start(repository, popen=preloaded.Popen if is_loaded else subprocess.Popen) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        assert b'"serverInfo"' in process.stdout.readline()
        yield process
        process.kill()
        with suppress(BrokenPipeError):
            process.stdin.close()


# -- opening ------------------------------------------------------------------------------------------------------


def test_the_older_era_opens_with_initialize(repository: Path) -> None:
    with Wire(repository, popen=subprocess.Popen) as wire:
        answer = wire.shake_hands()
        assert answer["serverInfo"]["name"] == "ctx"
        assert answer["serverInfo"]["version"] == __version__
        assert answer["instructions"].startswith("Finds code in this repository.")
        assert [each["name"] for each in wire.ask("tools/list")["result"]["tools"]] == LISTED
        assert wire.text("index_status").startswith(f"{repository.name} · state ")
        assert [each["name"] for each in wire.ask("tools/list")["result"]["tools"]] == LISTED
        assert wire.end() == 0


def test_the_newer_era_opens_with_discover(repository: Path) -> None:
    with Wire(repository, popen=subprocess.Popen) as wire:
        answer = wire.ask_modern("server/discover")["result"]
        assert MODERN in answer["supportedVersions"]
        first = wire.ask_modern("tools/list")["result"]
        assert first["resultType"] == "complete"
        assert first["ttlMs"] > 0
        assert [each["name"] for each in first["tools"]] == LISTED
        called = wire.ask_modern("tools/call", {"name": "index_status", "arguments": {}})["result"]
        assert called["content"][0]["text"].startswith(f"{repository.name} · state ")
        assert wire.ask_modern("tools/list")["result"] == first
        assert wire.end() == 0


# -- ending -------------------------------------------------------------------------------------------------------


def ready(process: subprocess.Popen[bytes]) -> None:
    """Until a call is answered: everything is loaded."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(line("tools/call", 5, name="index_status", arguments={}))
    process.stdin.flush()
    assert b'"result"' in process.stdout.readline()


def close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.close()


def stop_reading(process: subprocess.Popen[bytes]) -> None:
    """Ask until the server takes nothing more, read no reply, then leave."""
    assert process.stdin
    descriptor = process.stdin.fileno()
    os.set_blocking(descriptor, False)
    sent, asked = 0, line("tools/list", 1) * 200
    since = time.monotonic()
    while time.monotonic() - since < 0.5:  # it takes nothing more for that long
        with suppress(BlockingIOError):
            sent += os.write(descriptor, asked)
            since = time.monotonic()
        assert sent < 5_000_000, "it takes requests without end while nobody reads its replies"
        time.sleep(0.01)


def stop_reading_and_close(process: subprocess.Popen[bytes]) -> None:
    stop_reading(process)
    close_input(process)


def stop_reading_and_terminate(process: subprocess.Popen[bytes]) -> None:
    stop_reading(process)
    process.terminate()


def vanish_in_the_middle_of_a_reply(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    assert process.stdout
    process.stdin.write(line("tools/list", 2) * 50)
    process.stdin.flush()
    process.stdout.read(100)
    process.stdout.close()


def vanish_after_the_reply(process: subprocess.Popen[bytes]) -> None:
    """Read all of a reply, then close the reading end alone: no write ever fails, and the input stays open."""
    ready(process)
    assert process.stdout
    process.stdout.close()


WAYS = [
    pytest.param(close_input, id="closes"),
    pytest.param(stop_reading_and_close, id="stops reading and closes"),
    pytest.param(stop_reading_and_terminate, id="stops reading and terminates us"),
    pytest.param(vanish_in_the_middle_of_a_reply, id="vanishes in the middle of a reply"),
    pytest.param(vanish_after_the_reply, id="vanishes after a reply"),
]
WHEN = pytest.mark.parametrize("is_loaded", [False, True], ids=["while it loads", "when it is idle"])
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")


@POSIX
@WHEN
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_the_process_ends_on_a_signal_also_when_idle(
    process: subprocess.Popen[bytes], number: str, is_loaded: bool
) -> None:
    if is_loaded:
        ready(process)
    process.send_signal(getattr(signal, number))
    assert process.wait(timeout=ENDED_S) == 0


@POSIX
@WHEN
@pytest.mark.parametrize("leave", WAYS)
def test_the_process_ends_when_its_client_goes_away(
    process: subprocess.Popen[bytes], leave: Callable[[Any], None], is_loaded: bool
) -> None:
    if is_loaded:
        ready(process)
    leave(process)
    assert process.wait(timeout=ENDED_S) == 0


@POSIX
def test_the_watcher_ends_with_the_server(repository: Path) -> None:
    with Wire(repository, options=DOCUMENTS) as wire:
        wire.shake_hands()
        until(lambda: told(wire, "index_status")["watcher"] == "running")
        server = wire.process.pid
        assert wire.end() == 0
        assert read_process(server) is None


@POSIX
def test_the_process_ends_while_a_call_runs(repository: Path) -> None:
    for number in range(300):
        (repository / f"more_{number}.py").write_text("def more(): ...\n" * 300)
    with start(repository) as process:
        assert process.stdin
        process.stdin.write(INITIALIZE + line("tools/call", 1, name="index_workspace", arguments={"force": True}))
        process.stdin.flush()
        ready(process)
        process.terminate()
        assert process.wait(timeout=ENDED_S) == 0


CLIENT = f"""
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
print(server.pid, flush=True)
print(server.stderr.readline(), flush=True)
{HANGS}
"""
WRAPPERS = [pytest.param([], id="its parent"), pytest.param(["sh", "-c", '"$@"; true', "sh"], id="a wrapper between")]


@POSIX
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_process_ends_when_its_client_is_killed_and_the_input_stays_open(
    repository: Path, wrapper: list[str]
) -> None:
    command = [sys.executable, "-c", CLIENT, *wrapper, *SERVE, "--root", str(repository)]
    env = os.environ | {"PYTHONPATH": str(HERE)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True) as client:
        assert client.stdin  # which the server has inherited: it stays open, and no end of input will come
        assert client.stdout
        started = int(client.stdout.readline())
        assert "open" in client.stdout.readline()
        server = started if not wrapper else child_of(started)
        assert read_process(server)
        client.kill()
        client.wait()
        until(lambda: read_process(server) is None)


def child_of(pid: int) -> int:
    """The one process that a process has started."""
    (child,) = children_of(pid)
    return child


def children_of(pid: int) -> list[int]:
    every = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, row.split())) for row in every.splitlines()]
    return [child for child, parent in pairs if parent == pid and read_process(child)]


@POSIX
def test_no_process_of_ours_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    root = planted(tmp_path / "large")
    for number in range(400):
        (root / f"more_{number}.py").write_text(f"def more_{number}(): ...\n" * 50)
    with Wire(root, {"CTX_WORKERS": "2"}, DOCUMENTS) as wire:
        wire.shake_hands()
        until(lambda: told(wire, "index_status")["state"] == "ready")
        workers = children_of(wire.process.pid)
        assert len(workers) == 3, "two, and one in place of the server"
        wire.process.kill()
        wire.process.wait()
        until(lambda: not any(read_process(worker) for worker in workers))


# -- what goes out ------------------------------------------------------------------------------------------------

NOISE = '''
import os, sys

class Noisy:
    """Prints whenever something of the protocol library is imported, as some libraries do."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mcp", "anyio", "numpy", "tree_sitter"):
            print("noise from print")
            os.write(1, b"noise from below")
            os.system("echo noise from a child")
        return None

sys.meta_path.insert(0, Noisy())
'''


@pytest.mark.parametrize("era", ["older", "newer"])
def test_no_print_of_any_library_reaches_the_client(repository: Path, tmp_path: Path, era: str) -> None:
    (tmp_path / "noise").mkdir()
    (tmp_path / "noise" / "sitecustomize.py").write_text(NOISE)
    with Wire(repository, {"PYTHONPATH": f"{tmp_path / 'noise'}{os.pathsep}{HERE}"}) as wire:
        if era == "older":
            wire.shake_hands()
            wire.call("index_status")
        else:
            wire.ask_modern("server/discover")
            wire.ask_modern("tools/call", {"name": "index_status", "arguments": {}})
        wire.end()
        assert wire.lines
        for each in wire.lines:
            assert json.loads(each)["jsonrpc"] == "2.0"
        noise = "".join(wire.log)
        assert [kind for kind in ("print", "below", "a child") if f"noise from {kind}" not in noise] == []


def test_an_argument_of_ten_megabytes_is_refused_by_its_call_and_a_longer_line_is_not_kept(repository: Path) -> None:
    with Wire(repository) as wire:
        wire.shake_hands()
        result = wire.call("find_symbol", name="x" * 10_000_000)
        assert result["isError"]
        assert result["content"][0]["text"].startswith("INVALID_ARGUMENT: ")
        wire.send_bytes(line("tools/call", 99, name="x" * LINE_BYTES_MAX)[:-1])
        refused = wire.next()
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
        assert "till/orders.py" in wire.text("find_symbol", name="total")
        assert wire.end() == 0


@POSIX
def test_a_client_that_does_not_read_the_log_is_served_all_the_same(repository: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while os.write(writing, b"x" * 4_096):
            pass  # until the pipe is full
    os.set_blocking(writing, True)
    with start(repository, stderr=writing) as process:
        os.close(writing)
        assert process.stdin
        assert process.stdout
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        assert process.stdout.readline()
        for _ in range(3):
            ready(process)
        process.stdin.close()
        assert process.wait(timeout=ENDED_S) == 0
    os.close(reading)
