"""Run the sessions: every task in real clients against a scripted model on loopback, under each set-up.

    python evals/sessions/run.py --mirrors DIR --trees DIR                                     # everything, hours
    python evals/sessions/run.py --trees DIR --client claude --setup without --every 4 --out try.jsonl

`--mirrors` are bare clones of the repositories, which the trees are made of; the clients are installed by `make clients`.
Sessions that the file has already are not run again; the table is printed at the end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.cli.clients.client_config import add_section, read_guidance
from context_engine.server import PROFILES
from context_engine.server.instructions import format_instructions
from evals.places.prepare import folder_of, prepare
from evals.sessions import report
from evals.sessions.agents import CLIENTS, Client, context_tool, say
from evals.sessions.needed import count_seen, telling_lines
from evals.sessions.parts import PARTS, measure_parts
from evals.sessions.policy import Action, Ask, Edit, Means, Search, decide, find_given_code
from tests.clients.dialects import Dialect, Event, Say, Shown
from tests.clients.programs import Place, ctx
from tests.clients.scripted_model import ScriptedModel, Turn

HERE = Path(__file__).resolve().parent
TASKS = HERE / "tasks.json"
OURS = ("tool", "guidance", "hooks")
GUIDANCE = read_guidance().rstrip()
"""The text that `ctx setup --guidance` writes, without its markers."""
INSTRUCTIONS = format_instructions(PROFILES["core"])
TOLD = "ask ctx before you grep"
"""The words of the guidance by which the agent knows that it is told to."""
PATIENCE_S = 240.0
PROMPT = "Change this repository as this commit message says:\n\n{query}"
NOWHERE = "http://127.0.0.1:1"
"""In the settings of a home that is copied for each session."""
READY_S = 60.0
WRITING = threading.Lock()


@dataclass
class Session:
    """One session as it goes: the actions so far, and the size of each request by its parts."""

    client: Client
    setup: str
    root: Path
    task: Mapping[str, Any]
    actions: list[Action] = field(default_factory=list)
    parts: list[dict[str, int]] = field(default_factory=list)
    seen: str = ""
    given: int = 0


class PolicyModel(ScriptedModel):
    """A model that follows the policy. It sees of a session what a request shows, and remembers its own actions."""

    def __init__(self, session: Session) -> None:
        super().__init__(())
        self.session = session
        self._deciding = threading.Lock()

    def answer(self, dialect: Dialect, body: dict[str, Any]) -> Iterator[Event]:
        shown = dialect.shown(body)
        if not shown.tools:
            return dialect.say("Hello.")
        with self._deciding:
            self.turns.append(Turn(time.monotonic() - self.started_s, shown, body))
            return self._next(dialect, shown, body)

    def _next(self, dialect: Dialect, shown: Shown, body: dict[str, Any]) -> Iterator[Event]:
        session = self.session
        at = len(shown.results)
        if at == len(session.actions):  # a repeated request gets the same answer
            session.parts.append(self._measure(shown, body))
            words = shown.words.replace(session.task["query"], "")
            session.seen = "\n".join([words, *shown.results])
            given = find_given_code(words)
            session.given = max(session.given, len(given))
            means = Means(bool(context_tool(shown.tools)), TOLD in words or session.setup == "semble")
            history = list(zip(session.actions, localize(shown.results, session.root), strict=True))
            session.actions.append(decide(session.task["query"], means, given, history))
        action = session.actions[at]
        if isinstance(action, Edit):
            return dialect.say("Now I would make the first edit.")
        tool, arguments = say(session.client, action, session.root, shown.tools, by_shell=session.setup == "rg")
        return dialect.use(tool, arguments, f"call_{at}")

    def _measure(self, shown: Shown, body: dict[str, Any]) -> dict[str, int]:
        """Return the size of each part of a request."""
        kinds = ("replies" if isinstance(action, Ask) else "reads" for action in self.session.actions)
        instructions = INSTRUCTIONS if self.session.setup in OURS else ""
        return measure_parts(body, list(zip(kinds, shown.results, strict=True)), instructions, GUIDANCE)


def localize(results: tuple[str, ...], root: Path) -> Iterator[str]:
    """Yield results with the paths of the tree made relative, as the agent thinks of them."""
    for result in results:
        yield result.replace(f"{root}/", "")


# -- homes ------------------------------------------------------------------------------------------------------------


def prepare_home(name: str, setup: str, homes: Path, root: Path) -> Path:
    """Make the home of a client for a set-up once, with `ctx setup`; each session gets a copy of it."""
    home = homes / f"{name}-{setup}"
    if (home / ".ready").exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    client = CLIENTS[name]
    place = client.agent.prepared(Place(home, root), NOWHERE)
    if setup in OURS:
        options = ["--hooks"] if setup == "hooks" else []
        done = place.run(str(ctx()), "setup", name, *options)
        assert done.status == 0, done.out + done.err
    if setup == "semble":
        add_peer(name, home)
    if setup in ("guidance", "hooks"):
        file = home / client.guidance
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(add_section("", GUIDANCE), encoding="utf-8")
    (home / ".ready").touch()
    return home


def add_peer(name: str, home: Path) -> None:
    """Write the server of the peer into the settings of a client, where `ctx setup` would write ours."""
    command, arguments = sys.executable, [str(HERE / "peer_server.py")]
    if name == "codex":
        with (home / ".codex/config.toml").open("a", encoding="utf-8") as file:
            file.write(
                f'\n[mcp_servers.peer]\ncommand = "{command}"\nargs = {json.dumps(arguments)}\nrequired = true\n'
            )
        return
    places = {"claude": ".claude.json", "gemini": ".gemini/settings.json", "opencode": ".config/opencode/opencode.json"}
    file = home / places[name]
    settings = json.loads(file.read_text()) if file.exists() else {}
    entry: dict[str, Any] = {"command": command, "args": arguments}
    if name == "opencode":
        settings.setdefault("mcp", {})["peer"] = {"type": "local", "command": [command, *arguments], "enabled": True}
    else:
        entry |= {"alwaysLoad": True} if name == "claude" else {}
        settings.setdefault("mcpServers", {})["peer"] = entry
    file.write_text(json.dumps(settings))


def copy_home(template: Path, home: Path, url: str, cache: Path) -> None:
    """Copy a home; its settings name the model's address, and its cache is that of the task."""
    shutil.copytree(template, home, symlinks=True)
    for file in home.rglob("*"):
        if (
            file.suffix in (".json", ".toml")
            and file.is_file()
            and NOWHERE in (text := file.read_text(errors="replace"))
        ):
            file.write_text(text.replace(NOWHERE, url))
    (home / ".cache").mkdir(exist_ok=True)
    (home / ".cache" / "context-engine").symlink_to(cache)


