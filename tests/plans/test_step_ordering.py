"""Steps out of any set of files: each file in one step, nothing waits for what comes later, what is certain before what is not."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.commands import Command
from context_engine.plans.changeset import AffectedFile, ChangeSet, FileRelation, TaskIntent, TaskKind
from context_engine.plans.model import PlanEvidence
from context_engine.plans.plan_draft import PlanTask, build_steps, deferred_titles

COMMANDS = (Command("test", "make test", "Makefile"), Command("lint", "make lint", "Makefile"))
PROOFS = st.sampled_from(["definition", "reference", "search", "history", "test", "co_change"])
PATHS = st.builds("{}/{}.py".format, st.sampled_from(["a", "b/c", "d"]), st.sampled_from("xyz"))


@st.composite
def touched(draw: st.DrawFn) -> AffectedFile:
    path = draw(PATHS)
    proofs = draw(st.lists(PROOFS, min_size=1, max_size=2, unique=True))
    evidence = tuple(PlanEvidence(kind, path, draw(st.integers(0, 3))) for kind in proofs)
    return AffectedFile(
        path, draw(st.sampled_from(get_args(FileRelation))), draw(st.sampled_from([0.2, 0.5, 0.8, 1.0])), evidence
    )


@st.composite
def tasks(draw: st.DrawFn) -> PlanTask:
    files = {each.path: each for each in draw(st.lists(touched(), max_size=9))}
    ranked = tuple(sorted(files.values(), key=lambda each: (-each.score, each.path)))
    imports = draw(st.dictionaries(PATHS, st.sets(PATHS, max_size=3), max_size=5))
    wanted = TaskIntent(draw(st.sampled_from(get_args(TaskKind))), draw(st.sampled_from([(), ("old",)])), "new")
    change = ChangeSet(ranked, tuple(each.score for each in ranked), (), "fresh")
    return PlanTask(("do it",), wanted, change, imports, COMMANDS, draw(st.sampled_from(["", "tests/test_x.py"])))


@given(tasks())
def test_every_file_is_in_one_step_and_no_step_waits_for_a_later_one(task: PlanTask) -> None:
    made = build_steps(task)
    paths = [path for step in made for path in step.files_to_modify]
    assert sorted(paths) == sorted(each.path for each in task.change.files)
    known: set[str] = set()
    for number, step in enumerate(made, 1):
        assert step.uid == f"s{number}"
        assert set(step.depends_on) <= known
        known.add(step.uid)
        assert step.acceptance_criteria
        assert step.estimate is None
        assert step.files or task.wanted.kind == "fix"


@given(tasks())
def test_what_is_only_likely_is_in_the_last_step_unless_the_task_is_about_it(task: PlanTask) -> None:
    likely = {each.path for each in task.change.files if not task.change.insists_on(each)}
    for step in build_steps(task)[:-1]:
        assert not likely & set(step.files_to_modify) or step is build_steps(task)[0] or step.uid == "s1"


@given(tasks())
def test_a_plan_of_the_least_leaves_out_documents_and_what_is_likely_and_names_both(task: PlanTask) -> None:
    least = PlanTask(task.clauses, task.wanted, task.change, task.imports, task.commands, task.new_test, mvp_only=True)
    titles = [step.title for step in build_steps(least)]
    assert [*titles, *deferred_titles(least)] == [step.title for step in build_steps(task)]
    assert deferred_titles(task) == ()
