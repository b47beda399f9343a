"""Say whether a run solved its task, or whether tasks are sound.

python evals/agents/verify.py TASK ARM          # the hidden tests, over a copy of the run's tree; exit 0 when they pass
python evals/agents/verify.py --tasks [TASK ...]    # they fail on the parent, and pass with the commit's own change
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.agents.prepare import make_environment, make_tree
from evals.agents.tasks import HOME, Run, Task, environment_of, find_task, git, read_tasks

SECONDS_MAX = 300
NOT_COPIED = shutil.ignore_patterns(".git", "__pycache__", ".pytest_cache")


def passes(task: Task, tree: Path, *, show: bool = False) -> bool:
    """Return whether the tests of the fix commit pass in a copy of a tree."""
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME, prefix=f"verify-{task.name}-") as folder:
        copy = Path(folder, "tree")
        shutil.copytree(tree, copy, symlinks=True, ignore=NOT_COPIED)
        lay_tests(task, copy)
        try:
            done = subprocess.run(
                ["bash", "-c", task.command],
                cwd=copy,
                env=environment_of(task, copy, Path(folder)),
                stdin=subprocess.DEVNULL,
                stdout=None if show else subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                timeout=SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def lay_tests(task: Task, tree: Path) -> None:
    """Write the hidden files into a tree, from the mirror."""
    for path in task.tests:
        held = subprocess.run(["git", "-C", task.mirror, "show", f"{task.fix}:{path}"], check=True, capture_output=True)
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        is_program = git(task.mirror, "ls-tree", task.fix, "--", path).startswith("100755")
        target.write_bytes(held.stdout)
        target.chmod(0o755 if is_program else 0o644)


def apply_fix(task: Task, tree: Path) -> None:
    """Make the change of the fix commit, its tests left out."""
    hidden = [f":(exclude){path}" for path in task.tests]
    command = ["git", "-C", task.mirror, "diff", "--binary", task.parent, task.fix, "--", ".", *hidden]
    patch = subprocess.run(command, check=True, capture_output=True).stdout
    subprocess.run(["git", "apply", "--whitespace=nowarn"], cwd=tree, input=patch, check=True)


def is_sound(task: Task, *, show: bool = False) -> bool:
    """Print whether the tests of a task fail on the parent, pass with the fix, and how long they take."""
    make_environment(task)
    with tempfile.TemporaryDirectory(dir=HOME, prefix=f"check-{task.name}-") as folder:
        tree = Path(folder, "tree")
        make_tree(task, tree)
        before = passes(task, tree, show=show)
        apply_fix(task, tree)
        began = time.time()
        after = passes(task, tree, show=show)
        seconds = time.time() - began
    sound = after and not before
    verdict = (
        "sound"
        if sound
        else f"NOT sound: parent {'passes' if before else 'fails'}, fix {'passes' if after else 'fails'}"
    )
    print(f"{task.name}: {verdict}, {seconds:.0f} s", flush=True)
    return sound


def main() -> None:
    """Verify a run or check tasks."""
    words = [word for word in sys.argv[1:] if word != "--show"]
    show = "--show" in sys.argv
    match words:
        case ["--tasks", *names]:
            chosen = [task for task in read_tasks() if task.name in names or not names]
            unsound = [task.name for task in chosen if not is_sound(task, show=show)]
            sys.exit(f"not sound: {' '.join(unsound)}" if unsound else 0)
        case [name, arm]:
            run = Run(find_task(name), arm)
            solved = passes(run.task, run.tree, show=show)
            print("solved" if solved else "not solved")
            sys.exit(0 if solved else 1)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
