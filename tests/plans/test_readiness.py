"""A plan is ready only if its first steps probably name a changed file; else it asks which place is meant."""

from __future__ import annotations

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
    estimate_readiness,
    read_facts,
)

FACTS = st.builds(
    ReadinessFacts,
    score=st.floats(0, 40),
    has_leader=st.booleans(),
    has_best=st.booleans(),
    words=st.integers(0, 10_000),
    is_named=st.booleans(),
)


def place(path: str, symbol: str = "", line: int = 0, part: FileRelation = "source") -> AffectedFile:
    proof = PlanEvidence("search", path, line, symbol, 1.0)
    return AffectedFile(path, part, 1.0, (proof,))


def change_of(*files: AffectedFile, leader: str = "", best: str = "") -> ChangeSet:
    return ChangeSet(files, (), (), "fresh", leader=leader, best=BestHit(best, 5.0))


@given(FACTS)
def test_a_better_hit_or_more_words_never_make_a_plan_less_sure(facts: ReadinessFacts) -> None:
    chance = estimate_readiness(facts)
    assert 0 <= chance <= 1
    assert estimate_readiness(facts._replace(score=facts.score + 1)) >= chance
    assert estimate_readiness(facts._replace(words=facts.words + 5)) >= chance
    assert estimate_readiness(facts._replace(has_leader=True)) >= chance
    assert estimate_readiness(facts._replace(has_best=True)) >= chance


def test_a_task_that_names_a_place_that_was_found_is_not_asked_about() -> None:
    vague = ReadinessFacts(2.0, False, False, 2)
    assert estimate_readiness(vague) < READY_MIN < estimate_readiness(vague._replace(is_named=True))
    named = change_of(place("a.py", "f", 3, "definition"))
    assert read_facts(named, [], 2).is_named
    assert not read_facts(change_of(place("a.py", "f", 3)), [], 2).is_named


def test_only_the_first_two_steps_count() -> None:
    steps = [PlanStep(title=path, files_to_modify=(path,)) for path in ("a.py", "b.py", "c.py")]
    for path, is_named in (("a.py", True), ("b.py", True), ("c.py", False)):
        assert read_facts(change_of(leader=path), steps, 7).has_leader is is_named
    assert read_facts(change_of(best="b.py"), steps, 7) == ReadinessFacts(5.0, False, True, 7)
    steps[1] = PlanStep(title=f"{LIKELY_TITLE} b.py", files_to_modify=("b.py",))
    assert not read_facts(change_of(leader="b.py"), steps, 7).has_leader


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
