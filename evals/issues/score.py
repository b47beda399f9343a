"""From an issue to the file and the function that were changed: C++ issues and commits with answers written down by others.

    python evals/issues/score.py --locks multiswe.lock cppbench.lock --mirrors DIR --trees DIR
    python evals/issues/score.py ... --system search --save answers.jsonl       one system; ranks to look at

The locks are `bench/multiswe/dataset.lock` and `bench/cppbench/dataset.lock` of github.com/redhat-et/ripwire. DIR of
mirrors has the bare repositories; each tree is checked out and indexed once, below DIR of trees.

A file ranks where the first of its rows does; a function where the first row does whose lines overlap it, in the order of
the overlap inside a row. *all@k*: every expected one is among the first k; *any@k*: one of them is. Expected files that the
tree does not have are left out, and so are expected functions that our parser does not find in their file (the locks
took them from the headings of hunks: macros, types and the function before). A task without expected ones is not
counted. What a tool refuses finds nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.languages import Grammars, Languages, outline_file
from context_engine.storage import user_cache_folder
from evals.places.adapter import Reply, System
from evals.places.prepare import folder_of, prepare
from evals.places.score import SYSTEMS as PLACE_SYSTEMS
from evals.places.score import open_system
from evals.places.shown import Place
from evals.places.windows import Document, document, rank, source_files

FUNCTIONS = frozenset({"function", "method", "constructor"})
KS = (1, 5, 10)
TOKENS = 20_000
"""For fifty rows and more: ranks count here, not tokens."""
SYSTEMS = (*PLACE_SYSTEMS, "files", "functions")
"""The last two are BM25 over whole files and over functions."""


class Answer(NamedTuple):
    """Where the expected files and functions of a task rank in an answer, from 1; 0 where they do not."""

    system: str
    task: str
    data: str
    files: tuple[int, ...]
    functions: tuple[int, ...]


# -- tasks ------------------------------------------------------------------------------------------------------------


def read_lock(file: Path) -> list[dict[str, Any]]:
    """Return the tasks of either lock, as evals/places/prepare.py takes them."""
    lock = json.loads(file.read_text(encoding="utf-8"))
    rows = lock["instances_by_lang"]["cpp"] if "instances_by_lang" in lock else lock["instances"]
    own = lock.get("source_repo", "").removeprefix("https://github.com/")
    tasks = []
    for row in rows:
        repo = own or f"{row['org']}/{row['repo']}"
        tasks.append(
            {
                "id": f"{repo}@{row['number'] if 'number' in row else row['sha'][:10]}",
                "repo": repo,
                "data": lock["schema"].split("-")[1],
                "parent": row["base_sha"] if "base_sha" in row else row["parent"],
                "query": row["query"],
                "files": row["gold_files"],
                "functions": [[function["file"], function["name"]] for function in row["gold_funcs"]],
            }
        )
    return tasks


class Function(NamedTuple):
    """A function that is defined in a file."""

    name: str
    first: int
    last: int


def functions_in(tree: Path, path: str) -> tuple[Function, ...]:
    """Return the functions that a file defines."""
    try:
        return _parse(path, (tree / path).read_bytes())
    except OSError:
        return ()


@lru_cache(50_000)
def _parse(path: str, data: bytes) -> tuple[Function, ...]:
    languages, grammars = _parsers()
    language = languages.detect(path, data)
    if language is None or language.content != "code":
        return ()
    symbols = outline_file(language, data, grammars).symbols
    return tuple(Function(one.name, one.first, one.last) for one in symbols if one.kind in FUNCTIONS)


@lru_cache(1)
def _parsers() -> tuple[Languages, Grammars]:
    return Languages.builtin(), Grammars(user_cache_folder() / "grammars")


# -- ranks ------------------------------------------------------------------------------------------------------------


def rank_functions(places: Iterable[Place], tree: Path, limit: int) -> list[tuple[str, str]]:
    """Return the first (path, function) that places show, each once."""
    found: dict[tuple[str, str], None] = {}
    for place in places:
        overlaps = [
            (min(place.last, one.last) - max(place.first, one.first) + 1, one) for one in functions_in(tree, place.path)
        ]
        for _, one in sorted((pair for pair in overlaps if pair[0] > 0), key=lambda pair: -pair[0]):
            found.setdefault((place.path, one.name))
        if len(found) >= limit:
            break
    return list(found)[:limit]


def rank_of(expected: Sequence[Any], found: Sequence[Any]) -> tuple[int, ...]:
    """Return the rank of each expected one, 0 where it is not found.

    >>> rank_of(["b", "x"], ["a", "b"])
    (2, 0)
    """
    return tuple(found.index(one) + 1 if one in found else 0 for one in expected)


def score_answer(system: str, task: dict[str, Any], tree: Path, reply: Reply) -> Answer:
    """Return the ranks of what a task expects."""
    files = [path for path in dict.fromkeys(task["files"]) if (tree / path).is_file()]
    defined = {path: {one.name for one in functions_in(tree, path)} for path, _ in task["functions"]}
    functions = list(dict.fromkeys((path, name) for path, name in task["functions"] if name in defined[path]))
    shown_files = list(dict.fromkeys(place.path for place in reply.shown))
    shown_functions = rank_functions(reply.shown, tree, max(KS)) if system != "files" else []
    return Answer(system, task["id"], task["data"], rank_of(files, shown_files), rank_of(functions, shown_functions))


# -- systems ----------------------------------------------------------------------------------------------------------


def _whole_files(root: Path) -> list[Document]:
    return [document(Place(path, 1, len(lines)), "\n".join(lines)) for path, lines in source_files(root)]


def _functions(root: Path) -> list[Document]:
    return [
        document(Place(path, one.first, one.last), f"{one.name}\n" + "\n".join(lines[one.first - 1 : one.last]))
        for path, lines in source_files(root)
        for one in functions_in(root, path)
    ]


@contextmanager
def open_any(name: str) -> Iterator[System]:
    """Yield one of `SYSTEMS`."""
    if name in PLACE_SYSTEMS:
        with open_system(name) as system:
            yield system
    else:
        documents_of = _whole_files if name == "files" else _functions

        def ask(root: Path, query: str, _: int) -> Reply:
            return Reply([one.place for one in rank(documents_of(root), query)], "", 0)

        yield ask


def ask_all(name: str, tasks: Iterable[dict[str, Any]], trees: Path) -> Iterator[Answer]:
    """Yield what a system answers to every task; what it refuses is printed."""
    with open_any(name) as system:
        for task in tasks:
            tree = folder_of(trees, task) / "tree"
            try:
                reply = system(tree, task["query"], TOKENS)
            except Exception as error:  # noqa: BLE001 - one refusal must not end a run; it is printed
                print(f"{name}, {task['id']}: {type(error).__name__}: {error}", file=sys.stderr)
                reply = Reply([], "", 0)
            yield score_answer(name, task, tree, reply)


# -- printing ---------------------------------------------------------------------------------------------------------


def within(ranks: Sequence[int], k: int) -> tuple[bool, bool]:
    """Return whether all, and whether any, of the expected ones rank within k.

    >>> within((2, 0), 5), within((2, 5), 5), within((6,), 5)
    ((False, True), (True, True), (False, False))
    """
    hits = [0 < rank <= k for rank in ranks]
    return all(hits), any(hits)


def figures(answers: Sequence[Answer], field: str, k: int) -> str:
    """Return `all / any` as shares of the answers that expect something."""
    counted = [within(getattr(answer, field), k) for answer in answers if getattr(answer, field)]
    if not counted:
        return "-"
    every, some = (statistics.mean(column) for column in zip(*counted, strict=True))
    return f"{every:.3f} / {some:.3f}"


def table(answers: Sequence[Answer]) -> str:
    """Return a row for each system and set, and for both sets together."""
    columns = [("files", k) for k in KS] + [("functions", k) for k in KS[1:]]
    head = " | ".join(f"{field} @{k}" for field, k in columns)
    lines = [f"| all / any | set | tasks | {head} |", "| --- " * (len(columns) + 3) + "|"]
    for system in dict.fromkeys(answer.system for answer in answers):
        own = [answer for answer in answers if answer.system == system]
        sets = {"both": own} | {name: [a for a in own if a.data == name] for name in sorted({a.data for a in own})}
        for name, some in sets.items():
            cells = " | ".join(figures(some, field, k) for field, k in columns)
            counts = "/".join(
                str(sum(bool(getattr(answer, field)) for answer in some)) for field in ("files", "functions")
            )
            lines.append(f"| {system} | {name} | {counts} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Parse, prepare, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locks", type=Path, nargs="+", required=True)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="may be repeated; default: search")
    parser.add_argument("--every", type=int, default=1, help="only each n-th task")
    parser.add_argument("--save", type=Path, help="write the ranks to this file, a task a line, as they come")
    chosen = parser.parse_args()
    trees = chosen.trees.resolve()
    tasks = [task for lock in chosen.locks for task in read_lock(lock)][:: chosen.every]
    prepare(tasks, chosen.mirrors.resolve(), trees)
    began = time.perf_counter()
    ready = [task for task in tasks if (folder_of(trees, task) / "task.json").is_file()]
    answers: list[Answer] = []
    if chosen.save:
        chosen.save.unlink(missing_ok=True)
    for name in chosen.system or ["search"]:
        for answer in ask_all(name, ready, trees):
            answers.append(answer)
            if chosen.save:
                with chosen.save.open("a", encoding="utf-8") as out:
                    out.write(f"{json.dumps(answer)}\n")
    print(f"{table(answers)}\n\n{len(ready)} of {len(tasks)} tasks, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
