"""A plan is held against itself and against what is there; what can be put right is, and everything is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from context_engine.errors import Cycle, DanglingDependency
from context_engine.plans.dependency_graph import build_graph
from context_engine.plans.model import Plan
from context_engine.plans.plan_json import PlanFinding, parse_plan
from context_engine.plans.plan_validation import PlanValidation, validate_plan
from tests.support.planned import ground, plan_of, plans


def checked(
    *rows: dict[str, Any], strict: bool = True, closed: tuple[str, ...] = (), there: tuple[str, ...] = ()
) -> PlanValidation:
    read = parse_plan(
        {
            "goal": "Ship",
            "steps": [{"title": f"Step {n}", "acceptance_criteria": "ok"} | row for n, row in enumerate(rows, 1)],
        }
    )
    return validate_plan(read.plan, ground(*there), strict=strict, remarks=read.remarks, closed=closed)


def codes(remarks: tuple[PlanFinding, ...]) -> list[tuple[str, tuple[int, ...]]]:
    return [(remark.code, remark.steps) for remark in remarks]


@given(plans())
def test_a_sound_plan_has_no_errors_and_looking_twice_finds_nothing_new(plan: Plan) -> None:
    once = validate_plan(plan, ground())
    assert once.errors == ()
    twice = validate_plan(once.plan, ground())
    assert twice.plan == once.plan
    assert twice.autofixes == ()


@given(plans())
def test_steps_that_share_a_file_come_after_each_other(plan: Plan) -> None:
    fixed = validate_plan(plan, ground()).plan
    before = {step.uid: step.depends_on for step in fixed.steps}
    assert build_graph(fixed).cycle == ()
    for step in plan.steps:
        assert set(step.depends_on) <= set(before[step.uid])

    def waits(uid: str, other: str) -> bool:
        return any(each == other or waits(each, other) for each in before[uid])

    for one in fixed.steps:
        for other in fixed.steps:
            if one.uid < other.uid and one.files & other.files:
                assert waits(one.uid, other.uid) or waits(other.uid, one.uid)


def test_two_parallel_steps_with_one_file_get_an_order_and_a_warning() -> None:
    found = checked(
        {"files_to_modify": "src/app.py"},
        {"files_to_modify": ["src/app.py", "src/db.py"]},
        {"files_to_modify": "src/web.py"},
    )
    assert found.plan.steps[1].depends_on == ("s1",)
    assert codes(found.warnings) == [("SHARED_FILE", (1, 2))]
    assert codes(found.autofixes) == [("DEPENDENCY_ADDED", (1, 2))]


def test_a_circle_is_an_error_that_names_it() -> None:
    found = validate_plan(plan_of((), (), (5,), (), (3,)), ground())
    assert codes(found.errors) == [("CYCLE", (3, 5, 3))]
    with pytest.raises(Cycle) as refused:
        found.raise_fatal_errors()
    assert refused.value.details["cycle"] == [3, 5, 3]


def test_a_dependency_on_nothing_is_refused_or_left_out() -> None:
    rows: list[dict[str, Any]] = [{}, {"depends_on": [1, 9]}]
    with pytest.raises(DanglingDependency) as refused:
        checked(*rows).raise_fatal_errors()
    assert refused.value.details == {"dangling": [{"step": 2, "depends_on": "9"}], "total": 1}
    assert "1 to 2" in refused.value.suggestion
    found = checked(*rows, strict=False)
    found.raise_fatal_errors()
    assert found.plan.steps[1].depends_on == ("s1",)
    assert codes(found.autofixes) == [("DANGLING_DEPENDENCY", (2,))]


def test_a_file_may_be_made_by_the_step_or_by_one_before_it() -> None:
    found = checked(
        {"files_to_create": "src/new.py", "files_to_modify": "src/new.py"},
        {"depends_on": 1},
        {"depends_on": 2, "files_to_modify": "src/new.py"},
    )
    assert found.errors == ()
    beside = checked({"files_to_create": "src/new.py"}, {"files_to_modify": "src/new.py"})
    assert codes(beside.errors) == [("FILE_NOT_FOUND", (2,))]
    assert "depends_on" in beside.errors[0].suggestion


def test_a_file_to_make_that_is_there_already_is_a_warning() -> None:
    assert codes(checked({"files_to_create": "src/app.py"}).warnings) == [("FILE_EXISTS", (1,))]


def test_no_step_deletes_what_another_one_uses_beside_or_after_it() -> None:
    beside = checked({"files_to_delete": "src/app.py"}, {"files_to_modify": "src/app.py"})
    assert codes(beside.errors) == [("DELETED_BESIDE", (1, 2))]
    after = checked({"files_to_delete": "src/app.py"}, {"files_to_modify": "src/app.py", "depends_on": 1})
    assert codes(after.errors) == [("DELETED_BEFORE", (1, 2))]
    before = checked({"files_to_modify": "src/app.py"}, {"files_to_delete": "src/app.py", "depends_on": 1})
    assert before.errors == ()


def test_what_was_deleted_may_be_made_anew() -> None:
    found = checked(
        {"files_to_delete": "src/app.py"},
        {"files_to_create": "src/app.py", "depends_on": 1},
        {"files_to_modify": "src/app.py", "depends_on": 2},
    )
    assert found.errors == ()


def test_a_path_out_of_the_workspace_is_an_error_and_a_loose_one_is_written_anew() -> None:
    found = checked({"files_to_modify": ["../secret", "./src\\app.py", "/etc/passwd"]})
    assert [(each.code, each.path) for each in found.errors] == [
        ("INVALID_PATH", "../secret"),
        ("INVALID_PATH", "/etc/passwd"),
    ]
    assert found.plan.steps[0].files_to_modify == ("../secret", "src/app.py", "/etc/passwd")
    assert [each.code for each in found.autofixes] == ["PATH_WRITTEN_ANEW"]


def test_the_files_of_a_step_that_is_done_are_history() -> None:
    rows = ({"files_to_modify": "src/gone.py"}, {"files_to_modify": "src/app.py"})
    assert len(checked(*rows).errors) == 1
    assert checked(*rows, closed=("s1",)).errors == ()


def test_what_the_reader_passed_over_is_told_beside_the_rest() -> None:
    found = checked({"step_number": 7, "colour": 1}, {})
    assert [each.code for each in found.autofixes] == ["RENUMBERED"]
    assert [each.code for each in found.warnings] == ["UNKNOWN_FIELD"]
