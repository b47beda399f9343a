"""Fifty clients at once over HTTP, two servers on one shared index; then the same while servers and database are killed.

    python bench/load.py REPOSITORY                      a copy of it is served; a PostgreSQL is started on a socket
    python bench/load.py REPOSITORY --pause 1            every client thinks for a second between two calls
    python bench/load.py REPOSITORY --kills 20           one of the three is killed and started again, 20 times
    python bench/load.py REPOSITORY --store embedded     both servers on this machine's own index, without a database

Every client has connections of its own and speaks as a client of the older era does to servers without sessions. It
asks them in turns, and the other one when one is gone, as a proxy would; a call took as long as all its tries. Every
answer is compared with the one that was given before anybody was there. With kills, files are added and shared all the
while, by an indexer of its own: what is found may move with each of them, so an answer that is another one is held
against an index on this machine that sees the same files one by one and no database. In the end every file must be in
the database, and both servers must find it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ROOT, p50_p95, table
from context_engine import tools
from context_engine.cli.tool_commands import build_dispatcher
from context_engine.engine import Engine
from context_engine.settings import Settings
from tests.support.databases import OwnPostgres

PATIENCE_S = 30.0
"""A call that no server answered for so long is lost; a restart takes two seconds on a busy machine."""
BETWEEN_TRIES_S = 0.05
DOWN_S = 0.5
"""How long what was killed stays away: long enough that everybody notices."""
OF_EACH = 25
"""Questions of each tool: enough that no cache of a few answers holds them all."""
MIX = {"codebase_retrieval": 4, "search_files": 2, "read_file": 3, "find_symbol": 1}
"""Calls in ten, about as an agent that explores makes them."""
NO_LIMITS = {"CTX_RATE_BURST_MINUTES": "0", "CTX_ACCESS_SCORING": "false", "CTX_EMBEDDER": "static"}
"""No rates, since fifty clients share one name here; and what was read must not move what is found, or nothing
compares."""
RIGHT, WRONG, LOST = "right", "wrong", "lost"
LATER = "right, with files that were added"
RESERVED = "other, and said to be not fresh"
SOUND = (RIGHT, LATER, RESERVED)
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-06-18",
}


class Part(Protocol):
    """Something that is killed and started again."""

    name: str

    def kill(self) -> None: ...
    def start(self) -> None: ...
    def answers(self) -> bool: ...


class Server:
    """A process of `ctx serve`, always at the same port."""

    def __init__(self, name: str, root: Path, env: Mapping[str, str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.name = name
        self._command = [
            sys.executable, "-m", "context_engine", "serve", "--http", str(self.port), "--no-token", "--stateless",
            "--root", str(root), "--profile", "all,seeds",
        ]  # fmt: skip
        self._env = dict(env)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it may not listen yet."""
        self._process = subprocess.Popen(
            self._command, env=self._env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    @property
    def pid(self) -> int:
        """The process that runs."""
        assert self._process
        return self._process.pid

    def kill(self) -> None:
        """As the machine does when it has no memory left."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def answers(self) -> bool:
        """Whether it listens."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


@dataclass(frozen=True, slots=True)
class Question:
    """A call, as a client makes it."""

    tool: str
    arguments: str  # JSON

    @property
    def body(self) -> bytes:
        params = {"name": self.tool, "arguments": json.loads(self.arguments)}
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


@dataclass(frozen=True, slots=True)
class Told:
    """What a server said: the text, and whether it is an error."""

    text: str
    is_error: bool

    def gist(self, tool: str) -> str:
        """What must always be the same: places and texts, not scores, counts of all files, or the word about freshness."""
        if self.is_error or tool == "read_file":
            return self.text
        if tool == "codebase_retrieval":
            return "\n".join(f"{row['path']}:{row['lines']}" for row in json.loads(self.text)["results"])
        return "\n".join(line for line in self.text.splitlines()[1:] if not line.startswith("… "))

    def is_reserved(self, tool: str) -> bool:
        """Whether it says by itself that it may lack something."""
        head = self.text.partition("\n")[0]
        fresh = '"freshness":"fresh"' in self.text if tool == "codebase_retrieval" else " fresh" in head
        return tool in ("codebase_retrieval", "find_symbol") and not fresh


@dataclass(slots=True)
class Call:
    """How one call went for its client."""

    tool: str
    outcome: str = LOST
    told: str = ""  # kept when it is not what was expected
    took_ms: float = 0.0
    troubles: list[str] = field(default_factory=list)


class Client:
    """Asks the servers in turns, over a connection to each that is kept alive."""

    def __init__(self, ports: Sequence[int], first: int = 0) -> None:
        self._ports = ports
        self._at = first
        self._lines: dict[int, http.client.HTTPConnection] = {}

    @property
    def _port(self) -> int:
        return self._ports[self._at % len(self._ports)]

    def told(self, question: Question) -> Told:
        """One try at the server whose turn it is. Raises: OSError, HTTPException when it is gone."""
        if self._port not in self._lines:
            self._lines[self._port] = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        line = self._lines[self._port]
        line.request("POST", "/mcp", question.body, HEADERS)
        reply = line.getresponse()
        body = reply.read().decode()
        if reply.status != http.HTTPStatus.OK:
            raise http.client.HTTPException(f"HTTP {reply.status}")
        try:
            return _read(body)
        except (ValueError, KeyError, StopIteration) as error:
            raise http.client.HTTPException("HTTP 200, cut off") from error

    def call(self, question: Question, judge: Callable[[Question, Told], str]) -> Call:
        """A call with as many tries as it takes."""
        call, began = Call(question.tool), time.perf_counter()
        while call.outcome == LOST and time.perf_counter() - began < PATIENCE_S:
            try:
                told = self.told(question)
                call.outcome = judge(question, told)
                call.told = "" if call.outcome == RIGHT else told.gist(question.tool)
            except (OSError, http.client.HTTPException) as error:
                call.troubles.append(str(error) if str(error).startswith("HTTP ") else type(error).__name__)
                self._lines.pop(self._port).close()
                if len(call.troubles) % len(self._ports) == 0:
                    time.sleep(BETWEEN_TRIES_S)
            self._at += 1
        call.took_ms = (time.perf_counter() - began) * 1e3
        return call


def _read(body: str) -> Told:
    """The result in a reply, which may be a stream of events."""
    lines = [line[6:] for line in body.splitlines() if line.startswith("data: ")] or [body]
    answer = next(each for each in map(json.loads, lines) if "id" in each)
    if "error" in answer:
        return Told(json.dumps(answer["error"]), is_error=True)
    (block,) = answer["result"]["content"]
    return Told(block["text"], answer["result"].get("isError", False))


# -- what is asked ------------------------------------------------------------------------------------------------


def questions(engine: Engine, rng: random.Random) -> dict[str, list[Question]]:
    """Calls of each tool that this repository has answers to: its own names, and what its comments say of them."""
    found = [each for each in engine.symbols.find("*", limit=100_000).definitions if len(each.name) > 3]
    spoken = [each.doc for each in found if len(each.doc.split()) > 4] or [each.qualified for each in found]

    def some(pool: Sequence[str]) -> list[str]:
        return rng.sample(sorted(set(pool)), min(OF_EACH, len(set(pool))))

    asked = {
        "codebase_retrieval": [{"query": text} for text in some(spoken)],
        "search_files": [{"query": name} for name in some([each.name for each in found])],
        "read_file": [{"path": path} for path in some([str(each.path) for each in found])],
        "find_symbol": [{"name": name} for name in some([each.name for each in found])],
    }
    return {tool: [Question(tool, json.dumps(each)) for each in rows] for tool, rows in asked.items()}


def quiet(servers: Sequence[Server], asked: Sequence[Question]) -> dict[Question, str]:
    """What they all answer while nobody else asks. Raises: SystemExit when they do not agree, or one refuses."""
    answers: dict[Question, str] = {}
    for server in servers:
        client = Client([server.port])
        for question in asked:
            told = client.told(question)
            gist = told.gist(question.tool)
            if told.is_error or answers.setdefault(question, gist) != gist:
                raise SystemExit(f"{server.name} answers {question} otherwise than the first: {told.text[:300]}")
    return answers


def judge(answers: Mapping[Question, str], question: Question, told: Told) -> str:
    """Right, wrong, reserved (it differs, and says that it may) or the code of an error."""
    if told.gist(question.tool) == answers[question]:
        return RIGHT
    if told.is_error:
        with suppress(ValueError, KeyError):
            return json.loads(told.text)["error"]["code"]
        return "error"
    return RESERVED if told.is_reserved(question.tool) else WRONG


def states(root: Path, added: Sequence[str], asked: Sequence[Question]) -> list[dict[Question, str]]:
    """The answers before and after each file that was added, by an embedded index of a copy."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{name}.py" for name in added]
        copy = shutil.copytree(root, Path(folder) / "tree", symlinks=True, ignore=shutil.ignore_patterns(*names))
        settings = Settings.load(copy, NO_LIMITS | {"CTX_CACHE_FOLDER": f"{folder}/cache"})
        found = []
        with Engine.open(copy, settings=settings) as witness:
            gate = build_dispatcher(witness)
            for name in ("", *names):
                if name:
                    shutil.copy2(root / name, copy / name)
                witness.index.update()
                replies = {each: gate.call(each.tool, json.loads(each.arguments), tools.Call()).reply for each in asked}
                found.append({q: Told(reply.text, reply.is_error).gist(q.tool) for q, reply in replies.items()})
    return found


# -- the place ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A copy of a repository, a store, two servers, and an indexer that shares what is new."""

    root: Path
    servers: tuple[Server, Server]
    database: OwnPostgres | None
    indexer: Mapping[str, str]  # its environment

    @property
    def is_embedded(self) -> bool:
        return self.indexer["CTX_STORE_URL"] == "embedded"

    def engine(self, cache: Path) -> Engine:
        """One that looks at the same repository with a cache of its own."""
        env = {**self.indexer, "CTX_CACHE_FOLDER": str(cache), "CTX_STORE_SHARES": "false"}
        return Engine.open(self.root, settings=Settings.load(self.root, env))

    def share(self) -> bool:
        """Bring the index up to date, for all. False when that failed."""
        command = [sys.executable, "-m", "context_engine", "index", str(self.root)]
        return subprocess.run(command, env=self.indexer, capture_output=True).returncode == 0

    def wait_until_ready(self) -> None:
        """Until both answer from an index that is fresh. Raises: SystemExit."""
        until = time.monotonic() + 10 * PATIENCE_S
        status = Question("index_status", "{}")
        for server in self.servers:
            while True:
                with suppress(OSError, http.client.HTTPException, ValueError):
                    told = json.loads(Client([server.port]).told(status).text)
                    if told["state"] == "ready" and not told.get("stale"):
                        break
                if time.monotonic() > until:
                    raise SystemExit(f"{server.name} does not come to rest")
                time.sleep(0.2)


@contextmanager
def place(repository: Path, store: str, more: Mapping[str, str] | None = None) -> Generator[Place]:
    """All of it started, and ended again; `more` are further settings."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ctx-load-", ignore_cleanup_errors=True)))
        root = shutil.copytree(repository, folder / "tree", symlinks=True)
        database = None if store else OwnPostgres(Path(stack.enter_context(_elsewhere())))
        env = (
            {name: value for name, value in os.environ.items() if not name.startswith("CTX_")}
            | NO_LIMITS
            | {"CTX_DAEMON": "0"}
        )
        env |= {"HOME": str(folder), "PYTHONPATH": str(ROOT)}
        env |= {"CTX_STORE_URL": database.address if database else store, "CTX_STORE_REPOSITORY": "bench-load"}
        env |= more or {}
        caches = [folder / ("cache" if store == "embedded" else f"cache-{each}") for each in ("one", "two", "indexer")]
        servers = tuple(
            Server(f"server {each + 1}", root, env | {"CTX_CACHE_FOLDER": str(caches[each])}) for each in (0, 1)
        )
        indexer = env | {"CTX_CACHE_FOLDER": str(caches[2]), "CTX_STORE_SHARES": str(store != "embedded").lower()}
        made = Place(root, (servers[0], servers[1]), database, indexer)
        if database:
            stack.callback(database.close)
        if not made.share():
            raise SystemExit("the repository cannot be indexed")
        for server in servers:
            server.start()
            stack.callback(server.kill)
        made.wait_until_ready()
        yield made


@contextmanager
def _elsewhere() -> Generator[str]:
    """A folder that the database's own user may enter."""
    folder = tempfile.mkdtemp(prefix="ctx-pg-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- the load -----------------------------------------------------------------------------------------------------


class Crowd:
    """Clients at work."""

    def __init__(
        self, ports: Sequence[int], asked: Mapping[str, list[Question]], answers: Mapping[Question, str]
    ) -> None:
        self.calls: list[Call] = []
        self.doubted: list[tuple[Call, Question, str]] = []
        self.seconds = 0.0
        self._began = 0.0
        self._ports = ports
        self._asked = asked
        self.answers = answers
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, clients: int, pause_s: float) -> None:
        """All at once, half of them at each server first."""
        self._began = time.monotonic()
        for number in range(clients):
            thread = threading.Thread(target=self._ask, args=(number, pause_s), daemon=True)
            self._threads.append(thread)
            thread.start()

    def end(self) -> None:
        """Each finishes the call that it is in."""
        self._over.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_S)
        self.seconds = time.monotonic() - self._began

    def _ask(self, number: int, pause_s: float) -> None:
        rng = random.Random(number)
        client = Client(self._ports, number)
        self._over.wait(pause_s * rng.random())  # nobody comes in step
        while not self._over.is_set():
            (tool,) = rng.choices(list(MIX), list(MIX.values()))
            question = rng.choice(self._asked[tool])
            call = client.call(question, self._judged)
            self.calls.append(call)
            if call.outcome != RIGHT:
                self.doubted.append((call, question, call.told))
            self._over.wait(pause_s * (0.5 + rng.random()) if pause_s else 0)

    def _judged(self, question: Question, told: Told) -> str:
        return judge(self.answers, question, told)


