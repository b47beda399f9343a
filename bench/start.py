"""How soon `ctx serve` answers, how long a call takes over the pipes, and how soon it is gone when its client is.

    python bench/start.py                               on this repository, beside the library alone
    python bench/start.py --root DIR --rounds 15        on another one
    python bench/start.py --filesystem FILE             beside the official filesystem server: its index.js
    python bench/start.py --only exit                   one part: start, calls, exit

Servers take turns, so that a busy moment hits all alike. Times of a start count from the spawn of the process and are
medians and worst of the rounds; those of an exit count from what ended it to the end of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ROOT, ms, p50_p95, table
from context_engine.server.shutdown import read_process

PARTS = ("start", "calls", "exit")
FILESYSTEM = ROOT / "build/clients/protocol/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
MODERN = "2026-07-28"
CALLS = 200
GOALS = "goals: first reply alone 900 ms, warm call p50 5 ms, exit 2,000 ms"
ALONE = """
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def listed(context, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema={"type": "object"})])

async def called(context, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="echo")])

async def serve():
    server = Server("alone", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(serve)
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A server to start: its command, and a cheap call that it answers."""

    name: str
    command: tuple[str, ...]
    call: Mapping[str, Any]
    speaks_modern: bool = True


class Spoken:
    """A server process and its pipes."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
        )

    def tell(self, message: Mapping[str, Any]) -> None:
        """One line to it."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """A request and its reply, whatever is said in between."""
        assert self.process.stdout
        self.tell({"id": 1, "method": method, "params": params})
        while True:
            reply = json.loads(self.process.stdout.readline())
            if reply.get("id") == 1 and "method" not in reply:
                if "error" in reply:
                    raise SystemExit(f"{method} failed: {reply['error']}")
                return reply

    def open(self) -> None:
        """The opening of the older era."""
        who = {"name": "bench", "version": "0"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who})
        self.tell({"method": "notifications/initialized"})

    def end(self) -> None:
        """Gone, one way or the other; with its pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            with suppress(BrokenPipeError):
                pipe.close()


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository to serve")
    parser.add_argument("--query", default="where are settings read", help="what the warm searches look for")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--filesystem", type=Path, default=FILESYSTEM, help="index.js of the filesystem server")
    parser.add_argument("--only", choices=PARTS)
    asked = parser.parse_args()
    root = asked.root.resolve()
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"CTX_CACHE_FOLDER": cache, "CTX_DAEMON": "0", "PYTHONPATH": str(ROOT)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled, and so is this after one start
        print(f"serving {root}; {GOALS}; load {os.getloadavg()[0]:.1f}\n")
        if asked.only in (None, "start"):
            print(starts(candidates(root, asked.filesystem), env, asked.rounds), end="\n\n")
        if asked.only in (None, "calls"):
            print(warm_calls(root, env, asked.query), end="\n\n")
        if asked.only in (None, "exit"):
            print(exits(root, env, asked.rounds))


def ours(root: Path) -> tuple[str, ...]:
    """The command of our server, by the script where it is installed."""
    script = Path(sys.executable).with_name("ctx")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "context_engine"]
    return (*program, "serve", "--root", str(root))


def candidates(root: Path, filesystem: Path) -> list[Candidate]:
    """Those that can be started here."""
    listed = [
        Candidate("ctx serve", ours(root), {"name": "index_status", "arguments": {}}),
        Candidate("the library alone", (sys.executable, "-c", ALONE), {"name": "echo", "arguments": {}}),
    ]
    node = shutil.which("node")
    if node and filesystem.is_file():
        call = {"name": "list_allowed_directories", "arguments": {}}
        listed.append(Candidate("filesystem server", (node, str(filesystem), str(root)), call, speaks_modern=False))
    else:
        print("without the filesystem server: node or its index.js is missing (make clients, or --filesystem)\n")
    return listed


# -- start --------------------------------------------------------------------------------------------------------


def starts(servers: Sequence[Candidate], env: Mapping[str, str], rounds: int) -> str:
    """Milliseconds from the spawn to the first replies."""
    taken: dict[str, list[tuple[float, ...]]] = {server.name: [] for server in servers}
    discovered: dict[str, list[float]] = {server.name: [] for server in servers if server.speaks_modern}
    for number in range(rounds + 1):
        for server in servers:
            replies = opened(server, env)
            discover = discovering(server, env) if server.speaks_modern else 0.0
            if number:  # the first round fills the caches of the disk and compiles
                taken[server.name].append(replies)
                discovered.get(server.name, []).append(discover)
    rows = []
    for server in servers:
        first, listed, called = zip(*taken[server.name], strict=True)
        discover = discovered.get(server.name)
        rows.append([server.name, *map(shown, (first, discover, listed, called))])
    return table(["ms from spawn: median (worst)", "initialize", "server/discover", "tools/list", "tools/call"], rows)


def opened(server: Candidate, env: Mapping[str, str]) -> tuple[float, float, float]:
    """Milliseconds until initialize, tools/list and the first call are answered."""
    began = time.perf_counter()
    spoken = Spoken(server.command, env)
    times = []
    for step in (
        spoken.open,
        lambda: spoken.ask("tools/list", {}),
        lambda: spoken.ask("tools/call", server.call),
    ):
        step()
        times.append((time.perf_counter() - began) * 1e3)
    spoken.end()
    return times[0], times[1], times[2]


