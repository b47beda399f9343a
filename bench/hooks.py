"""Time `ctx hook` as a client runs it: a process for each event, answered by a warm daemon, next to a bare Python.

    python bench/hooks.py ROOT --prompts prompts.json        ROOT has an index; a list of texts, or a tasks file

Prints p50 and p95 in milliseconds for prompts, the start of a session, a search, a read and an edit; "answer" is the time in
the daemon's place, in process, "hook" that of the whole process. The daemon is that of this environment (CTX_CACHE_FOLDER names
another cache); it is started if there is none.

    python bench/hooks.py ROOT --prompts prompts.json --clients 10 --beside OTHER

Ten clients ask, one prompt a second each, first alone and then while the daemon indexes a copy of OTHER again and again. They begin a
tenth of a second after each other; with `--at-once` all ask in the same moment of each second.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ms, p50_p95, table
from context_engine.cli.hook_command import record_trust
from context_engine.daemon import ask_daemon, start_daemon
from context_engine.engine import Engine
from context_engine.hooks import HookResponder, parse_event
from context_engine.model import Query

ASKED_MAX = 60
PATIENCE_S = 60.0
REPEATED = 5


def load_prompts(file: Path) -> list[str]:
    """Return the texts of a list, or the questions and commit subjects of a tasks file."""
    rows = json.loads(file.read_text(encoding="utf-8"))
    if rows and isinstance(rows[0], str):
        return rows[:ASKED_MAX]
    texts = [
        question["query"] for task in rows for key in ("queries", "commit_queries") for question in task.get(key, [])
    ]
    return texts[:: max(1, len(texts) // ASKED_MAX)][:ASKED_MAX]


def list_events(engine: Engine, prompts: Sequence[str]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return the events of each kind, about what the prompts find."""
    base = {"cwd": str(engine.root)}
    events: dict[str, list[tuple[str, dict[str, Any]]]] = {
        kind: [] for kind in ("prompt", "session", "search", "read", "edit")
    }
    for number, text in enumerate(prompts):
        session = {**base, "session_id": f"bench-{number}"}
        events["prompt"].append(("UserPromptSubmit", {**session, "prompt": text}))
        events["session"].append(("SessionStart", {**session, "source": "startup"}))
        hit = next(iter(engine.search.find(Query(text, 1)).hits), None)
        if hit is None:
            continue
        path, first = hit.chunk.path, hit.chunk.text.split("\n")[0]
        found = "\n".join(f"{path}:{line}:x" for line in range(hit.chunk.span.first, hit.chunk.span.last + 1))
        grep = {"tool_name": "Grep", "tool_input": {"pattern": "x.*"}, "tool_response": found}
        edit = {"tool_name": "Edit", "tool_input": {"file_path": path, "old_string": "", "new_string": first}}
        events["search"].append(("PostToolUse", {**session, **grep}))
        events["read"].append(("PostToolUse", {**session, "tool_name": "Read", "tool_input": {"file_path": path}}))
        events["edit"].append(("PostToolUse", {**session, **edit}))
    return events


def wait_for_daemon() -> None:
    """Start the daemon if there is none, and wait until it is ready."""
    until = time.monotonic() + PATIENCE_S
    while (ask_daemon({"kind": "status"}, 5.0) or {}).get("state") != "ready":
        start_daemon(os.environ)
        if time.monotonic() > until:
            raise SystemExit("the daemon does not start")
        time.sleep(0.1)


def measure(
    kind: str, given: Sequence[tuple[str, dict[str, Any]]], engine: Engine, responder: HookResponder
) -> tuple[Any, ...]:
    """Return a row: the kind, the number of events, p50 and p95 of the answers and of the processes."""
    texts = [(name, json.dumps(event)) for name, event in given]
    answers = []
    for name, text in texts:
        event = parse_event("claude", name, text)
        answers.append(ms(lambda event=event: responder.answer(engine, event)))
    run_hook(*texts[0])
    hooks = [ms(lambda name=name, text=text: run_hook(name, text)) for name, text in texts]
    return kind, len(texts), *p50_p95(answers), *p50_p95(hooks)


