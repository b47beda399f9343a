"""Draw docs/pictures/growth.svg out of the figures that stand in docs/benchmarks.md, or check that it shows them.

    python scripts/pictures.py            draw
    python scripts/pictures.py --check    write nothing; exit 1 when the picture shows other figures

Each figure that has a goal is a dot on a line whose middle is that goal: to the left it is met, and each step is a factor of
two, so that milliseconds and megabytes stand beside each other. Below, where tables of bench/sizes.py with two sizes or more
stand on the page, lines from nothing show how each figure grows. One file serves light and dark pages.
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
PICTURE = ROOT / "docs" / "pictures" / "growth.svg"
SECTION = "100,000 chunks"
GROWING = ("build from nothing", "a question, p95", "anonymous memory above Python with numpy", "disk here")
"""Rows of the tables of bench/sizes.py that are drawn, without their units."""

WIDTH, MARGIN, ROW, HEAD, FOOT = 760, 32, 50, 84, 48
"""Pixels. As wide as a page of documentation shows without making it smaller."""
PANEL_WIDTH, PANEL_HEIGHT, PANEL_HEAD, PANEL_FOOT = 320, 220, 68, 40
"""Two beside each other; lines have the height between head and foot."""
STEPS = 3
"""Factors of two to each side of the goal; a figure beyond them widens the line for all."""
STYLE = """
  text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; } .quiet { fill: #59636e; font-size: 12px; }
  .page { fill: #ffffff; } .line { stroke: #d1d9e0; } .goal { stroke: #59636e; stroke-dasharray: 4 3; }
  .met, .of0 { stroke: #0969da; fill: #0969da; } .missed { stroke: #bc4c00; fill: #bc4c00; }
  .of1 { stroke: #8250df; fill: #8250df; }
  text.of0, text.of1 { stroke: none; font-size: 12px; } polyline { fill: none !important; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .quiet { fill: #9198a1; }
    .page { fill: #0d1117; } .line { stroke: #3d444d; } .goal { stroke: #9198a1; }
    .met, .of0 { stroke: #4493f8; fill: #4493f8; } .missed { stroke: #f0883e; fill: #f0883e; }
    .of1 { stroke: #ab7df8; fill: #ab7df8; }
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
    """How one figure grows: where it was measured -> (chunks, value) for each size."""

    name: str
    lines: dict[str, list[tuple[int, float]]]


def main(argv: Sequence[str]) -> int:
    """Draw, or compare; the exit code."""
    drawn = picture(FIGURES.read_text(encoding="utf-8"))
    if "--check" in argv:
        is_same = PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == drawn
        print("the picture shows the figures" if is_same else "run `make pictures`")
        return 0 if is_same else 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn, encoding="utf-8", newline="\n")
    print(f"drawn: {PICTURE.relative_to(ROOT)}")
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


def rows(text: str, section: str) -> list[list[str]]:
    """The first table of a section that has a column of goals."""
    below = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    for table in tables(below):
        if table[0][-1] == "goal":
            return table
    raise SystemExit(f"{FIGURES} has no table with goals under {section!r}")


def figures(table: Iterable[Sequence[str]]) -> Iterator[Figure]:
    """Those that have a goal. A row `name, p50 / p95 | 1 / 2 ms | p95 3 ms, met` has two figures; its goal says for which.

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
    """What tables of several sizes tell; nothing while there is one size only.

    A table's head is `9 files, 90 chunks` and a place for each column; its rows are `name (unit)`, or `... kind (unit)`.
    """
    sizes: dict[int, list[list[str]]] = {}
    for table in tables(text):
        if size := re.fullmatch(r"[\d,]+ files, ([\d,]+) chunks", table[0][0]):
            sizes[int(size[1].replace(",", ""))] = table
    if len(sizes) < 2:
        return []
    grown: dict[str, Growth] = {}
    for chunks, (head, *cells) in sorted(sizes.items()):
        about = ""
        for name, *values in cells:
            about = about if name.startswith("... ") else name.rpartition(", ")[0]
            whole = f"{about}, {name[4:]}" if name.startswith("... ") else name
            for place, value in zip(head[1:], values, strict=True):
                if value and whole.rpartition(" (")[0] in GROWING:
                    lines = grown.setdefault(whole, Growth(whole, {})).lines
                    lines.setdefault(place, []).append((chunks, float(value.replace(",", ""))))
    return [each for each in grown.values() if any(len(points) > 1 for points in each.lines.values())]


# -- how it looks -------------------------------------------------------------------------------------------------


def picture(text: str) -> str:
    """The whole file."""
    head, *table = rows(text, SECTION)
    shown = list(figures(table))
    if not shown:
        raise SystemExit(f"{FIGURES} has no figure with a goal under {SECTION!r}")
    steps = max(STEPS, *(math.ceil(abs(each.steps)) for each in shown))
    bottom, grown = HEAD + ROW * len(shown), growths(text)
    height = bottom + FOOT + (len(grown) + 1) // 2 * PANEL_HEIGHT
    told = "; ".join(f"{each.name}: {_amount(each)}" for each in shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(head[0])}</title>",
        f"<desc>{escape(told)}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="34">{escape(head[0])}</text>',
        f'<text class="quiet" x="{MARGIN}" y="56">What was measured, beside its goal. Left of the goal: better.</text>',
        *_scale(steps, bottom),
        *(line for number, each in enumerate(shown) for line in _row(each, HEAD + ROW * number, steps)),
        *(line for number, each in enumerate(grown) for line in _panel(each, number, bottom + FOOT)),
        "</svg>\n",
    ]
    return "\n".join(parts)


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


def _panel(growth: Growth, number: int, top: int) -> Iterator[str]:
    """One figure over the number of chunks, both from nothing; each line has its name and its last value at the head."""
    left, floor = MARGIN + number % 2 * (WIDTH - 2 * MARGIN - PANEL_WIDTH), top + number // 2 * PANEL_HEIGHT
    top, floor = floor + PANEL_HEAD, floor + PANEL_HEIGHT - PANEL_FOOT
    points = [point for line in growth.lines.values() for point in line]
    widest, highest = max(chunks for chunks, _ in points), max(value for _, value in points) or 1.0
    said, _, unit = growth.name.removesuffix(")").rpartition(" (")
    yield f'<text x="{left}" y="{top - PANEL_HEAD + 16}">{escape(said)}</text>'
    yield f'<line class="line" x1="{left}" x2="{left + PANEL_WIDTH}" y1="{floor}" y2="{floor}"/>'
    yield f'<text class="quiet" x="{left}" y="{floor + 16}">0</text>'
    yield f'<text class="quiet" x="{left + PANEL_WIDTH}" y="{floor + 16}" text-anchor="end">{widest:,} chunks</text>'
    for order, (place, line) in enumerate(growth.lines.items()):
        at = [(left + chunks / widest * PANEL_WIDTH, floor - value / highest * (floor - top)) for chunks, value in line]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        yield f'<polyline class="of{order}" points="{drawn}"/>'
        yield from (f'<circle class="of{order}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in at)
        told = f"{place}: {line[-1][1]:g} {unit}"
        yield f'<text class="of{order}" x="{left}" y="{top - PANEL_HEAD + 34 + 18 * order}">{escape(told)}</text>'


def _amount(figure: Figure) -> str:
    return f"{figure.seen:g} {figure.unit}, goal {figure.goal:g}{'' if figure.is_met else ': missed'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