def collect_caches(tasks: Sequence[Mapping[str, Any]], trees: Path, cache: Path) -> None:
    """Copy the indexes of all tasks into one cache: one local process answers for all trees, as on a person's machine."""
    for task in tasks:
        for folder in sorted(folder_of(trees, task).joinpath("cache").glob("*/*")):
            copied = cache / folder.relative_to(folder.parents[1])
            if folder.parent.name != "run" and folder.is_dir() and not copied.exists():
                shutil.copytree(folder, copied)


def greet(name: str, setup: str, scratch: Path, root: Path) -> None:
    """Start the local process by a first prompt, and wait until it is ready."""
    with ScriptedModel([Say("Hello.")]) as model:
        place = open_place(name, setup, scratch, root, model.url)
        place.run(*CLIENTS[name].agent.asked("Hello"), patience_s=PATIENCE_S)
        until = time.monotonic() + READY_S
        while "ready" not in place.run(str(ctx()), "daemon", "status").out and time.monotonic() < until:
            time.sleep(1.0)


def open_place(name: str, setup: str, scratch: Path, root: Path, url: str) -> Place:
    """Make the home of a session anew, at a path that is the same for all sessions of a client and a set-up."""
    home = scratch / "sessions" / f"{name}-{setup}"
    while home.exists():  # a client that has ended may leave a process that still writes for a moment
        shutil.rmtree(home, ignore_errors=True)
        time.sleep(0.2)
    copy_home(prepare_home(name, setup, scratch / "homes", root), home, url, scratch / "cache")
    place = Place(home, root, CLIENTS[name].agent.env(url))
    if setup == "hooks":
        place.run(str(ctx()), "setup", "--trust")
    return place


# -- running ----------------------------------------------------------------------------------------------------------


