"""Mixed calls and edits on two shared servers for half an hour: what grows of memory, descriptors and threads.

    python bench/soak.py REPOSITORY [--minutes 30] [--clients 4] [--pause 0.2] [--every 180]

A copy of REPOSITORY is served by two processes of `ctx serve --http` on one PostgreSQL, as in bench/load.py. Clients
ask both in turns: they search, read, trace, review, recall, and ask the database itself. One client edits files through
the servers, and an indexer publishes the edits. A row for each server is printed every so many seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.load import MIX, Client, Place, Question, Told, place, questions
from bench.measure import ProcessUse, p50_p95, read_process_use, table

SHARES = MIX | {"trace": 1, "get_context": 1, "search_code": 2, "review_git_diff": 1, "search_memory": 1}
"""How often each tool is called. `search_code` asks the database, the other tools the index of the server."""
SHARED = {"CTX_STORE_SEARCH": "1", "CTX_STORE_VISIBLE": "*"}
EDIT_S = 2.0
PUBLISH_S = 10.0
SETTLED = 1 / 3
"""The part of the run after which caches, threads and parsers are there: growth is counted from then on."""
GROWTH_MB_MAX = 25.0
"""The allocator keeps what was freed: a server that stays as it is moved by up to 20 MB between two rows."""
GROWTH_COUNT_MAX = 8
"""Threads and descriptors that come and go with work in the background."""


@dataclass
class Tally:
    """The calls of all clients since the start."""

    outcomes: Counter[str] = field(default_factory=Counter)
    took_ms: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, outcome: str, took_ms: float) -> None:
        """Count one call."""
        with self.lock:
            self.outcomes[outcome] += 1
            self.took_ms.append(took_ms)

    def take_times(self) -> list[float]:
        """Return the times since the last call of this method."""
        with self.lock:
            taken, self.took_ms = self.took_ms, []
        return taken


def main() -> None:
    """Measure and print; exit with 1 when a server grew, or a call failed for an internal reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two calls of a client, on average")
    parser.add_argument("--every", type=float, default=180.0, help="seconds between two rows")
    chosen = parser.parse_args()
    with place(chosen.repository.resolve(), "", SHARED) as here:
        is_sound = soak(here, chosen)
    sys.exit(0 if is_sound else 1)


def soak(here: Place, chosen: argparse.Namespace) -> bool:
    """Run all clients for the whole time and print the rows; False when something grew or failed."""
    tally, over = Tally(), threading.Event()
    asked = choose_questions(here)
    ports = [server.port for server in here.servers]
    work: list[Callable[[], None]] = [
        lambda number=number: ask(Client(ports, number), asked, random.Random(number), chosen.pause, tally, over)
        for number in range(chosen.clients)
    ]
    work += [lambda: edit(Client(ports), tally, over), lambda: publish(here, tally, over)]
    threads = [threading.Thread(target=target, daemon=True) for target in work]
    for thread in threads:
        thread.start()
    seen = watch(here, chosen, tally)
    over.set()
    for thread in threads:
        thread.join(60)
    print(f"\ncalls: {dict(tally.outcomes.most_common())}")
    return not find_growth(seen) and "INTERNAL" not in tally.outcomes


def watch(here: Place, chosen: argparse.Namespace, tally: Tally) -> list[dict[str, ProcessUse]]:
    """Print what both servers take, again and again; return it."""
    seen: list[dict[str, ProcessUse]] = []
    head = ["minute", "calls", "failed", "p50 / p95 ms", "processor ms a call"]
    for server in here.servers:
        head += [f"{server.name}: MB", "descriptors", "threads"]
    print(table(head, []), flush=True)
    began, calls, cpu_s = time.monotonic(), 0, sum(read_process_use(server.pid).cpu_s for server in here.servers)
    while time.monotonic() < began + 60 * chosen.minutes:
        time.sleep(chosen.every)
        uses = {server.name: read_process_use(server.pid) for server in here.servers}
        seen.append(uses)
        failed = sum(count for outcome, count in tally.outcomes.items() if outcome != "ok")
        p50, p95 = p50_p95(tally.take_times() or [0.0])
        row = [f"{(time.monotonic() - began) / 60:.0f}", f"{tally.outcomes.total():,}", str(failed)]
        row.append(f"{p50:.0f} / {p95:.0f}")
        until_s = sum(use.cpu_s for use in uses.values())
        row.append(f"{(until_s - cpu_s) * 1_000 / max(tally.outcomes.total() - calls, 1):.0f}")
        calls, cpu_s = tally.outcomes.total(), until_s
        for use in uses.values():
            row += [f"{use.anonymous_mb:.0f}", str(use.descriptors), str(use.threads)]
        print(f"| {' | '.join(row)} |", flush=True)
    return seen


