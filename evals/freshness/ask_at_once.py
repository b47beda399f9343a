"""Does an answer ever say that it is fresh and lack the last edit? Writes a new function and asks for it at once.

    python evals/freshness/ask_at_once.py REPOSITORY [REPOSITORY ...] [--rounds 200] [--seed 1] [--show]

Each repository is a folder with code; it is copied first. A round adds a function with a new name to a file, inserts it,
or makes a file, and asks in one of ten ways: three tools of a server, three of a server with a daemon, two commands of
each. The answer shows the line of the definition; or shows the right place without that line; or is not marked fresh;
or is wrongly marked fresh.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

SHOWN, OTHER_LINES, NOT_FRESH, WRONG = "shown", "right place, other lines", "not marked fresh", "wrongly fresh"
TEMPLATES = {
    ".py": "def {name}(amount):\n    total = amount + {number}\n    return total\n",
    ".go": "func {name}(amount int) int {{\n\ttotal := amount + {number}\n\treturn total\n}}\n",
    ".rb": "def {name}(amount)\n  total = amount + {number}\n  total\nend\n",
}
DEFINES = {".py": "def ", ".go": "func ", ".rb": "def "}
VERBS = "collect settle render drain merge fold trim weigh quote seal".split()
NOUNS = "ledger orchard harbor lantern quarry meadow cobalt willow ember basin".split()
SIBLINGS = 40
"""Functions of the file in which names differ only by their numbers."""
BOUNDARY = re.compile(r"\n\n(?=(?:def|class|func|type|module) )")
"""Where a function may begin; not inside a text."""
ROW = re.compile(r"(?P<path>[^\s:]+):(?P<first>\d+)-(?P<last>\d+)(?: of (?P<from>\d+)-(?P<to>\d+))?")

Ask = Callable[[str], str]
"""Asks for a name; returns all that the answer shows."""


class Edit(NamedTuple):
    """A new function: its name, its file and the line of its definition."""

    name: str
    path: str
    line: int
    defines: str


class Server:
    """`ctx serve` over its pipes."""

    def __init__(self, root: Path, env: dict[str, str]) -> None:
        command = [sys.executable, "-m", "context_engine", "serve", "--root", str(root), "--profile", "all"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, env=env, text=True, **pipes)
        self._count = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "eval", "version": "1"}}
        self._ask("initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, argument: str, name: str) -> str:
        """Return the text of a tool's reply."""
        result = self._ask("tools/call", {"name": tool, "arguments": {argument: name}})["result"]
        return "\n".join(block["text"] for block in result["content"])

    def close(self) -> None:
        """End the server by closing its input."""
        self._process.communicate()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdout
        self._count += 1
        self._send({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._count:
                return message
        raise EOFError("the server ended")


def main() -> None:
    """Run the rounds on each repository and print the counts of each way to ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=200, help="of each repository")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every answer that does not show the function")
    asked = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    for repository in asked.repositories:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder, "repository")
            shutil.copytree(repository, root, symlinks=True)
            for way, outcome, edit, text in ask_rounds(root, Path(folder), asked.rounds, random.Random(asked.seed)):
                counts.setdefault(way, Counter())[outcome] += 1
                if outcome != SHOWN and asked.show:
                    print(f"--- {repository.name} {way}: {outcome}: {edit}\n{text}")
    outcomes = (SHOWN, OTHER_LINES, NOT_FRESH, WRONG)
    print("| way | rounds | " + " | ".join(outcomes) + " |\n|---|" + "---|" * (1 + len(outcomes)))
    total = sum(counts.values(), Counter())
    for way, found in [*counts.items(), ("all", total)]:
        print(f"| {way} | {found.total()} | " + " | ".join(str(found[outcome]) for outcome in outcomes) + " |")
    sys.exit(total[WRONG] + total[OTHER_LINES] > 0)


def ask_rounds(root: Path, scratch: Path, rounds: int, chance: random.Random) -> Iterator[tuple[str, str, Edit, str]]:
    """Yield for each round the way it asked, the outcome, the edit and the answer."""
    suffix = Counter(path.suffix for path in root.rglob("*") if path.suffix in TEMPLATES).most_common(1)[0][0]
    files = sorted(path for path in root.rglob(f"*{suffix}") if path.stat().st_size < 50_000)
    siblings = root / f"siblings{suffix}"
    siblings.write_text(
        package_line(files[0]) + "\n".join(TEMPLATES[suffix].format(name=f"later_{n}", number=n) for n in range(40))
    )
    with open_ways(root, scratch) as ways:
        for number in range(rounds):
            way, ask = ways[number % len(ways)]
            edit = write_function(root, files, siblings, number, chance)
            text = ask(edit.name)
            yield way, judge(edit, text), edit, text


@contextmanager
def open_ways(root: Path, scratch: Path) -> Iterator[list[tuple[str, Ask]]]:
    """Index a repository, start its servers, and yield the ways to ask."""
    env = os.environ | {"CTX_CACHE_FOLDER": str(scratch / "cache"), "CTX_DATA_FOLDER": str(scratch / "data")}
    env |= {"XDG_RUNTIME_DIR": str(scratch / "run")}
    (scratch / "run").mkdir(mode=0o700)
    alone, shared = env | {"CTX_DAEMON": "0"}, env | {"CTX_DAEMON": "1"}
    run_command(root, alone, "index")
    ways: list[tuple[str, Ask]] = []
    with ExitStack() as opened:
        opened.callback(run_command, root, shared, "daemon", "stop")
        run_command(root, shared, "daemon", "start")
        for kind, known in (("server", alone), ("daemon", shared)):
            server = Server(root, known)
            opened.callback(server.close)
            for tool, argument in (("search_code", "query"), ("symbols", "name"), ("search_text", "query")):
                ways.append((f"{kind} {tool}", partial(server.call, tool, argument)))
        for kind, known in (("alone", alone), ("daemon", shared)):
            ways += [
                (f"ctx search, {kind}", partial(run_command, root, known, "search")),
                (f"ctx symbol, {kind}", partial(run_command, root, known, "symbol")),
            ]
        yield ways


def run_command(root: Path, env: dict[str, str], *words: str) -> str:
    """Run a command of `ctx` in a repository; return all that it prints."""
    command = [sys.executable, "-m", "context_engine", *words]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def write_function(root: Path, files: Sequence[Path], siblings: Path, number: int, chance: random.Random) -> Edit:
    """Write a function with a new name: at the end of a file, inside one, beside its like, or into a new file."""
    kind = chance.choice(("end", "inside", "siblings", "new"))
    suffix = siblings.suffix
    if kind == "siblings":
        name, file = f"later_{SIBLINGS + number}", siblings
    else:
        name, file = f"{chance.choice(VERBS)}_{chance.choice(NOUNS)}_{number}", chance.choice(files)
    text = file.read_text(encoding="utf-8")
    function = TEMPLATES[suffix].format(name=name, number=number)
    if kind == "new":
        file = file.with_name(f"added_{number}{suffix}")
        text = package_line(chance.choice(files)) + function
    elif kind == "inside" and (boundaries := [match.end() for match in BOUNDARY.finditer(text)]):
        place = chance.choice(boundaries)
        text = f"{text[:place]}{function}\n\n{text[place:]}"
    else:
        text = f"{text.rstrip()}\n\n\n{function}"
    file.write_text(text, encoding="utf-8")
    line = text[: text.index(f"{DEFINES[suffix]}{name}(")].count("\n") + 1
    return Edit(name, file.relative_to(root).as_posix(), line, f"{DEFINES[suffix]}{name}(")


def package_line(file: Path) -> str:
    """Return the line that a Go file begins with; nothing for other languages."""
    if file.suffix != ".go":
        return ""
    return next(line for line in file.read_text().splitlines(keepends=True) if line.startswith("package ")) + "\n"


def judge(edit: Edit, text: str) -> str:
    """Return how an answer deals with an edit.

    >>> edit = Edit("f_1", "a.py", 9, "def f_1(")
    >>> judge(edit, "a.py:9 def f_1(x):"), judge(edit, "lexical · fresh"), judge(edit, "1 file edited since index")
    ('shown', 'wrongly fresh', 'not marked fresh')
    >>> judge(edit, "lexical · fresh @@ a.py:1-3 of 1-12 f_0")
    'right place, other lines'
    """
    if edit.defines in text or f"{edit.path}:{edit.line}-" in text:
        return SHOWN
    if re.search(r"edited since|index building|index is being built", text):
        return NOT_FRESH
    rows = [row for row in ROW.finditer(text) if row["path"] == edit.path]
    if any(int(row["from"] or row["first"]) <= edit.line <= int(row["to"] or row["last"]) for row in rows):
        return OTHER_LINES
    return WRONG


if __name__ == "__main__":
    main()