def run_session(name: str, setup: str, task: Mapping[str, Any], trees: Path, scratch: Path) -> dict[str, Any]:
    """Run one session to its end and return its row."""
    root, client = folder_of(trees, task).resolve() / "tree", CLIENTS[name]
    session = Session(client, setup, root, task)
    with PolicyModel(session) as model:
        place = open_place(name, setup, scratch, root, model.url)
        began = time.monotonic()
        run = place.run(*client.agent.asked(PROMPT.format(query=task["query"])), patience_s=PATIENCE_S)
        wall_s = time.monotonic() - began
    if not session.actions or not isinstance(session.actions[-1], Edit):
        raise RuntimeError(f"the session ended early: {run.out[-800:]}{run.err[-800:]}")
    hunks = telling_lines(root, task["hunks"])
    return {
        "client": name,
        "setup": setup,
        "task": task["id"],
        "calls": len(session.actions) - 1,
        "searches": sum(isinstance(action, Search) for action in session.actions),
        "asks": sum(isinstance(action, Ask) for action in session.actions),
        "requests": len(session.parts),
        "total_chars": sum(sum(parts.values()) for parts in session.parts),
        "resident_chars": sum(session.parts[-1].values()),
        "first_chars": sum(session.parts[0].values()),
        "total_parts": {part: sum(parts[part] for parts in session.parts) for part in PARTS},
        "resident_parts": session.parts[-1],
        "given_chars": session.given,
        "wall_s": round(wall_s, 2),
        "hunks": len(hunks),
        "seen": count_seen(hunks, session.seen),
        "actions": [str(action)[:120] for action in session.actions],
    }


def main() -> None:
    """Parse, run what is missing, append rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, help="prepare the trees of the tasks from these first")
    parser.add_argument("--trees", type=Path, required=True, help="the trees of the tasks, with their indexes")
    parser.add_argument("--out", type=Path, default=Path("build/sessions/sessions.jsonl"), help="rows are appended")
    parser.add_argument("--client", choices=CLIENTS, action="append", help="default: all")
    parser.add_argument("--setup", choices=report.SETUPS, action="append", help="default: all")
    parser.add_argument("--every", type=int, default=1, help="each nth task")
    parser.add_argument("--jobs", type=int, default=1, help="clients and set-ups at once")
    parser.add_argument("--scratch", type=Path, default=Path("build/sessions"))
    chosen = parser.parse_args()
    tasks = json.loads(TASKS.read_text(encoding="utf-8"))[:: chosen.every]
    if chosen.mirrors:
        prepare(tasks, chosen.mirrors.resolve(), chosen.trees.resolve())
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["client"], row["setup"], row["task"]) for row in report.read_rows(chosen.out)}
    pairs = [(name, setup) for setup in chosen.setup or report.SETUPS for name in chosen.client or CLIENTS]
    scratch = chosen.scratch.resolve()
    collect_caches(tasks, chosen.trees.resolve(), scratch / "cache")

    def run_pair(pair: tuple[str, str]) -> None:
        wanted = [task for task in tasks if (*pair, task["id"]) not in done]
        run_sessions(*pair, wanted, chosen.trees, scratch, chosen.out)

    with ThreadPoolExecutor(chosen.jobs) as pool:
        list(pool.map(run_pair, pairs))
    report.print_report(report.read_rows(chosen.out))


def run_sessions(
    name: str, setup: str, tasks: Sequence[Mapping[str, Any]], trees: Path, scratch: Path, out: Path
) -> None:
    """Run the sessions of a client and a set-up, one after the other; a failed one is printed and left out."""
    if not tasks:
        return
    root = folder_of(trees, tasks[0]).resolve() / "tree"
    if setup == "hooks":
        greet(name, setup, scratch, root)
    for task in tasks:
        try:
            row = run_session(name, setup, task, trees, scratch)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - one failed session must not end the others
            print(f"{name} {setup} {task['id']}: {type(error).__name__}: {str(error)[:1500]}", file=sys.stderr)
            continue
        with WRITING, out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"{name} {setup} {task['id']}: {row['calls']} calls, {row['total_chars']:,} chars,"
            f" {row['seen']}/{row['hunks']} hunks, {row['wall_s']} s",
            flush=True,
        )
    if setup in OURS:
        open_place(name, setup, scratch, root, NOWHERE).run(str(ctx()), "daemon", "stop")


if __name__ == "__main__":
    main()
