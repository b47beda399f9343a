"""Do bundles keep their promises? Random questions, random budgets, real repositories, a real tokenizer.

    python evals/bundle/laws.py REPOSITORY...          200 questions over all of them, drawn anew with --seed
    python evals/bundle/laws.py REPOSITORY --count 20

Of each bundle: no more tokens than its budget, as we count; each file once, and no two snippets of it that overlap;
asked twice, the same answer. What breaks a law is printed, and the exit code is 1. What o200k counts is printed where
node and the tokenizer of `scripts/tokens.py` are there.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.engine import Engine
from context_engine.model import Query
from context_engine.settings import Settings
from context_engine.tools import Call
from context_engine.tools.context_tools import get_context
from scripts.tokens import counted

BUDGETS = (500, 800, 1_200, 2_000, 4_000, 8_000)
WORDS_MAX = 7


class Asked(NamedTuple):
    """One call, and what it answered."""

    arguments: dict[str, Any]
    text: str


def questions(engine: Engine, draw: random.Random, count: int) -> Iterator[str]:
    """Words of the repository itself in random company: from one line, from many places, or a symbol."""
    paths = [str(hit.chunk.path) for word in "test config error file user build".split() for hit in _hits(engine, word)]
    for _ in range(count):
        lines = engine.files.read(draw.choice(paths)).text.splitlines() or ["empty file"]
        words = re.findall(r"\w{3,30}", " ".join(draw.sample(lines, min(len(lines), draw.choice((1, 1, 4))))))
        yield " ".join(draw.sample(words, min(len(words), draw.randint(1, WORDS_MAX)))) or "what is here"


def _hits(engine: Engine, word: str) -> Sequence[Any]:
    return [hit for hit in engine.search.find(Query(word, 50, chunks_per_file=1)).hits if len(hit.chunk.text) < 20_000]


def asked(engine: Engine, question: str, draw: random.Random) -> Asked:
    """One call with arguments at random."""
    arguments = {
        "query": question.ljust(3, "."),
        "token_budget": draw.choice(BUDGETS),
        "limit": draw.choice((1, 3, 5, 20)),
        "min_relevance": draw.choice((0, 0.3, 0.6)),
        "format": draw.choice(("json", "json", "markdown")),
    }
    return Asked(arguments, get_context.call(engine, arguments, Call()).text)


def broken(one: Asked, again: str) -> list[str]:
    """The laws that an answer breaks, in words."""
    wrong = (
        [] if timeless(one.text) == timeless(again) else [f"asked twice, two answers: {difference(one.text, again)}"]
    )
    if one.arguments["format"] == "json":
        reply = json.loads(one.text)
        if reply["metadata"]["total_tokens"] > one.arguments["token_budget"]:
            wrong.append(f"{reply['metadata']['total_tokens']} tokens by our count")
        paths = [file["path"] for file in reply["files"]]
        wrong += [f"{path} is listed twice" for path in set(paths) if paths.count(path) > 1]
        wrong += [f"snippets of {file['path']} overlap" for file in reply["files"] if overlaps(file["snippets"])]
    return wrong


def difference(one: str, other: str) -> str:
    """Where two answers part, with what stands before."""
    one, other = timeless(one), timeless(other)
    at = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), 0)
    return f"{one[max(0, at - 120) : at + 80]!r} against {other[max(0, at - 120) : at + 80]!r}"


def timeless(text: str) -> str:
    """An answer without the time it took."""
    return re.sub(r'"search_ms":\d+', "", text)


def overlaps(snippets: Sequence[dict[str, Any]]) -> bool:
    """Whether any line is shown twice."""
    spans = sorted(tuple(map(int, each["lines"].split("-"))) for each in snippets)
    return any(left[1] >= right[0] for left, right in pairwise(spans))


def main() -> None:
    """Ask, check, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--cache", type=Path, help="where indexes are kept; a folder that is deleted by default")
    chosen = parser.parse_args()
    draw, answers, wrong, times = random.Random(chosen.seed), [], 0, []
    with tempfile.TemporaryDirectory(prefix="ctx-bundle-") as scratch:
        for number, repository in enumerate(chosen.repositories):
            share = chosen.count * (number + 1) // len(chosen.repositories) - chosen.count * number // len(
                chosen.repositories
            )
            settings = Settings(cache_folder=chosen.cache or Path(scratch), workers=0, staleness_ms=600_000)
            with Engine.open(repository, settings=settings) as engine:
                engine.index.update()
                engine.memory.run_to_end()  # else history and dates arrive between the first answer and the second
                for question in questions(engine, draw, share):
                    one = asked(engine, question, draw)
                    began = time.perf_counter()
                    again = get_context.call(engine, one.arguments, Call()).text
                    times.append(time.perf_counter() - began)
                    answers.append(one)
                    for law in broken(one, again):
                        wrong += 1
                        print(f"{repository.name}: {one.arguments}: {law}")
    tell(answers, sorted(times))
    raise SystemExit(1 if wrong else 0)


def tell(answers: Sequence[Asked], times: Sequence[float]) -> None:
    """Print the totals, and the share of their budgets that answers use by the true count."""
    budgets = [each.arguments["token_budget"] for each in answers]
    true = counted([each.text for each in answers])
    middle, late = times[len(times) // 2], times[len(times) * 19 // 20]
    print(f"{len(answers)} bundles; warm {middle:.3f} s in the middle, {late:.3f} s p95")
    if true is None:
        print("o200k: not counted (see scripts/tokens.py)")
        return
    shares = sorted(tokens / budget for tokens, budget in zip(true, budgets, strict=True))
    print(f"o200k: share of the budget {shares[len(shares) // 2]:.2f} in the middle, {shares[-1]:.2f} at most")


if __name__ == "__main__":
    main()
