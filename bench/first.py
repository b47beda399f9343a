"""The first call of a fresh stdio server on an existing index, a cold `ctx search`, and memory: this tree beside another.

    python bench/first.py --before TREE                    this repository's own files are searched
    python bench/first.py --root DIR --before TREE --rounds 9

`--before` is a checkout of an older commit (git worktree add TREE COMMIT); both run with this Python and its packages,
take turns, and have their own index and runtime folder. Times count from the spawn of the process: least and median wall
milliseconds, and the least processor milliseconds of all its threads, which matter on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ROOT, p50_p95, table
from bench.start import Spoken, processor_ms
from context_engine.daemon import ask_daemon

QUERY = "where is the limit of a reply decided"
CALL = {"name": "search_code", "arguments": {"query": QUERY}}
IDLE_S = 2.0
"""After this time a server has opened the index and its threads are idle."""
WARM = 200


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout, and the environment in which it runs."""

    name: str
    env: Mapping[str, str]
    root: Path

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "context_engine", *words]

    def serve(self, env: Mapping[str, str]) -> Spoken:
        return Spoken(self.command("serve", "--root", str(self.root)), env)

    @property
    def alone(self) -> Mapping[str, str]:
        return {**self.env, "CTX_DAEMON": "0"}


def checkout(name: str, source: Path, folder: Path, root: Path) -> Tree:
    """A tree with an index of its own."""
    for part in ("cache", "data", "run"):
        (folder / part).mkdir(parents=True)
    (folder / "run").chmod(0o700)
    env = dict(os.environ) | {
        "PYTHONPATH": str(source),
        "CTX_DAEMON": "1",
        "CTX_CACHE_FOLDER": str(folder / "cache"),
        "CTX_DATA_FOLDER": str(folder / "data"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "CTX_RATE_BURST_MINUTES": "0",
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled, and so is this after one start
    tree = Tree(name, env, root)
    subprocess.run(tree.command("index", str(root)), env=tree.alone, check=True, capture_output=True, cwd=folder)
    return tree


def first_call(tree: Tree, env: Mapping[str, str]) -> tuple[float, float]:
    """Wall and processor milliseconds until the first call of a tool is answered."""
    began = time.perf_counter()
    server = tree.serve(env)
    server.open()
    result = server.ask("tools/call", CALL)["result"]
    wall = (time.perf_counter() - began) * 1e3
    assert not result.get("isError"), result
    used = processor_ms(server.process.pid)
    server.end()
    return wall, used


def alone(tree: Tree) -> tuple[float, float]:
    """Without a daemon."""
    return first_call(tree, tree.alone)


def warm(tree: Tree) -> tuple[float, float]:
    """With a daemon that has the index open; the processor time is that of the stdio server."""
    return first_call(tree, tree.env)


def unstarted(tree: Tree) -> tuple[float, float]:
    """With a daemon that this server must start; it is ended afterwards. The processor time is that of the daemon."""
    stop(tree)
    wall, _ = first_call(tree, tree.env)
    status = ask_daemon({"kind": "status"}, 5.0, env=tree.env, key=key_of(tree)) or {}
    used = processor_ms(status["pid"]) if status else 0.0
    stop(tree)
    return wall, used


def key_of(tree: Tree) -> str:
    """The key of the daemon that a tree has started."""
    sockets = [*(Path(tree.env["XDG_RUNTIME_DIR"]) / "context-engine").glob("*.sock")]
    return sockets[0].stem if sockets else ""


def stop(tree: Tree) -> None:
    """End the daemon of a tree, and wait for its end."""
    if key := key_of(tree):
        ask_daemon({"kind": "stop"}, 5.0, env=tree.env, key=key)
        while key_of(tree):
            time.sleep(0.02)


def cold_search(tree: Tree) -> tuple[float, float]:
    """`ctx search` without a daemon."""
    before, began = os.times(), time.perf_counter()
    words = tree.command("search", "--root", str(tree.root), QUERY)
    subprocess.run(words, env=tree.alone, check=True, capture_output=True)
    wall, after = (time.perf_counter() - began) * 1e3, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used * 1e3


def times(trees: list[Tree], rounds: int) -> str:
    """A table of all first answers."""
    measures: dict[str, Callable[[Tree], tuple[float, float]]] = {
        "first tools/call, no daemon": alone,
        "first tools/call, daemon with the index open": warm,
        "first tools/call, starts the daemon": unstarted,
        "ctx search, no daemon": cold_search,
    }
    rows = []
    for name, measure in measures.items():
        taken: dict[str, list[tuple[float, float]]] = {tree.name: [] for tree in trees}
        for number in range(rounds + 1):
            for tree in trees:
                pair = measure(tree)
                if number:  # the first round compiles and fills the caches of the disk
                    taken[tree.name].append(pair)
        for tree in trees:
            stop(tree)
            walls, used = zip(*taken[tree.name], strict=True)
            middle = statistics.median(walls)
            rows.append((name, tree.name, f"{min(walls):.0f}", f"{middle:.0f}", f"{min(used):.0f}"))
    return table(("what", "tree", "least ms", "median ms", "least processor ms"), rows)


def memory_mb(pid: int) -> tuple[float, float]:
    """Private and anonymous memory of a process."""
    rows = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        name, value, *_ = line.split()
        rows[name] = int(value) / 1024
    return rows["Private_Clean:"] + rows["Private_Dirty:"], rows["Anonymous:"]


def memory(trees: list[Tree]) -> str:
    """A table of the memory of servers alone, and of the time of warm calls."""
    rows = []
    for tree in trees:
        server = tree.serve(tree.alone)
        server.open()
        time.sleep(IDLE_S)
        idle = memory_mb(server.process.pid)
        server.ask("tools/call", CALL)
        answered = memory_mb(server.process.pid)
        taken = []
        for _ in range(WARM):
            began = time.perf_counter()
            server.ask("tools/call", CALL)
            taken.append((time.perf_counter() - began) * 1e3)
        p50, p95 = p50_p95(taken)
        server.end()
        sizes = [f"{private:.0f} ({anonymous:.0f})" for private, anonymous in (idle, answered)]
        rows.append((tree.name, *sizes, f"{min(taken):.1f}", f"{p50:.1f}", f"{p95:.1f}"))
    head = ("tree", "MB idle: private (anonymous)", "after one answer", f"least ms of {WARM} warm calls", "p50", "p95")
    return table(head, rows)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository to serve")
    parser.add_argument("--before", type=Path, help="a checkout of an older commit")
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        trees = [checkout("now", ROOT, place / "now", asked.root.resolve())]
        if asked.before:
            trees.insert(0, checkout("before", asked.before.resolve(), place / "before", asked.root.resolve()))
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
        print(times(trees, asked.rounds), end="\n\n")
        print(memory(trees))


if __name__ == "__main__":
    main()
