"""How much does an agent read until the right file is in front of it? A bundle, a search, and grep with reading files.

    python evals/bundle/tokens.py --tasks dev.json --corpus DIR
    python evals/bundle/tokens.py --tasks dev.json --corpus DIR --repo flask --repo chi

Three ways to the same answer, each paid for in full, counted alike (`text.estimate_tokens`):

- bundle: one `get_context` with a budget of N tokens; the file is in when the bundle shows a snippet of it.
- search: one `codebase_retrieval` with 20 rows, read from the top; the file is in when its first row was read.
- grep: one `scout` with the words of the question, its reply paid for, then `read_file` of its files in its order.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from context_engine.settings import Settings
from context_engine.text import STOP_WORDS, estimate_tokens, split_words
from context_engine.tools import Call, call
from context_engine.tools.context_tools import get_context
from evals.retrieval.metrics import Target
from evals.retrieval.score import targets_of

BUDGETS = (500, 1_000, 2_000, 4_000, 8_000)
NEVER = 1 << 30
FILES_READ_MAX = 30
"""Nobody reads more files in a row in search of one."""

Wanted = Sequence[Target]


def is_wanted(path: str, wanted: Wanted) -> bool:
    """Whether a path is one of those that answer the question, by the rule of the dev set; whatever lines it asks for."""
    return any(target.is_hit_by({"path": path}) for target in wanted)


def by_bundle(engine: Engine, question: str, wanted: Wanted) -> int:
    """The smallest of the budgets with which a bundle shows the file."""
    for budget in BUDGETS:
        reply = get_context.call(
            engine, {"query": question.ljust(3, "?"), "token_budget": budget, "format": "json"}, Call()
        )
        if any(is_wanted(file["path"], wanted) for file in json.loads(reply.text)["files"]):
            return budget
    return NEVER


def by_search(engine: Engine, question: str, wanted: Wanted) -> int:
    """What the rows cost down to the first of the file."""
    rows = _reply(engine, "search_code", query=question, limit=20, format="json")["results"]
    spent = 0
    for row in rows:
        spent += estimate_tokens(json.dumps(row, ensure_ascii=False))
        if is_wanted(row["path"], wanted):
            return spent
    return NEVER


def by_grep(engine: Engine, question: str, wanted: Wanted) -> int:
    """What finding the words and reading the files costs, down to the file."""
    keywords = [word for word in split_words(question) if word.lower() not in STOP_WORDS and len(word) > 2]
    found = _reply(engine, "scout", keywords=keywords or [question], max_results=FILES_READ_MAX, max_matches_per_file=1)
    spent = estimate_tokens(json.dumps(found, ensure_ascii=False))
    for file in found["files"]:
        spent += _read_cost(engine, file["path"])
        if is_wanted(file["path"], wanted):
            return spent
    return NEVER


def _reply(engine: Engine, tool: str, **arguments: Any) -> dict[str, Any]:
    return json.loads(call(engine, tool, arguments).text)


def _read_cost(engine: Engine, path: str) -> int:
    try:
        return estimate_tokens(call(engine, "read_file", {"path": path}).text)
    except ContextEngineError:
        return 0


WAYS: dict[str, Callable[[Engine, str, Wanted], int]] = {"bundle": by_bundle, "search": by_search, "grep": by_grep}


def main() -> None:
    """Ask every question in every way; print the share of questions answered within each budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--repo", action="append", help="only this repository; may be repeated")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this way; may be repeated")
    chosen = parser.parse_args()
    spent: dict[str, list[int]] = {way: [] for way in chosen.way or WAYS}
    for repo in json.loads(chosen.tasks.read_text(encoding="utf-8")):
        folder = chosen.corpus / repo["name"] / (repo["root"] or "")
        if not folder.is_dir() or (chosen.repo and repo["name"] not in chosen.repo):
            continue
        with tempfile.TemporaryDirectory(prefix="ctx-bundle-") as cache:
            settings = Settings(cache_folder=Path(cache), workers=0, staleness_ms=600_000)
            with Engine.open(folder, settings=settings) as engine:
                engine.index.update()
                for task in repo["queries"]:
                    for way in spent:
                        spent[way].append(WAYS[way](engine, task["query"], targets_of(task, by_file=True)))
        print(f"{repo['name']}: {len(repo['queries'])} questions", file=sys.stderr, flush=True)
    told(spent)


def told(spent: dict[str, list[int]]) -> None:
    """The table."""
    print(f"| {max(map(len, spent.values()))} questions | {' | '.join(f'{budget:,}' for budget in BUDGETS)} | median |")
    print(f"| --- {'| --- ' * (len(BUDGETS) + 1)}|")
    for way, costs in spent.items():
        shares = (sum(cost <= budget for cost in costs) / max(1, len(costs)) for budget in BUDGETS)
        median = int(statistics.median(costs)) if costs else 0
        print(f"| {way} | {' | '.join(f'{share:.3f}' for share in shares)} | {median if median < NEVER else 'never'} |")


if __name__ == "__main__":
    main()
