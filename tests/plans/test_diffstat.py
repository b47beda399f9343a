"""What steps mean to do with files comes to the same as doing it to a small world of files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans.model import Plan
from context_engine.plans.plan_diff import ACTION_WORDS, Diffstat, FileDiffstat, compute_diffstat
from tests.support.desks import plan, step

PATHS = ("a.py", "b.py", "c.py")
LINES = {"a.py": 10, "b.py": 1_200}


def told(made: Plan, *uids: str) -> Diffstat:
    return compute_diffstat(made, [each for each in made.steps if not uids or each.uid in uids], LINES.get)


def test_a_summary_reads_like_that_of_git() -> None:
    made = plan(
        step("s1", files_to_create=("new.py",), files_to_modify=("a.py",)),
        step("s2", "s1", files_to_modify=("new.py", "a.py", "c.py")),
        step("s3", "s2", files_to_delete=("b.py",)),
    )
    assert told(made).summary == "1 file created, 2 modified, 1 deleted (-1,200 lines)"
    assert told(made).files[0] == FileDiffstat("a.py", "modify", (1, 2), 10)
    assert told(made, "s2").summary == "3 files modified"


def test_steps_count_in_the_order_in_which_they_can_be_done() -> None:
    made = plan(step("s1", "s2", files_to_delete=("tmp.py",)), step("s2", files_to_create=("tmp.py",)))
    assert told(made).files == ()


@st.composite
def worlds(draw: st.DrawFn) -> tuple[set[str], list[tuple[str, str]]]:
    """Files that are there, and a sound sequence of what is done to them, each by a step of its own."""
    there = draw(st.sets(st.sampled_from(PATHS)))
    now, done = set(there), []
    for _ in range(draw(st.integers(0, 6))):
        path = draw(st.sampled_from(PATHS))
        change = draw(st.sampled_from(("modify", "delete"))) if path in now else "create"
        now = now - {path} if change == "delete" else now | {path}
        done.append((change, path))
    return there, done


@given(worlds())
def test_what_is_counted_is_what_happens_to_the_files(world: tuple[set[str], list[tuple[str, str]]]) -> None:
    there, done = world
    fields = {"modify": "files_to_modify", "create": "files_to_create", "delete": "files_to_delete"}
    steps = [
        step(f"s{number}", *([f"s{number - 1}"] if number > 1 else []), **{fields[change]: (path,)})
        for number, (change, path) in enumerate(done, 1)
    ]
    found = {
        each.path: each.change for each in compute_diffstat(Plan(goal="g", steps=tuple(steps)), steps, LINES.get).files
    }
    after = set(there)
    for change, path in done:
        after = after - {path} if change == "delete" else after | {path}
    assert {path for path, fate in found.items() if fate == "create"} == after - there
    assert {path for path, fate in found.items() if fate == "delete"} == there - after
    assert {path for path, fate in found.items() if fate == "modify"} == {p for _, p in done} & there & after
    assert set(found.values()) <= set(ACTION_WORDS)
