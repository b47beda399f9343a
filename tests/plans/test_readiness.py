"""A plan is ready only if its first steps probably name a changed file; else it asks which place is meant."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from context_engine.context import BestHit
from context_engine.plans.changeset import AffectedFile, ChangeSet, FileRelation
from context_engine.plans.model import PlanEvidence, PlanStep
from context_engine.plans.readiness import (
    LIKELY_TITLE,
    PLACES_MAX,
    READY_MIN,
    ReadinessFacts,
    ask_about_places,
    combine_chances,
    estimate_readiness,
    read_facts,
)


def place(path: str, symbol: str = "", line: int = 0, part: FileRelation = "source") -> AffectedFile:
    proof = PlanEvidence("search", path, line, symbol, 1.0)
    return AffectedFile(path, part, 1.0, (proof,))


def change_of(*files: AffectedFile, leader: str = "", best: str = "") -> ChangeSet:
    return ChangeSet(files, (), (), "fresh", leader=leader, best=BestHit(best, 5.0))


@given(st.lists(st.floats(0, 1), max_size=9), st.floats(0, 1))
def test_a_more_probable_file_or_one_more_never_makes_a_plan_less_sure(chances: list[float], more: float) -> None:
    fewer, all_of_them = ReadinessFacts(combine_chances(chances)), ReadinessFacts(combine_chances([*chances, more]))
    assert 0 <= estimate_readiness(fewer) <= estimate_readiness(all_of_them) <= 1


def test_a_plan_insists_on_files_that_are_not_far_less_probable_than_the_best_one() -> None:
    alone = change_of(*(replace(place(f"{number}.py"), score=0.3 - number / 20) for number in range(4)))
    assert [file.path for file in alone.files if alone.insists_on(file)] == ["0.py", "1.py", "2.py", "3.py"]
    clear = change_of(*alone.files, replace(place("best.py"), score=0.9))
    assert [file.path for file in clear.files if clear.insists_on(file)] == ["best.py"]


def test_a_plan_insists_on_what_the_task_names_however_probable_it_is() -> None:
    named = AffectedFile("named.py", "definition", 0.01, (PlanEvidence("named", "named.py", 1, "f", 1.0),))
    assert change_of(named, place("best.py")).insists_on(named)


def test_a_task_that_names_a_place_that_was_found_is_not_asked_about() -> None:
    vague = ReadinessFacts(0.1)
    assert estimate_readiness(vague) < READY_MIN < estimate_readiness(vague._replace(is_named=True))
    named = change_of(place("a.py", "f", 3, "definition"))
    assert read_facts(named, []).is_named
    assert not read_facts(change_of(place("a.py", "f", 3)), []).is_named


def test_a_plan_is_not_ready_under_the_warning_that_nothing_answers_the_task() -> None:
    assert estimate_readiness(ReadinessFacts(1.0, is_weak=True)) < READY_MIN < estimate_readiness(ReadinessFacts(1.0))


def test_only_the_first_two_steps_count() -> None:
    steps = [PlanStep(title=path, files_to_modify=(path,)) for path in ("a.py", "b.py", "c.py")]
    for path, counts in (("a.py", True), ("b.py", True), ("c.py", False)):
        assert (read_facts(change_of(place(path)), steps).chance > 0) is counts
    assert read_facts(change_of(place("a.py"), place("c.py")), steps) == ReadinessFacts(combine_chances([1.0]))
    steps[1] = PlanStep(title=f"{LIKELY_TITLE} b.py", files_to_modify=("b.py",))
    assert read_facts(change_of(place("b.py")), steps).chance == 0


def test_the_question_names_the_places_the_best_hit_first() -> None:
    files = (place("a.py", "f", 3), place("b.py", "Store.read", 9), place("c.py"), place("tests/t.py", "t", 1, "test"))
    ((text, candidates),) = ask_about_places(change_of(*files, leader="a.py", best="b.py"))
    assert text == "Is the change in `Store.read` (b.py), `f` (a.py), c.py or `t` (tests/t.py)?"
    assert candidates == ["b.py:9 (Store.read)", "a.py:3 (f)", "c.py", "tests/t.py:1 (t)"]


def test_a_single_place_is_asked_about_and_no_place_is_not() -> None:
    ((text, candidates),) = ask_about_places(change_of(place("tests/t.py", "t", 1, "test")))
    assert (text, candidates) == ("Is the change in `t` (tests/t.py)? If not, where?", ["tests/t.py:1 (t)"])
    assert list(ask_about_places(change_of())) == []


def test_a_question_offers_few_places() -> None:
    files = [place(f"{number}.py", "f", 1) for number in range(20)]
    ((_, candidates),) = ask_about_places(change_of(*files))
    assert len(candidates) == PLACES_MAX
