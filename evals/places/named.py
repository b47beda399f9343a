"""Is a definition shown when it is asked for by its name? Functions that a repository defines once, drawn by a seed.

    python evals/places/named.py --corpus DIR [--tool context] [--misses]

DIR holds a folder a repository. Of each, `--per` functions, tests and vendored ones among them, are asked for by the name,
by `Owner.name` and in a sentence. A reply counts if its text has the line with the name, under the number of that line.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.engine import Engine
from context_engine.model import Definition
from evals.places.adapter import TOOLS
from evals.scratch_engine import open_indexed

KINDS = ("function", "method", "constructor")
NAME_CHARS_MIN = 3
SENTENCES = ("where is {} defined", "what does {} do")


def list_unique(engine: Engine) -> list[Definition]:
    """Return the functions whose name the repository defines once, by path and line."""
    searcher = engine.search.searcher()
    if searcher is None:
        return []
    paths = sorted(searcher.snapshot.paths)
    symbols = [symbol for path in paths for _, symbol in engine.symbols.outline(path, details=False).symbols]
    count = Counter(symbol.name.lower() for symbol in symbols)
    named = [
        one for one in symbols if one.kind in KINDS and len(one.name) >= NAME_CHARS_MIN and one.name.isidentifier()
    ]
    return [one for one in named if count[one.name.lower()] == 1]


def list_questions(one: Definition, number: int) -> Iterator[tuple[str, str]]:
    """Yield each kind of question with its text."""
    yield "name", one.name
    if "." in one.qualified:
        yield "Owner.name", ".".join(one.qualified.split(".")[-2:])
    yield "sentence", SENTENCES[number % len(SENTENCES)].format(one.name)


def find_line(root: Path, one: Definition) -> int:
    """Return the line that has the name of a definition: decorators come before it."""
    lines = (root / one.path).read_text(encoding="utf-8", errors="replace").split("\n")[: one.span.last]
    spelled = re.compile(rf"\b{one.name}\b")
    numbered = enumerate(lines[one.span.first - 1 :], one.span.first)
    return next((number for number, line in numbered if spelled.search(line)), one.span.first)


def main() -> None:
    """Parse, draw, ask, print a row for each repository and kind of question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="keep the indexes here")
    parser.add_argument("--tool", choices=TOOLS, default="search")
    parser.add_argument("--per", type=int, default=20, help="functions of each repository")
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument("--misses", action="store_true")
    chosen = parser.parse_args()
    asked, right, began = Counter[str](), Counter[str](), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ctx-named-") as scratch:
        for root in sorted(map(Path.resolve, chosen.corpus.iterdir())):
            with closing(open_indexed(root, (chosen.cache or Path(scratch)) / root.name)) as engine:
                unique = list_unique(engine)
                drawn = random.Random(chosen.seed).sample(unique, min(chosen.per, len(unique)))
                for number, one in enumerate(drawn):
                    line = find_line(root, one)
                    for kind, text in list_questions(one, number):
                        shown = TOOLS[chosen.tool](engine, text).shown
                        is_shown = any(place.path == one.path and place.first <= line <= place.last for place in shown)
                        asked.update((kind, root.name, "all"))
                        right.update((kind, root.name, "all") if is_shown else ())
                        if chosen.misses and not is_shown:
                            print(f"  {root.name}: {text!r} is {one.path}:{line}; shown: {shown[:3]}")
    for name in asked:
        print(f"{name:20s} {right[name]:4d} of {asked[name]:4d}  {right[name] / asked[name]:.3f}")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
