"""Run one command in the tree of a run, print what it prints, and log its characters.

    python evals/agents/shell.py TASK ARM -- 'rg -n parse src | head'

An output is cut at 16,000 characters and a command after two minutes, as the shells of agents do.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.agents.tasks import Run, find_run, git

SHOWN_MAX, END = 16_000, 4_000
SECONDS_MAX = 120


def run_command(run: Run, command: str) -> tuple[str, int]:
    """Return the output of a command, errors included, and its exit code."""
    words = ["timeout", "--kill-after=5", str(SECONDS_MAX), "bash", "-c", command]
    with tempfile.TemporaryFile() as output:  # not a pipe: what the command leaves running would keep that open
        none = subprocess.DEVNULL
        done = subprocess.run(
            words, cwd=run.tree, env=run.variables(), stdin=none, stdout=output, stderr=output, check=False
        )
        output.seek(0)
        return output.read().decode("utf-8", "replace"), done.returncode


def cut(text: str, most: int = SHOWN_MAX, end: int = END) -> str:
    """Return the text, or its beginning and its end with the number of characters between them."""
    if len(text) <= most:
        return text
    return f"{text[: most - end]}\n[... {len(text) - most} characters left out ...]\n{text[-end:]}"


def append(run: Run, *, command: str, text: str, exit_code: int, began: float) -> None:
    """Add a call to the log: what it showed, and what is in the window and was sent in all since the beginning."""
    run.shown(0).parent.mkdir(exist_ok=True)
    with run.log.open("a+", encoding="utf-8") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.seek(0)
        rows = [json.loads(line) for line in log]
        last: dict[str, Any] = rows[-1] if rows else {"window": 0, "sent": 0}
        window = last["window"] + len(text)
        row = {
            "number": len(rows),
            "began": round(began, 3),
            "seconds": round(time.time() - began, 3),
            "command": command,
            "exit": exit_code,
            "shown": len(text),
            "window": window,
            "sent": last["sent"] + window,
            "changed": changes(run.tree),
        }
        run.shown(len(rows)).write_text(text, encoding="utf-8")
        log.write(json.dumps(row) + "\n")


def changes(tree: Path) -> str:
    """Return a digest of what differs from the parent commit, "" for nothing."""
    status = git(tree, "status", "--porcelain", "-uall")
    return hashlib.sha1((status + git(tree, "diff", "HEAD")).encode()).hexdigest()[:12] if status.strip() else ""


def main() -> None:
    """Run, log, print."""
    match sys.argv[1:]:
        case [name, arm, "--", command] | [name, arm, command]:
            run = find_run(name, arm)
        case _:
            raise SystemExit(__doc__)
    if not run.tree.is_dir():
        raise SystemExit(f"{run.tree} is not there: python evals/agents/prepare.py {name} {arm}")
    began = time.time()
    text, code = run_command(run, command)
    text = cut(text) + (f"\n[exit code {code}]\n" if code else "")
    append(run, command=command, text=text, exit_code=code, began=began)
    sys.stdout.write(text)
    sys.exit(code if 0 <= code < 256 else 1)


if __name__ == "__main__":
    main()
