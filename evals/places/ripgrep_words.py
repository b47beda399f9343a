"""A plain baseline for a bench of places: `rg` for the words of the question, behind the protocol of adapter.py.

What an agent without another tool can do in one call: any of the words in source files, case ignored, three lines around
each match. Where most of the words are together comes first, which `rg` itself does not do.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.repo import find_ripgrep
from evals.places.adapter import Reply, answer_requests, fill
from evals.places.shown import Place

AROUND = 3
SOURCES = "*.{py,pyi,js,jsx,ts,tsx,mjs,go,rs,java,kt,scala,c,h,cc,cpp,hpp,cs,rb,php,swift,ex,exs,hs,lua,sh,bash,zig,vue,svelte}"
"""As the other baseline has them."""
LETTERS_MIN = 4
WORDS_MAX = 12
"""The first ones: a title says more than what follows it."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMON = frozenset(
    "about after also because been before being cannot change changed code could does doing done each every file files from"
    " have here instead into just like make makes more most need needs never only other over same should since some such than"
    " that their them then there these they this those used uses using very want well were what when where which while will"
    " with without would your".split()
)


def choose_words(question: str) -> list[str]:
    """Return the words to search for, in the order of the question.

    >>> choose_words("Fix the parse_header of HTTP requests when there is none")
    ['parse_header', 'HTTP', 'requests', 'none']
    """
    found = (word for word in _WORD.findall(question) if len(word) >= LETTERS_MIN and word.lower() not in _COMMON)
    return list(dict.fromkeys(found))[:WORDS_MAX]


class Match(NamedTuple):
    """A line that `rg` prints, and the words that it found there: none in the lines around a match."""

    number: int
    text: str
    words: frozenset[str]


@lru_cache(1)
def _ranked(root: Path, question: str) -> list[tuple[Place, str]]:
    """Return the runs of lines that `rg` prints: those with most words first, then those of files with most words."""
    words = choose_words(question)
    program = find_ripgrep(None)
    if not words or program is None:
        return []
    options = [part for word in words for part in ("-e", word)]
    command = [program, "--json", "-i", "-F", "-C", str(AROUND), "-g", SOURCES, "--sort", "path", *options, "--", "."]
    printed = subprocess.run(command, cwd=root, capture_output=True).stdout
    lines: dict[str, list[Match]] = defaultdict(list)
    for event in map(json.loads, printed.splitlines()):
        data = event["data"]
        if event["type"] in ("match", "context") and "text" in data["path"] and "text" in data["lines"]:
            found = frozenset(one["match"]["text"].lower() for one in data["submatches"])
            text = data["lines"]["text"].rstrip("\n")
            lines[data["path"]["text"].removeprefix("./")].append(Match(data["line_number"], text, found))
    in_file = {path: len(_words_of(found)) for path, found in lines.items()}
    runs = [(path, run) for path, found in lines.items() for run in _split_runs(found)]
    runs.sort(key=lambda one: (-len(_words_of(one[1])), -in_file[one[0]]))
    return [(Place(path, run[0].number, run[-1].number), "\n".join(line.text for line in run)) for path, run in runs]


def _words_of(lines: Iterable[Match]) -> set[str]:
    return set().union(*(line.words for line in lines))


def _split_runs(lines: Sequence[Match]) -> Iterator[list[Match]]:
    """Yield the lines that follow one another."""
    run = [lines[0]]
    for line in lines[1:]:
        if line.number != run[-1].number + 1:
            yield run
            run = []
        run.append(line)
    yield run


def ask_ripgrep(root: Path, query: str, tokens: int) -> Reply:
    """Show the matches with the lines around them, until the budget is filled."""
    began = time.perf_counter()
    shown, text = fill(_ranked(root, query), tokens)
    return Reply(shown, text, (time.perf_counter() - began) * 1e3)


if __name__ == "__main__":
    answer_requests(ask_ripgrep)
