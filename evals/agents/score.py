"""Print one row for each task and arm, the medians of the arms, and in how many tasks an arm is lower than another.

    python evals/agents/score.py [--against ARM]      # everything in AGENTS_HOME/runs; the other arm is plain by default
    python evals/agents/score.py --calls TASK ARM     # a log to read: what each call showed, and what of it was not new

Repetitions of an arm (`ctx-2`) are one row of means. A line of source counts where it has eight characters or more; it is known
by its text, so a line number before it, or the tool that printed it, does not matter.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.agents.shell import changes
from evals.agents.tasks import ARM, HOME, Run, find_run, git, read_tasks
from evals.agents.verify import passes

LINE_MIN = 8
_NUMBERED = re.compile(r"^(?:[^\s:]+[:-])?\s*\d+\s?(?:[:\-|\s]+|$)")
"""What comes before the code in a line of `rg`, `cat -n` or a reply: a path, a number."""
_CALLS_CTX = re.compile(r"(?:^|[\s;&|(])ctx\s")


@dataclass(frozen=True)
class Call:
    """One row of a log, and what it showed."""

    command: str
    text: str
    after_change: bool = False

    @property
    def is_hook(self) -> bool:
        return self.command == "hook"

    @property
    def asks_ctx(self) -> bool:
        return bool(_CALLS_CTX.search(self.command))


def source_lines(text: str, source: frozenset[str]) -> set[str]:
    r"""Return the lines of a text that are lines of the source, without their numbers.

    >>> sorted(source_lines("a.py:7:  return 12345\n 8\tx = compute()\nother()", frozenset(("return 12345", "x = compute()"))))
    ['return 12345', 'x = compute()']
    """
    forms = {form.strip() for line in text.splitlines() for form in (line, _NUMBERED.sub("", line))}
    return forms & source


def count(calls: Iterable[Call], source: frozenset[str], gold: frozenset[str]) -> dict[str, float]:
    """Count the calls, characters and lines of a log; the README says what each figure means."""
    figures = dict.fromkeys(("calls", "ctx_calls", "window", "sent", "again", "hook_again", "nothing_new"), 0.0)
    seen: set[str] = set()
    from_hook: set[str] = set()
    from_ctx: set[str] = set()
    before_change: set[str] = set()
    for call in calls:
        lines = source_lines(call.text, source)
        figures["calls"] += not call.is_hook
        figures["ctx_calls"] += call.asks_ctx
        figures["window"] += len(call.text)
        figures["sent"] += figures["window"]
        figures["again"] += len(lines & seen)
        figures["hook_again"] += len(lines & from_hook)
        figures["nothing_new"] += bool(lines) and lines <= seen
        seen |= lines
        from_hook |= lines if call.is_hook else set()
        from_ctx |= lines if call.is_hook or call.asks_ctx else set()
        before_change |= set() if call.after_change else lines
    figures["unused"] = len(seen - gold)
    figures["ctx_unused"] = len(from_ctx - gold)
    figures["gold_share"] = len(before_change & gold) / max(1, len(gold))
    return figures


def read_log(run: Run) -> Iterator[Call]:
    """Yield the calls of a run; the one that changes something first still belongs to the time before."""
    changed = False
    for line in run.log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield Call(row["command"], run.shown(row["number"]).read_text(encoding="utf-8"), changed)
        changed = changed or bool(row["changed"])


def read_source(run: Run) -> tuple[frozenset[str], frozenset[str]]:
    """Return the lines of the parent's files that count, and those in the gold places."""
    gold: list[str] = []
    for place in run.task.gold:
        path, _, ends = place.rpartition(":")
        first, last = map(int, ends.split("-"))
        gold += git(run.tree, "show", f"HEAD:{path}").split("\n")[first - 1 : last]
    source = git(run.tree, "grep", "-Ih", "-e", "", "HEAD").split("\n")
    return _counted(source), _counted(gold)


def _counted(lines: Iterable[str]) -> frozenset[str]:
    stripped = (line.strip() for line in lines)
    return frozenset(line for line in stripped if len(line) >= LINE_MIN)


def is_solved(run: Run) -> bool:
    """Return whether the hidden tests pass; they run once for each state of the tree."""
    kept = run.folder / "solved.json"
    tree = changes(run.tree)
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    if tree not in known:
        known = {tree: passes(run.task, run.tree)}
        kept.write_text(json.dumps(known), encoding="utf-8")
    return known[tree]


def score_runs() -> dict[tuple[str, str], dict[str, float]]:
    """Return the figures of each task and arm with a command of an agent, means over its repetitions."""
    repetitions: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for task in read_tasks():
        for folder in sorted((HOME / "runs" / task.name).glob("*")):
            run = Run(task, folder.name)
            named = ARM.fullmatch(run.arm)
            calls = list(read_log(run)) if run.log.exists() else []
            if named and any(not call.is_hook for call in calls):
                figures = {"solved": float(is_solved(run)), **count(calls, *read_source(run))}
                repetitions[task.name, named[1]].append(figures)
    return {key: {column: mean(row[column] for row in rows) for column in rows[0]} for key, rows in repetitions.items()}


def table(rows: Mapping[tuple[str, str], Mapping[str, float]], against: str) -> str:
    """Return the rows, the medians of each arm, and for each other arm in how many tasks a figure is lower."""
    columns = list(next(iter(rows.values())))
    lines = [_row("task", "arm", columns)]
    lines += [
        _row(task, arm, (_number(figures[column]) for column in columns))
        for (task, arm), figures in sorted(rows.items())
    ]
    for arm in sorted({arm for _, arm in rows}):
        tasks = [task for task, its_arm in rows if its_arm == arm]
        medians = (_number(median(rows[task, arm][column] for task in tasks)) for column in columns)
        lines.append(_row(f"median of {len(tasks)}", arm, medians))
        pairs = [(rows[task, arm], rows[task, against]) for task in tasks if (task, against) in rows and arm != against]
        if pairs:
            lower = (str(sum(ours[column] < theirs[column] for ours, theirs in pairs)) for column in columns)
            lines.append(_row(f"lower, of {len(pairs)}", f"{arm} < {against}", lower))
    return "\n".join(lines)


def _row(task: str, arm: str, cells: Iterable[str]) -> str:
    return f"{task:24}{arm:16}" + "".join(f"{cell:>12}" for cell in cells)


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def print_calls(run: Run) -> None:
    """Print what each call of a run showed."""
    source, gold = read_source(run)
    seen: set[str] = set()
    print("characters, lines of source, of them shown before, of them gold; command")
    for call in read_log(run):
        lines = source_lines(call.text, source)
        command = " ".join(call.command.split())[:140]
        print(f"{len(call.text):6}{len(lines):6}{len(lines & seen):6}{len(lines & gold):6}  {command}")
        seen |= lines


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="plain", metavar="ARM")
    parser.add_argument("--calls", nargs=2, metavar=("TASK", "ARM"))
    chosen = parser.parse_args()
    if chosen.calls:
        print_calls(find_run(*chosen.calls))
    elif rows := score_runs():
        print(table(rows, chosen.against))
    else:
        raise SystemExit(f"no log in {HOME / 'runs'} has a command")


if __name__ == "__main__":
    main()