class Adding:
    """Files that come while all of this goes on: written, then shared by an indexer that tries until it succeeds."""

    def __init__(self, place: Place) -> None:
        self.names: list[str] = []
        self.failed = 0
        self._place = place
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._add, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(10 * PATIENCE_S)

    def _add(self) -> None:
        while not self._over.is_set():
            name = f"zq{len(self.names):03d}kept"
            (self._place.root / f"{name}.py").write_text(f"def {name}():\n    pass\n", encoding="utf-8")
            self.names.append(name)
            while not self._place.share():
                self.failed += 1
                time.sleep(DOWN_S)


def kill_in_turn(parts: Sequence[Part], kills: int, seconds: float) -> Counter[str]:
    """Kill one of them, start it again, wait until it is there, take the next; how often each was hit."""
    hit: Counter[str] = Counter()
    rng = random.Random(9)
    began = time.monotonic()
    for number in range(kills):
        part = parts[number % len(parts)]
        time.sleep(max(0.0, began + seconds * (number + rng.random() / 2) / kills - time.monotonic()))
        part.kill()
        time.sleep(DOWN_S)
        part.start()
        hit[part.name] += 1
        while not part.answers():
            time.sleep(BETWEEN_TRIES_S)
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    return hit


def missing(place: Place, before: frozenset[str], added: Sequence[str]) -> list[str]:
    """Files that somebody lacks: the shared index as a machine sees it that comes now, and both servers."""
    with tempfile.TemporaryDirectory() as cache:
        seen_from = place.indexer["CTX_CACHE_FOLDER"] if place.is_embedded else cache
        with place.engine(Path(seen_from)) as late:
            there = {str(path) for path in late.index.store.files()}
    lost = [f"{path} in the store" for path in sorted((before | {f"{name}.py" for name in added}) - there)]
    for server in place.servers:
        client = Client([server.port])
        for name in added:
            told = client.told(Question("find_symbol", json.dumps({"name": name})))
            lost += [] if f"{name}.py" in told.text else [f"{name}.py at {server.name}"]
    return lost


