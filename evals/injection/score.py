"""Score what the prompt hook injects: whether a needed file is in it, and silence where no code is needed.

    python evals/injection/score.py --tasks dev.json --mirrors DIR --out DIR            the reported half
    python evals/injection/score.py --tasks dev.json --mirrors DIR --out DIR --tune     the other half, with each mistake

Mirrors are DIR/owner+name/repo; trees and indexes are kept below OUT, so a second run asks at once. The 100 prompts that need
code are drawn by rule from the tasks file: 50 questions and 50 commit subjects, by the hash of their text. The 100 that need none are
in silent_prompts.toml. Each prompt is asked in a session of its own, by the responder that answers the hook.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.engine import Engine
from context_engine.hooks import HookEvent, HookResponder, prompt_context
from context_engine.text import estimate_tokens
from evals.places.prepare import check_out, mirror_of
from evals.retrieval.ablation import table
from evals.scratch_engine import open_indexed
from evals.wide.questions import draw

SILENT = Path(__file__).resolve().with_name("silent_prompts.toml")
PER_KIND = 50
KINDS = {"question": "queries", "commit subject": "commit_queries"}
_PLACE = re.compile(r"^(?:also: )?(\S[^:\n]*):\d+(?:-\d+)?(?: [^:\n]*)?$", re.MULTILINE)
REPEATS = 3
"""Times that a prompt is asked for its time; the middle one counts."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, the repository it is asked in, and the files that it needs: none for one that needs no code."""

    repo: str
    kind: str
    text: str
    needed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Injected:
    """What a prompt got: the files shown (in order), its tokens, and the milliseconds of the answer."""

    prompt: Prompt
    files: tuple[str, ...]
    tokens: int
    ms: float


def draw_prompts(tasks: Sequence[Mapping[str, Any]], half: int) -> list[Prompt]:
    """Return one half (0: tuning, 1: reported) of the prompts that need code, then of those that need none."""
    prompts = []
    for kind, key in KINDS.items():
        pool = [(task["name"], question) for task in tasks for question in task.get(key, [])]
        pool.sort(key=lambda pair: draw(f"{pair[0]} {pair[1]['query']}"))
        for repo, question in pool[:PER_KIND][half::2]:
            prompts.append(Prompt(repo, kind, question["query"], _needed(question)))
    for kind, rows in tomllib.loads(SILENT.read_text(encoding="utf-8")).items():
        prompts += [Prompt(repo, kind, text) for repo, text in rows[half::2]]
    return prompts


def _needed(question: Mapping[str, Any]) -> frozenset[str]:
    rows = [*question["relevant"], *(question.get("secondary") or ())]
    return frozenset(row["path"] if isinstance(row, dict) else row for row in rows)


def ask(engine: Engine, prompt: Prompt) -> Injected:
    """Answer the hook of a prompt, several times for its time."""
    times = []
    for _ in range(REPEATS):
        event = HookEvent("claude", "UserPromptSubmit", "prompt", "", str(engine.root), prompt.text)
        began = time.perf_counter()
        text = HookResponder().answer(engine, event)
        times.append((time.perf_counter() - began) * 1_000)
    return Injected(prompt, find_files(text), estimate_tokens(text) if text else 0, statistics.median(times))


def find_files(text: str) -> tuple[str, ...]:
    """Return the files of the places that a context shows or names, each once."""
    return tuple(dict.fromkeys(_PLACE.findall(text)))


def report(injected: Sequence[Injected]) -> str:
    """Return the table by kind, and the figures that have an aim."""
    rows = []
    for kind in dict.fromkeys(each.prompt.kind for each in injected):
        own = [each for each in injected if each.prompt.kind == kind]
        rows.append([kind, *_figures(own)])
    code = [each for each in injected if each.prompt.needed]
    other = [each for each in injected if not each.prompt.needed]
    rows += [["all that need code", *_figures(code)], ["all that need none", *_figures(other)]]
    heads = ["prompts", "asked", "answered", "a needed file in it", "tokens (median)", "p50 ms", "p95 ms"]
    return table(heads, rows)


def _figures(own: Sequence[Injected]) -> list[str]:
    given = [each for each in own if each.files]
    right = [each for each in given if each.prompt.needed & set(each.files)]
    precision = f"{len(right) / len(given):.2f}" if given and own[0].prompt.needed else "-"
    tokens = f"{statistics.median(each.tokens for each in given):.0f}" if given else "-"
    times = sorted(each.ms for each in own)
    p95 = times[min(len(times) - 1, int(0.95 * len(times)))]
    return [
        str(len(own)), f"{len(given) / len(own):.2f}", precision, tokens, f"{statistics.median(times):.1f}", f"{p95:.1f}"
    ]  # fmt: skip


def mistakes(injected: Iterable[Injected]) -> Iterable[str]:
    """Yield the prompts that got something and should not, or got only what they do not need."""
    for each in injected:
        if each.files and not each.prompt.needed & set(each.files):
            yield f"{each.prompt.kind} | {each.prompt.repo} | {each.prompt.text[:100]!r} -> {', '.join(each.files)}"


def main() -> None:
    """Check out, index, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tune", action="store_true", help="the tuning half, with each mistake")
    parser.add_argument("--probability", type=float, help="of an answer that is given, instead of the product's")
    parser.add_argument("--without-rules", action="store_true", help="let the probability alone decide")
    chosen = parser.parse_args()
    prompt_context.PROBABILITY_MIN = chosen.probability or prompt_context.PROBABILITY_MIN
    if chosen.without_rules:
        prompt_context.asks_for_code = lambda _, **__: True
    tasks = json.loads(chosen.tasks.read_text(encoding="utf-8"))
    prompts = draw_prompts(tasks, 0 if chosen.tune else 1)
    injected: list[Injected] = []
    for task in tasks:
        own = [prompt for prompt in prompts if prompt.repo == task["name"]]
        tree = chosen.out / "trees" / task["name"]
        if not tree.is_dir():
            check_out(mirror_of(chosen.mirrors, task["github"]), task["commit"], tree)
        with open_indexed(tree, chosen.out / "cache") as engine:
            injected += [ask(engine, prompt) for prompt in own]
    print(report(injected))
    if chosen.tune:
        print(*mistakes(injected), sep="\n")


if __name__ == "__main__":
    main()
