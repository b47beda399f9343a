"""Plans as people read them: everything that is said is there, and no text breaks out of its place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans.model import Plan
from context_engine.plans.plan_diff import compare_plans
from context_engine.plans.plan_events import fold_progress
from context_engine.plans.plan_markdown import (
    render_difference,
    render_plan,
    render_progress,
    render_table,
)
from tests.support.planned import plans


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
