"""Run a `ctx` command in a terminal of its own and draw its output as docs/pictures/NAME.svg.

    python scripts/terminal_picture.py search -- ctx search "how are rate limits enforced" -n 2

The picture shows a real run, colors included, without fonts or scripts from elsewhere. It needs a system with pseudo
terminals, and `ctx` next to the Python that runs this script.
"""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, ROWS_MAX = 100, 44
CHARACTER_PX, LINE_PX, MARGIN_PX, BAR_PX = 8.4, 19, 18, 34
COLORS = {
    "red": "#ff7b72",
    "green": "#7ee787",
    "yellow": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
}
"""Of a dark terminal; every other color is that of plain text."""
STYLE = """
  text { font: 14px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #e6edf3; }
  .bar { fill: #161b22; } .page { fill: #0d1117; } .dim { fill: #9198a1; } .bold { font-weight: 600; }
"""


def main(argv: Sequence[str]) -> int:
    """Run, draw, and return the exit code of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the picture, without .svg")
    parser.add_argument("command", nargs="+", help="the command and its arguments, behind --")
    asked = parser.parse_args(argv)
    printed, status = run_in_terminal([str(Path(sys.executable).with_name(asked.command[0])), *asked.command[1:]])
    words = " ".join(f'"{word}"' if " " in word else word for word in asked.command)
    PICTURES.mkdir(exist_ok=True)
    picture = PICTURES / f"{asked.name}.svg"
    picture.write_text(draw(words, printed), encoding="utf-8", newline="\n")
    print(f"drawn: {picture.relative_to(ROOT)}")
    return status


def run_in_terminal(command: Sequence[str]) -> tuple[str, int]:
    """Return the output of a command in a terminal, escape sequences included, and its exit code."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        printed = bytearray()
        while piece := _read(ours):
            printed += piece
    os.close(ours)
    return printed.decode("utf-8", "replace").replace("\r\n", "\n"), process.returncode


def _read(terminal: int) -> bytes:
    """Return the next bytes of a terminal; none at its end, which Linux reports as an error."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def draw(command: str, printed: str) -> str:
    """Return the picture of a terminal that shows a command and its output."""
    lines = [Text.assemble(("$ ", "green"), (command, "bold")), *Text.from_ansi(printed).split()]
    shown = lines[:ROWS_MAX]
    width = round(COLUMNS * CHARACTER_PX + 2 * MARGIN_PX)
    height = BAR_PX + LINE_PX * len(shown) + 2 * MARGIN_PX
    drawn = [_draw_line(line, BAR_PX + MARGIN_PX + LINE_PX * (number + 1) - 5) for number, line in enumerate(shown)]
    dots = [f'<circle cx="{22 + 20 * number}" cy="17" r="6" fill="#3d444d"/>' for number in range(3)]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(command)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
            f'<path class="bar" d="M0 {BAR_PX} V8 Q0 0 8 0 H{width - 8} Q{width} 0 {width} 8 V{BAR_PX} Z"/>',
            *dots,
            *drawn,
            "</svg>\n",
        )
    )


def _draw_line(line: Text, y: int) -> str:
    """Return one line as SVG text: a piece for each style, each at its own column."""
    line.truncate(COLUMNS)
    pieces, column = [], 0
    for segment in line.render(Console(color_system="truecolor", width=COLUMNS)):
        text = segment.text.rstrip("\n")
        if text.strip():
            x = round(MARGIN_PX + column * CHARACTER_PX, 1)
            pieces.append(f'<tspan x="{x}"{_attributes(segment.style)}>{escape(text)}</tspan>')
        column += len(text)
    return f'<text y="{y}" xml:space="preserve">{"".join(pieces)}</text>'


def _attributes(style: object) -> str:
    """Return the SVG attributes of a style of rich: color, bold, dim."""
    classes = [name for name in ("bold", "dim") if getattr(style, name, None)]
    color = COLORS.get(getattr(getattr(style, "color", None), "name", "").removeprefix("bright_"), "")
    chosen = f' class="{" ".join(classes)}"' if classes else ""
    return chosen + (f' style="fill: {color}"' if color else "")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
