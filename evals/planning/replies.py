"""How long are the replies of the plan tools? Ten calls of one piece of work, on a copy of the sample repository.

python evals/planning/replies.py                   characters of each reply, and their sum
python evals/planning/replies.py --show            and the replies themselves
python evals/planning/replies.py --mirrors DIR     of four tools on ten tasks of three repositories in DIR
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
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
TASKS = {
    "pallets+flask": (
        "Fix the session cookie not being deleted when the session is emptied",
        "Blueprint.register loses url_defaults of a nested blueprint",
        "Add a timeout option to test client requests",
        "send_file ignores conditional=False when etag is given",
    ),
    "go-chi+chi": (
        "Mount with a trailing slash matches too much",
        "Add a Timeout middleware test for cancelled contexts",
        "RouteContext leaks URL params between sub routers",
    ),
    "koajs+koa": (
        "ctx.redirect back must check the referrer origin",
        "Host header with @ gives a wrong hostname",
        "support ReadableStream bodies in ctx.body",
    ),
}
FEEDBACK = "step 1 is wrong: look at the callers first"
TASK = "Fix Order.total: the discount is taken twice when a line is added again"


def main() -> None:
    """Copy the sample, call the tools, print the lengths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--mirrors", type=Path)
    chosen = parser.parse_args()
    if chosen.mirrors:
        print_lengths(chosen.mirrors)
        return
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


def print_lengths(mirrors: Path) -> None:
    """Print the characters of the replies to all tasks, and their median, by tool."""
    lengths: dict[str, list[int]] = {}
    for repository, tasks in TASKS.items():
        with tempfile.TemporaryDirectory(prefix="ctx-replies-") as scratch:
            tree = Path(scratch) / "tree"
            subprocess.run(["git", "clone", "-q", "--shared", mirrors / repository / "repo", tree], check=True)
            settings = Settings(cache_folder=Path(scratch) / "cache", workers=0, watch=False)
            with closing(Engine.open(tree, settings=settings)) as engine:
                engine.index.update()
                for task in tasks:
                    plan = {"plan_id": json.loads(ask(engine, lengths, "create_plan", task=task))["plan_id"]}
                    ask(engine, lengths, "load_plan", **plan)
                    ask(engine, lengths, "refine_plan", **plan, feedback=FEEDBACK)
                    ask(engine, lengths, "refine_plan", **plan, feedback=FEEDBACK, assist="host")
                    ask(engine, lengths, "execute_plan", **plan)
                    ask(engine, lengths, "create_plan", task=task, assist="host")
    for name, counts in lengths.items():
        print(f"{name:24} {sum(counts):8,} median {statistics.median(counts):8,.0f}")


def ask(engine: Engine, lengths: dict[str, list[int]], name: str, **arguments: Any) -> str:
    """Return the reply of a tool, and note its length."""
    text = tools.call(engine, name, arguments, Call(session="eval")).text
    lengths.setdefault(f"{name} {arguments.get('assist', '')}", []).append(len(text))
    return text


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
