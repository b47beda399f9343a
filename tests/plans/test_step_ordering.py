"""Steps out of any set of files: each file in one step, nothing waits for what comes later, what is certain before what is not."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.commands import Command
from context_engine.plans.changeset import MUST_CHANCE, TEST_CHANCE, AffectedFile, ChangeSet, FileRelation
from context_engine.plans.model import PlanEvidence
from context_engine.plans.plan_draft import draft_steps

COMMANDS = (Command("test", "make test", "Makefile"), Command("lint", "make lint", "Makefile"))
PROOFS = st.sampled_from(["definition", "reference", "search", "history", "test", "co_change"])
PATHS = st.builds("{}/{}.py".format, st.sampled_from(["a", "b/c", "d"]), st.sampled_from("xyz"))


@st.composite
def touched(draw: st.DrawFn) -> AffectedFile:
    path = draw(PATHS)
    proofs = draw(st.lists(PROOFS, min_size=1, max_size=2, unique=True))
    evidence = tuple(PlanEvidence(kind, path, draw(st.integers(0, 3))) for kind in proofs)
    return AffectedFile(
        path, draw(st.sampled_from(get_args(FileRelation))), draw(st.sampled_from([0.1, 0.2, 0.5, 0.9])), evidence
    )


@st.composite
def changes(draw: st.DrawFn) -> ChangeSet:
    files = {each.path: each for each in draw(st.lists(touched(), max_size=9))}
    ranked = tuple(sorted(files.values(), key=lambda each: (-each.score, each.path)))
    roles = frozenset(draw(st.sets(st.sampled_from(["test", "docs"]))))
    return ChangeSet(ranked, (), "fresh", roles=roles)


@given(changes())
def test_every_file_is_in_one_step_and_no_step_waits_for_a_later_one(change: ChangeSet) -> None:
    drafts, later = draft_steps(change, COMMANDS)
    files = {each.path: each for each in change.files}
    assert sorted(path for draft in drafts for path in draft.files_to_modify) == sorted(files)
    known: set[str] = set()
    for draft in drafts:
        assert known.issuperset(draft.depends_on)
        assert draft.acceptance_criteria
        assert draft.files
        known.add(draft.uid)
    for draft in drafts[later:]:  # what can wait
        is_likely = not any(change.insists_on(files[path]) for path in draft.files)
        assert {files[path].part for path in draft.files} == {"docs"} or is_likely


@given(changes())
def test_what_is_only_likely_is_in_the_last_step_unless_the_task_is_about_it(change: ChangeSet) -> None:
    likely = {each.path: each.part for each in change.files if not change.insists_on(each)}
    for draft in draft_steps(change, COMMANDS)[0][:-1]:
        parts = {likely[path] for path in draft.files if path in likely}
        assert parts <= change.roles


@given(changes())
def test_of_tests_that_are_hardly_probable_a_plan_insists_on_the_most_probable_one_alone(change: ChangeSet) -> None:
    tests = change.of("test")
    insisted = [each for each in tests if change.insists_on(each)]
    probable = [each for each in tests if each.score >= MUST_CHANCE]
    assert insisted == (probable or [each for each in tests[:1] if each.score >= TEST_CHANCE])
