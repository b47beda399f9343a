"""Steps out of any set of files: each file in one step, nothing waits for what comes later, what is certain before what is not."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.commands import Command
from context_engine.plans.changeset import AffectedFile, ChangeSet, FileRelation, estimate_readiness
from context_engine.plans.model import PlanEvidence
from context_engine.plans.plan_draft import Imports, draft_steps, folder_of, group_files

COMMANDS = (Command("test", "make test", "Makefile"), Command("lint", "make lint", "Makefile"))
PROOFS = st.sampled_from(["definition", "reference", "search", "history", "test", "co_change"])
PATHS = st.builds("{}/{}.py".format, st.sampled_from(["a", "b/c", "d"]), st.sampled_from("xyz"))
IMPORTS = st.dictionaries(PATHS, st.sets(PATHS, max_size=3), max_size=5)


@st.composite
def touched(draw: st.DrawFn) -> AffectedFile:
    path = draw(PATHS)
    proofs = draw(st.lists(PROOFS, min_size=1, max_size=2, unique=True))
    evidence = tuple(PlanEvidence(kind, path, draw(st.integers(0, 3))) for kind in proofs)
    return AffectedFile(
        path, draw(st.sampled_from(get_args(FileRelation))), draw(st.sampled_from([0.2, 0.5, 0.8, 1.0])), evidence
    )


@st.composite
def changes(draw: st.DrawFn) -> ChangeSet:
    files = {each.path: each for each in draw(st.lists(touched(), max_size=9))}
    ranked = tuple(sorted(files.values(), key=lambda each: (-each.score, each.path)))
    roles = frozenset(draw(st.sets(st.sampled_from(["test", "docs"]))))
    return ChangeSet(ranked, (), "fresh", roles=roles)


@given(changes(), IMPORTS)
def test_every_file_is_in_one_step_and_no_step_waits_for_a_later_one(change: ChangeSet, imports: Imports) -> None:
    drafts, later = draft_steps(change, imports, COMMANDS)
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


@given(changes(), IMPORTS)
def test_what_is_only_likely_is_in_the_last_step_unless_it_uses_what_is_named_or_the_task_is_about_it(
    change: ChangeSet, imports: Imports
) -> None:
    likely = {each.path: each.part for each in change.files if not change.insists_on(each)}
    for draft in draft_steps(change, imports, COMMANDS)[0][:-1]:
        parts = {likely[path] for path in draft.files if path in likely}
        assert parts <= {*change.roles, "reference"}


@given(st.lists(PATHS, unique=True, max_size=8), IMPORTS)
def test_every_file_is_in_one_group_and_a_group_needs_only_what_comes_before_it(
    paths: list[str], imports: Imports
) -> None:
    groups = group_files(paths, imports)
    assert sorted(path for each in groups for path in each.paths) == sorted(paths)
    place = {path: at for at, each in enumerate(groups) for path in each.paths}
    for at, each in enumerate(groups):
        others = {place[target] for path in each.paths for target in imports.get(path, ()) if target in place}
        assert set(each.needs) == {other for other in others if other < at}
    assert len({folder_of(path) for path in paths}) == len(groups)


@given(st.lists(st.floats(0, 1), max_size=9), st.floats(0, 1))
def test_a_more_probable_file_or_one_more_never_makes_a_plan_less_sure(chances: list[float], more: float) -> None:
    assert 0 <= estimate_readiness(chances) <= estimate_readiness([*chances, more]) <= 1
