"""What the product reaches: each program that it starts and each address that it connects to, with the reason.

    python scripts/reach.py     print both tables, and what the source does that they do not list; exit 1 then

The tables are for docs/security.md: a cog block there prints `docs.programs()` and `docs.addresses()`. Each row names the
place in the source that does it; `unlisted` reads the syntax tree of every module, so that a new place without a row
fails a test.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "context_engine"


@dataclass(frozen=True)
class Reach:
    """One thing that is reached. `place` is a file of the package and the function in it that does it."""

    place: str
    what: str
    when: str
    how: str


PROGRAMS = (
    Reach(
        "daemon/daemon_client.py:start_daemon",
        "the Python that runs us",
        "a query command or a stdio server that finds no daemon, unless CTX_DAEMON=0",
        "`-P -m context_engine daemon run`, without the variables of the client's own options; one at a time, by a lock",
    ),
    Reach(
        "daemon/daemon_client.py:leave_client",
        "the daemon itself, forked",
        "a client starts it",
        "leaves the terminal and the folder of its client",
    ),
    Reach(
        "repo/git.py:Git.start",
        "`git`",
        "history, blame, diffs, ignore settings, the origin's name; clones that `ctx workspace` was told to make",
        "repository and work tree named by us; hooks, filters, fsmonitor, external diff, textconv, pager, gpg, submodules off;"
        " other machines only for clones, by https, ssh or file",
    ),
    Reach(
        "repo/ripgrep.py:_run_process",
        "`rg`",
        "a text search",
        "files named one by one, no settings file, no shell, ended after its time",
    ),
    Reach(
        "review/analyzers.py:_Analysis._run_program",
        "`ruff`, `typos`; `eslint`, `go`, `tsc`, `cargo` only where the user's CTX_REVIEW_PROGRAMS names them",
        "a review with analyzers; of these `ruff` for `execute_plan` with verify=lint",
        "over copies in a folder of their own, few variables, no tokens, no network asked for, ended after its time;"
        " `ruff` and `typos` without any settings, and of a failure only its class is quoted",
    ),
    Reach(
        "plans/plan_execution.py:ChangeVerifier._run_command",
        "the commands of the user's CTX_VERIFY_COMMANDS",
        "`execute_plan` with verify=tests",
        "run the code of the project, which is what the user allowed; no variables that are named like secrets;"
        " of their output only counts, places in the workspace and classes of errors are quoted",
    ),
    Reach(
        "repo/subprocess_runner.py:run_program",
        "the four above",
        "see there",
        "the one function that starts them: no shell, a PATH without relative folders, all that they start ends with them",
    ),
    Reach(
        "index/worker.py:WorkerProcess.__init__",
        "the Python that runs us",
        "indexing on several cores",
        "`-P -m context_engine.index.worker`: modules never come from the current folder",
    ),
    Reach(
        "cli/doctor.py:programs",
        "`git --version`",
        "`ctx doctor`",
        "found as everywhere",
    ),
    Reach(
        "cli/doctor.py:server",
        "`ctx serve`",
        "`ctx doctor`",
        "this very program, in a folder of its own",
    ),
    Reach(
        "cli/ui_command.py:_open_browser",
        "the browser of the user",
        "`ctx ui`, unless `--no-open`",
        "by Python's `webbrowser`, with an address on 127.0.0.1 that leads to the page once",
    ),
    Reach(
        "server/shutdown.py:_read_ps",
        "`ps`",
        "a server that has no `/proc`",
        "/bin/ps or /usr/bin/ps, one number",
    ),
)
"""Each place that starts a program. Which are found where: `executables.py`."""

ADDRESSES = (
    Reach(
        "daemon/daemon_server.py:DaemonServer._listen",
        "listens on a Unix socket in the user's runtime folder",
        "a query command or a stdio server, unless CTX_DAEMON=0",
        "folder of mode 0700 that belongs to the user and is not a link; the other side must be the user's process; bounds"
        " on connections, sizes and times",
    ),
    Reach(
        "server/connections.py:bind_socket",
        "listens on 127.0.0.1, or with `ctx serve --http` where the user says",
        "`ctx serve --http`, `ctx ui`",
        "asks for a token, unless `ctx serve --no-token` leaves it out on this machine; every path of `ctx ui` begins with a random token",
    ),
    Reach(
        "embedding/http_endpoint.py:Endpoint.open_client",
        "the endpoint of an embedding or language model that the user named",
        "CTX_EMBEDDER or CTX_ASSIST names one",
        "no redirects; what is sent passes the secret mask",
    ),
    Reach(
        "team/postgres_session.py:_connect",
        "the PostgreSQL that the user named",
        "CTX_STORE_URL names one",
        "the driver's own TLS settings, from the address",
    ),
    Reach(
        "team/qdrant_session.py:QdrantSession._open",
        "the Qdrant that the user named",
        "CTX_STORE_URL names one",
        "the key goes in a header",
    ),
    Reach(
        "server/connections.py:bind_socket",
        "the name service of this machine, for the address to listen on",
        "`ctx serve --http` with a name",
        "nothing else is looked up",
    ),
    Reach(
        "repo/git.py:Git.start",
        "the address of a repository (by git)",
        "`ctx workspace add ADDRESS`, `ctx workspace update`",
        "https, ssh and file only",
    ),
)
"""Each address that is connected to or listened on. By default none of them."""
BY_PROGRAMS = frozenset({"repo/git.py:Git.start"})
"""Places whose program connects, not we."""

STARTERS = frozenset(
    {
        *(f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output", "getoutput")),
        *("subprocess.getstatusoutput", "os.system", "os.popen", "os.startfile", "os.fork", "os.forkpty"),
        *("pty.spawn", "pty.fork", "webbrowser.open", "asyncio.create_subprocess_exec"),
        "context_engine.repo.run_program",
        "context_engine.repo.subprocess_runner.run_program",
        *("asyncio.create_subprocess_shell", "anyio.run_process", "anyio.open_process"),
    }
)
STARTING_PREFIXES = ("os.exec", "os.spawn", "os.posix_spawn", "multiprocessing.")
STARTING_NAMES = frozenset({"ProcessPoolExecutor"})
CONNECTORS = frozenset(
    {
        *("socket.socket", "socket.create_connection", "socket.create_server", "socket.getaddrinfo"),
        *("httpx2.Client", "httpx2.AsyncClient", "httpx2.get", "httpx2.post", "httpx2.request", "httpx2.stream"),
        *("psycopg.connect", "psycopg.AsyncConnection.connect", "asyncio.open_connection", "asyncio.start_server"),
    }
)
CONNECTING_PREFIXES = (
    "urllib.request.urlopen",
    "urllib.request.build_opener",
    "http.client.",
    "smtplib.",
    "ftplib.",
    "requests.",
    "aiohttp.",
    "grpc.",
)
CONNECTING_NAMES = frozenset({"QdrantClient", "AsyncQdrantClient", "OTLPSpanExporter", "urlopen", "HTTPSConnection"})


def starts(called: str) -> bool:
    """Whether a call of that dotted name starts a program."""
    return called in STARTERS or called.startswith(STARTING_PREFIXES) or called.rpartition(".")[2] in STARTING_NAMES


def connects(called: str) -> bool:
    """Whether a call of that dotted name opens a connection or a listening socket."""
    name = called.rpartition(".")[2]
    return called in CONNECTORS or called.startswith(CONNECTING_PREFIXES) or name in CONNECTING_NAMES


def sites(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each call of a module: the function that it is in, and the dotted name that is called, as it was imported."""
    names = dict(_imported(tree))
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            first, dot, rest = called.partition(".")
            yield inside, names.get(first, f"local.{first}") + dot + rest
        for child in ast.iter_child_nodes(node):
            is_named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            waiting.append((child, f"{inside}.{child.name}".lstrip(".") if is_named else inside))


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """A name in the module and what it stands for, so that `from subprocess import run as go` is seen."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                yield each.asname or top, each.name if each.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def read_trees() -> dict[str, ast.Module]:
    """The syntax tree of every module, by its path below the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def found(trees: Mapping[str, ast.Module]) -> tuple[frozenset[str], frozenset[str]]:
    """The places in the source that start programs, and those that connect."""
    programs: set[str] = set()
    addresses: set[str] = set()
    for file, tree in trees.items():
        for inside, called in sites(tree):
            if starts(called):
                programs.add(f"{file}:{inside}")
            if connects(called):
                addresses.add(f"{file}:{inside}")
    return frozenset(programs), frozenset(addresses)


def problems(trees: Mapping[str, ast.Module]) -> list[str]:
    """What the tables do not list, and what they list that is not there."""
    programs, addresses = found(trees)
    return [
        *_differences("starts a program", programs, {row.place for row in PROGRAMS}),
        *_differences("connects", addresses, {row.place for row in ADDRESSES} - BY_PROGRAMS),
    ]


def _differences(does: str, real: Iterable[str], listed: Iterable[str]) -> Iterator[str]:
    real, listed = set(real), set(listed)
    for place in sorted(real - listed):
        yield f"{place} {does}, and scripts/reach.py has no row for it"
    for place in sorted(listed - real):
        yield f"{place} is listed in scripts/reach.py, and nothing there {does}"


def rows(table: Iterable[Reach]) -> list[tuple[str, str, str, str]]:
    """The rows of a table in Markdown."""
    return [(row.what, row.when, row.how, f"`{row.place.partition(':')[0]}`") for row in table]


def main() -> int:
    """Print both tables and the problems; the exit code."""
    for table in (PROGRAMS, ADDRESSES):
        for row in rows(table):
            print(" | ".join(row))
        print()
    wrong = problems(read_trees())
    print("\n".join(wrong) or "the source does nothing else")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