# -- figures ------------------------------------------------------------------------------------------------------


def figures(calls: Sequence[Call], seconds: float) -> str:
    """A row for each tool and one for all."""
    rows = []
    for name in (*MIX, "all"):
        took = sorted(call.took_ms for call in calls if name in (call.tool, "all") and call.outcome != LOST)
        if took:
            (p50, p95), p99 = p50_p95(took), took[int(len(took) * 0.99)]
            rows.append((name, f"{len(took):,}", f"{len(took) / seconds:.0f}", *(f"{v:.0f}" for v in (p50, p95, p99))))
    return table(("tool", "calls", "a second", "p50 ms", "p95 ms", "p99 ms"), rows)


def summary(calls: Sequence[Call]) -> str:
    """What clients saw."""
    outcomes = Counter(call.outcome for call in calls)
    troubles = Counter(trouble for call in calls for trouble in call.troubles)
    again = [call for call in calls if call.troubles and call.outcome != LOST]
    lines = ["answers: " + ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())]
    if again:
        worst = max(call.took_ms for call in again)
        said = ", ".join(f"{count:,} {trouble}" for trouble, count in troubles.most_common())
        lines.append(f"asked again: {len(again):,} calls, the longest took {worst:,.0f} ms in all ({said})")
    return "\n".join(lines)


