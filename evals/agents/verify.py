"""Find out whether a run solved its task, or whether tasks are sound.

python evals/agents/verify.py TASK ARM            # the hidden tests, over a copy of the run's tree; exit 0 when they pass
python evals/agents/verify.py --tasks [TASK ...]  # they fail on the parent, and pass with the commit's own change
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.agents.prepare import make_tree
from evals.agents.tasks import HOME, Task, find_run, read_tasks

SECONDS_MAX = 300
NOT_COPIED = shutil.ignore_patterns(".git", "__pycache__", ".pytest_cache")


def passes(task: Task, tree: Path, *, fixed: bool = False) -> bool:
    """Return whether the tests of the fix commit pass in a copy of a tree, or in one with the commit's own change."""
    with tempfile.TemporaryDirectory(dir=HOME, prefix=f"verify-{task.name}-") as folder:
        copy = Path(folder, "tree")
        shutil.copytree(tree, copy, symlinks=True, ignore=NOT_COPIED)
        if fixed:
            hidden = [f":(exclude){path}" for path in task.tests]
            words = ["diff", "--binary", task.parent, task.fix, "--", ".", *hidden]
            patch = subprocess.run(
                ["git", "-C", task.repository.mirror, *words], check=True, capture_output=True
            ).stdout
            no_repository = {**os.environ, "GIT_CEILING_DIRECTORIES": folder}
            subprocess.run(
                ["git", "apply", "--whitespace=nowarn"], cwd=copy, input=patch, env=no_repository, check=True
            )
        lay_tests(task, copy)
        variables = task.repository.variables(copy, Path(folder))
        with (HOME / "verify.log").open("ab") as log:
            process = ["timeout", "--kill-after=5", str(SECONDS_MAX), "bash", "-c", task.command]
            done = subprocess.run(
                process, cwd=copy, env=variables, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False
            )
        return done.returncode == 0


def lay_tests(task: Task, tree: Path) -> None:
    """Write the hidden files into a tree, from the mirror."""
    mirror = task.repository.mirror
    for path in task.tests:
        content = subprocess.run(
            ["git", "-C", mirror, "show", f"{task.fix}:{path}"], check=True, capture_output=True
        ).stdout
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content)


def is_sound(task: Task) -> bool:
    """Print whether the tests of a task fail on the parent, pass with the fix, and how long they take."""
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME, prefix=f"check-{task.name}-") as folder:
        tree = Path(folder, "tree")
        make_tree(task, tree)
        before = passes(task, tree)
        began = time.time()
        after = passes(task, tree, fixed=True)
    results = f"parent {'passes' if before else 'fails'}, fix {'passes' if after else 'fails'}"
    print(f"{task.name}: {results}, {time.time() - began:.0f} s", flush=True)
    return after and not before


def main() -> None:
    """Verify a run or check tasks."""
    match sys.argv[1:]:
        case ["--tasks", *names]:
            chosen = [task for task in read_tasks() if task.name in names or not names]
            unsound = [task.name for task in chosen if not is_sound(task)]
            sys.exit(f"not sound: {' '.join(unsound)}; see {HOME / 'verify.log'}" if unsound else 0)
        case [name, arm]:
            run = find_run(name, arm)
            solved = passes(run.task, run.tree)
            print("solved" if solved else f"not solved; see {HOME / 'verify.log'}")
            sys.exit(0 if solved else 1)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
