"""Does what a tool shows hold the lines that a task changes, and at what cost in tokens? Asked of prepared trees.

    python evals/places/score.py --trees DIR                              the context tool, search and two baselines
    python evals/places/score.py --trees DIR --system context --by-repo   one of them, with a row for each repository
    python evals/places/score.py --trees DIR --every 4 --save rows.jsonl   every fourth task; rows to compare later
    python evals/places/score.py --trees DIR --against rows.jsonl          how each figure moved, and which tasks
    python evals/places/score.py --trees DIR --system context --law        a stated budget beside the default reply, cut
    python evals/places/score.py --trees DIR --system search --calibration [--subjects]    are chances the shares that are right?

DIR holds a folder a task with `task.json` (id, repo, query, hunks), `tree`, the work tree before the change, and `cache`
with its index; an index that is missing or of another version is made first. `hunks` is the share of changed hunks
that are shown (3 lines of grace), `files` that of changed files, `first` the share of tasks in which the first place
shown touches a hunk, `near` that of shown lines within 20 lines of a hunk. A budget buys 4 characters a token; of a longer
reply only the lines it pays for count. Means are over tasks; those over repositories count each repository the same.
`--subjects` asks the first line of each message.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.places.adapter import CHARS_PER_TOKEN, TOOLS, Reply, System, ToolSystem, cut
from evals.places.ripgrep_words import ask_ripgrep
from evals.places.shown import Place
from evals.places.windows import ask_windows
from evals.scratch_engine import open_indexed

BUDGETS = (1_000, 2_000, 4_000, 8_000)
GRACE_LINES = 3
NEAR_LINES = 20
FIGURES = ("hunks", "files", "first", "near")
SYSTEMS = (*TOOLS, "windows", "ripgrep", "semble")
Hunks = dict[str, list[tuple[int, int]]]


class Task(NamedTuple):
    """A change: what its message says, and the hunks of source files that it changed."""

    id: str
    repository: str
    query: str
    hunks: Hunks
    tree: Path


class Row(NamedTuple):
    """The figures of one reply."""

    system: str
    task: str
    repository: str
    budget: int
    hunks: float
    files: float
    first: float
    near: float
    tokens: float
    ms: float


def read_tasks(folder: Path, every: int) -> list[Task]:
    """Return the tasks of a folder of prepared trees; with `every`, each n-th."""
    found = []
    for file in sorted(folder.glob("*/task.json"))[::every]:
        task = json.loads(file.read_text(encoding="utf-8"))
        found.append(Task(task["id"], task["repo"], task["query"], task["hunks"], file.parent / "tree"))
    return found


# -- what a reply is worth --------------------------------------------------------------------------------------------


def pay(shown: Sequence[Place], text: str, budget: int, lines_of: Callable[[str], Sequence[str]]) -> list[Place]:
    """Return the places that a budget pays for: all of a reply that keeps it, else lines until it is used up.

    >>> pay([Place("a", 1, 2), Place("a", 4, 4)], "x" * 99, 2, lambda path: ["one", "two", "three", "4"])
    [Place(path='a', first=1, last=2)]
    """
    room, kept = CHARS_PER_TOKEN * budget, []
    if len(text) <= room:
        return list(shown)
    for place in shown:
        for number, line in enumerate(lines_of(place.path)[place.first - 1 : place.last]):
            room -= len(line) + 1
            if room < 0:
                return kept + ([place._replace(last=place.first + number - 1)] if number else [])
        kept.append(place)
    return kept


def score_places(hunks: Hunks, shown: Sequence[Place]) -> dict[str, float]:
    """Return the figures of what is shown.

    >>> score_places({"a": [(5, 6), (90, 90)], "b": [(1, 1)]}, [Place("a", 8, 11)])
    {'hunks': 0.3333333333333333, 'files': 0.5, 'first': 1.0, 'near': 1.0}
    """
    wanted = [(path, first, last) for path, spans in hunks.items() for first, last in spans]
    hits = [any(_touches(place, hunk) for place in shown) for hunk in wanted]
    paths = {place.path for place in shown}
    lines = near = 0
    for place in shown:
        around = [(first - NEAR_LINES, last + NEAR_LINES) for path, first, last in wanted if path == place.path]
        numbers = range(place.first, place.last + 1)
        lines += len(numbers)
        near += sum(any(first <= number <= last for first, last in around) for number in numbers)
    return {
        "hunks": statistics.mean(hits),
        "files": statistics.mean(path in paths for path in hunks),
        "first": float(bool(shown) and any(_touches(shown[0], hunk) for hunk in wanted)),
        "near": near / lines if lines else 0.0,
    }


def _touches(place: Place, hunk: tuple[str, int, int], grace: int = GRACE_LINES) -> bool:
    path, first, last = hunk
    return place.path == path and place.first <= last + grace and first - grace <= place.last


# -- asking -----------------------------------------------------------------------------------------------------------


@contextmanager
def open_system(name: str) -> Iterator[System]:
    """Yield one of `SYSTEMS`; the tools have their index next to the tree."""
    if name == "windows":
        yield ask_windows
    elif name == "ripgrep":
        yield ask_ripgrep
    elif name == "semble":
        from evals.places.semble_words import ask_semble  # the extra `bench`

        yield ask_semble
    else:
        with closing(ToolSystem(name, lambda root: root.parent / "cache")) as system:
            yield system


def ask_all(name: str, system: System, tasks: Iterable[Task], budgets: Sequence[int]) -> Iterator[Row]:
    """Yield what a system shows for every task within every budget; what it refuses shows nothing and is printed."""
    for task in tasks:
        for budget in budgets:
            try:
                reply = system(task.tree, task.query, budget)
            except Exception as error:  # noqa: BLE001 - one refusal must not end a run; it is printed
                print(f"{name}, {task.id}, {budget}: {type(error).__name__}: {error}", file=sys.stderr)
                reply = Reply([], "", 0)
            paid = pay(reply.shown, reply.text, budget, lambda path, task=task: _lines(task.tree / path))
            figures = score_places(task.hunks, paid)
            tokens = len(reply.text) / CHARS_PER_TOKEN
            yield Row(name, task.id, task.repository, budget, **figures, tokens=tokens, ms=reply.ms)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []


# -- printing ---------------------------------------------------------------------------------------------------------


def group(rows: Iterable[Row], key: str) -> dict[Any, list[Row]]:
    """Return rows by one of their fields, in the order of first sight."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(getattr(row, key), []).append(row)
    return found


