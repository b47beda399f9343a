"""Print one row for each task and arm, the medians of the arms, and how often an arm is lower than another.

    python evals/agents/score.py                          # everything in AGENTS_HOME/runs, against arm plain
    python evals/agents/score.py --against ctx-old        # a variant against another one
    python evals/agents/score.py --calls TASK ARM         # a log to read: what each call showed, and what of it was new

Repetitions of an arm (`ctx-2`) are means of one row. A line of source counts where it has eight characters or more; it is known
by its text, so a line number before it, or the tool that printed it, does not matter.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.agents.shell import changes
from evals.agents.tasks import ARM, HOME, Run, git, read_tasks
from evals.agents.verify import passes

LINE_MIN = 8
_NUMBERED = re.compile(r"^(?:[^\s:]+[:-])?\s*\d+\s?(?:[:\-|\s]+|$)")
"""What stands before the code in a line of `rg`, `cat -n` or a reply: a path, a number."""
_CALLS_CTX = re.compile(r"(?:^|[\s;&|(])ctx\s")


@dataclass(frozen=True)
class Call:
    """One row of a log, and what it showed."""

    command: str
    text: str
    after_change: bool
    window: int
    sent: int

    @property
    def by_ctx(self) -> bool:
        """Return whether the product wrote the text."""
        return self.command == "hook" or bool(_CALLS_CTX.search(self.command))


@dataclass(frozen=True)
class Counts:
    """What a run cost, and what its lines were good for."""

    calls: float
    """Commands of the agent; the hook is none."""
    ctx_calls: float
    window: float
    """Characters that all calls showed."""
    sent: float
    """Characters sent in all: with each call, everything before it goes again."""
    unused: float
    """Lines of source that were shown and are outside the gold places."""
    ctx_unused: float
    """Those of them that the hook or a reply of ctx showed."""
    again: float
    """Lines that were shown once more."""
    hook_again: float
    """Lines of the hook that the agent read once more."""
    nothing_new: float
    """Calls that showed source, and none that had not been shown before."""
    gold_share: float
    """The share of the gold lines that was shown before the first change."""


def source_lines(text: str, source: frozenset[str]) -> set[str]:
    r"""Return the lines of a text that are lines of the source, without their numbers.

    >>> sorted(source_lines("a.py:7:  return 12345\n 8\tx = compute()\nx = other()", frozenset(("return 12345", "x = compute()"))))
    ['return 12345', 'x = compute()']
    """
    found: set[str] = set()
    for line in text.splitlines():
        forms = (line.strip(), _NUMBERED.sub("", line).strip())
        found.update(form for form in forms if form in source)
    return found


def count(calls: Iterable[Call], source: frozenset[str], gold: frozenset[str]) -> Counts:
    """Count the calls and lines of a log."""
    seen: set[str] = set()
    from_hook: set[str] = set()
    from_ctx: set[str] = set()
    before_change: set[str] = set()
    again = hook_again = nothing_new = commands = ctx_calls = 0
    window = sent = 0
    for call in calls:
        lines = source_lines(call.text, source)
        is_hook = call.command == "hook"
        commands += not is_hook
        ctx_calls += call.by_ctx and not is_hook
        again += len(lines & seen)
        hook_again += len(lines & from_hook)
        nothing_new += bool(lines) and lines <= seen
        if is_hook:
            from_hook |= lines
        if call.by_ctx:
            from_ctx |= lines
        if not call.after_change:
            before_change |= lines
        seen |= lines
        window, sent = call.window, call.sent
    return Counts(
        calls=commands,
        ctx_calls=ctx_calls,
        window=window,
        sent=sent,
        unused=len(seen - gold),
        ctx_unused=len(from_ctx - gold),
        again=again,
        hook_again=hook_again,
        nothing_new=nothing_new,
        gold_share=len(before_change & gold) / max(1, len(gold)),
    )


def read_log(run: Run) -> Iterator[Call]:
    """Yield the calls of a run; a call that changes something still belongs to the time before."""
    changed = False
    for line in run.log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        text = run.output(row["number"]).read_text(encoding="utf-8")
        yield Call(row["command"], text, changed, row["window"], row["sent"])
        changed = changed or bool(row["changed"])


def read_source(run: Run) -> tuple[frozenset[str], frozenset[str]]:
    """Return the lines of the parent's files that count, and those in the gold places."""
    source = _counted(git(run.tree, "grep", "-Ih", "-e", "", "HEAD").split("\n"))
    gold: set[str] = set()
    for place in run.task.gold:
        path, _, ends = place.rpartition(":")
        first, last = map(int, ends.split("-"))
        gold |= _counted(git(run.tree, "show", f"HEAD:{path}").split("\n")[first - 1 : last])
    return source, frozenset(gold)


