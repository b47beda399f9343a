"""The memory of ten stdio servers with the daemon and without, the rest and an hour of work of a daemon, and its death.

    python bench/daemon.py REPOSITORY [--only memory|idle|hour|kills]

The folder is copied and indexed first. Every daemon of a run is in a runtime folder of its own and ended with it. What
commands cost is measured by bench/peers.py.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.measure import processor_s, read_sizes, table  # noqa: E402
from context_engine.daemon import ask_daemon  # noqa: E402

CTX = Path(sys.executable).with_name("ctx")
WAIT_S = 60.0
REST_S = 15.0
PAUSE_S = 2.0
"""Between two calls of a client that works for an hour."""
OPENING = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


class Machine:
    """An environment with a copy of a repository, its index and its daemon."""

    def __init__(self, repository: Path, folder: Path, symbol: str, path: str) -> None:
        self.root = folder / repository.name
        shutil.copytree(
            repository, self.root, ignore=shutil.ignore_patterns(".venv", ".git", ".context-engine"), symlinks=True
        )
        for name in ("run", "cache", "data"):
            (folder / name).mkdir()
        self.symbol, self.path = symbol, path
        self.env = os.environ | {
            "CTX_DAEMON": "1",
            "CTX_CACHE_FOLDER": str(folder / "cache"),
            "CTX_DATA_FOLDER": str(folder / "data"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }
        self.alone = self.env | {"CTX_DAEMON": "0"}
        self.run("index", env=self.alone)

    def run(self, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([CTX, *words], cwd=self.root, env=env or self.env, capture_output=True, check=False)

    def status(self) -> dict[str, Any] | None:
        return ask_daemon({"kind": "status"}, 5.0, env=self.env)

    def start(self) -> int:
        """Start the daemon by a command, and open the Engine; return its number."""
        self.run("symbol", self.symbol)
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            status = self.status()
            if status and status["state"] == "ready":
                self.run("symbol", self.symbol)
                return int(status["pid"])
            time.sleep(0.05)
        raise SystemExit("no daemon started")

    def end(self) -> None:
        self.run("daemon", "stop")


class Client:
    """A client of `ctx serve` over stdio."""

    def __init__(self, machine: Machine, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [CTX, "serve", "--root", machine.root], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )  # fmt: skip
        for message in OPENING:
            self.say(message)
        self.hear()
        self.count = 1

    def say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def send_call(self, tool: str, **arguments: Any) -> None:
        self.count += 1
        self.say(
            {
                "jsonrpc": "2.0",
                "id": self.count,
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments},
            }
        )

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.send_call(tool, **arguments)
        return self.hear()

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def pss_mb(pids: Sequence[int]) -> float:
    """The proportional memory of processes, in MB: what they share counts once."""
    return sum(sum(read_sizes(pid)) for pid in pids)


def hour(machine: Machine, minutes: int) -> str:
    """Memory of a daemon and of `ctx serve` while a client calls a tool every two seconds, and a file changes each minute."""
    pids = {"daemon": machine.start()}
    client = Client(machine, machine.env)
    pids["ctx serve"] = client.process.pid
    words = (machine.root / "README.md").read_text("utf-8").split()
    changed, rows, calls = machine.root / machine.path, [], 0
    began = time.monotonic()
    for minute in range(minutes + 1):
        changed.write_text(f"{changed.read_text('utf-8')}\n# minute {minute}\n", "utf-8")
        while calls == 0 or time.monotonic() < began + minute * 60:
            words = words[7:] + words[:7]
            query = " ".join(words[:7])
            tools = (
                ("codebase_retrieval", {"query": query}),
                ("search_text", {"query": words[0]}),
                ("find_symbol", {"name": machine.symbol}),
                ("get_context_for_prompt", {"query": query}),
                ("read_file", {"path": machine.path}),
            )
            name, arguments = tools[calls % len(tools)]
            reply = client.call(name, **arguments)
            assert "error" not in reply, reply
            calls += 1
            time.sleep(PAUSE_S)
        if minute in (0, 1, minutes // 6, minutes // 2, minutes):
            sizes = [f"{own:.0f} + {mapped:.0f}" for own, mapped in map(read_sizes, pids.values())]
            rows.append((minute, calls, *sizes, *(f"{processor_s(pid):.1f}" for pid in pids.values())))
            print(rows[-1], file=sys.stderr, flush=True)
    client.end()
    machine.end()
    return table(
        ("minute", "calls", *(f"{name}, own + mapped MB" for name in pids), *(f"{name}, processor s" for name in pids)),
        rows,
    )


def memory(machine: Machine) -> str:
    """Ten servers that have each answered five calls, and twenty command lines at once beside them."""
    rows = []
    for name, env in (("each alone", machine.alone), ("with the daemon", machine.env)):
        daemon = [machine.start()] if env is machine.env else []
        began = time.perf_counter()
        clients = [Client(machine, env) for _ in range(10)]
        for client in clients:
            client.send_call("codebase_retrieval", query="where is the limit of a reply decided")
        for client in clients:
            client.hear()
        first_s = time.perf_counter() - began
        for client in clients:
            for _ in range(4):
                client.call("find_symbol", name=machine.symbol)
        began = time.perf_counter()
        lines = [
            subprocess.Popen([CTX, "symbol", machine.symbol], cwd=machine.root, env=env, stdout=subprocess.PIPE)
            for _ in range(20)
        ]
        peak = 0.0
        while any(line.poll() is None for line in lines):
            running = [line.pid for line in lines if line.poll() is None]
            peak = max(peak, pss_mb([*daemon, *(client.process.pid for client in clients), *running]))
        wall_s = time.perf_counter() - began
        answers = {line.communicate()[0] for line in lines}
        assert len(answers) == 1, "the command lines disagree"
        rest = pss_mb([*daemon, *(client.process.pid for client in clients)])
        one = pss_mb([clients[0].process.pid])
        rows.append((name, f"{rest:.0f}", f"{one:.0f}", f"{peak:.0f}", f"{first_s:.1f}", f"{wall_s:.1f}"))
        for client in clients:
            client.end()
        machine.end()
    head = (
        "ten servers",
        "memory MB",
        "of one server MB",
        "most with 20 commands MB",
        "first answers of ten s",
        "20 commands s",
    )
    return table(head, rows)


def idle(machine: Machine) -> str:
    """Threads, and how often each minute one of them is woken, while nobody asks."""
    daemon = machine.start()
    rows = [("daemon, no client", *wakeups(daemon))]
    client = Client(machine, machine.env)
    client.call("find_symbol", name=machine.symbol)
    rows += [("daemon, one client", *wakeups(daemon)), ("ctx serve", *wakeups(client.process.pid))]
    client.end()
    machine.end()
    return table(("process", "threads", "woken a minute"), rows)


def wakeups(pid: int) -> tuple[int, int]:
    """Count the threads of a process that has rested for some seconds, and how often they gave up waiting in a minute."""
    time.sleep(REST_S)
    before = _switches(pid)
    time.sleep(60.0)
    after = _switches(pid)
    return len(after), sum(count - before.get(thread, 0) for thread, count in after.items())


def _switches(pid: int) -> dict[str, int]:
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        rows = (thread / "status").read_text().splitlines()
        found[thread.name] = next(int(row.split()[1]) for row in rows if row.startswith("voluntary_ctxt_switches"))
    return found


def kills(machine: Machine, rounds: int) -> str:
    """Kill the daemon with -9 while a server and two commands wait for it; count what they got."""
    machine.start()
    wanted = machine.run("symbol", machine.symbol).stdout
    answered = lost = 0
    for number in range(rounds):
        pid = machine.start()
        client = Client(machine, machine.env)
        client.call("find_symbol", name=machine.symbol)
        lines = [
            subprocess.Popen([CTX, "symbol", machine.symbol], cwd=machine.root, env=machine.env, stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        client.send_call("find_symbol", name=machine.symbol)
        time.sleep(0.002 * (number % 50))
        os.kill(pid, signal.SIGKILL)
        outcomes = [line.communicate()[0] == wanted for line in lines]
        outcomes.append("result" in client.hear())
        client.end()
        answered += sum(outcomes)
        lost += outcomes.count(False)
    machine.end()
    left = sorted(file.name for file in (Path(machine.env["XDG_RUNTIME_DIR"]) / "context-engine").iterdir())
    head = ("kill -9 of the daemon", "answered", "lost", "left in the runtime folder at the end")
    return table(head, [(rounds, answered, lost, ", ".join(left))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=lambda text: Path(text).resolve())
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--symbol", default="ToolDispatcher")
    parser.add_argument("--path", default="context_engine/errors.py")
    parser.add_argument("--only", choices=("memory", "idle", "hour", "kills"))
    parser.add_argument("--minutes", type=int, default=60)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(asked.repository, Path(folder), asked.symbol, asked.path)
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
        if asked.only in (None, "memory"):
            print(memory(machine), "\n")
        if asked.only in (None, "idle"):
            print(idle(machine), flush=True)
        if asked.only == "hour":
            print(hour(machine, asked.minutes), flush=True)
        if asked.only in (None, "kills"):
            print(kills(machine, asked.kills))


if __name__ == "__main__":
    main()
