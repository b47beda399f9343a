"""Draw docs/pictures from the figures in docs/benchmarks.md, or check that they show them.

    python scripts/pictures.py            draw
    python scripts/pictures.py --check    write nothing; exit 1 when a picture shows other figures

goals.svg: each figure that has a goal is a dot on a line whose middle is that goal: to the left it is met, and each
step is a factor of two, so that milliseconds and megabytes stand beside each other. lines.svg: the share of the changed hunks that each
system shows within a budget of tokens. One file serves light and dark pages.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"
SECTION, SHOWN = "100,000 chunks", "Are the right lines shown?"

WIDTH, MARGIN, ROW, HEAD, FOOT = 760, 32, 50, 84, 48
"""Pixels. As wide as a page of documentation shows without making it smaller."""
STEPS = 3
"""Factors of two to each side of the goal; a figure beyond them widens the line for all."""
STYLE = """
  text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; } .quiet { fill: #59636e; font-size: 12px; }
  .page { fill: #ffffff; } .line { stroke: #d1d9e0; } .goal { stroke: #59636e; stroke-dasharray: 4 3; }
  .met, .of0 { stroke: #0969da; fill: #0969da; } .missed { stroke: #bc4c00; fill: #bc4c00; }
  .of1 { stroke: #8250df; fill: #8250df; } .of2 { stroke: #bc4c00; fill: #bc4c00; } .of3 { stroke: #59636e; fill: #59636e; }
  .of4 { stroke: #1a7f37; fill: #1a7f37; }
  text.of0, text.of1, text.of2, text.of3, text.of4 { stroke: none; font-size: 13px; } polyline { fill: none !important; stroke-width: 2; }
  polyline.goal { stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .quiet { fill: #9198a1; }
    .page { fill: #0d1117; } .line { stroke: #3d444d; } .goal { stroke: #9198a1; }
    .met, .of0 { stroke: #4493f8; fill: #4493f8; } .missed { stroke: #f0883e; fill: #f0883e; }
    .of1 { stroke: #ab7df8; fill: #ab7df8; } .of2 { stroke: #f0883e; fill: #f0883e; } .of3 { stroke: #9198a1; fill: #9198a1; }
    .of4 { stroke: #3fb950; fill: #3fb950; }
  }
"""


class Figure(NamedTuple):
    """One figure and what it should be at most."""

    name: str
    seen: float
    goal: float
    unit: str

    @property
    def is_met(self) -> bool:
        """Whether it is no more than its goal."""
        return self.seen <= self.goal

    @property
    def steps(self) -> float:
        """How many times twice its goal it is; below zero: half of it."""
        return math.log2(self.seen / self.goal)


def main(argv: Sequence[str]) -> int:
    """Draw, or compare; the exit code."""
    text = FIGURES.read_text(encoding="utf-8")
    drawn = {
        PICTURES / "goals.svg": goals_picture(text),
        PICTURES / "lines.svg": lines_picture(text),
    }
    if "--check" in argv:
        others = [path for path, picture in drawn.items() if not path.is_file() or path.read_text("utf-8") != picture]
        print(
            f"run `make pictures`: {', '.join(path.name for path in others)}"
            if others
            else "the pictures show the figures"
        )
        return 1 if others else 0
    PICTURES.mkdir(exist_ok=True)
    for path, picture in drawn.items():
        path.write_text(picture, encoding="utf-8", newline="\n")
        print(f"drawn: {path.relative_to(ROOT)}")
    return 0


# -- what is shown ------------------------------------------------------------------------------------------------


def tables(text: str) -> Iterator[list[list[str]]]:
    r"""The cells of each table, its head first.

    >>> [*tables("words\n| y | z |\n| --- | --- |\n| 1 | 2 |\n\n| w |\n")]
    [[['y', 'z'], ['1', '2']], [['w']]]
    """
    for table in re.finditer(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()]
        yield [cells[0], *cells[2:]]


def below(text: str, section: str) -> str:
    r"""What stands under a heading that begins so.

    >>> below("## Much\nwords\n## More (`make`)\nfigures\n## Most\n", "More")
    ' (`make`)\nfigures'
    """
    return text.partition(f"## {section}")[2].partition("\n## ")[0]


def rows(text: str, section: str) -> list[list[str]]:
    """The first table of a section that has a column of goals."""
    for table in tables(below(text, section)):
        if table[0][-1] == "goal":
            return table
    raise SystemExit(f"{FIGURES} has no table with goals under {section!r}")


def figures(table: Iterable[Sequence[str]]) -> Iterator[Figure]:
    """Those that have a goal.

    A row `name, p50 / p95 | 1 / 2 ms | p95 3 ms, met` has two figures; its goal says for which.

    >>> [*figures([("edit, p50 / p95", "1.5 / 2 ms", "p95 3 ms, met"), ("memory: none", "9 MB", ""),
    ...            ("... once / twice", "10 / 12 MB", "11 MB, missed")])]
    [Figure(name='edit, p95', seen=2.0, goal=3.0, unit='ms'), Figure(name='memory, twice', seen=12.0, goal=11.0, unit='MB')]
    """
    before = ""
    for name, values, goal in table:
        *_, unit = values.split()
        seen = [float(value.replace(",", "")) for value in values.removesuffix(unit).split(" / ")]
        about, _, kinds = name.rpartition(", ") if len(seen) > 1 and not name.startswith("... ") else ("", "", name)
        parts = kinds.removeprefix("... ").split(" / ") if len(seen) > 1 else [""]
        about = before if name.startswith("... ") else about or name.partition(":")[0]
        before = about
        wanted = re.match(r"(?:(p\d+) )?([\d,.]+) ", goal)
        if wanted is None:
            continue
        at = parts.index(wanted[1]) if wanted[1] else seen.index(max(seen))
        said = ", ".join(filter(None, (about.replace("`", ""), parts[at])))
        yield Figure(said, seen[at], float(wanted[2].replace(",", "")), unit)


# -- how it looks -------------------------------------------------------------------------------------------------


def goals_picture(text: str) -> str:
    """The figures that have a goal, each beside it."""
    head, *table = rows(text, SECTION)
    shown = list(figures(table))
    if not shown:
        raise SystemExit(f"{FIGURES} has no figure with a goal under {SECTION!r}")
    steps = max(STEPS, *(math.ceil(abs(each.steps)) for each in shown))
    bottom = HEAD + ROW * len(shown)
    about = "What was measured, beside its goal. Left of the goal: better."
    lines = [
        *_scale(steps, bottom),
        *(line for number, each in enumerate(shown) for line in _row(each, HEAD + ROW * number, steps)),
    ]
    told = "; ".join(f"{each.name}: {_amount(each)}" for each in shown)
    return page(bottom + FOOT, head[0], about, told, lines)


def lines_picture(text: str) -> str:
    """The share of the changed hunks that each system shows, by the number of tokens read."""
    systems = shares(text)
    if not systems:
        raise SystemExit(f"{FIGURES} has no table of systems under {SHOWN!r}")
    left, right, top, floor = MARGIN + 44, WIDTH - 230, HEAD, HEAD + SHARES_HEIGHT
    budgets = [budget for budget, _ in next(iter(systems.values()))]

    def x(budget: int) -> float:
        return round(left + math.log2(budget / budgets[0]) / math.log2(budgets[-1] / budgets[0]) * (right - left), 1)

    def y(share: float) -> float:
        return round(floor - share * (floor - top), 1)

    drawn = []
    for percent in range(0, 101, 20):
        at = y(percent / 100)
        drawn.append(f'<line class="line" x1="{left}" x2="{right}" y1="{at}" y2="{at}"/>')
        drawn.append(f'<text class="quiet" x="{left - 8}" y="{at + 4}" text-anchor="end">{percent} %</text>')
    drawn += [
        f'<text class="quiet" x="{x(budget)}" y="{floor + 20}" text-anchor="middle">{budget:,}</text>'
        for budget in budgets
    ]
    drawn.append(
        f'<text class="quiet" x="{(left + right) / 2}" y="{floor + 40}" text-anchor="middle">tokens read</text>'
    )
    labels = spread([y(line[-1][1]) + 4 for line in systems.values()])
    for order, (name, line) in enumerate(systems.items()):
        corners = " ".join(f"{x(budget)},{y(share)}" for budget, share in line)
        drawn.append(f'<polyline class="of{order}" points="{corners}"/>')
        drawn += [f'<circle class="of{order}" cx="{x(budget)}" cy="{y(share)}" r="3.5"/>' for budget, share in line]
        drawn.append(f'<text class="of{order}" x="{right + 12}" y="{labels[order]}">{escape(name)}</text>')
    about = "How much of the code that a real commit changed each tool finds, given only the commit message."
    said = "; ".join(f"{name}: {line[-1][1]:.0%} within {line[-1][0]:,} tokens" for name, line in systems.items())
    return page(floor + 58, "Changed code found, by tokens read", about, said, drawn)


SHARES_HEIGHT = 230
"""Pixels from no hunk to all of them."""
LABEL_HEIGHT = 17
SYSTEMS = {
    "get_context_for_prompt": "ctx: one call for context",
    "codebase_retrieval": "ctx: one search",
    "BM25 over windows of 40 lines": "BM25 over windows",
}
"""Rows of that table that have a shorter name in the picture."""


def shares(text: str) -> dict[str, list[tuple[int, float]]]:
    r"""The systems of the table of hunks, each with (budget, share); the best at the largest budget comes first.

    >>> shares("## Are the right lines shown?\n\n| | 1,000 | 2,000 tokens | first |\n|-|-|-|-|\n| `a` | 0.1 | 0.2 | 1 |\n| goal | 1 | 1 | |")
    {'a': [(1000, 0.1), (2000, 0.2)]}
    """
    for (_, *head), *table in tables(below(text, SHOWN)):
        budgets = [
            int(cell.removesuffix(" tokens").replace(",", ""))
            for cell in head
            if re.fullmatch(r"[\d,]+( tokens)?", cell)
        ]
        found = {
            SYSTEMS.get(name.strip("`"), name.strip("`")): list(zip(budgets, map(float, cells), strict=False))
            for name, *cells in (row[: len(budgets) + 1] for row in table)
            if not name.startswith("goal")
        }
        return dict(sorted(found.items(), key=lambda system: -system[1][-1][1]))
    return {}


def spread(heights: Sequence[float]) -> list[float]:
    """Move labels apart that would cover each other, downwards.

    >>> spread([10, 12, 60])
    [10, 27, 60]
    """
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + LABEL_HEIGHT) if placed else height)
    return placed


def page(height: int, title: str, about: str, told: str, lines: Iterable[str]) -> str:
    """A whole file; `told` says the same to those who cannot see it."""
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(told)}</desc>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
            f'<text class="title" x="{MARGIN}" y="34">{escape(title)}</text>',
            f'<text class="quiet" x="{MARGIN}" y="56">{escape(about)}</text>',
            *lines,
            "</svg>\n",
        )
    )


def _x(at: float, steps: int) -> float:
    """Where a number of steps from the goal lies."""
    return round(WIDTH / 2 + at / steps * (WIDTH / 2 - MARGIN), 1)


def _scale(steps: int, bottom: int) -> Iterator[str]:
    """The upright lines, with what they mean below them."""
    for step in range(-steps, steps + 1):
        x, kind = _x(step, steps), "line" if step else "goal"
        word = f"{2**step} x" if step > 0 else f"1/{2**-step}" if step else "goal"
        yield f'<line class="{kind}" x1="{x}" x2="{x}" y1="{HEAD}" y2="{bottom}"/>'
        yield f'<text class="quiet" x="{x}" y="{bottom + 20}" text-anchor="middle">{word}</text>'


def _row(figure: Figure, top: int, steps: int) -> Iterator[str]:
    """One figure: its name, what was seen and wanted, and a line from the goal to the dot."""
    kind, x, y = "met" if figure.is_met else "missed", _x(figure.steps, steps), top + 34
    yield f'<rect class="page" x="{MARGIN - 4}" y="{top}" width="{WIDTH - 2 * MARGIN + 8}" height="24"/>'
    yield f'<text x="{MARGIN}" y="{top + 18}">{escape(figure.name)}</text>'
    yield f'<text class="quiet" x="{WIDTH - MARGIN}" y="{top + 18}" text-anchor="end">{_amount(figure)}</text>'
    yield f'<line class="{kind}" x1="{_x(0, steps)}" x2="{x}" y1="{y}" y2="{y}" stroke-width="3"/>'
    yield f'<circle class="{kind}" cx="{x}" cy="{y}" r="5"/>'


def _amount(figure: Figure) -> str:
    return f"{figure.seen:g} {figure.unit}, goal {figure.goal:g}{'' if figure.is_met else ': missed'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
