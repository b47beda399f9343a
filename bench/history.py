"""What the history of a repository costs: mined, loaded, asked; and what noting an access adds to a read.

    python bench/history.py REPOSITORY ...
    python bench/history.py --commits 5000 REPOSITORY ...      only the newest (default 20,000)

Mining is timed once, from nothing. Loading and the first numbers are the least of five rounds, questions the median and
the 95th percentile over the files and subjects of the newest commits. Figures are milliseconds, but for accesses.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ms, p50_p95, table
from context_engine.history import FileHistory, HistoryFile, HistoryMiner
from context_engine.history.change_prediction import combine_signals
from context_engine.history.mining import MinedHistory
from context_engine.repo import Git
from context_engine.search import FileUsage

ROUNDS = 5
ASKED = 200
NOTED = 10_000


def main() -> None:
    """Measure every repository, then the counter of accesses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", type=Path, nargs="+")
    parser.add_argument("--commits", type=int, default=20_000)
    chosen = parser.parse_args()
    for repository in chosen.repositories:
        with tempfile.TemporaryDirectory() as cache:
            print(f"\n{repository.name}\n")
            print(table(("what", "ms", "p95 ms", "of"), measured(repository, Path(cache), chosen.commits)))
    with tempfile.TemporaryDirectory() as cache:
        noted = [each * 1_000 for each in accesses(Path(cache))]
        print(
            f"\nNoting an access: p50 {p50_p95(noted)[0]:.1f} µs, p95 {p50_p95(noted)[1]:.1f} µs, most {max(noted):.0f} µs"
        )


def measured(repository: Path, cache: Path, most: int) -> list[tuple[object, ...]]:
    """A row for each thing that somebody waits for."""
    file = HistoryFile(cache / "history")
    git = Git(repository)
    found: list[MinedHistory] = []
    mining = ms(lambda: found.append(HistoryMiner(git, file, most=most, seconds=600).mine()))
    mined = found[0]
    history = FileHistory(mined.facts, mined.head)
    newest = history.newest(ASKED)
    paths = [record.path for record in history.list_hot_files(ASKED)]
    subjects = [subject for *_, subject in newest]
    history.find_similar_changes("warm")
    return [
        ("mine, from nothing", f"{mining:.0f}", "", f"{len(history):,} commits"),
        ("load", f"{least(file.load):.1f}", "", f"{file.path.stat().st_size / 1e6:.1f} MB"),
        ("mine again, nothing new", f"{least(HistoryMiner(git, file).mine):.1f}", "", ""),
        ("first numbers", f"{least(lambda: first_numbers(mined)):.0f}", "", f"{len(history.paths):,} files"),
        (
            "first like task",
            f"{least(lambda: FileHistory(mined.facts, mined.head).find_similar_changes('warm')):.0f}",
            "",
            "",
        ),
        row("partners of a file", [lambda path=path: history.list_cochanged(path) for path in paths]),
        row("record of a file", [lambda path=path: history.record(path) for path in paths]),
        row("like tasks", [lambda text=text: history.find_similar_changes(text) for text in subjects]),
        row(
            "located, of 100 found",
            [lambda text=text: combine_signals(ranking(paths), history, text) for text in subjects],
        ),
    ]


def first_numbers(mined: MinedHistory) -> None:
    """What the first question waits for: renames followed, files numbered, commits counted."""
    history = FileHistory(mined.facts, mined.head)
    history.list_cochanged(history.list_hot_files(1)[0].path)


def ranking(paths: list[str]) -> list[tuple[str, float]]:
    return [(path, 1.0 / place) for place, path in enumerate(paths[:100], 1)]


def least(call: Callable[[], object]) -> float:
    return min(ms(call) for _ in range(ROUNDS))


def row(name: str, calls: list[Callable[[], object]]) -> tuple[object, ...]:
    p50, p95 = p50_p95([ms(call) for call in calls])
    return name, f"{p50:.2f}", f"{p95:.2f}", len(calls)


def accesses(cache: Path) -> list[float]:
    """Milliseconds of each of many notes, flushes going on behind them."""
    counted = FileUsage(cache / "access.db")
    taken = [ms(lambda number=number: counted.note(f"{number % 500}.py", "read")) for number in range(NOTED)]
    counted.close()
    return taken


if __name__ == "__main__":
    main()
