"""Run one command in the tree of a run, print what it prints, and log its characters.

    python evals/agents/shell.py TASK ARM -- 'rg -n parse src | head'

An output is cut at 16,000 characters and a command after two minutes, as the shells of agents do.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.agents.tasks import Run, environment_of, find_task, git

SHOWN_MAX, END = 16_000, 4_000
SECONDS_MAX = 120


def run_command(run: Run, command: str) -> tuple[str, int]:
    """Return the output of a command, errors included, and its exit code; 124 when it took too long."""
    variables = environment_of(run.task, run.tree, run.folder, run.folder / "bin")
    with tempfile.TemporaryFile() as written:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=run.tree,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = 124
        written.seek(0)
        text = written.read().decode("utf-8", "replace")
    return text, code


def cut(text: str, most: int = SHOWN_MAX, end: int = END) -> str:
    """Return the text, or its beginning and its end with the number of characters between them."""
    if len(text) <= most:
        return text
    return f"{text[: most - end]}\n[... {len(text) - most} characters left out ...]\n{text[-end:]}"


def append(run: Run, *, command: str, text: str, exit_code: int, began: float) -> None:
    """Add a call to the log: what it showed, and what is in the window and was sent in all since the beginning."""
    run.output(0).parent.mkdir(exist_ok=True)
    with run.log.open("a+", encoding="utf-8") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.seek(0)
        rows = [json.loads(line) for line in log]
        last: dict[str, Any] = rows[-1] if rows else {"window": 0, "sent": 0}
        window = last["window"] + len(text)
        row = {
            "number": len(rows),
            "time": round(began, 3),
            "seconds": round(time.time() - began, 3),
            "command": command,
            "exit": exit_code,
            "shown": len(text),
            "written": len(command),
            "window": window,
            "sent": last["sent"] + window,
            "changed": changes(run.tree),
        }
        run.output(len(rows)).write_text(text, encoding="utf-8")
        log.write(json.dumps(row) + "\n")


def changes(tree: Path) -> str:
    """Return a digest of what differs from the parent commit, "" for nothing."""
    status = git(tree, "status", "--porcelain", "-uall")
    return hashlib.sha1((status + git(tree, "diff", "HEAD")).encode()).hexdigest()[:12] if status.strip() else ""


def main() -> None:
    """Run, log, print."""
    match sys.argv[1:]:
        case [name, arm, "--", command] | [name, arm, command]:
            run = Run(find_task(name), arm)
        case _:
            raise SystemExit(__doc__)
    if not run.tree.is_dir():
        raise SystemExit(f"{run.tree} is not there: python evals/agents/prepare.py {name} {arm}")
    began = time.time()
    text, code = run_command(run, command)
    if code == 124:
        text += f"\n[stopped after {SECONDS_MAX} s]\n"
    text = cut(text)
    if code:
        text += f"[exit code {code}]\n"
    append(run, command=command, text=text, exit_code=code, began=began)
    sys.stdout.write(text)
    sys.exit(code if 0 <= code < 256 else 1)


if __name__ == "__main__":
    main()
