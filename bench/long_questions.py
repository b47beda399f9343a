"""Time questions of the length of an issue: a search, a bundle and the prompt hook, in process.

    python bench/long_questions.py TREE --mirror REPOSITORY.git       asks the longest messages of its commits

The tree is indexed first, in a cache that is kept if `--cache` names one. The first question is asked of an Engine that has
answered nothing, and counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import cpu_ms, ms, p50_p95, table
from context_engine.engine import Engine
from context_engine.hooks import HookResponder, parse_event
from context_engine.tools import Call
from context_engine.tools.context_tools import get_context
from context_engine.tools.search_tools import search_code
from evals.scratch_engine import open_indexed

CHARS = 3_000
ASKED = 60


def list_messages(mirror: Path) -> list[str]:
    """Return the longest messages of a repository's commits, cut to the length of a long issue."""
    command = ["git", "-C", str(mirror), "log", "--no-merges", "--format=%B%x00", "HEAD"]
    messages = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "replace").split("\0")
    return [message.strip()[:CHARS] for message in sorted(messages, key=len, reverse=True)[:ASKED]]


def list_askers(engine: Engine) -> dict[str, Callable[[str], object]]:
    """Return what is timed, by name."""
    responder = HookResponder()

    def ask_hook(text: str) -> str:
        session = {"cwd": str(engine.root), "session_id": str(hash(text)), "prompt": text}
        return responder.answer(engine, parse_event("claude", "UserPromptSubmit", json.dumps(session)))

    return {
        "prompt hook": ask_hook,
        "search_code": lambda text: search_code.call(engine, {"query": text}, Call()),
        "get_context": lambda text: get_context.call(engine, {"query": text}, Call()),
    }


def time_each(ask: Callable[[str], object], questions: Sequence[str]) -> tuple[float, ...]:
    """Return p50 and p95 of the wall time and of the processor time of the questions."""
    walls: list[float] = []
    own = [cpu_ms(lambda text=text: walls.append(ms(lambda: ask(text)))) for text in questions]
    return *p50_p95(walls), *p50_p95(own)


def main() -> None:
    """Index, ask, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--mirror", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    chosen = parser.parse_args()
    questions = list_messages(chosen.mirror)
    with tempfile.TemporaryDirectory(prefix="ctx-long-") as scratch:
        cache = chosen.cache or Path(scratch)
        open_indexed(chosen.tree, cache).close()
        with closing(open_indexed(chosen.tree, cache)) as engine:
            rows = [(name, *map(round, time_each(ask, questions))) for name, ask in list_askers(engine).items()]
            print(f"{engine.status().chunks:,} chunks, {len(questions)} questions\n")
    print(table(("ms", "wall p50", "p95", "processor p50", "p95"), rows))


if __name__ == "__main__":
    main()
