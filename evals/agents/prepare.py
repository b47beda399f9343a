"""Make the tree of a run and print what its agent is given: the issue and, in arm ctx, what the product's hooks add.

    python evals/agents/prepare.py TASK ARM [--ctx PROGRAM]

The tree is that of the parent commit, with the history up to it and nothing after it, and no remote. The environment of the
repository is made when it is not there yet.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.agents.shell import append
from evals.agents.tasks import HOME, Repository, Run, Task, find_run, git

HISTORY = 300
EXCLUDED = "node_modules\n.context-engine/\n__pycache__/\n"
EVENTS = {"SessionStart": {"source": "startup"}, "UserPromptSubmit": {"permission_mode": "default"}}


def make_environment(repository: Repository) -> None:
    """Set the packages of a repository up, once."""
    folder = repository.environment
    if (folder / ".made").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (HOME / "pytest.ini").touch()  # pytest looks no further up for one that is not the repository's
    print(f"{repository.name}: making {folder}", file=sys.stderr)
    subprocess.run(["bash", "-euc", repository.setup], cwd=folder, check=True, stdout=sys.stderr)
    (folder / ".made").touch()


def make_tree(task: Task, tree: Path) -> None:
    """Check the parent commit out, in a repository that knows nothing after it."""
    make_environment(task.repository)
    tree.mkdir(parents=True)
    git(tree, "init", "--quiet", "--initial-branch=main")
    git(tree, "fetch", "--quiet", "--no-tags", f"--depth={HISTORY}", f"file://{task.repository.mirror}", task.parent)
    git(tree, "checkout", "--quiet", "-B", "main", task.parent)
    (tree / ".git" / "FETCH_HEAD").unlink(missing_ok=True)
    for setting in ("user.name=dev", "user.email=dev@example.org", "gc.auto=0"):
        git(tree, "config", *setting.split("="))
    (tree / ".git" / "info" / "exclude").write_text(EXCLUDED, encoding="utf-8")
    modules = task.repository.environment / "node_modules"
    if modules.is_dir():
        (tree / "node_modules").symlink_to(modules)
    known = subprocess.run(["git", "cat-file", "-e", task.fix], cwd=tree, capture_output=True, check=False)
    if known.returncode == 0 or git(tree, "remote"):
        raise SystemExit(f"{tree}: the fix can be seen")


def make_run(run: Run, ctx: Path) -> None:
    """Make the folder of a run again, with the programs of its arm."""
    if run.has_ctx and run.tree.is_dir():
        _ctx(run, "daemon", "stop")
    shutil.rmtree(run.folder, ignore_errors=True)
    make_tree(run.task, run.tree)
    (run.folder / "bin").mkdir()
    (run.folder / "bin" / "rg").symlink_to(shutil.which("rg") or Path(sys.executable).with_name("rg"))
    if run.has_ctx:
        (run.folder / "bin" / "ctx").symlink_to(ctx.absolute())
        _ctx(run, "index")
        _ctx(run, "setup", "--trust")


def hook_text(run: Run) -> str:
    """Return what the hooks print when a session starts with the issue, as Claude Code would show it."""
    shown: list[str] = []
    session = {
        "session_id": f"{run.task.name}-{run.arm}",
        "transcript_path": "",
        "cwd": str(run.tree),
        "prompt": run.task.issue,
    }
    for event, more in EVENTS.items():
        request = json.dumps({**session, **more, "hook_event_name": event})
        if printed := _ctx(run, "hook", event, "--client", "claude", given=request).strip():
            text = json.loads(printed)["hookSpecificOutput"]["additionalContext"]
            shown.append(f"[{event} hook additional context]\n{text}\n")
    return "\n".join(shown)


def _ctx(run: Run, *words: str, given: str = "") -> str:
    command = [str(run.folder / "bin" / "ctx"), *words]
    variables = {**run.variables(), "CLAUDE_PROJECT_DIR": str(run.tree)}
    done = subprocess.run(
        command, cwd=run.tree, env=variables, input=given, text=True, capture_output=True, check=False
    )
    if done.returncode:
        print(f"ctx {' '.join(words)}: exit {done.returncode}\n{done.stderr}", file=sys.stderr)
    return done.stdout


def main() -> None:
    """Make the run, print its beginning."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("arm")
    parser.add_argument("--ctx", type=Path, default=Path(sys.executable).with_name("ctx"), help="the product's program")
    chosen = parser.parse_args()
    run = find_run(chosen.task, chosen.arm)
    make_run(run, chosen.ctx)
    print(run.task.issue)
    if run.has_ctx:
        began = time.time()
        text = hook_text(run)
        append(run, command="hook", text=text, exit_code=0, began=began)
        print(text)


if __name__ == "__main__":
    main()
