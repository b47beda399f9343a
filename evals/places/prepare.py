"""Check out and index the tree of every task, once: a folder a task, with `task.json`, `tree` and `cache`.

    python evals/places/prepare.py --mirrors DIR --trees DIR --tasks tasks.json

A tasks file is a list of {id, repo, parent, query, ...}; DIR of mirrors has bare git repositories, as `owner+name` or
`owner+name/repo`. A tree has the history up to its commit and nothing after it. The index of a tree begins with that of the
one before it of the same repository, so only the first takes long.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.storage import workspace_id
from evals.scratch_engine import open_indexed

OF_ITS_OWN = ("recall.db*", "access.db*")
"""What a tree must not know of another one: its commits, and what was shown of it."""
TASK = "task.json"
"""Written last: a folder without it was not finished."""


def prepare(tasks: Iterable[Mapping[str, Any]], mirrors: Path, trees: Path) -> None:
    """Prepare the tasks that are not prepared yet; what the mirrors lack is printed and left out."""
    before: dict[str, Path] = {}
    for task in sorted(tasks, key=lambda task: task["repo"]):
        folder = folder_of(trees, task)
        if not (folder / TASK).is_file():
            began = time.perf_counter()
            shutil.rmtree(folder, ignore_errors=True)
            try:
                check_out(mirror_of(mirrors, task["repo"]), task["parent"], folder / "tree")
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"{task['id']}: left out, {error}", file=sys.stderr)
                continue
            index(folder, before.get(task["repo"]))
            (folder / TASK).write_text(json.dumps(task), encoding="utf-8")
            print(f"{task['id']}: {time.perf_counter() - began:.1f} s", flush=True)
        before[task["repo"]] = folder


def folder_of(trees: Path, task: Mapping[str, Any]) -> Path:
    """Return the folder of a task."""
    return trees / task["id"].replace("/", "+")


def mirror_of(mirrors: Path, name: str) -> Path:
    """Return the git directory of `owner/name`."""
    folder = mirrors / name.replace("/", "+")
    return folder / "repo" if (folder / "repo").is_dir() else folder


def check_out(mirror: Path, commit: str, folder: Path) -> None:
    """Make a work tree at a commit. Its objects are the mirror's, its only branch ends at the commit."""
    folder.mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    alternates = folder / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(f"{(mirror / 'objects').resolve()}\n", encoding="utf-8")
    _git(folder, "update-ref", "refs/heads/main", commit)
    _git(folder, "read-tree", commit)
    subprocess.run(  # a mirror may lack its largest files: the others are written
        ["git", "checkout-index", "--all", "--force"], cwd=folder, capture_output=True, check=False
    )


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def index(folder: Path, before: Path | None) -> None:
    """Index the tree of a task, from the index of an earlier task of its repository where there is one."""
    if before is not None:
        old, new = (each / "cache" / "workspaces" / workspace_id(each / "tree") for each in (before, folder))
        shutil.copytree(old, new, ignore=shutil.ignore_patterns(*OF_ITS_OWN))
    open_indexed(folder / "tree", folder / "cache").close()


def main() -> None:
    """Parse, prepare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--tasks", type=Path, required=True)
    chosen = parser.parse_args()
    tasks = json.loads(chosen.tasks.read_text(encoding="utf-8"))
    prepare(tasks, chosen.mirrors.resolve(), chosen.trees.resolve())


if __name__ == "__main__":
    main()
