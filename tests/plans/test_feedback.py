"""Simple orders in words are operations; whatever means more than that stays as it was said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans.operations import parse_feedback


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        ("remove step 4", [{"op": "remove_step", "step": 4}]),
        ("Please delete steps 4, 5 and 6.", [{"op": "remove_step", "step": n} for n in (4, 5, 6)]),
        ("step 2 depends on 1", [{"op": "set_dependencies", "step": 2, "add": [1]}]),
        ("Step 2 must wait for steps 1 and 3", [{"op": "set_dependencies", "step": 2, "add": [1, 3]}]),
        ("step 2 no longer depends on step 1", [{"op": "set_dependencies", "step": 2, "remove": [1]}]),
        ("step 2 depends on nothing", [{"op": "set_dependencies", "step": 2, "depends_on": []}]),
        ("exclude docs/**", [{"op": "exclude", "path": "docs/**"}]),
        ("do not touch src/a.py and *.md", [{"op": "exclude", "path": "src/a.py"}, {"op": "exclude", "path": "*.md"}]),
        ("split step 3", [{"op": "split_step", "step": 3}]),
        ("split step 3 into read it, test it and ship it", [{"op": "split_step", "step": 3, "into": ["Read it", "Test it", "Ship it"]}]),
        ("merge steps 2 and 3", [{"op": "merge_steps", "steps": [2, 3]}]),
        ("move step 4 after step 2", [{"op": "move_step", "step": 4, "after": 2}]),
        ("move step 4 to place 1", [{"op": "move_step", "step": 4, "to": 1}]),
        ('rename step 2 to "Read it"', [{"op": "update_step", "step": 2, "title": "Read it"}]),
        ("Rename step 2 to Read it", [{"op": "update_step", "step": 2, "title": "Read it"}]),
        ("Move step 2 to the end", [{"op": "move_step", "step": 2, "to": "end"}]),
        ("move step 4 to the top", [{"op": "move_step", "step": 4, "to": 1}]),
        ("Add tests/test_a.py to step 1", [{"op": "set_files", "step": 1, "add": ["tests/test_a.py"]}]),
        ("remove `a.md` from step 2", [{"op": "set_files", "step": 2, "remove": ["a.md"]}]),
        ("Step 2 must not change docs/a.md", [{"op": "set_files", "step": 2, "remove": ["docs/a.md"]}]),
        ("insert a step 'Write a test' before step 1", [{"op": "add_step", "title": "Write a test", "before": 1}]),
        ("step 3 is high priority", [{"op": "update_step", "step": 3, "priority": "high"}]),
        ("set the priority of step 3 to low", [{"op": "update_step", "step": 3, "priority": "low"}]),
        ("step 3 takes 2-4 hours", [{"op": "set_estimate", "step": 3, "effort": "2-4 hours"}]),
        ('add a step "Write docs" after 3', [{"op": "add_step", "title": "Write docs", "after": 3}]),
        ("add a step: write the docs", [{"op": "add_step", "title": "Write the docs"}]),
        ("Add a step to update the CHANGELOG", [{"op": "add_step", "title": "Update the CHANGELOG"}]),
        ("add another step that cleans up before step 2", [{"op": "add_step", "title": "Cleans up", "before": 2}]),
        ("Don't touch Makefile", [{"op": "exclude", "path": "Makefile"}]),
        ("don’t touch docs or src/a.py", [{"op": "exclude", "path": "docs"}, {"op": "exclude", "path": "src/a.py"}]),
        ("Swap steps 2 and 3", [{"op": "swap_steps", "steps": [2, 3]}]),
        ("Step 1 should run go vet ./... too", [{"op": "add_check", "step": 1, "command": "go vet ./..."}]),
        ("step 2 must also run `check it`", [{"op": "add_check", "step": 2, "command": "check it"}]),
        ("run make lint in step 3", [{"op": "add_check", "step": 3, "command": "make lint"}]),
        ("step 2 is too big", [{"op": "split_step", "step": 2}]),
        ("add risk: it is slow", [{"op": "add_risk", "issue": "it is slow"}]),
    ],
)  # fmt: skip
def test_an_order_is_an_operation(text: str, operations: list[dict[str, Any]]) -> None:
    assert parse_feedback(text) == (tuple(operations), ())


@pytest.mark.parametrize(
    "text",
    [
        "make it faster",
        "do not remove step 3",
        "I think step 2 depends on 1 is wrong",
        "remove step 4 unless it is needed",
        "exclude the tests",
        "should we split step 3?",
        "remove the cache",
        "step 2 should run faster",
        "step 2 should run in parallel with step 3",
        "swap steps 1, 2 and 3",
        "do not touch the old tests",
        "add tests to step 1",
        "move step 2 to the end of the week",
        "step 2 must not change the format",
        "ignore errors",
        "steps 1 and 2",
    ],
)
def test_what_means_more_than_an_order_stays_as_it_was_said(text: str) -> None:
    assert parse_feedback(text) == ((), (text,))


def test_each_clause_is_read_on_its_own() -> None:
    read = parse_feedback(
        "1. remove step 3\n2) make it faster; step 2 depends on 1. Use v1.2.3 of it, then split step 4"
    )
    assert [each["op"] for each in read.operations] == ["remove_step", "set_dependencies", "split_step"]
    assert read.left == ("make it faster", "Use v1.2.3 of it")


@given(st.text(max_size=200) | st.text("step 123 removdlpn,.;\n\"'", max_size=200))
def test_any_text_is_read_and_no_word_of_it_is_made_up(text: str) -> None:
    read = parse_feedback(text)
    assert all(clause in text for clause in read.left)
    assert all(str(each["step"]) in text for each in read.operations if "step" in each)
