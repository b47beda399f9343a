"""Which rules are shown for the files of a commit? Prints them, to be judged by a reader.

    python evals/planning/rules.py --mirrors DIR [--only caddy,aiohttp] [--count 4]

The newest commits of each repository that change at most ten files; the subject is the task, the changed files are those in
question. Rules are recalled as plans recall them, from the tree at the head. To be quick, only the changed files and documents
with names of rule files are checked out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.context import ProjectKnowledge, RememberedItem
from context_engine.engine import Engine
from context_engine.errors import AccessFailed
from context_engine.plans.plan_draft import CONSTRAINTS_MAX, recall_rules
from context_engine.settings import Settings
from evals.localisation.score import mirrors

FILES_MAX = 10
RULES = re.compile(
    r"(?i)(?:agents|claude|gemini|qwen|contributing|guidelines|instructions|rules|steering|hints)[^/]*$|/rules/"
)
NO_CODE = re.compile(r"\.(?:json|lock|md|yml|toml|mod|sum)$")


def main() -> None:
    """Parse, print the rules of each repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--count", type=int, default=4, help="commits of a repository")
    chosen = parser.parse_args()
    for name, mirror in mirrors(chosen.mirrors, chosen.only):
        with tempfile.TemporaryDirectory(prefix="ctx-rules-") as scratch:
            print(f"## {name}", flush=True)
            show_rules(mirror, Path(scratch), chosen.count)


def show_rules(mirror: Path, scratch: Path, count: int) -> None:
    """Print the rules shown for the newest commits of a repository."""
    tree = scratch / "tree"
    _git(scratch, "clone", "--quiet", "--shared", "--no-checkout", str(mirror), str(tree))
    names = set(_git(tree, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    commits = newest_commits(tree, names, count)
    wanted = {name for name in names if RULES.search(name)} | {file for _, files in commits for file in files}
    _git(tree, "checkout", "--quiet", "HEAD", "--", *sorted(wanted))
    settings = Settings(cache_folder=scratch / "cache", data_folder=scratch / "data", workers=0, watch=False)
    with closing(Engine.open(tree, settings=settings)) as engine:
        engine.index.update()
        with suppress(AccessFailed):  # the messages of a long history, on a busy machine: no rule is in them
            engine.memory.run_to_end()
        team = ProjectKnowledge(recall=engine.memory.get_knowledge().recall)
        for subject, files in commits:
            print(f"\n{subject}\n   {', '.join(files)}")
            for rule in recall_rules(subject, files, team)[:CONSTRAINTS_MAX]:
                print(f"   - {format_rule(rule)}")


def newest_commits(tree: Path, names: set[str], count: int) -> list[tuple[str, list[str]]]:
    """Return subject and changed files of the newest commits that change few files, as far as they are still there."""
    found: list[tuple[str, list[str]]] = []
    for row in _git(tree, "log", "--no-merges", "--max-count=300", "--format=%H%x09%s").splitlines():
        commit, _, subject = row.partition("\t")
        files = _git(tree, "show", "--name-only", "--format=", commit).split("\n")
        alive = [file for file in files if file in names]
        is_task = len(subject.split()) >= 4 and 1 <= len(alive) <= FILES_MAX
        if is_task and not all(map(NO_CODE.search, alive)):
            found.append((subject, alive))
        if len(found) == count:
            break
    return found


def format_rule(rule: RememberedItem) -> str:
    """Return a rule as one line: its place, its section and its text."""
    return f"{rule.type} {rule.place} [{rule.title}] {rule.content[:240]}"


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
