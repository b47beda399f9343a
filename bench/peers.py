"""Commands of a user next to those of other tools on one tree, in turns: wall and processor time, memory, disk.

    python bench/peers.py DIR                                    ripgrep, `git status`, and the commands of this checkout
    python bench/peers.py DIR --before CHECKOUT                  and of another one, with the environment in its .venv
    python bench/peers.py DIR --semble PYTHON --codegraph FILE   and of these tools, on a copy of the tree

Each round runs each command once; the table has the medians. Commands without an index find none and no daemon, but unpacked
grammars. Processor time is that of all processes of a command. Memory is the greatest sum over these processes, own and mapped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ROOT, processor_s, read_sizes, table

QUESTION = "where are dirty pages written back to disk"
PATTERN = r"EXPORT_SYMBOL_GPL\(\w+_suspend\)"
LOOK_S = 0.01
"""Between two looks at the memory; fifty times as long for a command that takes long."""
READY_S = 0.05
LIMIT_S = 3_600
SEMBLE = """
import sys
from pathlib import Path
import numpy as np
from semble.index.create import create_index_from_path
from semble.search import search
class Zeros:
    dim = 4
    def encode(self, texts, **_): return np.zeros((len(texts), 4), np.float32)
folder = Path(sys.argv[1]).resolve()
index, vectors, chunks, files = create_index_from_path(folder, Zeros(), display_root=folder)
print(len(chunks), *(found.chunk.file_path for found in search(sys.argv[2], Zeros(), vectors, index, chunks, 3)))
"""
"""The peer of bench/speed.py as a command: its lexical part, which has no index on the disk."""


@dataclass(slots=True)
class Usage:
    """The cost of one command. Memory in MB, of all its processes together."""

    wall_s: float = 0.0
    processor_s: float = 0.0
    own_mb: float = 0.0
    mapped_mb: float = 0.0
    disk_mb: float = 0.0
    output: str = ""


def measure(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Usage:
    """Run a command in a folder and watch its processes."""
    used, before, began = Usage(), os.times(), time.perf_counter()
    with subprocess.Popen(command, cwd=folder, env=env, stdout=-1, stderr=-2, text=True) as process:
        ended = threading.Event()
        watcher = threading.Thread(target=watch, args=(process.pid, used, ended))
        watcher.start()
        used.output = process.communicate()[0]
        ended.set()
        watcher.join()
    used.wall_s = time.perf_counter() - began
    used.processor_s = sum(os.times()[2:4]) - sum(before[2:4])
    return used


def watch(leader: int, used: Usage, ended: threading.Event) -> None:
    """Note the greatest memory of a process and its descendants until the event; end them after an hour."""
    began = time.perf_counter()
    while not ended.wait(max(LOOK_S, (time.perf_counter() - began) / 50)):
        sizes = [read_sizes(number) for number in descendants(leader)]
        own, mapped = map(sum, zip(*sizes, strict=True))
        used.own_mb, used.mapped_mb = max((used.own_mb, used.mapped_mb), (own, mapped))
        if time.perf_counter() - began > LIMIT_S:
            for number in descendants(leader):
                os.kill(number, 9)


def descendants(leader: int) -> Iterator[int]:
    """Yield a process and all that it started."""
    yield leader
    with suppress(OSError):
        for task in Path(f"/proc/{leader}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from descendants(int(child))


def count_mb(folder: Path) -> float:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


class Product:
    """The commands of a checkout of this project, with folders of their own."""

    def __init__(self, code: Path, folder: Path, tree: Path, question: str, pattern: str) -> None:
        self.ctx, self.workspaces, self.tree = str(code / ".venv/bin/ctx"), folder / "cache/workspaces", tree
        for name in ("cache", "data", "run"):
            (folder / name).mkdir(parents=True)
        (folder / "run").chmod(0o700)
        paths = {"CTX_CACHE_FOLDER": "cache", "CTX_DATA_FOLDER": "data", "XDG_RUNTIME_DIR": "run"}
        self.env = os.environ | {name: str(folder / path) for name, path in paths.items()} | {"CTX_DAEMON": "0"}
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled, and so is this after one start
        self.search = ["search", question, "-n", "3", "-l"]
        text = ["call", "search_text", json.dumps({"query": pattern, "regex": True})]
        self.commands: dict[str, Callable[[], Usage]] = {
            "text search, no index": lambda: self.run(text, is_new=True),
            "question, no index": lambda: self.run(self.search, is_new=True),
            "index": lambda: self.run(["index"], is_new=True),
            "index, nothing changed": lambda: self.run(["index"]),
            "status": lambda: self.run(["status"]),
            "text search, no daemon": lambda: self.run(text),
            "question, no daemon": lambda: self.run(self.search),
            "question, with the start of the daemon": self.ask_new_daemon,
            "question": lambda: self.ask_daemon(self.search),
            "text search": lambda: self.ask_daemon(text),
            "bundle": lambda: self.ask_daemon(["context", question]),
        }

    def run(self, words: Sequence[str], *, is_new: bool = False, daemon: str = "0") -> Usage:
        """Run a command, without an index if it is a new tree."""
        if is_new:
            shutil.rmtree(self.workspaces, ignore_errors=True)
        used = measure([self.ctx, *words], self.env | {"CTX_DAEMON": daemon}, self.tree)
        if words[0] == "index":
            used.disk_mb = count_mb(self.workspaces)
        return used

    def ask_new_daemon(self) -> Usage:
        """Start the daemon, wait until it is ready, ask; its processor time is the daemon's."""
        began = time.perf_counter()
        self.daemon = subprocess.Popen([self.ctx, "daemon", "run"], env=self.env | {"CTX_DAEMON": "1"}, stderr=-3)
        while "  ready  " not in self.run(["daemon", "status"], daemon="1").output:
            time.sleep(READY_S)
        used = self.run(self.search, daemon="1")
        used.wall_s, used.processor_s = time.perf_counter() - began, processor_s(self.daemon.pid)
        used.own_mb, used.mapped_mb = read_sizes(self.daemon.pid)
        return used

    def ask_daemon(self, words: Sequence[str]) -> Usage:
        """Run a command that the daemon answers; the last one ends the daemon."""
        self.run(words, daemon="1")
        used = self.run(words, daemon="1")
        if words[0] == "context":
            self.daemon.terminate()
            self.daemon.wait()
        return used


