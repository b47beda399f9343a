"""How long is a list of plans, and a move in one of them? 500 plans in files, some under way; prints percentiles.

    python bench/plans.py [--count 500] [--steps 12]

A list looks at every plan again, as the product does, and works out anew what changed since. "Without index" is the
first list after `index.json` was deleted.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from context_engine.plans import CompletionReport, Plan, PlanQuery, PlanService, PlanStep
from context_engine.repo import Git, Root

SEED = 1
MOVES_MAX = 9
"""Steps of a plan that have been completed, at most."""
LARGE_STEPS = 1_000


def main() -> None:
    """Save the plans, list them, change them, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--steps", type=int, default=12)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fill(opened(Path(folder), flush=False), asked.count, asked.steps)
        plans = opened(Path(folder), flush=True)
        print(f"{asked.count} plans of {asked.steps} steps\n\n| call | p50 ms | p95 ms |\n| --- | --- | --- |")
        index = Path(folder) / ".context-engine/plans/index.json"
        listing = [spent(lambda: (index.unlink(), plans.repository.list_page(PlanQuery()))[1]) for _ in range(5)]
        show("list_plans without index.json", listing)
        time.sleep(0.1)
        plans.repository.list_page(PlanQuery())
        show("list_plans", [spent(lambda: plans.repository.list_page(PlanQuery())) for _ in range(50)])
        show(
            "list_plans in a new process",
            [spent(lambda: opened(Path(folder)).repository.list_page(PlanQuery())) for _ in range(50)],
        )
        rows = plans.repository.list_page(PlanQuery(limit=50)).rows
        show("load_plan by name", [spent(lambda row=row: plans.repository.load(row.name)) for row in rows])
        show("view_progress", [spent(lambda row=row: plans.steps.read_state(row.id)) for row in rows])
        show("start_step (flushed)", [spent(lambda row=row: plans.steps.start(row.id, asked.steps)) for row in rows])
        show("save_plan, a version (flushed)", [spent(lambda row=row: change(plans, row.id)) for row in rows])
        show(
            "rollback_plan (flushed)",
            [spent(lambda row=row: plans.repository.rollback(row.id, 1, force=True)) for row in rows],
        )
        show("save_plan, a thousand steps (flushed)", [spent(lambda: large(plans)) for _ in range(10)])


def opened(folder: Path, *, flush: bool = True) -> PlanService:
    """The plans of a workspace, as the Engine puts them together; nothing here makes plans or changes files."""
    nobody: Any = SimpleNamespace(syntax=None)
    parts = {"workspace": nobody, "edits": nobody, "knowledge": nobody}
    return PlanService(Root(folder), Git(folder), time.time, **parts, flush=flush)


def fill(plans: PlanService, count: int, steps: int) -> None:
    """Plans of independent steps, some of which are done."""
    chance = random.Random(SEED)
    for number in range(count):
        listed = tuple(
            PlanStep(
                uid=f"s{place}",
                title=f"Step {place} of {number}",
                description="What is to be done, in two sentences or three. " * 3,
                files_to_create=(f"src/{number}/{place}.py",),
                acceptance_criteria=("the tests pass",),
            )
            for place in range(1, steps + 1)
        )
        saved = plans.repository.save(Plan(goal=f"Task number {number}", steps=listed), tags=(f"tag{number % 7}",))
        for place in range(1, chance.randint(0, min(MOVES_MAX, steps - 1)) + 1):
            plans.steps.start(saved.plan.id, place)
            plans.steps.complete(saved.plan.id, place, CompletionReport(criteria_met=("1",)))


def large(plans: PlanService) -> None:
    """A plan as an agent sends it, of a thousand steps in chains of ten."""
    steps = [
        {
            "title": f"Step {place}",
            "files_to_create": [f"src/large/{place}.py"],
            "depends_on": [place - 1] if place % 10 != 1 else [],
            "acceptance_criteria": ["the tests pass"],
        }
        for place in range(1, LARGE_STEPS + 1)
    ]
    plans.repository.save(plans.repository.parse({"goal": "A large task", "steps": steps}).plan)


def change(plans: PlanService, plan_id: str) -> None:
    """A new version of a plan."""
    plan = plans.repository.load(plan_id).plan
    plans.repository.save(msgspec.structs.replace(plan, goal=f"{plan.goal}, otherwise"), overwrite=True)


def spent(call: Callable[[], object]) -> float:
    """How many milliseconds a call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000


def show(name: str, took: list[float]) -> None:
    """One row of the table."""
    took.sort()
    print(f"| {name} | {took[len(took) // 2]:.1f} | {took[int(len(took) * 0.95)]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