def discovering(server: Candidate, env: Mapping[str, str]) -> float:
    """Milliseconds until server/discover is answered."""
    began = time.perf_counter()
    spoken = Spoken(server.command, env)
    own = {"protocolVersion": MODERN, "clientInfo": {"name": "bench", "version": "0"}, "clientCapabilities": {}}
    spoken.ask("server/discover", {"_meta": {f"io.modelcontextprotocol/{key}": value for key, value in own.items()}})
    taken = (time.perf_counter() - began) * 1e3
    spoken.end()
    return taken


# -- calls --------------------------------------------------------------------------------------------------------


def warm_calls(root: Path, env: Mapping[str, str], query: str) -> str:
    """Milliseconds of calls through the pipes, once everything is indexed and read."""
    spoken = ready(root, env)
    asked = {
        "codebase_retrieval": {"query": query},
        "search_files": {"query": query.split()[-1]},
        "find_symbol": {"name": query.split()[-1]},
        "index_status": {},
    }
    rows = []
    for name, arguments in asked.items():
        call = {"name": name, "arguments": arguments}
        taken = [ms(lambda call=call: spoken.ask("tools/call", call)) for _ in range(CALLS + 10)][10:]
        median, p95 = p50_p95(taken)
        rows.append([name, f"{median:.2f}", f"{p95:.2f}"])
    spoken.end()
    return table([f"ms of {CALLS} warm calls", "p50", "p95"], rows)


def ready(root: Path, env: Mapping[str, str]) -> Spoken:
    """A server that has indexed everything."""
    spoken = Spoken((*ours(root), "--structured"), env)
    spoken.open()
    while status(spoken)["state"] != "ready":
        time.sleep(0.2)
    return spoken


def status(spoken: Spoken) -> Mapping[str, Any]:
    """What index_status says."""
    result = spoken.ask("tools/call", {"name": "index_status", "arguments": {}})["result"]
    return json.loads(result["content"][0]["text"])


# -- exit ---------------------------------------------------------------------------------------------------------


def exits(root: Path, env: Mapping[str, str], rounds: int) -> str:
    """Milliseconds from what ends a server to its end, while it loads and when it is idle."""
    ways: dict[str, Callable[[Spoken], None]] = {
        "its input ends": _close,
        "SIGTERM": lambda spoken: spoken.process.terminate(),
        "SIGINT": lambda spoken: spoken.process.send_signal(signal.SIGINT),
        "its client does not read and closes": _stop_reading,
        "its client vanishes in the middle of a reply": _vanish,
    }
    rows = []
    for name, leave in ways.items():
        cells = [
            shown([ended(root, env, leave, is_loaded=is_loaded) for _ in range(rounds)]) for is_loaded in (False, True)
        ]
        rows.append([name, *cells])
    killed = shown([killed_client(root, env) for _ in range(min(rounds, 3))])
    rows.append(["its client is killed, the input stays open", "", killed])
    return table(["ms to the end: median (worst)", "while it loads", "when it is idle"], rows)


def ended(root: Path, env: Mapping[str, str], leave: Callable[[Spoken], None], *, is_loaded: bool) -> float:
    """Milliseconds of one exit."""
    spoken = Spoken(ours(root), env)
    spoken.open()
    if is_loaded:
        status(spoken)
    leave(spoken)
    taken = ms(spoken.process.wait)
    spoken.end()
    return taken


def killed_client(root: Path, env: Mapping[str, str]) -> float:
    """Milliseconds from the kill of whoever started a server, while we hold the other end of its input."""
    client = (
        "import subprocess, sys, time\n"
        "server = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)\n"
        "print(server.pid, flush=True); server.stderr.readline(); print('open', flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-c", client, *ours(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True) as process:
        assert process.stdout
        server = int(process.stdout.readline())
        process.stdout.readline()
        time.sleep(1.5)  # it asks the system to be told a second after its start
        began = time.perf_counter()
        process.kill()
        process.wait()
        while read_process(server):
            time.sleep(0.005)
        return (time.perf_counter() - began) * 1e3


def _close(spoken: Spoken) -> None:
    """Close the pipe on which it listens."""
    assert spoken.process.stdin
    spoken.process.stdin.close()


def _stop_reading(spoken: Spoken) -> None:
    """Fill the pipe with requests, read nothing, close."""
    assert spoken.process.stdin
    descriptor = spoken.process.stdin.fileno()
    os.set_blocking(descriptor, False)
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n' * 500
    since = time.monotonic()
    while time.monotonic() - since < 1.0:
        with suppress(BlockingIOError):
            os.write(descriptor, asked)
            since = time.monotonic()
        time.sleep(0.005)
    spoken.process.stdin.close()


def _vanish(spoken: Spoken) -> None:
    """Ask for a lot, read a little, close."""
    assert spoken.process.stdout
    for _ in range(50):
        spoken.tell({"id": 1, "method": "tools/list"})
    spoken.process.stdout.read(100)
    spoken.process.stdout.close()


def shown(times: Sequence[float] | None) -> str:
    """Median and worst."""
    if not times:
        return "not spoken"
    return f"{p50_p95(times)[0]:,.0f} ({max(times):,.0f})"


if __name__ == "__main__":
    main()
