"""Fifty repositories on one store that is shared: whether one is seen in the answers of another, and what neighbors cost.

    python bench/tenants.py --tasks FILE --corpus DIR         without --store a PostgreSQL is started on a socket

Each repository is real files under a folder that is named by its mark, a word that stands nowhere else and in no
question: whatever is told of a repository tells its mark. Questions hold its name, its folder and its bait, a word that
only its own files hold, and are put by tokens that see one repository or a few, half of them about one that the token
does not see.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import p50_p95, places, rss_anon_mb, table
from bench.sizes import COMPOUND, SYLLABLES, renamed

FILES = 40
"""Of each repository: a small service."""
FILE_BYTES_MAX = 60_000
FEW = 5
"""Repositories that a token of several sees."""
FEW_TOKENS = 10
CROWD = 4
"""Questions under way at once: what two of them share by mistake would show."""
ROUNDS = 10
"""On a busy machine the p95 of a round is twice that of the next: the median of ten ratios stands still."""
TIMED = 200
PATIENCE_S = 300.0
SEED = 9


@dataclass(frozen=True, slots=True)
class Tenant:
    """One repository: what it is called, the word that gives it away, and the word that others ask for."""

    name: str
    mark: str
    bait: str
    root: Path


@dataclass(frozen=True, slots=True)
class Holder:
    """Who shows a token, and which repositories it may see."""

    token: str
    sees: frozenset[str]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as it is put, and of which repository it is."""

    tool: str
    arguments: dict[str, Any]
    about: str


def word(chance: random.Random, start: str) -> str:
    """A word that no text holds; those of one start are all the same length in syllables."""
    return start + "".join(chance.choice(SYLLABLES) for _ in range(5))


def tenants(at: Path, sources: Sequence[Path], count: int, chance: random.Random) -> list[Tenant]:
    """So many repositories with files of their own: real ones, with other names in each."""
    files = [path for source in sources for path in sorted(source.rglob("*")) if is_text(path)]
    made = []
    for number in range(count):
        name = f"repo{number:02}"
        tenant = Tenant(name, word(chance, "zq"), word(chance, "xj"), at / name)
        texts = {f"{place:02}_{path.name}": path for place, path in enumerate(chance.sample(files, FILES))}
        fill(tenant, {name: renamed(path.read_text("utf-8"), number) for name, path in texts.items()})
        made.append(tenant)
    return made


def is_text(path: Path) -> bool:
    """Whether a file is source that people wrote."""
    if not path.is_file() or path.is_symlink() or path.stat().st_size > FILE_BYTES_MAX:
        return False
    try:
        return COMPOUND.search(path.read_bytes().decode("utf-8")) is not None
    except UnicodeDecodeError:
        return False


def fill(tenant: Tenant, texts: dict[str, str]) -> None:
    """Write the files of a repository, two of them about its bait."""
    mark, bait = tenant.mark, tenant.bait
    own = {
        "README.md": f"# The {bait} service\n\nIt counts each {bait} of {mark}.\n",
        f"{mark}/ledger.py": f'"""Counts each {bait} of {mark}."""\n\n\ndef {bait}_total(rows):\n    """All {bait} of {mark}."""\n    return sum(rows)  # {mark}\n',
    }
    for path, text in (own | {f"{mark}/{name}": text for name, text in texts.items()}).items():
        (tenant.root / path).parent.mkdir(parents=True, exist_ok=True)
        (tenant.root / path).write_text(text, encoding="utf-8", newline="")


