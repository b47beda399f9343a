"""Draw docs/pictures from the figures in docs/benchmarks.md, or check that they show them.

    python scripts/pictures.py            draw
    python scripts/pictures.py --check    write nothing; exit 1 when a picture shows other figures

goals.svg: each figure that has a goal is a dot on a line whose middle is that goal: to the left it is met, and each
step is a factor of two, so that milliseconds and megabytes stand beside each other. growth.svg: what the tables of
bench/sizes.py tell of several sizes, a line for each store over the number of chunks, both axes logarithmic: what costs
twice as much for twice as many chunks rises as the diagonal does. lines.svg: the share of the changed hunks that each
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
SECTION, GROWTH, SHOWN = "100,000 chunks", "An index as it grows", "Are the right lines shown?"
GROWING = (
    "build from nothing, processor time",
    "a question, p50",
    "a question, p95",
    "take in one edited file, p50",
    "anonymous memory above numpy, all questions",
    "disk here",
)
"""Rows of the tables of bench/sizes.py that are drawn, without their units."""

WIDTH, MARGIN, ROW, HEAD, FOOT = 760, 32, 50, 84, 48
"""Pixels. As wide as a page of documentation shows without making it smaller."""
PANEL_WIDTH, PANEL_HEIGHT, PANEL_HEAD, PANEL_FOOT, PANEL_LEFT = 330, 270, 80, 44, 44
"""Two beside each other; lines have the height between head and foot, numbers stand to their left."""
LEAST = 0.1
"""Tables tell a tenth at least; nothing at all has no place on such an axis."""
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


class Growth(NamedTuple):
    """How one figure grows: where it was measured -> (chunks, value) for each size; and what it should be at most."""

    name: str
    lines: dict[str, list[tuple[int, float]]]
    goals: list[tuple[int, float]]


def main(argv: Sequence[str]) -> int:
    """Draw, or compare; the exit code."""
    text = FIGURES.read_text(encoding="utf-8")
    drawn = {
        PICTURES / "goals.svg": goals_picture(text),
        PICTURES / "growth.svg": growth_picture(text),
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


def growths(text: str) -> list[Growth]:
    """What tables of several sizes tell, in the order of `GROWING`.

    A table's head is `9 files, 90 chunks`, a place for each column, `goal`; its rows are `name (unit)`, or `... kind
    (unit)`.
    """
    grown: dict[str, Growth] = {}
    for chunks, (head, *cells) in sorted(sized(text)):
        about = ""
        for name, *values, goal in cells:
            about = about if name.startswith("... ") else name.rpartition(", ")[0]
            whole = f"{about}, {name[4:]}" if name.startswith("... ") else name
            growth = grown.setdefault(whole, Growth(whole, {}, []))
            for place, value in zip(head[1:-1], values, strict=True):
                if value:
                    growth.lines.setdefault(place, []).append((chunks, number(value)))
            if goal:
                growth.goals.append((chunks, number(goal.partition(", ")[0])))
    shown = {growth.name.rpartition(" (")[0]: growth for growth in grown.values()}
    return [shown[name] for name in GROWING if name in shown]


def sized(text: str) -> Iterator[tuple[int, list[list[str]]]]:
    """(chunks, table) of each table of bench/sizes.py."""
    for table in tables(below(text, GROWTH)):
        if (size := re.fullmatch(r"[\d,]+ files, ([\d,]+) chunks", table[0][0])) and table[0][-1] == "goal":
            yield int(number(size[1])), table


def number(text: str) -> float:
    """A number with commas between its thousands."""
    return float(text.replace(",", ""))


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
    return _page(bottom + FOOT, head[0], about, told, lines)


def growth_picture(text: str) -> str:
    """What each figure costs as the index grows."""
    shown = growths(text)
    if not shown:
        raise SystemExit(f"{FIGURES} has no table of bench/sizes.py under {GROWTH!r}")
    height = HEAD + (len(shown) + 1) // 2 * PANEL_HEIGHT
    about = "Over the number of chunks, both axes logarithmic. Dashed: the goal, at most."
    lines = [line for number, each in enumerate(shown) for line in _panel(each, number)]
    told = "; ".join(f"{each.name}: {_last(place, line, '')}" for each in shown for place, line in each.lines.items())
    return _page(height, "An index as it grows", about, told, lines)


def lines_picture(text: str) -> str:
    """The share of the changed hunks that each system shows, over the budget of tokens."""
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
    labels = spread([y(line[-1][1]) + 4 for line in systems.values()])
    for order, (name, line) in enumerate(systems.items()):
        corners = " ".join(f"{x(budget)},{y(share)}" for budget, share in line)
        drawn.append(f'<polyline class="of{order}" points="{corners}"/>')
        drawn += [f'<circle class="of{order}" cx="{x(budget)}" cy="{y(share)}" r="3.5"/>' for budget, share in line]
        drawn.append(f'<text class="of{order}" x="{right + 12}" y="{labels[order]}">{escape(name)}</text>')
    about = "Share of the hunks that real commits changed, found from the commit message alone, over the tokens read."
    said = "; ".join(f"{name}: {line[-1][1]:.0%} within {line[-1][0]:,} tokens" for name, line in systems.items())
    return _page(floor + 40, "Expected code found within a budget of tokens", about, said, drawn)


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
            int(number(cell.removesuffix(" tokens"))) for cell in head if re.fullmatch(r"[\d,]+( tokens)?", cell)
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


def _page(height: int, title: str, about: str, told: str, lines: Iterable[str]) -> str:
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


class _Plot(NamedTuple):
    """Where numbers lie in one panel: a power of ten has the same width everywhere, and the same height."""

    left: float
    right: float
    top: float
    floor: float
    chunks: tuple[int, int]
    values: tuple[int, int]
    """The powers of ten at both ends."""

    def x(self, chunks: float) -> float:
        """Where a number of chunks lies."""
        return self._between(math.log10(chunks), self.chunks, self.left, self.right)

    def y(self, value: float) -> float:
        """Where a value lies."""
        return self._between(math.log10(max(value, LEAST)), self.values, self.floor, self.top)

    @staticmethod
    def _between(power: float, ends: tuple[int, int], first: float, last: float) -> float:
        return round(first + (power - ends[0]) / (ends[1] - ends[0]) * (last - first), 1)


def _panel(growth: Growth, number: int) -> Iterator[str]:
    """One figure over the number of chunks; each line has its name and its last value at the head."""
    left, top = MARGIN + number % 2 * (WIDTH - 2 * MARGIN - PANEL_WIDTH), HEAD + number // 2 * PANEL_HEIGHT
    points = [point for line in (*growth.lines.values(), growth.goals) for point in line]
    plot = _Plot(
        left + PANEL_LEFT,
        left + PANEL_WIDTH,
        top + PANEL_HEAD,
        top + PANEL_HEIGHT - PANEL_FOOT,
        _powers(chunks for chunks, _ in points),
        _powers(value for _, value in points),
    )
    said, _, unit = growth.name.removesuffix(")").rpartition(" (")
    yield f'<text x="{left}" y="{top + 16}">{escape(said)} ({unit})</text>'
    yield from _grid(plot)
    if len(growth.goals) > 1:
        yield f'<polyline class="goal" points="{_corners(plot, growth.goals)}"/>'
    for order, (place, line) in enumerate(growth.lines.items()):
        yield f'<polyline class="of{order}" points="{_corners(plot, line)}"/>'
        yield from (f'<circle class="of{order}" cx="{plot.x(at)}" cy="{plot.y(value)}" r="3.5"/>' for at, value in line)
        told = escape(_last(place, line, unit))
        yield f'<text class="of{order}" x="{left}" y="{top + 36 + 18 * order}">{told}</text>'


def _powers(numbers: Iterable[float]) -> tuple[int, int]:
    """The powers of ten below and above all of them, a tenth of leeway left so that one chunk more changes no axis.

    >>> _powers([11_774, 967_460]), _powers([5.1, 5.2]), _powers([96_746, 1_020_000])
    ((4, 6), (0, 1), (5, 6))
    """
    logs = [math.log10(max(each, LEAST)) for each in numbers]
    first, last = math.floor(min(logs) + 0.04), math.ceil(max(logs) - 0.04)
    return first, max(last, first + 1)


def _grid(plot: _Plot) -> Iterator[str]:
    """A line for each power of ten, with the number beside it."""
    for power in range(plot.values[0], plot.values[1] + 1):
        y = plot.y(10.0**power)
        yield f'<line class="line" x1="{plot.left}" x2="{plot.right}" y1="{y}" y2="{y}"/>'
        yield f'<text class="quiet" x="{plot.left - 6}" y="{y + 4}" text-anchor="end">{10.0**power:,g}</text>'
    for power in range(plot.chunks[0], plot.chunks[1] + 1):
        x, ends = plot.x(10.0**power), power == plot.chunks[1]
        yield f'<line class="line" x1="{x}" x2="{x}" y1="{plot.top}" y2="{plot.floor}"/>'
        anchor, said = ("end", " chunks") if ends else ("middle", "")
        yield f'<text class="quiet" x="{x}" y="{plot.floor + 18}" text-anchor="{anchor}">{10**power:,}{said}</text>'


def _corners(plot: _Plot, line: Iterable[tuple[int, float]]) -> str:
    return " ".join(f"{plot.x(chunks)},{plot.y(value)}" for chunks, value in line)


def _last(place: str, line: Sequence[tuple[int, float]], unit: str) -> str:
    """The value at the greatest size.

    >>> _last("here", [(10_000, 5.0), (1_000_000, 1234.5)], "ms")
    'here: 1,234 ms at 1,000,000 chunks'
    """
    chunks, value = line[-1]
    shown = f"{value:,.0f}" if value >= 100 else f"{value:g}"
    return f"{place}: {shown} {unit}".rstrip() + f" at {chunks:,} chunks"


def _amount(figure: Figure) -> str:
    return f"{figure.seen:g} {figure.unit}, goal {figure.goal:g}{'' if figure.is_met else ': missed'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
