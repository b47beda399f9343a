r"""Build tasks out of commits, by rule: the question is the message, the answer the hunks of source files.

    python evals/places/commits.py --mirrors DIR --out tasks.json --per 6 OWNER/NAME ...

A commit is a task when its message explains itself (evals/wide decides) and it changes up to five source files that were
there before, in up to twelve hunks. The newest ones of each repository are taken.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.languages import Languages
from context_engine.model import Commit, CommitFileChange
from evals.places.prepare import mirror_of
from evals.places.windows import SOURCE
from evals.wide.questions import is_asked, is_source, plain_body, plain_subject

COMMITS_MAX = 1_500
FILES_MAX, HUNKS_MAX = 5, 12
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")


def read_hunks(diff: str) -> dict[str, list[list[int]]]:
    r"""Return the changed lines of each file that was there before, of a diff without context.

    Where lines were only added, the line before them stands for them.

    >>> read_hunks("--- a/x.py\n+++ b/x.py\n@@ -3,2 +3 @@\n-a\n-b\n+c\n@@ -9,0 +9,2 @@\n--- /dev/null\n@@ -0,0 +1 @@")
    {'x.py': [[3, 4], [9, 9]]}
    """
    found: dict[str, list[list[int]]] = {}
    path = ""
    for line in diff.split("\n"):
        if line.startswith("--- "):
            path = line[6:] if line.startswith("--- a/") else ""
        elif path and (hunk := _HUNK.match(line)):
            first, count = max(int(hunk[1]), 1), int(hunk[2] or 1)
            found.setdefault(path, []).append([first, first + max(count, 1) - 1])
    return found


def tasks_of(name: str, mirror: Path, *, short_too: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a repository, the newest first; `short_too`: those of a subject alone as well."""
    languages = Languages.builtin()
    told = _git(mirror, "log", "--no-merges", f"-n{COMMITS_MAX}", "--format=%x01%H%x00%P%x00%an%x00%s%x00%b", "HEAD")
    for record in told.split("\x01")[1:]:
        sha, parent, author, subject, body = record.split("\0")
        prose = plain_body(body)
        if not parent or " " in parent or not (prose or short_too):
            continue
        hunks = read_hunks(_git(mirror, "show", "-U0", "--no-renames", "--format=", "--first-parent", sha))
        commit = Commit(sha, 0, author, subject, tuple(CommitFileChange(path) for path in hunks))
        sources = [path for path in hunks if SOURCE.search(path) and is_source(path, languages.detect(path))]
        wanted = {path: hunks[path] for path in sources}
        if is_asked(commit) and 1 <= len(wanted) <= FILES_MAX and sum(map(len, wanted.values())) <= HUNKS_MAX:
            query = f"{plain_subject(subject)}\n\n{prose}".strip()
            yield {"id": f"{name}@{sha[:10]}", "repo": name, "parent": parent, "query": query, "hunks": wanted}


def _git(mirror: Path, *words: str) -> str:
    command = ["git", "-c", "core.quotePath=false", f"--git-dir={mirror}", *words]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "replace")


def main() -> None:
    """Parse, read, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--per", type=int, default=6, help="tasks of a repository")
    parser.add_argument("repositories", nargs="+", metavar="OWNER/NAME")
    chosen = parser.parse_args()
    tasks: list[dict[str, Any]] = []
    for name in chosen.repositories:
        found = tasks_of(name, mirror_of(chosen.mirrors, name))
        own = list(islice(found, chosen.per))
        print(f"{name}: {len(own)}")
        tasks += own
    chosen.out.write_text(json.dumps(tasks, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