def question(holder: Holder, among: Sequence[Tenant], texts: Sequence[str], chance: random.Random) -> Asked:
    """Any question that a holder may put, half of them about what he may not see."""
    hidden = chance.random() < 0.5
    about = chance.choice([each for each in among if (each.name in holder.sees) is not hidden])
    tool, arguments = chance.choice(
        [
            ("codebase_retrieval", {"query": chance.choice(texts)}),
            ("codebase_retrieval", {"query": f"where is {about.bait} counted"}),
            ("search_files", {"query": about.bait}),
            ("search_files", {"query": "return"}),
            ("find_symbol", {"name": f"{about.bait}_total"}),
            ("find_symbol", {"name": "*_total"}),
            ("read_file", {"path": "README.md"}),
            ("read_file", {"path": f"../{about.name}/README.md"}),
            ("read_file", {"path": f"{about.root}/README.md"}),
            ("list_directory", {"path": "."}),
            ("get_context_for_prompt", {"query": f"change how {about.bait} is counted"}),
            ("index_status", {}),
        ]
    )
    named = chance.choice([{}, {"project": about.name}, {"project": str(about.root)}, {"project": "*"}])
    if chance.random() < 0.1:
        return Asked("call_tool", {"name": tool, "arguments": arguments | named}, about.name)
    return Asked(tool, arguments | named, about.name)


# -- the server ---------------------------------------------------------------------------------------------------


def share(each: Tenant, address: str, cache: Path) -> int:
    """Index a repository for all who use the store, as a job beside it does; how many chunks it has."""
    from context_engine.engine import Engine
    from context_engine.settings import Settings

    shared = Settings(
        cache_folder=cache,
        workers=0,
        embedder="static",
        store_url=address,
        store_repository=each.name,
        store_shares=True,
    )
    with Engine.open(each.root, settings=shared) as engine:
        return engine.index.update().chunks


@contextmanager
def serving(roots: Sequence[str], tokens: Path) -> Generator[Any]:
    """What `ctx serve --tokens` puts behind HTTP, over all these repositories: token -> its gate."""
    from context_engine.server import ToolDispatcher, ToolSelection
    from context_engine.server.projects import Projects
    from context_engine.server.server_log import discard_line
    from context_engine.team.shared_server import SharedServer
    from context_engine.team.token_file import Grant, TokenFile

    projects = Projects(roots, log=discard_line, isolated=True)
    gate = ToolDispatcher(
        projects.engine, selection=ToolSelection(profiles=("all",)), project_names=lambda: projects.names
    )
    file = TokenFile(tokens, now=time.time)
    visitors = SharedServer(gate, projects, file)
    owner = Grant("", "owner", "admin", ("*",))
    projects.start()
    try:
        wait_until_ready(projects)
        yield lambda token: visitors.dispatcher((file.find_grant(token) or _none()) if token else owner)
    finally:
        projects.close()


def _none() -> Any:
    raise SystemExit("a token that was just made is not known")


def wait_until_ready(projects: Any) -> None:
    """Until each repository has been compared with its files."""
    until = time.monotonic() + PATIENCE_S
    for name in projects.names:
        engine = projects.engine(name)
        while engine.index.live.is_building or engine.status().state != "ready":
            assert time.monotonic() < until, f"{name} is {engine.status().state}: {engine.status().last_error}"
            time.sleep(0.02)


def call(gate: Any, asked: Asked) -> Any:
    """The outcome of one call."""
    from context_engine.tools import Call

    return gate.call(asked.tool, asked.arguments, Call())


# -- does anything leak? ------------------------------------------------------------------------------------------


def holders(known: Sequence[Tenant], tokens: Path, chance: random.Random) -> list[Holder]:
    """A token for each repository, and some that see a few."""
    from context_engine.team.token_file import TokenFile

    seen = [[each.name] for each in known]
    seen += [sorted(each.name for each in chance.sample(known, min(FEW, len(known) - 1))) for _ in range(FEW_TOKENS)]
    file = TokenFile(tokens, now=time.time)
    return [
        Holder(file.create(f"token{number}", "read", names)[1], frozenset(names)) for number, names in enumerate(seen)
    ]


def told_of(text: str, known: Sequence[Tenant]) -> frozenset[str]:
    """The repositories whose mark stands in an answer."""
    return frozenset(each.name for each in known if each.mark in text)