def find_growth(seen: Sequence[Mapping[str, ProcessUse]]) -> list[str]:
    """Print and return what a server has more of at the end than when it had settled."""
    settled, last = seen[int(len(seen) * SETTLED)], seen[-1]
    grown = []
    for name, before in settled.items():
        after = last[name]
        if after.anonymous_mb > before.anonymous_mb + GROWTH_MB_MAX:
            grown.append(f"{name}: memory {before.anonymous_mb:.0f} to {after.anonymous_mb:.0f} MB")
        if after.descriptors > before.descriptors + GROWTH_COUNT_MAX:
            grown.append(f"{name}: descriptors {before.descriptors} to {after.descriptors}")
        if after.threads > before.threads + GROWTH_COUNT_MAX:
            grown.append(f"{name}: threads {before.threads} to {after.threads}")
    print("grown: " + ("; ".join(grown) or "nothing"))
    return grown


# -- what the clients do -------------------------------------------------------------------------------------------


def choose_questions(here: Place) -> dict[str, list[Question]]:
    """Return calls of each tool that the repository has answers to."""
    with tempfile.TemporaryDirectory() as cache, here.engine(Path(cache)) as engine:
        engine.index.update()
        asked = questions(engine, random.Random(9))
    names = [json.loads(question.arguments)["name"] for question in asked["find_symbol"]]
    texts = [json.loads(question.arguments)["query"] for question in asked["codebase_retrieval"]]
    more = {
        "trace": [{"symbol": name, "direction": "callers"} for name in names],
        "get_context": [{"query": text} for text in texts],
        "search_code": [{"query": text, "project": "store"} for text in texts],
        "review_git_diff": [{"target": "HEAD~1..HEAD"}],
        "search_memory": [{"query": text} for text in texts],
    }
    return asked | {tool: [Question(tool, json.dumps(row)) for row in rows] for tool, rows in more.items()}


def ask(
    client: Client,
    asked: Mapping[str, list[Question]],
    chance: random.Random,
    pause_s: float,
    tally: Tally,
    over: threading.Event,
) -> None:
    """Call one tool after the other."""
    while not over.wait(pause_s * (0.5 + chance.random())):
        (tool,) = chance.choices(list(SHARES), list(SHARES.values()))
        question = chance.choice(asked[tool])
        call = client.call(question, judge)
        tally.add(call.outcome if call.outcome == "ok" else f"{tool}: {call.outcome}", call.took_ms)


def judge(question: Question, told: Told) -> str:
    """Return "ok" or the code of the error."""
    if not told.is_error:
        return "ok"
    with suppress(ValueError, KeyError):
        return str(json.loads(told.text)["error"]["code"])
    return "error"


def edit(client: Client, tally: Tally, over: threading.Event) -> None:
    """Write files of its own through the servers, each again and again, so that the tree does not grow."""
    for number in itertools.count():
        if over.wait(EDIT_S):
            return
        name = f"soak_{number % 20}"
        lines = "".join(f"def {name}_{number}_{line}():\n    return {line}\n\n\n" for line in range(20))
        written = Question("write_file", json.dumps({"path": f"{name}.py", "content": lines, "overwrite": True}))
        call = client.call(written, judge)
        tally.add(
            call.outcome if call.outcome == "ok" else f"write_file: {call.outcome}: {call.told[:200]}", call.took_ms
        )


def publish(here: Place, tally: Tally, over: threading.Event) -> None:
    """Index and publish what was edited."""
    while not over.wait(PUBLISH_S):
        if not here.share():
            tally.add("publish: failed", 0.0)


if __name__ == "__main__":
    main()
