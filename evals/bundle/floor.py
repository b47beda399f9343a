"""From what score on does a prompt name something? Prompts that name nothing against commit subjects, on any repositories.

    python evals/bundle/floor.py REPOSITORY...

`assist.enhancing.LEXICAL_MIN` is the floor below which no likely file is told. The table says, for floors around it, how
many of the empty prompts of this file and how many commit subjects of the repository reach it.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.context.localizer import lexical_score
from context_engine.engine import Engine
from context_engine.model import Query
from context_engine.settings import Settings

EMPTY = (
    "make it better", "please fix the bug", "improve the code quality", "clean this up", "can you help me with this",
    "refactor everything", "write better documentation", "it does not work", "do it again but properly",
    "what do you think", "make it faster please", "add more tests", "continue", "explain what you did",
    "looks good, now finish the rest", "fix all issues", "improve performance", "review my changes", "why is it broken",
    "simplify", "go on", "thanks, that works", "try again", "commit this", "optimize this and make it production ready",
    "please follow best practices and write clean code", "hello", "update the readme", "is this correct?",
    "run the tests and fix the failures",
)  # fmt: skip
"""What people write when they name nothing."""
FLOORS = (3.5, 4.0, 4.5, 5.0, 5.5, 6.0)
SUBJECTS = 60


def subjects(repository: Path, draw: random.Random) -> list[str]:
    """Commit subjects at random, merges left out."""
    command = ["git", "log", "--no-merges", "--format=%s", "-n", "3000"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    told = [line for line in done.stdout.splitlines() if len(line) > 15]
    return draw.sample(told, min(SUBJECTS, len(told)))


def worth(engine: Engine, text: str) -> float:
    """What the words of a text are worth in the best file."""
    hits = engine.search.find(Query(text, 1, chunks_per_file=1)).hits
    return lexical_score(hits[0]) if hits else 0.0


def main() -> None:
    """Ask, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", type=Path, nargs="+")
    parser.add_argument("--cache", type=Path, help="where indexes are kept; a folder that is deleted by default")
    chosen = parser.parse_args()
    draw, empty, named = random.Random(6), [], []
    with tempfile.TemporaryDirectory(prefix="ctx-bundle-") as scratch:
        for repository in chosen.repositories:
            settings = Settings(cache_folder=chosen.cache or Path(scratch), workers=0, staleness_ms=600_000)
            with Engine.open(repository, settings=settings) as engine:
                engine.index.update()
                empty += [worth(engine, text) for text in EMPTY]
                named += [worth(engine, text) for text in subjects(repository, draw)]
    print(f"| floor | {len(empty)} empty prompts | {len(named)} commit subjects |\n| --- | --- | --- |")
    for floor in FLOORS:
        shares = (sum(value >= floor for value in values) / len(values) for values in (empty, named))
        print(f"| {floor} | {' | '.join(f'{share:.3f}' for share in shares)} |")


if __name__ == "__main__":
    main()