def leaks(
    door: Any, held: Sequence[Holder], known: Sequence[Tenant], texts: Sequence[str], count: int, chance: random.Random
) -> Counter[str]:
    """Put so many questions, some at once; what came of them.

    Raises: SystemExit when an answer shows what it must not.
    """
    everything = told_of(
        call(door(""), Asked("search_files", {"query": "service", "project": "*"}, "")).reply.text, known
    )
    assert len(everything) > 1, "who may see all must see marks of several, else nothing is shown here"

    def one(put: tuple[Holder, Asked]) -> str:
        holder, asked = put
        outcome = call(door(holder.token), asked)
        told = told_of(outcome.reply.text, known)
        if told - holder.sees:
            raise SystemExit(f"LEAK: {asked} by who sees {sorted(holder.sees)} told of {sorted(told - holder.sees)}")
        if outcome.error:
            return f"refused: {outcome.error.code}"
        return "told of its own" if told else "told of nothing"

    chosen = [chance.choice(held) for _ in range(count)]
    asked = [(holder, question(holder, known, texts, chance)) for holder in chosen]
    about_hidden = sum(each.about not in holder.sees for holder, each in asked)
    with ThreadPoolExecutor(CROWD) as crowd:
        came = Counter(crowd.map(one, asked))
    assert came["told of its own"] > count / 10, f"an answer that tells nothing leaks nothing: {came}"
    return came + Counter({"about one that is hidden": about_hidden})


# -- what do neighbors cost? -------------------------------------------------------------------------------------


def answer(at: Path, count: int) -> None:
    """In a process of its own: a question of the first repository for each number on stdin; milliseconds to stdout.

    Just before it, untimed, a neighbor is asked the same, or the repository itself another question when it has none:
    what is kept of it must outlive that, and both processes come to a question out of work, as the scheduler sees it.
    """
    told = json.loads((at / "bench.json").read_text("utf-8"))
    roots, texts, chance = told["roots"][:count], told["questions"], random.Random(SEED)
    began = time.perf_counter()
    with serving(roots, at / "tokens.json") as door:
        gate = door(told["token"])
        print(json.dumps({"ready_s": time.perf_counter() - began}), flush=True)
        for line in sys.stdin:
            text = texts[int(line)]
            if count > 1:
                other = Path(chance.choice(roots[1:])).name
                call(door(""), Asked("codebase_retrieval", {"query": text, "project": other}, other))
            else:
                call(gate, Asked("codebase_retrieval", {"query": chance.choice(texts)}, ""))
            begun = time.perf_counter()
            outcome = call(gate, Asked("codebase_retrieval", {"query": text}, ""))
            took_ms = (time.perf_counter() - begun) * 1e3
            assert outcome.error is None, outcome.error
            print(json.dumps({"ms": took_ms, "rss_mb": rss_anon_mb()}), flush=True)


def environment(at: Path, address: str, name: str) -> dict[str, str]:
    """That of a server with the store at an address, and with folders of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CTX_", "CLAUDE_"))}
    return kept | {
        "CTX_STORE_URL": address,
        "CTX_CACHE_FOLDER": str(at / f"{name}-cache"),
        "CTX_DATA_FOLDER": str(at / f"{name}-own"),
        "CTX_EMBEDDER": "static",
        "CTX_WORKERS": "0",
        "CTX_RATE_BURST_MINUTES": "0",
    }


class Server:
    """A process that answers one question after the other."""

    def __init__(self, at: Path, address: str, count: int) -> None:
        command = [sys.executable, __file__, "--answer", str(at), "--repositories", str(count)]
        env = environment(at, address, f"of{count}")
        self._process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.rounds: list[list[float]] = []
        self.rss_mb = 0.0
        self.ready_s = self._line()["ready_s"]

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def ask(self, number: int) -> float:
        """Milliseconds that one question took."""
        assert self._process.stdin
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        told = self._line()
        self.rss_mb = told["rss_mb"]
        return told["ms"]

    @property
    def taken(self) -> list[float]:
        """What all questions took, but those of the first round, which warms."""
        return [each for taken in self.rounds[1:] for each in taken]

    def close(self) -> None:
        """Let it end, and wait for that."""
        self._process.communicate()


def neighbours(at: Path, alone: str, among: str, count: int, questions: int) -> tuple[Server, Server]:
    """The same repository by itself and among the others: each question of both in turn, so that a busy moment hits both."""
    servers, chance = (Server(at, alone, 1), Server(at, among, count)), random.Random(SEED)
    for _ in range(1 + ROUNDS):
        for each in servers:
            each.rounds.append([])
        for number in range(questions):
            for each in chance.sample(servers, 2):
                each.rounds[-1].append(each.ask(number))
    for each in servers:
        each.close()
    return servers


def connections(address: str) -> int:
    """How many processes the database holds for those who are connected."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").fetchone()
    return int(row[0]) - 1 if row else 0


