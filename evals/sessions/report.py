r"""Print the table of sessions, a row for each client and set-up, compared with the same tasks without ctx; and the parts.

    python evals/sessions/report.py sessions.jsonl

Tokens are characters of the requests / 4. The differences are of sums over the tasks that both set-ups finished.

>>> rows = [{"client": "c", "setup": setup, "task": "t", "calls": 1, "requests": 2, "total_chars": chars, "resident_chars": chars,
...         "wall_s": 1, "hunks": 2, "seen": 1, "given_chars": 0, "asks": 0} for setup, chars in (("without", 400), ("hooks", 100))]
>>> print(*table(rows)[2:], sep="\n")
| c | without | 1 | 1.0 | 100 |  | 100 |  | 1.0 | 1/1 | 0.500 |
| c | hooks | 1 | 1.0 | 25 | -75 % | 25 | -75 % | 1.0 | 1/1 | 0.500 |
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

CHARS_OF_TOKEN = 4
SETUPS = ("without", "tool", "guidance", "hooks", "rg", "semble")
BASELINE = SETUPS[0]
HEAD = (
    *("client", "set-up", "tasks", "calls", "total tokens", "change", "resident tokens", "change"),
    *("wall s, median", "any needed line seen", "needed hunks seen"),
)

Row = Mapping[str, Any]


def table(rows: Iterable[Row]) -> list[str]:
    """Return the lines of the table in Markdown."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["client"], row["setup"]), []).append(row)
    lines = [f"| {' | '.join(HEAD)} |", "|" + " --- |" * len(HEAD)]
    for (client, setup), found in groups.items():
        cells = (client, setup, *summarize(found, groups.get((client, BASELINE), []) if setup != BASELINE else []))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def summarize(rows: Sequence[Row], baseline: Sequence[Row]) -> tuple[str, ...]:
    """Return the cells of one row of the table."""
    measurable = [row for row in rows if row["hunks"]]
    return (
        str(len(rows)),
        f"{fmean(row['calls'] for row in rows):.1f}",
        f"{fmean(row['total_chars'] for row in rows) / CHARS_OF_TOKEN:,.0f}",
        change(rows, baseline, "total_chars"),
        f"{fmean(row['resident_chars'] for row in rows) / CHARS_OF_TOKEN:,.0f}",
        change(rows, baseline, "resident_chars"),
        f"{median(row['wall_s'] for row in rows):.1f}",
        f"{sum(row['seen'] > 0 for row in measurable)}/{len(measurable)}",
        f"{fmean(row['seen'] / row['hunks'] for row in measurable):.3f}",
    )


def change(rows: Sequence[Row], baseline: Sequence[Row], key: str) -> str:
    """Return how much larger or smaller the sum of a field is than on the same tasks of the baseline."""
    before = {row["task"]: row[key] for row in baseline}
    both = [(row[key], before[row["task"]]) for row in rows if row["task"] in before]
    if not both:
        return ""
    return f"{sum(new for new, _ in both) / sum(old for _, old in both) - 1:+.0%}".replace("%", " %")


def parts_table(rows: Iterable[Row], key: str) -> list[str]:
    r"""Return a table in Markdown of the mean tokens of each part, for each client and set-up.

    >>> row = {"client": "c", "setup": "hooks", "total_parts": {"list": 400, "client": 40}}
    >>> print(*parts_table([row, row], "total_parts"), sep="\n")
    | client | set-up | list | client |
    | --- | --- | --- | --- |
    | c | hooks | 100 | 10 |
    """
    groups: dict[tuple[str, str], list[Mapping[str, int]]] = {}
    for row in rows:
        if key in row:
            groups.setdefault((row["client"], row["setup"]), []).append(row[key])
    if not groups:
        return []
    names = list(next(iter(groups.values()))[0])
    lines = [f"| client | set-up | {' | '.join(names)} |", "|" + " --- |" * (len(names) + 2)]
    for head, found in groups.items():
        means = (fmean(parts[name] for parts in found) / CHARS_OF_TOKEN for name in names)
        lines.append(f"| {' | '.join((*head, *(f'{mean:,.0f}' for mean in means)))} |")
    return lines


def read_rows(file: Path) -> list[Row]:
    """Return the rows of a file, none if there is no file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def print_report(rows: Sequence[Row]) -> None:
    """Print the table, in how many sessions with hooks code was given with the prompt, and what the tokens are for."""
    rows = sorted(rows, key=lambda row: (row["client"], SETUPS.index(row["setup"])))
    print("\n".join(table(rows)))
    hooked = [row for row in rows if row["setup"] == "hooks"]
    if hooked:
        given = sum(row["given_chars"] > 0 for row in hooked)
        print(f"\nCode was given with the prompt in {given} of {len(hooked)} sessions with hooks.")
    for name in ("total", "resident"):
        if lines := parts_table(rows, f"{name}_parts"):
            print(f"\nParts of the {name} tokens:\n", *lines, sep="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    print_report(read_rows(parser.parse_args().rows))