def main() -> None:
    """Measure and print; exit code 1 when an answer was wrong or lost, or a file is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a client thinks, on average")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--store", default="", help="embedded, or the address of a database, which is then not killed")
    asked = parser.parse_args()
    with place(asked.repository.resolve(), asked.store) as here:
        with tempfile.TemporaryDirectory() as cache, here.engine(Path(cache)) as engine:
            engine.index.update()
            drawn = questions(engine, random.Random(9))
            before = frozenset(str(path) for path in engine.index.store.files())
        answers = quiet(here.servers, [question for rows in drawn.values() for question in rows])
        crowd = Crowd([server.port for server in here.servers], drawn, answers)
        crowd.start(asked.clients, asked.pause)
        if asked.kills:
            is_sound = under_fire(here, crowd, asked.kills, asked.seconds, before)
        else:
            time.sleep(asked.seconds)
            crowd.end()
            is_sound = True
    print(figures(crowd.calls, crowd.seconds))
    print(summary(crowd.calls))
    for call, question, told in crowd.doubted:
        if call.outcome not in SOUND:
            print(f"{call.outcome}: {question.tool} {question.arguments} -> {told[:300]}")
    sys.exit(0 if is_sound and all(call.outcome in SOUND for call in crowd.calls) else 1)


def under_fire(here: Place, crowd: Crowd, kills: int, seconds: float, before: frozenset[str]) -> bool:
    """Kill, add, and look afterwards at what is there and what was said. False when something is lost or wrong."""
    adding = Adding(here)
    adding.start()
    hit = kill_in_turn([*here.servers, *([here.database] if here.database else [])], kills, seconds)
    crowd.end()
    adding.end()
    here.wait_until_ready()
    lost = missing(here, before, adding.names)
    after = quiet(here.servers, list(crowd.answers))
    moved = {question for question, gist in after.items() if gist != crowd.answers[question]}
    known = states(here.root, adding.names, sorted(moved | {question for _, question, _ in crowd.doubted}, key=repr))
    for call, question, told in crowd.doubted:
        if call.outcome in (WRONG, RESERVED) and any(told == state[question] for state in known):
            call.outcome = LATER
    others = [question for question in known[-1] if known[-1][question] != after[question]]
    print(f"killed in {crowd.seconds:.0f} s: " + ", ".join(f"{name} {count} times" for name, count in hit.items()))
    print(f"added meanwhile: {len(adding.names)} files; the indexer had to try again {adding.failed} times")
    print(f"files lost: {len(lost)} {lost[:5]}")
    print(f"answers afterwards: {len(after)}, of which other than on a machine alone: {len(others)} {others[:5]}")
    return not lost and not others


if __name__ == "__main__":
    main()
