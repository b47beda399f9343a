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
from evals.agents.tasks import HOME, Run, Task, environment_folder, environment_of, find_task, git

HISTORY = 300
EXCLUDED = "node_modules\n.context-engine/\n__pycache__/\n"
EVENTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("SessionStart", {"source": "startup"}),
    ("UserPromptSubmit", {"permission_mode": "default"}),
)


def make_environment(task: Task) -> None:
    """Set the packages of a repository up, once."""
    folder = environment_folder(task)
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / "pytest.ini").touch()  # pytest looks no further up for one that is not the repository's
    if (folder / ".made").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if task.setup:
        print(f"{task.repository}: making {folder}", file=sys.stderr)
        subprocess.run(["bash", "-euc", task.setup], cwd=folder, check=True, stdout=sys.stderr)
    (folder / ".made").touch()


def make_tree(task: Task, tree: Path) -> None:
    """Check the parent commit out, in a repository that knows nothing after it."""
    tree.mkdir(parents=True)
    git(tree, "init", "--quiet", "--initial-branch=main")
    git(tree, "fetch", "--quiet", "--no-tags", f"--depth={HISTORY}", f"file://{task.mirror}", task.parent)
    git(tree, "checkout", "--quiet", "-B", "main", task.parent)
    (tree / ".git" / "FETCH_HEAD").unlink(missing_ok=True)
    for setting in ("user.name=dev", "user.email=dev@example.org", "gc.auto=0"):
        git(tree, "config", *setting.split("="))
    (tree / ".git" / "info" / "exclude").write_text(EXCLUDED, encoding="utf-8")
    modules = environment_folder(task) / "node_modules"
    if modules.is_dir():
        (tree / "node_modules").symlink_to(modules)
    known = subprocess.run(["git", "cat-file", "-e", task.fix], cwd=tree, capture_output=True, check=False)
    if known.returncode == 0 or git(tree, "remote"):
        raise SystemExit(f"{tree}: the fix can be seen")


def make_run(run: Run, ctx: Path) -> None:
    """Make the folder of a run anew."""
    if run.has_ctx and run.tree.is_dir():
        _call(run, "ctx", "daemon", "stop")
    shutil.rmtree(run.folder, ignore_errors=True)
    make_environment(run.task)
    make_tree(run.task, run.tree)
    programs = run.folder / "bin"
    programs.mkdir()
    ripgrep = shutil.which("rg") or Path(sys.executable).with_name("rg")
    (programs / "rg").symlink_to(ripgrep)
    if run.has_ctx:
        (programs / "ctx").symlink_to(ctx.absolute())


def hook_text(run: Run) -> str:
    """Return what the hooks print when a session starts with the issue, as Claude Code would show it."""
    shown: list[str] = []
    for event, more in EVENTS:
        request = {
            "session_id": f"{run.task.name}-{run.arm}",
            "transcript_path": str(run.folder / "transcript.jsonl"),
            "cwd": str(run.tree),
            "hook_event_name": event,
            "prompt": run.task.issue,
            **more,
        }
        printed = _call(run, "ctx", "hook", event, "--client", "claude", given=json.dumps(request))
        if printed.strip():
            text = json.loads(printed)["hookSpecificOutput"]["additionalContext"]
            shown.append(f"[{event} hook additional context]\n{text}\n")
    return "\n".join(shown)


def _call(run: Run, *command: str, given: str = "") -> str:
    variables = environment_of(run.task, run.tree, run.folder, run.folder / "bin")
    variables["CLAUDE_PROJECT_DIR"] = str(run.tree)
    done = subprocess.run(
        [str(run.folder / "bin" / command[0]), *command[1:]],
        cwd=run.tree,
        env=variables,
        input=given,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        print(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}", file=sys.stderr)
    return done.stdout


def main() -> None:
    """Make the run, print its beginning."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("arm")
    parser.add_argument("--ctx", type=Path, default=Path(sys.executable).with_name("ctx"), help="the product's program")
    chosen = parser.parse_args()
    run = Run(find_task(chosen.task), chosen.arm)
    make_run(run, chosen.ctx)
    print(f"{run.task.issue}\n")
    if run.has_ctx:
        _call(run, "ctx", "index")
        began = time.time()
        text = hook_text(run)
        append(run, command="hook", text=text, exit_code=0, began=began)
        print(text)


if __name__ == "__main__":
    main()