def ask_together(
    given: Sequence[tuple[str, dict[str, Any]]], clients: int, beside: Path | None, *, apart_s: float
) -> list[tuple[Any, ...]]:
    """Return rows of p50 and p95 of hooks while many clients ask, alone and beside an index being built."""
    rows = []
    for name, event in given:  # the daemon opens the index before anything is timed
        run_hook(name, json.dumps(event))
    for name, is_building in (("alone", False), ("beside an index", True))[: 2 if beside else 1]:
        with ThreadPoolExecutor(clients) as pool, building(beside if is_building else None):
            own = [given[number::clients] for number in range(clients)]
            taken = [*pool.map(_ask_paced, own, range(clients), [apart_s] * clients)]
        rows.append((f"{clients} clients, {name}", sum(map(len, taken)), None, None, *p50_p95([*chain(*taken)])))
    return rows


def _ask_paced(given: Sequence[tuple[str, dict[str, Any]]], number: int, apart_s: float) -> list[float]:
    taken = []
    time.sleep(number * apart_s)
    for name, event in [*given] * REPEATED:
        text = json.dumps({**event, "session_id": f"paced-{number}-{len(taken)}"})
        took_ms = ms(lambda name=name, text=text: run_hook(name, text))
        taken.append(took_ms)
        time.sleep(max(0.0, 1.0 - took_ms / 1_000))
    return taken


@contextmanager
def building(source: Path | None) -> Generator[None]:
    """Let the daemon index copies of a folder, one after the other, until the block ends."""
    ended = threading.Event()

    def build() -> None:
        with tempfile.TemporaryDirectory() as folder:
            number = 0
            while source and not ended.is_set():
                number += 1
                root = Path(folder) / str(number)
                shutil.copytree(source, root, symlinks=True, ignore=shutil.ignore_patterns(".git"))
                ask_daemon({"kind": "index", "root": str(root), "patient": True}, PATIENCE_S)
                with Engine.open(root) as engine:
                    while not engine.index.is_complete() and not ended.is_set():
                        time.sleep(0.2)

    thread = threading.Thread(target=build)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def run_hook(name: str, text: str) -> None:
    """Run the command for one event."""
    command = [sys.executable, "-m", "context_engine", "hook", name]
    subprocess.run(command, input=text.encode(), capture_output=True, check=True)


def main() -> None:
    """Ask in process and through the command, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=0, help="ask so many at once")
    parser.add_argument("--at-once", action="store_true", help="all clients ask in the same moment")
    parser.add_argument("--beside", type=Path, help="a folder that is indexed meanwhile")
    chosen = parser.parse_args()
    with Engine.open(chosen.root) as engine, tempfile.TemporaryDirectory() as config:
        os.environ["XDG_CONFIG_HOME"] = config  # hooks speak in trusted projects only
        record_trust(engine.root, is_trusted=True)
        events = list_events(engine, load_prompts(chosen.prompts))
        responder = HookResponder()
        wait_for_daemon()
        if chosen.clients:
            apart_s = 0.0 if chosen.at_once else 1.0 / chosen.clients
            rows = ask_together(events["prompt"], chosen.clients, chosen.beside, apart_s=apart_s)
        else:
            rows = [measure(kind, given, engine, responder) for kind, given in events.items()]
        bare = [ms(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)) for _ in range(30)]
        rows.append(("python -c pass", 30, None, None, *p50_p95(bare)))
        print(f"{engine.status().chunks:,} chunks, load {os.getloadavg()[0]:.0f}\n")
    heads = ("event", "asked", "answer p50", "p95", "hook p50", "p95")
    shown = ([name, str(count), *map(_format_ms, figures)] for name, count, *figures in rows)
    print(table(heads, shown))


def _format_ms(value: float | None) -> str:
    """Return a time, or a dash where none was taken."""
    return "-" if value is None else f"{value:.0f}"


if __name__ == "__main__":
    main()