def _counted(lines: Iterable[str]) -> frozenset[str]:
    stripped = (line.strip() for line in lines)
    return frozenset(line for line in stripped if len(line) >= LINE_MIN)


def is_solved(run: Run) -> bool:
    """Return whether the hidden tests pass; asked once for each state of the tree."""
    kept = run.folder / "solved.json"
    now = changes(run.tree)
    if kept.exists():
        known = json.loads(kept.read_text(encoding="utf-8"))
        if known["tree"] == now:
            return known["solved"]
    solved = passes(run.task, run.tree)
    kept.write_text(json.dumps({"tree": now, "solved": solved}), encoding="utf-8")
    return solved


def variant_of(arm: str) -> str:
    """Return an arm without the number of its repetition.

    >>> [variant_of(arm) for arm in ("ctx", "ctx-2", "ctx-new-3")]
    ['ctx', 'ctx', 'ctx-new']
    """
    matched = ARM.fullmatch(arm)
    assert matched
    return matched[1] + (matched[2] or "")


def finished_runs() -> Iterator[Run]:
    """Yield the runs with a command of an agent."""
    for task in read_tasks():
        for folder in sorted((HOME / "runs" / task.name).glob("*")):
            run = Run(task, folder.name)
            if run.log.exists() and any(call.command != "hook" for call in read_log(run)):
                yield run


def table(rows: Mapping[tuple[str, str], Mapping[str, float]], against: str) -> str:
    """Return the rows of (task, arm), the medians of each arm, and each arm against one of them."""
    columns = list(next(iter(rows.values())))
    widths = [max(9, len(column) + 1) for column in columns]
    said = [_row("task", "arm", columns, widths)]
    for (task, arm), figures in sorted(rows.items()):
        said.append(_row(task, arm, [_number(figures[column]) for column in columns], widths))
    arms = sorted({arm for _, arm in rows})
    said.append("")
    for arm in arms:
        of_arm = [figures for (_, its), figures in rows.items() if its == arm]
        medians = [_number(median(figures[column] for figures in of_arm)) for column in columns]
        said.append(_row(f"median of {len(of_arm)}", arm, medians, widths))
    for arm in arms:
        both = [task for task, its in rows if its == arm and (task, against) in rows]
        if arm == against or not both:
            continue
        lower = [sum(rows[task, arm][column] < rows[task, against][column] for task in both) for column in columns]
        ratios = [
            median(rows[task, arm][column] / max(rows[task, against][column], 1e-9) for task in both)
            if all(rows[task, against][column] for task in both)
            else None
            for column in columns
        ]
        said.append(_row(f"lower, of {len(both)}", f"{arm} < {against}", [str(number) for number in lower], widths))
        said.append(
            _row("median ratio", f"{arm} / {against}", ["" if r is None else f"{r:.2f}" for r in ratios], widths)
        )
    return "\n".join(said)


def _row(task: str, arm: str, cells: Iterable[str], widths: Iterable[int]) -> str:
    figures = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{task:24}{arm:18}{figures}"


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure == int(figure) or figure >= 100 else f"{figure:.2f}"


def print_calls(run: Run) -> None:
    """Print what each call of a run showed."""
    source, gold = read_source(run)
    seen: set[str] = set()
    print(f"{'shown':>6}{'lines':>6}{'again':>6}{'gold':>6}")
    for call in read_log(run):
        lines = source_lines(call.text, source)
        command = " ".join(call.command.split())[:140]
        print(f"{len(call.text):6}{len(lines):6}{len(lines & seen):6}{len(lines & gold):6}  {command}")
        seen |= lines


def main() -> None:
    """Parse, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="plain", help="the arm that others are compared with")
    parser.add_argument("--calls", nargs=2, metavar=("TASK", "ARM"))
    chosen = parser.parse_args()
    runs = list(finished_runs())
    if chosen.calls:
        wanted = tuple(chosen.calls)
        for run in runs:
            if (run.task.name, run.arm) == wanted:
                print_calls(run)
        return
    repetitions: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for run in runs:
        counts = count(read_log(run), *read_source(run))
        figures = {"solved": float(is_solved(run)), **asdict(counts)}
        repetitions[run.task.name, variant_of(run.arm)].append(figures)
    if not repetitions:
        raise SystemExit(f"no run in {HOME / 'runs'} has a command in its log")
    rows = {
        key: {column: mean(row[column] for row in of_arm) for column in of_arm[0]}
        for key, of_arm in repetitions.items()
    }
    print(table(rows, chosen.against))


if __name__ == "__main__":
    main()
