"""A large tree from nothing: the first answers, the whole index, memory of all processes, disk; next to ripgrep.

    python bench/large_tree.py DIR                          a tree of tens of thousands of files
    python bench/large_tree.py DIR --code TREE              with the package of another checkout

Each command starts without an index and without a daemon. Processor time is that of all its processes. Memory is the
greatest sum over these processes, looked at five times a second: anonymous memory alone, and with the mapped files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ROOT, table

QUESTION = "where are dirty pages written back to disk"
PATTERN = r"EXPORT_SYMBOL_GPL\(\w+_suspend\)"
LOOK_S = 0.2


@dataclass(slots=True)
class Usage:
    """The cost of one command. Memory in MB, of all its processes together."""

    wall_s: float = 0.0
    processor_s: float = 0.0
    anonymous_mb: float = 0.0
    resident_mb: float = 0.0
    output: str = ""


def measure(command: Sequence[str], env: dict[str, str], folder: Path) -> Usage:
    """Run a command in a folder and watch its processes."""
    used, began = Usage(), time.perf_counter()
    before = os.times()
    with subprocess.Popen(command, cwd=folder, env=env, stdout=-1, stderr=-3, text=True) as process:
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
    """Note the greatest memory of a process and its descendants until the event."""
    while not ended.wait(LOOK_S):
        sizes = [read_sizes(number) for number in descendants(leader)]
        used.anonymous_mb = max(used.anonymous_mb, sum(size[0] for size in sizes))
        used.resident_mb = max(used.resident_mb, sum(size[1] for size in sizes))


def descendants(leader: int) -> Iterator[int]:
    """Yield a process and all that it started."""
    yield leader
    with suppress(OSError):
        for task in Path(f"/proc/{leader}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from descendants(int(child))


def read_sizes(process: int) -> tuple[float, float]:
    """Return the anonymous and the resident memory of a process in MB; mapped files count in proportion."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
        return sizes["Pss_Anon"], sizes["Pss"]
    return 0.0, 0.0


def count_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Run the commands and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--code", type=Path, default=ROOT)
    parser.add_argument("--workers", type=int, default=-1)
    parser.add_argument("--only", nargs="*", default=["text", "search", "index", "rg"])
    chosen = parser.parse_args()
    ctx = [sys.executable, "-m", "context_engine"]
    commands = {
        "text": [*ctx, "call", "search_text", f'{{"query": "{PATTERN}", "regex": true}}'.replace("\\", "\\\\")],
        "search": [*ctx, "search", QUESTION, "-n", "3", "-l"],
        "index": [*ctx, "index"],
        "rg": [str(Path(sys.executable).with_name("rg")), "--count-matches", "--no-messages", PATTERN],
    }
    rows = []
    for name in chosen.only:
        with tempfile.TemporaryDirectory(prefix="ctx-large-") as cache:
            env = os.environ | {"CTX_CACHE_FOLDER": cache, "CTX_DAEMON": "0", "PYTHONPATH": str(chosen.code)}
            if chosen.workers >= 0:
                env["CTX_WORKERS"] = str(chosen.workers)
            used = measure(commands[name], env, chosen.folder)
            disk = count_bytes(Path(cache)) / 1e6
        sizes = (used.anonymous_mb, used.resident_mb, disk)
        rows.append([name, f"{used.wall_s:.1f}", f"{used.processor_s:.1f}", *(f"{size:.0f}" for size in sizes)])
        print(f"{name}: {used.output[-600:]}\n", flush=True)
    load = f"load {os.getloadavg()[0]:.0f}"
    print(table([load, "wall s", "processor s", "anonymous MB", "resident MB", "disk MB"], rows))


if __name__ == "__main__":
    main()