def main() -> None:
    """Run all commands in turns, print a table and the first answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=lambda text: Path(text).resolve())
    parser.add_argument("--before", type=Path)
    parser.add_argument("--semble", help="a Python that has it")
    parser.add_argument("--codegraph", help="its program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--pattern", default=PATTERN)
    parser.add_argument("--only", nargs="*", default=[""], help="commands that contain one of these words")
    chosen = parser.parse_args()
    taken: dict[tuple[str, str], list[Usage]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="ctx-peers-") as name:
        scratch, tree = Path(name), chosen.tree
        home = os.environ | {"HOME": name, "DO_NOT_TRACK": "1", "CODEGRAPH_NO_DAEMON": "1"}
        rg = str(Path(sys.executable).with_name("rg"))
        bare = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "rg --count-matches": [rg, "--count-matches", "--no-messages", chosen.pattern],
            "git status": ["git", "status", "--short"],
        }
        others = {label: lambda words=words: measure(words, home, tree) for label, words in bare.items()}
        if chosen.semble:
            semble = [chosen.semble, "-c", SEMBLE, str(tree), chosen.question]
            others["semble, index and question"] = lambda: measure(semble, home, tree)
        if chosen.codegraph:
            copy = scratch / "tree"
            shutil.copytree(tree, copy, symlinks=True, copy_function=os.link)

            def index_graph() -> Usage:
                shutil.rmtree(copy / ".codegraph", ignore_errors=True)
                used = measure([chosen.codegraph, "init", "-y"], home, copy)
                used.disk_mb = count_mb(copy / ".codegraph")
                return used

            others["codegraph init"] = index_graph
            others["codegraph sync, nothing changed"] = lambda: measure([chosen.codegraph, "sync"], home, copy)
            others["codegraph explore"] = lambda: measure([chosen.codegraph, "explore", chosen.question], home, copy)
        systems = {"before": chosen.before, "now": ROOT}
        products = {
            name: Product(code.absolute(), scratch / name, tree, chosen.question, chosen.pattern).commands
            for name, code in systems.items()
            if code
        }
        steps = [(label, "", work) for label, work in others.items()]
        steps += [(label, name, products[name][label]) for label in products["now"] for name in products]
        steps = [step for step in steps if any(word in step[0] for word in chosen.only)]
        for number in range(chosen.rounds):
            for label, name, work in steps:
                taken[label, name].append(used := work())
                print(f"{number} {name} {label}: {used}"[:600], file=sys.stderr, flush=True)
    print(f"{tree.name}, {chosen.rounds} rounds, load {os.getloadavg()[0]:.0f}\n")
    print(
        table(
            ("command", "of", "wall s", "processor s", "own MB", "mapped MB", "disk MB", "by before"),
            format_rows(taken),
        )
    )


def format_rows(taken: Mapping[tuple[str, str], Sequence[Usage]]) -> Iterator[list[str]]:
    """Yield the medians of each command, and that of its processor time by the one before in the same round."""
    for (label, name), runs in taken.items():
        figures = [statistics.median(getattr(used, key) for used in runs) for key in FIGURES]
        pairs = zip(runs, taken.get((label, "before"), ()), strict=False) if name == "now" else ()
        ratios = [used.processor_s / max(before.processor_s, 1e-3) for used, before in pairs]
        times, sizes = (f"{value:.3g}" for value in figures[:2]), (f"{value:.0f}" for value in figures[2:])
        yield [label, name, *times, *sizes, f"{statistics.median(ratios):.2f}" if ratios else ""]


FIGURES = ("wall_s", "processor_s", "own_mb", "mapped_mb", "disk_mb")


if __name__ == "__main__":
    main()
