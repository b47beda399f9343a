"""Compare the impact of definitions whose signature a commit changed with the other files that it had to adapt.

    python evals/renames/impact.py --mirrors DIR [--only spf13/cobra] [--commits 8] [--misses]
    python evals/renames/impact.py --mirrors DIR --only ansible/ansible --times 100

The latest commits before the pinned one after which one to five definitions have another signature, or are gone, and that
change a line with such a name in the code of another file of the language. Those files had to be adapted. It is certain only
where no other definition has the name, so these are counted separately ("one definition"); `get` in a changed line may be
that of a library. Next to impact: all files with the name as a word. Nothing of the repository is run. `--times` asks about random definitions of the pinned commit.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from context_engine.engine import Engine
from context_engine.errors import CallError
from context_engine.index import qualified_names
from context_engine.languages import PROSE, Grammars, Language, Languages, Symbol, find_occurrences, outline_file
from context_engine.settings import Settings
from evals.references.golden import check_out
from evals.renames.renames import REPOSITORIES, SUFFIXES

CALLABLE = frozenset({"function", "method", "constructor", "class", "interface", "struct", "trait"})
FILES_MAX = 10
CHANGED_MAX = 5
"""Definitions with another signature in one commit: one with more reformats, or moves everything."""
LOOKED_AT_MAX = 1_500


class Task(NamedTuple):
    """A commit: the tree before it, the changed lines of each file, and the commit."""

    parent: str
    lines: dict[str, set[int]]
    commit: str


class Definition(NamedTuple):
    """A definition whose signature a commit changed."""

    path: str
    qualified: str

    @property
    def name(self) -> str:
        """The name without its owner."""
        return self.qualified.rpartition(".")[2]


class Answers(NamedTuple):
    """The figures of all questions: seconds and shown steps."""

    seconds: list[float]
    steps: list[int]


def git(mirror: Path, *words: str) -> str:
    """Return what git prints."""
    return git_bytes(mirror, *words).decode("utf-8", "replace")


def git_bytes(mirror: Path, *words: str) -> bytes:
    """Return what git prints, as bytes; nothing if it fails."""
    return subprocess.run(["git", "-C", mirror, *words], capture_output=True, check=False).stdout


def tasks(mirror: Path, commit: str, language: str) -> Iterator[Task]:
    """Yield commits that change at least two files of a language."""
    listed = git(mirror, "log", "--no-merges", "--format=%H %P", f"-{LOOKED_AT_MAX}", commit)
    for row in listed.splitlines():
        own, _, parent = row.partition(" ")
        if not parent or " " in parent:
            continue
        lines: dict[str, set[int]] = {}
        path = ""
        for line in git(mirror, "diff", "-U0", "--no-renames", parent, own).splitlines():
            if line.startswith("--- "):
                path = line[6:] if line.startswith("--- a/") and line.endswith(SUFFIXES[language]) else ""
            elif path and (at := re.match(r"@@ -(\d+)(?:,(\d+))? ", line)):
                first, count = int(at[1]), int(at[2] or 1)
                lines.setdefault(path, set()).update(range(first, first + count))
        if 2 <= len(lines) <= FILES_MAX:
            yield Task(parent, lines, own)


class CommitReader:
    """Reads what a commit changed, from the objects of git alone."""

    def __init__(self, mirror: Path) -> None:
        self._mirror = mirror
        self._languages = Languages.builtin()
        self._grammars = Grammars(Path(tempfile.gettempdir()) / "grammars")

    def find_adapted(self, task: Task) -> dict[Definition, set[str]]:
        """Return the definitions whose signature changed, each with the files that were adapted to it."""
        texts = {path: git_bytes(self._mirror, "show", f"{task.parent}:{path}") for path in task.lines}
        changed: list[Definition] = []
        for path, data in texts.items():
            if "test" not in path.lower():
                changed += self._find_changed(task, path, data)
        found: dict[Definition, set[str]] = {}
        for definition in changed if len(changed) <= CHANGED_MAX else ():
            homes = {one.path for one in changed if one.name == definition.name}
            files = {
                path
                for path in texts
                if path not in homes and self._is_adapted(task, path, texts[path], definition.name)
            }
            if files:
                found[definition] = files
        return found

    def _find_changed(self, task: Task, path: str, data: bytes) -> Iterator[Definition]:
        language = self._languages.detect(path, data[:65536])
        if language is None:
            return
        now = self._signatures(language, git_bytes(self._mirror, "show", f"{task.commit}:{path}"))
        before = self._signatures(language, data)
        for qualified, rows in before.items():
            is_touched = any(not task.lines[path].isdisjoint(range(symbol.first, symbol.line + 8)) for symbol in rows)
            if is_touched and _shapes(rows) != _shapes(now.get(qualified, ())):
                yield Definition(path, qualified)

    def _signatures(self, language: Language, data: bytes) -> dict[str, list[Symbol]]:
        symbols = outline_file(language, data, self._grammars).symbols
        found: dict[str, list[Symbol]] = {}
        for symbol, qualified in zip(symbols, qualified_names(symbols), strict=True):
            if symbol.kind in CALLABLE and re.fullmatch(r"\w+", symbol.name):
                found.setdefault(qualified, []).append(symbol)
        return found

    def _is_adapted(self, task: Task, path: str, data: bytes, name: str) -> bool:
        """Return whether a changed line has the name in code."""
        language = self._languages.detect(path, data[:65536])
        found = find_occurrences(language, data, name, self._grammars) if language is not None else ""
        if isinstance(found, str):
            return False
        return any(at.line in task.lines[path] and at.role not in PROSE for at in found)


def _shapes(symbols: Iterable[Symbol]) -> list[str]:
    """Return signatures without white space and trailing commas: they do not change for a formatter."""
    return [re.sub(r"\s+", "", symbol.signature).replace(",)", ")") for symbol in symbols]


def open_engine(mirrors: Path, name: str, commit: str, folder: Path) -> Engine:
    """Open an Engine for a commit that is checked out into a folder."""
    root = folder / "w"
    root.mkdir()
    check_out(mirrors, name, commit, root)
    settings = Settings.load(root, dict(os.environ) | {
        "CTX_EMBEDDER": "static", "CTX_WORKERS": "0", "CTX_CACHE_FOLDER": str(folder / "cache"),
        "CTX_DATA_FOLDER": str(folder / "data")})  # fmt: skip
    return Engine.open(root, settings=settings)


def ask(engine: Engine, qualified: str, answers: Answers) -> set[str] | None:
    """Return the files that an impact names, tests to run included; None if the definition is not found."""
    start = time.perf_counter()
    try:
        traced = engine.symbols.trace(qualified, "impact")
    except CallError:
        return None
    answers.seconds.append(time.perf_counter() - start)
    answers.steps.append(len(traced.edges))
    return {str(edge.path) for edge in traced.edges} | set(traced.tests)


def judge(mirrors: Path, row: dict[str, Any], task: Task, adapted: dict[Definition, set[str]], answers: Answers,
          *, shows_misses: bool) -> dict[str, list[int]]:  # fmt: skip
    """Return right, wrong and missed files for each way to find them; each definition has its own files."""
    folder = Path(tempfile.mkdtemp(prefix="impact-"))
    counts = {"by name": [0, 0, 0], "impact": [0, 0, 0], "impact, one definition": [0, 0, 0]}
    try:
        with open_engine(mirrors, row["name"], task.parent, folder) as engine:
            engine.index.update()
            root = folder / "w"
            texts = {path.relative_to(root).as_posix(): path.read_text("utf-8", "replace")
                     for path in root.rglob("*") if path.suffix in SUFFIXES[row["language"]] and path.is_file()}  # fmt: skip
            for definition, truth in adapted.items():
                pattern = re.compile(rf"\b{re.escape(definition.name)}\b")
                named = {path for path, text in texts.items() if pattern.search(text)}
                truth &= named  # `git archive` leaves out some files, above all tests of PHP
                found = ask(engine, definition.qualified, answers)
                if found is None:
                    print("  not found", definition, flush=True)
                    continue
                ways = [("by name", named), ("impact", found)]
                if engine.symbols.find(definition.name).total == 1:
                    ways.append(("impact, one definition", found))
                for way, files in ways:
                    three = (len(files & truth), len(files - truth - {definition.path}), len(truth - files))
                    counts[way] = [a + b for a, b in zip(counts[way], three, strict=True)]
                for path in sorted(truth - found) if shows_misses else ():
                    lines = [line.strip() for number, line in enumerate(texts.get(path, "").split("\n"), 1)
                             if number in task.lines[path] and pattern.search(line)]  # fmt: skip
                    print(
                        f"  missed ({len(ways) - 2}) {task.commit[:9]} {definition.qualified} ({definition.path}) in {path}: {lines[:1]}"[
                            :220
                        ],
                        flush=True,
                    )
    finally:
        shutil.rmtree(folder)
    return counts


def time_questions(mirrors: Path, name: str, commit: str, count: int) -> Answers:
    """Ask about random functions and methods of a commit; each is asked about in the same process, first with nothing stored."""
    folder = Path(tempfile.mkdtemp(prefix="impact-"))
    answers = Answers([], [])
    try:
        with open_engine(mirrors, name, commit, folder) as engine:
            engine.index.update()
            known = []
            for path in sorted(map(str, engine.symbols.paths())):
                try:
                    outline = engine.symbols.outline(path)
                except CallError:
                    continue
                known += [symbol.qualified for _, symbol in outline.symbols if symbol.kind in ("function", "method")]
            for qualified in random.Random(1).sample(known, count):
                ask(engine, qualified, answers)
    finally:
        shutil.rmtree(folder)
    return answers


def show(three: list[int]) -> str:
    """Return precision and recall."""
    right, wrong, missed = three
    return f"{right / max(1, right + wrong):.3f} / {right / max(1, right + missed):.3f} ({right + missed} files)"


def show_answers(answers: Answers) -> str:
    """Return the percentiles of time and of steps."""
    seconds, steps = sorted(answers.seconds), sorted(answers.steps)
    last = int(len(seconds) * 0.95)
    return (
        f"{len(seconds)} questions: p50 {median(seconds) * 1000:.0f} ms, p95 {seconds[last] * 1000:.0f} ms, longest "
        f"{seconds[-1] * 1000:.0f} ms; steps p50 {median(steps):.0f}, p95 {steps[last]}"
    )


def main() -> None:
    """Print precision and recall for each repository."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--language", default="")
    parser.add_argument("--commits", type=int, default=8)
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--times", type=int, default=0)
    given = parser.parse_args()
    if given.times:
        mirror = given.mirrors / given.only.replace("/", "+") / "repo"
        answers = time_questions(given.mirrors, given.only, git(mirror, "rev-parse", "HEAD").strip(), given.times)
        print(given.only, show_answers(answers), sep=" | ")
        return
    sums: dict[str, list[int]] = {}
    answers = Answers([], [])
    commits = 0
    for row in tomllib.loads(REPOSITORIES.read_text())["repositories"]:
        mirror = given.mirrors / row["name"].replace("/", "+") / "repo"
        is_asked = given.only in ("", row["name"]) and given.language in ("", row["language"])
        if row["language"] not in SUFFIXES or not is_asked or not mirror.exists():
            continue
        own: dict[str, list[int]] = {}
        done = 0
        reader = CommitReader(mirror)
        for task in tasks(mirror, row["commit"], row["language"]):
            if done >= given.commits:
                break
            adapted = reader.find_adapted(task)
            if not adapted:
                continue
            try:
                judged = judge(given.mirrors, row, task, adapted, answers, shows_misses=given.misses)
            except subprocess.CalledProcessError:  # a large old file is not in the mirror
                continue
            done += 1
            for way, three in judged.items():
                own[way] = [a + b for a, b in zip(own.get(way, [0, 0, 0]), three, strict=True)]
                sums[way] = [a + b for a, b in zip(sums.get(way, [0, 0, 0]), three, strict=True)]
        commits += done
        print(row["name"], done, *[f"{way} {show(three)}" for way, three in own.items()], sep=" | ", flush=True)
    print("all", commits, *[f"{way} {show(three)}" for way, three in sums.items()], sep=" | ")
    print("impact:", show_answers(answers))


if __name__ == "__main__":
    main()