def mean(rows: Iterable[Row], figure: str) -> float:
    """Return the mean of a figure over rows."""
    return statistics.mean(getattr(row, figure) for row in rows)


def mean_of_repositories(rows: Iterable[Row], figure: str) -> float:
    """Return the mean of a figure over repositories."""
    return statistics.mean(mean(some, figure) for some in group(rows, "repository").values())


def read_rows(file: Path) -> list[Row]:
    """Return the rows that an earlier run saved."""
    return [Row(*json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def summary(rows: list[Row]) -> str:
    """Return the table of all systems: a row for each system and budget, `over repositories` in brackets."""
    lines = ["| system | budget | hunks | files | first | near | tokens | p50 ms |", "| --- " * 8 + "|"]
    for system, of_system in group(rows, "system").items():
        for budget, some in group(of_system, "budget").items():
            figures = [f"{mean(some, name):.3f} ({mean_of_repositories(some, name):.3f})" for name in FIGURES]
            ms = statistics.median(row.ms for row in some)
            lines.append(f"| {system} | {budget} | {' | '.join(figures)} | {mean(some, 'tokens'):.0f} | {ms:.0f} |")
    return "\n".join(lines)


def by_repository(rows: list[Row]) -> str:
    """Return hunks by repository, system and budget."""
    columns = list(dict.fromkeys((row.system, row.budget) for row in rows))
    lines = [f"| hunks | tasks | {' | '.join(f'{system} {budget}' for system, budget in columns)} |"]
    lines.append("| --- " * (len(columns) + 2) + "|")
    for repository, some in sorted(group(rows, "repository").items()):
        cells = [[row for row in some if (row.system, row.budget) == column] for column in columns]
        figures = " | ".join(f"{mean(cell, 'hunks'):.2f}" for cell in cells)
        lines.append(f"| {repository} | {len(cells[0])} | {figures} |")
    return "\n".join(lines)


def moves(rows: list[Row], before: list[Row]) -> str:
    """Return how hunks moved for each system and budget, and the tasks that moved most."""
    old = {row[:4]: row for row in before}
    moved = [(row, row.hunks - old[row[:4]].hunks) for row in rows if row[:4] in old]
    lines = []
    for system, budget in dict.fromkeys((row.system, row.budget) for row, _ in moved):
        some = [(row, by) for row, by in moved if (row.system, row.budget) == (system, budget)]
        better, worse = sum(by > 0 for _, by in some), sum(by < 0 for _, by in some)
        total = statistics.mean(by for _, by in some)
        lines.append(f"{system} {budget}: hunks {total:+.3f}, {better} tasks better, {worse} worse")
        lines += [f"  {by:+.2f} {row.task}" for row, by in sorted(some, key=lambda one: one[1])[:5] if by < 0]
    return "\n".join(lines)


def law(name: str, system: System, tasks: Sequence[Task], rows: Sequence[Row]) -> str:
    """Return what the beginning of the default reply shows, what a stated budget does, and how much of it is used.

    A budget counts as used in full where the greatest one brings no longer reply: there is nothing more to show.
    """
    lines = ["| system | budget | hunks, default cut | stated | worse | used | least | below .95 |", "| --- " * 8 + "|"]
    stated = {(row.task, row.budget): row for row in rows if row.system == name}
    whole = {task.id: system(task.tree, task.query, 0) for task in tasks}
    greatest = max(row.budget for row in rows)
    for budget in dict.fromkeys(row.budget for row in rows):
        by_default = [score_places(one.hunks, cut(whole[one.id], name, budget).shown)["hunks"] for one in tasks]
        some = [stated[one.id, budget] for one in tasks]
        worse = sum(row.hunks < before for row, before in zip(some, by_default, strict=True))
        used = [row.tokens / budget for row in some if stated[row.task, greatest].tokens > budget]
        shares = f"{statistics.mean(used or [1]):.3f} | {min(used, default=1):.3f} | {sum(one < 0.95 for one in used)}"
        before = statistics.mean(by_default)
        lines.append(f"| {name} | {budget} | {before:.3f} | {mean(some, 'hunks'):.3f} | {worse} | {shares} |")
    return "\n".join(lines)


def calibration(name: str, tasks: Sequence[Task]) -> str:
    """Return by tenths of their chance how many hits the default replies show, and which share of them is changed.

    A hit is shown if one of its lines is. The expected calibration error is the mean distance of chance and share.
    """
    tenths: list[list[tuple[float, bool]]] = [[] for _ in range(10)]
    for task in tasks:
        with closing(open_indexed(task.tree, task.tree.parent / "cache")) as engine:
            with patch.object(engine.search, "find", wraps=engine.search.find) as find:
                shown = TOOLS[name](engine, task.query).shown
            answer = engine.search.find(find.call_args_list[0].args[0])
        hunks = [(path, first, last) for path, spans in task.hunks.items() for first, last in spans]
        for hit in answer.hits:
            place = Place(hit.chunk.path, hit.chunk.span.first, hit.chunk.span.last)
            if any(_touches(place, one, 0) for one in shown):
                is_changed = any(_touches(place, hunk, 0) for hunk in hunks)
                tenths[min(9, int(10 * hit.chance))].append((hit.chance, is_changed))
    lines, error = [f"| {name} | hits | mean chance | changed |", "| --- " * 4 + "|"], 0.0
    for number, tenth in enumerate(tenths):
        if tenth:
            chance, share = map(statistics.mean, zip(*tenth, strict=True))
            error += len(tenth) * abs(chance - share)
            lines.append(f"| from 0.{number} | {len(tenth)} | {chance:.3f} | {share:.3f} |")
    return "\n".join([*lines, f"expected calibration error {error / sum(map(len, tenths)):.4f}"])


def main() -> None:
    """Parse, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument(
        "--system", action="append", choices=SYSTEMS, help="may be repeated; without it all but the peer"
    )
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--every", type=int, default=1, help="only each n-th task")
    parser.add_argument("--by-repo", action="store_true")
    parser.add_argument("--law", action="store_true", help="compare tools with the beginnings of their default replies")
    parser.add_argument("--calibration", action="store_true", help="compare chances with what was changed, of tools")
    parser.add_argument("--subjects", action="store_true", help="ask the first line of each message")
    parser.add_argument("--save", type=Path, help="write the rows to this file, one a line, as they come")
    parser.add_argument("--against", type=Path, help="rows of an earlier run, to compare with")
    chosen = parser.parse_args()
    began, tasks = time.perf_counter(), read_tasks(chosen.trees.resolve(), chosen.every)
    if not tasks:
        raise SystemExit(f"{chosen.trees} holds no prepared tree")
    if chosen.subjects:
        tasks = [task._replace(query=task.query.partition("\n")[0]) for task in tasks]
    if chosen.calibration:
        for name in chosen.system or TOOLS:
            print(f"{calibration(name, tasks)}\n")
        return
    rows: list[Row] = []
    if chosen.save:
        chosen.save.unlink(missing_ok=True)
    for name in chosen.system or (*TOOLS, "windows", "ripgrep"):
        with open_system(name) as system:
            for row in ask_all(name, system, tasks, chosen.budgets):
                rows.append(row)
                if chosen.save:
                    with chosen.save.open("a", encoding="utf-8") as out:
                        out.write(f"{json.dumps(row)}\n")
            if chosen.law and name in TOOLS:
                print(law(name, system, tasks, rows))
    print(summary(rows))
    print(f"\n{len(tasks)} tasks of {len(group(rows, 'repository'))} repositories, {time.perf_counter() - began:.0f} s")
    if chosen.by_repo:
        print(f"\n{by_repository(rows)}")
    if chosen.against:
        print(f"\n{moves(rows, read_rows(chosen.against))}")


if __name__ == "__main__":
    main()
