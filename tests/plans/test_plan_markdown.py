"""Plans as people read them: everything that is said is there, and no text breaks out of its place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans.model import Plan
from context_engine.plans.plan_diff import compare_plans
from context_engine.plans.plan_events import fold_progress
from context_engine.plans.plan_json import parse_plan
from context_engine.plans.plan_markdown import (
    render_difference,
    render_plan,
    render_progress,
    render_table,
)
from tests.support.planned import plans

FULL = parse_plan(
    {
        "id": "plan_1",
        "version": 3,
        "goal": "Charge tax",
        "task": "Charge tax on every bill",
        "scope": {
            "included": ["shop/**"],
            "excluded": ["docs/**"],
            "assumptions": ["one rate"],
            "constraints": ["no network"],
        },
        "mvp_features": ["a rate"],
        "architecture": {
            "notes": "Prices are pure",
            "diagrams": [{"type": "dependencies", "mermaid": "flowchart TD\n  n1\n"}],
        },
        "steps": [
            {
                "title": "Write tax",
                "description": "Round half up.",
                "files_to_modify": ["shop/prices.py"],
                "files_to_create": ["shop/tax.py"],
                "files_to_delete": ["shop/old.py"],
                "priority": "high",
                "estimated_effort": "2 hours",
                "checks": ["pytest -q"],
                "acceptance_criteria": ["tests pass"],
                "evidence": [{"kind": "definition", "path": "shop/prices.py", "line": 5, "symbol": "tax"}],
            },
            {"title": "Use it", "depends_on": [1]},
        ],
        "milestones": [{"name": "First", "steps_included": [1, 2], "estimated_time": "1 day"}],
        "risks": [{"issue": "Wrong | rounding", "mitigation": "Test it", "likelihood": "low"}],
        "testing_strategy": {"unit": "tax()", "integration": "a bill", "coverage_target": "90 %"},
        "questions": [{"id": "q1", "text": "Which rate?", "answer": "20 %"}, {"id": "q2", "text": "Since when?"}],
        "open_feedback": ["make it nicer"],
        "confidence_score": 0.62,
    }
).plan


def test_a_plan_is_told_whole() -> None:
    text = render_plan(FULL)
    assert text.startswith("# Charge tax\n\n`plan_1` · version 3 · 2 steps, longest chain (1 → 2) · confidence 0.62\n")
    for part in (
        "Charge tax on every bill",
        "- Excluded: docs/**",
        "- Must: a rate",
        "- Prices are pure",
        "### 1. Write tax\n\nhigh priority · 2 hours · `s1`\n\nRound half up.",
        "- Changes: `shop/prices.py`\n- Creates: `shop/tax.py`\n- Deletes: `shop/old.py`\n- Check: `pytest -q`",
        "- [ ] tests pass",
        "- Why: `shop/prices.py:5` `tax` (definition)",
        "### 2. Use it\n\nafter 1 · `s2`",
        "- First: steps 1, 2 (1 day)",
        "| Wrong \\| rounding | low | Test it |",
        "- Coverage: 90 %",
        "- `q1` Which rate? - 20 %",
        "- `q2` Since when?\n",
        "- make it nicer",
        "```mermaid\nflowchart TD\n  n1\n```",
    ):
        assert part in text


@given(plans(), plans())
def test_any_plan_can_be_told(one: Plan, other: Plan) -> None:
    text = render_plan(one, fold_progress(one, ()))
    assert text.count("\n### ") == len(one.steps)
    assert render_progress(one, fold_progress(one, ())).endswith("\n")
    rows = render_difference(compare_plans(one, other)).splitlines()
    assert all(row.startswith("| ") and row.endswith(" |") for row in rows if row.startswith("|"))


@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=3))
def test_no_cell_leaves_its_column(rows: list[tuple[str, str]]) -> None:
    lines = render_table(("a", "b"), rows).split("\n")
    assert len(lines) == len(rows) + 2
    assert all(line.replace("\\|", "").count("|") == 3 for line in lines)