def report(alone: Server, among: Server, count: int) -> str:
    """The table of what neighbors cost."""
    (one_p50, one_p95), (all_p50, all_p95) = p50_p95(alone.taken), p50_p95(among.taken)
    ratios = sorted(p50_p95(b)[1] / p50_p95(a)[1] for a, b in zip(alone.rounds[1:], among.rounds[1:], strict=True))
    return table(
        (f"one repository, {len(alone.taken):,} questions", "alone", f"among {count}", "ratio"),
        [
            ("a question, p50 (ms)", f"{one_p50:.1f}", f"{all_p50:.1f}", f"{all_p50 / one_p50:.2f}"),
            ("a question, p95 (ms)", f"{one_p95:.1f}", f"{all_p95:.1f}", f"{all_p95 / one_p95:.2f}"),
            (f"... of each of {len(ratios)} rounds: median, range", "", "", _spread(ratios)),
            ("start until all are fetched and compared (s)", f"{alone.ready_s:.1f}", f"{among.ready_s:.1f}", ""),
            ("anonymous memory of the server (MB)", f"{alone.rss_mb:.0f}", f"{among.rss_mb:.0f}", ""),
        ],
    )


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}"


def main() -> None:
    """Parse; share the repositories; ask across tokens; compare with one alone; print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--repositories", type=int, default=50)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--store", default="", help="the address of an empty database")
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.answer:
        answer(chosen.answer, chosen.repositories)
        return
    found = places(chosen.tasks, chosen.corpus)
    with tempfile.TemporaryDirectory(prefix="ctx-tenants-") as name:
        measured(Path(name).resolve(), found, chosen)


def measured(at: Path, found: Sequence[Any], chosen: argparse.Namespace) -> None:
    """The whole of it, in one folder."""
    from tests.support.databases import new_database

    chance = random.Random(SEED)
    known = tenants(at / "trees", [place.folder.resolve() for place in found], chosen.repositories, chance)
    texts = [text for place in found for text in place.questions]
    among, alone = chosen.store or new_database(), new_database()
    began = time.perf_counter()
    chunks = sum(share(each, among, at / "job-cache") for each in known)
    print(f"{len(known)} repositories, {chunks:,} chunks, shared in {time.perf_counter() - began:.0f} s", flush=True)
    share(known[0], alone, at / "job-alone-cache")
    held = holders(known, at / "tokens.json", chance)
    roots = [str(each.root) for each in known]
    questions = chance.sample(texts, min(TIMED, len(texts)))
    told = {"roots": roots, "token": held[0].token, "questions": questions}
    (at / "bench.json").write_text(json.dumps(told), "utf-8")
    os.environ.update(environment(at, among, "leaks"))
    with serving(roots, at / "tokens.json") as door:
        began = time.perf_counter()
        came = leaks(door, held, known, texts, chosen.queries, chance)
        took_s = time.perf_counter() - began
        print(
            f"{chosen.queries:,} questions by {len(held)} tokens in {took_s:.0f} s, {CROWD} at once: 0 leaks; ", end=""
        )
        print("; ".join(f"{count:,} {what}" for what, count in came.most_common()), flush=True)
        print(f"{connections(among)} connections to the database\n", flush=True)
    print(report(*neighbours(at, alone, among, len(known), len(questions)), len(known)))


if __name__ == "__main__":
    main()
