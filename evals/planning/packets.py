"""Measure whether the packet of a step that names file and definition contains the code that its commit changed.

    python evals/planning/packets.py --mirrors DIR [--only flask,chi] [--count 12]

Each changed hunk of a source file is a step that an agent could have written: its title and description name the file and the
definition around the hunk, and it has no evidence. The packet is built from the tree before the commit. A hunk is shown if
all of its old lines are in the snippets.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.errors import CallError
from context_engine.model import Definition
from context_engine.plans.model import Plan, PlanStep
from context_engine.plans.work_packets import WorkPacket, build_packet
from context_engine.text import LineSpan, estimate_tokens
from evals.localisation.replay import Question, questions
from evals.localisation.score import mirrors

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? ", re.MULTILINE)
HUNKS_MAX = 4
"""Hunks of one commit: a rewrite of a file does not count more than a fix."""


class Row(NamedTuple):
    """A hunk: where it is, whether the packet shows it, and what the packet costs."""

    repository: str
    place: str
    is_shown: bool
    tokens: int


def read_changed_lines(mirror: Path, commit: str) -> dict[str, list[tuple[int, int]]]:
    """Return the old lines that a commit changed, by path; an insertion counts as the line before it."""
    command = ["git", "diff", "-U0", "--no-color", "--no-ext-diff", "--no-renames", f"{commit}^", commit]
    diff = subprocess.run(command, cwd=mirror, check=True, capture_output=True).stdout.decode("utf-8", "replace")
    found: dict[str, list[tuple[int, int]]] = {}
    for part in diff.split("\ndiff --git "):
        path = re.search(r"^--- a/(.+?)\t?$", part, re.MULTILINE)
        if path:
            spans = [(int(hunk[1]), int(hunk[1]) + max(int(hunk[2] or 1), 1) - 1) for hunk in _HUNK.finditer(part)]
            found[path[1]] = spans
    return found


def main() -> None:
    """Parse, print the share of hunks that are shown, and those that are not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--count", type=int, default=12, help="commits of a repository")
    chosen = parser.parse_args()
    rows: list[Row] = []
    for name, mirror in mirrors(chosen.mirrors, chosen.only):
        with tempfile.TemporaryDirectory(prefix="ctx-packets-") as scratch:
            try:
                rows += [
                    row
                    for question in questions(mirror, Path(scratch), chosen.count)
                    for row in judge(name, question, mirror)
                ]
            except subprocess.CalledProcessError as error:  # a mirror from which something is missing
                print(f"{name}: left out, {error}", file=sys.stderr)
    print(report(rows))


def judge(name: str, question: Question, mirror: Path) -> Iterator[Row]:
    """Yield a row for each hunk of a commit that is in a definition."""
    found = 0
    for path, spans in read_changed_lines(mirror, question.commit.hash).items():
        for first, last in spans if path in question.source else ():
            definition = find_definition(question, path, LineSpan(first, last))
            if definition is None or found == HUNKS_MAX:
                continue
            found += 1
            packet = build_packet_of(question, path, definition)
            is_shown = shows(packet, path, LineSpan(first, last))
            tokens = estimate_tokens("\n".join(each.text for file in packet.files for each in file.snippets))
            yield Row(
                name, f"{question.commit.hash[:10]} {path}:{first}-{last} {definition.qualified}", is_shown, tokens
            )


def find_definition(question: Question, path: str, hunk: LineSpan) -> Definition | None:
    """Return the smallest definition that contains a hunk."""
    try:
        symbols = [symbol for _, symbol in question.engine.symbols.outline(path).symbols]
    except CallError:
        return None
    around = [symbol for symbol in symbols if symbol.kind != "section" and symbol.span.contains(hunk)]
    return min(around, key=lambda symbol: symbol.span.lines, default=None)


def build_packet_of(question: Question, path: str, definition: Definition) -> WorkPacket:
    """Return the packet of a step that names a file and a definition as an agent would."""
    step = PlanStep(
        uid="s1",
        title=f"Change {definition.qualified}",
        description=f"In {path}, `{definition.qualified}`: {question.commit.subject}",
        files_to_modify=(path,),
    )
    return build_packet(Plan(goal=question.commit.subject, steps=(step,)), step, question.engine)


def shows(packet: WorkPacket, path: str, hunk: LineSpan) -> bool:
    """Return whether all lines of a hunk are in the snippets of its file."""
    spans = [snippet.lines.split("-") for file in packet.files if file.path == path for snippet in file.snippets]
    shown = {line for span in spans for line in range(int(span[0]), int(span[-1]) + 1)}
    return shown.issuperset(range(hunk.first, hunk.last + 1))


def report(rows: list[Row]) -> str:
    """Return the figures, and the hunks that no packet shows."""
    if not rows:
        return "no hunk is in a definition"
    tokens = sorted(row.tokens for row in rows)
    shown = statistics.mean(row.is_shown for row in rows)
    names = len({row.repository for row in rows})
    lines = [
        f"{len(rows)} hunks of {names} repositories: {shown:.3f} shown; tokens p50 {tokens[len(tokens) // 2]:,}, most {tokens[-1]:,}"
    ]
    return "\n".join([*lines, *(f"not shown: {row.repository} {row.place}" for row in rows if not row.is_shown)])


if __name__ == "__main__":
    main()
