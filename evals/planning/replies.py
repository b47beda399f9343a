"""How long are the replies of the plan tools? Ten calls of one piece of work, on a copy of the sample repository.

python evals/planning/replies.py            characters of each reply, and their sum
python evals/planning/replies.py --show     and the replies themselves
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine import tools
from context_engine.engine import Engine
from context_engine.settings import Settings
from context_engine.tools.tool import Call

ROOT = Path(__file__).resolve().parents[2]
TASK = "Fix Order.total: the discount is taken twice when a line is added again"


def main() -> None:
    """Copy the sample, call the tools, print the lengths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctx-replies-") as scratch:
        tree = Path(scratch) / "shop"
        shutil.copytree(ROOT / "examples" / "shop", tree)
        for words in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "Start"],
        ):
            subprocess.run(["git", *words], cwd=tree, check=True)
        settings = Settings(cache_folder=Path(scratch) / "cache", workers=0, watch=False)
        with closing(Engine.open(tree, settings=settings)) as engine:
            engine.index.update()
            rows = replies(engine)
    for name, text in rows:
        print(f"{name:16} {len(text):7,}")
        if chosen.show:
            print(text)
    print(f"{'all':16} {sum(len(text) for _, text in rows):7,}")


def replies(engine: Engine) -> list[tuple[str, str]]:
    """Return the tools called and their replies."""
    rows: list[tuple[str, str]] = []

    def call(name: str, **arguments: Any) -> dict[str, Any]:
        text = tools.call(engine, name, arguments, Call(session="eval")).text
        rows.append((name, text))
        return json.loads(text)

    made = call("create_plan", task=TASK)
    plan_id = made.get("plan_id") or made["persistence"]["plan_id"]
    call("refine_plan", plan_id=plan_id, feedback="step 1 is high priority; also think of discounts")
    call("request_approval", plan_id=plan_id, ask_user=False)
    call("execute_plan", plan_id=plan_id)
    call("start_step", plan_id=plan_id, step_number=1, include_packet=False)
    step = json.loads(rows[-1][1])["step"]
    done = [{"command": check, "exit_code": 0, "output": "ok"} for check in step.get("checks", [])]
    criteria = [str(number) for number, _ in enumerate(step.get("acceptance_criteria", []), 1)]
    call("complete_step", plan_id=plan_id, step_number=1, evidence=done, criteria_met=criteria, notes="done")
    call("start_step", plan_id=plan_id, step_number=2, include_packet=False)
    call("fail_step", plan_id=plan_id, step_number=2, error="the tests hang")
    call("view_progress", plan_id=plan_id)
    call("rollback_plan", plan_id=plan_id, target_version=1)
    return rows


if __name__ == "__main__":
    main()
