"""What benchmarks share: folders with questions, timing that survives a busy machine, the use of processes, tables.

No engine is opened here.
"""

from __future__ import annotations

import json
import os
import statistics
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / "evals" / "retrieval" / "packages.toml"
CORPORA = ROOT / "evals" / "corpora"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder to index and what to ask it."""

    name: str
    folder: Path
    questions: tuple[str, ...]


def places(tasks: Path | None, corpus: Path | None) -> list[Place]:
    """The repositories of a tasks file (see evals/retrieval/score.py), else the packages that `make eval` fetched.

    Raises: SystemExit when there is none.
    """
    if tasks is not None and corpus is not None:
        listed = [
            Place(
                each["name"], corpus / each["name"] / (each["root"] or ""), tuple(q["query"] for q in each["queries"])
            )
            for each in json.loads(tasks.read_text(encoding="utf-8"))
        ]
    else:
        packages = tomllib.loads(PACKAGES.read_text(encoding="utf-8"))["corpus"]
        listed = [
            Place(
                each["name"],
                CORPORA / f"{each['name'].replace('/', '+')}-{each['version']}" / each.get("root", ""),
                tuple(question[0] for question in each["questions"]),
            )
            for each in packages
        ]
    found = [place for place in listed if place.folder.is_dir()]
    if not found:
        raise SystemExit("no folder to measure on: run evals/retrieval/golden.py first, or give --tasks and --corpus")
    return found


def ms(call: Callable[[], Any]) -> float:
    """Milliseconds of one call, wall time."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def cpu_ms(call: Callable[[], Any]) -> float:
    """Milliseconds of processor time of one call, this process only: what it takes when the machine is busy, too."""
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1e3


def interleaved(calls: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """The least milliseconds of each call over some rounds; taking turns, so that a busy moment hits all alike."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for number, call in enumerate(calls):
            taken[number].append(ms(call))
    return [min(each) for each in taken]


def p50_p95(values: Iterable[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    listed = sorted(values)
    return statistics.median(listed), listed[min(len(listed) - 1, int(len(listed) * 0.95))]


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Memory, descriptors, threads and processor time of a process at one moment."""

    anonymous_mb: float
    descriptors: int
    threads: int
    cpu_s: float


def read_process_use(pid: int) -> ProcessUse:
    """Read it from /proc, which only Linux has."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines())
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    anonymous_mb = int(status["RssAnon"].split()[0]) / 1024
    return ProcessUse(anonymous_mb, descriptors, int(status["Threads"]), processor_s(pid))


def rss_anon_mb() -> float:
    """Return the anonymous memory of this process; mapped files do not count, the system takes those back when it needs to."""
    return read_process_use(os.getpid()).anonymous_mb


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    ticks = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def read_sizes(pid: int) -> tuple[float, float]:
    """Return the own and the mapped memory of a process in MB; what it shares with others counts in proportion."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
        return sizes["Pss_Anon"], sizes["Pss"] - sizes["Pss_Anon"]
    return 0.0, 0.0


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in row)} |" for row in lines)
