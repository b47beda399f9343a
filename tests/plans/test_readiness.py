"""A plan is ready only if its first steps probably name a changed file; else it asks which place is meant."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from context_engine.context import BestHit
from context_engine.plans.changeset import READY_MIN, AffectedFile, ChangeSet, FileRelation, estimate_readiness
from context_engine.plans.model import PlanEvidence, PlanQuestion
from context_engine.plans.plan_draft import PLACES_MAX, find_questions


def place(path: str, symbol: str = "", line: int = 0, part: FileRelation = "source") -> AffectedFile:
    proof = PlanEvidence("search", path, line, symbol, 1.0)
    return AffectedFile(path, part, 1.0, (proof,))


def change_of(*files: AffectedFile, leader: str = "", best: str = "") -> ChangeSet:
    return ChangeSet(files, (), "fresh", leader=leader, best=BestHit(best, 5.0))


@given(st.lists(st.floats(0, 1), max_size=9), st.floats(0, 1))
def test_a_more_probable_file_or_one_more_never_makes_a_plan_less_sure(chances: list[float], more: float) -> None:
    assert 0 <= estimate_readiness(chances) <= estimate_readiness([*chances, more]) <= 1


def test_a_plan_insists_on_files_that_are_not_far_less_probable_than_the_best_one() -> None:
    alone = change_of(*(replace(place(f"{number}.py"), score=0.3 - number / 20) for number in range(4)))
    assert [file.path for file in alone.files if alone.insists_on(file)] == ["0.py", "1.py", "2.py", "3.py"]
    clear = change_of(*alone.files, replace(place("best.py"), score=0.9))
    assert [file.path for file in clear.files if clear.insists_on(file)] == ["best.py"]


def test_a_plan_insists_on_what_the_task_names_however_probable_it_is() -> None:
    named = AffectedFile("named.py", "definition", 0.01, (PlanEvidence("named", "named.py", 1, "f", 1.0),))
    assert change_of(named, place("best.py")).insists_on(named)


def test_a_task_that_names_a_place_that_was_found_is_not_asked_about() -> None:
    assert estimate_readiness([0.1]) < READY_MIN < estimate_readiness([0.1], is_named=True)


def test_a_plan_is_not_ready_under_the_warning_that_nothing_answers_the_task() -> None:
    assert estimate_readiness([1.0], is_weak=True) < READY_MIN < estimate_readiness([1.0])


def asked(change: ChangeSet) -> PlanQuestion:
    (question,) = find_questions("Shorten the visits", change, is_likely_right=False)
    return question


def test_the_question_names_the_places_the_best_hit_first() -> None:
    files = (place("a.py", "f", 3), place("b.py", "Store.read", 9), place("c.py"), place("tests/t.py", "t", 1, "test"))
    question = asked(change_of(*files, leader="a.py", best="b.py"))
    assert question.text == "Is the change in `Store.read` (b.py), `f` (a.py), c.py or `t` (tests/t.py)?"
    assert question.candidates == ("b.py:9 (Store.read)", "a.py:3 (f)", "c.py", "tests/t.py:1 (t)")


def test_a_single_place_is_asked_about_too() -> None:
    question = asked(change_of(place("tests/t.py", "t", 1, "test")))
    assert question.text == "Is the change in `t` (tests/t.py)? If not, where?"
    assert question.candidates == ("tests/t.py:1 (t)",)


def test_a_question_offers_few_places() -> None:
    files = [place(f"{number}.py", "f", 1) for number in range(20)]
    assert len(asked(change_of(*files)).candidates) == PLACES_MAX
