"""Draw docs/pictures/flames.svg: where the processor time of a cold index, a question and the prompt hook goes.

    python bench/flames.py TREE ... --prompts prompts.json        trees to index; a list of texts, or a tasks file

The stack of the only thread at work is noted every few milliseconds of processor time. A phase of the index begins with one of
its ENTRIES; a stack counts for the innermost of them. A call of a library in C is time of the line that calls it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.hooks import load_prompts
from context_engine.engine import Engine
from context_engine.hooks import HookResponder, parse_event
from context_engine.tools import Call, search_code
from evals.scratch_engine import open_indexed
from scripts.pictures import HEAD, MARGIN, PICTURES, WIDTH, page

TICK_S = 0.002
LEVELS, BAR, GAP = 9, 16, 26
LEAST, LETTER = 8, 6.2
"""Pixels: of the narrowest bar that is drawn, and of a letter."""
OUTLINE = "chunks and outlines"
ENTRIES = {
    "scan": "walk and read",
    "load_for_index": "walk and read",
    "Grammars.parse": "parse",
    "outline_file": OUTLINE,
    "split_chunks": OUTLINE,
    "SegmentBuilder.add": "words and postings",
    "SegmentBuilder.build": "words and postings",
    "_StaticBuilder.vectors": "vectors",
}
Stacks = Counter[tuple[str, ...]]


@contextmanager
def sampling(stacks: Stacks) -> Generator[None]:
    """Count the stacks of the main thread, outermost call first, until the block ends."""

    def note(_signal: int, frame: FrameType | None) -> None:
        names = []
        while frame and "bench/flames" not in frame.f_code.co_filename:
            if not frame.f_code.co_name.startswith("<"):
                names.append(frame.f_code.co_qualname.replace(".<locals>", ""))
            frame = frame.f_back
        stacks[tuple(reversed(names))] += 1

    signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def split_phases(stacks: Stacks) -> dict[str, Stacks]:
    """Divide the stacks of an index by their phase, each from its entry on; those of no phase have the name ''."""
    phases: dict[str, Stacks] = {phase: Counter() for phase in (*ENTRIES.values(), "")}
    for stack, count in stacks.items():
        first = next((number for number in reversed(range(len(stack))) if stack[number] in ENTRIES), None)
        phase = "" if first is None else ENTRIES[stack[first]]
        phases[phase][stack[first:]] += count
    return phases


def draw_calls(stacks: Stacks, left: float, top: int, width: float, level: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the lower end and the shapes of each call, and of the calls that it makes below it."""
    below: dict[str, Stacks] = defaultdict(Counter)
    for stack, count in stacks.items():
        if stack:
            below[stack[0]][stack[1:]] += count
    for name, rest in sorted(below.items(), key=lambda call: -call[1].total()):
        part = width * rest.total() / stacks.total()
        if level < LEVELS and part >= LEAST:
            x, hue = f'x="{left:.0f}"', zlib.crc32(name.encode()) % 60
            bar = f'<rect {x} y="{top}" width="{part - 1:.0f}" height="{BAR - 1}" fill="hsl({hue} 85% 55% / 0.45)"/>'
            label = next((text for text in (name, name.rpartition(".")[2]) if len(text) * LETTER < part), "")
            text = f'<text style="font-size: 10px" {x} dx="3" y="{top + 12}">{escape(label)}</text>' if label else ""
            yield top + BAR, f"<g><title>{escape(name)}: {rest.total()} samples</title>{bar}{text}</g>"
            yield from draw_calls(rest, left, top + BAR, part, level + 1)
        left += part


def draw(phases: dict[str, Stacks], about: str) -> str:
    """Return the picture: bars for each phase; those of the index with their share."""
    indexed = sum(phases[name].total() for name in {*ENTRIES.values(), ""})
    lines, top, told = [], HEAD, []
    for name, stacks in phases.items():
        if not name:
            continue
        is_index = name in ENTRIES.values()
        told.append(f"{name}: {stacks.total() / indexed:.0%} of a cold index" if is_index else name)
        lines.append(f'<text x="{MARGIN}" y="{top}">{escape(told[-1])}</text>')
        ends, shapes = zip(*draw_calls(stacks, MARGIN, top + 8, WIDTH - 2 * MARGIN), strict=True)
        lines += shapes
        top = max(ends) + GAP
    return page(top, "Where the processor time goes", about, "; ".join(told), lines)


def main() -> None:
    """Index, ask, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--prompts", type=Path, required=True)
    chosen = parser.parse_args()
    texts = load_prompts(chosen.prompts)
    phases: dict[str, Stacks] = defaultdict(Counter)
    for tree in chosen.trees:
        with tempfile.TemporaryDirectory() as cache, open_indexed(tree, Path(cache)) as engine:
            responder, stacks = HookResponder(), Stacks()
            answer(engine, responder, texts[0])  # what is loaded once is loaded
            with sampling(stacks):
                engine.index.update(force=True)
            for phase, part in split_phases(stacks).items():
                phases[phase] += part
            with sampling(phases["a question"]):
                for text in texts:
                    search_code.call(engine, {"query": text}, Call())
            with sampling(phases["the prompt hook"]):
                for text in texts:
                    answer(engine, responder, text)
    about = "A bar is a call, as wide as its share of the processor time; the calls that it makes are below it."
    (PICTURES / "flames.svg").write_text(draw(phases, about), encoding="utf-8", newline="\n")


def answer(engine: Engine, responder: HookResponder, text: str) -> None:
    """Answer a prompt as its hook does."""
    event = {"cwd": str(engine.root), "session_id": text, "prompt": text}
    responder.answer(engine, parse_event("claude", "UserPromptSubmit", json.dumps(event)))


if __name__ == "__main__":
    main()
