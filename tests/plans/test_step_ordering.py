"""Steps out of any set of files: each file in one step, nothing waits for what comes later, what is certain before what is not."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.commands import Command
from context_engine.plans.changeset import AffectedFile, ChangeSet, FileRelation
from context_engine.plans.model import PlanEvidence
from context_engine.plans.plan_draft import Imports, draft_steps

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
def tasks(draw: st.DrawFn) -> tuple[ChangeSet, Imports]:
    files = {each.path: each for each in draw(st.lists(touched(), max_size=9))}
    ranked = tuple(sorted(files.values(), key=lambda each: (-each.score, each.path)))
    imports = draw(st.dictionaries(PATHS, st.sets(PATHS, max_size=3), max_size=5))
    roles = frozenset(draw(st.sets(st.sampled_from(["test", "docs"]))))
    return ChangeSet(ranked, (), "fresh", roles=roles), imports


@given(tasks())
def test_every_file_is_in_one_step_and_no_step_waits_for_a_later_one(task: tuple[ChangeSet, Imports]) -> None:
    drafts, _ = draft_steps(*task, COMMANDS)
    paths = [file.path for draft in drafts for file in draft.files]
    assert sorted(paths) == sorted(each.path for each in task[0].files)
    for number, draft in enumerate(drafts):
        assert all(at < number for at in draft.after)
        assert draft.criteria
        assert draft.files


@given(tasks())
def test_what_is_only_likely_is_in_the_last_step_unless_it_uses_what_is_named_or_the_task_is_about_it(
    task: tuple[ChangeSet, Imports],
) -> None:
    likely = {each.path for each in task[0].files if not task[0].insists_on(each)}
    for draft in draft_steps(*task, COMMANDS)[0][:-1]:
        parts = {file.part for file in draft.files if file.path in likely}
        assert parts <= {*task[0].roles, "reference"}


@given(tasks())
def test_documents_and_what_is_likely_can_wait_unless_the_task_is_about_them(task: tuple[ChangeSet, Imports]) -> None:
    drafts, later = draft_steps(*task, COMMANDS)
    for draft in drafts[later:]:
        parts = {file.part for file in draft.files}
        is_likely = not any(task[0].insists_on(file) for file in draft.files)
        assert parts == {"docs"} or is_likely
