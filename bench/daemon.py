"""The cost of commands and of ten stdio servers with the daemon and without: wall, processor time, memory.

    python bench/daemon.py REPOSITORY [--rounds 30] [--only commands|first|memory|idle|kills]

Commands are asked in turn with `python -c pass` and ripgrep, so that a busy machine slows all alike. The folder is copied and
indexed first. Every daemon of a run is in a runtime folder of its own and ended with it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.measure import table  # noqa: E402
from context_engine.daemon import ask_daemon  # noqa: E402

CTX = Path(sys.executable).with_name("ctx")
WAIT_S = 60.0
REST_S = 15.0
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
TABS = ("call ", "trace main --direction ", "plan show ")
"""Values that Tab completes: of an argument, of an option, and from the work tree."""


class Machine:
    """An environment with a copy of a repository, its index and its daemon."""

    def __init__(self, repository: Path, folder: Path, symbol: str, path: str) -> None:
        self.root = folder / repository.name
        shutil.copytree(
            repository, self.root, ignore=shutil.ignore_patterns(".venv", ".git", ".context-engine"), symlinks=True
        )
        for name in ("run", "cache", "data"):
            (folder / name).mkdir()
        self.source, self.symbol, self.path = repository, symbol, path
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


def measure(command: Sequence[str | Path], machine: Machine, env: dict[str, str]) -> tuple[float, float]:
    """Wall and processor time of one process, in ms."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        command, cwd=machine.root, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall * 1000, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def completing(line: str) -> dict[str, str]:
    """Return the variables with which bash asks what may follow `ctx` and a line."""
    words = {"COMP_WORDS": f"ctx {line}", "COMP_CWORD": str(len(line.split()) + 1)}
    return {"_CTX_COMPLETE": "complete_bash", **words}


def commands(machine: Machine, rounds: int) -> str:
    """Every query command warm, with `python -c pass` and rg between them; then help and Tab, and a search without a daemon."""
    query = "where is the limit of a reply decided"
    rows: dict[str, tuple[list[str | Path], dict[str, str]]] = {
        "python -c pass": ([sys.executable, "-c", "pass"], machine.env),
        "rg": ([shutil.which("rg") or str(CTX.with_name("rg")), "-n", machine.symbol], machine.env),
        "ctx search": ([CTX, "search", query], machine.env),
        "ctx symbol": ([CTX, "symbol", machine.symbol], machine.env),
        "ctx trace": ([CTX, "trace", machine.symbol], machine.env),
        "ctx read": ([CTX, "read", f"{machine.path}:1-40"], machine.env),
        "ctx call": ([CTX, "call", "list_directory"], machine.env),
        "ctx context": ([CTX, "context", query], machine.env),
        "ctx --version": ([CTX, "--version"], machine.env),
        "ctx --help": ([CTX, "--help"], machine.env),
        **{f"ctx {line}<Tab>": ([CTX], machine.env | completing(line)) for line in TABS},
        "ctx search, no daemon": ([CTX, "search", query], machine.alone),
        "ctx symbol, no daemon": ([CTX, "symbol", machine.symbol], machine.alone),
        "ctx status, no daemon": ([CTX, "status"], machine.alone),
        "ctx index, nothing changed": ([CTX, "index"], machine.alone),
        "git status": (["git", "-C", str(machine.source), "status"], machine.env),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, (command, env) in rows.items():
            taken[name].append(measure(command, machine, env))
    shown = []
    for name, pairs in taken.items():
        walls, cpus = sorted(wall for wall, _ in pairs), sorted(cpu for _, cpu in pairs)
        p95 = walls[min(len(walls) - 1, round(0.95 * len(walls)))]
        shown.append(
            (name, f"{walls[0]:.0f}", f"{statistics.median(walls):.0f}", f"{p95:.0f}", f"{statistics.median(cpus):.0f}")
        )
    return table(("command", "least ms", "p50 ms", "p95 ms", "own processor ms"), shown)


def first_answers(machine: Machine, rounds: int) -> str:
    """The processor time of a daemon until it is ready, and until its first search is answered."""
    taken = []
    for _ in range(rounds + 1):  # the first round compiles
        process = subprocess.Popen([CTX, "daemon", "run"], env=machine.env, stderr=subprocess.DEVNULL)
        while (machine.status() or {}).get("state") != "ready":
            time.sleep(0.02)
        ready = processor_ms(process.pid)
        machine.run("search", "where is the limit of a reply decided")
        taken.append((ready, processor_ms(process.pid)))
        process.terminate()
        process.wait()
    shown = [f"{statistics.median(column):.0f}" for column in zip(*taken[1:], strict=True)]
    return table(("own processor ms of a daemon", "ready", "first search answered"), [("median", *shown)])


def processor_ms(pid: int) -> float:
    """The processor time of a process."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) * 1000 / os.sysconf("SC_CLK_TCK")


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
    total = 0
    for pid in pids:
        try:
            rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended
            continue
        total += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return total / 1_024


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
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--symbol", default="ToolDispatcher")
    parser.add_argument("--path", default="context_engine/errors.py")
    parser.add_argument("--only", choices=("commands", "first", "memory", "idle", "kills"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(asked.repository, Path(folder), asked.symbol, asked.path)
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
        if asked.only in (None, "commands"):
            machine.start()
            print(commands(machine, asked.rounds), "\n")
            machine.end()
        if asked.only in (None, "first"):
            print(first_answers(machine, max(3, asked.rounds // 5)), "\n")
        if asked.only in (None, "memory"):
            print(memory(machine), "\n")
        if asked.only in (None, "idle"):
            print(idle(machine), flush=True)
        if asked.only in (None, "kills"):
            print(kills(machine, asked.kills))


if __name__ == "__main__":
    main()
